"""Export of a run as a self-contained Python script that recomputes it with torch and asserts it.

A script holds the run's inputs (vectors, weights of the same seed or custom ones, masks, the cells
that dropout kept), computes with the lines of the Code pane, and asserts the results.

The order of operations is that of the run, so on the same machine the results are bit-identical.
Another processor or another order of summation rounds differently: the tolerance derives from the
unit of rounding and from what magnifies it, and mostly is too small for a fourth digit to change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import (
    BIAS,
    LAYERS,
    OWN_BIASES,
    OWN_LAYERS,
    Arrangement,
    Dtype,
    Mask,
    Normalisation,
    Position,
    Projection,
)
from visualizer.errors import InputError
from visualizer.explanations.dialect_identifiers import VOCABULARIES
from visualizer.features.code.code_lines import lines
from visualizer.features.code.presenter import TITLES, shape_comment
from visualizer.number_format import format_size
from visualizer.session.computation_caption import caption
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.explanations.dialect_identifiers import CodeIdentifiers

MOST_WRITTEN = 4_096

SINGLE_UNIT = 2.0**-23  # the unit of rounding of float32
DOUBLE_UNIT = 2.0**-40  # float64 has 2**-52; this is strict enough
USUAL_UNITS = 84  # 1e-5 in float32
MOST_UNITS = 335  # 4e-5: less than any change of a fourth digit
OTHER_DEVICE = 4  # factor on the tolerance: a GPU sums in another order
NO_SIZE = 1e-30


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The allowed deviation from an expected number: a relative and an absolute part."""

    relative: float
    absolute: float

    @property
    def written(self) -> str:
        return f"rtol={self.relative:.2g}, atol={self.absolute:.2g}"


def checks(run: Run, dialect: CodeDialect) -> Iterator[str]:
    """The assert lines: on the weights, where the dialect has them, and on the last stage."""
    names = VOCABULARIES[dialect].names
    for stage in _checked(run, dialect):
        yield _check(names[stage], run.trace.read(stage), tolerance(run, dialect, stage))
    told = " and ".join(names[stage] for stage in _checked(run, dialect))
    yield f'print("All numbers agree: {told}.")'


def is_odd(run: Run, dialect: CodeDialect) -> bool:
    """Whether an asserted number is not finite."""
    return not all(np.isfinite(run.trace.read(stage)).all() for stage in _checked(run, dialect))


def note(run: Run, dialect: CodeDialect) -> Iterator[str]:
    """The lines of the heading that state the tolerance, and what may exceed it."""
    spec = run.trace.spec
    found = tolerance(run, dialect, run.trace.last)
    yield (
        f"The expected numbers come from: {run.device}, {spec.dtype}. They may differ by "
        f"{found.relative:.2g} of their size (rtol) and,"
    )
    yield f"near 0, by what rounding leaves there ({found.absolute:.2g} in the last stage, atol)."
    if not _is_alike(run):
        yield "A GPU adds up in another order than the CPU: the last digits may be others."
    if found.relative > MOST_UNITS * unit(spec):
        yield (
            f"Scores are as large as {_largest_score(run):,.0f} here: {spec.dtype} then holds "
            "fewer digits of a weight, and one call rounds them otherwise."
        )
    if spec.normalisation is Normalisation.SUM:
        yield (
            "Where the scores of a row nearly cancel, dividing by their sum magnifies rounding: "
            "there another machine may differ by more."
        )


def _checked(run: Run, dialect: CodeDialect) -> tuple[str, ...]:
    made = {line.stages[-1] for line in lines(run.trace.spec, dialect) if line.stages}
    return tuple(dict.fromkeys(stage for stage in ("weights", run.trace.last) if stage in made))


# ------------------------------------------------------------------------------------- tolerance


def tolerance(run: Run, dialect: CodeDialect, stage: str) -> Tolerance:
    """The tolerance of a stage.

    A score's error is its magnitude times the unit of rounding, and the exponential turns it into a
    relative error of the weight. Sums may cancel: their error then depends on the largest term.
    """
    spec = run.trace.spec
    sharpness = 2 * _largest_score(run)
    is_one_call = dialect is CodeDialect.SDPA and "weights" not in _checked(run, dialect)
    units = USUAL_UNITS + sharpness if is_one_call else min(USUAL_UNITS + sharpness, MOST_UNITS)
    units = MOST_UNITS if spec.normalisation is Normalisation.SUM else units
    if stage == "weights" and spec.normalisation is not Normalisation.SUM:
        return Tolerance(units * unit(spec), NO_SIZE)
    summed = math.sqrt(max(spec.d_in, spec.width, run.trace.tokens)) / 4
    summed = max(summed, sharpness) if is_one_call else summed
    summed *= 1 if _is_alike(run) else OTHER_DEVICE
    return Tolerance(units * unit(spec), max(summed * unit(spec) * _largest_term(run), NO_SIZE))


