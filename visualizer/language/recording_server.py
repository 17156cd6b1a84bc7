"""Entry point of the process that reads a recorded run for a window; it does not import torch.

Messages have the format of `visualizer.language.wire_format`, and are those of the training
process. The process exits when the window asks it to, and when the input ends.
"""

from __future__ import annotations

import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visualizer.attention.roles import Role
from visualizer.errors import InputError, is_out_of_memory
from visualizer.language.loss_log import rows_to_loss_curves
from visualizer.language.recording import OpenedRecording
from visualizer.language.run_folder import RunFolder
from visualizer.language.wire_format import Inbox, Message, open_message_sender, read_into_inbox

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_ROWS_PER_MESSAGE = 100_000
"""Maximum number of loss rows per message, which keeps the window responsive for long runs."""
POLL_INTERVAL_S = 1.0
"""Interval between checks for further snapshots, in seconds."""
RECORDING_STATE, RECORDED_STATE = "recording", "recorded"
"""States of a run that is still being recorded, and of a run that is complete or interrupted."""


class RecordingServer:
    """Handles messages about a recorded run.

    Parameters
    ----------
    send : callable
        Function that sends a message to the window.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._opened: OpenedRecording | None = None
        self.is_ended = False
        self._reported: tuple[object, ...] = ()
        """State and steps that were reported last."""

    def handle_message(self, message: Message) -> None:
        """Handle a message; the response to an invalid request is a ``refused`` message."""
        try:
            handler = _HANDLERS.get(message.kind)
            if handler is None:
                sentence = "This run was recorded in another program and cannot be trained here."
                raise InputError("folder", sentence)
            handler(self, message.values)
            return
        except InputError as error:
            refusal = error
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            refusal = InputError("memory", "Out of memory. Close other programs.")
        values = {"id": message.values.get("id"), "field": refusal.field, "remedy": None}
        self._send(Message("refused", values | {"sentence": refusal.sentence}))

    def report_changes(self) -> None:
        """Report further snapshots and losses of a run that is still being recorded."""
        if self._opened:
            rows = self._opened.take_new_rows()
            if rows or self._current_state(self._opened) != self._reported:
                self._send_progress(self._opened, rows)

    def _handle_open(self, values: Mapping[str, Any]) -> None:
        opened = self._opened = OpenedRecording(RunFolder(Path(values["folder"])))
        rows = opened.take_new_rows()
        self._reported = state, steps = self._current_state(opened)
        fields = {
            "settings": None,
            "step": steps[-1] if steps else 0,
            "tokens": (),
            "parameters": opened.metadata.parameters,
            "device": "",
            "snapshots": steps,
            "notices": (),
            "state": state,
        }
        self._send(Message("opened", fields, rows_to_loss_curves(rows[:MAX_ROWS_PER_MESSAGE])))
        for first in range(MAX_ROWS_PER_MESSAGE, len(rows), MAX_ROWS_PER_MESSAGE):
            self._send_progress(opened, rows[first : first + MAX_ROWS_PER_MESSAGE])

    def _current_state(self, opened: OpenedRecording) -> tuple[str, tuple[int, ...]]:
        state = RECORDING_STATE if opened.is_being_recorded else RECORDED_STATE
        return state, opened.steps()

    def _send_progress(self, opened: OpenedRecording, rows: list[Any]) -> None:
        self._reported = state, steps = self._current_state(opened)
        fields = {"state": state, "step": steps[-1] if steps else 0, "snapshots": steps}
        self._send(Message("progress", fields, rows_to_loss_curves(rows)))

    def _handle_read(self, values: Mapping[str, Any]) -> None:
        step, tokens, weights = self._read_weights(values)
        layers, heads = weights.shape[:2]
        fields = {"id": values["id"], "step": step, "tokens": tokens, "cut": 0}
        sizes = {"layers": layers, "heads": heads}
        self._send(Message("read", fields | sizes, {Role.WEIGHTS: weights}))

    def _handle_layer(self, values: Mapping[str, Any]) -> None:
        step, tokens, weights = self._read_weights(values)
        fields = {"id": values["id"], "step": step, "tokens": tokens, "layer": int(values["layer"])}
        self._send(Message("layer", fields, {Role.WEIGHTS: weights}))

    def _read_weights(self, values: Mapping[str, Any]) -> tuple[int, tuple[str, ...], Any]:
        if self._opened is None:
            raise InputError("folder", "No run is open.")
        steps, metadata = self._opened.steps(), self._opened.metadata
        text, step = metadata.index_of_text(values["text"]), values.get("step")
        if step is None:
            if not steps:
                raise InputError("step", "The run has no snapshots yet.")
            step = steps[-1]
        return step, metadata.texts[text].tokens, self._opened.read_weights(step, text)

    def _handle_end(self, values: Mapping[str, Any]) -> None:
        self.is_ended = True


_HANDLERS: dict[str, Callable[[RecordingServer, Mapping[str, Any]], None]] = {
    "open": RecordingServer._handle_open,
    "read": RecordingServer._handle_read,
    "layer": RecordingServer._handle_layer,
    "stop": RecordingServer._handle_end,
    "end": RecordingServer._handle_end,
}


def main() -> int:
    """Handle messages until the window ends the process, and return the exit status."""
    inbox: Inbox = queue.SimpleQueue()
    source, send = sys.stdin.buffer, open_message_sender()
    threading.Thread(target=read_into_inbox, args=(source, inbox), daemon=True).start()
    server = RecordingServer(send)
    try:
        while not server.is_ended:
            try:
                message = inbox.get(timeout=POLL_INTERVAL_S)
            except queue.Empty:
                server.report_changes()
                continue
            if message is None:
                break
            server.handle_message(message)
    except Exception as error:  # noqa: BLE001 - the window shows it
        failure = {
            "sentence": "Reading the run stopped because of an internal error.",
            "details": traceback.format_exc(),
        }
        send(Message("failed", failure | {"kind": type(error).__name__}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
