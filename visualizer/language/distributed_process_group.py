"""The processes that torchrun starts for a training run, and their communication.

The first process (rank 0) is the leader: before each step or evaluation, it broadcasts an order, so
that all processes do the same work in the same sequence. The processes exchange only tensors;
nothing is pickled.

Sources: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"
(averaged gradients, and the conditions under which they equal those of one process).
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from visualizer.attention import device as attention_device
from visualizer.attention.spec import Device, Dtype
from visualizer.errors import InputError, is_out_of_memory
from visualizer.format import format_count
from visualizer.language.memory_estimate import ProcessCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from visualizer.language.training_settings import TrainingSettings

PROCESS_TIMEOUT = timedelta(minutes=30)
"""Maximum time to wait for another process, which may be writing a checkpoint or reading a text."""


class ProcessCommand(IntEnum):
    """An order that the first process sends to all others."""

    BEGIN = 0
    STEP = 1
    EVALUATE = 2
    END = 3


class LostProcessError(Exception):
    """Raised when the connection to another training process is lost."""


class DistributedProcessGroup:
    """One process of a training run, as described by the environment variables of torchrun.

    Raises
    ------
    InputError
        With field ``processes`` if the processes cannot connect to each other.
    """

    def __init__(self) -> None:
        try:
            self.rank = _read_environment_number("RANK")
            self.count = _read_environment_number("WORLD_SIZE")
            self._local_rank = _read_environment_number("LOCAL_RANK", self.rank)
            self._processes_on_machine = _read_environment_number("LOCAL_WORLD_SIZE", self.count)
            distributed.init_process_group(process_group_backend(), timeout=PROCESS_TIMEOUT)
        except (ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            sentence = f"The training processes could not connect to each other: {reason}."
            raise InputError("processes", f"{sentence} Start them with torchrun.") from error
        self.signal_status = 0
        """Exit status that a signal to any process requested, or 0; shared by all processes."""
        self._own_signal_status = 0
        self._is_disconnected = False

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader; only the leader writes files and prints messages."""
        return self.rank == 0

    @property
    def process_counts(self) -> ProcessCounts:
        """The number of processes that share each batch, in total and on this machine."""
        return ProcessCounts(self.count, self._processes_on_machine)

    def request_training_end(self, status: int) -> None:
        """Ask the leader to end the training with the given exit status after this step."""
        self._own_signal_status = status

    # ------------------------------------------------------------------ batches and models

    def rows_of_process(self, batch: int) -> slice:
        """Return the rows of a batch that this process computes."""
        rows = batch // self.count
        return slice(self.rank * rows, (self.rank + 1) * rows)

    def check_batch_and_device(self, settings: TrainingSettings) -> None:
        """Reject a batch size that cannot be split, or a device that processes would have to share.

        Raises
        ------
        InputError
            With field ``batch`` or ``device``.
        """
        batch, over = settings.batch, settings.batch % self.count
        if over:  # the mean gradient equals that of the batch only if all shares have the same size
            below, above = batch - over, batch - over + self.count
            sentence = (
                f"A batch of {format_count(batch, 'block')} cannot be divided among {self.count:,} "
                f"processes. "
                f"Use {f'{below:,} or ' if below else ''}{above:,}."
            )
            raise InputError("batch", sentence, ("batch", below or above))
        self.select_device(settings.device)

    def select_device(self, wanted: Device) -> None:
        """Select the GPU of this process; reject a device that processes would have to share.

        Raises
        ------
        InputError
            With field ``device``.
        """
        select_process_device(wanted, self._local_rank, self._processes_on_machine)

    def wrap_in_data_parallel(self, model: nn.Module, threads: int) -> DistributedDataParallel:
        """Return a model that averages its gradients over all processes in backward passes.

        All processes must call this together; the model receives the weights of the first process.
        Processes on the same machine divide the threads among themselves.
        """
        torch.set_num_threads(max(1, threads // self._processes_on_machine))
        averaging = DistributedDataParallel(model)
        averaging.broadcast_buffers = False  # the buffers are constants: the causal masks
        return averaging

    def mean_loss(self, loss: float) -> float:
        """Return the mean of the losses of all processes."""
        own = torch.tensor([loss, self._own_signal_status], dtype=torch.float64)
        gathered = [torch.empty_like(own) for _ in range(self.count)]
        distributed.all_gather(gathered, own)
        losses, statuses = torch.stack(gathered).unbind(1)  # rank
        self.signal_status = self.signal_status or int(statuses.max())
        return losses.mean().item()

    # ------------------------------------------------------------------ orders and bytes

    @contextmanager
    def broadcast_command(
        self, order: ProcessCommand, first: int = 0, second: int = 0
    ) -> Iterator[None]:
        """Broadcast an order from the first process; the caller executes it within the context.

        Raises
        ------
        LostProcessError
            If the connection to another process ends.
        """
        with self.communication_context():
            if self.is_leader:
                distributed.broadcast(torch.tensor([order, first, second]), 0)
            yield

    def wait_for_command(self) -> tuple[ProcessCommand, int, int]:
        """Wait for the next order that the first process broadcasts.

        Raises
        ------
        LostProcessError
            If the connection to another process ends.
        """
        received = torch.zeros(3, dtype=torch.int64)  # the order and its two arguments
        with self.communication_context():
            distributed.broadcast(received, 0)
        order, first, second = received.tolist()
        return ProcessCommand(order), first, second

    @contextmanager
    def communication_context(self) -> Iterator[None]:
        """Context for communication with the other processes; an error ends all communication.

        Raises
        ------
        LostProcessError
            If the connection to another process ends.
        """
        self._is_disconnected = True
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error) or not _is_connection_error(error):
                raise
            raise LostProcessError from error
        self._is_disconnected = False

    def broadcast_bytes(self, content: bytes) -> None:
        """Send bytes from the first process to all others, which already know the byte count."""
        distributed.broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8), 0)

    def receive_bytes(self, size: int) -> bytes:
        """Receive the bytes that the first process sends."""
        received = torch.empty(size, dtype=torch.uint8)
        distributed.broadcast(received, 0)
        return received.numpy().tobytes()

    def gather_text(self, text: str) -> list[str]:
        """Return the texts of all processes, in the order of their ranks."""
        own = text.encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        distributed.all_gather(sizes, torch.tensor([len(own)]))
        longest = max(1, *(int(size) for size in sizes))
        padded = torch.frombuffer(bytearray(own.ljust(longest)), dtype=torch.uint8)
        gathered = [torch.empty_like(padded) for _ in range(self.count)]
        distributed.all_gather(gathered, padded)
        pairs = zip(gathered, sizes, strict=True)
        return [content.numpy().tobytes()[: int(size)].decode() for content, size in pairs]

    def end_all_processes(self, status: int) -> None:
        """Send the exit status to the other processes, and wait until they have received it.

        After an error, nothing is sent: processes that wait in the middle of a step notice when
        this process ends.
        """
        if not self._is_disconnected:
            with suppress(LostProcessError), self.broadcast_command(ProcessCommand.END, status):
                distributed.all_reduce(torch.zeros(1))