def _largest_term(run: Run) -> float:
    """The largest term of any sum after the weights, as sums may cancel."""
    limits = (run.trace.limits(stage) for stage in ("values", "context", run.trace.last))
    largest = max(max(-low, high) for low, high in limits)
    dropped = max(1.0, run.trace.limits("dropped")[1]) if "dropped" in run.trace else 1.0
    return largest * dropped


def unit(spec: AttentionSpec) -> float:
    """The unit of rounding of a spec's numbers.

    Weights are drawn in float32 whatever the dtype, and processors may round them differently.
    """
    is_drawn = spec.output_projection or spec.projection is not Projection.NONE
    return DOUBLE_UNIT if spec.dtype is Dtype.FLOAT64 and not is_drawn else SINGLE_UNIT


def _is_alike(run: Run) -> bool:
    return run.device == "CPU"


def _largest_score(run: Run) -> float:
    """The largest magnitude of a score before the exponential; 0 where there is none."""
    if run.trace.spec.normalisation in {Normalisation.UNIFORM, Normalisation.SUM}:
        return 0.0
    low, high = run.trace.limits("scaled" if "scaled" in run.trace else "scores")
    return max(-low, high)


# ------------------------------------------------------------------------------------- asserts


def _check(name: str, numbers: np.ndarray, found: Tolerance) -> str:
    expected = f"expected_{name}"
    if numbers.size <= MOST_WRITTEN:
        return f"{tensor(expected, numbers)}\n{_assert(name, expected, found)}"
    step = _step(numbers)
    sampled, total = f"{name}.flatten()[::{step}]", f"{name}.double().nan_to_num(0, 0, 0).sum()"
    flat = numbers.reshape(-1)
    finite = np.where(np.isfinite(flat), flat, 0).astype(np.float64)
    added = Tolerance(found.relative, found.relative * float(np.abs(finite).sum()))
    comment = f"# {numbers.size:,} numbers: one in {step} of them, and the sum of all finite ones."
    return "\n".join(
        (
            comment,
            tensor(expected, flat[::step]),
            _assert(sampled, expected, found),
            f"sum_of_{name} = torch.tensor({float(finite.sum())!r}, dtype=torch.float64)",
            _assert(total, f"sum_of_{name}", added),
        )
    )


def _assert(actual: str, expected: str, found: Tolerance) -> str:
    arguments = f"{actual}, {expected}, {found.written}, equal_nan=True"
    return f"torch.testing.assert_close({arguments})"


