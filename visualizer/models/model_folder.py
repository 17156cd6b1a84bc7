"""Inspects a model folder and checks that it can be opened safely. Does not import torch.

A folder is untrusted: its files are read as data with limited size, and code that it names is
never run. Weights are read from ``.safetensors`` only, because other formats may run code. A
folder is rejected with an `InputError` with field ``model``; the message states what to do.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from math import prod
from os import SEEK_END
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.captured_attention import MAX_LAYERS
from visualizer.attention.spec import ModelDtype
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError, system_error_reason
from visualizer.format import format_size
from visualizer.language.run_folder import choose_probe_text
from visualizer.models.model_path import (
    GGUF_ERROR,
    broken_link_message,
    download_instructions,
    find_model_folder,
    is_cached_repository,
    repository_name,
)
from visualizer.models.supported_inputs import check_input_kind, unused_submodels_notice
from visualizer.storage.regular_file import check_regular_file, open_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from visualizer.language.run_folder import RunMetadata

MAX_SETTINGS_BYTES = 2**20
MAX_CONFIG_BYTES = 4 * 2**20
"""Maximum size, in bytes, of files that may list every class or token; 22,000 labels take 2 MB."""
MAX_INDEX_BYTES = 24 * 2**20
"""Maximum size, in bytes, of the index of weights files; one of 140,000 tensors takes 15 MB."""
MAX_VOCABULARY_BYTES = 64 * 2**20
"""Maximum size, in bytes, of a tokenizer file; the largest files in use have about 35 MB."""
MAX_VALUES = 100_000
"""Maximum number of values in a configuration; transformers copies each value many times."""
MAX_LABELS = 30_000
"""Maximum number of classes in a configuration; transformers creates a name for each of them."""
TEMPLATES_FOLDER = "additional_chat_templates"
VOCABULARY_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spm_char.model", "source.spm",
    "target.spm", "bpe.codes", "dict.txt", "emoji.json", "entity_vocab.json", "normalizer.json",
    "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "prophetnet.tokenizer", "tekken.json",
    "word_shape.json", "word_pronunciation.json", "byte_maps.json",
)  # fmt: skip
"""Names of the files read by the tokenizers of transformers."""
_LIMITS = (
    (re.compile(r"(config|tokenizer_config|added_tokens)\.json"), MAX_CONFIG_BYTES),
    (re.compile(r".+\.index\.json"), MAX_INDEX_BYTES),
    (re.compile(r"\w+_config\.json|special_tokens_map\.json|.+\.jinja|chat_template\.json"),
     MAX_SETTINGS_BYTES),
    (re.compile("|".join(map(re.escape, VOCABULARY_FILES))), MAX_VOCABULARY_BYTES),
)  # fmt: skip
_STORED_TYPES = {
    "F64": ModelDtype.FLOAT64, "F32": ModelDtype.FLOAT32, "F16": ModelDtype.FLOAT16,
    "BF16": ModelDtype.BFLOAT16,
}  # fmt: skip
"""Types in which models compute, by their names in ``.safetensors`` files."""
_LAYER_COUNT = re.compile(r"(num|n|encoder|decoder)_(\w+_)?(layers?|blocks?)|(num_)?depth")
_LAYER_LISTS = ("depths", "block_sizes", "attention_types", "stage_num_blocks")
"""Names of settings that list the number of layers in each part of a model."""


def file_size_limit(name: str) -> int | None:
    """Return the size limit, in bytes, of a file read by transformers; None for other files."""
    return next((limit for names, limit in _LIMITS if names.fullmatch(name)), None)


def check_file_sizes(folder: Path) -> None:
    """Reject a folder if a file that transformers would read is too large or not a regular file."""
    for path in _list_model_files(folder):
        limit = file_size_limit(path.name)
        if limit is None:
            continue
        try:
            size = check_regular_file(path).st_size
        except FileNotFoundError:
            raise InputError("model", broken_link_message(path)) from None
        except OSError as error:
            raise InputError(
                "model", f"Cannot read “{path.name}”: {system_error_reason(error)}."
            ) from error
        if size > limit:
            sizes = f"{format_size(size)}; the limit is {format_size(limit)}"
            sentence = f"“{path.name}” is too large ({sizes})."
            raise InputError("model", f"{sentence} Check that the file belongs to this model.")


def _list_model_files(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
        if (folder / TEMPLATES_FOLDER).is_dir():
            yield from sorted((folder / TEMPLATES_FOLDER).iterdir())
    except OSError as error:
        sentence = f"Cannot read the folder “{folder.name}”: {system_error_reason(error)}."
        raise InputError("model", sentence) from error


def check_config_counts(config: Mapping[str, Any]) -> None:
    """Reject a configuration with more values, layers or classes than a real model has."""
    if sum(1 for _ in _nested_values(config)) > MAX_VALUES:
        raise InputError(
            "model", f"config.json is invalid: it has more than {MAX_VALUES:,} values."
        )
    for part in _nested_values(config):
        for name, value in part.items() if isinstance(part, dict) else ():
            limit = MAX_LABELS if name == "num_labels" else MAX_LAYERS
            is_count = name == "num_labels" or _LAYER_COUNT.fullmatch(name)
            if name in _LAYER_LISTS or (is_count and isinstance(value, int)):
                count = sum(max(0, each) for each in _nested_values(value) if type(each) is int)
                if count > limit:
                    raise InputError(
                        "model",
                        f"config.json is invalid: {name} must be at most {limit:,}, not {count:,}.",
                    )


def _nested_values(value: object) -> Iterator[object]:
    """Yield a JSON value and all values nested in it, without recursion."""
    pending = [value]
    while pending:
        part = pending.pop()
        yield part
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part


CONFIG_FILE = "config.json"
IMAGE_CONFIG_FILE = "preprocessor_config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
ADAPTER_CONFIG_FILE = "adapter_config.json"
MAX_HEADER_BYTES = 16 * 2**20
"""Maximum size, in bytes, of the header (the list of tensors) of a weights file."""
MAX_SMALL_HEADER_BYTES = 2 * 2**20
"""Maximum size, in bytes, of the header of a small file; it grows by one byte per 16 bytes of
tensors.
"""
MAX_SMALL_TENSORS = 10_000
BYTES_PER_TENSOR = 4_096
"""Minimum size, in bytes, per tensor beyond the first `MAX_SMALL_TENSORS` tensors of a file."""
MAX_DIMENSIONS = 16
_DISTRIBUTED = re.compile(r"shard-\d{5}-model-\d{5}-of-\d{5}\.safetensors")
"""Names of the weights files that transformers prefers to all others."""
MAX_IMAGE_SIDE_PX = 4_096
"""Maximum side length, in pixels, that a folder may request for preprocessed images."""
MERGE_COMMAND = (
    "python -c \"import peft; m=peft.AutoPeftModel.from_pretrained('FOLDER'); "
    "m.merge_and_unload().save_pretrained('MERGED')\". Then open MERGED."
)
"""Instructions for merging an adapter into its model."""
_HASHED_BYTES = 2**20
"""Number of bytes at each end of a weights file that are hashed for the fingerprint."""
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "encoder_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "num_heads")
_ITEM_SIZES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
}  # fmt: skip


class LayerSizes(Struct, frozen=True):
    """Sizes of a model's layers in its files.

    Parameters
    ----------
    layers : int
        Number of layers in the stack; 0 if it cannot be determined.
    parameters, bytes : int
        Number of parameters and bytes of all layers together.
    largest_layer : int
        Number of parameters of the largest layer.
    """

    layers: int = 0
    parameters: int = 0
    bytes: int = 0
    largest_layer: int = 0


class ModelFolder(Struct, frozen=True):
    """A model folder that passed all checks.

    Parameters
    ----------
    name : str
        Name of the folder, or of the repository if it is in the local cache.
    kind : str
        Model type in transformers, such as ``llama``.
    architectures : tuple of str
        Class names in the configuration.
    layers, heads : int
        Numbers of layers and of heads per layer in the configuration; 0 if they are missing. For
        encoder-decoder models, these are the numbers of the encoder.
    bytes : int
        Total size of the weights files.
    fingerprint : str
        Hexadecimal hash that identifies the files; empty if not requested.
    lab_run : RunMetadata or None
        Training run of a model from the language lab.
    training_step : int or None
        Training step of a model from the language lab, if its file records it.
    notices : tuple of str
        Sentences about parts of the folder that are not used.
    stored_dtype : ModelDtype or None
        Type of most of the stored parameters; None for other types, such as those of quantized
        weights.
    """

    path: Path
    name: str
    kind: str
    architectures: tuple[str, ...]
    layers: int
    heads: int
    parameters: int
    bytes: int
    has_tokenizer: bool
    fingerprint: str
    lab_run: RunMetadata | None = None
    layer_sizes: LayerSizes = LayerSizes()
    is_quantised: bool = False
    training_step: int | None = None
    notices: tuple[str, ...] = ()
    stored_dtype: ModelDtype | None = None

    __repr__ = brief_repr

    @property
    def initial_text(self) -> str:
        """A valid first text for a model from the lab; empty for models that accept any text."""
        return choose_probe_text(self.lab_run.sample, self.lab_run.settings) if self.lab_run else ""


def parameter_bytes(parameters: int, dtype: ModelDtype) -> int:
    """Return the number of bytes that parameters take in memory."""
    return parameters * dtype.itemsize


def choose_model_dtype(
    wanted: ModelDtype, stored: ModelDtype | None, parameters: int, free: float
) -> ModelDtype:
    """Return the type in which a model computes.

    Parameters
    ----------
    stored : ModelDtype or None
        The type of most of the stored weights.
    parameters : int
        Number of parameters in memory.
    free : float
        Number of free bytes.
    """
    if wanted is not ModelDtype.AUTO:
        return wanted
    is_small = parameter_bytes(parameters, ModelDtype.FLOAT32) <= free
    return stored if stored and stored.is_half and not is_small else ModelDtype.FLOAT32


def is_model_folder(path: Path) -> bool:
    """Return whether a folder is a cached repository or a model folder, which may be incomplete."""
    files = (path / CONFIG_FILE, path / ADAPTER_CONFIG_FILE)
    return any(file.is_file() or file.is_symlink() for file in files) or is_cached_repository(path)


def read_model_folder(path: Path, *, has_fingerprint: bool = True) -> ModelFolder:
    """Inspect a model folder without loading its weights.

    Parameters
    ----------
    path : Path
        As in `find_model_folder`.
    has_fingerprint : bool
        Whether to compute the fingerprint, which requires reading part of the weights.
    """
    path = find_model_folder(path)
    config, name = _read_config(path), model_name(path)
    check_input_kind(name, config)
    files = find_weight_files(path)
    weights = read_tensor_headers(files)
    layers = _find_config_count(config, _LAYERS)
    kind = config.get("model_type")
    classes = config.get("architectures") or []
    named = [each for each in classes if isinstance(each, str)] if isinstance(classes, list) else []
    return ModelFolder(
        path,
        name,
        kind=kind if isinstance(kind, str) else "",
        architectures=tuple(named),
        layers=layers,
        heads=_find_config_count(config, _HEADS),
        parameters=sum(each.element_count for each in weights),
        bytes=sum(file.stat().st_size for file in files),
        has_tokenizer=any((path / name).is_file() for name in _TOKENIZERS),
        fingerprint=compute_fingerprint(config, files) if has_fingerprint else "",
        layer_sizes=_compute_layer_sizes(weights, layers),
        is_quantised="quantization_config" in config,
        notices=tuple(filter(None, (unused_submodels_notice(name, config), _adapter_notice(path)))),
        stored_dtype=_find_stored_dtype(weights),
    )


def check_image_config(path: Path) -> None:
    """Reject a folder without valid image preprocessing settings, or with huge image sizes."""
    settings = _read_json(
        path / IMAGE_CONFIG_FILE,
        f"“{path.name}” has no {IMAGE_CONFIG_FILE}, so images cannot be prepared for this model.",
    )
    check_no_custom_code(IMAGE_CONFIG_FILE, settings)
    if not isinstance(settings, dict):
        raise InputError("model", f"{IMAGE_CONFIG_FILE} is invalid: it must contain a JSON object.")
    for name in ("size", "crop_size", "pad_size"):
        value = settings.get(name)
        sizes = [*value.values()] if isinstance(value, dict) else [value]
        if any(isinstance(size, int | float) and size > MAX_IMAGE_SIDE_PX for size in sizes):
            limit = f"{MAX_IMAGE_SIDE_PX:,} pixels"
            raise InputError(
                "model", f"{IMAGE_CONFIG_FILE} is invalid: “{name}” must be at most {limit}."
            )


def compute_fingerprint(config: Mapping[str, Any], files: Sequence[Path]) -> str:
    """Return a hexadecimal hash that identifies a model by its files.

    The hash covers the whole configuration. Weights files can be large, so only their names, sizes,
    beginnings (with the names and sizes of all tensors) and ends are hashed.
    """
    digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode("utf-8", "surrogatepass"))
    try:
        for name in files:
            with open_regular_file(name) as file:
                size = file.seek(0, SEEK_END)
                digest.update(f"{name.name}\0{size}\0".encode())
                for place in (0, max(0, size - _HASHED_BYTES)):
                    file.seek(place)
                    digest.update(file.read(_HASHED_BYTES))
    except OSError as error:
        raise InputError(
            "model", f"Cannot read the weights: {system_error_reason(error)}."
        ) from error
    return digest.hexdigest()


def model_name(path: Path) -> str:
    """Return the name of a model's repository if it is in the local cache, or of its folder."""
    return repository_name(path) or path.resolve().name


