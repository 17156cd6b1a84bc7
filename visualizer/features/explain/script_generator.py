"""Export of a run as a self-contained torch script that recomputes and asserts its numbers.

A script contains the run's inputs (vectors, seeded or custom weights, masks, the cells kept by
dropout), runs the lines of the code, and asserts the results.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.roles import Role
from visualizer.attention.spec import (
    BIAS_SUFFIX,
    BLOCK_LAYERS,
    NORM_LAYERS,
    OWN_BIASES,
    OWN_LAYERS,
    PROJECTION_LAYERS,
    Dtype,
    HeadArrangement,
    MaskKind,
    NormalisationKind,
    PositionKind,
    Projection,
)
from visualizer.attention.stages import NORM_EPSILON
from visualizer.errors import InputError
from visualizer.explanations.code_dialects import DIALECTS
from visualizer.features.explain.code_lines import (
    boolean_tensor_line,
    format_array_literal,
    format_list_literal,
    stage_code_lines,
    tensor_line,
)
from visualizer.features.explain.code_presenter import DIALECT_TITLES, shape_comment
from visualizer.format import format_size
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.explanations.code_dialects import CodeIdentifiers

MAX_ASSERTED_NUMBERS = 4_096
ASSERTED_ROWS = 16
"""Number of rows asserted per stage of a long text."""
FLOAT32_ROUNDING_UNIT = 2.0**-23  # the machine epsilon of float32
FLOAT64_ROUNDING_UNIT = 2.0**-40  # the machine epsilon is 2**-52; this is strict enough
DEFAULT_ROUNDING_UNITS = 84  # 1e-5 in float32
MAX_ROUNDING_UNITS = 335  # 4e-5: less than any change in the fourth digit
DEVICE_FACTOR = 4  # factor on the tolerance, because a GPU sums in a different order
NEGLIGIBLE_SIZE = 1e-30


_AFTER_ATTENTION = (Role.OUTPUT, "attended", "normed_attended", "up", "feed_forward")
"""Stages after a module's attention that are sums of terms; a module may lack some of them."""


class Tolerance(Struct, frozen=True):
    """The allowed deviation from an expected number, with a relative and an absolute part."""

    relative: float
    absolute: float


def assertion_lines(run: Run, dialect: CodeDialect) -> Iterator[str]:
    """Yield the assertions for the last stage and, if the dialect computes them, the weights."""
    names = DIALECTS[dialect].names
    for stage in _asserted_stages(run, dialect):
        name, numbers = names[stage], read_asserted_rows(run, stage)
        if is_asserted_by_rows(run, stage):
            rows = ", ".join(map(str, asserted_rows(run, stage)))
            yield f"rows_of_{name} = {name}[..., [{rows}], :]"
            name = f"rows_of_{name}"
        yield _format_assertion(name, numbers, stage_tolerance(run, dialect, stage))
    stage_names = " and ".join(names[stage] for stage in _asserted_stages(run, dialect))
    yield f'print("All numbers agree: {stage_names}.")'


def asserts_non_finite_numbers(run: Run, dialect: CodeDialect) -> bool:
    """Return whether an asserted number is not finite."""
    return not all(
        np.isfinite(read_asserted_rows(run, stage)).all()
        for stage in _asserted_stages(run, dialect)
    )


def is_asserted_by_rows(run: Run, stage: str) -> bool:
    """Return whether only a few rows of a stage are asserted because the stage is not stored."""
    return run.trace.cached_stage_tensor(stage).is_blockwise


def asserted_rows(run: Run, stage: str) -> tuple[int, ...]:
    """Return the asserted rows of a stage that is not stored; they are evenly spaced."""
    rows = np.linspace(0, run.trace.shape(stage)[-2] - 1, ASSERTED_ROWS).round().astype(int)
    return tuple(np.unique(rows).tolist())


def read_asserted_rows(run: Run, stage: str) -> np.ndarray:
    """Read a stage, or only its asserted rows, [..., row, column]."""
    if not is_asserted_by_rows(run, stage):
        return run.trace.read(stage)
    before = (slice(None),) * (len(run.trace.shape(stage)) - 2)
    rows = [run.trace.read(stage, (*before, row)) for row in asserted_rows(run, stage)]
    return np.stack(rows, axis=-2)


