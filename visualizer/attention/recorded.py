"""Recorded numbers as a run, so that a file shows exactly what was computed where it was saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.held import Held
from visualizer.attention.run import Run, padded
from visualizer.attention.spec import InputError
from visualizer.attention.stages import stages
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from visualizer.attention.spec import AttentionSpec
    from visualizer.state.saved.recorded import Recorded

RECORDED = "recorded on "


def recorded_run(spec: AttentionSpec, recorded: Recorded) -> Run:
    """Give a run that holds recorded numbers, on the CPU, without computing any.

    It keeps the very arrays; a run that is computed after it takes over what did not change.

    Parameters
    ----------
    spec : AttentionSpec
        That of the document.

    Raises
    ------
    InputError
        Of ``open``, when the numbers are not all those of the spec, each of its size; of a field
        of the spec or the text, when they could not be computed.
    """
    texts, spec = padded(recorded.texts, spec)
    rows = stages(spec)
    if {row.name for row in rows} != recorded.stages.keys():
        raise InputError("open", "The recorded numbers are not those of these settings.")
    held = {row.name: Held(torch.from_numpy(recorded.stages[row.name])) for row in rows}
    trace = Trace(spec, rows, _tensors(recorded.parameters), held, frozenset())
    try:
        trace.check()
    except AssertionError as error:
        raise InputError("open", f"Of the recorded numbers, {error}.") from error
    device = recorded.device
    words = device if device.startswith(RECORDED) else f"{RECORDED}{device}"
    return Run(texts, trace, words, recorded.notices)


def _tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
