"""Keeps the results of completed layers on disk, so that an interrupted run from disk can resume.

A run that was cancelled or failed resumes after the last kept layer. Each layer is a file in the
program's cache folder: a checksum, followed by safetensors, which preserve values exactly. If a
file is damaged, its layer and all later ones are computed again.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from msgspec import Struct

from visualizer.models.attention_recorder import AttentionCall, RecordingMethod
from visualizer.storage.link_safe_folder import ContainedFolder
from visualizer.storage.program_folders import cache_folder, free_bytes, is_in_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

    from visualizer.models.disk_layers import LayersOnDisk

FOLDER = "layers"
MAX_BYTES = 2**31
"""Maximum bytes kept per text."""
LEFT_ON_DISK = 2**31
"""Bytes of disk space that are left free."""
_CHECKSUM = hashlib.sha256().digest_size
_ABOUT, _RESULT = "about", "result"
_TENSORS = ("weights", "queries", "keys", "values", "mask", "context")


class _CallMetadata(Struct, frozen=True):
    """The data of an attention call other than its tensors."""

    module: str
    method: RecordingMethod
    scaling: float
    arguments: dict[str, bool | int | float | str]
    tensor_arguments: list[str]


class _LayerResult(Struct, frozen=True, eq=False):
    """Results of a layer for a text: its output and its attention calls."""

    result: Tensor
    calls: list[AttentionCall]


class UnfinishedReading:
    """The kept layers of one text.

    Parameters
    ----------
    key : str
        Identifies the run; see `key_of`.
    """

    def __init__(self, key: str) -> None:
        self._key, self._bytes = key, 0
        self._root: Path | None = None
        with suppress(OSError):
            root = cache_folder() / FOLDER
            self._root = None if is_in_memory(root) else root

    @property
    def _folder(self) -> ContainedFolder | None:
        root = self._root
        return ContainedFolder(root, self._key, is_private=True) if root else None

    def read(self, layers: int) -> list[_LayerResult]:
        """Return the first layers, up to the first missing or damaged one."""
        found: list[_LayerResult] = []
        for at in range(layers):
            layer = self._read_layer(at)
            if layer is None:
                break
            found.append(layer)
        return found

    def _read_layer(self, at: int) -> _LayerResult | None:
        if self._folder is None:
            return None
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            content = self._folder.file(str(at)).read_bytes(MAX_BYTES)
            checksum, packed = content[:_CHECKSUM], content[_CHECKSUM:]
            if hashlib.sha256(packed).digest() != checksum:
                return None
            made = _unpack_layer(load(packed))
        except (OSError, SafetensorError, msgspec.MsgspecError, LookupError):
            return None
        self._bytes += len(content)
        return made

    def keep(self, at: int, result: Any, calls: list[AttentionCall]) -> bool:
        """Write a layer to disk; return whether that succeeded."""
        if self._folder is None or not isinstance(result, torch.Tensor):
            return False
        from safetensors.torch import save

        try:
            packed = save(_pack_layer(result, calls))
            self._bytes += len(packed)
            if self._bytes > MAX_BYTES or free_bytes(self._folder.root) < LEFT_ON_DISK:
                return False
            self._folder.make()
            content = hashlib.sha256(packed).digest() + packed
            self._folder.file(str(at)).write(lambda file: file.write(content))
        except (OSError, TypeError, msgspec.MsgspecError):
            return False
        return True

    def remove(self) -> None:
        """Remove the kept layers."""
        if self._root:
            shutil.rmtree(self._root / self._key, ignore_errors=True)
            with suppress(OSError):  # not empty: another run's layers
                self._root.rmdir()

    def remove_others(self) -> None:
        """Remove the kept layers of other runs: only the latest run can resume."""
        if self._root:
            with suppress(OSError):
                for other in self._root.iterdir():
                    if other.name != self._key:
                        shutil.rmtree(other, ignore_errors=True)


def key_of(given: Mapping[str, Any], *facts: object) -> str:
    """Return a hash of a run's inputs, of facts about the model, and of library versions."""
    made = hashlib.sha256()
    libraries = [version("torch"), version("transformers"), torch.get_num_threads()]
    made.update(repr((facts, libraries)).encode())
    for name, value in sorted(given.items()):
        whole = value.cpu().contiguous() if isinstance(value, torch.Tensor) else None
        numbers = repr(value).encode() if whole is None else whole.numpy().tobytes()
        shape = () if whole is None else (tuple(whole.shape), str(whole.dtype))
        made.update(repr((name, shape, len(numbers))).encode() + numbers)
    return made.hexdigest()