def _adapter_notice(path: Path) -> str:
    """Return the notice about an adapter next to a model's weights; empty if there is none."""
    if not (path / ADAPTER_CONFIG_FILE).exists():
        return ""
    return (
        f"The adapter in the folder ({ADAPTER_CONFIG_FILE}) is not applied: all values are those "
        f"of the base model. To apply the adapter, merge it into the model first: {MERGE_COMMAND}"
    )


def _adapter_only_message(path: Path) -> str:
    """Return the message for a folder with only an adapter; empty for other folders."""
    if not (path / ADAPTER_CONFIG_FILE).exists():
        return ""
    settings = _read_json(path / ADAPTER_CONFIG_FILE, "")
    base = settings.get("base_model_name_or_path") if isinstance(settings, dict) else None
    of = f" for the model “{base[:200]}”" if isinstance(base, str) and base else ""
    return (
        f"“{path.name}” contains only an adapter{of}. Open the base model, or merge the adapter "
        f"into it: {MERGE_COMMAND}"
    )


def _read_config(path: Path) -> dict[str, Any]:
    check_file_sizes(path)
    if not (path / CONFIG_FILE).exists():
        if adapter := _adapter_only_message(path):
            raise InputError("model", adapter)
        if file := next(path.glob("*.gguf"), None):
            raise InputError("model", GGUF_ERROR.format(name=file.name))
    config = _read_json(
        path / CONFIG_FILE, f"“{path.name}” is not a model folder: it has no config.json."
    )
    if not isinstance(config, dict):
        raise InputError("model", "config.json is invalid: it must contain a JSON object.")
    check_no_custom_code(CONFIG_FILE, config)
    if (path / TOKENIZER_CONFIG_FILE).exists():
        check_no_custom_code(TOKENIZER_CONFIG_FILE, _read_json(path / TOKENIZER_CONFIG_FILE, ""))
    if "transformers_weights" in config:
        raise InputError(
            "model",
            "config.json names weights files other than model.safetensors, which is not supported.",
        )
    check_config_counts(config)
    return config


