"""Connects to a model on a server off the GUI thread, and shows in a dialog how far that is."""

from __future__ import annotations

import threading
import traceback
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QObject, QTimer, Signal
from shiboken6 import isValid

from visualizer.errors import InputError
from visualizer.features.model_connection.presenter import (
    ConnectionState,
    connection_problem,
    present_connection,
)
from visualizer.progress_callback import CancelledError, left_when
from visualizer.session import model_opening
from visualizer.session.newest_request_worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.features.model_connection.dialog import ModelConnectionDialog
    from visualizer.session.model_opening import OpenedSource, ServerChoice
    from visualizer.session.workspace import Workspace


LOOK_UP_MS = 300
"""After so long without a key the token of the server that was typed is looked up: a store that is
locked asks its user each time."""


class _Connected(Struct, frozen=True):
    opened: OpenedSource
    text: str


class _GivenUp(Struct, frozen=True):
    """It was cancelled."""


class _FoundToken(Struct, frozen=True):
    """What the system keeps for a server."""

    host: str
    port: int
    token: str
    has_store: bool


class ModelConnectionController(QObject):
    """Opens the dialog of servers, and connects to the one that is named there."""

    opened = Signal(object, object, object, str)
    """The `OpenedSource` of a model, the document's device and type, and the text to be read."""
    broke = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget) -> None:
        super().__init__(window)
        self._workspace, self._window = workspace, window
        self.dialog: ModelConnectionDialog | None = None
        self._state = ConnectionState()
        self._filled_in = ""
        """The token that the system's store had for the server that is named."""
        self._is_called_off = threading.Event()
        self._looking_up = QTimer(self, singleShot=True, interval=LOOK_UP_MS)
        self._looking_up.timeout.connect(self._look_up)
        self._worker = Worker(self)
        self._worker.answered.connect(self._take)
        self._worker.failed.connect(self._fail)

    @property
    def is_working(self) -> bool:
        """Whether a connection is being made."""
        return self._state.is_working

    def open(self) -> None:
        """Open the dialog, with what was named there last."""
        if self.dialog is None:
            from visualizer.features.model_connection.dialog import (
                ModelConnectionDialog,  # with its first use
            )

            self._state = replace(self._state, problem="", problem_of="")
            self.dialog = dialog = ModelConnectionDialog(self._window)
            dialog.destroyed.connect(self._forget)
            dialog.changed.connect(self._change)
            dialog.connectWanted.connect(self._connect)
            dialog.cancelWanted.connect(self.cancel)
            self._look_up()
        self._show()
        self.dialog.show()
        self.dialog.raise_()
        self.dialog.activateWindow()

    def cancel(self) -> None:
        """Stop what is being done."""
        if self.is_working:
            self._is_called_off.set()
            self._change("is_cancelling", True)

    def close(self) -> None:
        """Stop what is being done."""
        self._is_called_off.set()
        self._looking_up.stop()
        self._worker.leave()
        if self.dialog:
            self.dialog.close()

    def _forget(self) -> None:
        self.dialog = None

    def _change(self, name: str, value: object) -> None:
        self._state = replace(self._state, **{name: value})
        if name in {"host", "port"} and self._filled_in:
            if self._state.token == self._filled_in:  # it is another server's
                self._state = replace(self._state, token="", is_kept=False)
            self._filled_in = ""
        if name in {"host", "port", "token", "ssh"}:
            self._state = replace(self._state, problem="", problem_of="")
        if name in {"host", "port"}:
            self._looking_up.start()
        self._show()

    def _look_up(self) -> None:
        """Ask the system for the token of the server that is named, while nothing else is done."""
        if not self.is_working:
            is_wanted = partial(getattr, self._worker, "is_wanted")
            self._worker.ask(partial(_found_token, self._state.host, self._state.port, is_wanted))

    def _show(self) -> None:
        if self.dialog and isValid(self.dialog.connect_button):  # parts are deleted before it
            self.dialog.show_panel(present_connection(self._state))

    def _connect(self) -> None:
        if self.is_working:
            return
        state = self._state
        if problem := connection_problem(state):
            self._state = replace(state, problem=problem.sentence, problem_of=problem.field)
            self._show()
            return
        self._is_called_off = threading.Event()  # one that was called off may still be under way
        self._state = replace(
            state, is_working=True, is_cancelling=False, problem="", problem_of=""
        )
        self._show()
        request = partial(
            _connected, state.choice, self._workspace.document.text, self._is_called_off
        )
        self._worker.ask(request)

    def _take(self, answer: _Connected | _GivenUp | _FoundToken | None) -> None:
        if answer is None:
            return
        if isinstance(answer, _FoundToken):
            self._take_token(answer)
            return
        self._state = replace(self._state, is_working=False, is_cancelling=False)
        self._show()
        if isinstance(answer, _Connected) and not self._is_called_off.is_set():
            if self.dialog:
                self.dialog.accept()
                self._window.activateWindow()  # not every platform does so itself
            spec = self._workspace.document.spec
            self.opened.emit(answer.opened, spec.device, spec.dtype, answer.text)

    def _take_token(self, found: _FoundToken) -> None:
        state = replace(self._state, has_store=found.has_store)
        is_asked = (found.host, found.port) == (state.host, state.port)
        if is_asked and found.token and not state.token:
            state = replace(state, token=found.token, is_kept=True)
            self._filled_in = found.token
        self._state = state
        self._show()

    def _fail(self, error: Exception) -> None:
        refused = error if isinstance(error, InputError) else None
        self._state = replace(
            self._state,
            is_working=False,
            is_cancelling=False,
            problem=refused.sentence if refused else "",
            problem_of=refused.field if refused else "",
        )
        self._show()
        if refused is None:
            self.broke.emit("".join(traceback.format_exception(error)))


# What follows runs on the worker.


def _found_token(host: str, port: int, is_left: Callable[[], bool]) -> _FoundToken | None:
    """Return what is kept for a server; None where something else is wanted meanwhile."""
    has_store = model_opening.has_token_store()
    try:
        with left_when(is_left):
            token = model_opening.stored_token_of(host, port) if has_store else ""
    except CancelledError:
        return None
    return _FoundToken(host, port, token, has_store)


def _connected(
    server: ServerChoice, text: str, is_called_off: threading.Event
) -> _Connected | _GivenUp:
    def check(done: int, of: int) -> None:
        if is_called_off.is_set():
            raise CancelledError

    try:
        with left_when(is_called_off.is_set):  # a server may take long to answer, or for ever
            return _Connected(model_opening.connect_to_model(server, text, check), text)
    except CancelledError:
        return _GivenUp()
