"""What a shell and a notebook share: a document is computed, and files are written of it.

Qt draws without a screen. What is heavy is loaded when it is needed, not before.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING
from unicodedata import category

from visualizer.attention.spec import InputError
from visualizer.state.saved.change import Change
from visualizer.state.saved.document_file import Saved
from visualizer.state.saved.inside import open_any
from visualizer.state.saved.texts import text_in
from visualizer.state.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Protocol

    from PySide6.QtCore import QMessageLogContext, QtMsgType
    from PySide6.QtGui import QGuiApplication

    from visualizer.attention.buffers import BufferPool
    from visualizer.attention.run import Run, Texts
    from visualizer.attention.spec import AttentionSpec
    from visualizer.state.document import Document
    from visualizer.state.figure import FigureLook, Shot

    class Compute(Protocol):
        """Computes a document, keeping of the last run what did not change."""

        def __call__(self, document: Document, previous: Run | None) -> Run: ...


NO_PICTURE = "Nothing can be drawn: Qt could not start. Install PySide6-Essentials anew."
NO_FONTS = (
    "There are no fonts on this system, so pictures have boxes for words and numbers. "
    "Install some, such as those of the package fonts-dejavu-core."
)
NOT_HERE = (
    "Nothing can be drawn in this thread while no application of Qt is running. "
    "Draw in the main thread."
)
ROOMY = View(room=512)
"""The usual view, with more room in it than a window has."""

MOST_NAMED = 10
"""Letters that are named where no font has them."""
TENSOR_FILES = frozenset({".npy", ".npz", ".safetensors", ".pt", ".pth", ".bin"})
"""How the names of files end that hold numbers of others."""
_UNSEEN = {"Cc", "Cf", "Cs", "Zs"}
_DRAWING = threading.RLock()


def say(sentence: str) -> None:
    """Tell the shell."""
    with suppress(OSError):  # nobody is there to be told
        print(f"attention-visualizer: {sentence}", file=sys.stderr, flush=True)  # noqa: T201


def compute(document: Document, previous: Run | None) -> Run:
    """Compute a document; for the worker.

    torch is imported here, on the worker, so that the window is there before it.
    """
    from visualizer.attention.run import share_cores

    _leave_out_of_collections()
    return run_of(document, previous, share_cores, kept_memory())


def rest() -> None:
    """Give back memory that was kept to compute faster; for the worker, when nothing is asked."""
    if kept_memory.cache_info().currsize:
        kept_memory().release()


@cache
def kept_memory() -> BufferPool:
    """Give the memory that all windows' large tensors share, one after another."""
    from visualizer.attention.buffers import BufferPool

    return BufferPool()


def run_of(
    document: Document,
    previous: Run | None,
    prepare: Callable[[Texts, AttentionSpec], None] | None = None,
    pool: BufferPool | None = None,
) -> Run:
    """Compute a document, or show the attention that was opened in its place.

    Parameters
    ----------
    prepare : callable, optional
        Told of what will be computed, before it is.
    pool : BufferPool, optional
        Where large tensors get their memory from.
    """
    from visualizer.attention.replay import replay
    from visualizer.attention.run import run
    from visualizer.state.labels import typed_labels

    if document.captured:
        return replay(document.captured, *typed_labels(document), previous)
    texts = document.tokens()
    if prepare:
        prepare(texts, document.spec)
    return run(texts, document.spec, previous, pool)


def read(path: Path, document: Document) -> Saved | Change:
    """Read any file that can be opened: a document, or what changes the one that is there.

    Raises
    ------
    InputError
        Of ``open``, with what is wrong with the file and what to do about it.
    """
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return Change(document.set("text", text_in(path)))
    return _tensors(path, document) if suffix in TENSOR_FILES else open_any(path)


def opened(path: Path, document: Document) -> tuple[Saved, str]:
    """Open any file as if it were a document, and give what must be said of it."""
    found = read(path, document)
    if isinstance(found, Change):
        return Saved(found.document, ROOMY), found.notice
    return found, ""


def restored(saved: Saved, compute: Compute) -> tuple[Run, View]:
    """Give the run of what was saved, and its view with the A of a comparison in its place.

    What was recorded is not computed. Of a recorded run nothing has been read yet: who shows it
    reads what the view needs.

    Raises
    ------
    InputError
        When what has to be computed cannot be; for a comparison's A that cannot be, there is no
        comparison.
    """
    from visualizer.attention.recorded import recorded_run

    view = _with_a(saved, compute)
    if saved.recorded:
        return recorded_run(saved.document.spec, saved.recorded), view
    kept = view.comparison.kept if view.comparison else None
    return compute(saved.document, kept), view


