"""Compares views of all heads in notebooks: seconds until drawn, bytes, memory, hover latency.

``python -m tests.benchmarks.notebook_views`` prints the tables of the documentation in Markdown.
The other tools, which are not dependencies, have to be installed; a message says how. Libraries
that they load from the network are served from files, so the time of the network is not included.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence  # noqa: TC003 - msgspec evaluates annotations
from contextlib import suppress
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from msgspec import Struct
from msgspec.structs import replace

from tests.benchmarks.children import ROOT
from tests.benchmarks.notebook_tools import OWN, TOOLS, Tool, create_page, draw_page
from tests.benchmarks.table import Line, show
from tests.support.headless_browser import FOUND

SHAPES = (12, 12), (30, 9)
"""Numbers of layers, and of heads per layer."""
TOKENS = 14, 64, 256, 1_024
MAX_S = 120
"""Time limit, in seconds, for Python and for the browser."""
MAX_BYTES = 8 * 2**30
"""Memory limit of a process and its children, in bytes."""
POLL_S = 0.1
MAX_ROUNDS = 3
MAX_REPEATED_S = 10.0
"""Views that take longer are measured once."""
NOT_TRIED = "not tried"


class Measured(Struct, frozen=True):
    """Results for one view; None for what was not reached.

    Parameters
    ----------
    python_s, browser_s : float or None
        Seconds until Python has created the HTML, and until the browser has drawn it.
    size : int or None
        Size of the HTML in bytes.
    python_bytes, browser_bytes : int or None
        Memory at its peak in addition to the weights, and to an empty browser.
    hover_s : tuple of float
        Seconds from the movement of the pointer to the painted change.
    failure : str
        Why the view was not drawn.
    """

    python_s: float | None = None
    browser_s: float | None = None
    size: int | None = None
    python_bytes: int | None = None
    browser_bytes: int | None = None
    hover_s: tuple[float, ...] = ()
    failure: str = ""

    @property
    def seconds(self) -> float | None:
        """Seconds from the call until the view is drawn."""
        if self.python_s is None or self.browser_s is None:
            return None
        return self.python_s + self.browser_s

    @property
    def memory(self) -> int | None:
        """Memory of Python and the browser in bytes."""
        if self.python_bytes is None or self.browser_s is None or self.browser_bytes is None:
            return None
        return self.python_bytes + self.browser_bytes

    @property
    def latency(self) -> float | None:
        """Median hover latency in seconds."""
        return median(self.hover_s) if self.hover_s else None


Results = dict[tuple[str, tuple[int, int], int], Measured]


class Figure(Struct, frozen=True):
    """A figure that is compared, and how it is written."""

    title: str
    unit: str
    read: Callable[[Measured], float | None]


FIGURES = (
    Figure("Time from the call until the view is drawn", "s", lambda found: found.seconds),
    Figure("Size of the HTML", "MB", lambda found: found.size and found.size / 1e6),
    Figure(
        "Memory of Python and the browser", "MB", lambda found: found.memory and found.memory / 1e6
    ),
    Figure("Response to the pointer", "ms", lambda found: found.latency and 1000 * found.latency),
)


def measure(repeats: int) -> int:
    """Measure and print; return the number of figures in which another tool is ahead."""
    if not _is_complete(TOOLS):
        return 0
    results = _measure_all(TOKENS, TOOLS, min(repeats, MAX_ROUNDS))
    missed = 0
    for shape in SHAPES:
        for tokens in TOKENS:
            title = f"Notebook views of {shape[0]} × {shape[1]} heads, {tokens:,} tokens"
            of_tools = {tool.name: results[tool.name, shape, tokens] for tool in TOOLS}
            missed += show(title, [_compare(figure, of_tools) for figure in FIGURES])
    return missed


def _compare(figure: Figure, results: dict[str, Measured]) -> Line:
    """Return a line with this program's figure, and that of the best other tool as its target."""
    found = {name: number for name, each in results.items() if (number := figure.read(each))}
    own = found.pop(OWN.name, math.inf)
    text = f"{_format(own)} {figure.unit}"
    if not found:
        return Line(figure.title, text)
    best = min(found, key=lambda name: found[name])
    target = f"≤ {_format(found[best])} {figure.unit}"
    return Line(f"{figure.title} ({best})", text, target, own <= found[best])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.notebook_views")
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS, help="numbers of tokens")
    parser.add_argument("--tools", nargs="+", default=[tool.name for tool in TOOLS], metavar="TOOL")
    parser.add_argument("--rounds", type=int, default=MAX_ROUNDS, help="rounds for fast views")
    parser.add_argument("--pictures", default="", metavar="FOLDER", help="save screenshots")
    options = parser.parse_args(arguments)
    chosen = [tool for tool in TOOLS if tool.name in options.tools]
    if not _is_complete(chosen):
        return 1
    results = _measure_all(options.tokens, chosen, options.rounds, options.pictures)
    print(format_tables(results))
    return 0


