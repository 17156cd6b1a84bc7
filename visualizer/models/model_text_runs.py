"""Runs the model of a document on one or several texts; models stay open between runs."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import ModelForwardPass, NextTokenCandidate
from visualizer.attention.saved_numbers import captured_attention_with_numbers
from visualizer.attention.spec import Dtype, ModelDtype
from visualizer.errors import InputError
from visualizer.format import format_count, format_percentage
from visualizer.models.head_edits import context_edits, create_image_context_edits
from visualizer.models.kv_cache_generation import NextTokenPredictor
from visualizer.models.layer_run_lookup import (
    attention_part_names,
    attention_part_titles,
    find_runs_of_part,
    is_decoder_part,
)
from visualizer.models.model_client.remote_model import (
    RemoteModel,
    find_connected_model,
    run_text_on_server,
)
from visualizer.models.model_ranks import Parallelism
from visualizer.models.model_source import (
    ImageFile,
    ModelSource,
    describe_cuts,
    describe_edits,
    parse_server_address,
)
from visualizer.models.opened_model import ForwardResult, OpenedModel, open_model
from visualizer.models.recorded_runs import KEEP_ALL_PARTS
from visualizer.models.tokenizer_process import tokenizer_process
from visualizer.process_settings import run_in_thread
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from visualizer.attention.run import Run
    from visualizer.attention.spec import Device
    from visualizer.models.image_preparation import PreparedImage
    from visualizer.models.model_client.remote_model import RemoteNextTokenPredictor
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.recorded_runs import KeptLayersAndStages, LayerGroupRun
    from visualizer.models.token_inputs import ModelInput
    from visualizer.progress import Progress

TOP_TOKENS = 8
"""Number of most likely next tokens listed for each of the edited and the unedited model."""
TOP_CHANGES = 5
"""Number of listed tokens with the largest change in probability."""
EDITED_HEADS_NOTICE = (
    "The attention weights of these heads are still computed; their outputs are replaced."
)
CHANGED_TOKEN_NOTICE = "The next token “{token}” changes most: from {before} to {after}."
CUT_EDGES_NOTICE = "Their weights are 0; the other weights of each row sum to 1."
IMAGE_REQUIRED_ERROR = "{name} takes images. Choose an image, or drop an image file on the window."
FILES_CHANGED_ERROR = "The files of {name} have changed since the document was saved."

opened_models: WeakValueDictionary[tuple[str, str, str], OpenedModel] = WeakValueDictionary()
"""Models in use, by folder, device and data type."""
_from_disk: set[str] = set()
"""Folders of models that are run from disk, as requested by the user."""
_opened_since_release: set[str] = set()
"""Folders of models opened since the tokenizer process was last asked to free memory."""


def open_model_folder(
    path: Path,
    device: Device,
    dtype: ModelDtype = ModelDtype.AUTO,
    progress: Progress = ignore_progress,
    parallelism: Parallelism = Parallelism.NONE,
    *,
    is_from_disk: bool = False,
) -> tuple[ModelSource, OpenedModel]:
    """Open a model, and return it with the source by which `read_text` finds it.

    The model stays open as long as the caller or a run refers to it.

    Parameters
    ----------
    progress, parallelism, is_from_disk
        As in `open_model`. A closed model that ran from disk is opened from disk again if needed.

    Raises
    ------
    InputError
        With field ``model`` if the model cannot be opened.
    """
    model = open_model(path, device, dtype, progress, parallelism, is_from_disk=is_from_disk)
    image = ImageFile() if model.is_image_model else None
    folder = model.folder
    half = model.dtype if model.dtype.is_half else None
    source = ModelSource(
        str(folder.path.absolute()), folder.name, folder.fingerprint, image=image, half_dtype=half
    )
    _register_opened_model(source, device, model.dtype, model)
    if is_from_disk:
        _from_disk.add(source.folder)
    else:
        _from_disk.discard(source.folder)
    return source, model


def replacement_text(model: OpenedModel, text: str) -> str:
    """Return a replacement for a text that an open model cannot process; empty if it can.

    A model from the lab supports only the tokens of its run; the replacement is the run's first
    probe text. Other models accept any text.
    """
    other = model.folder.initial_text
    if other:
        try:
            model.encode_inputs(text)
        except InputError:
            return other
    return ""


def _register_opened_model(
    source: ModelSource, device: Device, dtype: ModelDtype, model: OpenedModel
) -> None:
    opened_models[source.folder, device, dtype] = model
    _opened_since_release.add(source.folder)


def forget_closed_models() -> None:
    """Free the tokenizers of closed models once no model is open."""
    if _opened_since_release and not opened_models:
        _opened_since_release.clear()
        tokenizer_process.release_closed_tokenizers()


def read_text(
    source: ModelSource,
    text: str,
    device: Device,
    previous: Run | None = None,
    dtype: Dtype = Dtype.FLOAT32,
) -> Run:
    """Run a model on a text, and return the run of the layers with one kind of attention.

    A vision model takes the image of its source instead. The kind of attention is the part that the
    source names, or the default part. If the layers differ, the run contains only the largest group
    of identical layers, and a notice about the other layers.

    Parameters
    ----------
    previous : Run, optional
        An earlier run, which is returned if it has the same inputs and connection.

    Raises
    ------
    InputError
        With field ``text`` if the text is empty or too long; with field ``image`` if no image is
        chosen, or the image cannot be read or has changed; with field ``model`` if the model's
        folder cannot be opened.
    """
    made_of: Hashable = (source, text, device, dtype)
    is_on_server = bool(parse_server_address(source.folder))
    if (
        previous
        and previous.reading
        and previous.reading.made_of == made_of
        # Results of an earlier connection may no longer exist on the server.
        and (not is_on_server or previous.reading.model is find_connected_model(source))
    ):
        return previous
    if is_on_server:
        return run_text_on_server(source, text, made_of)
    computed_in = source.half_dtype or ModelDtype(dtype)
    model = opened_models.get((source.folder, device, computed_in))
    if model is None:
        is_from_disk = source.folder in _from_disk
        opening = partial(open_model, source.path, device, computed_in, is_from_disk=is_from_disk)
        model = run_in_thread(opening)
        _register_opened_model(source, device, computed_in, model)
    if source.image is None:
        second, is_chat = source.second or None, source.is_chat
        edits = context_edits(model, text, source.edits, second, is_chat=is_chat)
        cuts = source.cut_cells_by_head
        seen = model.read(text, edits, cuts, second, is_chat=is_chat, by_blocks=True)
    else:
        image = _prepare_chosen_image(model, source.image)
        edits = create_image_context_edits(model, image, source.edits)
        seen = model.read_image(image, edits, source.cut_cells_by_head)
    part = _select_part_name(source, seen.runs)
    runs = find_runs_of_part(seen.runs, part)
    shown = max(runs, key=lambda each: len(each.group.layers))
    is_long = shown.run.trace.is_blockwise
    reading = ModelForwardPass(
        made_of=made_of,
        layers=shown.group.layers,
        edits=source.edit_descriptions_by_head,
        cuts=source.cut_cells_by_head,
        are_heads_switchable=model.heads.are_editable,
        next_tokens=_likeliest_next_tokens(model, seen),
        no_next_token=model.no_next_token_reason,
        captured=None,
        model=model,
        changes=_weight_changes(seen, shown),
        largest_changes=_largest_probability_changes(model, seen),
        is_of_lab=model.folder.lab_run is not None,
        parts=attention_part_titles(seen.runs),
        part=part,
        context_edits=edits,
        training_step=model.folder.training_step,
        computed_in=str(source.half_dtype or ""),
        fetch_captured=None if is_long else partial(captured_attention_with_numbers, shown.run),
        **_text_dependent_fields(model, source, text, part),
    )
    is_same = model.folder.fingerprint == source.fingerprint
    other = () if is_same else (FILES_CHANGED_ERROR.format(name=source.name),)
    notices = (
        *_edit_notices(source, reading),
        *_other_layers_notices(runs, shown),
        *shown.notices,
        *other,
    )
    return replace(shown.run, notices=notices, reading=reading)


def _prepare_chosen_image(model: OpenedModel, chosen: ImageFile) -> PreparedImage:
    if not chosen.path:
        raise InputError("image", IMAGE_REQUIRED_ERROR.format(name=model.folder.name))
    return model.prepare_image(Path(chosen.path), chosen.sha256)


def _text_dependent_fields(
    model: OpenedModel, source: ModelSource, text: str, part: str
) -> dict[str, Any]:
    """Return the fields of a `ModelForwardPass` that depend on the text."""
    if source.image is not None:
        return {"is_text_alone": False}
    special = model.special_tokens(
        text, source.second, is_chat=source.is_chat, of_decoder=is_decoder_part(part)
    )
    return {
        "text": text,
        "special": special,
        "has_chat_template": model.required_tokenizer.has_chat_template,
        "second": model.second_text_use,
        "is_text_alone": not (source.is_chat or source.second),
    }


def _select_part_name(source: ModelSource, runs: tuple[LayerGroupRun, ...]) -> str:
    """Return the requested part; by default, that of the decoder if there is a second text."""
    names = attention_part_names(runs)
    if source.part in names:
        return source.part
    own = (
        each.group.name
        for each in runs
        if is_decoder_part(each.group.name) and not each.group.is_cross
    )
    return next(own, names[0]) if source.second else names[0]


def _edit_notices(source: ModelSource, reading: ModelForwardPass) -> tuple[str, ...]:
    """State the edits, and how much they change the probability of a next token."""
    notices = []
    if source.edits:
        notices.append(
            f"Edited: {describe_edits(source.edit_descriptions_by_head)}. {EDITED_HEADS_NOTICE}"
        )
    if source.cuts:
        notices.append(f"Cut: {describe_cuts(source.cut_cells_by_head)}. {CUT_EDGES_NOTICE}")
    if notices and reading.largest_changes:
        token = reading.largest_changes[0]
        before, after = map(format_percentage, (token.probability_of_all_heads, token.probability))
        name = token.token.strip() or token.token
        notices[-1] += f" {CHANGED_TOKEN_NOTICE.format(token=name, before=before, after=after)}"
    return tuple(notices)


def _weight_changes(seen: ForwardResult, shown: LayerGroupRun) -> np.ndarray | None:
    """Return the distances between the shown heads' weights with and without edits."""
    layers = shown.group.layers
    if not all(layer in seen.changes for layer in layers):
        return None
    return np.stack([seen.changes[layer] for layer in layers])


