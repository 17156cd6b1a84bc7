"""Presenter of the playback bar: the position, the caption and the equation of the step."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.explanations.explain import Equation, describe_step, equation
from visualizer.explanations.prediction_judge import prediction_instruction
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.colour_range import AutomaticColourRange
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize, Timeline
from visualizer.session.view_options import ColourLimits

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.heatmap.board import Board
    from visualizer.heatmap.board_presenter import BoardContents
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.user_prediction import PredictionQuestion
    from visualizer.widgets.theme import Theme


CLOSING = "All steps are computed. Point at a number to see its calculation."
"""Caption after the last step."""


class WeightsRange(Struct, frozen=True):
    """The end of the colour range of weights, and their texts, layer and source."""

    end: str
    title: str
    texts: tuple[tuple[str, ...], ...]
    leading: LeadingIndex
    source: str


class PlaybackBarContents(Struct, frozen=True):
    """The contents of the playback bar.

    Parameters
    ----------
    position : int
        Index of the current step; equals `count` at the end.
    caption : str
        Caption of the step (HTML); empty outside playback, unless it has just ended.
    question : PredictionQuestion or None
        Question of the prediction in progress.
    weights_range : WeightsRange or None
        The colour range of the weights; None if the board shows no weights or the range does not
        depend on the numbers.
    range_notice : str
        States that the colour range has changed, because equal colours then no longer stand for
        equal weights; empty if it has not.
    described_stage : hashable
        The stage that the caption of a tour describes as a whole, with its run, text and head; None
        for other captions.
    """

    position: int = 0
    count: int = 0
    playhead: PlaybackState = field(default_factory=PlaybackState)
    where: str = ""
    caption: str = ""
    equation: Equation | None = None
    question: PredictionQuestion | None = None
    is_revealed: bool = False
    weights_range: WeightsRange | None = None
    range_notice: str = ""
    made_of: Hashable = None
    described_stage: Hashable = None


PLAYBACK_PANEL: PanelId[PlaybackBarContents] = PanelId("Playback")


def present_playback(
    resolved: ResolvedView, previous: PlaybackBarContents, contents: BoardContents
) -> PlaybackBarContents:
    """Return the contents of the bar, or the same object as before if nothing changed."""
    if previous.made_of == resolved.step_key:
        return previous
    highlights, weights_range = (
        contents.step_highlights,
        _weights_range(resolved, contents.board),
    )
    guess, place, timeline = resolved.prediction, resolved.place, resolved.timeline
    bar = PlaybackBarContents(
        timeline.step_index(PlaybackPosition(guess.stage) if guess else place),
        len(timeline),
        resolved.view.playhead,
        weights_range=weights_range,
        range_notice=_describe_range_change(previous.weights_range, weights_range),
        made_of=resolved.step_key,
    )
    if guess:
        caption_text = (
            highlights.verdict.sentence
            if highlights.verdict
            else prediction_instruction(resolved.run, guess)
        )
        is_revealed = guess.is_revealed
        return replace(bar, caption=caption_text, question=guess.question, is_revealed=is_revealed)
    step = resolved.described_step
    if place is None or step is None:
        return replace(bar, caption=CLOSING * previous.playhead.is_playing)
    run, leading, head = resolved.run, resolved.leading, resolved.caption_head
    described_stage = None
    if bar.playhead.is_playing and timeline.describes_whole_stage(place):
        described_stage = (run, leading, head, place.stage)
    if described_stage is None:
        caption = describe_step(run, leading, step, head)
    elif described_stage == previous.described_stage:
        caption = previous.caption  # describing a large stage takes longer than one of its rows
    else:
        caption = describe_step(run, leading, timeline.whole_stage(place.stage), head)
    return replace(
        bar,
        where=_describe_position(run, timeline, place),
        caption=caption,
        described_stage=described_stage,
        equation=None if described_stage else equation(run, leading, step, head),
    )


def _weights_range(resolved: ResolvedView, board: Board) -> WeightsRange | None:
    panel = next((panel for panel in board.heatmaps if panel.is_share), None)
    if panel is None or panel.colour.limits is not ColourLimits.AUTO:
        return None
    end = str(AutomaticColourRange(panel.colour.high, panel.colour.is_exceeded))
    run = resolved.run
    return WeightsRange(end, panel.title, run.texts, resolved.leading, run.source_display_name)


def _describe_range_change(before: WeightsRange | None, now: WeightsRange | None) -> str:
    if before is None or now is None or before == now or replace(before, end=now.end) != now:
        return ""
    return (
        f"The colour scale of {now.title} now ends at {now.end}. Before, it ended at {before.end}."
    )


def _describe_position(run: Run, timeline: Timeline, place: PlaybackPosition) -> str:
    title = run.trace.stage(place.stage).title
    rows, columns = next(size[1:] for size in timeline.sizes if size[0] == place.stage)
    if timeline.grain is StepSize.STAGE:
        return f"{title}, all rows"
    row = f"{title}, row {place.row + 1:,} of {rows:,}"
    column = f", column {place.column + 1:,} of {columns:,}"
    return row + column * (timeline.grain is StepSize.CELL)


def format_step_count(bar: PlaybackBarContents) -> str:
    """Format the number of the current step and the total."""
    if bar.position >= bar.count:
        return f"{bar.count:,} steps"
    return f"{bar.position + 1:,} of {bar.count:,}"


def equation_to_html(equation: Equation | None, theme: Theme) -> tuple[tuple[str, ...], str]:
    """Format an equation as HTML, with the operands in the accent colour.

    Returns
    -------
    versions : tuple of str
        The equation without its result, with fewer and fewer terms.
    result : str
        The result, after an equals sign, and the remark on it.
    """
    if equation is None:
        return ("",), ""
    left = f"<span style='color:{theme.quiet}'>{escape(equation.left)} = </span>"
    versions = tuple(
        left
        + "".join(
            f"<span style='color:{theme.accent}'>{escape(part.text)}</span>"
            if part.is_highlighted
            else escape(part.text)
            for part in parts
        )
        for parts in dict.fromkeys(equation.versions or (equation.parts,))
    )
    result = f" = <b>{escape(equation.result)}</b>" if equation.result else ""
    return versions, result + escape(equation.remark)


PANEL = PanelSpec(
    PLAYBACK_PANEL,
    lambda resolved, inputs, previous: present_playback(
        resolved, previous, inputs.panel(BOARD_CONTENTS)
    ),
    PlaybackBarContents(),
    prefetch=lambda resolved, made, previous: present_playback(
        resolved, previous, BOARD_CONTENTS.look_up_in(made)
    ),
)
