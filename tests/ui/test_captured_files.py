"""Attention that was computed elsewhere, as pictures, films, pages and documents."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from PySide6.QtGui import QImage

from tests.state.making import KEYS, QUERIES, board, elsewhere, replayed
from tests.ui import browser
from tests.ui.test_webpage import POINT, described, in_a_browser, page, unpacked
from visualizer.app import compute
from visualizer.attention.captured import Captured
from visualizer.attention.spec import InputError
from visualizer.state.compare.comparison import Against, Comparison
from visualizer.state.document import Document
from visualizer.state.figure import Extent, FigureLook, Shot
from visualizer.state.film import FilmLook
from visualizer.state.formats import FORMATS, Kind
from visualizer.state.playback.timeline import Grain
from visualizer.state.saved.document_file import document_bytes
from visualizer.state.saved.inside import open_any
from visualizer.state.view import Cell, View
from visualizer.state.zoom import Zoom
from visualizer.ui import colours
from visualizer.ui.figures.film import reel_of
from visualizer.ui.figures.inside import MOST_CARRIED, carried
from visualizer.ui.figures.page import figure_of
from visualizer.ui.tensors import write_safetensors
from visualizer.ui.theme import LIGHT
from visualizer.ui.writers import export

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

CAPTION = "attn.npz · 2 layers × 2 heads × 3 × 5"
FIGURES = [each.suffix for each in FORMATS if each.kind is Kind.FIGURE]
FILMS = [each.suffix for each in FORMATS if each.kind is Kind.FILM and not each.needs]


@pytest.fixture(autouse=True)
def drawn(application: QApplication) -> None:
    """Fonts need an application."""


def shot(**fields: object) -> Shot:
    return Shot(Document(captured=elsewhere()), View(**fields), replayed())  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- as pictures


@pytest.mark.parametrize("extent", Extent)
def test_a_figure_has_the_layer_that_is_looked_at(extent: Extent) -> None:
    figure = figure_of(shot(text=1, pinned=Cell("weights", (1, 2, 4))), FigureLook(extent=extent))
    assert figure.caption.startswith(CAPTION)
    for heatmap in figure.board.heatmaps:
        assert heatmap.head is not None
        np.testing.assert_array_equal(heatmap.values, elsewhere().array()[1, heatmap.head])
        assert (heatmap.rows.labels, heatmap.columns.labels) == (QUERIES, KEYS)
    alone = extent in {Extent.PANEL, Extent.HEAD}
    assert len(figure.board.heatmaps) == (1 if alone else 2)


def test_a_picture_is_written_with_its_caption(tmp_path: Path) -> None:
    export(tmp_path / "a.png", shot(spread=True), FigureLook())
    image = QImage(str(tmp_path / "a.png"))
    assert image.text("Description") == figure_of(shot(spread=True), FigureLook()).caption
    assert min(image.width(), image.height()) > 200


def test_the_layers_side_by_side_have_their_names() -> None:
    heatmaps = figure_of(shot(spread=True), FigureLook()).board.heatmaps
    assert [heatmap.label for heatmap in heatmaps] == ["Layer 1", "Layer 2"]


@pytest.mark.parametrize("suffix", FIGURES)
def test_a_figure_opens_as_what_it_is_a_picture_of(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    export(path, shot(text=1), FigureLook())
    saved = open_any(path)
    assert (saved.document.captured, saved.view.text) == (elsewhere(), 1)


def test_a_figure_does_not_carry_attention_of_any_size() -> None:
    large = Document(captured=Captured.of("a.npy", np.ones((1, 1, 1, MOST_CARRIED // 8 + 1))))
    assert carried(Shot(large, View(), replayed()), FigureLook()) == b""
    view = View(comparison=Comparison(Against.KEPT, document=large))
    assert carried(Shot(Document(), view, replayed()), FigureLook()) == b""
    assert carried(shot(), FigureLook()) == document_bytes(shot().document, shot().view)


# ------------------------------------------------------------------------------------- as films


@pytest.mark.parametrize("suffix", FILMS)
def test_a_film_shows_a_query_a_frame(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    export(path, shot(), FigureLook())
    with Image.open(path) as image:
        assert getattr(image, "n_frames", 1) == len(QUERIES)


@pytest.mark.parametrize(("grain", "frames"), [(Grain.STAGE, 1), (Grain.ROW, 3), (Grain.CELL, 15)])
def test_a_film_goes_by_stage_by_query_or_by_cell(grain: Grain, frames: int) -> None:
    reel = reel_of(shot(text=1), FigureLook(film=FilmLook(grain=grain)))
    assert len(reel) == frames
    assert reel.film.stages == ("weights",)
    shape = reel.pixels(0).shape
    assert {reel.pixels(frame).shape for frame in range(frames)} == {shape}


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
        np.testing.assert_array_equal(values, elsewhere().array()[layer, 0])
        np.testing.assert_array_equal(entries, colours.entries(shown.heatmaps[layer]))


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
    seen, said = browser.see(page(board(replayed(), text=1), theme=LIGHT), script, tmp_path)
    assert said == []
    words, shape, bands, lit = seen
    value = f"{elsewhere().array()[1, 1, 2, 3]:.4f}"
    assert words.startswith("Weights, head 2: query 3 “猫”, key 4 “=1+1”")
    assert value in words
    assert (shape, bands) == ([3, 5], 4)
    assert sorted(lit) == ["=1+1", "猫"]


@in_a_browser
@pytest.mark.parametrize(
    ("zoom", "said"),
    [
        (Zoom(range(0, 2), range(1, 4)), "1–2 of 3 × 2–4 of 5"),
        (Zoom(range(0, 3), range(1, 4)), "2–4 of 5"),
    ],
)
def test_a_browser_says_which_part_is_seen(zoom: Zoom, said: str, tmp_path: Path) -> None:
    script = "return axesOf(panels[0])[1];"
    seen, complaints = browser.see(page(board(replayed(), zoom=zoom)), script, tmp_path)
    assert (seen, complaints) == (said, [])


# ---------------------------------------------------------------------------------- as documents


def test_a_document_of_it_is_opened_again(tmp_path: Path) -> None:
    taken = shot(text=1, heads=frozenset({1}), room=512)
    export(tmp_path / "a.attention", taken, FigureLook())
    saved = open_any(tmp_path / "a.attention")
    assert saved.document == taken.document
    assert (saved.view.text, saved.view.heads) == (1, frozenset({1}))
    assert saved.recorded is None
    again = compute(saved.document, None)
    np.testing.assert_array_equal(again.trace.read("weights"), elsewhere().array())


def test_there_are_no_weights_to_write() -> None:
    file = io.BytesIO()
    with pytest.raises(InputError, match=r"attn\.npz has attention and no weights to write"):
        write_safetensors(replayed(), file)
    assert file.getvalue() == b""
