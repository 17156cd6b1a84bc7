"""Runs the program in processes forked from a server that has imported torch.

Importing torch takes longer than most tests that run the program. Systems without fork have no such
server.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing.reduction import DupFd
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Program = Callable[[Sequence[str]], int]

PRELOADED = (
    "torch._dynamo", "torch.nn.parallel", "visualizer.app", "visualizer.cli.train",
    "visualizer.language.distributed_training", "visualizer.language.opened_run",
    "visualizer.language.training_server", "visualizer.models.model_ranks",
)  # fmt: skip
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class ForkedProgram:
    """A running program, with the methods of `subprocess.Popen`.

    Parameters
    ----------
    program : callable
        Receives the arguments and returns the exit status.
    streams : mapping of int to int
        Descriptors of this process, by the descriptors that the program has for them.
    environment : mapping, optional
        Additional environment variables of the program.
    """

    def __init__(
        self,
        program: Program,
        arguments: Sequence[str],
        streams: Mapping[int, int],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*PRELOADED])
        own = {**os.environ, **(environment or {})}
        self._process = context.Process(
            target=_run, args=(program, arguments, _Streams(streams), own)
        )
        self._process.start()
        assert self._process.pid
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            assert timeout
            raise subprocess.TimeoutExpired(str(self._process), timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


class _Streams:
    """Descriptors that are passed to the process when it is started."""

    def __init__(self, descriptors: Mapping[int, int]) -> None:
        self._descriptors = descriptors

    def __getstate__(self) -> dict[int, Any]:
        return {target: DupFd(own) for target, own in self._descriptors.items()}

    def __setstate__(self, state: dict[int, Any]) -> None:
        self._descriptors = {target: own.detach() for target, own in state.items()}

    def install(self) -> None:
        for target, own in self._descriptors.items():
            os.dup2(own, target)
            os.close(own)


def _run(
    program: Program, arguments: Sequence[str], streams: _Streams, environment: dict[str, str]
) -> None:
    streams.install()
    sys.stdin = os.fdopen(0, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    for name in SIGNALS:  # as if a shell started the program, whatever process started the tests
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(program(arguments))
