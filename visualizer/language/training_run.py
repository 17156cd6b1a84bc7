"""A training run: steps, loss log, snapshots, checkpoints and detection of divergence."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec.structs import replace

from visualizer.errors import InputError, is_out_of_memory, system_error_reason
from visualizer.language.checkpoints import (
    TrainerState,
    read_checkpoint,
    read_weights,
    write_checkpoint,
    write_weights,
)
from visualizer.language.corpora.corpus import CorpusSplit
from visualizer.language.language_models import build_model
from visualizer.language.loss_log import MISSING_VALUE, LossLog, LossRow
from visualizer.language.run_folder import RunMetadata, superfluous_steps
from visualizer.language.trainer import Trainer, default_thread_count
from visualizer.language.training_settings import (
    FINAL_EVALUATION_BATCHES,
    CorpusKind,
    check_settings,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.language.corpora.corpus import Corpus
    from visualizer.language.run_folder import RunFolder
    from visualizer.language.training_settings import CorpusSource, TrainingSettings

INTERPOLATION_STRENGTHS = tuple(float(2**power) for power in range(-4, 17))
"""Interpolation strengths to try, which are pseudo-counts of the unigram frequencies."""
MAX_PAIR_TABLE_CELLS = 10**7
"""Maximum number of cells in a table of all pairs; a larger table could be larger than the text."""


def unigram_loss(corpus: Corpus) -> float:
    """Return the validation loss of the unigram baseline, in nats per token.

    The frequencies are those of the training part. One is added to each count, because the
    validation part may contain new tokens.
    """
    shares = _unigram_frequencies(corpus)
    return float(-np.log(shares[_next_tokens(corpus.validation)]).mean(dtype=np.float64))


def bigram_loss(corpus: Corpus) -> float:
    """Return the validation loss of the bigram baseline, in nats per token."""
    training, validation, shares = corpus.training, corpus.validation, _unigram_frequencies(corpus)
    vocabulary = len(shares)
    before = np.bincount(_first_tokens(training), minlength=vocabulary)  # token
    pairs, counts = _count_pairs(_encode_token_pairs(training, vocabulary), vocabulary)
    strength = max(
        INTERPOLATION_STRENGTHS,
        key=lambda tried: _leave_one_out_likelihood(pairs, counts, before, shares, tried),
    )
    validation_pairs = _encode_token_pairs(validation, vocabulary)
    indices = np.minimum(np.searchsorted(pairs, validation_pairs), len(pairs) - 1)
    pair_counts = np.where(pairs[indices] == validation_pairs, counts[indices], 0)
    interpolated = (pair_counts + strength * shares[_next_tokens(validation)]) / (
        before[_first_tokens(validation)] + strength
    )
    return float(-np.log(interpolated).mean(dtype=np.float64))


def _unigram_frequencies(corpus: Corpus) -> np.ndarray:
    counts = np.bincount(_next_tokens(corpus.training), minlength=len(corpus.vocabulary)) + 1.0
    shares: np.ndarray = counts / counts.sum()
    return shares  # token


def _leave_one_out_likelihood(
    pairs: np.ndarray, counts: np.ndarray, before: np.ndarray, shares: np.ndarray, strength: float
) -> float:
    """Return the leave-one-out log-likelihood of all pairs, in nats."""
    first, then = np.divmod(pairs, len(shares))
    interpolated = (counts - 1 + strength * shares[then]) / (before[first] - 1 + strength)
    return float((counts * np.log(interpolated)).sum(dtype=np.float64))


def _count_pairs(pairs: np.ndarray, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct pairs in ascending order, and their counts."""
    if vocabulary**2 > MAX_PAIR_TABLE_CELLS:
        return np.unique(pairs, return_counts=True)
    table = np.bincount(pairs)  # avoids sorting all pairs of a long text
    distinct = np.flatnonzero(table)
    return distinct, table[distinct]


def _encode_token_pairs(part: np.ndarray, vocabulary: int) -> np.ndarray:
    pairs: np.ndarray = _first_tokens(part) * vocabulary
    pairs += _next_tokens(part)
    return pairs


def _first_tokens(part: np.ndarray) -> np.ndarray:
    before: np.ndarray = part[..., :-1].ravel()
    return before


def _next_tokens(part: np.ndarray) -> np.ndarray:
    after: np.ndarray = part[..., 1:].ravel()
    return after


