"""The folder of a model: what is in it, and whether it can be opened safely. No torch here.

A folder may come from anywhere: its files are read as data, bounded in size, and no code that it
names is run. Weights are read from ``.safetensors`` alone, as other formats may run code.
"""

from __future__ import annotations

import hashlib
import json
import re
from math import prod
from os import SEEK_END
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.spec import Dtype
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError, reason_of
from visualizer.language.first_probe_text import first_probe_of
from visualizer.models.folder_limits import (
    MAX_INDEX_BYTES,
    check_counts,
    check_file_sizes,
    size_limit,
)
from visualizer.models.model_inputs import check_kind, notice_of_parts
from visualizer.models.model_path import (
    GGUF_ERROR,
    download_again,
    is_cached_repository,
    missing_link_target,
    model_path,
    repository_name,
)
from visualizer.number_format import format_size
from visualizer.optional_packages import missing_package_message
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from visualizer.language.run_folder import RunMetadata

MISSING = missing_package_message("transformers", "Opening models")
CONFIG = "config.json"
IMAGE_CONFIG = "preprocessor_config.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
ADAPTER_CONFIG = "adapter_config.json"
MAX_HEADER_BYTES = 16 * 2**20
"""Limit of the list of tensors at the beginning of a file of weights."""
MAX_SMALL_HEADER_BYTES = 2 * 2**20
"""The same for a small file; it grows by a byte with 16 bytes of tensors."""
MAX_SMALL_TENSORS = 10_000
BYTES_PER_TENSOR = 4_096
"""Least average size of the tensors in a file that has more than `MAX_SMALL_TENSORS`."""
MAX_DIMENSIONS = 16
_DISTRIBUTED = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors")
"""Files that transformers reads in place of all others."""
MAX_IMAGE_SIDE_PX = 4_096
"""The largest side of an image that a folder has images prepared to."""
MERGE = (
    "python -c \"import peft; m=peft.AutoPeftModel.from_pretrained('FOLDER'); "
    "m.merge_and_unload().save_pretrained('MERGED')\", and open MERGED."
)
"""How an adapter is merged into its model."""
_PART = 2**20
"""Bytes at the beginning and the end of a file of weights that tell it from others."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "encoder_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "num_heads")
_ITEM_SIZES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip


class LayerSizes(Struct, frozen=True):
    """What the layers of a model take in its files.

    Parameters
    ----------
    layers : int
        How many there are one after the other; 0 where the files do not tell.
    numbers, bytes : int
        Of the weights of all layers together.
    largest : int
        The numbers of the largest layer.
    """

    layers: int = 0
    numbers: int = 0
    bytes: int = 0
    largest: int = 0


class ModelFolder(Struct, frozen=True):
    """A model's folder that can be opened.

    Parameters
    ----------
    name : str
        What the model is called: the folder's name, or that of the repository in the local cache.
    kind : str
        The architecture by the name of transformers: ``llama``.
    architectures : tuple of str
        The classes that the config names.
    layers, heads : int
        As the config counts them; of an encoder and a decoder, the encoder's. 0 where it does not.
    numbers : int
        The numbers in its weights.
    bytes : int
        The bytes of its weights' files.
    has_tokenizer : bool
        Whether a text can be split into its tokens.
    fingerprint : str
        A number that tells its files from others, in hexadecimal; empty where it was not asked for.
    lab_run : RunMetadata or None
        Of a model that was trained in the language lab, how.
    training_step : int or None
        Number of training steps of such a model, if its file says it.
    layer_sizes : LayerSizes
        What its layers take in its files.
    is_quantised : bool
        Whether its weights are held as codes of fewer bits.
    notices : tuple of str
        What of the folder is not used, each as a sentence.
    """

    path: Path
    name: str
    kind: str
    architectures: tuple[str, ...]
    layers: int
    heads: int
    numbers: int
    bytes: int
    has_tokenizer: bool
    fingerprint: str
    lab_run: RunMetadata | None = None
    layer_sizes: LayerSizes = LayerSizes()
    is_quantised: bool = False
    training_step: int | None = None
    notices: tuple[str, ...] = ()

    __repr__ = brief_repr

    @property
    def text_to_begin_with(self) -> str:
        """A text that it can read, of a model of the lab; empty of one that reads any text."""
        return first_probe_of(self.lab_run.sample, self.lab_run.settings) if self.lab_run else ""


def bytes_in_memory(numbers: int, dtype: Dtype) -> int:
    """Return how many bytes a model's numbers take once it is open."""
    return numbers * (8 if dtype is Dtype.FLOAT64 else 4)


