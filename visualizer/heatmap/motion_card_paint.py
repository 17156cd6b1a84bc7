"""Cards that show the calculation of a playback step: products and their sum, or a softmax row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen

from visualizer.format import format_number
from visualizer.heatmap.flow_placement import SMALL_LABEL_PX
from visualizer.heatmap.panel_margins_paint import ALIGN_CENTRE, ALIGN_LEFT, ALIGN_RIGHT
from visualizer.heatmap.step_motion_phases import MotionPhase
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.heatmap.highlights import StepTerms
    from visualizer.widgets.theme import Theme

    CellColours = tuple[str, str]
    """Background and text colour of a number."""
    PhaseProgress = Callable[[MotionPhase], float]

DECIMALS = 3
MAX_PRODUCTS, MAX_BARS = 6, 8
"""Maximum numbers of terms that are shown one by one; the smallest terms are added up."""
LINE_PX, PADDING_PX, RADIUS_PX, NUMBER_PX = 22, 10, 6, 54
NAME_PX, BAR_PX = 76, 92
TARGET_GAP_PX = 10
SHADOW_PX = 6
APPEARANCE_SHARE = 0.3
"""Fraction of a phase during which a card appears."""


class MotionCard(Protocol):
    """A card over the board."""

    @property
    def area(self) -> QRectF:
        """The area that the card covers, without its shadow."""

    def paint(self, painter: QPainter, progress: PhaseProgress, theme: Theme) -> None:
        """Paint the card; paint nothing before its first and after its last phase."""


class CardTerms(Struct, frozen=True):
    """The terms that a card shows: all terms, or the largest ones and the sum of the others.

    Parameters
    ----------
    order : tuple of int
        Indices of the terms shown one by one.
    others : int
        Number of the terms that are added up.
    rest : float
        Sum of these other terms.
    """

    order: tuple[int, ...]
    others: int
    rest: float

    @classmethod
    def of(cls, terms: StepTerms, most: int) -> CardTerms:
        """Choose the terms; the term of the explained cell is always shown."""
        values = np.array(terms.terms)
        order = [*range(len(values))]
        if len(values) > most:
            largest = np.argsort(-np.abs(values), kind="stable")[: most - 1].tolist()
            order = sorted({*largest, terms.chosen})
        left = np.delete(values, order)
        return cls(tuple(order), int(np.count_nonzero(left)), float(left.sum()))


def place_card(
    width: float, height: float, target: QRectF, seen: QRectF, occupied: Sequence[QRectF] = ()
) -> QRectF:
    """Place a card next to its target, where it covers as little as possible.

    A position below is preferred for a wide target, and a position to the right for others.

    Parameters
    ----------
    occupied : sequence of QRectF
        Areas with numbers. The card covers its target only if it fits nowhere else.
    """
    gap = TARGET_GAP_PX * text_scale()
    below = QRectF(target.center().x() - width / 2, target.bottom() + gap, width, height)
    above = QRectF(below.left(), target.top() - gap - height, width, height)
    middle = target.center().y() - height / 2
    ends = (y for one in occupied for y in (one.top() - gap - height, one.bottom() + gap))
    tops = sorted({middle, *ends}, key=lambda top: abs(top - middle))
    right = [QRectF(target.right() + gap, top, width, height) for top in tops]
    left = [QRectF(target.left() - gap - width, top, width, height) for top in tops]
    is_wide = target.width() > width / 2
    places = (below, *right, *left, above) if is_wide else (*right, *left, below, above)
    moved = [_move_into_view(place, seen) for place in places]

    def covered_px(place: QRectF) -> tuple[int, int]:
        return _overlap_area_px(place, target), sum(
            _overlap_area_px(place, one) for one in occupied
        )

    return min(moved, key=covered_px)


def _overlap_area_px(one: QRectF, other: QRectF) -> int:
    """Return the overlap of two areas in square pixels."""
    shared = one.intersected(other)
    return round(shared.width() * shared.height())


def _move_into_view(area: QRectF, seen: QRectF) -> QRectF:
    """Move an area into the visible part."""
    margin = SHADOW_PX
    left = min(area.left(), seen.right() - margin - area.width())
    top = min(area.top(), seen.bottom() - margin - area.height())
    return QRectF(
        max(left, seen.left() + margin), max(top, seen.top() + margin), area.width(), area.height()
    )


class ScoreCard(Struct, frozen=True, eq=False):
    """The products of a query and a key, and their sum, to which the products are added one by one.

    Parameters
    ----------
    target : QRectF
        The cell to which the sum moves.
    colours : tuple of tuple of CellColours
        Colours of the numbers of each factor, as on the board; empty without colours.
    """

    terms: StepTerms
    shown: CardTerms
    area: QRectF
    target: QRectF
    colours: tuple[tuple[CellColours, ...], ...] = ()

    @classmethod
    def of(
        cls,
        terms: StepTerms,
        target: QRectF,
        seen: QRectF,
        occupied: Sequence[QRectF] = (),
        colours: tuple[tuple[CellColours, ...], ...] = (),
    ) -> ScoreCard:
        shown, scale = CardTerms.of(terms, MAX_PRODUCTS), text_scale()
        columns = len(shown.order) + (shown.others > 0)
        width = (2 * PADDING_PX + 22 + max(2, columns) * NUMBER_PX) * scale
        height = (2 * PADDING_PX + (2 + len(terms.factors)) * LINE_PX) * scale
        area = place_card(width, height, target, seen, occupied)
        return cls(terms, shown, area, target, colours)

    def sum_at(self, progress: float) -> float:
        """Return the sum of the products shown at a progress from 0 to 1; at 1, the score."""
        if progress >= 1:
            return self.terms.value
        count = self._term_count_at(progress)
        return sum(self.terms.terms[at] for at in self.shown.order[:count])

    def _term_count_at(self, progress: float) -> int:
        return math.floor(progress * (len(self.shown.order) + 1))

    def paint(self, painter: QPainter, progress: PhaseProgress, theme: Theme) -> None:
        met, landed = progress(MotionPhase.MEET), progress(MotionPhase.LAND)
        if not met or landed == 1:
            return
        painter.setOpacity(min(1.0, met / APPEARANCE_SHARE) * (1 - landed))
        _paint_card_background(painter, self.area, theme)
        names = ["q", "k"] if len(self.terms.factors) == 2 else [""] * len(self.terms.factors)
        top, line = self.area.top() + PADDING_PX * text_scale(), LINE_PX * text_scale()
        for row, name in enumerate([*names, "×"]):
            self._paint_line(painter, row, name, self._term_count_at(met), theme)
        at = QRectF(self.area.left(), top + (len(names) + 1) * line, self.area.width(), line)
        self._paint_sum(painter, at, met, theme)
        painter.setOpacity(1 - landed)
        if landed:  # the sum moves to its cell
            self._paint_landing_value(painter, at, landed, theme)
        painter.setOpacity(1)

    def _paint_line(self, painter: QPainter, row: int, name: str, count: int, theme: Theme) -> None:
        """Paint one line: one factor of each term, or the products computed so far."""
        scale, factors = text_scale(), self.terms.factors
        is_product = row == len(factors)
        top = self.area.top() + (PADDING_PX + row * LINE_PX) * scale
        left, line = self.area.left() + PADDING_PX * scale, LINE_PX * scale
        _draw_text(painter, QRectF(left, top, 18 * scale, line), name, theme.quiet, ALIGN_LEFT)
        left += 22 * scale
        numbers = self.terms.terms if is_product else factors[row]
        for place, at in enumerate(self.shown.order):
            if is_product and place >= count:
                return
            cell = QRectF(left + place * NUMBER_PX * scale, top, NUMBER_PX * scale, line)
            ink = theme.ink
            if not is_product and self.colours and at < len(self.colours[row]):
                background, ink = self.colours[row][at]
                painter.fillRect(cell.adjusted(0.5, 1, -0.5, -1), QColor(background))
            _draw_text(painter, cell, _format_value(numbers[at]), ink, ALIGN_CENTRE)
        if self.shown.others and (not is_product or count > len(self.shown.order)):
            cell = QRectF(
                left + len(self.shown.order) * NUMBER_PX * scale, top, NUMBER_PX * scale, line
            )
            rest = _format_value(self.shown.rest) if is_product else "…"
            _draw_text(painter, cell, rest, theme.quiet, ALIGN_CENTRE)

    def _paint_sum(self, painter: QPainter, line: QRectF, met: float, theme: Theme) -> None:
        """Paint the sum so far as a number and as a bar, which is full when all terms are added."""
        scale = text_scale()
        left = line.left() + PADDING_PX * scale
        _draw_text(painter, QRectF(left, line.top(), 18 * scale, line.height()), "Σ", theme.quiet,
              ALIGN_LEFT)  # fmt: skip
        width = line.width() - (2 * PADDING_PX + 22 + NUMBER_PX) * scale
        track = QRectF(left + 22 * scale, line.center().y() - 4 * scale, width, 8 * scale)
        whole = sum(map(abs, self.terms.terms)) or 1.0
        total = self.sum_at(met)
        _paint_bar(painter, track, min(1.0, abs(total) / whole), theme.accent, theme)
        number = QRectF(track.right(), line.top(), NUMBER_PX * scale, line.height())
        _draw_text(painter, number, _format_value(total), theme.accent, ALIGN_RIGHT,
              QFont.Weight.DemiBold)  # fmt: skip

    def _paint_landing_value(
        self, painter: QPainter, line: QRectF, landed: float, theme: Theme
    ) -> None:
        width, height = NUMBER_PX * text_scale(), LINE_PX * text_scale()
        x = (
            line.right()
            - width / 2
            + (self.target.center().x() - line.right() + width / 2) * landed
        )
        y = line.center().y() + (self.target.center().y() - line.center().y()) * landed
        chip = QRectF(x - width / 2, y - height / 2, width, height)
        painter.setPen(QPen(QColor(theme.accent), 1.5))
        painter.setBrush(QColor(theme.paper))
        painter.drawRoundedRect(chip, 3, 3)
        value = _format_value(self.terms.value)
        _draw_text(painter, chip, value, theme.ink, ALIGN_CENTRE, QFont.Weight.DemiBold)


class SoftmaxCard(Struct, frozen=True, eq=False):
    """The exponentials of a row as bars, which are then divided by their sum."""

    terms: StepTerms
    shown: CardTerms
    area: QRectF

    @classmethod
    def of(
        cls, terms: StepTerms, target: QRectF, seen: QRectF, occupied: Sequence[QRectF] = ()
    ) -> SoftmaxCard:
        shown, scale = CardTerms.of(terms, MAX_BARS), text_scale()
        allowed = tuple(at for at in shown.order if terms.terms[at] != 0)
        shown = CardTerms(allowed or shown.order, shown.others, shown.rest)
        lines = len(shown.order) + (shown.others > 0) + 2
        width = (2 * PADDING_PX + NAME_PX + BAR_PX + NUMBER_PX) * scale
        height = (2 * PADDING_PX + 4 + lines * LINE_PX) * scale
        return cls(terms, shown, place_card(width, height, target, seen, occupied))

    @property
    def exponential_sum(self) -> float:
        """The sum of all exponentials, by which each exponential is divided."""
        return sum(self.terms.terms)

    def bar_length(self, term: float, growth: float, normalization: float) -> float:
        """Return the length of a bar, from 0 to 1: a share of the largest number, then of the sum.

        Parameters
        ----------
        growth, normalization : float
            The progress of the two phases, from 0 to 1.
        """
        largest = max(self.terms.terms) or 1.0
        exponential, weight = term / largest, term / (self.exponential_sum or 1.0)
        return growth * (exponential + (weight - exponential) * normalization)

    def bar_growth(self, row: int, grown: float) -> float:
        """Return the growth of a bar, from 0 to 1; the bars grow one after the other."""
        rows = len(self.shown.order) + (self.shown.others > 0)
        return min(1.0, max(0.0, grown * rows - row))

    def divisor(self, normalization: float) -> float:
        """Return the divisor of the numbers: 1, or the sum as soon as the bars become shorter.

        The numbers change only once, because intermediate ones would be seen while paused.
        """
        return (self.exponential_sum or 1.0) if normalization else 1.0

    def sum_at(self, grown: float, normalization: float) -> float:
        """Return the sum of the numbers that the card shows."""
        if grown == 1:
            return self.exponential_sum / self.divisor(normalization)
        shown = enumerate(self.shown.order)
        return sum(self.terms.terms[at] for row, at in shown if self.bar_growth(row, grown) == 1)

    def paint(self, painter: QPainter, progress: PhaseProgress, theme: Theme) -> None:
        grown, divided = progress(MotionPhase.EXPONENTIATE), progress(MotionPhase.NORMALIZE)
        landed = progress(MotionPhase.LAND)
        if not grown or landed == 1:
            return
        painter.setOpacity(min(1.0, grown / APPEARANCE_SHARE) * (1 - landed))
        _paint_card_background(painter, self.area, theme)
        scale, terms = text_scale(), self.terms.terms
        left, top = self.area.left() + PADDING_PX * scale, self.area.top() + PADDING_PX * scale
        bars = [
            (self._term_name(at), terms[at], at == self.terms.chosen) for at in self.shown.order
        ]
        if self.shown.others:
            bars.append((f"{self.shown.others:,} more", self.shown.rest, False))
        across, line_height = self.area.width() - 2 * PADDING_PX * scale, LINE_PX * scale
        divisor = self.divisor(divided)
        form = self.terms.form
        if divided:
            form = f"{form} ÷ {_format_value(divisor)}"
        _draw_text(painter, QRectF(left, top, across, line_height), form, theme.quiet, ALIGN_RIGHT)
        top += line_height
        for row, (name, term, is_chosen) in enumerate(bars):
            line = QRectF(left, top + row * line_height, 0, line_height)
            growth = self.bar_growth(row, grown)
            self._paint_bar_line(painter, line, name, term, is_chosen, (growth, divided), theme)
        foot = QRectF(left, top + len(bars) * line_height + 4 * scale, across, line_height)
        painter.setPen(QPen(QColor(theme.hairline), 1))
        painter.drawLine(foot.topLeft(), foot.topRight())
        total = _format_value(self.sum_at(grown, divided))
        _draw_text(painter, foot, f"sum {total}", theme.ink, ALIGN_RIGHT, QFont.Weight.DemiBold)
        painter.setOpacity(1)

    def _term_name(self, at: int) -> str:
        return self.terms.names[at] if self.terms.names else str(at + 1)

    def _paint_bar_line(
        self,
        painter: QPainter,
        line: QRectF,
        name: str,
        term: float,
        is_chosen: bool,
        progress: tuple[float, float],
        theme: Theme,
    ) -> None:
        scale, (growth, divided) = text_scale(), progress
        words = font_metrics(SMALL_LABEL_PX).elidedText(
            name, Qt.TextElideMode.ElideRight, (NAME_PX - 8) * scale
        )
        label = QRectF(line.left(), line.top(), (NAME_PX - 8) * scale, line.height())
        _draw_text(painter, label, words, theme.accent if is_chosen else theme.ink, ALIGN_RIGHT)
        track = QRectF(line.left() + NAME_PX * scale, line.center().y() - 4 * scale,
                       BAR_PX * scale, 8 * scale)  # fmt: skip
        ink = theme.accent if is_chosen else theme.quiet
        _paint_bar(painter, track, self.bar_length(term, growth, divided), ink, theme)
        if growth == 1:
            number = _format_value(term / self.divisor(divided))
            place = QRectF(track.right(), line.top(), NUMBER_PX * scale, line.height())
            _draw_text(painter, place, number, theme.ink, ALIGN_RIGHT)


def _paint_card_background(painter: QPainter, area: QRectF, theme: Theme) -> None:
    """Paint a card with a soft shadow."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(Qt.PenStyle.NoPen)
    for away in range(SHADOW_PX, 0, -2):
        painter.setBrush(QColor(0, 0, 0, 10))
        painter.drawRoundedRect(area.adjusted(-away, 2 - away, away, 2 + away), RADIUS_PX + away,
                                RADIUS_PX + away)  # fmt: skip
    painter.setPen(QPen(QColor(theme.border), 1))
    painter.setBrush(QColor(theme.paper))
    painter.drawRoundedRect(area, RADIUS_PX, RADIUS_PX)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_bar(painter: QPainter, track: QRectF, share: float, ink: str, theme: Theme) -> None:
    painter.fillRect(track, QColor(theme.hairline))
    painter.fillRect(
        QRectF(track.left(), track.top(), track.width() * share, track.height()), QColor(ink)
    )


def _format_value(value: float) -> str:
    """Format a number with fixed decimals; only a large number has an exponent."""
    return format_number(0.0 if abs(value) < 0.5 * 10**-DECIMALS else value, DECIMALS)


def _draw_text(
    painter: QPainter,
    area: QRectF,
    text: str,
    ink: str,
    align: Qt.AlignmentFlag,
    weight: QFont.Weight = QFont.Weight.Normal,
) -> None:
    painter.setFont(scaled_font(SMALL_LABEL_PX, weight))
    painter.setPen(QColor(ink))
    painter.drawText(area, align, text)
