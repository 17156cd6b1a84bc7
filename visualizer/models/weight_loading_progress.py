"""Reports and cancels the loading of a model's weights by transformers."""

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

    from visualizer.progress import Progress

LOADING = "Loading weights"
"""Description of the progress bar of the loop in which transformers assigns weights."""


class LoadedWeights:
    """Tracks how much of a model's files has been loaded.

    Parameters
    ----------
    progress : Progress
        Called with the loaded and total bytes; an exception that it raises stops the loading.
    numbers, bytes_ : int
        Number of parameters in the files, and their size there.
    """

    def __init__(self, progress: Progress, numbers: int, bytes_: int) -> None:
        self._progress, self._numbers, self._bytes = progress, max(1, numbers), bytes_
        self._read = 0

    def check(self) -> None:
        """Report the progress; raises if the callback cancels."""
        read = min(self._read, self._numbers)
        self._progress(self._bytes * read // self._numbers, self._bytes)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Count the weights that transformers loads on this thread within the context."""
        logging: Any = importlib.import_module("transformers.utils.logging")
        set_hook = getattr(logging, "set_tqdm_hook", None)
        if set_hook is None:  # early versions of transformers 5 report no progress
            yield
            return
        here = threading.get_ident()

        def loop(
            make: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]
        ) -> object:
            if threading.get_ident() == here and named.get("desc") == LOADING:
                return self._iterate_weights(given[0])
            return make(*given, **named)

        before = set_hook(loop)
        try:
            yield
        finally:
            set_hook(before)

    def _iterate_weights(self, weights: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        for name, parts in weights:
            for part in chain(*getattr(parts, "collected_tensors", {}).values()):
                # transformers raises an error again, with an explanation, when it uses the weight.
                if isinstance(part, Future) and part.exception() is None:
                    tensor = part.result()
                    if isinstance(tensor, torch.Tensor) and not is_mapped_part(tensor):
                        self._add_loaded(tensor)
            self.check()
            yield name, parts

    def copy_to(self, model: torch.nn.Module, device: str) -> None:
        """Move a model to a device, and copy weights that are still mapped to their file.

        Weights with the same type as in the file are memory-mapped: if another program rewrote the
        file, they would change, or this program would crash. Weights that stay on disk are meta
        tensors and are skipped.
        """
        with torch.no_grad():
            for tensor in chain(model.parameters(), model.buffers()):
                if tensor.is_meta:  # stays on disk
                    continue
                is_mapped = is_mapped_part(tensor)
                if is_mapped or tensor.device.type != device:
                    tensor.data = tensor.data.to(device, copy=True)
                if is_mapped:
                    self._add_loaded(tensor)
                    self.check()
        if not any(tensor.is_meta for tensor in model.parameters()):
            model.to(device)

    def _add_loaded(self, tensor: torch.Tensor) -> None:
        self._read += tensor.numel()


def is_mapped_part(tensor: torch.Tensor) -> bool:
    """Whether a tensor's memory is not owned by torch, as for memory-mapped files."""
    return tensor.device.type == "cpu" and not tensor.untyped_storage().resizable()
