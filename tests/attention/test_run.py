"""Errors in a computation are reported as sentences, and the program remains usable."""

from __future__ import annotations

import re
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from msgspec.structs import replace

from tests.support.attention_strategies import Batch, Case, cases
from tests.support.examples import examples
from visualizer.attention import device as attention_device
from visualizer.attention import run as attention_run
from visualizer.attention.attend import attend
from visualizer.attention.buffer_pool import BufferPool
from visualizer.attention.run import USABLE_MEMORY_SHARE, run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.attention.stages import estimate_bytes
from visualizer.attention.token_embeddings import PADDING_LABEL
from visualizer.errors import FIRST_TOKENS, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Machine
    from visualizer.attention.spec import Texts
    from visualizer.attention.trace import Trace

TEXT = ("Your", "journey", "starts", "with", "one", "step")
SPEC = AttentionSpec(device=Device.CPU)


# -------------------------------------------------------------------------------------------- texts


@pytest.mark.parametrize("texts", [(), ((),), (("one",), ())])
def test_no_text_is_said(texts: Texts) -> None:
    with pytest.raises(InputError, match="The text is empty") as refused:
        run(texts, SPEC)
    assert refused.value.field == "text"


def test_one_token_reads_itself() -> None:
    trace = run((("one",),), SPEC).trace
    assert (trace.read("weights") == 1).all()
    assert (trace.read("context") == trace.read("values")).all()
    assert trace.read(trace.output_stage_name).shape == (1, 2)


def test_one_text_has_no_batch_axis_and_several_have() -> None:
    assert run((TEXT,), SPEC).trace.leading_sizes == ()
    assert run((TEXT, TEXT), SPEC).trace.leading_sizes == (2,)


def test_shorter_texts_are_padded_and_padding_is_not_read() -> None:
    result = run((TEXT, TEXT[:2]), replace(SPEC, mask=MaskKind.NONE))
    assert result.texts == (TEXT, (*TEXT[:2], *4 * (PADDING_LABEL,)))
    assert result.trace.spec.lengths == (6, 2)
    assert (result.trace.read("weights", (1,))[:, :, 2:] == 0).all()
    assert (result.trace.read("weights", (0,)) > 0).all()


def test_texts_of_one_length_need_no_padding() -> None:
    padded = replace(SPEC, lengths=(6, 2))
    assert run((TEXT, TEXT), padded).trace.spec.lengths == ()
    assert run((TEXT,), padded).trace.spec.lengths == ()


def test_padding_needs_a_row_that_can_be_normalised() -> None:
    spec = replace(SPEC, mask=MaskKind.NONE, normalisation=NormalisationKind.SUM)
    assert run((TEXT, TEXT), spec).trace.leading_sizes == (2,)
    for route in MaskPlacement:
        with pytest.raises(InputError, match="Padding sets scores to −∞") as refused:
            run((TEXT, TEXT[:2]), replace(spec, route=route))
        assert refused.value.remedy
        field, value = refused.value.remedy
        mended = replace(spec, **{field: value})
        assert run((TEXT, TEXT[:2]), mended).trace.leading_sizes == (2,)


def test_a_problem_of_the_spec_is_said() -> None:
    with pytest.raises(InputError, match="dropout rate") as refused:
        run((TEXT,), replace(SPEC, dropout=1.0))
    assert refused.value.field == "dropout"


# ------------------------------------------------------------------------------------------- memory


@given(cases())
@examples(2)
def test_no_trace_takes_more_than_was_estimated(case: Case) -> None:
    trace = case.trace()
    assert estimate_bytes(trace.spec, trace.query_count, len(case.texts)) >= trace.bytes


@given(cases(Batch.RAGGED))
def test_nor_does_one_of_a_padded_batch(case: Case) -> None:
    trace = case.trace()
    assert estimate_bytes(trace.spec, trace.query_count, len(case.texts)) >= trace.bytes


