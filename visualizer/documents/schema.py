"""Schema of saved documents: the encoded types, the fields that are not saved, and migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.display_transforms import HeadAggregate
from visualizer.attention.spec import AttentionSpec
from visualizer.models.model_source import ModelSource
from visualizer.session.cell_address import Cell, ComparisonSide, ParameterCell
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.dropout_samples import DropoutSampleCounts
from visualizer.session.timeline import PlaybackState
from visualizer.session.token_selection import TokenSelection
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import TableSelection, View
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.storage.json_codec import DamagedFileError, JsonCodec, format_short_value

if TYPE_CHECKING:
    from collections.abc import Callable

OLD_CELL_FIELDS = {"stage", "place", "fold", "part"}
"""Fields of a cell before schema 7 added the layer."""
SCHEMA_VERSION = 11
"""Current schema version; increment it when saved fields change, and add a migration to
`MIGRATIONS`.
"""

Tree = dict[str, Any]


def _move_index_to_layer(tree: Tree) -> Tree:
    """Use the index into captured attention as a layer instead of a text (schema 2 to 3)."""
    document, view = tree.get("document"), tree.get("view")
    is_captured = isinstance(document, dict) and document.get("captured") is not None
    if is_captured and isinstance(view, dict) and "text" in view:
        return _add_fields(tree, {"layer": view["text"], "text": 0}, "view")
    return _add_fields(tree, {"layer": 0}, "view")


def _add_model_and_head_order(tree: Tree) -> Tree:
    """Add an empty model and order heads by layer (schema 5 to 6)."""
    return _add_fields(_add_document_fields(tree, {"model": None}), {"head_order": "layer"}, "view")


_VECTORS_BEFORE_7: Tree = {
    "layer_masks": [],
    "softcap": 0.0,
    "bias": None,
    "sinks": None,
    "not_understood": [],
    "cut": [],
}
"""Fields of captured vectors that schema 7 added, with their defaults."""
_SPEC_BEFORE_7: Tree = {"block": "none", "d_ff": 0, "activation": "relu"}
"""Fields of a module specification that schema 7 added, with their defaults."""


def _add_cell_layers_and_edits(tree: Tree) -> Tree:
    """Add cell layers, head edits, and fields of specifications and vectors (schema 6 to 7)."""
    view = tree.get("view")
    whole = {**tree, "view": _add_cell_layers(view)} if isinstance(view, dict) else tree
    whole = _add_fields(whole, {"is_of_all_heads": False}, "view", "painting")
    whole = _add_document_fields(whole, _SPEC_BEFORE_7, "spec")
    whole = _change_documents(whole, _convert_heads_off, "model")
    whole = _add_document_fields(whole, {"patches": None}, "captured")
    return _add_document_fields(whole, _VECTORS_BEFORE_7, "captured", "vectors")


def _add_default_settings(spec: Tree) -> Tree:
    """Add the missing settings of a specification; their defaults change none of its numbers."""
    defaults: Tree = to_builtins(AttentionSpec())
    unsaved = UNSAVED_FIELDS[AttentionSpec]
    return {**{name: defaults[name] for name in defaults if name not in unsaved}, **spec}


def _convert_heads_off(model: Tree) -> Tree:
    """Convert the switched-off heads of a model to edits, and add the other new fields."""
    rest = {name: value for name, value in model.items() if name != "heads_off"}
    heads = model.get("heads_off")
    if not isinstance(heads, list) or not all(isinstance(each, list) for each in heads):
        return model  # decoding rejects it
    edits = [
        {"layer": each[0], "head": each[-1], "kind": "off", "factor": 0.0, "text": ""}
        for each in heads
        if len(each) == 2
    ]
    return {
        **rest,
        "edits": edits,
        "cuts": [],
        "second": "",
        "is_chat": False,
        "part": "",
        "image": None,
    }


def _add_cell_layers(part: Any) -> Any:
    """Add the layer to every cell in a part of the tree."""
    if isinstance(part, list):
        return [_add_cell_layers(each) for each in part]
    if not isinstance(part, dict):
        return part
    whole = {name: _add_cell_layers(each) for name, each in part.items()}
    return {**whole, "layer": None} if whole.keys() == OLD_CELL_FIELDS else whole


def _add_document_fields(tree: Tree, fields: Tree, *path: str) -> Tree:
    """Add fields to the table at a path, in the document and in the document of a comparison."""
    return _change_documents(tree, lambda table: {**table, **fields}, *path)


def _change_documents(tree: Tree, change: Callable[[Tree], Tree], *path: str) -> Tree:
    """Apply a function to the table at a path in the document and in a comparison's document."""
    tree = _change_table(tree, change, "document", *path)
    return _change_table(tree, change, "view", "comparison", "document", *path)


