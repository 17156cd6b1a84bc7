"""Figures of the flow board: the entire board on a wide page, its main parts in a narrow column."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tests.support.image_pixels import rgb_of
from visualizer import app
from visualizer.export.figure_settings import FigureExtent, FigurePaper, FigureSettings
from visualizer.export.figures.figure_page import PAPER_THEMES, FigurePage, lay_out_exact_page
from visualizer.export.figures.rasterization import render_page
from visualizer.export.figures.svg_pdf_writer import draw_svg
from visualizer.heatmap.colour_mapping import colour_indices, colour_table
from visualizer.progress import no_progress
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.exportable_snapshot import Snapshot
from visualizer.session.view import View

pytestmark = pytest.mark.usefixtures("application")

WIDE = FigureSettings(width_mm=180, is_trimmed=False)
NARROW = replace(WIDE, width_mm=85)
SLIDE = replace(WIDE, width_mm=254, height_mm=143, paper=FigurePaper.DARK)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    document = Document().set("d_in", 6).set("d_out", 6).set("heads", 2)
    view = View(flow=True, pinned=Cell("weights", (1, 3, 1)))
    return Snapshot(document, view, app.compute(document, None))


def stages(page: FigurePage) -> list[str]:
    return [slot.heatmap.stage for slot in page.layout.slots]


def test_a_wide_page_has_every_column(snapshot: Snapshot) -> None:
    page = lay_out_exact_page(snapshot, WIDE)
    assert page.fits
    assert stages(page) == [
        *("input", "queries", "keys", "values", "masked", "weights", "context"),
        *("concat", "output"),
    ]
    assert {slot.heatmap.head for slot in page.layout.slots} == {1, None}
    assert page.layout.flow
    assert len(page.layout.flow.layout.tabs.boxes) == 2  # a page has no clickable parts


def test_a_narrow_page_has_the_matrix_in_focus_with_its_operands(snapshot: Snapshot) -> None:
    page = lay_out_exact_page(snapshot, NARROW)
    assert page.fits
    assert stages(page) == ["queries", "masked", "weights", "context"]
    assert page.layout.flow
    assert page.layout.flow.layout.row_height >= 20


@pytest.mark.parametrize("settings", [WIDE, NARROW, SLIDE], ids=["wide", "narrow", "slide"])
def test_cells_have_the_colours_of_their_numbers(
    snapshot: Snapshot, settings: FigureSettings
) -> None:
    page = lay_out_exact_page(snapshot, replace(settings, has_marks=False))
    drawn = rgb_of(render_page(page, settings.dpi, no_progress))
    dots = page.scale * settings.dpi / 96
    theme = PAPER_THEMES[settings.paper]
    for slot in page.layout.slots:
        words = colour_table(slot.heatmap.colour.map, theme) & 0xFFFFFF
        expected = words[colour_indices(slot.heatmap)]
        for row, column in ((0, 0), (5, 0)):
            cell = slot.cell(row, column).translated(page.at + page.panels.topLeft())
            y = cell.top() + 0.12 * cell.height()
            x = cell.left() + 0.5 * cell.width()
            assert drawn[int(y * dots), int(x * dots)] == expected[row, column]


def test_words_of_an_svg_stay_words(snapshot: Snapshot) -> None:
    drawn = draw_svg(lay_out_exact_page(snapshot, WIDE)).decode()
    for word in ("Weights", "Context", "journey", "Head 2", "softmax"):
        assert word in drawn


def test_the_head_in_front_stays_without_marks(snapshot: Snapshot) -> None:
    page = lay_out_exact_page(snapshot, replace(WIDE, has_marks=False))
    assert {slot.heatmap.head for slot in page.layout.slots} == {1, None}


def test_the_flow_is_exported_from_any_view(snapshot: Snapshot) -> None:
    grid = replace(snapshot, view=View(heads=frozenset({1})))
    page = lay_out_exact_page(grid, replace(WIDE, extent=FigureExtent.FLOW))
    assert page.layout.flow
    assert {slot.heatmap.head for slot in page.layout.slots} == {1, None}


def test_other_extents_arrange_panels_by_stage_and_head(snapshot: Snapshot) -> None:
    page = lay_out_exact_page(snapshot, replace(WIDE, extent=FigureExtent.HEADS))
    assert page.layout.flow is None
    assert {slot.heatmap.head for slot in page.layout.slots} == {0, 1}
    weights = [slot.heatmap for slot in page.layout.slots if slot.heatmap.stage == "weights"]
    for heatmap in weights:
        whole = snapshot.run.trace.read("weights", (heatmap.head or 0,))
        np.testing.assert_array_equal(heatmap.values, whole)


def test_a_page_grows_with_the_text(snapshot: Snapshot) -> None:
    words = " ".join(f"word{at}" for at in range(40))
    document = replace(snapshot.document, text=words)
    longer = replace(snapshot, document=document, run=app.compute(document, None))
    longer = replace(longer, view=View(flow=True))
    short, long = (lay_out_exact_page(one, WIDE) for one in (snapshot, longer))
    assert long.size.height() > short.size.height()
    assert long.fits
