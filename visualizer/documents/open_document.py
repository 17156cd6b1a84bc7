"""Opens document files and documents embedded in exported pictures, pages and data files.

The kind of a file is recognized by its content, not its name. Writers embed a document with the
``as_`` functions.

Sources: W3C, "PNG Specification, third edition", §11.3.3 (texts); ISO 32000-1, §7.11.4 (files
inside a PDF). QPdfWriter writes them as one stream, compressed or not.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.documents.document_file import SavedDocument, read_document
from visualizer.documents.embedded_document import (
    MARKER,
    PNG_SIGNATURE,
    find_embedded_document,
    is_web_page,
)
from visualizer.documents.exported_numbers import (
    ExportedNumbers,
    is_json,
    is_npz,
    read_json,
    read_npz,
)
from visualizer.errors import InputError
from visualizer.models.image_names import is_image_name
from visualizer.storage.archive import MAX_BYTES
from visualizer.storage.json_coding import DamagedError
from visualizer.storage.regular_file import open_regular_file, version_of

if TYPE_CHECKING:
    from pathlib import Path


MAX_PICTURE_BYTES = 2**28
"""Maximum size of a picture to search for a document, in bytes."""
_START = 4096
"""Number of bytes to identify the type of a file."""


# ------------------------------------------------------------------------------ opening


def open_document(path: Path) -> SavedDocument:
    """Open a document file, or an exported file that embeds one, whatever its name.

    Raises
    ------
    InputError
        For ``open``, with a message that names the file, for any other file.
    """
    subject = f"“{path.name or path}”"
    try:
        with open_regular_file(path) as file:
            start, found = file.read(_START), os.fstat(file.fileno())
            file.seek(0)
            if is_npz(start):
                saved = _beside_numbers(path, *read_npz(path))
            elif is_json(start):
                data = file.read(MAX_PICTURE_BYTES)
                saved = _beside_numbers(path, *read_json(path, data, found.st_size))
            else:
                is_picture = not start.startswith(b"PK")
                if found.st_size > (MAX_PICTURE_BYTES if is_picture else MAX_BYTES + 2**26):
                    raise InputError("open", f"{subject} is too large to open.")
                saved = _in_picture(path, file.read()) if is_picture else read_document(file)
            return replace(saved, version=version_of(found))
    except DamagedError as error:
        raise InputError("open", f"{subject} {error}") from error
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or "not enough memory"
        raise InputError("open", f"{subject} could not be opened: {reason}.") from error


def _in_picture(path: Path, data: bytes) -> SavedDocument:
    document = find_embedded_document(data)
    if document is None:
        kinds = (PNG_SIGNATURE, b"%PDF", MARKER)
        is_known = data.startswith(kinds) or is_web_page(data) or b"<svg" in data[:4096]
        what = "contains no document" if is_known else "is not an Attention Visualizer document"
        hint = "Open a file that was saved or exported by Attention Visualizer."
        if is_image_name(path):
            hint += " To use another image, open a vision model first."
        raise InputError("open", f"“{path.name}” {what}. {hint}")
    return _from_bytes(path, document)


def _beside_numbers(path: Path, document: bytes, numbers: ExportedNumbers) -> SavedDocument:
    return replace(_from_bytes(path, document), exported=numbers)


def _from_bytes(path: Path, document: bytes) -> SavedDocument:
    file = io.BytesIO(document)
    file.name = str(path)
    return read_document(file)
