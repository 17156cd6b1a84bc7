"""Every stage and every operation has its row in each table that describes it."""

from __future__ import annotations

from visualizer.attention import attend, explain
from visualizer.attention.stages import TABLE, Operation
from visualizer.state import readout, sentences
from visualizer.state.code import expressions
from visualizer.state.code.vocabulary import VOCABULARIES
from visualizer.state.playback import phrases, row_sentences, stage_sentences


def test_every_operation_is_computed_explained_and_told() -> None:
    made = set(Operation) - {Operation.CAPTURED}  # which is read, not made
    assert set(attend._COMPUTE) == made
    assert set(explain._EXPLAIN) == set(Operation)
    assert set(sentences.SENTENCES) == set(Operation)
    assert set(row_sentences.ROWS) == set(Operation)
    assert set(stage_sentences.STAGES) == set(Operation)
    assert set(expressions.WRITE) == made
    by_spec = {Operation.SCALE, Operation.NORMALISE, Operation.AVERAGE}  # written by `_formula`
    assert set(readout._FORMULAS) | by_spec == set(Operation)


def test_every_stage_has_its_name_in_code_and_in_sentences() -> None:
    stages = {row.name for row in TABLE}
    for words in VOCABULARIES.values():
        assert set(words.names) == stages
    assert set(phrases.KINDS) <= stages
