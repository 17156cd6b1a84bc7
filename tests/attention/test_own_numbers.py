"""Custom vectors and weights are used as given, in every layout of the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases, numbers, own_weights
from visualizer.attention.custom_weights import custom_weights_of
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.run import run
from visualizer.attention.spec import (
    PROJECTION_LAYERS,
    AttentionSpec,
    Device,
    Dtype,
    HeadArrangement,
    NumberMatrix,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.errors import InputError

TEXT = (("Your", "journey", "starts", "with", "one", "step"),)
SPEC = AttentionSpec(device=Device.CPU)
SELF = apply_mechanism(Mechanism.SELF, SPEC)
CPU = torch.device("cpu")


def matrix(rows: int, columns: int) -> NumberMatrix:
    return NumberMatrix.from_array(np.arange(rows * columns).reshape(rows, columns) / 8)


def test_a_matrix_gives_back_its_numbers_and_lets_nobody_change_them() -> None:
    array = np.array([[0.1, -np.inf], [5e-324, np.pi]])
    made = NumberMatrix.from_array(array)
    np.testing.assert_array_equal(made.to_array(), array)
    assert made == NumberMatrix.from_array(array.copy(order="F"))
    assert hash(made) == hash(NumberMatrix.from_array(array))
    assert made != NumberMatrix.from_array(array.T)
    with pytest.raises(ValueError, match="read-only"):
        made.to_array()[0, 0] = 1


# ---------------------------------------------------------------------------------------------- use


@given(cases(), st.data())
def test_what_is_given_is_what_is_computed_with(case: Case, data: st.DataObject) -> None:
    spec = case.spec
    if len(case.texts) == 1:
        own = data.draw(numbers(len(case.texts[0]), spec.d_in))
        trace = run(case.texts, replace(spec, own_input=own)).trace
        np.testing.assert_array_equal(trace.read(trace.stages[0].name), own.to_array())
    assume(spec.projection is not Projection.NONE or spec.output_projection)
    given_weights = data.draw(own_weights(spec))
    trace = run(case.texts, replace(spec, own_weights=given_weights)).trace
    kept = dict(custom_weights_of(trace))
    assert {name: kept[name] for name, _ in given_weights} == dict(given_weights)


@given(cases())
def test_a_round_trip_is_exact(case: Case) -> None:
    trace = case.trace()
    again = run(case.texts, replace(case.spec, own_weights=custom_weights_of(trace))).trace
    assert again.parameters.keys() == trace.parameters.keys()
    for name, tensor in trace.parameters.items():
        assert torch.equal(again.parameters[name], tensor)
    for stage in trace.names:
        np.testing.assert_array_equal(again.read(stage), trace.read(stage))


def test_own_weights_lie_in_memory_as_drawn_ones_do() -> None:
    spec = AttentionSpec(d_in=2, d_out=1, heads=1, device=Device.CPU, scale=ScaleKind.NONE)
    trace = run((("Your",),), spec).trace
    again = run((("Your",),), replace(spec, own_weights=custom_weights_of(trace))).trace
    for name, tensor in trace.parameters.items():
        assert again.parameters[name].stride() == tensor.stride()


@given(cases(projection=Projection.LINEAR, bias=True, output_projection=True), st.data())
def test_biases_of_ones_own_are_added(case: Case, data: st.DataObject) -> None:
    spec, sizes = case.spec, case.spec.custom_weight_sizes
    biases = ("W_key.bias", "W_output.bias")
    own = {name: data.draw(numbers(*sizes[name])) for name in biases}
    trace = run(case.texts, replace(spec, own_weights=tuple(own.items()))).trace
    without = replace(spec, own_weights=())
    drawn = run(case.texts, without).trace.parameters
    stacked = spec.arrangement is HeadArrangement.STACKED and spec.heads > 1
    names = [f"heads.{head}.W_key.bias" for head in range(spec.heads)] if stacked else None
    keys = np.concatenate([trace.read(name) for name in names or ["W_key.bias"]])
    np.testing.assert_array_equal(keys, own["W_key.bias"].to_array()[0])
    np.testing.assert_array_equal(trace.read("out_proj.bias"), own["W_output.bias"].to_array()[0])
    others = drawn.keys() - {*(names or ["W_key.bias"]), "out_proj.bias"}
    assert all(torch.equal(trace.parameters[name], drawn[name]) for name in others)
    kept = dict(custom_weights_of(trace))
    assert {name: kept[name] for name in own} == own


def test_what_is_not_named_is_drawn_as_ever() -> None:
    spec = replace(SPEC, bias=True)
    drawn = initialize_parameters(spec, 6, CPU)
    mixed = initialize_parameters(replace(spec, own_weights=(("W_key", matrix(3, 2)),)), 6, CPU)
    assert list(mixed) == list(drawn)
    others = {name for name in drawn if torch.equal(mixed[name], drawn[name])}
    assert others == drawn.keys() - {"W_key.weight"}


def test_without_layers_there_is_nothing_to_keep_but_the_output() -> None:
    simplified = apply_mechanism(Mechanism.SIMPLIFIED, SPEC)
    assert custom_weights_of(run(TEXT, simplified).trace) == ()
    kept = custom_weights_of(run(TEXT, replace(simplified, output_projection=True)).trace)
    assert [(name, own.rows, own.columns) for name, own in kept] == [("W_output", 3, 3)]


@given(cases(output_projection=True), st.data())
def test_the_output_is_what_numpy_makes_of_the_own_weights(case: Case, data: st.DataObject) -> None:
    own = data.draw(numbers(case.spec.concatenated_head_width, case.spec.concatenated_head_width))
    trace = run(case.texts, replace(case.spec, own_weights=(("W_output", own),))).trace
    concat = trace.read("concat").astype(np.float64)
    bias = trace.read("out_proj.bias").astype(np.float64)
    wanted = concat @ own.to_array() + bias
    near = 1e-5 if case.spec.dtype is Dtype.FLOAT32 else 1e-13
    size = np.abs(concat) @ np.abs(own.to_array()) + np.abs(bias)
    actual = trace.read("output").astype(np.float64)
    off = np.abs(actual - wanted) > near * size
    assert not (off & np.isfinite(wanted)).any()
    np.testing.assert_array_equal(trace.read("out_proj.weight"), own.to_array().T)


def test_weights_of_an_output_that_is_not_there_do_not_act() -> None:
    own = (("W_output", matrix(5, 4)),)
    spec = replace(SPEC, output_projection=False, own_weights=own)
    assert spec_problems(spec) == ()
    assert run(TEXT, spec).trace.output_stage_name == "concat"


def test_what_still_fits_stays_when_the_rest_is_drawn_again() -> None:
    spec = replace(SPEC, own_weights=custom_weights_of(run(TEXT, SPEC).trace), d_in=4)
    (problem,) = spec_problems(spec)
    assert problem.sentence == "W_query is 3 × 2, but the settings need 4 × 2."
    assert problem.remedy
    mended = replace(spec, own_weights=problem.remedy[1])
    assert [name for name, _ in mended.own_weights] == ["W_output"]
    assert spec_problems(mended) == ()


# ----------------------------------------------------------------------- transfer to other settings


def test_uniform_weights_in_linear_layers_give_the_same_context() -> None:
    uniform = run(TEXT, replace(SELF, projection=Projection.UNIFORM)).trace
    linear = run(TEXT, replace(SELF, own_weights=custom_weights_of(uniform))).trace
    for layer in PROJECTION_LAYERS:
        weight = linear.tensor(f"{layer}.weight")
        assert torch.equal(weight, uniform.tensor(layer).T)
    torch.testing.assert_close(
        linear.tensor("context"), uniform.tensor("context"), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("projection", [Projection.UNIFORM, Projection.LINEAR])
@pytest.mark.parametrize("dtype", Dtype)
def test_stacked_heads_in_split_ones_give_the_same_concat(
    projection: Projection, dtype: Dtype
) -> None:
    base = replace(SPEC, projection=projection, dtype=dtype, output_projection=False)
    stacked = run(TEXT, replace(base, arrangement=HeadArrangement.STACKED, d_out=2)).trace
    carried = custom_weights_of(stacked)
    assert [(own.rows, own.columns) for _, own in carried] == 3 * [(3, 4)]
    split = run(TEXT, replace(base, d_out=4, own_weights=carried)).trace
    torch.testing.assert_close(split.tensor("concat"), stacked.tensor("concat"), rtol=0, atol=1e-6)
    assert custom_weights_of(split) == carried


# -------------------------------------------------------------------------------------------- reuse


def test_own_weights_recompute_what_reads_them_and_nothing_else() -> None:
    old = run(TEXT, SPEC)
    same = run(TEXT, replace(SPEC, own_weights=custom_weights_of(old.trace)), old).trace
    assert same.recomputed == set()
    changed = run(TEXT, replace(SPEC, own_weights=(("W_value", matrix(3, 2)),)), old).trace
    assert changed.recomputed == {"values", "context", "concat", "output"}
    fresh = run(TEXT, changed.spec).trace
    for stage in fresh.names:
        np.testing.assert_array_equal(changed.read(stage), fresh.read(stage))


def test_own_vectors_recompute_all_unless_they_are_the_same() -> None:
    old = run(TEXT, SPEC)
    same = NumberMatrix.from_array(old.trace.read("input"))
    assert run(TEXT, replace(SPEC, own_input=same), old).trace.recomputed == set()
    other = run(TEXT, replace(SPEC, own_input=matrix(6, 3)), old).trace
    assert other.recomputed == set(other.names)
    assert run(TEXT, SPEC, run(TEXT, other.spec)).trace.recomputed == set(other.names)


@given(cases(), st.data())
def test_whatever_was_before_the_numbers_are_those_of_a_fresh_run(
    case: Case, data: st.DataObject
) -> None:
    old, spec = case.run(), replace(case.spec, own_input=None, own_weights=())
    has_weights = spec.projection is not Projection.NONE or spec.output_projection
    if has_weights and data.draw(st.booleans()):
        spec = replace(spec, own_weights=data.draw(own_weights(spec)))
    if len(case.texts) == 1 and data.draw(st.booleans()):
        spec = replace(spec, own_input=data.draw(numbers(len(case.texts[0]), spec.d_in)))
    reusing, fresh = run(case.texts, spec, old).trace, run(case.texts, spec).trace
    for stage in fresh.names:
        np.testing.assert_array_equal(reusing.read(stage), fresh.read(stage))


# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        (
            {"own_input": matrix(6, 2)},
            "own_input",
            "The vectors are 6 × 2, but the embedding size is 3.",
        ),
        (
            {"own_input": matrix(5, 3)},
            "own_input",
            "The vectors are 5 × 3, but the text needs 6 × 3.",
        ),
        (
            {"own_input": NumberMatrix.from_array(np.full((6, 3), 1e300))},
            "own_input",
            "Some of the numbers are out of range for float32.",
        ),
        (
            {"own_weights": (("W_value", matrix(2, 3)),)},
            "own_weights",
            "W_value is 2 × 3, but the settings need 3 × 2.",
        ),
        (
            {"own_weights": (("W_value", matrix(3, 2)), ("W_out", matrix(3, 2)))},
            "own_weights",
            "Unknown weights “W_out”. Use one of: W_query, W_key, W_value, W_output, "
            "ln1, ln2, "
            "linear1, linear2.",
        ),
        (
            {"own_weights": (("W_value", NumberMatrix.from_array(np.full((3, 2), np.nan))),)},
            "own_weights",
            "Some of the numbers are out of range for float32.",
        ),
    ],
)
def test_what_does_not_fit_is_said_and_mended_by_drawing(
    change: dict[str, object], field: str, said: str
) -> None:
    spec = replace(SPEC, **change)
    with pytest.raises(InputError) as refused:
        run(TEXT, spec)
    assert (refused.value.field, refused.value.sentence) == (field, said)
    assert refused.value.remedy
    assert refused.value.remedy[0] == field
    assert run(TEXT, replace(spec, **dict([refused.value.remedy]))).trace.query_count == 6


def test_own_vectors_are_those_of_one_text() -> None:
    spec = replace(SPEC, own_input=matrix(6, 3))
    with pytest.raises(InputError, match="for one text, but there are 2 texts") as refused:
        run(TEXT * 2, spec)
    assert (refused.value.field, refused.value.remedy) == ("own_input", ("own_input", None))


def test_sizes_that_are_wrong_themselves_are_said_first() -> None:
    own = (("W_key", matrix(3, 2)),)
    for change, field in (({"heads": 0}, "heads"), ({"d_out": 3}, "heads"), ({"d_in": 0}, "d_in")):
        spec = replace(SPEC, own_weights=own, own_input=matrix(6, 3), **change)
        assert [problem.field for problem in spec_problems(spec)] == [field]


def test_without_projection_own_weights_do_not_act() -> None:
    spec = replace(
        apply_mechanism(Mechanism.SIMPLIFIED, SPEC), own_weights=(("W_key", matrix(1, 1)),)
    )
    assert spec_problems(spec) == ()
    assert run(TEXT, spec).trace.query_count == 6
