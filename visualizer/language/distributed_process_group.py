"""The processes that torchrun starts for one training, and what they tell each other.

The first process (rank 0) leads: before each step or evaluation it gives the others an order, so
that all do the same in the same sequence. What they exchange is tensors of numbers and of bytes;
nothing is pickled.

Sources: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training"
(averaged gradients, and when they are those of one process).
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
from visualizer.language.memory_estimate import BatchSharing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from visualizer.language.training_settings import TrainingSettings

PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others, which may be writing a checkpoint or reading a text."""
NUMBERS_OF_ORDER = 3
"""What to do, and two numbers for it."""


class Order(IntEnum):
    """What the first process has all others do."""

    BEGIN = 0
    STEP = 1
    EVALUATE = 2
    END = 3


class LostProcessError(Exception):
    """The connection with another process of the training ended."""


class DistributedProcessGroup:
    """A process among those of a training, as the variables of torchrun describe them.

    Raises
    ------
    InputError
        Of ``processes``, when the processes do not find each other.
    """

    def __init__(self) -> None:
        try:
            self.rank, self.count = _number("RANK"), _number("WORLD_SIZE")
            self._local_rank = _number("LOCAL_RANK", self.rank)
            self._on_machine = _number("LOCAL_WORLD_SIZE", self.count)
            distributed.init_process_group(process_group_backend(), timeout=PATIENCE)
        except (ValueError, RuntimeError) as error:
            reason = str(error).partition("\n")[0]
            sentence = f"The processes of this training did not find each other: {reason}."
            raise InputError("processes", f"{sentence} Start them with torchrun.") from error
        self.signal_status = 0
        """Exit status that a signal to one of the processes asked for, known to all; else 0."""
        self._own_signal_status = 0
        self._is_parted = False

    @property
    def is_first(self) -> bool:
        """Whether this process leads, and alone writes the run and speaks."""
        return self.rank == 0

    @property
    def sharing(self) -> BatchSharing:
        """How many processes share each batch."""
        return BatchSharing(self.count, self._on_machine)

    def ask_to_end(self, status: int) -> None:
        """Ask the first process to end the training after this step, with an exit status."""
        self._own_signal_status = status

    # ------------------------------------------------------------------ batches and models

    def share(self, batch: int) -> slice:
        """Return this process's rows of a batch."""
        rows = batch // self.count
        return slice(self.rank * rows, (self.rank + 1) * rows)

    def check(self, settings: TrainingSettings) -> None:
        """Reject settings whose batches cannot be shared, and a device that processes would share.

        Raises
        ------
        InputError
            Of ``batch`` or ``device``.
        """
        batch, over = settings.batch, settings.batch % self.count
        if over:  # the mean of gradients is that of the batch only if the shares are equal
            below, above = batch - over, batch - over + self.count
            fitting = f"{below:,} or {above:,}" if below else f"{above:,}"
            asked = f"A batch of {batch:,} blocks does not divide over {self.count:,} processes"
            raise InputError("batch", f"{asked}. Use {fitting}.", ("batch", below or above))
        self.select_device(settings.device)

    def select_device(self, wanted: Device) -> None:
        """Reject a device that processes would have to share; select the GPU of this one.

        Raises
        ------
        InputError
            Of ``device``.
        """
        select_own_device(wanted, self._local_rank, self._on_machine)

    def averaging(self, model: nn.Module, threads: int) -> DistributedDataParallel:
        """Return a model whose gradients are averaged over all processes in backward passes.

        All processes call this together; the model's weights become those of the first process.
        The threads are shared by the processes of a machine.
        """
        torch.set_num_threads(max(1, threads // self._on_machine))
        averaging = DistributedDataParallel(model)
        averaging.broadcast_buffers = False  # they are constants: the causal masks
        return averaging

    def mean(self, loss: float) -> float:
        """Return the mean of all processes' losses."""
        own = torch.tensor([loss, self._own_signal_status], dtype=torch.float64)
        gathered = [torch.empty_like(own) for _ in range(self.count)]
        distributed.all_gather(gathered, own)
        losses, statuses = torch.stack(gathered).unbind(1)  # rank
        self.signal_status = self.signal_status or int(statuses.max())
        return losses.mean().item()

    # ------------------------------------------------------------------ orders and bytes

    @contextmanager
    def together(self, order: Order, first: int = 0, second: int = 0) -> Iterator[None]:
        """Do what an order says in all processes; the first one gives it.

        Raises
        ------
        LostProcessError
            When the connection with another process ends.
        """
        with self.connected():
            if self.is_first:
                distributed.broadcast(torch.tensor([order, first, second]), 0)
            yield

    def next_order(self) -> tuple[Order, int, int]:
        """Wait for the first process's order.

        Raises
        ------
        LostProcessError
            When the connection with another process ends.
        """
        received = torch.zeros(NUMBERS_OF_ORDER, dtype=torch.int64)
        with self.connected():
            distributed.broadcast(received, 0)
        order, first, second = received.tolist()
        return Order(order), first, second

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Take part in what the others do; after an error in the midst of it nothing can follow.

        Raises
        ------
        LostProcessError
            When the connection with another process ends.
        """
        self._is_parted = True
        try:
            yield
        except RuntimeError as error:
            if is_out_of_memory(error) or not _is_of_connection(error):
                raise
            raise LostProcessError from error
        self._is_parted = False

    def send_bytes(self, content: bytes) -> None:
        """Send bytes from the first process to all others, which know how many they are."""
        distributed.broadcast(torch.frombuffer(bytearray(content), dtype=torch.uint8), 0)

    def receive_bytes(self, size: int) -> bytes:
        """Receive the bytes that the first process sends."""
        received = torch.empty(size, dtype=torch.uint8)
        distributed.broadcast(received, 0)
        return received.numpy().tobytes()

    def gather_text(self, text: str) -> list[str]:
        """Return the texts of all processes, by rank."""
        own = text.encode()
        sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(self.count)]
        distributed.all_gather(sizes, torch.tensor([len(own)]))
        longest = max(1, *(int(size) for size in sizes))
        padded = torch.frombuffer(bytearray(own.ljust(longest)), dtype=torch.uint8)
        gathered = [torch.empty_like(padded) for _ in range(self.count)]
        distributed.all_gather(gathered, padded)
        pairs = zip(gathered, sizes, strict=True)
        return [content.numpy().tobytes()[: int(size)].decode() for content, size in pairs]

    def end(self, status: int) -> None:
        """Give the others this exit status, and wait until they have it, unless they are parted.

        Those that wait in the midst of a step notice when the process ends.
        """
        if not self._is_parted:
            with suppress(LostProcessError), self.together(Order.END, status):
                distributed.all_reduce(torch.zeros(1))


def select_own_device(wanted: Device, rank: int, count: int) -> None:
    """Select the GPU of one of several processes, if they are to compute on GPUs.

    Parameters
    ----------
    rank, count : int
        Of those on this machine.

    Raises
    ------
    InputError
        Of ``device``, when processes would have to share one.
    """
    device, _ = attention_device.resolve(wanted, Dtype.FLOAT32)
    if device is Device.CPU:
        return
    if device is not Device.CUDA:
        raise InputError("device", "Several processes cannot use Apple's GPU. Add --device cpu.")
    present = torch.cuda.device_count()
    if count > present:
        gpus = "1 GPU" if present == 1 else f"{present} GPUs"
        sentence = f"Each of {count} processes needs a GPU, and there is {gpus} here"
        raise InputError("device", f"{sentence}. Start fewer, or add --device cpu.")
    torch.cuda.set_device(rank)


def process_group_backend() -> str:
    """Return what connects the processes: NCCL for tensors on GPUs, Gloo for all others."""
    has_gpus = torch.cuda.is_available() and distributed.is_nccl_available()
    return "cpu:gloo,cuda:nccl" if has_gpus else "gloo"


def _is_of_connection(error: RuntimeError) -> bool:
    return isinstance(error, distributed.DistError) or "gloo" in str(error)


def _number(variable: str, usual: int | None = None) -> int:
    return int(os.environ[variable] if usual is None else os.environ.get(variable, usual))
