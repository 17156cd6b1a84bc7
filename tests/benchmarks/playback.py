"""Seeking in a timeline with millions of steps, and the frame rate of fast playback."""

from __future__ import annotations

import random
from time import perf_counter
from typing import TYPE_CHECKING

import psutil
from PySide6.QtCore import QCoreApplication, QEventLoop, QTimer

from tests.benchmarks import children
from tests.benchmarks.heartbeat import GAP_MS, Heart
from tests.benchmarks.stand import Stand, application, document, linger
from tests.benchmarks.table import Line, show, times
from visualizer.features.playback.presenter import PLAYBACK_PANEL
from visualizer.session.timeline import STEP_MS, StepSize, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE, MIDDLE = (1024, 768, 12), (64, 64, 8)
SEEK_MS = 10.0
WARM_UPS = 200
STEPS = 30.0
PLAYED_S = 4.0
PACE = 0.97
GROWTH = 0.01
MEBI = 2**20


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    seeks = children.run(_seek, 10 * repeats)
    grown = (seeks["after"] - seeks["before"]) / seeks["trace"]
    figure = f"{(seeks['after'] - seeks['before']) / MEBI:9.1f} MiB"
    lines = [
        times(f"open the timeline: {seeks['steps']:,} steps by cell", seeks["open"], SEEK_MS),
        times("seek → screen, within a stage", seeks["near"], SEEK_MS),
        times("  → painted, with the wait for a frame", seeks["near painted"]),
        times("seek → painted, to any stage, read before", seeks["far painted"]),
        Line("memory grown by all of it", figure, f"≤ {GROWTH:.0%} of trace", grown <= GROWTH),
    ]
    missed = show("12 heads × 1,024 × 1,024, by cell", lines)
    return missed + _pace()


def _pace() -> int:
    lines = []
    for grain in (StepSize.CELL, StepSize.ROW):
        told = children.run(_play, grain)
        wanted = STEPS * told["seconds"]
        share = told["steps"] / wanted
        frames = f"{told['steps'] / told['seconds']:9.1f} a s  {told['frames']:6} frames"
        lines += [
            Line(f"steps, {STEPS:g} a second by {grain}", frames, f"≥ {PACE:g}", share >= PACE),
            Line(
                "  largest gap between ticks on the GUI thread",
                f"{max(told['gaps']) * 1000:9.1f} ms",
                f"≤ {GAP_MS:g} ms",
                max(told["gaps"]) * 1000 <= GAP_MS,
            ),
        ]
    return show("Playback of 64 tokens × 8 heads", lines)


@application()
def _seek(repeats: int) -> dict[str, object]:
    stand = Stand.with_numbers(document(*LARGE))
    player = stand.window.controllers.playback_controller
    player.set_step_size(StepSize.CELL)
    for stage in stand.trace.names:  # the data of a stage are read only once
        player.seek_stage(stage)
        stand.settle(10)
    for seed in range(3):  # warm-up, in which the caches fill
        _seek_about(stand, WARM_UPS, random.Random(seed))
    before = psutil.Process().memory_info().rss
    told = _seek_about(stand, repeats, random.Random(3))
    linger(300)
    after = psutil.Process().memory_info().rss
    steps, trace = len(Timeline.from_trace(stand.trace, StepSize.CELL)), stand.trace.bytes
    stand.close()
    return {**told, "steps": steps, "trace": trace, "before": before, "after": after}


def _seek_about(stand: Stand, repeats: int, chance: random.Random) -> dict[str, list[float]]:
    player, workspace = stand.window.controllers.playback_controller, stand.workspace
    names = ("open", "near", "near painted", "far painted")
    told: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        start = perf_counter()
        timeline = Timeline.from_trace(stand.trace, StepSize.CELL)
        timeline.position_of_step(chance.randrange(len(timeline)))
        told["open"].append(perf_counter() - start)
    player.seek_stage("scores")
    stand.settle(10)
    first = timeline.step_index(player.playhead.place)
    for _ in range(repeats):
        position = first + chance.randrange(LARGE[0] ** 2)
        if (taken := _timed_seek(stand, position, lambda: True)) is not None:
            told["near"].append(taken[0])
            told["near painted"].append(taken[1])
    for _ in range(repeats // 3):
        position = chance.randrange(len(timeline))
        if taken := _timed_seek(
            stand, position, lambda: workspace.view == workspace.requested_view
        ):
            told["far painted"].append(taken[1])
        stand.settle(10)
    return told


def _timed_seek(
    stand: Stand, position: int, is_shown: Callable[[], bool]
) -> tuple[float, float] | None:
    """Seek; return the duration of the call and the time until the step is painted, in seconds.

    The result is None if the playhead is already at this step. The call itself may paint the step.
    """
    player = stand.window.controllers.playback_controller
    QCoreApplication.processEvents()  # paint what remains from the last seek
    start = called = perf_counter()

    def seek() -> bool:
        nonlocal called
        before = player.playhead
        player.seek(position)
        called = perf_counter()
        return player.playhead != before

    painted = stand.until_painted(is_shown, act=seek)
    return (called - start, painted - start) if painted else None


@application()
def _play(name: str) -> dict[str, object]:
    grain = StepSize(name)
    stand = Stand.with_numbers(document(*MIDDLE))
    player = stand.window.controllers.playback_controller
    player.set_step_size(grain)
    player.set_speed(STEPS * STEP_MS[grain] / 1000)
    player.seek_stage("scores")
    stand.settle()
    frames = 0

    def count() -> None:
        nonlocal frames
        frames += 1

    stand.board.painted.connect(count)
    first = stand.workspace.screen.panel(PLAYBACK_PANEL).position
    heart = Heart()
    start = perf_counter()
    player.toggle_playback()
    loop = QEventLoop()
    QTimer.singleShot(round(PLAYED_S * 1000), loop.quit)
    loop.exec()
    seconds = perf_counter() - start
    steps = stand.workspace.screen.panel(PLAYBACK_PANEL).position - first
    gaps = heart.gaps_since()
    player.toggle_playback()
    stand.settle()
    stand.close()
    return {"steps": steps, "seconds": seconds, "frames": frames, "gaps": gaps}
