"""Detects invalid command-line options and options without effect."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from visualizer.attention.settings import BY_NAME, without_effect
from visualizer.cli.export_files import ALL, SEVERAL, STANDARD_OUTPUT, format_of_export
from visualizer.cli.options import SETTING_GROUPS, option_of, parser, value_of, word_option
from visualizer.export.export_settings import ExportSettings
from visualizer.export.figure_settings import FigureExtent
from visualizer.export.formats import (
    FORMATS,
    ExportFormat,
    FormatKind,
    decides_by_view,
    format_of,
    is_readable,
    suffixes,
    why_not_writable,
)
from visualizer.session.view_options import MapKind, maps_of

if TYPE_CHECKING:
    import argparse

    from visualizer.errors import Problem
    from visualizer.session.document import Document
SIZED = ("d_in", "d_out", "heads", "mechanism")
"""Fields that determine the sizes of own matrices."""
FOR_FILES = (
    *("stages", "heads_shown", "layer", "text_shown", "colour_map", "layout", "theme", "size"),
    *("dpi", "title", "no_caption", "all_layers", "span", "grain", "speed", "no_motion"),
    *("format", "quiet"),
)
"""Options that only affect exported files."""
_NOT_GIVEN = (None, False)
_FIGURE_FIELDS = {
    "layout": "extent",
    "theme": "paper",
    "dpi": "dpi",
    "title": "title",
    "no_caption": "has_caption",
    "all_layers": "has_all_layers",
    "span": "film",
    "grain": "film",
    "speed": "film",
    "no_motion": "film",
}
"""Field of `FigureSettings` set by each option."""
_LAYOUTS_SHOWING_ALL = {
    "stages": (FigureExtent.STAGES, FigureExtent.ALL),
    "heads_shown": (FigureExtent.HEADS, FigureExtent.ALL),
}
"""Layouts that show all stages or heads, regardless of the selection."""


def idle_beside_what_ends(options: argparse.Namespace) -> str | None:
    """Return an error for an option given with another one that ends the program."""
    defaults = parser().parse_args([])
    given = [name for name, value in vars(options).items() if value != getattr(defaults, name)]
    for name in ("reset_settings", "print_completion"):
        if name in given and len(given) > 1:
            return f"{option_of(name)} cannot be combined with other options."
    return None


def complaint(options: argparse.Namespace, document: Document) -> str | None:
    """Return the first error of the options: an invalid spec, or an option without effect.

    The message names the option that causes the problem, or else the file.
    """
    for problem in document.problems():
        return _describe_problem(problem, options, document)
    return (
        _find_contradiction(options)
        or _find_option_without_module(options, document)
        or _find_idle_setting(options, document)
        or complaint_about_files(options)
    )


def complaint_about_files(options: argparse.Namespace) -> str | None:
    """Return the first error of the options for exported files, invalid or without effect."""
    return (
        _find_colour_map_conflict(options)
        or _find_overruled_selection(options)
        or _find_idle_option(options)
        or _find_standard_output_error(options)
        or _find_missing_package(options)
    )


def _describe_problem(problem: Problem, options: argparse.Namespace, document: Document) -> str:
    field = problem.field
    if field == "own_mask" and _is_given(options, "mask"):
        return "argument --mask: invalid value 'own': requires --own-mask FILE"
    remedied = problem.remedy[0] if problem.remedy else field
    sizes = SIZED if field.startswith("own_") else ()
    parts = (field, remedied, "projection", "block", *sizes)
    field = next((part for part in parts if _is_given(options, part)), field)
    if field.startswith("own_"):
        return f"argument {_source_name(options, field)}: {problem.sentence}"
    return f"argument {option_of(field)}: invalid value '{document.get(field)}': {problem.sentence}"


def _source_name(options: argparse.Namespace, field: str) -> str:
    """Return the option that supplied a matrix, or the opened file."""
    return option_of(field) if _is_given(options, field) else "FILE"


def _find_contradiction(options: argparse.Namespace) -> str | None:
    if options.text and options.file and options.file.suffix.lower() == ".txt":
        return "--text cannot be combined with a text file. Remove one of them."
    if _is_given(options, "mask") and _is_given(options, "causal"):
        given = "--causal" if options.causal else "--no-causal"
        return f"{given} cannot be combined with --mask. Remove one of them."
    return None


def _find_colour_map_conflict(options: argparse.Namespace) -> str | None:
    for kind in MapKind:
        of_kind = [each.id for each in maps_of(kind) if each.id in (options.colour_map or ())]
        if len(of_kind) > 1:
            conflict = f"'{of_kind[0]}' and '{of_kind[1]}' are both {kind.value} colour maps"
            return f"argument --colour-map: {conflict}. Remove one of them."
    return None


def _find_overruled_selection(options: argparse.Namespace) -> str | None:
    """Return an error if stages or heads are selected that the layout shows in any case."""
    for name, layouts in _LAYOUTS_SHOWING_ALL.items():
        if _is_given(options, name) and options.layout in layouts:
            all_of = f"with --layout {options.layout}, which shows all of them"
            return f"{option_of(name)} has no effect {all_of}. Remove it."
    return None


def _find_standard_output_error(options: argparse.Namespace) -> str | None:
    """Return an error if a file cannot be written to standard output as requested."""
    if STANDARD_OUTPUT not in (options.export or ()):
        return None
    if sys.stdout is None:  # a program without a console on Windows
        return "argument --export: standard output is not available. Specify a file."
    if options.export.count(STANDARD_OUTPUT) > 1:
        return "argument --export: only one file can be written to standard output. Use - once."
    for name in ("layer", "text_shown"):
        if value_of(options, name) == ALL:
            return f"argument {option_of(name)}: {SEVERAL}"
    found = format_of(f".{options.format}")
    if found and not is_readable(found) and sys.stdout.isatty():
        return (
            f"argument --export: {options.format.upper()} is a binary format and "
            "cannot be written to a terminal. Redirect standard output, or specify a "
            "file."
        )
    return None


def _find_missing_package(options: argparse.Namespace) -> str | None:
    """Return an error if a format needs a package that is not installed, before computing."""
    for path in options.export or ():
        found = format_of_export(path, options)
        if found and (missing := why_not_writable(found.suffix)):
            return f"argument --export: {missing}"
    return None


def _find_option_without_module(options: argparse.Namespace, document: Document) -> str | None:
    """Return an error for an option that needs a module if the attention was captured."""
    fields = ("lines", *(name for names in SETTING_GROUPS.values() for name in names))
    names = [option_of(field) for field in fields if _is_given(options, field)]
    if document.captured is None or not names:
        return None
    return (
        f"{names[0]} has no effect on {document.captured.called}, which contains "
        "attention instead of a module. Remove it."
    )


def _find_idle_setting(options: argparse.Namespace, document: Document) -> str | None:
    """Return an error for a setting that has no effect in combination with the others."""
    for name in BY_NAME:
        if _is_given(options, name) and (
            message := without_effect(document.spec, name, word_option)
        ):
            return message
    return None


def _find_idle_option(options: argparse.Namespace) -> str | None:
    """Return an error for the first option without effect on the exported files."""
    given = [name for name in FOR_FILES if getattr(options, name, None) not in _NOT_GIVEN]
    if given and not options.export:
        return f"{option_of(given[0])} has no effect without --export. Remove it."
    if options.format and STANDARD_OUTPUT not in options.export:
        return "--format has no effect without --export -. Remove it."
    if STANDARD_OUTPUT in (options.export or ()) and not options.format:
        return "argument --export: - requires --format, such as --format csv"
    exported = {format_of_export(path, options) for path in options.export or ()}
    for name in given:
        heeding = tuple(each for each in FORMATS if _affects_format(each, name, options))
        if not exported.intersection(heeding):
            return (
                f"{option_of(name)} only affects {suffixes(heeding)} files. Remove "
                "it, or export one of them."
            )
    return None


def _affects_format(format_: ExportFormat, name: str, options: argparse.Namespace) -> bool:
    deciding = ExportSettings(format_.suffix).deciding
    is_film, is_document = format_.kind is FormatKind.FILM, format_.kind is FormatKind.DOCUMENT
    if name in {"quiet", "format"}:
        return True
    if name == "stages":  # a film shows the stages of its steps
        return decides_by_view(format_) and not is_film
    if name in {"heads_shown", "layer", "text_shown"}:
        return decides_by_view(format_)
    if name == "colour_map":
        return is_document or format_.kind.is_drawn
    if name == "size":
        return is_film or "width_mm" in deciding
    if name == "layout" and is_film:  # a film shows the stages of its steps
        return str(options.layout) != FigureExtent.STAGES
    if name == "dpi" and is_film:  # it converts lengths in --size to pixels
        return bool(options.size)
    return _FIGURE_FIELDS[name] in deciding


def _is_given(options: argparse.Namespace, field: str) -> bool:
    return value_of(options, field) is not None
