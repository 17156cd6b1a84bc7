"""Runs that are not computed: from a document's recorded numbers or from captured attention.

A run of recorded numbers shows exactly what was computed where the file was saved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.captured import CapturedAttention, numbered, stage_of
from visualizer.attention.run import Run, padded
from visualizer.attention.stages import stages
from visualizer.attention.tensor_cache import CachedTensor
from visualizer.attention.trace import Trace
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from torch import Tensor

    from visualizer.attention.recorded_numbers import RecordedNumbers
    from visualizer.attention.spec import AttentionSpec

RECORDED = "recorded on "


def recorded_run(spec: AttentionSpec, recorded: RecordedNumbers) -> Run:
    """Return a run of recorded numbers, on the CPU, without computing any.

    It holds the arrays without a copy; a later run can reuse its unchanged stages.

    Parameters
    ----------
    spec : AttentionSpec
        The document's spec.

    Raises
    ------
    InputError
        Of ``open``, when stages are missing or have the wrong shape; of a field of the spec or the
        text, when these are invalid.
    """
    texts, spec = padded(recorded.texts, spec)
    rows = stages(spec)
    if {row.name for row in rows} != recorded.stages.keys():
        raise InputError("open", "The recorded numbers are not those of these settings.")
    held = {row.name: CachedTensor(torch.from_numpy(recorded.stages[row.name])) for row in rows}
    axes = ("text",)[: len(texts) - 1]
    trace = Trace(spec, rows, _tensors(recorded.parameters), held, frozenset(), axes)
    try:
        trace.check()
    except AssertionError as error:
        raise InputError("open", f"Of the recorded numbers, {error}.") from error
    device = recorded.device
    words = device if device.startswith(RECORDED) else f"{RECORDED}{device}"
    return Run(texts, trace, words, recorded.notices)


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


UNEVEN = 0.01
"""Tolerance of a row's sum from 1, as left by 16-bit numbers."""


def captured_run(
    captured: CapturedAttention,
    query_tokens: tuple[str, ...] = (),
    key_tokens: tuple[str, ...] = (),
    previous: Run | None = None,
) -> Run:
    """Return a run of captured attention.

    Parameters
    ----------
    query_tokens, key_tokens : tuple of str
        Labels typed by the user, which replace the file's tokens.
    previous : Run, optional
        An earlier run, whose trace is reused if it has the same numbers.
    """
    queries = query_tokens or captured.query_tokens or numbered(captured.queries)
    keys = key_tokens or captured.key_tokens
    if not keys:
        keys = queries if captured.is_square else numbered(captured.keys)
    trace, notices = _kept(captured, previous) or _made(captured)
    return Run((queries,), trace, "Not computed here", notices, captured, keys)


def _kept(
    captured: CapturedAttention, previous: Run | None
) -> tuple[Trace, tuple[str, ...]] | None:
    is_same = previous is not None and previous.captured == captured
    return (previous.trace, previous.notices) if previous and is_same else None


def _made(captured: CapturedAttention) -> tuple[Trace, tuple[str, ...]]:
    whole = torch.tensor(captured.array())  # layer head query key
    axes = ("layer",)[: captured.layers - 1]
    tensor = whole if axes else whole[0]
    is_weights = not any(bool((layer < 0).any()) for layer in whole)
    stage = stage_of(is_weights=is_weights)
    held = {stage.name: CachedTensor(tensor)}
    trace = Trace(captured.spec, (stage,), {}, held, frozenset(held), axes)
    return trace, tuple(_remarks(whole, is_weights=is_weights))


def _remarks(whole: Tensor, *, is_weights: bool) -> Sequence[str]:
    said = []
    odd = sum(int(layer.isnan().sum()) for layer in whole)
    if odd:
        said.append(f"{odd:,} of {whole.numel():,} cells are no numbers (NaN).")
    if not is_weights:
        said.append("Some numbers are below 0, so they are shown as scores, not as weights.")
        return said
    sums = torch.stack([layer.sum(-1, dtype=torch.float64) for layer in whole]).flatten()
    off = (sums - 1).abs() > UNEVEN
    if off.any():
        low, high = float(sums[off].min()), float(sums[off].max())
        said.append(
            f"In {int(off.sum()):,} of {len(sums):,} rows the weights do not sum to 1: "
            f"their sums are {low:.4g} to {high:.4g}."
        )
    return said
