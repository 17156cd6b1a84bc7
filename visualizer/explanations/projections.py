"""Explainers for projections, heads and rotary positions: queries, keys, values and outputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from visualizer.attention.layer_operations import (
    ROTARY_BASE,
    JoinedHeads,
    LatentKeys,
    LinearLayer,
    RotaryPosition,
)
from visualizer.attention.roles import Role
from visualizer.attention.spec import HeadArrangement, Projection, layer_symbol
from visualizer.attention.stages import Operation, parameter_names, vector_noun
from visualizer.explanations.cell_terms import (
    EquationRightHandSide,
    Factor,
    TermCombination,
    combine_as_sum,
    constant,
    copied_equation,
    sum_equation,
)
from visualizer.explanations.explainer import Explainer, VectorExplainer
from visualizer.explanations.phrases import (
    WeightShape,
    add_bias_to_formula,
    add_closing_comma,
    all_heads_phrase,
    each_head_phrase,
    format_shape,
    grouped_head_shapes,
    head_shapes,
    join_names,
    largest_number_phrase,
    matrix_product_shapes,
    projection_phrase,
    sharing_heads_phrase,
    split_head_shapes,
    unprojected_columns_phrase,
)
from visualizer.explanations.step_context import format_trimmed_number, format_vector
from visualizer.format import format_count, format_number

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.cell_context import CellContext
    from visualizer.explanations.cell_terms import EquationWriter, ExplainedCell
    from visualizer.explanations.code_dialects import StageCodeContext
    from visualizer.explanations.step_context import StepContext

PURPOSES: dict[str, str] = {
    Role.QUERIES: ", which is compared with each key",
    Role.KEYS: ", with which each query is compared",
    Role.VALUES: ", which the weights mix",
}
"""Clause that states how the vectors of a stage are used, by the name of the stage."""


def _projected_vector_noun(stage: Stage) -> str:
    """Return the noun for the vectors that are projected; a block normalizes the input first."""
    return "input vector" if stage.reads[0] == Role.INPUT else vector_noun(stage.reads[0])


def _weight_column_phrase(info: CellContext) -> str:
    """Name the column of weights that a cell is computed with; split heads share one matrix."""
    weights = info.explanation.groups[0].factors[1]
    column = next(at for at in weights.index if at is not None) + 1
    *_, layer = weights.name.removesuffix(".weight").split(".")
    symbol = layer_symbol(layer)
    whose = f"this head’s {symbol}" if weights.name.startswith("heads.") else symbol
    shared = sharing_heads_phrase(info.run.trace.spec, layer, info.position_by_axis["head"])
    return f"column {column} of {whose}{shared}"


class InputProjectionExplainer(Explainer):
    """Queries, keys and values: the input times a weight matrix."""

    operation = Operation.INPUT_PROJECTION

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, token, column = explained.index_in_stage
        spec = explained.spec
        names = parameter_names(spec, explained.stage.parameters[0])
        kinds = [name for name in names if not name.endswith(".bias")]
        if len(kinds) == 1 and spec.arrangement is HeadArrangement.SPLIT:
            column += spec.projection_head_index(explained.stage.parameters[0], head) * spec.d_head
        number = head % len(kinds)
        x = explained.read_factor(explained.stage.reads[0], token, None)
        if spec.projection is Projection.UNIFORM:
            return combine_as_sum((x, explained.read_weight(kinds[number], None, column)))
        products = (x, explained.read_weight(kinds[number], column, None))
        biases = names[len(kinds) :]
        return (
            combine_as_sum(products, (explained.read_weight(biases[number], column),))
            if biases
            else combine_as_sum(products)
        )

    def explain_cell(self, info: CellContext) -> str:
        bias = ", plus a bias" if len(info.explanation.groups) > 1 else ""
        weights = add_closing_comma(f"{_weight_column_phrase(info)}{bias}")
        vector = (
            f"The {_projected_vector_noun(info.explanation.stage)} "
            f"of {info.describe_token('token')}"
        )
        column = (
            f"column {info.column_number} of its {vector_noun(info.cell.stage)}{info.head_phrase}"
        )
        return f"{vector} times {weights} gives {column}: {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        kind = vector_noun(context.stage.name)
        vector = f"the {_projected_vector_noun(context.stage)} of {context.query_name}"
        gives = f"gives its {kind}: {format_vector(context.read_row())}"
        return f"{vector} times {projection_phrase(context)} {gives}"

    def explain_stage(self, context: StepContext) -> str:
        spec, gives = context.spec, f"gives its {vector_noun(context.stage.name)}"
        names_columns = spec.heads > 1 and spec.arrangement is HeadArrangement.SPLIT
        if not names_columns:  # otherwise, the columns tell how many numbers there are
            gives += f" of {format_count(spec.d_head, 'number')}"
        gives += PURPOSES.get(context.stage.name, "")
        largest = largest_number_phrase(context, "the largest")
        return (
            f"each {_projected_vector_noun(context.stage)} times {projection_phrase(context)} "
            f"{gives}; {largest}"
        )

    def formula(self, info: CellContext) -> str:
        return add_bias_to_formula(
            info, f"Σ {vector_noun(info.explanation.stage.reads[0])} × weight"
        )

    def code_expression(self, context: StageCodeContext) -> str:
        layer, x = (
            context.identifiers.layers[context.stage.parameters[0]],
            context.input_variables[0],
        )
        is_matrix = context.spec.projection is Projection.UNIFORM
        if context.spec.arrangement is HeadArrangement.STACKED and context.spec.heads > 1:
            each = f"{x} @ W" if is_matrix else f"W({x})"
            return f"torch.stack([{each} for W in {layer}], dim=-3)"
        heads, shared = (
            context.spec.heads,
            context.spec.projection_head_count(context.stage.parameters[0]),
        )
        made = context.split_heads_code(
            f"({x} @ {layer})" if is_matrix else f"{layer}({x})", shared
        )
        return made if shared == heads else f"{made}.repeat_interleave({heads // shared}, dim=-3)"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        has_bias = spec.bias and spec.projection is Projection.LINEAR
        if spec.arrangement is HeadArrangement.STACKED:
            product = matrix_product_shapes(tokens, spec.d_in, spec.d_head, has_bias)
            return (product + each_head_phrase(spec),)
        _, columns = spec.weight_sizes[stage.parameters[0]]
        product = matrix_product_shapes(tokens, spec.d_in, columns, has_bias)
        if columns < spec.concatenated_head_width:
            return (product, *grouped_head_shapes(spec, tokens))
        return (product, split_head_shapes(spec, tokens))

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * math.prod(spec.weight_sizes[stage.parameters[0]])

    def weight_shape(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape:
        stacked = spec.arrangement is HeadArrangement.STACKED
        rows, columns = spec.weight_sizes[stage.parameters[0]]
        columns, copies = (spec.d_head, spec.heads) if stacked else (columns, 1)
        return WeightShape(stage.parameters[0], (rows, columns), copies)


class UnprojectedInputExplainer(VectorExplainer):
    """Queries, keys and values without a projection: the input, split between the heads."""

    operation = Operation.UNPROJECTED_INPUT

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        head, token, column = explained.index_in_stage
        if explained.spec.arrangement is HeadArrangement.SPLIT:
            column += head * explained.spec.d_head
        return combine_as_sum((explained.read_factor(explained.stage.reads[0], token, column),))

    def cell_phrase(self, info: CellContext) -> str:
        read = vector_noun(info.explanation.stage.reads[0])
        return f"is taken from its {read} without a projection"

    def row_phrase(self, context: StepContext) -> str:
        kind = vector_noun(context.stage.name)
        taken = f"the {kind} of {context.query_name} is {unprojected_columns_phrase(context)}"
        return f"without a projection, {taken}"

    def stage_phrase(self, context: StepContext) -> str:
        kind = vector_noun(context.stage.name)
        return f"without a projection, each token’s {kind} is {unprojected_columns_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return "unchanged"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        return copied_equation(
            writer, f"taken from the {vector_noun(writer.explanation.stage.reads[0])}"
        )

    def code_expression(self, context: StageCodeContext) -> str:
        if context.spec.arrangement is HeadArrangement.STACKED and context.spec.heads > 1:
            return f"torch.stack([{context.input_variables[0]}] * {context.spec.heads}, dim=-3)"
        return context.split_heads_code(context.input_variables[0], context.spec.heads)

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        if spec.arrangement is HeadArrangement.STACKED:
            return (f"{format_shape(tokens, spec.d_in)}{each_head_phrase(spec)}",)
        return (split_head_shapes(spec, tokens),)


def _layer_weights_phrase(stage: Stage, result: int | None = None) -> str:
    """Return a phrase for the weights that a vector is multiplied by, for one or all outputs."""
    step = stage.step_of_type(LinearLayer)
    which = step.name if result is None else f"the weights of {step.name} for output {result + 1}"
    bias = ", plus a bias" if step.has_bias else ""
    return (
        which + bias + ("" if step.factor == 1 else f", times {format_trimmed_number(step.factor)}")
    )


def _output_index(stage: Stage, place: tuple[int, ...]) -> int:
    """Return the index of a cell among the outputs of its linear layer."""
    head = place[0] if len(place) == 3 else 0
    return stage.step_of_type(LinearLayer).first_columns[head] + place[-1]


def linear_layer_terms(explained: ExplainedCell) -> TermCombination:
    """Return the terms of one output of a linear layer: a vector times a row of the matrix."""
    step, (*_, token, _) = explained.stage.step_of_type(LinearLayer), explained.index_in_stage
    result, module = (
        _output_index(explained.stage, explained.index_in_stage),
        step.modules[explained.layer],
    )
    row = (None, result) if step.is_transposed else (result, None)
    more = () if step.factor == 1 else (constant(step.factor, format_trimmed_number(step.factor)),)
    read = explained.read_factor(explained.stage.reads[0], token, None)
    products = (read, explained.read_weight(f"{module}.weight", *row), *more)
    if not step.has_bias:
        return combine_as_sum(products)
    return combine_as_sum(products, (explained.read_weight(f"{module}.bias", result), *more))


def _matrix_sizes(spec: AttentionSpec, stage: Stage) -> tuple[int, int] | None:
    """Return the sizes of the input and output of a block's matrix, or None in a model's layer."""
    if not stage.parameters:
        return None
    made, read = spec.block_parameter_shapes[f"{stage.parameters[0]}.weight"]
    return read, made


class LinearLayerExplainer(VectorExplainer):
    """Linear layer: a vector times a weight matrix."""

    operation = Operation.LINEAR_LAYER

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        return linear_layer_terms(explained)

    def cell_phrase(self, info: CellContext) -> str:
        stage = info.explanation.stage
        times = _layer_weights_phrase(stage, _output_index(stage, info.cell.place))
        return f"is the {vector_noun(stage.reads[0])} times {times}"

    def row_phrase(self, context: StepContext) -> str:
        read = f"the {vector_noun(context.first_input)} of {context.query_name}"
        made = f"{read} times {add_closing_comma(_layer_weights_phrase(context.stage))}"
        return f"{made} gives its {vector_noun(context.stage.name)}"

    def stage_phrase(self, context: StepContext) -> str:
        multiplier = add_closing_comma(_layer_weights_phrase(context.stage))
        result = vector_noun(context.stage.name)
        return f"each {vector_noun(context.first_input)} times {multiplier} gives its {result}"

    def formula(self, info: CellContext) -> str:
        step = info.explanation.stage.step_of_type(LinearLayer)
        made = add_bias_to_formula(info, "Σ number × weight")
        if step.factor == 1:
            return made
        return f"{f'({made})' if step.has_bias else made} × {format_trimmed_number(step.factor)}"

    def code_expression(self, context: StageCodeContext) -> str:
        return (
            f"{context.identifiers.layers[context.stage.parameters[0]]}"
            f"({context.input_variables[0]})"
        )

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        found = _matrix_sizes(spec, stage)
        return (matrix_product_shapes(tokens, *found, has_bias=True),) if found else ()

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * math.prod(_matrix_sizes(spec, stage) or (0,))

    def weight_shape(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape | None:
        found = _matrix_sizes(spec, stage)
        return WeightShape(stage.parameters[0], found) if found else None


def _latent_keys_phrase(stage: Stage) -> str:
    latent, shared = (vector_noun(name) for name in stage.reads)
    return f"the {latent} times {_layer_weights_phrase(stage)}, concatenated with the {shared},"


class LatentKeysExplainer(VectorExplainer):
    """Latent keys: the first columns are computed for each head; all heads share the others.

    Source: DeepSeek-AI 2024, "DeepSeek-V2", §2.1 (multi-head latent attention).
    """

    operation = Operation.LATENT_KEYS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        step, (*_, token, column) = (
            explained.stage.step_of_type(LatentKeys),
            explained.index_in_stage,
        )
        if column < step.own_columns:
            return linear_layer_terms(explained)
        return combine_as_sum(
            (explained.read_factor(explained.stage.reads[1], token, column - step.own_columns),)
        )

    def cell_phrase(self, info: CellContext) -> str:
        stage = info.explanation.stage
        latent, shared = (vector_noun(name) for name in stage.reads)
        step = stage.step_of_type(LatentKeys)
        if info.cell.place[-1] < step.own_columns:
            return f"is the {latent} times {_layer_weights_phrase(stage)}"
        return f"is taken from the {shared}, which is the same in all heads"

    def row_phrase(self, context: StepContext) -> str:
        made = f"the {vector_noun(context.stage.name)} of {context.query_name}"
        return f"{_latent_keys_phrase(context.stage)} gives {made}"

    def stage_phrase(self, context: StepContext) -> str:
        return f"{_latent_keys_phrase(context.stage)} gives each {vector_noun(context.stage.name)}"

    def formula(self, info: CellContext) -> str:
        is_own = info.cell.place[-1] < info.explanation.stage.step_of_type(LatentKeys).own_columns
        return "Σ number × weight" if is_own else "unchanged"


class RotaryPositionExplainer(VectorExplainer):
    """Rotary embedding (RoPE): each pair of query or key columns is rotated by an angle.

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
    """

    operation = Operation.ROTARY_POSITION

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        step, (*head, token, column) = (
            explained.stage.step_of_type(RotaryPosition),
            explained.index_in_stage,
        )
        read = explained.stage.reads[0]
        found = step.rotation_terms(column)
        if found is None:
            return combine_as_sum((explained.read_factor(read, *head, token, column),))
        pair, own, other, sign = found
        at = (explained.layer, token, pair)
        turned: tuple[Factor, ...] = (
            explained.read_factor(read, *head, token, other),
            _angle_factor(explained, step, "sin", at),
        )
        if sign < 0:
            turned = (*turned, constant(-1, "−1"))
        first = explained.read_factor(read, *head, token, own)
        return combine_as_sum((first, _angle_factor(explained, step, "cos", at)), turned)

    def cell_phrase(self, info: CellContext) -> str:
        turned = info.explanation.stage.step_of_type(RotaryPosition).rotation_terms(
            info.cell.place[-1]
        )
        read = vector_noun(info.explanation.stage.reads[0])
        if turned is None:
            return f"is the same column of the {read} because this column is not rotated"
        columns = f"columns {turned[1] + 1} and {turned[2] + 1} of the {read}"
        place = info.position_by_axis["token"] + 1
        return f"is computed from {columns}, rotated as a pair by the angle of position {place}"

    def row_phrase(self, context: StepContext) -> str:
        query = f"the {vector_noun(context.first_input)} of {context.query_name}"
        if not context.stage.step_of_type(RotaryPosition).pairs:
            return f"{query} is unchanged because this layer applies no rotation"
        return f"{query} is rotated by the angles of position {context.row_index + 1}"

    def stage_phrase(self, context: StepContext) -> str:
        each = f"each {vector_noun(context.first_input)}"
        if not context.stage.step_of_type(RotaryPosition).pairs:
            return f"{each} is unchanged because this layer applies no rotation"
        return f"{each} is rotated by the angles of its position, one pair of columns at a time"

    def formula(self, info: CellContext) -> str:
        turned = info.explanation.stage.step_of_type(RotaryPosition).rotation_terms(
            info.cell.place[-1]
        )
        if turned is None:
            return "unchanged"
        sign = "+" if turned[3] > 0 else "−"
        return f"number × cos(angle) {sign} other number of the pair × sin(angle)"

    def code_expression(self, context: StageCodeContext) -> str:
        return (
            f"{context.input_variables[0]} * cos + rotate_half({context.input_variables[0]}) * sin"
        )

    def helper_definitions(self, context: StageCodeContext) -> dict[str, str]:
        half, dtype = context.spec.d_head // 2, f"{context.x}.dtype"
        places = f"torch.arange({context.identifiers.tokens}).double()[:, None]"
        pairs = f"torch.arange({half}).double() / {half}"
        return {
            "angles": f"angles = ({places} / {ROTARY_BASE:_} ** ({pairs})).repeat(1, 2)",
            "cos": f"cos = torch.cos(angles).to({dtype})",
            "sin": f"sin = torch.sin(angles).to({dtype})",
            "rotate_half": (
                f"rotate_half = lambda x: torch.cat([-x[..., {half}:], x[..., :{half}]], dim=-1)"
            ),
        }


def _angle_factor(
    explained: ExplainedCell, step: RotaryPosition, function: str, at: tuple[int, int, int]
) -> Factor:
    """Return a factor for the cosine or sine of an angle, read from the model or computed."""
    if step.angles:
        return explained.read_weight(f"{step.angles}.{function}", *at)
    _, token, pair = at
    angle = step.angles_at(range(token, token + 1))[0, pair]
    value = math.cos(angle) if function == "cos" else math.sin(angle)
    return constant(value, f"{function}({format_number(angle)})")


HEAD_EDIT_PHRASES = {0.0: "is ablated", None: "is replaced in the model"}
"""Phrase for an edited head, by the factor that multiplies it."""


def _describe_head_edits(context: StepContext) -> str:
    """Describe the edited heads, or return an empty string if there are none."""
    edits = _head_edit_factors(context.stage, context.layer_index)
    if context.spec.heads == 1:
        return "".join(f", which {_head_edit_phrase(factor)}" for factor in edits.values())
    phrases = [f"head {head + 1} {_head_edit_phrase(factor)}" for head, factor in edits.items()]
    return f" ({join_names(phrases)})" if phrases else ""


def _head_edit_phrase(factor: float | None) -> str:
    return HEAD_EDIT_PHRASES.get(factor, f"is multiplied by {factor}")


def _head_edit_factors(stage: Stage, layer: int) -> dict[int, float | None]:
    """Return the factors of the edited heads of a layer, with None for replaced heads."""
    if not isinstance(stage.step, JoinedHeads):
        return {}
    return {head: factor for at, head, factor in sorted(stage.step.edits) if at == layer}


class ConcatHeadsExplainer(Explainer):
    """Concatenation of the heads' context vectors."""

    operation = Operation.CONCAT_HEADS

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        query, column = explained.index_in_stage
        name = explained.stage.reads[0]
        head, within = divmod(column, explained.trace.shape(name)[-1])
        read = explained.read_factor(name, head, query, within)
        factor = _head_edit_factors(explained.stage, explained.layer).get(head, 1.0)
        if factor is None:
            there = float(explained.trace.read(explained.stage.name, explained.cell))
            return combine_as_sum((constant(there, "{}"),))
        return combine_as_sum((read,) if factor == 1 else (read, constant(factor, f"{factor:g}")))

    def explain_cell(self, info: CellContext) -> str:
        read = info.explanation.stage.reads[0]
        head = info.cell.place[-1] // info.run.trace.shape(read)[-1] + 1
        column = (
            f"Column {info.column_number} of the concatenated "
            f"heads for {info.describe_token('query')}"
        )
        edits = _head_edit_factors(info.explanation.stage, info.layer)
        edited = f", which {_head_edit_phrase(edits[head - 1])}" if head - 1 in edits else ""
        return f"{column} is taken from head {head}{edited}: {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        spec, joined = context.spec, format_vector(context.read_row())
        edited = _describe_head_edits(context)
        if spec.heads == 1:
            goes = f"with one head{edited}, the context vector of {context.query_name} is"
            return f"{goes}{' changed' if edited else ' unchanged'}: {joined}"
        vectors = f"the context vectors of {context.query_name} from {all_heads_phrase(spec)}"
        return f"{vectors}{edited} are concatenated: {joined}"

    def explain_stage(self, context: StepContext) -> str:
        size = format_count(len(context.read_row()), "number")
        edited = _describe_head_edits(context)
        if context.spec.heads == 1:
            goes = f"with one head{edited}, the context vectors are"
            return (
                f"{goes}{' changed' if edited else ' unchanged'}; {largest_number_phrase(context)}"
            )
        heads = all_heads_phrase(context.spec)
        joined = f"the context vectors from {heads}{edited} are concatenated, {size} per token"
        return f"{joined}; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        head = info.cell.place[-1] // info.run.trace.shape(info.explanation.stage.reads[0])[-1]
        factor = _head_edit_factors(info.explanation.stage, info.layer).get(head, 1.0)
        if factor is None:
            return "replaced in the model"
        return "unchanged" if factor == 1 else f"number × {format_trimmed_number(factor)}"

    def write_equation(self, writer: EquationWriter) -> EquationRightHandSide:
        factors, _ = writer.term_factors(0)
        if len(factors) > 1 or not factors[0].name:  # the head's vectors are scaled or replaced
            return sum_equation(writer)
        return copied_equation(writer, f"taken from head {factors[0].source_index(0)[-3] + 1}")

    def code_expression(self, context: StageCodeContext) -> str:
        return f"{context.input_variables[0]}.transpose(-3, -2).flatten(-2)"

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        apart, between, joined = head_shapes(spec, tokens)
        return (f"{apart} → {between} → {joined}",)


