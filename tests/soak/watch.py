"""Notices what must not happen: exceptions, warnings, gaps of the GUI thread, growing memory."""

from __future__ import annotations

import ctypes
import gc
import io
import logging
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from statistics import median
from types import FrameType
from typing import TYPE_CHECKING

import psutil
from PySide6.QtCore import QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication, QMessageBox
from shiboken6 import isValid
from torch import Tensor
from torch.nn import Parameter

from tests.benchmarks.heartbeat import Heart
from tests.soak.__main__ import FIGURE, LONGEST_GAP_S
from visualizer.documents.document_file import document_bytes, read_document
from visualizer.errors import InputError, is_out_of_memory
from visualizer.shell.window import MainWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PySide6.QtCore import QMessageLogContext

    from visualizer.session.document import Document
    from visualizer.session.view import View

GAP_S = 0.25
"""The GUI thread may rarely be away for so long. How often it was is printed."""
LONG_S, SAMPLE_S, MOST_SAMPLES, FRAMES, OTHER_FRAMES = 0.5, 0.05, 40, 14, 5
"""Of a gap of which so much was no waiting for a processor is told where the threads were: every
so many seconds, in so many frames."""
LONG_COLLECTION_S = 0.1
OF_PLATFORM = "This plugin does not support "
"""The platform without a screen says so of every window that is shown."""
GROWTH = 1.05
"""How much more memory the program may take at rest later than after its warm-up; medians of
`COMPARED` rounds are compared, for allocators keep blocks that are partly used."""
WARM_ROUNDS, COMPARED = 8, 5
"""In ten minutes every command and pane was used: until then allocators come to share out their
blocks, and Python, Qt and torch fill their caches. A leak goes on after that."""
STANDS_OUT = 1.15
"""From so much more memory than at most rests it is told which threads are at work then, and what
holds large tensors."""
LARGE_BYTES = 2**25
"""Of so many bytes a tensor is large."""
HOLDERS, BRANCHES = 3, 4
"""How far what keeps something in memory is followed, and how many of what holds one object: to
find them takes a look at all objects there are."""


