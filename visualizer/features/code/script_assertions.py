"""The assert lines of an exported script, and the deviation that they allow.

The order of operations is the same as in the run, so results on the same machine are identical
to the bit. A different processor or summation order rounds differently. The tolerance derives from
the unit of rounding and what magnifies it, and is mostly too small for a fourth digit to change.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from visualizer.attention.spec import (
    Dtype,
    Normalisation,
)
from visualizer.attention.stages import NORM_EPSILON
from visualizer.explanations.dialect_identifiers import VOCABULARIES
from visualizer.features.code.array_literals import tensor
from visualizer.features.code.code_line_generator import lines
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec


MAX_ASSERTED_NUMBERS = 4_096
ROWS = 16
"""Number of rows asserted per stage of a long text."""
SINGLE_UNIT = 2.0**-23  # the unit of rounding of float32
DOUBLE_UNIT = 2.0**-40  # float64 has 2**-52; this is strict enough
USUAL_UNITS = 84  # 1e-5 in float32
MAX_ROUNDING_UNITS = 335  # 4e-5: less than any change of a fourth digit
DEVICE_FACTOR = 4  # factor on the tolerance: a GPU sums in a different order
NEGLIGIBLE_SIZE = 1e-30


_AFTER_ATTENTION = ("output", "attended", "normed_attended", "up", "feed_forward")
"""The stages after a module's attention that sum terms, if present."""


class Tolerance(Struct, frozen=True):
    """The allowed deviation from an expected number: a relative and an absolute part."""

    relative: float
    absolute: float

    @property
    def written(self) -> str:
        return f"rtol={self.relative:.2g}, atol={self.absolute:.2g}"


def checks(run: Run, dialect: CodeDialect) -> Iterator[str]:
    """The assert lines: on the weights, if the dialect has them, and on the last stage."""
    names = VOCABULARIES[dialect].names
    for stage in _asserted_stages(run, dialect):
        name, numbers = names[stage], read_some(run, stage)
        if is_by_rows(run, stage):
            rows = ", ".join(map(str, some_rows(run, stage)))
            yield f"rows_of_{name} = {name}[..., [{rows}], :]"
            name = f"rows_of_{name}"
        yield _format_check(name, numbers, tolerance(run, dialect, stage))
    stage_names = " and ".join(names[stage] for stage in _asserted_stages(run, dialect))
    yield f'print("All numbers agree: {stage_names}.")'


def is_odd(run: Run, dialect: CodeDialect) -> bool:
    """Whether an asserted number is not finite."""
    return not all(
        np.isfinite(read_some(run, stage)).all() for stage in _asserted_stages(run, dialect)
    )


def is_by_rows(run: Run, stage: str) -> bool:
    """Whether a stage is not stored, so that only a few of its rows are asserted."""
    return run.trace.holding(stage).is_blockwise


def some_rows(run: Run, stage: str) -> tuple[int, ...]:
    """The asserted rows of a stage that is not stored, spread evenly over all rows."""
    count = run.trace.shape(stage)[-2]
    return tuple(dict.fromkeys(np.linspace(0, count - 1, ROWS).round().astype(int).tolist()))


def read_some(run: Run, stage: str) -> np.ndarray:
    """Read a stage, or only its asserted rows, [..., row, column]."""
    if not is_by_rows(run, stage):
        return run.trace.read(stage)
    before = (slice(None),) * (len(run.trace.shape(stage)) - 2)
    rows = [run.trace.read(stage, (*before, row)) for row in some_rows(run, stage)]
    return np.stack(rows, axis=-2)