def is_model_folder(path: Path) -> bool:
    """Whether a path is that of a model's files, which may lack some, or of a cached repository."""
    files = (path / CONFIG, path / ADAPTER_CONFIG)
    return any(file.is_file() or file.is_symlink() for file in files) or is_cached_repository(path)


def read_model_folder(path: Path, *, has_fingerprint: bool = True) -> ModelFolder:
    """Read what is in a model's folder, without its numbers.

    Parameters
    ----------
    path : Path
        As `model_path` takes it.
    has_fingerprint : bool
        Whether to read as much of the weights as tells them from others.

    Raises
    ------
    InputError
        Of ``model``, when it cannot be opened, with what to do about it.
    """
    path = model_path(path)
    config, name = _config(path), name_of(path)
    check_kind(name, config)
    files = weight_files(path)
    weights = tensors_in_files(files)
    layers = _counted(config, _LAYERS)
    kind = config.get("model_type")
    classes = config.get("architectures") or []
    named = [each for each in classes if isinstance(each, str)] if isinstance(classes, list) else []
    return ModelFolder(
        path,
        name,
        kind if isinstance(kind, str) else "",
        tuple(named),
        layers,
        _counted(config, _HEADS),
        sum(each.numbers for each in weights),
        sum(file.stat().st_size for file in files),
        any((path / name).is_file() for name in _TOKENIZERS),
        fingerprint_of(config, files) if has_fingerprint else "",
        layer_sizes=_sizes_of_layers(weights, layers),
        is_quantised="quantization_config" in config,
        notices=tuple(filter(None, (notice_of_parts(name, config), _adapter_notice(path)))),
    )


def check_image_config(path: Path) -> None:
    """Refuse a folder that does not say how images are prepared, or would have huge ones made.

    Raises
    ------
    InputError
        Of ``model``.
    """
    settings = _json(path / IMAGE_CONFIG, f"There is no {IMAGE_CONFIG} in “{path.name}”.")
    refuse_code(IMAGE_CONFIG, settings)
    if not isinstance(settings, dict):
        raise _refused(f"The {IMAGE_CONFIG} holds no settings.")
    for name in ("size", "crop_size", "pad_size"):
        value = settings.get(name)
        sizes = [*value.values()] if isinstance(value, dict) else [value]
        if any(isinstance(size, int | float) and size > MAX_IMAGE_SIDE_PX for size in sizes):
            raise _refused(f"The {IMAGE_CONFIG} says a {name} of more than {MAX_IMAGE_SIDE_PX:,}.")


