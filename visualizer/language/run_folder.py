"""The folder of a training run, with its files. This module does not import torch.

All files are written atomically, except for the loss log, whose last line may be truncated. A run
may come from an untrusted source, so links are not followed, and each file has a size limit.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.spec import Device
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError, system_error_reason
from visualizer.language.tokenizers import TokenizerKind, Vocabulary, tokenize
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    LearningRateDecay,
    ModelKind,
    TrainingSettings,
    check_settings,
)
from visualizer.storage.atomic_file import write_atomically
from visualizer.storage.json_codec import DamagedFileError, JsonCodec, format_short_value
from visualizer.storage.regular_file import file_version
from visualizer.storage.symlink_safe_folder import (
    LINK_ERROR,
    SymlinkSafeFile,
    SymlinkSafeFolder,
    escapes_folder,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from visualizer.storage.regular_file import FileVersion

SCHEMA_VERSION = 1
MAX_METADATA_BYTES = 64 * 2**20
"""Maximum size of the metadata file, in bytes; it consists largely of the vocabulary."""
MAX_HEADER_BYTES = 2 * MAX_METADATA_BYTES
"""Maximum size, in bytes, of a checkpoint's header: the escaped metadata and the trainer's state.
"""
MAX_CHECKPOINT_BYTES = 2**40
MAX_EXCERPT_CHARACTERS = 10_000
"""Maximum number of characters in the excerpt and in the notices, which are shown in full."""
IDLE_STOP_CONTENT = b"rested"
"""Content of the stop file if the process that was stopped was not training."""
MAX_STOP_REQUEST_BYTES = 1_000
_KINDS = (
    LearningRateDecay,
    Device,
    CorpusKind,
    ModelKind,
    TrainingSettings,
    CorpusSource,
    TokenizerKind,
)
_CODING = JsonCodec({kind.__name__: kind for kind in _KINDS})
MAX_SNAPSHOT_BYTES = 512 * 2**20
"""Maximum total size, in bytes, of the snapshots of a run; above it, every other one is removed."""
_SNAPSHOT_NAME = re.compile(r"([0-9]{8})\.safetensors")
_ATTENTION_NAME = re.compile(r"([0-9]{8})-([0-9]{1,4})\.npz")


class RunMetadata(Struct, frozen=True):
    """The metadata of a run, which is known before its first step.

    Parameters
    ----------
    tokens : tuple of str
        The vocabulary.
    frequency, bigram : float
        Validation losses, in nats per token, of the unigram and bigram baselines.
    sample : str
        Beginning of the text.
    fingerprint : str
        Digest of the text, used to detect changes.
    notices : tuple of str
        Notices about the text, each a complete sentence.
    """

    settings: TrainingSettings
    tokens: tuple[str, ...]
    frequency: float
    bigram: float
    sample: str
    fingerprint: str
    notices: tuple[str, ...] = ()

    __repr__ = brief_repr

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the run, which maps tokens to ids."""
        return Vocabulary(self.tokens, self.settings.source.effective_tokenizer)


MAX_PROBE_CHARACTERS, MAX_PROBE_WORDS = 32, 12


def choose_probe_text(sample: str, settings: TrainingSettings) -> str:
    """Return the default probe: a beginning of the training text that can be read at a glance."""
    line = next((line for line in sample.splitlines() if line.strip()), "")
    tokenizer = settings.source.effective_tokenizer
    most = MAX_PROBE_WORDS if tokenizer is TokenizerKind.WORDS else MAX_PROBE_CHARACTERS
    tokens = tokenize(line, tokenizer)[: min(most, settings.block)]
    return Vocabulary((), tokenizer).join_tokens(tokens)


def metadata_to_json(metadata: RunMetadata) -> dict[str, object]:
    """Encode run metadata as JSON values."""
    return {"schema": SCHEMA_VERSION, **_CODING.encode(metadata, RunMetadata, "", {})}


