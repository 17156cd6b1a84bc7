"""Layers that keep their weights on disk, and load them into memory only while they run.

The library accelerate loads the weights of a layer when it is called, and removes them afterwards.
The weights are read from the model's own ``.safetensors`` files; no copy is made on the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from visualizer.errors import InputError
from visualizer.models.disk_streaming_estimate import disk_streaming_error
from visualizer.progress import check_cancelled, report_progress
from visualizer.storage.regular_file import read_file_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from visualizer.storage.regular_file import FileVersion

CPU_DEVICE = "cpu"
DISK_DEVICE = "disk"
"""Name of the disk in a device map of accelerate."""
FILES_CHANGED_ERROR = (
    "The files of {name} have been changed or removed since it was opened. Open it again."
)
LAYOUT_MISMATCH = "the layout of its weights files does not match its layers"
INCOMPLETE_LAYERS = "its files lack some tensors of its layers"


def find_layer_list_path(model: nn.Module, layers: int) -> str:
    """Return the path of a model's layer list; empty unless there is exactly one such list.

    Parameters
    ----------
    model : Module
        May be on the device ``meta``.
    layers : int
        Number of layers according to the config.
    """
    stacks: list[str] = []
    for path, module in model.named_modules():
        is_within = any(path.startswith(f"{outer}.") for outer in stacks)
        is_stack = isinstance(module, nn.ModuleList) and len(module) > 0
        if (
            is_stack
            and not is_within
            and all(any(True for _ in each.parameters()) for each in module)
        ):
            stacks.append(path)
    if len(stacks) != 1 or len(model.get_submodule(stacks[0])) != layers:  # type: ignore[arg-type]
        return ""
    return stacks[0]


def create_device_map(model: nn.Module, stack: str) -> dict[str, str]:
    """Return a device map that places the layers on disk and all other parts on the CPU."""
    devices = {stack: DISK_DEVICE}
    path, module = "", model
    for step in stack.split("."):
        parts = (
            *module.named_parameters(recurse=False),
            *module.named_buffers(recurse=False),
            *module.named_children(),
        )
        devices |= {path + name: CPU_DEVICE for name, _ in parts if name != step}
        path, module = f"{path}{step}.", module.get_submodule(step)
    return devices


class _WeightsFromFiles(Mapping[str, torch.Tensor]):
    """Mapping from paths to layer weights, each of which is read from its file when accessed.

    Parameters
    ----------
    loader : mapping
        The loader of accelerate, which returns parts of memory-mapped files.
    index : mapping
        Maps the path of a weight to the description of its file.
    """

    def __init__(
        self, name: str, loader: Mapping[str, Tensor], index: Mapping[str, Mapping[str, str]]
    ) -> None:
        self._name, self._loader, self._index = name, loader, index
        files = {Path(each["safetensors_file"]) for each in index.values()}
        self._versions: dict[Path, FileVersion | None] = {
            file: read_file_version(file) for file in sorted(files)
        }

    def __getitem__(self, path: str) -> Tensor:
        file = Path(self._index[path]["safetensors_file"])
        from safetensors import SafetensorError

        try:
            self._check_version(file)
            weight = self._loader[path]
            if is_memory_mapped(weight):
                # If a program rewrote the mapped file, the values would change or this process
                # would crash.
                weight = weight.clone()
            self._check_version(file)
        except (OSError, SafetensorError) as error:
            raise InputError("model", FILES_CHANGED_ERROR.format(name=self._name)) from error
        return weight

    def _check_version(self, file: Path) -> None:
        """Reject a file that has changed, because its weights may not match those read earlier."""
        if read_file_version(file) != self._versions[file]:
            raise InputError("model", FILES_CHANGED_ERROR.format(name=self._name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._index)

    def __len__(self) -> int:
        return len(self._index)


class DiskLayers:
    """The layers of a model, which are read from disk whenever they are called.

    Before each layer runs, the number of completed layers is reported, and the work can be
    cancelled.

    Parameters
    ----------
    model
        A transformers model with layers that `create_device_map` placed on disk.
    stack : str
        Path of the model's layer list.

    Raises
    ------
    InputError
        With field ``model`` if the model's files do not contain the weights of its layers in the
        required form.
    """

    def __init__(self, name: str, model: Any, stack: str) -> None:
        from accelerate.hooks import attach_align_device_hook, remove_hook_from_submodules

        self.stack = stack
        layers = model.get_submodule(stack)
        self.layers: Sequence[nn.Module] = [*layers]
        loader = _find_weights_loader(layers)
        index: Mapping[str, Mapping[str, Any]] = {} if loader is None else loader.index
        remove_hook_from_submodules(model)
        _check_layer_weights(name, index, layers, stack)
        weights = _WeightsFromFiles(name, loader, index)
        for at, layer in enumerate(self.layers):
            attach_align_device_hook(
                layer,
                execution_device=torch.device(CPU_DEVICE),
                offload=True,
                weights_map=weights,
                module_name=f"{stack}.{at}",
                skip_keys=getattr(model, "_skip_keys_device_placement", None),
                # Load a layer's weights together, because some modules use the weights of others.
                preload_module_classes=[type(layer).__name__],
            )
            layer.register_forward_pre_hook(self._progress_hook(at))

    def _progress_hook(self, at: int) -> Any:
        def report(module: nn.Module, given: object) -> None:
            check_cancelled()
            report_progress(at, len(self.layers))

        return report

    @contextmanager
    def weights_in_memory(self, path: str) -> Iterator[None]:
        """Load a module's weights into memory within the context if the module is part of a layer.

        Parameters
        ----------
        path : str
            Path of the module within its model.

        Raises
        ------
        InputError
            With field ``model`` if the model's files have changed.
        """
        from accelerate.utils import align_module_device

        within = path.removeprefix(f"{self.stack}.")
        number = within.partition(".")[0]
        if within == path or not number.isdecimal():
            yield
            return
        with align_module_device(self.layers[int(number)]):
            yield

    def unload_weights(self) -> None:
        """Unload the weights that a failed layer left in memory."""
        for layer in self.layers:
            if any(not weight.is_meta for weight in layer.parameters()):
                hook: Any = layer._hf_hook
                hook.tied_pointers_to_remove = set()
                hook.post_forward(layer, None)


def is_memory_mapped(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a view of CPU memory that torch does not own, such as a file."""
    return tensor.device.type == "cpu" and not tensor.untyped_storage().resizable()


