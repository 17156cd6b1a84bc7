"""Runs measurements in separate processes and returns their results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def run(module: str, *arguments: str) -> Any:
    """Run a benchmark module in a new Python process and return its result."""
    return python("-m", f"tests.benchmarks.{module}", *arguments)


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