def _add_fields(tree: Tree, fields: Tree, *path: str) -> Tree:
    """Add fields to the table at a path; if the path is missing, decoding rejects the tree."""
    return _change_table(tree, lambda table: {**table, **fields}, *path)


def _change_table(tree: Tree, change: Callable[[Tree], Tree], *path: str) -> Tree:
    """Apply a function to the table at a path; if the path is missing, the tree is unchanged."""
    if not path:
        return change(tree)
    step, *rest = path
    inner = tree.get(step)
    return {**tree, step: _change_table(inner, change, *rest)} if isinstance(inner, dict) else tree


MIGRATIONS: dict[int, Callable[[Tree], Tree]] = {
    1: lambda tree: _add_document_fields(tree, {"captured": None, "labels": ""}),
    2: _move_index_to_layer,
    3: lambda tree: _add_fields(tree, {"large": None}, "view"),
    4: lambda tree: _add_document_fields(tree, {"vectors": None}, "captured"),
    5: _add_model_and_head_order,
    6: _add_cell_layers_and_edits,
    7: lambda tree: _add_document_fields(tree, {"weights_source": ""}),
    8: lambda tree: _change_documents(tree, _add_default_settings, "spec"),
    9: lambda tree: _add_fields(tree, {"flow": False}, "view"),
    10: lambda tree: _add_document_fields(tree, {"half_dtype": None}, "model"),
}
"""Functions that migrate a ``document.json`` to the next schema, keyed by its current version."""


def migrate(tree: Any) -> Tree:
    """Migrate the tree of a ``document.json`` to the current schema.

    Raises
    ------
    DamagedFileError
        If the schema version is invalid or unknown.
    """
    schema = tree.get("schema") if isinstance(tree, dict) else None
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise DamagedFileError("does not contain a valid schema version.")
    if schema > SCHEMA_VERSION:
        program = tree.get("program")
        newer = f" {format_short_value(program)}" if isinstance(program, str) else ""
        raise DamagedFileError(
            f"was written by a newer version{newer}. Update Attention Visualizer to open it."
        )
    while schema < SCHEMA_VERSION:
        tree = MIGRATIONS[schema](tree)
        schema += 1
    return {**tree, "schema": SCHEMA_VERSION}


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
            ParameterCell,
            Prediction,
            TokenSelection,
            ZoomRange,
        )
    },
    **dict.fromkeys(("Run", "CachedTensor"), object),
}

UNSAVED_FIELDS: dict[type, frozenset[str]] = {
    View: frozenset(
        {
            "hovered",
            "hovered_parameter",
            "pinned_parameter",
            "last_pinned",
            "lesson",
            "panes",
            "room",
            "attribution",
            "scatter",
        }
    ),
    PlaybackState: frozenset({"is_playing"}),
    TableSelection: frozenset({"document", "problem"}),
    Comparison: frozenset({"kept", "derived_tensors", "tally"}),
    AttentionSpec: frozenset({"lengths"}),  # a document contains the texts instead
}
"""Fields that are not saved, keyed by class."""

DOCUMENT_CODING = JsonCodec(_NAMES, UNSAVED_FIELDS)


def without_unsaved_fields(view: View) -> View:
    """Return the saved part of a view, which is equal to the view read back from a file.

    Fields that are not saved have their defaults. A comparison loses its kept run, and is dropped
    if the document of that run is unknown.
    """
    comparison = _saved_comparison(view.comparison)
    pinned = view.pinned
    if pinned and view.comparison and not comparison:
        pinned = replace(pinned, part=ComparisonSide.PLAIN)
    default = View()
    return replace(
        view,
        **{name: getattr(default, name) for name in UNSAVED_FIELDS[View]},
        pinned=pinned,
        playhead=replace(view.playhead, is_playing=False),
        table=replace(view.table, problem="", document=None),
        comparison=comparison,
    )


def _saved_comparison(comparison: Comparison | None) -> Comparison | None:
    if comparison is None or (
        comparison.against is ComparisonKind.KEPT and not comparison.document
    ):
        return None
    return comparison.with_changes(kept=None, tally=DropoutSampleCounts())
