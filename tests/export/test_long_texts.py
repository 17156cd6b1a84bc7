"""Long texts are exported with exact values, without reading an entire matrix."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QSize

from tests.support.long_texts import held_shot, long_shot
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import DropoutMode
from visualizer.export.dialog.preview_widget import render_preview
from visualizer.export.export_settings import ExportSettings
from visualizer.export.figure_settings import FigureSettings
from visualizer.export.figures.figure_page import (
    create_exact_figure_content,
    create_figure_content,
    create_pooled_figure_content,
    create_sketched_figure_content,
    lay_out_page,
)
from visualizer.export.figures.rasterization import render_figure_pixels
from visualizer.export.figures.svg_pdf_writer import create_clipboard_figure
from visualizer.export.figures.webpage_writer import max_cells_per_side
from visualizer.export.writers import export_file, export_to_stream
from visualizer.heatmap.board_presenter import is_fully_drawn, prefetch, present_board_contents
from visualizer.heatmap.panel_margins_paint import row_label_box, visible_labels
from visualizer.progress import CancelledError, ignore_progress
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.widgets.fonts import font_metrics

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.export.figures.figure_page import FigureContent
    from visualizer.session.export_snapshot import ExportSnapshot

pytestmark = pytest.mark.usefixtures("application")
TRAIN: dict[str, Any] = {"mode": DropoutMode.TRAIN, "dropout": 0.3}
SMALL = FigureSettings(width_mm=120, dpi=96)


def assert_exact(figure: FigureContent, snapshot: ExportSnapshot) -> None:
    """Compare a figure's cells with values that are read row by row."""
    assert figure.board.heatmaps
    for heatmap in figure.board.heatmaps:
        trace, lens = snapshot.run.trace, snapshot.view.lens
        held = trace.displayed_tensor(heatmap.stage, lens, heatmap.fold)
        head = () if heatmap.head is None else (heatmap.head,)
        down, right = heatmap.rows.block, heatmap.columns.block
        for drawn, start in enumerate(heatmap.rows.visible_range[::down]):
            rows = held.read((*heatmap.leading, *head, slice(start, start + down)))
            wide = rows[:, heatmap.columns.visible_range.start : heatmap.columns.visible_range.stop]
            starts = np.arange(0, wide.shape[1], right)
            high = np.maximum.reduceat(wide.max(0), starts)
            low = np.minimum.reduceat(np.where(np.isfinite(wide), wide, np.inf).min(0), starts)
            wanted = np.where(-low > high, low, high)
            np.testing.assert_allclose(heatmap.values[drawn], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"zoom": ZoomRange(range(100, 500), range(50, 450))},
        {"zoom": ZoomRange(range(200, 210), range(190, 205))},
        {"stages": frozenset({"scaled", "context"}), "heads": None},
        {"heads": frozenset(), "folds": frozenset({HeadAggregate.MAX})},
        {"lens": WeightTransform.WITHOUT_FIRST},
    ],
)
def test_a_figure_is_exact_and_the_window_keeps_its_image(fields: dict[str, object]) -> None:
    view = replace(View(stages=frozenset({"weights"}), heads=frozenset({0}), room=128), **fields)
    one = long_shot(view=view, heads=2, d_out=4)
    assert one.run.trace.is_blockwise
    resolved = resolve_view(one.document, one.view, one.run, one.document)
    shown = prefetch(resolved, None)
    versions = [one.run.trace.cached_stage_tensor(name).version for name in one.run.trace.names]
    assert_exact(create_exact_figure_content(one, SMALL), one)
    assert not is_fully_drawn(resolved)
    assert versions == [
        one.run.trace.cached_stage_tensor(name).version for name in one.run.trace.names
    ]
    assert present_board_contents(resolved, shown).board is shown.board


def test_a_figure_has_as_many_cells_as_its_pixels_have_room_for() -> None:
    one = long_shot(view=View(stages=frozenset({"weights"}), heads=frozenset({0}), room=16))
    sizes = []
    for dpi in (48, 96, 600):
        figure = create_exact_figure_content(one, replace(SMALL, dpi=dpi))
        assert_exact(figure, one)
        sizes.append(figure.board.heatmaps[0].values.shape[0])
    assert sizes[0] < sizes[1] < sizes[2] == 600


