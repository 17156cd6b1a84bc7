"""Screenshots of the main window, with a separate window for each scene.

At scales other than 1, only the scenes in `SHARP` are drawn.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from tests.behaviour_snapshots.driver import (
    Driver,
    bury,
    choose,
    forget_settings,
    key,
    number,
    point_at,
    press,
    start,
    write,
)
from tests.support.window_input import leave
from visualizer.app import open_window
from visualizer.export.formats import FORMATS
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.view_options import ColourMapKind, colour_maps_of_kind
from visualizer.shell.pane_table import PANES

if TYPE_CHECKING:
    from tests.behaviour_snapshots.driver import Step

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "documents"
USUAL, LARGE = (1280, 800), (1920, 1080)
LINES = "The cat sat\nA dog ran home\nBirds sing"
MECHANISMS = (
    *("Simplified self-attention", "Self-attention", "Causal attention"),
    *("Multi-head, stacked heads", "Multi-head attention", "Averaging"),
)
BEHIND = tuple(pane.id for pane in PANES if pane.id not in {"Explain", "Lesson"})
"""Panes that are initially behind others."""
SHARP = (
    *("light", "dark", "64 tokens", "1,000 tokens", "pinned", "playing by cell", "pane Lines"),
    *("pane Numbers", "compared with A", "paint the mask", "presenter mode", "export PNG"),
)


class MainWindow(Driver):
    """The main window, controlled by a driver."""

    def __init__(self, size: tuple[int, int] = USUAL) -> None:
        forget_settings()
        self.main = open_window(Document())
        super().__init__(self.main)
        self.main.resize(*size)
        self.settle()

    def is_idle(self) -> bool:
        workspace = self.main.workspace
        is_shown = workspace.run is not None and workspace.view == workspace.requested_view
        return is_shown and not workspace.is_working and super().is_idle()

    def place(self, stage: str, *place: int) -> QPoint:
        """Return the position of a cell on the heatmaps."""
        area = self.main.board.area_of_cell(Cell(stage, place))
        if area is None:
            raise LookupError(f"no panel shows {stage} {place}")
        return area.center()

    def hover(self, stage: str, *place: int) -> None:
        """Move the pointer over a cell."""
        point_at(self.main.board.viewport(), self.place(stage, *place))
        self.settle()

    def pin(self, stage: str, *place: int) -> None:
        """Click a cell and move the pointer away."""
        where = self.place(stage, *place)
        self.hover(stage, *place)
        QTest.mouseClick(self.main.board.viewport(), Qt.MouseButton.LeftButton, pos=where)
        leave(self.main.board)
        self.settle()

    def drop(self, path: Path) -> None:
        """Drop a file on the window."""
        data, place = QMimeData(), self.main.rect().center()
        data.setUrls([QUrl.fromLocalFile(str(path))])
        copy, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
        none = Qt.KeyboardModifier.NoModifier
        QApplication.sendEvent(self.main, QDragEnterEvent(place, copy, data, left, none))
        QApplication.sendEvent(self.main, QDropEvent(QPointF(place), copy, data, left, none))
        self.settle()
        self.main.statusBar().clearMessage()

    def turn_pages(self, folder: Path) -> None:
        """Take a screenshot of every page of every lesson; the lessons follow one another."""
        self.run(next(words for words in self.actions if words.startswith("Lessons>1 ")))
        for page in count(1):
            self.take(folder / f"page {page:02} of the lessons")
            if not self.actions["Lessons>Next page"].isEnabled():
                return
            self.run("Lessons>Next page")

    def close(self) -> None:
        """Close the window without saving."""
        for dialog in self._tops()[:0:-1]:
            dialog.close()
        self.main.controllers.document_controller.discard_unsaved_changes()
        if not self.main.close():
            raise RuntimeError("the window refused to close")
        bury(self.main)


# ------------------------------------------------------------------- what can be done in a scene


def hover(stage: str, *place: int) -> Step:
    return lambda on: on.hover(stage, *place)


def pin(stage: str, *place: int) -> Step:
    return lambda on: on.pin(stage, *place)


def drop(name: str) -> Step:
    return lambda on: on.drop(GOLDEN / name)


def tokens(number_of: int, size: int = 16, heads: int = 4) -> tuple[Step, ...]:
    """Set a text with the given number of different tokens, and matching sizes."""
    text = " ".join(f"{'bdfgklmn'[at % 8]}{'aeiou'[at // 8 % 5]}{at}" for at in range(number_of))
    sizes = (number("Embedding size", size), number("Output size", size), number("Heads", heads))
    return *sizes, write("Sentence", text)


def broken(on: MainWindow) -> None:
    """Report a bug like the worker."""
    on.main.show_unexpected_error(
        "Traceback (most recent call last):\n  …\nZeroDivisionError: by zero"
    )
    on.settle()


def close_unsaved(on: MainWindow) -> None:
    on.main.close()
    on.settle()


BATCH: tuple[Step, ...] = (
    choose("Treat lines as one text or as a batch of texts", "One text per line"),
    write("Sentence", LINES),
)
DROPPING: tuple[Step, ...] = (number("Dropout", 0.5),)
MORE = "All settings…"
MASK = (MORE, choose("Mask", "Custom matrix"))
A_AND_B: tuple[Step, ...] = ("Keep these numbers as A", "Causal mask")

SCENES: dict[str, tuple[Step, ...]] = {
    "light": (),
    "dark": ("Theme: dark",),
    # texts
    "1 token": (write("Sentence", "alone"),),
    "64 tokens": tokens(64),
    "64 tokens dark": ("Theme: dark", *tokens(64)),
    "1,000 tokens": tokens(1000, 64, 4),
    "1,000 tokens closer": (*tokens(1000, 64, 4), *["Zoom in"] * 5),
    "characters": (
        choose("Split the text into words or characters", "Characters"),
        write("Sentence", "attention"),
    ),
    "batch": BATCH,
    "batch next text": (*BATCH, "Next layer or text"),
    "batch side by side": (*BATCH, "Layers or texts side by side"),
    "other scripts": (write("Sentence", "猫 坐 على الكرسي 👩‍🔬 <b>bold</b> e\u0301"),),
    # modules
    **{f"mechanism {name}": (choose("Mechanism", name),) for name in MECHANISMS},
    "without a mask": ("Causal mask",),
    "dropout": DROPPING,
    "dropout in evaluation": (*DROPPING, "Training mode (with dropout)"),
    "dropout resampled": (*DROPPING, "Resample dropout"),
    "weights resampled": ("Resample weights",),
    "weights kept": ("Keep these weights", number("Embedding size", 3)),
    "every setting": (MORE,),
    "sliding window": (MORE, choose("Mask", "Sliding window"), number("Window", 2)),
    "own mask": (*MASK, write("Custom matrix", "\n".join("1 0 1 0 1 0" for _ in range(6)))),
    "mask after softmax": (MORE, choose("Mask acts", "0 after normalizing, not")),
    "bias and positions": (MORE, press("Bias in Q, K, V"), choose("Positions", "Sinusoidal")),
    "temperature": (MORE, number("Temperature", 0.1)),
    "float64": (MORE, choose("Precision", "float64")),
    # errors
    "heads do not divide": (number("Output size", 5),),
    "no text": (write("Sentence", ""),),
    "dropout too large": (number("Dropout", 1.5),),
    "own mask is no matrix": (*MASK, write("Custom matrix", "1 0\n1 x")),
    "own mask forbids a row": (*MASK, write("Custom matrix", "\n".join(["0 0 0 0 0 0"] * 6))),
    # cells
    "hover scores": (hover("scores", 0, 2, 1),),
    "hover weights": (hover("weights", 1, 4, 2),),
    "hover forbidden": (hover("weights", 0, 1, 4),),
    "pinned": (pin("weights", 0, 3, 1),),
    "pinned context": (pin("context", 0, 3, 0),),
    "pinned and hovered": (pin("weights", 0, 3, 1), hover("context", 1, 2, 0)),
    "pinned before": (pin("weights", 0, 3, 1), pin("scores", 1, 2, 2), "Previous cell"),
    "walked": (pin("weights", 0, 3, 1), key("Heatmaps", Qt.Key.Key_Down)),
    "all stages": tuple(map(press, ("Queries", "Keys", "Values", "Output"))),
    # playback
    "playing by stage": ("By stage", "Go to start", *["Step forward"] * 3),
    "playing by row": ("By row", "Go to start", *["Step forward"] * 12),
    "playing by cell": ("By cell", "Go to start", *["Next stage"] * 5, *["Step forward"] * 8),
    "playing at its end": ("Go to start", "Go to end"),
    "playing one step back": ("By row", "Go to start", "Next stage", "Step back"),
    "playing with dropout": (*DROPPING, "By row", "Go to start", *["Next stage"] * 7),
    "predicting": ("Go to start", *["Next stage"] * 6, "Predict this stage"),
    "predicted": (
        "Go to start", *["Next stage"] * 6, "Predict this stage", "Reveal hidden stage",
    ),
    # comparisons
    "compared with A": A_AND_B,
    "compared and swapped": (*A_AND_B, "Swap A and B"),
    "compared at the largest": (*A_AND_B, "Go to largest difference"),
    "compared heads": ("Compare two heads",),
    "compared samples": (*DROPPING, "Compare dropout samples", "Double sample count"),
    # views
    "one stage": ("One stage, all heads",),
    "one head": ("One head, large",),
    "next head": ("Next head",),
    "mean of heads": ("Heads: mean",),
    "largest of heads": ("Heads: maximum",),
    "without the first token": ("Without the first token",),
    "times the value": ("Weights × value norm",),
    "closer and moved": (*tokens(64), *["Zoom in"] * 3, "Down", "Right"),
    "chosen tokens": tuple(key("Tokens: 6 tokens, Your journey starts with one step", each)
                           for each in (Qt.Key.Key_Right, Qt.Key.Key_Space)),
    "found tokens": ("Find token", write("Find a token", "st")),
    "colours by power": ("Colour scale: logarithmic",),
    "colours by rank": ("Colour scale: rank",),
    "colours of rows": ("Range: per row",),
    "colours of panels": ("Range: per panel",),
    "colours typed": ("View>Panes>Colours", "Range: custom…"),
    **{f"colour map {name}": (name,)
       for name in (each.menu_text.replace("&",
       "") for each in colour_maps_of_kind(ColourMapKind.SEQUENTIAL)[1:])},
    "signed dark at 0": ("Signed numbers dark at 0",),
    # panes
    **{f"pane {name}": (f"View>Panes>{name}",) for name in BEHIND},
    "without the pane in front": ("View>Panes>Explain",),
    "lines of 64 tokens": (*tokens(64), "View>Panes>Lines"),
    "lines of a pinned cell": ("View>Panes>Lines", pin("weights", 0, 3, 1)),
    "numbers of weights": ("View>Panes>Numbers", choose("Tensor", "W_query")),
    "code of the lecture": ("Code: lecture notation",),
    "code in one call": ("Code: single PyTorch call",),
    "shapes joined": ("View>Panes>Shapes", "Split or join head columns"),
    "heads of 12": (*tokens(16, 24, 12), "View>Panes>Heads"),
    "paint the mask": ("Paint the mask",),
    "painted": (
        pin("weights", 0, 4, 1), "Paint the mask", "Allow or forbid the pinned cell",
        pin("weights", 0, 0, 3),
    ),
    "presenter mode": ("Presenter mode (video projector)",),
    "presenter playing": (
        "Presenter mode (video projector)", "By row", "Go to start", *["Step forward"] * 9,
    ),
    "blank": ("Presenter mode (video projector)", "Blank the screen"),
    # files
    "document captured": (drop("captured-2.attention"),),
    "document with own numbers": (drop("own-2.attention"),),
    "document recorded": (drop("recorded-2.attention"),),
    "document of schema 1": (drop("plain-1.attention"),),
    "document undone": ("Causal mask", "Undo: Mask"),
    # dialogs
    **{f"export {each.suffix[1:].upper()}": (
        "Export…", choose("Format", f"{each.suffix[1:].upper()}:")) for each in FORMATS},
    "shortcuts": ("Keyboard shortcuts",),
    "about": ("About",),
    "unsaved": ("Causal mask", close_unsaved),
    "bug": (broken,),
    "no such document": (drop("nothing.attention"),),
}  # fmt: skip
SIZED = {"light large": "light", "dark large": "dark", "64 tokens large": "64 tokens",
         "compared large": "compared with A", "painted large": "painted"}  # fmt: skip
"""Names of scenes that are also drawn in a large window."""


def main(folder: Path) -> int:
    """Draw all scenes; say which could not be, and give 1 where any could not."""
    application = start()
    if application.devicePixelRatio() != 1:
        plans = {name: (SCENES[name], USUAL) for name in SHARP}
    else:
        plans = {name: (steps, USUAL) for name, steps in SCENES.items()}
        plans |= {name: (SCENES[of], LARGE) for name, of in SIZED.items()}
    failed = [name for name, plan in plans.items() if not _draws(name, *plan, folder)]
    if application.devicePixelRatio() == 1:
        _list_actions(folder)
        _read_lessons(folder)
    return int(bool(failed))


def _draws(name: str, steps: tuple[Step, ...], size: tuple[int, int], folder: Path) -> bool:
    on = MainWindow(size)
    try:
        on.act(steps)
        on.take(folder / name)
    except Exception as error:  # noqa: BLE001 - it is named, and the other scenes are drawn
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        return False
    finally:
        on.close()
    return True


def _list_actions(folder: Path) -> None:
    """Write all menu actions with their shortcuts, and whether they are enabled and checked."""
    on = MainWindow()
    (folder / "actions.txt").write_text("\n".join(on.listed_actions()) + "\n")
    on.close()


def _read_lessons(folder: Path) -> None:
    on = MainWindow()
    on.turn_pages(folder)
    on.close()


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
