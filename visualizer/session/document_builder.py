"""Builds documents from texts and named settings, and parses names of stages and heads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.attention.spec import (
    BIAS_SUFFIX,
    BLOCK_LAYERS,
    PROJECTION_LAYERS,
    HeadArrangement,
    Projection,
)
from visualizer.attention.stages import STAGE_TABLE
from visualizer.errors import InputError, not_found_error
from visualizer.format import format_count
from visualizer.session.document import Document, LineGrouping

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.session.view import View

# Qt replaces these characters in a text editor. A normalized text equals the text in the editor.
_EDITOR_REPLACEMENTS = str.maketrans({"\r": "\n", "\u2028": "\n", "\u2029": "\n", "\u00a0": " "})

_APPLIED_FIRST = {"d_in": 0, "mechanism": 1}
"""Order of the settings that are applied before all others."""


def normalize_text(text: str) -> str:
    """Normalize a text as the text editor does.

    Raises
    ------
    InputError
        If the text is blank.
    """
    if not text or text.isspace():
        raise InputError("text", f"invalid value {text[:20]!r}: must not be blank")
    return text.replace("\r\n", "\n").translate(_EDITOR_REPLACEMENTS)


def create_document(
    texts: Sequence[str], settings: Mapping[str, Any], base: Document | None = None
) -> Document:
    """Create a document from texts and settings.

    Missing sizes are inferred from custom vectors and weights, and custom biases turn biases on. If
    there is neither a text nor a base, the tokens of custom vectors are numbered.

    Parameters
    ----------
    texts : sequence of str
        Several texts form a batch; for captured attention, they are the labels of the queries and
        of the keys. If `texts` is empty, those of the base are kept.
    settings : mapping
        Values by the names that `Document.with_setting` accepts. The embedding size is set first
        and the mechanism second, because it may depend on the embedding size.
    base : Document, optional
        The document that supplies everything that is not given.
    """
    document = base or Document()
    if not texts and base is None and settings.get("own_input"):
        texts = [" ".join(str(place + 1) for place in range(settings["own_input"].rows))]
    if texts:
        apart = [" ".join(text.splitlines()) for text in texts]  # each line becomes a text
        document = document.with_setting("text", "\n".join(apart if len(texts) > 1 else texts))
    if texts and document.has_module:
        lines = LineGrouping.APART if len(texts) > 1 else LineGrouping.TOGETHER
        document = document.with_setting("lines", lines)
    own_input = settings.get("own_input")
    if own_input and "d_in" not in settings:
        document = document.with_setting("d_in", own_input.columns)
    for name in sorted(settings, key=lambda name: _APPLIED_FIRST.get(name, len(_APPLIED_FIRST))):
        document = document.with_setting(name, settings[name])
    return replace(document, spec=_infer_missing_settings(document.spec, settings))


def _infer_missing_settings(spec: AttentionSpec, settings: Mapping[str, Any]) -> AttentionSpec:
    """Return the spec with missing sizes and biases inferred from custom vectors and weights."""
    found: dict[str, Any] = {}
    share = max(1, spec.heads if spec.arrangement is HeadArrangement.STACKED else 1)
    for name, matrix in settings.get("own_weights") or ():
        layer = name.removesuffix(BIAS_SUFFIX)
        if layer in BLOCK_LAYERS:
            if name in {"linear1", "linear2"}:
                found["d_ff"] = matrix.columns if name == "linear1" else matrix.rows
            continue
        if name in PROJECTION_LAYERS:
            found["d_in"] = matrix.rows
        elif layer in PROJECTION_LAYERS and spec.projection is Projection.LINEAR:
            found["bias"] = True
        columns = matrix.columns
        if spec.has_grouped_heads:
            columns = columns * spec.heads // spec.projection_head_count(layer)
        found["d_out"] = columns // share
    if settings.get("own_input"):
        found["d_in"] = settings["own_input"].columns
    return replace(spec, **{name: value for name, value in found.items() if name not in settings})


_PART = re.compile(r"(\d+)(?:-(\d+))?")


def parse_stage_names(text: str) -> frozenset[str]:
    """Parse comma-separated stage names."""
    return check_stage_names([part.strip() for part in text.split(",")])


def check_stage_names(names: Collection[str]) -> frozenset[str]:
    """Check names of stages against the stage table.

    Raises
    ------
    InputError
        If a name is not the name of a stage.
    """
    for name in names:
        if name not in STAGE_ORDER:
            of_modules = ", ".join(dict.fromkeys(row.name for row in STAGE_TABLE))
            sentence = (
                f"The stage “{name}” does not exist. Stages of modules: {of_modules}; models have "
                "more."
            )
            raise InputError("stages", sentence)
    return frozenset(names)


def parse_head_indices(text: str) -> frozenset[int]:
    """Convert head numbers such as ``1,3-5`` to indices, which start at 0; empty for ``all``."""
    if text == "all":
        return frozenset()
    parts = [_PART.fullmatch(part.strip()) for part in text.split(",")]
    found: set[int] = set()
    for part in parts:
        first, last = (int(part[1]), int(part[2] or part[1])) if part else (0, 0)
        if not 1 <= first <= last <= 1_000:
            raise InputError(
                "heads_shown",
                f"invalid value '{text}': must be head numbers such as 1,3-5, or 'all'",
            )
        found |= set(range(first - 1, last))
    return frozenset(found)


def with_stages_and_heads(
    run: Run, view: View, stages: frozenset[str] | None, heads: frozenset[int] | None
) -> View:
    """Return the view with the given stages and heads; None keeps the current ones.

    An empty set of heads selects all heads.

    Raises
    ------
    InputError
        If the run does not have one of the stages or heads.
    """
    lacking = [name for name in STAGE_ORDER if name in (stages or ()) and name not in run.trace]
    if lacking:
        raise InputError("stages", missing_stage_message(run, lacking[0]))
    count = run.trace.spec.heads
    if heads is not None and not heads <= frozenset(range(count)):
        raise missing_number_error("heads_shown", "head", max(heads) + 1, count)
    view = view if stages is None else replace(view, stages=stages)
    return view if heads is None else replace(view, heads=heads or None)


def missing_number_error(field: str, noun: str, number: int, count: int) -> InputError:
    """Return the error for a number, counted from 1, that exceeds the number of items."""
    existing = f"There {'is' if count == 1 else 'are'} {format_count(count, noun)}."
    return not_found_error(field, f"{noun} {number:,}", existing)


def missing_stage_message(run: Run, name: str) -> str:
    """Return the error message for a stage that a run does not have; it lists the run's stages."""
    whose = run.source_display_name or "This module"
    return f"{whose} has no stage “{name}”. It has {', '.join(run.trace.names)}."