def _find_weights_loader(layers: nn.Module) -> Any:
    """Return accelerate's loader for the layers' weights; None if no layer is on disk."""
    hooks = (getattr(module, "_hf_hook", None) for module in layers.modules())
    maps = (getattr(hook, "weights_map", None) for hook in hooks)
    datasets = (getattr(found, "dataset", None) for found in maps)
    return next((found for found in datasets if found is not None), None)


def _check_layer_weights(
    name: str, index: Mapping[str, Mapping[str, Any]], layers: nn.Module, stack: str
) -> None:
    """Reject a model if its files do not contain all layer weights with the right shapes."""
    from safetensors import safe_open

    sizes: dict[str, dict[str, list[int]]] = {}
    for path, weight in layers.named_parameters():
        known = index.get(f"{stack}.{path}", {})
        file = known.get("safetensors_file")
        if file is None or not weight.is_meta:
            raise disk_streaming_error(name, LAYOUT_MISMATCH)
        if file not in sizes:
            with safe_open(file, framework="pt") as opened:
                sizes[file] = {key: opened.get_slice(key).get_shape() for key in opened.keys()}  # noqa: SIM118
        if sizes[file].get(known["weight_name"]) != [*weight.shape]:
            raise disk_streaming_error(name, LAYOUT_MISMATCH)
    if not index or any(each.is_meta for each in layers.buffers()):
        raise disk_streaming_error(name, INCOMPLETE_LAYERS)