def test_dropped_cells_are_those_of_the_stored_text() -> None:
    view = View(stages=frozenset({"dropped"}), heads=frozenset({0}))
    held, long = held_shot(300, view, **TRAIN), long_shot(300, view, **TRAIN)
    assert long.run.trace.is_blockwise
    figures = [create_exact_figure_content(each, replace(SMALL, dpi=400)) for each in (held, long)]
    wanted, found = (figure.board.heatmaps[0] for figure in figures)
    assert found.dropped is not None
    np.testing.assert_array_equal(found.dropped, wanted.dropped)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-5)


def test_images_are_those_of_the_stored_text() -> None:
    view = View(stages=frozenset({"weights", "scaled"}), heads=frozenset({0}))
    held, long = held_shot(256, view), long_shot(256, view)
    wide = replace(SMALL, dpi=500)  # without pooling, which would use different blocks
    found, wanted = (render_figure_pixels(each, wide).astype(int) for each in (long, held))
    assert found.shape == wanted.shape
    # The caption differs, and the colours of equal values can be rounded differently.
    body = slice(0, found.shape[0] - 300)
    assert (np.abs(found - wanted)[body].max(-1) > 2).mean() < 1e-3


def test_places_of_rows_are_not_cut_off_at_the_edge() -> None:
    (slot,) = lay_out_page(create_figure_content(long_shot(2_000), SMALL), SMALL).layout.slots
    places = [text for _, text in visible_labels(slot.heatmap.rows, slot.cell_height)]
    assert "1,024" in places
    box = row_label_box(slot, 0)
    assert max(font_metrics(12).horizontalAdvance(text) for text in places) <= box.width()


def test_a_web_page_and_the_clipboard_are_exact() -> None:
    one = long_shot()
    assert_exact(create_pooled_figure_content(one, SMALL, max_cells_per_side), one)
    exact = render_figure_pixels(one, SMALL)
    image = create_clipboard_figure(one, SMALL, ignore_progress).image
    assert (image.height(), image.width()) == exact.shape[:2]
    middle = exact[exact.shape[0] // 2, exact.shape[1] // 2, :3].tolist()
    colour = image.pixelColor(image.width() // 2, image.height() // 2)
    assert [colour.red(), colour.green(), colour.blue()] == middle


def test_a_preview_is_an_initial_image_and_reports_this() -> None:
    one = long_shot(view=View(stages=frozenset({"weights"}), heads=frozenset({0}), room=64))
    assert np.isnan(create_figure_content(one, SMALL).board.heatmaps[0].values).any()
    heatmap = create_sketched_figure_content(one, SMALL).board.heatmaps[0]
    assert not np.isnan(heatmap.values).any()
    for suffix in (".png", ".html"):
        made = render_preview(
            one, ExportSettings(suffix, SMALL), QSize(300, 300), 1, ignore_progress
        )
        assert made.description.endswith("preview; the file will be exact")
    assert one.run.trace.cached_stage_tensor("weights").version == 0


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".html"])
def test_a_cancelled_export_leaves_nothing(suffix: str, tmp_path: Path) -> None:
    one = long_shot(2_000)
    calls: list[int] = []

    def progress(done: int, of: int) -> None:
        calls.append(done)
        if len(calls) == 4:
            raise CancelledError

    with pytest.raises(CancelledError):
        export_file(tmp_path / f"a{suffix}", one, SMALL, progress)
    assert len(calls) == 4  # while the panels were drawn, one band of rows after another
    assert not [*tmp_path.iterdir()]


def test_progress_grows() -> None:
    told: list[float] = []
    export_to_stream(
        io.BytesIO(), ".png", long_shot(3_000), SMALL, lambda done, of: told.append(done / of)
    )
    assert told == sorted(told)
    assert len({*told}) > 8


@pytest.mark.parametrize(
    "way", [copy.copy, copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))]
)
def test_a_copied_run_is_computed_block_by_block_again(way: object) -> None:
    run = long_shot(400, **TRAIN).run
    run.trace.read("dropped", (0, slice(5)))
    other = way(run)  # type: ignore[operator]
    assert other.trace.is_blockwise
    for name in run.trace.names:
        np.testing.assert_array_equal(other.trace.read(name), run.trace.read(name))
    for name in run.trace.parameters:
        np.testing.assert_array_equal(other.trace.read(name), run.trace.read(name))


def test_a_pickled_run_is_as_large_as_its_vectors() -> None:
    run = long_shot(2_000).run
    size, numbers = len(pickle.dumps(run)), run.trace.bytes
    assert size < 2 * numbers
    assert size < 2**21  # a single matrix would take 16 MB
