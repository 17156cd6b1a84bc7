"""Export times compared with matplotlib, and the time to cancel an animation."""

from __future__ import annotations

import io
import random
import threading
from copy import deepcopy
from time import perf_counter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tests.benchmarks import children
from tests.benchmarks.stand import application, document
from tests.benchmarks.table import Line, show, times
from visualizer.export.figure_settings import FigureSettings
from visualizer.file_opening import EXPORT_VIEW
from visualizer.progress import CancelledError, Progress, ignore_progress
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.worker_jobs import compute

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.session.document import Document

SIZE = (1024, 768, 12)
LIMITS_S = {".png": 1.0, ".svg": 3.0, ".pdf": 3.0}
MAX_FILE_BYTES = 20e6
CALLED_OFF_MS = 200.0


def measure(repeats: int) -> int:
    """Measure in a separate process and print; return the number of missed targets."""
    told = children.run(_measurements, repeats)
    tokens, _, heads = SIZE
    lines = []
    for suffix, limit in LIMITS_S.items():
        for stages in ("weights", "usual"):
            own = told[stages][suffix]
            which = "weights" if stages == "weights" else "scores, weights, context"
            words = f"{suffix}, {which}"
            lines.append(times(words, own["seconds"], 1000 * limit))
            size = own["bytes"] / 1e6
            lines.append(
                Line("  its size", f"{size:9.1f} MB", "< 20 MB", size < MAX_FILE_BYTES / 1e6)
            )
        lines.append(times(f"  matplotlib’s {suffix} of the weights", told["matplotlib"][suffix]))
    missed = show(f"Figures of {heads} heads × {tokens:,} tokens", lines)
    film = [
        times("the usual .gif, 6 tokens", told["film"]),
        times("  from calling it off to its end", told["called off"], CALLED_OFF_MS),
    ]
    return missed + show("Films", film)


# ------------------------------------------------------------------- in a process of its own


@application()
def _measurements(repeats: int) -> dict[str, Any]:
    snapshot = _shot(document(*SIZE))
    weights = replace(snapshot, view=replace(snapshot.view, stages=frozenset({"weights"})))
    told: dict[str, Any] = {
        "weights": _figures(weights, repeats),
        "usual": _figures(snapshot, repeats),
        "matplotlib": _matplotlib(snapshot, min(repeats, 5)),
    }
    return told | _film(repeats)


def _shot(of: Document) -> ExportSnapshot:
    return ExportSnapshot(of, EXPORT_VIEW, compute(of, None))


def _written(
    snapshot: ExportSnapshot,
    look: FigureSettings,
    suffix: str,
    progress: Progress = ignore_progress,
) -> int:
    from visualizer.export.writers import WRITERS

    file = io.BytesIO()
    WRITERS[suffix](snapshot, look, file, progress)
    return len(file.getvalue())


def _figures(snapshot: ExportSnapshot, repeats: int) -> dict[str, Any]:
    told = {}
    for suffix in LIMITS_S:
        seconds, size = [], 0
        for _ in range(repeats):
            fresh = replace(snapshot, run=deepcopy(snapshot.run))  # with empty caches
            start = perf_counter()
            size = _written(fresh, FigureSettings(), suffix)
            seconds.append(perf_counter() - start)
        told[suffix] = {"seconds": seconds, "bytes": size}
    return told


def _matplotlib(snapshot: ExportSnapshot, repeats: int) -> dict[str, list[float]]:
    from matplotlib.figure import Figure

    weights = snapshot.run.trace.read("weights")
    told: dict[str, list[float]] = {}
    for suffix in LIMITS_S:
        told[suffix] = []
        for _ in range(repeats):
            start = perf_counter()
            figure = Figure((1280 / 96, 1280 / 96), 192, layout="tight")
            for number, head in enumerate(weights, 1):
                axes = figure.add_subplot(3, 4, number)
                image = axes.imshow(head, interpolation="nearest")
                axes.set(title=f"Head {number}", xlabel="key", ylabel="query")
                figure.colorbar(image)
            figure.savefig(io.BytesIO(), format=suffix[1:])
            told[suffix].append(perf_counter() - start)
    return told


def _film(repeats: int) -> dict[str, list[float]]:
    snapshot = _shot(document(6, 3, 2))
    look = FigureSettings()
    whole = [_timed(lambda: _written(snapshot, look, ".gif")) for _ in range(min(repeats, 3))]
    chance = random.Random(3)
    moments = [chance.uniform(0.02, 0.9) * min(whole) for _ in range(max(20, repeats))]
    called_off = [_called_off(snapshot, look, after_s) for after_s in moments]
    return {"film": whole, "called off": called_off}


def _timed(act: Callable[[], object]) -> float:
    start = perf_counter()
    act()
    return perf_counter() - start


def _called_off(snapshot: ExportSnapshot, look: FigureSettings, after_s: float) -> float:
    """Cancel an animation after some time, and return how long the export continued."""
    asked: list[float] = []
    timer = threading.Timer(after_s, lambda: asked.append(perf_counter()))

    def progress(done: int, of: int) -> None:
        if asked:
            raise CancelledError

    timer.start()
    try:
        _written(snapshot, look, ".gif", progress)
    except CancelledError:
        return perf_counter() - asked[0]
    finally:
        timer.cancel()
    return 0.0
