"""What of a view outlives the program, and of what types all that is saved may be.

Older documents as those of today: one step for each number of the schema.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from visualizer.attention.captured import CapturedAttention
from visualizer.attention.spec import AttentionSpec
from visualizer.attention.weight_transforms import HeadAggregate
from visualizer.session.cell_address import Cell, ComparedSide
from visualizer.session.comparison import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.dropout_samples import SampleTally
from visualizer.session.prediction import Prediction
from visualizer.session.timeline import Playhead
from visualizer.session.token_selection import TokenSelection
from visualizer.session.view import TableSelection, View
from visualizer.session.zoom import Zoom
from visualizer.storage.json_coding import DamagedError, JsonCoding, shown

if TYPE_CHECKING:
    from collections.abc import Callable

# What hints name where their modules import it for the type checker alone; of what is left out
# the type does not matter.
_NAMES: dict[str, Any] = {
    **{
        kind.__name__: kind
        for kind in (
            CapturedAttention,
            Cell,
            Comparison,
            Document,
            HeadAggregate,
            Prediction,
            TokenSelection,
            Zoom,
        )
    },
    **dict.fromkeys(("Run", "CachedTensor"), object),
}

LEFT_OUT: dict[type, frozenset[str]] = {
    View: frozenset({"hovered", "lesson", "panes", "room"}),
    Playhead: frozenset({"is_playing"}),
    TableSelection: frozenset({"document", "problem"}),
    Comparison: frozenset({"kept", "made", "tally"}),
    AttentionSpec: frozenset({"lengths"}),  # of a run: a document has its texts
}
"""Fields that are not saved, by what has them."""

CODING = JsonCoding(_NAMES, LEFT_OUT)


def lasting(view: View) -> View:
    """Give what is saved of a view: what is read from a file equals it.

    The hand, the window and the lesson are left out, and playing has stopped. A comparison goes
    without the run that it keeps, and not at all where it is not known what that is of.
    """
    comparison = _lasting(view.comparison)
    pinned = view.pinned
    if pinned and view.comparison and not comparison:
        pinned = replace(pinned, part=ComparedSide.PLAIN)
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
    if comparison is None or (
        comparison.against is ComparisonKind.KEPT and not comparison.document
    ):
        return None
    return replace(comparison, kept=None, tally=SampleTally())


SCHEMA = 2
"""Counted up with every change of what is saved; with it comes a step from the number before."""

Tree = dict[str, Any]


def _without_captured(tree: Tree) -> Tree:
    """Give documents the fields of captured attention, of which there was none."""
    none = {"captured": None, "labels": ""}
    return _filled(_filled(tree, none, "document"), none, "view", "comparison", "document")


def _filled(tree: Tree, more: Tree, *way: str) -> Tree:
    """Put fields where a way leads; where it leads nowhere, all stays for reading to refuse."""
    if not way:
        return {**tree, **more}
    step, *rest = way
    inner = tree.get(step)
    return {**tree, step: _filled(inner, more, *rest)} if isinstance(inner, dict) else tree


STEPS: dict[int, Callable[[Tree], Tree]] = {1: _without_captured}
"""By the number of a schema: turns its ``document.json`` into that of the next one."""


def migrated(tree: Any) -> Tree:
    """Bring what is in a ``document.json`` up to date.

    Raises
    ------
    DamagedError
        When it is of a schema that is not known.
    """
    schema = tree.get("schema") if isinstance(tree, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise DamagedError("does not say which kind of document it is.")
    if schema > SCHEMA:
        program = tree.get("program")
        newer = f" {shown(program)}" if isinstance(program, str) else ""
        raise DamagedError(
            f"was written by a newer version{newer}. Update Attention Visualizer to open it."
        )
    while schema < SCHEMA:
        tree = STEPS[schema](tree)
        schema += 1
    return {**tree, "schema": SCHEMA}
