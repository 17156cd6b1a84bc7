"""Types of the keyword arguments of the notebook API."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Settings(TypedDict, total=False):
    """Keyword arguments of `attend` other than the text: the settings of its module.

    None is the same as omitting a setting. A setting that does not affect the numbers, such as a
    window without a window mask, raises an `InputError`.

    Parameters
    ----------
    mechanism : str
        The preset that the other settings modify: ``"simplified"``, ``"self"``,
        ``"causal"``, ``"stacked"``, ``"multi-head"`` (the default), ``"block"`` or ``"average"``.
    embedding_size : int
        Dimension of the token vectors; 3 by default.
    output_size : int
        Total width of all heads, or of each stacked head; 2 by default.
    heads : int
        Number of attention heads; 2 by default for multi-head mechanisms.
    causal : bool
        Whether to mask later tokens: short for ``mask="causal"`` or ``mask="none"``.
    dropout : float
        Dropout rate of the weights, at least 0 and below 1; 0 by default.
    seed : int
        Random seed of token vectors and weights, from 0 to 2³¹ − 1; 123 by default.
    dropout_seed : int
        Random seed of dropout, from 0 to 2³¹ − 1; 0 by default.
    mode : str
        ``"train"``, which applies dropout, or ``"eval"``, which does not.
    projection : str
        How queries, keys and values are computed from the input: by ``"linear"`` layers, by
        matrices with ``"uniform"`` random numbers in [0, 1), or ``"none"``, which uses the input
        for all three.
    bias : bool
        Whether the linear layers of queries, keys and values have a bias; the output projection
        always has one. False by default, and True if such biases are given.
    arrangement : str
        ``"split"`` heads share the output size; each of the ``"stacked"`` heads has the full one.
    output_projection : bool
        Whether a final linear layer combines the heads.
    block : str
        ``"none"`` for attention only, or ``"pre-norm"`` for a transformer block:
        x + attention(norm(x)), then x + feed-forward(norm(x)). The output size of a block is the
        embedding size.
    feed_forward_size : int
        Hidden size of the block's feed-forward network; four times the embedding size by default.
    activation : str
        Activation function of the feed-forward network: ``"relu"`` (the default) or ``"gelu"``.
    position : str
        Positional vectors added to the embedding: ``"none"``, ``"learned"`` (but untrained) or
        ``"sinusoidal"``.
    scale : str
        The size whose square root divides the scores: ``"d_head"``, ``"d_model"`` (the embedding
        size) or ``"none"``.
    temperature : float
        Additional divisor of the scores; more than 0, 1 by default.
    normalisation : str
        How a row of scores becomes weights: ``"softmax"``, ``"naive"`` (softmax without
        subtracting the maximum), ``"sum"`` (division by the sum) or ``"uniform"`` (equal weights).
    mask : str
        Which keys a query attends to: all (``"none"``), none later than itself (``"causal"``),
        itself and a number of tokens just before it (``"window"``), or those of own_mask
        (``"own"``).
    window : int
        Number of tokens that a query attends to with the mask ``"window"``; 3 by default.
    own_mask : array_like of bool
        [query, key]: True for the cells that may be attended to. Implies the mask ``"own"``.
    own_kept : array_like of bool
        [query, key]: True for the cells that dropout keeps, instead of random ones.
    route : str
        Where the mask is applied: ``"before"`` normalisation as −∞, or after it as zeros, with
        the rows renormalised (``"after-renormalised"``) or not (``"after"``).
    dtype : str, torch.dtype or numpy.dtype
        ``"float32"`` or ``"float64"``.
    device : str or torch.device
        ``"auto"`` for the best available device, ``"cpu"``, ``"cuda"`` or ``"mps"``. A device that
        is not available is rejected.
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
    block: str
    feed_forward_size: int
    activation: str
    position: str
    scale: str
    temperature: float
    normalisation: str
    mask: str
    window: int
    own_mask: ArrayLike
    own_kept: ArrayLike
    route: str
    dtype: object
    device: object
    tokenizer: str


class Look(TypedDict, total=False):
    """Keyword arguments for the appearance of a figure.

    None is the same as omitting an argument.

    Parameters
    ----------
    layout : str
        ``"shown"`` for exactly the given stages and heads, which is the default; ``"panel"`` for
        one stage of one head, ``"head"`` for one head, ``"heads"`` for all heads, ``"stages"`` for
        all stages, ``"all"`` for all stages of all heads; ``"cells"`` for one panel as a PNG with
        one pixel per cell, at most 16,384 per side.
    theme : str
        ``"print"``, ``"light"`` or ``"dark"``.
    width : str
        A width such as ``"85mm"``, ``"7in"``, ``"8.5cm"`` or ``"1000px"``; a width and height, such
        as ``"1920x1080px"``; or a preset: ``"as-in-the-window"``, ``"paper-column"``,
        ``"paper-page"``, ``"slide"`` or ``"poster"``. The width of the panels by default.
    dpi : int
        Pixels per inch, from 36 to 2,400; 192 by default, or those of the preset.
    title : str
        A title above the figure, on one line.
    caption : bool
        Whether to add a line below the figure that describes the computation; True by default.
    all_layers : bool
        Whether the embedded document contains the numbers of all layers of captured attention, so
        that all of them can be shown again. By default it contains only the layers in the figure. A
        document of more than 4 MB is rejected.
    """

    layout: str
    theme: str
    width: str
    dpi: int
    title: str
    caption: bool
    all_layers: bool
