"""A figure has the requested size, contains all panels, and colours every cell correctly."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from tests.support.examples import others_slow
from tests.support.snapshots import cell_colours, shot
from visualizer.export.figure_settings import FIGURE_PRESETS, FigurePaper
from visualizer.export.figures.figure_page import MAX_CELLS, figure_content, lay_out_page
from visualizer.export.writers import WRITERS
from visualizer.heatmap import cell_paint
from visualizer.progress import no_progress
from visualizer.widgets.theme import LIGHT

pytestmark = pytest.mark.usefixtures("application")
STAGES = ("scores", "weights", "context")


def words(count: int) -> str:
    return " ".join(f"t{number}" for number in range(count))


@pytest.mark.slow
@pytest.mark.parametrize("paper", others_slow(FigurePaper))
@pytest.mark.parametrize("preset", FIGURE_PRESETS)
def test_an_image_has_its_size_and_its_colours(preset: str, paper: FigurePaper) -> None:
    figure_settings = replace(FIGURE_PRESETS[preset], paper=paper, dpi=150)
    one, file = shot(), io.BytesIO()
    WRITERS[".png"](one, figure_settings, file, no_progress)
    page = lay_out_page(figure_content(one, figure_settings), figure_settings)
    with Image.open(file) as image:
        assert image.info["dpi"] == pytest.approx((150, 150), abs=0.02)
        assert image.width == pytest.approx(page.size.width() * 150 / 96, abs=1)
        assert image.height == pytest.approx(page.size.height() * 150 / 96, abs=1)
        if not figure_settings.is_trimmed:
            assert image.width == pytest.approx(figure_settings.width_mm / 25.4 * 150, abs=1)
        pixels = np.asarray(image.convert("RGB"))
    for x, y, colour in cell_colours(page):
        seen = pixels[int(y * 150 / 96), int(x * 150 / 96)].tolist()
        assert seen == [colour.red(), colour.green(), colour.blue()]


@pytest.mark.slow
@pytest.mark.parametrize("preset", FIGURE_PRESETS)
@pytest.mark.parametrize("tokens", [1, 6, 64, 300])
@pytest.mark.parametrize("heads", [2, 12])
@pytest.mark.parametrize("stages", [("weights",), STAGES])
def test_all_of_it_is_on_its_page(
    preset: str, tokens: int, heads: int, stages: tuple[str, ...]
) -> None:
    figure_settings = replace(FIGURE_PRESETS[preset], title="A title")
    one = shot(words(tokens), stages, heads=heads, d_in=24, d_out=24)
    page = lay_out_page(figure_content(one, figure_settings), figure_settings)
    assert page.fits
    paper = QRectF(QPointF(0, 0), page.size / page.scale).adjusted(-0.1, -0.1, 0.1, 0.1)
    for area in (page.title, page.panels, page.caption):
        assert paper.contains(area.translated(page.at))
    for slot in page.layout.slots:
        assert QRectF(0, 0, page.panels.width(), page.panels.height()).contains(slot.cells)
    pixel = 96 / figure_settings.dpi  # if cells were smaller, some would be invisible
    smallest = min(min(slot.cell_width, slot.cell_height) for slot in page.layout.slots)
    pooled = any(slot.heatmap.is_pooled for slot in page.layout.slots)
    assert smallest * page.scale >= 0.99 * pixel or not pooled


def test_many_large_panels_are_pooled() -> None:
    one = shot(words(400), STAGES, heads=48, d_in=96, d_out=96)
    figure = figure_content(one, FIGURE_PRESETS["Poster"])
    assert sum(panel.values.size for panel in figure.board.heatmaps) <= MAX_CELLS


def test_hatching_grows_with_the_image() -> None:
    counts = []
    for times in (2, 6):
        image = QImage(40 * times, 20 * times, QImage.Format.Format_RGB32)
        image.fill(QColor(LIGHT.paper))
        painter = QPainter(image)
        painter.scale(times, times)
        cell_paint.paint_hatching(painter, [QRectF(0, 0, 40, 20)], QPointF(), LIGHT.border)
        painter.end()
        dark = [image.pixelColor(x, 10 * times).lightness() < 220 for x in range(40 * times)]
        counts.append(sum(now and not before for before, now in pairwise(dark)))
    assert counts[0] > 3
    assert counts[0] == pytest.approx(counts[1], abs=1)


def test_hatching_runs_on_from_cell_to_cell() -> None:
    together = [QRectF(3, 5, 40, 20)]
    apart = [QRectF(3, 5 + row * 5, 10 + 30 * part, 5) for row in range(4) for part in (0,)]
    apart += [QRectF(13, 5 + row * 5, 30, 5) for row in range(4)]
    origin = QPointF(3, 5)
    assert list(cell_paint.hatch_lines(apart, origin)) == list(
        cell_paint.hatch_lines(together, origin)
    )
    assert list(cell_paint.hatch_lines([], origin)) == []


def test_an_outline_is_over_none_of_its_area() -> None:
    for times in (1, 3):
        image = QImage(60, 60, QImage.Format.Format_RGB32)
        image.fill(QColor("#FFFFFF"))
        painter = QPainter(image)
        painter.setPen(QPen(QColor("#FF0000")))
        painter.scale(times, times)
        cell_paint.paint_outline(painter, QRectF(4, 4, 8, 8), "#000000")
        painter.end()
        inside = {
            image.pixelColor(x, y).name()
            for x in range(4 * times, 12 * times)
            for y in range(4 * times, 12 * times)
        }
        around = {image.pixelColor(x, 4 * times - 1).name() for x in range(4 * times, 12 * times)}
        assert (inside, around) == ({"#ffffff"}, {"#000000"})
