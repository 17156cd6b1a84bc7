"""The model of the loss plot: lines, axes, readout and texts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from visualizer.lab.loss_plot.model import (
    EMPTY_MESSAGE,
    AxisScale,
    LossLine,
    LossLineRole,
    LossPlot,
    PlotOptions,
    PlottedRunLosses,
    ReferenceLoss,
)
from visualizer.lab.loss_plot.presenter import nearest_step_index, present_plot, read_values_at_step
from visualizer.lab.training.loss_history import LossHistory
from visualizer.language.training_progress import TrainingProgress, format_time_left

BIGRAM = ReferenceLoss("bigram counts", 2.5)
FREQUENCY = ReferenceLoss("unigram baseline", 3.3)
STEPS = np.arange(1, 11)
TEN = LossHistory.of(STEPS, 4 - STEPS / 5, np.full(10, 1e-3), [0, 5, 10], [4.1, 3.0, 2.2])


def plot_of(
    *losses: LossHistory, options: PlotOptions | None = None, shown_step: int | None = None
) -> LossPlot:
    curves = [PlottedRunLosses(f"run {at}", one, at) for at, one in enumerate(losses, start=1)]
    return present_plot(
        curves, options or PlotOptions(), (FREQUENCY, BIGRAM), shown_step, (0, 5, 10)
    )


def line(plot: LossPlot, role: LossLineRole, name: str = "") -> LossLine:
    return next(each for each in plot.lines if (each.role, each.name) == (role, name))


def test_an_empty_plot_states_what_will_appear() -> None:
    for plot in (plot_of(), plot_of(LossHistory.of())):
        assert (plot.lines, plot.message, plot.description) == ((), EMPTY_MESSAGE, EMPTY_MESSAGE)


def test_a_validation_before_the_first_step_is_shown() -> None:
    plot = plot_of(LossHistory.of(validation_steps=[0], validation=[4.1]))
    assert [each.role for each in plot.lines] == [LossLineRole.VALIDATION]
    assert plot.message == ""


def test_one_run_has_three_lines() -> None:
    plot = plot_of(TEN)
    assert [each.role for each in plot.lines] == [
        LossLineRole.EACH,
        LossLineRole.TRAINING,
        LossLineRole.VALIDATION,
    ]
    assert line(plot, LossLineRole.EACH).values is TEN.training
    assert line(plot, LossLineRole.VALIDATION).values is TEN.validation
    assert [key.text for key in plot.keys] == [
        *("training (smoothed over about 20 steps)", "each step", "validation")
    ]
    assert {key.colour for key in plot.keys} == {1}


def test_without_smoothing_the_line_shows_each_step() -> None:
    plot = plot_of(TEN, options=PlotOptions(smoothing=0))
    assert [each.role for each in plot.lines] == [LossLineRole.TRAINING, LossLineRole.VALIDATION]
    assert line(plot, LossLineRole.TRAINING).values.tolist() == TEN.training.tolist()
    assert plot.keys[0].text == "training"


def test_the_open_run_is_on_top_and_faint_lines_are_below() -> None:
    plot = plot_of(TEN, TEN, TEN)
    assert [(each.role, each.name[-1:]) for each in plot.lines] == [
        (role, name) for role in LossLineRole for name in "321"
    ]
    assert [(key.text, key.colour) for key in plot.keys[:3]] == [
        *(("run 1", 1), ("run 2", 2), ("run 3", 3))
    ]
    assert {key.colour for key in plot.keys[3:]} == {None}


def test_axes_include_all_losses() -> None:
    plot = plot_of(TEN)
    assert (plot.x.low, plot.x.high) == (0, 10)
    assert plot.y.low < 2 < 4.1 < plot.y.high
    far = plot_of(LossHistory.of([1], [1.0], [0.1]))
    assert far.y.high > 3.3
    assert (plot.x.title, plot.y.title) == ("step", "loss (nats per token)")


def test_the_axis_does_not_extend_below_0() -> None:
    learnt = LossHistory.of([1, 2], [3.0, 0.001], np.ones(2))
    assert plot_of(learnt).y.low == 0
    below = LossHistory.of([1, 2], [3.0, -1.0], np.ones(2))
    assert plot_of(below).y.low < -1


def test_axes_include_negative_losses() -> None:
    losses = LossHistory.of([1, 2, 3], [-1.0, -0.5, -8.0], np.ones(3))
    plot = present_plot([PlottedRunLosses("", losses)], PlotOptions())
    assert plot.y.low < -8
    assert plot.y.high > -0.5
    assert not plot.notices


@pytest.mark.parametrize("scale", AxisScale)
@pytest.mark.parametrize(
    "values", [[2.0], [0.0], [0.0, 0.0], [1.0, 1.0], [math.nan], [math.inf], [1e308], [-1.0, -2.0]]
)
def test_axes_of_unusual_losses_have_a_length(scale: AxisScale, values: list[float]) -> None:
    losses = LossHistory.of(range(1, len(values) + 1), values, np.ones(len(values)))
    plot = present_plot([PlottedRunLosses("", losses)], PlotOptions(losses=scale, steps=scale))
    for axis in (plot.x, plot.y):
        assert axis.low < axis.high
        assert axis.low > 0 or scale is AxisScale.LINEAR
        assert np.isfinite(axis.values_to_shares(np.array([axis.low, axis.high]))).all()
    assert plot.description


def diverged() -> LossHistory:
    values = np.append(4 - STEPS[:6] / 5, [1e9, math.inf, math.nan, math.nan])
    return LossHistory.of(STEPS, values, np.ones(10), [5, 10], [3.0, math.nan])


def test_divergence_does_not_flatten_earlier_losses() -> None:
    plot = plot_of(diverged())
    assert plot.y.high < 20
    assert plot.notices == ("Losses up to 1.00e+09 are outside the plot.",)
    assert [(one.step, one.description) for one in plot.loss_gaps] == [
        (8, "NaN or infinite at step 8")
    ]
    for said in ("The loss is NaN or infinite at step 8.", *plot.notices):
        assert said in plot.description
    on_log = plot_of(diverged(), options=PlotOptions(losses=AxisScale.LOG))
    assert on_log.y.high > 1e9
    assert on_log.notices == ()


def test_the_nearest_points_are_read() -> None:
    reading = read_values_at_step(plot_of(TEN), 7)
    rows = {row.title: row.value for row in reading.rows}
    assert (reading.step, rows["each step"]) == (7, "2.600")
    assert rows["validation"] == "3.000 (step 5)"
    assert rows["learning rate"] == "0.001"
    assert read_values_at_step(plot_of(TEN), 99).step == 10
    assert read_values_at_step(plot_of(TEN), -1).step == 0


def test_faint_lines_are_not_read_for_several_runs() -> None:
    reading = read_values_at_step(plot_of(TEN, TEN), 5)
    assert {row.title for row in reading.rows} == {
        f"run {run}, {role}"
        for run in (1, 2)
        for role in (LossLineRole.TRAINING, LossLineRole.VALIDATION)
    }


def test_the_nearest_step_is_found() -> None:
    steps = np.array([2, 4, 10])
    for step in np.linspace(0, 12, 49):
        found = nearest_step_index(steps, step)
        assert abs(steps[found] - step) == np.abs(steps - step).min()


def test_the_plot_is_described_completely() -> None:
    told = plot_of(TEN).description
    assert told.startswith("Step 10: ")
    assert "Lowest validation: 2.200 at step 10." in told
    assert "Below bigram counts, 2.500." in told
    early = plot_of(LossHistory.of([1], [3.0], [0.1]), shown_step=1).description
    assert "Not below bigram counts, 2.500." in early
    assert "Below unigram baseline, 3.300." in early
    assert plot_of(TEN, shown_step=5).description.startswith("Step 5: validation 3.000, ")


def test_smoothed_losses_are_extended() -> None:
    before = plot_of(TEN)
    longer = TEN.with_appended([11], [1.0], [1e-3])
    curves = [PlottedRunLosses("run 1", longer, 1)]
    plot = present_plot(curves, PlotOptions(), before=before)
    anew = present_plot(curves, PlotOptions())
    found, wanted = (line(one, LossLineRole.TRAINING).values for one in (plot, anew))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.shares_memory(found, plot.smoothed_losses[0].values)


# ---------------------------------------------------------------------------------- performance


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (3, "a few seconds left"),
        (33, "30 s left"),
        (58, "1 min left"),
        (242, "4 min left"),
        (3599, "1 h left"),
        (4800, "1 h 20 min left"),
        (86_400, "1 day left"),
        (400_000, "5 days left"),
        (math.inf, ""),
        (math.nan, ""),
        (-1, ""),
    ],
)
def test_the_remaining_time_is_formatted(seconds: float, says: str) -> None:
    assert format_time_left(seconds) == says


def test_unknown_values_are_not_shown() -> None:
    assert TrainingProgress(0, 3000, 1e-3).status_texts == (
        "step 0 of 3,000",
        "learning rate 0.001",
    )
    assert TrainingProgress(1200, 3000, 3e-4, 12_345.6, 242).status_texts == (
        "step 1,200 of 3,000",
        "4 min left",
        "12,300 tokens per second",
        "learning rate 0.0003",
    )
    assert TrainingProgress(1, 2, 1, 87.4).status_texts[1] == "87 tokens per second"
