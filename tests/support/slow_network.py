"""A proxy that simulates a slow network: data arrives late, and some of it is retransmitted.

Each connection is modelled as one TCP connection. Each segment takes half of the round-trip time; a
lost segment delays all segments after it by a round trip; and the rate is that of a window which
losses keep small. Source: Mathis et al. 1997, "The Macroscopic Behavior of the TCP Congestion
Avoidance Algorithm".
"""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEGMENT = 1448
"""Number of payload bytes in one Ethernet packet."""


class SlowNetwork:
    """Connections to a port of this machine, each over a simulated slow network.

    Parameters
    ----------
    round_trip_s : float
        Time from the sending of a packet to its acknowledgement, in seconds.
    loss : float
        Proportion of packets that are lost.
    """

    def __init__(self, port: int, round_trip_s: float, loss: float, seed: int = 1) -> None:
        self._to, self._round_trip, self._loss = port, round_trip_s, loss
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0

    @property
    def rate(self) -> float:
        """Long-term transfer rate of one connection, in bytes per second."""
        return SEGMENT / self._round_trip * math.sqrt(1.5 / self._loss)

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Close all connections."""
        self._server.close()
        for writer in self._writers:
            writer.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.close()
            return
        self._writers += [writer, back]
        with suppress(asyncio.CancelledError):  # the proxy is closed
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clock = self._loop.time
        sent = clock() + self._round_trip  # both ends exchange a greeting first
        arrives = sent
        with suppress(OSError):
            while piece := await reader.read(SEGMENT):
                sent = max(sent, clock()) + len(piece) / self.rate
                if self._draw.random() < self._loss:
                    sent += self._round_trip
                arrives = sent + self._round_trip / 2
                self._loop.call_at(arrives, _write, writer, piece)
        self._loop.call_at(max(arrives, clock()), writer.close)


def _write(writer: asyncio.StreamWriter, piece: bytes) -> None:
    if not writer.is_closing():
        writer.write(piece)


@contextmanager
def slow_network(port: int, round_trip_s: float = 0.1, loss: float = 0.01) -> Iterator[SlowNetwork]:
    """Run a proxy on another port that leads to a port of this machine over a slow network."""
    made = SlowNetwork(port, round_trip_s, loss)
    loop = made._loop
    thread = Thread(target=loop.run_forever, daemon=True, name="slow network")
    thread.start()
    asyncio.run_coroutine_threadsafe(made.listen(), loop).result(10)
    try:
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(made.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
