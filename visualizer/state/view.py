"""What is looked at: stages, text, cells, colours. Not undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from visualizer.state.code.dialects import Dialect
from visualizer.state.lines.look import LineLook
from visualizer.state.playback.timeline import Playhead

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.state.lessons.pages import Reading


# In a longer text nearly all weights are so small that on a scale to 1 all look alike.
SHORT = 24


class ColourScale(StrEnum):
    """How numbers become colours; automatic is linear for short texts, by row for long ones."""

    AUTO = "automatic"
    LINEAR = "linear"
    ROW = "row"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a stage, of the text that is looked at.

    Parameters
    ----------
    place : tuple of int
        Within the stage's named dims.
    """

    stage: str
    place: tuple[int, ...]


class Question(StrEnum):
    """What is to be predicted of a covered stage."""

    LARGEST = "largest"
    ZERO = "zero"


@dataclass(frozen=True, slots=True)
class Guess:
    """A stage that is covered until its cells have been predicted.

    Parameters
    ----------
    marks : tuple of Cell
        The cells that the viewer has marked.
    """

    stage: str
    question: Question = Question.LARGEST
    marks: tuple[Cell, ...] = ()
    is_revealed: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What of a run is shown.

    Parameters
    ----------
    stages : frozenset of str
        Stages with a panel, where the spec has them.
    text : int
        Which text of a batch.
    lines : LineLook
        Which lines of the line view.
    panes : frozenset of str
        The panes that can be seen: what is in others need not be made.
    room : int
        Cells that a panel's side has room for; more are pooled.
    guess : Guess or None
        What is being predicted.
    dialect : Dialect
        In whose words the code is.
    reading : Reading or None
        The page of a lesson.
    past, future : tuple of Cell
        Cells that were pinned before this one, and after it where one has gone back: nearest last.
    """

    stages: frozenset[str] = frozenset({"scores", "weights", "dropped", "context"})
    text: int = 0
    panes: frozenset[str] = frozenset()
    hovered: Cell | None = None
    pinned: Cell | None = None
    scale: ColourScale = ColourScale.AUTO
    sequential: str = "viridis"
    diverging: str = "CET-CBD1"
    room: int = 256
    playhead: Playhead = field(default_factory=Playhead)
    guess: Guess | None = None
    dialect: Dialect = Dialect.BOOK
    reading: Reading | None = None
    past: tuple[Cell, ...] = ()
    future: tuple[Cell, ...] = ()
    lines: LineLook = field(default_factory=LineLook)


def existing(run: Run, cell: Cell | None) -> Cell | None:
    """Give a cell if the run has it."""
    if cell is None or cell.stage not in run.trace:
        return None
    sizes = run.trace.tensor(cell.stage).shape[len(run.trace.batch) :]
    fits = len(sizes) == len(cell.place)
    inside = fits and all(at < size for at, size in zip(cell.place, sizes, strict=True))
    return cell if inside else None
