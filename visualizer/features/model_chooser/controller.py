"""Lists, downloads and opens models off the GUI thread, and shows in a dialog how far that is."""

from __future__ import annotations

import threading
import time
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal
from shiboken6 import isValid

from visualizer.errors import InputError
from visualizer.features.model_chooser.presenter import (
    DOWNLOADED,
    ModelActivity,
    ModelChooserState,
    offer_in_words,
    present_model_chooser,
)
from visualizer.models.disk_reading_estimate import INSTEAD
from visualizer.models.local_models import ListedModel, list_models
from visualizer.models.model_folder import name_of
from visualizer.models.model_path import hub_cache
from visualizer.models.repository_offer import RepositoryOffer
from visualizer.progress_callback import CancelledError
from visualizer.session import model_opening
from visualizer.session.newest_request_worker import Worker
from visualizer.widgets.dialogs import ask_for_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from PySide6.QtWidgets import QWidget

    from visualizer.attention.spec import Device, Dtype
    from visualizer.features.model_chooser.dialog import ModelChooserDialog
    from visualizer.progress_callback import Progress
    from visualizer.session.model_opening import ModelPlace, OpenedSource
    from visualizer.session.workspace import Workspace

OFFER_RESET: Mapping[str, object] = {"problem": "", "on_disk": None, "estimate": ""}
"""Changes that take back why a model was refused, and the offer to read it from the disk."""
SHOWN_S = 0.05
"""Least interval between progress updates in seconds."""


class _Listing(Struct, frozen=True):
    models: tuple[ListedModel, ...]
    places: Mapping[tuple[Device, Dtype], ModelPlace]
    has_library: bool


class _Opened(Struct, frozen=True):
    opened: OpenedSource
    device: Device
    dtype: Dtype
    text: str


class _Larger(Struct, frozen=True):
    """A model is larger than the memory, and can be read from the disk."""

    path: Path
    problem: str
    estimate: str


class _Downloaded(Struct, frozen=True):
    path: Path


class _Cancelled(Struct, frozen=True):
    """What was asked for was cancelled: nothing of it is kept."""


_Answer = _Listing | _Opened | _Larger | _Downloaded | _Cancelled | RepositoryOffer


