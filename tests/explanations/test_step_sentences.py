"""A step is described in one sentence, and its words and numbers are true."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.small_runs import a_run
from visualizer.attention.masks import allowed
from visualizer.attention.spec import (
    LAYER_SYMBOLS,
    BooleanMatrix,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)
from visualizer.attention.stages import Operation
from visualizer.explanations.explain import describe_step, explain
from visualizer.explanations.step_context import LargestValue, format_trimmed_number, format_vector
from visualizer.format import format_number, format_percentage, shorten
from visualizer.language.tokenizers import visible_token
from visualizer.session.timeline import Step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run

NUMBER = re.compile(r"(?<![\w^])−?(?:\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?|∞)")


@dataclass(frozen=True)
class Said:
    """A sentence taken apart: what was read for it, and its words in bold."""

    run: Run
    text: int
    step: Step
    head: int

    @property
    def whole_area(self) -> str:
        return describe_step(self.run, self.leading, self.step, self.head)

    @property
    def leading(self) -> tuple[int, ...]:
        return (self.text,) if self.run.trace.axes else ()

    @property
    def bold(self) -> list[str]:
        return [unescape(word) for word in re.findall(r"<b>(.*?)</b>", self.whole_area, re.DOTALL)]

    @property
    def marked(self) -> str:
        """The sentence with @ for each token."""
        return unescape(re.sub(r"<b>.*?</b>", "@", self.whole_area, flags=re.DOTALL))

    def matrix(self, stage: str) -> np.ndarray:
        has_heads = "head" in self.run.trace.stage(stage).dims
        index = (*self.leading, self.head) if has_heads else self.leading
        return self.run.trace.read(stage, index).astype(np.float64)

    def rows(self, stage: str = "") -> np.ndarray:
        return self.matrix(stage or self.step.stage)[self.step.rows.start : self.step.rows.stop]

    def allowed(self) -> np.ndarray:
        cells = allowed(self.run.trace.spec, self.run.trace.query_count, self.step.stage)
        cells = cells[self.text, 0] if cells.ndim > 2 else cells
        return cells[self.step.rows.start : self.step.rows.stop]

    @property
    def unpadded(self) -> np.ndarray:
        """The rows, but those of padding; of a single row, that row."""
        lengths = self.run.trace.spec.lengths
        return self.rows()[: lengths[self.text] if lengths else None]

    @property
    def words(self) -> list[str]:
        return [shorten(visible_token(token)) or "∅" for token in self.run.texts[self.text]]

    @property
    def numbers(self) -> list[str]:
        return [found.removesuffix(",") for found in NUMBER.findall(self.marked)]

    @property
    def operation(self) -> Operation:
        return self.run.trace.stage(self.step.stage).operation


def whole(run: Run, stage: str) -> Step:
    rows, columns = run.trace.tensor(stage).shape[-2:]
    return Step(stage, range(rows), range(columns))


def row(run: Run, stage: str, at: int) -> Step:
    return Step(stage, range(at, at + 1), whole(run, stage).columns)


def cell(stage: str, at: int, column: int) -> Step:
    return Step(stage, range(at, at + 1), range(column, column + 1))


def every(run: Run, grain: str) -> Iterator[Said]:
    for text in range(len(run.texts)):
        for stage in run.trace.stages:
            heads = run.trace.spec.heads if "head" in stage.dims else 1
            for step in steps(run, stage.name, grain):
                for head in range(heads):
                    yield Said(run, text, step, head)


def steps(run: Run, stage: str, grain: str) -> list[Step]:
    block = whole(run, stage)
    if grain == "stage":
        return [block] * (len(block.rows) > 1)
    if grain == "row":
        return [row(run, stage, at) for at in block.rows]
    return [cell(stage, at, column) for at in block.rows for column in block.columns]


class Near:
    """How many numbers are as large as the largest, but for the rounding of the trace.

    Compared with a count: numbers that are alike by a hair, or not, may be in it or not.
    """

    __hash__ = None  # type: ignore[assignment]  # what is equal to several counts has no hash

    def __init__(self, numbers: np.ndarray, less: int = 0) -> None:
        exact = numbers.astype(np.float64)
        largest, size = exact.max(), np.abs(exact).max()
        self.counts = [
            int((exact >= largest - part * size).sum()) - less for part in (0.5e-6, 2e-6)
        ]

    def __eq__(self, count: object) -> bool:
        fewest, most = self.counts
        return isinstance(count, int | np.integer) and bool(fewest <= count <= most)

    def __repr__(self) -> str:
        return f"between {self.counts[0]} and {self.counts[1]}"


# --------------------------------------------------------------------------- one sentence


@examples(0.6)
@given(cases(most_tokens=3))
def test_every_step_is_told_in_one_sentence(case: Case) -> None:
    run = case.run()
    for grain in ("stage", "row", "cell"):
        for said in every(run, grain):
            marked = re.sub(r"\d\.\d", "0", said.marked)
            assert marked.endswith(".")
            assert marked.count(".") == 1
            assert not marked[0].islower()
            assert "nan" not in marked
            assert "  " not in marked
            assert "{" not in marked
            assert all(said.bold)
            assert said.whole_area == describe_step(run, said.leading, said.step, said.head)
            several = run.trace.spec.heads > 1
            has_heads = "head" in run.trace.stage(said.step.stage).dims
            assert (f"n head {said.head + 1}" in marked) == (several and has_heads)
            assert len(re.sub(r" \((query|key|position) \d+\)", "", marked).split()) <= 34


@examples(0.6)
@given(cases(most_tokens=4))
def test_no_percentage_is_said_of_what_is_no_share(case: Case) -> None:
    run = case.run()
    for grain in ("stage", "row"):
        for said in every(run, grain):
            if "%" in said.marked:
                name = said.step.stage
                read = run.trace.stage(name).reads[0] if name == "context" else name
                assert said.rows(read).min() >= 0
                assert said.rows(read).max() <= 1


# ------------------------------------------------------------------------ numbers and words


@pytest.mark.slow
@examples(1)
@given(cases(most_tokens=4))
def test_every_number_is_one_of_the_row_or_a_count_of_it(case: Case) -> None:
    run = case.run()
    for grain in ("stage", "row"):
        for said in every(run, grain):
            known = written_of(said)
            assert [found for found in said.numbers if found not in known] == [], said.marked
            assert set(said.bold) <= set(said.words)


def written_of(said: Said) -> set[str]:
    """All that may be written: cells read and made, shares, sums, sizes, slopes, counts."""
    spec, stage = said.run.trace.spec, said.run.trace.stage(said.step.stage)
    read = [said.rows(name) for name in (stage.name, *stage.reads)]
    values = np.concatenate([numbers.ravel() for numbers in read])
    sums = [numbers.sum(axis=1) for numbers in read if np.isfinite(numbers).all()]
    values = np.concatenate([values, *sums, said.unpadded.mean(axis=0)])
    if stage.is_weights:
        allowed = said.allowed()[: len(said.unpadded)]
        uniform = allowed / np.maximum(1, allowed.sum(axis=1, keepdims=True))
        values = np.concatenate([values, uniform.mean(axis=0)])
    factor = 1 / (1 - spec.dropout)
    sizes = {spec.d_in, spec.d_head, spec.concatenated_head_width, spec.heads, spec.window - 1}
    found = {f"{size:,}" for size in sizes}
    found |= {
        str(at + 1) for at in range(max(run_size(said), spec.concatenated_head_width, spec.d_in))
    }
    found |= {str(count) for count in range(run_size(said) ** 2 + 1)}
    found |= {
        format_trimmed_number(spec.divisor),
        format_trimmed_number(spec.temperature),
        *(map(format_trimmed_number, spec.alibi_slopes) if stage.name == "bias" else ()),
        f"{factor:.4g}",
        "0",
        "1",
        "100",
    }
    for value in map(float, values):
        found |= {
            format_number(value),
            format_number(value, 2),
            format_trimmed_number(value),
            format_number(round(value, 2), 2),
        }
        if 0 <= value <= 1:
            found |= set(NUMBER.findall(format_percentage(value)))
    return found | {"∞", "−∞"} | ({"0.1"} if "less than 0.1%" in said.marked else set())


def run_size(said: Said) -> int:
    return max(said.run.trace.tensor(said.step.stage).shape[-2:])


@examples(1)
@given(cases(most_tokens=5))
def test_what_is_said_of_a_row_is_true(case: Case) -> None:
    for said in every(case.run(), "row"):
        if said.operation in TRUE_ROWS:
            told = re.sub(r"^In head \d+, ", "", said.marked)
            TRUE_ROWS[said.operation](said, told[0].lower() + told[1:])
        if said.bold:
            assert said.bold[0] == said.words[said.step.rows[0]]


def assert_dot(said: Said, told: str) -> None:
    scores = said.rows()[0]
    found = re.search(r"the largest score, (\S+), is for @ \(key (\d+)\)(.*)\.$", told)
    if found:
        at = int(found[2]) - 1
        assert scores[at] == scores.max()
        assert found[1] == format_number(float(scores.max()))
        assert said.bold == [said.words[said.step.rows[0]], said.words[at]]
        more = re.search(r"and (\d+) others?", found[3])
        assert int(more[1] if more else 0) == Near(scores, less=1)
    elif " scores are " in told:
        assert Near(scores) == len(scores)
    else:
        assert len(scores) == 1 or not np.isfinite(scores).all()


def assert_scale(said: Said, told: str) -> None:
    before, after = said.rows("scores")[0], said.rows()[0]
    found = re.search(r"(?:changes from (\S+) to|stays) (\S+)\.$", told)
    assert bool(found) == bool(np.isfinite(after).all())
    if found:
        assert found[2] == format_number(float(after.max()))
        assert (found[1] or found[2]) == format_number(float(before[after.argmax()]))


def assert_masked(said: Said, told: str) -> None:
    may, count = int(said.allowed().sum()), said.allowed().size
    counted = re.search(r"may attend to (\d+) of (\d+) keys: the other(?: (\d+))? ", told)
    if counted:
        assert (int(counted[1]), int(counted[2])) == (may, count)
        assert int(counted[3] or 1) == count - may
    else:
        assert ("may not attend to any key" in told) == (may == 0)
        assert bool(re.search(r"may attend to (all|both|the only)", told)) == (may == count)
    sums = re.search(r"sums to (\S+)\.$", told)
    if sums:
        assert sums[1] == format_trimmed_number(float(said.rows()[0].sum()))


def assert_shared_out(said: Said, told: str) -> None:
    weights = said.rows()[0]
    keys = said.bold[1:]
    if not np.isfinite(weights).all():
        assert re.search(r"@[^@]* has no weights: its row cannot be computed\.$", told)
        return
    if "range from" in told:
        assert weights.min() < 0 or weights.max() > 1
        assert told.endswith(
            f"from {format_number(weights.min())} to {format_number(weights.max())}."
        )
        return
    if " 0" in told[-3:] or "cannot be normalized" in told:
        assert not weights.any()
        return
    if " each." in told:
        assert Near(weights) == np.count_nonzero(weights)
        return
    assert keys[0] == said.words[int(weights.argmax())]
    if Near(weights).counts[0] == Near(weights).counts[1]:
        is_alone = Near(weights) == 1 and 0.5 < weights.max() < 1
        assert ("most of the weight" in told) == is_alone or "nearly" in told
    if "nearly" not in told:
        assert format_percentage(float(weights.max())) in told
    more = re.search(r"and (\d+) others?\.$", told)
    assert int(more[1] if more else 0) == Near(weights, less=1)


def assert_average(said: Said, told: str) -> None:
    keys = np.flatnonzero(said.allowed()[0])
    if len(keys) == 0:
        assert "may not attend to any key" in told
    elif len(keys) == 1:
        assert said.bold[1] == said.words[int(keys[0])]
    else:
        counts = f"{len(keys)} of ", f" {len(keys)} keys", "both keys" if len(keys) == 2 else "none"
        assert any(count in told for count in counts)
        assert f"with weight {format_percentage(1 / len(keys))}." in told


def assert_dropped(said: Said, told: str) -> None:
    weights, dropped = said.rows("weights")[0], said.rows()[0]
    there = int((weights != 0).sum())
    lost = there - int((dropped != 0).sum())
    found = re.search(r"dropout (drops|keeps) (?:(\d+) of the )?(?:all )?(\d+|the only|both)", told)
    if not there:
        assert "no nonzero weights to drop" in told
        return
    assert found
    assert {"the only": "1", "both": "2"}.get(found[3], found[3]) == str(there)
    if found[2]:
        assert int(found[2]) == lost
    else:
        assert (found[1] == "drops") == (lost == there)
        assert (found[1] == "keeps") == (lost == 0)
    sums = re.search(r"sums to (\S+)\.$", told)
    if sums:
        assert sums[1] == format_trimmed_number(float(dropped.sum()))


def assert_mixed(said: Said, told: str) -> None:
    weights = said.rows(said.run.trace.stage("context").reads[0])[0]
    keys = np.flatnonzero(weights)
    if not np.isfinite(weights).all() or not np.isfinite(said.rows()).all():
        assert "cannot be computed" in told
        return
    if not len(keys):
        assert "does not attend to any key" in told
        return
    assert told.endswith(f": {format_vector(said.rows()[0])}.")
    if " each) into" in told:
        assert np.ptp(weights[keys]) <= 1e-6 * np.abs(weights).max()
        assert f"mixes the values of {len(keys)} keys (" in told
        assert said.bold == said.words[said.step.rows[0] : said.step.rows[0] + 1]
        return
    order = sorted(keys, key=lambda at: -abs(weights[at]))[:2]
    named = [said.words[at] for at in order]
    assert said.bold == [said.words[said.step.rows[0]], *named]
    are_shares = bool((weights >= 0).all() and (weights <= 1).all())
    for at in order:
        assert (
            format_percentage(weights[at]) if are_shares else format_trimmed_number(weights[at])
        ) in told
    more = re.search(r"of (\d+) others?", told)
    assert int(more[1] if more else 0) == max(0, len(keys) - 2)
    if len(keys) > 2:
        second, third = np.sort(np.abs(weights[keys]))[::-1][1:3]
        assert ("and less of" in told) == (third < second)


def test_equal_weights_are_counted_without_what_is_masked() -> None:
    run = a_run("a a a a")
    told = [Said(run, 0, row(run, "weights", at), 0).whole_area for at in (1, 2, 3)]
    for share, count, said in zip((50, 33, 25), (2, 3, 4), told, strict=True):
        assert f"{count} keys receive {share}% each" in said


TRUE_ROWS = {
    Operation.DOT_PRODUCT: assert_dot,
    Operation.SCALE_SCORES: assert_scale,
    Operation.MASK_BEFORE_SOFTMAX: assert_masked,
    Operation.MASK_AFTER_SOFTMAX: assert_masked,
    Operation.SCORES_TO_WEIGHTS: assert_shared_out,
    Operation.RENORMALISE_MASKED_WEIGHTS: assert_shared_out,
    Operation.EQUAL_WEIGHTS: assert_average,
    Operation.DROPOUT: assert_dropped,
    Operation.WEIGHTED_SUM: assert_mixed,
}
MADE = (
    *(
        Operation.INPUT_VECTORS,
        Operation.POSITION_VECTORS,
        Operation.ADD_POSITION,
        Operation.INPUT_PROJECTION,
        Operation.UNPROJECTED_INPUT,
    ),
    *(Operation.CONCAT_HEADS, Operation.OUTPUT_PROJECTION),
)


@examples(0.6)
@given(cases(most_tokens=3))
def test_a_vector_that_is_made_is_shown(case: Case) -> None:
    for said in every(case.run(), "row"):
        if said.operation in MADE:
            assert said.whole_area.endswith(f" {format_vector(said.rows()[0])}.")
            assert said.bold == [said.words[said.step.rows[0]]]


LAYERS = {symbol: layer for layer, symbol in LAYER_SYMBOLS.items()}


@examples(0.6)
@given(cases(most_tokens=3))
def test_the_columns_that_are_named_are_those_of_the_head(case: Case) -> None:
    run = case.run()
    spec, trace = run.trace.spec, run.trace
    for said in every(run, "row"):
        if said.operation is not Operation.INPUT_PROJECTION:
            continue
        _, whose, layer = re.findall(r"times (.*?)(this head’s )?(W_\w+)", said.marked)[0]
        layer = LAYERS[layer]
        name = f"heads.{said.head}.{layer}" if whose else layer
        is_linear = spec.projection is Projection.LINEAR
        weights = trace.read(f"{name}.weight").T if is_linear else trace.read(name)
        has_bias = is_linear and spec.bias
        bias = trace.read(f"{name}.bias") if has_bias else 0
        assert ("plus a bias" in said.marked) == has_bias
        (read,) = trace.stage(said.step.stage).reads
        made = (said.rows(read)[0] @ weights + bias)[columns_named(said.marked)]
        assert said.rows()[0] == pytest.approx(made, rel=1e-3, abs=1e-4)


def columns_named(marked: str) -> slice:
    """Read which columns a sentence names: none means all."""
    found = re.search(r"times columns? (\d+)(?: (?:and|to) (\d+))? of W_", marked)
    return slice(int(found[1]) - 1, int(found[2] or found[1])) if found else slice(None)


@examples(1)
@given(cases(most_tokens=5))
def test_what_is_said_of_a_stage_is_true(case: Case) -> None:
    for said in every(case.run(), "stage"):
        told, numbers = said.marked, said.rows()
        if largest := re.search(r"largest(?: number)?, (\S+), (?:is|appears) ", told):
            assert largest[1] == format_number(float(numbers.max()))
            assert_largest_is_where(said, told, Near(numbers))
        if forbidden := re.search(r": (\d+) of (\d+) \w+ ", told):
            assert int(forbidden[1]) == (~said.allowed()).sum()
            assert int(forbidden[2]) == said.allowed().size
        if said.operation is Operation.DROPOUT and (
            taken := re.search(r"(\d+) of the (\d+)", told)
        ):
            there = np.count_nonzero(said.rows("weights"))
            assert int(taken[2]) == there
            assert int(taken[1]) == there - np.count_nonzero(numbers)
        read_most = re.search(
            r"(?:most attention|same weight), ([^,;(]*?)(?: each)?"
            r"(, because of the mask)?"
            r"(?: \((?:if all weights were equal|equal weights): (.*)\))?\.$",
            told,
        )
        if read_most and read_most[3]:
            average = said.unpadded.mean(axis=0, dtype=np.float64)
            key = int(average.argmax())
            rows = said.allowed()[: len(said.unpadded)]
            shares = [row[key] / row.sum() if row.any() else 0.0 for row in rows]
            assert read_most[3] == format_percentage(float(np.mean(shares)))
            if abs(excess := float(average[key] - np.mean(shares))) > 1e-6:
                assert bool(read_most[2]) == (excess < 0)
        if read_most:
            means = said.unpadded.mean(axis=0, dtype=np.float64)
            assert read_most[1] == format_percentage(float(means.max()))
            most = [said.words[int(means.argmax())]]
            assert said.bold == most or (not said.bold and Near(means) == len(means))
        if sums := re.search(r"row sums are now between (\S+) and (\S+)\.$", told):
            assert sums[1] == format_trimmed_number(float(numbers.sum(axis=1).min()))
            assert sums[2] == format_trimmed_number(float(numbers.sum(axis=1).max()))
        if nothing := re.search(r"but (\d+) rows? ha", told):
            empty = (
                said.rows("zeroed")
                if said.operation is Operation.RENORMALISE_MASKED_WEIGHTS
                else None
            )
            cells = said.allowed() if empty is None else empty
            assert int(nothing[1]) == (~cells.any(axis=1)).sum()


def assert_largest_is_where(said: Said, told: str, times: Near) -> None:
    row_, column = np.unravel_index(said.rows().argmax(), said.rows().shape)
    if there := re.search(r"appears (\d+) times", told):
        assert int(there[1]) > 1
        assert int(there[1]) == times
    elif said.operation is Operation.DOT_PRODUCT:
        assert said.bold == [said.words[row_], said.words[column]]
        assert f"the largest of {said.rows().size} scores" in told
    elif said.operation is Operation.POSITION_VECTORS:
        assert told.endswith(f"position {row_ + 1}.")
    else:
        assert said.bold == [said.words[row_]]
        assert said.rows().shape[1] == 1 or f"in column {column + 1} of @" in told


# ---------------------------------------------------------------------- the very sentences


def told(run: Run, step: Step, head: int = 0, text: int = 0) -> str:
    return unescape(
        re.sub(r"</?b>", "", describe_step(run, (text,) if run.trace.axes else (), step, head))
    )


STAGES_OF_THE_BOOK = {
    "input": "Each of 6 tokens becomes a vector of 3 numbers; "
    "the largest number, 0.8900, is in column 3 of Your.",
    "queries": "In head 1, each input vector times column 1 of W_q gives its query, "
    "which is compared with each key; the largest, −0.1353, is that of with.",
    "keys": "In head 1, each input vector times column 1 of W_k gives its key, "
    "with which each query is compared; the largest, −0.4744, is that of one.",
    "values": "In head 1, each input vector times column 1 of W_v gives its value, "
    "which the weights mix; the largest, −0.3809, is that of with.",
    "scores": "In head 1, each query is multiplied by each key; "
    "the largest of 36 scores, 0.3079, is that of Your and journey.",
    "scaled": "In head 1, dividing by √1 = 1 changes no score; the largest stays 0.3079.",
    "masked": "In head 1, no token may attend to later tokens: 15 of 36 scores become −∞.",
    "weights": "In head 1, softmax turns each row of scores into weights that sum to 1; "
    "on average, Your receives the most attention, 40%, because of the mask (equal "
    "weights: 41%).",
    "context": "In head 1, each token’s weights mix the values into its context vector; "
    "the largest number, −0.4519, is that of Your.",
    "concat": "The context vectors from both heads are concatenated, 2 numbers per token; "
    "the largest number, 0.2216, is in column 2 of Your.",
    "output": "The output projection mixes the 2 numbers of each token into its output and adds "
    "a bias; the largest number, 0.4858, is in column 2 of Your.",
}
ROWS_OF_THE_BOOK = {
    "input": "journey becomes a vector of 3 numbers: [0.55, 0.87, 0.66].",
    "queries": "In head 1, the input vector of journey times column 1 of W_q gives its "
    "query: [−0.30].",
    "keys": "In head 1, the input vector of journey times column 1 of W_k gives its key: [−0.87].",
    "values": "In head 1, the input vector of journey times column 1 of W_v gives its "
    "value: [−0.71].",
    "scores": "In head 1, the query of journey (query 2) is multiplied by all 6 keys: the "
    "largest score, 0.2631, is for journey (key 2).",
    "scaled": "In head 1, dividing by √1 = 1 changes nothing: the largest score of journey "
    "stays 0.2631.",
    "masked": "In head 1, journey may attend to 2 of 6 keys: the other 4 scores become −∞.",
    "weights": "In head 1, softmax turns the scores of journey into weights that sum to 1: "
    "most of the weight, 52%, goes to journey.",
    "context": "In head 1, journey mixes values (52% of journey and 48% of Your) into its "
    "context vector: [−0.59].",
    "concat": "The context vectors of journey from both heads are concatenated: [−0.59, 0.01].",
    "output": "The output projection mixes the 2 numbers of journey into its output and adds a "
    "bias: [0.29, 0.39].",
}


def test_the_sentences_of_the_book() -> None:
    run = a_run()
    assert {name: told(run, whole(run, name)) for name in run.trace.names} == STAGES_OF_THE_BOOK
    assert {name: told(run, row(run, name, 1)) for name in run.trace.names} == ROWS_OF_THE_BOOK


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_bias_that_is_added_is_named(has_bias: bool, heads: int) -> None:
    run = a_run(bias=has_bias, heads=heads, d_out=heads)
    block = a_run("one two", block=TransformerBlockKind.PRE_NORM, d_in=2, d_out=2, bias=has_bias)
    layers = [(run, name) for name in ("queries", "keys", "values", "output")]
    layers += [(block, name) for name in ("queries", "output", "up", "feed_forward")]
    for each, name in layers:
        (*index, at) = (0 for _ in each.trace.stage(name).dims)
        groups = explain(each.trace, name, (*index, at)).groups
        is_added = any(".bias" in one.name for group in groups for one in group.factors)
        assert is_added == (has_bias or name in {"output", "up", "feed_forward"})
        for step in (whole(each, name), row(each, name, 1), cell(name, 1, 0)):
            assert ("bias" in told(each, step)) == is_added


def test_a_cell_is_told_as_in_its_pane_and_with_its_head() -> None:
    run = a_run(d_out=4)
    assert describe_step(run, (), cell("weights", 1, 0), 1) == (
        "In head 2, <b>journey</b> (query 2) attends to <b>Your</b> (key 1) with weight 50%."
    )
    assert told(run, cell("scores", 1, 0), 9).startswith(
        "In head 2, the dot product of the query of journey"
    )
    assert told(run, cell("context", 1, 0), 1).startswith("Column 1 of the context vector")


# Each line of the golden file: settings joined by commas | text | stage and row | sentence.
GOLDEN = (Path(__file__).parents[1] / "golden" / "sentences.txt").read_text(encoding="utf-8")
EVERYTHING, NOTHING = (
    BooleanMatrix.from_array(np.ones((6, 6))),
    BooleanMatrix.from_array(np.zeros((6, 6))),
)
SECOND_ROW = BooleanMatrix.from_array(np.array([[0, 0], [1, 1]]))
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "half": {"dropout": 0.5},
    "tiny": {"dropout": 1e-9},
    "all kept": {"own_kept": EVERYTHING},
    "none kept": {"own_kept": NOTHING},
    "no mask": {"mask": MaskKind.NONE},
    "nothing": {"mask": MaskKind.OWN, "own_mask": SECOND_ROW},
    "everything": {"mask": MaskKind.OWN, "own_mask": EVERYTHING},
    "window": {"mask": MaskKind.WINDOW},
    "one": {"window": 1},
    "two": {"window": 2},
    "late": {"route": MaskPlacement.AFTER_RENORMALISED},
    "uniform": {"normalisation": NormalisationKind.UNIFORM},
    "overflow": {
        "normalisation": NormalisationKind.NAIVE_SOFTMAX,
        "temperature": 1e-4,
        "mask": MaskKind.NONE,
    },
    "wide": {"d_out": 8},
    "bias": {"bias": True},
    "stacked": {"heads": 2, "arrangement": HeadArrangement.STACKED},
    "bare": {"projection": Projection.NONE},
    "three": {"heads": 3, "d_out": 3},
    "four": {"heads": 2, "d_in": 4},
    "warm": {"temperature": 0.5},
    "unscaled": {"scale": ScaleKind.NONE},
    "model": {"scale": ScaleKind.D_MODEL},
    "learned": {"position": PositionKind.LEARNED},
    "waves": {"position": PositionKind.SINUSOIDAL},
}


@pytest.mark.parametrize("line", GOLDEN.splitlines())
def test_odd_cases_are_told_as_in_the_golden_file(line: str) -> None:
    names, text, place, sentence = line.split(" | ")
    stage, *at = place.split()
    fields: dict[str, Any] = {"heads": 1}
    for name in names.split(", "):
        fields |= SETTINGS[name]
    run = a_run(*([] if text == "-" else [text]), **fields)
    step = row(run, stage, int(at[0]) - 1) if at else whole(run, stage)
    assert told(run, step) == sentence


def test_a_linear_bias_is_told_with_its_slope() -> None:
    run = a_run("a b c", position=PositionKind.ALIBI)
    rule = "minus the distance in positions times the slope of this head, 0.0625"
    assert told(run, row(run, "bias", 2)) == f"In head 1, c has a bias for each key: {rule}."
    assert told(run, whole(run, "bias")) == (
        f"In head 1, each score has a bias: {rule}; the lowest is −0.1250."
    )


def test_a_rotation_is_told_with_its_position() -> None:
    run = a_run("a b c", position=PositionKind.ROTARY, d_out=4)
    assert told(run, row(run, "queries", 2)).startswith(
        "In head 1, the projected query of c is rotated by the angles of position 3: ["
    )


def test_padding_is_said_to_be_padding() -> None:
    run = a_run("a b c", "d", mask=MaskKind.NONE)
    masked = whole(run, "masked")
    assert told(run, masked) == "In head 1, this text has no padding: all 9 scores are unchanged."
    assert told(run, masked, text=1) == ("In head 1, padding is masked: 6 of 9 scores become −∞.")
    assert told(run, row(run, "masked", 0), text=1) == (
        "In head 1, d may attend to 1 of 3 keys: "
        "the other 2 are padding, and their scores become −∞."
    )
    causal = a_run("a b c", "d")
    assert told(causal, whole(causal, "masked"), text=1) == (
        "In head 1, no token may attend to later tokens, and padding is masked: "
        "6 of 9 scores become −∞."
    )


def test_rows_of_padding_are_not_in_the_average() -> None:
    run = a_run("a b c d", "e f", normalisation=NormalisationKind.UNIFORM)
    assert told(run, whole(run, "weights"), text=1) == (
        "In head 1, each of 2 tokens attends equally to its allowed keys; "
        "on average, e receives the most attention, 75%, because of the mask (equal "
        "weights: 75%)."
    )


def test_words_that_look_like_tags_are_words() -> None:
    run = a_run("< b > & c", heads=1)
    assert "value of <b>&lt;</b>" in describe_step(run, (), row(run, "context", 0), 0)
    assert "of <b>&amp;</b> (query 4) is multiplied by" in describe_step(
        run, (), row(run, "scores", 3), 0
    )


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ([0.84, 0.54, 0.002], "[0.84, 0.54, 0.00]"),
        ([0.002, -0.00001], "[2.00e-03, −1.00e-05]"),
        ([1, 2, 3, 4, 5], "[1.00, 2.00, 3.00, 4.00, …]"),
        ([np.nan, -np.inf], "[NaN, −∞]"),
    ],
)
def test_a_vector_is_short(numbers: list[float], written: str) -> None:
    assert format_vector(np.array(numbers, dtype=np.float64)) == written


def test_what_differs_by_rounding_is_alike() -> None:
    largest = LargestValue.of(np.array([0.1 + 0.2, 0.3, 0.2]))
    assert largest
    assert (largest.occurrences, largest.is_tied, largest.is_constant) == (2, True, False)
    assert LargestValue.of(np.array([1.0, -np.inf])) is None


@pytest.mark.parametrize("route", [MaskPlacement.AFTER, MaskPlacement.AFTER_RENORMALISED])
def test_scores_that_cancel_leave_a_row_without_a_sum(route: MaskPlacement) -> None:
    """Divided by their sum of 0, they become ∞ and −∞."""
    opposite = NumberMatrix.from_array(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    run = a_run(
        "up down",
        d_in=2,
        own_input=opposite,
        projection=Projection.NONE,
        scale=ScaleKind.NONE,
        normalisation=NormalisationKind.SUM,
        mask=MaskKind.CAUSAL,
        route=route,
        dropout=0.25,
    )
    said = [
        Said(run, 0, Step(stage, rows, range(run.trace.tensor(stage).shape[-1])), 0).whole_area
        for stage in run.trace.names
        for rows in (range(1), range(1, 2), range(2))
    ]
    assert any("sum is not finite" in one for one in said)
