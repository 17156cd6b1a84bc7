"""The server of the training process, which handles messages between training steps."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visualizer.attention.roles import Role
from visualizer.errors import InputError, is_out_of_memory
from visualizer.language import probe as language_probe
from visualizer.language.checkpoints import write_weights
from visualizer.language.loss_log import rows_to_loss_curves
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import (
    IDLE_STOP_CONTENT,
    RunFolder,
    settings_from_json,
    settings_to_json,
)
from visualizer.language.training_progress import TrainingSpeed
from visualizer.language.training_run import FINAL_RETRY_NOTICE, RETRY_NOTICE, DivergedError
from visualizer.language.training_settings import check_settings
from visualizer.language.wire_format import Message
from visualizer.storage.json_codec import DamagedFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.language.language_models import LanguageModel
    from visualizer.language.loss_log import LossRow
    from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

MAX_ROWS_PER_MESSAGE = 100_000
"""Maximum number of loss rows per message, which keeps the window responsive for long runs."""
PROGRESS_INTERVAL_S = 0.2
STOP_CHECK_INTERVAL_S = 1.0
"""Interval between checks for the stop file, in seconds."""


class TrainingServer:
    """Handles messages about a run, and trains it step by step.

    Parameters
    ----------
    send : callable
        Function that sends a message to the window.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self.opened: OpenedRun | None = None
        self.state, self.is_ended, self.keeps_running = "paused", False, False
        self._has_warned = False
        """Whether the user has been warned that stopping now would lose steps."""
        self._steps_left = 0
        """Number of steps to do before a pause; negative for all steps."""
        self._steps_wanted: int | None = None
        """Requested total number of steps, if it could not be set yet."""
        self._reported_at, self._stop_checked_at = 0.0, 0.0
        self._speed = TrainingSpeed()

    @property
    def is_training(self) -> bool:
        """Whether training is running."""
        return self.state == "running" and not self.is_ended

    # ------------------------------------------------------------------ messages

    def handle_message(self, message: Message) -> None:
        """Handle a message; the response to an invalid request is a ``refused`` message."""
        try:
            _HANDLERS[message.kind](self, message.values)
            return
        except InputError as error:
            refusal = error
        except DamagedFileError as error:
            refusal = InputError("settings", f"The request {error}")
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            sentence = "Out of memory. Use a smaller batch, block or embedding size."
            refusal = InputError("batch", sentence)
        self._send_refusal(refusal, message.values.get("id"))

    def _handle_open(self, values: Mapping[str, Any]) -> None:
        settings = settings_from_json(values["settings"]) if values.get("settings") else None
        if settings:
            check_settings(settings)
        if self.opened:
            self.opened.close()
        self.opened = OpenedRun(RunFolder(Path(values["folder"])), settings, is_held=False)
        running = self.opened.running
        self.state = "paused"
        if running is None or running.state.is_ended:
            self.state = "stopped" if running is None else "diverged"
        elif running.is_done:
            self.state = "done"
        self._send_opened_run(self.opened)

    def _send_opened_run(self, opened: OpenedRun) -> None:
        metadata, running = opened.metadata, opened.running
        model, step = _newest_model(opened)
        rows = running.take_new_rows() if running else []
        values = {
            "settings": settings_to_json(metadata.settings),
            "step": step,
            "tokens": metadata.tokens,
            "parameters": sum(one.numel() for one in model.parameters()) if model else 0,
            "device": running.trainer.device_name if running else "",
            "frequency": metadata.frequency,
            "bigram": metadata.bigram,
            "snapshots": opened.snapshot_steps(),
            "notices": [*filter(None, (*metadata.notices, opened.lock_error))],
            "sample": metadata.sample,
            "state": self.state,
            "final": running.state.final if running else None,
        }
        self._send(Message("opened", values, rows_to_loss_curves(rows[:MAX_ROWS_PER_MESSAGE])))
        for first in range(MAX_ROWS_PER_MESSAGE, len(rows), MAX_ROWS_PER_MESSAGE):
            self._send_progress(opened, rows[first : first + MAX_ROWS_PER_MESSAGE])

    def _start_training(self, count: int) -> None:
        opened = self._require_run()
        if opened.running is None:
            raise InputError("path", opened.lock_error)
        self._apply_requested_steps(opened)
        if opened.running.is_done:
            raise InputError(
                "steps", "All steps are done. Increase the number of steps to train further."
            )
        opened.acquire_lock(is_ordered=self.keeps_running)
        opened.running.retry_notice, self._has_warned = RETRY_NOTICE, False
        self._steps_left, self.state = count, "running"
        self._speed = TrainingSpeed()

    def _handle_pause(self, values: Mapping[str, Any]) -> None:
        if self.state == "running":
            self._pause_and_save()
        self.report_progress()

    def _handle_stop(self, values: Mapping[str, Any]) -> None:
        """Save a checkpoint and stop; if saving fails, warn first, and stop at the next request."""
        if self._has_warned:
            self.save_and_stop()
            return
        step = self._resume_step()
        self._save_if_needed(
            "The run stays open: if it were stopped now, it could only be resumed from step "
            f"{step:,}. Free disk space and stop again; the second time, training stops even if "
            "saving fails."
        )
        running = self.opened.running if self.opened else None
        if running is None or running.is_saved:
            self._close_run()
            return
        self._has_warned = True
        if self.state == "running":
            self.state = "paused"
        self._send(Message("not_ended"))
        self.report_progress()

    def _handle_leave(self, values: Mapping[str, Any]) -> None:
        self.keeps_running = True

    def _handle_lengthen(self, values: Mapping[str, Any]) -> None:
        opened, self._steps_wanted = self._require_run(), int(values["steps"])
        self._apply_requested_steps(opened)
        self.report_progress()

    def _apply_requested_steps(self, opened: OpenedRun) -> None:
        """Set the requested number of steps; if writing it fails, the request is kept."""
        steps, running = self._steps_wanted, opened.running
        if steps is None or running is None or running.state.is_ended:
            return
        opened.acquire_lock()
        try:
            running.set_total_steps(steps)
        except InputError as refused:
            if refused.field == "steps":  # the number is invalid
                self._steps_wanted = None
            raise
        self._steps_wanted, opened.metadata = None, running.metadata
        if running.is_done:
            self.state = "done"
        elif self.state == "done":
            self.state = "paused"

    def _handle_read(self, values: Mapping[str, Any]) -> None:
        opened = self._require_run()
        model, step = opened.model_at(values.get("step"))
        probe = language_probe.ProbeText.from_text(
            values["text"], opened.metadata.vocabulary, model
        )
        arrays = language_probe.run_probe(model, probe)
        sizes = arrays[Role.WEIGHTS].shape[:2] if Role.WEIGHTS in arrays else (0, 0)
        answer = {"id": values["id"], "step": step, "tokens": probe.tokens, "cut": probe.cut}
        self._send(Message("read", answer | {"layers": sizes[0], "heads": sizes[1]}, arrays))

    def _handle_layer(self, values: Mapping[str, Any]) -> None:
        opened = self._require_run()
        model, step = opened.model_at(values.get("step"))
        answer = language_probe.create_layer_message(
            model,
            opened.metadata.vocabulary,
            values["text"],
            int(values["layer"]),
            step,
            values["id"],
        )
        self._send(answer)

    def _handle_save(self, values: Mapping[str, Any]) -> None:
        opened = self._require_run()
        model, _ = opened.model_at(values.get("step"))
        path = Path(values["path"])
        opened.folder.check_export_path(path)
        write_weights(path, model, opened.metadata)
        self._send(Message("said", {"id": values["id"]}))

    def _require_run(self) -> OpenedRun:
        if self.opened is None:
            raise InputError("folder", "No run is open.")
        return self.opened

    def _send_refusal(self, refused: InputError, identity: object = None) -> None:
        refusal = {"field": refused.field, "sentence": refused.sentence, "remedy": refused.remedy}
        self._send(Message("refused", {"id": identity, **refusal}))

    # ------------------------------------------------------------------ training

    def train_one_step(self) -> None:
        """Do one training step, and report progress at intervals."""
        running = self._require_run().running
        assert running, "only a run with its text is trained"
        try:
            running.train_one_step()
        except DivergedError as diverged:
            self.state = "diverged"
            self._send_refusal(InputError("rate", diverged.sentence))
        except InputError as refused:
            self._pause_and_save()
            self._send_refusal(refused)
        self._steps_left -= 1
        tokens = running.settings.batch * running.settings.block
        self._speed.add_tokens(tokens, time.monotonic())
        if running.is_done and self.state == "running":
            self.state = "done"
        elif self._steps_left == 0 and self.state == "running":
            self._pause_and_save()
        now = time.monotonic()
        if now - self._reported_at >= PROGRESS_INTERVAL_S or not self.is_training:
            self.report_progress()
        if now - self._stop_checked_at >= STOP_CHECK_INTERVAL_S:
            self.check_stop_request()

    def check_stop_request(self) -> None:
        """Write a checkpoint and stop if another program is waiting for the run of this process.

        The other program continues training, unless training was paused.
        """
        self._stop_checked_at = time.monotonic()
        if not (
            self.opened and self.opened.is_locked and _file_exists(self.opened.folder.stop_file)
        ):
            return
        running, folder, trains = self.opened.running, self.opened.folder, self.is_training
        self._save_if_needed(self._resume_message())
        is_requested = folder.withdraw_stop_request() if trains else _file_exists(folder.stop_file)
        if not is_requested:  # the request was withdrawn in the meantime
            if running:
                running.retry_notice = RETRY_NOTICE
            return
        self._close_run(was_idle=not trains)

    def report_progress(self) -> None:
        """Send the progress, with the rows that were measured since the last report."""
        self._reported_at = time.monotonic()
        if self.opened and self.opened.running:
            self._send_progress(self.opened, self.opened.running.take_new_rows())

    def _send_progress(self, opened: OpenedRun, rows: Sequence[LossRow]) -> None:
        running = opened.running
        assert running
        left = max(0, running.settings.steps - running.step)
        tokens = running.settings.batch * running.settings.block
        values = {
            "state": self.state,
            "step": running.step,
            "steps": running.settings.steps,
            "seconds": running.state.seconds,
            "tokens_per_second": self._speed.tokens_per_second,
            "seconds_left": self._speed.estimate_seconds(left * tokens),
            "rate": running.settings.learning_rate_at(running.step),
            "snapshots": opened.snapshot_steps(),
            "notice": running.notice,
            "is_saved": running.is_saved,
            "final": running.state.final,
        }
        self._send(Message("progress", values, rows_to_loss_curves(rows)))

    def _pause_and_save(self) -> None:
        self.state = "paused"
        self._save_checkpoint(FINAL_RETRY_NOTICE)

    def _save_checkpoint(self, retry_notice: str) -> None:
        if self.opened and self.opened.running and self.opened.is_locked:
            self.opened.running.retry_notice = retry_notice
            self.opened.running.save_checkpoint()

    def _save_if_needed(self, retry_notice: str) -> None:
        """Write a checkpoint if there may be steps after the last one."""
        running = self.opened.running if self.opened else None
        if self.state in {"running", "paused"} or (running and running.notice):
            self._save_checkpoint(retry_notice)  # retried, because disk space may have been freed

    def _resume_step(self) -> int:
        return (self.opened and self.opened.folder.checkpoint_step()) or 0

    def _resume_message(self) -> str:
        return f"The run can be resumed from step {self._resume_step():,}."

    def save_and_stop(self) -> None:
        """Write a checkpoint and stop."""
        if not self.is_ended:
            self._save_if_needed(self._resume_message())
            self._close_run()

    def _close_run(self, *, was_idle: bool = False) -> None:
        self.is_ended = True
        if self.state in {"running", "paused"}:
            self.state = "stopped"
        self.report_progress()
        if self.opened:
            self._remove_request_files(self.opened, was_idle)
            self.opened.close()

    def _remove_request_files(self, opened: OpenedRun, was_idle: bool) -> None:
        """Remove the request files of this process, or record that the process was not training."""
        with suppress(OSError):
            if was_idle:
                opened.folder.stop_file.append(IDLE_STOP_CONTENT)
            elif opened.is_locked:
                opened.folder.stop_file.unlink(missing_ok=True)
            # The orders must not reach a process that continues the run.
            if self.keeps_running and not opened.is_locked:
                opened.folder.orders_file.unlink(missing_ok=True)


_HANDLERS: dict[str, Callable[[TrainingServer, Mapping[str, Any]], None]] = {
    "open": TrainingServer._handle_open,
    "run": lambda server, _: server._start_training(-1),
    "pause": TrainingServer._handle_pause,
    "step": lambda server, values: server._start_training(int(values.get("count", 1))),
    "stop": TrainingServer._handle_stop,
    "end": lambda server, _: server.save_and_stop(),
    "leave": TrainingServer._handle_leave,
    "lengthen": TrainingServer._handle_lengthen,
    "read": TrainingServer._handle_read,
    "layer": TrainingServer._handle_layer,
    "save": TrainingServer._handle_save,
}


def _newest_model(opened: OpenedRun) -> tuple[LanguageModel | None, int]:
    """Return the current or last saved model and its step; without a model, None and 0."""
    if opened.running or opened.snapshot_steps():
        return opened.model_at(None)
    if opened.folder.checkpoint_file.exists():
        with suppress(InputError):  # the error is reported when the model is read
            return opened.model_at(None)
    return None, 0


def _file_exists(file: SymlinkSafeFile) -> bool:
    with suppress(OSError):  # the folder may be temporarily unreadable
        return file.exists()
    return False
