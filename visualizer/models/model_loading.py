"""Loads a model from its folder, without network access and without running its code."""

from __future__ import annotations

import importlib
import logging
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.run import USABLE_MEMORY_SHARE, format_gib
from visualizer.attention.spec import Device, ModelDtype
from visualizer.errors import InputError, first_line, is_out_of_memory
from visualizer.models.attention_recorder import EAGER_ATTENTION
from visualizer.models.disk_layers import (
    LAYOUT_MISMATCH,
    DiskLayers,
    create_device_map,
    find_layer_list_path,
    is_memory_mapped,
)
from visualizer.models.disk_streaming_estimate import (
    LAB_MODEL_REASON,
    RUN_FROM_DISK_HINT,
    SEVERAL_STACKS_REASON,
    disk_streaming_error,
    max_resident_parameters,
    no_disk_streaming_reason,
)
from visualizer.models.lab_model_files import is_lab_model
from visualizer.models.meta_model import build_meta_model, model_bytes
from visualizer.models.model_folder import (
    IMAGE_CONFIG_FILE,
    ModelFolder,
    check_image_config,
    choose_model_dtype,
    parameter_bytes,
    positive_int_or_zero,
    read_model_folder,
)
from visualizer.models.model_ranks import (
    SINGLE_RANK,
    ModelProcessGroup,
    ModelRank,
    Parallelism,
    read_process_count,
)
from visualizer.models.model_tokenizer import BackgroundTokenizerLoader
from visualizer.models.supported_inputs import check_main_input
from visualizer.models.tokenizer_process import tokenizer_process
from visualizer.optional_packages import require_package
from visualizer.progress import CancelledError, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from visualizer.models.model_tokenizer import ModelTokenizer
    from visualizer.progress import Progress

ABSENT_ADAPTER_FOLDER = "no adapter"
"""A subfolder that does not exist, so that peft finds no adapter."""
DISTRIBUTED_DISK_ERROR = "a model can be split across processes or run from disk, but not both"
AUTOMATIC_HALF_NOTICE = (
    "{name} computes in {dtype}, the type of its stored weights, because float32 would need "
    "{needs} of memory."
)
STORED_HALF_HINT = "Its weights are stored as {dtype}; select this type to use half the memory."
CPU_ONLY_ERROR = "running from disk is supported on the CPU only"
LOADING_LABEL = "Loading weights"
"""Label of the progress bar for the loop in which transformers assigns weights."""


class LoadedModel(NamedTuple):
    """A transformers model with its tokenizer, in memory.

    Parameters
    ----------
    model
        The transformers model, in evaluation mode, with eager attention.
    tokenizer : ModelTokenizer or None
        None if the folder has no tokenizer.
    ranks : ModelProcessGroup
        The processes across which the model is split.
    on_disk : DiskLayers or None
        The layers, if their weights are loaded from disk whenever they are needed.
    """

    folder: ModelFolder
    model: Any
    tokenizer: ModelTokenizer | None
    device: Device
    ranks: ModelProcessGroup = SINGLE_RANK
    on_disk: DiskLayers | None = None


