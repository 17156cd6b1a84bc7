"""Presenter of the overview: the weights of all heads of all layers as small heatmaps."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.head_measures import measure_patterns, measure_uniform_patterns
from visualizer.attention.masks import MaskingSpec, blocks_with_allowed_cells
from visualizer.attention.roles import Role
from visualizer.errors import InputError
from visualizer.features.layer_overview.findings import Finding, find_strongest_heads
from visualizer.format import format_count, format_percentage
from visualizer.heatmap.colour_range import AutomaticColourRange, find_cached_range
from visualizer.session.document import Document
from visualizer.session.head_order import CHANGE_MEASURE, ORDERS, HeadOrder, find_head_order_spec
from visualizer.session.model_pane_options import HIDDEN_MESSAGE
from visualizer.session.pane_spec import PanelSpec, prefetch_without_panel
from visualizer.session.provenance import has_random_weights
from visualizer.session.resolved_view import resolve_view
from visualizer.session.screen import PanelId
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.attention.blockwise_tensor import BlockwiseTensor
    from visualizer.attention.head_measures import HeadMeasures
    from visualizer.attention.model_forward_pass import NextTokenCandidate
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.models.model_source import ModelSource
    from visualizer.session.resolved_view import ResolvedView

PANE_TITLE = "Layers"
MAX_CELLS_PER_SIDE = 32
"""Maximum number of cells per side of a heatmap; each cell shows the largest weight in a block."""
MEASURES = tuple({*(row.measure for row in ORDERS if row.measure), "entropy"} - {CHANGE_MEASURE})
PATTERN_ORDERS = tuple(row for row in ORDERS if row.order is not HeadOrder.VALUE_WEIGHTING)
"""Head orders that sort by an attention pattern; the most prominent one describes a head."""
SIMILARITY_SIDE_CELLS = 8
"""Number of cells per side that are sampled to compare heads."""
MAX_NEXT_TOKENS, MAX_LAST_WORDS = 8, 6
SCORES_ONLY_MESSAGE = "This file contains scores only; the overview needs attention weights."
SAMPLED_NOTICE = (
    "This text is long: each heatmap shows one of every {block:,} rows, and the measures count "
    "only the last earlier occurrence of a token."
)
UNMEASURED_NOTICE = (
    "This text is long: each heatmap shows one of every {block:,} rows, and heads are sorted by "
    "layer."
)
LayerHeadIndex = tuple[int, int]
"""A zero-based layer index in the run, and a head index."""


def short_head_name(layer: int, head: int) -> str:
    """Return the short name of a head; both numbers are counted from 1."""
    return f"L{layer} H{head}"


class LayerOverviewPanel(Struct, frozen=True, eq=False):
    """The Layers pane.

    Parameters
    ----------
    weights : ndarray or None
        The largest weight of each block, [layer, head, row, column]; NaN if no cell of a block
        is allowed. None if there is nothing to show.
    message : str
        The reason why there is nothing to show.
    layers : tuple of int
        The zero-based number of each layer in its model.
    order : HeadOrder
        The order of the heads.
    places : tuple of LayerHeadIndex
        The heads in this order.
    columns : int
        Number of heads per row; if the heads are arranged by layer, this is the number of layers.
    shown : frozenset of LayerHeadIndex
        The heads on the board.
    edits : mapping
        A description of the edit of each edited head.
    map_name : str
        The colour map of weights.
    ranges : tuple of AutomaticColourRange
        The range of the weights of each layer.
    block : int
        Number of queries pooled into a row.
    tokens : tuple of str
        The tokens of the text.
    is_switchable : bool
        Whether the heads can be ablated.
    measures : HeadMeasures or None
        The source of the values, used to recognize an unchanged panel.
    values : mapping
        Each measure of every head, [layer, head]; NaN if a head has none.
    uniform : mapping
        Each measure of a head with uniform attention over the allowed keys.
    note : str
        Sentences that state which weights are shown, and what is omitted for a long text.
    findings : tuple of Finding
        The strongest head for each pattern that stands out.
    is_random : bool
        Whether the weights of the model are random; then no attention pattern is a finding.
    next_tokens : tuple of NextTokenCandidate
        The most likely next tokens; empty if the model predicts none.
    end_of_text : str
        The last words of the text, which the next tokens follow.
    is_edited : bool
        Whether the next tokens were computed with an edited model.
    """

    weights: np.ndarray | None = None
    message: str = ""
    layers: tuple[int, ...] = ()
    order: HeadOrder = HeadOrder.LAYER
    places: tuple[LayerHeadIndex, ...] = ()
    columns: int = 1
    shown: frozenset[LayerHeadIndex] = frozenset()
    edits: Mapping[LayerHeadIndex, str] = {}
    map_name: str = ""
    ranges: tuple[AutomaticColourRange, ...] = ()
    block: int = 1
    tokens: tuple[str, ...] = ()
    is_switchable: bool = False
    measures: HeadMeasures | None = None
    values: Mapping[str, np.ndarray] = {}
    uniform: Mapping[str, float] = {}
    note: str = ""
    findings: tuple[Finding, ...] = ()
    is_random: bool = False
    next_tokens: tuple[NextTokenCandidate, ...] = ()
    end_of_text: str = ""
    is_edited: bool = False

    def head_name(self, place: LayerHeadIndex) -> str:
        """Return the name of a head."""
        layer, head = place
        return f"Layer {self.layers[layer] + 1}, head {head + 1}"

    def describe_head(self, place: LayerHeadIndex) -> str:
        """Describe what a head attends to, compared with uniform attention."""
        becomes = f" ({self.edits[place]})" if place in self.edits else ""
        parts = [self.head_name(place) + becomes]
        sorted_by = find_head_order_spec(self.order)
        sorting = self.values.get(sorted_by.measure)
        is_sorted = sorting is not None and math.isfinite(float(sorting[place]))
        if is_sorted and place in self.places:
            parts[0] += f", rank {self.places.index(place) + 1:,} of {len(self.places):,}"
        rows = (sorted_by,) if sorted_by.behaviour else PATTERN_ORDERS
        patterns = [
            (float(self.values[row.measure][place]), self.uniform[row.measure], row.behaviour)
            for row in rows
            if row.behaviour and row.measure in self.values
        ]
        known = [each for each in patterns if math.isfinite(each[0] - each[1])]
        if known:
            value, chance, reads = max(known, key=lambda each: each[0] - each[1])
            found = (
                f"{reads}: {format_percentage(value)}, uniform "
                f"attention {format_percentage(chance)}"
            )
            is_outstanding = value > chance or sorted_by.behaviour
            parts.append(found if is_outstanding else "no pattern stands out")
        spread = float(self.values["entropy"][place]) if self.uniform else math.nan
        if math.isfinite(spread):
            uniform = self.uniform["entropy"]
            parts.append(f"entropy {spread:.2f} bits, uniform attention {uniform:.2f}")
        if self.values and self.values[CHANGE_MEASURE].any():
            change = format_percentage(float(self.values[CHANGE_MEASURE][place]))
            parts.append(f"weights changed by the edits: {change}")
        return "; ".join(parts) + "."


LAYERS_PANEL: PanelId[LayerOverviewPanel] = PanelId(PANE_TITLE)


def prefetch_key(resolved: ResolvedView) -> tuple[int, HeadOrder]:
    """Return a key for the data that `present_layer_overview` needs."""
    return resolved.run.trace.axis_position("text", resolved.leading), resolved.view.head_order


def prefetch(resolved: ResolvedView) -> None:
    """Pool and measure the weights for `present_layer_overview`; called on the worker."""
    run = resolved.run
    if Role.WEIGHTS in run.trace:
        text = run.trace.axis_position("text", resolved.leading)
        weights = _pool_weights(run, text)
        _colour_range_per_layer(run, text)
        if _are_head_measures_cheap(run):
            _measure_heads(run, resolved.leading)
        if resolved.view.head_order is HeadOrder.ALIKE:
            _cached_similarity_order(run, weights, text)


def present_layer_overview(
    resolved: ResolvedView, previous: LayerOverviewPanel | None
) -> LayerOverviewPanel:
    """Present the heads of all layers, for the current text."""
    run = resolved.run
    if Role.WEIGHTS in resolved.hidden_stages:
        return LayerOverviewPanel(message=HIDDEN_MESSAGE)
    if Role.WEIGHTS not in run.trace:
        return LayerOverviewPanel(message=SCORES_ONLY_MESSAGE)
    text = run.trace.axis_position("text", resolved.leading)
    panel = _present_weights_only(resolved)
    weights = panel.weights
    assert weights is not None
    changes = run.reading.changes if run.reading else None
    changes = np.zeros(weights.shape[:2]) if changes is None else changes
    panel = replace(panel, values={CHANGE_MEASURE: changes})
    if _are_head_measures_cheap(run):
        measures, uniform = _measure_heads(run, resolved.leading)
        values = {
            name: _select_values_of_text(getattr(measures, name), run, text) for name in MEASURES
        }
        panel = replace(
            panel,
            measures=measures,
            values={**values, **panel.values},
            uniform={name: float(getattr(uniform, name)[0]) for name in MEASURES},
        )
    if not panel.is_random:
        panel = replace(panel, findings=find_strongest_heads(panel.values, panel.uniform))
    if previous and _differ_in_ablations_only(previous, panel):
        places = previous.places  # keep the order while heads are ablated or restored
    else:
        places = _sort_heads(panel, lambda: _cached_similarity_order(run, weights, text))
    panel = replace(panel, places=places)
    return previous if previous and _are_panels_equal(previous, panel) else panel


def _present_weights_only(resolved: ResolvedView) -> LayerOverviewPanel:
    """Present the weights of the heads without computing measures or sorting the heads."""
    run, view, trace = resolved.run, resolved.view, resolved.run.trace
    text = trace.axis_position("text", resolved.leading)
    weights, numbers = _pool_weights(run, text), resolved.layer_numbers
    heads = weights.shape[1]
    edits = {
        (numbers.index(at), head): words
        for (at, head), words in _describe_edits(run, resolved.model_of_run).items()
        if at in numbers and head < heads
    }
    layer = trace.axis_position("layer", resolved.leading)
    return LayerOverviewPanel(
        weights,
        layers=numbers,
        order=view.head_order,
        columns=_count_columns(view.head_order, *weights.shape[:2]),
        shown=frozenset((layer, head) for head in resolved.heads),
        edits=edits,
        map_name=view.colouring.sequential,
        ranges=_colour_range_per_layer(run, text),
        block=_pooling_block_size(run),
        tokens=run.texts[text],
        is_switchable=run.reading is not None and run.reading.are_heads_switchable,
        note=_describe_shown_weights(run),
        is_random=has_random_weights(run),
        next_tokens=_most_likely_tokens(run),
        end_of_text=" ".join(
            (resolved.computed or resolved.document).text.split()[-MAX_LAST_WORDS:]
        ),
        is_edited=run.reading is not None and run.reading.is_edited,
    )


def _count_columns(order: HeadOrder, layers: int, heads: int) -> int:
    """Return the number of heads per row; if they are arranged by layer, each column is a layer."""
    return layers if order is HeadOrder.LAYER else heads


def _most_likely_tokens(run: Run) -> tuple[NextTokenCandidate, ...]:
    found = run.reading.next_tokens if run.reading else ()
    return tuple(sorted(found, key=lambda row: -row.probability))[:MAX_NEXT_TOKENS]


def _describe_shown_weights(run: Run) -> str:
    """Describe which weights are shown, and what is omitted for a long text."""
    qualifier = run.trace.weights_qualifier(run.trace.attention_stage_name)
    which = f"Weights {qualifier}." * bool(qualifier)
    if not run.trace.is_blockwise:
        return which
    template = SAMPLED_NOTICE if _are_head_measures_cheap(run) else UNMEASURED_NOTICE
    return " ".join(filter(None, (which, template.format(block=_pooling_block_size(run)))))


def _describe_edits(run: Run, model: ModelSource | None) -> dict[LayerHeadIndex, str]:
    """Describe the edits of heads, including cut edges, by their numbers in the model."""
    if run.reading:
        becomes, cuts = run.reading.edits, run.reading.cuts
    elif model:
        becomes, cuts = model.edit_descriptions_by_head, model.cut_cells_by_head
    else:
        return {}
    descriptions: dict[LayerHeadIndex, list[str]] = {
        place: [words] for place, words in becomes.items()
    }
    for place, cells in cuts.items():
        descriptions.setdefault(place, []).append(f"{format_count(len(cells), 'edge')} cut")
    return {place: ", ".join(words) for place, words in descriptions.items()}


def _differ_in_ablations_only(one: LayerOverviewPanel, other: LayerOverviewPanel) -> bool:
    """Return whether two panels of a model's heads differ only in the heads that are ablated."""
    names = ("order", "tokens", "layers", "columns", "is_switchable")
    is_model = other.is_switchable and bool(one.places) and other.order is not HeadOrder.CHANGED
    return is_model and all(getattr(one, name) == getattr(other, name) for name in names)


