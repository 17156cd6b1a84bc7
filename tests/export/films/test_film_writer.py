"""Written animations have one frame per step, with the given duration, painted like figures."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from PySide6.QtGui import QColor

from tests.architecture.project_graph import ROOT
from tests.support.examples import others_slow
from tests.support.small_runs import a_run
from visualizer.errors import InputError
from visualizer.export.figure_settings import AnimationSettings, FigureSettings, FigureTheme
from visualizer.export.film_plan import LAST_FRAME_EXTRA_MS, MOTION_FRAME_MS
from visualizer.export.films.encoders import MAX_COLOURS, ColourPalette, find_changed_rectangle
from visualizer.export.films.film_layout import ASPECT_RATIO, lay_out_animation
from visualizer.export.films.film_writer import estimate_animation
from visualizer.export.formats import FORMATS, FormatKind
from visualizer.export.option_parsing import parse_speed
from visualizer.export.writers import export_file
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.progress import CancelledError
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.timeline import PlaybackPosition, StepSize
from visualizer.session.view import View
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

    from tests.support.playback_viewer import Viewer
    from visualizer.export.figures.figure_page import FigurePage
    from visualizer.export.films.animation_frames import AnimationRenderer
    from visualizer.heatmap.board_layout import PanelSlot

WEIGHTS = AnimationSettings(
    (PlaybackPosition("masked", 4), "weights"), StepSize.ROW, 4, width=640, has_motion=False
)
LOOK = FigureSettings(film=WEIGHTS)
IMAGES = [".gif", ".apng", ".webp"]
SUFFIXES = [each.suffix for each in FORMATS if each.kind is FormatKind.FILM]
FRAME = 4
"""Maximum width of a frame around cells, in pixels."""
NEAR = 12
"""Maximum error of a channel if there are more colours than the format supports."""


@pytest.fixture(autouse=True)
def drawn(application: QApplication) -> None:
    """Provide an application, which fonts require."""


def shot(*texts: str, view: View | None = None, **fields: Any) -> ExportSnapshot:
    return ExportSnapshot(Document(), view or View(), a_run(*texts, **fields))


def needs(suffix: str) -> None:
    if suffix == ".mp4":
        pytest.importorskip("av", reason="films as MP4 need the package av")


def channels(words: np.ndarray) -> np.ndarray:
    return np.stack([words >> 16 & 255, words >> 8 & 255, words & 255], axis=-1).astype(int)


def frames(path: Path) -> tuple[list[np.ndarray], list[int]]:
    """Read an animation and return its frames [row, column, channel] and their durations in ms."""
    with Image.open(path) as image:
        pictures, durations = [], []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            pictures.append(np.array(image.convert("RGB")).astype(int))
            durations.append(round(image.info["duration"]))
        return pictures, durations


@pytest.mark.slow
@pytest.mark.parametrize("suffix", IMAGES)
def test_an_animation_has_a_frame_for_each_step(suffix: str, tmp_path: Path) -> None:
    animation, path = (
        lay_out_animation(shot(), LOOK),
        export_file(tmp_path / f"a{suffix}", shot(), LOOK),
    )
    pictures, durations = frames(path)
    assert len(pictures) == len(animation) == 2 + 6
    assert durations == 7 * [500] + [500 + LAST_FRAME_EXTRA_MS]
    assert {picture.shape for picture in pictures} == {(animation.size[1], animation.size[0], 3)}
    assert animation.size[0] == 640
    for number, picture in enumerate(pictures):
        away = np.abs(picture - channels(animation.frame_pixels(number)))
        assert np.quantile(away, 0.999) <= (NEAR if suffix == ".gif" else 0)
        assert away.mean() < 0.5


@pytest.mark.parametrize("width", [640, 1280])
def test_operands_stay_bright_while_they_move(width: int) -> None:
    film = AnimationSettings((PlaybackPosition("scores", 3), "scores"), StepSize.ROW, width=width)
    animation = lay_out_animation(shot(), FigureSettings(film=film))
    moving = [at for at, one in enumerate(animation.film.frames) if one.motion_progress is not None]
    page, _ = animation.lay_out_frame(moving[0])
    flow, scale = page.layout.flow, page.scale * animation.ratio
    assert flow
    (keys,) = (
        slot
        for column, slot in zip(flow.panels.columns, flow.operands, strict=True)
        if slot and column.operand == "keys"
    )
    corner = (keys.cells.topLeft() + page.at + page.panels.topLeft()) * scale
    high, wide = int(keys.cells.height() * scale), int(keys.cells.width() * scale)
    part = (
        slice(int(corner.y()) + FRAME, int(corner.y()) + high - FRAME),
        slice(int(corner.x()) + FRAME, int(corner.x()) + wide - FRAME),
    )
    at_rest = channels(animation.frame_pixels(len(animation) - 1))[part]
    for at in moving:
        now = channels(animation.frame_pixels(at))[part]
        is_paler = (now - at_rest).sum(-1) > 60  # also where moving cells cover a number
        assert is_paler.mean() < 0.4


@pytest.mark.parametrize("suffix", IMAGES)
def test_the_slowest_animation_that_can_be_asked_for_is_written(
    suffix: str, tmp_path: Path
) -> None:
    film = replace(WEIGHTS, grain=StepSize.STAGE, speed=parse_speed("0.05"))
    path = export_file(tmp_path / f"a{suffix}", shot(), replace(LOOK, film=film))
    assert frames(path)[1] == [80_000, 80_000 + LAST_FRAME_EXTRA_MS]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", IMAGES)
@pytest.mark.parametrize("loops", [True, False])
def test_an_animation_begins_again_or_not(suffix: str, loops: bool, tmp_path: Path) -> None:
    figure_settings = replace(LOOK, film=replace(WEIGHTS, loops=loops))
    with Image.open(export_file(tmp_path / f"a{suffix}", shot(), figure_settings)) as image:
        assert image.info.get("loop") == {True: 0, False: None if suffix == ".gif" else 1}[loops]


@pytest.mark.slow
def test_an_animation_as_video(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="films as MP4 need the package av")
    figure_settings = replace(LOOK, film=replace(WEIGHTS, width=1280))
    animation, path = (
        lay_out_animation(shot(), figure_settings),
        export_file(tmp_path / "a.mp4", shot(), figure_settings),
    )
    with av.open(str(path)) as container:
        (stream,) = container.streams
        decoded = list(container.decode(stream))
        assert float(stream.duration * stream.time_base) == (8 * 500 + LAST_FRAME_EXTRA_MS) / 1000
    assert [round(frame.time * 1000) for frame in decoded] == [500 * at for at in range(8)]
    assert {(frame.width, frame.height) for frame in decoded} == {animation.size}
    for number, frame in enumerate(decoded):
        picture = frame.to_ndarray(format="rgb24", src_colorspace="ITU709").astype(int)
        away = np.abs(picture - channels(animation.frame_pixels(number)))
        assert away.mean() < 4  # half of the colours have a quarter of the pixels
        for colour, point in cells_of(animation, number, "weights"):
            assert np.abs(picture[point] - channels(colour)).max() <= 16


def test_without_its_usual_coder_there_is_a_video_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    av = pytest.importorskip("av", reason="films as MP4 need the package av")
    monkeypatch.setattr(av, "codecs_available", frozenset())
    with av.open(str(export_file(tmp_path / "a.mp4", shot(), LOOK))) as container:
        (stream,) = container.streams
        assert stream.codec_context.name == "mpeg4"
        first, *others = container.decode(stream)
        assert len(others) == 7
    picture = first.to_ndarray(format="rgb24", src_colorspace="ITU709").astype(int)
    assert np.abs(picture - channels(lay_out_animation(shot(), LOOK).frame_pixels(0))).mean() < 4


# ------------------------------------------------------------------------------ what is in them


def corner(animation: AnimationRenderer, slot: PanelSlot, row: int, column: int) -> tuple[int, int]:
    """Return the position of a pixel in a cell that is not covered by its value or its frame."""
    page = animation.first
    place = slot.cell_area(row, column).translated(page.panels.topLeft())
    x = (place.left() + 0.25 * place.width()) * page.scale * animation.ratio
    y = (place.top() + 0.25 * place.height()) * page.scale * animation.ratio
    return int(y), int(x)


def cells_of(
    animation: AnimationRenderer, frame: int, stage: str
) -> list[tuple[np.ndarray, tuple[int, int]]]:
    """Yield the expected colour of each cell of a stage, and the position of a pixel in it."""
    page, found = animation.lay_out_frame(frame)[0], []
    step = animation.film.position_of_frame(frame)
    for slot in page.layout.slots:
        if slot.heatmap.stage == stage == step.stage:
            indices = colour_mapping.colour_indices(slot.heatmap)
            words = (
                colour_mapping.colour_table(slot.heatmap.colour.map, page.theme)[indices] & 0xFFFFFF
            )
            for row, column in np.ndindex(*indices.shape):
                if indices[row, column] != colour_mapping.FORBIDDEN or row > step.row:
                    paper = np.array(int(page.theme.paper[1:], 16))
                    colour = words[row, column] if row <= step.row else paper
                    found.append((colour, corner(animation, slot, row, column)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "paper",
    [
        FigureTheme.LIGHT,
        *(
            pytest.param(paper, marks=pytest.mark.slow)
            for paper in FigureTheme
            if paper != FigureTheme.LIGHT
        ),
    ],
)
@pytest.mark.parametrize("suffix", others_slow(IMAGES))
def test_cells_have_the_colours_of_their_numbers(
    suffix: str, paper: FigureTheme, tmp_path: Path
) -> None:
    figure_settings = replace(LOOK, paper=paper, film=replace(WEIGHTS, width=1280))
    animation = lay_out_animation(shot(), figure_settings)
    pictures, _ = frames(export_file(tmp_path / f"a{suffix}", shot(), figure_settings))
    for number in (2, 4, 7):
        cells = cells_of(animation, number, "weights")
        assert len(cells) > 20
        for colour, point in cells:
            away = np.abs(pictures[number][point] - channels(colour)).max()
            assert away <= (3 if suffix == ".gif" else 0)


def last_pages(animation: AnimationRenderer) -> list[FigurePage]:
    """Return the last page of each stage."""
    return [animation.lay_out_frame(frame)[0] for frame in animation.sample_frames()]


@pytest.mark.parametrize("tokens", [1, 6, 40])
def test_no_panel_moves_from_stage_to_stage(tokens: int) -> None:
    film = AnimationSettings(grain=StepSize.ROW)
    animation = lay_out_animation(
        shot(" ".join(tokens * ["word"]), heads=2), FigureSettings(film=film)
    )
    pages = last_pages(animation)
    assert len(pages) == len(animation.film.stages)
    places = {tuple(slot.cells.getRect() for slot in page.layout.slots) for page in pages}
    assert len(places) == 1
    for page in pages:
        bottom = (page.panels.top() + page.layout.height) * page.scale
        assert bottom <= animation.margins.words.top() * animation.margins.scale + 0.01
        assert page.layout.width <= page.panels.width() + 0.01
    assert animation.size == (1280, round(1280 * ASPECT_RATIO))


PART = View(zoom=ZoomRange(range(1, 4), range(2, 5)))


@pytest.mark.parametrize(
    ("view", "tokens", "heads"),
    [
        (PART, 6, 2),
        (replace(PART, zoom=ZoomRange(range(60), range(30))), 100, 8),
        (View(), 100, 8),
        (View(), 97, 4),
        (View(), 200, 16),
        (View(heads=frozenset({0}), large="weights"), 6, 2),
    ],
)
def test_an_animation_of_a_part_or_of_pooled_panels_is_laid_out(
    view: View, tokens: int, heads: int
) -> None:
    snapshot = shot(" ".join(tokens * ["word"]), view=view, heads=heads, d_out=16)
    film = AnimationSettings(grain=StepSize.STAGE)
    for page in last_pages(lay_out_animation(snapshot, FigureSettings(film=film))):
        heights = {round(slot.cell_height, 3) for slot in page.layout.slots}
        assert len(heights) == 1
        assert page.layout.height <= page.panels.height() + 0.01


def test_an_animation_is_as_high_as_requested() -> None:
    figure_settings = FigureSettings(
        width_mm=338.667, height_mm=190.5, film=replace(WEIGHTS, width=1920)
    )
    assert lay_out_animation(shot(), figure_settings).size == (1920, 1080)


@pytest.mark.parametrize(("width", "height"), [(1000, 600), (640, 360), (300, 800)])
def test_captions_are_below_the_board_in_small_frames(width: int, height: int) -> None:
    mm = 25.4 / 192  # the page is half as large as the frame
    figure_settings = FigureSettings(
        width_mm=width * mm, height_mm=height * mm, film=AnimationSettings(width=width)
    )
    animation = lay_out_animation(shot(), figure_settings)
    assert animation.size == (width, height)
    placement = last_pages(animation)[-1].layout.flow
    assert placement
    bottom = animation.margins.title_at.bottom() + placement.layout.bottom
    assert bottom <= animation.margins.words.top()


def test_an_animation_has_the_heads_of_the_view_and_neither_folds_nor_guesses() -> None:
    view = View(heads=frozenset({1}), spread=True)
    animation = lay_out_animation(shot(view=view), LOOK)
    slots = [slot for page in last_pages(animation) for slot in page.layout.slots]
    assert {slot.heatmap.head for slot in slots} == {1, None}
    assert {slot.heatmap.fold for slot in slots} == {None}


def test_a_cell_is_marked_as_soon_as_it_is_there() -> None:
    pinned = Cell("weights", (0, 3, 1))
    animation = lay_out_animation(shot(view=View(pinned=pinned)), LOOK)
    marked = [
        animation.lay_out_frame(frame)[0].figure.cursor.pinned for frame in range(len(animation))
    ]
    assert marked == 5 * [None] + 3 * [pinned]
    bare = lay_out_animation(shot(view=View(pinned=pinned)), replace(LOOK, has_marks=False))
    assert bare.lay_out_frame(7)[0].figure.cursor.pinned is None


def test_each_frame_describes_its_step() -> None:
    animation = lay_out_animation(shot(), LOOK)
    told = [animation.lay_out_frame(frame)[1] for frame in range(len(animation))]
    assert len({transport.caption for transport in told}) == len(animation)
    assert [transport.position for transport in told] == [*animation.film.steps]
    top = int(animation.margins.words.top() * animation.ratio)
    below = [animation.frame_pixels(frame)[top:] for frame in (2, 3)]
    assert (below[0] != below[1]).sum() > 100


def test_an_animation_has_the_captions_of_the_window(viewer: Viewer) -> None:
    viewer.hand.choose("Steps", "By row")
    viewer.window.controllers.playback_controller.seek_stage("masked")
    viewer.hand.settle()
    for _ in range(4):
        viewer.click("playback.step 1")
    made = viewer.window.workspace.snapshot
    assert made
    page, told = lay_out_animation(made, LOOK).lay_out_frame(0)
    assert told.caption == viewer.shown.caption != ""
    assert told.equation == viewer.shown.equation
    assert told.position == viewer.shown.position
    shown = viewer.window.workspace.screen.panel(BOARD_CONTENTS).highlights
    assert page.figure.highlights.blocks == shown.blocks
    assert page.figure.highlights.computed_extents == shown.computed_extents


def test_the_shortest_animation_is_of_one_step(tmp_path: Path) -> None:
    film = AnimationSettings(
        (PlaybackPosition("weights"), "weights"), StepSize.STAGE, width=640, has_motion=False
    )
    figure_settings = FigureSettings(film=film)
    for suffix in IMAGES:
        pictures, durations = frames(
            export_file(tmp_path / f"a{suffix}", shot("one"), figure_settings)
        )
        assert len(pictures) == 1
        assert durations in ([4000 + LAST_FRAME_EXTRA_MS], [0])  # a single image has no duration
        assert estimate_animation(shot("one"), figure_settings, suffix).bytes > 0


# ------------------------------------------------------------------------------ what moves in it

MOVING = replace(WEIGHTS, span=(PlaybackPosition("scores", 4), "scaled"), has_motion=True)
MOTION_FRAMES = 10
"""The number of motion frames in a step of 0.5 seconds."""


@pytest.mark.slow
@pytest.mark.parametrize("paper", [FigureTheme.LIGHT, FigureTheme.DARK])
def test_inputs_move_between_the_steps_of_an_animation(paper: FigureTheme) -> None:
    moving = lay_out_animation(shot(), FigureSettings(film=MOVING, paper=paper))
    still_film = replace(MOVING, has_motion=False)
    bare = lay_out_animation(shot(), FigureSettings(film=still_film, paper=paper))
    assert len(moving) == len(bare) * (MOTION_FRAMES + 1)
    for step in range(len(bare)):
        frames = [step * (MOTION_FRAMES + 1) + at for at in range(MOTION_FRAMES + 1)]
        *pictures, still = [moving.frame_pixels(frame) for frame in frames]
        np.testing.assert_array_equal(still, bare.frame_pixels(step))
        is_travelling = moving.film.position_of_frame(frames[0]).stage == "scores"  # no motion
        for one, other in itertools.pairwise([*pictures, still]):
            assert (one != other).any() or not is_travelling
        assert all((picture != still).any() for picture in pictures)
        top = int(moving.margins.words.top() * moving.ratio)
        for picture in pictures:  # the step's caption is visible from the first frame
            np.testing.assert_array_equal(picture[top:], still[top:])


def test_frames_may_be_painted_in_any_order() -> None:
    moving = lay_out_animation(shot(), FigureSettings(film=MOVING))
    forward = [moving.frame_pixels(frame) for frame in range(12)]
    for frame in reversed(range(12)):
        np.testing.assert_array_equal(moving.frame_pixels(frame), forward[frame])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", IMAGES)
def test_an_animation_with_motion_lasts_as_long_as_one_without(suffix: str, tmp_path: Path) -> None:
    film = replace(MOVING, span=(PlaybackPosition("scaled", 4), "scaled"))
    figure_settings = FigureSettings(film=film)
    path = export_file(tmp_path / f"a{suffix}", shot(), figure_settings)
    pictures, durations = frames(path)
    assert len(pictures) == 2 * (MOTION_FRAMES + 1)
    step = MOTION_FRAMES * [MOTION_FRAME_MS] + [500 - MOTION_FRAMES * MOTION_FRAME_MS]
    assert durations == [*step, *step[:-1], step[-1] + LAST_FRAME_EXTRA_MS]
    animation = lay_out_animation(shot(), figure_settings)
    for number, picture in enumerate(pictures):
        away = np.abs(picture - channels(animation.frame_pixels(number)))
        assert np.quantile(away, 0.99) <= (NEAR if suffix == ".gif" else 0)


# ----------------------------------------------------------------------------- on their way


@pytest.mark.parametrize("suffix", others_slow(SUFFIXES))
def test_progress_is_reported_at_each_frame(suffix: str, tmp_path: Path) -> None:
    needs(suffix)
    told: list[tuple[int, int]] = []
    export_file(tmp_path / f"a{suffix}", shot(), LOOK, lambda *done: told.append(done))
    assert told == sorted(told)
    assert {of for _, of in told} == {8}
    assert {done for done, _ in told} == {*range(9)}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("last", [0, 3, 8])
def test_a_cancelled_export_keeps_the_old_file(suffix: str, last: int, tmp_path: Path) -> None:
    needs(suffix)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")

    def stop(done: int, of: int) -> None:
        if done == last:
            raise CancelledError

    with pytest.raises(CancelledError):
        export_file(path, shot(), LOOK, stop)
    assert path.read_bytes() == b"old"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.slow
def test_a_longer_animation_needs_no_more_memory(suffix: str, tmp_path: Path) -> None:
    needs(suffix)
    made, peaks = shot(), []
    short = AnimationSettings(
        (PlaybackPosition("weights", 5), "weights"), StepSize.ROW, speed=2, width=320
    )
    whole = replace(short, span=(PlaybackPosition("weights", 2), "weights"))
    frame = lay_out_animation(made, FigureSettings(film=short)).frame_pixels(0).nbytes
    # Objects that are loaded only once do not count.
    export_file(tmp_path / f"a{suffix}", made, FigureSettings(film=short))
    for film in (short, whole):
        figure_settings = FigureSettings(film=film)
        tracemalloc.start()
        export_file(tmp_path / f"a{suffix}", made, figure_settings)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + frame


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.slow
def test_the_size_is_reported_beforehand(suffix: str, tmp_path: Path) -> None:
    needs(suffix)
    film = AnimationSettings(
        (PlaybackPosition("scores", 2), "scores"), StepSize.ROW, speed=4, width=320
    )
    made, figure_settings = shot(), FigureSettings(film=film)
    size = export_file(tmp_path / f"a{suffix}", made, figure_settings).stat().st_size
    assert size / 2 < estimate_animation(made, figure_settings, suffix).bytes < size * 2


def test_without_its_package_a_video_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visualizer.export.formats.is_installed", lambda name: False)
    with pytest.raises(InputError, match="MP4 requires PyAV"):
        export_file(tmp_path / "a.mp4", shot(), LOOK)
    assert [*tmp_path.iterdir()] == []


# --------------------------------------------------------------------------- colours and parts


def test_few_colours_stay_as_they_are() -> None:
    words = np.arange(MAX_COLOURS, dtype=np.uint32).reshape(5, -1) * 1000
    palette = ColourPalette([words])
    np.testing.assert_array_equal(palette.colours[palette.nearest_indices(words)], words)


def test_many_colours_are_approximated() -> None:
    ramp = np.arange(256, dtype=np.uint32)
    words = np.stack([ramp << 16 | 0x40, ramp << 8, ramp | 0x800000, ramp * 0x10101])
    palette = ColourPalette([words[:2], words[2:]])
    assert len(palette.table_bytes) == 768
    away = np.abs(channels(palette.colours[palette.nearest_indices(words)]) - channels(words))
    assert away.max() <= 6
    unseen = np.array([0x41], np.uint32)
    assert palette.colours[palette.nearest_indices(unseen)] == 0x40


def test_a_patch_holds_what_changes_and_nothing_else() -> None:
    before = np.zeros((8, 9), np.uint32)
    after = before.copy()
    after[3, 5], after[6, 4] = 0x010203, 0x040506
    change = find_changed_rectangle(before, after)
    assert (change.left, change.top, change.size) == (4, 2, (2, 5))
    assert change.rgba[1, 1].tolist() == [1, 2, 3, 255]
    assert change.rgba[..., 3].sum() == 2 * 255
    assert find_changed_rectangle(before, before).size == (1, 1)


@pytest.mark.slow
def test_frames_are_painted_while_connections_end_on_another_thread() -> None:
    """If painting a line connected signals, the two threads would deadlock."""
    module = "tests.support.concurrent_painting"
    ended = subprocess.run(
        [sys.executable, "-m", module, "20000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.stdout == "True True\n", ended.stderr


@pytest.mark.parametrize("first", [None, "scores", "weights", "context", "output"])
def test_the_first_frame_shows_numbers(first: str | None) -> None:
    """Other programs use the first frame as a thumbnail."""
    span = (PlaybackPosition(first), "output") if first else None
    film = lay_out_animation(shot(), FigureSettings(film=AnimationSettings(span)))
    page, _ = film.lay_out_frame(0)
    seen, paper = film.frame_pixels(0), QColor(page.theme.paper).rgb() & 0xFFFFFF
    scale = page.scale * film.ratio
    areas = [slot.cells.translated(page.panels.topLeft()) for slot in page.layout.slots]
    boxes = [
        [round(edge * scale) for edge in (one.left(), one.top(), one.right(), one.bottom())]
        for one in areas
    ]
    inked = [
        (seen[top + 3 : bottom - 3, left + 3 : right - 3] != paper).mean()
        for left, top, right, bottom in boxes
    ]
    assert max(inked) > 0.1