def load_model(
    path: Path,
    device: Device = Device.AUTO,
    dtype: ModelDtype = ModelDtype.AUTO,
    progress: Progress = ignore_progress,
    parallelism: Parallelism = Parallelism.NONE,
    *,
    is_from_disk: bool = False,
) -> LoadedModel:
    """Load a model from its folder, without network access and without running its code.

    The parameters and errors are those of `opened_model.open_model`.
    """
    if is_lab_model(path):
        if is_from_disk:
            raise disk_streaming_error(path.name, LAB_MODEL_REASON)
        return _load_lab_model(path, device, dtype)
    folder = read_model_folder(path)
    parameters = folder.parameters
    if is_from_disk:
        _check_disk_streaming(folder, device, parallelism)
        parameters = max_resident_parameters(folder)
        device = Device.CPU
    where, _ = attention_device.resolve_device(device, dtype)
    ranks = _create_process_group(folder, parallelism, where)
    folder, dtype = _choose_dtype(folder, dtype, parameters, where, ranks)
    needed = parameter_bytes(parameters, dtype)
    with ranks.propagate_errors():  # before any process fills the memory
        _check_model_fits_memory(folder, needed, where, dtype, ranks, is_from_disk=is_from_disk)
    read = WeightLoadingProgress(
        progress, parameters, folder.bytes * parameters // max(1, folder.parameters)
    )
    if folder.has_tokenizer:
        tokenizer_process.start()  # its imports take as long as those of this process
    transformers = _import_transformers()
    if folder.kind not in transformers.CONFIG_MAPPING:
        sentence = (
            f"{folder.name} has an architecture (“{folder.kind[:60]}”) that is not supported by"
        )
        sentence = f"{sentence} the installed version of transformers ({transformers.__version__})."
        if not folder.kind:
            sentence = f"The config.json of {folder.name} does not specify a model_type."
        raise InputError("model", sentence)
    read.report()
    being_read = BackgroundTokenizerLoader(folder) if folder.has_tokenizer else None
    stack, placed, types = "", dict[str, Any](), getattr(torch, dtype)
    with _silence_libraries():
        with ranks.propagate_errors(), _explain_loading_errors(folder):
            config = _load_config(folder)
            kind = _choose_model_class(transformers, folder, config)
            check_main_input(folder.name, kind.main_input_name)
            on_meta = build_meta_model(kind, config, folder, types, read.report)
            buffers = sum(each.nbytes for each in on_meta.buffers())
            needed = needed + buffers if is_from_disk else max(needed, model_bytes(on_meta))
            _check_model_fits_memory(folder, needed, where, dtype, ranks, is_from_disk=is_from_disk)
        if is_from_disk:
            stack = find_layer_list_path(on_meta, folder.layer_sizes.layers)
            if not stack:
                raise disk_streaming_error(folder.name, SEVERAL_STACKS_REASON)
            placed = {"device_map": create_device_map(on_meta, stack)}
        del on_meta
        settings = {"config": config, "dtype": types} | ranks.model_split_arguments() | placed
        model = _load_weights(kind, folder, where, read, settings).eval()
        on_disk = DiskLayers(folder.name, model, stack) if stack else None
    tokenizer = being_read.wait_for_tokenizer(read.report) if being_read else None
    return LoadedModel(folder, model, tokenizer, where, ranks, on_disk)


def _choose_dtype(
    folder: ModelFolder,
    wanted: ModelDtype,
    parameters: int,
    device: Device,
    ranks: ModelProcessGroup,
) -> tuple[ModelFolder, ModelDtype]:
    """Return the type in which the model computes, and the folder with a notice about the choice.

    Parameters
    ----------
    parameters : int
        Number of parameters that are in memory at the same time.
    """
    stored, room = folder.stored_dtype, _usable_device_bytes(device)
    own_parameters = _parameters_per_process(parameters, device, ranks)
    dtype = choose_model_dtype(wanted, stored, own_parameters, room)
    if wanted is not ModelDtype.AUTO or ranks.all_ranks_agree(not dtype.is_half):
        return folder, dtype
    assert stored is not None
    needs = format_gib(parameter_bytes(parameters, ModelDtype.FLOAT32))
    notice = AUTOMATIC_HALF_NOTICE.format(name=folder.name, dtype=stored, needs=needs)
    return replace(folder, notices=(*folder.notices, notice)), stored


def _check_model_fits_memory(
    folder: ModelFolder,
    needed: int,
    device: Device,
    dtype: ModelDtype,
    ranks: ModelProcessGroup,
    *,
    is_from_disk: bool,
) -> None:
    needed, free = _parameters_per_process(needed, device, ranks), _usable_device_bytes(device)
    if needed > free:
        sentence = (
            f"{folder.name} needs {format_gib(needed)} of memory as {dtype}; "
            f"{format_gib(free)} is available."
        )
        stored = folder.stored_dtype
        if stored and stored.is_half and not dtype.is_half:
            sentence = f"{sentence} {STORED_HALF_HINT.format(dtype=stored)}"
        is_spread = ranks.parallelism is not Parallelism.NONE
        if not (is_from_disk or is_spread or no_disk_streaming_reason(folder)):
            sentence = f"{sentence} {RUN_FROM_DISK_HINT}"
        raise InputError("model", sentence)


def _parameters_per_process(count: int, device: Device, ranks: ModelProcessGroup) -> int:
    """Return the share of one process: each has its own GPU, but all share the main memory."""
    return count // (ranks.count if device is Device.CUDA else 1)


def _usable_device_bytes(device: Device) -> float:
    return USABLE_MEMORY_SHARE * attention_device.free_device_bytes(device)


def _check_disk_streaming(folder: ModelFolder, device: Device, parallelism: Parallelism) -> None:
    if parallelism is not Parallelism.NONE:
        raise disk_streaming_error(folder.name, DISTRIBUTED_DISK_ERROR)
    if device not in {Device.AUTO, Device.CPU}:
        raise disk_streaming_error(folder.name, CPU_ONLY_ERROR)
    if why := no_disk_streaming_reason(folder):
        raise disk_streaming_error(folder.name, why)
    require_package("accelerate", "Running a model from disk")


def _load_config(folder: ModelFolder) -> Any:
    return _import_transformers().AutoConfig.from_pretrained(
        str(folder.path), local_files_only=True, trust_remote_code=False
    )