def _are_panels_equal(one: LayerOverviewPanel, other: LayerOverviewPanel) -> bool:
    if one.weights is not other.weights or one.measures is not other.measures:
        return False
    names = {*one.__struct_fields__} - {"weights", "measures", "values", "uniform"}
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _pooling_block_size(run: Run) -> int:
    return math.ceil(max(run.trace.query_key_counts) / MAX_CELLS_PER_SIDE)


def _pool_weights(run: Run, text: int) -> np.ndarray:
    """Return the pooled weights of one text, [layer, head, row, column].

    For a long text, only one row per block is read.
    """
    weights, block, trace = (
        run.trace.cached_stage_tensor(Role.WEIGHTS),
        _pooling_block_size(run),
        run.trace,
    )
    places = [trace.leading_index(layer=at, text=text) for at in range(trace.axis_size("layer"))]

    def make() -> np.ndarray:
        if weights.is_blockwise:
            sampled = cast("BlockwiseTensor", weights)
            heads = [(*place, head) for place in places for head in range(trace.spec.heads)]
            whole = np.stack([sampled.sample_pooled_rows(block, head) for head in heads])
        else:
            index = tuple(text if axis == "text" else slice(None) for axis in trace.axes)
            whole = np.array(weights.read_pooled(block, block, index))
        whole = whole.reshape(len(places), -1, *whole.shape[-2:])
        for place, layer in zip(places, whole, strict=True):
            masking = MaskingSpec.from_spec(trace.spec_at(place), Role.WEIGHTS)
            allowed = blocks_with_allowed_cells(
                masking, trace.query_key_counts, text, (block, block)
            )
            layer[..., ~allowed] = math.nan
        whole.flags.writeable = False
        return whole

    pooled: np.ndarray = weights.cached_result(("overview", block, text), make)
    return pooled


