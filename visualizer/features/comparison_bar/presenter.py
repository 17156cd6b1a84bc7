"""Presenter of the comparison bar: the compared runs, their settings and the largest difference."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.roles import Role
from visualizer.attention.settings import DERIVED_SETTINGS, SETTINGS, SettingKind
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.comparison import (
    describe_cell,
    difference_tensor,
    find_largest_difference,
    format_signed,
    max_magnitude,
    mismatch_reason,
)
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import (
    MAX_SAMPLES,
    drawable_sample_count,
    max_sample_count,
    sample_seed,
)
from visualizer.session.pane_spec import PanelSpec, prefetch_without_panel
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.settings import Setting
    from visualizer.attention.stages import Stage
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import ResolvedView


def describe_largest_difference(
    resolved: ResolvedView, comparison: Comparison
) -> tuple[str, Cell | None]:
    """Describe the largest difference in the current stage; also return its cell, if any."""
    run, stages = resolved.run, [*resolved.shown_stages]
    if comparison.against is ComparisonKind.SAMPLES:
        stages = [run.trace.stage(Role.DROPPED)]
    if comparison.against is ComparisonKind.HEAD:
        with_heads = [stage for stage in stages if "head" in stage.dims]
        stages = with_heads or [run.trace.stage(run.trace.attention_stage_name)]
    if comparison.kept:
        reasons = {stage.name: mismatch_reason(comparison.kept, run, stage) for stage in stages}
        fitting = [stage for stage in stages if not reasons[stage.name]]
        if not fitting:
            return f"{next(iter(reasons.values()))}. These values cannot be compared.", None
        stages = fitting
    stage = _preferred_stage(stages, resolved)
    held, index = difference_tensor(resolved, stage.name, None)
    change = find_largest_difference(held, index, max_magnitude(resolved, stage.name, None))
    where = "" if len(stages) == 1 else f" in the {stage.title.lower()}"
    if change is None:
        return f"No difference{where}.", None
    head = comparison.heads[1:] if comparison.against is ComparisonKind.HEAD else ()
    cell = Cell(stage.name, (*head, *change.place), None, ComparisonSide.CHANGE)
    named = describe_cell(run, resolved.leading, stage, change.place)
    return f"Largest difference{where}: {format_signed(change.value)}, {named}.", cell


def _preferred_stage(stages: list[Stage], resolved: ResolvedView) -> Stage:
    """Return the first that exists: the stage of the pinned cell, the weights, the first stage."""
    by_name = {stage.name: stage for stage in stages}
    pinned = resolved.view.pinned
    return (pinned and by_name.get(pinned.stage)) or by_name.get(Role.WEIGHTS) or stages[0]


MODEL_FIELD_NAMES = {
    "folder": "the model",
    "second": "the second text",
    "image": "the image",
    "part": "the attention kind",
    "edits": "the head edits",
    "cuts": "the cut edges",
}
IGNORED_SETTINGS = {*DERIVED_SETTINGS, "device"}
"""Settings that follow from other settings or do not affect any value."""


def describe_setting_differences(one: Document, other: Document) -> tuple[str, ...]:
    """Describe the settings that differ between two documents; the value in `one` comes first."""
    if one.model and other.model:
        return _describe_model_differences(one, other)
    if one.captured != other.captured or one.model != other.model:
        return ("the captured attention",)
    if one.captured:
        return ("the token labels",) * (one.labels != other.labels)
    descriptions = ["the text"] * (one.text != other.text)
    descriptions += [
        f"{name}: {getattr(one, name)} → {getattr(other, name)}"
        for name in ("tokenizer", "lines")
        if getattr(one, name) != getattr(other, name)
    ]
    for setting in SETTINGS:
        values = [document.get_setting(setting.name) for document in (one, other)]
        acts = any(setting.has_effect(document.spec) for document in (one, other))
        if setting.name not in IGNORED_SETTINGS and acts and values[0] != values[1]:
            descriptions.append(_describe_setting_difference(setting, *values))
    return tuple(descriptions)


def _describe_model_differences(one: Document, other: Document) -> tuple[str, ...]:
    descriptions = [
        name
        for field, name in MODEL_FIELD_NAMES.items()
        if getattr(one.model, field) != getattr(other.model, field)
    ]
    return (*["the text"] * (one.text != other.text), *descriptions)


def _describe_setting_difference(setting: Setting, *values: Any) -> str:
    label = setting.label[0].lower() + setting.label[1:]
    if setting.kind in {SettingKind.MATRIX, SettingKind.OWN}:
        return label
    return f"{label}: {' → '.join(_format_setting_value(setting, value) for value in values)}"


def _format_setting_value(setting: Setting, value: Any) -> str:
    if setting.kind is SettingKind.SWITCH:
        return "on" if value else "off"
    words = dict(setting.choices).get(value)
    return words[0].lower() + words[1:] if words else f"{value:g}"


MAX_NAMED_SETTINGS = 3
"""Maximum number of differing settings that are named; for the rest, only the number is given."""
GRID_NOTICE = (
    "While you compare, the compared matrices are shown next to each other. "
    "The flow board returns when you stop comparing."
)
PAUSED_NOTICE = "Paused during playback and predictions."


class ComparisonBarContents(Struct, frozen=True):
    """The contents of the comparison bar.

    Parameters
    ----------
    summary : str
        A description of the comparison.
    result : str
        Sentence that names the largest difference, or explains why there is none.
    largest : Cell or None
        The cell with the largest difference.
    head_count : int
        The number of heads.
    count, max_count : int
        The current and the maximum number of samples.
    """

    against: ComparisonKind
    summary: str
    result: str = ""
    largest: Cell | None = None
    head_count: int = 1
    count: int = 1
    max_count: int = 1
    can_swap: bool = False


COMPARISON_PANEL: PanelId[ComparisonBarContents | None] = PanelId("Comparison")


def prefetch_key(resolved: ResolvedView) -> Hashable:
    """Return a key for the data that `present_comparison` needs: the comparison and its stage."""
    if resolved.comparison is None:
        return None
    stage = resolved.pinned.stage if resolved.pinned else None
    return id(resolved.comparison), resolved.leading, resolved.drawn_heads, stage


def prefetch(resolved: ResolvedView) -> None:
    """Find the largest difference in a comparison; called on the worker thread."""
    if resolved.comparison:
        present_comparison(resolved)


def describe_comparison(resolved: ResolvedView) -> str:
    """Return a description of the comparison, or an empty string if there is none."""
    comparison = resolved.view.comparison
    return _DESCRIPTIONS[comparison.against](resolved, comparison) if comparison else ""


def present_comparison(resolved: ResolvedView) -> ComparisonBarContents | None:
    """Present the comparison and its largest difference; None if nothing is compared."""
    comparison, run = resolved.view.comparison, resolved.run
    if comparison is None:
        return None
    against, reason = comparison.against, resolved.unavailable_reason
    if reason or resolved.comparison is None:
        result, largest = reason or PAUSED_NOTICE, None
    else:
        result, largest = describe_largest_difference(resolved, comparison)
    has_samples = against is ComparisonKind.SAMPLES and not reason
    layout = GRID_NOTICE if resolved.comparison and resolved.view.flow else ""
    max_count = max_sample_count(run) if has_samples else 1
    return ComparisonBarContents(
        against,
        " ".join(filter(None, (describe_comparison(resolved), layout))),
        result,
        largest,
        run.trace.spec.heads,
        min(comparison.count, max_count),
        max_count,
        can_swap=against is ComparisonKind.KEPT,
    )


def _describe_kept_run(resolved: ResolvedView, comparison: Comparison) -> str:
    if comparison.document is None or resolved.computed is None:
        return ""
    descriptions = describe_setting_differences(comparison.document, resolved.computed)
    if not descriptions:
        return "A is the saved state. Change any setting to compare A with the new state, B."
    named, rest = descriptions[:MAX_NAMED_SETTINGS], len(descriptions) - MAX_NAMED_SETTINGS
    more = f" and {rest} more" if rest > 0 else ""
    return f"Saved state (A) compared with the current one (B): {', '.join(named)}{more}."


def _describe_head_comparison(resolved: ResolvedView, comparison: Comparison) -> str:
    one, other = comparison.heads
    if resolved.unavailable_reason:
        return "Comparing two heads."
    return f"Head {one + 1} (A) compared with head {other + 1} (B)."


def _describe_sample_comparison(resolved: ResolvedView, comparison: Comparison) -> str:
    spec, run = resolved.run.trace.spec, resolved.run
    if resolved.unavailable_reason:
        return "Dropout samples."
    count, most = drawable_sample_count(run, comparison.count), max_sample_count(run)
    first, last = sample_seed(spec, 0), sample_seed(spec, count - 1)
    seeds = f"seed {first}" if count == 1 else f"seeds {first} to {last}"
    limit = f" A text of this length allows at most {most:,} samples." * (most < MAX_SAMPLES)
    return f"Dropout {spec.dropout:g}, {seeds}: the error of the mean falls as 1/√N.{limit}"


_DESCRIPTIONS = {
    ComparisonKind.KEPT: _describe_kept_run,
    ComparisonKind.HEAD: _describe_head_comparison,
    ComparisonKind.SAMPLES: _describe_sample_comparison,
}


PANEL = PanelSpec(
    COMPARISON_PANEL,
    lambda resolved, inputs, previous: present_comparison(resolved),
    None,
    prefetch_key=prefetch_key,
    prefetch=partial(prefetch_without_panel, prefetch),
)