def _create_process_group(
    folder: ModelFolder, parallelism: Parallelism, device: Device
) -> ModelProcessGroup:
    """Return the processes across which to split a model."""
    if parallelism is Parallelism.NONE:
        return SINGLE_RANK
    require_package("accelerate", "Splitting a model across processes")
    with _explain_loading_errors(folder):
        config = _load_config(folder).get_text_config()
    heads = positive_int_or_zero(getattr(config, "num_attention_heads", 0)) or 1
    key_heads = positive_int_or_zero(getattr(config, "num_key_value_heads", 0)) or heads
    count = read_process_count()
    plan = getattr(config, "base_model_tp_plan", None) or {}
    is_by_heads = parallelism is Parallelism.TENSOR and any("q_proj" in name for name in plan)
    if is_by_heads and key_heads % count:
        sentence = (
            f"{folder.name} has {key_heads} key heads per layer, which cannot be divided evenly"
        )
        raise InputError("model", f"{sentence} among {count} processes.")
    layers = positive_int_or_zero(getattr(config, "num_hidden_layers", 0)) or 1
    if parallelism is Parallelism.PIPELINE and layers < count:
        sentence = f"{folder.name} has only {layers} layers for {count} processes."
        raise InputError("model", f"{sentence} Start at most {layers} processes.")
    return ModelRank(parallelism, heads, device)


def _load_lab_model(path: Path, device: Device, dtype: ModelDtype) -> LoadedModel:
    _import_transformers()
    from visualizer.models.lab_transformer import read_lab_model  # imports transformers

    if dtype is ModelDtype.AUTO:
        dtype = ModelDtype.FLOAT32
    where, _ = attention_device.resolve_device(device, dtype)
    with _silence_libraries():
        folder, model, tokenizer = read_lab_model(path)
    return LoadedModel(folder, model.to(where, getattr(torch, dtype)).eval(), tokenizer, where)


def _import_transformers() -> Any:
    require_package("transformers", "Opening models")
    return importlib.import_module("transformers")


@contextmanager
def _silence_libraries() -> Iterator[None]:
    """Suppress progress bars and log messages from transformers and accelerate."""
    library_log: Any = importlib.import_module("transformers.utils.logging")
    accelerate_log = logging.getLogger("accelerate")

    level, bars, accelerate_level = (
        library_log.get_verbosity(),
        library_log.is_progress_bar_enabled(),
        accelerate_log.level,
    )
    library_log.set_verbosity(logging.CRITICAL)
    accelerate_log.setLevel(logging.CRITICAL)
    library_log.disable_progress_bar()
    try:
        yield
    finally:
        library_log.set_verbosity(level)
        accelerate_log.setLevel(accelerate_level)
        if bars:
            library_log.enable_progress_bar()


def _choose_model_class(transformers: Any, folder: ModelFolder, config: Any) -> Any:
    """Return the model class that the config names if it is suitable, or the default class."""
    for name in folder.architectures:
        found: Any = getattr(transformers, name, None)
        is_model = isinstance(found, type) and issubclass(found, transformers.PreTrainedModel)
        if is_model and found.config_class is type(config):
            return found
    if type(config) not in transformers.MODEL_MAPPING:
        sentence = (
            f"transformers has no model class for {folder.name} (model type “{folder.kind}”)."
        )
        raise InputError("model", sentence)
    kinds = transformers.MODEL_MAPPING[type(config)]
    return kinds[0] if isinstance(kinds, tuple | list) else kinds


@contextmanager
def _explain_loading_errors(folder: ModelFolder) -> Iterator[None]:
    """Convert errors from transformers into an `InputError` with field ``model``."""
    try:
        yield
    except (CancelledError, InputError):
        raise
    except Exception as error:  # the library raises errors of every kind on damaged folders
        if is_out_of_memory(error):
            raise InputError("model", f"Out of memory while opening {folder.name}.") from error
        if "needed to be re-saved" in str(error):
            raise disk_streaming_error(folder.name, LAYOUT_MISMATCH) from error
        sentence = f"{folder.name} cannot be opened: {first_line(error)}"
        raise InputError("model", sentence) from error


def _load_weights(
    kind: Any,
    folder: ModelFolder,
    device: Device,
    read: WeightLoadingProgress,
    settings: Mapping[str, Any],
) -> Any:
    with _explain_loading_errors(folder):
        with read.count_loaded_weights():
            model, found = kind.from_pretrained(
                str(folder.path),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                attn_implementation=EAGER_ATTENTION,
                output_loading_info=True,
                adapter_kwargs={"subfolder": ABSENT_ADAPTER_FOLDER},
                **settings,
            )
        read.move_model_to_device(model, device)
    if missing := sorted(map(str, found.get("missing_keys") or ())):
        count = f"{len(missing):,} weight{'s are' if len(missing) > 1 else ' is'} missing"
        sentence = f"{folder.name} is incomplete: {count}, for example {missing[0][:80]}."
        raise InputError("model", sentence)
    return model


