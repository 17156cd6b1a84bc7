"""Waits for the effects of a program that a test has started."""

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
    """Wait until the program fulfils a condition; fail if the program ends first."""
    while not is_so():
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"the program has ended with status {process.wait(LOOK_S)}")
