"""The command line exports the book's values and images of them, without a window."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace
from PySide6.QtGui import QColor, QImage, QImageReader

import visualizer
from tests.architecture.project_graph import ROOT
from tests.cli.test_options import document, run
from tests.export.test_export_controller import NoImage
from visualizer import app
from visualizer.attention.run import run as compute
from visualizer.attention.spec import Device
from visualizer.console import ConsoleProgress
from visualizer.documents.document_file import write_document
from visualizer.errors import InputError
from visualizer.export.figures import rasterization
from visualizer.heatmap.board_presenter import present_board
from visualizer.session.document import Document
from visualizer.session.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine
    from visualizer.attention.run import Run
    from visualizer.heatmap.board import Board
    from visualizer.session.resolved_view import ResolvedView

BOOK: dict[str, Any] = json.loads(
    (ROOT / "tests" / "golden" / "chapter3.json").read_text(encoding="utf-8")
)

PRINTED = [
    ("--mechanism simplified", "3.3.2", "scores", "scores"),
    ("--mechanism simplified", "3.3.2", "weights", "weights"),
    ("--mechanism simplified", "3.3.2", "context", "context"),
    ("--mechanism self --projection uniform", "3.4.2 SelfAttentionV1", "context", "context"),
    ("--mechanism self --seed 789", "3.4.2 SelfAttentionV2", "context", "context"),
    ("--mechanism causal --seed 789", "3.5.1", "weights (both", "weights"),
    ("--mechanism causal", "3.5.3", "context", "context"),
    ("--mechanism causal --heads 2", "3.6.1", "context", "concat"),
    ("--mechanism stacked", "3.6.1", "context", "concat"),
    ("--mechanism multi-head", "3.6.2", "output", "output"),
    ("", "3.6.2", "output", "output"),
]


def printed(section: str, name: str) -> np.ndarray:
    (found,) = (value for key, value in BOOK.items() if key.startswith(section))
    (rows,) = (value for key, value in found.items() if key.startswith(name))
    return np.asarray(rows, dtype=float)


def numbers(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def without_fonts(factory: pytest.TempPathFactory) -> str:
    """Return the fontconfig file of a system without fonts."""
    file = factory.mktemp("fonts") / "fonts.conf"
    file.write_text('<?xml version="1.0"?><fontconfig></fontconfig>')
    return str(file)


# ------------------------------------------------------------------------------- in a real shell


@pytest.mark.slow
def test_the_numbers_of_a_shell_without_a_screen_and_a_home(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    fonts = without_fonts(tmp_path_factory)  # which data exports do not need
    options = ["--export", "numbers.npz", "--mechanism", "causal", "--heads", "2"]
    ended = run(options, tmp_path, FONTCONFIG_FILE=fonts)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr == "attention-visualizer: numbers.npz written.\n"
    arrays = numbers(tmp_path / "numbers.npz")
    expected = printed("3.6.1", "context")
    np.testing.assert_allclose(arrays["concat"], expected, rtol=0, atol=1e-4)
    assert arrays["tokens"].tolist() == BOOK["tokens"]
    assert [path.name for path in tmp_path.iterdir()] == ["numbers.npz"]


@pytest.mark.slow
def test_the_image_of_a_shell_without_a_screen_and_a_home(tmp_path: Path) -> None:
    text = "我爱 🙂 <b> سلام"
    ended = run(["--export", "picture.png", "--text", text, "--quiet"], tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "")
    said = ended.stderr.splitlines()
    assert [line for line in said if ": No installed font contains " not in line] == []
    image = QImage(str(tmp_path / "picture.png"))
    assert min(image.width(), image.height()) > 500
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]


@pytest.mark.slow
def test_the_package_is_the_program(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['', '--version']\n"
    ended = python(f"{code}import runpy; runpy.run_module('visualizer', run_name='__main__')")
    assert (ended.returncode, ended.stdout) == (
        0,
        f"attention-visualizer {visualizer.__version__}\n",
    )


@pytest.mark.skipif(sys.platform != "linux", reason="where fonts are told by fontconfig")
@pytest.mark.slow
def test_figures_need_no_installed_font(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    no_fonts = without_fonts(tmp_path_factory)
    for name, environment in (("a.png", {}), ("b.png", {"FONTCONFIG_FILE": no_fonts})):
        ended = run(["--export", name, "--quiet"], tmp_path, **environment)
        assert (ended.returncode, ended.stderr) == (0, "")
    # Both have text of the same size; only fontconfig's hinting differs.
    usual, bare = (QImage(str(tmp_path / name)) for name in ("a.png", "b.png"))
    assert bare.width() == pytest.approx(usual.width(), abs=4)
    assert bare.height() == pytest.approx(usual.height(), abs=4)


HALF_WRITTEN = """
import os, signal, sys
from visualizer import app
from visualizer.export import writers
from visualizer.session.resolved_view import ResolvedView
from visualizer.heatmap.board_presenter import present_board

