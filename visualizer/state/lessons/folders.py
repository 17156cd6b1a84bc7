"""Folders of lessons: ours, and one into which a reader drops their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.state.lessons.files import LessonError, read_lesson

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Sequence

    from visualizer.state.lessons.pages import Lesson
    from visualizer.state.lessons.printed import Printed

LARGEST_FILE = 1_000_000


def load_lessons(
    folders: Sequence[pathlib.Path], printed: Printed
) -> tuple[tuple[Lesson, ...], tuple[LessonError, ...]]:
    """Read all lessons of some folders, folder by folder and by the names of their files.

    A folder that is not there has none.
    """
    lessons, errors = [], []
    for folder in folders:
        try:
            paths = sorted(folder.glob("*.toml"))
        except OSError as error:
            errors.append(LessonError(folder.name, 0, f"It cannot be read: {error.strerror}."))
            continue
        for path in paths:
            try:
                lessons.append(read_lesson(_text(path), path.name, printed))
            except LessonError as error:
                errors.append(error)
    return tuple(lessons), tuple(errors)


def _text(path: pathlib.Path) -> str:
    try:
        if not path.is_file():  # a pipe would keep us waiting for ever
            raise LessonError(path.name, 0, "It cannot be read: it is no file.")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise LessonError(path.name, 0, f"It cannot be read: {error.strerror}.") from error
    if len(content) > LARGEST_FILE:
        raise LessonError(path.name, 0, "It has more than 1 MB, which no lesson needs.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LessonError(path.name, line, "It is not written in UTF-8.") from error
