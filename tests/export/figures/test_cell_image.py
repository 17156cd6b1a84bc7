"""An image with one pixel per cell has the same colours as a figure, and takes little memory."""

from __future__ import annotations

import io
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from PIL import Image
from PySide6.QtCore import QSize

from tests.support.examples import examples
from tests.support.long_texts import held_shot, long_shot
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.spec import DropoutMode, MaskKind, NormalisationKind
from visualizer.documents.open_document import open_document
from visualizer.errors import InputError
from visualizer.export.dialog.preview_widget import render_preview
from visualizer.export.export_settings import ExportSettings
from visualizer.export.figure_settings import FigureExtent, FigureSettings, FigureTheme
from visualizer.export.figures import cell_image
from visualizer.export.figures.cell_image import create_cell_image_source
from visualizer.export.figures.rasterization import render_figure_pixels
from visualizer.export.writers import export_file, export_to_stream
from visualizer.heatmap import colour_mapping
from visualizer.progress import CancelledError, ignore_progress
from visualizer.session.cell_address import Cell
from visualizer.session.view import View
from visualizer.session.view_options import ColourCurve, ColourLimits
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.widgets.theme import LIGHT, PRINT

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.session.export_snapshot import ExportSnapshot

pytestmark = pytest.mark.usefixtures("application")
CELLS = FigureSettings(extent=FigureExtent.CELLS)
TOKENS = 90
SPECS: tuple[dict[str, Any], ...] = (
    {"heads": 1},
    {"mode": DropoutMode.TRAIN, "dropout": 0.3, "heads": 2, "d_out": 4},
    {"normalisation": NormalisationKind.SUM, "mask": MaskKind.NONE, "heads": 1},
)
BOTH = [tuple(make(TOKENS, **spec) for make in (held_shot, long_shot)) for spec in SPECS]


def picture_of(snapshot: ExportSnapshot, settings: FigureSettings = CELLS) -> np.ndarray:
    file = io.BytesIO()
    export_to_stream(file, ".png", snapshot, settings)
    with Image.open(file) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def colours_of(snapshot: ExportSnapshot) -> np.ndarray:
    """Return the colours of the entire panel, computed from the stored values in one step."""
    cells = create_cell_image_source(snapshot, CELLS)
    heatmap = cells.panel_source(cells.extent).build_heatmap({})
    words = colour_mapping.colour_table(heatmap.colour.map, PRINT)[
        colour_mapping.colour_indices(heatmap)
    ]
    return np.stack([words >> shift & 255 for shift in (16, 8, 0)], -1).astype(int)


@examples(1)
@given(
    st.sampled_from(BOTH),
    st.sampled_from(["scaled", "weights", "context", "dropped"]),
    st.sampled_from([WeightTransform.PLAIN, *WeightTransform]),
    st.sampled_from([each for each in ColourLimits if each is not ColourLimits.TYPED]),
    st.sampled_from([ColourCurve.LINEAR, ColourCurve.LOG]),
    st.sampled_from([frozenset[HeadAggregate](), frozenset({HeadAggregate.MEAN})]),
    st.sampled_from([16_384, 45, 32]),
)
def test_bands_have_the_colours_of_the_whole(
    both: tuple[ExportSnapshot, ExportSnapshot],
    stage: str,
    lens: WeightTransform,
    limits: ColourLimits,
    curve: ColourCurve,
    folds: frozenset[HeadAggregate],
    most: int,
) -> None:
    if both[0].run.trace.spec.heads > 1 and limits is not ColourLimits.ROW:
        limits = ColourLimits.PANEL  # shared limits include heads that are not drawn
    colouring = replace(View().colouring, limits=limits, curve=curve)
    view = View(stages=frozenset({stage}), lens=lens, colouring=colouring, folds=folds)
    held, long = (replace(each, view=view) for each in both)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_image, "MAX_SIDE_PX", most)
        patch.setattr(cell_image, "ROWS_PER_BAND", 7)
        patch.setattr(cell_image, "COARSE_SIDE_CELLS", 16)
        wanted, found = picture_of(held), picture_of(long)
        np.testing.assert_array_equal(wanted, colours_of(held))
    if wanted.shape == found.shape:  # long texts have blocks of powers of two
        assert (np.abs(found - wanted).max(-1) > 4).mean() < 2e-3
    assert max(found.shape[:2]) <= most


