"""Responsiveness of the GUI thread: gaps between the ticks of a timer."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter, thread_time

from PySide6.QtCore import QObject, Qt, QTimer

from tests.benchmarks import children
from tests.benchmarks.stand import Stand, application, document, linger
from tests.benchmarks.table import Line, p95, show
from visualizer.app import open_window
from visualizer.session.document import Document

BEAT_MS = 5
GAP_MS = 50.0
SHORT_GAP_MS = 40.0
TORCH_GAP_MS = 200.0
DEEDS = 60
DRAG_MS = 33
SIZES = ((64, 64, 8), (1024, 768, 12))


class Heart(QObject):
    """A timer on the GUI thread that records the time between its ticks."""

    def __init__(self) -> None:
        super().__init__()
        self.gaps: list[float] = []
        self.work: list[float] = []
        """For each gap, the CPU time of this thread in seconds."""
        self.waited: list[float] = []
        """For each gap, the seconds during which this thread waited for a processor; 0 if unknown.
        For the rest of the gap, it waited for a lock, a file or an event."""
        self._last, self._worked, self._waited = perf_counter(), thread_time(), _wait_time()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start(BEAT_MS)

    @property
    def pause(self) -> float:
        """The time since the last tick, in seconds; can be read on any thread."""
        return perf_counter() - self._last

    def gaps_since(self) -> list[float]:
        """Return the gaps since the last call."""
        gaps, self.gaps, self.work, self.waited = self.gaps, [], [], []
        return gaps

    def _beat(self) -> None:
        now, worked, waited = perf_counter(), thread_time(), _wait_time()
        self.gaps.append(now - self._last)
        self.work.append(worked - self._worked)
        self.waited.append(waited - self._waited)
        self._last, self._worked, self._waited = now, worked, waited


def _wait_time() -> float:
    """Return the total time, in seconds, during which this thread has waited for a processor."""
    try:
        told = Path("/proc/thread-self/schedstat").read_text(encoding="ascii")
    except OSError:  # not Linux, or a Linux without this statistic
        return 0.0
    return int(told.split()[1]) / 1e9


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    starts: list[float] = []
    for _ in range(max(3, repeats // 5)):
        starts += [max(children.run(_start))]
    lines = [_line("while torch is imported, until the first results", starts, TORCH_GAP_MS)]
    for size in SIZES:
        told = children.run(_deeds, *size)
        named = f"{size[0]:,} tokens × {size[1]} × {size[2]}"
        lines += [_line("idle", told["idle"], 0)]
        lines += [_line(f"{DEEDS} mask toggles, {named}", told["toggles"], GAP_MS)]
        lines += [_line(f"{DEEDS} steps of a slider, {named}", told["drags"], SHORT_GAP_MS)]
    return show("Largest gap between ticks on the GUI thread", lines)


def _line(words: str, gaps: list[float], target: float) -> Line:
    largest = max(gaps) * 1000
    figure = f"{largest:9.1f} ms   p95 {p95(gaps) * 1000:9.2f} ms"
    if not target:
        return Line(words, figure)
    return Line(words, figure, f"≤ {target:g} ms", largest <= target)


@application()
def _start() -> list[float]:
    """Return the gaps from the first painted window to the first painted results."""
    stand = Stand(open_window(Document()))
    stand.until_painted(lambda: True)
    heart = Heart()
    stand.until_painted(stand.has_numbers)
    linger(BEAT_MS)
    gaps = heart.gaps_since()
    stand.close()
    return gaps


@application()
def _deeds(tokens: int, size: int, heads: int) -> dict[str, list[float]]:
    """Return the gaps while the mask is toggled and while the slider for heads is dragged."""
    stand = Stand.with_numbers(document(tokens, size, heads))
    possible = [count for count in range(1, 13) if size % count == 0]
    for _ in range(2):
        stand.toggle()
    heart = Heart()
    linger(500)
    idle = heart.gaps_since()
    for _ in range(DEEDS):
        stand.toggle()
    toggles = heart.gaps_since()
    there_and_back = possible + possible[-2:0:-1]
    for step in range(DEEDS):
        stand.drag(there_and_back[step % len(there_and_back)])
        linger(DRAG_MS)
    stand.settle()
    drags = heart.gaps_since()
    stand.close()
    return {"idle": idle, "toggles": toggles, "drags": drags}
