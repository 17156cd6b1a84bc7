"""Every setting of a document can be read and changed by its name."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.run import run
from visualizer.attention.settings import SETTINGS, Setting, SettingKind
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    MaskKind,
    NumberMatrix,
    Projection,
)
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document import BOOK_SENTENCE, Document, LineGrouping, default_document

OTHERS = {
    SettingKind.COUNT: 5,
    SettingKind.RATE: 0.25,
    SettingKind.NUMBER: 0.5,
    SettingKind.SEED: 7,
    SettingKind.MATRIX: BooleanMatrix.from_array(np.eye(6, dtype=bool)),
}
OWN = NumberMatrix.from_array(np.eye(3))
OWNS = {"own_input": OWN, "own_weights": (("W_key", OWN),)}
SPECIAL = {"mechanism", "causal"}


def values(setting: Setting) -> list[Any]:
    """Return values that a setting can have."""
    if setting.kind is SettingKind.CHOICE:
        return [value for value, _ in setting.choices]
    if setting.kind is SettingKind.OWN:
        return [OWNS[setting.name], setting.choices[0][0]]
    return [True, False] if setting.kind is SettingKind.SWITCH else [OTHERS[setting.kind]]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_setting_that_was_set_can_be_read(setting: Setting) -> None:
    for value in values(setting):
        document = Document().with_setting(setting.name, value)
        assert document.get_setting(setting.name) == value
        assert document == document.with_setting(setting.name, value)


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_changing_a_setting_does_not_change_the_others(setting: Setting) -> None:
    for value in () if setting.name in SPECIAL else values(setting):
        document = Document().with_setting(setting.name, value)
        assert document.spec == replace(Document().spec, **{setting.name: value})
        assert document.text == BOOK_SENTENCE
    assert setting.name in SPECIAL or hasattr(AttentionSpec(), setting.name)


@pytest.mark.parametrize("value", [*TokenizerKind, *LineGrouping])
def test_the_text_is_split_by_the_chosen_tokenizer(value: TokenizerKind | LineGrouping) -> None:
    name = "tokenizer" if isinstance(value, TokenizerKind) else "lines"
    document = Document().with_setting(name, value)
    assert document.get_setting(name) is value
    assert (document.text, document.spec) == (BOOK_SENTENCE, AttentionSpec())


def test_causal_is_a_mask() -> None:
    assert Document().with_setting("causal", False).spec.mask is MaskKind.NONE
    assert Document().with_setting("mask", MaskKind.WINDOW).get_setting("causal") is False
    assert (
        Document().with_setting("mask", MaskKind.WINDOW).with_setting("causal", True).spec.mask
        is MaskKind.CAUSAL
    )


def test_a_mechanism_keeps_the_settings_that_it_does_not_determine() -> None:
    document = (
        Document()
        .with_setting("seed", 789)
        .with_setting("d_in", 8)
        .with_setting("mechanism", Mechanism.SIMPLIFIED)
    )
    assert (document.spec.seed, document.spec.d_in) == (789, 8)
    assert document.spec.projection is Projection.NONE


def test_a_document_cannot_be_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        Document().text = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Document().with_setting("colour", "red")


@pytest.mark.parametrize(
    ("text", "together", "apart"),
    [
        ("one two\nthree", (("one", "two", "three"),), (("one", "two"), ("three",))),
        ("one\n\n \ntwo\n", (("one", "two"),), (("one",), ("two",))),
        ("one two", (("one", "two"),), (("one", "two"),)),
        ("", ((),), ()),
        (" \n\t", ((),), ()),
    ],
)
def test_lines_are_one_text_or_a_batch(
    text: str, together: tuple[tuple[str, ...], ...], apart: tuple[tuple[str, ...], ...]
) -> None:
    assert Document(text).tokens() == together
    assert Document(text, lines=LineGrouping.APART).tokens() == apart


def test_characters_of_separate_lines_contain_no_line_ends() -> None:
    document = Document("ab\ncd", TokenizerKind.CHARACTERS, LineGrouping.APART)
    assert document.tokens() == (("a", "b"), ("c", "d"))
    assert document.with_setting("lines", LineGrouping.TOGETHER).tokens() == (
        ("a", "b", "\n", "c", "d"),
    )


def test_its_buffers_are_the_custom_matrices() -> None:
    numbers, cells = (
        NumberMatrix.from_array(np.eye(3)),
        BooleanMatrix.from_array(np.eye(2, dtype=bool)),
    )
    weights = (("W_query", numbers), ("W_key", numbers))
    spec = AttentionSpec(own_mask=cells, own_input=numbers, own_weights=weights)
    assert Document(spec=spec).data_buffers() == (cells.bits, *3 * [numbers.numbers])
    assert Document().data_buffers() == ()


def test_a_window_starts_with_the_values_of_a_table_in_the_book() -> None:
    golden = Path(__file__).parents[1] / "golden" / "chapter3.json"
    printed = json.loads(golden.read_text(encoding="utf-8"))
    document = default_document()
    assert document.text == BOOK_SENTENCE
    spec = document.spec
    assert (spec.heads, spec.d_head, spec.mask) == (2, 2, MaskKind.CAUSAL)
    assert spec.divisor == pytest.approx(2**0.5)
    trace = run(document.tokens(), spec).trace
    heads = "3.6.1 MultiHeadAttentionWrapper (stacked heads)"
    contexts = printed[heads]["context, each item"]
    np.testing.assert_allclose(trace.read("concat"), contexts, atol=1e-4)
    first = "3.5.3 CausalAttention, batch of the inputs twice"
    contexts_of_head_1 = printed[first]["context, each item"]
    np.testing.assert_allclose(trace.read("context")[0], contexts_of_head_1, atol=1e-4)


def test_editing_a_long_text_keeps_few_versions_in_memory() -> None:
    words = "word " * 4_000
    size = len(Document(text=words).tokens()[0]) * 60  # bytes of a word and its reference
    tracemalloc.start()
    for letters in range(20):
        Document(text=words + letters * "a").tokens()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 8 * size