def _colour_range_per_layer(run: Run, text: int) -> tuple[AutomaticColourRange, ...]:
    """Return the colour range of each layer, which is the same as on the board."""
    trace, name = run.trace, Role.WEIGHTS
    shown = [(trace, trace.cached_stage_tensor(name))]
    places = [trace.leading_index(layer=at, text=text) for at in range(trace.axis_size("layer"))]
    return tuple(find_cached_range(shown, [place], name, is_share=True) for place in places)


def _are_head_measures_cheap(run: Run) -> bool:
    """Return whether the heads can be measured without reading all weights of a long text."""
    weights = run.trace.cached_stage_tensor(Role.WEIGHTS)
    return not weights.is_blockwise or cast("BlockwiseTensor", weights).can_compute_single_values


def _measure_heads(run: Run, leading: LeadingIndex) -> tuple[HeadMeasures, HeadMeasures]:
    """Return the measures of the heads and of uniform attention.

    For a long text, only the measures that need one key per query are computed.
    """
    trace, texts = run.trace, run.key_texts
    if not trace.is_blockwise:
        uniform = trace.uniform_head_measures(Role.WEIGHTS, leading, texts)
        return trace.head_measures(Role.WEIGHTS, texts), uniform
    weights = cast("BlockwiseTensor", trace.cached_stage_tensor(Role.WEIGHTS))
    words, masking = (
        run.axis_tokens(leading),
        MaskingSpec.from_spec(trace.spec_at(leading), Role.WEIGHTS),
    )
    return (
        weights.cached_result("patterns", lambda: measure_patterns(weights, words)),
        weights.cached_result(
            ("uniform patterns", masking), lambda: measure_uniform_patterns(masking, words)
        ),
    )


