"""The colour maps that can be chosen, a row each; their colours are in resources/colormaps.json."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class MapKind(StrEnum):
    """Which numbers a map is for: shares of a row, or numbers above and below 0."""

    SEQUENTIAL = "sequential"
    DIVERGING = "diverging"


class ColourMap(Struct, frozen=True):
    """One colour map.

    Parameters
    ----------
    id : str
        What files of documents and the file of its colours name it by.
    title : str
        What it is called in a list of maps of its kind.
    menu_text : str
        What its command is called, with the mnemonic marked by ``&``.
    shortcut : str
        The keys that choose it.
    """

    id: str
    title: str
    kind: MapKind
    menu_text: str
    shortcut: str


AUTOMATIC = "automatic"
"""The id of the map that is light at 0 on light paper and dark at 0 on dark paper."""

COLOUR_MAPS: tuple[ColourMap, ...] = (
    ColourMap("viridis", "viridis", MapKind.SEQUENTIAL, "&viridis", "Ctrl+Alt+1"),
    ColourMap("cividis", "cividis", MapKind.SEQUENTIAL, "&cividis", "Ctrl+Alt+2"),
    ColourMap("magma", "magma", MapKind.SEQUENTIAL, "&magma", "Ctrl+Alt+3"),
    ColourMap("CET-CBL1", "Blue (CET-CBL1)", MapKind.SEQUENTIAL, "&blue (CET-CBL1)", "Ctrl+Alt+4"),
    ColourMap("CET-L1", "Grey (CET-L1)", MapKind.SEQUENTIAL, "gr&ey (CET-L1)", "Ctrl+Alt+5"),
    ColourMap(
        AUTOMATIC, "As the theme", MapKind.DIVERGING, "&Signed numbers as the theme", "Ctrl+Alt+6"
    ),
    ColourMap(
        "CET-CBD1", "Light at 0", MapKind.DIVERGING, "Signed numbers &light at 0", "Ctrl+Alt+7"
    ),
    ColourMap(
        "blue-gold-dark", "Dark at 0", MapKind.DIVERGING, "Signed numbers &dark at 0", "Ctrl+Alt+0"
    ),
    ColourMap(
        "CET-D6",
        "Darker at 0 (CET-D6)",
        MapKind.DIVERGING,
        "Signed numbers dar&ker at 0 (CET-D6)",
        "Ctrl+Alt+B",
    ),
)
"""In the order of the menu and of the lists."""


def maps_of(kind: MapKind) -> tuple[ColourMap, ...]:
    """Give the maps of one kind; the first is the usual one."""
    return tuple(each for each in COLOUR_MAPS if each.kind is kind)


USUAL = maps_of(MapKind.SEQUENTIAL)[0].id
"""The id of the map that weights have at first."""
