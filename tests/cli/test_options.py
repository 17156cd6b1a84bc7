"""Command-line options create the document that they describe, or fail with a sentence."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication

import visualizer
from tests.architecture.project_graph import ROOT
from tests.support.small_trainings import begun
from visualizer import app
from visualizer.attention.mechanisms import Mechanism, mechanism_of
from visualizer.attention.spec import MaskKind
from visualizer.cli import option_parser
from visualizer.cli.document_options import build_document, build_figure_settings
from visualizer.cli.option_checks import first_option_error
from visualizer.cli.options import OPTION_GROUPS, create_parser
from visualizer.cli.shell_completion import COMMANDS as COMPLETED
from visualizer.cli.train import TRAIN_COMMAND, create_train_parser
from visualizer.cli.train import first_option_error as train_complaint
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    MAX_SIDE_MM,
    AnimationSettings,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.features.setup.text_edit_widget import InputTextEdit
from visualizer.session.document import BOOK_SENTENCE, Document, LineGrouping
from visualizer.session.document_builder import parse_head_indices
from visualizer.session.timeline import PlaybackPosition, StepSize
from visualizer.widgets import app_settings
from visualizer.widgets.theme import ColourScheme

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pytestqt.qtbot import QtBot


def document(*arguments: str) -> Document:
    return build_document(create_parser().parse_args(arguments))


def run(
    arguments: Sequence[str], folder: Path, *, typed: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the program without a screen and without a home directory."""
    kept = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    return subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *arguments],
        cwd=folder,
        env={name: os.environ[name] for name in kept if name in os.environ} | variables,
        capture_output=True,
        input=typed,
        text=True,
        encoding="utf-8",
        check=False,
    )


# ----------------------------------------------------------------------------------- documents


def test_without_options_it_is_the_books_sentence() -> None:
    assert document() == Document()
    assert document().text == BOOK_SENTENCE


@pytest.mark.parametrize("mechanism", Mechanism)
def test_every_mechanism_can_be_named(mechanism: Mechanism) -> None:
    made = document("--mechanism", mechanism)
    assert mechanism_of(made.spec) is mechanism
    assert made.spec == Document().with_setting("mechanism", mechanism).spec


def test_causal_goes_before_what_the_mechanism_has() -> None:
    assert document("--mechanism", "self").spec.mask is MaskKind.NONE
    assert document("--mechanism", "self", "--causal").spec.mask is MaskKind.CAUSAL
    assert document("--mechanism", "causal", "--no-causal").spec.mask is MaskKind.NONE


def test_several_texts_are_a_batch() -> None:
    assert document("--text", "one two").tokens() == (("one", "two"),)
    assert document("--text", "one\ntwo").lines is LineGrouping.TOGETHER
    batch = document("--text", "one two", "--text", "three")
    assert batch.lines is LineGrouping.APART
    assert batch.tokens() == (("one", "two"), ("three",))


ODD = "one\r\ntwo\rthree\u2028four\u2029five\u00a0six\tseven\x0beight"


def test_a_text_is_taken_as_the_sentence_box_shows_it(qtbot: QtBot) -> None:
    box = InputTextEdit()
    qtbot.addWidget(box)
    box.show_text(ODD)
    assert document("--text", ODD).text == box.toPlainText()
    assert document("--text", ODD).text == "one\ntwo\nthree\nfour\nfive six\tseven\x0beight"


