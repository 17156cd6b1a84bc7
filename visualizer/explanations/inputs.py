"""Explainers of input vectors, position vectors, and numbers read from a file or a model."""

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
    compute_sinusoids,
)
from visualizer.explanations.cell_terms import (
    EquationPart,
    EquationTerm,
    TermList,
    added_inputs,
    constant,
    copied_equation,
    sum_terms,
)
from visualizer.explanations.explainer import Explainer, VectorExplainer
from visualizer.explanations.phrases import (
    NON_FINITE_PHRASE,
    WeightShape,
    format_shape,
    largest_number_phrase,
    vector_column_sentence,
)
from visualizer.explanations.step_values import LargestValue, format_vector
from visualizer.format import format_count, format_number, format_share

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_facts import CellInfo
    from visualizer.explanations.cell_terms import EquationTermWriter, ExplainedCell
    from visualizer.explanations.code_dialects import ExpressionContext
    from visualizer.explanations.step_values import StepContext


class InputVectorsExplainer(Explainer):
    """Input vectors: one given vector per token."""

    operation = Operation.INPUT_VECTORS

    def terms(self, explained: ExplainedCell) -> TermList:
        return sum_terms((explained.factor(explained.stage.name, *explained.place),))

    def explain_cell(self, facts: CellInfo) -> str:
        return vector_column_sentence(facts, "vector")

    def row_sentence(self, block: StepContext) -> str:
        size = format_count(block.spec.d_in, "number")
        name = ", its embedding" if block.stage.name == "embedding" else ""
        return f"{block.query} becomes a vector of {size}{name}: {format_vector(block.row())}"

    def stage_sentence(self, block: StepContext) -> str:
        size = format_count(block.spec.d_in, "number")
        name = ", its embedding" if block.stage.name == "embedding" else ""
        each = f"each of {block.tokens:,} tokens becomes a vector of {size}{name}"
        return f"{each}; {largest_number_phrase(block)}"

    def formula(self, facts: CellInfo) -> str:
        return _vector_origin(facts)

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        return copied_equation(line, "given")

    def code(self, context: ExpressionContext) -> str:
        return "inputs"


def _vector_origin(facts: CellInfo) -> str:
    """Describe where the vector of a token comes from."""
    spec, (dim, at) = facts.run.trace.spec, next(iter(facts.place.items()))
    if spec.own_input:
        return f"from {facts.run.weights_source}" if facts.run.weights_source else "custom value"
    token = facts.run.words(facts.leading, dim)[at]
    if token == PADDING_LABEL:
        return "padding: 0"
    if spec.d_in == BOOK_DIMENSIONS and token in BOOK_VECTORS:
        return "token embedding: the book’s value"
    return f"token embedding: random, seed {spec.seed}"


