"""Connecting to a served model in the dialog, and using it like a local model."""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import sys
import threading
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

import psutil
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

from tests.support.background_work import is_work_pending, timer_of
from tests.support.free_port import free_port
from tests.support.served_models import TOKEN, ServedFolder, served
from tests.support.slow_network import slow_network
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.remote_numbers import NumbersPendingError, forbid_waiting_for_numbers
from visualizer.attention.spec import Device
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.model_connection.controller import TOKEN_LOOKUP_DELAY_MS
from visualizer.features.model_connection.presenter import HOST_REQUIRED, TOKEN_REQUIRED
from visualizer.models.model_client import access_token_store
from visualizer.models.model_client import server_client as client_connection
from visualizer.models.model_client.remote_stages import THREAD_NAME
from visualizer.models.model_client.ssh_server import INVALID_COMMAND_ERROR, LISTENER
from visualizer.models.model_protocol.server_address import HAS_UNIX_SOCKETS
from visualizer.models.model_source import SERVER_SCHEME, ModelSource
from visualizer.progress import CancelledError, cancel_when
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from PySide6.QtWidgets import QLineEdit, QSpinBox

    from tests.support.window_fixtures import Open
    from tests.support.window_input import Hand
    from visualizer.attention.run import Run
    from visualizer.features.model_connection.controller import ModelConnectionController
    from visualizer.features.model_connection.dialog import ModelConnectionDialog

TEXT = "the cat sat on a mat"
SILENT_S = 8
SERVER_STARTS_MS = 120_000
"""Timeout for starting a server, which imports torch and loads a model, perhaps next to others."""


class Secrets(ModuleType):
    """Replaces the keyring of the system."""

    def __init__(self) -> None:
        super().__init__(access_token_store.KEYRING_PACKAGE)
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, secret: str) -> None:
        self.kept[service, name] = secret

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    made = Secrets()
    monkeypatch.setitem(sys.modules, access_token_store.KEYRING_PACKAGE, made)
    monkeypatch.setattr(access_token_store, "has_store", lambda: True)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "llama", "llama")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServedFolder]:
    with served(folder) as found:
        yield found


def connection(hand: Hand) -> ModelConnectionController:
    return hand.window.controllers.model_connection_controller


def opened(hand: Hand) -> ModelConnectionDialog:
    """Open the dialog with its command."""
    hand.window.actions_.by_id["model.connect"].trigger()
    dialog = connection(hand).dialog
    assert dialog is not None
    hand.until(dialog.isActiveWindow)
    for line, text in ((dialog.ssh, ""), (dialog.host, "127.0.0.1")):  # instead of the last entries
        write(line, text)
    hand.until(dialog.keep.isEnabled)
    return dialog


def write(line: QLineEdit, text: str) -> None:
    line.setFocus()
    line.selectAll()
    QTest.keyClick(line, Qt.Key.Key_Delete)
    QTest.keyClicks(line, text)


def write_port(box: QSpinBox, port: int) -> None:
    box.setFocus()
    box.selectAll()
    QTest.keyClicks(box, str(port))


def press_connect(dialog: ModelConnectionDialog) -> None:
    QTest.mouseClick(dialog.connect_button, Qt.MouseButton.LeftButton)


def test_missing_fields_are_reported_immediately(hand: Hand) -> None:
    dialog = opened(hand)
    assert dialog.host.y() < dialog.height() / 3, "there is no gap around what is said first"
    press_connect(dialog)
    assert dialog.problem.text() == TOKEN_REQUIRED
    assert dialog.focusWidget() is dialog.token
    write(dialog.host, "two words")
    assert not dialog.problem.isVisible(), "it is said of what was typed before"
    press_connect(dialog)
    assert dialog.problem.text() == HOST_REQUIRED
    write(dialog.ssh, "rm -rf")
    press_connect(dialog)
    hand.until(lambda: not connection(hand).is_working)
    assert dialog.problem.text() == INVALID_COMMAND_ERROR
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    hand.until(lambda: connection(hand).dialog is None)


