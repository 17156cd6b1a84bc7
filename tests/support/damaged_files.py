"""Any number of truncated, corrupted and hostile files, reproducible by a seed."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.golden_documents import (
    BATCH,
    CAPTURED,
    CAPTURED_VIEW,
    OWN,
    OWN_VIEW,
    PLAIN,
    run_of,
)
from visualizer.documents.document_file import document_bytes
from visualizer.documents.embedded_document import (
    PNG_KEYWORD,
    encode_pdf_attachment,
    encode_svg_metadata,
)
from visualizer.session.view import View
from visualizer.storage.archive import BROKEN_ARCHIVE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Members = dict[str, bytes]
HEAD = PNG_KEYWORD.encode() + b"\0"
BOMB_BYTES = 2**27
"""Size of a decompressed bomb, in bytes: twice the memory that reading a damaged file may take."""
PNG = b"\x89PNG\r\n\x1a\n"


def whole() -> dict[str, bytes]:
    """Return valid files of every kind, by name."""
    own = document_bytes(OWN, OWN_VIEW)
    text = base64.b64encode(own)
    return {
        "plain": document_bytes(PLAIN, View()),
        "own": own,
        "recorded": document_bytes(BATCH, View(), run_of(BATCH)),
        "captured": document_bytes(CAPTURED, CAPTURED_VIEW),
        "tEXt": PNG + _chunk(b"tEXt", HEAD + text),
        "zTXt": PNG + _chunk(b"zTXt", HEAD + b"\0" + zlib.compress(text)),
        "iTXt": PNG + _chunk(b"iTXt", HEAD + b"\1\0\0\0" + zlib.compress(text)),
        "svg": f"<svg>{encode_svg_metadata(own)}</svg>".encode(),
        "pdf": b"%PDF\nstream\n" + zlib.compress(encode_pdf_attachment(own)) + b"\nendstream",
    }


def _chunk(kind: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + kind + content + bytes(4)


def damaged(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield this many files, but at least all hostile ones, each with its kind of damage."""
    chance, files, given = random.Random(seed), whole(), 0
    for made in (_on_purpose(files), _cut(files)):
        for how, content in made:
            given += 1
            yield how, content
    names = [*files]
    while given < count:
        name, spoil = chance.choice(names), chance.choice(SPOILS)
        given += 1
        yield f"{name} {spoil.__name__}", spoil(chance, files[name], files)


