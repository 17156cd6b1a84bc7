"""Opens a model off the GUI thread, so that the window answers meanwhile.

Modules that load torch are imported where they are used.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from visualizer.attention.spec import Dtype
from visualizer.attention.torch_library_loading import load_torch_library
from visualizer.progress_callback import no_progress
from visualizer.python_thread_for_qt_thread import on_python_thread

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.attention.spec import Device
    from visualizer.models.model_source import ModelSource
    from visualizer.progress_callback import Progress

LIBRARY = "transformers"


def open_model_source(
    path: Path, device: Device, dtype: Dtype = Dtype.FLOAT32, progress: Progress = no_progress
) -> ModelSource:
    """Open a model, which stays open until a text is read.

    Parameters
    ----------
    progress : Progress
        Called with the bytes of weights read and their total.

    Raises
    ------
    InputError
        Of ``model``, when it cannot be opened.
    CancelledError
        As `progress` raises it; nothing of the model is kept.
    """
    return on_python_thread(partial(_open, path, device, dtype, progress))


def _open(path: Path, device: Device, dtype: Dtype, progress: Progress) -> ModelSource:
    from visualizer.models.model_folder import read_model_folder

    read_model_folder(path, has_fingerprint=False)  # what is wrong with it is said at once
    load_torch_library()
    if LIBRARY not in sys.modules:
        _import_library(progress)
    from visualizer.models.text_reading import open_source

    return open_source(path, device, dtype, progress)


def _import_library(progress: Progress) -> None:
    """Import transformers, in parts between which it may be cancelled."""
    with _left_out_of_collections(), suppress(ImportError):  # said where it is used
        for name in ("visualizer.attention.run", LIBRARY):
            progress(0, 0)
            import_module(name)
        library = import_module(LIBRARY)
        for name in ("AutoTokenizer", "PreTrainedModel"):
            progress(0, 0)
            getattr(library, name)


@contextmanager
def _left_out_of_collections() -> Iterator[None]:
    """Have garbage collection never look at what is made meanwhile.

    The objects of large imports are permanent; scanning them would hold up the window, while they
    are made and ever after.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
