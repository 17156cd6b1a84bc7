"""Training checkpoints, from which runs resume exactly, and weight files.

A checkpoint is one safetensors file that is written atomically; its header contains the run's
metadata and the trainer's state as JSON.
"""

from __future__ import annotations

import json
import math
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import torch
from msgspec import Meta, Struct, convert
from msgspec.structs import asdict, replace
from safetensors import SafetensorError
from safetensors.torch import load, save

from visualizer.errors import InputError, system_error_reason
from visualizer.language.run_folder import (
    MAX_HEADER_BYTES,
    RunMetadata,
    metadata_from_json,
    metadata_to_json,
)
from visualizer.language.training_settings import SETTING_LIMITS
from visualizer.storage.atomic_file import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor, nn

    from visualizer.language.trainer import Trainer
    from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

_ADAMW_STATES = ("exp_avg", "exp_avg_sq", "step")
"""Names of AdamW's state tensors for each parameter."""
_CHECKPOINT_COPIES = 1 + len(_ADAMW_STATES)
"""Number of tensors per parameter in a checkpoint."""
StepCount = Annotated[int, Meta(ge=0, le=SETTING_LIMITS["steps"][1])]


class TrainerState(Struct, frozen=True):
    """The state of a training run, except for its tensors.

    Parameters
    ----------
    seconds : float
        Time spent training.
    first : float or None
        The loss of the first step; None at step 0.
    high : int
        Number of consecutive steps with a loss far above that of the first step.
    is_ended : bool
        Whether training has diverged and therefore cannot continue.
    final : tuple of (float, float) or None
        Training and validation loss, measured after the last step.
    """

    seconds: Annotated[float, Meta(ge=0, le=sys.float_info.max)] = 0.0
    first: float | None = None
    high: StepCount = 0
    is_ended: bool = False
    final: tuple[float, float] | None = None


def write_checkpoint(
    file: SymlinkSafeFile, training: Trainer, metadata: RunMetadata, trainer_state: TrainerState
) -> None:
    """Write a checkpoint, which contains everything that is needed to resume training.

    Raises
    ------
    InputError
        If the checkpoint cannot be written; the previous checkpoint is unchanged.
    """
    content = encode_checkpoint(training, metadata, trainer_state)
    write_atomically(file, lambda opened: opened.write(content))


def encode_checkpoint(
    training: Trainer, metadata: RunMetadata, trainer_state: TrainerState
) -> bytes:
    """Return the content of a checkpoint file."""
    header = {
        "run": metadata_to_json(metadata),
        "step": training.step,
        "generator": training.generator.bit_generator.state,
        **asdict(trainer_state),
    }
    tensors = {
        f"model/{name}": value for name, value in _detached_parameters(training.model).items()
    }
    for name, parameter in training.model.named_parameters():
        for state, value in training.optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser/{state}/{name}"] = value
    tensors |= {f"randomness/{kind}": state for kind, state in training.randomness.items()}
    return _serialize_tensors(tensors, {"checkpoint": json.dumps(header)})


def read_checkpoint(file: SymlinkSafeFile, training: Trainer) -> TrainerState:
    """Restore a trainer from a checkpoint and return its state.

    Raises
    ------
    InputError
        With field ``folder`` if the checkpoint cannot be read or belongs to another model; discard
        the trainer in this case.
    """
    content = _read_weights_file(file, training.model, _CHECKPOINT_COPIES)
    return restore_checkpoint(content, training, file.name)


def read_checkpoint_run_metadata(content: bytes) -> RunMetadata:
    """Return the run metadata in a checkpoint that was sent by a trusted process."""
    return metadata_from_json(json.loads(read_metadata(content)["checkpoint"])["run"])


def restore_checkpoint(content: bytes, training: Trainer, name: str = "") -> TrainerState:
    """Restore a trainer from a checkpoint's content and return its state.

    Parameters
    ----------
    name : str
        Name of the file, for error messages.

    Raises
    ------
    InputError
        With field ``folder`` if the content is damaged or belongs to another model; discard the
        trainer in this case.
    """
    tensors, file_metadata = _parse_safetensors(content, name)
    with _explain_damaged_file(name):
        header, step, trainer_state = _parse_checkpoint_header(file_metadata)
        max_steps = _checked_total_steps(header["run"], training)
        training.generator.bit_generator.state = header["generator"]
        _load_parameters(training.model, _select_by_prefix("model/", tensors))
        _restore_optimiser(training, _select_by_prefix("optimiser/", tensors))
        training.randomness = _validate_rng_states(_select_by_prefix("randomness/", tensors))
    if step > max_steps:
        sentence = f"is damaged: it is from step {step:,} of a run with {max_steps:,} steps."
        raise InputError("folder", f"“{name}” {sentence}")
    training.step = step
    return trainer_state


