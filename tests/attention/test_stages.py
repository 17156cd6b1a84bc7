"""The stage table is consistent for every spec."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from visualizer.attention import masks
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.spec import (
    WEIGHT_FIELDS,
    AttentionSpec,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    ScaleKind,
)
from visualizer.attention.stages import (
    STAGE_TABLE,
    Operation,
    has_forbidden_cells,
    parameter_names,
    stages,
)

CPU = torch.device("cpu")


@given(cases())
def test_a_stage_reads_only_what_came_before(case: Case) -> None:
    seen: set[str] = set()
    for stage in stages(case.spec):
        assert seen.issuperset(stage.reads)
        assert stage.name not in seen
        seen.add(stage.name)


@given(cases())
def test_every_stage_but_the_last_is_read(case: Case) -> None:
    found = stages(case.spec)
    read = {name for stage in found for name in stage.reads}
    implied = {stage.name for stage in found if stage.operation is Operation.IMPLIED_WEIGHTS}
    assert {stage.name for stage in found} - read == {found[-1].name} | implied


@given(cases())
def test_the_weights_that_are_drawn_are_those_that_are_read(case: Case) -> None:
    names = {
        name
        for stage in stages(case.spec)
        for layer in stage.parameters
        for name in parameter_names(case.spec, layer)
    }
    drawn = initialize_parameters(case.spec, 3, CPU)
    assert names <= set(drawn)
    unread = {name.removesuffix(".weight").split(".")[-1] for name in set(drawn) - names}
    assert unread <= {"W_query", "W_key", "bias"}  # averaging compares nothing


@given(cases())
def test_weights_do_not_depend_on_type_or_length(case: Case) -> None:
    short, long = initialize_parameters(case.spec, 2, CPU), initialize_parameters(case.spec, 5, CPU)
    for name, tensor in short.items():
        assert torch.equal(tensor, long[name][: len(tensor)])


@given(cases(), cases())
def test_weights_are_drawn_from_what_the_list_names(case: Case, other: Case) -> None:
    same = {field: getattr(case.spec, field) for field in WEIGHT_FIELDS}
    first, second = (
        initialize_parameters(case.spec, 3, CPU),
        initialize_parameters(replace(other.spec, **same), 3, CPU),
    )
    assert list(first) == list(second)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_every_row_says_what_it_is() -> None:
    fields = AttentionSpec.__struct_fields__
    for stage in STAGE_TABLE:
        assert stage.title
        assert stage.symbol
        assert stage.description
        assert set(stage.fields) <= set(fields)


def test_forbidden_cells_are_hatched_where_they_show() -> None:
    spec = AttentionSpec()
    assert hatched_of(spec) == ["masked", "weights"]
    after = replace(spec, route=MaskPlacement.AFTER_RENORMALISED, dropout=0.5)
    assert hatched_of(after) == ["zeroed", "weights", "dropped"]
    padded = replace(after, lengths=(2, 1))
    assert hatched_of(padded) == ["masked", "unmasked", "zeroed", "weights", "dropped"]
    assert hatched_of(replace(spec, mask=MaskKind.NONE)) == []


def hatched_of(spec: AttentionSpec) -> list[str]:
    return [stage.name for stage in stages(spec) if has_forbidden_cells(spec, stage.name)]


@given(cases())
def test_what_is_hatched_is_what_the_numbers_forbid(case: Case) -> None:
    trace = case.trace()
    for stage in trace.stages:
        if has_forbidden_cells(trace.spec, stage.name):
            cells = masks.allowed(trace.spec, trace.query_count, stage.name)
            forbidden = trace.read(stage.name)[
                np.broadcast_to(~cells, trace.read(stage.name).shape)
            ]
            assert (forbidden == (-np.inf if stage.name == "masked" else 0)).all()


@pytest.mark.parametrize(
    ("fields", "symbol"),
    [
        ({}, "QKᵀ/√d"),
        ({"temperature": 2.0}, "QKᵀ/(√d·T)"),
        ({"temperature": 2.0, "scale": ScaleKind.NONE}, "QKᵀ/T"),
    ],
)
def test_a_symbol_names_what_divides(fields: dict[str, Any], symbol: str) -> None:
    found = {stage.name: stage for stage in stages(AttentionSpec(**fields))}
    assert found["scaled"].symbol == symbol
    assert found["scaled"].description.startswith("scores divided by ")


@pytest.mark.parametrize("mask", [MaskKind.NONE, MaskKind.CAUSAL])
def test_only_a_softmax_is_called_one(mask: MaskKind) -> None:
    for kind in NormalisationKind:
        spec = AttentionSpec(mask=mask, normalisation=kind, route=MaskPlacement.AFTER)
        said = [stage.symbol for stage in stages(spec)]
        softmax = kind in {NormalisationKind.SOFTMAX, NormalisationKind.NAIVE_SOFTMAX}
        assert ("softmax" in said) == softmax
        assert ("÷ row sum" in said) == (kind is NormalisationKind.SUM)
