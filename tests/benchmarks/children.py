"""Measurements that need a process of their own, which returns numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def run(module: str, *arguments: str) -> Any:
    """Run a module of the benchmarks in a fresh Python; give what it hands over."""
    return python("-m", f"tests.benchmarks.{module}", *arguments)


def python(*arguments: str) -> Any:
    """Run Python; give the last line of what it prints, read as JSON."""
    ended = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {ended.returncode}:\n{ended.stderr}")
    return json.loads(ended.stdout.splitlines()[-1])


def hand_over(numbers: Any) -> None:
    """Give numbers to the process that asked for them."""
    print(json.dumps(numbers))
