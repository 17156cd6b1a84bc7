"""Controls the loss plot of the current run and of the overlaid runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.lab.loss_plot.model import (
    AxisScale,
    LossPlot,
    PlotOptions,
    PlottedRunLosses,
    ReferenceLoss,
)
from visualizer.lab.loss_plot.presenter import present_plot
from visualizer.lab.loss_plot.widget import SMOOTHING_STRENGTHS

if TYPE_CHECKING:
    from visualizer.lab.controller import LabStateController
    from visualizer.lab.loss_plot.widget import LossPlotPane
    from visualizer.lab.runs.controller import RunController
    from visualizer.widgets.theme import Theme


class LossPlotController(QObject):
    """Holds the options of the plot, and shows the losses."""

    changed = Signal()
    """Emitted when the plot's options have changed."""

    def __init__(
        self, lab: LabStateController, run_controller: RunController, pane: LossPlotPane
    ) -> None:
        super().__init__(lab)
        self._lab, self._run_controller, self._pane = lab, run_controller, pane
        self.options = PlotOptions()
        self._plot = LossPlot()
        self._plot_inputs: tuple[object, ...] = ()

    def show_losses(self, theme: Theme) -> None:
        """Show the losses; the plot is built again only if something has changed."""
        run, overlaid = self._lab.run, self._run_controller.overlaid_runs
        losses = run.losses if run else None
        stops = (*run.snapshots, run.step) if run else ()
        shown_step = self._lab.view.step
        inputs = (losses, tuple(overlaid.items()), shown_step, stops, self.options)
        if inputs != self._plot_inputs:
            self._plot_inputs = inputs
            own = [PlottedRunLosses(run.name, run.losses)] if run else []
            others = [
                PlottedRunLosses(name, one, colour)
                for colour, (name, one) in enumerate(sorted(overlaid.items()), 1)
                if run is None or name != run.name
            ]
            lines = self._reference_losses(is_alone=not others)
            self._plot = present_plot(
                [*own, *others], self.options, lines, shown_step, stops, before=self._plot
            )
        self._pane.show_plot(self._plot, self.options, theme)

    def _reference_losses(self, *, is_alone: bool) -> list[ReferenceLoss]:
        """Return the run's reference losses; empty until they are known."""
        run = self._lab.run
        if run is None or not run.tokens:  # the baselines of a recorded run are unknown
            return []
        named = (("unigram baseline", run.frequency), ("bigram baseline", run.bigram))
        suffix = "" if is_alone else f" ({run.name})"
        return [ReferenceLoss(name + suffix, loss) for name, loss in named]

    # ------------------------------------------------------------------ intents

    def set_options(self, options: PlotOptions) -> None:
        self.options = options
        self.changed.emit()

    def toggle_axis_scale(self, axis: str) -> None:
        """Toggle the scale of an axis between linear and logarithmic."""
        is_log = getattr(self.options, axis) is AxisScale.LOG
        scale = AxisScale.LINEAR if is_log else AxisScale.LOG
        self.set_options(replace(self.options, **{axis: scale}))

    def change_smoothing(self, by: int) -> None:
        """Increase or decrease the smoothing by a number of levels, within the limits."""
        index = SMOOTHING_STRENGTHS.index(self.options.smoothing) + by
        index = min(max(index, 0), len(SMOOTHING_STRENGTHS) - 1)
        self.set_options(replace(self.options, smoothing=SMOOTHING_STRENGTHS[index]))

    def select_step(self, step: int) -> None:
        """Select a snapshot by its step; the last step selects the current model."""
        run = self._lab.run
        if run:
            self._lab.select_snapshot(None if step >= run.step else step)
