"""The table of heads: the measures of each head, and sentences that name the leading heads."""

from __future__ import annotations

import math
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.roles import Role
from visualizer.format import format_number, format_percentage
from visualizer.session.model_pane_options import (
    SCORES_ONLY_MESSAGE,
    MeasurementStatus,
    measurement_status,
)
from visualizer.session.pane_spec import PanelSpec, prefetch_without_panel
from visualizer.session.retrieval_weights import RetrievalWeights, available_retrieval_weights
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from visualizer.attention.head_measures import HeadMeasures
    from visualizer.attention.run import Run
    from visualizer.attention.spec import Texts
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.resolved_view import ResolvedView

PANE_TITLE = "Heads"
EMPTY_CELL = "–"
CROSS_ATTENTION_NOTE = (
    " Queries and keys are different tokens, so measures of the previous token, the current token "
    "and distance are not available."
)
MAX_NAMED_HEADS = 3
"""Maximum number of heads named in a sentence; if there are more, only their number is given."""
OUTLIER_FACTOR = 1.5
"""Factor by which a head that stands out differs from uniform attention; a weight that is halfway
from uniform attention to 100% suffices."""
NEAR_LEADER_SHARE = 0.9
"""Minimum fraction of the largest value for which a head counts as nearly leading."""
NEAR_UNIFORM_MESSAGE = "No head stands out: all are close to uniform attention."
UNIFORM_LABEL = "Uniform"
UNIFORM_DESCRIPTION = "With the same weight on every allowed key"


ColumnValues = tuple[float | None, ...]
"""Values of the heads in the unit of their column, or None for a head without a value."""


class HeadTableColumn(Struct, frozen=True):
    """One column of the table: a measure of heads.

    Parameters
    ----------
    unit : str
        The unit of the values; fractions are shown as percentages.
    description : str
        The definition, as a sentence.
    decimals : int
        The number of decimal places that are shown.
    measure : str
        The name of the field of `HeadMeasures` that contains the values.
    is_small_kept : bool
        Whether values that would be rounded to 0 are shown with more decimal places.
    """

    title: str
    unit: str
    description: str
    decimals: int
    measure: str
    is_small_kept: bool = False

    def read_values(self, measures: HeadMeasures, leading: LeadingIndex) -> ColumnValues:
        """Return the values for the given layer and text, one per head."""
        return self.convert_to_unit(getattr(measures, self.measure)[leading])

    def convert_to_unit(self, numbers: Iterable[float]) -> ColumnValues:
        """Convert numbers to the unit of the column, and NaN to None."""
        factor = 100 if self.unit == "%" else 1
        return tuple(factor * float(one) if math.isfinite(one) else None for one in numbers)

    def format_value(self, value: float | None) -> str:
        """Format a value of this column."""
        if value is None:
            return EMPTY_CELL
        is_lost = self.is_small_kept and 0 < abs(value) < 10**-self.decimals
        if abs(value) >= 1e5 or is_lost:
            return format_number(value)
        return f"{value:.{self.decimals}f}".replace("-", "−" if round(value, self.decimals) else "")