signal.signal(getattr(signal, sys.argv[1]), signal.SIG_DFL)  # who runs the tests may ignore it

write = writers.WRITERS[".npz"]

def stopped(shot, look, file, progress):
    write(shot, look, file, progress)
    if "b.npz" in asked:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        for _ in range(10**6):
            progress(1, 2)
    asked.append("b.npz")

asked = []
writers.WRITERS[".npz"] = stopped
os.chdir(sys.argv[2])
raise SystemExit(app.main(["--export", "a.npz", "--export", "b.npz", "--export", "c.npz"]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.slow
def test_a_signal_leaves_no_half_of_a_file(name: str, status: int, tmp_path: Path) -> None:
    (tmp_path / "b.npz").write_text("as it was")
    ended = python(HALF_WRITTEN, name, str(tmp_path))
    assert (ended.returncode, ended.stdout) == (status, "")
    assert ended.stderr == "attention-visualizer: a.npz written.\n"
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz", "b.npz"}
    assert (tmp_path / "b.npz").read_text() == "as it was"


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal of POSIX")
@pytest.mark.parametrize(("name", "options"), [("a.png", ()), ("a.npz", ("--quiet",))])
@pytest.mark.slow
def test_a_terminal_has_one_line_that_is_rewritten(
    name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    try:
        ours, theirs = os.openpty()
    except OSError as error:
        pytest.skip(f"there are no terminals here: {error}")
    subprocess.run(
        [sys.executable, "-m", "visualizer", "--export", str(tmp_path / name), *options],
        cwd=ROOT,
        stderr=theirs,
        check=True,
    )
    os.close(theirs)
    shown = "" if options else os.read(ours, 10_000).decode()
    os.close(ours)
    lines = shown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    said = [line.removeprefix("attention-visualizer: ").strip() for line in lines]
    lines = list(dict.fromkeys(line for line in said if line))
    if options:
        assert lines == []
        return
    assert (lines[0], lines[-1]) == ("a.png: 0%", "a.png written.")
    shares = [int(line.removeprefix("a.png: ").removesuffix("%")) for line in lines[:-1]]
    assert shares == sorted(shares)
    assert len(shares) > 2


# ------------------------------------------------------------------------------------ in process


@pytest.fixture(autouse=True)
def one_application(qapp: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")  # the program sets it; restore it


@pytest.mark.parametrize(("options", "section", "name", "stage"), PRINTED)
def test_the_books_numbers(
    options: str, section: str, name: str, stage: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.npz"
    assert app.main([*options.split(), "--export", str(path), "--device", "cpu"]) == 0
    found = numbers(path)[stage]
    expected = printed(section, name)
    np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "options", ["--heads 1 --dropout 0.5 --dtype float64", "--embedding-size 5 --no-causal"]
)
def test_the_numbers_are_the_traces(options: str, tmp_path: Path) -> None:
    arguments = [*options.split(), "--device", "cpu"]
    assert app.main([*arguments, "--export", str(tmp_path / "a.npz")]) == 0
    made = document(*arguments)
    trace = compute(made.tokens(), made.spec).trace
    arrays = numbers(tmp_path / "a.npz")
    weights = {f"parameters/{name}" for name in trace.parameters}
    assert set(arrays) == {*trace.names, *weights, "tokens", "spec", "document"}
    for name in trace.names:
        np.testing.assert_array_equal(arrays[name], trace.read(name))


def test_a_text_of_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = io.TextIOWrapper(io.BytesIO("我爱\r\n🙂\n".encode()), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", typed)
    assert app.main(["--text-file", "-", "--export", str(tmp_path / "a.npz")]) == 0
    assert numbers(tmp_path / "a.npz")["tokens"].tolist() == ["我", "爱", "🙂"]


def test_letters_that_no_font_has_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--text", "one", "--title", "\uf8f0 of one", "--export", str(tmp_path / "a.png")]
    assert app.main(options) == 0
    assert capsys.readouterr().err.splitlines() == [
        "attention-visualizer: No installed font contains the characters “\uf8f0”, which "
        "appear as boxes in images. Install a font that contains them.",
        "attention-visualizer: a.png written.",
    ]


def test_two_texts_are_a_batch(tmp_path: Path) -> None:
    sentence = " ".join(BOOK["tokens"])
    arguments = ["--text", sentence, "--text", sentence, "--export", str(tmp_path / "a.npz")]
    assert app.main([*arguments, "--device", "cpu"]) == 0
    found = numbers(tmp_path / "a.npz")["output"]
    expected = printed("3.6.2", "output")
    np.testing.assert_allclose(found, [expected, expected], rtol=0, atol=1e-4)


@pytest.mark.parametrize("suffix", ["png", "npz"])
def test_a_device_that_is_not_available_is_rejected(
    suffix: str, tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.set_devices(Device.CPU)
    path = tmp_path / f"a.{suffix}"
    assert app.main(["--device", "cuda", "--export", str(path)]) == 2
    captured = capsys.readouterr()
    assert "argument --device: A CUDA GPU is not available" in captured.err
    assert captured.out == ""
    assert not path.exists()


@pytest.mark.parametrize("name", ["missing/a.png", "missing/a.npz"])
def test_write_errors_are_reported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["--export", str(tmp_path / name)]) == 1
    said = capsys.readouterr().err
    assert said == (
        f"attention-visualizer: Cannot write “{name.removeprefix('missing/')}” to "
        f"{tmp_path / 'missing'}: No such file or directory.\n"
    )


def test_an_image_that_memory_does_not_hold_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rasterization, "QImage", NoImage)
    assert app.main(["--export", str(tmp_path / "a.png")]) == 2
    assert "not enough memory for an image" in capsys.readouterr().err
    assert list(tmp_path.glob("*.png")) == []


def test_the_data_that_are_read_are_displayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    def note_shown(resolved: ResolvedView, previous: Board) -> Board:
        shown.append(resolved.view)
        return present_board(resolved, previous)

    monkeypatch.setattr("visualizer.heatmap.board_presenter.present_board", note_shown)
    assert app.main(["--device", "cpu", "--export", str(tmp_path / "a.png")]) == 0
    assert [replace(view, room=0) for view in shown] == 2 * [View(room=0)]


def test_too_much_text_is_reported(
    tmp_path: Path, machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.set_free_bytes(2**20)
    arguments = ["--text", 2_000 * "word ", "--export", str(tmp_path / "a.npz")]
    assert app.main(arguments) == 2
    assert "2,000 tokens × 2 heads need " in capsys.readouterr().err
    assert not (tmp_path / "a.npz").exists()


def test_a_long_text_is_pooled_in_the_image_and_whole_in_the_numbers(tmp_path: Path) -> None:
    text = 700 * "word "
    for suffix in ("png", "npz"):
        arguments = ["--text", text, "--heads", "1", "--export", str(tmp_path / f"a.{suffix}")]
        assert app.main([*arguments, "--device", "cpu"]) == 0
    assert numbers(tmp_path / "a.npz")["weights"].shape == (1, 700, 700)
    assert QImage(str(tmp_path / "a.png")).width() < 10_000
    assert View().room < 700


# -------------------------------------------------------------------------------- several files


def test_several_files_are_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(*arguments: Any) -> Run:
        runs.append(arguments)
        return computed(*arguments)

    computed = app.compute
    monkeypatch.setattr(app, "compute", counted)
    paths = [tmp_path / name for name in ("a.png", "b.npz", "c.npz")]
    exports = [part for path in paths for part in ("--export", str(path))]
    assert app.main([*exports, "--mechanism", "causal", "--device", "cpu"]) == 0
    assert len(runs) == 1
    for path in paths[1:]:
        expected = printed("3.5.3", "context")
        np.testing.assert_allclose(numbers(path)["context"][0], expected, rtol=0, atol=1e-4)
    assert QImage(str(paths[0])).width() > 500


@pytest.mark.parametrize("refused", [1, 2])
def test_the_others_are_written_where_one_cannot_be(
    refused: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(rasterization, "QImage", NoImage if refused == 2 else QImage)
    (tmp_path / "c.npz").mkdir()
    monkeypatch.chdir(tmp_path)
    names = ["a.npz", "b.png", "c.npz", "d.npz"]
    exports = [part for name in names for part in ("--export", name)]
    assert app.main([*exports, "--device", "cpu"]) == refused
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert f"Cannot write “c.npz” to {tmp_path}: " in said[2]
    assert "not enough memory for an image" in said[1] or refused == 1
    assert numbers(tmp_path / "d.npz").keys() == numbers(tmp_path / "a.npz").keys()
    left = {"a.npz", "c.npz", "d.npz"} | ({"b.png"} if refused == 1 else set())
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_figure_is_as_it_was_requested(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    options = "--size 1600x900px --theme dark --stages weights --heads-shown 2 --dpi 120"
    arguments = [*options.split(), "--title", "Head 2", "--device", "cpu"]
    assert app.main([*arguments, "--export", str(path)]) == 0
    image = QImage(str(path))
    assert (image.width(), image.height()) == (1600, 900)
    assert round(image.dotsPerMeterX() * 0.0254) == 120
    assert QColor(image.pixel(2, 2)).lightnessF() < 0.3


@pytest.mark.slow
def test_heads_and_stages_that_are_chosen_are_in_the_figure(tmp_path: Path) -> None:
    ratios = []
    for options in ("", "--stages weights", "--heads-shown 1", "--heads-shown 1-2"):
        path = tmp_path / "a.png"
        arguments = [*options.split(), "--device", "cpu", "--no-caption"]
        assert app.main([*arguments, "--export", str(path)]) == 0
        image = QImage(str(path))
        ratios.append(image.width() / image.height())
    assert ratios[1] != ratios[0]
    assert ratios[2] > ratios[0]  # without the second row of panels
    assert ratios[3] == ratios[0]


@pytest.mark.slow
def test_an_animation_plays_the_span_that_was_requested(tmp_path: Path) -> None:
    counts = []
    for span, grain in (("weights..weights", "row"), ("scores:3..weights", "row"), ("", "stage")):
        path = tmp_path / "a.gif"
        options = ["--no-motion", "--grain", grain, "--mechanism", "causal"]
        options += ["--span", span] if span else []
        assert app.main([*options, "--device", "cpu", "--export", str(path)]) == 0
        counts.append(QImageReader(str(path)).imageCount())
    made = document("--mechanism", "causal")
    stages = len(compute(made.tokens(), made.spec).trace.names)
    rows = len(BOOK["tokens"])
    assert counts == [rows, (rows - 2) + 3 * rows, stages]


def test_progress_has_a_line_per_quarter(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ConsoleProgress(is_quiet=False)
    for of in (2, 19, 100):
        tell = progress.create_file_callback(f"{of}.gif")
        for done in range(of):
            tell(done, of)
    assert capsys.readouterr().err.splitlines() == [
        f"attention-visualizer: 100.gif: {share}%" for share in (25, 50, 75)
    ]


# ------------------------------------------------------------------------------------ documents


def saved(path: Path, options: str, *, has_numbers: bool = False) -> Run:
    """Save the document that the options describe, with a view that is not the default."""
    made = document(*options.split(), "--device", "cpu")
    made_of = compute(made.tokens(), made.spec)
    view = View(stages=frozenset({"weights"}), heads=frozenset({1}))
    with path.open("wb") as file:
        write_document(file, made, view, made_of if has_numbers else None)
    return made_of


@pytest.mark.parametrize("value", [2**62, -1])
def test_sizes_that_no_control_makes_are_rejected(
    value: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "a.attention").open("wb") as file:
        write_document(file, Document().with_setting("d_in", value), View())
    arguments = [str(tmp_path / "a.attention"), "--export", str(tmp_path / "a.npz")]
    assert app.main(arguments) == 2
    said = f"argument FILE: “a.attention” contains an invalid value: “Embedding size” of {value:,}."
    assert said in capsys.readouterr().err
    with pytest.raises(InputError, match="invalid value"):
        visualizer.load(tmp_path / "a.attention")


@pytest.mark.parametrize("has_numbers", [False, True])
def test_a_document_is_exported_as_it_was_saved(has_numbers: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.attention"
    expected = saved(path, "--seed 5 --output-size 4 --dropout 0.5", has_numbers=has_numbers)
    assert app.main([str(path), "--export", str(tmp_path / "a.npz")]) == 0
    found = numbers(tmp_path / "a.npz")
    for name in expected.trace.names:
        np.testing.assert_array_equal(found[name], expected.trace.read(name))


def test_options_change_what_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.attention"
    saved(path, "--text one --seed 5", has_numbers=True)
    sentence = " ".join(BOOK["tokens"])
    options = ["--text", sentence, "--seed", "123", "--export", str(tmp_path / "a.npz")]
    assert app.main([str(path), *options]) == 0
    expected = printed("3.6.2", "output")
    found = numbers(tmp_path / "a.npz")["output"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_a_document_is_drawn_as_it_was_viewed(tmp_path: Path) -> None:
    path = tmp_path / "a.attention"
    saved(path, "--heads 2")
    ratios = []
    for options in ("", "--heads-shown all", "--stages scores,weights"):
        picture = tmp_path / "a.png"
        assert app.main([str(path), *options.split(), "--export", str(picture)]) == 0
        image = QImage(str(picture))
        ratios.append(image.width() / image.height())
    assert ratios[1] > ratios[0]  # the panels of two heads, or of two stages, are side by side
    assert ratios[2] > ratios[0]


@pytest.mark.parametrize("content", [None, b"", b"PK", b"no document"])
def test_files_that_are_not_documents_are_reported(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.attention"
    if content is not None:
        path.write_bytes(content)
    assert app.main([str(path), "--export", str(tmp_path / "a.npz")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("attention-visualizer: argument FILE: “a.attention” ")
    assert not (tmp_path / "a.npz").exists()
