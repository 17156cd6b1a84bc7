"""Captured attention in a document file: its numbers are part of the document."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.documents.test_document_file import OWN_SMALL, opened, packed, put, rewritten
from tests.support.golden_documents import CAPTURED, CAPTURED_A, CAPTURED_VIEW
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.run import run
from visualizer.documents.document_file import document_bytes
from visualizer.errors import InputError
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.view import View


def test_captured_attention_is_an_array_of_its_own_type() -> None:
    with np.load(io.BytesIO(document_bytes(CAPTURED, CAPTURED_VIEW))) as arrays:
        own = arrays["document/captured/numbers"]
        of_a = arrays["view/comparison/document/captured/numbers"]
    assert CAPTURED.captured
    assert CAPTURED_A.captured
    assert (own.dtype, of_a.dtype) == (np.float32, np.float64)
    np.testing.assert_array_equal(own.reshape(2, 2, 2, 3), CAPTURED.captured.to_array())
    np.testing.assert_array_equal(of_a.reshape(1, 1, 2, 3), CAPTURED_A.captured.to_array())


def test_of_captured_attention_no_numbers_are_recorded_beside_its_own() -> None:
    assert CAPTURED.captured
    assert CAPTURED_A.captured
    kept = create_captured_run(CAPTURED_A.captured)
    view = replace(
        CAPTURED_VIEW, comparison=Comparison(ComparisonKind.KEPT, kept=kept, document=CAPTURED_A)
    )
    content = document_bytes(CAPTURED, view, create_captured_run(CAPTURED.captured))
    assert content == document_bytes(CAPTURED, view)
    saved = opened(content)
    assert (saved.document, saved.recorded, saved.kept) == (CAPTURED, None, None)


CAPTURED_REFUSED = [
    (put("document", "captured", "layers", 0), "invalid value: the size of"),
    (put("document", "captured", "heads", 2**40), "invalid value: the size of"),
    (put("document", "captured", "queries", -2), "invalid value: the size of"),
    (put("document", "captured", "keys", 4), "invalid value: the number of key tokens"),
    (put("document", "captured", "dtype", "float64"), "numbers of the wrong type at document/capt"),
    (put("document", "captured", "dtype", "float16"), "numbers of the wrong type at document/capt"),
    (put("document", "captured", "dtype", [1]), "numbers of the wrong type at document/capt"),
    (put("document", "captured", "numbers", 95), "contains 96 bytes at document/captured/numbers"),
    (put("document", "captured", "query_tokens", ["a"]), "number of query tokens"),
    (put("document", "captured", "key_tokens", ["a"]), "number of key tokens"),
    (put("document", "captured", "key_tokens", ["a", "b", 3]), "expected text"),
    (put("document", "captured", "name", None), "contains null at document/captured/name"),
    (put("view", "comparison", "document", "captured", None), "unexpected entry: “view/comp"),
    (put("document", "labels", None), "contains null at document/labels"),
    (put("view", "comparison", "document", "captured", "keys", 2), "number of captured weights"),
]


@pytest.mark.parametrize(("change", "said"), CAPTURED_REFUSED)
def test_what_does_not_fit_captured_attention_is_named(change: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        opened(rewritten(document_bytes(CAPTURED, CAPTURED_VIEW), change))
    assert refused.value.field == "open"


def test_numbers_recorded_beside_captured_attention_belong_to_nothing() -> None:
    live = run(OWN_SMALL.tokens(), OWN_SMALL.spec)
    content = document_bytes(OWN_SMALL, View(), live)
    captured = json.loads(packed(document_bytes(CAPTURED, View())).read("document.json"))
    captured = captured["document"]["captured"]
    sizes = {"layers": 1, "heads": 1, "queries": 1, "keys": 1, "numbers": 4}
    named: dict[str, list[str]] = {"query_tokens": [], "key_tokens": []}
    file = io.BytesIO(rewritten(content, put("document", "captured", captured | sizes | named)))
    with zipfile.ZipFile(file, "a") as archive:
        number = io.BytesIO()
        np.lib.format.write_array(number, np.ones(1, "<f4"), version=(1, 0))
        archive.writestr("document/captured/numbers.npy", number.getvalue())
    with pytest.raises(InputError, match=r"unexpected entry: “trace/about\.json”"):
        opened(file.getvalue())
