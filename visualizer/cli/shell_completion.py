"""Shell completion scripts for the command line."""

from __future__ import annotations

import argparse
from typing import Any

from visualizer.cli.generate import GENERATE, generate_parser
from visualizer.cli.model import MODEL, model_parser
from visualizer.cli.options import LAB, lab_parser, parser
from visualizer.cli.serve import SERVE, serve_parser
from visualizer.cli.train import TRAIN, train_parser
from visualizer.console import say, write_out
from visualizer.errors import InputError
from visualizer.optional_packages import require_package

COMMANDS = {
    LAB: lab_parser,
    TRAIN: train_parser,
    GENERATE: generate_parser,
    MODEL: model_parser,
    SERVE: serve_parser,
}
"""Parsers of the commands by name."""


def print_completion(shell: str) -> int:
    """Print the completion script of a shell; return the exit status."""
    try:
        require_package("shtab", "A completion script")
    except InputError as refused:
        say(f"argument --print-completion: {refused.sentence}")
        return 2
    write_out(completion_script(shell))
    return 0


def completion_script(shell: str) -> str:
    """Return the completion script of a shell; requires the package shtab."""
    import shtab

    root, *commands = _all_parsers()
    for one in (root, *commands):
        for action in one._actions:
            if action.metavar in {"FILE", "SOURCE"}:
                action.complete = shtab.FILE
            elif action.metavar in {"FOLDER", "RUN"}:
                action.complete = shtab.DIRECTORY
    return f"{shtab.complete(root, shell)}\n"


def _all_parsers() -> list[Any]:
    """Return the main parser with all commands, followed by the parsers of the commands.

    The main parser has no FILE argument: shells complete file names if no command matches.
    """
    root = parser(has_file=False)
    commands = root.add_subparsers(parser_class=argparse.ArgumentParser)
    parsers = []
    for name, make in COMMANDS.items():
        parent = make()
        parsers.append(
            commands.add_parser(name, parents=[parent], add_help=False, help=parent.description)
        )
    return [root, *parsers]
