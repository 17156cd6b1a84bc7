"""What of a view outlives the program, and of what types all that is saved may be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from visualizer.attention.captured import Captured
from visualizer.attention.spec import AttentionSpec
from visualizer.disk.coding import Coding
from visualizer.state.chosen import TokenLook
from visualizer.state.compare.comparison import Against, Comparison
from visualizer.state.compare.samples import Tally
from visualizer.state.document import Document
from visualizer.state.playback.timeline import Playhead
from visualizer.state.view import Cell, Part, TableLook, View
from visualizer.state.zoom import Zoom

if TYPE_CHECKING:
    from typing import Any

# What hints name where their modules import it for the type checker alone; of what is left out
# the type does not matter.
_NAMES: dict[str, Any] = {
    **{kind.__name__: kind for kind in (Captured, Cell, Comparison, Document, TokenLook, Zoom)},
    **dict.fromkeys(("Run", "Held"), object),
}

LEFT_OUT: dict[type, frozenset[str]] = {
    View: frozenset({"hovered", "lesson", "panes", "room"}),
    Playhead: frozenset({"is_playing"}),
    TableLook: frozenset({"document", "problem"}),
    Comparison: frozenset({"kept", "made", "tally"}),
    AttentionSpec: frozenset({"lengths"}),  # of a run: a document has its texts
}
"""Fields that are not saved, by what has them."""

CODING = Coding(_NAMES, LEFT_OUT)


def lasting(view: View) -> View:
    """Give what is saved of a view: what is read from a file equals it.

    The hand, the window and the lesson are left out, and playing has stopped. A comparison goes
    without the run that it keeps, and not at all where it is not known what that is of.
    """
    comparison = _lasting(view.comparison)
    pinned = view.pinned
    if pinned and view.comparison and not comparison:
        pinned = replace(pinned, part=Part.PLAIN)
    usual = View()
    return replace(
        view,
        hovered=usual.hovered,
        lesson=usual.lesson,
        panes=usual.panes,
        room=usual.room,
        pinned=pinned,
        playhead=replace(view.playhead, is_playing=False),
        table=replace(view.table, problem="", document=None),
        comparison=comparison,
    )


def _lasting(comparison: Comparison | None) -> Comparison | None:
    if comparison is None or (comparison.against is Against.KEPT and not comparison.document):
        return None
    return replace(comparison, kept=None, tally=Tally())
