"""Names and tokens are printed without the control sequences that they may contain."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from visualizer.app import main
from visualizer.console import ConsoleProgress, escape_control_characters, print_message

NASTY = "a\x1b[2Jb\rc\n\x9bd\u202ee"
ESCAPED = r"a\x1b[2Jb\rc\n\x9bd\u202ee"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NASTY, ESCAPED),
        (
            "“Ångström” — 3 × 4\N{NO-BREAK SPACE}µm, 東京",
            "“Ångström” — 3 × 4\N{NO-BREAK SPACE}µm, 東京",
        ),
        ("a\x7f\u2028\udcff", r"a\x7f\u2028\udcff"),
        (r"C:\x", r"C:\x"),
    ],
)
def test_control_sequences_are_escaped(text: str, expected: str) -> None:
    assert escape_control_characters(text) == expected


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(NASTY)
    assert capsys.readouterr().err == f"attention-visualizer: {ESCAPED}\n"


def test_progress_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = ConsoleProgress(is_quiet=False)
    progress.create_file_callback(NASTY)(1, 4)
    assert terminal.getvalue() == f"\rattention-visualizer: {ESCAPED}: 25%"


@pytest.mark.parametrize(
    "arguments",
    [
        [f"{NASTY}.json"],
        ["--mechanism", NASTY],
        [f"--{NASTY}"],
        ["lab", NASTY],
        ["lab", f"--{NASTY}"],
        ["train", NASTY, "--out", "x"],
        ["train", "repeat", "--out", NASTY, f"--{NASTY}"],
        ["train", "--resume", NASTY],
    ],
)
def test_an_argument_that_cannot_be_used_is_repeated_harmlessly(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = int(ended.code or 0)
    said = capsys.readouterr().err
    assert status == 2 or arguments[:2] == ["train", "--resume"]
    assert "x1b" in said
    assert not any(sign in said for sign in "\x1b\r\x9b\u202e")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no such device elsewhere")
@pytest.mark.parametrize("arguments", [["--list", "stages"], ["train", "--list", "presets"]])
def test_that_standard_output_is_full_is_reported(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(arguments) == 1
    sentence = "Cannot write to standard output: No space left on device."
    assert capsys.readouterr().err == f"attention-visualizer: {sentence}\n"
