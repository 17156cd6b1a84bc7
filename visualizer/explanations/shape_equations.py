"""Shapes as text: weights used by a stage, and parts of shape equations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec


class ShapeParameter(Struct, frozen=True):
    """A layer or table of weights that a stage uses.

    Parameters
    ----------
    shape : tuple of int
        As written in the equation; for stacked heads, the shape of one head.
    copy_count : int
        Number of copies: one for each stacked head.
    """

    name: str
    shape: tuple[int, ...]
    copy_count: int = 1

    @property
    def written(self) -> str:
        """Its name and size: W_query 3 × 4."""
        sizes = " × ".join(map(str, self.shape))
        return f"{self.name} {sizes}" + (
            f", {self.copy_count} of them" if self.copy_count > 1 else ""
        )


def split_head_shapes(spec: AttentionSpec, tokens: int) -> str:
    """Return the shapes before and after concatenated heads are split."""
    apart, between, joined = head_shapes(spec, tokens)
    return f"{joined} → {between} → {apart}"


def grouped_head_shapes(spec: AttentionSpec, tokens: int) -> tuple[str, str]:
    """Return how shared heads are split, and how they are repeated for the query heads."""
    groups, heads, d_head = spec.key_value_heads, spec.heads, spec.d_head
    joined, between = format_shape(tokens, groups * d_head), format_shape(tokens, groups, d_head)
    apart, repeated = format_shape(groups, tokens, d_head), format_shape(heads, tokens, d_head)
    return (
        f"{joined} → {between} → {apart}",
        f"each head {heads // groups} times: {apart} to {repeated}",
    )


def head_shapes(spec: AttentionSpec, tokens: int) -> tuple[str, str, str]:
    """Return the shapes with heads first, with heads after the tokens, and concatenated."""
    heads, d_head = spec.heads, spec.d_head
    return (
        format_shape(heads, tokens, d_head),
        format_shape(tokens, heads, d_head),
        format_shape(tokens, spec.width),
    )


def matrix_product_shapes(rows: int, between: int, columns: int, has_bias: bool = False) -> str:
    """Return the shapes of a matrix product."""
    bias = f" + {format_shape(columns)}" if has_bias else ""
    left, right, made = (
        format_shape(rows, between),
        format_shape(between, columns),
        format_shape(rows, columns),
    )
    return f"{left} · {right}{bias} = {made}"


def each_head_phrase(spec: AttentionSpec) -> str:
    """Return a phrase for "in every head" if there are several heads."""
    return f" in each of {spec.heads} heads" if spec.heads > 1 else ""


def format_shape(*counts: int) -> str:
    """Format sizes as Python does, without thousands separators, which look like axes."""
    return f"({', '.join(map(str, counts))})"
