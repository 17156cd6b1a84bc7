"""Training checkpoints, from which a run resumes exactly, and files of model weights.

A checkpoint is one safetensors file; its header holds the run's metadata and the trainer's state
as JSON. It is written atomically.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from msgspec.structs import replace
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
    from pathlib import Path

    from torch import Tensor, nn

    from visualizer.language.trainer import Trainer
    from visualizer.storage.link_safe_folder import ContainedFile

_ADAMW_STATES = ("exp_avg", "exp_avg_sq", "step")
"""AdamW's state tensors of each parameter."""


class TrainerState(Struct, frozen=True):
    """State of a training run besides its tensors.

    Parameters
    ----------
    seconds : float
        Time spent training.
    first : float or None
        The first step's loss; None at step 0.
    high : int
        Number of consecutive steps with a loss far above it.
    is_ended : bool
        Whether training diverged, so that it cannot continue.
    final : tuple of (float, float) or None
        Training and validation loss after all steps.
    """

    seconds: float = 0.0
    first: float | None = None
    high: int = 0
    is_ended: bool = False
    final: tuple[float, float] | None = None


def write_checkpoint(
    file: ContainedFile, training: Trainer, about: RunMetadata, trainer_state: TrainerState
) -> None:
    """Write everything needed to resume training.

    Raises
    ------
    InputError
        If it cannot be written; the previous checkpoint is unchanged.
    """
    content = checkpoint_content(training, about, trainer_state)
    write_atomically(file, lambda opened: opened.write(content))


def checkpoint_content(training: Trainer, about: RunMetadata, trainer_state: TrainerState) -> bytes:
    """Return the content of a checkpoint file."""
    header = {
        "run": metadata_to_json(about),
        "step": training.step,
        "generator": training.generator.bit_generator.state,
        "seconds": trainer_state.seconds,
        "first": trainer_state.first,
        "high": trainer_state.high,
        "is_ended": trainer_state.is_ended,
        "final": trainer_state.final,
    }
    tensors = {
        f"model/{name}": value for name, value in _detached_parameters(training.model).items()
    }
    for name, parameter in training.model.named_parameters():
        for state, value in training.optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser/{state}/{name}"] = value
    tensors |= {f"randomness/{kind}": state for kind, state in training.randomness.items()}
    return _serialize(tensors, {"checkpoint": json.dumps(header)})


def read_checkpoint(file: ContainedFile, training: Trainer) -> TrainerState:
    """Restore a trainer from a checkpoint and return its state.

    Raises
    ------
    InputError
        With field ``folder`` if it cannot be read or belongs to another model; the trainer must
        then
        be discarded.
    """
    content = _read_file(file, (1 + len(_ADAMW_STATES)) * _weights_bytes(training.model))
    return restore_checkpoint(content, training, file.name)


def read_run_metadata(content: bytes) -> RunMetadata:
    """Return the metadata of the run in a checkpoint that a trusted process sent."""
    return metadata_from_json(json.loads(read_metadata(content)["checkpoint"])["run"])


def restore_checkpoint(content: bytes, training: Trainer, name: str = "") -> TrainerState:
    """Restore a trainer from a checkpoint's content and return its state.

    Parameters
    ----------
    name : str
        Name of the file, for messages.

    Raises
    ------
    InputError
        As `read_checkpoint`.
    """
    tensors, metadata = _parse_file(content, name)
    try:
        header = json.loads(metadata["checkpoint"])
        step, most = _parse_step(header["step"]), _max_steps(header["run"], training)
        trainer_state = _trainer_state(header)
        training.generator.bit_generator.state = header["generator"]
        _load_parameters(training.model, _with_prefix("model/", tensors))
        for parameter_name, parameter in training.model.named_parameters():
            _restore_optimiser(
                training, parameter, _optimiser_state(tensors, parameter_name, parameter)
            )
        training.randomness = _checked_randomness(_with_prefix("randomness/", tensors))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RuntimeError) as error:
        raise InputError("folder", f"“{name}” is damaged or belongs to another model.") from error
    if step > most:
        sentence = f"“{name}” is damaged: it is from step {step:,}, but the run has only {most:,}."
        raise InputError("folder", sentence)
    training.step = step
    return trainer_state


def read_checkpoint_weights(file: ContainedFile, model: nn.Module) -> tuple[int, TrainerState]:
    """Load the weights of a checkpoint into a model; return its step and the trainer's state.

    Raises
    ------
    InputError
        With field ``folder`` if it cannot be read or belongs to another model.
    """
    tensors, metadata = _read_tensors(file, (1 + len(_ADAMW_STATES)) * _weights_bytes(model))
    try:
        header = json.loads(metadata["checkpoint"])
        step, trainer_state = _parse_step(header["step"]), _trainer_state(header)
        _load_parameters(model, _with_prefix("model/", tensors))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            "folder", f"“{file.name}” is damaged or belongs to another model."
        ) from error
    return step, trainer_state


