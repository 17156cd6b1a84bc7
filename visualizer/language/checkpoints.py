"""Training checkpoints, from which a run resumes exactly, and files of model weights.

A checkpoint is one safetensors file, whose header holds the run's metadata and the trainer's state
as JSON. It is written atomically.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from visualizer.errors import InputError, reason_of
from visualizer.language.run_folder import MOST_BYTES as MOST_ABOUT
from visualizer.language.run_folder import RunMetadata, plain
from visualizer.storage.atomic_file import write

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

    from visualizer.language.trainer import Trainer
    from visualizer.storage.link_safe_folder import ContainedFile

_STATES = ("exp_avg", "exp_avg_sq", "step")
"""AdamW's state tensors of each parameter."""
_MOST_BESIDE = 2 * MOST_ABOUT
"""Most bytes of a file besides its tensors: the escaped run metadata and the trainer's state."""


@dataclass(frozen=True, slots=True)
class TrainerState:
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
        When it cannot be written; the previous checkpoint is unchanged.
    """
    header = {
        "run": plain(about),
        "step": training.step,
        "generator": training.generator.bit_generator.state,
        "seconds": trainer_state.seconds,
        "first": trainer_state.first,
        "high": trainer_state.high,
        "is_ended": trainer_state.is_ended,
        "final": trainer_state.final,
    }
    tensors = {f"model/{name}": value for name, value in _parameters(training.model).items()}
    for name, parameter in training.model.named_parameters():
        for state, value in training.optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser/{state}/{name}"] = value
    tensors |= {f"randomness/{kind}": state for kind, state in training.randomness.items()}
    _write(file, tensors, {"checkpoint": json.dumps(header)})


def read_checkpoint(file: ContainedFile, training: Trainer) -> TrainerState:
    """Restore a trainer from a checkpoint and return its state.

    Raises
    ------
    InputError
        Of ``folder``, when it cannot be read or is of another model; the trainer must then be
        discarded.
    """
    tensors, metadata = _read(file, (1 + len(_STATES)) * _size(training.model))
    try:
        header = json.loads(metadata["checkpoint"])
        trainer_state = _stand(header)
        training.generator.bit_generator.state = header["generator"]
        training.step = int(header["step"])
        _fill(training.model, _under("model/", tensors))
        for state in _STATES:
            _remember(training, state, _under(f"optimiser/{state}/", tensors))
        training.randomness = _under("randomness/", tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError("folder", f"“{file.name}” is damaged, or of another model.") from error
    return trainer_state


def read_checkpoint_weights(file: ContainedFile, model: nn.Module) -> tuple[int, TrainerState]:
    """Load the weights of a checkpoint into a model; return its step and the trainer's state.

    Raises
    ------
    InputError
        Of ``folder``, when it cannot be read or is of another model.
    """
    tensors, metadata = _read(file, (1 + len(_STATES)) * _size(model))
    try:
        header = json.loads(metadata["checkpoint"])
        step, trainer_state = int(header["step"]), _stand(header)
        _fill(model, _under("model/", tensors))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError("folder", f"“{file.name}” is damaged, or of another model.") from error
    return step, trainer_state


def _stand(header: dict[str, Any]) -> TrainerState:
    trainer_state = TrainerState(
        float(header["seconds"]), header["first"], int(header["high"]), header["is_ended"]
    )
    if not header.get("final"):
        return trainer_state
    training, validation = header["final"]
    return replace(trainer_state, final=(float(training), float(validation)))


def write_weights(place: Path | ContainedFile, model: nn.Module, about: RunMetadata) -> None:
    """Write a model's weights as a safetensors file that other programs can load.

    Raises
    ------
    InputError
        When they cannot be written.
    """
    _write(place, _parameters(model), {"run": json.dumps(plain(about))})


def read_weights(file: ContainedFile, model: nn.Module) -> None:
    """Load the weights of a file into a model.

    Raises
    ------
    InputError
        Of ``folder``, when the file cannot be read or is of another model.
    """
    tensors, _ = _read(file, _size(model))
    try:
        _fill(model, tensors)
    except (KeyError, RuntimeError) as error:
        raise InputError("folder", f"“{file.name}” is of another model.") from error


def _parameters(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def _size(model: nn.Module) -> int:
    """Return the bytes of a model's weights."""
    return sum(value.nbytes for value in _parameters(model).values())


def _write(
    place: Path | ContainedFile, tensors: dict[str, Tensor], metadata: dict[str, str]
) -> None:
    whole = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
    content = save(whole, metadata)
    write(place, lambda file: file.write(content))


def _read(file: ContainedFile, size: int) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a file whose tensors have at most ``size`` bytes."""
    try:
        content = file.read_bytes(size + _MOST_BESIDE)
        return load(content), _metadata(content)
    except FileNotFoundError as error:
        raise InputError("folder", f"There is no “{file.name}” in {file.folder.path}.") from error
    except OSError as error:
        raise InputError("folder", f"“{file.name}” cannot be read: {reason_of(error)}.") from error
    except (SafetensorError, AssertionError, KeyError, RuntimeError, ValueError) as error:
        raise InputError("folder", f"“{file.name}” is damaged.") from error


def _metadata(content: bytes) -> dict[str, str]:
    """Read the metadata of a safetensors file: JSON whose length is in the first 8 bytes."""
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return found


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names have a prefix, keyed without it."""
    found = (name for name in tensors if name.startswith(prefix))
    return {name.removeprefix(prefix): tensors[name] for name in found}


@torch.no_grad()
def _fill(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    parameters = dict(model.named_parameters())
    if parameters.keys() != tensors.keys():
        raise KeyError("other parameters")
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            raise RuntimeError("other sizes")
        parameter.copy_(tensors[name])


def _remember(training: Trainer, state: str, tensors: dict[str, Tensor]) -> None:
    for name, parameter in training.model.named_parameters():
        if name in tensors:
            kept: dict[str, Any] = training.optimiser.state[parameter]
            target = tensors[name]
            if target.shape not in {parameter.shape, torch.Size([])}:
                raise RuntimeError("other sizes")
            kept[state] = target.to(training.device)
