"""The types of the keyword arguments that notebooks pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class Settings(TypedDict, total=False):
    """What `attend` takes by name, besides the text: the settings of its module.

    None is the same as leaving a setting out. One that has no effect on the numbers, such as a
    window without a mask of that kind, is an `InputError`.

    Parameters
    ----------
    mechanism : str
        The starting point, which the other settings given change: ``"simplified"``, ``"self"``,
        ``"causal"``, ``"stacked"``, ``"multi-head"`` (the default), ``"block"`` or ``"average"``.
    embedding_size : int
        Numbers in a token's vector; 3 by default.
    output_size : int
        Width of all heads together, or of each stacked head; 2 by default.
    heads : int
        How many times attention runs side by side; 2 by default where there are several.
    causal : bool
        Whether no token attends to a later one: short for ``mask="causal"`` or ``mask="none"``.
    dropout : float
        Share of the weights dropped, at least 0 and below 1; 0 by default.
    seed : int
        Determines token vectors and weights, from 0 to 2³¹ − 1; 123 by default.
    dropout_seed : int
        Determines which weights are dropped, from 0 to 2³¹ − 1; 0 by default.
    mode : str
        ``"train"``, where dropout acts, or ``"eval"``, where it does not.
    projection : str
        How queries, keys and values come from the input: ``"linear"`` layers, matrices
        ``"uniform"`` in [0, 1), or ``"none"``, where all three are the input.
    bias : bool
        Whether the linear layers of queries, keys and values have a bias; the output projection
        always has one. False by default, and True where such biases are given.
    arrangement : str
        ``"split"`` heads share the output size; ``"stacked"`` ones have it each.
    output_projection : bool
        Whether a last linear layer mixes the heads.
    block : str
        What is around the attention: ``"none"``, or ``"pre-norm"`` for a transformer block, x +
        attention(norm(x)) and then x + feed-forward(norm(x)), of which the output size is the
        embedding size.
    feed_forward_size : int
        Hidden numbers of the block's feed-forward; four times the embedding size by default.
    activation : str
        The function of each hidden number: ``"relu"`` (the default) or ``"gelu"``.
    position : str
        What is added to the embedding: ``"none"``, ``"learned"`` (though untrained) or
        ``"sinusoidal"`` vectors.
    scale : str
        The size whose square root divides the scores: ``"d_head"``, ``"d_model"`` (the embedding
        size) or ``"none"``.
    temperature : float
        Divides the scores once more; more than 0, 1 by default.
    normalisation : str
        How a row of scores becomes weights: ``"softmax"``, ``"naive"`` (softmax without
        subtracting the largest), ``"sum"`` (division by the sum) or ``"uniform"`` (all alike).
    mask : str
        Which keys a query attends to: all (``"none"``), none that is later (``"causal"``), itself
        and those just before (``"window"``), or those of own_mask (``"own"``).
    window : int
        Tokens that a query attends to where the mask is ``"window"``; 3 by default.
    own_mask : array_like of bool
        [query, key]: the cells that may be attended to. It is the mask.
    own_kept : array_like of bool
        [query, key]: the cells that dropout keeps, in place of drawn ones.
    route : str
        Where the mask acts: ``"before"`` normalising as −∞, or after it as zeros, with rows
        renormalised (``"after-renormalised"``) or not (``"after"``).
    dtype : str, torch.dtype or numpy.dtype
        ``"float32"`` or ``"float64"``.
    device : str or torch.device
        ``"auto"`` for the best there is, ``"cpu"``, ``"cuda"`` or ``"mps"``. One that is not
        available is rejected.
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
    """How a figure looks.

    None is the same as leaving an argument out.

    Parameters
    ----------
    layout : str
        ``"shown"`` for exactly the stages and heads given, which is the default; ``"panel"`` for
        one stage of one head, ``"head"`` for one head, ``"heads"`` for all heads, ``"stages"`` for
        all stages, ``"all"`` for both; ``"cells"`` for one panel as a PNG with a pixel for each
        cell, at most 16,384 a side.
    theme : str
        ``"print"``, ``"light"`` or ``"dark"``.
    width : str
        A width such as ``"85mm"``, ``"7in"``, ``"8.5cm"`` or ``"1000px"``; with a height, such as
        ``"1920x1080px"``; or a preset: ``"as-in-the-window"``, ``"paper-column"``,
        ``"paper-page"``, ``"slide"`` or ``"poster"``. The width of the panels by default.
    dpi : int
        Pixels per inch, from 36 to 2,400; 192 by default, or those of the preset.
    title : str
        The text above it, on one line.
    caption : bool
        Whether a line below says what was computed; True by default.
    all_layers : bool
        Whether the document inside has the numbers of all layers of captured attention, from which
        all can be shown again; by default it has those that the figure shows. A document of more
        than 4 MB is refused.
    """

    layout: str
    theme: str
    width: str
    dpi: int
    title: str
    caption: bool
    all_layers: bool