def test_a_missing_server_is_reported(hand: Hand) -> None:
    before = hand.window.workspace.document
    dialog = opened(hand)
    write_port(dialog.port, port := free_port())
    write(dialog.token, TOKEN)
    press_connect(dialog)
    hand.until(lambda: not connection(hand).is_working)
    assert f"127.0.0.1:{port} cannot be reached" in dialog.problem.text()
    assert dialog.isVisible()
    assert hand.window.workspace.document == before


@contextmanager
def answered_later(let_go: Callable[[], object]) -> Iterator[Callable[[], bool]]:
    """Release a silent server later; yield a function that tells whether it is still silent."""
    timer = threading.Timer(SILENT_S, let_go)
    timer.start()
    try:
        yield timer.is_alive
    finally:
        timer.cancel()
        timer.join()
        let_go()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A server that accepts connections and data, and never answers."""
    monkeypatch.setattr(client_connection, "CONNECT_TIMEOUT_S", 10 * SILENT_S)
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        found.listen()
        yield found


def connect_to_silent(hand: Hand, silent: socket.socket) -> ModelConnectionDialog:
    dialog = opened(hand)
    write_port(dialog.port, silent.getsockname()[1])
    write(dialog.token, TOKEN)
    press_connect(dialog)
    hand.until(lambda: bool(select.select([silent], [], [], 0)[0]))
    assert connection(hand).is_working
    return dialog


def test_cancelling_does_not_wait_for_a_silent_server(hand: Hand, silent: socket.socket) -> None:
    with answered_later(silent.close) as is_silent:
        dialog = connect_to_silent(hand, silent)
        QTest.mouseClick(dialog.cancel_button, Qt.MouseButton.LeftButton)
        hand.until(lambda: not connection(hand).is_working)
        assert is_silent()
        assert dialog.isVisible()
        assert not dialog.problem.isVisible()


def test_closing_does_not_wait_for_a_silent_server(
    open_window: Open, hand: Hand, silent: socket.socket
) -> None:
    with answered_later(silent.close) as is_silent:
        connect_to_silent(hand, silent)
        hand.window.close()
        assert is_silent()
        assert not hand.window.isVisible()


def send_to(pids: list[int], sent: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, sent)


@pytest.mark.slow
def test_closing_does_not_wait_for_a_stopped_server(
    open_window: Open, hand: Hand, server: ServedFolder
) -> None:
    connect(hand, server)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    pids = [server.process.pid, *server.rank_pids()]
    send_to(pids, signal.SIGSTOP)
    with answered_later(partial(send_to, pids, signal.SIGCONT)) as is_still:
        hand.type_sentence("the dog")
        hand.until(lambda: hand.window.workspace.is_working)
        hand.window.controllers.document_controller.discard_unsaved_changes()
        hand.window.close()
        assert is_still()
        assert not hand.window.isVisible()


def connect(hand: Hand, server: ServedFolder, token: str = TOKEN) -> ModelConnectionDialog:
    dialog = opened(hand)
    write_port(dialog.port, server.port)
    write(dialog.token, token)
    press_connect(dialog)
    hand.until(lambda: not connection(hand).is_working)
    return dialog


@pytest.mark.slow
def test_a_served_model_runs_on_a_text(hand: Hand, server: ServedFolder, secrets: Secrets) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    connect(hand, server, "a token of someone else")
    dialog = connection(hand).dialog
    assert dialog is not None
    assert "token is incorrect" in dialog.problem.text()
    write(dialog.token, TOKEN)
    QTest.mouseClick(dialog.keep, Qt.MouseButton.LeftButton, pos=QPoint(8, 8))
    press_connect(dialog)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    run = hand.window.workspace.run
    assert run is not None
    assert run.device.endswith(f"127.0.0.1:{server.port}")
    assert run.texts == (("<s>", "the", "cat", "sat", "on", "a", "mat"),)
    notice = hand.window.settings_bar.captured
    assert notice is not None
    assert f"llama at 127.0.0.1:{server.port} runs on" in notice.notice.text()
    kept = {("attention-visualizer", f"127.0.0.1:{server.port}"): TOKEN}
    hand.until(lambda: secrets.kept == kept)
    hand.hover(Cell("weights", (0, 3, 1)))
    assert "weights" in hand.stages
    hand.type_sentence("the dog ran")
    hand.settle()
    assert hand.window.workspace.run is not None
    assert hand.window.workspace.run.texts[0][-1] == "ran"
    hand.window.workspace.undo()
    hand.settle()


@pytest.mark.slow
def test_a_lost_server_is_reported_and_the_result_stays(
    hand: Hand, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_connection, "RECONNECT_TIMEOUT_S", 1.0)
    hand.type_sentence(TEXT)
    hand.settle()
    with served(folder) as server:
        connect(hand, server)
        hand.until(lambda: hand.window.workspace.document.model is not None)
        hand.settle()
        run = hand.window.workspace.run
        for pid in server.rank_pids():
            os.kill(pid, signal.SIGKILL)
        server.process.wait(60)
        hand.type_sentence("the dog")
        hand.until(lambda: "was lost" in hand.text_problem)
        assert hand.window.workspace.run is run
        assert hand.stages


@pytest.mark.slow
def test_a_saved_document_reconnects(
    hand: Hand, server: ServedFolder, secrets: Secrets, tmp_path: Path
) -> None:
    from visualizer.models.model_text_runs import read_text

    connect(hand, server)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    source = hand.window.workspace.document.model
    assert source is not None
    hand.window.workspace.undo()
    hand.settle()
    secrets.kept["attention-visualizer", f"127.0.0.1:{server.port}"] = TOKEN
    assert read_text(source, TEXT, Device.CPU).trace.read("weights").shape[-1] == 7


SSH = """#!{python}
import os, pty, signal, sys

