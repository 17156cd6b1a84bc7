"""Evaluates the arithmetic that the program shows, like a reader with a calculator."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from visualizer.attention.layer_operations import ACTIVATIONS
from visualizer.explanations.explain import equation
from visualizer.format import format_number
from visualizer.session.timeline import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run
    from visualizer.features.explain.presenter import CellExplanation

FUNCTIONS = {name.replace(" ", "_"): function for name, function in ACTIVATIONS.items()}
LEAST_SHOWN = 1e-4
"""Numbers below half of this value are shown with an exponent, because four decimal places would
show nothing.
"""


def evaluate_text(shown: str) -> float:
    """Evaluate shown arithmetic in float64; overflow results in ∞, and 0 ÷ 0 in NaN."""
    for name in ACTIVATIONS:
        shown = shown.replace(f"{name}(", f"{name.replace(' ', '_')}(")
    code = shown.replace("−", "-").replace("×", "*").replace("÷", "/").replace(",", "")
    code = code.replace("^", "**").replace("∞", "inf").replace("NaN", "nan")
    code = re.sub(r"√(\d+)", r"sqrt(\1)", code)
    names: dict[str, Any] = {
        "exp": np.exp,
        "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "sin": math.sin,
        "sqrt": math.sqrt,
        "cos": math.cos,
        "inf": np.float64(math.inf),
        "nan": np.float64(math.nan),
        **FUNCTIONS,
    }
    code = re.sub(r"(?<![\w.*^])(\d+\.?\d*(?:e[+-]?\d+)?)", r"number(\1)", code)
    with np.errstate(all="ignore"):
        return float(eval(code, {"__builtins__": {}, "number": np.float64}, names))


def magnification(shown: str) -> float:
    """Return the factor by which divisors with four decimal places magnify rounding errors."""
    divisors = re.findall(r"(?:1/|÷ )([\d.]+)", shown)
    return max([1.0, *(1 / max(float(each), LEAST_SHOWN) for each in divisors)])


def rounding(shown: str) -> float:
    """Return the relative rounding error of a shown number: half a unit of its last digit."""
    if "e" in shown:
        return 5e-3
    value = abs(evaluate_text(shown))
    return 5e-5 / value if value else 1.0


def term_faults(panel: CellExplanation, dtype: str) -> Iterator[str]:
    """Yield a message for each term whose factors do not result in its value."""
    magnified = max([1.0, *(magnification(term.product) for term in panel.terms)])
    for term in panel.terms:
        product, value = evaluate_text(term.product.split(" = ")[0]), evaluate_text(term.value)
        # The naive softmax overflows in the same way as in the computation.
        if "exp(" in term.product:
            with np.errstate(over="ignore"):
                product = float(np.float64(product).astype(dtype))
        if product != pytest.approx(value, rel=2e-2, abs=5e-3 * magnified, nan_ok=True):
            yield f"{panel.heading}: {term.product} is {product} and not {term.value}"


def cell_faults(panel: CellExplanation, dtype: str = "float32") -> list[str]:
    """Return a message for each term and value that does not match its factors or terms."""
    if not panel.terms:  # read from a file
        return []
    faults = [*term_faults(panel, dtype)]
    if panel.closing == "no allowed keys: 0":
        return faults + [panel.value] * (evaluate_text(panel.value) != 0)
    left, _, right = panel.closing.rpartition("= ")
    values = [evaluate_text(term.value) for term in panel.terms]
    if left == "sum ":
        notes = filter(None, panel.rest.split(" · "))
        values += [evaluate_text(note.split(": ")[1].removesuffix(" each")) for note in notes]
        with np.errstate(invalid="ignore"):
            result = float(np.sum(values))
        near = 1e-2 * max(1.0, *map(abs, values)) if np.isfinite(values).all() else 0.0
        is_near = result == pytest.approx(evaluate_text(right), abs=near, nan_ok=True)
        is_near |= not np.isfinite(result) and not np.isfinite(values).all()
    elif left:
        rounded = 2 * sum(map(rounding, left.strip().split(" ÷ ")))
        result = evaluate_text(left)
        is_near = result == pytest.approx(evaluate_text(right), rel=rounded, abs=1e-4, nan_ok=True)
        is_near |= rounded > 0.5
    else:
        (chosen,) = [term for term in panel.terms if term.is_chosen] or panel.terms
        # GELU subtracts nearly equal numbers if the result is close to 0
        near = float(4 * np.finfo(dtype).eps)
        is_near = chosen.value == right or (
            evaluate_text(chosen.value) == pytest.approx(evaluate_text(right), abs=near, rel=0.0)
        )
    if right != panel.value or not is_near:
        faults.append(f"{panel.heading}: {values}, {panel.closing}, {panel.value}")
    return faults


def line_faults(run: Run, leading: tuple[int, ...], stage: str) -> list[str]:
    """Return the equation of a stage's first cell if it does not result in the cell's value."""
    line = equation(run, leading, Step(stage, range(1), range(1)), 0)
    value = float(run.trace.read(stage, (*leading, *(0 for _ in run.trace.stage(stage).dims))))
    shown = "".join(part.text for part in line.parts)
    if not line.result:
        is_wave = re.match(r"(sin|cos)\(", shown)
        is_zero = value == 0 and shown.startswith("0")
        return [] if format_number(value) in shown or is_wave or is_zero else [line.plain_text]
    near = pytest.approx(value, rel=2e-2, abs=5e-3 * magnification(shown), nan_ok=True)
    is_whole = "more" not in shown and "e+" not in shown
    is_near = not is_whole or evaluate_text(shown) == near
    return [] if is_near and line.result == format_number(value) else [line.plain_text]
