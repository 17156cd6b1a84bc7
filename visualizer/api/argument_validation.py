"""Checks that arguments of the Python API have valid types and values, and have an effect."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Set
from enum import StrEnum
from numbers import Integral, Real
from os import fsencode, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.settings import (
    SETTINGS_BY_NAME,
    InvalidValueError,
    find_choice,
    no_effect_reason,
)
from visualizer.attention.spec import (
    MAX_SEED,
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    Device,
    Dtype,
    MaskKind,
    ModelDtype,
    PositionKind,
)
from visualizer.attention.stages import stages
from visualizer.errors import InputError
from visualizer.export.figure_settings import FigureExtent
from visualizer.language.sampling import SamplingSettings
from visualizer.session.view_options import COLOUR_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Given = Mapping[str, Any]
    """The given arguments, keyed by name and converted to the types of the settings."""

Choice = TypeVar("Choice", bound=StrEnum)

MAX_INTEGER = 2**63
MAX_MATRIX_ELEMENTS = 2**28
"""Maximum number of elements in a matrix: 2 GiB in float64."""
MAX_PATH_LENGTH = 4_096
MAX_QUOTED_NAME_LENGTH = 60
"""Maximum number of characters of an unknown name that a message quotes."""
CUSTOM_WEIGHT_LAYERS = {**OWN_LAYERS, **OWN_BIASES}
"""Layers of the custom weights and biases, keyed by the names of the weights and biases."""
ARGUMENT_NAMES = {
    "d_in": "embedding_size",
    "d_out": "output_size",
    "d_ff": "feed_forward_size",
    "own_input": "vectors",
    "own_weights": "weights",
}
"""Names of the arguments that differ from their fields in a spec, keyed by field."""
_ONE_HEAD = (FigureExtent.FLOW, FigureExtent.PANEL, FigureExtent.CELLS, FigureExtent.HEAD)
_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxother = 60


def describe_value(value: object) -> str:
    """Describe any value in one short line."""
    try:
        return " ".join(_SHORT_REPR.repr(value).split())
    except ValueError:  # Python does not convert an integer of this length to a string
        return f"an {type(value).__name__} of more than 4,300 digits"


def invalid_argument_error(name: str, takes: str, value: object) -> InputError:
    """Return the error for a value that an argument does not accept."""
    return InputError(name, f"{name} must be {takes}. It is {describe_value(value)}.")


def validate_bool(name: str, value: object) -> bool:
    """Validate a Python or NumPy boolean."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise invalid_argument_error(name, "True or False", value)


