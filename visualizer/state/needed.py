"""What of a run has to be read for a view, all of it together: named, and read on the worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.state import heatmaps, measures, reads
from visualizer.state.compare import board as compare
from visualizer.state.lines import choosing

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.state.view import View


def needs(run: Run, view: View) -> Hashable:
    """Name all that has to be read for a view; two views that need the same are read together."""
    return (
        heatmaps.needs(run, view),
        compare.needs(run, view),
        measures.needs(view),
        reads.needs(run, view),
        choosing.needs(run, view),
    )


def warm(run: Run, view: View) -> None:
    """Read all that a view needs, so that whoever presents it finds it read: for the worker."""
    heatmaps.warm(run, view)
    compare.warm(run, view)
    measures.warm(run, view)
    reads.warm(run, view)
    choosing.warm(run, view)
