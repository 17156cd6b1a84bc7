"""Every stage and every operation has a row in each table that describes it."""

from __future__ import annotations

from visualizer.attention import attend, explain
from visualizer.attention.stages import TABLE, Operation
from visualizer.explanations import cell_explanation, phrases, row_explanation, stage_explanation
from visualizer.features.cell import model as cell_model
from visualizer.features.code import code_lines
from visualizer.features.code.dialect_identifiers import VOCABULARIES


def test_every_operation_is_computed_explained_and_told() -> None:
    made = set(Operation) - {Operation.CAPTURED}  # which is read, not made
    assert set(attend._COMPUTE) == made
    assert set(explain._EXPLAIN) == set(Operation)
    assert set(cell_explanation.SENTENCES) == set(Operation)
    assert set(row_explanation.ROWS) == set(Operation)
    assert set(stage_explanation.STAGES) == set(Operation)
    assert set(code_lines.WRITE) == made
    by_spec = {Operation.SCALE, Operation.NORMALISE, Operation.AVERAGE}  # written by `_formula`
    assert set(cell_model._FORMULAS) | by_spec == set(Operation)


def test_every_stage_has_its_name_in_code_and_in_sentences() -> None:
    stages = {row.name for row in TABLE}
    for words in VOCABULARIES.values():
        assert set(words.names) == stages
    assert set(phrases.KINDS) <= stages