def fingerprint_of(config: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return a number, in hexadecimal, that tells apart models' folders by their files.

    Of the config all counts; of the weights' files, which can be large, their sizes, beginnings
    (with the names and sizes of all weights) and ends.
    """
    made = hashlib.sha256(json.dumps(config, sort_keys=True).encode("utf-8", "surrogatepass"))
    try:
        for name in files:
            with open_regular_file(name) as file:
                size = file.seek(0, SEEK_END)
                made.update(f"{name.name}\0{size}\0".encode())
                for place in (0, max(0, size - _PART)):
                    file.seek(place)
                    made.update(file.read(_PART))
    except OSError as error:
        raise _refused(f"The weights cannot be read: {reason_of(error)}.") from error
    return made.hexdigest()


def name_of(path: Path) -> str:
    """Return what a model is called: in the local cache the name of its repository."""
    return repository_name(path) or path.resolve().name


def _adapter_notice(path: Path) -> str:
    """Return the sentence on an adapter next to a model's weights; empty if there is none."""
    if not (path / ADAPTER_CONFIG).exists():
        return ""
    return (
        f"The adapter in the folder ({ADAPTER_CONFIG}) is not applied: the numbers are those of "
        f"the model without it. To see them with it, merge it first, by {MERGE}"
    )


def _adapter_without_model(path: Path) -> str:
    """Return the sentence on a folder with an adapter only; empty if it holds none."""
    if not (path / ADAPTER_CONFIG).exists():
        return ""
    settings = _json(path / ADAPTER_CONFIG, "")
    base = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
    of = f" for the model “{base[:200]}”" if isinstance(base, str) and base else ""
    return (
        f"“{path.name}” holds an adapter{of}, and no model. Open that model, or merge the adapter "
        f"into it, by {MERGE}"
    )


def _config(path: Path) -> dict[str, Any]:
    check_file_sizes(path)
    if not (path / CONFIG).exists():
        if adapter := _adapter_without_model(path):
            raise _refused(adapter)
        if file := next(path.glob("*.gguf"), None):
            raise _refused(GGUF_ERROR.format(name=file.name))
    config = _json(path / CONFIG, f"“{path.name}” has no config.json, so it is no model's folder.")
    if not isinstance(config, dict):
        raise _refused("The config.json holds no settings.")
    refuse_code(CONFIG, config)
    if (path / TOKENIZER_CONFIG).exists():
        refuse_code(TOKENIZER_CONFIG, _json(path / TOKENIZER_CONFIG, ""))
    if "transformers_weights" in config:
        raise _refused("The config.json names other weights than model.safetensors.")
    check_counts(config)
    return config


def _counted(config: dict[str, Any], names: Sequence[str]) -> int:
    """Return the first of these counts in a config, or else in the settings of its parts."""
    parts = [part for part in config.values() if isinstance(part, dict)]
    found = (part.get(name) for part in (config, *parts) for name in names)
    return next((count for count in found if type(count) is int and count > 0), 0)


def refuse_code(name: str, settings: Any) -> None:
    """Refuse settings, of a file of this name, that have code of their own run."""
    if isinstance(settings, dict) and "auto_map" in settings:
        raise _refused(
            f"The {name} names code of its own (auto_map), which is never run. Open a model of an "
            "architecture that transformers knows itself."
        )


def _json(path: Path, without: str) -> Any:
    most = size_limit(path.name) or MAX_INDEX_BYTES
    try:
        with open_regular_file(path) as file:
            text = file.read(most + 1)
    except FileNotFoundError:
        raise _refused(without) from None
    except OSError as error:
        raise _refused(f"“{path.name}” cannot be read: {reason_of(error)}.") from error
    if len(text) > most:
        raise _refused(f"“{path.name}” is larger than {format_size(most)}.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(f"“{path.name}” is damaged: it is not JSON.") from error


def weight_files(path: Path) -> list[Path]:
    """Return the files that transformers reads: the one file before those of an index.

    Raises
    ------
    InputError
        Of ``model``, when there are none, or some are missing.
    """
    if shards := [each.name for each in path.iterdir() if _DISTRIBUTED.match(each.name)]:
        raise _refused(
            f"{shards[0]} is a part of a checkpoint of distributed training. Save the model with "
            "save_pretrained, and open that folder."
        )
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    if (path / WEIGHTS).is_symlink():
        raise _refused(missing_link_target(path / WEIGHTS))
    if (path / INDEX).exists():
        index = _json(path / INDEX, "")
        places = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(places, dict) or not all(isinstance(at, str) for at in places.values()):
            raise _refused(f"“{INDEX}” is damaged: it does not say where the weights are.")
        names = sorted({*places.values()})
        if wrong := [name for name in names if not re.fullmatch(r"[\w.-]+\.safetensors", name)]:
            raise _refused(f"“{INDEX}” names “{wrong[0][:60]}”, which is no file beside it.")
        if missing := [name for name in names if not (path / name).is_file()]:
            count = f"{len(missing):,} of {len(names):,} files"
            sentence = f"{count} of the weights are missing, such as {missing[0]}."
            raise _refused(f"{sentence} {download_again(path)}")
        return [path / name for name in names]
    raise _refused(_without_safetensors(path))


def _without_safetensors(path: Path) -> str:
    pickles = sorted([*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")])
    if not pickles:
        return f"“{path.name}” holds no weights: there is no {WEIGHTS} in it."
    return (
        f"{pickles[0].name} could run code when it is opened, so it is not. If you trust it, "
        "convert it: python -c \"import transformers as t; p='FOLDER'; "
        't.AutoModel.from_pretrained(p).save_pretrained(p)"'
    )


class TensorInFile(Struct, frozen=True):
    """A tensor in a file of weights, as the file's header describes it.

    Parameters
    ----------
    name : str
        Its path in the model that wrote the file.
    type : str
        Of its numbers, as ``.safetensors`` files call it: ``BF16``.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def numbers(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)


def tensors_in_files(files: Sequence[Path]) -> list[TensorInFile]:
    """List the tensors in files of weights by their headers.

    Raises
    ------
    InputError
        Of ``model``, when a file is damaged, or has far more tensors than a model of its size.
    """
    return [tensor for file in files for tensor in _tensors_in(file)]


def _sizes_of_layers(weights: Sequence[TensorInFile], layers: int) -> LayerSizes:
    """Return what the layers take whose numbers are in the paths of their weights."""
    stacks: dict[str, dict[int, list[TensorInFile]]] = {}
    for weight in weights:
        if found := re.match(r"(.+?)\.(\d{1,6})\.", weight.name):
            stacks.setdefault(found[1], {}).setdefault(int(found[2]), []).append(weight)
    whole = [stack for stack in stacks.values() if stack.keys() == {*range(layers)}]
    if len(whole) != 1:
        return LayerSizes()
    sums = [sum(each.numbers for each in layer) for layer in whole[0].values()]
    read = sum(each.bytes for layer in whole[0].values() for each in layer)
    return LayerSizes(layers, sum(sums), read, max(sums))


def _tensors_in(path: Path) -> list[TensorInFile]:
    """List the tensors in a ``.safetensors`` file by its header, which must fit its size."""
    damaged = f"{path.name} is damaged: it is shorter or other than its beginning says."
    try:
        with open_regular_file(path) as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= size - 8:
                raise _refused(damaged)
            held = size - 8 - length
            if length > min(MAX_HEADER_BYTES, MAX_SMALL_HEADER_BYTES + held // 16):
                sizes = f"{format_size(length)}, and the tensors {format_size(held)}"
                raise _refused(f"The list of tensors in {path.name} takes {sizes}: it is too long.")
            header = json.loads(file.read(length))
    except OSError as error:
        raise _refused(f"{path.name} cannot be read: {reason_of(error)}.") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise _refused(damaged) from error
    try:
        header.pop("__metadata__", None)
        if len(header) > MAX_SMALL_TENSORS + held // BYTES_PER_TENSOR:
            sentence = f"{path.name} lists {len(header):,} tensors of only {format_size(held)}"
            raise _refused(f"{sentence} in all. Check that it belongs to this model.")
        tensors = [_tensor(name, each) for name, each in header.items()]
        end = max((each["data_offsets"][1] for each in header.values()), default=0)
    except (AttributeError, TypeError, LookupError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise _refused(damaged) from error
    # Each byte belongs to exactly one tensor.
    if end != held or sum(each.bytes for each in tensors) != end:
        raise _refused(damaged)
    return tensors


def _tensor(name: str, described: Mapping[str, Any]) -> TensorInFile:
    """Return a tensor as a header describes it; `ValueError` if its sizes contradict each other."""
    begin, end = described["data_offsets"]
    kind, shape = described["dtype"], described["shape"]
    are_sizes = all(type(size) is int and 0 <= size < 2**63 for size in (begin, end, *shape))
    if not are_sizes or len(shape) > MAX_DIMENSIONS:
        raise ValueError
    numbers, item = prod(shape), _ITEM_SIZES.get(kind)
    # A type that is not listed takes at least a bit per number.
    if numbers * item != end - begin if item else numbers > 8 * (end - begin):
        raise ValueError
    return TensorInFile(name, kind, tuple(shape), end - begin)


def _refused(sentence: str) -> InputError:
    return InputError("model", sentence)