def _other_layers_notices(runs: tuple[LayerGroupRun, ...], shown: LayerGroupRun) -> tuple[str, ...]:
    count = sum(len(each.group.layers) for each in runs) - len(shown.group.layers)
    if not count:
        return ()
    others = format_count(count, "other layer")
    return (f"{shown.description}. Use the command line or a notebook to show {others}.",)


def _likeliest_next_tokens(
    model: OpenedModel, seen: ForwardResult
) -> tuple[NextTokenCandidate, ...]:
    now, before = seen.next_token, seen.next_token_of_all_heads
    if now is None or before is None:
        return ()
    count = min(TOP_TOKENS, len(now))
    found = dict.fromkeys(chain(*(logs.topk(count).indices.tolist() for logs in (now, before))))
    return tuple(
        NextTokenCandidate(word, float(now[number].exp()), float(before[number].exp()))
        for number, word in zip(found, model.token_texts(tuple(found)), strict=True)
    )


def _largest_probability_changes(
    model: OpenedModel, seen: ForwardResult
) -> tuple[NextTokenCandidate, ...]:
    """Return the tokens with the largest change in probability due to the edits."""
    now, before = seen.next_token, seen.next_token_of_all_heads
    if now is None or before is None or now is before:
        return ()
    shares = now.exp(), before.exp()
    apart = (shares[0] - shares[1]).abs()
    likeliest = apart.topk(min(TOP_CHANGES, len(apart))).indices.tolist()
    found = [number for number in likeliest if apart[number] > 0]
    return tuple(
        NextTokenCandidate(word, *(float(each[number]) for each in shares))
        for number, word in zip(found, model.token_texts(found), strict=True)
    )