options = sys.argv[1:]
has_terminal, port = False, ""
while options[0].startswith("-"):
    option = options.pop(0)
    has_terminal |= option == "-tt"
    value = options.pop(0) if option in ("-o", "-L") else ""
    port = value.partition(":")[0] if option == "-L" else port
if options[0] != "user@machine":
    sys.exit("Permission denied (publickey).")
assert has_terminal
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever the tests themselves ignore
    command = ["-m", "visualizer", "serve", options[3], "--quiet", "--port", port]
    os.execv("{python}", ["{python}", *command])
with open("{pid}", "w") as file:
    file.write(str(child))
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
while written := os.read(terminal, 1024):
    os.write(1, written)
"""
"""Stands in for SSH and its server: what it starts has a terminal, and nothing else says that the
connection has ended. It forwards nothing, as both are this machine."""


def put_ssh_in_place(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program.parent.mkdir()
    pid = program.with_name("pid")
    program.write_text(SSH.format(python=sys.executable, pid=pid))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", os.pathsep.join([str(program.parent), os.environ["PATH"]]))


@pytest.mark.slow
def test_a_server_is_started_over_ssh(
    hand: Hand, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ssh_in_place(tmp_path / "bin" / "ssh", monkeypatch)
    hand.type_sentence(TEXT)
    hand.settle()
    dialog = opened(hand)
    write(dialog.ssh, "ssh nobody@machine attention-visualizer serve x")
    press_connect(dialog)
    hand.until(lambda: not connection(hand).is_working)
    assert "Permission denied (publickey)." in dialog.problem.text()
    write(dialog.ssh, f"ssh user@machine attention-visualizer serve {folder}")
    press_connect(dialog)
    hand.until(lambda: not connection(hand).is_working, SERVER_STARTS_MS)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    assert hand.window.workspace.run is not None
    assert hand.window.workspace.run.trace.read("weights").shape[-1] == 7
    hand.window.workspace.undo()
    hand.settle()
    hand.until(lambda: all(each.name != LISTENER for each in threading.enumerate()))
    server = int((tmp_path / "bin" / "pid").read_text())
    hand.until(lambda: not psutil.pid_exists(server), SERVER_STARTS_MS)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_UNIX_SOCKETS, reason="the system has no Unix sockets")
def test_a_server_is_reached_over_a_unix_socket(hand: Hand, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.sock"
    hand.type_sentence(TEXT)
    with served(folder, "--socket", str(path)):
        assert stat.filemode(path.stat().st_mode) == "srw-------"
        dialog = opened(hand)
        write(dialog.host, str(path))
        assert not dialog.port.isEnabled()
        assert f"ssh -L {path}:" in dialog.tunnel.text()
        write(dialog.token, TOKEN)
        press_connect(dialog)
        hand.until(lambda: hand.window.workspace.document.model is not None)
        hand.settle()
        assert hand.window.workspace.run is not None
        assert hand.window.workspace.run.trace.read("weights").shape[-1] == 7
        hand.window.workspace.undo()
        hand.settle()
    assert not path.exists()


class LockedSecrets(Secrets):
    """A keyring that blocks until it is unlocked."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asked, self.is_unlocked = threading.Event(), threading.Event()
        self.asked = 0

    def get_password(self, service: str, name: str) -> str | None:
        self._wait()
        return super().get_password(service, name)

    def set_password(self, service: str, name: str, secret: str) -> None:
        self._wait()

    def delete_password(self, service: str, name: str) -> None:
        self._wait()

    def _wait(self) -> None:
        self.asked += 1
        self.is_asked.set()
        self.is_unlocked.wait(10 * SILENT_S)


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[LockedSecrets]:
    made = LockedSecrets()
    monkeypatch.setitem(sys.modules, access_token_store.KEYRING_PACKAGE, made)
    yield made
    made.is_unlocked.set()