PREVIOUS_COLUMN = HeadTableColumn(
    "Previous",
    "%",
    "Weight on the token before the query, averaged over all queries except the first.",
    1,
    "previous",
)
FIRST_COLUMN = HeadTableColumn("First", "%", "Weight on the first token of the text.", 1, "first")
INDUCTION_COLUMN = HeadTableColumn(
    "Induction",
    "%",
    "Weight on the tokens that followed earlier occurrences of the query’s token, averaged over "
    "queries whose token occurred before.",
    1,
    "induction",
)
DUPLICATE_COLUMN = HeadTableColumn(
    "Duplicate",
    "%",
    "Weight on earlier occurrences of the query’s token, averaged over queries whose token "
    "occurred before.",
    1,
    "duplicate",
)
CURRENT_COLUMN = HeadTableColumn(
    "Current", "%", "Weight on the query’s own position (the diagonal).", 1, "own"
)
MAX_WEIGHT_COLUMN = HeadTableColumn(
    "Largest weight", "%", "Largest weight of each query.", 1, "largest"
)
ENTROPY_COLUMN = HeadTableColumn(
    "Entropy",
    "bits",
    "Entropy of the attention weights, −Σ w·log₂ w: 0 if one key has all the weight, log₂ n if n "
    "keys have equal weights.",
    2,
    "entropy",
)
DISTANCE_COLUMN = HeadTableColumn(
    "Distance",
    "tokens",
    "Mean distance between query and key, weighted by attention: Σ w·|query − key|.",
    2,
    "distance",
)
VALUE_WEIGHTING_COLUMN = HeadTableColumn(
    "Value-weighted",
    "%",
    "Change in a row’s weights when they are multiplied by the value norms and renormalized: half "
    "the sum of the absolute differences. It is 0 if all values have the same norm.",
    1,
    "value_weighting",
)
RETRIEVAL = HeadTableColumn(
    "Retrieval",
    "%",
    "Weight of the pinned query on the selected tokens or, if none are selected, on the pinned "
    "key.",
    1,
    "retrieval",
    is_small_kept=True,
)
COLUMNS = (
    PREVIOUS_COLUMN, INDUCTION_COLUMN, DUPLICATE_COLUMN, FIRST_COLUMN, CURRENT_COLUMN,
    MAX_WEIGHT_COLUMN, ENTROPY_COLUMN, DISTANCE_COLUMN, VALUE_WEIGHTING_COLUMN,
)  # fmt: skip
"""All columns except the retrieval column.

The induction and duplicate columns require a repeated token; the value-weighted column requires
values.
"""


class HeadTableRow(Struct, frozen=True):
    """One row of the table: the measures of a head, or the means over all heads.

    Parameters
    ----------
    values : tuple
        One value per column.
    texts : tuple of str
        The formatted values.
    layer : int or None
        The index of the head's layer in the run; None if there is only one layer.
    number : int
        The zero-based number of the layer in the model.
    """

    head: int | None
    values: ColumnValues
    texts: tuple[str, ...]
    layer: int | None = None
    number: int = 0

    @property
    def place(self) -> tuple[int, int] | None:
        """The indices of the layer and the head, or None for the means."""
        return None if self.head is None else (self.layer or 0, self.head)

    @property
    def name(self) -> str:
        """The row's title within the table."""
        if self.head is None:
            return "Mean"
        return f"{self.head + 1}" if self.layer is None else f"{self.number + 1}.{self.head + 1}"

    @property
    def full_name(self) -> str:
        """The row's title outside the table."""
        if self.head is None:
            return "Mean of the heads"
        layer = "" if self.layer is None else f"Layer {self.number + 1}, "
        return f"{layer}{'head' if layer else 'Head'} {self.head + 1}"


class HeadTableContents(Struct, frozen=True, eq=False):
    """Contents of the Heads pane: the heads of all layers, for one text.

    Parameters
    ----------
    summary : str
        Description of the weights and queries over which the values are averaged.
    sentences : tuple of str
        Sentences that name the leading heads for each measure.
    uniform : tuple
        The values for uniform attention over the allowed keys, one per column; None if the layers
        differ.
    offer : MeasurementStatus or None
        The offer to measure the heads of a long text; None once they have been measured.
    made_of : tuple
        The inputs, used to recognize an unchanged panel.
    """

    summary: str = ""
    sentences: tuple[str, ...] = ()
    columns: tuple[HeadTableColumn, ...] = ()
    rows: tuple[HeadTableRow, ...] = ()
    uniform: ColumnValues = ()
    offer: MeasurementStatus | None = None
    made_of: tuple[object, ...] = ()


HEADS_PANEL: PanelId[HeadTableContents | None] = PanelId(PANE_TITLE)


