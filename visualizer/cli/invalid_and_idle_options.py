"""What is wrong with command-line options, or without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.cli.options import OPTION_GROUPS, option_of
from visualizer.export.formats import FORMATS, FormatKind, format_of, suffixes

if TYPE_CHECKING:
    import argparse

    from visualizer.session.document import Document
SIZED = ("d_in", "d_out", "heads", "mechanism")
"""Fields that determine the sizes of own matrices."""
FOR_FILES = (
    *("stages", "heads_shown", "layout", "theme", "size", "dpi", "title", "no_caption"),
    "quiet",
)
"""Options that affect how files are written, and so need one to write."""
FOR_FILMS = ("span", "grain", "speed")
_LEFT_OUT = (None, False, "")


def complaint(options: argparse.Namespace, document: Document) -> str | None:
    """Return what is wrong with the options: an invalid spec, or an option without effect.

    Names the option given that takes part in the problem, or else what the file holds.
    """
    for problem in document.problems():
        remedied = problem.remedy[0] if problem.remedy else problem.field
        sizes = SIZED if problem.field.startswith("own_") else ()
        parts = (problem.field, remedied, "projection", *sizes)
        field = next((field for field in parts if _given(options, field)), problem.field)
        if field.startswith("own_"):
            return f"argument FILE: {problem.sentence}"
        return f"argument {option_of(field)}: got '{document.get(field)}'. {problem.sentence}"
    return _idle_on_captured(options, document) or _idle(options)


def _idle_on_captured(options: argparse.Namespace, document: Document) -> str | None:
    """Return which option needs a module where attention is captured."""
    names = [option for option in OPTION_GROUPS["Module"] if _is_given(options, option)]
    if document.captured is None or not names:
        return None
    return f"argument {names[0]}: is for a module, and {document.captured.called} is attention."


def _idle(options: argparse.Namespace) -> str | None:
    """Return which option has no effect, if any has none."""
    given = [name for name in (*FOR_FILES, *FOR_FILMS) if getattr(options, name) not in _LEFT_OUT]
    if given and not options.export:
        return f"argument {option_of(given[0])}: is for files. Add --export with a file's name."
    films = tuple(each for each in FORMATS if each.kind is FormatKind.FILM)
    alone = [name for name in given if name in FOR_FILMS]
    if alone and not {format_of(path.name) for path in options.export}.intersection(films):
        return (
            f"argument {option_of(alone[0])}: is for films, such as {suffixes(films)}. Export one."
        )
    return None


def _given(options: argparse.Namespace, field: str) -> bool:
    return _is_given(options, option_of(field))


def _is_given(options: argparse.Namespace, option: str) -> bool:
    return getattr(options, option.strip("-").replace("-", "_"), None) is not None
