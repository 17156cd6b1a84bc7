"""The terms of a cell as lines of HTML, with numbers aligned in columns.

A term is a line: its name, its factors and its value, separated by tabs. If that is wider than
the pane, the factors are on a second line. Names and numbers are never broken.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.features.cell.presenter import TermLine
    from visualizer.widgets.theme import Theme

    Measure = Callable[[str, bool], float]
    """The width of a text in pixels; the second argument is whether it is bold."""

TIMES = "×"
AROUND = 2
"""Pixels on each side of a multiplication sign."""
GAP = 5
"""Pixels between a name, its factors and its value."""
ABOVE = 4
"""Pixels above a line."""
INDENT = 12
"""Pixels before factors that are on a line below their name."""


class TermLines(Struct, frozen=True):
    """Terms with the widths of their columns in pixels.

    Parameters
    ----------
    factors : tuple of int
        Three columns for each factor: the multiplication sign, the number, and its closing bracket;
        0 if no term has one.
    """

    terms: Sequence[TermLine]
    names: int
    factors: tuple[int, ...]
    values: int

    @property
    def beside(self) -> int:
        """The width needed to show the factors next to the names."""
        return self.names + GAP + sum(self.factors) + GAP + self.values

    @property
    def below(self) -> int:
        """The width needed to show the factors below the names."""
        return max(self.names, INDENT + sum(self.factors) + GAP + self.values)

    def tabs(self, room: float) -> tuple[int, ...]:
        """Return the end positions of the factor columns for a given width in pixels."""
        end = self.names + GAP if self.beside <= room else INDENT
        return tuple(
            (end := end + width) - AROUND * _is_sign(column)
            for column, width in enumerate(self.factors)
            if width
        )

    def html(self, theme: Theme, room: float) -> str:
        """Format the lines for a given width in pixels; the last tab leads to the right edge."""
        is_beside = self.beside <= room
        return "".join(
            _paragraph_html(
                _marked_html(term.name, term, theme), self._format_factors(number, term, theme)
            )
            if is_beside
            else _paragraph_html(_marked_html(term.name, term, theme))
            + _paragraph_html(self._format_factors(number, term, theme), above=0)
            for number, term in enumerate(self.terms)
        )

    def _format_factors(self, number: int, term: TermLine, theme: Theme) -> str:
        """Format a term's factors, each number that was read as a link, and its value."""
        texts = []
        for at in range(len(self.factors) // 3):
            sign, figure, bracket = map(escape, _column_texts(term, at))
            if figure and term.pieces[at].source:
                link = f"<a href='{number}.{at}' style='color:{theme.ink}'>"
                figure, bracket = f"{link}{figure}</a>", f"{link}{bracket}</a>"
            texts += [sign, figure, bracket]
        columns = [text for text, width in zip(texts, self.factors, strict=True) if width]
        return "".join(f"\t{each}" for each in (*columns, _marked_html(term.value, term, theme)))


def term_lines(terms: Sequence[TermLine], measure: Measure) -> TermLines:
    """Measure the columns of terms."""

    def widest(texts: list[tuple[str, bool]]) -> int:
        return max(
            (_round_up(measure(text, is_bold)) for text, is_bold in texts if text), default=0
        )

    count = max((len(term.pieces) for term in terms), default=0)
    return TermLines(
        terms,
        names=widest([(term.name, term.chosen) for term in terms]),
        factors=tuple(
            widest([(_column_texts(term, at)[part], False) for term in terms])
            + 2 * AROUND * _is_sign(3 * at + part)
            for at in range(count)
            for part in range(3)
        ),
        values=widest([(term.value, term.chosen) for term in terms]),
    )


def _is_sign(column: int) -> bool:
    """Whether a column holds multiplication signs; the first factor has none."""
    return column > 0 and column % 3 == 0


def _round_up(width: float) -> int:
    return int(width) + 1


def _column_texts(term: TermLine, at: int) -> tuple[str, str, str]:
    """The sign before a factor, the factor, and the bracket after a negative one.

    The bracket has a column of its own; in the number's column it would misalign the digits.
    """
    if at >= len(term.pieces):
        return "", "", ""
    text = term.pieces[at].text
    sign = TIMES if at else ""
    return (sign, text[:-1], ")") if text.startswith("(") else (sign, text, "")


def _paragraph_html(*texts: str, above: int = ABOVE) -> str:
    return (
        f"<p style='white-space: pre; margin-top: {above}px; margin-bottom: 0'>{''.join(texts)}</p>"
    )


def _marked_html(text: str, term: TermLine, theme: Theme) -> str:
    if not term.chosen:
        return escape(text)
    return f"<b style='color:{theme.accent}'>{escape(text)}</b>"