class OutputProjectionExplainer(Explainer):
    """Output projection: the concatenated heads times a weight matrix."""

    operation = Operation.OUTPUT_PROJECTION

    def build_terms(self, explained: ExplainedCell) -> TermCombination:
        query, column = explained.index_in_stage
        weight, bias = parameter_names(explained.spec, explained.stage.parameters[0])
        joined = explained.read_factor(explained.stage.reads[0], query, None)
        return combine_as_sum(
            (joined, explained.read_weight(weight, column, None)),
            (explained.read_weight(bias, column),),
        )

    def explain_cell(self, info: CellContext) -> str:
        spec = info.run.trace.spec
        heads = "the only head" if spec.heads == 1 else all_heads_phrase(spec)
        is_single = spec.concatenated_head_width == 1
        made, bias = ("is computed from", "a bias") if is_single else ("mixes", "adds a bias")
        mixed = f"{made} the {format_count(spec.concatenated_head_width, 'number')} from {heads}"
        column = f"Column {info.column_number} of the output for {info.describe_token('query')}"
        return f"{column} {mixed} and {bias}: {format_number(info.value)}."

    def explain_row(self, context: StepContext) -> str:
        size = format_count(context.spec.concatenated_head_width, "number")
        mixes = (
            "the output projection "
            f"{'turns' if context.spec.concatenated_head_width == 1 else 'mixes'} the {size}"
        )
        made = f"{mixes} of {context.query_name} into its output and adds a bias"
        return f"{made}: {format_vector(context.read_row())}"

    def explain_stage(self, context: StepContext) -> str:
        size = format_count(context.spec.concatenated_head_width, "number")
        verb = "turns" if context.spec.concatenated_head_width == 1 else "mixes"
        mixes = f"the output projection {verb} the {size} of each token into its output"
        return f"{mixes} and adds a bias; {largest_number_phrase(context)}"

    def formula(self, info: CellContext) -> str:
        return add_bias_to_formula(info, "Σ number × weight")

    def code_expression(self, context: StageCodeContext) -> str:
        return (
            f"{context.identifiers.layers[context.stage.parameters[0]]}"
            f"({context.input_variables[0]})"
        )

    def shape_equations(self, spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
        return (
            matrix_product_shapes(
                tokens, spec.concatenated_head_width, spec.concatenated_head_width, has_bias=True
            ),
        )

    def count_multiply_adds(self, spec: AttentionSpec, stage: Stage, tokens: int) -> int:
        return tokens * spec.concatenated_head_width * spec.concatenated_head_width

    def weight_shape(self, spec: AttentionSpec, stage: Stage, tokens: int) -> WeightShape:
        return WeightShape(
            stage.parameters[0], (spec.concatenated_head_width, spec.concatenated_head_width)
        )


EXPLAINERS: tuple[Explainer, ...] = (
    InputProjectionExplainer(),
    UnprojectedInputExplainer(),
    LinearLayerExplainer(),
    LatentKeysExplainer(),
    RotaryPositionExplainer(),
    ConcatHeadsExplainer(),
    OutputProjectionExplainer(),
)
