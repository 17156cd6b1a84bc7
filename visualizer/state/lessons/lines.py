"""Where in a TOML file a value stands, so that what is wrong with it is said with its line."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_STRINGS = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' + r"'''.*?'''" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'|#[^\n]*",
    re.DOTALL,
)


def line_of(text: str, path: Path) -> int:
    """Find the line of a value, or of the nearest table around it that can be found.

    Parameters
    ----------
    path : tuple of str and int
        Keys, and numbers into lists: ``("page", 2, "tick", 0, "stage")``.
    """
    bare = _STRINGS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    start, end = 0, len(bare)
    name = ""
    for part in path:
        if isinstance(part, int):
            start, end = _item(bare, name, part, start, end)
        else:
            name, start = part, _key(bare, part, start, end)
    return bare.count("\n", 0, start) + 1


def _item(bare: str, name: str, number: int, start: int, end: int) -> tuple[int, int]:
    """Find a table of a list of tables: under its own header, or in braces."""
    header = re.compile(rf"\[\[[\w. \t]*\b{re.escape(name)}[ \t]*\]\]")
    starts = [found.start() for found in header.finditer(bare, start, end)]
    if not starts:
        starts = [found.start() for found in re.compile("{").finditer(bare, start, end)]
    if not 0 <= number < len(starts):
        return start, end
    return starts[number], (*starts, end)[number + 1]


def _key(bare: str, name: str, start: int, end: int) -> int:
    known = re.escape(name)
    key = re.compile(rf"(?<![\w-]){known}[ \t]*[=.]|\[+[\w. \t]*\b{known}[ \t]*\]")
    found = key.search(bare, start, end)
    if found is None:
        return start
    return found.start()