def _value_limits(run: Run, stage: str) -> tuple[float, float]:
    """The smallest and largest finite number of a stage, or of its asserted rows."""
    if not is_by_rows(run, stage):
        return run.trace.limits(stage)
    numbers = read_some(run, stage)
    finite = numbers[np.isfinite(numbers)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def note(run: Run, dialect: CodeDialect) -> Iterator[str]:
    """The lines of the heading that state the tolerance and when it may be exceeded."""
    spec = run.trace.spec
    found = tolerance(run, dialect, run.trace.last)
    yield (
        f"Expected values were computed on {run.device} in {spec.dtype}. "
        f"Tolerance: rtol {found.relative:.2g};"
    )
    yield f"atol {found.absolute:.2g} in the last stage, for rounding errors near 0."
    if run.trace.is_blockwise:
        yield "Long text: this script holds whole matrices, and only a few rows are compared."
    if not _is_on_cpu(run):
        yield "A GPU sums in a different order from the CPU, so the last digits may differ."
    if found.relative > MAX_ROUNDING_UNITS * unit(spec):
        yield (
            f"Scores reach {_largest_score(run):,.0f}, so {spec.dtype} weights have fewer exact "
            "digits, and the fused call rounds them differently."
        )
    if spec.normalisation is Normalisation.SUM:
        yield (
            "If the scores of a row nearly cancel, dividing by their sum magnifies rounding "
            "errors, so differences between machines may be larger."
        )


def _asserted_stages(run: Run, dialect: CodeDialect) -> tuple[str, ...]:
    made = {line.stages[-1] for line in lines(run.trace.spec, dialect) if line.stages}
    return tuple(dict.fromkeys(stage for stage in ("weights", run.trace.last) if stage in made))


def tolerance(run: Run, dialect: CodeDialect, stage: str) -> Tolerance:
    """The tolerance of a stage.

    A score's error is its magnitude times the unit of rounding; the exponential turns it into a
    relative error of the weight. Sums may cancel: their error then depends on the largest term.
    """
    spec = run.trace.spec
    sharpness = 2 * _largest_score(run)
    is_one_call = dialect is CodeDialect.SDPA and "weights" not in _asserted_stages(run, dialect)
    units = (
        USUAL_UNITS + sharpness if is_one_call else min(USUAL_UNITS + sharpness, MAX_ROUNDING_UNITS)
    )
    units = MAX_ROUNDING_UNITS if spec.normalisation is Normalisation.SUM else units
    if stage == "weights" and spec.normalisation is not Normalisation.SUM:
        return Tolerance(units * unit(spec), NEGLIGIBLE_SIZE)
    hidden = spec.hidden_width if spec.has_block else 0
    summed = math.sqrt(max(spec.d_in, spec.width, hidden, run.trace.tokens)) / 4
    summed = max(summed, sharpness) if is_one_call else summed
    summed *= 1 if _is_on_cpu(run) else DEVICE_FACTOR
    return Tolerance(
        units * unit(spec), max(summed * unit(spec) * _largest_term(run), NEGLIGIBLE_SIZE)
    )


def _largest_term(run: Run) -> float:
    """The largest term of any sum after the weights; sums may cancel, so their error follows it."""
    summed = ("values", "context", *_AFTER_ATTENTION, run.trace.last)
    limits = (_value_limits(run, stage) for stage in summed if stage in run.trace)
    largest = max(max(-low, high) for low, high in limits) * _norm_magnification(run)
    dropped = max(1.0, _value_limits(run, "dropped")[1]) if "dropped" in run.trace else 1.0
    return largest * dropped


def _norm_magnification(run: Run) -> float:
    """How much a block's norms magnify differences: nearly constant vectors are scaled up."""
    if not run.trace.spec.has_block:
        return 1.0
    smallest = min(
        float(read_some(run, stage).astype(np.float64).var(axis=-1).min())
        for stage in ("residual", "attended")
    )
    return max(1.0, 1 / math.sqrt(smallest + NORM_EPSILON))


def unit(spec: AttentionSpec) -> float:
    """The unit of rounding of a spec's numbers.

    Weights are drawn in float32 for every dtype, and processors may round them differently.
    """
    is_drawn = bool(spec.weight_names)
    return DOUBLE_UNIT if spec.dtype is Dtype.FLOAT64 and not is_drawn else SINGLE_UNIT


def _is_on_cpu(run: Run) -> bool:
    return run.device == "CPU"


def _largest_score(run: Run) -> float:
    """The largest magnitude of a score before the exponential; 0 if there is none."""
    if run.trace.spec.normalisation in {Normalisation.UNIFORM, Normalisation.SUM}:
        return 0.0
    low, high = _value_limits(run, "scaled" if "scaled" in run.trace else "scores")
    return max(-low, high)


def _format_check(name: str, numbers: np.ndarray, found: Tolerance) -> str:
    expected = f"expected_{name}"
    if numbers.size <= MAX_ASSERTED_NUMBERS:
        return f"{tensor(expected, numbers)}\n{_format_assert(name, expected, found)}"
    step = _sampling_step(numbers)
    sampled, total = f"{name}.flatten()[::{step}]", f"{name}.double().nan_to_num(0, 0, 0).sum()"
    flat = numbers.reshape(-1)
    finite = np.where(np.isfinite(flat), flat, 0).astype(np.float64)
    added = Tolerance(found.relative, found.relative * float(np.abs(finite).sum()))
    comment = f"# {numbers.size:,} values: compare one in {step}, and the sum of all finite values."
    return "\n".join(
        (
            comment,
            tensor(expected, flat[::step]),
            _format_assert(sampled, expected, found),
            f"sum_of_{name} = torch.tensor({float(finite.sum())!r}, dtype=torch.float64)",
            _format_assert(total, f"sum_of_{name}", added),
        )
    )


def _format_assert(actual: str, expected: str, found: Tolerance) -> str:
    arguments = f"{actual}, {expected}, {found.written}, equal_nan=True"
    return f"torch.testing.assert_close({arguments})"


def _sampling_step(numbers: np.ndarray) -> int:
    """The sampling step: coprime to the row length, so that every column is sampled."""
    step = -(-numbers.size // MAX_ASSERTED_NUMBERS)
    while math.gcd(step, numbers.shape[-1]) > 1:
        step += 1
    return step