def validate_integer(name: str, value: object) -> int:
    """Validate a Python or NumPy integer; True and False are rejected."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if abs(number) < MAX_INTEGER:
            return number
        raise invalid_argument_error(name, "a whole number of at most 18 digits", value)
    raise invalid_argument_error(name, "a whole number", value)


def validate_number(name: str, value: object) -> float:
    """Validate a Python or NumPy real number, which may be infinite or NaN."""
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise invalid_argument_error(name, "a number that a float can hold", value) from None
    raise invalid_argument_error(name, "a number", value)


def validate_seed(value: object) -> int:
    """Validate a random seed for sampling."""
    seed = validate_integer("seed", value)
    if not 0 <= seed <= MAX_SEED:
        raise InputError(
            "seed", f"seed must be at least 0 and at most {MAX_SEED:,}. It is {seed:,}."
        )
    return seed


def validate_sampling(temperature: object, top_k: object, top_p: object) -> SamplingSettings:
    """Validate the types of sampling settings; `check_sampling_settings` checks their ranges."""
    return SamplingSettings(
        validate_number("temperature", temperature),
        None if top_k is None else validate_integer("top_k", top_k),
        validate_number("top_p", top_p),
    )


def validate_choice(name: str, kind: type[Choice], value: object) -> Choice:
    """Return the member of an enumeration that has the given value."""
    try:
        return kind(find_choice([*kind], value))
    except InvalidValueError as invalid:
        raise InputError(name, invalid.format_message(name, describe_value(value))) from None


def validate_colour_map(value: object) -> str:
    """Validate the name of a colour map."""
    try:
        return str(find_choice([each.id for each in COLOUR_MAPS], value))
    except InvalidValueError as invalid:
        sentence = invalid.format_message("colour_map", describe_value(value))
        raise InputError("colour_map", sentence) from None


def validate_device(value: object) -> Device:
    """Return a device, given its name or a ``torch.device``."""
    name = str(value) if _is_torch_type("device", value) else value
    if isinstance(name, str):  # without an index, torch uses the first device
        name = name.removesuffix(":0")
    return validate_choice("device", Device, name)


def validate_dtype(value: object) -> Dtype:
    """Return a floating-point type, given its name, a ``torch.dtype`` or a NumPy dtype."""
    return validate_choice("dtype", Dtype, _dtype_name(value))


def validate_model_dtype(value: object) -> ModelDtype:
    """Return the type in which a model computes; see `validate_dtype`."""
    return validate_choice("dtype", ModelDtype, _dtype_name(value))


def _dtype_name(value: object) -> object:
    """Return the name of a type; other values are returned unchanged."""
    name = value
    if _is_torch_type("dtype", value):
        name = str(value).removeprefix("torch.")
    elif isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        name = np.dtype(value).name
    return name


def _is_torch_type(kind: str, value: object) -> bool:
    """Return whether a value has the given torch type, without importing torch."""
    return (type(value).__module__, type(value).__name__) == ("torch", kind)


def validate_string(name: str, value: object, takes: str = "a text") -> str:
    """Validate a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise invalid_argument_error(name, takes, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid_argument_error(name, "a text without surrogate characters", value) from None
    return str(value)


def validate_sequence(name: str, takes: str, values: Any) -> list[Any]:
    """Return the elements of a sequence or another ordered iterable as a list.

    Raises
    ------
    InputError
        If the value is not an ordered iterable, or is empty.
    """
    is_other = isinstance(values, str | bytes | bytearray | Mapping | Set)
    try:
        found = [] if is_other else list(values)
    except TypeError:
        is_other = True
    if is_other:
        raise invalid_argument_error(name, takes, values)
    if not found:
        raise InputError(name, f"{name} must not be empty. Pass {takes}.")
    return found


def validate_path(name: str, value: Any) -> Path:
    """Validate the path of a file or folder."""
    try:
        path = fspath(value)
        is_long = len(fsencode(path)) > MAX_PATH_LENGTH
    except (TypeError, UnicodeEncodeError):
        raise invalid_argument_error(name, "the path of a file", value) from None
    if not isinstance(path, str) or not path or "\0" in path or is_long:
        raise invalid_argument_error(name, "the path of a file", value)
    return Path(path)


def validate_numbers(name: str, values: Any, dims: int = 2) -> np.ndarray:
    """Return finite numbers in float64, as a matrix or, if `dims` is 1, as a vector."""
    array = _as_array(name, values)
    if array.dtype.kind not in "iuf":
        raise InputError(
            name, f"{name} must contain numbers. It contains {_describe_dtype(array)}."
        )
    _check_shape(name, array, dims)
    with np.errstate(over="ignore"):
        found = array.astype(np.float64)
    if not np.isfinite(found).all():
        raise InputError(name, f"{name} must not contain infinite or NaN values.")
    return found


def validate_boolean_matrix(name: str, values: Any) -> np.ndarray:
    """Validate and return a boolean matrix; ones and zeros are accepted."""
    array = _as_array(name, values)
    if array.dtype.kind not in "biuf":
        raise InputError(
            name,
            (
                f"{name} must contain True and False, or 1 and 0. It contains "
                f"{_describe_dtype(array)}."
            ),
        )
    _check_shape(name, array, 2)
    if not ((array == 0) | (array == 1)).all():
        raise InputError(
            name, f"{name} must contain True and False, or 1 and 0. It contains other numbers."
        )
    return np.asarray(array == 1)


def _as_array(name: str, values: Any) -> np.ndarray:
    try:
        if hasattr(values, "is_floating_point"):  # a tensor, possibly with gradients or on a GPU
            is_floating = values.is_floating_point()
            values = to_float64_on_cpu(values) if is_floating else values.detach().cpu()
        array = np.asanyarray(values)
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        why = " ".join(str(error).split())[:200].rstrip(".!")
        raise InputError(name, f"{name} must be a matrix of numbers: {why}.") from error
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise InputError(name, f"{name} must not have masked elements.")
    return np.asarray(array)


def _check_shape(name: str, array: np.ndarray, dims: int) -> None:
    if array.ndim != dims or not array.size:
        shape = " × ".join(map(str, array.shape)) or "a single number"
        shape = f"a vector of {shape} numbers" if array.ndim == 1 else shape
        requirement = "a matrix" if dims == 2 else "a vector"
        raise InputError(name, f"{name} must be {requirement}. It is {shape}.")
    if array.size > MAX_MATRIX_ELEMENTS:
        sentence = (
            f"{name} must have at most {MAX_MATRIX_ELEMENTS:,} numbers. It has {array.size:,}."
        )
        raise InputError(name, sentence)


def _describe_dtype(array: np.ndarray) -> str:
    kinds = {"b": "True and False", "c": "complex numbers", "O": "objects"}
    kinds |= dict.fromkeys("US", "strings") | dict.fromkeys("mM", "dates")
    return kinds.get(array.dtype.kind, f"the type {array.dtype}")


def reject_unknown_names(given: Iterable[str], known: Iterable[str], none: str, are: str) -> None:
    """Reject unknown names of keyword arguments with a message that lists the known names."""
    names = tuple(known)
    for name in given:
        if name not in names:
            short = name[:MAX_QUOTED_NAME_LENGTH]
            raise InputError(short, f"{none} “{short}”. {are} {', '.join(names)}.")


def _uses_random_numbers(spec: AttentionSpec) -> bool:
    own = {name for name, _ in spec.own_weights}
    is_learned = spec.position is PositionKind.LEARNED
    is_drawn = spec.own_input is None or is_learned or spec.has_transformer_block
    return is_drawn or not own.issuperset(used_weight_names(spec))


def used_weight_names(spec: AttentionSpec) -> tuple[str, ...]:
    """Return the names of the weights and biases that the stages of a spec use."""
    layers = {layer for stage in stages(spec) for layer in stage.parameters}
    return tuple(name for name in spec.custom_weight_sizes if CUSTOM_WEIGHT_LAYERS[name] in layers)


def check_arguments_used(
    spec: AttentionSpec,
    given: Given,
    spec_from: Callable[[Mechanism], AttentionSpec],
) -> None:
    """Reject the first argument that has no effect.

    Parameters
    ----------
    spec : AttentionSpec
        The spec that the arguments describe.
    given : mapping
        The given arguments.
    spec_from : callable
        Function that builds the spec from the same arguments with another mechanism.

    Raises
    ------
    InputError
        With the name of the argument and the reason why the argument has no effect.
    """
    _check_conflicts(given)
    for name in SETTINGS_BY_NAME:
        argument = argument_name(name)
        sentence = no_effect_reason(spec, name, _format_argument) if argument in given else ""
        if sentence:
            raise InputError(argument, sentence)
    if "seed" in given and not _uses_random_numbers(spec):
        _reject_unused_argument("seed", "if all vectors and weights are given")
    if "tokenizer" in given and "text" not in given and "vectors" in given:
        _reject_unused_argument("tokenizer", "without a text")
    if "mechanism" in given and all(spec_from(each) == spec for each in Mechanism):
        _reject_unused_argument("mechanism", "if all settings that it determines are given")
    _reject_unused_weights(spec)


def _check_conflicts(given: Given) -> None:
    """Reject arguments that determine the same setting."""
    if "own_mask" in given and given.get("mask", MaskKind.OWN) is not MaskKind.OWN:
        _reject_combination("mask", "own_mask")
    for other in ("own_mask", "mask"):
        if "causal" in given and other in given:
            _reject_combination("causal", other)


def _reject_combination(argument: str, other: str) -> None:
    raise InputError(argument, f"{argument} cannot be combined with {other}. Remove one of them.")


def _reject_unused_argument(argument: str, condition: str) -> None:
    raise InputError(argument, f"{argument} has no effect {condition}. Remove {argument}.")


def argument_name(field: str) -> str:
    """Return the name of the argument for a field of a spec."""
    return ARGUMENT_NAMES.get(field, field)


def _format_argument(field: str, value: object) -> str:
    name = argument_name(field)
    return name if value is None else f'{name}="{value}"'


def _reject_unused_weights(spec: AttentionSpec) -> None:
    used = used_weight_names(spec)
    for name, _ in spec.own_weights:
        if name not in used:
            uses = f"The module uses {', '.join(used)}" if used else "The module has no weights"
            sentence = f"weights contains “{name}”, which this module does not use. {uses}."
            raise InputError("weights", sentence)


def reject_unused_selection(
    layout: FigureExtent, stages: frozenset[str] | None, heads: frozenset[int] | None
) -> None:
    """Reject stages or heads that a figure with this layout would not use.

    Raises
    ------
    InputError
        With a message that names the argument and the layout.
    """
    every_stage = {FigureExtent.STAGES, FigureExtent.FLOW, FigureExtent.ALL}
    every_head = {FigureExtent.HEADS, FigureExtent.ALL}
    for name, given, whole, single in (
        ("stages", stages, every_stage, (FigureExtent.PANEL, FigureExtent.CELLS)),
        ("heads", heads, every_head, _ONE_HEAD),
    ):
        if given and layout in whole:
            sentence = (
                f'{name} has no effect with layout="{layout}", which shows all {name}. '
                f"Remove {name}."
            )
            raise InputError(name, sentence)
        if given and len(given) > 1 and layout in single:
            sentence = f'layout="{layout}" shows only one of the {len(given)} {name}. Pass one.'
            raise InputError(name, sentence)
