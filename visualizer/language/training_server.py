"""The training process's server, which handles messages between training steps."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visualizer.errors import InputError, is_out_of_memory
from visualizer.language import probe as language_probe
from visualizer.language.checkpoints import write_weights
from visualizer.language.loss_log import curves
from visualizer.language.opened_training_run import OpenRun
from visualizer.language.run_folder import RESTED, RunFolder, plain_settings, settings_of
from visualizer.language.training_run import GOES_ON, TRIED_AT_END, DivergedError
from visualizer.language.training_settings import check
from visualizer.language.training_speed_and_time_left import TrainingSpeed
from visualizer.language.wire_format import Message
from visualizer.storage.json_coding import DamagedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.language.language_models import LanguageModel
    from visualizer.language.loss_log import LossRow
    from visualizer.language.training_run import TrainingRun
    from visualizer.storage.link_safe_folder import ContainedFile

AT_ONCE = 100_000
"""Most loss rows in a message, so that a window stays responsive while it reads a long run."""
TOLD_EVERY_S = 0.2
LOOKED_EVERY_S = 1.0
"""Interval of checks for the stop file."""


class TrainingServer:
    """Answers messages about a run, and trains it step by step.

    Parameters
    ----------
    send : callable
        Sends a message to the window.
    """

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self.opened: OpenRun | None = None
        self.state, self.is_ended, self.stays = "paused", False, False
        self._has_warned = False
        """Whether it was said that ending it now loses steps."""
        self._left = 0
        """Steps to do before pausing; negative for all."""
        self._steps_wanted: int | None = None
        """The number of steps that could not be set yet."""
        self._told_at, self._looked_at = 0.0, 0.0
        self._pace = TrainingSpeed()

    @property
    def is_training(self) -> bool:
        """Whether there are steps to do."""
        return self.state == "running" and not self.is_ended

    # ------------------------------------------------------------------ messages

    def take(self, message: Message) -> None:
        """Handle a message; invalid requests are answered with a ``refused`` message."""
        try:
            _TAKE[message.says](self, message.values)
        except InputError as refused:
            self._refuse(refused, message.values.get("id"))
        except DamagedError as damaged:
            said = InputError("settings", f"What was sent {damaged}")
            self._refuse(said, message.values.get("id"))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            sentence = "The memory ran out. Use a smaller batch, block or embedding size."
            self._refuse(InputError("batch", sentence), message.values.get("id"))

    def _open(self, values: Mapping[str, Any]) -> None:
        settings = settings_of(values["settings"]) if values.get("settings") else None
        if settings:
            check(settings)
        if self.opened:
            self.opened.close()
        self.opened = OpenRun(RunFolder(Path(values["folder"])), settings, is_held=False)
        running = self.opened.running
        self.state = "paused"
        if running is None or running.state.is_ended:
            self.state = "stopped" if running is None else "diverged"
        elif running.is_done:
            self.state = "done"
        self._tell_opened(self.opened)

    def _tell_opened(self, opened: OpenRun) -> None:
        about, running = opened.about, opened.running
        model, step = _newest_model(opened)
        rows = running.take_rows() if running else []
        values = {
            "settings": plain_settings(about.settings),
            "step": step,
            "tokens": about.tokens,
            "parameters": sum(one.numel() for one in model.parameters()) if model else 0,
            "device": running.training.device_name if running else "",
            "frequency": about.frequency,
            "bigram": about.bigram,
            "snapshots": opened.snapshots(),
            "notices": [*about.notices, *_said(opened.obstacle)],
            "sample": about.sample,
            "state": self.state,
            "final": _final(running),
        }
        self._send(Message("opened", values, curves(rows[:AT_ONCE])))
        for first in range(AT_ONCE, len(rows), AT_ONCE):
            self._tell_progress(opened, rows[first : first + AT_ONCE])

    def _run(self, values: Mapping[str, Any]) -> None:
        self._begin(-1)

    def _step(self, values: Mapping[str, Any]) -> None:
        self._begin(int(values.get("count", 1)))

    def _begin(self, count: int) -> None:
        opened = self._one()
        if opened.running is None:
            raise InputError("path", opened.obstacle)
        self._set_steps(opened)
        if opened.running.is_done:
            raise InputError("steps", "All steps are done. Train for more of them.")
        opened.hold(is_ordered=self.stays)
        opened.running.then, self._has_warned = GOES_ON, False
        self._left, self.state = count, "running"
        self._pace = TrainingSpeed()

    def _pause(self, values: Mapping[str, Any]) -> None:
        if self.state == "running":
            self._rest()
        self.tell()

    def _stop(self, values: Mapping[str, Any]) -> None:
        """End with a checkpoint; where none can be written, say so and end the next time."""
        if self._has_warned:
            self.end()
            return
        step = self._step_to_go_on_from()
        self._keep(
            f"The training was not ended, as it would go on from step {step:,}. Make room and stop "
            "it again: the second time it ends in any case."
        )
        running = self.opened.running if self.opened else None
        if running is None or running.is_saved:
            self._close()
            return
        self._has_warned = True
        if self.state == "running":
            self.state = "paused"
        self._send(Message("not_ended"))
        self.tell()

    def _end(self, values: Mapping[str, Any]) -> None:
        self.end()

    def _leave(self, values: Mapping[str, Any]) -> None:
        self.stays = True

    def _lengthen(self, values: Mapping[str, Any]) -> None:
        opened, self._steps_wanted = self._one(), int(values["steps"])
        self._set_steps(opened)
        self.tell()

    def _set_steps(self, opened: OpenRun) -> None:
        """Set the number of steps that is wanted; it is still wanted where it cannot be written."""
        steps, running = self._steps_wanted, opened.running
        if steps is None or running is None or running.state.is_ended:
            return
        opened.hold()
        try:
            running.lengthen(steps)
        except InputError as refused:
            if refused.field == "steps":  # no such number
                self._steps_wanted = None
            raise
        self._steps_wanted, opened.about = None, running.about
        if running.is_done:
            self.state = "done"
        elif self.state == "done":
            self.state = "paused"

    def _read(self, values: Mapping[str, Any]) -> None:
        opened = self._one()
        model, step = opened.model(values.get("step"))
        probe = language_probe.Probe.of(values["text"], opened.about.vocabulary, model)
        arrays = language_probe.read(model, probe)
        sizes = arrays["weights"].shape[:2] if "weights" in arrays else (0, 0)
        said = {"id": values["id"], "step": step, "tokens": probe.tokens, "cut": probe.cut}
        self._send(Message("read", said | {"layers": sizes[0], "heads": sizes[1]}, arrays))

    def _layer(self, values: Mapping[str, Any]) -> None:
        opened = self._one()
        model, step = opened.model(values.get("step"))
        number, vocabulary = int(values["layer"]), opened.about.vocabulary
        self._send(
            language_probe.layer_message(
                model, vocabulary, values["text"], number, step, values["id"]
            )
        )

    def _save_weights(self, values: Mapping[str, Any]) -> None:
        opened = self._one()
        model, _ = opened.model(values.get("step"))
        path = Path(values["path"])
        opened.folder.check_export(path)
        write_weights(path, model, opened.about)
        self._send(Message("said", {"id": values["id"]}))

    def _one(self) -> OpenRun:
        if self.opened is None:
            raise InputError("folder", "No run is open.")
        return self.opened

    def _refuse(self, refused: InputError, identity: object = None) -> None:
        said = {"field": refused.field, "sentence": refused.sentence, "remedy": refused.remedy}
        self._send(Message("refused", {"id": identity, **said}))

    # ------------------------------------------------------------------ training

    def advance(self) -> None:
        """Do a training step, and report progress at intervals."""
        running = self._one().running
        assert running, "only a run with its text is trained"
        try:
            running.advance()
        except DivergedError as diverged:
            self.state = "diverged"
            self._refuse(InputError("rate", diverged.sentence))
        except InputError as refused:
            self._rest()
            self._refuse(refused)
        self._left -= 1
        tokens = running.settings.batch * running.settings.block
        self._pace.add(tokens, time.monotonic())
        if running.is_done and self.state == "running":
            self.state = "done"
        elif self._left == 0 and self.state == "running":
            self._rest()
        self._look_around()

    def _look_around(self) -> None:
        now = time.monotonic()
        if now - self._told_at >= TOLD_EVERY_S or not self.is_training:
            self.tell()
        if now - self._looked_at >= LOOKED_EVERY_S:
            self.look_for_a_request()

    def look_for_a_request(self) -> None:
        """End with a checkpoint if another program waits for the run that is held here.

        The other program goes on with a run that was training, and not with one at rest.
        """
        self._looked_at = time.monotonic()
        if not (self.opened and self.opened.is_held and _exists(self.opened.folder.stop)):
            return
        running, stop, trains = self.opened.running, self.opened.folder.stop, self.is_training
        self._keep(self._after_the_end())
        if not (_removed(stop) if trains else _exists(stop)):  # it was withdrawn meanwhile
            if running:
                running.then = GOES_ON
            return
        self._close(has_rested=not trains)

    def tell(self) -> None:
        """Send the progress, with the rows measured since the last report."""
        self._told_at = time.monotonic()
        if self.opened and self.opened.running:
            self._tell_progress(self.opened, self.opened.running.take_rows())

    def _tell_progress(self, opened: OpenRun, rows: Sequence[LossRow]) -> None:
        running = opened.running
        assert running
        left = max(0, running.settings.steps - running.step)
        tokens = running.settings.batch * running.settings.block
        values = {
            "state": self.state,
            "step": running.step,
            "steps": running.settings.steps,
            "seconds": running.state.seconds,
            "tokens_a_second": self._pace.a_second,
            "seconds_left": self._pace.seconds_for(left * tokens),
            "rate": running.settings.rate_at(running.step),
            "snapshots": opened.snapshots(),
            "notice": running.notice,
            "is_saved": running.is_saved,
            "final": _final(running),
        }
        self._send(Message("progress", values, curves(rows)))

    def _rest(self) -> None:
        """Pause, with a checkpoint."""
        self.state = "paused"
        self._save(TRIED_AT_END)

    def _save(self, then: str) -> None:
        if self.opened and self.opened.running and self.opened.is_held:
            self.opened.running.then = then
            self.opened.running.save()

    def _keep(self, then: str) -> None:
        """Write a checkpoint of steps that are not in one yet, as far as that is known."""
        running = self.opened.running if self.opened else None
        if self.state in {"running", "paused"} or (running and running.notice):
            self._save(then)  # there may be disk space by now

    def _step_to_go_on_from(self) -> int:
        return (self.opened and self.opened.folder.checkpoint_step()) or 0

    def _after_the_end(self) -> str:
        return f"The run goes on from step {self._step_to_go_on_from():,}."

    def end(self) -> None:
        """Write a checkpoint and end."""
        if not self.is_ended:
            self._keep(self._after_the_end())
            self._close()

    def _close(self, *, has_rested: bool = False) -> None:
        self.is_ended = True
        if self.state in {"running", "paused"}:
            self.state = "stopped"
        self.tell()
        if self.opened:
            self._forget_wishes(self.opened, has_rested)
            self.opened.close()

    def _forget_wishes(self, opened: OpenRun, has_rested: bool) -> None:
        """Remove the request files of this process from the run's folder, or say that it rested."""
        with suppress(OSError):
            if has_rested:
                opened.folder.stop.append(RESTED)
            elif opened.is_held:
                opened.folder.stop.unlink(missing_ok=True)
            if self.stays and not opened.is_held:  # nor are they of one that goes on after it
                opened.folder.orders.unlink(missing_ok=True)


