"""The commands Undo and Redo name the change."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.attention.mechanisms import Mechanism
from visualizer.attention.spec import AttentionSpec, BooleanMatrix
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, ModelSource
from visualizer.session.document import Document
from visualizer.session.history import FIELD_NAMES, MAX_LENGTH, describe_change

MODEL = ModelSource("/models/tiny", "tiny", "f")
OFF = HeadEdit(4, 0)
CUT = CutEdges(0, 1, ((5, 3), (4, 2)))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (MODEL, replace(MODEL, edits=(OFF,)), "layer 5, head 1: off"),
        (replace(MODEL, edits=(OFF,)), MODEL, "layer 5, head 1: as it is"),
        (replace(MODEL, edits=(OFF,)),
         replace(MODEL, edits=(HeadEdit(4, 0, HeadEditKind.SCALED, 2.0),)),
         "layer 5, head 1: × 2"),
        (MODEL, replace(MODEL, cuts=(CUT,)), "cut 2 edges of layer 1, head 2"),
        (replace(MODEL, cuts=(CUT,)), replace(MODEL, cuts=(CutEdges(0, 1, ((5, 3),)),)),
         "restore 1 edge of layer 1, head 2"),
        (replace(MODEL, edits=(OFF,)), replace(MODEL, cuts=(CUT,)), ""),
        (MODEL, replace(MODEL, second="a dog"), "second text"),
        (None, MODEL, "open tiny"),
        (MODEL, None, "return to a module"),
    ],
)  # fmt: skip
def test_changes_of_a_model_are_named(
    before: ModelSource | None, after: ModelSource | None, said: str
) -> None:
    assert describe_change(Document(model=before), Document(model=after)) == said


def test_changes_of_settings_are_named() -> None:
    document = Document(text="a b")
    mask = BooleanMatrix.of(np.array([[True]]))
    for name, value, said in (
        ("text", "a c", "text"),
        ("dropout", 0.5, "Dropout"),
        ("painted", mask, "mask"),
        ("mechanism", Mechanism.MULTI_HEAD, ""),
    ):
        assert describe_change(document, document.set(name, value)) == said
    assert describe_change(document, document) == ""


def test_only_fields_are_named_and_long_names_are_shortened() -> None:
    known = {*Document.__struct_fields__, *AttentionSpec.__struct_fields__}
    assert {*FIELD_NAMES} <= known | {"mechanism", "causal"}
    edits = tuple(HeadEdit(layer, layer % 7) for layer in range(20))
    said = describe_change(Document(model=MODEL), Document(model=replace(MODEL, edits=edits)))
    assert len(said) <= MAX_LENGTH
