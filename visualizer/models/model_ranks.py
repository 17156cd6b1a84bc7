"""The processes (ranks) across which transformers splits a model.

All ranks make the same calls in the same order and synchronize in the collective operations of the
model. Each rank records the attention of its own heads or layers. Results for a whole text are
gathered as messages of bytes and numbers; nothing is pickled between ranks.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from visualizer.errors import InputError, convert_memory_error
from visualizer.language.distributed_process_group import (
    process_group_backend,
    select_process_device,
)
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.models.model_server.rank_processes import STORE_VARIABLE
from visualizer.models.recognition_errors import UnsupportedAttentionError
from visualizer.progress import CancelledError, check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.spec import Device

COLLECTIVE_TIMEOUT = timedelta(days=1)
"""Timeout of collective operations. It is long because other ranks may be busy for a long
time; if a rank exits, the server ends all ranks.
"""
FAILURE_TIMEOUT = timedelta(seconds=60)
"""Timeout after a run that failed on this rank; other ranks may still be waiting in that run."""
JOB_ENDED = "ended"
"""Type of the message exchanged at the end of a job."""


class Parallelism(StrEnum):
    """Method of splitting a model across processes."""

    NONE = "none"
    TENSOR = "tensor"
    PIPELINE = "pipeline"


def read_process_count() -> int:
    """Return the number of processes that the server starts for the model."""
    return int(os.environ["WORLD_SIZE"])


class _JobEndedError(Exception):
    """A rank ended the job without a result; the reason is raised on all ranks."""

    def __init__(self, reason: InputError | CancelledError) -> None:
        super().__init__()
        self.reason = reason


class ModelProcessGroup:
    """A single process that holds the whole model; see `ModelRank` for several processes."""

    rank = 0
    count = 1
    parallelism = Parallelism.NONE

    def first_local_head(self, heads: int) -> int:
        """Return the index, within its layer, of the first of the ``heads`` heads on this rank."""
        return 0

    def raise_or_keep_error(self, refused: InputError) -> None:
        """Raise an error, or keep it until all ranks have run the model."""
        raise refused

    def check_cancelled(self) -> None:
        """Raise `CancelledError` on all ranks if any rank is asked to stop."""
        check_cancelled()

    @contextmanager
    def job_context(self) -> Iterator[None]:
        """Run a job; an InputError or cancellation on one rank is raised on all ranks.

        All ranks leave the job together, so that they start the next job together.
        """
        yield

    @contextmanager
    def propagate_errors(self) -> Iterator[None]:
        """Propagate an InputError raised on one rank to all ranks."""
        yield

    def all_ranks_agree(self, is_so: bool) -> bool:
        """Return whether a condition is true on all ranks."""
        return is_so

    def has_partial_heads(self, heads: int) -> bool:
        """Return whether ``heads`` heads on this rank are only some of their layer's heads."""
        return False

    def gather_messages(self, message: Message) -> list[Message]:
        """Return the messages of all ranks, in rank order."""
        return [message]

    def model_split_arguments(self) -> dict[str, Any]:
        """Return the arguments with which transformers splits a model."""
        return {}


