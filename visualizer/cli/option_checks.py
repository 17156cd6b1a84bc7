"""Detects options that are invalid, conflict with another option, or have no effect."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from visualizer.attention.settings import SETTINGS_BY_NAME, no_effect_reason
from visualizer.cli.export_files import (
    ALL_OPTION,
    SEVERAL_FILES_ERROR,
    STANDARD_OUTPUT_PATH,
    export_format,
)
from visualizer.cli.options import (
    MAP_USES,
    SETTING_GROUPS,
    create_parser,
    format_option,
    option_name,
    option_value,
)
from visualizer.export.export_settings import ExportSettings
from visualizer.export.figure_settings import FigureExtent
from visualizer.export.formats import (
    FORMATS,
    ExportFormat,
    FormatKind,
    depends_on_view,
    format_of_file,
    is_terminal_readable,
    list_suffixes,
    unavailable_reason,
)
from visualizer.session.view_options import ColourMapKind, colour_maps_of_kind

if TYPE_CHECKING:
    import argparse

    from visualizer.errors import Problem
    from visualizer.session.document import Document
SIZE_FIELDS = ("d_in", "d_out", "heads", "mechanism")
"""Fields that determine the required shapes of custom matrices."""


def _formats_using_field(field: str) -> frozenset[ExportFormat]:
    """Return the formats that use a field of `FigureSettings`."""
    return frozenset(
        each for each in FORMATS if field in ExportSettings(each.suffix).used_field_names
    )


_FILMS = frozenset(each for each in FORMATS if each.kind is FormatKind.FILM)
_DEPENDING_ON_VIEW = frozenset(filter(depends_on_view, FORMATS))
AFFECTED_FORMATS = {
    "stages": _DEPENDING_ON_VIEW - _FILMS,  # an animation shows the stages of its steps
    "heads_shown": _DEPENDING_ON_VIEW,
    "layer": _DEPENDING_ON_VIEW,
    "text_shown": _DEPENDING_ON_VIEW,
    "colour_map": frozenset(
        each for each in FORMATS if each.kind.contains_pictures or each.kind is FormatKind.DOCUMENT
    ),
    "layout": _formats_using_field("extent"),
    "theme": _formats_using_field("paper"),
    "size": _formats_using_field("width_mm") | _FILMS,
    "dpi": _formats_using_field("dpi") | _FILMS,
    "title": _formats_using_field("title"),
    "no_caption": _formats_using_field("has_caption"),
    "letters": _formats_using_field("has_letters"),
    "all_layers": _formats_using_field("has_all_layers"),
    "span": _FILMS,
    "grain": _FILMS,
    "speed": _FILMS,
    "no_motion": _FILMS,
    "format": frozenset(FORMATS),
    "quiet": frozenset(FORMATS),
}
"""Formats that an option for exported files affects, keyed by the field of the option."""
_LAYOUTS_SHOWING_ALL = {
    "stages": (FigureExtent.STAGES, FigureExtent.FLOW, FigureExtent.ALL),
    "heads_shown": (FigureExtent.HEADS, FigureExtent.ALL),
}
"""Layouts that show all stages or heads, keyed by the option that has no effect with them."""


def unused_option_error(options: argparse.Namespace) -> str | None:
    """Return an error if an option that exits the program is combined with another option."""
    defaults = create_parser().parse_args([])
    given = [name for name, value in vars(options).items() if value != getattr(defaults, name)]
    for name in ("reset_settings", "print_completion"):
        if name in given and len(given) > 1:
            return f"{option_name(name)} cannot be combined with other options. Remove them."
    return None


def first_option_error(options: argparse.Namespace, document: Document) -> str | None:
    """Return the first error in the options: an invalid setting or an option that has no effect.

    The message begins with the name of the option that causes the error, or with FILE.
    """
    for problem in document.setting_problems():
        return _describe_problem(problem, options, document)
    return (
        _find_conflicting_options(options)
        or _find_option_without_module(options, document)
        or _find_unused_setting(options, document)
        or first_export_option_error(options)
    )


def first_export_option_error(options: argparse.Namespace) -> str | None:
    """Return the first error in the options for exported files."""
    return (
        _find_colour_map_conflict(options)
        or _find_unused_selection(options)
        or _find_unused_option(options)
        or _find_standard_output_error(options)
        or _find_missing_package(options)
    )


def _describe_problem(problem: Problem, options: argparse.Namespace, document: Document) -> str:
    field = problem.field
    if field == "own_mask" and _is_given(options, "mask"):
        return "argument --mask: invalid value 'own': requires --own-mask FILE"
    remedied = problem.remedy[0] if problem.remedy else field
    sizes = SIZE_FIELDS if field.startswith("own_") else ()
    parts = (field, remedied, "projection", "block", *sizes)
    field = next((part for part in parts if _is_given(options, part)), field)
    if field.startswith("own_"):
        return f"argument {_source_of_matrix(options, field)}: {problem.sentence}"
    return (
        f"argument {option_name(field)}: invalid value "
        f"'{document.get_setting(field)}': {problem.sentence}"
    )


def _source_of_matrix(options: argparse.Namespace, field: str) -> str:
    """Return the option that supplied a matrix, or FILE if the opened file contains the matrix."""
    return option_name(field) if _is_given(options, field) else "FILE"


def _find_conflicting_options(options: argparse.Namespace) -> str | None:
    if options.text and options.file and options.file.suffix.lower() == ".txt":
        return "--text cannot be combined with a text file. Remove one of them."
    if _is_given(options, "mask") and _is_given(options, "causal"):
        given = "--causal" if options.causal else "--no-causal"
        return f"{given} cannot be combined with --mask. Remove one of them."
    return None


def _find_colour_map_conflict(options: argparse.Namespace) -> str | None:
    for kind in ColourMapKind:
        of_kind = [
            colour_map.id
            for colour_map in colour_maps_of_kind(kind)
            if colour_map.id in (options.colour_map or ())
        ]
        if len(of_kind) > 1:
            conflict = f"'{of_kind[0]}' and '{of_kind[1]}' are both colour maps {MAP_USES[kind]}"
            return f"argument --colour-map: {conflict}. Remove one of them."
    return None


def _find_unused_selection(options: argparse.Namespace) -> str | None:
    """Return an error if stages or heads are selected but the layout shows all of them."""
    for name, layouts in _LAYOUTS_SHOWING_ALL.items():
        if _is_given(options, name) and options.layout in layouts:
            shown = f"with --layout {options.layout}, which shows all {name.partition('_')[0]}"
            return f"{option_name(name)} has no effect {shown}. Remove {option_name(name)}."
    return None


def _find_standard_output_error(options: argparse.Namespace) -> str | None:
    """Return an error if the requested output cannot be written to standard output."""
    if STANDARD_OUTPUT_PATH not in (options.export or ()):
        return None
    if sys.stdout is None:  # on Windows, a program without a console
        return "argument --export: standard output is not available. Specify a file."
    if options.export.count(STANDARD_OUTPUT_PATH) > 1:
        return (
            "argument --export: only one file can be written to standard output. Use '-' only once."
        )
    for name in ("layer", "text_shown"):
        if option_value(options, name) == ALL_OPTION:
            return f"argument {option_name(name)}: {SEVERAL_FILES_ERROR}"
    format_ = format_of_file(f".{options.format}")
    if format_ and not is_terminal_readable(format_) and sys.stdout.isatty():
        return (
            f"argument --export: {options.format.upper()} is a binary format and "
            "cannot be written to a terminal. Redirect standard output, or specify a "
            "file."
        )
    return None


def _find_missing_package(options: argparse.Namespace) -> str | None:
    """Return an error if a format requires a package that is not installed."""
    for path in options.export or ():
        format_ = export_format(path, options)
        if format_ and (missing := unavailable_reason(format_.suffix)):
            return f"argument --export: {missing}"
    return None


def _find_option_without_module(options: argparse.Namespace, document: Document) -> str | None:
    """Return an error if an option requires a module, but the attention was captured."""
    fields = ("lines", *(name for names in SETTING_GROUPS.values() for name in names))
    names = [option_name(field) for field in fields if _is_given(options, field)]
    if document.captured is None or not names:
        return None
    return (
        f"{names[0]} has no effect on {document.captured.display_name}, which contains "
        f"attention weights rather than a module. Remove {names[0]}."
    )


def _find_unused_setting(options: argparse.Namespace, document: Document) -> str | None:
    """Return an error for a setting that has no effect in combination with the other settings."""
    for name in SETTINGS_BY_NAME:
        if _is_given(options, name) and (
            message := no_effect_reason(document.spec, name, format_option)
        ):
            return message
    return None


def _find_unused_option(options: argparse.Namespace) -> str | None:
    """Return an error for the first option that has no effect on the exported files."""
    given = [name for name in AFFECTED_FORMATS if getattr(options, name, None) not in (None, False)]
    if given and not options.export:
        name = option_name(given[0])
        return f"{name} has no effect without --export. Remove {name}."
    if options.format and STANDARD_OUTPUT_PATH not in options.export:
        return "--format has no effect without --export -. Remove --format."
    if STANDARD_OUTPUT_PATH in (options.export or ()) and not options.format:
        return "argument --export: invalid value '-': requires --format, such as --format csv"
    exported = {export_format(path, options) for path in options.export or ()}
    for name in given:
        affected = _affected_formats(name, options)
        if not affected & exported:
            listed = list_suffixes(tuple(each for each in FORMATS if each in affected))
            return (
                f"{option_name(name)} affects only {listed} files. Remove {option_name(name)}, or "
                "export a file of one of these types."
            )
    return None


def _affected_formats(name: str, options: argparse.Namespace) -> frozenset[ExportFormat]:
    """Return the formats that an option affects when combined with the other options."""
    is_film_unaffected = (
        # An animation shows the stages of its steps, and --dpi only converts its --size to pixels.
        (name == "layout" and options.layout in {FigureExtent.STAGES, FigureExtent.FLOW})
        or (name == "dpi" and not options.size)
    )
    return AFFECTED_FORMATS[name] - _FILMS if is_film_unaffected else AFFECTED_FORMATS[name]


def _is_given(options: argparse.Namespace, field: str) -> bool:
    return option_value(options, field) is not None