class PositionVectorsExplainer(Explainer):
    """Position vectors: looked up if they are learned, otherwise sines and cosines."""

    operation = Operation.POSITION_VECTORS

    def terms(self, explained: ExplainedCell) -> TermList:
        place, column = explained.place
        if explained.spec.position is PositionKind.LEARNED:
            return sum_terms((explained.weight("position.weight", place, column),))
        value = compute_sinusoids(place + 1, explained.spec.d_in)[place, column]
        exponent = f"{column - column % 2}/{explained.spec.d_in}"
        function = "cos" if column % 2 else "sin"
        return sum_terms(
            (constant(float(value), f"{function}({place} / 10000^({exponent})) = {{}}"),)
        )

    def explain_cell(self, facts: CellInfo) -> str:
        return vector_column_sentence(facts, "position vector")

    def row_sentence(self, block: StepContext) -> str:
        place = f"position {block.at + 1} ({block.word(block.at)})"
        return f"{place} has the position vector {format_vector(block.row())}"

    def stage_sentence(self, block: StepContext) -> str:
        size = format_count(block.spec.d_in, "number")
        vector = (
            f"learned vector of {size}"
            if block.spec.position is PositionKind.LEARNED
            else f"vector of {size} computed from sines and cosines"
        )
        each = f"each of {block.tokens:,} positions has a {vector}"
        return f"{each}; {largest_number_phrase(block, 'the largest', is_of_places=True)}"

    def formula(self, facts: CellInfo) -> str:
        return "looked up"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        factors, _ = line.factors[0]
        form = factors[0].form
        if form != "{}":  # sine or cosine, computed from the position
            return EquationTerm([EquationPart(form.removesuffix(" = {}"))])
        return copied_equation(line, "looked up")

    def code(self, context: ExpressionContext) -> str:
        embedding = context.words.names["embedding"]
        if context.spec.position is PositionKind.LEARNED:
            return f"position_table.expand_as({embedding})"
        return f"sinusoids(*{embedding}.shape[-2:]).expand_as({embedding})"

    def parameter(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape | None:
        if spec.position is PositionKind.LEARNED:
            return WeightShape(stage.name, (tokens, spec.d_in))
        return None


class AddPositionExplainer(VectorExplainer):
    """Addition of token and position embeddings."""

    operation = Operation.ADD_POSITION

    def terms(self, explained: ExplainedCell) -> TermList:
        return added_inputs(explained)

    def column_phrase(self, facts: CellInfo) -> str:
        return "is the sum of the same columns of the embedding and the position vector"

    def row_phrase(self, block: StepContext) -> str:
        embedding = f"the embedding of {block.word(block.at)}"
        return f"{embedding} plus the vector of position {block.at + 1} gives its input vector"

    def stage_phrase(self, block: StepContext) -> str:
        return "embeddings and position vectors are added elementwise"

    def formula(self, facts: CellInfo) -> str:
        return "embedding + position"

    def code(self, context: ExpressionContext) -> str:
        return " + ".join(context.inputs)

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        one = format_shape(tokens, spec.d_in)
        return (f"{one} + {one} = {one}",)


def _origin_phrase(run: Run, verb: str, source: str = "a file") -> str:
    """Describe where the numbers of a run are from; the verb is "was" or "were"."""
    if run.reading:
        return f"{verb} computed by the model"
    return f"{verb} read from {source}"


def _unknown_token(facts: CellInfo, dim: str) -> str:
    """Name a position without a known token, such as "query 3"; empty for other positions."""
    at = facts.place[dim]
    return f"<b>{dim} {at + 1}</b>" if facts.word(at, dim) == str(at + 1) else ""


class CapturedExplainer(Explainer):
    """Weights, scores or vectors read from a file or a model instead of being computed."""

    operation = Operation.CAPTURED

    def terms(self, explained: ExplainedCell) -> TermList:
        return sum_terms((explained.factor(explained.stage.name, *explained.place),))

    def explain_cell(self, facts: CellInfo) -> str:
        stage = facts.explanation.stage
        origin = _origin_phrase(facts.run, "was", escape(facts.run.source))
        if stage.dims[-1] != "key":
            whose = f"{vector_noun(stage.name)} of {facts.token(stage.dims[-2])}{facts.head_phrase}"
            return f"Column {facts.column} of the {whose} {origin}: {format_number(facts.value)}."
        kind = stage.noun
        source = f" This {kind} {origin}."
        query, key = (_unknown_token(facts, dim) or facts.token(dim) for dim in ("query", "key"))
        pair = f"{query} and {key}"
        if np.isnan(facts.value):
            return f"The {kind} of {pair} is not a number (NaN).{source}"
        if stage.is_weights and 0 <= facts.value <= 1:
            if _unknown_token(facts, "query"):
                query = query.replace("<b>query", "<b>Query", 1)
            return f"{query} attends to {key} with weight {format_share(facts.value)}.{source}"
        return f"The {kind} of {pair} is {format_number(facts.value)}.{source}"

    def row_sentence(self, block: StepContext) -> str:
        if block.stage.dims[-1] != "key":
            vector = f"the {vector_noun(block.stage.name)} of {block.query}"
            return f"{vector} {_origin_phrase(block.run, 'was')}: {format_vector(block.row())}"
        name, kind = block.stage.nouns, block.stage.noun
        read = f"the {name} of {block.query} {_origin_phrase(block.run, 'were')}"
        top = LargestValue.of(block.row())
        if top is None:
            return f"{read}; {NON_FINITE_PHRASE}"
        if top.is_shared:
            return f"{read}; the largest, {format_number(top.value)}, appears {top.times:,} times"
        largest = f"the largest {kind}, {format_number(top.value)}"
        return f"{read}; {largest}, is that of {block.key(top.at)}"

    def stage_sentence(self, block: StepContext) -> str:
        if block.stage.dims[-1] != "key":
            read = (
                f"each token’s {vector_noun(block.stage.name)} {_origin_phrase(block.run, 'was')}"
            )
            return f"{read}; {largest_number_phrase(block)}"
        name, kind = block.stage.nouns, block.stage.noun
        read = f"all {name} {_origin_phrase(block.run, 'were')}"
        top = LargestValue.of(block.matrix())
        if top is None:
            return f"{read}; {NON_FINITE_PHRASE}"
        largest = f"the largest {kind}, {format_number(top.value)}"
        if top.is_shared:
            return f"{read}; {largest}, appears {top.times:,} times"
        query, key = divmod(top.at, block.matrix().shape[1])
        return f"{read}; {largest}, is that of {block.named(query, 'query')} and {block.key(key)}"

    def formula(self, facts: CellInfo) -> str:
        return f"read from the {'model' if facts.run.reading else 'file'}"

    def equation(self, line: EquationTermWriter) -> EquationTerm:
        return copied_equation(line, "unchanged")


EXPLAINERS: tuple[Explainer, ...] = (
    InputVectorsExplainer(),
    PositionVectorsExplainer(),
    AddPositionExplainer(),
    CapturedExplainer(),
)