MAX_TEXTS = 1000


def run_model_on_texts(
    model: OpenedModel,
    texts: Sequence[ModelInput],
    *,
    is_chat: bool = False,
    kept: KeptLayersAndStages = KEEP_ALL_PARTS,
) -> Iterator[tuple[LayerGroupRun, ...]]:
    """Run a model on several texts, and yield the runs of each as in `OpenedModel.attend`.

    The texts are run one at a time, without padding. The results are therefore the same as for
    individual texts, and the intermediate values of only one text are in memory.

    Raises
    ------
    InputError
        As in `OpenedModel.attend`, with the number of the text; also if there are too many texts.
    """
    if len(texts) > MAX_TEXTS:
        sentence = f"There are {len(texts):,} texts; at most {MAX_TEXTS:,} can be run together."
        raise InputError("text", sentence)
    for number, text in enumerate(texts, 1):
        try:
            yield model.attend(text, is_chat=is_chat, kept=kept)
        except InputError as refused:
            sentence = f"Text {number:,} of {len(texts):,}: {refused.sentence}"
            raise InputError(refused.field, sentence) from refused


def create_next_token_predictor(
    model: OpenedModel | RemoteModel,
    text: str,
    factors: Mapping[LayerAndHead, float],
    *,
    is_chat: bool,
) -> NextTokenPredictor | RemoteNextTokenPredictor:
    """Return a reader for generating text after a prompt.

    Parameters
    ----------
    factors : mapping
        Factors for the context vectors of edited heads, keyed by layer number and head number.

    Raises
    ------
    InputError
        As in `NextTokenPredictor` and `RemoteModel.create_predictor`.
    """
    if isinstance(model, RemoteModel):
        return model.create_predictor(text, factors, is_chat=is_chat)
    return NextTokenPredictor(model, text, factors, is_chat=is_chat)
