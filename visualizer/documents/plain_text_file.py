"""Reads a text file as the text of a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.errors import InputError, reason_of
from visualizer.session.document_from_texts_and_settings import text_of
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

MAX_TEXT_CHARACTERS = 600_000
"""Maximum number of characters in a text: about 100,000 words with spaces."""
MAX_LINE_CHARACTERS = 100_000
"""Maximum number of characters in a line, as the window lays out each line as a whole."""


def too_long(text: str) -> str:
    """Describe which part of a text is too long to open; empty if none is."""
    if len(text) > MAX_TEXT_CHARACTERS:
        what = f"The text has {len(text):,} characters; the maximum is {MAX_TEXT_CHARACTERS:,}"
    elif (line := max(map(len, text.split("\n")))) > MAX_LINE_CHARACTERS:
        what = f"A line has {line:,} characters; the maximum is {MAX_LINE_CHARACTERS:,}"
    else:
        return ""
    return f"{what}. The text was not inserted."


def first_part(text: str) -> str:
    """Return the longest permitted start of a text, up to the end of a word or line."""
    size = min(len(text), MAX_TEXT_CHARACTERS)
    start = 0
    for line in text[:size].split("\n"):
        if len(line) > MAX_LINE_CHARACTERS:
            size = start + MAX_LINE_CHARACTERS
            break
        start += len(line) + 1
    part = text[:size]
    is_within_word = not (part[-1:].isspace() or text[size : size + 1].isspace())
    words = part.rsplit(None, 1)
    if len(text) > size and is_within_word and len(words) > 1:
        part = part.removesuffix(words[1])
    return part.rstrip()


def text_in(path: Path) -> str:
    """Read a UTF-8 text with or without a byte order mark.

    Raises
    ------
    InputError
        For ``open``, if it cannot be read or is blank, too long or not UTF-8.
    """
    subject = f"“{path.name}”"
    try:
        with open_regular_file(path) as file:
            content = file.read(4 * MAX_TEXT_CHARACTERS + 1)
        text = content.decode("utf-8-sig") if len(content) <= 4 * MAX_TEXT_CHARACTERS else None
        if text is None or len(text) > MAX_TEXT_CHARACTERS:
            sentence = (
                f"{subject} has more than {MAX_TEXT_CHARACTERS:,} characters. Use part of it."
            )
            raise InputError("open", sentence)
        if too_long(text):
            sentence = (
                f"{subject} has a line of more than {MAX_LINE_CHARACTERS:,} characters. Break it."
            )
            raise InputError("open", sentence)
        return text_of(text)
    except OSError as error:
        raise InputError("open", f"{subject} could not be opened: {reason_of(error)}.") from error
    except UnicodeDecodeError as error:
        raise InputError("open", f"{subject} is not UTF-8 text.") from error
    except InputError as refused:
        blank = f"{subject} contains no text."
        raise refused if refused.field == "open" else InputError("open", blank) from refused