@pytest.mark.parametrize("dtype", Dtype)
@pytest.mark.parametrize("position", PositionKind)
@pytest.mark.parametrize(("texts", "tokens", "d_in"), [(1, 1, 300_000), (2, 3, 100_000)])
def test_large_vectors_are_counted_too(
    dtype: Dtype, position: PositionKind, texts: int, tokens: int, d_in: int
) -> None:
    words = tuple(tuple(f"{text} {word}" for word in range(tokens)) for text in range(texts))
    spec = replace(SPEC, d_in=d_in, d_out=2, heads=1, dtype=dtype, position=position)
    tracemalloc.start()  # measures NumPy's memory; torch's memory is known from the trace
    trace = run(words, spec).trace
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert estimate_bytes(spec, tokens, texts) >= taken + trace.bytes


@pytest.mark.parametrize("heads", [1, 4])
def test_too_much_text_is_said_with_what_fits(heads: int, machine: Machine) -> None:
    free = 6 * 2**20
    machine.set_free_bytes(free)
    spec = replace(SPEC, heads=heads, d_out=4)
    with pytest.raises(InputError) as refused:
        run((2_000 * ("word",),), spec)
    said = re.fullmatch(
        rf"2,000 tokens × {heads} heads? need 0\.\d GiB, but only 0\.0 GiB is available\. "
        r"About (\d+) tokens fit\.",
        refused.value.sentence,
    )
    assert refused.value.field == "text"
    assert said, refused.value.sentence
    fits = int(said[1])
    assert estimate_bytes(spec, fits) <= USABLE_MEMORY_SHARE * free < estimate_bytes(spec, fits + 1)
    assert refused.value.remedy == (FIRST_TOKENS, fits)
    assert run((fits * ("word",),), spec).trace.query_count == fits


def allocate_too_much(*_: object, **__: object) -> Trace:
    torch.empty(2**50)
    raise AssertionError("more than any machine has")


def run_out(*_: object, **__: object) -> Trace:
    raise MemoryError


@pytest.mark.parametrize("pool", [None, BufferPool()], ids=["no pool", "pool"])
@pytest.mark.parametrize("fail", [allocate_too_much, run_out])
def test_memory_that_runs_out_is_said(
    fail: Callable[..., Trace], pool: BufferPool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_run, "attend", fail)
    with pytest.raises(InputError, match=r"Out of memory for 6 tokens × 2 heads\. Try"):
        run((TEXT,), SPEC, pool=pool)


def test_memory_that_runs_out_is_asked_for_again_without_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = BufferPool()
    pools: list[BufferPool | None] = []

    def attend_at_second(*given: Any, **named: Any) -> Trace:
        pools.append(named["pool"])
        if named["pool"]:
            named["pool"].allocate_tensor((2**21,), torch.zeros(1)).zero_()
            kept = named["pool"].allocate_tensor((2**22,), torch.zeros(1))  # by the error's frame
            assert pool.free_bytes
            raise MemoryError(kept.shape)
        assert pool.free_bytes == 0
        return attend(*given, **named)

    monkeypatch.setattr(attention_run, "attend", attend_at_second)
    result = run((TEXT,), SPEC, pool=pool)
    assert pools == [pool, None]
    assert_same(result.trace, run((TEXT,), SPEC).trace)


