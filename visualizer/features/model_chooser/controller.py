"""Controller of the model dialog: lists, downloads and opens models on a worker thread."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal
from shiboken6 import isValid

from visualizer.attention.spec import ModelDtype
from visualizer.errors import InputError
from visualizer.features.model_chooser.presenter import (
    DOWNLOADED_MESSAGE,
    ModelActivity,
    ModelChooserState,
    describe_download,
    present_model_chooser,
)
from visualizer.models.cached_models import LocalModelEntry, list_cached_models
from visualizer.models.disk_streaming_estimate import RUN_FROM_DISK_HINT
from visualizer.models.download_plan import DownloadPlan
from visualizer.models.model_folder import model_name
from visualizer.models.model_path import hub_cache_folder
from visualizer.progress import CancelledError
from visualizer.session import model_opening
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets.dialogs import ask_folder_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtWidgets import QWidget

    from visualizer.attention.spec import Device
    from visualizer.features.model_chooser.dialog import ModelChooserDialog
    from visualizer.progress import Progress
    from visualizer.session.model_opening import DeviceChoice, OpenedModelSource
    from visualizer.session.workspace import Workspace

CLEARED_OFFER: Mapping[str, object] = {"problem": "", "on_disk": None, "estimate": ""}
"""Changes to the state that clear the error message and the offer to stream the model from disk."""
PROGRESS_INTERVAL_S = 0.05
"""Minimum interval between progress updates, in seconds."""


class _ModelListing(Struct, frozen=True):
    models: tuple[LocalModelEntry, ...]
    device_choices: Mapping[tuple[Device, ModelDtype], DeviceChoice]
    has_library: bool


class _OpenedModel(Struct, frozen=True):
    opened: OpenedModelSource
    device: Device
    dtype: ModelDtype
    text: str


class _DiskStreamingOffer(Struct, frozen=True):
    """A model that is larger than memory but can be streamed from disk."""

    path: Path
    problem: str
    estimate: str


_Answer = _ModelListing | _OpenedModel | _DiskStreamingOffer | DownloadPlan | Path | None
"""Result of a request: a path is the folder of a downloaded model; None means cancelled."""


class ModelChooserController(QObject):
    """Controller that opens the model dialog and runs the chosen actions, one at a time."""

    opened = Signal(object, object, object, str)
    """Emitted with the `OpenedModelSource` of a model, the chosen device and data type, and the
    text for which the model was opened."""
    failed = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self.dialog: ModelChooserDialog | None = None
        self._state = ModelChooserState(hub_cache_folder())
        self._offer: DownloadPlan | None = None
        """Result of the last repository lookup; cleared when the name is edited."""
        self._cancel_event = threading.Event()
        self._next_folder: Path | None = None
        """The folder to open as soon as the current action has been cancelled."""
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_answer)
        self._worker.failed.connect(self._handle_failure)
        self._worker.reported.connect(self._show_progress)

    @property
    def is_working(self) -> bool:
        """Whether a model is being opened or downloaded."""
        return self._state.activity is not ModelActivity.NONE

    # ------------------------------------------------------------------ user intents

    def open_dialog(self) -> None:
        """Open the dialog and list the models in the local cache."""
        if self.dialog is None:
            self._make_dialog()
            self._worker.submit(partial(_list_models, self._state.cache))
        self._raise_dialog()

    def open_folder(self, path: Path) -> None:
        """Open the model in a folder and show the progress in the dialog.

        An action in progress is cancelled first.
        """
        if self.dialog is None:
            self._make_dialog()
        self._raise_dialog()
        if self.is_working:
            self.cancel()
            self._next_folder = path
        else:
            self._start_opening(path)

    def cancel(self) -> None:
        """Cancel the current action; files downloaded so far are kept."""
        self._next_folder = None
        if self.is_working:
            self._cancel_event.set()
            self._update_state(is_cancelling=True)

    def close(self) -> None:
        """Cancel the current action and close the dialog."""
        self._next_folder = None
        self._cancel_event.set()
        self._worker.abandon()
        if self.dialog:
            self.dialog.close()

    # ------------------------------------------------------------------ dialog

    def _make_dialog(self) -> None:
        spec = self._workspace.document.spec
        self._offer = None
        self._state = ModelChooserState(
            hub_cache_folder(), device=spec.device, dtype=ModelDtype.for_document(spec.dtype)
        )
        from visualizer.features.model_chooser.dialog import (
            ModelChooserDialog,  # imported when first opened
        )

        self.dialog = dialog = ModelChooserDialog(self._window, self._state.cache)
        dialog.destroyed.connect(self._forget_dialog)
        dialog.selected.connect(partial(self._set_field, "selected"))
        dialog.openRequested.connect(self._open_selected_model)
        dialog.streamRequested.connect(self._stream_from_disk)
        dialog.folderRequested.connect(self._choose_folder)
        dialog.deviceChosen.connect(partial(self._set_field, "device"))
        dialog.dtypeChosen.connect(partial(self._set_field, "dtype"))
        dialog.repositoryTyped.connect(self._set_repository)
        dialog.downloadRequested.connect(self._look_up_or_download)
        dialog.cancelRequested.connect(self.cancel)

    def _raise_dialog(self) -> None:
        assert self.dialog
        self._update_dialog()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _set_field(self, name: str, value: object) -> None:
        self._update_state(**{name: value}, **CLEARED_OFFER)

    def _update_state(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)
        self._update_dialog()

    def _update_dialog(self) -> None:
        # Child widgets are deleted before the dialog.
        if self.dialog and isValid(self.dialog.open_button):
            self.dialog.show_panel(present_model_chooser(self._state))

    def _set_repository(self, text: str) -> None:
        self._offer = None
        self._update_state(repository=text, offer="", offered_bytes=0)

    def _choose_folder(self) -> None:
        ask_folder_path(
            self.dialog or self._window,
            "Choose a model folder",
            Path.home(),
            lambda name: self._start_opening(Path(name)),
        )

    # ------------------------------------------------------------------ actions

    def _open_selected_model(self) -> None:
        panel = present_model_chooser(self._state)
        if panel.can_open and self._state.selected:
            self._start_opening(self._state.selected)

    def _stream_from_disk(self) -> None:
        if path := self._state.on_disk:
            self._start_opening(path, is_from_disk=True)

    def _start_opening(self, path: Path, *, is_from_disk: bool = False) -> None:
        device, dtype = self._state.device, self._state.dtype
        text = self._workspace.document.text
        request = partial(_open_model, path, device, dtype, text, is_from_disk=is_from_disk)
        self._start_action(ModelActivity.OPENING, model_name(path), request)

    def _look_up_or_download(self) -> None:
        """Look up the repository, or download it if it has already been looked up."""
        name, offer = self._state.repository.strip(), self._offer
        if offer is None:
            request = partial(_look_up_repository, name, self._state.cache)
            self._start_action(ModelActivity.LOOKING_UP, name, request)
        else:
            self._start_action(ModelActivity.DOWNLOADING, name, partial(_download_model, offer))

    def _start_action(
        self, activity: ModelActivity, subject: str, request: Callable[[Progress], object]
    ) -> None:
        if self.is_working:
            return
        self._cancel_event = threading.Event()
        self._update_state(
            activity=activity, subject=subject, done=0, total=0, is_cancelling=False,
            **CLEARED_OFFER,
        )  # fmt: skip
        progress = _create_throttled_progress(self._cancel_event, self._worker.report)
        self._worker.submit(partial(_run_until_cancelled, request, progress))

    def _show_progress(self, done_and_total: tuple[int, int]) -> None:
        if self.is_working:
            done, total = done_and_total
            self._update_state(done=done, total=total)

    # ------------------------------------------------------------------ results

    def _handle_answer(self, answer: _Answer) -> None:
        if isinstance(answer, _ModelListing):
            self._show_listing(answer)
            return
        was_cancelled = self._cancel_event.is_set()
        self._update_state(activity=ModelActivity.NONE, is_cancelling=False)
        if isinstance(answer, _OpenedModel):
            if not was_cancelled:  # it may be cancelled just before it finishes
                self._finish_opening(answer)
        elif isinstance(answer, _DiskStreamingOffer):
            self._update_state(
                problem=answer.problem, on_disk=answer.path, estimate=answer.estimate
            )
        elif isinstance(answer, Path):
            self._offer = None
            self._update_state(
                models=None,
                selected=answer,
                repository="",
                offer=DOWNLOADED_MESSAGE,
                offered_bytes=0,
            )
        elif answer and not was_cancelled:
            self._offer = answer
            self._update_state(offer=describe_download(answer), offered_bytes=answer.missing)
        self._open_folder_or_list_models()

    def _finish_opening(self, answer: _OpenedModel) -> None:
        if self.dialog:
            self.dialog.accept()
            self._window.activateWindow()  # some platforms do not activate it automatically
        dtype = answer.dtype.document_dtype
        self.opened.emit(answer.opened, answer.device, dtype, answer.text)

    def _show_listing(self, listing: _ModelListing) -> None:
        openable = [model.path for model in listing.models if not model.unavailable_reason]
        selected = self._state.selected or next(iter(openable), None)
        self._update_state(
            models=listing.models,
            device_choices=listing.device_choices,
            has_library=listing.has_library,
            selected=selected,
        )

    def _open_folder_or_list_models(self) -> None:
        """Open the pending folder, or list the models if the dialog has not listed them yet."""
        if path := self._next_folder:
            self._next_folder = None
            self._start_opening(path)
        elif self.dialog and self.dialog.isVisible() and self._state.models is None:
            self._worker.submit(partial(_list_models, self._state.cache))

    def _handle_failure(self, error: Exception) -> None:
        problem = error.sentence if isinstance(error, InputError) else ""
        was_listing = not self.is_working  # a new attempt would fail again
        self._update_state(activity=ModelActivity.NONE, is_cancelling=False, problem=problem)
        if was_listing:
            self._update_state(models=())
        else:
            self._open_folder_or_list_models()
        if not problem:
            self.failed.emit(log_unexpected_error(error))


# The functions below run on the worker thread.


def _create_throttled_progress(
    cancel_event: threading.Event, report: Callable[[tuple[int, int]], object]
) -> Progress:
    due = 0.0

    def report_progress(done: int, total: int) -> None:
        nonlocal due
        if cancel_event.is_set():
            raise CancelledError
        now = time.monotonic()
        if now >= due:
            due = now + PROGRESS_INTERVAL_S
            report((done, total))

    return report_progress


def _list_models(cache: Path) -> _ModelListing:
    models = list_cached_models(cache)
    if models:
        model_opening.start_importing_model_library()
    return _ModelListing(models, model_opening.device_choices(), model_opening.can_open_models())


def _run_until_cancelled(request: Callable[[Progress], object], progress: Progress) -> object:
    """Return the result of a request, or None if it was cancelled.

    An exception would keep the loaded weights alive through its traceback.
    """
    try:
        return request(progress)
    except CancelledError:
        return None


def _open_model(
    path: Path,
    device: Device,
    dtype: ModelDtype,
    text: str,
    progress: Progress,
    *,
    is_from_disk: bool,
) -> _OpenedModel | _DiskStreamingOffer:
    model_opening.check_device(device, dtype)
    try:
        opened = model_opening.open_model_source(
            path, device, dtype, text, progress, is_from_disk=is_from_disk
        )
    except InputError as refused:
        estimate = None
        if not is_from_disk:
            with suppress(InputError):
                estimate = model_opening.estimate_disk_streaming(path, device, dtype)
        if estimate is None:
            raise
        problem = refused.sentence.removesuffix(RUN_FROM_DISK_HINT).strip()  # a button replaces it
        return _DiskStreamingOffer(path, problem, estimate.description)
    return _OpenedModel(opened, device, dtype, text)


def _look_up_repository(name: str, cache: Path, progress: Progress) -> DownloadPlan:
    from visualizer.models.hub_download import plan_download

    return plan_download(name, cache, progress=progress)


def _download_model(offer: DownloadPlan, progress: Progress) -> Path:
    from visualizer.models.hub_download import download_model

    return download_model(offer, progress)
