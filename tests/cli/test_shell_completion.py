"""The completion script completes commands, options, names and files."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from visualizer.app import main
from visualizer.cli.options import create_parser

if TYPE_CHECKING:
    from pathlib import Path

ASKED = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
compopt() { :; }
COMP_LINE="$*"
$(complete -p attention-visualizer | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
printf '%s\\n' "${COMPREPLY[@]}"
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    pytest.importorskip("shtab")
    assert main(["--print-completion", shell]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("tr", {"train"}),
        ("", {"lab", "train", "generate", "model", "serve"}),
        ("--temp", {"--temperature"}),
        ("--mechanism s", {"simplified", "self", "stacked"}),
        ("--list f", {"formats"}),
        ("--format sv", {"svg"}),
        ("--colour-map CET-C", {"CET-CBL1", "CET-CBD1"}),
        ("--print-completion ", {"bash", "zsh"}),
        ("--own-mask ma", {"mask.txt"}),
        ("train --preset re", {"repeat"}),
        ("train --wa", {"--warmup"}),
        ("train ma", {"mask.txt"}),
        ("train --resume ru", {"runs"}),
        ("generate ru", {"runs"}),
        ("generate runs --top", {"--top-k", "--top-p"}),
    ],
)
def test_bash_completes_what_is_typed(
    typed: str, offered: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mask.txt").touch()
    (tmp_path / "runs").mkdir()
    path = tmp_path / "script"
    path.write_text(script("bash", capsys), encoding="utf-8")
    ended = subprocess.run(
        ["bash", "-c", ASKED, "bash", str(path), "attention-visualizer", *typed.split(" ")],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert set(ended.stdout.split()) == offered


def test_zsh_gets_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    said = script("zsh", capsys)
    assert said.startswith("#compdef attention-visualizer\n")
    options = {option for action in create_parser()._actions for option in action.option_strings}
    assert all(option in said for option in options)