@contextmanager
def going_on(
    layers: LayersOnDisk, kept: UnfinishedReading, calls: list[AttentionCall]
) -> Iterator[None]:
    """Let the model's next run skip the kept layers, and keep the others.

    Parameters
    ----------
    calls : list of AttentionCall
        The recorded calls of the run, to which the calls of skipped layers are added.
    """
    found = kept.read(len(layers.layers))
    kept.remove_others()
    is_kept = True

    def answer(at: int) -> Any:
        def forward(*given: Any, **named: Any) -> Tensor:
            calls.extend(found[at].calls)
            return found[at].result

        return forward

    def keep(at: int) -> Any:
        def kept_after(module: object, given: object, result: Any) -> None:
            nonlocal is_kept
            path = f"{layers.stack}.{at}."
            own = [call for call in calls if f"{call.module}.".startswith(path)]
            is_kept = is_kept and kept.keep(at, result, own)

        return kept_after

    plain = [layer.forward for layer in layers.layers]
    hooks = []
    try:
        for at, layer in enumerate(layers.layers):
            if at < len(found):
                layer.forward = answer(at)
            else:
                hooks.append(layer.register_forward_hook(keep(at)))
        yield
    finally:
        for layer, forward in zip(layers.layers, plain, strict=True):
            layer.forward = forward
        for hook in hooks:
            hook.remove()


def _pack_layer(result: Tensor, calls: list[AttentionCall]) -> dict[str, Tensor]:
    """Pack a layer's results as tensors; raises `TypeError` for an unsupported argument."""
    tensors, about = {_RESULT: result}, []
    for number, call in enumerate(calls):
        plain: dict[str, bool | int | float | str] = {}
        named: list[str] = []
        for name, value in call.arguments.items():
            if isinstance(value, torch.Tensor):
                named.append(name)
                tensors[f"{number}.argument.{name}"] = value
            elif isinstance(value, bool | int | float | str):
                plain[name] = value
            else:
                raise TypeError(f"Unsupported type of argument {name}: {type(value).__name__}")
        for name in _TENSORS:
            if (value := getattr(call, name)) is not None:
                tensors[f"{number}.{name}"] = value
        about.append(_CallMetadata(call.module, call.method, call.scaling, plain, named))
    packed = bytearray(msgspec.msgpack.encode(about))
    tensors[_ABOUT] = torch.frombuffer(packed, dtype=torch.uint8)
    return {
        name: each.detach().clone(memory_format=torch.contiguous_format)
        for name, each in tensors.items()
    }


def _unpack_layer(tensors: Mapping[str, Tensor]) -> _LayerResult:
    about = msgspec.msgpack.decode(tensors[_ABOUT].numpy().tobytes(), type=list[_CallMetadata])
    calls = []
    for number, each in enumerate(about):
        own: dict[str, Any] = {
            name: tensors[f"{number}.{name}"] for name in _TENSORS if f"{number}.{name}" in tensors
        }
        given = {name: tensors[f"{number}.argument.{name}"] for name in each.tensor_arguments}
        arguments: dict[str, Any] = {**each.arguments, **given}
        made = AttentionCall(
            each.module, each.method, scaling=each.scaling, arguments=arguments, **own
        )
        calls.append(made)
    return _LayerResult(tensors[_RESULT], calls)
