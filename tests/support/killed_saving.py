"""Kills programs that save in a loop, and checks the files on disk afterwards.

The programs are forked after all imports, so that hundreds of them can be killed.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import AttentionSpec, NumberMatrix
from visualizer.documents.document_file import document_bytes
from visualizer.documents.open_document import open_document
from visualizer.documents.recovery_file import RecoveryFile, find_crash_recovery_files
from visualizer.session.document import Document
from visualizer.session.view import View
from visualizer.storage.atomic_file import write_atomically

if TYPE_CHECKING:
    from typing import BinaryIO

LONGEST_S = 0.06
SAVED, KEPT = 0, 1


def numbered(number: int, rows: int) -> Document:
    """Return a document that is identified by a number and can have any size."""
    own = NumberMatrix.from_array(np.full((rows, 3), float(number)))
    return Document(text=str(number), spec=AttentionSpec(own_input=own))


def number_of(document: Document) -> int:
    """Return the number of a document, after checking that all of its parts have this number."""
    number = int(document.text)
    assert document.spec.own_input
    assert (document.spec.own_input.to_array() == number).all()
    return number


def fill(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def save_on_and_on(folder: Path, start: int, told: int, seed: int) -> None:
    """Save and back up numbered documents, and report the number of each completed write."""
    chance, number, path = random.Random(seed), start, folder / "a.attention"
    keeper = RecoveryFile(folder / "kept")
    while True:
        number += 1
        document = numbered(number, chance.randrange(1, 20_000))
        keeper.write(document, View(), path)
        os.write(told, bytes([KEPT]) + number.to_bytes(4, "big"))
        write_atomically(path, partial(fill, document_bytes(document, View())))
        os.write(told, bytes([SAVED]) + number.to_bytes(4, "big"))


def killed(folder: Path, start: int, seconds: float, seed: int) -> tuple[int, int]:
    """Start a program, kill it after a while, and return the last numbers that it reported."""
    told, telling = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            save_on_and_on(folder, start, telling, seed)
        finally:
            os._exit(1)
    os.close(telling)
    heard, end = os.read(told, 5), time.monotonic() + seconds  # the program has started
    assert find_crash_recovery_files(folder / "kept") == [], (
        "what a running program keeps is its own"
    )
    while (rest := end - time.monotonic()) > 0:
        if select.select([told], [], [], rest)[0]:
            heard += os.read(told, 4096)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it ended by itself"
    while block := os.read(told, 4096):
        heard += block
    os.close(told)
    done = [start, 0]
    for at in range(0, len(heard), 5):
        done[heard[at]] = int.from_bytes(heard[at + 1 : at + 5], "big")
    return done[SAVED], done[KEPT]


def kill_many(kills: int, seed: int = 1) -> dict[str, int]:
    """Kill this many programs, and count the states of their files."""
    chance, last = random.Random(seed), 0
    count = {"kills": 0, "newer than said": 0, "in the middle": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_atomically(
            folder / "a.attention", partial(fill, document_bytes(numbered(0, 1), View()))
        )
        for _ in range(kills):
            start = last
            saved, kept = killed(folder, start, chance.random() * LONGEST_S, chance.getrandbits(32))
            last = number_of(open_document(folder / "a.attention").document)
            assert last in (saved, saved + 1), f"{last} is neither {saved} nor the next"
            (left,) = find_crash_recovery_files(folder / "kept")
            offered = number_of(left.read().document)
            assert offered in (kept, kept + 1), f"{offered} is neither {kept} nor the next"
            assert left.path == folder / "a.attention"
            left.delete()
            assert find_crash_recovery_files(folder / "kept") == []
            parts = [*folder.rglob("*.part")]
            for part in parts:
                part.unlink()
            assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a.attention"]
            count["kills"] += 1
            count["newer than said"] += last > saved
            count["in the middle"] += bool(parts)
    return count


if __name__ == "__main__":
    print(kill_many(int(sys.argv[1])))  # noqa: T201
