"""The language lab during training: training speed and window responsiveness."""

from __future__ import annotations

import os
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import psutil
from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QEvent, QEventLoop, Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QSlider

from tests.benchmarks import children
from tests.benchmarks.heartbeat import DRAG_MS, SHORT_GAP_MS, Heart
from tests.benchmarks.stand import TIMEOUT_S, Stand, application, linger
from tests.benchmarks.table import Line, show
from tests.benchmarks.training import SETTINGS
from visualizer.app import create_window_services
from visualizer.language.loss_log import CSV_HEADER
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_process_main import PROCESS_NICENESS
from visualizer.language.training_settings import (
    CorpusKind,
    CorpusSource,
    ModelKind,
    TrainingSettings,
)
from visualizer.session.document import Document
from visualizer.shell.window_manager import WindowManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from visualizer.lab.window import LabWindow

TRAINED = replace(SETTINGS["attention only, block 32"], threads=1)
WATCHED_MS, PLAIN_S = 20_000, 8.0
MIN_RATIO = 0.7
DEEDS = 60
MANY_STEPS = 1_000_000
"""Number of steps of a run whose losses are opened."""
DIFFERENT_WORDS = 5_000

Gap = tuple[float, float]
"""The largest gap between ticks and the largest CPU time in a gap, both in seconds."""
Gaps = dict[str, Gap]
"""Gaps by action."""


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    start, stolen = perf_counter(), getattr(psutil.cpu_times(), "steal", 0.0)
    before = children.run(_plain)
    told = children.run(_watch)
    after = children.run(_plain)
    plain = (before + after) / 2
    share = told["pace"] / plain
    figure = f"{told['pace']:9.1f} a s, plain {before:.1f}, {after:.1f}"
    lines = [
        Line("steps, attention only, block 32", figure),
        Line(
            "  run in the window ÷ plain loop",
            f"{share:9.2f} ×",
            f"≥ {MIN_RATIO} ×",
            share >= MIN_RATIO,
        ),
    ]
    found = told["gaps"] | children.run(_long) | children.run(_words)
    lines += [
        Line(f"largest gap: {words}", f"{gap * 1000:9.1f} ms, at work {work * 1000:5.1f}",
             f"≤ {SHORT_GAP_MS:g} ms", gap * 1000 <= SHORT_GAP_MS)
        for words, (gap, work) in found.items()
    ]  # fmt: skip
    taken = getattr(psutil.cpu_times(), "steal", 0.0) - stolen
    share = taken / (perf_counter() - start) / (os.cpu_count() or 1)
    lines += [Line("  of the processors, taken by other machines", f"{share:9.1%}")]
    return show("The lab, with live heatmaps and plot", lines)


def _plain() -> float:
    """Train with the plain loop, at the same priority as the lab; return the steps per second."""
    import torch

    from tests.benchmarks.plain_loop import PlainLoop
    from visualizer.language.corpora.corpus import load_corpus

    torch.set_num_threads(1)
    os.nice(PROCESS_NICENESS)
    corpus = load_corpus(TRAINED)
    plain = PlainLoop(TRAINED, corpus.training, len(corpus.vocabulary))
    for _ in range(40):  # warm-up
        plain.advance()
    count, start = 0, perf_counter()
    while perf_counter() - start < PLAIN_S:
        plain.advance()
        count += 1
    return count / (perf_counter() - start)


