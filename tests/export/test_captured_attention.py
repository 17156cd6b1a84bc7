"""Export of captured attention as images, animations, web pages and documents."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from PySide6.QtGui import QImage

from tests.export.figures.test_webpage_writer import POINT, described, in_a_browser, page, unpacked
from tests.support import headless_browser
from tests.support.small_runs import KEYS, QUERIES, board, elsewhere, replayed
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.documents.document_file import document_bytes
from visualizer.documents.open_document import open_document
from visualizer.errors import InputError
from visualizer.export.data.data_writers import write_safetensors
from visualizer.export.figure_settings import AnimationSettings, FigureExtent, FigureSettings
from visualizer.export.figures.document_attachment import MAX_ATTACHED_BYTES, document_to_attach
from visualizer.export.figures.figure_page import create_figure_content
from visualizer.export.films.film_layout import lay_out_animation
from visualizer.export.formats import FORMATS, FormatKind
from visualizer.export.writers import export_file
from visualizer.heatmap import colour_mapping
from visualizer.session.cell_address import Cell
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.timeline import StepSize
from visualizer.session.view import View
from visualizer.session.view_options import ColourLimits, ColourOptions
from visualizer.session.worker_jobs import compute
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.widgets.theme import LIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

CAPTION = "attn.npz · 2 layers × 2 heads × 3 × 5"
FIGURES = [each.suffix for each in FORMATS if each.kind is FormatKind.FIGURE]
FILMS = [each.suffix for each in FORMATS if each.kind is FormatKind.FILM and not each.needs]


@pytest.fixture(autouse=True)
def drawn(application: QApplication) -> None:
    """Provide an application, which fonts require."""


def shot(**fields: object) -> ExportSnapshot:
    return ExportSnapshot(Document(captured=elsewhere()), View(**fields), replayed())  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- as pictures


@pytest.mark.parametrize("extent", FigureExtent)
def test_a_figure_has_the_layer_that_is_viewed(extent: FigureExtent) -> None:
    figure = create_figure_content(
        shot(layer=1, pinned=Cell("weights", (1, 2, 4))), FigureSettings(extent=extent)
    )
    assert figure.caption.startswith(CAPTION)
    for heatmap in figure.board.heatmaps:
        assert heatmap.head is not None
        np.testing.assert_array_equal(heatmap.values, elsewhere().to_array()[1, heatmap.head])
        assert (heatmap.rows.labels, heatmap.columns.labels) == (QUERIES, KEYS)
    is_flow = extent is FigureExtent.FLOW
    alone = is_flow or extent in {FigureExtent.PANEL, FigureExtent.HEAD, FigureExtent.CELLS}
    assert len(figure.board.heatmaps) == (1 if alone else 2)


def test_an_image_is_written_with_its_caption(tmp_path: Path) -> None:
    export_file(tmp_path / "a.png", shot(spread=True), FigureSettings())
    image = QImage(str(tmp_path / "a.png"))
    assert (
        image.text("Description")
        == create_figure_content(shot(spread=True), FigureSettings()).caption
    )
    assert min(image.width(), image.height()) > 200


def test_the_layers_side_by_side_have_their_names() -> None:
    heatmaps = create_figure_content(shot(spread=True), FigureSettings()).board.heatmaps
    assert [heatmap.label for heatmap in heatmaps] == ["Layer 1", "Layer 2"]


@pytest.mark.parametrize("suffix", FIGURES)
def test_a_figure_opens_as_what_it_is_an_image_of(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    export_file(path, shot(layer=1), FigureSettings())
    saved = open_document(path)
    assert saved.document.captured
    assert (saved.document.captured.display_name, saved.view.layer) == ("layer 2 of attn.npz", 0)
    np.testing.assert_array_equal(saved.document.captured.to_array(), elsewhere().to_array()[1:])
    for whole, layer, settings in (
        (shot(layer=1), 1, FigureSettings(has_all_layers=True)),
        (shot(spread=True), 0, FigureSettings()),
    ):
        export_file(path, whole, settings)
        saved = open_document(path)
        assert (saved.document.captured, saved.view.layer) == (elsewhere(), layer)


def test_a_figure_of_a_layer_keeps_the_range_that_all_layers_share(tmp_path: Path) -> None:
    shared = ColourOptions(limits=ColourLimits.SHARED)
    export_file(tmp_path / "a.png", shot(layer=1, colouring=shared), FigureSettings())
    saved = open_document(tmp_path / "a.png")
    largest = float(replayed().trace.read("weights").max())
    assert saved.view.colouring.entered_limits("weights") == pytest.approx((0, largest))


def test_a_figure_does_not_embed_attention_of_any_size() -> None:
    large = Document(
        captured=CapturedAttention.from_array(
            "a.npy", np.ones((1, 1, 1, MAX_ATTACHED_BYTES // 8 + 1))
        )
    )
    assert document_to_attach(ExportSnapshot(large, View(), replayed()), FigureSettings()) == b""
    view = View(comparison=Comparison(ComparisonKind.KEPT, document=large))
    assert document_to_attach(ExportSnapshot(Document(), view, replayed()), FigureSettings()) == b""
    settings = FigureSettings(has_all_layers=True)
    assert document_to_attach(shot(), settings) == document_bytes(shot().document, shot().view)


# ------------------------------------------------------------------------------------- as films


@pytest.mark.parametrize("suffix", FILMS)
def test_an_animation_shows_a_query_per_frame(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    export_file(path, shot(), FigureSettings())
    with Image.open(path) as image:
        assert getattr(image, "n_frames", 1) == len(QUERIES)


@pytest.mark.parametrize(
    ("grain", "frames"), [(StepSize.STAGE, 1), (StepSize.ROW, 3), (StepSize.CELL, 15)]
)
def test_an_animation_goes_by_stage_by_query_or_by_cell(grain: StepSize, frames: int) -> None:
    animation = lay_out_animation(
        shot(layer=1), FigureSettings(film=AnimationSettings(grain=grain))
    )
    assert len(animation) == frames
    assert animation.film.stages == ("weights",)
    shape = animation.frame_pixels(0).shape
    assert {animation.frame_pixels(frame).shape for frame in range(frames)} == {shape}


# ------------------------------------------------------------------------------------- as a page


def test_a_page_has_queries_keys_and_numbers_of_all_layers() -> None:
    shown = board(replayed(), spread=True)
    made = page(shown)
    tables = described(made)["labels"]
    panels = [panel for column in described(made)["columns"] for panel in column]
    assert [panel["label"] for panel in panels] == ["Layer 1", "Layer 2"]
    for layer, (panel, (entries, _, values)) in enumerate(zip(panels, unpacked(made), strict=True)):
        assert (panel["shape"], panel["role"]) == ([3, 5], "query")
        assert tables[panel["rows"]["labels"]] == list(QUERIES)
        assert tables[panel["columns"]["labels"]] == list(KEYS)
        assert panel["columns"]["isToken"]
        np.testing.assert_array_equal(values, elsewhere().to_array()[layer, 0])
        np.testing.assert_array_equal(entries, colour_mapping.colour_indices(shown.heatmaps[layer]))


@in_a_browser
def test_a_browser_names_queries_and_keys_and_lights_up_both(tmp_path: Path) -> None:
    script = f"""
    {POINT}
    const panel = at("weights", 1);
    move(panel, 2, 3);
    const bands = [...document.querySelectorAll(".band")].length;
    return [words(), panel.shape, bands,
      [...panel.box.figure.querySelectorAll(".label.lit")].map((one) => one.textContent)];
    """
    seen, said = headless_browser.see(
        page(board(replayed(), layer=1), theme=LIGHT), script, tmp_path
    )
    assert said == []
    words, shape, bands, lit = seen
    value = f"{elsewhere().to_array()[1, 1, 2, 3]:.4f}"
    assert words.startswith("Weights, head 2: query 3 “猫”, key 4 “=1+1”")
    assert value in words
    assert (shape, bands) == ([3, 5], 4)
    assert sorted(lit) == ["=1+1", "猫"]


@in_a_browser
@pytest.mark.parametrize(
    ("zoom", "said"),
    [
        (ZoomRange(range(0, 2), range(1, 4)), "1–2 of 3 × 2–4 of 5"),
        (ZoomRange(range(0, 3), range(1, 4)), "2–4 of 5"),
    ],
)
def test_a_browser_says_which_part_is_seen(zoom: ZoomRange, said: str, tmp_path: Path) -> None:
    script = "return axesOf(panels[0])[1];"
    seen, complaints = headless_browser.see(page(board(replayed(), zoom=zoom)), script, tmp_path)
    assert (seen, complaints) == (said, [])


# ---------------------------------------------------------------------------------- as documents


def test_a_document_of_it_is_opened_again(tmp_path: Path) -> None:
    taken = shot(layer=1, heads=frozenset({1}), room=512)
    export_file(tmp_path / "a.attention", taken, FigureSettings())
    saved = open_document(tmp_path / "a.attention")
    assert saved.document == taken.document
    assert (saved.view.layer, saved.view.heads) == (1, frozenset({1}))
    assert saved.recorded is None
    again = compute(saved.document, None)
    np.testing.assert_array_equal(again.trace.read("weights"), elsewhere().to_array())


def test_there_are_no_weights_to_write() -> None:
    file = io.BytesIO()
    with pytest.raises(InputError, match=r"attn\.npz contains attention weights but no module"):
        write_safetensors(replayed(), file)
    assert file.getvalue() == b""
