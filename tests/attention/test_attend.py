"""Every stage agrees with the formulas and with torch's attention, and is reused where valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from torch.nn import functional

from tests.support.attention_strategies import Batch, Case, cases, specs, texts
from tests.support.examples import examples
from tests.support.reference_attention import divisor, is_allowed, reference
from visualizer.attention import masks
from visualizer.attention.attend import attend
from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.run import run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.attention.stages import Operation
from visualizer.errors import InputError

if TYPE_CHECKING:
    from tests.support.reference_attention import Known
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import Trace

CPU = torch.device("cpu")
TEXT = (("Your", "journey", "starts", "with", "one", "step"),)
TOLERANCE = {Dtype.FLOAT32: 1e-5, Dtype.FLOAT64: 1e-12}


# ------------------------------------------------------------------------------------- the formulas


def first_stage(trace: Trace) -> np.ndarray:
    return trace.read(trace.stages[0].name).astype(np.float64)


def expected(trace: Trace) -> dict[str, Known]:
    spec = trace.spec
    weights = {name: tensor.numpy() for name, tensor in trace.parameters.items()}
    kept = masks.draw_keep_mask(
        spec.dropout, spec.dropout_seed, tuple(trace.tensor("weights").shape)
    )
    return reference(spec, first_stage(trace), weights, kept)


def assert_agrees(trace: Trace, stage: str, known: Known) -> None:
    dtype, actual = trace.spec.dtype, trace.read(stage).astype(np.float64)
    assert actual.shape == known.value.shape
    # The tolerance is 1e-5 or 1e-12. For large numbers and results of ill-conditioned steps, it is
    # four times the first-order bound of the error.
    off = np.maximum(TOLERANCE[dtype], 4 * np.finfo(dtype.value).eps * known.doubt)
    with np.errstate(invalid="ignore"):
        near = (np.abs(actual - known.value) <= off) | (actual == known.value)
    same = near | (np.isnan(actual) & np.isnan(known.value)) | np.isinf(known.doubt)
    assert same.all(), f"{stage}:\n{actual}\nand not\n{known.value}"


@given(cases())
@examples(3)
def test_every_stage_is_what_the_formulas_say(case: Case) -> None:
    trace = case.trace()
    stages = expected(trace)
    assert [stage.name for stage in trace.stages] == list(stages)
    for stage, known in stages.items():
        assert_agrees(trace, stage, known)


@given(cases(normalisation=NormalisationKind.SOFTMAX, route=MaskPlacement.BEFORE))
def test_with_softmax_the_formulas_leave_no_number_in_doubt(case: Case) -> None:
    for known in expected(case.trace()).values():
        assert np.isfinite(known.doubt).all()
        assert not np.isnan(known.value).any()


@pytest.mark.parametrize("mechanism", Mechanism)
def test_on_the_books_sentence_the_tolerance_is_the_plain_one(mechanism: Mechanism) -> None:
    most = TOLERANCE[Dtype.FLOAT32]
    # A block has six additional sums, and its norms magnify vectors of nearly equal numbers.
    most *= 40 if mechanism is Mechanism.BLOCK else 1
    for known in expected(run(TEXT, apply_mechanism(mechanism)).trace).values():
        assert (4 * np.finfo(np.float32).eps * known.doubt).max() < most


# ---------------------------------------------------------------------------- torch's own attention

# torch's module projects and compares in one call, so rotations cannot be applied in between.
NOT_ROTATED = [kind for kind in PositionKind if kind is not PositionKind.ROTARY]


def allowed(spec: AttentionSpec, lengths: tuple[int, ...], tokens: int) -> torch.Tensor:
    """Return the allowed cells, boolean [text, query, key]."""
    places = range(tokens)
    return torch.tensor(
        [[[is_allowed(spec, q, k, length) for k in places] for q in places] for length in lengths]
    )


def added_to_scores(trace: Trace, cells: torch.Tensor) -> torch.Tensor:
    """Return what torch adds to the scaled scores: linear biases, and −∞ at forbidden cells."""
    places = torch.arange(trace.query_count)
    slopes = torch.tensor(trace.spec.alibi_slopes)[:, None, None]
    is_biased = trace.spec.position is PositionKind.ALIBI
    bias = -slopes * (places[:, None] - places).abs() * is_biased
    return bias.masked_fill(~cells, -torch.inf).to(trace.tensor("scores"))


def lengths_of(case: Case) -> tuple[int, ...]:
    return tuple(len(text) for text in case.texts)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, trace: Trace) -> None:
    # The absolute error of a score is the relative error of its weight.
    sizes = [trace.limits(stage) for stage in ("scores", "values")]
    size = max(1.0, *(abs(end) for limits in sizes for end in limits)) / min(1, divisor(trace.spec))
    off = TOLERANCE[trace.spec.dtype] * size
    torch.testing.assert_close(actual, expected, rtol=off, atol=off)


@given(
    cases(
        normalisation=NormalisationKind.SOFTMAX, route=MaskPlacement.BEFORE, mode=DropoutMode.EVAL
    )
)
def test_context_is_torchs_scaled_dot_product_attention(case: Case) -> None:
    trace = case.trace()
    q, k, v = (trace.tensor(name) for name in ("queries", "keys", "values"))
    cells = allowed(case.spec, lengths_of(case), trace.query_count)[:, None]  # text 1 query key
    cells = cells if trace.axes else cells[0]
    context = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=added_to_scores(trace, cells), scale=1 / divisor(case.spec)
    )
    some = cells.any(-1, keepdim=True)  # torch has NaN here
    assert_close(trace.tensor("context"), context.where(some, 0.0), trace)


@given(
    st.tuples(st.integers(1, 3), st.sampled_from(NOT_ROTATED)).flatmap(
        lambda picked: cases(
            heads=picked[0],
            d_in=2 * picked[0],
            d_out=2 * picked[0],
            key_value_heads=0,
            position=picked[1],
            projection=Projection.LINEAR,
            arrangement=HeadArrangement.SPLIT,
            output_projection=True,
            scale=ScaleKind.D_HEAD,
            temperature=1.0,
            normalisation=NormalisationKind.SOFTMAX,
            route=MaskPlacement.BEFORE,
            mode=DropoutMode.EVAL,
        )
    )
)
def test_weights_and_output_are_those_of_torchs_multihead_attention(case: Case) -> None:
    trace = case.trace()
    module = as_torch(trace)
    x = trace.tensor("input")  # token d_in, or text token d_in
    cells = allowed(case.spec, lengths_of(case), trace.query_count)
    some = cells.any(-1, keepdim=True)
    read = (cells | ~some)[:, None]  # text 1 query key
    added = added_to_scores(trace, read).flatten(0, 1)  # text×head query key
    with torch.no_grad():
        output, weights = module(x, x, x, attn_mask=added, average_attn_weights=False)
    some = some if trace.axes else some[0]
    assert_close(trace.tensor("output").where(some, 0.0), output.where(some, 0.0), trace)
    some = some.unsqueeze(-3)
    assert_close(trace.tensor("weights"), weights.where(some, 0.0), trace)


def as_torch(trace: Trace) -> torch.nn.MultiheadAttention:
    spec, layers = trace.spec, ("W_query", "W_key", "W_value")
    module = torch.nn.MultiheadAttention(spec.d_in, spec.heads, batch_first=True)
    zeros = torch.zeros(spec.d_in)
    biases = [trace.parameters.get(f"{layer}.bias", zeros) for layer in layers]
    weights = [trace.parameters[f"{layer}.weight"] for layer in layers]
    state = {
        "in_proj_weight": torch.cat(weights),
        "in_proj_bias": torch.cat(biases),
        "out_proj.weight": trace.parameters["out_proj.weight"],
        "out_proj.bias": trace.parameters["out_proj.bias"],
    }
    module = module.to(trace.tensor("input").dtype).eval()
    module.load_state_dict(state)
    return module


# -------------------------------------------------------------------------------------------- reuse

CHANGING = (
    *("d_in", "d_out", "heads", "projection", "bias", "arrangement", "output_projection"),
    *("position", "scale", "temperature", "normalisation", "mask", "window", "own_mask"),
    *("route", "dropout", "dropout_seed", "own_kept", "mode", "seed", "dtype"),
)


def implied(old: Trace, new: Trace) -> set[str]:
    """Derive, from two traces, which stages must be recomputed according to the stage table."""
    recomputed: set[str] = set()
    for stage in new.stages:
        same = (
            stage in old.stages
            and recomputed.isdisjoint(stage.reads)
            and old.tensor(stage.name).shape == new.tensor(stage.name).shape
            and old.tensor(stage.name).dtype == new.tensor(stage.name).dtype
            and all(getattr(old.spec, field) == getattr(new.spec, field) for field in stage.fields)
            and all(same_layer(old, new, layer) for layer in stage.parameters)
            and (
                stage.operation is not Operation.INPUT_VECTORS or same_tensor(old, new, stage.name)
            )
        )
        if not same:
            recomputed.add(stage.name)
    return recomputed


def same_layer(old: Trace, new: Trace, layer: str) -> bool:
    names = [
        {name for name in trace.parameters if layer in name.split(".")} for trace in (old, new)
    ]
    return names[0] == names[1] and all(same_tensor(old, new, name) for name in names[0])


def same_tensor(old: Trace, new: Trace, name: str) -> bool:
    return torch.equal(old.tensor(name), new.tensor(name))


def assert_reuses(before: Case, after: Case) -> None:
    old, new = before.run(), after.trace()
    reusing = run(after.texts, after.spec, old).trace
    assert reusing.recomputed == implied(old.trace, new)
    for stage in reusing.stages:
        tensor = reusing.tensor(stage.name)
        if stage.name not in reusing.recomputed:
            assert tensor is old.trace.tensor(stage.name)
        torch.testing.assert_close(tensor, new.tensor(stage.name), rtol=0, atol=0, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("field", CHANGING)
@given(data=st.data())
@examples(0.3)
def test_a_change_recomputes_what_the_table_implies(field: str, data: st.DataObject) -> None:
    before = data.draw(cases())
    tokens = {len(text) for text in before.texts}
    others = specs(max(tokens), len(tokens) > 1).map(lambda spec: getattr(spec, field))
    other = data.draw(others.filter(lambda value: value != getattr(before.spec, field)))
    spec = replace(before.spec, **{field: other})
    assume(not spec_problems(replace(spec, lengths=before.run().trace.spec.lengths)))
    assert_reuses(before, Case(before.texts, spec))


@given(cases(), texts())
def test_a_changed_text_recomputes_what_the_table_implies(
    before: Case, text: tuple[str, ...]
) -> None:
    spec = replace(before.spec, mask=MaskKind.CAUSAL, own_kept=None, own_input=None)
    assume(not spec_problems(spec) and spec.normalisation is not NormalisationKind.SUM)
    after = (*before.texts[:-1], text)
    assert_reuses(Case(before.texts, spec), Case(after, spec))


FULL = AttentionSpec(dropout=0.5, position=AttentionSpec().position)


@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({"mask": MaskKind.WINDOW}, "masked"),
        ({"dropout": 0.25}, "dropped"),
        ({"dropout_seed": 1}, "dropped"),
        ({"temperature": 2.0}, "scaled"),
        ({"normalisation": NormalisationKind.NAIVE_SOFTMAX}, "weights"),
        ({"bias": True}, "queries"),
    ],
)
def test_a_toggle_recomputes_from_its_stage_on(change: dict[str, object], first: str) -> None:
    old = run(TEXT, FULL)
    trace = run(TEXT, replace(FULL, **change), old).trace
    names = [stage.name for stage in trace.stages]
    assert trace.recomputed == set(names[names.index(first) :])


def test_what_loses_its_bias_is_not_kept() -> None:
    # The remaining weights are the same tensors.
    old = run(TEXT, replace(FULL, bias=True))
    trace = run(TEXT, FULL, old).trace
    assert same_tensor(old.trace, trace, "W_query.weight")
    assert "queries" in trace.recomputed


def test_the_same_again_recomputes_nothing() -> None:
    old = run(TEXT, FULL)
    again = run(TEXT, FULL, old).trace
    assert again.recomputed == set()
    assert again.parameters == old.trace.parameters


# ------------------------------------------------------------------------------------------ batches


@given(cases(Batch.EVEN, mode=DropoutMode.EVAL, dtype=Dtype.FLOAT64))
def test_a_batch_is_each_text_alone(case: Case) -> None:
    trace = case.trace()
    for number, text in enumerate(case.texts):
        alone = run((text,), case.spec).trace
        for stage in trace.stages:
            assert_same_numbers(trace.read(stage.name, (number,)), alone.read(stage.name))


def assert_same_numbers(actual: np.ndarray, expected: np.ndarray) -> None:
    # A product of another shape may add in another order, which division by a sum near 0 magnifies.
    np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@given(cases(Batch.RAGGED, mode=DropoutMode.EVAL, dtype=Dtype.FLOAT64))
@examples(2)
def test_a_padded_text_has_the_numbers_it_has_alone(case: Case) -> None:
    trace = case.trace()
    for number, text in enumerate(case.texts):
        assert case.spec.own_mask is not None
        corner = BooleanMatrix.from_array(case.spec.own_mask.to_array()[: len(text), : len(text)])
        alone = run((text,), replace(case.spec, own_mask=corner)).trace
        for stage in alone.stages:
            assert_same_numbers(real(trace, number, stage), alone.read(stage.name))
        assert (trace.read("weights", (number,))[:, :, len(text) :] == 0).all()


def real(trace: Trace, text: int, stage: Stage) -> np.ndarray:
    """Return a stage of one text in a padded batch, without its padding."""
    length = trace.spec.lengths[text]
    tokens = {"token", "query", "key"}
    return trace.read(
        stage.name, (text, *(slice(length if d in tokens else None) for d in stage.dims))
    )


PADDED = (TEXT[0], ("one", "step"))


@pytest.mark.parametrize("normalisation", [NormalisationKind.SOFTMAX, NormalisationKind.UNIFORM])
@pytest.mark.parametrize("route", MaskPlacement)
@pytest.mark.parametrize("mask", [MaskKind.NONE, MaskKind.CAUSAL])
def test_padding_takes_no_share_on_any_route(
    normalisation: NormalisationKind, route: MaskPlacement, mask: MaskKind
) -> None:
    spec = AttentionSpec(normalisation=normalisation, route=route, mask=mask)
    padded, alone = run(PADDED, spec).trace, run(PADDED[1:], spec).trace
    np.testing.assert_allclose(
        padded.read("weights", (1,))[:, :2, :2], alone.read("weights"), rtol=1e-6
    )
    if "unmasked" in padded:
        assert (padded.read("unmasked", (1,))[:, :, 2:] == 0).all()


# ------------------------------------------------------------------------------------------- errors


def test_vectors_of_another_size_are_refused() -> None:
    with pytest.raises(InputError, match="vectors of size 4, but d_in is 3") as refused:
        attend(AttentionSpec(), torch.ones(6, 4), {})
    assert refused.value.field == "d_in"


def test_a_spec_with_a_problem_is_refused() -> None:
    spec = AttentionSpec(d_out=6, heads=4)
    with pytest.raises(InputError, match="The output size 6 cannot be split into 4 heads"):
        attend(spec, torch.ones(6, 3), initialize_parameters(AttentionSpec(), 6, CPU))


@pytest.mark.parametrize("field", ["own_mask", "own_kept"])
def test_an_own_matrix_of_another_size_is_refused(field: str) -> None:
    matrix = BooleanMatrix.from_array(np.ones((2, 2)))
    spec = replace(AttentionSpec(mask=MaskKind.OWN, own_mask=matrix), **{field: matrix})
    if field == "own_kept":
        spec = replace(spec, mask=MaskKind.CAUSAL)
    with pytest.raises(InputError, match="matrix is 2 × 2, but the text needs 3 × 3") as refused:
        run((("one", "more", "word"),), spec)
    assert refused.value.field == field


def test_a_query_that_may_read_nothing_reads_nothing() -> None:
    matrix = BooleanMatrix.from_array(np.array([[0, 0], [1, 0]]))
    spec = AttentionSpec(mask=MaskKind.OWN, own_mask=matrix)
    for normalisation in (NormalisationKind.SOFTMAX, NormalisationKind.NAIVE_SOFTMAX):
        trace = run((("one", "step"),), replace(spec, normalisation=normalisation)).trace
        assert (trace.read("weights", (slice(None), 0)) == 0).all()
        assert (trace.read("context", (slice(None), 0)) == 0).all()
