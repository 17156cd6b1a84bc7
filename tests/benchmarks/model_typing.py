"""Typing while a real model runs: time until all heads are updated, and gaps of the GUI thread.

ATTENTION_VISUALIZER_MODEL contains the folder of the model. Without this variable, a small random
model is created, which is faster than SmolLM2-135M.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import psutil
from PySide6.QtCore import QPointF
from PySide6.QtTest import QTest

from tests.benchmarks import children
from tests.benchmarks.heartbeat import GAP_MS, Heart
from tests.benchmarks.models import SIZES
from tests.benchmarks.stand import Stand, application, linger, move
from tests.benchmarks.table import Line, middle, p95, show
from tests.support.tiny_models import save_tiny_model
from visualizer.app import open_window
from visualizer.features.layer_overview.presenter import LAYERS_PANEL
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "the cat sat on a mat and the dog ran to "
"""Text of twelve words with those that are typed; the small model's vocabulary has all words."""
WORDS = ("a log", "the mat", "a dog", "the cat")
KEY_MS = 120
FOLLOWS_MS = 600


def measure(repeats: int) -> int:
    """Measure in a separate process and print; return the number of missed targets."""
    with TemporaryDirectory() as place:
        named = os.environ.get("ATTENTION_VISUALIZER_MODEL")
        made = Path(place) / "m"
        folder = named or str(save_tiny_model(made, "llama", **SIZES))
        told = children.run(_typing, folder, max(3, repeats // 3))
        weights = sum(file.stat().st_size for file in Path(folder).glob("*.safetensors"))
    lines = [
        _gap("while the model is opened", told["opening"]),
        middle("last key until all heads are painted", told["follows"], FOLLOWS_MS),
        _gap("while words are typed", told["typing"]),
        _gap("the same with the pointer over a heatmap", told["pointing"]),
        _gap("the same with every pane open", told["panes"]),
        _sizes("memory of the process", told["memory"]),
        _returned("of these given back", told["memory"], weights),
        _sizes("memory of the process that splits texts", told["splitting"]),
    ]
    return show("Typing a sentence of 12 words while a model reads it", lines)


def _gap(words: str, told: dict[str, list[float]]) -> Line:
    gaps, work = told["gaps"], told["work"]
    largest = max(gaps) * 1000
    busy = work[gaps.index(max(gaps))] * 1000
    figure = f"{largest:9.1f} ms ({busy:.0f} at work)  p95 {p95(gaps) * 1000:6.2f} ms"
    return Line(words, figure, f"≤ {GAP_MS:g} ms", largest <= GAP_MS)


def _sizes(words: str, sizes: list[int]) -> Line:
    return Line(words, "  ".join(f"{size / 2**20:,.0f}" for size in sizes))


def _returned(words: str, sizes: list[int], weights: int) -> Line:
    """Return a line with the memory that was freed with the model, at least its weights."""
    returned = sizes[-2] - sizes[-1]
    figure = f"{returned / 2**20:9,.0f} MiB"
    return Line(words, figure, f"≥ {weights / 2**20:,.0f} MiB", returned >= weights)


def _memory(process: psutil.Process | None = None) -> int:
    return int((process or psutil.Process()).memory_info().rss)


def _splitting() -> int:
    """Return the memory, in bytes, of the tokenizer process; 0 if it is not running."""
    return sum(map(_memory, psutil.Process().children()))


def _told(heart: Heart) -> dict[str, list[float]]:
    work = heart.work
    return {"gaps": heart.gaps_since(), "work": work}


def _until(is_so: Callable[[], bool]) -> None:
    start = perf_counter()
    while not is_so():
        linger(5)
        if perf_counter() - start > 120:
            raise TimeoutError("the window did not show the results in time")


def _typed(stand: Stand, words: str) -> float:
    """Replace the last words by typing; return the seconds until all heads are displayed."""
    box = stand.window.settings_bar.sentence
    box.selectAll()
    box.insertPlainText(TEXT)
    stand.settle()
    for letter in words:
        linger(KEY_MS)
        pressed = perf_counter()
        QTest.keyClicks(box, letter)

    def is_there() -> bool:
        # With and without spaces.
        tokens = "".join(stand.workspace.screen.panel(LAYERS_PANEL).tokens)
        return tokens.replace(" ", "").endswith(words.replace(" ", ""))

    _until(is_there)
    pane = stand.window.docks.by_id["Layers"].widget()
    pane.repaint()
    return perf_counter() - pressed


@application()
def _typing(folder: str, repeats: int) -> dict[str, object]:
    warnings.simplefilter("ignore")
    stand = Stand(open_window(Document(text=TEXT + WORDS[0])))
    stand.window.resize(1280, 800)
    stand.until_painted(stand.has_numbers)
    stand.settle()
    memory, heart = [_memory()], Heart()
    stand.window.controllers.document_controller.open(Path(folder))
    _until(lambda: stand.workspace.document.model is not None)
    stand.settle()
    told: dict[str, object] = {"opening": _told(heart)}
    memory.append(_memory())
    splitting = [_splitting()]
    _typed(stand, WORDS[-1])
    heart.gaps_since()
    told["follows"] = [_typed(stand, WORDS[at % len(WORDS)]) for at in range(repeats)]
    told["typing"] = _told(heart)
    size = stand.board.viewport().size()
    move(stand.board.viewport(), QPointF(0.25 * size.width(), 0.5 * size.height()))
    stand.settle()
    heart.gaps_since()
    for at in range(repeats):
        _typed(stand, WORDS[at % len(WORDS)])
    told["pointing"] = _told(heart)
    for dock in stand.window.docks.by_id.values():
        dock.setVisible(True)
    stand.settle()
    heart.gaps_since()
    for at in range(repeats):
        _typed(stand, WORDS[at % len(WORDS)])
    told["panes"] = _told(heart)
    memory.append(_memory())
    stand.window.settings_bar.captured.back.click()
    stand.settle()
    memory.append(_memory())
    splitting.append(_splitting())
    stand.close()
    return {**told, "memory": memory, "splitting": splitting}
