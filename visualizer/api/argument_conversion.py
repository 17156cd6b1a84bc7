"""Keyword arguments of the Python API and their conversion to documents and figure settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

from visualizer.api.argument_validation import (
    ARGUMENT_NAMES,
    CUSTOM_WEIGHT_LAYERS,
    MAX_QUOTED_NAME_LENGTH,
    check_arguments_used,
    describe_value,
    invalid_argument_error,
    reject_unknown_names,
    validate_bool,
    validate_boolean_matrix,
    validate_choice,
    validate_device,
    validate_dtype,
    validate_integer,
    validate_numbers,
    validate_sequence,
    validate_string,
)
from visualizer.attention.settings import SETTINGS_BY_NAME, InvalidValueError
from visualizer.attention.spec import (
    NORM_LAYERS,
    OWN_BIASES,
    BooleanMatrix,
    Device,
    MaskKind,
    NumberMatrix,
)
from visualizer.attention.spec_validation import check_spec
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent, FigureTheme
from visualizer.export.option_parsing import SIZE_PRESETS, create_figure_settings, parse_figure_size
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document_builder import create_document, normalize_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike

    from visualizer.attention.mechanisms import Mechanism
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.document import Document

MAX_TEXT_CHARACTERS = 2**22
"""Maximum number of characters in a text; the maximum number of tokens is far smaller."""
_FIELDS = {argument: field for field, argument in ARGUMENT_NAMES.items()}
_FIELD_ARGUMENTS = ARGUMENT_NAMES | {"painted": "own_mask"}
"""Names of the arguments that differ from their fields in documents or figure settings."""
MAX_TITLE_LENGTH = 1_000


class AttendArguments(TypedDict, total=False):
    """Keyword arguments of `attend` other than the text: the settings of the attention module.

    None is the same as omitting a setting. A setting that does not affect the values, such as a
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
    key_value_heads : int
        Number of key and value heads, each shared by a group of query heads (grouped-query
        attention); must be a divisor of ``heads``, which is the default. 1 means multi-query
        attention.
    causal : bool
        Whether to mask later tokens; True stands for ``mask="causal"``, False for ``mask="none"``.
    dropout : float
        Dropout rate for the attention weights, at least 0 and less than 1; 0 by default.
    seed : int
        Random seed for token vectors and weights, from 0 to 2³¹ − 1; 123 by default.
    dropout_seed : int
        Random seed for dropout, from 0 to 2³¹ − 1; 0 by default.
    mode : str
        ``"train"``, which applies dropout, or ``"eval"``, which does not.
    projection : str
        Method of computing queries, keys and values from the input: ``"linear"`` layers;
        ``"uniform"``, matrices of random numbers in [0, 1); or ``"none"``, which uses the input for
        all three.
    bias : bool
        Whether the linear layers for queries, keys and values have biases; the output projection
        always has a bias. The default is True if such biases are given, and False otherwise.
    arrangement : str
        Arrangement of the heads: ``"split"`` heads share the output size; each ``"stacked"`` head
        has the full output size.
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
        Positional encoding: ``"none"``; vectors added to the embedding, ``"learned"`` (but
        untrained) or ``"sinusoidal"``; linear biases of the scores, ``"alibi"``; or rotated queries
        and keys, ``"rotary"``, for which the size of a head must be even.
    scale : str
        Scaling of the scores: division by the square root of ``"d_head"`` or of ``"d_model"`` (the
        embedding size), or ``"none"``.
    temperature : float
        Additional divisor of the scores, greater than 0; 1 by default.
    normalisation : str
        Method of converting a row of scores to weights: ``"softmax"``, ``"naive"`` (softmax without
        subtracting the maximum), ``"sum"`` (division by the sum) or ``"uniform"`` (equal weights);
        or ``"linear"``, which is linear attention with the feature map elu(x) + 1 and computes no
        explicit weights.
    mask : str
        The keys to which a query may attend: all (``"none"``), those not later than the query
        (``"causal"``), the query itself and a number of tokens just before it (``"window"``), or
        the keys allowed by ``own_mask`` (``"own"``).
    window : int
        Number of tokens to which a query attends with the mask ``"window"``; 3 by default.
    own_mask : array_like of bool
        Custom mask, [query, key]: True for the cells that are not masked. It implies
        ``mask="own"``.
    own_kept : array_like of bool
        Keep mask of dropout, [query, key], used instead of a random one: True for the cells that
        dropout keeps.
    route : str
        How the mask is applied: ``"before"`` sets scores to −∞ before normalization, ``"after"``
        sets weights to 0 after it, and ``"after-renormalised"`` then normalizes the rows again.
    dtype : str, torch.dtype or numpy.dtype
        ``"float32"`` or ``"float64"``.
    device : str or torch.device
        ``"auto"`` for the best available device, ``"cpu"``, ``"cuda"`` or ``"mps"``. A device that
        is not available is rejected.
    tokenizer : str
        ``"words"`` or ``"characters"``.

    Examples
    --------
    >>> causal = visualizer.attend("The cat sat", mechanism="causal", dropout=0.5, seed=7)
    >>> windowed = visualizer.attend("a b c d e", mask="window", window=2, heads=1)
    """

    mechanism: str
    embedding_size: int
    output_size: int
    heads: int
    key_value_heads: int
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


class FigureArguments(TypedDict, total=False):
    """Keyword arguments for the appearance of a figure.

    None is the same as omitting an argument.

    Parameters
    ----------
    layout : str
        Content of the figure: ``"shown"`` (the default) for the given stages and heads; ``"flow"``
        for the entire computation of one head; ``"panel"`` for one stage of one head; ``"head"``
        for one head; ``"heads"`` for all heads; ``"stages"`` for all stages; ``"all"`` for all
        stages of all heads; ``"cells"`` for one panel as a PNG with one pixel per cell and at most
        16,384 pixels per side.
    theme : str
        ``"print"``, ``"light"`` or ``"dark"``.
    colour_map : str
        A colour map for weights, ``"plum"`` (the default), ``"viridis"``, ``"cividis"``,
        ``"magma"``, ``"CET-CBL1"`` or ``"CET-L1"``; or for all other numbers, ``"automatic"`` (the
        default), ``"CET-CBD1"``, ``"blue-gold-dark"`` or ``"CET-D6"``.
    size : str
        A width such as ``"85mm"``, ``"7in"``, ``"8.5cm"`` or ``"1000px"``; a width and height, such
        as ``"1920x1080px"``; or a preset: ``"as-in-the-window"``, ``"paper-column"``,
        ``"paper-page"``, ``"slide"`` or ``"poster"``. The default is the width of the panels.
    dpi : int
        Pixels per inch, from 36 to 2,400; 192 by default, or the resolution of the preset.
    title : str
        A one-line title above the figure.
    caption : bool
        Whether to add a line below the figure that describes the computation; True by default.
    letters : bool
        Whether the stages have letters (a, b, …); only with the presets for papers by default.
    all_layers : bool
        Whether the embedded document contains the values of all layers of captured attention, so
        that all layers can be displayed again. By default, it contains only the layers in the
        figure. A document of more than 4 MB is rejected.

    Examples
    --------
    >>> attention.figure("weights", size="paper-column", colour_map="viridis", caption=False)
    """

    layout: str
    theme: str
    colour_map: str
    size: str
    dpi: int
    title: str
    caption: bool
    letters: bool
    all_layers: bool


@contextmanager
def rename_error_fields(arguments: Mapping[str, str] = _FIELD_ARGUMENTS) -> Iterator[None]:
    """Replace the field of an `InputError` with the argument that caused the error.

    Parameters
    ----------
    arguments : mapping of str to str
        Names of the arguments that differ from their fields, keyed by field.
    """
    try:
        yield
    except InputError as error:
        name = arguments.get(error.field, error.field)
        words = _normalise_for_comparison(name)
        is_named = words in _normalise_for_comparison(error.sentence)
        sentence = error.sentence if is_named else f"{name}: {error.sentence}"
        raise InputError(name, sentence, error.remedy) from error.__cause__


def _normalise_for_comparison(text: str) -> str:
    return text.lower().replace("_", " ").replace("-", " ")


def figure_settings_from_arguments(look: FigureArguments) -> FigureSettings:
    """Return figure settings from keyword arguments.

    Raises
    ------
    InputError
        If no figure with these arguments can be created.
    """
    reject_unknown_names(
        look, FigureArguments.__annotations__, "Unknown keyword argument", "The arguments are"
    )
    given: dict[str, Any] = {name: each for name, each in look.items() if each is not None}
    title = validate_string("title", given.get("title", ""))
    if len(title) > MAX_TITLE_LENGTH or len(title.splitlines()) > 1:
        sentence = f"title must be one line of at most {MAX_TITLE_LENGTH:,} characters."
        raise InputError("title", sentence)
    with rename_error_fields():
        return create_figure_settings(
            _check_size(given["size"]) if "size" in given else None,
            layout=validate_choice("layout", FigureExtent, given.get("layout", FigureExtent.SHOWN)),
            theme=validate_choice("theme", FigureTheme, given["theme"])
            if "theme" in given
            else None,
            dpi=validate_integer("dpi", given["dpi"]) if "dpi" in given else None,
            title=title,
            has_caption=validate_bool("caption", given.get("caption", True)),
            has_letters=validate_bool("letters", given["letters"]) if "letters" in given else None,
            has_all_layers=validate_bool("all_layers", given.get("all_layers", False)),
        )


def _check_size(value: object) -> str:
    size = validate_string("size", value)
    try:
        if size not in SIZE_PRESETS:
            parse_figure_size(size)
    except InputError:
        requirement = (
            "a size such as 180mm, 180x120mm, 1920x1080px or 7in, or one of "
            f"{', '.join(SIZE_PRESETS)}"
        )
        raise invalid_argument_error("size", requirement, size) from None
    return size


def document_from_arguments(
    text: str | Sequence[str] | None,
    vectors: ArrayLike | None,
    weights: Mapping[str, ArrayLike] | None,
    settings: AttendArguments,
) -> Document:
    """Create the document that the arguments of `visualizer.attend` describe.

    Raises
    ------
    InputError
        If an argument is invalid or would have no effect.
    """
    reject_unknown_names(
        settings, AttendArguments.__annotations__, "Unknown setting", "The settings are"
    )
    given = {
        name: _convert_setting(name, each) for name, each in settings.items() if each is not None
    }
    texts = [] if text is None else _validate_texts(text, given.get("tokenizer"))
    fields = _FIELDS | {"own_mask": "painted"}  # this also sets the mask
    values = {fields.get(name, name): each for name, each in given.items()}
    if vectors is not None:
        values["own_input"] = NumberMatrix.from_array(validate_numbers("vectors", vectors))
    if own := _convert_custom_weights(weights):
        values["own_weights"] = own

    def create(mechanism: Mechanism | None = None) -> Document:
        return create_document(texts, values | ({"mechanism": mechanism} if mechanism else {}))

    document = create()
    _check_custom_masks(document, given)
    check_spec(document.spec)
    if given.get("device", Device.AUTO) is not Device.AUTO:
        from visualizer.attention.device import check_device_available

        check_device_available(document.spec.device, document.spec.dtype)
    is_given = {"text": text, "vectors": vectors}
    check_arguments_used(
        document.spec,
        given | {name: each for name, each in is_given.items() if each is not None},
        lambda mechanism: create(mechanism).spec,
    )
    return document


def _validate_texts(text: str | Sequence[str], tokenizer: object) -> list[str]:
    requirement = "a text or a list of texts"
    texts = [text] if isinstance(text, str) else validate_sequence("text", requirement, text)
    for item in texts:
        if not validate_string("text", item).strip():
            raise invalid_argument_error(
                "text", "a text with at least one character other than whitespace", item
            )
        if len(item) > MAX_TEXT_CHARACTERS:  # counting the tokens would take minutes
            sentence = (
                f"text must have at most {MAX_TEXT_CHARACTERS:,} characters. It has {len(item):,}."
            )
            raise InputError("text", sentence)
    has_lines = len(texts) > 1 and any(len(item.splitlines()) > 1 for item in texts)
    if has_lines and tokenizer is TokenizerKind.CHARACTERS:
        sentence = 'Each text of a batch must be a single line if tokenizer is "characters".'
        raise InputError("text", sentence)
    return [normalize_text(item) for item in texts]


def _convert_setting(name: str, value: Any) -> object:
    """Convert a setting's value to the type of its document field."""
    if name in {"own_mask", "own_kept"}:
        return BooleanMatrix.from_array(validate_boolean_matrix(name, value))
    if name == "tokenizer":
        return validate_choice(name, TokenizerKind, value)
    if name == "device":
        return validate_device(value)
    if name == "dtype":
        return validate_dtype(value)
    try:
        return SETTINGS_BY_NAME[_FIELDS.get(name, name)].convert_value(value)
    except InvalidValueError as invalid:
        raise InputError(name, invalid.format_message(name, describe_value(value))) from None


