"""Opens documents, exported files and plain text, and applies them to the current document.

The type of a file is recognized by its content, not by its name.

Sources: W3C, "PNG Specification, third edition", §11.3.3 (texts); ISO 32000-1, §7.11.4 (files
inside a PDF). QPdfWriter writes such a file as one stream, which may be compressed.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.documents.document_file import SavedDocument, read_document
from visualizer.documents.embedded_document import (
    PDF_MARKER,
    PNG_SIGNATURE,
    find_embedded_document,
    is_web_page,
)
from visualizer.documents.exported_numbers import (
    ExportedNumbers,
    is_exported_json,
    is_exported_npz,
    read_exported_json,
    read_exported_npz,
)
from visualizer.errors import InputError, system_error_reason
from visualizer.models.image_file import has_image_suffix
from visualizer.session.document_builder import normalize_text
from visualizer.storage.archive import MAX_BYTES
from visualizer.storage.json_codec import DamagedFileError
from visualizer.storage.regular_file import file_version, open_regular_file

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.session.document import Document
    from visualizer.session.model_opening import OpenedModelSource

MAX_PICTURE_BYTES = 2**28
"""Maximum size, in bytes, of an exported image that is searched for a document."""
_START = 4096
"""Number of leading bytes that identify the type of a file."""


# ------------------------------------------------------------------------------ opening


def open_document(path: Path) -> SavedDocument:
    """Open a document file, or an exported file that embeds a document, regardless of its name.

    Raises
    ------
    InputError
        With field ``open`` if the file has any other type; the message names the file.
    """
    subject = f"“{path.name or path}”"
    try:
        with open_regular_file(path) as file:
            start, found = file.read(_START), os.fstat(file.fileno())
            file.seek(0)
            if is_exported_npz(start):
                saved = _document_from_export(path, *read_exported_npz(path))
            elif is_exported_json(start):
                data = file.read(MAX_PICTURE_BYTES)
                saved = _document_from_export(path, *read_exported_json(path, data, found.st_size))
            else:
                is_picture = not start.startswith(b"PK")
                if found.st_size > (MAX_PICTURE_BYTES if is_picture else MAX_BYTES + 2**26):
                    raise InputError("open", f"{subject} is too large to open.")
                saved = (
                    _document_from_picture(path, file.read()) if is_picture else read_document(file)
                )
            return replace(saved, version=file_version(found))
    except DamagedFileError as error:
        raise InputError("open", f"{subject} {error}") from error
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "not enough memory"
        raise InputError("open", f"{subject} could not be opened: {reason}.") from error


def _document_from_picture(path: Path, data: bytes) -> SavedDocument:
    document = find_embedded_document(data)
    if document is None:
        kinds = (PNG_SIGNATURE, b"%PDF", PDF_MARKER)
        is_known = data.startswith(kinds) or is_web_page(data) or b"<svg" in data[:4096]
        what = "contains no document" if is_known else "is not an Attention Visualizer document"
        hint = "Open a file that was saved or exported by Attention Visualizer."
        if has_image_suffix(path):
            hint += " To use another image, open a vision model first."
        raise InputError("open", f"“{path.name}” {what}. {hint}")
    return _document_from_bytes(path, document)


def _document_from_export(path: Path, document: bytes, numbers: ExportedNumbers) -> SavedDocument:
    return replace(_document_from_bytes(path, document), exported=numbers)


def _document_from_bytes(path: Path, document: bytes) -> SavedDocument:
    file = io.BytesIO(document)
    file.name = str(path)
    return read_document(file)


REPLACED_TEXT_NOTICE = "{name} cannot process the text, so a sample text is used instead."


class DocumentChange(Struct, frozen=True):
    """The current document after inserting an opened text, captured attention or weights.

    Parameters
    ----------
    notice : str
        Message about the file that is shown to the user; may be empty.
    stages : frozenset of str or None
        The stages to show; None to keep the current stages.
    opened_model : object
        The model that was opened to run the document, which this reference keeps alive; None if
        no model was opened.
    """

    document: Document
    notice: str = ""
    stages: frozenset[str] | None = None
    opened_model: object = None

    def apply_to_edited_document(self, before: Document, now: Document) -> DocumentChange:
        """Apply the change to a document that was edited while the file was being read.

        Parameters
        ----------
        before : Document
            The document to which the change was applied.
        now : Document
            The current document; everything that the change does not affect is preserved.
        """
        changed = {
            name: value
            for name in before.__struct_fields__
            if (value := getattr(self.document, name)) is not getattr(before, name)
        }
        return replace(self, document=replace(now, **changed))


def switch_to_model(document: Document, opened: OpenedModelSource) -> DocumentChange:
    """Switch a document to a model, with the document's text or a replacement text.

    A vision model uses the image of the previous model.
    """
    source = opened.source
    before = document.model.image if document.model else None
    if source.image is not None and before is not None:
        source = replace(source, image=before)
    changed, notice = document.with_setting("model", source), ""
    if opened.other_text:
        changed = changed.with_setting("text", opened.other_text)
        notice = REPLACED_TEXT_NOTICE.format(name=source.name)
    return DocumentChange(changed, notice, frozenset({"weights"}), opened.model)


MAX_TEXT_CHARACTERS = 600_000
"""Maximum number of characters in a text, which is about 100,000 words."""
MAX_LINE_CHARACTERS = 100_000
"""Maximum number of characters in a line, because the window lays out each line as a whole."""


def text_length_problem(text: str) -> str:
    """Describe which part of a text is too long to open; return "" if none is."""
    if len(text) > MAX_TEXT_CHARACTERS:
        what = f"The text has {len(text):,} characters; the maximum is {MAX_TEXT_CHARACTERS:,}"
    elif (line := max(map(len, text.split("\n")))) > MAX_LINE_CHARACTERS:
        what = f"A line has {line:,} characters; the maximum is {MAX_LINE_CHARACTERS:,}"
    else:
        return ""
    return f"{what}. The text was not inserted."


def longest_permitted_prefix(text: str) -> str:
    """Return the longest permitted beginning of a text; it ends with a whole word or line."""
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


def read_text_file(path: Path) -> str:
    """Read a UTF-8 text file with or without a byte order mark.

    Raises
    ------
    InputError
        With field ``open`` if the file cannot be read, is blank or not UTF-8, or exceeds the
        maximum length.
    """
    subject = f"“{path.name}”"
    try:
        with open_regular_file(path) as file:
            content = file.read(4 * MAX_TEXT_CHARACTERS + 1)
        text = content.decode("utf-8-sig") if len(content) <= 4 * MAX_TEXT_CHARACTERS else None
        if text is None or len(text) > MAX_TEXT_CHARACTERS:
            sentence = (
                f"{subject} has more than {MAX_TEXT_CHARACTERS:,} characters. "
                "Open part of the text."
            )
            raise InputError("open", sentence)
        if text_length_problem(text):
            sentence = (
                f"{subject} has a line of more than {MAX_LINE_CHARACTERS:,} characters. "
                "Divide the line."
            )
            raise InputError("open", sentence)
        return normalize_text(text)
    except OSError as error:
        raise InputError(
            "open", f"{subject} could not be opened: {system_error_reason(error)}."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError("open", f"{subject} is not UTF-8 text. Save the file as UTF-8.") from error
    except InputError as refused:
        blank = f"{subject} contains no text."
        raise refused if refused.field == "open" else InputError("open", blank) from refused
