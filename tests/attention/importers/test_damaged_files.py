"""Damaged or hostile files are rejected with an error message and never crash the program."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import tracemalloc
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from tests.support.tensor_files import WRITERS, attention
from visualizer.attention.importers.tensor_file_reader import read_tensor_file
from visualizer.attention.modules import MultiHeadAttention
from visualizer.attention.spec import AttentionSpec
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAMAGED_OF_EACH = 220
MOST_BYTES = 2**26
"""Maximum memory for reading a small file, including what NumPy and torch need."""


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_tensor_file(path, AttentionSpec())
    assert caught.value.field == "open"
    return caught.value.sentence


# ------------------------------------------------------------------------------------ random damage


def _cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def _flipped(data: bytes, draw: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8, 64))):
        made[draw.randrange(len(made))] = draw.randrange(256)
    return bytes(made)


def _at_the_head(data: bytes, draw: random.Random) -> bytes:
    """Change bytes near the start, because a changed header has more effect."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 2, 4))):
        made[draw.randrange(min(200, len(made)))] = draw.randrange(256)
    return bytes(made)


def _at_the_foot(data: bytes, draw: random.Random) -> bytes:
    """Change bytes near the end, where archives have their directory."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 2, 4))):
        made[-draw.randrange(1, min(300, len(made)))] = draw.randrange(256)
    return bytes(made)


def _spliced(data: bytes, draw: random.Random) -> bytes:
    start, other = draw.randrange(len(data)), draw.randrange(len(data))
    return data[:start] + data[other:]


def _with_large_numbers(data: bytes, draw: random.Random) -> bytes:
    made, at = bytearray(data), draw.randrange(max(1, len(data) - 8))
    made[at : at + 8] = struct.pack("<Q", draw.choice((2**31, 2**40, 2**63, 2**64 - 1)))
    return bytes(made)


DAMAGES = (_cut, _flipped, _at_the_head, _at_the_foot, _spliced, _with_large_numbers)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRITERS)
def test_a_damaged_file_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    draw = random.Random(kind)
    whole = WRITERS[kind](tmp_path, attention((2, 3, 5, 5)))
    data, path = whole.read_bytes(), whole.with_stem("damaged")
    outcomes = set()
    for number in range(DAMAGED_OF_EACH):
        path.write_bytes(DAMAGES[number % len(DAMAGES)](data, draw))
        try:
            read_tensor_file(path, AttentionSpec())
            outcomes.add("read")
        except InputError as refused:
            outcomes.add(refused.field)
    assert outcomes == {"read", "open"}


def test_damaged_weights_are_read_or_refused(tmp_path: Path) -> None:
    draw = random.Random(0)
    torch.save(MultiHeadAttention(3, 4, 6, 0.0, 2).state_dict(), tmp_path / "whole.pt")
    data, path = (tmp_path / "whole.pt").read_bytes(), tmp_path / "damaged.pt"
    outcomes = set()
    for number in range(DAMAGED_OF_EACH):
        path.write_bytes(DAMAGES[number % len(DAMAGES)](data, draw))
        try:
            read_tensor_file(path, AttentionSpec())
            outcomes.add("read")
        except InputError as refused:
            outcomes.add(refused.field)
    assert outcomes == {"read", "open"}


@pytest.mark.parametrize("suffix", ["npy", "npz", "safetensors", "pt"])
@pytest.mark.parametrize("data", [b"", b"\0", b"PK\x03\x04", b"\x93NUMPY", b"x" * 1000])
def test_what_is_no_such_file_at_all_is_refused(suffix: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(data)
    assert "a." in refusal(path)


# ------------------------------------------------------------------------------------ hostile files


class Code:
    """Writes a file if it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return os.mkdir, (str(self.path),)


def _archive(path: Path, members: dict[str, bytes], packed: bool = False) -> Path:
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def _header(shape: str, descr: str = "'<f4'", data: bytes = b"") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def test_code_in_a_pickle_is_not_run(tmp_path: Path) -> None:
    torch.save({"attention": torch.ones(3, 3), "more": Code(tmp_path / "ran")}, tmp_path / "a.pt")
    said = "“a.pt” was not opened because it contains Python objects, which could run code."
    assert refusal(tmp_path / "a.pt") == f"{said} Save only tensors, lists and dicts."
    assert not (tmp_path / "ran").exists()


