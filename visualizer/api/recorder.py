"""Records the attention of a model while another program trains it."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import (
    validate_bool,
    validate_integer,
    validate_path,
    validate_sequence,
    validate_string,
)
from visualizer.errors import InputError, is_out_of_memory
from visualizer.language.loss_log import MAX_STEPS, MISSING_VALUE, LossRow
from visualizer.language.recording import (
    MAX_RECORDED_TEXTS,
    RecordedTextTokens,
    RecordingMetadata,
    RecordingWriter,
    check_step_size,
    is_recording,
    recorded_steps,
)
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from types import TracebackType

    import numpy as np

    from visualizer.models.attention_snapshot import AttentionSampler

MAX_PENDING_SNAPSHOTS = 4
"""Maximum number of snapshots that wait to be written; then, training waits for the disk."""
LOSS_INTERVAL_S = 2.0
"""Interval at which losses are written, in seconds."""
THREAD_CHECK_S = 1.0
"""Interval at which a full queue checks that its thread has not ended, in seconds."""

_logger = logging.getLogger(__name__)
_open_recorders: dict[Path, Recorder] = {}
"""The recorders of this process that are open, by their folder."""


def record(
    model: Any,
    *,
    every: int = 100,
    texts: Iterable[Any],
    to: str | Path,
    tokenizer: Any = None,
    part: str | None = None,
    weights: Callable[[Any], Any] | None = None,
    resume: bool = False,
    first_step: int | None = None,
) -> Recorder:
    """Record the attention of a model while you train it, for the language lab.

    ::

        with visualizer.record(
            model, every=100, texts=["The cat sat on the mat"], tokenizer=tokenizer, to="run"
        ) as recorder:
            for batch in batches:
                loss = model(**batch).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                recorder.step(loss)

    A snapshot contains the attention weights of all layers and heads for each of the texts. The
    first one is written immediately, further ones after every ``every`` steps, and the last one
    when the context ends. Recording has no effect on the training: the model, its gradients and all
    random number generators are left unchanged. Files are written by another thread.

    Open the folder in the lab with ``attention-visualizer lab run`` or in Python with `load`. You
    can open it while the model is still being trained. See `trainer_callback` and
    `lightning_callback` for training with the ``Trainer`` of Transformers and with Lightning.

    Parameters
    ----------
    model : transformers.PreTrainedModel or torch.nn.Module
        The model, or an object that contains one; see `capture`. With ``weights``, any module.
    every : int
        Number of training steps between snapshots, at least 1.
    texts : iterable
        The texts on which the model is run: strings; token ids of one text; or the arguments of the
        model for one text, such as ``tokenizer(text, return_tensors="pt")``.
    to : str or path
        Folder of the recording. If a recorder of the same program is still open for it, because
        training was interrupted, that recorder is closed.
    tokenizer : transformers.PreTrainedTokenizer, optional
        The tokenizer of the model, which is required for strings. For token ids, it supplies the
        labels of the tokens.
    part : str, optional
        A name that identifies the attention to record, if the model has several kinds of attention,
        such as ``"encoder"``.
    weights : callable, optional
        For a model that is not a Transformers model: a function that returns the attention weights
        of the model for token ids [1, token], as an array [layer, head, query, key] or as one array
        [text, head, query, key] per layer. It is called in evaluation mode and without gradients.
    resume : bool
        Whether to continue the recording if the folder contains one; otherwise, such a folder is
        rejected.
    first_step : int, optional
        Number of training steps that were completed before; the snapshots and losses of later steps
        are removed when a recording is continued. By default, the last recorded step.

    Raises
    ------
    InputError
        If an argument is invalid, the attention of the model cannot be recorded, or the folder
        cannot be used.

    Notes
    -----
    In distributed training, only the first process records. Models whose parameters are divided
    among processes (FSDP, ZeRO stage 3) are rejected.

    Examples
    --------
    >>> transformers_model = model.opened.model  # any Transformers model
    >>> with visualizer.record(
    ...     transformers_model, every=10, texts=[text], tokenizer=model.tokenizer, to="runs/new"
    ... ) as recorder:
    ...     for _ in range(20):  # instead of training
    ...         recorder.step(2.5)
    >>> visualizer.load("runs/new").steps
    (0, 10, 20)
    """
    from visualizer.models.attention_snapshot import (
        FunctionSampler,
        RecordedCallSampler,
        check_ids,
        copy_to_arrays,
        count_parameters,
        encode_text,
        is_first_process,
        label_text,
    )
    from visualizer.models.wrapped_model_search import find_transformers_model

    interval, folder = validate_integer("every", every), RunFolder(validate_path("to", to))
    if interval < 1:
        raise InputError("every", f"every must be at least 1. It is {interval:,}.")
    given = validate_sequence("texts", "a list of texts", texts)
    if len(given) > MAX_RECORDED_TEXTS:
        sentence = f"texts has {len(given):,} texts; the maximum is {MAX_RECORDED_TEXTS:,}."
        raise InputError("texts", sentence)
    is_resumed = validate_bool("resume", resume)
    start = None if first_step is None else validate_integer("first_step", first_step)
    if start is not None and start < 0:
        raise InputError("first_step", f"first_step must be at least 0. It is {start:,}.")
    name = None if part is None else validate_string("part", part)
    sampler: AttentionSampler
    if weights is None:
        sampler = RecordedCallSampler(find_transformers_model(model), name)
    elif name is None and callable(weights):
        sampler = FunctionSampler(model, weights)
    else:
        sentence = "part cannot be combined with weights." if name else "weights must be callable."
        raise InputError("part" if name else "weights", sentence)
    if not is_first_process():
        return Recorder(sampler, (), None, interval, start or 0, [])
    inputs, strings = zip(*(encode_text(each, tokenizer) for each in given), strict=True)
    if repeated := next((text for text in strings if strings.count(text) > 1), None):
        raise InputError("texts", f"texts contains “{repeated[:60]}” more than once.")
    check_ids(sampler.model, inputs)
    first = copy_to_arrays(sampler.compute_weights(inputs[:1]))[0]
    layers, heads = first.shape[:2]
    tokens = tuple(label_text(each, sampler.ids_argument, tokenizer) for each in inputs)
    check_step_size(sum(len(each) ** 2 for each in tokens) * layers * heads * first.itemsize)
    arrays = [first, *copy_to_arrays(sampler.compute_weights(inputs[1:]))]
    _check_shapes(arrays, tokens, "model" if weights is None else "weights")
    metadata = RecordingMetadata(
        type(sampler.model).__name__,
        tuple(map(RecordedTextTokens, strings, tokens)),
        interval,
        layers,
        heads,
        count_parameters(sampler.model),
    )
    if left_open := _open_recorders.get(folder.path.resolve()):
        left_open.close()
    if is_resumed and start is None:
        start = max(recorded_steps(folder), default=0) if is_recording(folder) else 0
    writer = RecordingWriter(folder, metadata, start if is_resumed else None)
    thread = SnapshotThread(writer, tokens)
    recorder = Recorder(sampler, inputs, thread, interval, start or 0, arrays)
    _open_recorders[folder.path.resolve()] = recorder
    return recorder


def _check_shapes(
    arrays: list[np.ndarray], tokens: tuple[tuple[str, ...], ...], field: str
) -> None:
    """Check that there are weights for all tokens, and as many layers and heads for each text."""
    for array, words in zip(arrays, tokens, strict=True):
        wanted = (*arrays[0].shape[:2], len(words), len(words))
        if array.shape != wanted:
            found, needed = (" × ".join(map(str, shape)) for shape in (array.shape, wanted))
            sentence = f"The weights for a text of {len(words):,} tokens have the shape {found}."
            raise InputError(field, f"{sentence} It must be {needed}: layer, head, query, key.")


class SnapshotThread:
    """Thread that writes snapshots and losses, so that training does not wait for the disk.

    An error does not stop the training: it is issued as a warning, and writing is retried with the
    next snapshot.
    """

    def __init__(self, writer: RecordingWriter, tokens: tuple[tuple[str, ...], ...]) -> None:
        self._writer, self._tokens = writer, tokens
        self._problem = ""
        self._jobs: queue.Queue[Callable[[], object] | None] = queue.Queue(MAX_PENDING_SNAPSHOTS)
        self._thread = threading.Thread(target=self._run, name="attention recorder", daemon=True)
        self._thread.start()

    def write(self, step: int | None, weights: list[Any], rows: list[LossRow]) -> None:
        """Write losses and, unless the step is None, a snapshot."""
        self._add_job(lambda: self._write_now(step, weights, rows))

    def _add_job(self, job: Callable[[], object] | None) -> None:
        """Wait for space in the queue, but not for a thread that has ended."""
        while self._thread.is_alive():
            with suppress(queue.Full):
                self._jobs.put(job, timeout=THREAD_CHECK_S)
                return
        self._problem = self._problem or "The thread that writes the recording has ended."

    def _write_now(self, step: int | None, weights: list[Any], rows: list[LossRow]) -> None:
        for row in rows:
            self._writer.add_loss(row)
        self._writer.flush_losses()
        if step is not None:
            self._writer.write_snapshot(step, weights, self._tokens)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except InputError as error:
                self._problem = error.sentence
            except Exception as error:
                _logger.exception("The recording could not be written")
                self._problem = f"{type(error).__name__}: {error}"

    def warn_of_problem(self) -> None:
        """Issue a warning if something could not be written since the last call."""
        problem, self._problem = self._problem, ""
        if problem:
            warnings.warn(f"A snapshot of the attention is missing. {problem}", stacklevel=4)

    def close(self) -> None:
        """Write everything that is waiting, and release the folder."""
        self._add_job(None)
        self._thread.join()
        self._writer.close()


class Recorder:
    """Records the attention of a model while it is trained; created by `record`.

    It is a context manager. Without a context, call `close` after the training.

    Examples
    --------
    >>> recorder = visualizer.record(model.opened.model, texts=[[4, 5, 6]], to="runs/by hand")
    >>> recorder.step()
    >>> recorder.steps, recorder.overhead < 1
    (1, True)
    >>> recorder.close()
    """

    def __init__(
        self,
        sampler: AttentionSampler,
        inputs: tuple[dict[str, Any], ...],
        thread: SnapshotThread | None,
        every: int,
        steps: int,
        weights: list[np.ndarray],
    ) -> None:
        self._sampler, self._inputs, self._thread, self._every = sampler, inputs, thread, every
        self._steps, self._snapshot_step = steps, -1
        self._row: dict[str, Any] = {}
        """Measurements of the current step."""
        self._rows: list[tuple[int, float, dict[str, Any]]] = []
        """Measurements that wait to be written, with their steps and times."""
        self._started = self._written = time.perf_counter()
        self._recording_s = 0.0
        atexit.register(self.close)
        if thread:
            thread.write(steps, weights, [])
            self._snapshot_step = steps

    def __repr__(self) -> str:
        return f"<Recorder: step {self._steps:,}>"

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.snapshot()
        finally:
            self.close()

    @property
    def steps(self) -> int:
        """Number of completed training steps."""
        return self._steps

    @property
    def overhead(self) -> float:
        """Fraction of the time since the start for which training was delayed by recording."""
        return self._recording_s / max(1e-9, time.perf_counter() - self._started)

    def step(self, loss: Any = None) -> None:
        """Complete a training step; call this after each step of the optimizer.

        Parameters
        ----------
        loss : float or tensor, optional
            The loss of the step, for the loss plot of the lab. A tensor on a GPU is read later, so
            that the training does not wait for the GPU.

        Examples
        --------
        >>> with visualizer.record(model.opened.model, texts=[[4, 5]], to="runs/step") as recorder:
        ...     recorder.step(2.5)
        >>> visualizer.load("runs/step").losses["training"]
        array([2.5])
        """
        self.advance(self._steps + 1, loss)

    def log(self, *, validation: Any = None, rate: Any = None, loss: Any = None) -> None:
        """Add measurements of the current step: a validation loss, a learning rate or a loss.

        Examples
        --------
        >>> with visualizer.record(model.opened.model, texts=[[4, 5]], to="runs/log") as recorder:
        ...     recorder.log(validation=3.5, rate=1e-3)
        >>> visualizer.load("runs/log").losses["validation"]
        array([3.5])
        """
        measured = {"validation": validation, "rate": rate, "training": loss}
        self._row |= {
            name: _keep_number(name, value) for name, value in measured.items() if value is not None
        }

    def advance(self, step: int, loss: Any = None) -> None:
        """Set the number of completed training steps; `step` increases it by 1.

        Raises
        ------
        InputError
            If the number is smaller than before.

        Examples
        --------
        >>> with visualizer.record(model.opened.model, texts=[[4, 5]], to="runs/jump") as recorder:
        ...     recorder.advance(500)
        >>> visualizer.load("runs/jump").steps
        (0, 500)
        """
        if validate_integer("step", step) < self._steps:
            sentence = f"step must be at least {self._steps:,}, the number of completed steps."
            raise InputError("step", f"{sentence} It is {step:,}.")
        if self._thread and step > MAX_STEPS:
            warnings.warn(f"Steps after {MAX_STEPS:,} are not recorded.", stacklevel=3)
            self.close()
        if self._thread is None:
            self._steps = step
            return
        if loss is not None:
            self._row["training"] = _keep_number("loss", loss)
        began = time.perf_counter()
        if step > self._steps:
            self._finish_row(began)
        before, self._steps = self._steps, step
        if step // self._every > before // self._every:
            self.snapshot()
        elif self._rows and began - self._written > LOSS_INTERVAL_S:
            self._thread.write(None, [], self._take_rows())
            self._recording_s += time.perf_counter() - began

    def snapshot(self) -> None:
        """Write a snapshot of the current step, unless there is one already.

        Examples
        --------
        >>> with visualizer.record(model.opened.model, texts=[[4, 5]], to="runs/now") as recorder:
        ...     recorder.step()
        ...     recorder.snapshot()
        ...     recorder.step()
        >>> visualizer.load("runs/now").steps
        (0, 1, 2)
        """
        if self._thread is None or self._snapshot_step == self._steps:
            return
        from visualizer.models.attention_snapshot import copy_to_arrays

        began = time.perf_counter()
        self._thread.warn_of_problem()
        try:
            weights = copy_to_arrays(self._sampler.compute_weights(self._inputs))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            sentence = f"The attention of step {self._steps:,} was not recorded: out of memory."
            warnings.warn(sentence, stacklevel=3)
        else:
            self._thread.write(self._steps, weights, self._take_rows())
            self._snapshot_step = self._steps
        self._recording_s += time.perf_counter() - began

    def close(self) -> None:
        """Write everything that is waiting, and release the folder.

        Examples
        --------
        >>> recorder = visualizer.record(model.opened.model, texts=[[4, 5]], to="runs/closed")
        >>> recorder.close()
        """
        atexit.unregister(self.close)
        if self._thread is None:
            return
        self._finish_row(time.perf_counter())
        self._thread.write(None, [], self._take_rows())
        thread, self._thread = self._thread, None
        for folder in [path for path, each in _open_recorders.items() if each is self]:
            del _open_recorders[folder]
        thread.close()
        thread.warn_of_problem()

    def _finish_row(self, now: float) -> None:
        if self._row:
            self._rows.append((self._steps, now - self._started, self._row))
            self._row = {}

    def _take_rows(self) -> list[LossRow]:
        pending, self._rows = self._rows, []
        self._written = time.perf_counter()
        return [
            LossRow(
                step,
                _loss_value(row.get("training")),
                _loss_value(row.get("validation")),
                _loss_value(row.get("rate")),
                seconds,
            )
            for step, seconds, row in pending
        ]


def _keep_number(name: str, value: Any) -> Any:
    """Return a number, or a copy of a tensor on another device, which is read later."""
    if hasattr(value, "detach"):
        if value.numel() != 1:
            raise InputError(name, f"{name} must be a single number.")
        tensor = value.detach()
        return float(tensor) if tensor.device.type == "cpu" else tensor.clone()
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(name, f"{name} must be a number.") from None


def _loss_value(value: Any) -> float:
    return MISSING_VALUE if value is None else float(value)