def _select_values_of_text(values: np.ndarray, run: Run, text: int) -> np.ndarray:
    """Return a measure of the heads of one text, [layer, head]."""
    index = tuple(text if axis == "text" else slice(None) for axis in run.trace.axes)
    return np.asarray(values[index].reshape(run.trace.axis_size("layer"), -1))


def _sort_heads(
    panel: LayerOverviewPanel, similar_heads: Callable[[], tuple[int, ...]]
) -> tuple[LayerHeadIndex, ...]:
    assert panel.weights is not None
    layer_count, head_count = panel.weights.shape[:2]
    if panel.order is HeadOrder.LAYER:
        return tuple((layer, head) for head in range(head_count) for layer in range(layer_count))
    places = [(layer, head) for layer in range(layer_count) for head in range(head_count)]
    row = find_head_order_spec(panel.order)
    if panel.order is HeadOrder.ALIKE:
        return tuple(places[at] for at in similar_heads())
    if row.measure not in panel.values:
        return tuple(places)
    sign = -1 if row.is_descending else 1
    values = np.nan_to_num(sign * panel.values[row.measure].reshape(-1), nan=math.inf)
    return tuple(places[at] for at in np.argsort(values, kind="stable"))


def _cached_similarity_order(run: Run, weights: np.ndarray, text: int) -> tuple[int, ...]:
    order: tuple[int, ...] = run.trace.cached_stage_tensor(Role.WEIGHTS).cached_result(
        ("similarity", text), lambda: order_heads_by_similarity(weights)
    )
    return order


