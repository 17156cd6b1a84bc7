"""Presenter of the playback bar: position, and caption and equation of the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.explanations.explain import Equation, equation
from visualizer.explanations.user_prediction_instruction_and_verdict import instruction
from visualizer.features.playback.step_captions import step_caption
from visualizer.session.screen import PanelId
from visualizer.session.timeline import Grain, Place, Playhead, Timeline

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.heatmap.step_cell_and_prediction_highlights import Highlights
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.user_prediction import PredictionQuestion


class TimelineSegment(Struct, frozen=True):
    """One stage on the timeline.

    Parameters
    ----------
    start : int
        Index of its first step.
    """

    title: str
    start: int


class PlaybackBarState(Struct, frozen=True):
    """The contents of the playback bar.

    Parameters
    ----------
    position : int
        Index of the current step; equals `count` at the end.
    caption : str
        Caption of the step (HTML); empty outside playback.
    question : PredictionQuestion or None
        Question of the prediction in progress.
    """

    position: int = 0
    count: int = 0
    stops: tuple[TimelineSegment, ...] = ()
    playhead: Playhead = field(default_factory=Playhead)
    where: str = ""
    caption: str = ""
    equation: Equation | None = None
    question: PredictionQuestion | None = None
    is_revealed: bool = False
    made_of: Hashable = None


PLAYBACK: PanelId[PlaybackBarState] = PanelId("Playback")


def present_playback(
    resolved: Resolved, previous: PlaybackBarState, highlights: Highlights
) -> PlaybackBarState:
    """Return the contents of the bar; the same object as before if nothing changed."""
    if previous.made_of == resolved.step_key:
        return previous
    guess, place, timeline = resolved.prediction, resolved.place, resolved.timeline
    stops = tuple(
        TimelineSegment(stage.title, start)
        for stage, start in zip(resolved.run.trace.stages, timeline.starts, strict=False)
    )
    bar = PlaybackBarState(
        timeline.position(Place(guess.stage) if guess else place),
        len(timeline),
        stops,
        resolved.view.playhead,
        made_of=resolved.step_key,
    )
    if guess:
        caption_text = (
            highlights.verdict.sentence if highlights.verdict else instruction(resolved.run, guess)
        )
        is_revealed = guess.is_revealed
        return replace(bar, caption=caption_text, question=guess.question, is_revealed=is_revealed)
    return _describe_step(resolved, place, bar) if place else bar


def _describe_step(resolved: Resolved, place: Place, bar: PlaybackBarState) -> PlaybackBarState:
    run, leading, head = resolved.run, resolved.leading, resolved.told_head
    step = resolved.timeline.step(place)
    return replace(
        bar,
        where=_describe_place(run, resolved.timeline, place),
        caption=step_caption(run, leading, step, head),
        equation=equation(run, leading, step, head),
    )


def _describe_place(run: Run, timeline: Timeline, place: Place) -> str:
    title = run.trace.stage(place.stage).title
    rows, columns = next(size[1:] for size in timeline.sizes if size[0] == place.stage)
    if timeline.grain is Grain.STAGE:
        return f"{title}, all rows"
    row = f"{title}, row {place.row + 1:,} of {rows:,}"
    column = f", column {place.column + 1:,} of {columns:,}"
    return row + column * (timeline.grain is Grain.CELL)
