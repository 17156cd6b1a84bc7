"""Deterministic training of a language model: AdamW steps on batches of a corpus.

Sources: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization" (AdamW).
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from visualizer.attention import device as attention_device
from visualizer.attention.spec import Dtype
from visualizer.language.corpora.corpus import CorpusSplit
from visualizer.language.distributed_process_group import ProcessCommand
from visualizer.language.language_models import build_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from torch import nn

    from visualizer.language.corpora.corpus import Corpus
    from visualizer.language.distributed_process_group import DistributedProcessGroup
    from visualizer.language.training_settings import TrainingSettings


class WholeBatchDropout(TorchFunctionMode):
    """Context in which dropout samples masks for a whole batch and uses only those of some rows.

    Parameters
    ----------
    rows : slice
        The rows of the batch that this process computes.
    batch : int
        Number of rows in the whole batch.
    """

    def __init__(self, rows: slice, batch: int) -> None:
        super().__init__()
        self._rows, self._batch = rows, batch

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace the two functions that apply dropout."""
        options = dict(kwargs or {})
        if function is functional.dropout:
            return self._apply_dropout(*args, **options)
        if function is functional.scaled_dot_product_attention and options.get("dropout_p"):
            return self._attend_with_dropout(*args, **options)
        return function(*args, **options)

    def _apply_dropout(
        self, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not (training and p):
            return values
        ones = values.new_ones(self._batch, *values.shape[1:])
        # Unlike the slice, the copy does not keep the other rows in memory.
        mask = functional.dropout(ones, p)[self._rows].clone()
        return values * mask

    def _attend_with_dropout(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        dropout_p: float,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        scores = queries @ keys.mT * scale  # row head query key
        if is_causal:
            later = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)  # query key
            scores = scores.masked_fill(later, -torch.inf)
        return self._apply_dropout(functional.softmax(scores, dim=-1), dropout_p) @ values


MAX_THREADS = 8
"""Default maximum number of threads; small models do not become faster with more threads."""


class Trainer:
    """A model, its optimizer and the states of its random-number generators.

    The states are saved in checkpoints. Random numbers that are drawn elsewhere in the program do
    not affect training.

    Parameters
    ----------
    settings : TrainingSettings
        Valid settings; see `check_settings`.
    corpus : Corpus
        The training and validation data.
    """

    def __init__(self, settings: TrainingSettings, corpus: Corpus) -> None:
        device, notice = attention_device.resolve_device(settings.device, Dtype.FLOAT32)
        self.device_notice = notice or ""
        self.device = torch.device(device)
        self.device_name = attention_device.describe_device(device)
        self.settings, self.corpus = settings, corpus
        self.model = build_model(settings, len(corpus.vocabulary)).to(self.device)
        self.optimiser = torch.optim.AdamW(
            self.model.parameters(), lr=settings.rate, fused=self.device.type != "mps"
        )
        self.step = 0
        self.generator = np.random.Generator(np.random.PCG64(settings.seed))
        self.randomness = _initial_rng_states(settings.seed, self.device)
        self._group: DistributedProcessGroup | None = None
        self._averaged_model: nn.Module = self.model

    def share_batches(self, group: DistributedProcessGroup) -> None:
        """Compute only a share of each batch; all processes of the group must call this together.

        The losses and states equal those of a single process, up to rounding. On GPUs, the dropout
        masks in attention differ from those of a single process; see `WholeBatchDropout`.
        """
        threads = self.settings.threads or default_thread_count()
        self._group, self._averaged_model = group, group.wrap_in_data_parallel(self.model, threads)

    def train_one_step(self) -> float:
        """Do one step; return the mean loss of its batch before the update, in nats per token.

        If memory runs out, the state is restored, so that the step can be repeated.
        """
        if not self.model.training:  # checked first, because train() visits every module
            self.model.train()
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate_at(self.step)
        with self._broadcast_command(ProcessCommand.STEP), self._restore_on_error():
            batch = self._draw_batch(CorpusSplit.TRAINING, self.settings.batch, self.generator)
            with self._use_own_generators():
                own_loss = self._batch_loss(self._averaged_model, batch)
            self.optimiser.zero_grad()
            torch.autograd.backward(own_loss)
            loss = self._group.mean_loss(own_loss.item()) if self._group else own_loss
            # The update is last, so that a step that other processes did not complete is undone.
            self.optimiser.step()
        self.step += 1
        return loss.item() if isinstance(loss, Tensor) else loss

    @torch.no_grad()
    def evaluate(self, split: CorpusSplit, batches: int) -> float:
        """Return the mean loss of random batches that are always the same, in nats per token."""
        number = [*CorpusSplit].index(split)
        # The seed is never [seed, 0], which would draw the same numbers as the seed itself: the
        # first training batches.
        generator = np.random.Generator(np.random.PCG64([self.settings.seed, 2 - number]))
        with self._broadcast_command(ProcessCommand.EVALUATE, number, batches):
            self.model.eval()
            losses = [
                self._batch_loss(
                    self.model, self._draw_batch(split, self.settings.batch, generator)
                ).item()
                for _ in range(batches)
            ]
            loss = float(np.mean(losses))
            return self._group.mean_loss(loss) if self._group else loss

    def _broadcast_command(
        self, order: ProcessCommand, *numbers: int
    ) -> AbstractContextManager[None]:
        return self._group.broadcast_command(order, *numbers) if self._group else nullcontext()

    def _draw_batch(self, split: CorpusSplit, count: int, generator: np.random.Generator) -> Tensor:
        rows = self.corpus.sample_batch(split, count, self.settings.block, generator)
        if self._group:
            rows = rows[self._group.rows_of_process(count)]
        return torch.from_numpy(rows).to(self.device)  # row block+1

    def _batch_loss(self, model: nn.Module, batch: Tensor) -> Tensor:
        logits = model(batch[:, :-1], fused=True)  # row token vocabulary
        return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    @contextmanager
    def _restore_on_error(self) -> Iterator[None]:
        """Restore the state if a step fails."""
        batch_state, dropout_states = self.generator.bit_generator.state, self.randomness
        try:
            yield
        except (RuntimeError, MemoryError):
            self.generator.bit_generator.state, self.randomness = batch_state, dropout_states
            self.optimiser.zero_grad()
            if not self.step:  # the first step may have created a part of the optimizer's state
                self.optimiser.state.clear()
            raise

    def _whole_batch_dropout(self) -> AbstractContextManager[object]:
        if not self._group:
            return nullcontext()
        batch = self.settings.batch
        return WholeBatchDropout(self._group.rows_of_process(batch), batch)

    @contextmanager
    def _use_own_generators(self) -> Iterator[None]:
        """Use the trainer's own random-number generators for dropout."""
        if not self.settings.dropout:
            yield
            return
        with _fork_rng(self.device):
            _set_rng_states(self.randomness, self.device)
            with self._whole_batch_dropout():
                yield
            self.randomness = _get_rng_states(self.device)


def default_thread_count() -> int:
    """Return the default number of training threads, which leaves one core for the window.

    A thread that waits for a core blocks all other threads, which costs far more time than using
    one thread fewer. Only the cores that this process may use are counted.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(max(1, cores - 1), MAX_THREADS)


def _fork_rng(device: torch.device) -> AbstractContextManager[None]:
    """Restore torch's global generators for the CPU and a device at the end of the context."""
    if device.type == "cpu":
        return torch.random.fork_rng(devices=[])
    index = torch.cuda.current_device() if device.type == "cuda" else 0
    return torch.random.fork_rng(devices=[index], device_type=device.type)


def _initial_rng_states(seed: int, device: torch.device) -> dict[str, Tensor]:
    with _fork_rng(device):
        torch.manual_seed(seed)
        return _get_rng_states(device)


def _get_rng_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the generators that dropout uses, by device type."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = getattr(torch, device.type).get_rng_state()
    return states


def _set_rng_states(states: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(states["cpu"])
    if device.type in states and device.type != "cpu":
        getattr(torch, device.type).set_rng_state(states[device.type])
