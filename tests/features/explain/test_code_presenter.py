"""The code of a run: each stage once, with its real shape, in every dialect."""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.support.attention_strategies import Case, cases
from tests.support.screens import resolved
from tests.support.small_runs import a_run
from visualizer.attention import stages as stage_table
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    ScaleKind,
)
from visualizer.attention.stages import STAGE_TABLE, Operation, stages, unfused_stages
from visualizer.explanations.code_dialects import DIALECTS
from visualizer.features.explain.code_lines import stage_code_lines
from visualizer.features.explain.code_presenter import (
    DIALECT_TITLES,
    CodeContents,
    present_code,
    present_run_code,
)
from visualizer.session.cell_address import Cell, ParameterCell
from visualizer.session.view import CodeDialect, View

NAMES = {row.name for row in STAGE_TABLE}

BOOK = """\
x = inputs  # (6, 3) token d_in
*batch, num_tokens, d_in = x.shape
queries = W_query(x).view(*batch, num_tokens, 2, 1).transpose(-3, -2)  # (2, 6, 1) head token d_head
keys = W_key(x).view(*batch, num_tokens, 2, 1).transpose(-3, -2)  # (2, 6, 1) head token d_head
values = W_value(x).view(*batch, num_tokens, 2, 1).transpose(-3, -2)  # (2, 6, 1) head token d_head
attn_scores = queries @ keys.transpose(-2, -1)  # (2, 6, 6) head query key
scaled_scores = attn_scores / keys.shape[-1] ** 0.5  # (2, 6, 6) head query key
mask = torch.triu(torch.ones(num_tokens, num_tokens), diagonal=1).bool()
masked_scores = scaled_scores.masked_fill(mask, -torch.inf)  # (2, 6, 6) head query key
attn_weights = torch.softmax(masked_scores, dim=-1)  # (2, 6, 6) head query key
context_vec = attn_weights @ values  # (2, 6, 1) head query d_head
concat = context_vec.transpose(-3, -2).flatten(-2)  # (6, 2) query d_out
output = out_proj(concat)  # (6, 2) query d_out"""


def written(twin: CodeContents) -> str:
    return "\n".join(f"{line.text}  {line.shape}".rstrip() for line in twin.lines)


def lit(twin: CodeContents) -> list[str]:
    return [line.text for line in twin.lines if line.is_highlighted]


def text(spec: AttentionSpec, dialect: CodeDialect, stage: str) -> str:
    (found,) = (line.text for line in stage_code_lines(spec, dialect) if stage in line.stages)
    return found


def test_the_default_document_reads_as_in_the_book() -> None:
    twin = present_run_code(a_run(), CodeDialect.BOOK, "weights")
    assert written(twin) == BOOK
    assert lit(twin) == ["attn_weights = torch.softmax(masked_scores, dim=-1)"]
    assert [number for number, line in enumerate(twin.lines) if line.is_highlighted] == [9]
    assert twin.title == "Weights in code"


def test_one_call_makes_everything_from_the_scores_to_the_context() -> None:
    call = "context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)"
    run = a_run()
    for stage in ("scores", "scaled", "masked", "weights", "context"):
        assert lit(present_run_code(run, CodeDialect.SDPA, stage)) == [call]
    (line,) = (
        line for line in present_run_code(run, CodeDialect.SDPA, None).lines if line.text == call
    )
    assert line.shape == "# (2, 6, 1) head query d_head"


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"normalisation": NormalisationKind.UNIFORM}, "equal weights for all keys"),
        ({"normalisation": NormalisationKind.SUM, "mask": MaskKind.NONE}, "row's sum"),
        ({"normalisation": NormalisationKind.NAIVE_SOFTMAX}, "row maximum"),
        ({"route": MaskPlacement.AFTER}, "masks before normalization"),
        ({"dropout": 0.5}, "chooses the dropped cells itself"),
    ],
)
def test_what_the_one_call_cannot_do_is_written_out_and_said(
    changes: dict[str, Any], word: str
) -> None:
    twin = present_run_code(a_run(**changes), CodeDialect.SDPA, "weights")
    comments = [line.text for line in twin.lines if line.is_comment]
    assert len(comments) == 1
    assert word in comments[0]
    assert lit(twin)[0].startswith("weights = ")
    assert not [line for line in twin.lines if "F.scaled_dot" in line.text]


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({}, "is_causal=True"),
        ({"mask": MaskKind.NONE}, ""),
        ({"mask": MaskKind.NONE, "scale": ScaleKind.NONE}, "scale=1.0"),
        ({"mask": MaskKind.NONE, "scale": ScaleKind.NONE, "temperature": 0.5}, "scale=1 / 0.5"),
        ({"scale": ScaleKind.D_MODEL}, "is_causal=True, scale=1 / x.shape[-1] ** 0.5"),
        ({"mask": MaskKind.WINDOW}, "attn_mask=allowed"),
        ({"lengths": (2, 3)}, "attn_mask=allowed & real"),
        ({"lengths": (2, 3), "mask": MaskKind.NONE}, "attn_mask=real"),
    ],
)
def test_the_one_call_is_asked_for_what_the_spec_says(
    changes: dict[str, Any], arguments: str
) -> None:
    call = text(AttentionSpec(**changes), CodeDialect.SDPA, "context")
    expected = ", ".join(part for part in ("queries, keys, values", arguments) if part)
    assert call == f"context = F.scaled_dot_product_attention({expected})"


