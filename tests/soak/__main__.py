"""Uses the whole program at random for a while: ``python -m tests.soak --seed 1 --minutes 10``.

The program runs in a separate process, so that a crash or a hang is also reported, together with
the last actions. Exit status 0 means that there was no failure.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAST_ACTIONS = 25
DROP_FROM_PROGRAMS, IGNORE_PERMISSIONS = 24, (1, 2)
"""Arguments of Linux's ``prctl``: the operation that drops a capability for started programs, and
the capabilities to drop.
"""
BEGINS, DID, FIGURE = "begins ", "did ", "figure "
"""Prefixes of the lines that the program under test prints."""
LONGEST_GAP_S = 1.0
"""Maximum pause of the GUI thread, in seconds."""
KILLED = "killed"
"""Last line of a program that kills itself and is to be started again."""


def main(arguments: list[str] | None = None) -> int:
    """Run the program under test, print failures and measurements, and return the status."""
    options = parsed(arguments)
    end = time.monotonic() + 60 * options.minutes
    count, failures, life = 0, 0, 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        _obey_permissions()
        while (left := (end - time.monotonic()) / 60) > 0:
            said = Said(count)
            was_killed = _live([options.seed, life, options.longest_gap, left, name], said)
            count, failures, life = said.count, failures + said.failures, life + 1
            if not was_killed:
                break
    _print(f"seed {options.seed}: {count:,} actions, {life} starts, {failures} failures\n")
    return int(failures > 0)


class Said:
    """The output of the program under test."""

    def __init__(self, count: int) -> None:
        self.count, self.failures = count, 0
        self.actions: deque[str] = deque(maxlen=LAST_ACTIONS)
        self.last, self._begun = "", ""

    def take(self, line: str) -> None:
        """Count an action, or print any other line."""
        self.last = line.rstrip()
        if line.startswith(BEGINS):
            self._begun = line.removeprefix(BEGINS)
            return
        if line.startswith(DID):
            self.count += 1
            self._begun = ""
            self.actions.append(f"{self.count}: {line.removeprefix(DID)}")
            return
        _print(line.removeprefix(FIGURE))
        if line.startswith("FAILURE"):
            self.fail("")

    def fail(self, what: str) -> None:
        """Print a failure with the last actions."""
        self.failures += 1
        _print(f"{what}after " + "      ".join([*self.actions, f"and in {self._begun}\n"]))


def _live(arguments: list[object], said: Said) -> bool:
    """Run the program until it ends, and return whether it has killed itself."""
    *_, place = arguments
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "tests.soak.program", *map(str, arguments)],
        cwd=ROOT, env=environment(Path(str(place))), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    assert process.stdout
    for line in process.stdout:
        said.take(line)
    status = process.wait()
    if said.last == KILLED and status == -signal.SIGKILL:
        return True
    if status and (status != 1 or not said.failures):  # the program crashed or stopped responding
        said.fail(f"the program ended with status {status}, ")
    return False


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="decides every action")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--longest-gap", type=float, default=LONGEST_GAP_S, metavar="SECONDS",
        help="of the window's thread; more where the machine has other work",
    )  # fmt: skip
    return parser.parse_args(arguments)


def environment(place: Path) -> dict[str, str]:
    """Return an environment in which no files of the user are read or written."""
    own = {
        "HOME": str(place),
        "XDG_DATA_HOME": str(place / "data"),
        "XDG_CONFIG_HOME": str(place / "settings"),
        "XDG_CACHE_HOME": str(place / "cache"),
        "QT_QPA_PLATFORM": os.environ.get("ATTENTION_VISUALIZER_TEST_PLATFORM", "offscreen"),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",  # Python leaves incomplete files if the disk is full
    }
    return {**os.environ, **own}


def _obey_permissions() -> None:
    """Drop the capabilities with which an administrator could write to read-only folders."""
    if sys.platform == "linux" and os.geteuid() == 0:
        for capability in IGNORE_PERMISSIONS:
            ctypes.CDLL(None).prctl(DROP_FROM_PROGRAMS, capability, 0, 0, 0)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
