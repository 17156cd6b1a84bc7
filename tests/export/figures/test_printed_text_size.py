"""Text that would be printed small causes a warning or an error with a sufficient width."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from tests.support.snapshots import shot
from visualizer import app
from visualizer.api.attention_api import attend
from visualizer.errors import InputError
from visualizer.export.figure_settings import MIN_POINTS, FigureSettings
from visualizer.export.figures.figure_page import create_figure_content, lay_out_page
from visualizer.export.figures.printed_text_size import (
    MIN_READABLE_POINTS,
    SmallTextWarning,
    find_small_text,
)
from visualizer.export.writers import export_file, export_to_stream
from visualizer.session.document import BOOK_SENTENCE

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.session.export_snapshot import ExportSnapshot


pytestmark = pytest.mark.usefixtures("qapp")

STAGES = ("scores", "weights", "context")
SIX = ("queries", "keys", "scores", "masked", "weights", "context")


def sized(width: float, height: float | None = None, points: float = 9) -> FigureSettings:
    return FigureSettings(width_mm=width, height_mm=height, points=points, is_trimmed=False)


def found(snapshot: ExportSnapshot, settings: FigureSettings) -> SmallTextWarning | None:
    return find_small_text(
        lay_out_page(create_figure_content(snapshot, settings), settings), snapshot, settings
    )


def small(snapshot: ExportSnapshot, settings: FigureSettings) -> SmallTextWarning:
    one = found(snapshot, settings)
    assert one
    return one


def test_readable_text_is_not_spoken_of() -> None:
    assert found(shot(stages=STAGES), FigureSettings()) is None
    assert found(shot(stages=STAGES), sized(178)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [sized(25), sized(12), sized(40, 40), sized(20, 300), FigureSettings(points=3), sized(500, 20)],
    ids=["said", "refused", "low, too", "high", "small text", "too low"],
)
def test_the_change_offered_is_enough(settings: FigureSettings) -> None:
    snapshot = shot(stages=STAGES)
    one = small(snapshot, settings)
    assert one.points < MIN_READABLE_POINTS
    assert one.is_too_small == (one.points < MIN_POINTS)
    assert one.changes
    assert found(snapshot, replace(settings, **one.changes)) is None


def test_the_width_offered_is_not_far_too_wide() -> None:
    snapshot, settings = shot(stages=STAGES), sized(12)
    width = small(snapshot, settings).changes["width_mm"]
    assert found(snapshot, replace(settings, width_mm=width / 1.3))


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (
            SmallTextWarning(4.29, {"width_mm": 91.0}),
            "The smallest text would be 4.2 pt. Use a width of 91 mm.",
        ),
        (
            SmallTextWarning(2.0, {"width_mm": 91.0, "height_mm": None}),
            "The smallest text would be 2 pt, which is too small for print. "
            "Use a width of 91 mm and "
            "an automatic height.",
        ),
        (
            SmallTextWarning(2.99, {"points": 5.5}),
            "The smallest text would be 2.9 pt, which is too small for print. "
            "Use a text size of 5.5 pt.",
        ),
        (SmallTextWarning(3.0, {}), "The smallest text would be 3 pt. Show fewer panels."),
    ],
)
def test_the_finding_is_described_in_words(one: SmallTextWarning, sentence: str) -> None:
    assert one.advice_message == sentence


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_too_small_text_is_not_written(suffix: str, tmp_path: Path) -> None:
    snapshot, path = shot(stages=STAGES), tmp_path / f"a{suffix}"
    with pytest.raises(InputError, match="too small for print") as refused:
        export_file(path, snapshot, sized(12))
    assert refused.value.field == "size"
    assert not path.exists()
    with pytest.raises(InputError, match="too small for print"):
        export_to_stream(io.BytesIO(), suffix, snapshot, sized(12))
    said: list[str] = []
    export_file(path, snapshot, sized(25), notice=said.append)
    assert said == [small(snapshot, sized(25)).advice_message]
    assert path.exists()


def test_a_web_page_is_not_printed(tmp_path: Path) -> None:
    said: list[str] = []
    export_file(tmp_path / "a.html", shot(stages=STAGES), sized(12), notice=said.append)
    assert not said


def test_the_command_line_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--stages", ",".join(STAGES), "--quiet", "--export", "a.png", "--size"]
    assert app.main([*options, "25mm"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("attention-visualizer: a.png: The smallest text would be ")
    assert "Use a width of " in said
    assert app.main([*options, "12mm"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("attention-visualizer: argument --size: The smallest text would be ")


def test_a_notebook_warns_and_still_shows_the_figure(tmp_path: Path) -> None:
    figure = attend(BOOK_SENTENCE).figure(STAGES, size="25mm")
    with pytest.warns(UserWarning, match="The smallest text would be ") as caught:
        figure.save(tmp_path / "a.png")
    assert caught[0].filename == __file__
    smaller = attend(BOOK_SENTENCE).figure(STAGES, size="12mm")
    with pytest.raises(InputError, match="Use a width of "):
        smaller.save(tmp_path / "b.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert smaller._repr_png_()[0].startswith(b"\x89PNG")


@pytest.mark.parametrize(("heads", "is_tall"), [(1, False), (6, True)])
def test_a_figure_taller_than_a_page_is_written_with_a_notice(
    heads: int, is_tall: bool, tmp_path: Path
) -> None:
    snapshot = shot(heads=heads, d_out=6, stages=("scores", "weights"))
    said: list[str] = []
    export_file(tmp_path / "a.pdf", snapshot, FigureSettings(width_mm=174), notice=said.append)
    assert [sentence for sentence in said if "page" in sentence] == said
    assert bool(said) == is_tall
