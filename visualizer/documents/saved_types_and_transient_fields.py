"""Schema of saved documents: encoded types and fields that are not saved."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.head_aggregates import HeadAggregate
from visualizer.attention.spec import AttentionSpec
from visualizer.models.model_source import ModelSource
from visualizer.session.cell_address import Cell, ComparedSide
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.dropout_samples import SampleTally
from visualizer.session.timeline import Playhead
from visualizer.session.token_selection_and_search import TokenSelection
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import TableSelection, View
from visualizer.session.zoom_ranges import Zoom
from visualizer.storage.json_coding import JsonCoding

# Types in annotations that their modules import only for type checking. The types of fields that
# are not saved do not matter.
_NAMES: dict[str, Any] = {
    **{
        kind.__name__: kind
        for kind in (
            CapturedAttention,
            Cell,
            Comparison,
            Document,
            HeadAggregate,
            ModelSource,
            Prediction,
            TokenSelection,
            Zoom,
        )
    },
    **dict.fromkeys(("Run", "CachedTensor"), object),
}

LEFT_OUT: dict[type, frozenset[str]] = {
    View: frozenset({"hovered", "lesson", "panes", "room", "small_room", "attribution", "scatter"}),
    Playhead: frozenset({"is_playing"}),
    TableSelection: frozenset({"document", "problem"}),
    Comparison: frozenset({"kept", "made", "tally"}),
    AttentionSpec: frozenset({"lengths"}),  # belongs to a run; a document has the texts instead
}
"""Fields that are not saved, by class."""

CODING = JsonCoding(_NAMES, LEFT_OUT)


def without_passing_fields(view: View) -> View:
    """Return the saved part of a view, equal to the view read back from a file.

    The hovered cell, the window's layout and the lesson are reset, and playback is stopped. A
    comparison loses its kept run, and is dropped if the document of that run is unknown.
    """
    comparison = _lasting_comparison(view.comparison)
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
        small_room=usual.small_room,
        attribution=usual.attribution,
        scatter=usual.scatter,
        pinned=pinned,
        playhead=replace(view.playhead, is_playing=False),
        table=replace(view.table, problem="", document=None),
        comparison=comparison,
    )


def _lasting_comparison(comparison: Comparison | None) -> Comparison | None:
    if comparison is None or (
        comparison.against is ComparisonKind.KEPT and not comparison.document
    ):
        return None
    return comparison.changed(kept=None, tally=SampleTally())
