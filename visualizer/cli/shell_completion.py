"""Shell completion scripts for the command line."""

from __future__ import annotations

import argparse
from typing import Any

from visualizer.cli.generate import GENERATE_COMMAND, create_generate_parser
from visualizer.cli.model import MODEL_COMMAND, create_model_parser
from visualizer.cli.options import LAB_COMMAND, create_lab_parser, create_parser
from visualizer.cli.serve import SERVE_COMMAND, create_serve_parser
from visualizer.cli.train import TRAIN_COMMAND, create_train_parser
from visualizer.console import print_message, write_output
from visualizer.errors import InputError
from visualizer.optional_packages import require_package

COMMANDS = {
    LAB_COMMAND: create_lab_parser,
    TRAIN_COMMAND: create_train_parser,
    GENERATE_COMMAND: create_generate_parser,
    MODEL_COMMAND: create_model_parser,
    SERVE_COMMAND: create_serve_parser,
}
"""Functions that create the parsers of the commands, keyed by the name of the command."""


def print_completion(shell: str) -> int:
    """Print the completion script for the given shell; return the exit status."""
    try:
        require_package("shtab", "A completion script")
    except InputError as refused:
        print_message(f"argument --print-completion: {refused.sentence}")
        return 2
    write_output(completion_script(shell))
    return 0


def completion_script(shell: str) -> str:
    """Return the completion script for the given shell; requires the package shtab."""
    import shtab

    root, *commands = _create_all_parsers()
    for one in (root, *commands):
        for action in one._actions:
            if action.metavar in {"FILE", "SOURCE"}:
                action.complete = shtab.FILE
            elif action.metavar in {"FOLDER", "RUN"}:
                action.complete = shtab.DIRECTORY
    return f"{shtab.complete(root, shell)}\n"


def _create_all_parsers() -> list[Any]:
    """Return the main parser, which includes the commands, and the parser of each command.

    The main parser has no FILE argument: shells complete file names if no command matches.
    """
    root = create_parser(has_file=False)
    commands = root.add_subparsers(parser_class=argparse.ArgumentParser)
    parsers = []
    for name, create in COMMANDS.items():
        parent = create()
        parsers.append(
            commands.add_parser(name, parents=[parent], add_help=False, help=parent.description)
        )
    return [root, *parsers]
