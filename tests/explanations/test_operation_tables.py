"""Every stage and every operation has a row in each table that describes it."""

from __future__ import annotations

from keyword import iskeyword

from visualizer.attention import stage_computation
from visualizer.attention.layer_stages import STAGE_ORDER, SURROUNDING_STAGES
from visualizer.attention.spec import AttentionSpec
from visualizer.attention.stages import STAGE_NOUNS, STAGE_TABLE, Operation, stages
from visualizer.explanations.code_dialects import DIALECTS
from visualizer.explanations.explain import EXPLAINERS
from visualizer.explanations.explainer import Explainer

MADE = {row.operation for row in STAGE_TABLE}  # the other operations occur only in models


def test_every_operation_is_computed_explained_and_told() -> None:
    assert set(stage_computation.COMPUTATIONS) | set(stage_computation.CELLWISE) == MADE
    assert set(EXPLAINERS) == set(Operation)
    with_code = {
        name
        for name, row in EXPLAINERS.items()
        if type(row).code_expression is not Explainer.code_expression
    }
    assert with_code == MADE


def test_every_stage_has_its_name_in_code_and_in_sentences() -> None:
    stages = {row.name for row in STAGE_TABLE}
    for words in DIALECTS.values():
        assert set(words.names) == stages
        assert all(name.isidentifier() and not iskeyword(name) for name in words.names.values())
        others = {*words.mask_names.values(), *words.layers.values(), words.padding, words.tokens}
        assert others.isdisjoint(words.names.values())
    assert set(STAGE_NOUNS) == set(STAGE_ORDER)
    assert stages <= set(STAGE_ORDER)


def test_every_stage_of_a_models_layer_has_its_words() -> None:
    assert set(STAGE_NOUNS) >= SURROUNDING_STAGES
    assert {row.name for row in stages(AttentionSpec())}.isdisjoint(SURROUNDING_STAGES)