SNAPSHOT_GROWTH = 1.08
"""Ratio of the steps of consecutive snapshots, which are evenly spaced on a log axis."""


def is_first_in_log_interval(step: int, growth: float) -> bool:
    """Return whether a step is the first in its interval on a log axis with ratio ``growth``."""
    return step < 2 or int(math.log(step, growth)) > int(math.log(step - 1, growth))


def thin_snapshots(folder: RunFolder) -> None:
    """Remove every other snapshot if their total size exceeds `MAX_SNAPSHOT_BYTES`."""
    kept = folder.snapshot_steps()
    if not kept:
        return  # the folder has become unreadable, so there is nothing to remove
    for step in superfluous_steps(kept, folder.snapshot_file(kept[-1]).stat().st_size):
        folder.snapshot_file(step).unlink(missing_ok=True)


def remove_later_snapshots(folder: RunFolder, step: int) -> None:
    """Remove the snapshots after a step, because the later steps will be trained again.

    Raises
    ------
    InputError
        With field ``folder`` if a snapshot cannot be removed.
    """
    try:
        for kept in folder.snapshot_steps():
            if kept > step:
                folder.snapshot_file(kept).unlink(missing_ok=True)
    except OSError as error:
        raise folder.create_write_error(error) from error


def changed_text_message(source: CorpusSource) -> str:
    """Return the error message for a text that differs from the text of the run."""
    if source.kind is CorpusKind.FILE:
        return (
            f"“{Path(source.path).name}” has changed since training started. Restore the original "
            "file, or start a new run."
        )
    return (
        "This version of the program generates a different text from these settings. Start a new "
        "run."
    )


VALIDATION_INTERVAL_STEPS, VALIDATION_GROWTH = 100, 1.3
"""Interval between validations, in steps, and the ratio of consecutive validation steps during the
first interval.
"""
VALIDATION_TOKENS = 8_192
"""Approximate number of tokens per validation; the validation after the last step uses more."""
CHECKPOINT_INTERVAL_S = 5.0
"""Maximum age of the checkpoint during training, in seconds, unless writing takes a long time."""
CHECKPOINT_TIME_FACTOR = 20
"""Maximum age of the checkpoint as a multiple of the time that writing it takes, if longer."""
DIVERGENCE_PATIENCE_STEPS = 20
DIVERGENCE_FACTOR = 1.5
"""Training has diverged if the loss exceeds this multiple of the first loss for
`DIVERGENCE_PATIENCE_STEPS` consecutive steps.
"""
SAMPLE_CHARACTERS = 600
RETRY_NOTICE = "Training continues, and saving will be retried."
FINAL_RETRY_NOTICE = "Free disk space before you close the run; closing it retries saving once."


