"""Messages between a window and a training that runs beside it: JSON and arrays; no torch.

A message is its header's length (four bytes, the largest first), the header in JSON, and the bytes
of the arrays that it names, one after the other.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LENGTH = struct.Struct(">I")
LONGEST = 2**28
"""Bytes of a header; what a program prints would be read as a length beyond it."""


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """What is said.

    Parameters
    ----------
    says : str
        What kind of message it is.
    values : dict
        Plain values, as JSON has them.
    arrays : dict
        Numbers by name; those of a message that was received are read-only.
    """

    says: str
    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Give its bytes."""
        parts = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        sizes = [[name, part.dtype.str, part.shape] for name, part in parts.items()]
        header = json.dumps([self.says, dict(self.values), sizes]).encode()
        return b"".join(
            [_LENGTH.pack(len(header)), header, *(part.tobytes() for part in parts.values())]
        )


class Unpacker:
    """Makes messages of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._left = bytearray()

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Take a piece, and give the messages that are whole now."""
        self._left += piece
        while (found := self._next()) is not None:
            message, size = found
            del self._left[:size]
            yield message

    def _next(self) -> tuple[Message, int] | None:
        left = self._left
        if len(left) < _LENGTH.size:
            return None
        size = _LENGTH.unpack_from(left)[0]
        if size > LONGEST:
            raise ValueError(f"no message, but {bytes(left[:40])!r}")
        at = _LENGTH.size + size
        if len(left) < at:
            return None
        says, values, sizes = json.loads(left[_LENGTH.size : at])
        kinds = [(name, np.dtype(kind), tuple(shape)) for name, kind, shape in sizes]
        whole = at + sum(_size(kind, shape) for _, kind, shape in kinds)
        if len(left) < whole:
            return None
        arrays = {}
        for name, kind, shape in kinds:
            end = at + _size(kind, shape)
            arrays[name] = np.frombuffer(bytes(left[at:end]), kind).reshape(shape)
            at = end
        return Message(says, values, arrays), whole


def _size(kind: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return kind.itemsize * int(np.prod(shape, dtype=np.int64))
