"""The command line of the language lab: ``attention-visualizer lab``. No Qt, no torch."""

from __future__ import annotations

import argparse
from pathlib import Path

from visualizer.cli.option_types import PrintableParser
from visualizer.storage.link_safe_folder import ContainedFile

LAB = "lab"


def lab_parser() -> argparse.ArgumentParser:
    """Make the parser of the arguments after ``lab``."""
    made = PrintableParser(
        prog=f"attention-visualizer {LAB}",
        description="Train small language models and watch their attention form.",
        allow_abbrev=False,
    )
    made.add_argument(
        "folder", type=_run, metavar="RUN", nargs="?", help="the folder of a run to be opened"
    )
    return made


def _run(name: str) -> Path:
    folder = Path(name).absolute()
    if not ContainedFile.at(folder / "run.json").exists():
        raise argparse.ArgumentTypeError(f"there is no run in '{name}'")
    return folder
