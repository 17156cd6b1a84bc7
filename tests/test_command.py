"""The command line makes the document it describes, refuses in a sentence, and exports."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest

import visualizer
from tests.house_rules import ROOT
from visualizer import app
from visualizer.attention.mechanisms import Mechanism, mechanism_of
from visualizer.attention.spec import Device, Dtype, Mask, Projection
from visualizer.command import document_of, parser
from visualizer.state.document import BOOK_SENTENCE, Document, Lines
from visualizer.ui.sentence import SentenceBox

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytestqt.qtbot import QtBot


def document(*arguments: str) -> Document:
    return document_of(parser().parse_args(arguments))


def run(
    arguments: Sequence[str], folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the program as a shell without a screen and without a home does."""
    kept = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    return subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *arguments],
        cwd=folder,
        env={name: os.environ[name] for name in kept if name in os.environ} | variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


# ----------------------------------------------------------------------------------- documents


def test_without_options_it_is_the_books_sentence() -> None:
    assert document() == Document()
    assert document().text == BOOK_SENTENCE


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ("--embedding-size 8", "d_in", 8),
        ("--output-size 4", "d_out", 4),
        ("--heads 1", "heads", 1),
        ("--dropout 0.5", "dropout", 0.5),
        ("--dropout=.25", "dropout", 0.25),
        ("--seed 789", "seed", 789),
        ("--device cpu", "device", Device.CPU),
        ("--dtype float64", "dtype", Dtype.FLOAT64),
        ("--projection uniform", "projection", Projection.UNIFORM),
        ("--causal", "mask", Mask.CAUSAL),
        ("--no-causal", "mask", Mask.NONE),
    ],
)
def test_an_option_sets_its_field_and_no_other(options: str, field: str, value: object) -> None:
    made = document(*options.split())
    assert made.get(field) == value
    assert made == Document().set(field, value)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_every_mechanism_can_be_named(mechanism: Mechanism) -> None:
    made = document("--mechanism", mechanism)
    assert mechanism_of(made.spec) is mechanism
    assert made.spec == Document().set("mechanism", mechanism).spec


def test_causal_goes_before_what_the_mechanism_has() -> None:
    assert document("--mechanism", "self").spec.mask is Mask.NONE
    assert document("--mechanism", "self", "--causal").spec.mask is Mask.CAUSAL
    assert document("--mechanism", "causal", "--no-causal").spec.mask is Mask.NONE


def test_several_texts_are_a_batch() -> None:
    assert document("--text", "one two").tokens() == (("one", "two"),)
    assert document("--text", "one\ntwo").lines is Lines.TOGETHER
    batch = document("--text", "one two", "--text", "three")
    assert batch.lines is Lines.APART
    assert batch.tokens() == (("one", "two"), ("three",))


ODD = "one\r\ntwo\rthree\u2028four\u2029five\u00a0six\tseven\x0beight"


def test_a_text_is_taken_as_the_sentence_box_shows_it(qtbot: QtBot) -> None:
    box = SentenceBox()
    qtbot.addWidget(box)
    box.show_text(ODD)
    assert document("--text", ODD).text == box.toPlainText()
    assert document("--text", ODD).text == "one\ntwo\nthree\nfour\nfive six\tseven\x0beight"


def test_a_text_of_a_batch_is_taken_as_the_sentence_box_shows_it(qtbot: QtBot) -> None:
    made = document("--text", ODD, "--text", "nine\u00a0ten")
    box = SentenceBox()
    qtbot.addWidget(box)
    box.show_text(made.text)
    assert made.text == box.toPlainText()
    assert len(made.tokens()) == 2


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", "a\u2028b"])
def test_a_text_of_a_batch_may_hold_line_ends(text: str) -> None:
    assert document("--text", text, "--text", "c").tokens() == (("a", "b"), ("c",))


# ------------------------------------------------------------------------------------ refusals

