"""Shapes in words: the weights that a stage meets, and parts of equations of shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec


class ShapeParameter(Struct, frozen=True):
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


def heads_apart(spec: AttentionSpec, tokens: int) -> str:
    """Write how the shape of heads joined becomes that of heads apart."""
    apart, between, joined = head_shapes(spec, tokens)
    return f"{joined} → {between} → {apart}"


def head_shapes(spec: AttentionSpec, tokens: int) -> tuple[str, str, str]:
    """Write the shape with heads first, with heads beside the tokens, and with heads joined."""
    heads, d_head = spec.heads, spec.d_head
    return sizes(heads, tokens, d_head), sizes(tokens, heads, d_head), sizes(tokens, spec.width)


def matrix_product(rows: int, between: int, columns: int, has_bias: bool = False) -> str:
    """Write the shapes of a matrix product."""
    bias = f" + {sizes(columns)}" if has_bias else ""
    left, right, made = sizes(rows, between), sizes(between, columns), sizes(rows, columns)
    return f"{left} · {right}{bias} = {made}"


def each_head(spec: AttentionSpec) -> str:
    """Say that it is done in every head, where there are several."""
    return f" in each of {spec.heads} heads" if spec.heads > 1 else ""


def sizes(*counts: int) -> str:
    """Write sizes as Python does; without separators of thousands, which look like axes."""
    return f"({', '.join(map(str, counts))})"
