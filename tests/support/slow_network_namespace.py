"""A network namespace behind a connection on which packets arrive late, and some are lost.

It works like netem, which not every kernel has: a process forwards the packets between two TUN
devices. Both ends use the TCP implementation of this system, which is not aware of the simulation.
Root permissions are required.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

_NEAR, FAR = "10.99.0.1", "10.99.0.2"
"""The addresses of this side and of the namespace."""
_SETTINGS = "/proc/sys/net/ipv4/tcp_congestion_control"
_ALGORITHM = "cubic"
"""Congestion control algorithm of most systems; it is always set, so that results are comparable.
"""
_DEVICE, _FLAGS, _SET_DEVICE = "/dev/net/tun", 0x1001, 0x400454CA
_PIECE = 2**16


class SlowNamespace(Struct):
    """The namespace, and the process that forwards packets.

    Parameters
    ----------
    trim_to : list of str
        Beginning of a command that is to run in the namespace.
    """

    process: subprocess.Popen[str]
    trim_to: list[str]

    @property
    def bytes(self) -> int:
        """Number of bytes received from the namespace."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return _told(self.process)


@contextmanager
def slow_namespace(round_trip_s: float, loss: float, seed: int = 1) -> Iterator[SlowNamespace]:
    """Create a namespace that is reached over a slow connection through a separate process.

    Parameters
    ----------
    loss : float
        Proportion of packets that are lost in each direction.
    seed : int
        Seed that selects the lost packets.

    Raises
    ------
    PermissionError
        If the user is not root.
    """
    if os.geteuid() != 0:
        raise PermissionError("Only root makes a network namespace.")
    module = [sys.executable, "-m", "tests.support.slow_network_namespace"]
    with subprocess.Popen(
        [*module, *map(str, (round_trip_s, loss, seed))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        yield SlowNamespace(process, ["nsenter", "--net", "--target", str(_told(process))])
        assert process.stdin
        process.stdin.close()


def _told(process: subprocess.Popen[str]) -> int:
    assert process.stdout
    return int(process.stdout.readline())


class _Line:
    """Forwards packets between two devices.

    Parameters
    ----------
    ends : tuple of int
        The descriptors of this side's device and of the other one's.
    """

    def __init__(self, ends: tuple[int, int], delay_s: float, loss: float, seed: int) -> None:
        self._other = dict(zip(ends, reversed(ends), strict=True))
        self._far, self._delay_s, self._loss = ends[1], delay_s, loss
        self._draw = random.Random(seed)
        self._late: list[tuple[float, int, int, bytes]] = []
        self._count = 0
        self.bytes = 0

    def wait_ms(self) -> float | None:
        """Return the time until the next packet arrives, or None if there is no packet."""
        return max(0.0, 1000 * (self._late[0][0] - monotonic())) if self._late else None

    def take(self, end: int) -> None:
        """Receive the packets that were sent at one end, and drop some of them."""
        while packet := _received(end):
            self.bytes += len(packet) * (end == self._far)
            if self._draw.random() >= self._loss:
                self._count += 1
                arrives = monotonic() + self._delay_s
                heapq.heappush(self._late, (arrives, self._count, self._other[end], packet))

    def deliver(self) -> None:
        """Forward the packets that have arrived."""
        while self._late and self._late[0][0] <= monotonic():
            *_, end, packet = heapq.heappop(self._late)
            os.write(end, packet)


def _received(end: int) -> bytes:
    try:
        return os.read(end, _PIECE)
    except BlockingIOError:
        return b""


def _device(name: str) -> int:
    file = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, _SET_DEVICE, struct.pack("16sH", name.encode(), _FLAGS))
    return file


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def main(round_trip_s: str, loss: str, seed: str) -> None:
    """Create the namespace, and print the id of a process in it.

    For each line of input, the number of bytes received from the namespace is printed.
    """
    settle = f"echo {_ALGORITHM} > {_SETTINGS}; ip link set lo up; echo; exec cat"
    command = ["unshare", "--net", "sh", "-c", settle]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdout
        inside.stdout.readline()
        names = tuple(f"{end}{os.getpid()}" for end in ("near", "far"))
        near, far = (_device(name) for name in names)
        there = ("nsenter", "--net", "--target", str(inside.pid))
        _run("ip", "link", "set", names[1], "netns", str(inside.pid))
        for where, name, address in (((), names[0], _NEAR), (there, names[1], FAR)):
            _run(*where, "ip", "address", "add", f"{address}/30", "dev", name)
            _run(*where, "ip", "link", "set", name, "up")
        _tell(inside.pid)
        line = _Line((near, far), float(round_trip_s) / 2, float(loss), int(seed))
        _hand_on(line, (near, far))
        assert inside.stdin
        inside.stdin.close()


def _hand_on(line: _Line, ends: tuple[int, int]) -> None:
    """Forward packets until the input ends."""
    asked = sys.stdin.fileno()
    ready = select.poll()
    for file in (*ends, asked):
        ready.register(file, select.POLLIN)
    while True:
        for file, _ in ready.poll(line.wait_ms()):
            if file in ends:
                line.take(file)
            elif os.read(file, 1):
                _tell(line.bytes)
            else:
                return
        line.deliver()


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
