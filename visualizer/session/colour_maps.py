"""Table of the available colour maps; their colours are in resources/colormaps.json."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class MapKind(StrEnum):
    """The values that a map is for: shares of a row, or signed values."""

    SEQUENTIAL = "sequential"
    DIVERGING = "diverging"


class ColourMap(Struct, frozen=True):
    """One colour map.

    Parameters
    ----------
    id : str
        Name in document files and in the file of colours.
    title : str
        Label in a list of maps of the same kind.
    menu_text : str
        Label of its command, with the mnemonic marked by ``&``.
    shortcut : str
        Keyboard shortcut of its command.
    """

    id: str
    title: str
    kind: MapKind
    menu_text: str
    shortcut: str


AUTOMATIC = "automatic"
"""Id of the map that is light at 0 on a light background and dark at 0 on a dark one."""

COLOUR_MAPS: tuple[ColourMap, ...] = (
    ColourMap("viridis", "viridis", MapKind.SEQUENTIAL, "&viridis", "Ctrl+Alt+1"),
    ColourMap("cividis", "cividis", MapKind.SEQUENTIAL, "&cividis", "Ctrl+Alt+2"),
    ColourMap("magma", "magma", MapKind.SEQUENTIAL, "&magma", "Ctrl+Alt+3"),
    ColourMap("CET-CBL1", "Blue (CET-CBL1)", MapKind.SEQUENTIAL, "&blue (CET-CBL1)", "Ctrl+Alt+4"),
    ColourMap("CET-L1", "Grey (CET-L1)", MapKind.SEQUENTIAL, "gr&ey (CET-L1)", "Ctrl+Alt+5"),
    ColourMap(
        AUTOMATIC,
        "Same as theme",
        MapKind.DIVERGING,
        "&Signed numbers: same as theme",
        "Ctrl+Alt+6",
    ),
    ColourMap(
        "CET-CBD1", "Light at 0", MapKind.DIVERGING, "Signed numbers: &light at 0", "Ctrl+Alt+7"
    ),
    ColourMap(
        "blue-gold-dark", "Dark at 0", MapKind.DIVERGING, "Signed numbers: &dark at 0", "Ctrl+Alt+0"
    ),
    ColourMap(
        "CET-D6",
        "Darker at 0 (CET-D6)",
        MapKind.DIVERGING,
        "Signed numbers: dar&ker at 0 (CET-D6)",
        "Ctrl+Alt+B",
    ),
)
"""All maps, in the order of the menu and the lists."""


def maps_of(kind: MapKind) -> tuple[ColourMap, ...]:
    """Return the maps of one kind; the first is the default."""
    return tuple(each for each in COLOUR_MAPS if each.kind is kind)


USUAL = maps_of(MapKind.SEQUENTIAL)[0].id
"""Id of the default map for weights."""
