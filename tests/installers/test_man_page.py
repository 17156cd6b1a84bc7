"""The man page contains every command and option of the parsers, and is valid roff."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime

import pytest

from installers.linux.man_page import man_page
from visualizer.cli.options import create_parser
from visualizer.cli.shell_completion import COMMANDS

PAGE = man_page(datetime(2026, 5, 17, tzinfo=UTC))
IN_CI = "CI" in os.environ


def section(name: str) -> str:
    """Return the plain text of a section, or of the entire page if the name is empty."""
    plain = PAGE.replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
    found = re.search(rf"^\.SH {re.escape(name)}$(.*?)(?=^\.SH |\Z)", plain, re.M | re.S)
    assert found, name
    return found[1]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_option_has_its_help_in_its_section(name: str) -> None:
    one = COMMANDS[name]() if name else create_parser()
    start = PAGE.index(f".SH COMMAND {name.upper()}" if name else ".SH DESCRIPTION")
    end = PAGE.find(".SH COMMAND", start + 1) if name else PAGE.index(".SH COMMAND")
    plain = PAGE[start:end].replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")
    options = [option for action in one._actions for option in action.option_strings]
    assert len(options) > (40 if not name else 1)
    for option in options:
        assert re.search(rf"^\.B .*{re.escape(option)}(?![\w-])", plain, re.M), option
    words = " ".join(plain.split())
    for action in one._actions:
        if action.help:
            first = action.help.partition("%")[0]
            assert " ".join(first.split()) in words, action.option_strings


def test_head_and_exit_statuses() -> None:
    assert PAGE.startswith('.TH ATTENTION-VISUALIZER 1 "2026-05-17" "Attention Visualizer ')
    assert "Ctrl+C" in section("EXIT STATUS")
    assert "attention-visualizer train SOURCE --out FOLDER [options]" in section("SYNOPSIS")


def test_examples_have_a_line_each() -> None:
    notes = section("EXAMPLES AND NOTES")
    examples = notes.partition(".nf\n")[2].partition(".fi\n")[0].splitlines()
    assert "attention-visualizer lab" in examples
    assert all("attention-visualizer" in line for line in examples if not line.startswith(".PP")
               if "--" in line or "lab" in line)  # fmt: skip


@pytest.mark.skipif(
    shutil.which("mandoc") is None and not IN_CI, reason="mandoc is not installed here"
)
def test_mandoc_finds_nothing_wrong() -> None:
    done = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning"], input=PAGE, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