def _is_complete(tools: Sequence[Tool]) -> bool:
    """Print what has to be installed, if something is missing."""
    commands = {command for tool in tools for command in tool.missing()}
    if not find_spec("playwright"):
        commands.add("pip install playwright")
    if not FOUND:
        commands.add("apt install chromium")
    if commands:
        print("\n".join(["\nNotebook views are not measured. First run:", *sorted(commands)]))
    return not commands


# ------------------------------------------------------------------------------------- tables


def format_tables(results: Results) -> str:
    """Return a table for each figure in Markdown; the best result of each row is bold."""
    names = [tool.name for tool in TOOLS if any(tool.name == name for name, *_ in results)]
    sizes = list(dict.fromkeys((shape, tokens) for _, shape, tokens in results))
    parts = []
    for figure in FIGURES:
        rows = [f"| {figure.title}, in {figure.unit} | {' | '.join(names)} |"]
        rows.append("| --- |" + " ---: |" * len(names))
        for (layers, heads), tokens in sizes:
            found = [results[name, (layers, heads), tokens] for name in names]
            best = min((figure.read(each) or math.inf for each in found), default=math.inf)
            cells = [_format_cell(figure, each, best) for each in found]
            rows.append(f"| {layers} × {heads}, {tokens:,} | {' | '.join(cells)} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _format_cell(figure: Figure, found: Measured, best: float) -> str:
    number = figure.read(found)
    if number is None:
        return found.failure if figure is FIGURES[0] else "–"
    text = _format(number)
    return f"**{text}**" if text == _format(best) else text


def _format(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:,.0f}"


# ------------------------------------------------------------------------------- measurements


def _measure_all(
    sizes: Sequence[int], tools: Sequence[Tool], rounds: int, pictures: str = ""
) -> Results:
    """Measure all views; a tool that fails is not tried with more tokens."""
    results: Results = {}
    for shape, tool in product(SHAPES, tools):
        failed = False
        for tokens in sizes:
            found = (
                Measured(failure=NOT_TRIED) if failed else _measure(tool, shape, tokens, pictures)
            )
            if found.seconds and found.seconds < MAX_REPEATED_S:
                more = [_measure(tool, shape, tokens) for _ in range(rounds - 1)]
                found = _combine([found, *more])
            failed = bool(found.failure)
            results[tool.name, shape, tokens] = found
            print(f"{tool.name}, {shape}, {tokens:,} tokens: {found}", file=sys.stderr, flush=True)
    return results


def _combine(rounds: Sequence[Measured]) -> Measured:
    """Return the medians of several rounds, and the latencies of all."""
    done = [each for each in rounds if not each.failure]
    names = "python_s", "browser_s", "size", "python_bytes", "browser_bytes"
    medians = {name: median(getattr(each, name) for each in done) for name in names}
    return replace(
        done[0], **medians, hover_s=tuple(latency for each in done for latency in each.hover_s)
    )


def _measure(tool: Tool, shape: tuple[int, int], tokens: int, pictures: str = "") -> Measured:
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file, index = str(Path(folder) / "page.html"), TOOLS.index(tool)
        told, failure = _run_limited(create_page, index, *shape, tokens, file)
        if failure:
            return Measured(failure=f"{failure} in Python")
        created = Measured(**told)
        name = f"{tool.name}, {shape[0]}x{shape[1]}, {tokens}.png"
        picture = str(Path(pictures).absolute() / name) if pictures else ""
        told, failure = _run_limited(draw_page, index, file, picture)
    if "browser_s" not in told:
        return replace(created, failure=f"{failure or 'not drawn'} in the browser")
    return replace(created, **told)


def _run_limited(function: Callable[..., Any], *arguments: object) -> tuple[dict[str, Any], str]:
    """Run a function in a process; return its results, and why it was ended.

    Unlike `children.run`, results that were printed before the process exceeded its time or memory
    are kept.
    """
    command = [sys.executable, "-m", "tests.benchmarks.children"]
    process = psutil.Popen(
        [*command, function.__module__, function.__name__, json.dumps(arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end, failure = time.monotonic() + MAX_S, ""
    while process.returncode is None and not failure:
        tree = [process, *process.children(recursive=True)]
        if sum(map(_resident_bytes, tree)) > MAX_BYTES:
            failure = f"> {MAX_BYTES / 2**30:g} GiB"
        elif time.monotonic() > end:
            failure = f"> {MAX_S} s"
        with suppress(psutil.TimeoutExpired):
            process.wait(POLL_S)
    if failure:
        for each in reversed([process, *process.children(recursive=True)]):
            each.kill()
    output, errors = process.communicate()
    results: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("{"):
            results |= json.loads(line)
    if process.returncode and not failure:
        failure = (errors.strip().splitlines() or ["ended without a message"])[-1]
    return results, failure


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it has ended
        return 0


if __name__ == "__main__":
    raise SystemExit(main())
