"""Whether the mask is being edited, and the parameters of its brushes."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class MaskBrush(StrEnum):
    """A mask pattern to start from."""

    ALL = "all"
    CAUSAL = "causal"
    WINDOW = "window"
    PREFIX = "prefix"
    PADDING = "padding"


class MaskEditState(Struct, frozen=True):
    """Whether the mask is being edited, and the parameters of the brushes.

    Parameters
    ----------
    window : int
        Number of tokens a query attends to: itself and those just before.
    prefix : int
        Number of leading tokens that every query attends to.
    padding : int
        Number of text tokens; those after are padding.
    is_of_all_heads : bool
        Whether a stroke cuts edges of all heads of a model that are shown, and not of its own.
    """

    is_on: bool = False
    window: int = 3
    prefix: int = 2
    padding: int = 4
    is_of_all_heads: bool = False

    def number(self, brush: MaskBrush) -> int:
        """Return the parameter of a brush; 0 where it has none."""
        return int(getattr(self, brush, 0))
