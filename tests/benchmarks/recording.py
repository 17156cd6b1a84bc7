"""Cost of recording the attention of a model every 100 steps, compared with the same training.

The times are those of the processor and include the thread that writes the files, so that other
programs on the machine hardly affect them.
"""

from __future__ import annotations

import itertools
import tempfile
import warnings
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from tests.benchmarks import children
from tests.benchmarks.table import Line, ratio, show

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY = 100
MAX_RATIO = 1.02
SIZES = {
    "2 layers × 4 heads × 16": {"n_layer": 2, "n_head": 4, "n_embd": 64},
    "4 layers × 8 heads × 32": {"n_layer": 4, "n_head": 8, "n_embd": 256},
}
"""Sizes of the models, which are GPT-2 with random weights; the smallest have the fastest steps."""
TEXTS = [list(range(1, 33)), list(range(5, 69))]
"""Texts of 32 and 64 tokens."""
MAX_TURNS = {"2 layers × 4 heads × 16": 15, "4 layers × 8 heads × 32": 3}


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    lines: list[Line] = []
    for words in SIZES:
        turns = min(repeats, MAX_TURNS[words])
        told = children.run(_loops, words, turns)
        lines.append(_line(f"plain loop, {words}", told))
    told = children.run(_trainers, next(iter(SIZES)), repeats)
    lines.append(_line("Trainer of Transformers, the smaller model", told))
    return show(f"Training that is recorded every {EVERY} steps beside the same training", lines)


def _line(words: str, told: dict[str, Any]) -> Line:
    return ratio(f"{words}: recorded ÷ not", told["recorded"], told["plain"], at_most=MAX_RATIO)


def _loops(words: str, turns: int) -> dict[str, Any]:
    """Train two equal models alternately, step by step, one of which is recorded."""
    import visualizer

    told: dict[str, Any] = {"plain": [], "recorded": []}
    with tempfile.TemporaryDirectory() as place:
        models = [_model(words) for _ in range(2)]
        plain, recorded = map(_training_step, models)
        recorder = visualizer.record(models[1], every=EVERY, texts=TEXTS, to=Path(place) / "run")

        def record_step() -> None:
            recorder.step(recorded())

        for _ in range(10):  # warm up
            plain()
            recorded()
        for _ in range(turns):
            seconds = {"plain": 0.0, "recorded": 0.0}
            for at in range(EVERY):
                order = (("plain", plain), ("recorded", record_step))
                for name, advance in order if at % 2 else reversed(order):
                    start = process_time()
                    advance()
                    seconds[name] += process_time() - start
            for name, each in seconds.items():
                told[name].append(each)
        recorder.close()
    return told


def _model(words: str) -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    names = {"vocab_size": 256, "n_positions": 128, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**names, **SIZES[words])).train()


def _training_step(model: Any) -> Callable[[], Any]:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    seeds = itertools.count()

    def advance() -> Any:
        ids = torch.randint(256, (4, 32), generator=torch.Generator().manual_seed(next(seeds)))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return advance


def _trainers(words: str, turns: int) -> dict[str, Any]:
    """Train with and without the callback, in turn."""
    told: dict[str, Any] = {"plain": [], "recorded": []}
    for turn in range(turns + 1):
        for name in told:
            seconds = _train(words, is_recorded=name == "recorded")
            if turn:
                told[name].append(seconds)
    return told


def _train(words: str, *, is_recorded: bool) -> float:
    import torch
    from transformers import Trainer, TrainingArguments

    import visualizer

    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        to = Path(place) / "run"
        callback = visualizer.trainer_callback(every=EVERY, texts=TEXTS, to=to)
        ids = torch.arange(32).repeat(64, 1)
        data = [{"input_ids": row, "labels": row} for row in ids]
        arguments = TrainingArguments(
            place, max_steps=2 * EVERY, per_device_train_batch_size=4, logging_steps=10,
            save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        callbacks = [callback] if is_recorded else []
        trainer = Trainer(_model(words), arguments, train_dataset=data, callbacks=callbacks)
        start = process_time()
        trainer.train()
        return process_time() - start
