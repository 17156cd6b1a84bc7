"""Console output: results, messages and progress."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING

from visualizer.errors import InputError, system_error_reason
from visualizer.process_settings import SIGNAL_EXIT_STATUS, InterruptSignalError

if TYPE_CHECKING:
    from types import FrameType

    from visualizer.progress import Progress


INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories of characters that move the cursor, change the text direction or control a
terminal.
"""


def escape_control_characters(text: str) -> str:
    """Escape the control characters in a text; file names and tokens may contain them."""
    return "".join(
        ascii(sign)[1:-1] if unicodedata.category(sign) in INVISIBLE_CATEGORIES else sign
        for sign in text
    )


def print_message(sentence: str) -> None:
    """Print the program's name and a message to standard error, on one line."""
    line = f"attention-visualizer: {escape_control_characters(sentence)}"
    with suppress(OSError):  # standard error is closed
        print(line, file=sys.stderr, flush=True)  # noqa: T201


def write_output(text: str) -> bool:
    """Write to standard output; characters that it cannot encode become question marks.

    Returns
    -------
    bool
        False if the reader has closed the pipe, so that nothing more can be written.

    Raises
    ------
    InputError
        With field ``export`` if standard output cannot be written.
    """
    if sys.stdout is None:  # a program without a console on Windows
        return True
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe
        discard_standard_output()
        return False
    except OSError as error:
        discard_standard_output()
        sentence = f"Cannot write to standard output: {system_error_reason(error)}."
        raise InputError("export", sentence) from error
    return True


def discard_standard_output() -> None:
    """Discard unwritten output, which Python would otherwise report as an error on exit."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


MIN_REPORTED_PARTS = 20
"""Minimum number of parts of a task for which progress is reported without a terminal."""


class ConsoleProgress:
    """Reports the progress of file exports on standard error.

    On a terminal, one line is rewritten; otherwise, a line is printed after each quarter.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self.is_silent = is_quiet
        self._is_terminal = bool(sys.stderr and sys.stderr.isatty())
        self._width = 0
        self._interruption: InterruptSignalError | None = None

    def create_file_callback(self, name: str) -> Progress:
        """Return a file's progress callback, which raises `InterruptSignalError` on a signal."""
        quarters = set(range(5))

        def report_file(done: int, of: int) -> None:
            if self._interruption:
                raise self._interruption
            self.report_progress(f"{name}: {100 * done // of}%" if of else name, done, of, quarters)

        return report_file

    def report_progress(self, message: str, done: int, of: int, quarters: set[int]) -> None:
        """Report progress: on every call if there is a terminal, otherwise after each quarter."""
        if self._is_terminal:
            self._rewrite_line(message)
        elif of >= MIN_REPORTED_PARTS and 0 < 4 * done // of < 4 and 4 * done // of in quarters:
            quarters.discard(4 * done // of)
            self._print_message(message)

    def report_written(self, name: str) -> None:
        """Report that a file was written."""
        self.clear_line()
        self._print_message(f"{name} written.")

    def clear_line(self) -> None:
        """Erase the progress line."""
        if self._width:
            self._write_text(f"\r{' ' * self._width}\r")
            self._width = 0

    def handle_signal(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; the first signal stops the work even between progress reports."""
        is_first = self._interruption is None
        self._interruption = InterruptSignalError(SIGNAL_EXIT_STATUS[signal.Signals(number).name])
        if is_first:
            raise self._interruption

    def _print_message(self, sentence: str) -> None:
        if not self.is_silent:
            print_message(sentence)

    def _rewrite_line(self, message: str) -> None:
        if self.is_silent:
            return
        room = shutil.get_terminal_size().columns - 1
        line = f"attention-visualizer: {escape_control_characters(message)}"[:room]
        self._write_text(f"\r{line.ljust(min(self._width, room))}")
        self._width = len(line)

    def _write_text(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
