"""Runs restored from the numbers saved in a document, without computing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.run import Run, padded
from visualizer.attention.stages import stages
from visualizer.attention.tensor_with_cached_reductions import CachedTensor
from visualizer.attention.trace import Trace
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from visualizer.attention.recorded_numbers import RecordedNumbers
    from visualizer.attention.spec import AttentionSpec

RECORDED = "recorded on "


def recorded_run(spec: AttentionSpec, recorded: RecordedNumbers, weights_source: str = "") -> Run:
    """Return a run of recorded numbers, on the CPU, without computing.

    The arrays are not copied; a later run can reuse unchanged stages.

    Parameters
    ----------
    spec : AttentionSpec
        The document's spec.
    weights_source : str
        Source of the document's custom weights.

    Raises
    ------
    InputError
        With the field ``open`` if stages are missing or have the wrong shape; with a field of the
        spec or the text if these are invalid.
    """
    texts, spec = padded(recorded.texts, spec)
    rows = stages(spec)
    if {row.name for row in rows} != recorded.stages.keys():
        raise InputError("open", "The recorded numbers do not match the settings.")
    held = {row.name: CachedTensor(torch.from_numpy(recorded.stages[row.name])) for row in rows}
    axes = ("text",)[: len(texts) - 1]
    trace = Trace(spec, rows, _to_tensors(recorded.parameters), held, frozenset(), axes)
    try:
        trace.check()
    except AssertionError as error:
        raise InputError("open", f"The recorded numbers are invalid: {error}.") from error
    device = recorded.device
    words = device if device.startswith(RECORDED) else f"{RECORDED}{device}"
    return Run(texts, trace, words, recorded.notices, weights_source=weights_source)


def _to_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
