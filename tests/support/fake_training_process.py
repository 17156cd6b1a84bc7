"""A fake training process with the protocol of the real one, without torch."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from visualizer.language.run_folder import (
    IDLE_STOP_CONTENT,
    RunFolder,
    RunMetadata,
    settings_from_json,
    settings_to_json,
)
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.storage.file_lock import FileLock

if TYPE_CHECKING:
    from visualizer.language.training_settings import TrainingSettings

TOKENS = tuple("abcdefgh")
SAMPLE = "abcdabcd\nefghefgh"


class Fake:
    """One run; steps take no time, and there are ten between two messages."""

    def __init__(self) -> None:
        self.heard: queue.Queue[Message | None] = queue.Queue()
        self.state, self.step, self.until = "paused", 0, 0
        self.goes_on, self.is_full, self.notice = False, False, ""
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self) -> None:
        unpacker = MessageUnpacker()
        while piece := os.read(0, 1 << 16):
            for message in unpacker.unpack_piece(piece):
                self.heard.put(message)
        self.heard.put(None)

    def say(self, says: str, arrays: dict[str, Any] | None = None, **values: Any) -> None:
        if not self.goes_on:
            sys.stdout.buffer.write(Message(says, values, arrays or {}).pack())
            sys.stdout.buffer.flush()

    def serve(self) -> None:
        while True:
            try:
                message = self.heard.get(timeout=0.002 if self.state == "running" else 0.05)
            except queue.Empty:
                if self.folder_says_stop():
                    return
                self.resume()
                continue
            if message is None and not self.goes_on:
                return
            if message is None or getattr(self, f"hear_{message.kind}")(**message.values) == "end":
                if message is not None:
                    return
                while not self.folder_says_stop() and self.state == "running":
                    self.resume()
                return

    def folder_says_stop(self) -> bool:
        with suppress(OSError):
            if hasattr(self, "lock") and self.state == "running":
                self.folder.stop_file.unlink()
                return True
            if hasattr(self, "lock") and self.folder.stop_file.exists():
                self.folder.stop_file.append(IDLE_STOP_CONTENT)
                return True
        return False

    def resume(self) -> None:
        if self.state != "running":
            return
        self.advance(min(10, self.until - self.step))
        if self.step >= self.until:
            self.state = "done" if self.step >= self.settings.steps else "paused"
        self.progress()

    def advance(self, count: int) -> None:
        self.new = np.arange(self.step, self.step + count)
        self.step += count

    def progress(self) -> None:
        new = self.new
        losses = 3 / (1 + new / 50)
        arrays = {
            "steps": new,
            "training": losses,
            "rates": np.full(len(new), self.settings.rate),
            "validation_steps": new[:1],
            "validation": losses[:1] + 0.1,
        }
        self.new = new[:0]
        self.say(
            "progress",
            arrays,
            state=self.state,
            step=self.step,
            seconds=self.step / 100,
            tokens_per_second=12_345.0,
            seconds_left=(self.settings.steps - self.step) / 100,
            rate=self.settings.rate,
            snapshots=self.snapshots(),
            is_saved=not self.is_full,
            notice=self.notice,
        )

    def snapshots(self) -> list[int]:
        return list(range(0, self.step + 1, 10))

    # ------------------------------------------------------------------ requests

    def hear_open(self, folder: str, settings: Any) -> str | None:
        self.folder = RunFolder(Path(folder))
        if settings:
            self.settings: TrainingSettings = settings_from_json(settings)
            if self.settings.seed == 13:
                self.say("refused", id=None, field="block", sentence="The text is too short.")
                return None
            self.folder.create_run(RunMetadata(self.settings, TOKENS, 2.0, 1.5, SAMPLE, "print"))
        metadata = self.folder.read_metadata()
        self.settings = metadata.settings
        saved = self.folder.path / "step.json"
        self.step = json.loads(saved.read_text()) if saved.exists() else 0
        self.new = np.arange(0)
        past = np.arange(self.step)
        self.say(
            "opened",
            {
                "steps": past,
                "training": 3 / (1 + past / 50),
                "rates": np.full(len(past), 0.001),
                "validation_steps": past[:1],
                "validation": past[:1] + 3.1,
            },
            settings=settings_to_json(self.settings),
            step=self.step,
            tokens=list(TOKENS),
            parameters=1234,
            device="CPU",
            frequency=2.0,
            bigram=1.5,
            snapshots=self.snapshots(),
            notices=[],
            sample=SAMPLE,
            state="done" if self.step >= self.settings.steps else "paused",
        )
        return None

    def hold(self) -> None:
        if not hasattr(self, "lock"):
            self.lock = FileLock(self.folder.lock_file.path)
            self.folder.remove_leftover_files()
            # Orders of other processes are leftovers. If its own orders are missing, it stops.
            self.folder.orders_file.unlink(missing_ok=not self.goes_on)

    def hear_run(self) -> None:
        self.hold()
        if self.settings.seed == 9:
            sys.stderr.write("Traceback: out of cheese\n")
            os.kill(os.getpid(), 9)
        self.is_full = self.settings.seed == 28  # the disk is full; 28 is the number of that error
        self.state, self.until = "running", self.settings.steps

    def hear_pause(self) -> None:
        self.state = "paused"
        self.progress()

    def hear_step(self, count: int = 1) -> None:
        self.hold()
        self.state, self.until = "running", self.step + count

    def hear_lengthen(self, steps: int) -> None:
        self.hold()
        self.settings = replace(self.settings, steps=steps)
        self.folder.write_metadata(replace(self.folder.read_metadata(), settings=self.settings))
        self.state = "paused" if self.state == "done" and self.step < steps else self.state
        self.progress()

    def hear_leave(self) -> None:
        self.goes_on = True

    def hear_stop(self) -> str | None:
        if self.is_full and not self.notice:
            self.notice = "The training was not ended."
            self.state = "paused"
            self.say("not_ended")
            self.progress()
            return None
        return "end"

    def hear_read(self, id: int, text: str, step: int | None) -> None:  # noqa: A002
        unknown = [token for token in text if token not in TOKENS]
        if unknown:
            self.say("refused", id=id, field="text", sentence=f"“{unknown[0]}” is not known.")
            return
        if step is not None and step not in self.snapshots():
            self.say("refused", id=id, field="step", sentence=f"Step {step} is not kept.")
            return
        cut = max(0, len(text) - self.settings.block)
        text, now = text[cut:], self.step if step is None else step
        count = len(text)
        weights = np.tril(np.ones((2, 2, count, count)))
        weights /= weights.sum(-1, keepdims=True)
        rng = np.random.default_rng(now)
        arrays = {
            "weights": weights.astype(np.float32),
            "logits": rng.normal(size=(count, len(TOKENS))).astype(np.float32),
            "partner_weights": rng.random((2, 2)),
        }
        said = {"id": id, "step": now, "tokens": list(text), "layers": 2, "heads": 2, "cut": cut}
        self.say("read", arrays, **said)

    def hear_save(self, id: int, path: str, step: int | None) -> None:  # noqa: A002
        Path(path).write_bytes(b"weights")
        self.say("said", id=id)

    def end(self) -> None:
        if hasattr(self, "lock"):
            (self.folder.path / "step.json").write_text(json.dumps(self.step))
            lines = [
                f"{at},{3 / (1 + at / 50)!r},,0.001,{at / 100:.3f}\n" for at in range(self.step)
            ]
            text = "step,training,validation,rate,seconds\n" + "".join(lines)
            self.folder.loss_log_file.path.write_text(text)
            self.folder.stop_file.unlink(missing_ok=True)
            self.lock.release()


if __name__ == "__main__":
    fake = Fake()
    fake.serve()
    fake.end()
