"""Recorded numbers as a run, so that a file shows exactly what was computed where it was saved."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from visualizer.attention.held import Held
from visualizer.attention.run import Run, padded
from visualizer.attention.spec import InputError
from visualizer.attention.stages import stages
from visualizer.attention.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    import numpy as np

    from visualizer.attention.spec import AttentionSpec
    from visualizer.state.document import Document
    from visualizer.state.saved.document_file import Saved
    from visualizer.state.saved.recorded import Recorded
    from visualizer.state.view import View

    class Compute(Protocol):
        """Computes a document, keeping of the last run what did not change."""

        def __call__(self, document: Document, previous: Run | None) -> Run: ...


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


def restored(saved: Saved, compute: Compute) -> tuple[Run, View]:
    """Give the run of what was saved, and its view with the A of a comparison in its place.

    What was recorded is not computed. Of a recorded run nothing has been read yet: who shows it
    reads what the view needs.

    Raises
    ------
    InputError
        When what has to be computed cannot be; for a comparison's A that cannot be, there is no
        comparison.
    """
    view = _with_a(saved, compute)
    if saved.recorded:
        return recorded_run(saved.document.spec, saved.recorded), view
    kept = view.comparison.kept if view.comparison else None
    return compute(saved.document, kept), view


def _with_a(saved: Saved, compute: Compute) -> View:
    view, comparison = saved.view, saved.view.comparison
    if comparison is None or comparison.against != "kept" or comparison.document is None:
        return view
    alone = replace(view, comparison=None)
    try:
        if saved.kept:
            kept = recorded_run(comparison.document.spec, saved.kept)
        else:
            kept = compute(comparison.document, None)
    except InputError:
        return alone
    return replace(view, comparison=replace(comparison, kept=kept))
