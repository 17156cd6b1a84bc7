"""The table hangs together for every spec."""

from __future__ import annotations

import torch
from hypothesis import given

from tests.attention.strategies import Case, cases
from visualizer.attention.parameters import draw
from visualizer.attention.spec import AttentionSpec
from visualizer.attention.stages import TABLE, is_hatched, parameter_names, stages

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
    assert {stage.name for stage in found} - read == {found[-1].name}


@given(cases())
def test_the_weights_that_are_drawn_are_those_that_are_read(case: Case) -> None:
    names = {
        name
        for stage in stages(case.spec)
        for layer in stage.parameters
        for name in parameter_names(case.spec, layer)
    }
    drawn = draw(case.spec, 3, CPU)
    assert names <= set(drawn)
    unread = {name.removesuffix(".weight").split(".")[-1] for name in set(drawn) - names}
    assert unread <= {"W_query", "W_key", "bias"}  # averaging compares nothing


@given(cases())
def test_weights_do_not_depend_on_type_or_length(case: Case) -> None:
    short, long = draw(case.spec, 2, CPU), draw(case.spec, 5, CPU)
    for name, tensor in short.items():
        assert torch.equal(tensor, long[name][: len(tensor)])


def test_every_row_says_what_it_is() -> None:
    fields = AttentionSpec.__dataclass_fields__
    for stage in TABLE:
        assert stage.title
        assert stage.symbol
        assert stage.says
        assert set(stage.fields) <= set(fields)


def test_forbidden_cells_are_hatched_where_they_show() -> None:
    spec = AttentionSpec()
    hatched = [stage.name for stage in stages(spec) if is_hatched(spec, stage.name)]
    assert hatched == ["masked", "weights"]