def _value_limits(run: Run, stage: str) -> tuple[float, float]:
    """Return the smallest and the largest finite number of a stage, or of its asserted rows."""
    if not is_asserted_by_rows(run, stage):
        return run.trace.limits(stage)
    numbers = read_asserted_rows(run, stage)
    finite = numbers[np.isfinite(numbers)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def tolerance_comments(run: Run, dialect: CodeDialect) -> Iterator[str]:
    """Yield comments on the tolerance and on the cases in which results may exceed it."""
    spec = run.trace.spec
    found = stage_tolerance(run, dialect, run.trace.output_stage_name)
    yield (
        f"Expected values were computed on {run.device} in {spec.dtype}. "
        f"Tolerance: rtol {found.relative:.2g};"
    )
    yield f"atol {found.absolute:.2g} in the last stage, for rounding errors near 0."
    if run.trace.is_blockwise:
        yield "This text is long: the script computes whole matrices but compares only a few rows."
    if run.device != "CPU":
        yield "A GPU sums in a different order from the CPU, so the last digits may differ."
    if found.relative > MAX_ROUNDING_UNITS * rounding_unit(spec):
        yield (
            f"Scores reach {_largest_score(run):,.0f}, so {spec.dtype} weights have fewer exact "
            "digits, and the fused call rounds them differently."
        )
    if spec.normalisation is NormalisationKind.SUM:
        yield (
            "If the scores of a row nearly cancel, dividing by their sum magnifies rounding "
            "errors, so differences between machines may be larger."
        )


def _asserted_stages(run: Run, dialect: CodeDialect) -> tuple[str, ...]:
    lines = stage_code_lines(run.trace.spec, dialect)
    computed = {line.stages[-1] for line in lines if line.stages}
    last = dict.fromkeys((Role.WEIGHTS, run.trace.output_stage_name))
    return tuple(stage for stage in last if stage in computed)


def stage_tolerance(run: Run, dialect: CodeDialect, stage: str) -> Tolerance:
    """Return the tolerance of a stage.

    A score's error is its magnitude times the rounding unit; the exponential turns it into a
    relative error of the weight. The terms of a sum may cancel; the error of the sum then
    depends on the largest term.
    """
    spec = run.trace.spec
    sharpness, is_sum = 2 * _largest_score(run), spec.normalisation is NormalisationKind.SUM
    is_one_call = dialect is CodeDialect.SDPA and Role.WEIGHTS not in _asserted_stages(run, dialect)
    units = DEFAULT_ROUNDING_UNITS + sharpness
    if is_sum:
        units = MAX_ROUNDING_UNITS
    elif not is_one_call:
        units = min(units, MAX_ROUNDING_UNITS)
    if stage == Role.WEIGHTS and not is_sum:
        return Tolerance(units * rounding_unit(spec), NEGLIGIBLE_SIZE)
    hidden = spec.hidden_width if spec.has_transformer_block else 0
    summed = (
        math.sqrt(max(spec.d_in, spec.concatenated_head_width, hidden, run.trace.query_count)) / 4
    )
    summed = max(summed, sharpness) if is_one_call else summed
    summed *= 1 if run.device == "CPU" else DEVICE_FACTOR
    return Tolerance(
        units * rounding_unit(spec),
        max(summed * rounding_unit(spec) * _largest_term(run), NEGLIGIBLE_SIZE),
    )


def _largest_term(run: Run) -> float:
    """Return the largest term in the sums after the weights; it bounds the errors of the sums."""
    summed = (Role.VALUES, Role.CONTEXT, *_AFTER_ATTENTION, run.trace.output_stage_name)
    limits = (_value_limits(run, stage) for stage in summed if stage in run.trace)
    largest = max(max(-low, high) for low, high in limits) * _norm_magnification(run)
    dropped = max(1.0, _value_limits(run, Role.DROPPED)[1]) if Role.DROPPED in run.trace else 1.0
    return largest * dropped


def _norm_magnification(run: Run) -> float:
    """Return the factor by which norms magnify differences between nearly constant vectors."""
    if not run.trace.spec.has_transformer_block:
        return 1.0
    smallest = min(
        float(read_asserted_rows(run, stage).astype(np.float64).var(axis=-1).min())
        for stage in (Role.RESIDUAL, "attended")
    )
    return max(1.0, 1 / math.sqrt(smallest + NORM_EPSILON))


def rounding_unit(spec: AttentionSpec) -> float:
    """Return the relative rounding error assumed for the numbers of a spec.

    Weights are sampled in float32 for every dtype, and processors may round them differently.
    """
    is_exact = spec.dtype is Dtype.FLOAT64 and not spec.weight_names
    return FLOAT64_ROUNDING_UNIT if is_exact else FLOAT32_ROUNDING_UNIT


def _largest_score(run: Run) -> float:
    """Return the largest magnitude of a score before the exponential, or 0 if there is none."""
    if Role.SCORES not in run.trace or run.trace.spec.normalisation is NormalisationKind.SUM:
        return 0.0
    low, high = _value_limits(run, Role.SCALED if Role.SCALED in run.trace else Role.SCORES)
    return max(-low, high)


def _format_assertion(name: str, numbers: np.ndarray, found: Tolerance) -> str:
    expected = f"expected_{name}"
    if numbers.size <= MAX_ASSERTED_NUMBERS:
        return f"{tensor_line(expected, numbers)}\n{_format_assert_close(name, expected, found)}"
    step = _sampling_step(numbers)
    sampled, total = f"{name}.flatten()[::{step}]", f"{name}.double().nan_to_num(0, 0, 0).sum()"
    flat = numbers.reshape(-1)
    finite = np.where(np.isfinite(flat), flat, 0).astype(np.float64)
    of_sum = Tolerance(found.relative, found.relative * float(np.abs(finite).sum()))
    return "\n".join(
        (
            f"# {numbers.size:,} values: compare one in {step}, and the sum of all finite values.",
            tensor_line(expected, flat[::step]),
            _format_assert_close(sampled, expected, found),
            f"sum_of_{name} = torch.tensor({float(finite.sum())!r}, dtype=torch.float64)",
            _format_assert_close(total, f"sum_of_{name}", of_sum),
        )
    )


def _format_assert_close(actual: str, expected: str, found: Tolerance) -> str:
    tolerances = f"rtol={found.relative:.2g}, atol={found.absolute:.2g}"
    return f"torch.testing.assert_close({actual}, {expected}, {tolerances}, equal_nan=True)"


def _sampling_step(numbers: np.ndarray) -> int:
    """Return the sampling step: coprime to the row length, so that every column is sampled."""
    step = -(-numbers.size // MAX_ASSERTED_NUMBERS)
    while math.gcd(step, numbers.shape[-1]) > 1:
        step += 1
    return step


MAX_SCRIPT_BYTES = 2_000_000
MIN_LITERAL_LENGTH = 5  # "0.0, "

SINUSOIDS_SOURCE = '''
def sinusoids(tokens, d_in):
    """Vaswani et al. 2017, section 3.5."""
    rows = []
    for place in range(tokens):
        angles = [place / 10_000 ** ((column - column % 2) / d_in) for column in range(d_in)]
        waves = [math.cos if column % 2 else math.sin for column in range(d_in)]
        rows.append([wave(angle) for wave, angle in zip(waves, angles)])
    return torch.tensor(rows, dtype=dtype)  # token d_in
'''


def generate_script(run: Run, dialect: CodeDialect) -> str:
    """Return a script that recomputes a run with torch only, and asserts its numbers.

    Raises
    ------
    InputError
        If the script would be too large.
    """
    if not run.trace.has_module:
        sentence = (
            f"No script is available because the data was read from “{run.source_display_name}”."
        )
        raise InputError("script", f"{sentence} To use the data in a script, export it as NPZ.")
    if (size := _min_script_bytes(run)) > MAX_SCRIPT_BYTES:
        raise _too_large_error(size)
    lines = stage_code_lines(run.trace.spec, dialect)
    parts = (
        _heading_comments(run, dialect),
        _import_lines(run, dialect),
        _input_vector_code(run),
        *_other_tensor_lines(run),
        *_weight_lines(run.trace.spec, DIALECTS[dialect], run),
        "\n".join(f"{line.text}  {shape_comment(run, line)}".rstrip() for line in lines),
        *assertion_lines(run, dialect),
    )
    script = "\n\n".join(part for part in parts if part) + "\n"
    if (size := len(script.encode())) > MAX_SCRIPT_BYTES:
        raise _too_large_error(size)
    return script


def _too_large_error(size: int) -> InputError:
    sizes = f"{format_size(size)}; the maximum is {format_size(MAX_SCRIPT_BYTES)}"
    remedy = "Use a shorter text or a smaller embedding size."
    return InputError("script", f"The script is too large: {sizes}. {remedy}")


def _min_script_bytes(run: Run) -> int:
    """Return a lower bound of the script's size in bytes without reading any numbers."""
    spec, tokens = run.trace.spec, run.trace.query_count
    vectors = tokens if spec.own_input else len({word for text in run.texts for word in text})
    numbers = vectors * spec.d_in
    numbers += tokens * spec.d_in if spec.position is PositionKind.LEARNED else 0
    numbers += sum(matrix.rows * matrix.columns for _, matrix in spec.used_custom_weights)
    square = len(run.texts) * spec.heads * tokens**2 if spec.is_dropout_active else 0
    square += tokens**2 if spec.mask is MaskKind.OWN else 0
    return MIN_LITERAL_LENGTH * numbers + square


def _heading_comments(run: Run, dialect: CodeDialect) -> str:
    comments = (
        describe_value_origin(run),
        f"Generated by Attention Visualizer. Style: {DIALECT_TITLES[dialect]}. Requires "
        "only torch.",
        *tolerance_comments(run, dialect),
    )
    return "\n".join(f"# {sentence}" for sentence in comments)


def _import_lines(run: Run, dialect: CodeDialect) -> str:
    lines = ["import math"] if run.trace.spec.position is PositionKind.SINUSOIDAL else []
    lines += ["from math import inf, nan"] if asserts_non_finite_numbers(run, dialect) else []
    lines += ["", "import torch", "from torch import nn", "from torch.nn import functional as F"]
    lines += ["", "torch.set_grad_enabled(False)", f"dtype = torch.{run.trace.spec.dtype}"]
    return "\n".join(lines).lstrip()


# ----------------------------------------------------------------------------- inputs


def _input_vector_code(run: Run) -> str:
    """Return all input vectors, or only one per distinct token if these are sufficient."""
    first = run.trace.stages[0]  # the input stage
    vectors = run.trace.read(first.name)
    dims = " ".join((*run.trace.axes, "token d_in"))
    by_token: dict[str, np.ndarray] = {}
    rows = vectors.reshape(-1, vectors.shape[-1])
    words = [word for text in run.texts for word in text]
    for word, row in zip(words, rows, strict=True):
        if by_token.setdefault(word, row).tobytes() != row.tobytes():
            return f"{_token_list_code(run)}\n\n{tensor_line('inputs', vectors, dims)}"
    known = "".join(
        f"    {word!r}: {format_array_literal(row, 4)},\n" for word, row in by_token.items()
    )
    found = "[vectors[token] for token in tokens]"
    if run.trace.axes:
        found = "[[vectors[token] for token in text] for text in texts]"
    made = f"inputs = torch.tensor({found}, dtype=dtype)  # {dims}"
    return f"vectors = {{\n{known}}}\n{_token_list_code(run)}\n{made}"


def _token_list_code(run: Run) -> str:
    literals = [[repr(word) for word in text] for text in run.texts]
    if not run.trace.axes:
        return f"tokens = {format_list_literal(literals[0])}"
    rows = "".join(f"    {format_list_literal(text, 4)},\n" for text in literals)
    return f"texts = [\n{rows}]"


def _other_tensor_lines(run: Run) -> Iterator[str]:
    """Yield lines that create the other tensors that the code needs."""
    spec, trace = run.trace.spec, run.trace
    if spec.lengths:
        literal = format_list_literal([*map(str, spec.lengths)])
        yield f"lengths = torch.tensor({literal})  # text"
    if spec.position is PositionKind.LEARNED:
        yield tensor_line("position_table", trace.read("position.weight"), "token d_in")
    if spec.position is PositionKind.SINUSOIDAL:
        yield SINUSOIDS_SOURCE
    if spec.mask is MaskKind.OWN and spec.own_mask:
        yield boolean_tensor_line(
            "own_mask", spec.own_mask.to_array(), "query key; 1 where allowed"
        )
    if spec.is_dropout_active:
        weights = trace.read(trace.stage(Role.DROPPED).reads[0])
        kept = (trace.read(Role.DROPPED) != 0) | (weights == 0)
        dims = " ".join((*trace.axes, "head query key"))
        yield boolean_tensor_line("kept", kept, f"{dims}; 0 where dropout removes a weight")


# ---------------------------------------------------------------------------- layers and weights


def _weight_lines(spec: AttentionSpec, words: CodeIdentifiers, run: Run) -> Iterator[str]:
    """Yield lines that initialize the layers as in the run: with its seed and order, in float32."""
    lines = [*_projection_layer_lines(spec, words)] if spec.has_projection else []
    if spec.output_projection:
        width = spec.concatenated_head_width
        lines.append(f"{words.layers['out_proj']} = nn.Linear({width}, {width}).to(dtype)")
    lines += _block_layer_lines(spec, words)
    if not lines:
        return
    yield "\n".join((f"torch.manual_seed({spec.seed})", *lines))
    dtype = run.trace.read(Role.INPUT).dtype
    for name, matrix in spec.used_custom_weights:
        yield _custom_weight_lines(spec, words, name, matrix.to_array().astype(dtype))


def _projection_layer_lines(spec: AttentionSpec, words: CodeIdentifiers) -> Iterator[str]:
    made = "nn.Linear({}, {}, bias=" + f"{spec.bias}).to(dtype)"
    if spec.projection is Projection.UNIFORM:
        made = "torch.rand({}, {}).to(dtype)"
    names = [words.layers[name] for name in PROJECTION_LAYERS]
    if not _has_stacked_heads(spec):
        for layer, name in zip(PROJECTION_LAYERS, names, strict=True):
            yield f"{name} = {made.format(*spec.weight_sizes[layer])}"
        return
    layer = made.format(spec.d_in, spec.d_out)
    together = ", ".join(names)
    yield f"{together} = [], [], []"
    yield f"for _ in range({spec.heads}):  # heads"
    yield f"    for layers in ({together}):"
    yield f"        layers.append({layer})"


def _block_layer_lines(spec: AttentionSpec, words: CodeIdentifiers) -> Iterator[str]:
    """Yield lines that create the layers of a block; norms do not use random numbers."""
    for layer in BLOCK_LAYERS if spec.has_transformer_block else ():
        sizes = spec.block_parameter_shapes[f"{layer}.weight"]
        made = f"Linear({sizes[1]}, {sizes[0]})" if len(sizes) > 1 else f"LayerNorm({sizes[0]})"
        yield f"{words.layers[layer]} = nn.{made}.to(dtype)"


def _has_stacked_heads(spec: AttentionSpec) -> bool:
    return spec.arrangement is HeadArrangement.STACKED and spec.heads > 1


def _custom_weight_lines(
    spec: AttentionSpec, words: CodeIdentifiers, name: str, matrix: np.ndarray
) -> str:
    """Return lines that replace initialized weights with custom weights."""
    if name in OWN_BIASES:
        return _custom_bias_lines(spec, words, name, matrix)
    if name in NORM_LAYERS:
        return (
            f"{tensor_line(f'own_{name}', matrix[0], 'd_model')}\n{name}.weight.copy_(own_{name})"
        )
    layer, own = words.layers[OWN_LAYERS[name]], f"own_{name}"
    is_raw = spec.projection is Projection.UNIFORM and name in PROJECTION_LAYERS
    if not _has_stacked_heads(spec) or name not in PROJECTION_LAYERS:
        put = f"{layer}.copy_({own})" if is_raw else f"{layer}.weight.copy_({own}.T)"
    else:
        each = "layer.copy_(part)" if is_raw else "layer.weight.copy_(part.T)"
        parts = f"{own}.chunk({spec.heads}, dim=1)"
        put = f"for layer, part in zip({layer}, {parts}):\n    {each}"
    return f"{tensor_line(own, matrix, _CUSTOM_WEIGHT_DIMS.get(name, 'd_in width'))}\n{put}"


_CUSTOM_WEIGHT_DIMS = {
    "W_output": "width width",
    "linear1": "d_model d_ff",
    "linear2": "d_ff d_model",
}


def _custom_bias_lines(
    spec: AttentionSpec, words: CodeIdentifiers, name: str, matrix: np.ndarray
) -> str:
    layer, own = words.layers[OWN_BIASES[name]], f"own_{name.removesuffix(BIAS_SUFFIX)}_bias"
    put = f"{layer}.bias.copy_({own})"
    if _has_stacked_heads(spec) and OWN_BIASES[name] in PROJECTION_LAYERS:
        put = f"for layer, part in zip({layer}, {own}.chunk({spec.heads})):\n"
        put += "    layer.bias.copy_(part)"
    return f"{tensor_line(own, matrix[0], 'width')}\n{put}"
