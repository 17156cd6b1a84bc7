"""Recorded runs as archive members: all stages and weights of a spec, or none of them.

For texts too long to keep the matrices in memory, only stages before the scores are recorded.

A file may lack stages, for example if it was written before the program had them; the run is then
computed. A stage that the program does not know is rejected: it is from a newer program, and the
numbers that depend on it would not follow from the stages that are shown.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from visualizer.attention.saved_numbers import RecordedNumbers
from visualizer.attention.spec import LAYERS, Projection
from visualizer.attention.spec_validation import problems
from visualizer.attention.stages import Operation, parameter_names, shape, stages
from visualizer.storage.json_coding import DamagedError

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec, Texts
    from visualizer.session.document import Document

MAX_TOKENS = 1_000_000
MAX_NOTICES = 100
MAX_NOTICE_LENGTH = 1_000


def is_computed_from(run: Run, document: Document) -> bool:
    """Whether a run was computed from a document; never for captured attention."""
    if not (run.trace.has_module and document.has_module):
        return False
    is_spec = replace(run.trace.spec, lengths=()) == replace(document.spec, lengths=())
    return is_spec and unpadded(run) == document.tokens()


def unpadded(run: Run) -> Texts:
    """Return the tokens of each text of a run without padding."""
    lengths = run.trace.spec.lengths or [len(text) for text in run.texts]
    return tuple(text[:length] for text, length in zip(run.texts, lengths, strict=True))


# ------------------------------------------------------------------------------ writing


def trace_members(place: str, run: Run) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Return the texts and arrays of a run by member name below ``place``."""
    texts = unpadded(run)
    tokens = [token for text in texts for token in text]
    about = {"device": run.device, "notices": list(run.notices)}
    held = [stage.name for stage in run.trace.held_stages]
    arrays = {f"{place}/{name}": run.trace.read(name) for name in held}
    for name in run.trace.parameters:
        arrays[f"{place}/parameters/{name}"] = run.trace.read(name)
    arrays[f"{place}/texts/tokens"] = np.array([*map(len, texts)], "<i4")
    arrays[f"{place}/texts/characters"] = np.array([*map(len, tokens)], "<i4")
    written = {
        f"{place}/about.json": json.dumps(about).encode(),
        f"{place}/texts.txt": "".join(tokens).encode("utf-8", "surrogatepass"),
    }
    return written, arrays


# ------------------------------------------------------------------------------ reading


def take_recorded_run(
    place: str, document: Document, texts: dict[str, bytes], arrays: dict[str, np.ndarray]
) -> RecordedNumbers | None:
    """Take a document's recorded numbers out of the archive members; None if there are none.

    Captured attention has no recorded numbers; such members remain, and are rejected later.

    Raises
    ------
    DamagedError
        If an array has the wrong size or type, or if weights are missing that no missing stage
        uses.
    """
    if not document.has_module or f"{place}/about.json" not in texts:
        return None
    device, notices = _parse_device_and_notices(texts.pop(f"{place}/about.json"))
    read = _parse_texts(
        texts.pop(f"{place}/texts.txt", b""),
        _parse_counts(arrays.pop(f"{place}/texts/tokens", None)),
        _parse_counts(arrays.pop(f"{place}/texts/characters", None)),
    )
    if not _is_tokenization_of(document.text, read):
        raise DamagedError("contains numbers of a different text.")
    if problems(document.spec):
        raise DamagedError("contains numbers of invalid settings.")
    sizes = {len(text) for text in read}
    spec = replace(document.spec, lengths=tuple(map(len, read)) if len(sizes) > 1 else ())
    missing = [stage for stage in stages(spec) if f"{place}/{stage.name}" not in arrays]
    numbers = _take_stages(place, spec, (len(read),) if len(read) > 1 else (), max(sizes), arrays)
    unread = {
        name for one in missing for layer in one.parameters for name in parameter_names(spec, layer)
    }
    parameters = {
        name: _take_array(arrays.pop(f"{place}/parameters/{name}", None), name, wanted, spec)
        for name, wanted in parameter_sizes(spec, max(sizes)).items()
        if name not in unread or f"{place}/parameters/{name}" in arrays
    }
    for name, array in parameters.items():
        _check_finite(array, name)
    names = tuple(stage.name for stage in missing)
    return RecordedNumbers(read, numbers, parameters, device, notices, names)


