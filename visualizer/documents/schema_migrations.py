"""The schema of saved documents: coded types, fields left out, and migrations of older schemas.

There is one migration step for each schema number.
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

# Types in hints whose modules import them for type checking only; the types of fields that are
# left out do not matter.
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
    AttentionSpec: frozenset({"lengths"}),  # belongs to a run: a document has its texts
}
"""Fields that are not saved, by class."""

CODING = JsonCoding(_NAMES, LEFT_OUT)


def lasting(view: View) -> View:
    """Return the saved part of a view, equal to the view read back from a file.

    The hovered cell, the window's layout and the lesson are reset, and playback is stopped. A
    comparison loses its kept run, and is dropped if the document of that run is unknown.
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


SCHEMA = 3
"""Schema number, raised with every change of the saved fields, together with a step in `STEPS`."""

Tree = dict[str, Any]


def _without_captured(tree: Tree) -> Tree:
    """Add the empty fields of captured attention (schema 1 to 2)."""
    none = {"captured": None, "labels": ""}
    return _filled(_filled(tree, none, "document"), none, "view", "comparison", "document")


def _with_layer(tree: Tree) -> Tree:
    """Take the place of captured attention for a layer, and not for a text (schema 2 to 3)."""
    document, view = tree.get("document"), tree.get("view")
    is_captured = isinstance(document, dict) and document.get("captured") is not None
    if is_captured and isinstance(view, dict) and "text" in view:
        return _filled(tree, {"layer": view["text"], "text": 0}, "view")
    return _filled(tree, {"layer": 0}, "view")


def _filled(tree: Tree, more: Tree, *way: str) -> Tree:
    """Add fields to the table at a path; a missing path is left for decoding to reject."""
    if not way:
        return {**tree, **more}
    step, *rest = way
    inner = tree.get(step)
    return {**tree, step: _filled(inner, more, *rest)} if isinstance(inner, dict) else tree


STEPS: dict[int, Callable[[Tree], Tree]] = {1: _without_captured, 2: _with_layer}
"""By schema number, converts a ``document.json`` to the next schema."""


def migrated(tree: Any) -> Tree:
    """Migrate the tree of a ``document.json`` to the current schema.

    Raises
    ------
    DamagedError
        When its schema is unknown.
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