def _max_steps(run: object, training: Trainer) -> int:
    """Return the maximum steps of a checkpoint's run; raise `ValueError` for another run.

    If the run was extended, one of its files may contain a larger number than the other.
    """
    written, own = metadata_from_json(run).settings, training.settings
    if replace(written, steps=own.steps) != own:
        raise ValueError("another run")
    return max(written.steps, own.steps)


def _trainer_state(header: dict[str, Any]) -> TrainerState:
    """Parse the state in a header; raise `TypeError` or `ValueError` if it is invalid."""
    first, final, is_ended = header["first"], header.get("final"), header["is_ended"]
    seconds = _parse_number(header["seconds"])
    if not isinstance(is_ended, bool) or not 0 <= seconds < math.inf:
        raise ValueError("invalid trainer state")
    state = TrainerState(
        seconds,
        None if first is None else _parse_number(first),
        _parse_step(header["high"]),
        is_ended,
    )
    if not final:
        return state
    training, validation = map(_parse_number, final)
    return replace(state, final=(training, validation))


def _parse_number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError("not a number")
    return float(given)


def _parse_step(given: object) -> int:
    if type(given) is not int or not 0 <= given <= SETTING_LIMITS["steps"][1]:
        raise TypeError("invalid step")
    return given


def write_weights(place: Path | ContainedFile, model: nn.Module, about: RunMetadata) -> None:
    """Write a model's weights as a safetensors file that other programs can load.

    Raises
    ------
    InputError
        If they cannot be written.
    """
    _write_tensors(place, _detached_parameters(model), {"run": json.dumps(metadata_to_json(about))})


def read_weights(file: ContainedFile, model: nn.Module) -> None:
    """Load the weights of a file into a model.

    Raises
    ------
    InputError
        With field ``folder`` if the file cannot be read or belongs to another model.
    """
    tensors, _ = _read_tensors(file, _weights_bytes(model))
    try:
        _load_parameters(model, tensors)
    except (KeyError, RuntimeError) as error:
        raise InputError("folder", f"“{file.name}” belongs to another model.") from error


def _detached_parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _weights_bytes(model: nn.Module) -> int:
    """Return the size of a model's weights in bytes."""
    return sum(value.nbytes for value in _detached_parameters(model).values())


def _write_tensors(
    place: Path | ContainedFile, tensors: dict[str, Tensor], metadata: dict[str, str]
) -> None:
    content = _serialize(tensors, metadata)
    write_atomically(place, lambda file: file.write(content))


def _serialize(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    return save({name: value.cpu().contiguous() for name, value in tensors.items()}, metadata)


def _read_tensors(file: ContainedFile, size: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file with tensors of at most ``size`` bytes."""
    return _parse_file(_read_file(file, size), file.name)


def _read_file(file: ContainedFile, size: int) -> bytes:
    try:
        return file.read_bytes(size + MAX_HEADER_BYTES)
    except FileNotFoundError as error:
        raise InputError("folder", f"“{file.name}” is missing from {file.folder.path}.") from error
    except OSError as error:
        raise InputError(
            "folder", f"Cannot read “{file.name}”: {system_error_reason(error)}."
        ) from error


def _parse_file(content: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        return load(content), read_metadata(content)
    except (SafetensorError, AssertionError, KeyError, RuntimeError, ValueError) as error:
        raise InputError("folder", f"“{name}” is damaged.") from error


def read_metadata(content: bytes) -> dict[str, str]:
    """Read the metadata of a safetensors file: JSON; the first 8 bytes hold its length."""
    length = int.from_bytes(content[:8], "little")
    metadata: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return metadata


def _with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with names that have a prefix, keyed without it."""
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


def _optimiser_state(
    tensors: dict[str, Tensor], name: str, parameter: nn.Parameter
) -> dict[str, Tensor]:
    """Return the optimizer's state of a parameter, which has all of its tensors or none."""
    paths = {state: f"optimiser/{state}/{name}" for state in _ADAMW_STATES}
    state_tensors = {state: tensors[path] for state, path in paths.items() if path in tensors}
    if state_tensors and len(state_tensors) < len(_ADAMW_STATES):
        raise KeyError("incomplete optimizer state")
    for state, tensor in state_tensors.items():
        shape = torch.Size([]) if state == "step" else parameter.shape
        if tensor.shape != shape or tensor.dtype != torch.float32:
            raise RuntimeError("different shapes")
    if state_tensors and not 0 <= state_tensors["step"].item() < math.inf:
        raise ValueError("invalid optimizer step")
    return state_tensors


def _restore_optimiser(
    training: Trainer, parameter: nn.Parameter, state: dict[str, Tensor]
) -> None:
    if state:
        kept = {name: tensor.to(training.device) for name, tensor in state.items()}
        training.optimiser.state[parameter] = kept


def _checked_randomness(states: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the generator states; raise `RuntimeError` if torch rejects the CPU's."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(states["cpu"])
    return states
