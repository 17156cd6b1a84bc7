"""Exports of one or all layers and texts, in chosen colours and sizes, and to standard output."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtGui import QImage, QImageReader

from tests.architecture.project_graph import ROOT
from tests.cli.test_options import run
from visualizer import app
from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.cli import export_files
from visualizer.cli.option_checks import AFFECTED_FORMATS, first_export_option_error
from visualizer.cli.options import OPTION_GROUPS, create_parser, option_name
from visualizer.documents.open_document import open_document
from visualizer.export.films import film_writer
from visualizer.export.films.film_writer import AnimationEstimate
from visualizer.export.formats import FORMATS, FormatKind
from visualizer.export.option_parsing import SIZE_PRESETS
from visualizer.language.training_presets import PRESETS
from visualizer.session.view_options import COLOUR_MAPS, DEFAULT_MAP


@pytest.fixture(autouse=True)
def one_application(qapp: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")  # the program sets it; restore it
    monkeypatch.chdir(tmp_path)


def exported(options: str) -> None:
    assert app.main([*options.split(), "--quiet"]) == 0


def values(name: str) -> list[float]:
    rows = Path(name).read_text(encoding="utf-8-sig").splitlines()[1:]
    return [float(row.rsplit(",", 1)[1]) for row in rows]


def captured_layers() -> np.ndarray:
    layers = np.random.default_rng(1).random((3, 2, 4, 4))
    layers /= layers.sum(axis=-1, keepdims=True)
    np.save("layers.npy", layers)
    return layers


# ---------------------------------------------------------------------------- layers and texts


@pytest.mark.parametrize("layer", [1, 3])
def test_a_layer_of_captured_attention_is_exported(layer: int) -> None:
    layers = captured_layers()
    exported(f"layers.npy --layer {layer} --export a.csv")
    np.testing.assert_allclose(values("a.csv"), layers[layer - 1].ravel())


def test_each_layer_has_a_file(tmp_path: Path) -> None:
    layers = captured_layers()
    exported("layers.npy --layer all --export a.csv --export a.png --export whole.npz")
    for layer in range(3):
        np.testing.assert_allclose(values(f"a-layer{layer + 1}.csv"), layers[layer].ravel())
    pictures = {f"a-layer{layer}.{suffix}" for layer in (1, 2, 3) for suffix in ("csv", "png")}
    assert {path.name for path in tmp_path.iterdir()} == {*pictures, "layers.npy", "whole.npz"}


def test_each_text_of_a_batch_has_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--text", "one two", "--text", "three four", "--stages", "weights"]
    assert app.main([*arguments, "--text-shown", "all", "--export", "a.md"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert [line.removeprefix("attention-visualizer: ") for line in said] == [
        "a-text1.md written.",
        "a-text2.md written.",
    ]
    assert app.main([*arguments, "--text-shown", "2", "--export", "b.md"]) == 0
    second = Path("a-text2.md").read_text(encoding="utf-8")
    assert "three" in second
    assert Path("b.md").read_text(encoding="utf-8") == second


def test_a_document_is_saved_as_it_was_shown() -> None:
    captured_layers()
    exported("layers.npy --layer 2 --colour-map magma --colour-map CET-D6 --export a.attention")
    view = open_document(Path("a.attention")).view
    assert (view.layer, view.colouring.sequential, view.colouring.diverging) == (
        1,
        "magma",
        "CET-D6",
    )


# --------------------------------------------------------------------------- options by format

OPTION_VALUES = {
    "--format": ("csv",),
    "--stages": ("weights",),
    "--heads-shown": ("1",),
    "--layer": ("1",),
    "--text-shown": ("1",),
    "--layout": ("panel",),
    "--colour-map": ("magma",),
    "--theme": ("dark",),
    "--size": ("slide",),
    "--dpi": ("90",),
    "--title": ("Weights",),
    "--span": ("scores..weights",),
    "--grain": ("stage",),
    "--speed": ("2",),
}
"""Values of the options for exported files; the other options are flags."""
FILM_SUFFIXES = {each.suffix for each in FORMATS if each.kind is FormatKind.FILM}
FILE_OPTIONS = [
    option
    for title in ("Files to write", "File contents", "Animations")
    for option in OPTION_GROUPS[title]
    if option != "--export"
]


def test_the_formats_that_an_option_affects_are_known() -> None:
    assert sorted(map(option_name, AFFECTED_FORMATS)) == sorted(FILE_OPTIONS)


@pytest.mark.parametrize("option", FILE_OPTIONS)
def test_an_option_affects_a_format_or_is_rejected(option: str) -> None:
    parser = create_parser()
    (field,) = (name for name in AFFECTED_FORMATS if option_name(name) == option)
    for suffix in (each.suffix for each in FORMATS if not each.needs):
        target = ["--export", "-"] if option == "--format" else ["--export", f"a{suffix}"]
        others = ["--size", "slide"] if option == "--dpi" and suffix in FILM_SUFFIXES else []
        arguments = [option, *OPTION_VALUES.get(option, ()), *others, *target]
        is_affected = any(each.suffix == suffix for each in AFFECTED_FORMATS[field])
        error = first_export_option_error(parser.parse_args(arguments))
        assert (error is None) is is_affected, suffix
        assert error is None or error.startswith(f"{option} affects only .")


# --------------------------------------------------------------------------- colours and sizes


@pytest.mark.slow
def test_a_colour_map_colours_the_image() -> None:
    exported("--stages weights --export usual.png")
    exported(f"--stages weights --colour-map {DEFAULT_MAP} --export same.png")
    exported("--stages weights --colour-map CET-L1 --export grey.png")
    assert QImage("usual.png") == QImage("same.png")
    assert QImage("usual.png") != QImage("grey.png")


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ("--size 640x480px", (640, 480)),
        ("--size 320x240px --dpi 96", (320, 240)),
        ("--size 5x4in --dpi 100", (500, 400)),
        ("--size slide", (1920, 1080)),
    ],
)
def test_an_animation_has_the_size_that_was_requested(options: str, size: tuple[int, int]) -> None:
    exported(f"{options} --grain stage --span weights..weights --export a.gif --text one")
    read = QImageReader("a.gif").size()
    assert (read.width(), read.height()) == size


def test_an_animation_that_is_too_large_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--size", "5000x300px", "--grain", "stage", "--export", "a.gif"]) == 2
    assert capsys.readouterr().err == (
        "attention-visualizer: argument --size: An animation must be at most 4,096 pixels wide "
        "and high. It is 5,000 × 300 pixels. Choose a smaller size.\n"
    )


def test_an_animation_that_is_too_long_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--text", 60 * "word ", "--span", "scores..", "--grain", "cell"]
    assert app.main([*options, "--export", "a.gif"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("attention-visualizer: argument --span: The animation has ")
    assert said.endswith("Choose fewer stages, or animate by row or by stage.\n")
    assert not Path("a.gif").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seconds", "takes"),
    [(10, "less than a minute"), (70, "about 1 minute"), (185, "about 3 minutes")],
)
def test_a_long_animation_is_announced_before_it_is_made(
    seconds: float, takes: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = AnimationEstimate(1000, seconds)
    monkeypatch.setattr(film_writer, "estimate_animation", lambda *_: made)
    monkeypatch.setattr(export_files, "MAX_UNESTIMATED_FRAMES", 7)
    options = ["--size", "200x150px", "--span", "scores..weights", "--text", "one two"]
    assert app.main([*options, "--export", "a.gif"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert re.search(rf"a\.gif: writing \d+ frames takes {takes}\.$", lines[0])
    options.append("--no-motion")
    assert app.main([*options, "--export", "a.gif"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"attention-visualizer: a.gif: writing 8 frames takes {takes}."
    assert lines[-1].endswith("a.gif written.")
    assert app.main([*options, "--export", "a.gif", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_a_short_animation_is_announced_without_making_frames_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(film_writer, "estimate_animation", None)
    monkeypatch.setattr(export_files, "MAX_UNESTIMATED_FRAMES", 8)
    options = ["--size", "200x150px", "--span", "scores..weights", "--text", "one two"]
    assert app.main([*options, "--no-motion", "--export", "b.gif"]) == 0
    assert capsys.readouterr().err == (
        "attention-visualizer: b.gif: writing 8 frames takes less than a minute.\n"
        "attention-visualizer: b.gif written.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "said", "pixels"),
    [
        ("201x151px", "size changes from 201 × 151 pixels to 202 × 152 pixels.", (202, 152)),
        ("200x151px", "size changes from 200 × 151 pixels to 200 × 152 pixels.", (200, 152)),
        ("201px", "width changes from 201 pixels to 202 pixels.", None),
        ("200x150px", "", (200, 150)),
    ],
)
def test_the_rounding_of_odd_sizes_is_reported(
    size: str, said: str, pixels: tuple[int, int] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--size", size, "--grain", "stage", "--no-motion", "--text", "one two"]
    assert app.main([*options, "--export", "a.gif"]) == 0
    assert ("must be even, so the " + said in capsys.readouterr().err) == bool(said)
    read = QImageReader("a.gif").size()
    assert pixels is None or (read.width(), read.height()) == pixels
    assert read.width() % 2 == read.height() % 2 == 0


@pytest.mark.slow
def test_the_time_of_an_animation_is_estimated_from_some_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(export_files, "MAX_UNESTIMATED_FRAMES", 3)
    options = ["--size", "200x150px", "--span", "scores..weights", "--text", "one two"]
    assert app.main([*options, "--export", "a.gif"]) == 0
    assert "frames takes less than a minute." in capsys.readouterr().err


# ----------------------------------------------------------------------------- standard output


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "png", "npz", "gif"])
def test_standard_output_has_what_a_file_has(
    suffix: str, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    options = "--text one --stages weights" if suffix in {"csv", "png"} else "--text one"
    options += " --grain stage --size 200x150px --no-motion" if suffix == "gif" else ""
    assert app.main([*options.split(), "--export", "-", "--format", suffix]) == 0
    captured = capfdbinary.readouterr()
    *announced, last = captured.err.splitlines()
    assert last == b"attention-visualizer: standard output written."
    assert len(announced) == (suffix == "gif")
    exported(f"{options} --export a.{suffix}")
    assert captured.out == (tmp_path / f"a.{suffix}").read_bytes()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("suffix", "is_refused"),
    [("png", True), ("npz", True), ("mp4", True), ("csv", False), ("svg", False), ("json", False)],
)
def test_only_text_is_written_to_a_terminal(
    suffix: str,
    is_refused: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(terminal, "buffer", io.BytesIO(), raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    status = app.main(["--text", "one", "--export", "-", "--format", suffix])
    said = capsys.readouterr().err
    if is_refused:
        assert (status, said) == (
            2,
            f"attention-visualizer: argument --export: {suffix.upper()} is a binary format and "
            "cannot be written to a terminal. Redirect standard output, or specify a file.\n",
        )
    else:
        assert status == 0
    buffer = terminal.buffer
    assert isinstance(buffer, io.BytesIO)
    assert bool(buffer.getvalue()) is not is_refused


def test_a_program_without_standard_output_reports_this(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", None)
        assert app.main(["--export", "-", "--format", "csv"]) == 2
        with pytest.raises(SystemExit):
            app.main(["--list", "stages"])
    assert capsys.readouterr().err == (
        "attention-visualizer: argument --export: standard output is not available. "
        "Specify a file.\n"
    )


@pytest.mark.skipif(os.name == "nt", reason="needs a pipe of POSIX")
@pytest.mark.slow
@pytest.mark.parametrize("command", [["--list", "stages"], ["--export", "-", "--format", "csv"]])
def test_a_reader_that_leaves_early_gets_no_traceback(command: list[str]) -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    ended = subprocess.run(
        [sys.executable, "-m", "visualizer", *command],
        cwd=ROOT,
        stdout=theirs,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        check=False,
    )
    os.close(theirs)
    is_list = command[0] == "--list"
    said = "attention-visualizer: Cannot write to standard output: Broken pipe.\n"
    assert (ended.returncode, ended.stderr) == ((0, "") if is_list else (1, said))


# ----------------------------------------------------------------------------------------- lists


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("--list stages", STAGE_ORDER),
        ("--list formats", [each.suffix[1:] for each in FORMATS]),
        ("--list presets", [*SIZE_PRESETS]),
        ("--list colour-maps", [each.id for each in COLOUR_MAPS]),
        ("train --list presets", [each.name for each in PRESETS]),
    ],
)
def test_a_list_has_a_line_for_each_with_what_it_is(
    command: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(command.split())
    captured = capsys.readouterr()
    assert (ended.value.code, captured.err) == (0, "")
    lines = [line.split(maxsplit=1) for line in captured.out.splitlines()]
    assert [name for name, _ in lines] == [*names]
    assert all(words.strip() for _, words in lines)


@pytest.mark.slow
def test_a_list_is_printed_where_standard_output_has_few_characters(tmp_path: Path) -> None:
    ended = run(["--list", "stages"], tmp_path, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "scores divided by ?d" in ended.stdout
