"""Migrations of documents saved with older schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.storage.json_coding import DamagedError, shown

if TYPE_CHECKING:
    from collections.abc import Callable


CELL_FIELDS = {"stage", "place", "fold", "part"}
"""What a cell had before it had a layer."""
SCHEMA = 8
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


def _with_large(tree: Tree) -> Tree:
    """Choose no stage that is large beside the others (schema 3 to 4)."""
    return _filled(tree, {"large": None}, "view")


def _with_vectors(tree: Tree) -> Tree:
    """Let captured attention be without the vectors that it comes from (schema 4 to 5)."""
    none = {"vectors": None}
    whole = _filled(tree, none, "document", "captured")
    return _filled(whole, none, "view", "comparison", "document", "captured")


def _with_model(tree: Tree) -> Tree:
    """Let no model read the text, and heads stand by layer (schema 5 to 6)."""
    none = {"model": None}
    whole = _filled(_filled(tree, none, "document"), none, "view", "comparison", "document")
    return _filled(whole, {"head_order": "layer"}, "view")


_VECTORS_BEFORE_7: Tree = {
    "layer_masks": [],
    "softcap": 0.0,
    "bias": None,
    "sinks": None,
    "not_understood": [],
    "cut": [],
}
"""What captured vectors had nothing of before schema 7."""
_SPEC_BEFORE_7: Tree = {"block": "none", "d_ff": 0, "activation": "relu"}
"""What modules had nothing of before schema 7."""


_MODEL_BEFORE_7: Tree = {"cuts": [], "second": "", "is_chat": False, "part": "", "image": None}
"""What was not asked of a model before schema 7."""


def _with_layer_of_cells(tree: Tree) -> Tree:
    """Let cells be of the shown layer, heads be edited, and specs and vectors have more (to 7)."""
    view = tree.get("view")
    whole = {**tree, "view": _cells_filled(view)} if isinstance(view, dict) else tree
    whole = _filled(whole, {"is_of_all_heads": False}, "view", "painting")
    for way in (("document",), ("view", "comparison", "document")):
        whole = _filled(whole, _SPEC_BEFORE_7, *way, "spec")
        whole = _changed(whole, _with_edits, *way, "model")
        whole = _filled(whole, {"patches": None}, *way, "captured")
        whole = _filled(whole, _VECTORS_BEFORE_7, *way, "captured", "vectors")
    return whole


def _with_weights_source(tree: Tree) -> Tree:
    """Let it be unknown where own weights are from (schema 7 to 8)."""
    none = {"weights_source": ""}
    return _filled(_filled(tree, none, "document"), none, "view", "comparison", "document")


def _with_edits(model: Tree) -> Tree:
    """Put the heads of a model that are off among its edits, and have it read the text alone."""
    rest = {name: value for name, value in model.items() if name != "heads_off"}
    heads = model.get("heads_off")
    if not isinstance(heads, list) or not all(isinstance(each, list) for each in heads):
        return model  # left for decoding to reject
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


def _cells_filled(part: Any) -> Any:
    """Add the layer to every cell within a part of the tree."""
    if isinstance(part, list):
        return [_cells_filled(each) for each in part]
    if not isinstance(part, dict):
        return part
    whole = {name: _cells_filled(each) for name, each in part.items()}
    return {**whole, "layer": None} if whole.keys() == CELL_FIELDS else whole


def _filled(tree: Tree, more: Tree, *way: str) -> Tree:
    """Add fields to the table at a path; a missing path is left for decoding to reject."""
    return _changed(tree, lambda table: {**table, **more}, *way)


def _changed(tree: Tree, change: Callable[[Tree], Tree], *way: str) -> Tree:
    """Change the table at a path likewise."""
    if not way:
        return change(tree)
    step, *rest = way
    inner = tree.get(step)
    return {**tree, step: _changed(inner, change, *rest)} if isinstance(inner, dict) else tree


STEPS: dict[int, Callable[[Tree], Tree]] = {
    1: _without_captured,
    2: _with_layer,
    3: _with_large,
    4: _with_vectors,
    5: _with_model,
    6: _with_layer_of_cells,
    7: _with_weights_source,
}
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