class ModelChooserController(QObject):
    """Opens the dialog of models, and does what is chosen there; one thing at a time."""

    opened = Signal(object, object, object, str)
    """The `OpenedSource` of a model, the device and type chosen for it, and the text that it was
    opened to read."""
    broke = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self.dialog: ModelChooserDialog | None = None
        self._state = ModelChooserState(hub_cache())
        self._offer: RepositoryOffer | None = None
        """What was asked of the hub, until another name is typed."""
        self._is_called_off = threading.Event()
        self._next_folder: Path | None = None
        """The folder to open as soon as what is being done has been cancelled."""
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)
        self._worker.reported.connect(self._show_progress)

    @property
    def is_working(self) -> bool:
        """Whether a model is being opened or downloaded."""
        return self._state.activity is not ModelActivity.NONE

    # ------------------------------------------------------------------ user intents

    def open(self) -> None:
        """Open the dialog, and list the models of the local cache."""
        if self.dialog is None:
            self._make_dialog()
            self._worker.ask(partial(_listing, self._state.cache))
        self._raise()

    def open_folder(self, path: Path) -> None:
        """Open the model of a folder, and show in the dialog how far that is.

        It comes in place of what is being done.
        """
        if self.dialog is None:
            self._make_dialog()
        self._raise()
        if self.is_working:
            self.cancel()
            self._next_folder = path
        else:
            self._open(path)

    def cancel(self) -> None:
        """Stop what is being done; nothing of it is kept but what was downloaded so far."""
        self._next_folder = None
        if self.is_working:
            self._is_called_off.set()
            self._change(is_cancelling=True)

    def close(self) -> None:
        """Stop what is being done."""
        self._next_folder = None
        self._is_called_off.set()
        self._worker.leave()
        if self.dialog:
            self.dialog.close()

    # ------------------------------------------------------------------ the dialog

    def _make_dialog(self) -> None:
        spec = self._workspace.document.spec
        self._offer = None
        self._state = ModelChooserState(hub_cache(), device=spec.device, dtype=spec.dtype)
        from visualizer.features.model_chooser.dialog import (
            ModelChooserDialog,  # with its first use
        )

        self.dialog = dialog = ModelChooserDialog(self._window, self._state.cache)
        dialog.destroyed.connect(self._forget)
        dialog.selected.connect(partial(self._set, "selected"))
        dialog.openWanted.connect(self._open_selected)
        dialog.diskWanted.connect(self._open_from_disk)
        dialog.folderWanted.connect(self._choose_folder)
        dialog.deviceChosen.connect(partial(self._set, "device"))
        dialog.dtypeChosen.connect(partial(self._set, "dtype"))
        dialog.repositoryTyped.connect(self._type_repository)
        dialog.downloadWanted.connect(self._download)
        dialog.cancelWanted.connect(self.cancel)

    def _raise(self) -> None:
        assert self.dialog
        self._show()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def _forget(self) -> None:
        self.dialog = None

    def _set(self, name: str, value: object) -> None:
        self._change(**{name: value}, **OFFER_RESET)

    def _change(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)
        self._show()

    def _show(self) -> None:
        if self.dialog and isValid(self.dialog.open_button):  # parts are deleted before it
            self.dialog.show_panel(present_model_chooser(self._state))

    def _type_repository(self, text: str) -> None:
        self._offer = None
        self._change(repository=text, offer="", offered=0)

    def _choose_folder(self) -> None:
        ask_for_folder(
            self.dialog or self._window, "Open the folder of a model", Path.home(), self._open_named
        )

    def _open_named(self, name: str) -> None:
        self._open(Path(name))

    # ------------------------------------------------------------------ what is done

    def _open_selected(self) -> None:
        panel = present_model_chooser(self._state)
        if panel.can_open and self._state.selected:
            self._open(self._state.selected)

    def _open_from_disk(self) -> None:
        if path := self._state.on_disk:
            self._open(path, is_from_disk=True)

    def _open(self, path: Path, *, is_from_disk: bool = False) -> None:
        device, dtype = self._state.device, self._state.dtype
        text = self._workspace.document.text
        opening = _opened_from_disk if is_from_disk else _opened
        request = partial(opening, path, device, dtype, text)
        self._begin(ModelActivity.OPENING, name_of(path), request)

    def _download(self) -> None:
        """Ask the hub for a repository, and at the second time download it."""
        name, offer = self._state.repository.strip(), self._offer
        if offer is None:
            request = partial(_looked_up, name, self._state.cache)
            self._begin(ModelActivity.LOOKING_UP, name, request)
        else:
            self._begin(ModelActivity.DOWNLOADING, name, partial(_downloaded, offer))

    def _begin(
        self, activity: ModelActivity, subject: str, request: Callable[[Progress], object]
    ) -> None:
        if self.is_working:
            return
        self._is_called_off = threading.Event()
        self._change(
            activity=activity, subject=subject, done=0, of=0, is_cancelling=False,
            **OFFER_RESET,
        )  # fmt: skip
        self._worker.ask(partial(request, _teller(self._is_called_off, self._worker.report)))

    def _show_progress(self, told: tuple[int, int]) -> None:
        if self.is_working:
            done, of = told
            self._change(done=done, of=of)

    # ------------------------------------------------------------------ how it went

    def _take(
        self, answer: _Listing | _Opened | _Larger | RepositoryOffer | _Downloaded | _Cancelled
    ) -> None:
        if isinstance(answer, _Listing):
            self._take_listing(answer)
            return
        was_called_off = self._is_called_off.is_set()
        self._change(activity=ModelActivity.NONE, is_cancelling=False)
        if isinstance(answer, _Opened):
            if not was_called_off:  # just before it was open
                self._hand_over(answer)
        elif isinstance(answer, _Larger):
            self._change(problem=answer.problem, on_disk=answer.path, estimate=answer.estimate)
        elif isinstance(answer, _Downloaded):
            self._offer = None
            self._change(
                models=None, selected=answer.path, repository="", offer=DOWNLOADED, offered=0
            )
        elif not isinstance(answer, _Cancelled) and not was_called_off:
            self._offer = answer
            self._change(offer=offer_in_words(answer), offered=answer.missing)
        self._go_on()

    def _hand_over(self, answer: _Opened) -> None:
        if self.dialog:
            self.dialog.accept()
            self._window.activateWindow()  # not every platform does so itself
        self.opened.emit(answer.opened, answer.device, answer.dtype, answer.text)

    def _take_listing(self, found: _Listing) -> None:
        openable = [model.path for model in found.models if not model.why_not]
        selected = self._state.selected or next(iter(openable), None)
        self._change(
            models=found.models,
            places=found.places,
            has_library=found.has_library,
            selected=selected,
        )

    def _go_on(self) -> None:
        """Open the folder that waits, or list the models after the dialog was opened with one."""
        if path := self._next_folder:
            self._next_folder = None
            self._open(path)
        elif self.dialog and self.dialog.isVisible() and self._state.models is None:
            self._worker.ask(partial(_listing, self._state.cache))

    def _fail(self, error: Exception) -> None:
        problem = error.sentence if isinstance(error, InputError) else ""
        was_listing = not self.is_working  # which would fail again
        self._change(activity=ModelActivity.NONE, is_cancelling=False, problem=problem)
        if was_listing:
            self._change(models=())
        else:
            self._go_on()
        if not problem:
            self.broke.emit("".join(traceback.format_exception(error)))


