"""Kills programs that export in a loop: every file must be the old one or the new one.

The programs are forked after all imports; each has its own Qt application.
"""

from __future__ import annotations

import csv
import io
import os
import random
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import torch
from PIL import Image
from PySide6.QtGui import QGuiApplication

from visualizer.documents.open_document import open_document
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.film_settings import FilmSettings
from visualizer.export.writers import export
from visualizer.read_files_and_restore_runs import ROOMY
from visualizer.session.document import Document
from visualizer.session.exportable_snapshot import Snapshot
from visualizer.session.timeline import Grain
from visualizer.session.worker_jobs import compute

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_S = 0.5
TEXTS = ("one two three four", "five six seven eight")
LOOK = FigureSettings(film=FilmSettings(grain=Grain.STAGE, width=640))


def shots() -> list[Snapshot]:
    """Two documents, each exported over the other."""
    documents = [Document(text=text) for text in TEXTS]
    return [Snapshot(each, ROOMY, compute(each, None)) for each in documents]


def export_on_and_on(folder: Path, of: list[Snapshot], told: int, seed: int) -> None:
    application = QGuiApplication(["killed", "-platform", "offscreen"])
    chance = random.Random(seed)
    os.write(told, b".")
    while application is not None:
        export(folder / f"a{chance.choice(list(WHOLE))}", chance.choice(of), LOOK)


def killed(folder: Path, of: list[Snapshot], seconds: float, seed: int) -> None:
    """Start a program and kill it after a while."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            export_on_and_on(folder, of, telling, seed)
        finally:
            os._exit(1)
    os.close(telling)
    os.read(told, 1)  # it has started
    select.select([], [], [], seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(told)
    assert os.WIFSIGNALED(status), "it ended by itself"


def kill_many(kills: int, seed: int = 1) -> dict[str, int]:
    """Kill this many programs and count the states of their files."""
    torch.set_num_threads(1)
    chance, of = random.Random(seed), shots()
    count = {"kills": 0, "in the middle": 0, "files read": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(kills):
            killed(folder, of, chance.random() * LONGEST_S, chance.getrandbits(32))
            parts = list(folder.glob(".*.part"))
            for part in parts:
                part.unlink()
            for path in folder.iterdir():
                WHOLE[path.suffix](path)
                count["files read"] += 1
            count["kills"] += 1
            count["in the middle"] += bool(parts)
    return count


# --------------------------------------------------------------------------- checks of files


def carries(path: Path) -> None:
    assert open_document(path).document.text in TEXTS


def whole_picture(path: Path) -> None:
    carries(path)
    with Image.open(path) as image:
        image.load()


def whole_drawing(path: Path) -> None:
    carries(path)
    assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")


def whole_pages(path: Path) -> None:
    carries(path)
    assert path.read_bytes().rstrip().endswith(b"%%EOF")


def whole_web_page(path: Path) -> None:
    carries(path)
    assert path.read_bytes().rstrip().endswith(b"</html>")


def whole_film(path: Path) -> None:
    with Image.open(path) as image:
        assert getattr(image, "n_frames") > 5  # noqa: B009 - of animations only
        image.seek(getattr(image, "n_frames") - 1)  # noqa: B009
        image.load()


def whole_arrays(path: Path) -> None:
    with np.load(path, allow_pickle=False) as arrays:
        assert {name: arrays[name].size for name in arrays}["weights"] == 2 * 4 * 4


def whole_table(path: Path) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    assert len(rows) == 1 + sum((4 * 4, 4 * 4, 4 * 1)) * 2


WHOLE: dict[str, Callable[[Path], None]] = {
    ".png": whole_picture,
    ".svg": whole_drawing,
    ".pdf": whole_pages,
    ".html": whole_web_page,
    ".gif": whole_film,
    ".npz": whole_arrays,
    ".csv": whole_table,
}
"""The check for each kind of file that it is complete."""

if __name__ == "__main__":
    print(kill_many(int(sys.argv[1])))  # noqa: T201
