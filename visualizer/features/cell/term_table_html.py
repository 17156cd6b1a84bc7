"""The terms of a cell as an HTML table, with numbers that stand below each other.

A term is a line: its name, its factors and its value. Where that is wider than the pane, the
factors stand below the name. Nothing is broken within a name or a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.features.cell.presenter import TermLine
    from visualizer.widgets.theme import Theme

    Measure = Callable[[str, bool], float]
    """The width in pixels of a text, which may be bold."""

TIMES = "×"
AROUND = 2
"""Pixels on each side of a multiplication sign."""
GAP = 5
"""Pixels between a name, its factors and its value."""
PADDING = 2
"""Pixels above and below a line."""
INDENT = 12
"""Pixels before factors that stand below their name."""


@dataclass(frozen=True, slots=True)
class TermTable:
    """Terms with the widths of their columns in pixels.

    Parameters
    ----------
    factors : tuple of int
        Three columns for each factor: the multiplication sign, the number, and its closing bracket.
    """

    terms: Sequence[TermLine]
    names: int
    factors: tuple[int, ...]
    values: int

    @property
    def beside(self) -> int:
        """The width that is needed with the factors beside the names."""
        return self.names + GAP + sum(self.factors) + GAP + self.values

    @property
    def below(self) -> int:
        """The width that is needed with the factors below the names."""
        return max(self.names, INDENT + sum(self.factors)) + GAP + self.values

    def html(self, theme: Theme, room: float, rest: str) -> str:
        """Write the table for a width, with a note on the terms that were left out."""
        write = self._beside if self.beside <= room else self._below
        lines = "".join(write(number, term, theme) for number, term in enumerate(self.terms))
        if rest:
            note = f"<font color='{theme.quiet}'>{escape(rest)}</font>"
            whole = _cell(note, f"colspan='{len(self.factors) + 2}'")
            lines += f"<tr>{whole}</tr>"
        return f"<table width='100%' cellspacing='0' cellpadding='0'>{lines}</table>"

    def _beside(self, number: int, term: TermLine, theme: Theme) -> str:
        name = _marked(term.name, term, theme)
        return _row(
            _cell(name, f"width='{self.names + GAP}'"),
            self._factors(number, term, theme),
            _value(term, theme),
        )

    def _below(self, number: int, term: TermLine, theme: Theme) -> str:
        name = _cell(_marked(term.name, term, theme), f"colspan='{len(self.factors) + 1}'")
        factors = self._factors(number, term, theme)
        indent = _cell("", f"width='{INDENT}'")
        return _row(name, _value(term, theme)) + _row(indent, factors, _cell(""))

    def _factors(self, number: int, term: TermLine, theme: Theme) -> str:
        """Write a term's factors, each number that was read as a link."""
        cells = []
        for at in range(len(self.factors) // 3):
            texts = _cell_texts(term, at)
            for part, text in enumerate(texts):
                written = f"<font color='{theme.quiet}'>{escape(text)}</font>"
                if part and text and term.pieces[at].source:
                    written = (
                        f"<a href='{number}.{at}' style='color:{theme.ink}'>{escape(text)}</a>"
                    )
                width, align = self.factors[3 * at + part], "right" if part else "center"
                cells.append(_cell(written, f"width='{width}' align='{align}'"))
        return "".join(cells)


def term_table(terms: Sequence[TermLine], measure: Measure) -> TermTable:
    """Measure the columns of terms."""

    def widest(texts: list[tuple[str, bool]]) -> int:
        return max((_ceil(measure(text, is_bold)) for text, is_bold in texts if text), default=0)

    count = max((len(term.pieces) for term in terms), default=0)
    return TermTable(
        terms,
        names=widest([(term.name, term.chosen) for term in terms]),
        factors=tuple(
            widest([(_cell_texts(term, at)[part], False) for term in terms])
            + 2 * AROUND * (at > 0 and part == 0)
            for at in range(count)
            for part in range(3)
        ),
        values=widest([(term.value, term.chosen) for term in terms]),
    )


def _ceil(width: float) -> int:
    return int(width) + 1


def _cell_texts(term: TermLine, at: int) -> tuple[str, str, str]:
    """The sign before a factor, the factor, and the bracket after a negative one.

    In the number's own column, the bracket would push its digits out of line.
    """
    if at >= len(term.pieces):
        return "", "", ""
    text = term.pieces[at].text
    sign = TIMES if at else ""
    return (sign, text[:-1], ")") if text.startswith("(") else (sign, text, "")


def _row(*cells: str) -> str:
    return f"<tr style='white-space: pre'>{''.join(cells)}</tr>"


def _cell(text: str, attributes: str = "") -> str:
    style = f"padding-top: {PADDING}px; padding-bottom: {PADDING}px"
    return f"<td style='{style}' {attributes}>{text}</td>"


def _value(term: TermLine, theme: Theme) -> str:
    return _cell(_marked(term.value, term, theme), "align='right'")


def _marked(text: str, term: TermLine, theme: Theme) -> str:
    if not term.chosen:
        return escape(text)
    return f"<b style='color:{theme.accent}'>{escape(text)}</b>"
