"""Older documents as those of today: one step for each number of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from visualizer.disk.coding import DamagedError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

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
