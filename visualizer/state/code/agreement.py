"""What a script must come to, and how closely: the numbers of a run, written to be asserted.

A script does what the run did in the same order, so that on the same machine its numbers are the
same ones. Another processor, or another order, rounds otherwise: the room for that is made of the
unit of rounding and of what magnifies it, and is mostly too little for a fourth digit to change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import Dtype, Normalisation, Projection
from visualizer.state.code.dialects import Dialect, lines
from visualizer.state.code.literals import tensor
from visualizer.state.code.vocabulary import VOCABULARIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec

MOST_WRITTEN = 4_096

SINGLE_UNIT = 2.0**-23  # what numbers are rounded to in float32
DOUBLE_UNIT = 2.0**-40  # in float64 it is 2**-52, but there is no need to be as strict as one could
USUAL_UNITS = 84  # 1e-5 in float32
MOST_UNITS = 335  # 4e-5: less than any change of a fourth digit
OTHER_DEVICE = 4  # times the room for sums that a GPU adds up in another order
NO_SIZE = 1e-30


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a number may lie from the expected one: a share of it, and something besides."""

    relative: float
    absolute: float

    @property
    def written(self) -> str:
        return f"rtol={self.relative:.2g}, atol={self.absolute:.2g}"


def checks(run: Run, dialect: Dialect) -> Iterator[str]:
    """Write the asserts: of the weights, where the dialect has them, and of the last stage."""
    names = VOCABULARIES[dialect].names
    for stage in _checked(run, dialect):
        yield _check(names[stage], run.trace.read(stage), tolerance(run, dialect, stage))
    told = " and ".join(names[stage] for stage in _checked(run, dialect))
    yield f'print("All numbers agree: {told}.")'


def is_odd(run: Run, dialect: Dialect) -> bool:
    """Whether something to be asserted is no finite number."""
    return not all(np.isfinite(run.trace.read(stage)).all() for stage in _checked(run, dialect))


def note(run: Run, dialect: Dialect) -> Iterator[str]:
    """Say in the script's heading how closely its numbers agree, and what may disturb that."""
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


def _checked(run: Run, dialect: Dialect) -> tuple[str, ...]:
    made = {line.stages[-1] for line in lines(run.trace.spec, dialect) if line.stages}
    return tuple(dict.fromkeys(stage for stage in ("weights", run.trace.last) if stage in made))


# ------------------------------------------------------------------------------------- how closely


def tolerance(run: Run, dialect: Dialect, stage: str) -> Tolerance:
    """Say how closely a stage must agree.

    An error in a score is one of as many units as the score is large, and the exponential makes
    it a share of the weight. What is summed up may cancel: then the error is one of the terms'.
    """
    spec = run.trace.spec
    sharpness = 2 * _largest_score(run)
    is_one_call = dialect is Dialect.SDPA and "weights" not in _checked(run, dialect)
    units = USUAL_UNITS + sharpness if is_one_call else min(USUAL_UNITS + sharpness, MOST_UNITS)
    units = MOST_UNITS if spec.normalisation is Normalisation.SUM else units
    if stage == "weights" and spec.normalisation is not Normalisation.SUM:
        return Tolerance(units * unit(spec), NO_SIZE)
    summed = math.sqrt(max(spec.d_in, spec.width, run.trace.tokens)) / 4
    summed = max(summed, sharpness) if is_one_call else summed
    summed *= 1 if _is_alike(run) else OTHER_DEVICE
    return Tolerance(units * unit(spec), max(summed * unit(spec) * _largest_term(run), NO_SIZE))


def _largest_term(run: Run) -> float:
    """Give the largest number that is summed up from the weights on: it may cancel."""
    limits = (run.trace.limits(stage) for stage in ("values", "context", run.trace.last))
    largest = max(max(-low, high) for low, high in limits)
    dropped = max(1.0, run.trace.limits("dropped")[1]) if "dropped" in run.trace else 1.0
    return largest * dropped


def unit(spec: AttentionSpec) -> float:
    """Give the unit of rounding of a spec's numbers.

    Weights are drawn in float32 whatever the type, and not every processor rounds them alike.
    """
    is_drawn = spec.output_projection or spec.projection is not Projection.NONE
    return DOUBLE_UNIT if spec.dtype is Dtype.FLOAT64 and not is_drawn else SINGLE_UNIT


def _is_alike(run: Run) -> bool:
    return run.device == "CPU"


def _largest_score(run: Run) -> float:
    """Give the largest score that goes into the exponential; 0 where there is none."""
    if run.trace.spec.normalisation in {Normalisation.UNIFORM, Normalisation.SUM}:
        return 0.0
    low, high = run.trace.limits("scaled" if "scaled" in run.trace else "scores")
    return max(-low, high)


# ------------------------------------------------------------------------------------- the asserts


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
    """Choose how many to pass over: no divisor of a row, so that every column is met."""
    step = -(-numbers.size // MOST_WRITTEN)
    while math.gcd(step, numbers.shape[-1]) > 1:
        step += 1
    return step
