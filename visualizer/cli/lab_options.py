"""Command line of the language lab: ``attention-visualizer lab``. No Qt, no torch."""

from __future__ import annotations

from visualizer.cli.option_types import OptionParser, run_folder

LAB = "lab"


def lab_parser() -> OptionParser:
    """Create the argument parser of ``lab``."""
    parser = OptionParser(
        prog=f"attention-visualizer {LAB}",
        usage="%(prog)s [RUN]",
        description=(
            "Open the language lab: train small language models and watch attention form."
        ),
    )
    parser.add_argument_group("What to open").add_argument(
        "folder", type=run_folder, metavar="RUN", nargs="?", help="folder of a training run"
    )
    return parser
