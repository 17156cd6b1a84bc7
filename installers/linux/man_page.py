"""Creates the man page of the command line from its argument parsers.

argparse-manpage and help2man support only argparse's own usage and subcommands. They would join the
lines of the custom usages, and repeat all of them for each command.
"""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

from installers.linux.constants import NAME, TITLE
from visualizer.cli.options import create_parser
from visualizer.cli.shell_completion import COMMANDS
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

_STATUS = """0|All files were written.
1|A file could not be written.
2|An option or the text is invalid, there is not enough memory, or a package is missing.
130, 143|The program was stopped by Ctrl+C or by SIGTERM."""


def man_page(built: datetime) -> str:
    """Return the man page for section 1 in roff format."""
    whole = create_parser()
    lines = [
        f'.TH {NAME.upper()} 1 "{built:%Y-%m-%d}" "{TITLE} {__version__}" "User Commands"',
        ".SH NAME",
        f"{_escape_roff(NAME)} \\- shows how attention is computed, value by value",
        ".SH SYNOPSIS",
        *_usage(whole),
        ".SH DESCRIPTION",
        *_wrap_text(whole.description or ""),
        *_groups(whole, ".SH"),
    ]
    for name, make in COMMANDS.items():
        command = make()
        lines += [f".SH COMMAND {name.upper()}", *_usage(command), ".PP"]
        lines += [*_wrap_text(command.description or ""), *_groups(command, ".SS")]
        lines += _format_epilog(command.epilog or "")
    lines += [".SH EXIT STATUS"]
    for row in _STATUS.splitlines():
        lines += [".TP", *map(_escape_roff, row.split("|"))]
    lines += [".SH EXAMPLES AND NOTES", *_format_epilog(whole.epilog or "")]
    return "\n".join(lines) + "\n"


def _usage(one: argparse.ArgumentParser) -> Iterator[str]:
    usage = (one.usage or "%(prog)s [options]") % {"prog": one.prog}
    yield ".nf"
    for line in usage.splitlines():
        yield f".B {_escape_roff(line.strip())}"
    yield ".fi"


def _groups(one: argparse.ArgumentParser, heading: str) -> Iterator[str]:
    formatter = one._get_formatter()
    for group in one._action_groups:
        actions = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
        if actions:
            yield f"{heading} {_escape_roff((group.title or '').upper())}"
        for action in actions:
            yield ".TP"
            yield f".B {_escape_roff(formatter._format_action_invocation(action))}"
            yield from _wrap_text(formatter._expand_help(action))


def _format_epilog(epilog: str) -> Iterator[str]:
    """Yield indented lines verbatim, and other lines as text."""
    is_as_written = False
    for line in epilog.splitlines():
        if line.startswith(" ") != is_as_written and line.strip():
            is_as_written = not is_as_written
            yield ".nf" if is_as_written else ".fi"
        yield _escape_roff(line.strip()) if line.strip() else ".PP"
    if is_as_written:
        yield ".fi"


def _wrap_text(text: str) -> Iterator[str]:
    """Wrap a text and yield its lines, without breaking option names."""
    for line in textwrap.wrap(text, 76, break_on_hyphens=False, break_long_words=False):
        yield _escape_roff(line)


def _escape_roff(text: str) -> str:
    """Escape a text for roff; hyphens remain ASCII hyphens that can be copied."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text