@pytest.mark.parametrize("dialect", CodeDialect)
@pytest.mark.parametrize("row", [[True, False], [False, False]])
def test_a_query_that_may_read_nothing_is_spoken_of_only_where_there_is_one(
    dialect: CodeDialect, row: list[bool]
) -> None:
    own = BooleanMatrix.from_array(np.array([[True, True], row]))
    spec = AttentionSpec(mask=MaskKind.OWN, own_mask=own)
    found = text(spec, dialect, "weights")
    assert (".all(-1, keepdim=True), 0)" in found) is not any(row)


@given(cases())
def test_every_stage_is_made_once_and_has_the_shape_of_the_trace(case: Case) -> None:
    run = case.run()
    for dialect in CodeDialect:
        made = stage_code_lines(run.trace.spec, dialect)
        counted = Counter(stage for line in made for stage in line.stages)
        assert counted == dict.fromkeys(run.trace.names, 1)
        assert all(len(line.stages) <= 1 or dialect is CodeDialect.SDPA for line in made)
        for shown, line in zip(present_run_code(run, dialect, None).lines, made, strict=True):
            ast.parse(shown.text)
            assert not shown.is_highlighted
            assert bool(shown.shape) == bool(line.stages)
            if line.stages:
                sizes = tuple(run.trace.tensor(line.stages[-1]).shape)
                dims = shown.shape.partition(") ")[2].split()
                assert ast.literal_eval(shown.shape.removeprefix("# ").split(") ")[0] + ")") == (
                    sizes if len(sizes) > 1 else sizes[0]
                )
                assert len(dims) == len(sizes)


@given(cases())
def test_a_line_is_lit_for_what_it_makes_and_for_nothing_else(case: Case) -> None:
    run = case.run()
    for dialect in CodeDialect:
        names = DIALECTS[dialect].names
        for stage in run.trace.names:
            twin = present_run_code(run, dialect, stage)
            (line,) = (
                line for line in stage_code_lines(run.trace.spec, dialect) if stage in line.stages
            )
            assert lit(twin) == [line.text]
            assert line.text.startswith(f"{names[line.stages[-1]]} = ")
        for absent in {None, *NAMES} - {*run.trace.names}:
            assert lit(present_run_code(run, dialect, absent)) == []


@given(cases())
def test_a_line_uses_only_what_stands_above_it(case: Case) -> None:
    spec = case.run().trace.spec
    for dialect in CodeDialect:
        words = DIALECTS[dialect]
        known = {"torch", "F", "inputs", "position_table", "sinusoids", "own_mask", "lengths"}
        known |= {"kept", "float", "W", *words.layers.values()}
        for line in stage_code_lines(spec, dialect):
            names = [node for node in ast.walk(ast.parse(line.text)) if isinstance(node, ast.Name)]
            made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
            assert {node.id for node in names} - made <= known, line.text
            known |= made


def test_equal_runs_have_equal_code() -> None:
    one, other = a_run(), a_run()
    assert present_run_code(one, CodeDialect.BOOK, "keys") == present_run_code(
        other, CodeDialect.BOOK, "keys"
    )
    assert present_run_code(one, CodeDialect.BOOK, "keys") != present_run_code(
        one, CodeDialect.BOOK, "values"
    )
    assert present_run_code(one, CodeDialect.BOOK, None) != present_run_code(
        one, CodeDialect.LECTURE, None
    )
    shorter = a_run("one step")
    assert present_run_code(one, CodeDialect.BOOK, None) != present_run_code(
        shorter, CodeDialect.BOOK, None
    )


def test_every_dialect_has_a_word_for_every_stage() -> None:
    assert set(DIALECT_TITLES) == set(CodeDialect) == set(DIALECTS)
    for words in DIALECTS.values():
        assert set(words.names) == NAMES
        assert len({*words.names.values(), *words.layers.values()}) == len(NAMES) + 8


def test_the_words_of_the_dialects_are_their_own() -> None:
    spec = AttentionSpec(dropout=0.5)
    assert text(spec, CodeDialect.LECTURE, "weights") == "wei = F.softmax(wei_masked, dim=-1)"
    masked = 'wei_masked = wei_scaled.masked_fill(tril == 0, float("-inf"))'
    assert text(spec, CodeDialect.LECTURE, "masked") == masked
    assert text(spec, CodeDialect.BOOK, "dropped").endswith("/ (1 - 0.5)).where(kept, 0.0)")
    alone = replace(spec, heads=1)
    assert text(alone, CodeDialect.BOOK, "keys") == "keys = W_key(x).unsqueeze(-3)"
    assert len(stages(spec)) == len(stages(alone))


def test_what_the_fused_call_does_not_know_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = AttentionSpec()
    assert unfused_stages(spec) == ()
    known = stage_table.FUSED_OPERATIONS - {Operation.SCALE_SCORES}
    monkeypatch.setattr(stage_table, "FUSED_OPERATIONS", known)
    written = [line.text for line in stage_code_lines(spec, CodeDialect.SDPA)]
    assert "# Written out: scaled_dot_product_attention does not support “Scaled”." in written
    assert not any("= scaled_dot_product_attention" in line for line in written)


@pytest.mark.parametrize("cell", [None, Cell("weights", (0, 2, 1))])
def test_the_code_of_a_weight_of_a_layer_follows_the_pointer(cell: Cell | None) -> None:
    view = View(flow=True, pinned=cell, hovered_parameter=ParameterCell("keys", 0, 0, 0))
    panel = present_code(resolved(a_run("Your journey starts"), view))
    assert ["W_key" in line.text for line in panel.lines if line.is_highlighted] == [True]
