"""Console output of work without a window: results, messages and progress."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING

from visualizer.errors import InputError, reason_of
from visualizer.interruption_of_windowless_work import STOPPED, InterruptedRunError

if TYPE_CHECKING:
    from types import FrameType

    from visualizer.progress_callback import Progress


INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of what moves the cursor, turns text round or gives a terminal orders."""


def printable(text: str) -> str:
    """Escape the control characters of a text, as names of files and tokens may have any."""
    return "".join(
        ascii(sign)[1:-1] if unicodedata.category(sign) in INVISIBLE else sign for sign in text
    )


def say(sentence: str) -> None:
    """Print a message with the program's name to standard error, on one line."""
    line = f"attention-visualizer: {printable(sentence)}"
    with suppress(OSError):  # standard error is closed
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def write_out(text: str) -> bool:
    """Write to standard output; characters that it cannot show become question marks.

    Returns
    -------
    bool
        Whether more may be read: not once its reader is gone.

    Raises
    ------
    InputError
        Of ``export``, when it cannot be written.
    """
    if sys.stdout is None:  # a program without a console on Windows
        return True
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:  # its reader has read enough
        close_standard_output()
        return False
    except OSError as error:
        close_standard_output()
        sentence = f"Standard output could not be written: {reason_of(error)}."
        raise InputError("export", sentence) from error
    return True


def close_standard_output() -> None:
    """Discard what could not be written, of which Python would complain at its end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


FEWEST = 20
"""Smallest number of parts whose progress is reported where there is no terminal."""


class ConsoleProgress:
    """Reports the progress of file exports on standard error.

    On a terminal one line is rewritten; elsewhere each quarter has a line of its own.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self.is_quiet = is_quiet
        self._is_terminal = bool(sys.stderr and sys.stderr.isatty())
        self._width = 0
        self._stopped: InterruptedRunError | None = None

    def progress(self, name: str) -> Progress:
        """Return a file's progress callback, which raises `InterruptedRunError` after a signal."""
        quarters = set(range(5))

        def tell(done: int, of: int) -> None:
            if self._stopped:
                raise self._stopped
            self.count(f"{name}: {100 * done // of} %" if of else name, done, of, quarters)

        return tell

    def count(self, said: str, done: int, of: int, quarters: set[int]) -> None:
        """Report progress: at every call on a terminal, at each quarter elsewhere."""
        if self._is_terminal:
            self._rewrite(said)
        elif of >= FEWEST and 0 < 4 * done // of < 4 and 4 * done // of in quarters:
            quarters.discard(4 * done // of)
            self._tell(said)

    def written(self, name: str) -> None:
        """Report that a file is written."""
        self.clear()
        self._tell(f"{name} written.")

    def clear(self) -> None:
        """Erase the progress line."""
        if self._width:
            self._put(f"\r{' ' * self._width}\r")
            self._width = 0

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one ends the work at once, even between progress calls."""
        is_first = self._stopped is None
        self._stopped = InterruptedRunError(STOPPED[signal.Signals(number).name])
        if is_first:
            raise self._stopped

    def _tell(self, sentence: str) -> None:
        if not self.is_quiet:
            say(sentence)

    def _rewrite(self, said: str) -> None:
        if self.is_quiet:
            return
        room = shutil.get_terminal_size().columns - 1
        line = f"attention-visualizer: {printable(said)}"[:room]
        self._put(f"\r{line.ljust(min(self._width, room))}")
        self._width = len(line)

    def _put(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