@pytest.mark.parametrize(
    ("fields", "field", "said"),
    [
        ({"d_in": 1_000_000}, "d_in", "With the embedding size 1,000,000, one token needs "),
        ({"d_out": 1_000_000}, "d_out", "With the output size 1,000,000, one token needs "),
        (
            {"d_in": 1_000_000, "heads": 1, "projection": Projection.NONE},
            "d_in",
            "With the embedding size 1,000,000, one token needs ",
        ),
        (
            {"d_out": 900, "heads": 1_000, "arrangement": HeadArrangement.STACKED},
            "heads",
            "With 1,000 heads, one token needs ",
        ),
        (
            {"d_out": 100, "heads": 1_000, "arrangement": HeadArrangement.STACKED},
            "heads",
            "With 1,000 heads, one token needs ",
        ),
    ],
)
def test_sizes_that_are_too_much_for_one_token_are_said(
    fields: dict[str, Any], field: str, said: str, machine: Machine
) -> None:
    machine.set_free_bytes(6 * 2**20)
    with pytest.raises(InputError) as refused:
        run((TEXT, TEXT[:2]), replace(SPEC, **fields))
    assert refused.value.field == field
    assert refused.value.sentence.startswith(said)
    if fields.get("d_out") == 900:  # a single head does not fit either
        assert refused.value.remedy is None
        return
    assert refused.value.remedy
    mended, fits = refused.value.remedy
    assert (mended, type(fits)) == (field, int)
    spec = replace(SPEC, **{**fields, field: fits})
    assert spec_problems(spec) == ()
    assert run((TEXT, TEXT[:2]), spec).trace.query_count == len(TEXT)


@pytest.mark.parametrize(
    ("texts", "tokens", "said"),
    [
        (20_000, 2, r"20,000 texts × 2 tokens .* Use fewer texts\."),
        (9, 500, r"tokens per text fit"),
    ],
)
def test_too_many_texts_are_said(texts: int, tokens: int, said: str, machine: Machine) -> None:
    machine.set_free_bytes(2**20)
    with pytest.raises(InputError, match=said) as refused:
        run(texts * (tokens * ("word",),), SPEC)
    assert refused.value.field == "text"


def test_any_other_error_is_a_bug_and_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Trace:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(attention_run, "attend", fail)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        run((TEXT,), SPEC)


# ------------------------------------------------------------------------------------------ devices


def assert_same(trace: Trace, expected: Trace) -> None:
    for stage in expected.stages:
        np.testing.assert_array_equal(trace.read(stage.name), expected.read(stage.name))


@pytest.mark.parametrize(
    ("wanted", "name"), [(Device.CUDA, "A CUDA GPU"), (Device.MPS, "Apple's GPU (MPS)")]
)
def test_an_absent_device_is_said_and_the_cpu_computes(
    wanted: Device, name: str, machine: Machine
) -> None:
    machine.set_devices(Device.CPU)
    result = run((TEXT,), replace(SPEC, device=wanted))
    assert result.notices == (f"{name} is not available; the CPU was used instead.",)
    assert result.device == "CPU"
    assert_same(result.trace, run((TEXT,), SPEC).trace)


@pytest.mark.parametrize(
    ("wanted", "dtype", "chosen", "said"),
    [
        (Device.AUTO, Dtype.FLOAT32, Device.MPS, None),
        (Device.AUTO, Dtype.FLOAT64, Device.CPU, None),
        (Device.MPS, Dtype.FLOAT32, Device.MPS, None),
        (Device.MPS, Dtype.FLOAT64, Device.CPU, "Apple's GPU does not support float64"),
        (Device.CPU, Dtype.FLOAT32, Device.CPU, None),
    ],
)
def test_a_device_is_chosen_that_holds_the_type(
    wanted: Device,
    dtype: Dtype,
    chosen: Device,
    said: str | None,
    machine: Machine,
) -> None:
    machine.set_devices(Device.MPS, Device.CPU)
    found, notice = attention_device.resolve_device(wanted, dtype)
    assert found is chosen
    assert (notice or "").startswith(said or "")
    assert (notice is None) == (said is None)


def test_the_cpu_is_always_there_and_has_memory() -> None:
    assert attention_device.available_devices()[-1] is Device.CPU
    assert attention_device.describe_device(Device.CPU) == "CPU"
    assert attention_device.free_device_bytes(Device.CPU) > 0


@pytest.fixture
def imagined_gpu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def describe(device: Device) -> str:
        return "CUDA GPU (imagined)" if device is Device.CUDA else "CPU"

    machine.set_devices(Device.CUDA, Device.CPU)
    monkeypatch.setattr(attention_device, "describe_device", describe)


RAN_OUT = ("CUDA GPU (imagined) ran out of memory; the CPU was used instead.",)


