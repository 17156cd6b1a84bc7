"""The command line makes the document it describes, refuses in a sentence, and exports."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import visualizer
from tests.house_rules import ROOT
from visualizer import app
from visualizer.attention.mechanisms import Mechanism, mechanism_of
from visualizer.attention.spec import Device, Dtype, Mask, Projection
from visualizer.command import document_of, parser
from visualizer.state.document import BOOK_SENTENCE, Document, Lines

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def document(*arguments: str) -> Document:
    return document_of(parser().parse_args(arguments))


def run(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the program as a shell without a screen and without a home does."""
    kept = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    return subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *arguments],
        cwd=folder,
        env={name: os.environ[name] for name in kept if name in os.environ},
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
    ("--seed 9223372036854775808", "--seed", "got '9223372036854775808'", "2⁶³ − 1"),
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
    ("--heads 4 --output-size 6", "--heads", "got '4'", "Use 3 or 6 heads"),
    ("--heads", "--heads", "expected one argument", ""),
    ("--head 2", "--head", "unrecognized arguments", ""),
    ("--nonsense", "--nonsense", "unrecognized arguments", ""),
    ("words", "words", "unrecognized arguments", ""),
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


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_no_text_cannot_be_exported(
    text: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    qapp: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")  # it will be set, so it is put back
    arguments = ["--text", text, "--export", str(tmp_path / "a.npz")]
    assert app.main(arguments) == 2
    assert capsys.readouterr().err == (
        "attention-visualizer: There is nothing to read yet. Type a word or a sentence.\n"
    )
    assert [path.name for path in tmp_path.glob("*.npz")] == []


def test_the_shell_gets_the_same(tmp_path: Path) -> None:
    ended = run(["--heads", "x"], tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "attention-visualizer: argument --heads: got 'x', takes a whole number from 1\n"
    )


# --------------------------------------------------------------------------------------- words


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
