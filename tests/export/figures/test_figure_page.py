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
from tests.support.image_pixels import rgb_of
from tests.support.snapshots import cell_colours, shot
from visualizer import app
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.export.figures.figure_page import (
    MAX_CELLS,
    PAPER_THEMES,
    FigurePage,
    create_figure_content,
    lay_out_exact_page,
    lay_out_page,
)
from visualizer.export.figures.rasterization import render_page
from visualizer.export.figures.svg_pdf_writer import draw_svg
from visualizer.export.writers import WRITERS
from visualizer.heatmap import cell_paint
from visualizer.heatmap.colour_mapping import colour_indices, colour_table
from visualizer.progress import ignore_progress
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.view import View
from visualizer.widgets.theme import LIGHT

pytestmark = pytest.mark.usefixtures("application")
STAGES = ("scores", "weights", "context")


def words(count: int) -> str:
    return " ".join(f"t{number}" for number in range(count))


@pytest.mark.slow
@pytest.mark.parametrize("paper", others_slow(FigureTheme))
@pytest.mark.parametrize("preset", FIGURE_PRESETS)
def test_an_image_has_its_size_and_its_colours(preset: str, paper: FigureTheme) -> None:
    figure_settings = replace(FIGURE_PRESETS[preset], paper=paper, dpi=150)
    one, file = shot(), io.BytesIO()
    WRITERS[".png"](one, figure_settings, file, ignore_progress)
    page = lay_out_page(create_figure_content(one, figure_settings), figure_settings)
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
    page = lay_out_page(create_figure_content(one, figure_settings), figure_settings)
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
    figure = create_figure_content(one, FIGURE_PRESETS["Poster"])
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


WIDE = FigureSettings(width_mm=180, is_trimmed=False)
NARROW = replace(WIDE, width_mm=85)
SLIDE = replace(WIDE, width_mm=254, height_mm=143, paper=FigureTheme.DARK)


@pytest.fixture(scope="module")
def snapshot() -> ExportSnapshot:
    document = Document().with_setting("d_in", 6).with_setting("d_out", 6).with_setting("heads", 2)
    view = View(flow=True, pinned=Cell("weights", (1, 3, 1)))
    return ExportSnapshot(document, view, app.compute(document, None))


def stages(page: FigurePage) -> list[str]:
    return [slot.heatmap.stage for slot in page.layout.slots]


def test_a_wide_page_has_every_column(snapshot: ExportSnapshot) -> None:
    page = lay_out_exact_page(snapshot, WIDE)
    assert page.fits
    assert stages(page) == [
        *("input", "queries", "keys", "values", "masked", "weights", "context"),
        *("concat", "output"),
    ]
    assert {slot.heatmap.head for slot in page.layout.slots} == {1, None}
    assert page.layout.flow
    assert len(page.layout.flow.layout.tabs.boxes) == 2  # a page has no clickable parts


def test_a_narrow_page_has_the_matrix_in_focus_with_its_operands(snapshot: ExportSnapshot) -> None:
    page = lay_out_exact_page(snapshot, NARROW)
    assert page.fits
    assert stages(page) == ["queries", "masked", "weights", "context"]
    assert page.layout.flow
    assert page.layout.flow.layout.row_height >= 20


@pytest.mark.parametrize("settings", [WIDE, NARROW, SLIDE], ids=["wide", "narrow", "slide"])
def test_cells_have_the_colours_of_their_numbers(
    snapshot: ExportSnapshot, settings: FigureSettings
) -> None:
    page = lay_out_exact_page(snapshot, replace(settings, has_marks=False))
    drawn = rgb_of(render_page(page, settings.dpi, ignore_progress))
    dots = page.scale * settings.dpi / 96
    theme = PAPER_THEMES[settings.paper]
    for slot in page.layout.slots:
        words = colour_table(slot.heatmap.colour.map, theme) & 0xFFFFFF
        expected = words[colour_indices(slot.heatmap)]
        for row, column in ((0, 0), (5, 0)):
            cell = slot.cell_area(row, column).translated(page.at + page.panels.topLeft())
            y = cell.top() + 0.12 * cell.height()
            x = cell.left() + 0.5 * cell.width()
            assert drawn[int(y * dots), int(x * dots)] == expected[row, column]


def test_words_of_an_svg_stay_words(snapshot: ExportSnapshot) -> None:
    drawn = draw_svg(lay_out_exact_page(snapshot, WIDE)).decode()
    for word in ("Weights", "Context", "journey", "Head 2", "softmax"):
        assert word in drawn


def test_the_head_in_front_stays_without_marks(snapshot: ExportSnapshot) -> None:
    page = lay_out_exact_page(snapshot, replace(WIDE, has_marks=False))
    assert {slot.heatmap.head for slot in page.layout.slots} == {1, None}


def test_the_flow_is_exported_from_any_view(snapshot: ExportSnapshot) -> None:
    grid = replace(snapshot, view=View(heads=frozenset({1})))
    page = lay_out_exact_page(grid, replace(WIDE, extent=FigureExtent.FLOW))
    assert page.layout.flow
    assert {slot.heatmap.head for slot in page.layout.slots} == {1, None}


def test_other_extents_arrange_panels_by_stage_and_head(snapshot: ExportSnapshot) -> None:
    page = lay_out_exact_page(snapshot, replace(WIDE, extent=FigureExtent.HEADS))
    assert page.layout.flow is None
    assert {slot.heatmap.head for slot in page.layout.slots} == {0, 1}
    weights = [slot.heatmap for slot in page.layout.slots if slot.heatmap.stage == "weights"]
    for heatmap in weights:
        whole = snapshot.run.trace.read("weights", (heatmap.head or 0,))
        np.testing.assert_array_equal(heatmap.values, whole)


def test_a_page_grows_with_the_text(snapshot: ExportSnapshot) -> None:
    words = " ".join(f"word{at}" for at in range(40))
    document = replace(snapshot.document, text=words)
    longer = replace(snapshot, document=document, run=app.compute(document, None))
    longer = replace(longer, view=View(flow=True))
    short, long = (lay_out_exact_page(one, WIDE) for one in (snapshot, longer))
    assert long.size.height() > short.size.height()
    assert long.fits
