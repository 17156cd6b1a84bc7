"""Waits for what a program does that a test has started."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.forked_program import ForkedProgram

LOOK_S = 0.02


def wait_for_program(
    process: subprocess.Popen[Any] | ForkedProgram, is_so: Callable[[], bool]
) -> None:
    """Wait until a condition holds that a program brings about; fails if it ends before that."""
    while not is_so():
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"the program has ended with status {process.wait(LOOK_S)}")
