"""The command line of the language lab: ``attention-visualizer lab``. No Qt, no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.cli.option_types import OptionParser, run_folder

if TYPE_CHECKING:
    import argparse

LAB = "lab"


def lab_parser() -> argparse.ArgumentParser:
    """Make the parser of the arguments after ``lab``."""
    made = OptionParser(
        prog=f"attention-visualizer {LAB}",
        description="Train small language models and watch their attention form.",
        allow_abbrev=False,
    )
    made.add_argument(
        "folder", type=run_folder, metavar="RUN", nargs="?", help="the folder of a run to be opened"
    )
    return made
