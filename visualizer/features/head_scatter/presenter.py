"""Presenter of the Scatter pane: all heads by two measures, compared with uniform attention."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisKind,
    AnalysisRequest,
    LogitAttributionResult,
)
from visualizer.attention.roles import Role
from visualizer.format import format_two_decimals
from visualizer.session.model_pane_options import (
    HIDDEN_MESSAGE,
    SCORES_ONLY_MESSAGE,
    MeasurementStatus,
    measurement_status,
)
from visualizer.session.pane_spec import PanelSpec, prefetch_without_panel
from visualizer.session.retrieval_weights import available_retrieval_weights
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.model_forward_pass import ModelAnswer
    from visualizer.session.resolved_view import ResolvedView

PANE_TITLE = "Scatter"
UNMEASURED_MESSAGE = "No head has both measures for this text. Choose other measures."
LOGIT_CONTRIBUTION, ABLATION_LOSS = "added", "lost"
LayerHeadIndex = tuple[int, int]
"""The zero-based indices of a layer in the run and of a head."""


class ScatterMeasure(Struct, frozen=True):
    """A measure for an axis; its name is a field of `HeadMeasures` or a constant of this module."""

    name: str
    title: str
    unit: str = ""


MEASURES = (
    ScatterMeasure("previous", "Previous token"),
    ScatterMeasure("induction", "Induction"),
    ScatterMeasure("duplicate", "Duplicate token"),
    ScatterMeasure("first", "First token"),
    ScatterMeasure("own", "Current token"),
    ScatterMeasure("largest", "Largest weight"),
    ScatterMeasure("entropy", "Entropy", "bits"),
    ScatterMeasure("distance", "Distance", "tokens"),
    ScatterMeasure("value_weighting", "Value-weighted"),
)
RETRIEVAL = ScatterMeasure("retrieval", "Retrieval")
"""The weight of the pinned query on the selected tokens; available if a query is pinned."""
MODEL_MEASURES = (
    ScatterMeasure(LOGIT_CONTRIBUTION, "Logit contribution"),
    ScatterMeasure(ABLATION_LOSS, "Loss when ablated", "nats"),
)
"""Measures that are available once the Attribution pane has requested them from the model."""


class ScatterAxis(Struct, frozen=True, eq=False):
    """One axis of the plot.

    Parameters
    ----------
    values : ndarray
        [layer, head]; NaN for heads without a value.
    chance : float
        The value for uniform attention, or for a head without a contribution; NaN if unknown.
    """

    measure: ScatterMeasure
    values: np.ndarray
    chance: float

    @property
    def limits(self) -> tuple[float, float]:
        """The limits of the axis: they include all values and `chance`, and are never equal."""
        known = np.append(self.values[np.isfinite(self.values)], self.chance)
        known = known[np.isfinite(known)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    @property
    def title(self) -> str:
        """The title of the measure, with its unit."""
        unit = f" ({self.measure.unit})" if self.measure.unit else ""
        return f"{self.measure.title}{unit}"

    def describe_head(self, place: LayerHeadIndex) -> str:
        """Describe the value of a head, with the value for uniform attention as a reference."""
        number = format_two_decimals(float(self.values[place]))
        description = f"{self.measure.title} {number} {self.measure.unit}".rstrip()
        has_uniform = self.measure in {*MEASURES, RETRIEVAL} and math.isfinite(self.chance)
        return description + (
            f" (uniform {format_two_decimals(self.chance)})" if has_uniform else ""
        )


class HeadScatterContents(Struct, frozen=True, eq=False):
    """Contents of the Scatter pane.

    Parameters
    ----------
    choices : tuple of ScatterMeasure
        The available measures.
    across, up : ScatterAxis or None
        The axes; None if there is nothing to show.
    message : str
        Why there is nothing to show.
    layers : tuple of int
        For each layer, its zero-based number in the model.
    shown : frozenset of LayerHeadIndex
        The heads that the heatmaps show.
    map_name : str
        The colour map for the layers.
    offer : MeasurementStatus or None
        The offer to measure the heads of a long text; None once they have been measured.
    qualifier : str
        Phrase that distinguishes the weights before and after a step, if the trace has both.
    """

    choices: tuple[ScatterMeasure, ...] = MEASURES
    across: ScatterAxis | None = None
    up: ScatterAxis | None = None
    message: str = ""
    layers: tuple[int, ...] = ()
    shown: frozenset[LayerHeadIndex] = frozenset()
    map_name: str = ""
    made_of: tuple[object, ...] = ()
    offer: MeasurementStatus | None = None
    qualifier: str = ""

    @property
    def plotted_heads(self) -> tuple[LayerHeadIndex, ...]:
        """The heads that have both measures, from left to right."""
        if self.across is None or self.up is None:
            return ()
        across, up = self.across.values, self.up.values
        known = np.argwhere(np.isfinite(across) & np.isfinite(up)).tolist()
        places = [(layer, head) for layer, head in known]
        return tuple(sorted(places, key=lambda place: (across[place], place)))

    def describe_head(self, place: LayerHeadIndex) -> str:
        """Describe a head by both measures, with the values for uniform attention."""
        descriptions = [axis.describe_head(place) for axis in (self.across, self.up) if axis]
        head = f"Layer {self.layers[place[0]] + 1}, head {place[1] + 1}"
        return f"{', '.join(filter(None, (head, self.qualifier)))}: {'; '.join(descriptions)}."

    def as_tsv(self) -> str:
        """Format the heads as tab-separated values, for a spreadsheet."""
        if self.across is None or self.up is None:
            return ""
        lines = [f"Layer\tHead\t{self.across.title}\t{self.up.title}"]
        for layer, head in self.plotted_heads:
            across, up = (axis.values[layer, head] for axis in (self.across, self.up))
            lines.append(f"{self.layers[layer] + 1}\t{head + 1}\t{across:.7g}\t{up:.7g}")
        return "".join(f"{line}\n" for line in lines)


SCATTER_PANEL: PanelId[HeadScatterContents] = PanelId(PANE_TITLE)


def prefetch(resolved: ResolvedView) -> None:
    """Measure the heads for `present_scatter`; called on the worker thread."""
    trace, texts = resolved.run.trace, resolved.run.key_texts
    if Role.WEIGHTS in trace and trace.has_head_measures(Role.WEIGHTS, texts):
        trace.head_measures(Role.WEIGHTS, texts)
        trace.uniform_head_measures(Role.WEIGHTS, resolved.leading, texts)


def present_scatter(
    resolved: ResolvedView, previous: HeadScatterContents | None = None
) -> HeadScatterContents:
    """Present all heads of the current text by the two chosen measures."""
    run, options = resolved.run, resolved.view.scatter
    if Role.WEIGHTS in resolved.hidden_stages:
        return HeadScatterContents(message=HIDDEN_MESSAGE)
    if Role.WEIGHTS not in run.trace:
        return HeadScatterContents(message=SCORES_ONLY_MESSAGE)
    if offer := measurement_status(run):
        if previous and previous.offer == offer:
            return previous
        return HeadScatterContents(message=offer.message, offer=offer)
    model_answers = _known_answers(resolved)
    measures = run.trace.head_measures(Role.WEIGHTS, run.key_texts)
    layer = run.trace.axis_position("layer", resolved.leading)
    shown = frozenset((layer, head) for head in resolved.heads)
    map_name = resolved.view.colouring.sequential
    retrieval = available_retrieval_weights(resolved)
    qualifier = run.trace.weights_qualifier(run.trace.attention_stage_name)
    viewed = options, shown, map_name, resolved.leading, qualifier
    made_of = (measures, retrieval, *viewed, *model_answers)
    if previous and previous.made_of == made_of:
        return previous
    answers = _values_by_measure(model_answers, resolved)
    marked = (RETRIEVAL,) if retrieval else ()
    choices = (*MEASURES, *marked, *(each for each in MODEL_MEASURES if each.name in answers))
    by_name = {each.name: each for each in choices}
    across, up = (
        _build_axis(resolved, by_name.get(name, default), answers)
        for name, default in zip((options.across, options.up), MEASURES[:2], strict=True)
    )
    panel = HeadScatterContents(
        choices,
        across,
        up,
        layers=resolved.layer_numbers,
        shown=shown,
        map_name=map_name,
        made_of=made_of,
        qualifier=qualifier,
    )
    return panel if panel.plotted_heads else replace(panel, message=UNMEASURED_MESSAGE)


def _build_axis(
    resolved: ResolvedView, measure: ScatterMeasure, answers: dict[str, np.ndarray]
) -> ScatterAxis:
    """Return the axis with the values of all heads for the current text."""
    if measure.name in answers:
        return ScatterAxis(measure, answers[measure.name], 0.0)
    trace, texts = resolved.run.trace, resolved.run.key_texts
    retrieval = available_retrieval_weights(resolved)
    if measure is RETRIEVAL and retrieval:
        return ScatterAxis(measure, retrieval.values, retrieval.chance[0])
    values: np.ndarray = getattr(trace.head_measures(Role.WEIGHTS, texts), measure.name)
    text = trace.axis_position("text", resolved.leading)
    values = values[tuple(text if axis == "text" else slice(None) for axis in trace.axes)]
    uniform = trace.uniform_head_measures(Role.WEIGHTS, resolved.leading, texts)
    return ScatterAxis(
        measure,
        values.reshape(trace.axis_size("layer"), -1),
        float(getattr(uniform, measure.name)[0]),
    )


def _known_answers(resolved: ResolvedView) -> tuple[ModelAnswer | None, ...]:
    """Return the known attribution and ablation results for the selected token."""
    reading, token = resolved.run.reading, resolved.view.attribution.token
    known = reading.answers.known if reading else {}
    kinds = AnalysisKind.PARTS, AnalysisKind.ABLATIONS
    return tuple(known.get(AnalysisRequest(kind, token)) for kind in kinds)


def _values_by_measure(
    answers: tuple[ModelAnswer | None, ...], resolved: ResolvedView
) -> dict[str, np.ndarray]:
    """Return the values [layer, head] that the results contain, keyed by measure name."""
    reading, found = resolved.run.reading, {}
    for answer in answers if reading else ():
        if isinstance(answer, LogitAttributionResult):
            name, layers, values = LOGIT_CONTRIBUTION, answer.parts.layers, answer.parts.heads
        elif isinstance(answer, AblationResult):
            name, layers, values = ABLATION_LOSS, answer.layers, -answer.changes
        else:
            continue
        if reading and {*reading.layers} <= {*layers}:
            found[name] = values[[layers.index(layer) for layer in reading.layers]]
    return found


PANEL = PanelSpec(
    SCATTER_PANEL,
    lambda resolved, inputs, previous: present_scatter(resolved, previous),
    HeadScatterContents(),
    SCATTER_PANEL.name,
    prefetch_key=lambda resolved: resolved.leading,
    prefetch=partial(prefetch_without_panel, prefetch),
    is_refined=True,
    needs_retrieval=True,
)
