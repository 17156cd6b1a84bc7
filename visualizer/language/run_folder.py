"""A run on the disk: a folder with what it is, its losses, checkpoint and snapshots; no torch.

Every file is whole or not there, but the losses, of which the last line may be cut off. A run may
come from others: none of its files is reached through a link, and each has a largest size.

Which weights of a training are kept, and for how long; no torch.
"""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.language.tokenizers import Tokenizer, Vocabulary
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    LearningRateDecay,
    ModelKind,
    TrainingSettings,
    check,
)
from visualizer.storage.atomic_file import write
from visualizer.storage.contained_folder import (
    LINK,
    ContainedFile,
    ContainedFolder,
    leads_elsewhere,
)
from visualizer.storage.json_coding import DamagedError, JsonCoding

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
MOST_BYTES = 64 * 2**20
"""Of what says what a run is; most of it is the vocabulary."""
_KINDS = (
    LearningRateDecay,
    Device,
    CorpusKind,
    ModelKind,
    TrainingSettings,
    CorpusSource,
    Tokenizer,
)
_CODING = JsonCoding({kind.__name__: kind for kind in _KINDS})
_SNAPSHOT = re.compile(r"([0-9]{8})\.safetensors")

Version = tuple[int, int, int]
"""What tells whether a file was changed: its number, when it was written, its size."""


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """What a run is, known before its first step.

    Parameters
    ----------
    tokens : tuple of str
        The vocabulary.
    frequency, bigram : float
        Validation loss, in nats a token, of guessing by how often tokens, or pairs of them, come.
    sample : str
        How the text begins.
    fingerprint : str
        Of the text, to know it again.
    notices : tuple of str
        What should be known of the text, in sentences.
    """

    settings: TrainingSettings
    tokens: tuple[str, ...]
    frequency: float
    bigram: float
    sample: str
    fingerprint: str
    notices: tuple[str, ...] = ()

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens with their numbers."""
        return Vocabulary(self.tokens, self.settings.source.tokenizer)


def plain(about: RunMetadata) -> dict[str, object]:
    """Write what a run is as JSON has it."""
    return {"schema": SCHEMA, **_CODING.encode(about, RunMetadata, "", {})}


def about_of(values: object) -> RunMetadata:
    """Read what `plain` wrote.

    Raises
    ------
    DamagedError
        Naming what is wrong with it.
    """
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise DamagedError(f"is not of schema {SCHEMA}, which this program reads.")
    fields = {name: value for name, value in values.items() if name != "schema"}
    about: RunMetadata = _CODING.decode(fields, RunMetadata, "the run", {})
    try:
        check(about.settings)
    except InputError as refused:
        raise DamagedError(f"has settings that cannot be trained: {refused.sentence}") from refused
    return about


def plain_settings(settings: TrainingSettings) -> object:
    """Write settings as JSON has them."""
    return _CODING.encode(settings, TrainingSettings, "", {})


def settings_of(values: object) -> TrainingSettings:
    """Read settings that `plain_settings` wrote.

    Raises
    ------
    DamagedError
        Naming what is wrong with them.
    """
    settings: TrainingSettings = _CODING.decode(values, TrainingSettings, "the settings", {})
    return settings


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where the files of a run are."""

    path: Path

    @property
    def _top(self) -> ContainedFolder:
        return ContainedFolder(self.path)

    @property
    def _kept(self) -> ContainedFolder:
        return ContainedFolder(self.path, "snapshots")

    @property
    def about(self) -> ContainedFile:
        """What the run is, in JSON."""
        return self._top.file("run.json")

    @property
    def losses(self) -> ContainedFile:
        """A line of numbers a step."""
        return self._top.file("losses.csv")

    @property
    def checkpoint(self) -> ContainedFile:
        """All that is needed to go on."""
        return self._top.file("checkpoint.safetensors")

    @property
    def lock(self) -> ContainedFile:
        """Held by the program that trains it."""
        return self._top.file("lock")

    @property
    def orders(self) -> ContainedFile:
        """What one that is to go on in the background is told, until it holds the run."""
        return self._top.file("orders")

    @property
    def log(self) -> ContainedFile:
        """What one that goes on in the background printed last."""
        return self._top.file("background.log")

    @property
    def stop(self) -> ContainedFile:
        """Asks whoever trains it to stop, by being there."""
        return self._top.file("stop")

    @property
    def probe(self) -> ContainedFile:
        """The text that was read last while one watched."""
        return self._top.file("probe.txt")

    def snapshot(self, step: int) -> ContainedFile:
        """Give the file of the weights after so many steps."""
        return self._kept.file(f"{step:08d}.safetensors")

    def snapshots(self) -> tuple[int, ...]:
        """List the steps of which the weights are kept; none where their folder cannot be read."""
        with suppress(OSError):
            return self._listed()
        return ()

    def _listed(self) -> tuple[int, ...]:
        names = map(_SNAPSHOT.fullmatch, self._kept.names())
        return tuple(sorted(int(found[1]) for found in names if found))

    def begin(self, about: RunMetadata) -> None:
        """Make the folder of a new run.

        Raises
        ------
        InputError
            Of ``folder``, when it is taken or cannot be written.
        """
        self.make()
        if self.about.exists():
            raise InputError("folder", f"There is a run in {self.path} already.")
        self.check()
        self.write_about(about)

    def make(self) -> None:
        """Have the folder and that of its snapshots be there.

        Raises
        ------
        InputError
            Of ``folder``, when they cannot be made.
        """
        try:
            self._kept.make()
        except OSError as error:
            raise InputError("folder", f"{self.path} cannot be made: {_reason(error)}.") from error

    def check(self) -> None:
        """Refuse a folder of which a file could lead elsewhere; nothing is written.

        Raises
        ------
        InputError
            Of ``folder``, naming what is no file or folder of its own.
        """
        own = (self.about, self.losses, self.checkpoint, self.lock, self.orders, self.log)
        wrong: ContainedFile | ContainedFolder = self._kept
        try:
            snapshots = map(self.snapshot, self._listed())
            for file in (*own, self.stop, self.probe, *snapshots):
                wrong = file
                with suppress(FileNotFoundError):
                    file.stat()
        except OSError as error:
            name = wrong.path.relative_to(self.path)
            sentence = f"“{name}” in {self.path} cannot be used: {_reason(error)}."
            raise InputError("folder", sentence) from error

    def check_export(self, path: Path) -> None:
        """Refuse a file to be written in the folder that leads elsewhere through a link.

        Raises
        ------
        InputError
            Of ``export``.
        """
        if leads_elsewhere(self.path, path):
            sentence = f"“{path.name}” could not be written to {path.parent}: {LINK}."
            raise InputError("export", sentence)

    def versions(self) -> tuple[Version | None, ...]:
        """Tell what would be different if another program had trained the run."""
        return tuple(map(_version, (self.about, self.checkpoint, self.losses)))

    def tidy(self) -> None:
        """Remove what others left: a wish to stop, and files that were cut off by an end.

        Only for who holds the lock, as nobody else writes then.
        """
        self.stop.unlink(missing_ok=True)
        for folder in (self._top, self._kept):
            folder.remove_parts()

    def write_about(self, about: RunMetadata) -> None:
        """Write what the run is; see `visualizer.storage.atomic_file.write`."""
        text = json.dumps(plain(about), ensure_ascii=True, indent=1)
        write(self.about, lambda file: file.write(text.encode()))

    def read_about(self) -> RunMetadata:
        """Read what the run is, of a folder in which nothing leads elsewhere.

        Raises
        ------
        InputError
            Of ``folder``, when there is no run in it, or it is damaged or not to be used.
        """
        self.check()
        try:
            return about_of(json.loads(self.about.read_bytes(MOST_BYTES)))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError("folder", f"There is no run in {self.path}.") from error
        except OSError as error:
            sentence = f"{self.about.path} cannot be read: {_reason(error)}."
            raise InputError("folder", sentence) from error
        except (DamagedError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, DamagedError) else "is no JSON."
            raise InputError("folder", f"“{self.about.name}” in {self.path} {why}") from error


def _version(file: ContainedFile) -> Version | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


GROWTH = 1.08
"""From one snapshot to the next, the steps grow by this: their times are even on a log axis."""
MOST_SNAPSHOT_BYTES = 512 * 2**20
"""Of all snapshots of a run; every other one goes when there are more."""


def is_first(step: int, growth: float) -> bool:
    """Whether a number of steps is the first in its growth: such are even on a log axis."""
    return step < 2 or int(math.log(step, growth)) > int(math.log(step - 1, growth))


def thin(folder: RunFolder) -> None:
    """Leave out every other snapshot, where they take too much room together."""
    kept = folder.snapshots()
    size = folder.snapshot(kept[-1]).stat().st_size
    if size * len(kept) > MOST_SNAPSHOT_BYTES and len(kept) > 2:
        for step in kept[1:-1:2]:
            folder.snapshot(step).unlink(missing_ok=True)


def forget_after(folder: RunFolder, step: int) -> None:
    """Leave out snapshots of steps that come again."""
    for kept in folder.snapshots():
        if kept > step:
            folder.snapshot(kept).unlink(missing_ok=True)
