"""Real models: forward passes, and images of all heads compared with BertViz and CircuitsVis.

ATTENTION_VISUALIZER_MODEL contains the folder of the model. Without this variable, a small random
model with as many layers and heads as SmolLM2-135M (30 × 9) is created; its images take the same
time. Other tools are compared only if they are installed. Their times include only the creation of
a page, not its display in a browser.
"""

from __future__ import annotations

import os
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from tests.benchmarks.peers import seconds
from tests.benchmarks.stand import application
from tests.benchmarks.table import Line, ratio, show, times
from tests.support.tiny_models import save_tiny_model
from visualizer.api.model_api import Model, open_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from visualizer.api.model_attention import ModelAttention

TOKENS = (14, 64, 256)
WORDS = ("the", "cat", "sat", "on", "mat", "dog", "ran", "to", "a", "log")
OVERVIEW_MS = 1000
SIZES = {
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 16,
    "hidden_size": 144, "max_position_embeddings": 2048, "sliding_window": None,
}  # fmt: skip


def measure(repeats: int) -> int:
    """Measure and print; return the number of missed targets."""
    rounds = max(3, repeats // 3)
    with application(), warnings.catch_warnings(), TemporaryDirectory() as place:
        warnings.simplefilter("ignore")
        named = os.environ.get("ATTENTION_VISUALIZER_MODEL")
        folder = Path(named) if named else save_tiny_model(Path(place) / "m", "llama", **SIZES)
        model = open_model(folder)
        return sum(_measure(model, count, rounds) for count in TOKENS)


def _measure(model: Model, count: int, rounds: int) -> int:
    text = " ".join((WORDS * count)[: count - 1])
    seen = model.attend(text)
    fresh: list[ModelAttention] = []
    drawn: list[bytes] = []
    reading, ours = [], []
    for _ in range(rounds + 1):  # a new run each time, so that nothing has been pooled or measured
        reading.append(seconds(lambda: fresh.append(model.attend(text))))
        ours.append(seconds(lambda: drawn.append(fresh[-1].overview().png)))
        fresh.clear()
    del reading[0], ours[0]  # the first round loads fonts and the templates of the other tools
    bytes_ = len(drawn[-1])
    lines = [
        times("reading the text", reading),
        times("the picture of all heads, numbers measured", ours, OVERVIEW_MS),
        Line("its bytes", f"{bytes_:9,}"),
    ]
    for name, draw in _peers(seen):
        sizes: list[int] = []
        theirs = [seconds(partial(_keep, sizes, draw)) for _ in range(rounds + 1)][1:]
        size = sizes[-1]
        lines += [times(f"{name}: its page", theirs), Line("its bytes", f"{size:9,}")]
        lines += [ratio(f"our time / that of {name}", ours, theirs, at_most=1.0)]
        is_kept = bytes_ <= size
        lines += [Line("our bytes / its", f"{bytes_ / size:9.3f} ×", "≤ 1 ×", is_kept)]
    layers, heads = seen["weights"].shape[:2]
    return show(f"All {layers} × {heads} heads of {len(seen.tokens):,} tokens", lines)


def _keep(sizes: list[int], draw: Callable[[], int]) -> None:
    sizes.append(draw())


def _peers(seen: ModelAttention) -> Iterator[tuple[str, Callable[[], int]]]:
    weights, tokens = torch.tensor(seen["weights"]), [*seen.tokens]
    layers = [layer[None] for layer in weights]  # each [text, head, query, key]
    for name, module, draw in (
        ("BertViz", "bertviz", partial(_bertviz, layers, tokens)),
        ("CircuitsVis", "circuitsvis.attention", partial(_circuitsvis, weights, tokens)),
    ):
        try:
            made = import_module(module)
        except ImportError:
            print(f"  {name} is not installed")
            continue
        yield name, partial(draw, made)


def _bertviz(layers: list[torch.Tensor], tokens: list[str], made: Any) -> int:
    page = made.model_view(layers, tokens, html_action="return")
    return len(page.data.encode())


def _circuitsvis(weights: torch.Tensor, tokens: list[str], made: Any) -> int:
    layers = [str(made.attention_heads(layer, tokens)) for layer in weights]
    return sum(len(layer.encode()) for layer in layers)
