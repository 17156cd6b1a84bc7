"""Controller of the input image; image files are read on a worker thread."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.errors import InputError
from visualizer.models.image_file import IMAGE_SUFFIXES, hash_image_file
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets.dialogs import ask_open_path

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from visualizer.models.model_source import ImageFile
    from visualizer.session.workspace import Workspace

IMAGE_FILE_FILTER = f"Images ({' '.join(f'*{suffix}' for suffix in IMAGE_SUFFIXES)});;All files (*)"
"""File filter of the file dialog."""


class ModelImageController(QObject):
    """Controller that sets the input image of the workspace's document."""

    messageReported = Signal(str)
    """Emitted with a message for the status bar."""
    failed = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._set_image)
        self._worker.failed.connect(self._report_failure)

    @property
    def can_choose_image(self) -> bool:
        """Whether the document's model takes an image as input."""
        return self._workspace.document.takes_image

    @property
    def is_working(self) -> bool:
        """Whether an image file is being read."""
        return self._worker.is_working

    def choose_image(self) -> None:
        """Ask the user for an image file."""
        if self.can_choose_image:
            model = self._workspace.document.model
            known = model.image.path if model and model.image else ""
            folder = Path(known).parent if known else Path.home()
            ask_open_path(
                self._window, folder, IMAGE_FILE_FILTER, lambda name: self.use_image(Path(name))
            )

    def use_image(self, path: Path | None) -> None:
        """Use an image file as the model's input; ask for a file if `path` is None."""
        if path is None:
            self.choose_image()
        elif self.can_choose_image:
            self.messageReported.emit("Opening…")
            self._worker.submit(partial(hash_image_file, path))

    def close(self) -> None:
        """Stop the worker."""
        self._worker.abandon()

    def _set_image(self, image: ImageFile) -> None:
        if self.can_choose_image:  # false if another model has been opened in the meantime
            self._workspace.change_setting("image", image)
            self.messageReported.emit(f"Opened {image.path}")

    def _report_failure(self, error: Exception) -> None:
        self.messageReported.emit("")
        if isinstance(error, InputError):
            self._workspace.show_error(error)
        else:
            self.failed.emit(log_unexpected_error(error))