def select_process_device(wanted: Device, rank: int, count: int) -> None:
    """Select the GPU for one of several processes, if they use GPUs.

    Parameters
    ----------
    rank, count : int
        Local rank of this process, and number of processes on this machine.

    Raises
    ------
    InputError
        With field ``device`` if processes would have to share a GPU.
    """
    device, _ = attention_device.resolve_device(wanted, Dtype.FLOAT32)
    if device is Device.CPU:
        return
    if device is not Device.CUDA:
        raise InputError(
            "device", "Distributed training is not supported on Apple GPUs. Add --device cpu."
        )
    present = torch.cuda.device_count()
    if count > present:
        gpus = "1 GPU" if present == 1 else f"{present} GPUs"
        sentence = f"{count} processes need one GPU each, but this machine has {gpus}"
        raise InputError("device", f"{sentence}. Start fewer processes, or add --device cpu.")
    torch.cuda.set_device(rank)


def process_group_backend() -> str:
    """Return the communication backend: NCCL for tensors on GPUs, Gloo for all others."""
    has_gpus = torch.cuda.is_available() and distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if has_gpus else "gloo"


def _is_connection_error(error: RuntimeError) -> bool:
    return isinstance(error, distributed.DistError) or "gloo" in str(error)


def _read_environment_number(variable: str, usual: int | None = None) -> int:
    return int(os.environ[variable] if usual is None else os.environ.get(variable, usual))
