"""The values in the head table are those of the trace, and the sentences state them correctly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from tests.support.screens import needs, present, resolved, warm
from tests.support.small_runs import a_run, elsewhere
from visualizer.attention import trace
from visualizer.attention.captured_attention import (
    CapturedAttention,
    CapturedVectors,
    LayerMask,
)
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.head_measures import measure_layerwise
from visualizer.attention.spec import BooleanMatrix, MaskKind, NormalisationKind, Projection
from visualizer.attention.trace import Trace
from visualizer.features.head_table.presenter import (
    COLUMNS,
    CURRENT_COLUMN,
    DISTANCE_COLUMN,
    ENTROPY_COLUMN,
    FIRST_COLUMN,
    HEADS_PANEL,
    INDUCTION_COLUMN,
    MAX_WEIGHT_COLUMN,
    NEAR_UNIFORM_MESSAGE,
    PANE_TITLE,
    PREVIOUS_COLUMN,
    VALUE_WEIGHTING_COLUMN,
    HeadTableContents,
    format_tsv,
    present_head_table,
)
from visualizer.file_opening import read_layer_of_trained_example
from visualizer.session.document import Document
from visualizer.session.user_prediction import Prediction
from visualizer.session.view import View
from visualizer.session.worker_jobs import compute

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.screen import Screen

OPEN = View(panes=frozenset({PANE_TITLE}))


def table(run: Run, **fields: Any) -> HeadTableContents:
    made = present_head_table(resolved(run, replace(OPEN, **fields)), None)
    assert made
    return made


def with_weights(run: Run, weights: np.ndarray) -> Run:
    """Return the same run with other weights."""
    old = run.trace
    held = {name: old.cached_stage_tensor(name) for name in old.names}
    held["weights"] = type(held["weights"])(torch.from_numpy(weights.astype(np.float32)))
    return replace(run, trace=Trace(old.spec, old.stages, {}, held, frozenset()))


def three_heads() -> np.ndarray:
    """Return the weights of heads that attend to the first, the current and the previous token."""
    first, own, previous = np.zeros((3, 6, 6))
    first[:, 0] = 1
    own[range(6), range(6)] = 1
    previous[range(1, 6), range(5)] = 0.8
    previous[range(1, 6), range(1, 6)] = 0.2
    previous[0, 0] = 1
    return np.stack([first, own, previous])


def test_rows_are_the_heads_and_their_mean() -> None:
    run = a_run(heads=3, d_out=6)
    made = table(run)
    assert [row.name for row in made.rows] == ["1", "2", "3", "Mean"]
    assert [row.full_name for row in made.rows][2:] == ["Head 3", "Mean of the heads"]
    weights = run.trace.read("weights").astype(np.float64)
    at = made.columns.index(PREVIOUS_COLUMN)
    previous = [100 * np.mean([head[q, q - 1] for q in range(1, 6)]) for head in weights]
    found = np.array([row.values[at] for row in made.rows], float)
    np.testing.assert_allclose(found, [*previous, np.mean(previous)], rtol=1e-5)
    assert made.rows[0].texts[at] == f"{previous[0]:.1f}"


def test_sentences_describe_the_heads() -> None:
    run = with_weights(a_run(heads=3, d_out=6), three_heads())
    assert table(run).sentences == (
        "Head 3 attends most to the previous token: 80%, uniform attention 29%.",
        "Head 1 attends most to the first token: 100%, uniform attention 41%.",
        "Head 2 attends most to the current token: 100%, uniform attention 41%.",
        "Heads 1 and 2 have the lowest entropy: 0.00 bits, uniform attention 1.58 bits.",
    )


def test_heads_with_equal_values_are_named_together_or_counted() -> None:
    heads = three_heads()[[0, 0, 0, 0, 1]]
    run = with_weights(a_run(heads=5, d_out=5), heads)
    assert table(run).sentences[0] == (
        "4 heads attend most to the first token: 100%, uniform attention 41%."
    )
    assert table(run).sentences[-1] == (
        "No head stands out for the previous token: highest 20%, uniform attention 29%."
    )
    assert len(table(run).sentences) == 3  # all have the same entropy
    run = with_weights(a_run(heads=4, d_out=4), heads[1:])
    said = "Heads 1, 2 and 3 attend most to the first token: 100%, uniform attention 41%."
    assert said in table(run).sentences


def test_equal_heads_have_no_leading_head() -> None:
    run = with_weights(a_run(heads=4, d_out=4), three_heads()[[0, 0, 0, 0]])
    # No head attends to the previous token.
    assert not any("same attention pattern" in said for said in table(run).sentences)
    weights = np.stack(4 * [np.eye(6)])
    every = with_weights(a_run(heads=4, d_out=4, mask=MaskKind.NONE), weights)
    assert not any("most:" in said for said in table(every).sentences)


@pytest.mark.parametrize("mask", MaskKind)
def test_no_head_stands_out_with_uniform_attention(mask: MaskKind) -> None:
    own = BooleanMatrix.from_array(np.tri(6, k=1, dtype=bool))
    run = a_run(normalisation=NormalisationKind.UNIFORM, mask=mask, own_mask=own)
    made = table(run)
    assert made.sentences == (NEAR_UNIFORM_MESSAGE,)
    for row in made.rows:
        for column, value, uniform in zip(made.columns, row.values, made.uniform, strict=True):
            if column is not VALUE_WEIGHTING_COLUMN or row.head is None:  # differs by head
                assert value == pytest.approx(uniform, rel=1e-5)
    table_of_twelve = table(a_run(12 * "word ", d_out=12, heads=12))
    at = table_of_twelve.columns.index(PREVIOUS_COLUMN)
    assert PREVIOUS_COLUMN.format_value(table_of_twelve.uniform[at]) == "19.1"


def test_induction_requires_a_repeated_token() -> None:
    assert INDUCTION_COLUMN not in table(a_run()).columns
    previous, induction = np.zeros((2, 6, 6))
    previous[range(1, 6), range(5)], previous[0, 0] = 1, 1
    induction[:3, 0], induction[range(3, 6), range(1, 4)] = 1, 0.9
    induction[range(3, 6), 0] = 0.1
    run = with_weights(a_run("a b c a b c", heads=2, d_out=6), np.stack([previous, induction]))
    made = table(run)
    at = made.columns.index(INDUCTION_COLUMN)
    assert [row.texts[at] for row in made.rows] == ["0.0", "90.0", "45.0"]
    assert made.uniform[at] == pytest.approx(100 * np.mean([1 / 4, 1 / 5, 1 / 6]))
    assert made.sentences[0] == (
        "Head 2 attends to tokens that followed earlier occurrences of the query’s token "
        "(induction): 90%, uniform attention 21%."
    )
    run = with_weights(run, np.stack([induction, 0.95 * induction]))
    assert table(run).sentences[0] == (
        "Heads 1 and 2 attend to tokens that followed earlier occurrences of the query’s token "
        "(induction): at least 86%, uniform attention 21%."
    )


def test_the_heads_of_the_trained_example_are_described_correctly() -> None:
    document = read_layer_of_trained_example().document
    made = table(compute(document, None))
    assert made.sentences[0] == (
        "Heads 1 and 2 attend to tokens that followed earlier occurrences of the query’s token "
        "(induction): at least 98%, uniform attention 9.4%."
    )


def test_the_reference_follows_the_mask() -> None:
    """With 12 tokens, uniform attention is known: query n has n keys with equal weights."""
    twelve = "a b c d e f g h i j k l"
    counts = np.arange(1, 13)
    mean = 100 * np.mean(1 / counts)
    causal = {
        PREVIOUS_COLUMN: 100 * np.mean(1 / counts[1:]),
        **dict.fromkeys((FIRST_COLUMN, CURRENT_COLUMN, MAX_WEIGHT_COLUMN), mean),
        ENTROPY_COLUMN: np.mean(np.log2(counts)),
        DISTANCE_COLUMN: np.mean((counts - 1) / 2),
    }
    window = {PREVIOUS_COLUMN: 50, FIRST_COLUMN: 100 * 1.5 / 12}
    every = {PREVIOUS_COLUMN: 100 / 12, CURRENT_COLUMN: 100 / 12, ENTROPY_COLUMN: np.log2(12)}
    for mask, expected in (
        (MaskKind.CAUSAL, causal),
        (MaskKind.WINDOW, window),
        (MaskKind.NONE, every),
    ):
        made = table(a_run(twelve, mask=mask, window=2))
        uniform = dict(zip(made.columns, made.uniform, strict=True))
        for column, value in expected.items():
            assert uniform[column] == pytest.approx(value, rel=1e-12), (mask, column)


def test_a_weak_leader_does_not_stand_out_and_a_strong_one_does() -> None:
    """A weight on the previous token is not notable if that of uniform attention is similar."""
    uniform = np.tri(6) / np.arange(1, 7)[:, None]
    weak, strong = uniform.copy(), uniform.copy()
    weak[range(1, 6), range(5)] *= 1.3
    strong[range(1, 6), range(5)] *= 1.6
    run = with_weights(a_run(heads=3, d_out=6), np.stack([uniform, uniform, weak]))
    assert table(run).sentences == (NEAR_UNIFORM_MESSAGE,)
    run = with_weights(a_run(heads=3, d_out=6), np.stack([uniform, weak, strong]))
    assert table(run).sentences[0] == (
        "Head 3 attends most to the previous token: 46%, uniform attention 29%."
    )
    assert table(run).sentences[1] == (
        "No head stands out for the first token: highest 46%, uniform attention 41%."
    )


def test_the_allowed_keys_of_captured_attention_are_those_with_weight() -> None:
    """Without a known mask, keys to which no head attends are treated as masked."""
    uniform = np.tri(6) / np.arange(1, 7)[:, None]
    other = np.eye(6)
    captured = CapturedAttention.from_array("a.npz", np.stack([[other, uniform], [other, other]]))
    made = table(create_captured_run(captured))
    own = table(a_run())
    wanted = dict(zip(own.columns, own.uniform, strict=True))
    del wanted[VALUE_WEIGHTING_COLUMN]
    assert made.columns == (*wanted,)
    assert made.uniform == pytest.approx((*wanted.values(),), rel=1e-12)
    lean = table(create_captured_run(elsewhere()))
    assert lean.uniform[lean.columns.index(PREVIOUS_COLUMN)] is None
    assert lean.uniform[lean.columns.index(FIRST_COLUMN)] == pytest.approx(20)


def test_the_heads_of_all_layers_are_in_one_table() -> None:
    run = create_captured_run(elsewhere((2, 3, 5, 5)))
    made = table(run, layer=1)
    places = [(layer, head) for layer in range(2) for head in range(3)]
    assert [row.place for row in made.rows] == [*places, None]
    assert [row.name for row in made.rows] == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3", "Mean"]
    at = made.columns.index(ENTROPY_COLUMN)
    weights = run.trace.read("weights").astype(np.float64)
    entropies = -(weights * np.log2(weights)).sum(-1).mean(-1)  # layer head
    shown = [row.values[at] for row in made.rows[:-1]]
    np.testing.assert_allclose(np.array(shown, float), entropies.ravel(), rtol=1e-5)
    assert made.rows[-1].values[at] == pytest.approx(entropies.mean(), rel=1e-5)
    assert format_tsv(made, made.rows).splitlines()[4].startswith("2.1\t")
    assert present_head_table(resolved(run, replace(OPEN, layer=0)), made) is made


def test_there_is_no_uniform_value_if_the_layers_differ() -> None:
    """The second of three layers has a different mask."""
    numbers = np.random.default_rng(0).normal(size=(3, 3, 2, 4, 2)).astype(np.float32)
    causal = np.tril(np.ones((4, 4)))
    weights = np.broadcast_to(causal / causal.sum(-1, keepdims=True), (3, 2, 4, 4))

    def with_masks(*masks: MaskKind) -> HeadTableContents:
        queries, keys, values = (each.tobytes() for each in numbers)
        layer_masks = tuple(LayerMask(mask, window=2) for mask in masks)
        vectors = CapturedVectors(
            *(2, 2, queries, keys, values, 1.0, MaskKind.NONE), layer_masks=layer_masks
        )
        captured = CapturedAttention.from_array("model", weights.astype(np.float32), tuple("abcd"))
        return table(create_captured_run(replace(captured, vectors=vectors)))

    made = with_masks(MaskKind.CAUSAL, MaskKind.WINDOW, MaskKind.CAUSAL)
    assert made.uniform[made.columns.index(ENTROPY_COLUMN)] is None
    assert with_masks(*[MaskKind.CAUSAL] * 3).uniform[made.columns.index(ENTROPY_COLUMN)]


def test_a_single_head_is_not_compared() -> None:
    made = table(a_run(heads=1))
    assert [row.name for row in made.rows] == ["1"]
    assert made.sentences == ()


def test_missing_values_are_dashes_and_never_lead() -> None:
    weights = three_heads()
    weights[0, 3] = np.nan
    made = table(with_weights(a_run(heads=3, d_out=6), weights))
    assert set(made.rows[0].texts) == {"–"}
    assert set(made.rows[0].values) == set(made.rows[-1].values) == {None}
    assert made.sentences[-1] == (
        "No head stands out for the first token: highest 30%, uniform attention 41%."
    )
    made = table(a_run("one"))
    at = made.columns.index(PREVIOUS_COLUMN)
    assert made.rows[0].texts[at] == "–"  # the only token has no predecessor
    assert made.summary == "Averages of the weights over 1 query."
    assert made.sentences == (NEAR_UNIFORM_MESSAGE,)


def test_the_summary_describes_the_averages() -> None:
    assert table(a_run()).summary == "Averages of the weights over 6 queries."
    assert (
        table(a_run(dropout=0.5)).summary
        == "Averages of the weights before dropout over 6 queries."
    )
    own = np.tri(6, dtype=bool)
    own[2] = False
    run = a_run(mask=MaskKind.OWN, own_mask=BooleanMatrix.from_array(own))
    said = "Averages of the weights over 5 of 6 queries; the others have no allowed keys."
    assert table(run).summary == said


def test_the_table_shows_the_current_text() -> None:
    run = a_run("one two three four", "five six")
    first, second, beyond = (table(run, text=text) for text in (0, 1, 9))
    assert first.summary == "Averages of the weights over 4 queries."
    assert second.summary == beyond.summary == "Averages of the weights over 2 queries."
    alone = table(a_run("five six"))
    for row, other in zip(second.rows, alone.rows, strict=True):
        np.testing.assert_allclose(
            np.array(row.values, float), np.array(other.values, float), rtol=1e-4
        )


def test_an_unchanged_table_is_the_same_object() -> None:
    run = a_run()
    made = table(run)
    assert present_head_table(resolved(run, replace(OPEN, room=7)), made) is made
    later = a_run(previous=run, dropout=0.5)
    assert present_head_table(resolved(later, OPEN), made) is not None
    assert present_head_table(resolved(a_run(seed=1), OPEN), made) is not made


def test_nothing_is_measured_while_the_pane_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run()
    assert screen(run, View()).panel(HEADS_PANEL) is None
    assert needs(run, View()) != needs(run, OPEN)
    other, measured = a_run(), Mock(side_effect=measure_layerwise)
    monkeypatch.setattr(trace, "measure_layerwise", measured)
    warm(other, View())
    assert measured.call_count == 0
    warm(other, OPEN)
    table(other)
    assert measured.call_count == 1


def screen(run: Run, view: View) -> Screen:
    return present(Document(spec=run.trace.spec), view, run, None, False, None)


def test_hidden_weights_are_not_measured() -> None:
    run = a_run()
    assert screen(run, OPEN).panel(HEADS_PANEL) is not None
    assert screen(run, replace(OPEN, guess=Prediction("weights"))).panel(HEADS_PANEL) is None
    assert screen(run, replace(OPEN, guess=Prediction("scores"))).panel(HEADS_PANEL) is None
    assert (
        screen(run, replace(OPEN, guess=Prediction("weights", is_revealed=True))).panel(HEADS_PANEL)
        is not None
    )


def test_the_summary_follows_dropout_although_the_weights_are_unchanged() -> None:
    first = a_run(heads=2)
    before = table(first)
    after = a_run(heads=2, dropout=0.5, previous=first)
    then = present_head_table(resolved(after, OPEN), before)
    assert then
    assert "of the weights before dropout" in then.summary
    assert present_head_table(resolved(after, OPEN), then) is then


def test_the_table_is_copied_with_all_digits() -> None:
    made = table(with_weights(a_run(heads=3, d_out=6), three_heads()))
    lines = [line.split("\t") for line in format_tsv(made, made.rows).splitlines()]
    assert lines[0] == ["Head", *(f"{column.title} ({column.unit})" for column in made.columns)]
    assert [line[0] for line in lines[1:]] == ["1", "2", "3", "Mean", "Uniform"]
    entropy = -5 / 6 * (0.8 * np.log2(0.8) + 0.2 * np.log2(0.2))
    at = lines[0].index("Entropy (bits)")
    assert float(lines[3][at]) == pytest.approx(entropy, rel=1e-6)
    assert format_tsv(made, made.rows[:1]).count("\n") == 3


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.0, "0.00"), (-0.0, "0.00"), (-0.001, "0.00"), (-1.5, "−1.50"), (2e9, "2.00e+09")],
)
def test_values_are_formatted_as_elsewhere(value: float, written: str) -> None:
    assert ENTROPY_COLUMN.format_value(value) == written


def test_every_column_has_a_description() -> None:
    assert all(column.description.endswith(".") and column.unit for column in COLUMNS)
    assert table(a_run(projection=Projection.NONE, heads=1, d_in=3, d_out=3)).rows