def order_heads_by_similarity(weights: np.ndarray) -> tuple[int, ...]:
    """Return the indices of the heads, each followed by the most similar of the remaining ones.

    The first head is the one that differs most from the mean of all heads.

    Parameters
    ----------
    weights : ndarray
        Pooled weights, [layer, head, row, column].
    """
    size = max(1, math.ceil(weights.shape[-1] / SIMILARITY_SIDE_CELLS))
    small = np.nan_to_num(weights)[..., ::size, ::size]
    vectors = small.reshape(weights.shape[0] * weights.shape[1], -1).astype(np.float64)
    squares = (vectors**2).sum(1)
    distances = squares[:, None] + squares - 2 * vectors @ vectors.T
    at = int(((vectors - vectors.mean(0)) ** 2).sum(1).argmax())
    left, found = np.ones(len(vectors), bool), [at]
    left[at] = False
    while left.any():
        at = int(np.where(left, distances[at], math.inf).argmin())
        left[at] = False
        found.append(at)
    return tuple(found)


def present_overview_of_runs(
    runs: Sequence[tuple[Run, tuple[int, ...]]], order: HeadOrder
) -> LayerOverviewPanel:
    """Present the heads of several runs of one text as one overview.

    Parameters
    ----------
    runs : sequence of (Run, layers)
        Runs and the numbers of their layers.

    Raises
    ------
    InputError
        For ``layer``, if the layers have different numbers of heads or no run has weights.
    """
    # Measuring takes longer than everything else.
    is_measured = bool(find_head_order_spec(order).measure)
    panels = []
    for run, numbers in runs:
        if Role.WEIGHTS in run.trace:
            resolved = resolve_view(Document(), View(), run)
            panel = (
                present_layer_overview(resolved, None)
                if is_measured
                else _present_weights_only(resolved)
            )
            panels.append(replace(panel, layers=numbers))
    arrays = [panel.weights for panel in panels if panel.weights is not None]
    if len({array.shape[1:] for array in arrays}) != 1:
        raise InputError(
            "layer",
            "The layers cannot be combined: their heads differ in number or size.",
        )
    layers = np.concatenate([panel.layers for panel in panels])
    by_number = np.argsort(layers)
    ranges = [found for panel in panels for found in panel.ranges]
    weights = np.concatenate(arrays)[by_number]
    whole = replace(
        panels[0],
        weights=weights,
        layers=tuple(layers[by_number].tolist()),
        ranges=tuple(ranges[at] for at in by_number),
        order=order,
        columns=_count_columns(order, *weights.shape[:2]),
        shown=frozenset(),
        values={
            name: np.concatenate([panel.values[name] for panel in panels])[by_number]
            for name in panels[0].values
        },
    )
    return replace(whole, places=_sort_heads(whole, lambda: order_heads_by_similarity(weights)))


PANEL = PanelSpec(
    LAYERS_PANEL,
    lambda resolved, inputs, previous: present_layer_overview(resolved, previous),
    LayerOverviewPanel(),
    LAYERS_PANEL.name,
    prefetch_key=prefetch_key,
    prefetch=partial(prefetch_without_panel, prefetch),
    is_refined=True,
)
