"""Explainers for input vectors, position vectors, and numbers read from a file or a model."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import PositionKind
from visualizer.attention.stages import Operation, vector_noun
from visualizer.attention.token_embeddings import (
    BOOK_DIMENSIONS,
    BOOK_VECTORS,
    PADDING_LABEL,
    compute_sinusoidal_positions,
)
from visualizer.explanations.cell_terms import (
    EquationPart,
    EquationRightHandSide,
    TermCombination,
    combine_as_sum,
    combine_inputs_as_sum,
    constant,
    copied_equation,
)
from visualizer.explanations.explainer import Explainer, VectorExplainer
from visualizer.explanations.phrases import (
    NON_FINITE_PHRASE,
    WeightShape,
    format_shape,
    largest_number_phrase,
    vector_column_sentence,
)
from visualizer.explanations.step_context import LargestValue, format_vector
from visualizer.format import format_count, format_number, format_percentage

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import EquationWriter, ExplainedCell
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.step_context import StepContext


class InputVectorsExplainer(Explainer):
    """Input vectors: one given vector per token."""

    operation = Operation.INPUT_VECTORS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_as_sum(
            (explained.read_factor(explained.stage.name, *explained.index_in_stage),)
        )

    def explain_cell(self, info: CellContext) -> str:
        is_embedding = info.cell.stage == "embedding"
        return vector_column_sentence(info, "embedding" if is_embedding else "input vector")

    def explain_row(self, context: StepContext) -> str:
        size = format_count(context.spec.d_in, "number")
        name = ", its embedding" if context.stage.name == "embedding" else ""
        return (
            f"{context.query_name} becomes a vector of "
            f"{size}{name}: {format_vector(context.read_row())}"
        )

    def explain_stage(self, context: StepContext) -> str:
        size = format_count(context.spec.d_in, "number")
        name = ", its embedding" if context.stage.name == "embedding" else ""
        each = f"each of {context.token_count:,} tokens becomes a vector of {size}{name}"
        return f"{each}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return _describe_vector_origin(info)

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return copied_equation(writer, "given")

    def code_expression(self, context: StageCodeContext) -> str:
        return "inputs"


def _describe_vector_origin(info: CellContext) -> str:
    """Describe where the vector of a token comes from."""
    spec, (dim, at) = info.run.trace.spec, next(iter(info.position_by_axis.items()))
    if spec.own_input:
        return f"from {info.run.weights_source}" if info.run.weights_source else "custom value"
    token = info.run.axis_tokens(info.leading, dim)[at]
    if token == PADDING_LABEL:
        return "padding: 0"
    if spec.d_in == BOOK_DIMENSIONS and token in BOOK_VECTORS:
        return "token embedding: value of Raschka (2024)"
    return f"token embedding: random, seed {spec.seed}"


class PositionVectorsExplainer(Explainer):
    """Position vectors: looked up if they are learned, otherwise sines and cosines."""

    operation = Operation.POSITION_VECTORS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        place, column = explained.index_in_stage
        if explained.spec.position is PositionKind.LEARNED:
            return combine_as_sum((explained.read_weight("position.weight", place, column),))
        value = compute_sinusoidal_positions(place + 1, explained.spec.d_in)[place, column]
        exponent = f"{column - column % 2}/{explained.spec.d_in}"
        function = "cos" if column % 2 else "sin"
        return combine_as_sum(
            (constant(float(value), f"{function}({place} / 10000^({exponent})) = {{}}"),)
        )

    def explain_cell(self, info: CellContext) -> str:
        return vector_column_sentence(info, "position vector")

    def explain_row(self, context: StepContext) -> str:
        place = f"position {context.row_index + 1} ({context.bold_token(context.row_index)})"
        return f"{place} has the position vector {format_vector(context.read_row())}"

    def explain_stage(self, context: StepContext) -> str:
        size = format_count(context.spec.d_in, "number")
        vector = (
            f"learned vector of {size}"
            if context.spec.position is PositionKind.LEARNED
            else f"vector of {size} computed from sines and cosines"
        )
        each = f"each of {context.token_count:,} positions has a {vector}"
        return f"{each}; {largest_number_phrase(context, 'the largest', names_positions=True)}"

    def formula(self, info: CellContext) -> str:
        return "looked up"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        factors, _ = writer.term_factors(0)
        form = factors[0].form
        if form != "{}":  # sine or cosine, computed from the position
            return EquationRightHandSide([EquationPart(form.removesuffix(" = {}"))])
        return copied_equation(writer, "looked up")

    def code_expression(self, context: StageCodeContext) -> str:
        embedding = context.identifiers.names["embedding"]
        if context.spec.position is PositionKind.LEARNED:
            return f"position_table.expand_as({embedding})"
        return f"sinusoids(*{embedding}.shape[-2:]).expand_as({embedding})"

    def weight_shape(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape | None:
        if spec.position is PositionKind.LEARNED:
            return WeightShape(stage.name, (tokens, spec.d_in))
        return None


class AddPositionExplainer(VectorExplainer):
    """Addition of token and position embeddings."""

    operation = Operation.ADD_POSITION

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_inputs_as_sum(explained)

    def cell_phrase(self, info: CellContext) -> str:
        return "is the sum of the same columns of the embedding and the position vector"

    def row_phrase(self, context: StepContext) -> str:
        embedding = f"the embedding of {context.bold_token(context.row_index)}"
        position = f"the vector of position {context.row_index + 1}"
        return f"{embedding} plus {position} gives its input vector"

    def stage_phrase(self, context: StepContext) -> str:
        return "embeddings and position vectors are added elementwise"

    def formula(self, info: CellContext) -> str:
        return "embedding + position"

    def code_expression(self, context: StageCodeContext) -> str:
        return " + ".join(context.input_variables)

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        one = format_shape(tokens, spec.d_in)
        return (f"{one} + {one} = {one}",)


def _number_origin_phrase(run: Run, verb: str, source: str = "a file") -> str:
    """Describe where the numbers of a run come from; the verb is "was" or "were"."""
    if run.reading:
        return f"{verb} computed by the model"
    return f"{verb} read from {source}"


def _unknown_token_name(info: CellContext, dim: str) -> str:
    """Name a position without a known token, such as "query 3"; empty for other positions."""
    at = info.position_by_axis[dim]
    return f"<b>{dim} {at + 1}</b>" if info.format_token(at, dim) == str(at + 1) else ""


class CapturedTensorExplainer(Explainer):
    """Weights, scores or vectors read from a file or a model instead of being computed."""

    operation = Operation.CAPTURED

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return combine_as_sum(
            (explained.read_factor(explained.stage.name, *explained.index_in_stage),)
        )

    def explain_cell(self, info: CellContext) -> str:
        stage = info.explanation.stage
        origin = _number_origin_phrase(info.run, "was", escape(info.run.source_display_name))
        if stage.dims[-1] != "key":
            whose = (
                f"{vector_noun(stage.name)} of "
                f"{info.describe_token(stage.dims[-2])}{info.head_phrase}"
            )
            return (
                f"Column {info.column_number} of the {whose} {origin}: {format_number(info.value)}."
            )
        kind = stage.number_noun
        source = f" This {kind} {origin}."
        query, key = (
            _unknown_token_name(info, dim) or info.describe_token(dim) for dim in ("query", "key")
        )
        pair = f"{query} and {key}"
        if np.isnan(info.value):
            return f"The {kind} of {pair} is not a number (NaN).{source}"
        if stage.is_weights and 0 <= info.value <= 1:
            if _unknown_token_name(info, "query"):
                query = query.replace("<b>query", "<b>Query", 1)
            return f"{query} attends to {key} with weight {format_percentage(info.value)}.{source}"
        return f"The {kind} of {pair} is {format_number(info.value)}.{source}"

    def explain_row(self, context: StepContext) -> str:
        if context.stage.dims[-1] != "key":
            vector = f"the {vector_noun(context.stage.name)} of {context.query_name}"
            return (
                f"{vector} {_number_origin_phrase(context.run, 'was')}"
                f": {format_vector(context.read_row())}"
            )
        name, kind = context.stage.plural_number_noun, context.stage.number_noun
        read = f"the {name} of {context.query_name} {_number_origin_phrase(context.run, 'were')}"
        top = LargestValue.of(context.read_row())
        if top is None:
            return f"{read}; {NON_FINITE_PHRASE}"
        if top.is_tied:
            shared = f"{format_number(top.value)}, appears {top.occurrences:,} times"
            return f"{read}; the largest, {shared}"
        largest = f"the largest {kind}, {format_number(top.value)}"
        return f"{read}; {largest}, is that of {context.key_name(top.at)}"

    def explain_stage(self, context: StepContext) -> str:
        if context.stage.dims[-1] != "key":
            vector = f"each token’s {vector_noun(context.stage.name)}"
            origin = _number_origin_phrase(context.run, "was")
            return f"{vector} {origin}; {largest_number_phrase(context)}"
        name, kind = context.stage.plural_number_noun, context.stage.number_noun
        read = f"all {name} {_number_origin_phrase(context.run, 'were')}"
        top = LargestValue.of(context.read_matrix())
        if top is None:
            return f"{read}; {NON_FINITE_PHRASE}"
        largest = f"the largest {kind}, {format_number(top.value)}"
        if top.is_tied:
            return f"{read}; {largest}, appears {top.occurrences:,} times"
        query, key = divmod(top.at, context.read_matrix().shape[1])
        pair = f"{context.token_name(query, 'query')} and {context.key_name(key)}"
        return f"{read}; {largest}, is that of {pair}"

    def formula(self, info: CellContext) -> str:
        return f"read from {'the model' if info.run.reading else info.run.source_display_name}"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return copied_equation(writer, "unchanged")


EXPLAINERS: tuple[Explainer, ...] = (
    InputVectorsExplainer(),
    PositionVectorsExplainer(),
    AddPositionExplainer(),
    CapturedTensorExplainer(),
)