def prefetch(resolved: ResolvedView) -> None:
    """Compute the measures that `present_head_table` needs; called on the worker thread."""
    trace, texts = resolved.run.trace, resolved.run.key_texts
    if Role.WEIGHTS in trace and trace.has_head_measures(Role.WEIGHTS, texts):
        trace.head_measures(Role.WEIGHTS, texts)
        for leading in np.ndindex(trace.leading_sizes):  # the user may switch to another text
            trace.uniform_head_measures(Role.WEIGHTS, leading, texts)


def present_head_table(
    resolved: ResolvedView, previous: HeadTableContents | None
) -> HeadTableContents | None:
    """Present the measures of all heads for the current text.

    Return None while a prediction hides the weights.
    """
    run, leading = resolved.run, resolved.leading
    if Role.WEIGHTS in resolved.hidden_stages:
        return None
    if Role.WEIGHTS not in run.trace:
        return HeadTableContents(sentences=(SCORES_ONLY_MESSAGE,))
    texts, places = run.key_texts, _layer_leading_indices(run, leading)
    numbers = resolved.layer_numbers if len(places) > 1 else ()
    retrieval = available_retrieval_weights(resolved)
    made_of: tuple[object, ...]
    if offer := measurement_status(run):
        made_of = (offer, retrieval)
        if previous and previous.made_of == made_of:
            return previous
        panel = _retrieval_table(retrieval, numbers) if retrieval else HeadTableContents()
        return replace(panel, offer=offer, made_of=made_of)
    measures = run.trace.head_measures(Role.WEIGHTS, texts)
    summary = _describe_averaged_queries(
        run, [measures.queries[place] for place in places], leading
    )
    uniform = _uniform_values(run, places, texts)
    made_of = (measures, summary, tuple(uniform.values()), places, numbers, retrieval)
    if previous and previous.made_of == made_of:
        return previous
    columns: dict[HeadTableColumn, ColumnValues] = {
        column: tuple(chain.from_iterable(column.read_values(measures, place) for place in places))
        for column in uniform
    }
    if retrieval:
        columns[RETRIEVAL], uniform[RETRIEVAL] = _retrieval_column(retrieval)
    rows = _build_rows(columns, numbers)
    sentences = _build_sentences(columns, uniform, rows)
    if len(rows) > 1:
        means = tuple(map(_mean_value, columns.values()))
        rows.append(HeadTableRow(None, means, _format_values(columns, means)))
    values = tuple(uniform.values())
    return HeadTableContents(
        summary, sentences, tuple(columns), tuple(rows), values, made_of=made_of
    )


def _retrieval_table(retrieval: RetrievalWeights, numbers: tuple[int, ...]) -> HeadTableContents:
    """Return a panel with only the retrieval column, for the heads computed so far."""
    values, chance = _retrieval_column(retrieval)
    rows = _build_rows({RETRIEVAL: values}, numbers)
    sentences = _build_sentences({RETRIEVAL: values}, {RETRIEVAL: chance}, rows)
    if not retrieval.is_complete or sentences == (NEAR_UNIFORM_MESSAGE,):
        sentences = ()
    return HeadTableContents("", sentences, (RETRIEVAL,), tuple(rows), (chance,))


def _retrieval_column(found: RetrievalWeights) -> tuple[ColumnValues, float | None]:
    """Return the retrieval column and the value for uniform attention, as percentages."""
    chance = found.chance[0]
    is_same = all(math.isclose(one, chance, rel_tol=1e-4) for one in found.chance)
    return RETRIEVAL.convert_to_unit(found.values.ravel()), 100 * chance if is_same else None


def _layer_leading_indices(run: Run, leading: LeadingIndex) -> tuple[LeadingIndex, ...]:
    """Return the leading index of each layer for the current text."""
    if "layer" not in run.trace.axes:
        return (leading,)
    text = run.trace.axis_position("text", leading)
    layers = range(run.trace.axis_size("layer"))
    return tuple(run.trace.leading_index(layer=layer, text=text) for layer in layers)


