"""Callbacks that record the attention of a model in the trainers of Transformers and Lightning.

Each class of callbacks is created when it is first used, because its base class belongs to an
optional package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import validate_path, validate_sequence
from visualizer.api.recorder import record
from visualizer.errors import InputError
from visualizer.language.recording import is_recording, recorded_steps
from visualizer.language.run_folder import RunFolder
from visualizer.optional_packages import (
    PACKAGE_FIELD,
    is_installed,
    missing_package_message,
    require_package,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from visualizer.api.recorder import Recorder

LIGHTNING_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""Modules that define the callbacks of Lightning; the second one is an older name."""
VALIDATION_LOSS = "val_loss"
"""Name under which modules of Lightning usually log the validation loss."""


class RecordingHooks:
    """The part that all callbacks have in common.

    Parameters
    ----------
    arguments : dict
        The arguments of `record`.
    """

    def __init__(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self.recorder: Recorder | None = None
        """The recorder, while the model is being trained."""

    def _start(self, model: Any, step: int, tokenizer: Any = None) -> None:
        self._stop()
        given = dict(self._arguments)
        if step == 0 and given["resume"]:
            _check_can_restart(given["to"])
        given["tokenizer"] = given["tokenizer"] or tokenizer
        # When training resumes from a checkpoint, the recording is continued.
        given["resume"] = given["resume"] or step > 0
        self.recorder = record(model, first_step=step, **given)

    def _finish(self) -> None:
        if self.recorder:
            self.recorder.snapshot()
        self._stop()

    def _stop(self) -> None:
        recorder, self.recorder = self.recorder, None
        if recorder:
            recorder.close()


def _check_can_restart(to: str | Path) -> None:
    """Reject a recording with later snapshots, which training from step 0 would remove."""
    folder = RunFolder(validate_path("to", to))
    last = max(recorded_steps(folder), default=0) if is_recording(folder) else 0
    if last:
        raise InputError(
            "resume",
            f"{folder.path} contains a recorded run up to step {last:,}, but this training starts "
            "at step 0. Resume the training from a checkpoint, or choose another folder.",
        )


class TrainerHooks(RecordingHooks):
    """The events of a Trainer of Transformers."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Start to record."""
        tokenizer = given.get("processing_class") or given.get("tokenizer")
        self._start(given["model"], state.global_step, tokenizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Count a step, and write a snapshot if it is due."""
        if self.recorder:
            self.recorder.advance(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Record the losses and the learning rate."""
        logs = given.get("logs") or {}
        if self.recorder:
            names = {"loss": "loss", "validation": "eval_loss", "rate": "learning_rate"}
            self.recorder.log(**{ours: logs.get(name) for ours, name in names.items()})

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Write the last snapshot."""
        self._finish()


class LightningHooks(RecordingHooks):
    """The events of a Trainer of Lightning."""

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to record."""
        self._start(pl_module, trainer.global_step)

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a step unless gradients are being accumulated."""
        if self.recorder and trainer.global_step > self.recorder.steps:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            if loss is not None and pl_module.automatic_optimization:
                # The trainer has divided the loss by the number of accumulated batches.
                loss = loss * trainer.accumulate_grad_batches
            self.recorder.advance(trainer.global_step, loss)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Record the validation loss, if the module logs it under the usual name."""
        if self.recorder and not trainer.sanity_checking:
            self.recorder.log(validation=trainer.callback_metrics.get(VALIDATION_LOSS))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Write the last snapshot."""
        self._finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Release the folder."""
        self._stop()


def trainer_callback(
    *,
    every: int = 100,
    texts: Iterable[Any],
    to: str | Path,
    tokenizer: Any = None,
    part: str | None = None,
    weights: Callable[[Any], Any] | None = None,
    resume: bool = False,
) -> Any:
    """Return a callback for the ``Trainer`` of Transformers that records attention.

    ::

        callback = visualizer.trainer_callback(texts=["The cat sat on the mat"], to="run")
        Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()

    It records the losses and the learning rate that the trainer logs. When training resumes from a
    checkpoint, the recording is continued.

    Parameters
    ----------
    every : int
        Number of training steps between snapshots, at least 1.
    texts : iterable
        The texts on which the model is run; see `record`.
    to : str or path
        Folder of the recording.
    tokenizer : transformers.PreTrainedTokenizer, optional
        The tokenizer for strings; by default, the ``processing_class`` of the trainer.
    part, weights, resume
        As in `record`.

    Returns
    -------
    transformers.TrainerCallback
        The errors of `record` are raised when the training starts.

    Raises
    ------
    InputError
        If transformers is not installed.

    Examples
    --------
    >>> callback = visualizer.trainer_callback(every=50, texts=[text], to="runs/trainer")
    """
    require_package("transformers", "trainer_callback")
    base = import_module("transformers").TrainerCallback
    kind = type("AttentionTrainerCallback", (TrainerHooks, base), {})
    return kind(
        {
            "every": every,
            "texts": validate_sequence("texts", "a list of texts", texts),
            "to": to,
            "tokenizer": tokenizer,
            "part": part,
            "weights": weights,
            "resume": resume,
        }
    )


def lightning_callback(
    *,
    every: int = 100,
    texts: Iterable[Any],
    to: str | Path,
    tokenizer: Any = None,
    part: str | None = None,
    weights: Callable[[Any], Any] | None = None,
    resume: bool = False,
) -> Any:
    """Return a callback for the ``Trainer`` of Lightning that records attention.

    ::

        callback = visualizer.lightning_callback(texts=[[464, 3797, 3332]], to="run")
        Trainer(max_steps=1000, callbacks=[callback]).fit(module, data)

    The module must contain a Transformers model, unless ``weights`` is given. The loss of each step
    is recorded, and the validation loss if it is logged as ``val_loss``. When training resumes
    from a checkpoint, the recording is continued.

    Parameters
    ----------
    every : int
        Number of training steps between snapshots, at least 1.
    texts : iterable
        The texts on which the model is run; see `record`.
    to : str or path
        Folder of the recording.
    tokenizer, part, weights, resume
        As in `record`.

    Returns
    -------
    lightning.pytorch.Callback
        The errors of `record` are raised when the training starts.

    Raises
    ------
    InputError
        If Lightning is not installed.

    Examples
    --------
    >>> callback = visualizer.lightning_callback(every=50, texts=[[4, 5]], to="runs/lightning")
    """
    base = import_module(_lightning_package()).Callback
    kind = type("AttentionLightningCallback", (LightningHooks, base), {})
    return kind(
        {
            "every": every,
            "texts": validate_sequence("texts", "a list of texts", texts),
            "to": to,
            "tokenizer": tokenizer,
            "part": part,
            "weights": weights,
            "resume": resume,
        }
    )


def _lightning_package() -> str:
    """Return the package of Lightning that is in use or, if none is, that is installed."""
    for name in LIGHTNING_PACKAGES:
        if name in sys.modules:
            return name
    for name in LIGHTNING_PACKAGES:
        if is_installed(name.partition(".")[0]):
            return name
    message = missing_package_message("lightning", "lightning_callback")
    raise InputError(PACKAGE_FIELD, message)
