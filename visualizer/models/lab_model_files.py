"""Finds the weights of a model that was trained in the language lab. Does not import torch.

The weights are in a run's folder, in one of its snapshots or checkpoints, or in a file saved by the
lab. The header of each of these files contains the architecture and the vocabulary.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.errors import InputError
from visualizer.language.run_folder import (
    MAX_CHECKPOINT_BYTES,
    MAX_HEADER_BYTES,
    RunFolder,
    RunMetadata,
    metadata_from_json,
)
from visualizer.language.training_settings import LAYERED_MODELS, MODEL_TITLES
from visualizer.optional_packages import is_installed
from visualizer.storage.json_codec import DamagedFileError
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS_SUFFIX = ".safetensors"
WEIGHTS, CHECKPOINT = "run", "checkpoint"
"""Names of the metadata entries that identify a weights file and a checkpoint."""


class LabModelFiles(Struct, frozen=True):
    """The weights of a lab model.

    Parameters
    ----------
    path : Path
        A run's folder, or a file.
    is_checkpoint : bool
        Whether the file also contains the state of the optimizer.
    """

    path: Path
    metadata: RunMetadata
    weights: SymlinkSafeFile
    is_checkpoint: bool

    @property
    def snapshot_step(self) -> int | None:
        """Training step of a snapshot in a run's folder; None for other files."""
        weights = self.weights.path
        is_snapshot = weights.parent.name == "snapshots" and weights.stem.isdecimal()
        return int(weights.stem) if is_snapshot else None

    @property
    def name(self) -> str:
        """Display name of the model: the run's name, with the step for a snapshot."""
        weights, step = self.weights.path, self.snapshot_step
        if self.path.is_dir():
            return self.path.resolve().name
        if step is not None:
            return f"{weights.resolve().parent.parent.name}, step {step:,}"
        return weights.resolve().parent.name if self.is_checkpoint else weights.stem


def can_open_models() -> bool:
    """Return whether the library that is required to open models is installed."""
    return is_installed("transformers")


def is_lab_model(path: Path) -> bool:
    """Return whether a path is a run's folder, or a file written by the lab."""
    if path.is_dir():
        return RunFolder(path).metadata_file.exists()
    return path.suffix.lower() == WEIGHTS_SUFFIX and bool(
        _read_file_metadata(path).keys() & {WEIGHTS, CHECKPOINT}
    )


def find_lab_model(path: Path) -> LabModelFiles:
    """Find the weights of a model; in a run's folder, find the weights that were saved last.

    Raises
    ------
    InputError
        With field ``model`` if the weights are missing or cannot be read, or if the model has no
        heads.
    """
    try:
        found = _find_in_run_folder(path) if path.is_dir() else _find_in_weights_file(path)
    except InputError as refused:
        raise InputError("model", refused.sentence) from refused
    settings = found.metadata.settings
    if settings.model not in LAYERED_MODELS:
        *others, last = (f"“{MODEL_TITLES[kind]}”" for kind in LAYERED_MODELS)
        kinds = f"{', '.join(others)} or {last}"
        sentence = (
            f"{found.name} is a “{MODEL_TITLES[settings.model]}” model, which has no "
            "trained attention "
            f"heads. Open a lab model of type {kinds}."
        )
        raise InputError("model", sentence)
    return found


def _find_in_run_folder(path: Path) -> LabModelFiles:
    folder = RunFolder(path)
    metadata, snapshots = folder.read_metadata(), folder.snapshot_steps()
    if folder.checkpoint_file.exists():
        return LabModelFiles(path, metadata, folder.checkpoint_file, is_checkpoint=True)
    if snapshots:
        return LabModelFiles(
            path, metadata, folder.snapshot_file(snapshots[-1]), is_checkpoint=False
        )
    raise InputError("folder", f"The training run in {path} has not saved any weights yet.")


def _find_in_weights_file(path: Path) -> LabModelFiles:
    header, damaged = _read_file_metadata(path), f"“{path.name}” is damaged"
    is_checkpoint = CHECKPOINT in header
    try:
        found = json.loads(header[CHECKPOINT if is_checkpoint else WEIGHTS])
        metadata = metadata_from_json(found["run"] if is_checkpoint else found)
    except DamagedFileError as error:
        raise InputError("model", f"{damaged}: its run {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise InputError("model", f"{damaged}, or was not saved by the language lab.") from error
    return LabModelFiles(path, metadata, SymlinkSafeFile.from_path(path), is_checkpoint)


def _read_file_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a ``.safetensors`` file; empty if it cannot be read."""
    try:
        with SymlinkSafeFile.from_path(path).open(MAX_CHECKPOINT_BYTES) as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= MAX_HEADER_BYTES else {}
        found = header["__metadata__"]
        return {name: each for name, each in found.items() if isinstance(each, str)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
