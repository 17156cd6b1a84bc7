"""The archive reader rejects invalid archives, and its messages say what is wrong."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.documents.test_document_file import opened
from tests.support.damaged_files import ARRAYS, FOLDER, LINK, listed, packed, unpacked
from tests.support.golden_documents import BATCH, OWN, OWN_VIEW, run_of
from visualizer.attention.spec import NormalisationKind
from visualizer.documents.document_file import document_bytes
from visualizer.documents.schema import SCHEMA_VERSION
from visualizer.errors import InputError
from visualizer.session.document import Document
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_FILE = unpacked(document_bytes(OWN, OWN_VIEW))
RECORDED = unpacked(document_bytes(BATCH, View(), run_of(BATCH)))
NO_WEIGHTS = {name: content for name, content in RECORDED.items() if name != "trace/weights.npy"}
INPUT = "document/spec/own_input/numbers.npy"


def with_member(name: str, content: bytes = b"") -> bytes:
    return packed({**OWN_FILE, name: content})


def with_array(members: dict[str, bytes], name: str, change: Callable[[Any], Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, change(np.load(io.BytesIO(members[name]))), allow_pickle=False)
    return packed({**members, name: file.getvalue()})


def without(members: dict[str, bytes], name: str) -> bytes:
    return packed({key: value for key, value in members.items() if key != name})


STRANGE = [
    (with_member("../up.npy"), "invalid name: “../up.npy”"),
    (with_member("/etc/up.npy"), "invalid name: “/etc/up.npy”"),
    (with_member("C:\\up.npy"), "invalid name"),
    (with_member("a/../up.npy"), "invalid name"),
    (with_member("a/"), "invalid name"),
    (with_member("more.exe"), "invalid name"),
    (with_member("Document.json"), "two entries with the same name"),
    (with_member("more.txt", b"hello"), "unexpected entry: “more.txt”"),
    (packed(OWN_FILE, external_attr=LINK), "not a regular file: “document.json”"),
    (packed(OWN_FILE, external_attr=FOLDER), "not a regular file"),
    (packed(OWN_FILE, compress_type=zipfile.ZIP_BZIP2), "unsupported compression"),
    (packed(OWN_FILE, compress_type=zipfile.ZIP_DEFLATED), "unsupported compression"),
    (packed({**OWN_FILE, "document.json": bytes(2**24 + 1)}), "too long: “document.json”"),
    (listed([(f"a{at}.npy", b"") for at in range(10_001)]), "table of contents is invalid"),
    (packed({"document.json": b"[" * 100_000}), "description cannot be read"),
    (packed({"document.json": b"[]"}), "valid schema version"),
    (packed({"document.json": b"[" * 2_000_000}), "is too large to open"),
    (packed({}), "is not an Attention Visualizer document"),
    (b"#!/bin/sh\n" + packed(OWN_FILE), "is not an Attention Visualizer document"),
    (packed(OWN_FILE) + b"\0", "is incomplete: its end is missing"),
    (
        without(RECORDED, "trace/parameters/out_proj.bias.npy"),
        "does not contain the numbers for out_proj.bias",
    ),
    (
        without(NO_WEIGHTS, "trace/parameters/out_proj.bias.npy"),
        "does not contain the numbers for out_proj.bias",
    ),
    (
        with_array(NO_WEIGHTS, "trace/scores.npy", lambda old: old[:1]),
        "with the wrong shape or type",
    ),
    (
        with_array(NO_WEIGHTS, "trace/input.npy", lambda old: old * np.nan),
        "invalid numbers for input",
    ),
    (
        packed({**RECORDED, "trace/gates.npy": RECORDED["trace/weights.npy"]}),
        "unexpected entry: “trace/gates”",
    ),
    (
        packed({**NO_WEIGHTS, "trace/gates.npy": RECORDED["trace/weights.npy"]}),
        "unexpected entry: “trace/gates”",
    ),
    (without(RECORDED, "trace/about.json"), "unexpected entry"),
    (without(RECORDED, "trace/texts.txt"), "does not contain the tokens"),
    (packed({**RECORDED, "trace/about.json": b"{}"}), "does not contain the name of the device"),
    (
        packed({**RECORDED, "trace/texts.txt": b"one TEXTandthreewords"}),
        "the tokens for its numbers",
    ),
    (packed({**RECORDED, "trace/texts.txt": b"oneTEXTandthreewords"}), "for a different text"),
    (packed({**RECORDED, "trace/texts.txt": b"onetextandthreethree"}), "for a different text"),
    (with_array(RECORDED, "trace/weights.npy", lambda old: old[:1]), "wrong shape or type"),
    (with_array(RECORDED, "trace/weights.npy", lambda old: old.astype("<f8")), "shape or type"),
    (
        with_array(RECORDED, "trace/input.npy", lambda old: old * np.nan),
        "invalid numbers for input",
    ),
    (
        with_array(RECORDED, "trace/parameters/W_key.bias.npy", lambda old: old + np.inf),
        "invalid numbers for W_key.bias",
    ),
    (
        with_array(RECORDED, "trace/texts/tokens.npy", lambda old: old * 2**20),
        "the tokens for its numbers",
    ),
    (with_array(OWN_FILE, INPUT, lambda old: old * np.nan), "invalid value: a matrix of numbers"),
    (with_array(OWN_FILE, INPUT, lambda old: old.astype("<f4")), "numbers of the wrong type"),
]


@pytest.mark.parametrize(("content", "said"), STRANGE, ids=[said for _, said in STRANGE])
def test_what_is_wrong_is_said(content: bytes, said: str) -> None:
    with pytest.raises(InputError) as refused:
        opened(content)
    assert said in refused.value.sentence
    assert refused.value.field == "open"


@pytest.mark.parametrize("number", range(len(ARRAYS)))
def test_nothing_but_the_very_numbers_is_taken(number: int) -> None:
    old = np.load(io.BytesIO(RECORDED["trace/weights.npy"]))
    content = packed({**RECORDED, "trace/weights.npy": ARRAYS[number](old)})
    try:
        recorded = opened(content).recorded
    except InputError as refused:
        assert "weights" in refused.sentence  # noqa: PT017 - what may be refused, and how
    else:
        assert recorded
        assert recorded.stages["weights"].shape == old.shape
        assert recorded.stages["weights"].dtype == old.dtype


def test_what_is_no_number_may_be_recorded_where_it_was_computed() -> None:
    masked = np.load(io.BytesIO(RECORDED["trace/masked.npy"]))
    assert np.isneginf(masked).any()
    document = Document(text="one two").with_setting(
        "normalisation", NormalisationKind.NAIVE_SOFTMAX
    )
    document = document.with_setting("temperature", 1e-5)
    made = run_of(document)
    recorded = opened(document_bytes(document, View(), made)).recorded
    assert recorded
    assert np.isnan(recorded.stages["weights"]).any()
    np.testing.assert_array_equal(recorded.stages["weights"], made.trace.read("weights"))


def test_a_newer_program_is_named() -> None:
    tree = json.loads(OWN_FILE["document.json"]) | {"schema": SCHEMA_VERSION + 1, "program": "3.0"}
    with pytest.raises(InputError) as refused:
        opened(packed({**OWN_FILE, "document.json": json.dumps(tree).encode()}))
    assert refused.value.sentence == (
        "The file was written by a newer version 3.0. Update Attention Visualizer to open it."
    )
