"""Kills programs that export in a loop; each file must be the old or the new one.

Some programs export texts whose matrices are computed in blocks, as images of a page and of single
cells. The programs are forked after all imports; each one has its own Qt application.
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
from msgspec import Struct
from PIL import Image
from PySide6.QtGui import QGuiApplication

from tests.support.long_texts import long_shot
from visualizer.documents.open_document import open_document
from visualizer.export.figure_settings import AnimationSettings, FigureExtent, FigureSettings
from visualizer.export.writers import export_file
from visualizer.file_opening import EXPORT_VIEW
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.timeline import StepSize
from visualizer.session.worker_jobs import compute

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_S = 0.5
LOOK = FigureSettings(film=AnimationSettings(grain=StepSize.STAGE, width=640))
LOOKS = (LOOK, FigureSettings(extent=FigureExtent.CELLS))


class Exported(Struct, frozen=True, eq=False):
    """Two documents, each exported over the other.

    Parameters
    ----------
    weights : int
        Number of weights in a file of numbers; 0 if the matrices are not stored.
    rows : tuple of int
        Possible numbers of rows in a table.
    """

    snapshots: tuple[ExportSnapshot, ExportSnapshot]
    weights: int
    rows: tuple[int, ...]
    suffixes: tuple[str, ...]
    looks: tuple[FigureSettings, ...]

    @property
    def texts(self) -> set[str]:
        """The texts of the documents that a file may contain."""
        return {each.document.text for each in self.snapshots}


def short_texts() -> Exported:
    """Return documents with short texts, whose matrices are stored."""
    documents = [Document(text=text) for text in ("one two three four", "five six seven eight")]
    one, other = (ExportSnapshot(each, EXPORT_VIEW, compute(each, None)) for each in documents)
    rows = (sum((4 * 4, 4 * 4, 4 * 1)) * 2,)
    return Exported((one, other), 2 * 4 * 4, rows, tuple(WHOLE), (LOOK,))


def long_texts() -> Exported:
    """Return documents with long texts, whose matrices are computed in blocks."""
    suffixes = tuple(suffix for suffix in WHOLE if suffix != ".gif")
    one, other = long_shot(500), long_shot(501)
    return Exported((one, other), 0, (500, 501), suffixes, LOOKS)


def export_on_and_on(folder: Path, of: Exported, told: int, seed: int) -> None:
    application = QGuiApplication(["killed", "-platform", "offscreen"])
    chance = random.Random(seed)
    os.write(told, b".")
    while application is not None:
        path = folder / f"a{chance.choice(of.suffixes)}"
        export_file(path, chance.choice(of.snapshots), chance.choice(of.looks))


def killed(folder: Path, of: Exported, seconds: float, seed: int) -> None:
    """Start a program, and kill it after a while."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            export_on_and_on(folder, of, telling, seed)
        finally:
            os._exit(1)
    os.close(telling)
    os.read(told, 1)  # the program has started
    select.select([], [], [], seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(told)
    assert os.WIFSIGNALED(status), "it ended by itself"


def kill_many(kills: int, seed: int = 1) -> dict[str, int]:
    """Kill this many programs, and count the states of their files."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    count = {"kills": 0, "left": 0, "files read": 0}
    for of in (short_texts(), long_texts()):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for _ in range(kills // 2):
                killed(folder, of, chance.random() * LONGEST_S, chance.getrandbits(32))
                parts = list(folder.glob(".*.part"))
                for part in parts:
                    part.unlink()
                for path in folder.iterdir():
                    WHOLE[path.suffix](path, of)
                    count["files read"] += 1
                count["kills"] += 1
                count["left"] += bool(parts)
    return count


# --------------------------------------------------------------------------- checks of files


def carries(path: Path, of: Exported) -> None:
    assert open_document(path).document.text in of.texts


def whole_picture(path: Path, of: Exported) -> None:
    carries(path, of)
    with Image.open(path) as image:
        image.load()


def whole_drawing(path: Path, of: Exported) -> None:
    carries(path, of)
    assert ElementTree.fromstring(path.read_bytes()).tag.endswith("svg")


def whole_pages(path: Path, of: Exported) -> None:
    carries(path, of)
    assert path.read_bytes().rstrip().endswith(b"%%EOF")


def whole_web_page(path: Path, of: Exported) -> None:
    carries(path, of)
    assert path.read_bytes().rstrip().endswith(b"</html>")


def whole_film(path: Path, of: Exported) -> None:
    with Image.open(path) as image:
        assert getattr(image, "n_frames") > 5  # noqa: B009 - of animations only
        image.seek(getattr(image, "n_frames") - 1)  # noqa: B009
        image.load()


def whole_arrays(path: Path, of: Exported) -> None:
    with np.load(path, allow_pickle=False) as arrays:
        sizes = {name: arrays[name].size for name in arrays}
    assert sizes.get("weights", 0) == of.weights
    assert sizes["tokens"] in {each.run.trace.query_count for each in of.snapshots}


def whole_table(path: Path, of: Exported) -> None:
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    assert len(rows) in {1 + count for count in of.rows}


WHOLE: dict[str, Callable[[Path, Exported], None]] = {
    ".png": whole_picture,
    ".svg": whole_drawing,
    ".pdf": whole_pages,
    ".html": whole_web_page,
    ".gif": whole_film,
    ".npz": whole_arrays,
    ".csv": whole_table,
}
"""For each kind of file, the function that checks whether the file is complete."""

if __name__ == "__main__":
    print(kill_many(int(sys.argv[1])))  # noqa: T201
