"""Problems are shown at their settings, with a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.attention.run import run
from visualizer.attention.settings import SETTINGS, SettingKind
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.errors import InputError
from visualizer.features.setup.presenter import CHIPS, present_setup
from visualizer.session.document import BOOK_SENTENCE, Document, LineGrouping
from visualizer.session.setting_state import (
    SettingState,
    describe_custom_values,
    describe_remedy,
    format_mask,
)

if TYPE_CHECKING:
    from enum import StrEnum

WRONG: list[dict[str, object]] = [
    {"d_in": 0},
    {"d_in": 2_000_000},
    {"d_out": 0},
    {"heads": 0},
    {"heads": 1_002, "d_out": 1_002},
    {"d_out": 6, "heads": 4},
    {"d_out": 2, "heads": 3},
    {"d_in": 3, "heads": 2, "projection": Projection.NONE},
    {"dropout": 1.0},
    {"temperature": 0.0},
    {"seed": -1},
    {"dropout_seed": -1},
    {"mask": MaskKind.WINDOW, "window": 0},
    {"mask": MaskKind.OWN},
    {"normalisation": NormalisationKind.SUM},
]


def shown(document: Document, refused: InputError | None = None) -> dict[str, SettingState]:
    return {row.setting.name: row for row in present_setup(document, refused).settings}


@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_a_problem_stands_at_its_own_setting_and_what_is_offered_mends_it(
    fields: dict[str, object],
) -> None:
    document = Document(spec=replace(AttentionSpec(), **fields))
    said = {name: row.problem.sentence for name, row in shown(document).items() if row.problem}
    assert said == {problem.field: problem.sentence for problem in spec_problems(document.spec)}
    assert len(said) == 1
    for _ in range(2):  # one remedy may lead to a smaller problem, such as 1 column for 2 heads
        for problem in spec_problems(document.spec):
            document = document.with_setting(*problem.remedy) if problem.remedy else document
    left = spec_problems(document.spec)
    assert [problem.field for problem in left] == ["own_mask"] * (fields == {"mask": MaskKind.OWN})


def test_all_is_well_at_first() -> None:
    setup = present_setup(Document(), None)
    assert not [row for row in setup.settings if row.problem]
    assert setup.problem.sentence == ""
    assert (setup.text, setup.tokenizer, setup.lines) == (
        BOOK_SENTENCE,
        "words",
        "together",
    )


def test_what_a_run_refuses_is_said_where_it_belongs() -> None:
    own = BooleanMatrix.from_array(np.ones((2, 2), dtype=bool))
    document = Document().with_setting("mask", MaskKind.OWN).with_setting("own_mask", own)
    with pytest.raises(InputError) as refused:
        run(document.tokens(), document.spec)
    problem = shown(document, refused.value)["own_mask"].problem
    assert problem
    assert problem.sentence == "The matrix is 2 × 2, but the text needs 6 × 6."


def test_what_padding_forbids_is_mended_where_it_is_said() -> None:
    document = (
        Document("a b\nc")
        .with_setting("lines", LineGrouping.APART)
        .with_setting("mask", MaskKind.NONE)
    )
    document = document.with_setting("normalisation", NormalisationKind.SUM)
    assert not spec_problems(document.spec)  # it is the run that sees the padding
    with pytest.raises(InputError) as refused:
        run(document.tokens(), document.spec)
    problem = shown(document, refused.value)["normalisation"].problem
    assert problem
    assert problem.remedy
    document = document.with_setting(*problem.remedy)
    assert run(document.tokens(), document.spec).trace.leading_sizes == (2,)


@pytest.mark.parametrize("mask", MaskKind)
@pytest.mark.parametrize("normalisation", NormalisationKind)
def test_the_route_counts_whenever_there_is_a_mask(
    mask: MaskKind, normalisation: NormalisationKind
) -> None:
    document = Document().with_setting("mask", mask).with_setting("normalisation", normalisation)
    is_linear = normalisation is NormalisationKind.LINEAR
    assert shown(document)["route"].is_enabled == (mask is not MaskKind.NONE and not is_linear)


def test_a_text_that_is_refused_is_said_under_the_text() -> None:
    with pytest.raises(InputError) as refused:
        run(Document("").tokens(), AttentionSpec())
    setup = present_setup(Document(""), refused.value)
    assert setup.problem.sentence == refused.value.sentence
    assert "The text is empty" in setup.problem.sentence
    assert not [row for row in setup.settings if row.problem]


def test_a_problem_of_the_spec_goes_before_a_refusal() -> None:
    document = Document().with_setting("heads", 0)
    problem = shown(document, InputError("heads", "Something older."))["heads"].problem
    assert problem
    assert problem.sentence.startswith("The number of heads")


@pytest.mark.parametrize(
    ("fields", "idle"),
    [
        ({}, {"mode", "dropout_seed", "window", "own_mask"}),
        ({"dropout": 0.5}, {"window", "own_mask"}),
        ({"mask": MaskKind.WINDOW}, {"mode", "dropout_seed", "own_mask"}),
        ({"mask": MaskKind.NONE}, {"mode", "dropout_seed", "window", "own_mask", "route"}),
        (
            {"projection": Projection.NONE, "heads": 1, "normalisation": NormalisationKind.UNIFORM},
            {"d_out", "bias", "arrangement", "key_value_heads", "scale", "temperature"}
            | {"mode", "dropout_seed", "window", "own_mask"},
        ),
        (
            {"normalisation": NormalisationKind.LINEAR, "dropout": 0.5},
            {"scale", "temperature", "dropout", "mode", "dropout_seed", "route"}
            | {"window", "own_mask"},
        ),
        ({"block": TransformerBlockKind.PRE_NORM}, {"mode", "dropout_seed", "window", "own_mask"}),
        (
            {"projection": Projection.UNIFORM},
            {"bias", "mode", "dropout_seed", "window", "own_mask"},
        ),
    ],
)
def test_settings_without_effect_are_known(fields: dict[str, object], idle: set[str]) -> None:
    document = Document(spec=replace(AttentionSpec(), **fields))
    found = {name for name, row in shown(document).items() if not row.is_enabled}
    of_block = set() if document.spec.has_transformer_block else {"d_ff", "activation"}
    assert found == idle | of_block | {"own_input", "own_weights"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("projection", Projection), ("arrangement", HeadArrangement), ("position", PositionKind)),
        *(
            ("scale", ScaleKind),
            ("normalisation", NormalisationKind),
            ("mask", MaskKind),
            ("route", MaskPlacement),
        ),
        *(("mode", DropoutMode), ("dtype", Dtype), ("device", Device)),
    ],
)
def test_every_choice_there_is_is_offered(name: str, kind: type[StrEnum]) -> None:
    setting = next(setting for setting in SETTINGS if setting.name == name)
    assert [value for value, _ in setting.choices] == list(kind)
    assert len({words for _, words in setting.choices}) == len(setting.choices)


SQUARE = NumberMatrix.from_array(np.ones((3, 3)))


def test_own_numbers_count_where_they_are_given_and_are_said_in_words() -> None:
    document = (
        Document()
        .with_setting("own_input", SQUARE)
        .with_setting("own_weights", (("W_key", SQUARE),))
    )
    rows = shown(document)
    assert rows["own_input"].is_enabled
    assert rows["own_weights"].is_enabled
    assert not shown(document.with_setting("projection", Projection.NONE))["own_weights"].is_enabled
    said = [describe_custom_values(rows[name].setting, rows[name].value) for name in OWN]
    assert said == ["3 × 3 given", "W_key given"]
    for row in (shown(Document())[name] for name in OWN):
        words = describe_custom_values(row.setting, row.value)
        assert words == "None: random, generated from the seed"


def test_own_numbers_that_do_not_fit_are_mended_by_drawing() -> None:
    document = (
        Document()
        .with_setting("own_weights", (("W_key", SQUARE),))
        .with_setting("own_input", SQUARE)
    )
    for name, said in (
        ("own_weights", "W_key is 3 × 3, but the settings need 4 × 2."),
        ("own_input", "The vectors are 3 × 3, but the embedding size is 4."),
    ):
        problem = shown(document.with_setting("d_in", 4))[name].problem
        assert problem
        assert problem.remedy
        assert problem.sentence == said
        assert describe_remedy(*problem.remedy) == "Use random values generated from the seed"
        mended = document.with_setting("d_in", 4).with_setting(*problem.remedy)
        assert shown(mended)[name].problem is None


def test_remedies_write_numbers_as_they_are_typed() -> None:
    assert describe_remedy("d_in", 1_000_000) == "Set “Embedding size” to 1,000,000"
    assert describe_remedy("dropout", 0.0) == "Set “Dropout” to 0"
    assert describe_remedy("dropout", 0.00001) == "Set “Dropout” to 0.00001"


OWN = ("own_input", "own_weights")


def test_the_table_names_each_setting_once() -> None:
    names = [setting.name for setting in SETTINGS]
    labels = [setting.label for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert len(set(labels)) == len(labels)
    assert all(
        setting.top for setting in SETTINGS if setting.kind in {SettingKind.COUNT, SettingKind.RATE}
    )


def test_a_mask_is_written_where_it_is_not_too_long() -> None:
    text, hint = format_mask(BooleanMatrix.from_array(np.tri(2, dtype=bool)))
    assert text == "1 0\n1 1"
    assert format_mask(None) == ("", hint)
    assert hint.startswith("1 allows a pair, and 0 forbids it:")
    assert format_mask(BooleanMatrix.from_array(np.eye(64, dtype=bool)))[0].count("1") == 64
    text, hint = format_mask(BooleanMatrix.from_array(np.eye(1024, dtype=bool)))
    assert text == ""
    assert hint == "1,024 × 1,024: too large to edit here. Enter rows of 0s and 1s to replace it."


def test_the_editor_of_the_mask_has_one_control_for_its_kind() -> None:
    (chip,) = (chip for chip in CHIPS if chip.shown == ("mask",))
    assert "mask" in chip.settings
    assert all("causal" not in chip.settings for chip in CHIPS)
