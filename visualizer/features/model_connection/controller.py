"""Controller of the connection dialog; connects to a model server on a worker thread."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal
from shiboken6 import isValid

from visualizer.errors import InputError
from visualizer.features.model_connection.presenter import (
    ModelConnectionState,
    connection_problem,
    present_model_connection,
)
from visualizer.progress import CancelledError, abandon_wait_when
from visualizer.session import model_opening
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.features.model_connection.dialog import ModelConnectionDialog
    from visualizer.session.model_opening import OpenedModelSource, ServerConnectionSettings
    from visualizer.session.workspace import Workspace


TOKEN_LOOKUP_DELAY_MS = 300
"""Delay after the last key press before the server's token is looked up. A locked keyring prompts
the user at each lookup."""


class _ConnectionResult(Struct, frozen=True):
    opened: OpenedModelSource
    text: str


class _CancelledConnection(Struct, frozen=True):
    """The connection attempt was cancelled."""


class _StoredAccessToken(Struct, frozen=True):
    """The token stored in the system keyring for a server; empty if there is none."""

    address: str
    token: str
    has_store: bool


class ModelConnectionController(QObject):
    """Controller that opens the connection dialog and connects to the chosen server."""

    opened = Signal(object, object, object, str)
    """Emitted with the `OpenedModelSource`, and the document's device, data type and text."""
    failed = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self.dialog: ModelConnectionDialog | None = None
        self._state = ModelConnectionState()
        self._filled_in = ""
        """Token that was filled in from the keyring; empty if the user entered the token."""
        self._cancel_event = threading.Event()
        self._lookup_timer = QTimer(self, singleShot=True, interval=TOKEN_LOOKUP_DELAY_MS)
        self._lookup_timer.timeout.connect(self._look_up_token)
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_answer)
        self._worker.failed.connect(self._handle_failure)

    @property
    def is_working(self) -> bool:
        """Whether a connection is being made."""
        return self._state.is_working

    def open_dialog(self) -> None:
        """Open the dialog with the values that were last entered."""
        if self.dialog is None:
            from visualizer.features.model_connection.dialog import (
                ModelConnectionDialog,  # imported when first opened
            )

            self._state = replace(self._state, problem="", problem_field="")
            self.dialog = dialog = ModelConnectionDialog(self._window)
            dialog.destroyed.connect(self._forget_dialog)
            dialog.changed.connect(self._set_field)
            dialog.connectRequested.connect(self._start_connecting)
            dialog.cancelRequested.connect(self.cancel)
            self._look_up_token()
        self._update_dialog()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def cancel(self) -> None:
        """Cancel the connection attempt."""
        if self.is_working:
            self._cancel_event.set()
            self._update_state(is_cancelling=True)

    def close(self) -> None:
        """Cancel the connection attempt and close the dialog."""
        self._cancel_event.set()
        self._lookup_timer.stop()
        self._worker.abandon()
        if self.dialog:
            self.dialog.close()

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _set_field(self, name: str, value: object) -> None:
        changes: dict[str, object] = {name: value}
        if name in {"host", "port"}:
            if self._filled_in and self._state.token == self._filled_in:
                changes |= {"token": "", "is_kept": False}  # the token belongs to another server
            self._filled_in = ""
            self._lookup_timer.start()
        if name in {"host", "port", "token", "ssh"}:
            changes |= {"problem": "", "problem_field": ""}
        self._update_state(**changes)

    def _update_state(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)
        self._update_dialog()

    def _look_up_token(self) -> None:
        """Look up the token of the chosen server unless a connection is being made."""
        if not self.is_working:
            is_superseded = partial(getattr, self._worker, "has_newer_request")
            self._worker.submit(partial(_find_stored_token, self._state.address, is_superseded))

    def _update_dialog(self) -> None:
        # Child widgets are deleted before the dialog.
        if self.dialog and isValid(self.dialog.connect_button):
            self.dialog.show_panel(present_model_connection(self._state))

    def _start_connecting(self) -> None:
        if self.is_working:
            return
        state = self._state
        if problem := connection_problem(state):
            self._update_state(problem=problem.sentence, problem_field=problem.field)
            return
        self._cancel_event = threading.Event()  # a cancelled attempt may still be running
        self._update_state(is_working=True, is_cancelling=False, problem="", problem_field="")
        request = partial(
            _connect_to_server,
            state.server_choice,
            self._workspace.document.text,
            self._cancel_event,
        )
        self._worker.submit(request)

    def _handle_answer(
        self, answer: _ConnectionResult | _CancelledConnection | _StoredAccessToken | None
    ) -> None:
        if answer is None:
            return
        if isinstance(answer, _StoredAccessToken):
            self._fill_in_token(answer)
            return
        self._update_state(is_working=False, is_cancelling=False)
        if isinstance(answer, _ConnectionResult) and not self._cancel_event.is_set():
            if self.dialog:
                self.dialog.accept()
                self._window.activateWindow()  # some platforms do not activate it automatically
            spec = self._workspace.document.spec
            self.opened.emit(answer.opened, spec.device, spec.dtype, answer.text)

    def _fill_in_token(self, stored: _StoredAccessToken) -> None:
        state = self._state
        changes: dict[str, object] = {"has_store": stored.has_store}
        is_asked = stored.address == state.address
        if is_asked and stored.token and not state.token:
            self._filled_in = stored.token
            changes |= {"token": stored.token, "is_kept": True}
        self._update_state(**changes)

    def _handle_failure(self, error: Exception) -> None:
        refused = error if isinstance(error, InputError) else None
        self._update_state(
            is_working=False,
            is_cancelling=False,
            problem=refused.sentence if refused else "",
            problem_field=refused.field if refused else "",
        )
        if refused is None:
            self.failed.emit(log_unexpected_error(error))


# The functions below run on the worker thread.


def _find_stored_token(
    address: str, is_superseded: Callable[[], bool]
) -> _StoredAccessToken | None:
    """Return the stored token of a server, or None if a newer request has arrived."""
    has_store = model_opening.has_token_store()
    try:
        with abandon_wait_when(is_superseded):
            token = model_opening.stored_server_token(address) if has_store else ""
    except CancelledError:
        return None
    return _StoredAccessToken(address, token, has_store)


def _connect_to_server(
    server: ServerConnectionSettings, text: str, cancel_event: threading.Event
) -> _ConnectionResult | _CancelledConnection:
    def check(done: int, of: int) -> None:
        if cancel_event.is_set():
            raise CancelledError

    try:
        with abandon_wait_when(cancel_event.is_set):  # a server may never answer
            return _ConnectionResult(model_opening.connect_to_model(server, text, check), text)
    except CancelledError:
        return _CancelledConnection()
