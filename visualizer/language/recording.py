"""Recordings of the attention of a model that is trained in another program; imports no torch.

A recording is the folder of a run with the metadata in ``recording.json``, the losses in
``losses.csv``, and one file ``snapshots/00000100-1.npz`` per recorded step and text. Each of these
files contains ``weights`` [layer, head, query, key] and ``tokens``, and can be opened by itself.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from msgspec import Struct

from visualizer.attention.importers.numpy_files import list_npz_arrays
from visualizer.attention.roles import Role
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError, system_error_reason
from visualizer.language.loss_log import MAX_FILE_BYTES, LossLog, LossRow, parse_loss_rows
from visualizer.language.run_folder import (
    MAX_METADATA_BYTES,
    MAX_SNAPSHOT_BYTES,
    superfluous_steps,
)
from visualizer.storage.atomic_file import write_atomically
from visualizer.storage.file_lock import FileLock, is_held
from visualizer.storage.json_codec import DamagedFileError, JsonCodec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from visualizer.language.run_folder import RunFolder

SCHEMA_VERSION = 1
MAX_RECORDED_TEXTS = 1_000
MAX_STEP_BYTES = MAX_SNAPSHOT_BYTES // 4
"""Maximum size, in bytes, of the weights that are recorded at a step."""
TOKENS_NAME = "tokens"
"""Name of the array of tokens in a file; importers of tensor files know it as well."""


class RecordedTextTokens(Struct, frozen=True):
    """A text on which a model is run, and its tokens."""

    text: str
    tokens: tuple[str, ...]


class RecordingMetadata(Struct, frozen=True):
    """The metadata of a recording.

    Parameters
    ----------
    model : str
        Name of the model.
    texts : tuple of RecordedTextTokens
        The texts on which the model is run; all of them are different.
    every : int
        Number of training steps between snapshots.
    layers, heads : int
        Number of attention layers, and of heads per layer.
    parameters : int
        Number of the model's parameters.
    """

    model: str
    texts: tuple[RecordedTextTokens, ...]
    every: int
    layers: int
    heads: int
    parameters: int

    __repr__ = brief_repr

    def index_of_text(self, text: str) -> int:
        """Return the index of a text.

        Raises
        ------
        InputError
            With field ``text`` if the text was not recorded.
        """
        for at, each in enumerate(self.texts):
            if each.text == text:
                return at
        raise InputError("text", "This text was not recorded. Select one of the recorded texts.")


_CODING = JsonCodec({kind.__name__: kind for kind in (RecordedTextTokens, RecordingMetadata)})


def check_step_size(size: int) -> None:
    """Raise an `InputError` with field ``texts`` if the weights at a step have too many bytes."""
    if size > MAX_STEP_BYTES:
        sentence = (
            f"The attention weights for texts take {size / 2**20:,.0f} MiB per snapshot; the "
            f"maximum is {MAX_STEP_BYTES // 2**20} MiB. Pass fewer or shorter texts."
        )
        raise InputError("texts", sentence)


def is_recording(folder: RunFolder) -> bool:
    """Return whether a folder contains a recording."""
    with suppress(OSError):
        return folder.recording_file.exists()
    return False


def read_recording_metadata(folder: RunFolder) -> RecordingMetadata:
    """Read the metadata of a recording.

    Raises
    ------
    InputError
        With field ``folder`` if the folder contains no recording, or if it is damaged.
    """
    folder.check_no_links()
    file = folder.recording_file
    try:
        return _metadata_from_json(json.loads(file.read_bytes(MAX_METADATA_BYTES)))
    except (FileNotFoundError, NotADirectoryError) as error:
        sentence = f"“{folder.path}” does not contain a recorded run."
        raise InputError("folder", sentence) from error
    except OSError as error:
        sentence = f"Cannot read {file.path}: {system_error_reason(error)}."
        raise InputError("folder", sentence) from error
    except (DamagedFileError, ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, DamagedFileError) else "is not valid JSON."
        raise InputError("folder", f"“{file.name}” in {folder.path} {why}") from error


def _metadata_from_json(values: object) -> RecordingMetadata:
    if not isinstance(values, dict) or values.get("schema") != SCHEMA_VERSION:
        raise DamagedFileError(f"does not have the supported schema version {SCHEMA_VERSION}.")
    fields = {name: value for name, value in values.items() if name != "schema"}
    metadata: RecordingMetadata = _CODING.decode(fields, RecordingMetadata, "the recording", {})
    if not 1 <= len(metadata.texts) <= MAX_RECORDED_TEXTS:
        raise DamagedFileError(f"has {len(metadata.texts):,} texts.")
    if len({each.text for each in metadata.texts}) < len(metadata.texts):
        raise DamagedFileError("has the same text twice.")
    return metadata


def recorded_steps(folder: RunFolder) -> tuple[int, ...]:
    """List the steps of a recording; errors are those of `read_recording_metadata`."""
    return folder.attention_steps(len(read_recording_metadata(folder).texts))


class RecordingWriter:
    """Writes a recording, which other programs can read at the same time.

    Parameters
    ----------
    folder : RunFolder
        Folder of the new or existing recording.
    metadata : RecordingMetadata
        Metadata of the recording.
    first_step : int or None
        Number of training steps that were completed before; the snapshots and losses of later steps
        are removed from an existing recording. None to reject an existing recording.

    Raises
    ------
    InputError
        With field ``to`` if the folder contains another run or cannot be written to; with field
        ``held`` if another program records to the folder.
    """

    def __init__(
        self, folder: RunFolder, metadata: RecordingMetadata, first_step: int | None = None
    ) -> None:
        self._folder, self._texts = folder, len(metadata.texts)
        try:
            self._open_folder(metadata, first_step)
        except InputError as error:
            if error.field not in ("folder", "export"):
                raise
            raise InputError("to", error.sentence) from error

    def _open_folder(self, metadata: RecordingMetadata, first_step: int | None) -> None:
        folder = self._folder
        folder.create_folders()
        folder.check_no_links()
        try:
            self._lock = FileLock(folder.recording_lock_file.path)
        except BlockingIOError as error:
            sentence = f"{folder.path} is already being recorded, by this program or another one."
            how = "Close the other recorder, or choose another folder."
            raise InputError("held", f"{sentence} {how}") from error
        except OSError as error:
            raise folder.create_write_error(error) from error
        try:
            self._check_other_recording(metadata, first_step)
            folder.remove_temporary_files()
            self._losses = LossLog(folder.loss_log_file)
            # The measurements at the first step were taken after the last step before.
            rows = self._losses.read_rows_before(0 if first_step is None else first_step + 1)
            self._losses.remove_unread_rows()
            self._resumed_row = rows[-1] if rows and rows[-1].step == first_step else None
            if first_step is not None:
                self._remove_snapshots_after(first_step)
            self._write_metadata(metadata)
        except OSError as error:
            self._lock.release()
            raise folder.create_write_error(error) from error
        except BaseException:
            self._lock.release()
            raise

    def _check_other_recording(self, metadata: RecordingMetadata, first_step: int | None) -> None:
        folder = self._folder
        if folder.metadata_file.exists():
            sentence = f"{folder.path} contains a run of the language lab. Choose another folder."
            raise InputError("to", sentence)
        if not is_recording(folder):
            if folder.loss_log_file.exists():
                name = folder.loss_log_file.name
                sentence = f"{folder.path} contains a file “{name}”, but no recorded run."
                raise InputError("to", f"{sentence} Choose another folder.")
            return
        if first_step is None:
            steps = folder.attention_steps(self._texts)
            until = f" up to step {steps[-1]:,}" if steps else ""
            raise InputError(
                "to",
                f"{folder.path} already contains a recorded run{until}. Choose another folder, or "
                "pass resume=True to continue it.",
            )
        before = read_recording_metadata(folder)
        if before.texts != metadata.texts:
            sentence = f"The run in {folder.path} was recorded with other texts or tokens."
            raise InputError("texts", f"{sentence} Pass the same texts, or choose another folder.")
        if (before.layers, before.heads) != (metadata.layers, metadata.heads):
            raise InputError(
                "model",
                f"The model of the run in {folder.path} has {before.layers} layers × "
                f"{before.heads} heads, but this model has {metadata.layers} × {metadata.heads}. "
                "Choose another folder.",
            )

    def _remove_snapshots_after(self, step: int) -> None:
        for later in self._folder.attention_steps(self._texts):
            if later > step:
                self._remove_snapshot(later)

    def _remove_snapshot(self, step: int) -> None:
        for text in range(self._texts):
            self._folder.attention_file(step, text).unlink(missing_ok=True)

    def _write_metadata(self, metadata: RecordingMetadata) -> None:
        values = _CODING.encode(metadata, RecordingMetadata, "", {})
        text = json.dumps({"schema": SCHEMA_VERSION, **values}, ensure_ascii=True, indent=1)
        write_atomically(self._folder.recording_file, lambda file: file.write(text.encode()))

    def write_snapshot(
        self, step: int, weights: Sequence[np.ndarray], tokens: Sequence[tuple[str, ...]]
    ) -> None:
        """Write the weights [layer, head, query, key] for each text after a number of steps.

        If all snapshots exceed `MAX_SNAPSHOT_BYTES` in total, every other one is removed.

        Raises
        ------
        InputError
            With field ``export`` or ``folder`` if a file cannot be written or removed.
        """
        for text, (each, words) in enumerate(zip(weights, tokens, strict=True)):
            arrays = {Role.WEIGHTS.value: each, TOKENS_NAME: np.array(words, dtype=np.str_)}
            file = self._folder.attention_file(step, text)
            # There can be thousands of files, so the folder is not listed for each of them;
            # temporary files are removed when the recording is opened.
            write_atomically(file, partial(_write_arrays, arrays), removes_leftovers=False)
        kept = self._folder.attention_steps(self._texts)
        try:
            for other in superfluous_steps(kept, sum(each.nbytes for each in weights)):
                self._remove_snapshot(other)
        except OSError as error:
            raise self._folder.create_write_error(error) from error

    def add_loss(self, row: LossRow) -> None:
        """Add a row to the losses, which are written by `flush_losses`.

        When a recording is continued, the row at its first step is added to the existing one.
        """
        resumed, self._resumed_row = self._resumed_row, None
        if resumed and resumed.step == row.step:
            self._losses.remove_rows_from(row.step)
            row = resumed.merge(row)
        self._losses.add_row(row)

    def flush_losses(self) -> None:
        """Write the losses; if this fails, they are kept for the next time.

        Raises
        ------
        InputError
            With field ``folder`` if the losses cannot be written.
        """
        try:
            self._losses.flush()
        except OSError as error:
            raise self._folder.create_write_error(error) from error

    def close(self) -> None:
        """Release the folder."""
        self._lock.release()


class OpenedRecording:
    """A recording that is open for reading, also while it is being written.

    Raises
    ------
    InputError
        With field ``folder`` if the folder contains no recording, or if it is damaged.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self.metadata = folder, read_recording_metadata(folder)
        self._read_bytes = 0
        """Number of bytes of the losses that were read."""
        self._last_line = b""
        """The last line of these bytes."""

    @property
    def is_being_recorded(self) -> bool:
        """Whether a program is writing the recording."""
        with suppress(OSError):
            return is_held(self.folder.recording_lock_file.path)
        return False

    def steps(self) -> tuple[int, ...]:
        """List the recorded steps."""
        return self.folder.attention_steps(len(self.metadata.texts))

    def read_weights(self, step: int, text: int) -> np.ndarray:
        """Read the weights [layer, head, query, key] for a text after a number of steps.

        Raises
        ------
        InputError
            With field ``step`` if the step was not recorded; with field ``folder`` if its file is
            damaged.
        """
        file, count = self.folder.attention_file(step, text), len(self.metadata.texts[text].tokens)
        try:
            file.stat()  # rejects a link
        except FileNotFoundError as error:
            raise InputError("step", f"Step {step:,} has no snapshot.") from error
        except OSError as error:
            raise _unreadable_error(file.path, system_error_reason(error)) from error
        try:
            entries = list_npz_arrays(file.path).entries
        except InputError as refused:
            raise InputError("folder", refused.sentence) from refused
        shapes = {entry.name: entry.shape for entry in entries}
        shape = shapes.get(Role.WEIGHTS, ())
        if len(shape) != 4 or shape[2:] != (count, count):
            why = f"it does not contain weights of {count:,} × {count:,} tokens"
            raise _unreadable_error(file.path, why)
        (entry,) = (entry for entry in entries if entry.name == Role.WEIGHTS)
        if entry.bytes > MAX_STEP_BYTES:
            raise _unreadable_error(file.path, "it is too large")
        try:
            return entry.read()
        except InputError as refused:
            raise InputError("folder", refused.sentence) from refused

    def take_new_rows(self) -> list[LossRow]:
        """Return the losses that were written since the last call; all of them the first time."""
        return list(self._read_new_rows())

    def _read_new_rows(self) -> Iterator[LossRow]:
        try:
            with self.folder.loss_log_file.open(MAX_FILE_BYTES) as file:
                file.seek(self._read_bytes - len(self._last_line))
                content = file.read(MAX_FILE_BYTES)
                if content.startswith(self._last_line):
                    content = content[len(self._last_line) :]
                else:  # the run was resumed from an earlier step
                    self._read_bytes, self._last_line = 0, b""
                    file.seek(0)
                    content = file.read(MAX_FILE_BYTES)
        except OSError:
            return
        content = content[: content.rfind(b"\n") + 1]
        lines = content.decode("utf-8", "replace").splitlines(keepends=True)
        is_start = self._read_bytes == 0
        self._read_bytes += len(content)
        if lines:
            self._last_line = content[content.rfind(b"\n", 0, -1) + 1 :]
        yield from parse_loss_rows(lines if is_start else ["\n", *lines])


def _write_arrays(arrays: dict[str, Any], file: BinaryIO) -> None:
    np.savez(file, **arrays)


def _unreadable_error(path: Path, why: str) -> InputError:
    return InputError("folder", f"Cannot read “{path.name}”: {why}.")