def _uniform_values(
    run: Run, places: tuple[LeadingIndex, ...], texts: Texts
) -> dict[HeadTableColumn, float | None]:
    """Return the available columns with their values for uniform attention."""
    found: dict[HeadTableColumn, float | None] = {}
    measured = [run.trace.uniform_head_measures(Role.WEIGHTS, place, texts) for place in places]
    for column in COLUMNS:
        values = [column.read_values(each, ())[0] for each in measured]
        first = values[0]
        if first is None and column in {INDUCTION_COLUMN, DUPLICATE_COLUMN, VALUE_WEIGHTING_COLUMN}:
            continue
        same = all(one == first or (one and first and _is_close(one, first)) for one in values)
        found[column] = first if same else None
    return found


def format_tsv(table: HeadTableContents, rows: tuple[HeadTableRow, ...]) -> str:
    """Format rows as tab-separated values, for a spreadsheet."""
    titles = ["Head", *(f"{column.title} ({column.unit})" for column in table.columns)]
    named = [*((row.name, row.values) for row in rows), (UNIFORM_LABEL, table.uniform)]
    lines = [[name, *("" if one is None else f"{one:.7g}" for one in values)]
             for name, values in named]  # fmt: skip
    return "".join("\t".join(line) + "\n" for line in [titles, *lines])


