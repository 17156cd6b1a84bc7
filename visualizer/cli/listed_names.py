"""Lists of the names that options accept, one per line with a description."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from visualizer.attention.layer_stages import DESCRIPTIONS, ORDER
from visualizer.cli import option_types
from visualizer.console import write_out
from visualizer.export.export_settings import PAPERS
from visualizer.export.formats import FORMATS, why_not_writable
from visualizer.export.option_parsing import SIZES
from visualizer.language.training_presets import PRESETS
from visualizer.session.view_options import COLOUR_MAPS, MapKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.export.formats import ExportFormat

Names = list[tuple[str, str]]
"""Names with their descriptions."""


def stages() -> Names:
    """List the stages in order of computation; no module or model has all of them."""
    return [(name, DESCRIPTIONS[name]) for name in ORDER]


def formats() -> Names:
    """List the formats, with the requirements of those that cannot be written here."""
    return [(each.suffix[1:], _describe_format(each)) for each in FORMATS]


def _describe_format(each: ExportFormat) -> str:
    parts = filter(None, (each.words, why_not_writable(each.suffix), each.note.rstrip(".")))
    return ". ".join(parts)


def presets() -> Names:
    """List the size presets."""
    return [
        (name, (f"{_describe_size(one.width_mm, one.height_mm)}, {one.dpi} dpi, "
f"{PAPERS[one.paper].lower()}"))
        for name, one in SIZES.items()
    ]  # fmt: skip


def _describe_size(width: float, height: float | None) -> str:
    return f"{width:.0f} mm wide" if height is None else f"{width:.0f} × {height:.0f} mm"


def colour_maps() -> Names:
    """List the colour maps, with the kind of numbers that each is for."""
    of_kind = {MapKind.SEQUENTIAL: "for weights", MapKind.DIVERGING: "for signed numbers"}
    return [(each.id, f"{each.title}, {of_kind[each.kind]}") for each in COLOUR_MAPS]


def training_presets() -> Names:
    """List the training presets."""
    return [(preset.name, f"{preset.title}. {preset.says}") for preset in PRESETS]


def text_of_names(names: Names) -> str:
    """Format the names and their descriptions in two columns, one name per line."""
    width = max(len(name) for name, _ in names)
    return "".join(f"{name.ljust(width)}  {words}\n" for name, words in names)


def list_option(lists: dict[str, Callable[[], Names]]) -> dict[str, Any]:
    """Return the settings of an option that prints names and exits."""

    class ListNames(argparse.Action):
        def __call__(
            self,
            parser: argparse.ArgumentParser,
            namespace: argparse.Namespace,
            values: Any,
            option_string: str | None = None,
        ) -> None:
            write_out(text_of_names(lists[values]()))
            parser.exit()

    words = " or ".join(filter(None, [", ".join([*lists][:-1]), [*lists][-1]]))
    return {
        **option_types.name_option([*lists], f"list all {words}, one per line with a description"),
        "action": ListNames,
        "metavar": "WHAT",
    }