WRONG = [
    ("--heads 0", "--heads", "got '0'", "whole number from 1"),
    ("--heads two", "--heads", "got 'two'", "whole number from 1"),
    ("--heads 1.5", "--heads", "got '1.5'", "whole number from 1"),
    ("--embedding-size -1", "--embedding-size", "got '-1'", "whole number from 1"),
    ("--output-size x", "--output-size", "got 'x'", "whole number from 1"),
    ("--seed -1", "--seed", "got '-1'", "whole number from 0"),
    ("--seed 9223372036854775808", "--seed", "got '9223372036854775808'", "whole number from 0"),
    ("--dropout 1", "--dropout", "got '1'", "from 0 up to, not with, 1"),
    ("--dropout -0.5", "--dropout", "got '-0.5'", "from 0 up to, not with, 1"),
    ("--dropout nan", "--dropout", "got 'nan'", "from 0 up to, not with, 1"),
    ("--dropout half", "--dropout", "got 'half'", "from 0 up to, not with, 1"),
    ("--mechanism best", "--mechanism", "got 'best'", "simplified, self, causal, stacked"),
    ("--projection x", "--projection", "got 'x'", "none, uniform, linear"),
    ("--device gpu", "--device", "got 'gpu'", "auto, cpu, cuda, mps"),
    ("--dtype int8", "--dtype", "got 'int8'", "float32, float64"),
    ("--export a.bmp", "--export", "got 'a.bmp'", "ends in .png or .npz"),
    ("--export a", "--export", "got 'a'", "ends in .png or .npz"),
    ("--heads 3", "--heads", "got '3'", "Use 2 heads, or the output size 3."),
    ("--output-size 3", "--output-size", "got '3'", "Use 1 or 3 heads, or the output size 4."),
    ("--projection none", "--projection", "got 'none'", "or the embedding size 4."),
    ("--projection none --embedding-size 5", "--embedding-size", "got '5'", "Use 1 or 5 heads"),
    ("--projection none --output-size 3", "--projection", "got 'none'", "embedding size 4."),
    ("--heads 4 --output-size 6", "--heads", "got '4'", "Use 3 or 6 heads"),
    ("--heads", "--heads", "expected one argument", ""),
    ("--head 2", "--head", "unrecognized arguments", ""),
    ("--nonsense", "--nonsense", "unrecognized arguments", ""),
    ("one two", "two", "unrecognized arguments", ""),
]


def refusal(options: str, capsys: pytest.CaptureFixture[str]) -> tuple[int | str | None, str]:
    try:
        status: int | str | None = app.main(options.split())
    except SystemExit as ended:
        status = ended.code
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


@pytest.mark.parametrize(("options", "name", "got", "takes"), WRONG)
def test_a_wrong_value_is_named_with_what_it_got_and_takes(
    options: str, name: str, got: str, takes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = refusal(options, capsys)
    assert status == 2
    assert said.startswith("attention-visualizer: ")
    assert said.count("\n") == 1
    for part in (name, got, takes):
        assert part in said


@pytest.mark.parametrize("blank", ["", " ", "\n", "\u2028\u00a0"])
@pytest.mark.parametrize("others", [(), ("one",), ("one", "two")])
@pytest.mark.parametrize("is_export", [True, False])
def test_a_blank_text_is_refused(
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
        f"attention-visualizer: argument --text: got {blank!r}, takes a text that is not blank\n"
    )
    assert not (tmp_path / "a.npz").exists()


def test_the_shell_gets_the_same(tmp_path: Path) -> None:
    ended = run(["--heads", "x"], tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "attention-visualizer: argument --heads: got 'x', takes a whole number from 1\n"
    )


def test_a_screen_that_qt_cannot_start_on_is_said(tmp_path: Path) -> None:
    ended = run([], tmp_path, QT_QPA_PLATFORM="nonsense")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-1] == f"attention-visualizer: {app.NO_WINDOW}"


# --------------------------------------------------------------------------------------- words


def test_the_version_is_written_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    path = project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{visualizer.__version__}"' in (ROOT / path).read_text(encoding="utf-8")


def test_the_version(tmp_path: Path) -> None:
    ended = run(["--version"], tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"attention-visualizer {visualizer.__version__}\n"


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        app.main(["--help"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    for action in parser()._actions:
        assert all(option in said for option in action.option_strings)
        assert action.help
    assert "Without --export, opens the window." in said
