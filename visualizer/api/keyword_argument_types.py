"""The types of the keyword arguments that notebooks pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, TypeVar

from visualizer.export.figure_settings import FigureExtent, FigurePaper

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


Choice = TypeVar("Choice", FigureExtent, FigurePaper)


class Settings(TypedDict, total=False):
    """What `attend` takes by name, besides the text; the fields of `AttentionSpec`.

    Parameters
    ----------
    mechanism : str
        ``"simplified"``, ``"self"``, ``"causal"``, ``"stacked"``, ``"multi-head"`` or
        ``"average"``: the starting point; other settings given take precedence.
    embedding_size, output_size : int
        Numbers in a token's vector; width of all heads together, or of each stacked head. 3 and 2
        by default.
    causal : bool
        Whether no token attends to a later one.
    dropout : float
        Share of the weights dropped, at least 0 and below 1.
    seed : int
        Determines token vectors and weights.
    own_mask, own_kept : array_like of bool
        [query, key]: the cells that may be attended to, which become the mask; and the cells kept
        by dropout.
    tokenizer : str
        ``"words"`` or ``"characters"``.
    """

    mechanism: str
    embedding_size: int
    output_size: int
    heads: int
    causal: bool
    dropout: float
    seed: int
    dropout_seed: int
    mode: str
    projection: str
    bias: bool
    arrangement: str
    output_projection: bool
    position: str
    scale: str
    temperature: float
    normalisation: str
    mask: str
    window: int
    own_mask: ArrayLike
    own_kept: ArrayLike
    route: str
    dtype: str
    device: str
    tokenizer: str


class Look(TypedDict, total=False):
    """How a figure looks.

    Parameters
    ----------
    layout : str
        ``"shown"`` for exactly the stages and heads given; ``"panel"``, ``"head"``, ``"heads"``,
        ``"stages"`` or ``"all"`` for that scope.
    theme : str
        ``"print"``, ``"light"`` or ``"dark"``.
    width : str
        Such as ``"85mm"``, ``"7in"`` or, with a height, ``"1920x1080px"``, or the name of a preset,
        such as ``"slide"``; the width of the panels by default.
    dpi : int
        Pixels per inch.
    title : str
        The text above it.
    caption : bool
        Whether a line below says what was computed.
    """

    layout: str
    theme: str
    width: str
    dpi: int
    title: str
    caption: bool