def _take_stages(
    place: str,
    spec: AttentionSpec,
    batch: tuple[int, ...],
    tokens: int,
    arrays: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    taken = {}
    for stage in stages(spec):
        if (found := arrays.pop(f"{place}/{stage.name}", None)) is not None:
            sizes = batch + shape(spec, stage.dims, tokens)
            taken[stage.name] = _take_array(found, stage.name, sizes, spec)
            if stage.operation is Operation.INPUT_VECTORS:
                _check_finite(found, stage.name)
    return taken


def parameter_sizes(spec: AttentionSpec, tokens: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all weights of a spec, by their names in the book's ``state_dict``."""
    found: dict[str, tuple[int, ...]] = {}
    wide = (spec.d_in, spec.d_out)
    if spec.projection is Projection.LINEAR:
        wide = (spec.d_out, spec.d_in)
    for layer in LAYERS if spec.projection is not Projection.NONE else ():
        for name in parameter_names(spec, layer):
            found[name] = (spec.d_out,) if name.endswith(".bias") else wide
    if spec.output_projection:
        width = spec.width
        found |= {"out_proj.weight": (width, width), "out_proj.bias": (width,)}
    found |= spec.block_sizes
    for name in parameter_names(spec, "position"):
        found[name] = (tokens, spec.d_in)
    return found


def _take_array(
    array: np.ndarray | None, name: str, sizes: tuple[int, ...], spec: AttentionSpec
) -> np.ndarray:
    if array is None:
        raise DamagedError(f"lacks the numbers of {name}.")
    if array.shape != sizes or array.dtype != spec.dtype.value:
        raise DamagedError(f"contains numbers of {name} with the wrong size or type.")
    return array


def _check_finite(array: np.ndarray, name: str) -> None:
    if not np.isfinite(array).all():
        raise DamagedError(f"contains invalid numbers of {name}.")


def _parse_device_and_notices(content: bytes) -> tuple[str, tuple[str, ...]]:
    try:
        about: Any = json.loads(content) if content.count(b",") <= MAX_NOTICES else None
    except (ValueError, RecursionError):
        about = None
    if isinstance(about, dict) and about.keys() == {"device", "notices"}:
        device, notices = about["device"], about["notices"]
        said = [device, *notices] if isinstance(notices, list) else [None]
        if all(isinstance(one, str) and len(one) <= MAX_NOTICE_LENGTH for one in said):
            return device, tuple(notices)
    raise DamagedError("does not contain the device of its numbers.")


def _parse_counts(array: np.ndarray | None) -> list[int]:
    is_plain = array is not None and array.ndim == 1 and array.dtype == np.int32
    if array is None or not is_plain or not 0 < len(array) <= MAX_TOKENS or array.min() < 1:
        raise DamagedError("does not contain the tokens of its numbers.")
    counts: list[int] = array.tolist()
    return counts


def _parse_texts(content: bytes, tokens: list[int], characters: list[int]) -> Texts:
    try:
        text = content.decode("utf-8", "surrogatepass")
    except ValueError:
        text = ""
    if sum(tokens) != len(characters) or sum(characters) != len(text):
        raise DamagedError("does not contain the tokens of its numbers.")
    words = [text[start:end] for start, end in pairwise(accumulate(characters, initial=0))]
    spans = pairwise(accumulate(tokens, initial=0))
    return tuple(tuple(words[start:end]) for start, end in spans)


def _is_tokenization_of(text: str, texts: Texts) -> bool:
    """Whether tokens occur in a text in order, independent of the tokenizer's version."""
    at = 0
    for token in (token for tokens in texts for token in tokens):
        at = text.find(token, at)
        if at < 0:
            return False
        at += len(token)
    return True