def read_checkpoint_weights(file: SymlinkSafeFile, model: nn.Module) -> tuple[int, TrainerState]:
    """Load the weights of a checkpoint into a model; return the step and the trainer's state.

    Raises
    ------
    InputError
        With field ``folder`` if the checkpoint cannot be read or belongs to another model.
    """
    tensors, file_metadata = _parse_safetensors(
        _read_weights_file(file, model, _CHECKPOINT_COPIES), file.name
    )
    with _explain_damaged_file(file.name):
        _, step, trainer_state = _parse_checkpoint_header(file_metadata)
        _load_parameters(model, _select_by_prefix("model/", tensors))
    return step, trainer_state


@contextmanager
def _explain_damaged_file(name: str) -> Iterator[None]:
    """Convert errors that a file's content causes to an `InputError` that names the file."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RuntimeError) as error:
        raise InputError("folder", f"“{name}” is damaged or belongs to another model.") from error


def _parse_checkpoint_header(
    file_metadata: dict[str, str],
) -> tuple[dict[str, Any], int, TrainerState]:
    """Parse a checkpoint's header; return it with the step and the trainer's state."""
    header = {"final": None} | json.loads(file_metadata["checkpoint"])
    state = {name: header[name] for name in TrainerState.__struct_fields__}
    return header, convert(header["step"], StepCount), convert(state, TrainerState)


def _checked_total_steps(run: object, training: Trainer) -> int:
    """Return the run's total number of steps; raise `ValueError` if other settings differ.

    If the program ended while the run was being extended, the two files contain different numbers.
    """
    written, own = metadata_from_json(run).settings, training.settings
    if replace(written, steps=own.steps) != own:
        raise ValueError("another run")
    return max(written.steps, own.steps)


def write_weights(place: Path | SymlinkSafeFile, model: nn.Module, metadata: RunMetadata) -> None:
    """Write a model's weights as a safetensors file that other programs can load.

    Raises
    ------
    InputError
        If the weights cannot be written.
    """
    file_metadata = {"run": json.dumps(metadata_to_json(metadata))}
    content = _serialize_tensors(_detached_parameters(model), file_metadata)
    write_atomically(place, lambda file: file.write(content))


def read_weights(file: SymlinkSafeFile, model: nn.Module) -> None:
    """Load the weights of a file into a model.

    Raises
    ------
    InputError
        With field ``folder`` if the file cannot be read or belongs to another model.
    """
    tensors, _ = _parse_safetensors(_read_weights_file(file, model, copies=1), file.name)
    try:
        _load_parameters(model, tensors)
    except (KeyError, RuntimeError) as error:
        raise InputError("folder", f"“{file.name}” belongs to another model.") from error


def _detached_parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _serialize_tensors(tensors: dict[str, Tensor], file_metadata: dict[str, str]) -> bytes:
    return save({name: value.cpu().contiguous() for name, value in tensors.items()}, file_metadata)


def _read_weights_file(file: SymlinkSafeFile, model: nn.Module, copies: int) -> bytes:
    """Read a file that has a header and at most `copies` copies of a model's parameters."""
    size = copies * sum(parameter.nbytes for parameter in model.parameters())
    try:
        return file.read_bytes(size + MAX_HEADER_BYTES)
    except FileNotFoundError as error:
        raise InputError("folder", f"“{file.name}” is missing from {file.folder.path}.") from error
    except OSError as error:
        raise InputError(
            "folder", f"Cannot read “{file.name}”: {system_error_reason(error)}."
        ) from error


def _parse_safetensors(content: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        return load(content), read_metadata(content)
    except (SafetensorError, AssertionError, KeyError, RuntimeError, ValueError) as error:
        raise InputError("folder", f"“{name}” is damaged.") from error


def read_metadata(content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file, from the JSON header after its 8-byte length."""
    length = int.from_bytes(content[:8], "little")
    file_metadata: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return file_metadata


def _select_by_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, with the prefix removed."""
    matching = (name for name in tensors if name.startswith(prefix))
    return {name.removeprefix(prefix): tensors[name] for name in matching}


@torch.no_grad()
def _load_parameters(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys():
        raise KeyError("different parameters")
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape or parameter.dtype != tensors[name].dtype:
            raise RuntimeError("different shapes")
        parameter.copy_(tensors[name])


def _restore_optimiser(training: Trainer, tensors: dict[str, Tensor]) -> None:
    """Restore the optimizer's state for each parameter; a state is either complete or missing."""
    for name, parameter in training.model.named_parameters():
        paths = {state: f"{state}/{name}" for state in _ADAMW_STATES}
        states = {state: tensors[path] for state, path in paths.items() if path in tensors}
        if not states:
            continue
        if len(states) < len(_ADAMW_STATES):
            raise KeyError("incomplete optimizer state")
        for state, tensor in states.items():
            shape = torch.Size([]) if state == "step" else parameter.shape
            if tensor.shape != shape or tensor.dtype != torch.float32:
                raise RuntimeError("different shapes")
        if not 0 <= states["step"].item() < math.inf:
            raise ValueError("invalid optimizer step")
        training.optimiser.state[parameter] = {
            state: tensor.to(training.device) for state, tensor in states.items()
        }


def _validate_rng_states(states: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the generator states; raise `RuntimeError` if torch rejects the CPU state."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(states["cpu"])
    return states