@dataclass(eq=False)
class Bench:
    """The lab's window, controlled by a test."""

    window: LabWindow
    heart: Heart

    def gap(self) -> Gap:
        """Return the largest gap since the last call."""
        work = max(self.heart.work, default=0.0)
        return max(self.heart.gaps_since(), default=0.0), work

    def start(self, settings: TrainingSettings) -> None:
        """Start a run and wait until its attention is displayed."""
        window = self.window
        window.lab.draft = settings
        window.lab.changed.emit()
        linger(300)
        self.gap()
        window.menus.by_id["training.toggle"].trigger()
        wait_until(lambda: window.probe_controller.result is not None)
        wait_until(lambda: bool(window.lab.run and window.lab.run.step > 100))

    def close(self) -> None:
        from visualizer.lab.training.process_controller import TrainingProcess

        self.window.lab.close_run()
        app = QCoreApplication.instance()
        assert app
        while app.findChildren(TrainingProcess):
            linger(20)
            QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        if not self.window.close():
            raise RuntimeError("the lab did not close")
        linger(20)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Process events until a condition is true."""
    loop, late = QEventLoop(), QTimer(singleShot=True, interval=TIMEOUT_S * 1000)
    late.start()
    while not is_so():
        if not late.isActive():
            raise TimeoutError("the condition did not become true in time")
        loop.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)


@contextmanager
def _opened() -> Iterator[tuple[Bench, Gap]]:
    """Open the lab in a program with a document; also yield the largest gap that this caused."""
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_DATA_HOME"] = place
        windows = WindowManager(create_window_services())
        first = Stand(windows.open_window(Document()))
        first.until_painted(first.has_numbers)
        heart = Heart()
        linger(500)
        heart.gaps_since()
        windows.open_lab()
        wait_until(lambda: bool(windows.lab and windows.lab.lab.sample))
        assert windows.lab
        windows.lab.resize(1280, 800)
        with closing(Bench(windows.lab, heart)) as bench:
            linger(300)
            yield bench, bench.gap()
        first.close()


@application()
def _watch() -> dict[str, Any]:
    """Watch a training for some time and then use its controls."""
    with _opened() as (bench, opening):
        gaps = {"the lab is opened": opening}
        bench.start(TRAINED)
        gaps["a training is started"] = bench.gap()
        linger(1_000)
        bench.gap()
        run = bench.window.lab.run
        assert run
        told = [(perf_counter(), run.step)]
        bench.window.lab.changed.connect(lambda: told.append((perf_counter(), _step(bench))))
        linger(WATCHED_MS)
        (begin, first), (end, last) = told[0], told[-1]
        gaps["it trains"] = bench.gap()
        gaps |= _played(bench)
    return {"pace": (last - first) / (end - begin), "gaps": gaps}


def _step(bench: Bench) -> int:
    run = bench.window.lab.run
    return run.step if run else 0


def _played(bench: Bench) -> Gaps:
    window, gaps = bench.window, {}
    for words, slider in (
        ("the smoothing is slid", window.plot_pane.smoothing),
        (
            "the temperature is slid",
            window.next_tokens_pane.controls["temperature"].findChildren(QSlider)[0],
        ),
    ):
        for deed in range(DEEDS):
            slider.setValue(slider.maximum() * (deed % 10) // 10)
            linger(DRAG_MS)
        gaps[words] = bench.gap()
    track = window.snapshot_bar.track
    for key in (Qt.Key.Key_Home, *[Qt.Key.Key_Right] * DEEDS, Qt.Key.Key_End):
        QTest.keyClick(track, key)
        linger(DRAG_MS)
    return gaps | {"training time is scrubbed": bench.gap()}


@application()
def _long() -> Gaps:
    """Open a run with a very large number of steps, and overlay it on another run."""
    with _opened() as (bench, _):
        lab = bench.window.lab
        children.run(_write_long, lab.runs_folder / "long")
        bench.window.run_controller.refresh_runs()
        linger(200)
        bench.gap()
        bench.window.open_run(lab.runs_folder / "long")
        wait_until(lambda: bool(lab.run and lab.run.is_open))
        wait_until(lambda: bench.window.probe_controller.result is not None)
        linger(500)
        gaps = {f"a run of {MANY_STEPS:,} steps is opened": bench.gap()}
        bench.window.run_controller.start_new_run()
        bench.start(TRAINED)
        bench.gap()
        bench.window.run_controller.set_overlaid("long", True)
        wait_until(lambda: "long" in bench.window.run_controller.overlaid_runs)
        linger(1_000)
        return gaps | {"  it is laid over another": bench.gap()}


def _write_long(path: str) -> None:
    """Write the run in a separate process, because that of the window imports no training code."""
    from visualizer.language.opened_run import OpenedRun
    from visualizer.language.run_folder import RunFolder

    folder = RunFolder(Path(path))
    opened = OpenedRun(folder, replace(TRAINED, steps=2 * MANY_STEPS))
    assert opened.running
    opened.running.trainer.step = MANY_STEPS
    opened.running.save_checkpoint()
    lines = (
        f"{step},{3 + step % 1009 / 1e4!r},,0.001,{step / 300:.3f}\n" for step in range(MANY_STEPS)
    )
    folder.loss_log_file.path.write_text(f"{CSV_HEADER}\n{''.join(lines)}")
    opened.close()


@application()
def _words() -> Gaps:
    """Train on a text with many different words."""
    with _opened() as (bench, _):
        path = Path(os.environ["XDG_DATA_HOME"]) / "words.txt"
        path.write_text(" ".join(f"w{place * place % DIFFERENT_WORDS}x{place % DIFFERENT_WORDS}"
                                 for place in range(10 * DIFFERENT_WORDS)))  # fmt: skip
        source = CorpusSource(CorpusKind.FILE, str(path), tokenizer=TokenizerKind.WORDS)
        bench.start(TrainingSettings(source, ModelKind.TRANSFORMER, batch=8, threads=1))
        gaps = {f"started on {DIFFERENT_WORDS:,} words": bench.gap()}
        linger(5_000)
        return gaps | {f"it trains on {DIFFERENT_WORDS:,} words": bench.gap()}
