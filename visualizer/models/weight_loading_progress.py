"""Progress of a model's weights while transformers reads them, which may also cancel it."""

from __future__ import annotations

import importlib
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from visualizer.progress_callback import Progress

LOADING = "Loading weights"
"""What transformers calls the loop that gives a model its weights."""


class LoadedWeights:
    """Counts the bytes of a model's files whose numbers are in memory.

    Parameters
    ----------
    progress : Progress
        Called with the bytes read and their total; what it raises stops the loading.
    numbers, bytes_ : int
        The numbers in the files, and the bytes that they take there.
    """

    def __init__(self, progress: Progress, numbers: int, bytes_: int) -> None:
        self._progress, self._numbers, self._bytes = progress, max(1, numbers), bytes_
        self._read = 0

    def check(self) -> None:
        """Report how far it is, and stop if that is asked for."""
        read = min(self._read, self._numbers)
        self._progress(self._bytes * read // self._numbers, self._bytes)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Count the weights that transformers reads on this thread meanwhile."""
        logging: Any = importlib.import_module("transformers.utils.logging")
        set_hook = getattr(logging, "set_tqdm_hook", None)
        if set_hook is None:  # the oldest of transformers 5: the weights come at once
            yield
            return
        here = threading.get_ident()

        def loop(
            make: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
        ) -> object:
            if threading.get_ident() == here and named.get("desc") == LOADING:
                return self._each(given[0])
            return make(*given, **named)

        before = set_hook(loop)
        try:
            yield
        finally:
            set_hook(before)

    def _each(self, weights: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for name, parts in weights:
            for part in chain(*getattr(parts, "collected_tensors", {}).values()):
                # An error is raised again, and explained, where the weight is used.
                if isinstance(part, Future) and part.exception() is None:
                    tensor = part.result()
                    if isinstance(tensor, torch.Tensor) and not is_mapped_part(tensor):
                        self._count(tensor)
            self.check()
            yield name, parts

    def copy_to(self, model: torch.nn.Module, device: str) -> None:
        """Move a model to a device, and copy weights that still are parts of their file.

        Those that stay on the disk have no numbers, and are left where they are.

        Weights of the same type as in the file are mapped, not read: a program that wrote the
        file anew would change them, or end this one.
        """
        with torch.no_grad():
            for tensor in chain(model.parameters(), model.buffers()):
                if tensor.is_meta:  # it stays on the disk
                    continue
                is_mapped = is_mapped_part(tensor)
                if is_mapped or tensor.device.type != device:
                    tensor.data = tensor.data.to(device, copy=True)
                if is_mapped:
                    self._count(tensor)
                    self.check()
        if not any(tensor.is_meta for tensor in model.parameters()):
            model.to(device)

    def _count(self, tensor: torch.Tensor) -> None:
        self._read += tensor.numel()


def is_mapped_part(tensor: torch.Tensor) -> bool:
    """Whether the numbers lie in memory that is not torch's own."""
    return tensor.device.type == "cpu" and not tensor.untyped_storage().resizable()
