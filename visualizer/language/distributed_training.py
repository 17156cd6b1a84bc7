"""Training with several processes: the first leads the run; the others follow its orders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.errors import InputError, is_out_of_memory
from visualizer.language.checkpoints import (
    encode_checkpoint,
    read_checkpoint_run_metadata,
    restore_checkpoint,
)
from visualizer.language.corpora.corpus import CorpusSplit, load_corpus
from visualizer.language.distributed_process_group import ProcessCommand
from visualizer.language.trainer import Trainer
from visualizer.language.training_run import changed_text_message

if TYPE_CHECKING:
    from visualizer.language.distributed_process_group import DistributedProcessGroup
    from visualizer.language.training_run import TrainingRun

DROPOUT_NOTICE = (
    "On several GPUs, dropout keeps other attention weights than in a single process, so the "
    "losses differ slightly."
)


def add_processes_to_run(running: TrainingRun, group: DistributedProcessGroup) -> tuple[str, ...]:
    """Let all other processes join a run at its current step.

    Returns
    -------
    tuple of str
        Sentences that describe how the run's values differ from those of a single process.

    Raises
    ------
    InputError
        If one of the processes cannot join.
    LostProcessError
        If the connection to another process ends.
    """
    content = encode_checkpoint(running.trainer, running.metadata, running.state)
    with group.broadcast_command(ProcessCommand.BEGIN, len(content)):
        group.broadcast_bytes(content)
        sentences = group.gather_text("")
        if not any(sentences):
            running.trainer.share_batches(group)
    for rank, sentence in enumerate(sentences):
        if sentence:
            raise InputError("processes", f"Process {rank + 1} of {group.count}: {sentence}")
    if running.settings.dropout and running.trainer.device.type != "cpu":
        return (DROPOUT_NOTICE,)
    return ()


def execute_commands(group: DistributedProcessGroup) -> int:
    """Follow the orders of the first process until the end, and return the exit status.

    Nothing is written to disk.

    Raises
    ------
    LostProcessError
        If the connection to another process ends.
    """
    training: Trainer | None = None
    while True:
        order, first, second = group.wait_for_command()
        if order is ProcessCommand.END:
            return first
        if order is ProcessCommand.BEGIN:
            with group.communication_context():
                training = _join_training(group, group.receive_bytes(first))
        elif training and order is ProcessCommand.STEP:
            training.train_one_step()
        elif training:
            training.evaluate([*CorpusSplit][first], second)


def _join_training(group: DistributedProcessGroup, content: bytes) -> Trainer | None:
    """Return a trainer restored from a checkpoint, or None if any process failed to create one."""
    training, sentence = None, ""
    try:
        training = _restore_trainer(group, content)
    except InputError as refused:
        sentence = refused.sentence
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        sentence = "Out of memory."
    if any(group.gather_text(sentence)) or training is None:
        return None
    training.share_batches(group)
    return training


def _restore_trainer(group: DistributedProcessGroup, content: bytes) -> Trainer:
    metadata = read_checkpoint_run_metadata(content)
    group.select_device(metadata.settings.device)
    corpus = load_corpus(metadata.settings)
    if corpus.digest != metadata.fingerprint:
        raise InputError("path", changed_text_message(metadata.settings.source))
    training = Trainer(metadata.settings, corpus)
    restore_checkpoint(content, training)
    return training