def _with_a(saved: Saved, compute: Compute) -> View:
    from visualizer.attention.recorded import recorded_run

    view, comparison = saved.view, saved.view.comparison
    if comparison is None or comparison.against != "kept" or comparison.document is None:
        return view
    alone = replace(view, comparison=None)
    try:
        if saved.kept:
            kept = recorded_run(comparison.document.spec, saved.kept)
        else:
            kept = compute(comparison.document, None)
    except InputError:
        return alone
    return replace(view, comparison=replace(comparison, kept=kept))


def _tensors(path: Path, document: Document) -> Change:
    from visualizer.attention.captured import Captured
    from visualizer.attention.opening.door import read as read_tensors

    found, notice = read_tensors(path, document.spec)
    if isinstance(found, Captured):
        return Change(document.set("captured", found), notice)
    return Change(replace(document.set("captured", None), spec=found), notice)


@cache
def _leave_out_of_collections() -> None:
    # What torch's import has made is there for good; looking through it for garbage would hold
    # up the window for tens of milliseconds, again and again.
    gc.freeze()


@contextmanager
def drawing() -> Iterator[None]:
    """Have Qt draw, without a screen where no application is there already.

    An application that is made for this is gone afterwards, so that another, with windows, can be
    made. One thread draws at a time.

    Raises
    ------
    InputError
        Of ``export``, where Qt cannot be loaded, or what is there of it cannot draw.
    """
    with _DRAWING:
        made = _application()
        if made is None:
            yield
            return
        with _heard(_not_of_fonts):
            try:
                yield
            finally:
                from visualizer.ui.theme import forget_fonts

                forget_fonts()
                made.shutdown()


def _application() -> QGuiApplication | None:
    """Make an application, unless there is one that can draw."""
    try:
        from PySide6.QtGui import QGuiApplication
    except ImportError as error:
        raise InputError("export", f"Nothing can be drawn: {error}.") from error

    there = QGuiApplication.instance()
    if isinstance(there, QGuiApplication):
        return None
    if there is not None:
        sentence = "Nothing can be drawn beside a QCoreApplication. Make a QGuiApplication instead."
        raise InputError("export", sentence)
    if threading.current_thread() is not threading.main_thread():
        raise InputError("export", NOT_HERE)
    with said_if_qt_cannot_start(NO_PICTURE):
        return QGuiApplication([sys.argv[0] or "visualizer", "-platform", "offscreen"])


def lacking_fonts(shot: Shot, look: FigureLook) -> str:
    """Say what of a picture no font can write, which would be boxes in it; asked while drawing.

    Empty where all can be written.
    """
    from PySide6.QtGui import QFontMetricsF, QGuiApplication

    measures = QFontMetricsF(QGuiApplication.font())
    if not measures.inFont("0"):
        return NO_FONTS
    words = (token for text in (*shot.run.texts, shot.run.key_tokens) for token in text)
    letters = dict.fromkeys(chain(look.title, *words))
    seen = (letter for letter in letters if category(letter) not in _UNSEEN)
    lacking = [letter for letter in seen if not measures.inFontUcs4(ord(letter))]
    if not lacking:
        return ""
    named = f"“{''.join(lacking[:MOST_NAMED])}{'…' * (len(lacking) > MOST_NAMED)}”"
    return f"No font on this system has {named}, so pictures have boxes for that. Install one."


def said_if_qt_cannot_start(sentence: str) -> AbstractContextManager[None]:
    """End with a sentence where Qt, without a platform to run on, would abort the process."""

    def hear(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        if kind.name == "QtFatalMsg":
            say(sentence)
            os._exit(1)
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself

    return _heard(hear)


def _not_of_fonts(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    if context.category != "qt.text.font.db":  # `lacking_fonts` says it in words
        print(message, file=sys.stderr)  # noqa: T201 - what Qt does itself


@contextmanager
def _heard(hear: Callable[[QtMsgType, QMessageLogContext, str], None]) -> Iterator[None]:
    """Have what Qt says taken by someone."""
    from PySide6.QtCore import qInstallMessageHandler

    before = qInstallMessageHandler(hear)
    try:
        yield
    finally:
        qInstallMessageHandler(before)
