"""Written animations have one frame per snapshot, with the colours of its weights."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image

from tests.support.probe_results import a_reading
from visualizer.errors import InputError
from visualizer.export.export_runner import ExportRunner
from visualizer.export.figure_settings import FigureTheme
from visualizer.export.figures.figure_page import PAPER_THEMES
from visualizer.export.film_plan import LAST_FRAME_EXTRA_MS
from visualizer.export.formats import FORMATS, FormatKind
from visualizer.heatmap import colour_mapping
from visualizer.lab.attention_view.presenter import ATTENTION_MISSING
from visualizer.lab.training.loss_history import MeasuredLoss
from visualizer.lab.training_film.writer import (
    TrainingFilm,
    TrainingFilmSettings,
    create_training_film,
    lay_out_training_film,
    write_training_film,
)
from visualizer.language.training_settings import ModelKind
from visualizer.progress import CancelledError
from visualizer.session.view_options import DEFAULT_MAP

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QApplication
    from pytestqt.qtbot import QtBot

STEPS = (100, 0, 1000, 10)
SUFFIXES = [one.suffix for one in FORMATS if one.kind is FormatKind.FILM]


@pytest.fixture(autouse=True)
def drawn(application: QApplication) -> None:
    """Create the application, which fonts need."""


def a_film(layers: int = 2, heads: int = 2, tokens: int = 6, **look: Any) -> TrainingFilm:
    readings = [a_reading(layers, heads, tokens, step, seed=step) for step in STEPS]
    losses = {
        0: (MeasuredLoss(4.2, 0), None),
        1000: (MeasuredLoss(1.5, 999), MeasuredLoss(1.75, 900)),
    }
    wanted = TrainingFilmSettings(**{"width": 480, "ms": 200.0, **look})
    return create_training_film(readings, ModelKind.ATTENTION_ONLY, 1000, losses, wanted)


def test_frames_are_in_order_with_their_losses() -> None:
    film = a_film()
    assert [reading.step for reading in film.results] == sorted(STEPS)
    assert (
        film.timeline_of_frame(0).description == "Step 0 of 1,000 (untrained): training loss 4.200"
    )
    assert film.timeline_of_frame(1).description == "Step 10 of 1,000"
    assert film.timeline_of_frame(3).description.endswith(
        "training loss 1.500, validation loss 1.750 at step 900"
    )
    assert lay_out_training_film(film).frame_durations(10) == (
        20,
        20,
        20,
        20 + LAST_FRAME_EXTRA_MS // 10,
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_there_is_one_frame_per_snapshot(tmp_path: Path, suffix: str) -> None:
    if suffix == ".mp4":
        pytest.importorskip("av", reason="films as MP4 need the package av")
    film, told = a_film(), list[tuple[int, int]]()
    path = write_training_film(tmp_path / f"film{suffix}", film, lambda *by: told.append(by))
    assert told[-1] == (4, 4)
    if suffix == ".mp4":
        import av

        with av.open(str(path)) as opened:
            assert len([*opened.decode(video=0)]) == 4
        return
    with Image.open(path) as image:
        assert image.size == lay_out_training_film(film).size
        assert getattr(image, "n_frames") == 4  # noqa: B009 - of moving pictures only
        image.seek(1)
        image.load()
        assert image.info["duration"] == 200


@pytest.mark.parametrize(
    ("layers", "heads", "tokens", "paper"),
    [
        (2, 2, 6, FigureTheme.LIGHT),
        (3, 4, 16, FigureTheme.DARK),
        (1, 1, 1, FigureTheme.PRINT),
        (4, 1, 8, FigureTheme.LIGHT),
    ],
)
def test_cells_have_the_colours_of_their_weights(
    layers: int, heads: int, tokens: int, paper: FigureTheme
) -> None:
    film = a_film(layers, heads, tokens, paper=paper, width=960, title="Repeat")
    frames, theme = lay_out_training_film(film), PAPER_THEMES[paper]
    table = colour_mapping.colour_table(DEFAULT_MAP, theme)
    for frame in (0, 3):
        pixels = frames.frame_pixels(frame)
        assert pixels.shape[::-1] == frames.size
        weights = film.results[frame].weights
        assert weights is not None
        for slot in frames.layout.slots:
            layer, head = slot.heatmap.layer, slot.heatmap.head
            assert layer is not None
            for query in range(tokens):
                cell = slot.cell_area(query, 0)
                x = frames.left + (cell.left() + cell.width() * 0.5) * frames.scale_factor
                y = frames.top + (cell.top() + cell.height() * 0.12) * frames.scale_factor
                found = int(pixels[int(y), int(x)])
                share = min(1.0, float(weights[layer, head, query, 0]) / film.ranges[layer].end)
                expected = share * colour_mapping.MAX_COLOUR_INDEX
                near = [int(table[min(max(int(expected) + by, 0), 252)]) for by in (-1, 0, 1)]
                assert found | 0xFF000000 in near


@pytest.mark.slow
def test_everything_fits_into_the_width() -> None:
    for heads in (1, 2, 12):
        frames = lay_out_training_film(a_film(6, heads, 24))
        assert frames.layout.width * frames.scale_factor <= 480 + 0.01
        assert frames.size[0] == 480
        assert not any(side % 2 for side in frames.size)


def test_many_panels_make_the_animation_higher_instead_of_smaller() -> None:
    usual, many = (lay_out_training_film(a_film(side, side, 60, width=1280)) for side in (2, 6))
    assert usual.size[1] < many.size[1] <= 1280 + 200
    assert many.layout.slots[0].cells.width() * many.scale_factor >= 100
    # Only a larger width would enlarge these panels.
    wide = lay_out_training_film(a_film(1, 8, 16, width=1280))
    assert wide.size[1] < 500


def test_a_cancelled_export_keeps_the_existing_file(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"before")

    def stop(done: int, of: int) -> None:
        if done == 2:
            raise CancelledError

    with pytest.raises(CancelledError):
        write_training_film(path, a_film(), stop)
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["film.gif"]


def test_animations_are_written_on_another_thread(tmp_path: Path, qtbot: QtBot) -> None:
    exporter, film, threads = ExportRunner(), a_film(), set[int]()

    def write(progress: Any) -> Path:
        threads.add(threading.get_ident())
        return write_training_film(tmp_path / "film.apng", film, progress)

    said: list[str] = []
    exporter.messageReported.connect(lambda words, _: said.append(words))
    exporter.start_writing(write)
    qtbot.waitUntil(lambda: not exporter.is_working, timeout=20_000)
    exporter.close()
    assert threads
    assert threading.get_ident() not in threads
    assert said[-1] == f"Exported to {tmp_path / 'film.apng'}"


@pytest.mark.parametrize("name", ["film.png", "film", "film.csv"])
def test_other_formats_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not a supported animation format"):
        write_training_film(tmp_path / name, a_film())
    assert not [*tmp_path.iterdir()]


def test_without_snapshots_an_error_is_reported() -> None:
    def film(*readings: Any) -> None:
        create_training_film(readings, ModelKind.BIGRAM, 10, {})

    with pytest.raises(InputError, match="This run has no snapshots yet"):
        film()
    with pytest.raises(InputError, match=ATTENTION_MISSING[:20]):
        film(replace(a_reading(), weights=None))
    with pytest.raises(InputError, match="text changed"):
        film(a_reading(tokens=3), a_reading(tokens=4, step=9))


def test_frames_differ_if_the_weights_differ() -> None:
    frames = lay_out_training_film(a_film())
    first, last = frames.frame_pixels(0), frames.frame_pixels(3)
    assert (first != last).any()
    assert np.array_equal(first, frames.frame_pixels(0))
    assert frames.sample_frames() == [0, 1, 2, 3]