def test_it_is_all_of_the_pinned_panel_whatever_is_zoomed_in_on() -> None:
    _, long = BOTH[1]
    view = View(pinned=Cell("scaled", (1, 40, 30)), zoom=ZoomRange(range(20, 50), range(10, 40)))
    shown = replace(long, view=view)
    cells = create_cell_image_source(shown, CELLS)
    assert (cells.stage.name, cells.head_choice) == ("scaled", (1, None))
    assert cells.size == (TOKENS, TOKENS)
    np.testing.assert_array_equal(render_figure_pixels(shown, CELLS)[..., :3], picture_of(shown))
    in_light = picture_of(shown, replace(CELLS, paper=FigureTheme.LIGHT))
    assert in_light.shape == (TOKENS, TOKENS, 3)
    assert cells.theme is PRINT is not LIGHT


def test_the_window_keeps_its_image_and_the_file_opens_again(tmp_path: Path) -> None:
    one = long_shot(TOKENS)
    export_file(tmp_path / "a.png", one, CELLS)
    assert one.run.trace.cached_stage_tensor("weights").version == 0
    assert open_document(tmp_path / "a.png").document == one.document
    with Image.open(tmp_path / "a.png") as image:
        assert image.info["Title"] == "Weights"


def test_colours_by_rank_are_rejected_unless_by_row() -> None:
    colouring = replace(View().colouring, curve=ColourCurve.RANK)
    one = long_shot(300, View(stages=frozenset({"weights"}), colouring=colouring))
    with pytest.raises(InputError, match="Rank per row"):
        picture_of(one)
    by_row = replace(one.view, colouring=replace(colouring, limits=ColourLimits.ROW))
    assert picture_of(replace(one, view=by_row)).shape == (300, 300, 3)


def test_other_formats_have_the_panel() -> None:
    for suffix in (".svg", ".html"):
        settings = ExportSettings(suffix, CELLS)
        assert FigureExtent.CELLS not in settings.extent_labels
        assert settings.figure_settings.extent is FigureExtent.PANEL


def test_a_preview_is_a_first_image() -> None:
    one = long_shot(600)
    made = render_preview(one, ExportSettings(".png", CELLS), QSize(200, 100), 1, ignore_progress)
    assert made.image is not None
    assert made.image.size() == QSize(100, 100)
    assert (
        made.description
        == "600 × 600 pixels; each pixel shows one cell · preview; the file will be exact"
    )


def test_a_cancelled_image_leaves_nothing(tmp_path: Path) -> None:
    one = long_shot(1_500)

    def progress(done: int, of: int) -> None:
        if done / of > 0.4:
            raise CancelledError

    with pytest.raises(CancelledError):
        export_file(tmp_path / "a.png", one, CELLS, progress)
    assert not [*tmp_path.iterdir()]


def test_progress_grows_and_memory_is_that_of_some_rows() -> None:
    one, told = long_shot(3_000, View(stages=frozenset({"scaled"}))), []
    cells = create_cell_image_source(one, CELLS)
    held = cells.resolved.run.trace.cached_stage_tensor("scaled")
    largest = 0
    tracemalloc.start()
    for _ in cells.render_bands(lambda done, of: told.append(done / of)):
        largest = max(largest, held.bytes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert told == sorted(told)
    assert len({*told}) > 10
    assert largest < 2**22  # the coarse image; the full one takes 36 MB, or 72 MB if signed
    assert peak < 2**26