def _build_rows(
    columns: Mapping[HeadTableColumn, ColumnValues], numbers: tuple[int, ...]
) -> list[HeadTableRow]:
    """Return one row per head.

    Parameters
    ----------
    numbers : tuple of int
        The number of each layer in the model; empty if there is only one layer.
    """
    every = [*zip(*columns.values(), strict=True)]
    heads = len(every) // max(1, len(numbers))
    return [
        HeadTableRow(
            at % heads,
            values,
            _format_values(columns, values),
            at // heads if numbers else None,
            numbers[at // heads] if numbers else 0,
        )
        for at, values in enumerate(every)
    ]


def _format_values(columns: Iterable[HeadTableColumn], values: ColumnValues) -> tuple[str, ...]:
    return tuple(column.format_value(value) for column, value in zip(columns, values, strict=True))


def _mean_value(values: ColumnValues) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if len(numbers) == len(values) else None


def _describe_averaged_queries(run: Run, queries: list[np.ndarray], leading: LeadingIndex) -> str:
    """Describe the weights, and the queries over which the values are averaged."""
    spec = run.trace.spec
    tokens = (
        spec.lengths[run.trace.axis_position("text", leading)]
        if spec.lengths
        else run.trace.query_count
    )
    qualifier = run.trace.weights_qualifier(run.trace.attention_stage_name)
    weights = " ".join(filter(None, ("weights", qualifier)))
    counted = int(min(counts.min() for counts in queries))
    query_count, key_count = run.trace.query_key_counts
    rest = "" if query_count == key_count else CROSS_ATTENTION_NOTE
    every = "1 query" if tokens == 1 else f"{tokens:,} queries"
    if counted == tokens:
        return f"Averages of the {weights} over {every}.{rest}"
    others = "the others have no allowed keys"
    return f"Averages of the {weights} over {counted:,} of {every}; {others}.{rest}"


class _LeadingHeadText(Struct, frozen=True):
    """The wording for the heads that lead in a measure, and for the case in which none stands out.

    Parameters
    ----------
    covers_all_heads : bool
        Whether to name the leading heads even if all heads lead, and to include those that nearly
        lead.
    """

    column: HeadTableColumn
    words: str
    none: str
    is_maximum: bool = True
    covers_all_heads: bool = False

    def leading_value(self, values: ColumnValues) -> float | None:
        """Return the value of the leading heads, or None if no head has a value."""
        found = [one for one in values if one is not None]
        return (max if self.is_maximum else min)(found) if found else None

    def leading_heads(self, values: ColumnValues, best: float) -> list[int]:
        """Return the leading heads and, if `covers_all_heads`, those that nearly lead."""
        near = NEAR_LEADER_SHARE * best if self.covers_all_heads else best
        return [
            head for head, value in enumerate(values)
            if value is not None and (_is_close(value, best) or near < value < best)
        ]  # fmt: skip

    def is_notable(self, value: float, uniform: float) -> bool:
        """Return whether the leading value differs enough from the value for uniform attention."""
        if _is_close(value, uniform):
            return False
        if not self.is_maximum:
            return value <= uniform / OUTLIER_FACTOR
        return value >= min(OUTLIER_FACTOR * uniform, (100 + uniform) / 2)

    def format_value(self, value: float) -> str:
        if self.column is ENTROPY_COLUMN:
            return f"{self.column.format_value(value)} bits"
        return format_percentage(value / 100)


_LEADING_HEAD_TEXTS = (
    _LeadingHeadText(
        INDUCTION_COLUMN,
        "attend{s} to tokens that followed earlier occurrences of the query’s token (induction)",
        "for induction",
        covers_all_heads=True,
    ),
    _LeadingHeadText(
        RETRIEVAL, "attend{s} most to the selected tokens (retrieval)", "for the selected tokens"
    ),
    _LeadingHeadText(
        PREVIOUS_COLUMN, "attend{s} most to the previous token", "for the previous token"
    ),
    _LeadingHeadText(FIRST_COLUMN, "attend{s} most to the first token", "for the first token"),
    _LeadingHeadText(
        CURRENT_COLUMN, "attend{s} most to the current token", "for the current token"
    ),
    _LeadingHeadText(ENTROPY_COLUMN, "{have} the lowest entropy", "for entropy", is_maximum=False),
)


def _build_sentences(
    columns: Mapping[HeadTableColumn, ColumnValues],
    uniform: Mapping[HeadTableColumn, float | None],
    rows: list[HeadTableRow],
) -> tuple[str, ...]:
    """Return sentences that name the leading heads, and the measures in which no head stands out.

    Measures in which all heads are equal, but not close to uniform attention, are skipped. For a
    single head, the result is empty.
    """
    if len(rows) < 2:
        return ()
    sentences: list[str] = []
    not_outstanding: list[str] = []
    is_any_outstanding = False
    for claim in _LEADING_HEAD_TEXTS:
        values, chance = columns.get(claim.column, ()), uniform.get(claim.column)
        best = claim.leading_value(values)
        if best is None or not chance:
            continue
        comparison = f"uniform attention {claim.format_value(chance)}."
        if not claim.is_notable(best, chance):
            extreme = f"{'highest' if claim.is_maximum else 'lowest'} {claim.format_value(best)}"
            not_outstanding.append(f"No head stands out {claim.none}: {extreme}, {comparison}")
            continue
        is_any_outstanding = True
        heads = claim.leading_heads(values, best)
        if len(heads) < len(values) or claim.covers_all_heads:
            words = claim.words.format(
                s="s" * (len(heads) == 1), have="has" if len(heads) == 1 else "have"
            )
            least = min(value for head in heads if (value := values[head]) is not None)
            reach = claim.format_value(least)
            reach = reach if _is_close(least, best) else f"at least {reach}"
            sentences.append(
                f"{_join_head_names([rows[at] for at in heads])} {words}: {reach}, {comparison}"
            )
    if not_outstanding and not is_any_outstanding:
        return (NEAR_UNIFORM_MESSAGE,)
    return (*sentences, *not_outstanding) or ("All heads have the same attention pattern.",)


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-6)


def _join_head_names(rows: list[HeadTableRow]) -> str:
    if len(rows) == 1:
        return rows[0].full_name
    if len(rows) > MAX_NAMED_HEADS:
        return f"{len(rows)} heads"
    *first, last = [row.name for row in rows]
    return f"Heads {', '.join(first)} and {last}"


PANEL = PanelSpec(
    HEADS_PANEL,
    lambda resolved, inputs, previous: present_head_table(resolved, previous),
    None,
    HEADS_PANEL.name,
    prefetch_key=lambda resolved: True,
    prefetch=partial(prefetch_without_panel, prefetch),
    is_refined=True,
    needs_retrieval=True,
)