def test_the_dialog_does_not_wait_for_a_locked_keyring(hand: Hand, locked: LockedSecrets) -> None:
    hand.window.actions_.by_id["model.connect"].trigger()
    dialog = connection(hand).dialog
    assert dialog is not None
    hand.until(locked.is_asked.is_set)
    write(dialog.ssh, "")
    write(dialog.host, "127.0.0.1")
    write_port(dialog.port, port := free_port())
    write(dialog.token, TOKEN)
    press_connect(dialog)
    hand.until(lambda: not connection(hand).is_working)
    assert f"127.0.0.1:{port} cannot be reached" in dialog.problem.text()
    assert not locked.is_unlocked.is_set()
    assert locked.asked <= 3, "it asks its user each time, and not for each key"
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    hand.until(lambda: connection(hand).dialog is None)


@pytest.mark.slow
def test_a_keyring_that_becomes_locked_does_not_prevent_connecting(
    hand: Hand, server: ServedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialog, locked = opened(hand), LockedSecrets()
    write_port(dialog.port, server.port)
    write(dialog.token, TOKEN)
    hand.until(lambda: not timer_of(connection(hand), TOKEN_LOOKUP_DELAY_MS).isActive())
    hand.until(lambda: not is_work_pending(connection(hand)))
    monkeypatch.setitem(sys.modules, access_token_store.KEYRING_PACKAGE, locked)
    try:
        press_connect(dialog)
        hand.until(lambda: hand.window.workspace.document.model is not None)
        hand.until(locked.is_asked.is_set)
        assert not locked.is_unlocked.is_set()
    finally:
        locked.is_unlocked.set()
    hand.settle()
    hand.window.workspace.undo()
    hand.settle()


def test_other_requests_do_not_wait_for_a_locked_keyring(
    locked: LockedSecrets,
) -> None:
    from visualizer.models.model_text_runs import read_text

    source = ModelSource(f"{SERVER_SCHEME}127.0.0.1:{free_port()}", "llama", "")
    with cancel_when(locked.is_asked.is_set), pytest.raises(CancelledError):
        read_text(source, TEXT, Device.CPU)
    assert not locked.is_unlocked.is_set()


def test_the_token_is_saved_in_any_order_of_input(hand: Hand) -> None:
    dialog = opened(hand)
    write(dialog.token, "")
    hand.until(dialog.keep.isEnabled)  # the keyring has been found
    QTest.mouseClick(dialog.keep, Qt.MouseButton.LeftButton, pos=QPoint(8, 8))
    write_port(dialog.port, free_port())
    assert dialog.keep.isChecked()
    QTest.mouseClick(dialog.keep, Qt.MouseButton.LeftButton, pos=QPoint(8, 8))


def test_a_stored_token_belongs_to_its_server(hand: Hand, secrets: Secrets) -> None:
    ports = free_port(), free_port()
    for port in ports:
        secrets.kept["attention-visualizer", f"127.0.0.1:{port}"] = f"the token of {port}"
    dialog = opened(hand)
    write(dialog.token, "")
    for port in ports:
        write_port(dialog.port, port)
        said = f"the token of {port}"
        hand.until(lambda said=said: dialog.token.text() == said)  # type: ignore[misc]
    write_port(dialog.port, free_port())
    assert dialog.token.text() == ""
    write(dialog.token, "typed by hand")
    write_port(dialog.port, ports[0])
    assert dialog.token.text() == "typed by hand"
    write(dialog.token, "")


@pytest.mark.slow
def test_a_served_model_generates_text(hand: Hand, server: ServedFolder) -> None:
    hand.type_sentence(TEXT)
    hand.settle()
    connect(hand, server)
    hand.until(lambda: hand.window.workspace.document.model is not None)
    hand.settle()
    controller = hand.window.controllers.model_generation_controller
    hand.window.docks.open_pane("Continue")
    hand.until(lambda: bool(controller.panel.bars.bars) or bool(controller.panel.problem))
    assert not controller.panel.problem
    pane = hand.window.panes["Continue"]
    pane.steps.setValue(3)
    QTest.mouseClick(pane.generation.run_button, Qt.MouseButton.LeftButton)
    hand.until(lambda: len(controller.tree.path) == 3)
    hand.until(lambda: not controller.is_running)
    before = controller.text_generator
    assert before
    connect(hand, server)
    hand.until(lambda: controller.text_generator is not before)
    hand.settle()
    assert controller.text_generator
    assert controller.text_generator.model is not before.model, (
        "it is continued over the new connection"
    )
    assert len(controller.tree.path) == 3
    QTest.mouseClick(pane.generation.run_button, Qt.MouseButton.LeftButton)
    hand.until(lambda: len(controller.tree.path) == 6)
    hand.until(lambda: not controller.is_running)


@pytest.mark.slow
def test_the_window_does_not_wait_for_remote_values(hand: Hand, server: ServedFolder) -> None:
    """Over a slow network, the description of a cell appears later, and the window never blocks."""
    hand.type_sentence(TEXT)
    hand.settle()
    with slow_network(server.port) as network:
        connect(hand, ServedFolder(f"127.0.0.1:{network.port}", server.process))
        hand.until(lambda: hand.window.workspace.document.model is not None)
        hand.settle()
        run = hand.window.workspace.run
        assert run is not None
        with forbid_waiting_for_numbers(), pytest.raises(NumbersPendingError):
            run.trace.read("scores", (0, 1))
        hand.until(lambda: is_here(run, "scores", (0, 1)))
        with forbid_waiting_for_numbers():
            assert run.trace.read("queries", (0, 1)).shape == (7, 8), "they came together"
        hand.hover(Cell("weights", (0, 3, 1)))
        hand.until(lambda: hand.window.workspace.screen.panel(CELL_PANEL) is not None)
        hand.window.workspace.undo()
        hand.settle()
        hand.until(lambda: all(each.name != THREAD_NAME for each in threading.enumerate()))


def is_here(run: Run, stage: str, place: tuple[int, ...]) -> bool:
    try:
        with forbid_waiting_for_numbers():
            run.trace.read(stage, place)
    except NumbersPendingError:
        return False
    return True
