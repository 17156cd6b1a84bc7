"""Cards that show the calculation of a playback step: products and their sum, or a softmax row."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPen

from visualizer.format import format_number
from visualizer.heatmap.flow_placement import SMALL_LABEL_PX
from visualizer.heatmap.panel_margins_paint import ALIGN_CENTRE, ALIGN_LEFT, ALIGN_RIGHT
from visualizer.heatmap.step_motion_phases import MotionKind, MotionPhase
from visualizer.widgets.fonts import font_metrics, scaled_font, text_scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from visualizer.heatmap.highlights import StepTerms
    from visualizer.widgets.theme import Theme

    CellColours = tuple[str, str]
    """Background and text colour of a number."""
    PhaseProgress = Callable[[MotionPhase], float]

DECIMALS = 4
MAX_PRODUCTS, MAX_BARS = 6, 8
"""Maximum numbers of terms that are shown one by one; the smallest terms are added up."""
LINE_PX, PADDING_PX, RADIUS_PX, NUMBER_PX = 22, 10, 6, 54
NAME_PX, BAR_PX = 76, 92
LABEL_GAP_PX = 10
FACTOR_LABELS = {MotionKind.SCORE: ("q", "k"), MotionKind.CONTEXT: ("weight", "value")}
SUM_PHASES = {MotionKind.SCORE: MotionPhase.MEET, MotionKind.CONTEXT: MotionPhase.STACK}
"""The phase in which the products are added."""
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


class ProductsCard(Struct, frozen=True, eq=False):
    """The products of a score or of a context vector's number, which are added one by one.

    Parameters
    ----------
    target : QRectF
        The cell to which the sum moves.
    colours : tuple of tuple of CellColours
        Colours of the numbers of each factor, as on the board; empty without colours.
    """

    kind: MotionKind
    terms: StepTerms
    shown: CardTerms
    area: QRectF
    target: QRectF
    colours: tuple[tuple[CellColours, ...], ...] = ()

    @classmethod
    def of(
        cls,
        kind: MotionKind,
        terms: StepTerms,
        target: QRectF,
        seen: QRectF,
        occupied: Sequence[QRectF] = (),
        colours: tuple[tuple[CellColours, ...], ...] = (),
    ) -> ProductsCard:
        shown, scale = CardTerms.of(terms, MAX_PRODUCTS), text_scale()
        if terms.names:  # the values of masked keys are not added
            allowed = tuple(at for at in shown.order if terms.factors[0][at] != 0)
            shown = CardTerms(allowed or shown.order, shown.others, shown.rest)
        card = cls(kind, terms, shown, QRectF(), target, colours)
        columns = len(shown.order) + (shown.others > 0)
        width = card._labels_px + (2 * PADDING_PX + max(2, columns) * NUMBER_PX) * scale
        height = (2 * PADDING_PX + len(card._labels) * LINE_PX) * scale
        return replace(card, area=place_card(width, height, target, seen, occupied))

    @property
    def _labels(self) -> tuple[str, ...]:
        """The labels of the lines: the keys if the terms belong to keys, factors, product, sum."""
        labels: tuple[str, ...] = FACTOR_LABELS[self.kind]
        if len(labels) != len(self.terms.factors):
            labels = ("",) * len(self.terms.factors)
        return (*([""] if self.terms.names else []), *labels, "×", "Σ")

    @property
    def _labels_px(self) -> float:
        metrics = font_metrics(SMALL_LABEL_PX)
        return max(map(metrics.horizontalAdvance, self._labels)) + LABEL_GAP_PX * text_scale()

    def sum_at(self, progress: float) -> float:
        """Return the sum of the products shown at a progress from 0 to 1; at 1, the whole sum."""
        if progress >= 1:
            return self.terms.value
        count = self._term_count_at(progress)
        return sum(self.terms.terms[at] for at in self.shown.order[:count])

    def _term_count_at(self, progress: float) -> int:
        return math.floor(progress * (len(self.shown.order) + 1))

    def paint(self, painter: QPainter, progress: PhaseProgress, theme: Theme) -> None:
        added, landed = progress(SUM_PHASES[self.kind]), progress(MotionPhase.LAND)
        if not added or landed == 1:
            return
        painter.setOpacity(min(1.0, added / APPEARANCE_SHARE) * (1 - landed))
        _paint_card_background(painter, self.area, theme)
        *lines, total = self._line_areas()
        if self.terms.names:
            self._paint_names(painter, lines.pop(0), theme)
        for row, line in enumerate(lines):
            self._paint_line(painter, row, line, self._term_count_at(added), theme)
        self._paint_sum(painter, total, added, theme)
        painter.setOpacity(1 - landed)
        if landed:  # the sum moves to its cell
            self._paint_landing_value(painter, total, landed, theme)
        painter.setOpacity(1)

    def _line_areas(self) -> list[QRectF]:
        """Return the area of each line without its label."""
        scale = text_scale()
        padding, height = PADDING_PX * scale, LINE_PX * scale
        left, top = self.area.left() + padding + self._labels_px, self.area.top() + padding
        width = self.area.right() - padding - left
        return [QRectF(left, top + row * height, width, height) for row in range(len(self._labels))]

    def _cell_area(self, line: QRectF, place: int) -> QRectF:
        width = NUMBER_PX * text_scale()
        return QRectF(line.left() + place * width, line.top(), width, line.height())

    def _paint_label(self, painter: QPainter, line: QRectF, label: str, theme: Theme) -> None:
        area = QRectF(line.left() - self._labels_px, line.top(), self._labels_px, line.height())
        _draw_text(painter, area, label, theme.quiet, ALIGN_LEFT)

    def _paint_names(self, painter: QPainter, line: QRectF, theme: Theme) -> None:
        room = (NUMBER_PX - 4) * text_scale()
        metrics = font_metrics(SMALL_LABEL_PX)
        for place, at in enumerate(self.shown.order):
            name = metrics.elidedText(self.terms.names[at], Qt.TextElideMode.ElideRight, room)
            ink = theme.accent if at == self.terms.chosen else theme.quiet
            _draw_text(painter, self._cell_area(line, place), name, ink, ALIGN_CENTRE)

    def _paint_line(
        self, painter: QPainter, row: int, line: QRectF, count: int, theme: Theme
    ) -> None:
        """Paint one line: one factor of each term, or the products computed so far."""
        factors = self.terms.factors
        is_product = row == len(factors)
        self._paint_label(painter, line, self._labels[-2 if is_product else row - len(factors) - 2],
                          theme)  # fmt: skip
        numbers = self.terms.terms if is_product else factors[row]
        for place, at in enumerate(self.shown.order):
            if is_product and place >= count:
                return
            cell, ink = self._cell_area(line, place), theme.ink
            if not is_product and self.colours and at < len(self.colours[row]):
                background, ink = self.colours[row][at]
                painter.fillRect(cell.adjusted(0.5, 1, -0.5, -1), QColor(background))
            _draw_text(painter, cell, _format_value(numbers[at]), ink, ALIGN_CENTRE)
        if self.shown.others and (not is_product or count > len(self.shown.order)):
            rest = _format_value(self.shown.rest) if is_product else "…"
            cell = self._cell_area(line, len(self.shown.order))
            _draw_text(painter, cell, rest, theme.quiet, ALIGN_CENTRE)

    def _paint_sum(self, painter: QPainter, line: QRectF, added: float, theme: Theme) -> None:
        """Paint the sum so far as a number and as a bar, which is full when all terms are added."""
        scale = text_scale()
        self._paint_label(painter, line, self._labels[-1], theme)
        width = line.width() - NUMBER_PX * scale
        track = QRectF(line.left(), line.center().y() - 4 * scale, width, 8 * scale)
        whole = sum(map(abs, self.terms.terms)) or 1.0
        total = self.sum_at(added)
        _paint_bar(painter, track, min(1.0, abs(total) / whole), theme.accent, theme)
        number = QRectF(track.right(), line.top(), NUMBER_PX * scale, line.height())
        _draw_text(painter, number, _format_value(total), theme.accent, ALIGN_RIGHT,
              QFont.Weight.DemiBold)  # fmt: skip

    def _paint_landing_value(
        self, painter: QPainter, line: QRectF, landed: float, theme: Theme
    ) -> None:
        width, height = NUMBER_PX * text_scale(), LINE_PX * text_scale()
        start = QPointF(line.right() - width / 2, line.center().y())
        chip = QRectF(0, 0, width, height)
        chip.moveCenter(start + (self.target.center() - start) * landed)
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