def _step(numbers: np.ndarray) -> int:
    """The sampling step: coprime to the length of a row, so that every column is sampled."""
    step = -(-numbers.size // MOST_WRITTEN)
    while math.gcd(step, numbers.shape[-1]) > 1:
        step += 1
    return step


LINE = 96
PER_LINE = 8


def literal(array: np.ndarray, indent: int = 0) -> str:
    """An array as nested list literals, each number with the fewest digits of its dtype."""
    if array.ndim == 1:
        return listed([str(number) for number in array], indent)
    inner = " " * (indent + 4)
    rows = "".join(f"{inner}{literal(row, indent + 4)},\n" for row in array)
    return f"[\n{rows}{' ' * indent}]"


def listed(parts: Sequence[str], indent: int = 0) -> str:
    """A list literal on one line, or with a few items per line where that is too long."""
    line = f"[{', '.join(parts)}]"
    if len(line) + indent <= LINE:
        return line
    inner = " " * (indent + 4)
    chunks = (parts[start : start + PER_LINE] for start in range(0, len(parts), PER_LINE))
    rows = "".join(f"{inner}{', '.join(chunk)},\n" for chunk in chunks)
    return f"[\n{rows}{' ' * indent}]"


def tensor(name: str, array: np.ndarray, note: str = "") -> str:
    """A line that creates a tensor of the script's dtype."""
    comment = f"  # {note}" if note else ""
    return f"{name} = torch.tensor({literal(array)}, dtype=dtype){comment}"


def cells(name: str, array: np.ndarray, note: str) -> str:
    """A line that creates a boolean tensor from rows of 1 and 0, with any number of axes."""
    rows = (array.reshape(-1, array.shape[-1]).astype("u1") + ord("0")).tobytes().decode()
    width = array.shape[-1]
    written = "".join(
        f'    "{rows[start : start + width]}",\n' for start in range(0, len(rows), width)
    )
    shape = ", ".join(map(str, array.shape))
    made = "torch.tensor([[cell == '1' for cell in row] for row in rows])"
    return f"# {note}\nrows = [\n{written}]\n{name} = {made}.view({shape})"


LARGEST_BYTES = 2_000_000
SMALLEST_LITERAL = 5  # "0.0, "

SINUSOIDS = '''
def sinusoids(tokens, d_in):
    """Vaswani et al. 2017, section 3.5."""
    rows = []
    for place in range(tokens):
        angles = [place / 10_000 ** ((column - column % 2) / d_in) for column in range(d_in)]
        waves = [math.cos if column % 2 else math.sin for column in range(d_in)]
        rows.append([wave(angle) for wave, angle in zip(waves, angles)])
    return torch.tensor(rows, dtype=dtype)  # token d_in
'''


def script(run: Run, dialect: CodeDialect) -> str:
    """The text of a script that recomputes a run with torch alone and asserts its numbers.

    Raises
    ------
    InputError
        When the script would be too large.
    """
    if not run.trace.has_module:
        sentence = f"No code made these numbers: they were read from “{run.source}”."
        raise InputError("script", f"{sentence} Export them as NPZ to compute with them.")
    least = _least_bytes(run)
    if least > LARGEST_BYTES:
        raise _too_large(least)
    parts = (
        _heading(run, dialect),
        _imports(run, dialect),
        _inputs(run),
        *_given(run),
        *_weights(run.trace.spec, VOCABULARIES[dialect], run),
        _computation(run, dialect),
        *checks(run, dialect),
    )
    written = "\n\n".join(part for part in parts if part) + "\n"
    if (count := len(written.encode())) > LARGEST_BYTES:
        raise _too_large(count)
    return written


def _too_large(count: int) -> InputError:
    sentence = (
        f"The script would be {format_size(count)} of numbers, and more than "
        f"{format_size(LARGEST_BYTES)} is "
        "hard to open. Use a shorter text or a smaller embedding size, and copy again."
    )
    return InputError("script", sentence)


def _least_bytes(run: Run) -> int:
    """A lower bound of the script's bytes, known before any number is read."""
    spec, tokens = run.trace.spec, run.trace.tokens
    vectors = tokens if spec.own_input else len({word for text in run.texts for word in text})
    numbers = vectors * spec.d_in
    numbers += tokens * spec.d_in if spec.position is Position.LEARNED else 0
    numbers += sum(matrix.rows * matrix.columns for _, matrix in spec.counting_weights)
    square = len(run.texts) * spec.heads * tokens**2 if spec.drops else 0
    square += tokens**2 if spec.mask is Mask.OWN else 0
    return SMALLEST_LITERAL * numbers + square


def _heading(run: Run, dialect: CodeDialect) -> str:
    told = (
        caption(run),
        f"Made by Attention Visualizer. {TITLES[dialect]}; torch alone, on the CPU.",
        *note(run, dialect),
    )
    return "\n".join(f"# {sentence}" for sentence in told)


def _imports(run: Run, dialect: CodeDialect) -> str:
    needed = ["import math"] if run.trace.spec.position is Position.SINUSOIDAL else []
    needed += ["from math import inf, nan"] if is_odd(run, dialect) else []
    needed += ["", "import torch", "from torch import nn", "from torch.nn import functional as F"]
    needed += ["", "torch.set_grad_enabled(False)", f"dtype = torch.{run.trace.spec.dtype}"]
    return "\n".join(needed).lstrip()


# ----------------------------------------------------------------------------- inputs


def _inputs(run: Run) -> str:
    """The input vectors: one per distinct token where equal tokens agree, else one per position."""
    first = run.trace.stages[0]  # the input stage
    vectors = run.trace.read(first.name)
    dims = " ".join((*run.trace.axes, "token d_in"))
    by_token: dict[str, np.ndarray] = {}
    rows = vectors.reshape(-1, vectors.shape[-1])
    words = [word for text in run.texts for word in text]
    for word, row in zip(words, rows, strict=True):
        if by_token.setdefault(word, row).tobytes() != row.tobytes():
            return f"{_texts(run)}\n\n{tensor('inputs', vectors, dims)}"
    known = "".join(f"    {word!r}: {literal(row, 4)},\n" for word, row in by_token.items())
    found = "[vectors[token] for token in tokens]"
    if run.trace.axes:
        found = "[[vectors[token] for token in text] for text in texts]"
    made = f"inputs = torch.tensor({found}, dtype=dtype)  # {dims}"
    return f"vectors = {{\n{known}}}\n{_texts(run)}\n{made}"


def _texts(run: Run) -> str:
    written = [[repr(word) for word in text] for text in run.texts]
    if not run.trace.axes:
        return f"tokens = {listed(written[0])}"
    rows = "".join(f"    {listed(text, 4)},\n" for text in written)
    return f"texts = [\n{rows}]"


def _given(run: Run) -> Iterator[str]:
    """The other tensors that the lines need, where the spec uses them."""
    spec, trace = run.trace.spec, run.trace
    if spec.lengths:
        yield f"lengths = torch.tensor({listed([str(length) for length in spec.lengths])})  # text"
    if spec.position is Position.LEARNED:
        yield tensor("position_table", trace.read("position.weight"), "token d_in")
    if spec.position is Position.SINUSOIDAL:
        yield SINUSOIDS
    if spec.mask is Mask.OWN and spec.own_mask:
        yield cells("own_mask", spec.own_mask.array(), "query key; 1 where allowed")
    if spec.drops:
        weights = trace.read(trace.stage("dropped").reads[0])
        kept = (trace.read("dropped") != 0) | (weights == 0)
        dims = " ".join((*trace.axes, "head query key"))
        yield cells("kept", kept, f"{dims}; 0 where dropout takes a weight away")


# ---------------------------------------------------------------------------- layers and weights


def _weights(spec: AttentionSpec, words: CodeIdentifiers, run: Run) -> Iterator[str]:
    """Lines that draw the layers as the run did: same seed, same order, in float32."""
    has_layers = spec.projection is not Projection.NONE
    if not has_layers and not spec.output_projection:
        return
    drawn = [f"torch.manual_seed({spec.seed})"]
    drawn += _layers(spec, words) if has_layers else []
    if spec.output_projection:
        width = spec.width
        drawn.append(f"{words.layers['out_proj']} = nn.Linear({width}, {width}).to(dtype)")
    yield "\n".join(drawn)
    dtype = run.trace.read("input").dtype
    for name, matrix in spec.counting_weights:
        yield _own(spec, words, name, matrix.array().astype(dtype))


def _layers(spec: AttentionSpec, words: CodeIdentifiers) -> Iterator[str]:
    layer = f"nn.Linear({spec.d_in}, {spec.d_out}, bias={spec.bias}).to(dtype)"
    if spec.projection is Projection.UNIFORM:
        layer = f"torch.rand({spec.d_in}, {spec.d_out}).to(dtype)"
    names = [words.layers[name] for name in LAYERS]
    if not _is_stacked(spec):
        yield from (f"{name} = {layer}" for name in names)
        return
    together = ", ".join(names)
    yield f"{together} = [], [], []"
    yield f"for _ in range({spec.heads}):  # heads"
    yield f"    for layers in ({together}):"
    yield f"        layers.append({layer})"


def _is_stacked(spec: AttentionSpec) -> bool:
    return spec.arrangement is Arrangement.STACKED and spec.heads > 1


def _own(spec: AttentionSpec, words: CodeIdentifiers, name: str, matrix: np.ndarray) -> str:
    """Lines that replace drawn weights by custom ones."""
    if name in OWN_BIASES:
        return _own_bias(spec, words, name, matrix)
    layer, own = words.layers[OWN_LAYERS[name]], f"own_{name}"
    is_raw = spec.projection is Projection.UNIFORM and name in LAYERS
    if not _is_stacked(spec) or name not in LAYERS:
        put = f"{layer}.copy_({own})" if is_raw else f"{layer}.weight.copy_({own}.T)"
    else:
        each = "layer.copy_(part)" if is_raw else "layer.weight.copy_(part.T)"
        parts = f"{own}.chunk({spec.heads}, dim=1)"
        put = f"for layer, part in zip({layer}, {parts}):\n    {each}"
    return f"{tensor(own, matrix, 'd_in width' if name in LAYERS else 'width width')}\n{put}"


def _own_bias(spec: AttentionSpec, words: CodeIdentifiers, name: str, matrix: np.ndarray) -> str:
    layer, own = words.layers[OWN_BIASES[name]], f"own_{name.removesuffix(BIAS)}_bias"
    put = f"{layer}.bias.copy_({own})"
    if _is_stacked(spec) and OWN_BIASES[name] in LAYERS:
        put = f"for layer, part in zip({layer}, {own}.chunk({spec.heads})):\n"
        put += "    layer.bias.copy_(part)"
    return f"{tensor(own, matrix[0], 'width')}\n{put}"


# ------------------------------------------------------------------------------- the computation


def _computation(run: Run, dialect: CodeDialect) -> str:
    written = []
    for line in lines(run.trace.spec, dialect):
        shape = shape_comment(run, line)
        written.append(f"{line.text}  {shape}" if shape else line.text)
    return "\n".join(written)