class Watch:
    """Collects failures, each once, and the figures of a run.

    Parameters
    ----------
    tell : callable
        Takes the lines that are printed.
    longest_gap : float
        For so many seconds the window's thread may be away.
    """

    def __init__(self, tell: Callable[[str], None], longest_gap: float = LONGEST_GAP_S) -> None:
        self.failures: set[str] = set()
        self.resting: list[int] = []
        """Memory at the end of each round, with one plain window, in bytes."""
        self._tell, self._longest_gap = tell, longest_gap
        self._heart: Heart | None = None
        self._stacks: _StacksInPauses | None = None
        self._gaps: list[tuple[float, float, float]] = []
        self._collected_at = 0.0
        self.may_lack_memory: Callable[[], bool] = lambda: False
        """Whether memory may run out now, which is no failure if it is said."""

    def install(self) -> None:
        """Listen to all that Python, Qt and the log report."""
        qInstallMessageHandler(self._hear_qt)
        sys.excepthook = lambda kind, error, trace: self._fail_by(error)
        threading.excepthook = lambda what: self._fail_by(what.exc_value)
        sys.unraisablehook = lambda what: self._fail_by(what.exc_value, repr(what.object))
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, kind, file, line, *_: self.fail(
            f"{kind.__name__}: {message}", f"{file}:{line}"
        )
        log = logging.StreamHandler(_Lines(self.fail))
        log.setLevel(logging.WARNING)
        logging.getLogger().addHandler(log)
        self._heart = Heart()
        self._stacks = _StacksInPauses(self._heart)
        self._stacks.start()
        gc.callbacks.append(self._hear_collection)

    def _hear_collection(self, phase: str, info: dict[str, int]) -> None:
        """Tell of a collection of garbage that holds everything up."""
        if phase == "start":
            self._collected_at = time.thread_time()
            return
        lasted = time.thread_time() - self._collected_at
        if lasted > LONG_COLLECTION_S:
            who = threading.current_thread().name
            generation = info["generation"]
            said = f"collection of generation {generation}: {lasted * 1000:.0f} ms in {who}"
            self._tell(f"{FIGURE}{said}, {len(gc.get_objects()):,} objects")

    def fail(self, what: str, details: str = "") -> None:
        """Tell a failure, unless the same one was told before."""
        if what not in self.failures:
            self.failures.add(what)
            self._tell(f"{details}\nFAILURE {what}")

    def look(self) -> None:
        """Find reports of bugs, and note the gaps since the last look."""
        for widget in QApplication.topLevelWidgets():
            if isinstance(widget, QMessageBox) and widget.objectName() == "bug":
                details = widget.detailedText()
                widget.close()
                self.fail((details.splitlines() or ["a bug"])[-1], details)
        if self._heart:
            heart = self._heart
            beats = zip(heart.gaps, heart.work, heart.waited, strict=True)
            self._gaps += [beat for beat in beats if beat[0] > GAP_S]
            heart.gaps_since()

    def note(self, what: str) -> None:
        """Tell which gaps an action made."""
        if self._gaps:
            gap, work, waited = max(self._gaps)
            of_gap = f"{work * 1000:.0f} at work, {waited * 1000:.0f} waiting for a processor"
            said = f"gap of {gap * 1000:.0f} ms, {of_gap}"
            self._tell(f"{FIGURE}{said}: {what}")
            stacks = self._stacks.take() if self._stacks else []
            if gap - waited > LONG_S:
                self._tell("\n".join(stacks))
            if gap > self._longest_gap:
                self.fail(f"the window's thread was away: {said}")
            self._gaps = []

    def forget_gaps(self) -> None:
        """Leave out what the test itself did."""
        if self._heart and self._stacks:
            self._heart.gaps_since()
            self._stacks.take()

    def read_saved(self, document: Document, view: View) -> None:
        """Fail where a document is saved so that it cannot be opened."""
        try:
            read_document(io.BytesIO(document_bytes(document, view)))
        except InputError as refused:
            self.fail("a document is saved that does not open", refused.sentence)

    def rest(self, windows: int) -> None:
        """Measure the memory while nothing is open but some plain windows.

        Parameters
        ----------
        windows : int
            How many are open; there must not be more of them in memory.
        """
        gc.collect()
        # One that is emptied holds nothing, whoever still refers to it. Types are asked, as some
        # deprecated objects of torch warn when they are asked for their class.
        alive = [each for each in gc.get_objects() if _is_main_window(each) and vars(each)]
        if len(alive) > windows:
            gone = next((each for each in alive if not isValid(each)), alive[0])
            said = f"{'deleted' if not isValid(gone) else gone.isVisible()}"
            said = f"{said}, {sys.getrefcount(gone)} references"
            holders = "\n".join([said, *_holders(gone, (alive,))])
            self.fail("closed windows stay in memory", f"{len(alive)}, one held by\n{holders}")
        alive.clear()
        _trim()
        memory = psutil.Process().memory_info()
        self.resting.append(memory.rss)
        mebi, of_files = memory.rss / 2**20, getattr(memory, "shared", 0) / 2**20
        widgets = len(QApplication.allWidgets())
        asked = _bytes_in_use() / 2**20
        said = f"{mebi:.0f} MiB at rest, {of_files:.0f} of files, {asked:.0f} in use of malloc's"
        self._tell(f"{FIGURE}{said}, {widgets:,} widgets")
        if memory.rss > STANDS_OUT * median(self.resting):
            self._tell("\n".join([*_at_work(sys._current_frames()), *_large_tensors()]))
        if len(self.resting) >= WARM_ROUNDS + 2 * COMPARED:
            warm = median(self.resting[WARM_ROUNDS:][:COMPARED])
            now = median(self.resting[-COMPARED:])
            if now > GROWTH * warm:
                self.fail("the memory grows", f"from {warm:,} to {now:,} bytes")

    def _fail_by(self, error: BaseException | None, what: str = "") -> None:
        if error and is_out_of_memory(error) and self.may_lack_memory():
            self._tell(f"{FIGURE}memory ran out: {error!r}")
            return
        said = "".join(traceback.format_exception(error)) if error else what
        self.fail(f"{error!r} {what}".rstrip(), said)

    def _hear_qt(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        is_quiet = kind in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg)
        if not is_quiet and not message.startswith(OF_PLATFORM):
            self.fail(f"Qt: {message}", "".join(traceback.format_stack(limit=12)))


