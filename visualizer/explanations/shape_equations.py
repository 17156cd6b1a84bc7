"""What a stage does to shapes: the weights it meets, the equation, the multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.attention.spec import Arrangement, Position, Projection
from visualizer.attention.stages import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage


@dataclass(frozen=True, slots=True)
class ShapeParameter:
    """A layer or table of weights that a stage meets.

    Parameters
    ----------
    shape : tuple of int
        As it stands in the equation; of stacked heads, that of one head.
    copies : int
        How many of them there are: one for each stacked head.
    """

    name: str
    shape: tuple[int, ...]
    copies: int = 1

    @property
    def written(self) -> str:
        """Its name and its size: W_query 3 × 4."""
        sizes = " × ".join(map(str, self.shape))
        return f"{self.name} {sizes}" + (f", {self.copies} of them" if self.copies > 1 else "")


def parameter_of(spec: AttentionSpec, stage: Stage, tokens: int) -> ShapeParameter | None:
    """Give the weights that a stage meets; None for most."""
    if stage.operation is Operation.PROJECT:
        stacked = spec.arrangement is Arrangement.STACKED
        columns, copies = (spec.d_head, spec.heads) if stacked else (spec.width, 1)
        return ShapeParameter(stage.parameters[0], (spec.d_in, columns), copies)
    if stage.operation is Operation.PROJECT_OUT:
        return ShapeParameter("out_proj", (spec.width, spec.width))
    if stage.operation is Operation.POSITION and spec.position is Position.LEARNED:
        return ShapeParameter("position", (tokens, spec.d_in))
    return None


def equations(spec: AttentionSpec, stage: Stage, tokens: int) -> tuple[str, ...]:
    """Write what becomes of shapes in a stage; nothing where the shape stays as it is."""
    write = _EQUATIONS.get(stage.operation)
    return write(spec, tokens) if write else ()


def _add(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    one = sizes(tokens, spec.d_in)
    return (f"{one} + {one} = {one}",)


def _project(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    has_bias = spec.bias and spec.projection is Projection.LINEAR
    if spec.arrangement is Arrangement.STACKED:
        product = _product(tokens, spec.d_in, spec.d_head, has_bias)
        return (product + _each(spec),)
    return (_product(tokens, spec.d_in, spec.width, has_bias), _apart(spec, tokens))


def _share(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    if spec.arrangement is Arrangement.STACKED:
        return (f"{sizes(tokens, spec.d_in)}{_each(spec)}",)
    return (_apart(spec, tokens),)


def _dot(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    return (_product(tokens, spec.d_head, tokens) + _each(spec),)


def _mix(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    return (_product(tokens, tokens, spec.d_head) + _each(spec),)


def _join(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    apart, between, joined = _ways(spec, tokens)
    return (f"{apart} → {between} → {joined}",)


def _project_out(spec: AttentionSpec, tokens: int) -> tuple[str, ...]:
    return (_product(tokens, spec.width, spec.width, has_bias=True),)


def _apart(spec: AttentionSpec, tokens: int) -> str:
    apart, between, joined = _ways(spec, tokens)
    return f"{joined} → {between} → {apart}"


def _ways(spec: AttentionSpec, tokens: int) -> tuple[str, str, str]:
    """Write the shape with heads first, with heads beside the tokens, and with heads joined."""
    heads, d_head = spec.heads, spec.d_head
    return sizes(heads, tokens, d_head), sizes(tokens, heads, d_head), sizes(tokens, spec.width)


def _product(rows: int, between: int, columns: int, has_bias: bool = False) -> str:
    bias = f" + {sizes(columns)}" if has_bias else ""
    left, right, made = sizes(rows, between), sizes(between, columns), sizes(rows, columns)
    return f"{left} · {right}{bias} = {made}"


def _each(spec: AttentionSpec) -> str:
    return f" in each of {spec.heads} heads" if spec.heads > 1 else ""


def sizes(*counts: int) -> str:
    """Write sizes as Python does; without separators of thousands, which look like axes."""
    return f"({', '.join(map(str, counts))})"


def multiply_adds(spec: AttentionSpec, stage: Stage, tokens: int) -> int:
    """Count the multiply-adds of a stage's matrix product, for one text."""
    count = _COUNTS.get(stage.operation)
    return count(spec, tokens) if count else 0


_EQUATIONS: dict[Operation, Callable[[AttentionSpec, int], tuple[str, ...]]] = {
    Operation.ADD: _add,
    Operation.PROJECT: _project,
    Operation.SPLIT: _share,
    Operation.DOT: _dot,
    Operation.MIX: _mix,
    Operation.JOIN: _join,
    Operation.PROJECT_OUT: _project_out,
}

# Multiply-adds of one text: a matrix product takes rows × between × columns of them.
_COUNTS: dict[Operation, Callable[[AttentionSpec, int], int]] = {
    Operation.PROJECT: lambda spec, tokens: tokens * spec.d_in * spec.width,
    Operation.DOT: lambda spec, tokens: tokens * tokens * spec.width,
    Operation.MIX: lambda spec, tokens: tokens * tokens * spec.width,
    Operation.PROJECT_OUT: lambda spec, tokens: tokens * spec.width * spec.width,
}