def _check_custom_masks(document: Document, given: Mapping[str, object]) -> None:
    """Reject ``mask="own"`` without a matrix, and matrices of the wrong size for the text."""
    if given.get("mask") is MaskKind.OWN and "own_mask" not in given:
        raise InputError("mask", 'mask="own" requires own_mask.')
    tokens = document.max_text_tokens
    for name in ("own_mask", "own_kept"):
        own = given.get(name)
        if isinstance(own, BooleanMatrix) and (own.rows, own.columns) != (tokens, tokens):
            sentence = f"{name} is {own.rows} × {own.columns}, but the text requires {tokens} × "
            raise InputError(name, f"{sentence}{tokens}.")


def _convert_custom_weights(
    weights: Mapping[str, ArrayLike] | None,
) -> tuple[tuple[str, NumberMatrix], ...]:
    """Convert weights and biases to matrices, and pair them with their names."""
    if weights is None:
        return ()
    if not isinstance(weights, Mapping):
        raise invalid_argument_error("weights", "a dictionary that maps names to arrays", weights)
    for name in weights:
        if name not in list(CUSTOM_WEIGHT_LAYERS):
            known = ", ".join(CUSTOM_WEIGHT_LAYERS)
            sentence = (
                f"Unknown weights “{str(name)[:MAX_QUOTED_NAME_LENGTH]}”. The names are {known}."
            )
            raise InputError("weights", sentence)
    matrices = {}
    for name in filter(weights.__contains__, CUSTOM_WEIGHT_LAYERS):
        if name in OWN_BIASES or name in NORM_LAYERS:
            matrices[name] = NumberMatrix.from_array(validate_numbers(name, weights[name], 1)[None])
        else:
            matrices[name] = NumberMatrix.from_array(validate_numbers(name, weights[name]))
    return tuple(matrices.items())