def metadata_from_json(values: object) -> RunMetadata:
    """Decode the result of `metadata_to_json`.

    Raises
    ------
    DamagedFileError
        With a message that names the invalid part.
    """
    if not isinstance(values, dict) or values.get("schema") != SCHEMA_VERSION:
        raise DamagedFileError(f"does not have the supported schema version {SCHEMA_VERSION}.")
    fields = {name: value for name, value in values.items() if name != "schema"}
    metadata: RunMetadata = _CODING.decode(fields, RunMetadata, "the run", {})
    try:
        check_settings(metadata.settings)
    except InputError as refused:
        raise DamagedFileError(f"has invalid training settings: {refused.sentence}") from refused
    for is_met, problem in _validity_checks(metadata):
        if not is_met:
            raise DamagedFileError(f"has {problem}.")
    return metadata


def _validity_checks(metadata: RunMetadata) -> Iterator[tuple[bool, str]]:
    """Yield whether each condition on a run's metadata is met, and the problem if it is not."""
    tokens = metadata.tokens
    yield len(tokens) > 0, "no tokens"
    if repeated := next((token for token, count in Counter(tokens).items() if count > 1), None):
        yield False, f"the token “{format_short_value(repeated)}” more than once in its vocabulary"
    yield all(tokens), "an empty token in its vocabulary"
    for name, loss in (("unigram", metadata.frequency), ("bigram", metadata.bigram)):
        yield 0 <= loss < math.inf, f"an invalid {name} baseline loss of {loss:g}"
    for name, texts in (("sample", (metadata.sample,)), ("notices", metadata.notices)):
        count = sum(map(len, texts))
        yield (
            count <= MAX_EXCERPT_CHARACTERS,
            f"{count:,} characters in its {name}; the maximum is {MAX_EXCERPT_CHARACTERS:,}",
        )


def settings_to_json(settings: TrainingSettings) -> object:
    """Encode settings as JSON values."""
    return _CODING.encode(settings, TrainingSettings, "", {})


def settings_from_json(values: object) -> TrainingSettings:
    """Decode the result of `settings_to_json`.

    Raises
    ------
    DamagedFileError
        With a message that names the invalid setting.
    """
    settings: TrainingSettings = _CODING.decode(values, TrainingSettings, "the settings", {})
    return settings


