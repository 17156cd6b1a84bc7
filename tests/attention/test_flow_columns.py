"""The flow board's columns follow from the stage table: states, operands and order."""

from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from visualizer.attention.flow_columns import (
    FlowColumn,
    FlowPart,
    flow_columns,
    focused_column_index,
    visible_state,
)
from visualizer.attention.roles import Role
from visualizer.attention.spec import (
    AttentionSpec,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    TransformerBlockKind,
)
from visualizer.attention.stages import Stage, stages


def _columns(**fields: object) -> dict[str, FlowColumn]:
    """Return the columns of a spec, by the last stage that each column shows."""
    spec = AttentionSpec(**{"d_in": 8, "d_out": 8, **fields})  # type: ignore[arg-type]
    return {column.states[-1]: column for column in flow_columns(stages(spec))}


def test_scores_and_weights_are_states_of_one_matrix_each() -> None:
    columns = _columns(dropout=0.1)
    assert columns["masked"].states == ("scores", "scaled", "masked")
    assert columns["dropped"].states == ("weights", "dropped")


def test_a_mask_after_softmax_is_a_state_of_the_weights() -> None:
    columns = _columns(route=MaskPlacement.AFTER_RENORMALISED, position=PositionKind.ALIBI)
    assert columns["biased"].states == ("scores", "scaled", "bias", "biased")
    assert columns["weights"].states == ("unmasked", "zeroed", "weights")


def test_what_stands_above_a_product_is_its_second_factor() -> None:
    columns = _columns()
    above = {name: one.operand or one.layer for name, one in columns.items()}
    assert above == {
        "input": "",
        "queries": "W_query",
        "keys": "W_key",
        "values": "W_value",
        "masked": "keys",
        "weights": "",
        "context": "values",
        "concat": "",
        "output": "out_proj",
    }
    assert columns["masked"].is_operand_transposed
    assert not columns["context"].is_operand_transposed


def test_rotated_queries_are_a_state_of_the_projected_ones() -> None:
    columns = _columns(position=PositionKind.ROTARY)
    assert columns["queries"].states == ("projected_queries", "queries")
    assert columns["queries"].layer_stage == "projected_queries"


def test_a_block_has_the_stream_before_the_head_and_the_feed_forward_layer_after() -> None:
    columns = _columns(block=TransformerBlockKind.PRE_NORM)
    parts = {name: one.part for name, one in columns.items()}
    assert [name for name, part in parts.items() if part is FlowPart.BEFORE_HEADS] == [
        "residual",
        "normed",
    ]
    assert columns["residual"].states == ("input", "residual")
    assert columns["hidden"].states == ("up", "hidden")
    assert {name for name, one in columns.items() if one.is_feed_forward} == {
        "hidden",
        "feed_forward",
    }
    assert columns["result"].reads == ("attended", "feed_forward")


def test_a_product_of_two_matrices_is_no_addition_to_the_stream() -> None:
    spec = AttentionSpec(d_in=8, d_out=8, block=TransformerBlockKind.PRE_NORM)
    found: list[Stage] = []
    for stage in stages(spec):
        if stage.name == "hidden":
            found.append(replace(found[-1], name="gate"))
            stage = replace(stage, reads=("gate", "up"))
        found.append(stage)
    columns = flow_columns(found)
    assert next(one.reads for one in columns if "hidden" in one.states) == ("gate", "up")
    additions = {one.states[-1]: one.reads for one in columns if one.is_residual_addition}
    assert additions == {
        "attended": ("residual", "output"),
        "result": ("attended", "feed_forward"),
    }


def test_linear_attention_has_no_operand_above_its_context() -> None:
    columns = _columns(normalisation=NormalisationKind.LINEAR)
    assert columns["weights"].operand == "feature_keys"
    assert columns["context"].operand == ""


def test_the_weights_are_in_focus_unless_another_stage_is_wanted() -> None:
    columns = flow_columns(stages(AttentionSpec()))
    assert Role.WEIGHTS in columns[focused_column_index(columns, ())].states
    assert "scaled" in columns[focused_column_index(columns, ("scaled",))].states
    assert "weights" in columns[focused_column_index(columns, ("not a stage",))].states


def test_a_column_shows_its_last_state_unless_another_is_wanted() -> None:
    scores = next(one for one in flow_columns(stages(AttentionSpec())) if one.is_query_key)
    assert visible_state(scores, ()) == "masked"
    assert visible_state(scores, ("weights", "scores")) == "scores"


@given(cases())
def test_every_stage_is_a_state_of_one_column_and_causes_come_first(case: Case) -> None:
    rows = stages(case.spec)
    columns = flow_columns(rows)
    names = [name for column in columns for name in column.states]
    assert sorted(names) == sorted(row.name for row in rows)
    place = {name: at for at, column in enumerate(columns) for name in column.states}
    parts = [column.part for column in columns]
    assert parts == sorted(parts)
    for row in rows:
        for read in row.reads:
            assert place[read] <= place[row.name]
    for column in columns:
        assert len({dims for row in rows if row.name in column.states
                    for dims in [("head" in row.dims, row.dims[-1] == "key")]}) == 1  # fmt: skip
