"""Gives a vision model the image of a file, which is read off the GUI thread."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.errors import InputError
from visualizer.models.image_names import SUFFIXES
from visualizer.session.newest_request_worker import Worker
from visualizer.widgets.dialogs import ask_open_path

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.models.model_source import ImageFile
    from visualizer.session.workspace import Workspace

KINDS = f"Images ({' '.join(f'*{suffix}' for suffix in SUFFIXES)});;All files (*)"
"""The file filter of the dialog."""


class ModelImageController(QObject):
    """Chooses the image of a workspace's document."""

    said = Signal(str)
    """A status message."""
    broke = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    @property
    def can_choose(self) -> bool:
        """Whether the document's model reads images."""
        return self._workspace.document.reads_image

    @property
    def is_working(self) -> bool:
        """Whether a file is being read."""
        return self._worker.is_working

    def choose(self) -> None:
        """Ask for the file of an image."""
        if self.can_choose:
            model = self._workspace.document.model
            known = model.image.path if model and model.image else ""
            folder = Path(known).parent if known else Path.home()
            ask_open_path(self._window, folder, KINDS, self._take_named)

    def _take_named(self, name: str) -> None:
        self.take(Path(name))

    def take(self, path: Path | None) -> None:
        """Have the model read the image of a file; without one, ask for it."""
        if path is None:
            self.choose()
        elif self.can_choose:
            self.said.emit("Opening…")
            self._worker.ask(partial(_image_at, path))

    def close(self) -> None:
        """Open nothing any more."""
        self._worker.leave()

    def _take(self, image: ImageFile) -> None:
        if self.can_choose:  # else another model has been opened meanwhile
            self._workspace.set_image(image)
            self.said.emit(f"Opened {image.path}")

    def _fail(self, error: Exception) -> None:
        self.said.emit("")
        if isinstance(error, InputError):
            self._workspace.refuse(error)
        else:
            self.broke.emit("".join(traceback.format_exception(error)))


def _image_at(path: Path) -> ImageFile:
    """Return an image file; called on the worker."""
    from visualizer.models.image_file import image_file_at  # not at start-up

    return image_file_at(path)