class RunFolder(Struct, frozen=True):
    """The files of a run."""

    path: Path

    @property
    def _root(self) -> SymlinkSafeFolder:
        return SymlinkSafeFolder(self.path, is_private=True)

    @property
    def _snapshot_folder(self) -> SymlinkSafeFolder:
        return SymlinkSafeFolder(self.path, "snapshots", is_private=True)

    @property
    def metadata_file(self) -> SymlinkSafeFile:
        """The run's metadata, in JSON."""
        return self._root.file("run.json")

    @property
    def recording_file(self) -> SymlinkSafeFile:
        """The metadata, in JSON, of a run that was recorded in another program."""
        return self._root.file("recording.json")

    @property
    def loss_log_file(self) -> SymlinkSafeFile:
        """The loss log, which has one line per step."""
        return self._root.file("losses.csv")

    @property
    def checkpoint_file(self) -> SymlinkSafeFile:
        """The file with the latest checkpoint."""
        return self._root.file("checkpoint.safetensors")

    def largest_weights_file(self) -> SymlinkSafeFile | None:
        """Return the largest checkpoint or snapshot file, or None if there is none."""
        files = [self.checkpoint_file, *map(self.snapshot_file, self.snapshot_steps())]
        sizes: dict[int, SymlinkSafeFile] = {}
        for file in files:
            with suppress(OSError):  # the file has been removed, or is not a regular file
                sizes[file.stat().st_size] = file
        return sizes[max(sizes)] if sizes else None

    def checkpoint_step(self) -> int | None:
        """Return the step from which the run resumes, which is 0 without a checkpoint.

        The result is None if the checkpoint cannot be read.
        """
        try:
            with self.checkpoint_file.open(MAX_CHECKPOINT_BYTES) as file:
                length = int.from_bytes(file.read(8), "little")
                # A safetensors file starts with the length of its JSON header, in 8 bytes.
                header = json.loads(file.read(min(length, MAX_HEADER_BYTES)))
            return int(json.loads(header["__metadata__"]["checkpoint"])["step"])
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    @property
    def lock_file(self) -> SymlinkSafeFile:
        """The file that is locked by the program that trains the run."""
        return self._root.file("lock")

    @property
    def recording_lock_file(self) -> SymlinkSafeFile:
        """The file that is locked by the program that records the run.

        The folder of a recording may contain other files, so the name belongs to this program.
        """
        return self._root.file("recording.lock")

    @property
    def orders_file(self) -> SymlinkSafeFile:
        """The messages for a background training process that has not acquired the lock yet."""
        return self._root.file("orders")

    @property
    def log_file(self) -> SymlinkSafeFile:
        """The output of the last background training process."""
        return self._root.file("background.log")

    @property
    def stop_file(self) -> SymlinkSafeFile:
        """The stop request: when this file exists, the training process stops.

        A process that was not training does not remove the file but writes `IDLE_STOP_CONTENT` to
        it.
        """
        return self._root.file("stop")

    def withdraw_stop_request(self) -> bool:
        """Remove the stop request; return False if there is none or it cannot be removed."""
        with suppress(OSError):
            self.stop_file.unlink()
            return True
        return False

    @property
    def was_stopped_while_idle(self) -> bool:
        """Whether the process that was asked to stop was not training."""
        with suppress(OSError), self.stop_file.open(MAX_STOP_REQUEST_BYTES) as file:
            return file.read().startswith(IDLE_STOP_CONTENT)
        return False

    @property
    def probe_file(self) -> SymlinkSafeFile:
        """The text that was last used as a probe."""
        return self._root.file("probe.txt")

    def snapshot_file(self, step: int) -> SymlinkSafeFile:
        """Return the file of the weights after ``step`` steps."""
        return self._snapshot_folder.file(f"{step:08d}.safetensors")

    def snapshot_steps(self) -> tuple[int, ...]:
        """List the steps with snapshots; empty if the snapshot folder cannot be read."""
        with suppress(OSError):
            return self._list_snapshot_steps()
        return ()

    def _list_snapshot_steps(self) -> tuple[int, ...]:
        names = map(_SNAPSHOT_NAME.fullmatch, self._snapshot_folder.list_names())
        return tuple(sorted(int(found[1]) for found in names if found))

    def attention_file(self, step: int, text: int) -> SymlinkSafeFile:
        """Return the file of the attention for a text, counted from 0, after ``step`` steps."""
        return self._snapshot_folder.file(f"{step:08d}-{text + 1}.npz")

    def attention_steps(self, texts: int) -> tuple[int, ...]:
        """List the steps for which the attention of all texts was written."""
        found: Counter[int] = Counter()
        with suppress(OSError):
            for name in self._list_attention_names():
                found[int(name[1])] += 1 <= int(name[2]) <= texts
        return tuple(sorted(step for step, count in found.items() if count == texts))

    def _list_attention_names(self) -> Iterator[re.Match[str]]:
        names = map(_ATTENTION_NAME.fullmatch, self._snapshot_folder.list_names())
        return filter(None, names)

    def delete_recording(self) -> None:
        """Delete the files of a recorded run; other files in its folder are kept.

        Raises
        ------
        OSError
            If a file cannot be deleted.
        """
        for name in self._list_attention_names():
            self._snapshot_folder.file(name[0]).unlink(missing_ok=True)
        with suppress(OSError):  # the folder does not exist, or contains other files
            self._snapshot_folder.path.rmdir()
        # The metadata is deleted last, so that a partly deleted folder is still a recorded run.
        for file in (self.loss_log_file, self.recording_lock_file, self.recording_file):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def create_run(self, metadata: RunMetadata) -> None:
        """Create the folder of a new run.

        Raises
        ------
        InputError
            With field ``folder`` if the folder already contains a run or cannot be written to.
        """
        self.create_folders()
        if self.metadata_file.exists():
            raise InputError("folder", f"{self.path} already contains a run.")
        self.check_no_links()
        self.write_metadata(metadata)

    def create_folders(self) -> None:
        """Create the folder and its snapshot folder if they are missing.

        Raises
        ------
        InputError
            With field ``folder`` if the folders cannot be created.
        """
        try:
            self._snapshot_folder.create_folder()
        except OSError as error:
            sentence = f"Cannot create {self.path}: {system_error_reason(error)}."
            raise InputError("folder", sentence) from error

    def create_write_error(self, error: OSError) -> InputError:
        """Return the error, with field ``folder``, for a folder that cannot be written to."""
        return InputError("folder", f"Cannot write to {self.path}: {system_error_reason(error)}.")

    def check_no_links(self) -> None:
        """Reject a folder in which one of the run's files is a link; nothing is written.

        Raises
        ------
        InputError
            With field ``folder``; the message names the link, or an entry that cannot be read.
        """
        own = (
            self.metadata_file,
            self.recording_file,
            self.loss_log_file,
            self.checkpoint_file,
            self.lock_file,
            self.recording_lock_file,
            self.orders_file,
            self.log_file,
        )
        wrong: SymlinkSafeFile | SymlinkSafeFolder = self._snapshot_folder
        try:
            snapshots = map(self.snapshot_file, self._list_snapshot_steps())
            for file in (*own, self.stop_file, self.probe_file, *snapshots):
                wrong = file
                with suppress(FileNotFoundError):
                    file.stat()
        except OSError as error:
            name = wrong.path.relative_to(self.path)
            sentence = f"Cannot use “{name}” in {self.path}: {system_error_reason(error)}."
            raise InputError("folder", sentence) from error

    def check_export_path(self, path: Path) -> None:
        """Reject an export path that leads out of the folder through a link.

        Raises
        ------
        InputError
            With field ``export``.
        """
        if escapes_folder(self.path, path):
            sentence = f"Cannot write “{path.name}” to {path.parent}: {LINK_ERROR}."
            raise InputError("export", sentence)

    def file_versions(self) -> tuple[FileVersion | None, ...]:
        """Return the versions of the files that change when another program trains the run."""
        return tuple(
            map(_file_version, (self.metadata_file, self.checkpoint_file, self.loss_log_file))
        )

    def remove_leftover_files(self) -> None:
        """Remove the stop request and the temporary files that other processes have left behind.

        Only the holder of the lock may call this method.
        """
        self.stop_file.unlink(missing_ok=True)
        self.remove_temporary_files()

    def remove_temporary_files(self) -> None:
        """Remove the temporary files that other processes have left behind."""
        for folder in (self._root, self._snapshot_folder):
            folder.remove_temporary_files()

    def write_metadata(self, metadata: RunMetadata) -> None:
        """Write the metadata; see `visualizer.storage.atomic_file.write_atomically`."""
        text = json.dumps(metadata_to_json(metadata), ensure_ascii=True, indent=1)
        write_atomically(self.metadata_file, lambda file: file.write(text.encode()))

    def read_metadata(self) -> RunMetadata:
        """Check the folder, and read its metadata.

        Raises
        ------
        InputError
            With field ``folder`` if the folder contains no run, or if the run is damaged or has
            invalid settings.
        """
        self.check_no_links()
        try:
            return metadata_from_json(json.loads(self.metadata_file.read_bytes(MAX_METADATA_BYTES)))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError("folder", f"“{self.path}” does not contain a run.") from error
        except OSError as error:
            sentence = f"Cannot read {self.metadata_file.path}: {system_error_reason(error)}."
            raise InputError("folder", sentence) from error
        except (DamagedFileError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, DamagedFileError) else "is not valid JSON."
            raise InputError(
                "folder", f"“{self.metadata_file.name}” in {self.path} {why}"
            ) from error


def superfluous_steps(steps: Sequence[int], snapshot_bytes: int) -> Sequence[int]:
    """Return every other step if snapshots of this size exceed `MAX_SNAPSHOT_BYTES` in total."""
    is_too_large = snapshot_bytes * len(steps) > MAX_SNAPSHOT_BYTES and len(steps) > 2
    return steps[1:-1:2] if is_too_large else ()


def _file_version(file: SymlinkSafeFile) -> FileVersion | None:
    try:
        return file_version(file.stat())
    except OSError:
        return None