class _StacksInPauses(threading.Thread):
    """Notes where the window's thread is while its heart does not beat."""

    def __init__(self, heart: Heart) -> None:
        super().__init__(name="stacks in pauses", daemon=True)
        self._heart, self._watched = heart, threading.get_ident()
        self._found: list[str] = []
        self._is_over = threading.Event()  # with the program: nothing sets it

    def run(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            if self._heart.pause > GAP_S and len(self._found) < MOST_SAMPLES:
                frames = sys._current_frames()
                self._found.append("  at " + _places(frames.pop(self._watched), FRAMES))
                frames.pop(threading.get_ident(), None)
                self._found += _at_work(frames)

    def take(self) -> list[str]:
        """Return what was found since this was asked last, each place once."""
        found, self._found = self._found, []
        return [*dict.fromkeys(found)]


def _at_work(frames: dict[int, FrameType]) -> list[str]:
    """Say where the threads are that wait for nothing."""
    return [
        f"  while {_places(each, OTHER_FRAMES)}"
        for each in frames.values()
        if each.f_code.co_name not in ("wait", "_wait_for_tstate_lock", "select")
    ]


def _is_main_window(thing: object) -> bool:
    return issubclass(type(thing), MainWindow)


def _large_tensors() -> Iterator[str]:
    """Tell of each large tensor what it is held by."""
    tensors = [each for each in gc.get_objects() if type(each) in (Tensor, Parameter)]
    for tensor in tensors:
        if tensor.nbytes > LARGE_BYTES:
            yield f"  holding {tuple(tensor.shape)} of {tensor.dtype}, held by"
            yield from _holders(tensor, (tensors,))


def _places(frame: FrameType, count: int) -> str:
    """Say where a thread is, innermost first."""
    stack = traceback.extract_stack(frame)
    lines = [f"{Path(each.filename).stem}.{each.name}:{each.lineno}" for each in stack]
    return " < ".join(lines[: -count - 1 : -1])


def _holders(held: object, but: tuple[object, ...], depth: int = 0) -> Iterator[str]:
    """Tell what refers to an object, and what to that."""
    if depth == HOLDERS:
        return
    found = [
        each
        for each in gc.get_referrers(held)
        if not isinstance(each, FrameType) and not any(each is one for one in but)
    ]
    for each in found[:BRANCHES]:
        name = getattr(each, "__qualname__", "") or ", ".join(map(str, _keys(each)))
        yield f"{'  ' * depth}{type(each).__name__} {name}"
        yield from _holders(each, (*but, found, each), depth + 1)


def _keys(each: object) -> list[object]:
    return [*each][:8] if isinstance(each, dict) else []


class _Lines:
    """A text stream that hands on what is written to it."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take

    def write(self, text: str) -> None:
        if text.strip():
            self._take(text.strip())

    def flush(self) -> None:
        """Do nothing: every text was handed on."""


class _Malloc(ctypes.Structure):
    """What glibc tells of its blocks: ``struct mallinfo2``."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]  # fmt: skip


def _bytes_in_use() -> int:
    """Return how much the C library has given out, apart from large blocks; 0 where unknown.

    What a process takes beyond that lies between blocks in use, and is used again.
    """
    told = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if told is None:
        return 0
    told.restype = _Malloc
    return int(told().uordblks)


def _trim() -> None:
    """Give freed memory back to the system where the C library can do so."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
