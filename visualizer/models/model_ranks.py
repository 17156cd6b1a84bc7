"""The processes (ranks) that hold the parts of one model, each run by transformers' own engine.

All of them run the same calls in the same order, and meet in the collective operations of the
model. What a rank records of attention is of its own heads or layers; what is asked of a whole text
is gathered as bytes and numbers: between ranks nothing is pickled.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from visualizer.errors import InputError, memory_error_in_words
from visualizer.language.distributed_process_group import process_group_backend, select_own_device
from visualizer.language.wire_format import Message, MessageUnpacker
from visualizer.models.model_server.rank_settings import STORE
from visualizer.models.not_by_rule_error import NotByRuleError
from visualizer.progress_callback import CancelledError, check_stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.spec import Device

APART = timedelta(days=1)
"""So long a rank waits for others where all meet: they may have much to do by themselves. Where one
has ended, the server ends them all."""
AFTER_FAILURE = timedelta(seconds=60)
"""So long it waits after a run that failed on it, in which others may wait for it in vain."""
ENDED = "ended"
"""The meeting at the end of a job."""


class Parallelism(StrEnum):
    """How a model is spread over processes."""

    NONE = "none"
    TENSOR = "tensor"
    PIPELINE = "pipeline"


class _EndedError(Exception):
    """A rank has ended the job without an answer, for a reason that is that of all."""

    def __init__(self, reason: InputError | CancelledError) -> None:
        super().__init__()
        self.reason = reason


class ModelRanks:
    """One process that has the whole model; see `SeveralRanks` for more."""

    rank = 0
    count = 1
    parallelism = Parallelism.NONE

    def first_head(self, heads: int) -> int:
        """Return the number of the first of so many heads that a module has here."""
        return 0

    def refuse(self, refused: InputError) -> None:
        """Raise what is wrong, or note it until all ranks have run the model."""
        raise refused

    def check_stopped(self) -> None:
        """Raise `CancelledError` where the work is to stop, on all ranks or on none."""
        check_stopped()

    @contextmanager
    def job(self) -> Iterator[None]:
        """Have what is refused or given up within the context on one rank be so on all.

        They end it together, whatever each has done of it, so that all begin the same one next.
        """
        yield

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Have what is refused within the context on one rank be refused on all."""
        yield

    def agree(self, is_so: bool) -> bool:
        """Return whether something is so on all ranks."""
        return is_so

    def is_part(self, heads: int) -> bool:
        """Whether so many heads are a part of those of a layer, and not all."""
        return False

    def gathered(self, message: Message) -> list[Message]:
        """Return the messages of all ranks, in their order."""
        return [message]

    def settings(self) -> dict[str, Any]:
        """Return the arguments by which transformers spreads a model."""
        return {}


class SeveralRanks(ModelRanks):
    """One of several processes of a served model.

    Parameters
    ----------
    heads : int
        How many heads a layer of the model has.
    device : Device
        What each computes on; of GPUs, each has its own.

    Raises
    ------
    InputError
        Of ``device``, when there are not enough.
    """

    def __init__(self, parallelism: Parallelism, heads: int, device: Device) -> None:
        if not distributed.is_initialized():
            rank, count = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
            select_own_device(device, rank, count)
            # A file, as torch's own store listens on all networks.
            store = distributed.FileStore(os.environ[STORE], count)  # type: ignore[attr-defined]
            distributed.init_process_group(
                process_group_backend(), store=store, rank=rank, world_size=count
            )
        self.rank, self.count = distributed.get_rank(), distributed.get_world_size()
        self.parallelism, self._heads = parallelism, heads
        self._group = distributed.new_group(backend="gloo", timeout=APART)
        self._refused: InputError | None = None

    def settings(self) -> dict[str, Any]:
        from transformers.distributed import DistributedConfig

        size = {"tp_size" if self.parallelism is Parallelism.TENSOR else "pp_size": self.count}
        return {"distributed_config": DistributedConfig(**size)}

    def first_head(self, heads: int) -> int:
        return self.rank * heads if self.is_part(heads) else 0

    def is_part(self, heads: int) -> bool:
        is_tensor = self.parallelism is Parallelism.TENSOR
        return is_tensor and heads * self.count == self._heads

    def refuse(self, refused: InputError) -> None:
        self._refused = self._refused or refused

    def check_stopped(self) -> None:
        try:
            check_stopped()
        except CancelledError:
            is_stopped = True
        else:
            is_stopped = False
        if not self.agree(not is_stopped):
            raise CancelledError

    @contextmanager
    def job(self) -> Iterator[None]:
        self._refused, failure = None, dict[str, Any]()
        try:
            try:
                yield
            except CancelledError:
                failure = {"refused": None}
            except Exception as error:
                said = memory_error_in_words(error)
                if not isinstance(said, InputError):
                    raise
                failure = {"refused": [said.field, said.sentence]}
            self.gathered(Message(ENDED, failure))
        except _EndedError as ended:
            raise ended.reason from None

    @contextmanager
    def agreed(self) -> Iterator[None]:
        try:
            yield
        except InputError as refused:
            self._refused = self._refused or refused
        said, self._refused = self._refused, None
        values = {"refused": said and [type(said).__name__, said.field, said.sentence]}
        for message in self._gathered(Message("agreed", values), AFTER_FAILURE if said else APART):
            if found := message.values["refused"]:
                raise _error(*found)

    def agree(self, is_so: bool) -> bool:
        found = self.gathered(Message("agree", {"is_so": is_so}))
        return all(each.values["is_so"] for each in found)

    def gathered(self, message: Message) -> list[Message]:
        return self._gathered(message, APART)

    def _gathered(self, message: Message, wait: timedelta) -> list[Message]:
        own = torch.frombuffer(bytearray(message.pack()), dtype=torch.uint8)
        counts = [int(size) for size in self._tensors(torch.tensor([len(own)]), wait)]
        room = torch.zeros(max(counts), dtype=torch.uint8)
        room[: len(own)] = own
        found: list[Message] = []
        for part, count in zip(self._tensors(room, wait), counts, strict=True):
            found += MessageUnpacker().feed(part[:count].numpy().tobytes())
        for each in found:
            if each.says == ENDED and each.values:
                refused = each.values["refused"]
                raise _EndedError(InputError(*refused) if refused else CancelledError())
        if any(each.says != message.says for each in found):
            raise RuntimeError("The ranks are at different places of a job.")
        return found

    def _tensors(self, own: torch.Tensor, wait: timedelta) -> list[torch.Tensor]:
        """Return the tensors of all ranks, which are of one size."""
        found = [torch.empty_like(own) for _ in range(self.count)]
        try:
            distributed.all_gather(found, own, group=self._group, async_op=True).wait(wait)
        except RuntimeError as error:  # not for the reason of what has failed before it
            raise RuntimeError(str(error)) from None
        return found


ONE = ModelRanks()


def _error(kind: str, field: str, sentence: str) -> InputError:
    is_by_rule = kind == NotByRuleError.__name__
    return NotByRuleError(sentence) if is_by_rule else InputError(field, sentence)
