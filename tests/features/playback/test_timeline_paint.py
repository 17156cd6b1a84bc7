"""Names on the timeline: all of them or that of the current stage, and always whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PySide6.QtGui import QColor, QFontMetricsF, QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import QApplication

from visualizer.features.playback.presenter import PlaybackBarState, TimelineSegment
from visualizer.features.playback.timeline_paint import (
    CURRENT_STAGE_WEIGHT,
    TimelineSegments,
    paint_track,
    track_height,
)
from visualizer.widgets.fonts import apply_text_size, scaled_font, text_scale
from visualizer.widgets.theme import DARK, LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Iterator

TITLES = [
    "Input",
    "Queries",
    "Keys",
    "Values",
    "Scores",
    "Scaled",
    "Masked",
    "Weights",
    "Context",
    "Concat",
    "Output",
]
STEPS = 6


@pytest.fixture(params=[100, 150])
def percent(request: pytest.FixtureRequest, application: QApplication) -> Iterator[int]:
    before = QGuiApplication.font()
    apply_text_size(request.param)
    yield request.param
    QApplication.setFont(before)


def segments(width: int, stage: int) -> TimelineSegments:
    stops = tuple(TimelineSegment(title, STEPS * at) for at, title in enumerate(TITLES))
    return TimelineSegments(PlaybackBarState(STEPS * stage, STEPS * len(TITLES), stops), width)


def inked(shown: TimelineSegments, theme: Theme) -> np.ndarray:
    """Columns of pixels in which a name is painted."""
    height = round(track_height())
    image = QImage(round(shown.width), height, QImage.Format.Format_RGB32)
    image.fill(QColor(theme.paper))
    painter = QPainter(image)
    paint_track(painter, shown, theme)
    painter.end()
    top = round(shown.all[0][2].bottom() + 5 * text_scale())
    pixels = np.array(image.constBits()).reshape(height, round(shown.width), 4)[top:, :, :3]
    ground = [getattr(QColor(theme.paper), channel)() for channel in ("blue", "green", "red")]
    columns: np.ndarray = (np.abs(pixels.astype(int) - ground) > 20).any(axis=(0, 2))
    return columns


def named(shown: TimelineSegments, theme: Theme) -> list[str]:
    """The stages below whose middle something is painted."""
    columns = inked(shown, theme)
    return [
        stop.title
        for stop, _, area in shown.all
        if columns[int(area.left()) : int(area.right()) + 1].any()
    ]


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", range(300, 1500, 75))
def test_all_names_or_the_current_one(width: int, theme: Theme, percent: int) -> None:
    shown = segments(width, 5)
    if shown.has_room_for_names:
        assert named(shown, theme) == TITLES
    else:
        columns = np.flatnonzero(inked(shown, theme))
        needed = QFontMetricsF(scaled_font(12, CURRENT_STAGE_WEIGHT)).horizontalAdvance(TITLES[5])
        middle = shown.all[5][2].center().x()
        assert columns.min() >= middle - needed / 2 - 1
        assert columns.max() <= middle + needed / 2 + 1
        assert columns.max() - columns.min() >= needed - 4  # whole


def test_there_is_a_width_for_each(percent: int) -> None:
    assert not segments(400, 5).has_room_for_names
    assert segments(1600, 5).has_room_for_names


@pytest.mark.parametrize("width", [320, 640, 900])
def test_names_do_not_come_and_go_with_the_steps(width: int, percent: int) -> None:
    assert len({segments(width, stage).has_room_for_names for stage in range(11)}) == 1


def test_without_room_the_end_names_nothing(percent: int) -> None:
    assert named(segments(400, len(TITLES)), LIGHT) == []
