"""Table of the export formats; `visualizer.export.writers` writes them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from visualizer.optional_packages import is_installed, missing_package_message


class FormatKind(StrEnum):
    """Kind of content of a file, which determines the export options."""

    FIGURE = "figure"
    FILM = "film"
    NUMBERS = "numbers"
    DOCUMENT = "document"

    @property
    def contains_pictures(self) -> bool:
        """Whether files of this kind contain images, which depend on figure settings and fonts."""
        return self in {FormatKind.FIGURE, FormatKind.FILM}


class ExportFormat(Struct, frozen=True):
    """An export format.

    Parameters
    ----------
    suffix : str
        File name extension, with the dot.
    words : str
        Description of the content.
    needs : str
        Optional package that is required to write the format; may be empty.
    note : str
        Note for the user about files in this format; may be empty.
    is_text : bool
        Whether the first lines of a file can be previewed. Such a format requires an entry in
        ``TEXT_SIZE_ESTIMATES`` in ``data/data_preview.py``.
    used_fields : tuple of str
        Names of the fields of `FigureSettings` that the format uses; if empty, the format uses the
        fields that its kind uses.
    """

    suffix: str
    words: str
    kind: FormatKind
    needs: str = ""
    note: str = ""
    is_text: bool = False
    used_fields: tuple[str, ...] = ()


_OPENS_AGAIN = "Can be opened as a document."
# fmt: off
FORMATS: tuple[ExportFormat, ...] = (
    ExportFormat(".png", "Image of the heatmaps", FormatKind.FIGURE),
    ExportFormat(".svg", "Vector image of the heatmaps", FormatKind.FIGURE),
    ExportFormat(".pdf", "Vector page with the heatmaps", FormatKind.FIGURE),
    ExportFormat(
        ".html", "Interactive web page with the heatmaps", FormatKind.FIGURE,
        used_fields=(
            "extent", "paper", "title", "has_caption", "has_marks", "carries_document",
            "has_all_layers",
        ),
    ),
    ExportFormat(".gif", "Animation of the computation", FormatKind.FILM),
    ExportFormat(".apng", "Lossless animation", FormatKind.FILM),
    ExportFormat(".webp", "Lossless, compact animation", FormatKind.FILM),
    ExportFormat(".mp4", "Animation as a video", FormatKind.FILM, needs="av"),
    ExportFormat(".npz", "Values of every stage", FormatKind.NUMBERS, note=_OPENS_AGAIN),
    ExportFormat(
        ".csv", "Values of the panels as a table", FormatKind.NUMBERS,
        note="UTF-8 with a byte order mark, for spreadsheet programs. Numbers have full precision.",
        is_text=True, used_fields=("extent",),
    ),
    ExportFormat(
        ".md", "Values of the panels as Markdown tables", FormatKind.NUMBERS,
        is_text=True, used_fields=("extent",),
    ),
    ExportFormat(
        ".json", "Settings, weights and values", FormatKind.NUMBERS,
        note=_OPENS_AGAIN, is_text=True,
    ),
    ExportFormat(".safetensors", "Weights of the module", FormatKind.NUMBERS),
    ExportFormat(".attention", "Attention Visualizer document", FormatKind.DOCUMENT),
)
# fmt: on


def format_of_file(name: str) -> ExportFormat | None:
    """Return the format that the suffix of a file name selects, ignoring case."""
    lower = name.lower()
    return next((each for each in FORMATS if lower.endswith(each.suffix)), None)


def depends_on_view(format_: ExportFormat) -> bool:
    """Return whether the content of a file depends on the layer, text and heads that are shown."""
    is_drawn = format_.kind.contains_pictures or format_.kind is FormatKind.DOCUMENT
    return is_drawn or "extent" in format_.used_fields


def is_terminal_readable(format_: ExportFormat) -> bool:
    """Return whether a terminal can show files in a format."""
    return format_.is_text or format_.suffix in {".svg", ".html"}


def unavailable_reason(suffix: str) -> str:
    """Return the reason why a format is not available, or "" if it is available."""
    needs = next(each.needs for each in FORMATS if each.suffix == suffix)
    if not needs or is_installed(needs):
        return ""
    return missing_package_message(needs, suffix[1:].upper())


def add_suffix(name: str, chosen: str) -> Path:
    """Return the path of a file name, with the chosen file filter's suffix if the name has none.

    The text after a dot is not always a suffix, for example in “attention v1.2”.
    """
    path = Path(name)
    suffix = next((each.suffix for each in FORMATS if f"*{each.suffix}" in chosen), ".png")
    # Unknown suffixes are rejected later on.
    is_complete = format_of_file(name) or path.suffix[1:].isalpha()
    return path if is_complete else path.with_name(f"{path.name}{suffix}")


def list_suffixes(formats: tuple[ExportFormat, ...] = FORMATS) -> str:
    """List the suffixes of formats, such as ``.csv, .md or .json``."""
    *others, last = (each.suffix for each in formats)
    return f"{', '.join(others)} or {last}" if others else last
