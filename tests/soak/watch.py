"""Detects exceptions, warnings, long pauses of the GUI thread and growth of memory."""

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
"""Duration, in seconds, from which pauses of the GUI thread are counted and printed; they should be
rare.
"""
LONG_S, SAMPLE_S, MOST_SAMPLES, FRAMES, OTHER_FRAMES = 0.5, 0.05, 40, 14, 5
"""Duration in seconds from which the stacks of a pause are printed (without waiting for a
processor), sampling interval in seconds, maximum number of samples, and number of frames for the
GUI thread and for other threads.
"""
LONG_COLLECTION_S = 0.1
OF_PLATFORM = "This plugin does not support "
"""Start of a message that the offscreen platform prints for every window."""
GROWTH = 1.05
"""Maximum ratio of the idle memory now to that after the warm-up. Medians of `COMPARED` rounds are
compared, because allocators keep blocks that are partly used.
"""
WARM_ROUNDS, COMPARED = 8, 5
"""Number of warm-up rounds, and number of compared rounds. Within the warm-up of ten minutes, every
command and pane has been used, allocators have distributed their blocks, and Python, Qt and torch
have filled their caches. A leak continues to grow afterwards.
"""
STANDS_OUT = 1.15
"""Ratio of the idle memory to its median from which running threads and large tensors are printed.
"""
LARGE_BYTES = 2**25
"""Minimum size of a tensor that counts as large, in bytes."""
HOLDERS, BRANCHES = 3, 4
"""Maximum depth, and maximum number of referrers per object, in the search for what keeps an object
in memory; each step searches all objects.
"""


class Watch:
    """Collects failures without duplicates, and the measurements of a run.

    Parameters
    ----------
    tell : callable
        Called with the lines to print.
    longest_gap : float
        Maximum pause of the GUI thread, in seconds.
    """

    def __init__(self, tell: Callable[[str], None], longest_gap: float = LONGEST_GAP_S) -> None:
        self.failures: set[str] = set()
        self.resting: list[int] = []
        """Memory use in bytes at the end of each round, when one plain window is open."""
        self._tell, self._longest_gap = tell, longest_gap
        self._heart: Heart | None = None
        self._stacks: _StacksInPauses | None = None
        self._gaps: list[tuple[float, float, float]] = []
        self._collected_at = 0.0
        self.may_lack_memory: Callable[[], bool] = lambda: False
        """Returns whether memory may currently run out; an error message about it is then not a
        failure.
        """

    def install(self) -> None:
        """Receive everything that Python, Qt and the log report."""
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
        """Report a long garbage collection, which blocks all threads."""
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
        """Report a failure unless the same one has already been reported."""
        if what not in self.failures:
            self.failures.add(what)
            self._tell(f"{details}\nFAILURE {what}")

    def look(self) -> None:
        """Find the reports of bugs, and record the pauses since the last call."""
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
        """Report the pauses that an action caused."""
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
        """Ignore the pauses that the test itself caused."""
        if self._heart and self._stacks:
            self._heart.gaps_since()
            self._stacks.take()

    def read_saved(self, document: Document, view: View) -> None:
        """Fail if a document is saved in a form that cannot be opened."""
        try:
            read_document(io.BytesIO(document_bytes(document, view)))
        except InputError as refused:
            self.fail("a document is saved that does not open", refused.sentence)

    def rest(self, windows: int) -> None:
        """Measure the memory while only plain windows are open.

        Parameters
        ----------
        windows : int
            Number of open windows; there must not be more windows in memory.
        """
        gc.collect()
        # A window without attributes holds nothing, even if it is still referenced. Deprecated
        # objects of torch emit a warning if ``__class__`` is queried, so ``type`` is used.
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
    """Records the stack of the GUI thread during its pauses."""

    def __init__(self, heart: Heart) -> None:
        super().__init__(name="stacks in pauses", daemon=True)
        self._heart, self._watched = heart, threading.get_ident()
        self._found: list[str] = []
        self._is_over = threading.Event()  # is never set; the thread ends with the program

    def run(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            if self._heart.pause > GAP_S and len(self._found) < MOST_SAMPLES:
                frames = sys._current_frames()
                self._found.append("  at " + _places(frames.pop(self._watched), FRAMES))
                frames.pop(threading.get_ident(), None)
                self._found += _at_work(frames)

    def take(self) -> list[str]:
        """Return the stacks recorded since the last call, without duplicates."""
        found, self._found = self._found, []
        return [*dict.fromkeys(found)]


def _at_work(frames: dict[int, FrameType]) -> list[str]:
    """Return the stacks of the threads that are not waiting."""
    return [
        f"  while {_places(each, OTHER_FRAMES)}"
        for each in frames.values()
        if each.f_code.co_name not in ("wait", "_wait_for_tstate_lock", "select")
    ]


def _is_main_window(thing: object) -> bool:
    return issubclass(type(thing), MainWindow)


def _large_tensors() -> Iterator[str]:
    """Yield a description of each large tensor and of what refers to it."""
    tensors = [each for each in gc.get_objects() if type(each) in (Tensor, Parameter)]
    for tensor in tensors:
        if tensor.nbytes > LARGE_BYTES:
            yield f"  holding {tuple(tensor.shape)} of {tensor.dtype}, held by"
            yield from _holders(tensor, (tensors,))


def _places(frame: FrameType, count: int) -> str:
    """Return the innermost calls of a thread, innermost first."""
    stack = traceback.extract_stack(frame)
    lines = [f"{Path(each.filename).stem}.{each.name}:{each.lineno}" for each in stack]
    return " < ".join(lines[: -count - 1 : -1])


def _holders(held: object, but: tuple[object, ...], depth: int = 0) -> Iterator[str]:
    """Yield descriptions of what refers to an object, and of what refers to that, recursively."""
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
    """A text stream that passes on each text that is written to it."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take

    def write(self, text: str) -> None:
        if text.strip():
            self._take(text.strip())

    def flush(self) -> None:
        """Do nothing, because every text has already been passed on."""


class _Malloc(ctypes.Structure):
    """Statistics of glibc's allocator: ``struct mallinfo2``."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
        "fordblks", "keepcost",
    )]  # fmt: skip


def _bytes_in_use() -> int:
    """Return the bytes that the C library has allocated, without large blocks, or 0 if unknown.

    Other memory of the process is in free blocks between the allocated ones, and can be reused.
    """
    told = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if told is None:
        return 0
    told.restype = _Malloc
    return int(told().uordblks)


def _trim() -> None:
    """Return freed memory to the system if the C library supports this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
