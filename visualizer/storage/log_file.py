"""Log messages: a rotating file that contains no text of the user, and standard error on request.

Messages are constant texts with numbers, types and names that the program defines. Everything else,
such as a sentence, a token or a path, is replaced by its type in the file, and exceptions are
written without their messages.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from numbers import Number
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from visualizer.storage.program_folders import log_folder
from visualizer.storage.symlink_safe_folder import make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_NAME = "attention-visualizer.log"
MAX_BYTES, BACKUP_COUNT = 256 * 1024, 2
"""Maximum size of the log file, and number of earlier files that are kept."""
PRIVATE_FILE_MODE = 0o600
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CONSOLE_LEVELS = (logging.INFO, logging.DEBUG)
"""Levels that ``-v`` and ``-vv`` print."""

_program_logger = logging.getLogger("visualizer")
_logger = logging.getLogger(__name__)


class ProgramText(str):
    """Text that the program defines, such as the id of a command, and that may be logged."""

    __slots__ = ()


class LogFileFormatter(logging.Formatter):
    """Formatter that replaces all values that may contain text of the user."""

    def format(self, record: logging.LogRecord) -> str:
        shown = logging.makeLogRecord(vars(record))
        shown.msg, shown.args = _redact_message(record), ()
        shown.exc_info, shown.exc_text, shown.stack_info = None, None, None
        lines = [super().format(shown)]
        if record.exc_info and record.exc_info[1]:
            lines += _describe_exception(record.exc_info[1])
        return "\n".join(lines)


def _redact_message(record: logging.LogRecord) -> str:
    template = record.msg if isinstance(record.msg, str) else str(_redact(record.msg))
    given: object = record.args  # a single dictionary is not in a tuple
    redacted: object
    if isinstance(given, Mapping) and "%(" in template:
        redacted = {name: _redact(value) for name, value in given.items()}
    else:
        redacted = tuple(map(_redact, given if isinstance(given, tuple) else (given,)))
    try:
        return template % redacted if given else template
    except (TypeError, ValueError):  # a number was expected
        return template


def _redact(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (ProgramText, Number)) or value is None:
        return value
    return value.__qualname__ if isinstance(value, type) else f"<{type(value).__qualname__}>"


def _describe_exception(error: BaseException) -> Iterator[str]:
    """Yield the type of an exception and the places in the code, without messages and values."""
    if error.__cause__ or error.__context__:
        yield from _describe_exception(error.__cause__ or error.__context__)  # type: ignore[arg-type]
    yield f"  {type(error).__module__}.{type(error).__qualname__}"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f"    {_shorten_code_path(Path(frame.filename))}:{frame.lineno} in {frame.name}"


def _shorten_code_path(path: Path) -> str:
    """Return a path from the folder of the package, without the folders of the user."""
    packages = ("visualizer", "site-packages", "dist-packages")
    at = next((at for at, part in enumerate(path.parts) if part in packages), len(path.parts) - 1)
    return "/".join(path.parts[at:])


class LogFile(RotatingFileHandler):
    """The log file, which only the user can read; if it cannot be written, nothing is logged."""

    def __init__(self, path: Path) -> None:
        make_private_folder(path.parent)
        super().__init__(
            path, maxBytes=MAX_BYTES, backupCount=BACKUP_COUNT, encoding="utf-8", delay=True
        )

    def _open(self) -> Any:
        stream = super()._open()
        with suppress(OSError):
            Path(self.baseFilename).chmod(PRIVATE_FILE_MODE)
        return stream

    def doRollover(self) -> None:  # noqa: N802 - name in logging
        """Rename the full file; if this fails, messages are appended to it.

        On Windows, a file that another process has open cannot be renamed.
        """
        with suppress(OSError):
            super().doRollover()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - name in logging
        """Ignore an error such as a full disk, because it cannot be reported elsewhere."""


class LogFileHandler(QueueHandler):
    """Handler that formats messages, and lets another thread write them to the log file.

    The GUI thread does not wait for the disk.
    """

    def __init__(self, path: Path) -> None:
        queue = SimpleQueue[logging.LogRecord]()
        super().__init__(queue)
        self.setFormatter(LogFileFormatter(FORMAT))
        self.setLevel(logging.INFO)
        self._file = LogFile(path)
        self._writer: QueueListener | None = QueueListener(queue, self._file)
        self._writer.start()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return logging.makeLogRecord({"msg": self.format(record), "levelno": record.levelno})

    def close(self) -> None:
        """Write the remaining messages; a second call, as when Python exits, has no effect."""
        if self._writer:
            self._writer.stop()
            self._writer = None
            self._file.close()
            super().close()


def log_path() -> Path:
    """Return the path of the log file, which may not exist yet.

    Raises
    ------
    OSError
        If the user has no home folder.
    """
    return log_folder() / FILE_NAME


def start_log_file() -> LogFileHandler | None:
    """Write the messages of the program to the log file; return None if this is impossible."""
    try:
        handler = LogFileHandler(log_path())
    except OSError:
        return None
    _program_logger.addHandler(handler)
    if _program_logger.getEffectiveLevel() > logging.INFO:
        _program_logger.setLevel(logging.INFO)
    return handler


def stop_log_file(handler: LogFileHandler | None) -> None:
    """Stop writing messages to the log file."""
    if handler:
        _program_logger.removeHandler(handler)
        handler.close()


def log_to_console(verbosity: int) -> None:
    """Print the messages of the program to standard error.

    Parameters
    ----------
    verbosity : int
        1 prints what the program does; 2 also prints details.
    """
    level = CONSOLE_LEVELS[min(verbosity, len(CONSOLE_LEVELS)) - 1]
    _program_logger.setLevel(level)
    named = next((each for each in _program_logger.handlers if each.name == FORMAT), None)
    handler = named or logging.StreamHandler(sys.stderr)
    handler.name = FORMAT
    handler.setLevel(level)
    handler.setFormatter(logging.Formatter(FORMAT))
    if not named:
        _program_logger.addHandler(handler)


def read_last_lines(count: int) -> list[str]:
    """Return the last lines of the log file, or an empty list if it cannot be read."""
    with suppress(OSError):
        text = log_path().read_text(encoding="utf-8", errors="replace")
        return text.splitlines()[-count:]
    return []


def log_unexpected_error(error: BaseException) -> str:
    """Log an unexpected error, and return its traceback, which is shown to the user."""
    _logger.error("Unexpected error", exc_info=error)
    return "".join(traceback.format_exception(error))