def _find_config_count(config: dict[str, Any], names: Sequence[str]) -> int:
    """Return the first named setting, possibly nested, that is a positive integer, or 0."""
    parts = [part for part in config.values() if isinstance(part, dict)]
    found = (part.get(name) for part in (config, *parts) for name in names)
    return next((count for count in found if type(count) is int and count > 0), 0)


def check_no_custom_code(name: str, settings: Any) -> None:
    """Reject settings that would run custom code."""
    if isinstance(settings, dict) and "auto_map" in settings:
        raise InputError(
            "model",
            f"{name} requires custom code (auto_map), which is never run. Open a model with an "
            "architecture that is part of transformers.",
        )


def _read_json(path: Path, without: str) -> Any:
    limit = file_size_limit(path.name) or MAX_INDEX_BYTES
    try:
        with open_regular_file(path) as file:
            text = file.read(limit + 1)
    except FileNotFoundError:
        raise InputError("model", without) from None
    except OSError as error:
        raise InputError(
            "model", f"Cannot read “{path.name}”: {system_error_reason(error)}."
        ) from error
    if len(text) > limit:
        raise InputError("model", f"“{path.name}” is too large: more than {format_size(limit)}.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("model", f"“{path.name}” is damaged: it is not valid JSON.") from error


def find_weight_files(path: Path) -> list[Path]:
    """Return the weights files that transformers loads: a single file, or those in the index."""
    if shards := [each.name for each in path.iterdir() if _DISTRIBUTED.match(each.name)]:
        raise InputError(
            "model",
            f"{shards[0]} is part of a distributed training checkpoint, which is not supported. "
            "Save the model with save_pretrained and open that folder.",
        )
    if (path / WEIGHTS_FILE).is_file():
        return [path / WEIGHTS_FILE]
    if (path / WEIGHTS_FILE).is_symlink():
        raise InputError("model", broken_link_message(path / WEIGHTS_FILE))
    if (path / INDEX_FILE).exists():
        index = _read_json(path / INDEX_FILE, "")
        places = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(places, dict) or not all(isinstance(at, str) for at in places.values()):
            raise InputError(
                "model", f"“{INDEX_FILE}” is damaged: its weight_map is missing or invalid."
            )
        names = sorted({*places.values()})
        if wrong := [name for name in names if not re.fullmatch(r"[\w.-]+\.safetensors", name)]:
            raise InputError(
                "model", f"“{INDEX_FILE}” names “{wrong[0][:60]}”, which is not a valid file name."
            )
        if missing := [name for name in names if not (path / name).is_file()]:
            count = f"{len(missing):,} of {len(names):,} weights files"
            sentence = f"{count} are missing, for example {missing[0]}."
            raise InputError("model", f"{sentence} {download_instructions(path)}")
        return [path / name for name in names]
    raise InputError("model", _missing_weights_message(path))


def _missing_weights_message(path: Path) -> str:
    pickles = sorted([*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")])
    if not pickles:
        return f"“{path.name}” contains no weights: {WEIGHTS_FILE} is missing."
    return (
        f"{pickles[0].name} is not opened because loading this format can run code. If you trust "
        "it, convert it to safetensors: python -c \"import transformers as t; p='FOLDER'; "
        't.AutoModel.from_pretrained(p).save_pretrained(p)"'
    )


class TensorHeader(Struct, frozen=True):
    """A tensor in a weights file, as described in the file's header.

    Parameters
    ----------
    name : str
        Path of the tensor in the model that wrote the file.
    type : str
        Data type as named in ``.safetensors`` files: ``BF16``.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def read_tensor_headers(files: Sequence[Path]) -> list[TensorHeader]:
    """List the tensors in weights files from their headers; reject damaged files."""
    return [tensor for file in files for tensor in _read_file_tensor_headers(file)]


def _find_stored_dtype(weights: Sequence[TensorHeader]) -> ModelDtype | None:
    """Return the type of most parameters; None if models do not compute in it."""
    counts = Counter[str]()
    for each in weights:
        counts[each.type] += each.element_count
    return _STORED_TYPES.get(max(counts, key=lambda name: counts[name], default=""))


def _compute_layer_sizes(weights: Sequence[TensorHeader], layers: int) -> LayerSizes:
    """Return the sizes of the layers, from the layer numbers in the names of the tensors."""
    stacks: dict[str, dict[int, list[TensorHeader]]] = {}
    for weight in weights:
        if found := re.match(r"(.+?)\.(\d{1,6})\.", weight.name):
            stacks.setdefault(found[1], {}).setdefault(int(found[2]), []).append(weight)
    whole = [stack for stack in stacks.values() if stack.keys() == {*range(layers)}]
    if len(whole) != 1:
        return LayerSizes()
    sums = [sum(each.element_count for each in layer) for layer in whole[0].values()]
    read = sum(each.bytes for layer in whole[0].values() for each in layer)
    return LayerSizes(layers, sum(sums), read, max(sums))


def _read_file_tensor_headers(path: Path) -> list[TensorHeader]:
    """List the tensors in a ``.safetensors`` file from its header, and check its size."""
    damaged = f"{path.name} is damaged: its content does not match its header."
    try:
        with open_regular_file(path) as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= size - 8:
                raise InputError("model", damaged)
            tensor_bytes = size - 8 - length
            if length > min(MAX_HEADER_BYTES, MAX_SMALL_HEADER_BYTES + tensor_bytes // 16):
                sizes = f"{format_size(length)} for {format_size(tensor_bytes)} of tensors"
                raise InputError(
                    "model", f"{path.name} is damaged: its header is too large ({sizes})."
                )
            header = json.loads(file.read(length))
    except OSError as error:
        raise InputError(
            "model", f"Cannot read {path.name}: {system_error_reason(error)}."
        ) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("model", damaged) from error
    try:
        header.pop("__metadata__", None)
        if len(header) > MAX_SMALL_TENSORS + tensor_bytes // BYTES_PER_TENSOR:
            sentence = f"{path.name} lists {len(header):,} tensors with a total size of only"
            raise InputError(
                "model",
                f"{sentence} {format_size(tensor_bytes)}. Check that the file belongs to this "
                "model.",
            )
        tensors = [_parse_tensor_header(name, each) for name, each in header.items()]
        end = max((each["data_offsets"][1] for each in header.values()), default=0)
    except (AttributeError, TypeError, LookupError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("model", damaged) from error
    # Each byte belongs to exactly one tensor.
    if end != tensor_bytes or sum(each.bytes for each in tensors) != end:
        raise InputError("model", damaged)
    return tensors


def _parse_tensor_header(name: str, described: Mapping[str, Any]) -> TensorHeader:
    """Parse a tensor's header entry; raise `ValueError` if its sizes are inconsistent."""
    begin, end = described["data_offsets"]
    kind, shape = described["dtype"], described["shape"]
    are_sizes = all(type(size) is int and 0 <= size < 2**63 for size in (begin, end, *shape))
    if not are_sizes or len(shape) > MAX_DIMENSIONS:
        raise ValueError
    numbers, item = prod(shape), _ITEM_SIZES.get(kind)
    # An unlisted type takes at least one bit per element.
    if numbers * item != end - begin if item else numbers > 8 * (end - begin):
        raise ValueError
    return TensorHeader(name, kind, tuple(shape), end - begin)


def positive_int_or_zero(value: object) -> int:
    """Return a configuration value if it is a positive integer; otherwise, return 0."""
    return value if isinstance(value, int) and value > 0 else 0