_TAKE: dict[str, Callable[[TrainingServer, Mapping[str, Any]], None]] = {
    "open": TrainingServer._open,
    "run": TrainingServer._run,
    "pause": TrainingServer._pause,
    "step": TrainingServer._step,
    "stop": TrainingServer._stop,
    "end": TrainingServer._end,
    "leave": TrainingServer._leave,
    "lengthen": TrainingServer._lengthen,
    "read": TrainingServer._read,
    "layer": TrainingServer._layer,
    "save": TrainingServer._save_weights,
}


def _newest_model(opened: OpenRun) -> tuple[LanguageModel | None, int]:
    """Return the model as it is now or was last kept, and its step; None where none was."""
    if opened.running or opened.snapshots():
        return opened.model(None)
    if opened.folder.checkpoint.exists():
        with suppress(InputError):  # which is said once it is to be read
            return opened.model(None)
    return None, 0


def _exists(file: ContainedFile) -> bool:
    with suppress(OSError):  # of a folder that cannot be read at the moment
        return file.exists()
    return False


def _removed(file: ContainedFile) -> bool:
    with suppress(OSError):
        file.unlink()
        return True
    return False


def _final(running: TrainingRun | None) -> tuple[float, float] | None:
    return running.state.final if running else None


def _said(sentence: str) -> list[str]:
    return [sentence] if sentence else []
