"""Parses stage names and head numbers of command line options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.model_layer_stages import ORDER
from visualizer.attention.stages import TABLE
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from visualizer.attention.run import Run
    from visualizer.session.view import View

_PART = re.compile(r"(\d+)(?:-(\d+))?")


def stages_of(text: str) -> frozenset[str]:
    """Parse comma-separated names of stages."""
    return named_stages([part.strip() for part in text.split(",")])


def named_stages(names: Collection[str]) -> frozenset[str]:
    """Check names of stages against the stage table.

    Raises
    ------
    InputError
        If a name is not a stage of any module.
    """
    for name in names:
        if name not in ORDER:
            of_modules = ", ".join(dict.fromkeys(row.name for row in TABLE))
            sentence = f"There is no stage “{name}”. There are {of_modules}; models have more."
            raise InputError("stages", sentence)
    return frozenset(names)


def heads_of(text: str) -> frozenset[int]:
    """Parse head numbers from 1, such as ``1,3-5``, as indices from 0; empty for ``all``."""
    if text == "all":
        return frozenset()
    parts = [_PART.fullmatch(part.strip()) for part in text.split(",")]
    found: set[int] = set()
    for part in parts:
        first, last = (int(part[1]), int(part[2] or part[1])) if part else (0, 0)
        if not 1 <= first <= last <= 1_000:
            raise InputError(
                "heads_shown", f"invalid value '{text}': must be heads such as 1,3-5, or all"
            )
        found |= set(range(first - 1, last))
    return frozenset(found)


def with_parsed_stages_and_heads(
    run: Run, view: View, stages: frozenset[str] | None, heads: frozenset[int] | None
) -> View:
    """Set the stages and heads of a view; None keeps the current ones.

    An empty set of heads means all of them.

    Raises
    ------
    InputError
        If the run lacks one of them.
    """
    lacking = [name for name in ORDER if name in (stages or ()) and name not in run.trace]
    if lacking:
        raise InputError("stages", no_stage(run, lacking[0]))
    count = run.trace.spec.heads
    if heads is not None and not heads <= frozenset(range(count)):
        have = "There is 1 head" if count == 1 else f"There are {count} heads"
        raise InputError("heads_shown", f"There is no head {max(heads) + 1}. {have}.")
    view = view if stages is None else replace(view, stages=stages)
    return view if heads is None else replace(view, heads=heads or None)


def no_stage(run: Run, name: str) -> str:
    """Return an error message that a run has no such stage, listing those it has."""
    whose = run.source or "This module"
    return f"{whose} has no stage “{name}”. It has {', '.join(run.trace.names)}."
