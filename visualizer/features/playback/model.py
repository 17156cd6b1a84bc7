"""The transport: where playback stands, what its step says, and what can be done next.

The caption of a playback step: one plain sentence that can be read aloud.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from visualizer.attention.explain import explain
from visualizer.explanations.cell_explanation import SENTENCES, CellFacts
from visualizer.explanations.prediction_check import instruction
from visualizer.explanations.row_explanation import ROWS
from visualizer.explanations.stage_explanation import STAGES
from visualizer.explanations.step_equation import Equation, equation
from visualizer.explanations.step_values import EMPTY, StepValues
from visualizer.session.cells import Cell
from visualizer.session.screen import PanelId
from visualizer.session.timeline import Grain, Place, Playhead, Timeline

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.heatmap.step_highlights import Highlights
    from visualizer.session.prediction import PredictionQuestion
    from visualizer.session.resolve import Resolved
    from visualizer.session.timeline import Step


@dataclass(frozen=True, slots=True)
class TimelineSegment:
    """A stage on the track.

    Parameters
    ----------
    start : int
        The number of its first step.
    """

    stage: str
    title: str
    start: int


@dataclass(frozen=True, slots=True)
class PlaybackBarState:
    """All that the bar of playback shows.

    Parameters
    ----------
    position : int
        The number of the present step; that of all steps at the end.
    caption : str
        What happens, in one sentence (HTML); empty where nothing is played.
    question : Question or None
        What is being predicted.
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
    made_of: Hashable = field(default=None, compare=False, repr=False)


PLAYBACK: PanelId[PlaybackBarState] = PanelId("Playback")


def present_transport(
    resolved: Resolved, previous: PlaybackBarState, lights: Highlights
) -> PlaybackBarState:
    """Show where playback stands in a run; the very same as before where nothing moved."""
    if previous.made_of == resolved.step_key:
        return previous
    guess, place, timeline = resolved.prediction, resolved.place, resolved.timeline
    stops = tuple(
        TimelineSegment(stage.name, stage.title, start)
        for stage, start in zip(resolved.run.trace.stages, timeline.starts, strict=False)
    )
    transport = PlaybackBarState(
        timeline.position(Place(guess.stage) if guess else place),
        len(timeline),
        stops,
        resolved.view.playhead,
        made_of=resolved.step_key,
    )
    if guess:
        said = lights.verdict.sentence if lights.verdict else instruction(resolved.run, guess)
        is_revealed = guess.is_revealed
        return replace(transport, caption=said, question=guess.question, is_revealed=is_revealed)
    return _playing(resolved, place, transport) if place else transport


def _playing(resolved: Resolved, place: Place, transport: PlaybackBarState) -> PlaybackBarState:
    run, text, head = resolved.run, resolved.text, resolved.told_head
    step = resolved.timeline.step(place)
    return replace(
        transport,
        where=_where(run, resolved.timeline, place),
        caption=step_caption(run, text, step, head),
        equation=equation(run, text, step, head),
    )


def _where(run: Run, timeline: Timeline, place: Place) -> str:
    title = run.trace.stage(place.stage).title
    rows, columns = next(size[1:] for size in timeline.sizes if size[0] == place.stage)
    if timeline.grain is Grain.STAGE:
        return f"{title}, whole"
    row = f"{title}, row {place.row + 1:,} of {rows:,}"
    column = f", column {place.column + 1:,} of {columns:,}"
    return row + column * (timeline.grain is Grain.CELL)


def step_caption(run: Run, text: int, step: Step, head: int) -> str:
    """Tell what happens in a step, in one sentence with the tokens in bold (HTML).

    A cell that is a whole row of its stage is told as the row.

    Parameters
    ----------
    text : int
        Which text of a batch.
    head : int
        The head that is told of, where the stage has heads.
    """
    block = StepValues(run, run.nearest(text), step, min(head, run.trace.spec.heads - 1))
    operation = block.stage.operation
    if len(step.rows) > 1:
        return block.sentence(STAGES[operation](block))
    if len(step.columns) == run.trace.tensor(step.stage).shape[-1]:
        return block.sentence(ROWS[operation](block))
    return _of_cell(block)


def _of_cell(block: StepValues) -> str:
    head = (block.head,) if "head" in block.stage.dims else ()
    cell = Cell(block.stage.name, (*head, block.at, block.step.columns[0]))
    batch = block.run.index(block.text)
    explanation = explain(block.run.trace, cell.stage, (*batch, *cell.place))
    told = CellFacts(block.run, block.text, cell, explanation)
    sentence = SENTENCES[block.stage.operation](told).replace("<b></b>", f"<b>{EMPTY}</b>")
    if not told.in_head or told.in_head in sentence:
        return sentence
    return f"{told.in_head.strip().capitalize()}, {sentence[0].lower()}{sentence[1:]}"
