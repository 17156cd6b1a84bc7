"""A run on the disk: a folder with what it is, its losses, checkpoint and snapshots; no torch.

Every file is whole or not there, but the losses, of which the last line may be cut off.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from stat import S_ISREG
from typing import TYPE_CHECKING

from visualizer.attention.choices import Device
from visualizer.attention.errors import InputError
from visualizer.disk.coding import Coding, DamagedError
from visualizer.disk.files import PART, write
from visualizer.language.settings import Decay, Kind, Model, Settings, Source, check
from visualizer.language.tokenizers import Tokenizer
from visualizer.language.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = 1
MOST_BYTES = 64 * 2**20
"""Of what says what a run is; most of it is the vocabulary."""
_KINDS = (Decay, Device, Kind, Model, Settings, Source, Tokenizer)
_CODING = Coding({kind.__name__: kind for kind in _KINDS})
_SNAPSHOT = re.compile(r"(\d{8})\.safetensors")


@dataclass(frozen=True, slots=True)
class About:
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

    settings: Settings
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


def plain(about: About) -> dict[str, object]:
    """Write what a run is as JSON has it."""
    return {"schema": SCHEMA, **_CODING.encode(about, About, "", {})}


def about_of(values: object) -> About:
    """Read what `plain` wrote.

    Raises
    ------
    DamagedError
        Naming what is wrong with it.
    """
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        raise DamagedError(f"is not of schema {SCHEMA}, which this program reads.")
    fields = {name: value for name, value in values.items() if name != "schema"}
    about: About = _CODING.decode(fields, About, "the run", {})
    try:
        check(about.settings)
    except InputError as refused:
        raise DamagedError(f"has settings that cannot be trained: {refused.sentence}") from refused
    return about


def plain_settings(settings: Settings) -> object:
    """Write settings as JSON has them."""
    return _CODING.encode(settings, Settings, "", {})


def settings_of(values: object) -> Settings:
    """Read settings that `plain_settings` wrote.

    Raises
    ------
    DamagedError
        Naming what is wrong with them.
    """
    settings: Settings = _CODING.decode(values, Settings, "the settings", {})
    return settings


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where the files of a run are."""

    path: Path

    @property
    def about(self) -> Path:
        """What the run is, in JSON."""
        return self.path / "run.json"

    @property
    def losses(self) -> Path:
        """A line of numbers a step."""
        return self.path / "losses.csv"

    @property
    def checkpoint(self) -> Path:
        """All that is needed to go on."""
        return self.path / "checkpoint.safetensors"

    @property
    def lock(self) -> Path:
        """Held by the program that trains it."""
        return self.path / "lock"

    @property
    def orders(self) -> Path:
        """What one that is to go on in the background is told, until it holds the run."""
        return self.path / "orders"

    @property
    def stop(self) -> Path:
        """Asks whoever trains it to stop, by being there."""
        return self.path / "stop"

    @property
    def probe(self) -> Path:
        """The text that was read last while one watched."""
        return self.path / "probe.txt"

    def snapshot(self, step: int) -> Path:
        """Give the file of the weights after so many steps."""
        return self.path / "snapshots" / f"{step:08d}.safetensors"

    def snapshots(self) -> tuple[int, ...]:
        """List the steps of which the weights are kept."""
        names = (_SNAPSHOT.fullmatch(file.name) for file in (self.path / "snapshots").glob("*"))
        return tuple(sorted(int(found[1]) for found in names if found))

    def begin(self, about: About) -> None:
        """Make the folder of a new run.

        Raises
        ------
        InputError
            Of ``folder``, when it is taken or cannot be written.
        """
        if self.about.exists():
            raise InputError("folder", f"There is a run in {self.path} already.")
        try:
            (self.path / "snapshots").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError("folder", f"{self.path} cannot be made: {reason}.") from error
        self.write_about(about)

    def tidy(self) -> None:
        """Remove what others left: a wish to stop, and files that were cut off by an end.

        Only for who holds the lock, as nobody else writes then.
        """
        for left in (self.stop, *self.path.rglob(f".*{PART}")):
            left.unlink(missing_ok=True)

    def write_about(self, about: About) -> None:
        """Write what the run is; see `visualizer.disk.files.write`."""
        text = json.dumps(plain(about), ensure_ascii=True, indent=1)
        write(self.about, lambda file: file.write(text.encode()))

    def read_about(self) -> About:
        """Read what the run is.

        Raises
        ------
        InputError
            Of ``folder``, when there is no run in it or it is damaged.
        """
        try:
            self._check_about()
            return about_of(json.loads(self.about.read_bytes()))
        except FileNotFoundError as error:
            raise InputError("folder", f"There is no run in {self.path}.") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError("folder", f"{self.about} cannot be read: {reason}.") from error
        except (DamagedError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, DamagedError) else "is no JSON."
            raise InputError("folder", f"“{self.about.name}” in {self.path} {why}") from error

    def _check_about(self) -> None:
        found = self.about.stat()
        if not S_ISREG(found.st_mode):  # a pipe would keep one waiting
            raise DamagedError("is no file.")
        if found.st_size > MOST_BYTES:
            raise DamagedError(f"is larger than {MOST_BYTES // 2**20} MiB, which no run’s is.")