# What follows runs on the worker.


def _teller(
    is_called_off: threading.Event, report: Callable[[tuple[int, int]], object]
) -> Progress:
    due = 0.0

    def tell(done: int, of: int) -> None:
        nonlocal due
        if is_called_off.is_set():
            raise CancelledError
        now = time.monotonic()
        if now >= due:
            due = now + SHOWN_S
            report((done, of))

    return tell


def _listing(cache: Path) -> _Listing:
    models = list_models(cache)
    if models:
        model_opening.prepare_to_open()
    return _Listing(models, model_opening.model_places(), model_opening.has_library())


def _opened(
    path: Path, device: Device, dtype: Dtype, text: str, progress: Progress
) -> _Opened | _Larger | _Cancelled:
    model_opening.check_device(device, dtype)
    try:
        opened = model_opening.open_model_source(path, device, dtype, text, progress)
    except CancelledError:  # as a value: the error holds what was loaded
        return _Cancelled()
    except InputError as refused:
        estimate = None
        with suppress(InputError):
            estimate = model_opening.estimate_from_disk(path, device, dtype)
        if estimate is None:
            raise
        problem = refused.sentence.removesuffix(INSTEAD).strip()  # which the button says
        return _Larger(path, problem, estimate.in_words)
    return _Opened(opened, device, dtype, text)


def _opened_from_disk(
    path: Path, device: Device, dtype: Dtype, text: str, progress: Progress
) -> _Opened | _Cancelled:
    model_opening.check_device(device, dtype)
    try:
        opened = model_opening.open_model_source(
            path, device, dtype, text, progress, is_from_disk=True
        )
    except CancelledError:  # as above
        return _Cancelled()
    return _Opened(opened, device, dtype, text)


def _looked_up(name: str, cache: Path, progress: Progress) -> RepositoryOffer | _Cancelled:
    from visualizer.models.hub_download import look_up

    try:
        return look_up(name, cache, progress=progress)
    except CancelledError:
        return _Cancelled()


def _downloaded(offer: RepositoryOffer, progress: Progress) -> _Downloaded | _Cancelled:
    from visualizer.models.hub_download import download

    try:
        return _Downloaded(download(offer, progress))
    except CancelledError:
        return _Cancelled()
