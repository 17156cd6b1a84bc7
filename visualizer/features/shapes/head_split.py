"""The split of matrix columns into heads, and the part of it that is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.spec import Arrangement
from visualizer.explanations.shape_equations import sizes
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from visualizer.attention.run import Run


# Limits on the columns and rows drawn of a large matrix.
MAX_COLUMNS = 64
MAX_HEADS = 16
MAX_ROWS = 8

_DRAWN = ("queries", "keys", "values", "context", "concat")


class HeadSplit(Struct, frozen=True):
    """A matrix with its columns divided among the heads.

    Parameters
    ----------
    stage : str
        The stage that holds the matrix.
    is_apart : bool
        Whether the heads are separate axes at the stage in focus.
    """

    stage: str
    symbol: str
    tokens: int
    heads: int
    d_head: int
    arrangement: Arrangement
    is_apart: bool

    @property
    def width(self) -> int:
        """Number of columns of all heads side by side."""
        return self.heads * self.d_head

    @property
    def joined(self) -> str:
        """Shape with all heads side by side."""
        return sizes(self.tokens, self.width)

    @property
    def apart(self) -> str:
        """Shape with a head axis."""
        return sizes(self.heads, self.tokens, self.d_head)

    @property
    def columns(self) -> tuple[int, ...]:
        """Head of each drawn column."""
        heads = min(self.heads, MAX_HEADS)
        each = min(self.d_head, max(1, MAX_COLUMNS // heads))
        return tuple(head for head in range(heads) for _ in range(each))

    @property
    def rows(self) -> int:
        """Number of drawn rows."""
        return min(self.tokens, MAX_ROWS)

    @property
    def says(self) -> str:
        """A sentence that describes the split."""
        if self.heads == 1:
            return f"One head has {_all_columns_in_words(self.width)}."
        if self.arrangement is Arrangement.STACKED:
            own = format_count(self.d_head, "column")
            return (
                f"Each of {self.heads} stacked heads has {own} of its own, {self.width} in total."
            )
        return f"Each of {self.heads} heads takes {self.d_head} of the {self.width} columns."

    @property
    def left_out(self) -> str:
        """Note on the drawn part; empty if everything is drawn."""
        heads, each = len(set(self.columns)), self.columns.count(0)
        said = [f"{heads} of {self.heads} heads"] if heads < self.heads else []
        said += [f"{each} of {self.d_head} columns per head"] if each < self.d_head else []
        said += [f"{self.rows} of {self.tokens:,} tokens"] if self.rows < self.tokens else []
        return f"Drawn: {', '.join(said)}." if said else ""

    def lefts(self, progress: float, gap: float) -> tuple[float, ...]:
        """Return the left edges of the drawn columns, in column widths.

        Parameters
        ----------
        progress : float
            0 if all columns form one matrix, 1 if the blocks of the heads are separate.
        gap : float
            The gap between two separate blocks.
        """
        return tuple(at + progress * gap * head for at, head in enumerate(self.columns))


def head_split_of(run: Run, current: str | None) -> HeadSplit | None:
    """Return the split of the stage in focus, or of the nearest stage with heads.

    None without such a matrix, as in captured attention.
    """
    trace, spec = run.trace, run.trace.spec
    drawn = [name for name in _DRAWN if name in trace]
    if not drawn:
        return None
    near = "concat" if current == "output" else current
    stage = trace.stage(near if near in drawn else drawn[0])
    has_heads = current is None or "head" in trace.stage(current).dims
    symbol = stage.symbol if len(stage.symbol) == 1 else stage.title
    return HeadSplit(
        stage.name, symbol, trace.tokens, spec.heads, spec.d_head, spec.arrangement, has_heads
    )


def _all_columns_in_words(columns: int) -> str:
    return f"all {columns} columns" if columns > 1 else "the only column"
