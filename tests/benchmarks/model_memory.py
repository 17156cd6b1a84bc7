"""Memory and time of a model's forward pass in the Python API, compared with eager attention.

The model has the sizes of SmolLM2-135M and random weights. Each text is processed in a separate
process, which measures the growth of the peak memory, also while every stage of every layer is
read.
"""

from __future__ import annotations

import gc
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psutil
import torch

from tests.benchmarks import children
from tests.benchmarks.table import Line, ratio, show
from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer.api.model_api import open_model

if TYPE_CHECKING:
    from visualizer.api.model_api import Model

TOKENS = (256, 1024)
MEMORY, TIME = 1.3, 1.25
MEBI = 2**20
SIZES = {
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
    "hidden_size": 576, "intermediate_size": 1536, "vocab_size": 49152,
    "max_position_embeddings": 8192, "sliding_window": None,
}  # fmt: skip
WAYS = ("eager", "ours", "read")


def measure(repeats: int) -> int:
    """Measure and print; return the number of missed targets."""
    rounds = max(3, repeats // 5)
    with TemporaryDirectory() as place:
        folder = save_tiny_model(Path(place) / "m", "llama", **SIZES)
        return sum(_measure(folder, count, rounds) for count in TOKENS)


def _measure(folder: Path, tokens: int, rounds: int) -> int:
    told = {way: growth(folder, tokens, way) for way in WAYS}
    eager = told["eager"]
    seconds = children.run(_seconds, folder, tokens, rounds)
    lines = [Line("eager attention with its weights", f"{eager / MEBI:9.1f} MiB")]
    for way, words in (("ours", "attend"), ("read", "attend, and every stage of each layer read")):
        share = told[way] / eager
        lines += [Line(words, f"{told[way] / MEBI:9.1f} MiB")]
        lines += [Line("  ÷ eager", f"{share:9.2f} ×", f"≤ {MEMORY:g} ×", share <= MEMORY)]
    lines += [ratio("time of attend ÷ eager", seconds["ours"], seconds["eager"], at_most=TIME)]
    return show(f"Memory of {tokens:,} tokens × 30 layers × 9 heads in Python", lines)


def growth(folder: Path, tokens: int, way: str) -> int:
    """Return the maximum growth of memory, in bytes, measured in a separate process."""
    found: int = children.run(_growth, folder, tokens, way)
    return found


def _opened(folder: str, tokens: int) -> tuple[Model, str]:
    warnings.simplefilter("ignore")
    model = open_model(folder)
    model.attend(" ".join(WORDS * 6))  # determines once what the layers compute
    return model, " ".join((WORDS * tokens)[: tokens - 1])


def _read(model: Model, text: str, way: str) -> Any:
    if way == "eager":
        return _eager(model, text)
    seen = model.attend(text)
    for layer in seen.layers if way == "read" else ():
        attention = seen.attention(layer)
        for stage in attention.stages:
            attention[stage, layer]
    return seen


def _eager(model: Model, text: str) -> Any:
    given, *_ = model.opened.encode_inputs(text)
    with torch.inference_mode():
        return model.opened.model(**given, output_attentions=True)


def _growth(folder: str, tokens: int, way: str) -> int:
    model, text = _opened(folder, tokens)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # reset the peak
    before = psutil.Process().memory_info().rss
    kept = _read(model, text, way)
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    del kept
    (peak,) = (line.split()[1] for line in status if line.startswith("VmHWM:"))
    return int(peak) * 1024 - before


def _seconds(folder: str, tokens: int, rounds: int) -> dict[str, list[float]]:
    """Time both alternately, after one warm-up of each."""
    model, text = _opened(folder, tokens)
    found: dict[str, list[float]] = {"eager": [], "ours": []}
    for _ in range(rounds + 1):
        for way in found:
            start = time.process_time()
            _read(model, text, way)
            found[way].append(time.process_time() - start)
    return {way: each[1:] for way, each in found.items()}
