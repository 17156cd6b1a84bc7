"""Format of messages between the program and its processes. This module does not import torch.

A message consists of the header's length (four bytes, big-endian), the header in JSON, and the
bytes of the arrays, in the order in which the header lists them.
"""

from __future__ import annotations

import json
import os
import queue
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_LENGTH_FORMAT = struct.Struct(">I")
BYTES_PER_READ = 1 << 16
MAX_HEADER_BYTES = 2**28
"""Maximum size of a header in bytes; printed text that is interpreted as a length exceeds it."""


class Message(Struct, frozen=True, eq=False):
    """A message that contains JSON values and arrays.

    Parameters
    ----------
    kind : str
        Kind of the message.
    values : dict
        JSON values, keyed by name.
    arrays : dict of str to numpy.ndarray
        Arrays, keyed by name; those of a received message are read-only.
    """

    kind: str
    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Encode the message as bytes."""
        parts = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        sizes = [[name, part.dtype.str, part.shape] for name, part in parts.items()]
        header = json.dumps([self.kind, dict(self.values), sizes]).encode()
        return b"".join(
            [_LENGTH_FORMAT.pack(len(header)), header, *(part.tobytes() for part in parts.values())]
        )


Inbox = queue.SimpleQueue["Message | None"]
"""Queue of messages; None marks the end of the input."""


class MessageUnpacker:
    """Decodes messages from a byte stream that arrives in arbitrary pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._offset = 0
        """Offset of the next message in the buffer."""
        self._header: MessageHeader | None = None
        """The next message's header, kept once it is complete: a long message arrives in
        hundreds of pieces.
        """

    def unpack_piece(self, piece: bytes) -> Iterator[Message]:
        """Append a piece, and yield the messages that it completes."""
        del self._buffer[: self._offset]
        self._offset = 0
        self._buffer += piece
        while (message := self._next_message()) is not None:
            yield message

    def _next_message(self) -> Message | None:
        header = self._header = self._header or self._read_header()
        if header is None or len(self._buffer) - self._offset < header.size:
            return None
        arrays = {}
        with memoryview(self._buffer) as left:
            for name, dtype, shape in header.array_types:
                end = self._offset + _array_byte_count(dtype, shape)
                arrays[name] = np.frombuffer(bytes(left[self._offset : end]), dtype).reshape(shape)
                self._offset = end
        self._header = None
        return Message(header.kind, header.values, arrays)

    def _read_header(self) -> MessageHeader | None:
        """Return the next header if it is complete."""
        left, start = self._buffer, self._offset + _LENGTH_FORMAT.size
        if len(left) < start:
            return None
        size = _LENGTH_FORMAT.unpack_from(left, self._offset)[0]
        if size > MAX_HEADER_BYTES:
            raise ValueError(f"not a message: {bytes(left[self._offset : self._offset + 40])!r}")
        if len(left) < start + size:
            return None
        kind, values, sizes = json.loads(left[start : start + size])
        types = tuple((name, np.dtype(dtype), tuple(shape)) for name, dtype, shape in sizes)
        self._offset = start + size
        return MessageHeader(kind, values, types)


class MessageHeader(Struct, frozen=True):
    """A message's kind and values, and the names, types and shapes of its arrays."""

    kind: str
    values: Mapping[str, Any]
    array_types: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]

    @property
    def size(self) -> int:
        """Size of all arrays, in bytes."""
        return sum(_array_byte_count(dtype, shape) for _, dtype, shape in self.array_types)


def _array_byte_count(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return dtype.itemsize * int(np.prod(shape, dtype=np.int64))


def read_messages(descriptor: int) -> Iterator[Message]:
    """Yield the messages that arrive through a pipe until the pipe is closed."""
    unpacker = MessageUnpacker()
    while piece := os.read(descriptor, BYTES_PER_READ):
        yield from unpacker.unpack_piece(piece)


def read_into_inbox(source: BinaryIO, inbox: Inbox) -> None:
    """Put every message into the inbox, and None at the end or after an invalid message."""
    try:
        for message in read_messages(source.fileno()):
            inbox.put(message)
    finally:
        inbox.put(None)  # without this, the process could not be stopped


def open_message_sender() -> Callable[[Message], None]:
    """Return a function that writes messages to standard output; redirect all other output."""
    target = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(message: Message) -> None:
        left = memoryview(message.pack())
        with suppress(OSError):  # the window was closed; the error differs between systems
            while left:
                left = left[os.write(target, left) :]

    return send
