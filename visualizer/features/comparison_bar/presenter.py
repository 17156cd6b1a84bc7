"""The comparison bar as a value: the compared runs, their settings and the largest difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.features.comparison_bar.largest_difference import largest_difference
from visualizer.features.comparison_bar.setting_differences import differences
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.dropout_samples import (
    MAX_COUNT,
    drawn_samples,
    most_samples,
    seed_of,
)
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.session.cell_address import Cell
    from visualizer.session.comparison_state import Comparison
    from visualizer.session.resolved_view import Resolved


NAMED = 3
"""Maximum number of differing settings that are named; the others are only counted."""
ASIDE = "Paused during playback and predictions."


class ComparePanel(Struct, frozen=True):
    """The contents of the comparison bar.

    Parameters
    ----------
    lead : str
        A description of the comparison.
    said : str
        The largest difference as a sentence, or the reason why there is none.
    largest : Cell or None
        The cell of the largest difference.
    head_count : int
        The number of heads.
    count, most : int
        The number of samples, and its maximum.
    """

    against: ComparisonKind
    lead: str
    said: str = ""
    largest: Cell | None = None
    head_count: int = 1
    count: int = 1
    most: int = 1
    can_swap: bool = False


COMPARISON: PanelId[ComparePanel | None] = PanelId("Comparison")


def needs(resolved: Resolved) -> Hashable:
    """The key of the data to read before `present_comparison`: the comparison and its stage."""
    if resolved.comparison is None:
        return None
    stage = resolved.pinned.stage if resolved.pinned else None
    return id(resolved.comparison), resolved.leading, resolved.drawn_heads, stage


def warm(resolved: Resolved) -> None:
    """Find the largest difference of a comparison; called on the worker."""
    if resolved.comparison:
        present_comparison(resolved)


def lead_of(resolved: Resolved) -> str:
    """A description of the comparison; empty if there is none."""
    comparison = resolved.view.comparison
    return _LEADS[comparison.against](resolved, comparison) if comparison else ""


def present_comparison(resolved: Resolved) -> ComparePanel | None:
    """Present the comparison and its largest difference; None if nothing is compared."""
    comparison, run = resolved.view.comparison, resolved.run
    if comparison is None:
        return None
    against, spec, trouble = comparison.against, run.trace.spec, resolved.why_not
    lead = lead_of(resolved)
    if trouble:
        said, largest = trouble, None
    elif resolved.comparison is None:
        said, largest = ASIDE, None
    else:
        said, largest = largest_difference(resolved, comparison)
    has_samples = against is ComparisonKind.SAMPLES and not trouble
    most = most_samples(run) if has_samples else 1
    count = min(comparison.count, most)
    can_swap = against is ComparisonKind.KEPT
    return ComparePanel(against, lead, said, largest, spec.heads, count, most, can_swap)


def _describe_kept(resolved: Resolved, comparison: Comparison) -> str:
    if comparison.document is None or resolved.computed is None:
        return ""
    descriptions = differences(comparison.document, resolved.computed)
    if not descriptions:
        return "A is the saved state. Change any setting to compare it with B."
    named, rest = descriptions[:NAMED], len(descriptions) - NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"Changed from A to B: {', '.join(named)}{more}."


def _describe_heads(resolved: Resolved, comparison: Comparison) -> str:
    one, other = comparison.heads
    if resolved.why_not:
        return "Comparing two heads."
    return f"Head {one + 1} compared with head {other + 1}."


def _describe_samples(resolved: Resolved, comparison: Comparison) -> str:
    spec, run = resolved.run.trace.spec, resolved.run
    if resolved.why_not:
        return "Dropout samples."
    count, most = drawn_samples(run, comparison.count), most_samples(run)
    first, last = seed_of(spec, 0), seed_of(spec, count - 1)
    seeds = f"seed {first}" if count == 1 else f"seeds {first} to {last}"
    description = f"Dropout {spec.dropout:g}, {seeds}: the error of the mean falls as 1/√N."
    return (
        f"{description} At most {most:,} samples for a text of this length."
        if most < MAX_COUNT
        else description
    )


_LEADS = {
    ComparisonKind.KEPT: _describe_kept,
    ComparisonKind.HEAD: _describe_heads,
    ComparisonKind.SAMPLES: _describe_samples,
}