@pytest.mark.usefixtures("imagined_gpu")
@pytest.mark.parametrize("wanted", [Device.AUTO, Device.CUDA])
@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("MPS backend out of memory (MPS allocated: 1.00 GiB)"),
    ],
)
def test_a_gpu_whose_memory_runs_out_leaves_it_to_the_cpu(
    wanted: Device, error: RuntimeError, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = attention_run.compute_stages

    def compute(
        texts: Texts, spec: AttentionSpec, device: Device, *others: Any, by_blocks: bool
    ) -> Trace:
        if device is not Device.CPU:
            raise error
        return computed(texts, spec, device, *others, by_blocks=by_blocks)

    monkeypatch.setattr(attention_run, "compute_stages", compute)
    machine.set_free_bytes(2**40)
    result = run((TEXT,), replace(SPEC, device=wanted))
    assert (result.device, result.notices) == ("CPU", RAN_OUT)
    assert_same(result.trace, run((TEXT,), SPEC).trace)
    assert result.trace.spec.device is wanted


@pytest.mark.usefixtures("imagined_gpu")
def test_a_gpu_that_is_too_small_is_not_tried(machine: Machine) -> None:
    machine.set_free_bytes(2**40, cuda=0)
    result = run((TEXT,), replace(SPEC, device=Device.CUDA))
    assert (result.device, result.notices) == ("CPU", RAN_OUT)


@pytest.mark.usefixtures("imagined_gpu")
def test_where_neither_has_the_memory_it_is_said(machine: Machine) -> None:
    machine.set_free_bytes(0)
    with pytest.raises(InputError, match="one token needs"):
        run((TEXT,), replace(SPEC, device=Device.CUDA))


# ------------------------------------------------------------------------------------------ notices

NAIVE = replace(SPEC, normalisation=NormalisationKind.NAIVE_SOFTMAX)


@pytest.mark.parametrize("route", MaskPlacement)
def test_an_overflow_of_the_naive_softmax_is_said(route: MaskPlacement) -> None:
    spec = replace(NAIVE, temperature=0.001, route=route)
    result = run((TEXT,), spec)
    normalised = "weights" if route is MaskPlacement.BEFORE else "unmasked"
    assert np.isnan(result.trace.read(normalised)).any()
    (notice,) = result.notices
    assert notice.startswith("The naive softmax overflowed")
    assert run((TEXT,), replace(spec, normalisation=NormalisationKind.SOFTMAX)).notices == ()


def test_a_naive_softmax_that_holds_needs_no_words() -> None:
    assert run((TEXT,), NAIVE).notices == ()


def test_weights_that_are_no_shares_are_said() -> None:
    spec = replace(
        SPEC,
        projection=Projection.NONE,
        arrangement=HeadArrangement.STACKED,
        scale=ScaleKind.NONE,
        mask=MaskKind.NONE,
        normalisation=NormalisationKind.SUM,
    )
    assert run((TEXT,), spec).notices == ()  # the book's vectors have no negative score
    (notice,) = run((TEXT,), replace(spec, d_in=4)).notices
    assert notice.startswith("Dividing by the sum gave weights below 0 or above 1")


@pytest.mark.parametrize("route", [MaskPlacement.AFTER_RENORMALISED, MaskPlacement.AFTER])
def test_rows_that_sum_to_nothing_are_said(route: MaskPlacement) -> None:
    spec = replace(
        SPEC, position=PositionKind.NONE, normalisation=NormalisationKind.SUM, route=route
    )
    result = run((TEXT,), spec)
    assert np.isfinite(result.trace.read("weights")).all()
    said = "Dividing by the sum gave NaN or infinite weights in rows that sum to 0."
    assert said not in result.notices
    nothing = run(((PADDING_LABEL, PADDING_LABEL),), spec)  # a vector of zeros: every score is 0
    assert np.isnan(nothing.trace.read("weights")).any()
    assert nothing.notices == (said,)


def own_vectors(value: float, spec: AttentionSpec) -> AttentionSpec:
    return replace(spec, own_input=NumberMatrix.from_array(np.full((len(TEXT), spec.d_in), value)))


@pytest.mark.parametrize("dtype", Dtype)
def test_numbers_that_overflow_are_said(dtype: Dtype) -> None:
    spec = replace(SPEC, dtype=dtype, position=PositionKind.NONE)
    large = 1e38 if dtype is Dtype.FLOAT32 else 1e300
    result = run((TEXT,), own_vectors(large, spec))
    assert np.isinf(result.trace.read("scores")).any()
    (notice,) = result.notices
    said = f"Overflow: some scores are beyond the range of {dtype} (±"
    assert notice.startswith(said)
    assert "temperature" not in notice
    assert run((TEXT,), own_vectors(large**0.25, spec)).notices == ()


def test_a_score_that_overflows_is_said_though_every_weight_is_a_number() -> None:
    rows, same = np.zeros((len(TEXT), 2)), np.eye(2)
    rows[0, 0] = 1e25
    own = {"W_query": same, "W_key": -same, "W_value": 0 * same, "W_output": same}
    spec = AttentionSpec(
        d_in=2,
        d_out=2,
        heads=1,
        mask=MaskKind.NONE,
        device=Device.CPU,
        own_input=NumberMatrix.from_array(rows),
        own_weights=tuple(
            (name, NumberMatrix.from_array(weights)) for name, weights in own.items()
        ),
    )
    result = run((TEXT,), spec)
    assert result.trace.read("scores")[0, 0, 0] == -np.inf
    assert np.isfinite(result.trace.read("weights")).all()
    (notice,) = result.notices
    assert "Overflow: some scores" in notice


@pytest.mark.parametrize("temperature", [1e-39, 1e-320])
def test_a_temperature_that_is_hardly_a_number_is_said(temperature: float) -> None:
    spec = replace(SPEC, temperature=temperature, scale=ScaleKind.NONE)
    *overflow, notice = run((TEXT,), spec).notices
    divided = (
        f"The scores are divided by {temperature:.3g}, but float32 loses precision below 1.2e-38"
    )
    assert notice.startswith(divided)
    scaled = ["Overflow: some scaled scores are"] * (temperature < 1e-40)
    assert [one[: len(scaled[0])] for one in overflow] == scaled
    assert run((TEXT,), replace(spec, normalisation=NormalisationKind.UNIFORM)).notices == ()


@pytest.mark.parametrize("route", MaskPlacement)
def test_rows_that_may_read_nothing_are_said(route: MaskPlacement) -> None:
    cells = np.tri(len(TEXT), dtype=bool)
    spec = replace(SPEC, mask=MaskKind.OWN, own_mask=BooleanMatrix.from_array(cells), route=route)
    assert run((TEXT,), spec).notices == ()
    cells[[0, 2]] = False
    (notice,) = run((TEXT,), replace(spec, own_mask=BooleanMatrix.from_array(cells))).notices
    said = f"2 of {len(TEXT)} queries attend to nothing: the mask forbids all their keys."
    assert notice == said


def test_padding_is_no_row_that_may_read_nothing() -> None:
    cells = np.eye(len(TEXT), dtype=bool)
    spec = replace(SPEC, mask=MaskKind.OWN, own_mask=BooleanMatrix.from_array(cells))
    assert run((TEXT, TEXT[:2]), spec).notices == ()
    cells[1] = False
    (notice,) = run(
        (TEXT, TEXT[:2]), replace(spec, own_mask=BooleanMatrix.from_array(cells))
    ).notices
    assert notice.startswith(f"2 of {len(TEXT) + 2} queries attend to nothing")


def test_of_more_tokens_than_are_read_the_first_ones_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attention_run, "MAX_TOKENS", 5)
    with pytest.raises(InputError, match=r"The text has 6 tokens; the maximum is 5") as refused:
        run((TEXT,), SPEC)
    assert (refused.value.field, refused.value.remedy) == ("text", (FIRST_TOKENS, 5))
