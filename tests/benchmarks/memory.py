"""Memory for a large text, and how much of this memory is freed."""

from __future__ import annotations

import gc

import psutil
from PySide6.QtCore import QObject, QTimer

from tests.benchmarks import children
from tests.benchmarks.stand import Stand, application, document, linger, text
from tests.benchmarks.table import Line, show
from visualizer.session.newest_request_worker import IDLE_DELAY_S

LARGE = (1024, 768, 12)
MAX_GROWTH = 1.2
MAX_REMAINDER = 0.2
MEBI = 2**20
IDLE_MS = round(1000 * IDLE_DELAY_S) + 500
"""Time, in ms, after which an idle program has freed its cached memory."""


class Peak(QObject):
    """Records the peak memory of this process."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._look)
        self._timer.start(2)

    def _look(self) -> None:
        self.bytes = max(self.bytes, psutil.Process().memory_info().rss)


def measure(repeats: int) -> int:
    """Measure in a separate process and print; return the number of missed targets."""
    told = children.run(_bytes_used)
    small, large, back, trace = (told[name] for name in ("small", "large", "back", "trace"))
    grown, left = (large - small) / trace, (back - small) / trace
    lines = [
        Line("RSS at 6 tokens, warm", _mebi(small)),
        Line("RSS at 1,024 × 768 × 12, at rest", _mebi(large)),
        Line("  highest while the mask is toggled and the text edited", _mebi(told["peak"])),
        Line("RSS back at 6 tokens", _mebi(back)),
        Line("bytes of the large trace", _mebi(trace)),
        Line("growth ÷ bytes", f"{grown:9.2f} ×", f"≤ {MAX_GROWTH:g} ×", grown <= MAX_GROWTH),
        Line(
            "left after going back ÷ bytes",
            f"{left:9.2f} ×",
            f"≤ {MAX_REMAINDER:g} ×",
            left <= MAX_REMAINDER,
        ),
    ]
    return show("Memory", lines)


def _mebi(count: float) -> str:
    return f"{count / MEBI:9.1f} MiB"


@application()
def _bytes_used() -> dict[str, int]:
    stand = Stand.with_numbers(document(6, 3, 2))
    told = {"small": _rss_at_rest(stand)}
    small = stand.workspace.document
    _change(stand, text(LARGE[0]), LARGE[1], LARGE[1], LARGE[2])
    told["large"] = _rss_at_rest(stand)
    told["trace"] = stand.trace.bytes
    peak = Peak()
    for _ in range(3):
        stand.toggle()
        stand.edit()
    told["peak"] = peak.bytes
    spec = small.spec
    _change(stand, small.text, spec.d_in, spec.d_out, spec.heads)
    told["back"] = _rss_at_rest(stand)
    stand.close()
    return told


def _change(stand: Stand, words: str, d_in: int, d_out: int, heads: int) -> None:
    for name, value in (("heads", heads), ("d_out", d_out), ("d_in", d_in), ("text", words)):
        stand.workspace.change_setting(name, value)
    stand.settle()


def _rss_at_rest(stand: Stand) -> int:
    for _ in range(4):
        stand.toggle()
        stand.edit()
    gc.collect()
    linger(IDLE_MS)
    return psutil.Process().memory_info().rss
