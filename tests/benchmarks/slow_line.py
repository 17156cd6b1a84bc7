"""A model on a server behind a slow connection: time to the first image, and the working window.

`tests.support.slow_network_namespace` provides the connection: this system's TCP with a round trip
of 100 ms and a loss of 1% in each direction. It requires root.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import psutil
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from tests.benchmarks import children
from tests.benchmarks.heartbeat import Heart
from tests.benchmarks.reading import Reader
from tests.benchmarks.stand import application, linger
from tests.benchmarks.table import Line, show, times
from tests.support.served_models import TOKEN, served
from tests.support.slow_network_namespace import FAR, slow_namespace
from tests.support.tiny_models import WORDS, save_tiny_model
from visualizer.cli.serve import UNENCRYPTED_OPTION
from visualizer.features.model_connection.dialog import ModelConnectionDialog
from visualizer.session.document import Document

SIZES = (6, 64, 1_000, 2_048)
LAYERS, HEADS = 30, 9
FIRST_S = 1.0
FRAME_MS = 16.7
GAP_MS = 50.0
ROUND_TRIP_S, LOSS = 0.1, 0.01
LOWEST_PRIORITY = 19
MEASUREMENTS = 5
"""Number of measurements of the first image, because packet loss is random."""
ZOOM_MS = 8000
"""Time, in ms, during which data arrive while the wheel is turned."""


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    if os.geteuid() != 0:
        print("The slow connection is not measured: creating a network namespace requires root.")
        return 1
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = save_tiny_model(
            Path(name), num_hidden_layers=LAYERS, num_attention_heads=HEADS,
            num_key_value_heads=3, hidden_size=16 * HEADS, head_dim=16,
            max_position_embeddings=max(SIZES) + 8, sliding_window=None,
        )  # fmt: skip
        for size in SIZES:
            told, *others = (
                children.run(_window, folder, size, count, seed)
                for seed, count in enumerate((4 * repeats, *[0] * (MEASUREMENTS - 1)))
            )
            firsts = [one["first"] for one in (told, *others)]
            gap, first = told["gap"] * 1000, median(firsts)
            missed += show(
                f"{LAYERS} layers × {HEADS} heads behind 100 ms and 1% of loss, {size:,} tokens",
                [
                    Line("connect → first picture, the median", f"{first:9.2f} s",
                         f"≤ {FIRST_S:g} s", first <= FIRST_S),
                    Line("  each", "  ".join(f"{each:.2f}" for each in firsts)),
                    Line("  until all is there", f"{told['settled']:9.2f} s"),
                    Line("  bytes from the server", f"{told['bytes'] / 2**20:9.2f} MiB"),
                    times("wheel → closer or further, painted", told["zoom"], FRAME_MS),
                    Line("largest gap of the window's thread",
                         f"{gap:9.1f} ms   {told['work'] * 1000:.1f} at work",
                         f"≤ {GAP_MS:g} ms", gap <= GAP_MS),
                ],
            )  # fmt: skip
    return missed


def _connect(reader: Reader, port: int) -> None:
    """Enter the server in the dialog and click Connect."""
    controller = reader.window.controllers.model_connection_controller
    controller.open_dialog()
    dialog = controller.dialog
    assert isinstance(dialog, ModelConnectionDialog)
    for line, text in ((dialog.host, FAR), (dialog.token, TOKEN), (dialog.ssh, "")):
        line.setText(text)
        line.textEdited.emit(text)
    dialog.port.setValue(port)
    linger(500)  # until the dialog is visible
    QTest.mouseClick(dialog.connect_button, Qt.MouseButton.LeftButton)


def _give_way(pid: int) -> None:
    """Lower the priority of the server's threads, because the server represents another machine."""
    whole = psutil.Process(pid)
    for each in (whole, *whole.children(recursive=True)):
        for thread in each.threads():
            os.setpriority(os.PRIO_PROCESS, thread.id, LOWEST_PRIORITY)


@application()
def _window(folder: str, tokens: int, repeats: int, seed: int) -> dict[str, Any]:
    """Connect to a new server and, if `repeats` is not 0, zoom in and out."""
    words = " ".join((WORDS * (tokens // len(WORDS) + 1))[: tokens - 1])
    threads = os.cpu_count() or 1  # the default number of threads
    with (
        slow_namespace(ROUND_TRIP_S, LOSS, seed) as line,
        served(
            Path(folder), "--host", FAR, UNENCRYPTED_OPTION, threads=threads, within=line.trim_to
        ) as server,
    ):
        _give_way(server.process.pid)
        reader = Reader.with_numbers(Document())
        reader.workspace.change_setting("text", words)
        reader.settle()
        heart = Heart()
        _connect(reader, server.port)
        start = perf_counter()
        first = reader.until_painted(
            lambda: reader.workspace.document.model is not None and reader.has_numbers()
        )
        zoom: list[float] = []
        chance, end = random.Random(3), perf_counter() + ZOOM_MS / 1000
        for number in range(repeats):
            if seconds := reader.next_branch_button(chance, 1 if number % 12 < 6 else -1):
                zoom.append(seconds)
            linger(5)
        while repeats and perf_counter() < end:
            linger(20)
        if repeats:
            reader.settle()
        gap, work = max(zip(heart.gaps, heart.work, strict=True))
        settled = perf_counter() - start
        reader.close()
        return {
            "first": first - start, "zoom": zoom, "gap": gap, "work": work,
            "settled": settled, "bytes": line.bytes,
        }  # fmt: skip
