"""Arrays as literals of Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


LINE = 96
PER_LINE = 8


def literal(array: np.ndarray, indent: int = 0) -> str:
    """Format an array as nested list literals, with the fewest digits its dtype needs."""
    if array.ndim == 1:
        return listed([str(number) for number in array], indent)
    inner = " " * (indent + 4)
    rows = "".join(f"{inner}{literal(row, indent + 4)},\n" for row in array)
    return f"[\n{rows}{' ' * indent}]"


def listed(parts: Sequence[str], indent: int = 0) -> str:
    """Format a list literal on one line, or with a few items per line if that is too long."""
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