def test_a_text_of_a_batch_is_taken_as_the_sentence_box_shows_it(qtbot: QtBot) -> None:
    made = document("--text", ODD, "--text", "nine\u00a0ten")
    box = InputTextEdit()
    qtbot.addWidget(box)
    box.show_text(made.text)
    assert made.text == box.toPlainText()
    assert len(made.tokens()) == 2


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b"])
def test_a_text_of_a_batch_may_hold_line_ends(text: str) -> None:
    assert document("--text", text, "--text", "c").tokens() == (("a", "b"), ("c",))


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_text_in_a_file_is_taken_as_one_that_is_typed(mark: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(mark + ODD.encode())
    assert document("--text-file", str(path)) == document("--text", ODD)
    batch = document("--text", "one two", "--text-file", str(path))
    assert batch == document("--text", "one two", "--text", ODD)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"one \xff two", "must be UTF-8 text; byte 5 is invalid"),
        (b"\xff\xfeo\0n\0e\0", "must be UTF-8 text; byte 1 is invalid"),
        (b" \n\xe2\x80\xa8", "must not be blank"),
        (b"", "must not be blank"),
        (b"o" * (option_parser.MAX_TEXT_FILE_BYTES + 1), "must be a file of at most 16 MiB"),
    ],
)
def test_a_file_that_holds_no_text_is_rejected(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert refusal(f"--text-file {path}", capsys) == (
        2,
        f"attention-visualizer: argument --text-file: invalid value '{path}': {said}\n",
    )


def test_a_folder_is_not_a_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = refusal(f"--text-file {tmp_path}", capsys)
    assert status == 2
    assert f"cannot read '{tmp_path}': " in said


# ------------------------------------------------------------------------------ figures, films


@pytest.mark.parametrize(
    ("options", "look"),
    [
        ("", FigureSettings()),
        ("--size 180mm", FigureSettings(width_mm=180, is_trimmed=False)),
        ("--size 7in", FigureSettings(width_mm=7 * 25.4, is_trimmed=False)),
        ("--size 2.5cm", FigureSettings(width_mm=25, is_trimmed=False)),
        ("--size 180x120mm", FigureSettings(width_mm=180, height_mm=120, is_trimmed=False)),
        ("--size 180mm×120mm", FigureSettings(width_mm=180, height_mm=120, is_trimmed=False)),
        ("--size slide", FIGURE_PRESETS["Slide"]),
        ("--size paper-column --dpi 300", replace(FIGURE_PRESETS["Paper column"], dpi=300)),
        ("--size slide --theme dark", replace(FIGURE_PRESETS["Slide"], paper=FigureTheme.DARK)),
        ("--theme light --dpi 96", FigureSettings(paper=FigureTheme.LIGHT, dpi=96)),
        ("--layout stages", FigureSettings(extent=FigureExtent.STAGES)),
        (
            "--size 180mm --letters",
            FigureSettings(width_mm=180, is_trimmed=False, has_letters=True),
        ),
        ("--size slide --no-letters", FIGURE_PRESETS["Slide"]),
        (
            "--size paper-page --no-letters",
            replace(FIGURE_PRESETS["Paper page"], has_letters=False),
        ),
        ("--title Heads --no-caption", FigureSettings(title="Heads", has_caption=False)),
    ],
)
def test_a_figure_looks_as_it_is_asked_to(options: str, look: FigureSettings) -> None:
    found = build_figure_settings(create_parser().parse_args(options.split()))
    assert replace(found, film=AnimationSettings()) == look


@given(st.integers(200, 8000), st.integers(200, 8000), st.integers(96, 400))
def test_pixels_are_as_many_as_were_requested(width: int, height: int, dpi: int) -> None:
    assume(max(width, height) / dpi * 25.4 <= MAX_SIDE_MM)
    options = ["--size", f"{width}x{height}px", "--dpi", str(dpi)]
    look = build_figure_settings(create_parser().parse_args(options))
    assert look.height_mm
    assert (round(look.width_mm / 25.4 * dpi), round(look.height_mm / 25.4 * dpi)) == (
        width,
        height,
    )


@given(st.frozensets(st.integers(1, 12), min_size=1))
def test_heads_are_counted_from_one(heads: frozenset[int]) -> None:
    assert parse_head_indices(",".join(map(str, heads))) == {head - 1 for head in heads}
    span = range(min(heads), max(heads) + 1)
    assert parse_head_indices(f"{span[0]}-{span[-1]}") == {head - 1 for head in span}


@pytest.mark.parametrize(
    ("options", "film"),
    [
        ("", AnimationSettings()),
        ("--span scores..context", AnimationSettings((PlaybackPosition("scores"), "context"))),
        ("--span scores:2..weights", AnimationSettings((PlaybackPosition("scores", 1), "weights"))),
        ("--span weights..weights", AnimationSettings((PlaybackPosition("weights"), "weights"))),
        ("--span ..weights", AnimationSettings((PlaybackPosition("embedding"), "weights"))),
        ("--span scores..", AnimationSettings((PlaybackPosition("scores"), "result"))),
        ("--size 640x480px", AnimationSettings(width=640)),
        ("--size 10in --dpi 72", AnimationSettings(width=720)),
        ("--size slide", AnimationSettings(width=1920)),
        ("--grain cell --speed 2.5", AnimationSettings(grain=StepSize.CELL, speed=2.5)),
        ("--no-motion", AnimationSettings(has_motion=False)),
    ],
)
def test_an_animation_plays_what_it_is_asked_to(options: str, film: AnimationSettings) -> None:
    assert build_figure_settings(create_parser().parse_args(options.split())).film == film


# ------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("options", ["--text-file -", "model nothing --texts -"])
def test_standard_input_is_interrupted_or_missing(
    options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    given = SimpleNamespace(buffer=SimpleNamespace(read=interrupted))
    monkeypatch.setattr(sys, "stdin", given)
    assert refusal(options, capsys) == (130, "")
    monkeypatch.setattr(sys, "stdin", None)
    status, said = refusal(options, capsys)
    assert status == 2
    assert said.endswith(": standard input is not available; specify a file\n")


def refusal(options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str]:
    try:
        status: int | str | None = app.main(options.split())
    except SystemExit as ended:
        status = ended.code
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


@pytest.mark.parametrize("blank", ["", " ", "\n", "\u2028\u00a0"])
@pytest.mark.parametrize("others", [(), ("one",), ("one", "two")])
@pytest.mark.parametrize("is_export", [True, False])
def test_a_blank_text_is_rejected(
    blank: str,
    others: tuple[str, ...],
    is_export: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = [f"--text={text}" for text in (*others, blank)]
    export = ["--export", str(tmp_path / "a.npz")] if is_export else []
    with pytest.raises(SystemExit) as ended:
        app.main([*texts, *export])
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"attention-visualizer: argument --text: invalid value {blank!r}: must not be blank\n"
    )
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.slow
def test_the_shell_gets_the_same(tmp_path: Path) -> None:
    ended = run(["--heads", "x"], tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "attention-visualizer: argument --heads: invalid value 'x': must be a whole number\n"
    )


@pytest.mark.slow
def test_a_screen_that_qt_cannot_start_on_is_reported(tmp_path: Path) -> None:
    ended = run([], tmp_path, QT_QPA_PLATFORM="nonsense")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == f"attention-visualizer: {app.SCREEN_ERROR}"


# --------------------------------------------------------------------------------------- words


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert "version" in project["project"]["dynamic"]
    path = project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{visualizer.__version__}"' in (ROOT / path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_version(tmp_path: Path) -> None:
    ended = run(["--version"], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"attention-visualizer {visualizer.__version__}\n"


COMMANDS: dict[str, Callable[[], argparse.ArgumentParser]] = {"": create_parser, **COMPLETED}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_every_option(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        app.main([*command.split(), "--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    made = COMMANDS[command]()
    words = {word.strip(".,:;") for word in said.split()}
    for action in made._actions:
        explained = action.help or ""
        assert all(option in said for option in action.option_strings)
        assert len(explained) > len("the run")
        is_listed = any(f"see --list {what}" in explained for what in ("formats", "colour-maps"))
        assert is_listed or set(action.choices or ()) <= words
    assert all((group.title or "") in said for group in made._action_groups if group._group_actions)
    assert not made._optionals._group_actions, "every option stands in a group with a title"


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app.main(["--help"])
    said = capsys.readouterr().out
    assert "Without --export" in said
    assert all(f"\n{title}:\n" in said for title in OPTION_GROUPS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_are_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/repeat", "runs/poems"):
        begun(tmp_path / name).close()
    (tmp_path / "poem.txt").write_text("one two")
    (tmp_path / "lines.txt").write_text("one two\nthree")
    (tmp_path / "models/SmolLM2-135M").mkdir(parents=True)
    (tmp_path / "models/SmolLM2-135M/config.json").write_text("{}")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Monday")))
    epilog = COMMANDS[command]().epilog or ""
    lines = [line.partition("attention-visualizer")[2] for line in epilog.splitlines()]
    asked = [shlex.split(line.partition(">")[0]) for line in lines if line]
    assert bool(asked) is (command != "lab")
    for arguments in asked:
        if arguments[:1] == [TRAIN_COMMAND]:
            assert train_complaint(create_train_parser().parse_args(arguments[1:])) == ""
        elif arguments[:1] and arguments[0] in COMMANDS:
            COMMANDS[arguments[0]]().parse_args(arguments[1:])
        else:
            options = create_parser().parse_args(arguments)
            assert first_option_error(options, build_document(options)) is None
            assert isinstance(build_figure_settings(options), FigureSettings)


# ------------------------------------------------------------------------------------ settings


def test_settings_are_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    app.set_application_names(QCoreApplication)
    app_settings.save_scheme(ColourScheme.DARK)
    assert app_settings.load_scheme() is ColourScheme.DARK
    assert app.main(["--reset-settings"]) == 0
    assert app_settings.load_scheme() is ColourScheme.SYSTEM
    assert capsys.readouterr().err == ("attention-visualizer: Settings have been reset.\n")


def test_settings_that_cannot_be_changed_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    app.set_application_names(QCoreApplication)
    app_settings.settings_file().path.mkdir(parents=True)
    assert app.main(["--reset-settings"]) == 1
    pattern = r"Cannot delete the settings in .+settings\.json: [^.]+\.\n$"
    assert re.search(pattern, capsys.readouterr().err)