def _cut(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Truncate the file "plain" at every byte, and the others at some bytes."""
    for name, content in files.items():
        for end in range(0, len(content), 1 if name == "plain" else len(content) // 40):
            yield f"{name} up to {end}", content[:end]


# --------------------------------------------------------------------------- random damage


def flip(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    spoiled = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        spoiled[chance.randrange(len(spoiled))] ^= 1 << chance.randrange(8)
    return bytes(spoiled)


def lose(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + content[start + chance.choice((1, 2, 100, 4096)) :]


def put_in(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    at = chance.randrange(len(content))
    return content[:at] + chance.randbytes(chance.choice((1, 2, 100))) + content[at:]


def splice(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    other = chance.choice([*files.values()])
    return content[: chance.randrange(len(content))] + other[chance.randrange(len(other)) :]


def size_fields(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    """Write extreme numbers into zip headers."""
    spoiled = bytearray(content)
    starts = [at for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for at in _places(content, mark)]
    at = chance.choice(starts or [0]) + chance.randrange(4, 46)
    value = chance.choice((0, 1, 8, 0x7FFF, 0xFFFF, 2**31, 2**32 - 1)).to_bytes(4, "little")
    spoiled[at : at + chance.choice((1, 2, 4))] = value
    return bytes(spoiled)


def _places(content: bytes, mark: bytes) -> list[int]:
    return [at for at in range(len(content)) if content.startswith(mark, at)]


def swap(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    members = unpacked(content) or unpacked(files["recorded"])
    one, other = chance.choice([*members]), chance.choice([*members])
    members[one], members[other] = members[other], members[one]
    return packed(members)


def drop(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    members = unpacked(content) or unpacked(files["recorded"])
    del members[chance.choice([*members])]
    return packed(members)


def numbers(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    """Replace an array by another one."""
    members = unpacked(files[chance.choice(("own", "recorded", "captured"))])
    name = chance.choice([name for name in members if name.endswith(".npy")])
    old = np.load(io.BytesIO(members[name]))
    members[name] = chance.choice(ARRAYS)(old)
    return packed(members)


def tree(chance: random.Random, content: bytes, files: dict[str, bytes]) -> bytes:
    """Replace one value of the JSON tree."""
    members = unpacked(files[chance.choice(("plain", "own", "recorded", "captured"))])
    members["document.json"] = spoiled_tree(chance, members["document.json"])
    return packed(members)


SPOILS: tuple[Callable[[random.Random, bytes, dict[str, bytes]], bytes], ...] = (
    *(flip, lose, put_in, splice, size_fields, swap, drop, numbers, tree, tree),
)
VALUES = (
    *("null", "true", "0", "-1", "1.5", "1e400", "-0.0", '""', '"nan"', "[]", "{}", "[[]]"),
    *('"\\ud800"', '"weights"', '"kept"', '"../../x"', "9" * 30, "9" * 5_000, "2147483648"),
    *("[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000, '"' + "x" * 300_000 + '"'),
    *("4611686018427387904", "-3", "9999999", "10000000", "1e38", "-1e30", '"inf"', '"-inf"'),
    *("NaN", "-Infinity", '{"a": 1, "a": 2}', "[0, 0]", "[0, 5]", "3", "256", "257", "1e-320"),
)


def spoiled_tree(chance: random.Random, description: bytes) -> bytes:
    """Return a JSON tree in which one value is hostile or missing."""
    whole = json.loads(description)
    node: Any = whole
    while True:
        keys = [*node] if isinstance(node, dict) else [*range(len(node))]
        if not keys:
            break
        key = chance.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and chance.random() < 0.8:
            node = node[key]
            continue
        if chance.random() < 0.1:
            del node[key]
        else:
            node[key] = "⟨here⟩"
        break
    text = json.dumps(whole, ensure_ascii=False)
    return text.replace('"⟨here⟩"', chance.choice(VALUES)).encode()


def _plain(array: np.ndarray, **how: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, **how)
    return file.getvalue()


def _headed(header: str, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + content


def _claiming(shape: str, kind: str = "<f4") -> bytes:
    return _headed(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n")


ARRAYS: tuple[Callable[[np.ndarray], bytes], ...] = (
    lambda old: _plain(np.ones(old.shape, np.float16)),
    lambda old: _plain(old.astype(">f4")),
    lambda old: _plain(np.ones(old.shape, np.int64)),
    lambda old: _plain(old.astype(complex)),
    lambda old: _plain(old.astype("U5")),
    lambda old: _plain(np.asfortranarray(np.atleast_2d(old))),
    lambda old: _plain(old.astype(object), allow_pickle=True),
    lambda old: _plain(old, version=(2, 0)),
    lambda old: _plain(old[None]),
    lambda old: _plain(old[:-1]),
    lambda old: _plain(np.zeros_like(old) - np.ones_like(old)),
    lambda old: _plain(np.full(old.shape, np.nan, old.dtype if old.dtype.kind == "f" else "<f4")),
    lambda old: _plain(np.full(old.shape, np.inf, old.dtype if old.dtype.kind == "f" else "<f4")),
    lambda old: _plain(np.zeros((0, 2**40), old.dtype)),
    lambda old: _claiming("(1099511627776,)"),
    lambda old: _claiming("(1099511627776, 1099511627776)", "<f8"),
    lambda old: _claiming("(99999999999999999999999999999999,)"),
    lambda old: _claiming("(-4,)"),
    lambda old: _claiming("(True, True)") + bytes(4),
    lambda old: _claiming("(1.0, 1)") + bytes(4),
    lambda old: _claiming("(" + "1, " * 40 + ")") + bytes(4),
    lambda old: _claiming("(1 2,)") + bytes(8),
    lambda old: _claiming("()") + bytes(4),
    lambda old: _headed("__import__('os').system('touch harm')"),
    lambda old: b"",
    lambda old: b"\x80\x04cos\nsystem\n(S'touch harm'\ntR.",
)


# --------------------------------------------------------------------------- hostile files


def unpacked(content: bytes) -> Members:
    """Return the files in a zip archive by name; none if the archive is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except BROKEN_ARCHIVE_ERRORS:
        return {}


def packed(members: Members, **fields: Any) -> bytes:
    return listed([*members.items()], **fields)


def listed(members: list[tuple[str, bytes]], **fields: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            for field, value in fields.items():
                setattr(info, field, value)
            archive.writestr(info, content)
    return file.getvalue()


NAMES = (
    *("../up.npy", "/etc/up.npy", "C:\\up.npy", "a/../../up.npy", "..", "a//b.npy", "a\\b.npy"),
    *(
        "a/",
        "a.npy/",
        ".hidden.npy",
        "con\n.npy",
        "🙂.npy",
        "x" * 60_000,
        "more.exe",
        "",
        "a:b.npy",
    ),
)
LINK = 0o120777 << 16
FOLDER = 0o040755 << 16


def _on_purpose(files: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    plain, own = unpacked(files["plain"]), unpacked(files["own"])
    for name in NAMES:
        yield f"a member {name[:20]!r}", packed({**plain, name: b"harm"})
    yield "links", packed(plain, external_attr=LINK)
    yield "folders", packed(plain, external_attr=FOLDER)
    yield "empty", packed({})
    yield "a bomb", packed({"document.json": bytes(BOMB_BYTES)}, compress_type=zipfile.ZIP_DEFLATED)
    for kind in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"packed by {kind}", packed(own, compress_type=kind)
        zeros = {**own, "document/spec/own_input/numbers.npy": bytes(2**24)}
        yield f"zeros packed by {kind}", packed(zeros, compress_type=kind)
    yield "a bomb that claims to be small", _claims_small(plain)
    yield "many members", listed([(f"a{at}.npy", b"") for at in range(11_000)])
    yield "twice", _renamed(listed([*plain.items(), ("document.jsoN", b"{}")]), b"soN", b"son")
    yield "in two cases", listed([*plain.items(), ("Document.json", b"{}")])
    yield "overlapping", _overlapping(own)
    end = files["plain"][-22:]
    yield "the larger kind", files["plain"][:-22] + struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1) + end
    yield "something before", b"#!/bin/sh\n" + files["plain"]
    yield "something after", files["plain"] + b"rest"
    yield "two of them", files["plain"] + files["own"]
    yield "not of text", packed({**plain, "document.json": b"\xff\xfe\0"})
    for text in (b"[" * 10**6, b"[" + b"[]," * 10**6 + b"0]", b'{"schema":' + b"9" * 10**6 + b"}"):
        yield f"deep {text[:12]!r}", packed({"document.json": text})


def _renamed(content: bytes, old: bytes, new: bytes) -> bytes:
    return content.replace(old, new)


def _claims_small(plain: Members) -> bytes:
    """Return an archive with a text that decompresses to much more than both headers state."""
    bomb = packed({**plain, "document.json": bytes(BOMB_BYTES)}, compress_type=zipfile.ZIP_DEFLATED)
    return bomb.replace(BOMB_BYTES.to_bytes(4, "little"), (1_000).to_bytes(4, "little"))


def _overlapping(own: Members) -> bytes:
    """Return an archive in which many members share the same bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("document.json", own["document.json"])
        archive.writestr("a0.npy", bytes(2**20))
        for at in range(1, 500):
            info = zipfile.ZipInfo(f"a{at}.npy")
            first = archive.getinfo("a0.npy")
            for field in ("header_offset", "CRC", "file_size", "compress_size"):
                setattr(info, field, getattr(first, field))
            archive.filelist.append(info)
            archive.NameToInfo[info.filename] = info
    return file.getvalue()