class ModelRank(ModelProcessGroup):
    """One of several processes of a served model.

    Parameters
    ----------
    heads : int
        Number of heads per layer of the model.
    device : Device
        Device type of the ranks; on GPUs, each rank has its own.

    Raises
    ------
    InputError
        With field ``device`` if there are not enough devices.
    """

    def __init__(self, parallelism: Parallelism, heads: int, device: Device) -> None:
        if not distributed.is_initialized():
            rank, count = int(os.environ["RANK"]), read_process_count()
            select_process_device(device, rank, count)
            # A file store, because torch's TCP store listens on all network interfaces.
            store = distributed.FileStore(os.environ[STORE_VARIABLE], count)  # type: ignore[attr-defined]
            distributed.init_process_group(
                process_group_backend(), store=store, rank=rank, world_size=count
            )
        self.rank, self.count = distributed.get_rank(), distributed.get_world_size()
        self.parallelism, self._heads = parallelism, heads
        self._group = distributed.new_group(backend="gloo", timeout=COLLECTIVE_TIMEOUT)
        self._refused: InputError | None = None

    def model_split_arguments(self) -> dict[str, Any]:
        from transformers.distributed import DistributedConfig

        size = {"tp_size" if self.parallelism is Parallelism.TENSOR else "pp_size": self.count}
        return {"distributed_config": DistributedConfig(**size)}

    def first_local_head(self, heads: int) -> int:
        return self.rank * heads if self.has_partial_heads(heads) else 0

    def has_partial_heads(self, heads: int) -> bool:
        is_tensor = self.parallelism is Parallelism.TENSOR
        return is_tensor and heads * self.count == self._heads

    def raise_or_keep_error(self, refused: InputError) -> None:
        self._refused = self._refused or refused

    def check_cancelled(self) -> None:
        try:
            check_cancelled()
        except CancelledError:
            is_stopped = True
        else:
            is_stopped = False
        if not self.all_ranks_agree(not is_stopped):
            raise CancelledError

    @contextmanager
    def job_context(self) -> Iterator[None]:
        self._refused, failure = None, dict[str, Any]()
        try:
            try:
                yield
            except CancelledError:
                failure = {"refused": None}
            except Exception as error:
                explained = convert_memory_error(error)
                if not isinstance(explained, InputError):
                    raise
                failure = {"refused": [explained.field, explained.sentence]}
            self.gather_messages(Message(JOB_ENDED, failure))
        except _JobEndedError as ended:
            raise ended.reason from None

    @contextmanager
    def propagate_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError as refused:
            self._refused = self._refused or refused
        own, self._refused = self._refused, None
        values = {"refused": own and [type(own).__name__, own.field, own.sentence]}
        for message in self._gather_messages(
            Message("agreed", values), FAILURE_TIMEOUT if own else COLLECTIVE_TIMEOUT
        ):
            if found := message.values["refused"]:
                raise _restore_error(*found)

    def all_ranks_agree(self, is_so: bool) -> bool:
        found = self.gather_messages(Message("agree", {"is_so": is_so}))
        return all(each.values["is_so"] for each in found)

    def gather_messages(self, message: Message) -> list[Message]:
        return self._gather_messages(message, COLLECTIVE_TIMEOUT)

    def _gather_messages(self, message: Message, wait: timedelta) -> list[Message]:
        own = torch.frombuffer(bytearray(message.pack()), dtype=torch.uint8)
        counts = [int(size) for size in self._gather_tensors(torch.tensor([len(own)]), wait)]
        room = torch.zeros(max(counts), dtype=torch.uint8)
        room[: len(own)] = own
        found: list[Message] = []
        for part, count in zip(self._gather_tensors(room, wait), counts, strict=True):
            found += MessageUnpacker().unpack_piece(part[:count].numpy().tobytes())
        for each in found:
            if each.kind == JOB_ENDED and each.values:
                refused = each.values["refused"]
                raise _JobEndedError(InputError(*refused) if refused else CancelledError())
        if any(each.kind != message.kind for each in found):
            raise RuntimeError("The processes of a job are out of sync.")
        return found

    def _gather_tensors(self, own: torch.Tensor, wait: timedelta) -> list[torch.Tensor]:
        """Return the tensors of all ranks, which have the same size."""
        found = [torch.empty_like(own) for _ in range(self.count)]
        try:
            distributed.all_gather(found, own, group=self._group, async_op=True).wait(wait)
        except RuntimeError as error:  # without an earlier error as its context
            raise RuntimeError(str(error)) from None
        return found


SINGLE_RANK = ModelProcessGroup()


def _restore_error(kind: str, field: str, sentence: str) -> InputError:
    is_by_rule = kind == UnsupportedAttentionError.__name__
    return UnsupportedAttentionError(sentence) if is_by_rule else InputError(field, sentence)
