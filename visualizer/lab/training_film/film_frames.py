"""The frames of a training film: the attention to one text at every saved step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from visualizer.errors import InputError
from visualizer.export.figure_settings import FigurePaper
from visualizer.export.film_plan import durations
from visualizer.lab.attention_view.presenter import ATTENTION_MISSING, board_of
from visualizer.lab.snapshot_bar.presenter import SnapshotTimeline, present_scrub
from visualizer.session.view_options import ColourOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from visualizer.heatmap.board import Board
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.lab.training.recorded_losses import Measured
    from visualizer.language.training_settings import ModelKind

Losses = tuple["Measured | None", "Measured | None"]
"""The training and the validation loss, if known."""


class TrainingFilmSettings(Struct, frozen=True):
    """The settings of a training film.

    Parameters
    ----------
    ms : float
        Duration of each step in milliseconds.
    width : int
        Width in pixels.
    title : str
        Title above the panels.
    """

    ms: float = 300.0
    loops: bool = True
    width: int = 1280
    title: str = ""
    paper: FigurePaper = FigurePaper.LIGHT
    colouring: ColourOptions = field(default_factory=ColourOptions)


class TrainingFilm(Struct, frozen=True, eq=False):
    """The steps of a film, one frame each; created by `training_film`."""

    results: tuple[ProbeResult, ...]
    model: ModelKind
    now: int
    losses: Mapping[int, Losses]
    settings: TrainingFilmSettings

    def __len__(self) -> int:
        return len(self.results)

    def board(self, frame: int) -> Board:
        """Return the panels of a frame."""
        return board_of(self.results[frame], self.model, colouring=self.settings.colouring)

    def scrub(self, frame: int) -> SnapshotTimeline:
        """Return the snapshot bar of a frame, with its step and losses in words."""
        step = self.results[frame].step
        steps = (result.step for result in self.results)
        return present_scrub(steps, self.now, step, *self.losses.get(step, (None, None)))

    def durations(self, unit_ms: int) -> tuple[int, ...]:
        """Return the number of time units for which each frame is shown."""
        return durations(len(self), self.settings.ms, unit_ms)


def training_film(
    results: Iterable[ProbeResult],
    model: ModelKind,
    now: int,
    losses: Mapping[int, Losses],
    settings: TrainingFilmSettings | None = None,
) -> TrainingFilm:
    """Create a film from probe results.

    Parameters
    ----------
    results : iterable of ProbeResult
        Results for one text, each at a saved step, in any order.
    now : int
        Number of steps done.
    losses : mapping
        Losses by step, as far as known.

    Raises
    ------
    InputError
        If there are no results.
    """
    ordered = tuple(sorted(results, key=lambda result: result.step))
    if not ordered:
        sentence = "This run has no snapshots yet. Train for more steps."
        raise InputError("export", sentence)
    if any(result.weights is None for result in ordered):
        raise InputError("export", ATTENTION_MISSING)
    if len({result.tokens for result in ordered}) > 1:
        raise InputError(
            "export", "The text changed during the export. Export the animation again."
        )
    return TrainingFilm(ordered, model, now, losses, settings or TrainingFilmSettings())