def test_code_in_a_bare_pickle_is_not_run(tmp_path: Path) -> None:
    for name in ("a.pt", "a.npy", "a.npz"):
        (tmp_path / name).write_bytes(pickle.dumps(Code(tmp_path / "ran")))
        assert name in refusal(tmp_path / name)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_objects_of_numpy_are_not_unpickled(suffix: str, tmp_path: Path) -> None:
    array = np.empty((2, 2), dtype=object)
    array[:] = Code(tmp_path / "ran")
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    path = tmp_path / f"a.{suffix}"
    if suffix == "npy":
        path.write_bytes(file.getvalue())
    else:
        _archive(path, {"attention.npy": file.getvalue()})
    assert "object" in refusal(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "shape", [f"({2**40}, 4)", f"({2**40}, {2**40})", "(-1, 4)", f"({2**63},) * 2", "(4, 4)"]
)
def test_a_header_that_says_more_than_there_is_takes_no_memory(shape: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(_header(shape))
    _archive(tmp_path / "a.npz", {"a.npy": _header(shape)})
    tracemalloc.start()
    said = refusal(tmp_path / "a.npy"), refusal(tmp_path / "a.npz")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert all("damaged" in sentence for sentence in said)
    assert most < MOST_BYTES


def test_letters_that_would_fill_the_memory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(_header("(1,)", "'<U2000000000'"))
    assert "damaged" in refusal(tmp_path / "a.npy")


@pytest.mark.parametrize("descr", ["[('a', '<f4')]", "'<M8[s]'", "'|O'", "'|V8'", "'<c8'", "'|S1'"])
def test_other_types_are_named(descr: str, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(_header("(2, 2)", descr, bytes(64)))
    assert refusal(tmp_path / "a.npy").startswith("No array has the axes [layer, head, query, key]")


@pytest.mark.slow
def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    count = 2**25
    bomb = _header(f"(1, {count})", data=bytes(4 * count))
    path = _archive(tmp_path / "a.npz", {"attention.npy": bomb}, packed=True)
    assert "would unpack to" in refusal(path)
    path = _archive(tmp_path / "a.pt", {"a/data.pkl": bytes(10**6)}, packed=True)
    assert "not written by torch.save" in refusal(path)


def test_names_that_lead_elsewhere_are_only_names(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    data = _header("(2, 2)", data=np.ones((2, 2), np.float32).tobytes())
    for name in ("../attention.npy", "/attention.npy", "..\\attention.npy"):
        path = _archive(inside / "a.npz", {name: data})
        before = sorted(tmp_path.rglob("*"))
        read_tensor_file(path, AttentionSpec())
        assert sorted(tmp_path.rglob("*")) == before


def test_more_members_than_layers_could_be_are_refused(tmp_path: Path) -> None:
    members = {f"{number}.npy": b"" for number in range(2001)}
    assert "2,001 arrays" in refusal(_archive(tmp_path / "a.npz", members))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
        {"dtype": "F32", "shape": [-1, 4], "data_offsets": [0, 4]},
        {"dtype": "O", "shape": [1, 1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1, 1], "data_offsets": [4, 0]},
        {},
        [],
    ],
)
def test_a_wrong_header_of_safetensors_is_refused(entry: object, tmp_path: Path) -> None:
    header = json.dumps({"attention": entry}).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(4)
    (tmp_path / "a.safetensors").write_bytes(data)
    assert "damaged" in refusal(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(1).expand(2**20, 2**20),
        torch.ones(4, 4).to_sparse(),
        torch.ones(4, 4, dtype=torch.complex64),
        torch.ones(4, 4, device="meta"),
        torch.ones(1, 1, 1, 1, 3, 3),
        torch.ones(0, 3),
    ],
)
def test_tensors_that_are_no_attention_are_refused(tensor: torch.Tensor, tmp_path: Path) -> None:
    torch.save({"attention": tensor}, tmp_path / "a.pt")
    assert refusal(tmp_path / "a.pt")


def test_dicts_within_dicts_end(tmp_path: Path) -> None:
    held: Any = [torch.ones(2, 2)]
    for _ in range(40):  # 2**40 paths lead to the tensor
        held = [held, held]
    torch.save(held, tmp_path / "a.pt")
    assert refusal(tmp_path / "a.pt")


def test_numbers_that_are_none_are_read(tmp_path: Path) -> None:
    array = np.full((2, 3), np.nan, np.float32)
    np.save(tmp_path / "a.npy", array)
    found, _ = read_tensor_file(tmp_path / "a.npy", AttentionSpec())
    np.testing.assert_array_equal(found.to_array()[0, 0], array)  # type: ignore[union-attr]
