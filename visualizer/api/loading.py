"""Opens files and the folders of training runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import validate_path
from visualizer.api.attention_api import Attention, issue_warnings
from visualizer.api.recording import open_recording
from visualizer.api.trained_model import trained_model
from visualizer.file_opening import open_as_document, restore_document
from visualizer.language.recording import is_recording
from visualizer.language.run_folder import RunFolder
from visualizer.session.document import Document
from visualizer.session.worker_jobs import run_document

if TYPE_CHECKING:
    from pathlib import Path


def load(path: str | Path) -> Any:
    """Open a file or the folder of a training run.

    Notices about the file are issued as warnings.

    Parameters
    ----------
    path : str or path
        A document; an exported image, web page, ``.npz`` or ``.json`` file with an embedded
        document; attention from other programs or weights of the book's modules, in ``.npy``,
        ``.npz``, ``.safetensors`` or ``.pt`` files; a ``.txt`` text; the folder of a language
        model's training run, such as ``runs/poems``; or the folder of a run that was recorded with
        `record`.

    Returns
    -------
    Attention, TrainedModel or Recording
        For a file, its attention, which is computed unless the file contains the values. For the
        folder of a training run, the language model; see `TrainedModel` for how to load it with
        plain torch. For the folder of a recorded run, its attention at each recorded step.

    Raises
    ------
    InputError
        If the file or folder cannot be opened, or its content cannot be computed.

    Examples
    --------
    >>> attention.save("cat.attention")
    >>> visualizer.load("cat.attention").tokens
    ('The', 'cat', 'sat', 'on', 'the', 'mat')
    """
    location = validate_path("path", path)
    if _is_folder(location):
        folder = RunFolder(location)
        return open_recording(folder) if is_recording(folder) else trained_model(location)
    saved, notice = open_as_document(location, Document())
    run, view = restore_document(saved, run_document)
    return issue_warnings(Attention(saved.document, view, run), notice)


def _is_folder(path: Path) -> bool:
    with suppress(OSError):  # the error is reported when the file is opened
        return path.is_dir()
    return False
