"""An open run, which can be inspected at its saved steps and trained further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.device import check_device_available
from visualizer.errors import InputError
from visualizer.language.checkpoints import read_checkpoint_weights, read_weights
from visualizer.language.corpora.corpus import load_corpus
from visualizer.language.language_models import build_model
from visualizer.language.memory_estimate import (
    CHECKPOINT_COPIES,
    SINGLE_PROCESS,
    WEIGHT_COPIES,
    ProcessCounts,
    check_model_memory,
    check_training_memory,
)
from visualizer.language.training_run import TrainingRun, create_run_metadata
from visualizer.storage.file_lock import FileLock

if TYPE_CHECKING:
    from visualizer.language.corpora.corpus import Corpus
    from visualizer.language.language_models import LanguageModel
    from visualizer.language.run_folder import RunFolder
    from visualizer.language.training_settings import TrainingSettings


class OpenedRun:
    """A run that is open for reading and, once its lock is acquired, for training.

    Nothing is written to the run's folder while the lock is not held. If the training text is not
    available, the run cannot be trained, but its models can be read.

    Parameters
    ----------
    folder : RunFolder
        Folder of the existing or new run.
    settings : TrainingSettings or None
        Settings of a new run; None to open an existing run.
    is_held : bool
        Whether to acquire the lock immediately; for a new run, this is always done.
    sharing : ProcessCounts
        The number of processes that will share each batch, for checking the free memory.

    Raises
    ------
    InputError
        If the text of a new run cannot be used for training, there is not enough memory, another
        program holds the run, or the folder cannot be read or written.
    """

    def __init__(
        self,
        folder: RunFolder,
        settings: TrainingSettings | None = None,
        *,
        is_held: bool = True,
        sharing: ProcessCounts = SINGLE_PROCESS,
    ) -> None:
        self.folder, self.lock_error, self._sharing = folder, "", sharing
        # The device is not checked for an existing run, which may come from another machine.
        if settings:
            check_device_available(settings.device)
        corpus = self._load_corpus(settings) if settings else None
        if settings and corpus:
            folder.create_run(create_run_metadata(settings, corpus))
        self.metadata = folder.read_metadata()
        # If one of the files is damaged, others can still be read.
        tokens, file = len(self.metadata.tokens), folder.largest_weights_file()
        check_model_memory(self.metadata.settings, tokens, WEIGHT_COPIES, file)
        self._lock = _acquire_lock(folder) if is_held or settings else None
        try:
            self._known_versions = folder.file_versions()
            self.running = (
                TrainingRun(folder, self.metadata, corpus) if corpus else self._resume_run()
            )
            if self._lock:
                self._remove_leftovers_and_orders()
        except BaseException:
            self.close()
            raise
        self._saved_model = build_model(self.metadata.settings, len(self.metadata.tokens))
        self._saved_model_step: int | None = None

    @property
    def is_locked(self) -> bool:
        """Whether this program holds the lock and may therefore write to the folder."""
        return self._lock is not None

    def acquire_lock(self, *, is_ordered: bool = False) -> None:
        """Acquire the lock, so that only this program writes the run.

        Parameters
        ----------
        is_ordered : bool
            Whether this process follows the orders in the run's folder, which must still exist.

        Raises
        ------
        InputError
            With field ``held`` if another program holds the run or has changed it since it was
            opened, or if the orders were withdrawn; with field ``folder`` or ``export`` if the
            run's files cannot be written.
        """
        if self._lock:
            return
        self._lock = _acquire_lock(self.folder)
        try:
            if self.folder.file_versions() != self._known_versions:
                sentence = f"The run in {self.folder.path} has changed since it was opened."
                raise InputError("held", f"{sentence} Reopen it.")
            self._remove_leftovers_and_orders(is_ordered)
        except BaseException:
            self.close()
            raise

    def _remove_leftovers_and_orders(self, is_ordered: bool = False) -> None:
        try:
            self.folder.remove_leftover_files()
        except OSError as error:
            raise self.folder.create_write_error(error) from error
        # The orders are removed last: a program that withdraws them too late requests a stop, and
        # removing leftovers afterwards would remove this request.
        self._remove_orders(is_ordered)
        if self.running:
            self.running.remove_later_results()

    def _remove_orders(self, is_ordered: bool) -> None:
        """Remove the orders, including leftover ones."""
        try:
            self.folder.orders_file.unlink(missing_ok=not is_ordered)
        except FileNotFoundError as error:
            sentence = f"Training of the run in {self.folder.path} was cancelled."
            raise InputError("held", sentence) from error
        except OSError:  # Windows cannot remove an open file
            pass

    def _resume_run(self) -> TrainingRun | None:
        try:
            return TrainingRun(
                self.folder, self.metadata, self._load_corpus(self.metadata.settings)
            )
        except InputError as refused:
            if refused.field == "folder":
                raise
            self.lock_error = refused.sentence
            return None

    def _load_corpus(self, settings: TrainingSettings) -> Corpus:
        corpus = load_corpus(settings)
        check_training_memory(settings, len(corpus.vocabulary), self._sharing)
        return corpus

    def model_at(self, step: int | None) -> tuple[LanguageModel, int]:
        """Return the model of a saved step, and its step; None selects the current model.

        Raises
        ------
        InputError
            With field ``step`` if the weights of this step were not saved; with field ``folder`` if
            they cannot be read.
        """
        if step is None and self.running:
            return self.running.trainer.model, self.running.step
        snapshots = self.snapshot_steps()
        if step is None and self.folder.checkpoint_file.exists():
            try:
                return self._load_checkpoint_model()
            except InputError:  # the checkpoint is damaged or too large to be read on this machine
                if not snapshots:
                    raise
        wanted = step if step is not None else snapshots[-1] if snapshots else 0
        if wanted not in snapshots:
            raise InputError("step", f"Step {wanted:,} has no snapshot.")
        if wanted != self._saved_model_step:
            self._saved_model_step = None
            read_weights(self.folder.snapshot_file(wanted), self._saved_model)
            self._saved_model_step = wanted
        return self._saved_model, wanted

    def _load_checkpoint_model(self) -> tuple[LanguageModel, int]:
        """Return the checkpoint's model and its step, for a run that cannot be trained here."""
        step = self.folder.checkpoint_step()
        if step is None or step != self._saved_model_step:
            settings, tokens = self.metadata.settings, len(self.metadata.tokens)
            check_model_memory(settings, tokens, CHECKPOINT_COPIES, self.folder.checkpoint_file)
            self._saved_model_step = None
            step, _ = read_checkpoint_weights(self.folder.checkpoint_file, self._saved_model)
            self._saved_model_step = step
        return self._saved_model, step

    def snapshot_steps(self) -> tuple[int, ...]:
        """List the steps with saved weights, up to the current or last step."""
        last = self.running.step if self.running else self.metadata.settings.steps
        return tuple(step for step in self.folder.snapshot_steps() if step <= last)

    def close(self) -> None:
        """Release the lock."""
        if self._lock:
            self._lock.release()
            self._lock = None


def _acquire_lock(folder: RunFolder) -> FileLock:
    try:
        return FileLock(folder.lock_file.path)
    except BlockingIOError as error:
        sentence = f"The run in {folder.path} is already open in another window or process."
        raise InputError("held", sentence) from error
    except OSError as error:
        raise folder.create_write_error(error) from error
