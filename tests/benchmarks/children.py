"""Runs functions in separate processes and returns their results."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]


def run(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function of a module in a new Python process; all values are converted to JSON."""
    name = (function.__module__, function.__name__)
    return python("-m", "tests.benchmarks.children", *name, json.dumps(arguments, default=str))


def python(*arguments: str) -> Any:
    """Run Python and return the last line of its output, decoded from JSON."""
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {ended.returncode}:\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])


def hand_over(numbers: Any) -> None:
    """Send a result to the parent process."""
    print(json.dumps(numbers))


if __name__ == "__main__":
    hand_over(getattr(import_module(sys.argv[1]), sys.argv[2])(*json.loads(sys.argv[3])))