def load_image_processor(folder: ModelFolder) -> Any:
    """Load the transformers image processor of a model.

    Raises
    ------
    InputError
        With field ``model`` if the processor's configuration is invalid or needs torchvision.
    """
    check_image_config(folder.path)
    transformers = _import_transformers()
    try:
        with _silence_libraries():
            return transformers.AutoImageProcessor.from_pretrained(
                str(folder.path), local_files_only=True, trust_remote_code=False
            )
    except ImportError as error:
        sentence = (
            f"The image processor of {folder.name} requires torchvision, which is not supported."
        )
        raise InputError("model", sentence) from error
    except Exception as error:  # processors raise errors of every kind
        sentence = f"The {IMAGE_CONFIG_FILE} of {folder.name} is invalid: {first_line(error)}"
        raise InputError("model", sentence) from error


def load_tokenizer(folder: ModelFolder) -> Any:
    """Load the transformers tokenizer of a model into this process.

    The program itself uses `FolderTokenizer`, whose process can be stopped.

    Raises
    ------
    InputError
        With field ``model`` if the tokenizer's files are invalid.
    """
    transformers = _import_transformers()
    try:
        with _silence_libraries():
            return transformers.AutoTokenizer.from_pretrained(
                str(folder.path), local_files_only=True, trust_remote_code=False
            )
    except Exception as error:  # tokenizers raise errors of every kind
        sentence = f"Cannot load the tokenizer of {folder.name}: {first_line(error)}"
        raise InputError("model", sentence) from error


class WeightLoadingProgress:
    """Progress of loading the files of a model.

    Parameters
    ----------
    progress : Progress
        Called with the loaded and total bytes; an exception that it raises stops the loading.
    parameters, bytes_ : int
        Number of parameters in the files, and their size in bytes.
    """

    def __init__(self, progress: Progress, parameters: int, bytes_: int) -> None:
        self._progress, self._parameters, self._bytes = progress, max(1, parameters), bytes_
        self._read = 0

    def report(self) -> None:
        """Report the progress; the callback may cancel by raising an exception."""
        read = min(self._read, self._parameters)
        self._progress(self._bytes * read // self._parameters, self._bytes)

    @contextmanager
    def count_loaded_weights(self) -> Iterator[None]:
        """Count the weights that transformers loads on this thread within the context."""
        logging: Any = importlib.import_module("transformers.utils.logging")
        set_hook = getattr(logging, "set_tqdm_hook", None)
        if set_hook is None:  # early versions of transformers 5 do not report progress
            yield
            return
        here = threading.get_ident()

        def loop(
            make: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
        ) -> object:
            if threading.get_ident() == here and named.get("desc") == LOADING_LABEL:
                return self._count_while_iterating(given[0])
            return make(*given, **named)

        before = set_hook(loop)
        try:
            yield
        finally:
            set_hook(before)

    def _count_while_iterating(
        self, weights: Iterable[tuple[str, Any]]
    ) -> Iterator[tuple[str, Any]]:
        for name, parts in weights:
            for part in chain(*getattr(parts, "collected_tensors", {}).values()):
                # transformers raises an error again, with an explanation, when it uses the weight.
                if isinstance(part, Future) and part.exception() is None:
                    tensor = part.result()
                    if isinstance(tensor, torch.Tensor) and not is_memory_mapped(tensor):
                        self._count_loaded_tensor(tensor)
            self.report()
            yield name, parts

    def move_model_to_device(self, model: torch.nn.Module, device: str) -> None:
        """Move a model to a device, and copy weights that are still mapped to their file.

        Weights with the same data type as in the file are memory-mapped: if another program rewrote
        the file, they would change, or this program would crash. Weights that stay on disk are meta
        tensors, which are skipped.
        """
        with torch.no_grad():
            for tensor in chain(model.parameters(), model.buffers()):
                if tensor.is_meta:  # stays on disk
                    continue
                is_mapped = is_memory_mapped(tensor)
                if is_mapped or tensor.device.type != device:
                    tensor.data = tensor.data.to(device, copy=True)
                if is_mapped:
                    self._count_loaded_tensor(tensor)
                    self.report()
        if not any(tensor.is_meta for tensor in model.parameters()):
            model.to(device)

    def _count_loaded_tensor(self, tensor: torch.Tensor) -> None:
        self._read += tensor.numel()