class DivergedError(Exception):
    """Raised when training has diverged and the model has been restored to a snapshot."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


def create_run_metadata(settings: TrainingSettings, corpus: Corpus) -> RunMetadata:
    """Return the metadata of a new run, with an explicit number of threads."""
    return RunMetadata(
        replace(settings, threads=settings.threads or default_thread_count()),
        corpus.vocabulary.tokens,
        unigram_loss(corpus),
        bigram_loss(corpus),
        corpus.text[:SAMPLE_CHARACTERS],
        corpus.digest,
        corpus.notices,
    )


class TrainingRun:
    """A run that can be trained by this program after `start_writing` has been called.

    Before that, the run's folder is only read.

    Parameters
    ----------
    folder : RunFolder
        Folder of an existing run, which is resumed from its checkpoint.
    metadata : RunMetadata
        The run's metadata.
    corpus : Corpus
        The text to learn.

    Raises
    ------
    InputError
        If the text is not the text of the run, or if the folder is damaged.
    """

    def __init__(self, folder: RunFolder, metadata: RunMetadata, corpus: Corpus) -> None:
        if corpus.digest != metadata.fingerprint:
            raise InputError("path", changed_text_message(metadata.settings.source))
        torch.set_num_threads(metadata.settings.threads or default_thread_count())
        self.folder, self.metadata = folder, metadata
        self.trainer = Trainer(metadata.settings, corpus)
        self.state, self.notice = TrainerState(), ""
        self.retry_notice = RETRY_NOTICE
        """The last sentence of the notice about a failed write; it states how training continues.
        """
        self.is_saved = True
        """Whether the last attempt to write a checkpoint succeeded."""
        if folder.checkpoint_file.exists():
            self.state = read_checkpoint(folder.checkpoint_file, self.trainer)
            if not self.is_done:  # the run was extended, and interrupted before its next checkpoint
                self.state = replace(self.state, final=None)
        self._loss_log = LossLog(folder.loss_log_file)
        # Rows of a diverged or finished run are kept; rows of steps that will be repeated are not.
        is_over = self.state.is_ended or self.state.final is not None
        rows = self._loss_log.read_rows_before(self.settings.steps + 1 if is_over else self.step)
        self._rows = [row for row in rows if self.state.final is None or row.step < self.step]
        self._saved_at = time.monotonic()
        self._save_s = self._slowest_step_s = 0.0

    def remove_later_results(self) -> None:
        """Remove the snapshots and losses after the current step, before training continues.

        Only the holder of the lock may call this method.

        Raises
        ------
        InputError
            With field ``folder`` or ``export`` if the folder cannot be written to.
        """
        self.folder.create_folders()
        remove_later_snapshots(self.folder, self.step)
        self._loss_log.remove_unread_rows()

    @property
    def settings(self) -> TrainingSettings:
        """The run's settings, with the current number of steps."""
        return self.trainer.settings

    @property
    def step(self) -> int:
        """Number of completed steps."""
        return self.trainer.step

    @property
    def is_done(self) -> bool:
        """Whether all steps are done or training has diverged."""
        return self.step >= self.settings.steps or self.state.is_ended

    def take_new_rows(self) -> list[LossRow]:
        """Return the rows added since the last call; the first call returns all rows.

        The rows are first written to the loss log; if this fails, `notice` contains the reason.
        """
        try:
            self._loss_log.flush()
        except OSError as error:
            self.notice = self._unwritten_losses_message(error)
        rows, self._rows = self._rows, []
        return rows

    def set_total_steps(self, steps: int) -> None:
        """Set the total number of steps, which must be at least the number of completed steps.

        Raises
        ------
        InputError
            With field ``steps`` if the number is invalid; with field ``batch``, as in `advance`;
            with field ``export`` if the folder cannot be written to. The number is then unchanged.
        """
        check_settings(replace(self.settings, steps=steps))
        settings = replace(self.settings, steps=max(steps, self.step))
        metadata = replace(self.metadata, settings=settings)
        is_extended = self.state.final is not None and steps > self.step
        if is_extended:
            self._loss_log.remove_rows_from(self.step)  # removes the final measurement
        self.folder.write_metadata(metadata)
        self.trainer.settings, self.metadata = settings, metadata
        if is_extended:
            self.state = replace(self.state, final=None)
        if self.is_done and not self.state.final:
            self._run_catching_out_of_memory(self._finish_training)

    def train_one_step(self) -> None:
        """Write a snapshot and validate if due, then do one step; finish after the last step.

        Raises
        ------
        DivergedError
            If the loss is not finite, or if it stays far above the first loss. The run has then
            ended, and its model is that of the last good snapshot.
        InputError
            With field ``batch`` if memory ran out; the state is then unchanged, so that the step
            can be repeated.
        """
        self._run_catching_out_of_memory(self._run_step)

    def _run_catching_out_of_memory(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise InputError(
                "batch",
                f"Out of memory at step {self.step:,}; the model is unchanged. Free memory and "
                "resume, or start a new run with a smaller batch, block or embedding size.",
            ) from error

    def _run_step(self) -> None:
        began, step = time.perf_counter(), self.step
        validation = self._snapshot_and_evaluate()
        loss = self.trainer.train_one_step()
        seconds = self.state.seconds + time.perf_counter() - began
        row = LossRow(step, loss, validation, self.settings.learning_rate_at(step), seconds)
        self._rows.append(row)
        self._loss_log.add_row(row)
        self.state = self._updated_state(loss, seconds)
        if self.state.high >= DIVERGENCE_PATIENCE_STEPS or not math.isfinite(loss):
            raise DivergedError(self._end_diverged_run(loss, step))
        if self.is_done:
            self._finish_training()
        else:
            self._slowest_step_s = max(self._slowest_step_s, time.perf_counter() - began)
            if self._is_checkpoint_due():
                self.save_checkpoint()

    def _is_checkpoint_due(self) -> bool:
        """Return whether the checkpoint would be too old if it were replaced one step later."""
        oldest = max(CHECKPOINT_INTERVAL_S, CHECKPOINT_TIME_FACTOR * self._save_s)
        # The first step may be very slow.
        ahead = min(self._slowest_step_s + self._save_s, oldest / 2)
        return time.monotonic() - self._saved_at + ahead >= oldest

    def save_checkpoint(self) -> None:
        """Write the losses and a checkpoint; if this fails, `notice` contains the reason."""
        self._saved_at, self.is_saved = time.monotonic(), False
        try:
            self._loss_log.flush()
            write_checkpoint(self.folder.checkpoint_file, self.trainer, self.metadata, self.state)
            self.notice, self.is_saved = "", True
        except InputError as refused:
            self.notice = f"{refused.sentence} {self._retry_message}"
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            self.notice = f"Not enough memory to save a checkpoint. {self._retry_message}"
        except OSError as error:
            self.notice = self._unwritten_losses_message(error)
        self._save_s = time.monotonic() - self._saved_at

    def _unwritten_losses_message(self, error: OSError) -> str:
        return f"Cannot save the losses: {system_error_reason(error)}. {self._retry_message}"

    @property
    def _retry_message(self) -> str:
        is_final = self.is_done and self.retry_notice == RETRY_NOTICE
        return FINAL_RETRY_NOTICE if is_final else self.retry_notice

    def _snapshot_and_evaluate(self) -> float:
        """Write a snapshot if one is due; return the validation loss, or `MISSING_VALUE`."""
        step, settings = self.step, self.settings
        if is_first_in_log_interval(step, SNAPSHOT_GROWTH) and not self.state.high:
            self._write_snapshot()
        if step % VALIDATION_INTERVAL_STEPS and not (
            step < VALIDATION_INTERVAL_STEPS and is_first_in_log_interval(step, VALIDATION_GROWTH)
        ):
            return MISSING_VALUE
        batches = VALIDATION_TOKENS // (settings.batch * settings.block)
        return self.trainer.evaluate(CorpusSplit.VALIDATION, max(1, batches))

    def _updated_state(self, loss: float, seconds: float) -> TrainerState:
        first = loss if self.state.first is None else self.state.first
        high = self.state.high + 1 if not loss <= DIVERGENCE_FACTOR * first else 0
        return replace(self.state, seconds=seconds, first=first, high=high)

    def _finish_training(self) -> None:
        self._write_snapshot()
        evaluate = self.trainer.evaluate
        training, validation = (evaluate(split, FINAL_EVALUATION_BATCHES) for split in CorpusSplit)
        self.state = replace(self.state, final=(training, validation))
        # This row is written but not returned: if the run is extended, this step is trained.
        rate = self.settings.learning_rate_at(self.step)
        self._loss_log.add_row(
            LossRow(self.step, MISSING_VALUE, validation, rate, self.state.seconds)
        )
        self.save_checkpoint()

    def _end_diverged_run(self, loss: float, step: int) -> str:
        good = self._restore_snapshot(step + 1 - self.state.high)
        self.state = replace(self.state, is_ended=True)
        self.save_checkpoint()
        why = f"grew to {loss:,.4g}" if math.isfinite(loss) else "became NaN or infinite"
        rate = self.settings.rate
        return (
            f"The loss {why} at step {step:,}: the learning rate {rate:g} is too large. The model "
            f"was restored to step {good:,}. Start a new run with a learning rate of {rate / 10:g}."
        )

    def _restore_snapshot(self, bad: int) -> int:
        """Restore the last snapshot before a step with a bad loss; return the snapshot's step."""
        for step in self.folder.snapshot_steps():
            if step >= bad:
                self.folder.snapshot_file(step).unlink(missing_ok=True)
        model, steps = self.trainer.model, self.folder.snapshot_steps()
        if steps:
            read_weights(self.folder.snapshot_file(steps[-1]), model)
        else:  # no snapshot could be written
            model.load_state_dict(
                build_model(self.settings, len(self.metadata.tokens)).state_dict()
            )
        self.trainer.step = steps[-1] if steps else 0
        return self.trainer.step

    def _write_snapshot(self) -> None:
        try:
            write_weights(self.folder.snapshot_file(self.step), self.trainer.model, self.metadata)
            thin_snapshots(self.folder)
        except (InputError, OSError) as error:
            reason = error.sentence if isinstance(error, InputError) else str(error)
            self.notice = f"A snapshot was not saved. {reason}"
