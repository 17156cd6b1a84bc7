"""The log file contains what the program did, but no text of the user."""

from __future__ import annotations

import ast
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.attention.spec import Device
from visualizer.cli.options import create_parser
from visualizer.storage import log_file
from visualizer.storage.log_file import (
    LogFileFormatter,
    ProgramText,
    log_path,
    log_unexpected_error,
    read_last_lines,
    start_log_file,
    stop_log_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SECRET = "Zwölf Boxkämpfer jagen"
_logger = logging.getLogger("visualizer.tests")
WORDS = st.text(st.characters(categories=["Lu", "Ll", "Zs"]), min_size=8)


@pytest.fixture(autouse=True)
def unchanged_logger() -> Iterator[None]:
    program = logging.getLogger("visualizer")
    level, handlers = program.level, [*program.handlers]
    yield
    program.setLevel(level)
    program.handlers[:] = handlers


def _written() -> str:
    return log_path().read_text(encoding="utf-8")


def _format(message: str, *arguments: object, error: BaseException | None = None) -> str:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("visualizer", 20, "", 1, message, arguments, info)
    return LogFileFormatter().format(record)


@given(WORDS)
def test_values_are_written_without_text_of_the_user(text: str) -> None:
    values = (text, Path(text), [text], {text: 1}, text.encode(), ValueError(text))
    for value in values:
        assert text not in _format("Value %s", value)
        assert text not in _format("Value %d", value)
    assert text not in _format("Value %(one)s", {"one": text})


def test_numbers_types_choices_and_names_of_the_program_are_written() -> None:
    arguments = (3, 0.25, None, Device.CUDA, Path, ProgramText("view.zoom_in"))
    expected = "3 0.250 None cuda Path view.zoom_in"
    assert _format("%d %.3f %s %s %s %s", *arguments) == expected


def test_exceptions_are_written_without_their_messages() -> None:
    try:
        try:
            raise ValueError(SECRET)
        except ValueError as cause:
            raise OSError(2, SECRET, SECRET) from cause
    except OSError as error:
        written = _format("Failed", error=error)
    assert SECRET not in written
    assert "builtins.ValueError" in written
    assert "builtins.FileNotFoundError" in written
    assert "in test_exceptions_are_written_without_their_messages" in written
    assert str(ROOT) not in written  # the folders may contain the name of the user


def test_the_file_is_private_and_contains_the_messages() -> None:
    handler = start_log_file()
    _logger.info("Opened %d files named %s", 2, SECRET)
    _logger.debug("Details")
    shown = log_unexpected_error(ValueError(SECRET))
    stop_log_file(handler)
    assert SECRET in shown  # what the user sees is complete
    assert "visualizer.tests: Opened 2 files named <str>" in _written()
    assert SECRET not in _written()
    assert "Details" not in _written()
    assert read_last_lines(1) == [_written().splitlines()[-1]]
    if sys.platform != "win32":
        assert log_path().stat().st_mode & 0o077 == 0
        assert log_path().parent.stat().st_mode & 0o077 == 0
    _logger.info("After the end")
    assert "After the end" not in _written()


def test_a_full_file_is_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MAX_BYTES", 500)
    handler = start_log_file()
    for number in range(40):
        _logger.info("Message %d", number)
    stop_log_file(handler)
    files = sorted(log_path().parent.iterdir())
    assert len(files) == 1 + log_file.BACKUP_COUNT
    assert all(path.stat().st_size <= 500 for path in files)
    assert "Message 39" in _written()


def test_a_full_file_that_cannot_be_renamed_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, a file that another process has open cannot be renamed."""

    def refuse(*paths: object) -> None:
        raise PermissionError(13, "The process cannot access the file", *paths)

    monkeypatch.setattr(log_file, "MAX_BYTES", 500)
    monkeypatch.setattr(os, "rename", refuse)
    handler = start_log_file()
    for number in range(40):
        _logger.info("Message %d", number)
    stop_log_file(handler)
    assert [line.split()[-1] for line in _written().splitlines()] == [*map(str, range(40))]


def test_without_a_writable_folder_nothing_is_logged() -> None:
    log_path().parent.parent.mkdir(parents=True)
    log_path().parent.write_text("a file", encoding="utf-8")
    assert start_log_file() is None
    assert read_last_lines(5) == []


def test_verbose_options_print_messages_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    create_parser().parse_args(["-v"])
    _logger.info("Opened %s", SECRET)
    _logger.debug("Details")
    said = capsys.readouterr().err
    assert f"INFO visualizer.tests: Opened {SECRET}" in said
    assert "Details" not in said


def test_vv_prints_details(capsys: pytest.CaptureFixture[str]) -> None:
    options = create_parser().parse_args(["-vv", "--text", "a b"])
    _logger.debug("Details")
    assert capsys.readouterr().err.count("Details") == 1
    assert vars(options) == vars(create_parser().parse_args(["--text", "a b"]))


def test_all_messages_are_constant_texts() -> None:
    levels = {"debug", "info", "warning", "error", "exception", "critical", "log"}
    for path in sorted((ROOT / "visualizer").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                is_logger = isinstance(owner, ast.Name) and owner.id in {"_log", "_logger"}
                if is_logger and node.func.attr in levels:
                    assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"
