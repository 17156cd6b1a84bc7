"""Every page of every lesson can be computed, and its statements about numbers are true."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.architecture.project_graph import ROOT
from visualizer.attention.modules import (
    MultiHeadAttentionWrapper,
    SelfAttentionV1,
    SelfAttentionV2,
)
from visualizer.attention.run import run
from visualizer.attention.spec import Device, DropoutMode, MaskKind, NormalisationKind
from visualizer.features.lessons.claim_check import ClaimCheckResult, PrintedNumbers
from visualizer.features.lessons.lesson import view_of_page
from visualizer.features.lessons.lesson_file import load_lessons
from visualizer.features.lessons.presenter import LessonPanel, markup_to_html, present_lesson_page
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import StepSize, Timeline
from visualizer.session.view import LessonPosition, View
from visualizer.session.view_options import ColourCurve, ColourOptions
from visualizer.session.zoom_ranges import ZoomRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.attention.trace import Trace
    from visualizer.features.lessons.lesson import Lesson, Page

FOLDER = ROOT / "resources" / "lessons"
PRINTED = PrintedNumbers.read_files(*FOLDER.glob("*.json"))
LESSONS, ERRORS = load_lessons([FOLDER], PRINTED)

Number = tuple[int, int]
"""Indices of a lesson and of a page in it."""

PAGES = [(one, page) for one, lesson in enumerate(LESSONS) for page in range(len(lesson.pages))]
TICKED = [(one, page) for one, page in PAGES if LESSONS[one].pages[page].claims]


def name_of(number: Number) -> str:
    lesson = LESSONS[number[0]]
    return f"{lesson.title}: {lesson.pages[number[1]].title}"


def page_of(number: Number) -> Page:
    return LESSONS[number[0]].pages[number[1]]


class Runs:
    """Computes the run of each page once; the largest run takes half a gigabyte."""

    def __init__(self) -> None:
        self._kept: dict[Number, Run] = {}

    def __call__(self, number: Number) -> Run:
        if number not in self._kept:
            document = LESSONS[number[0]].pages[number[1]].document
            self._kept[number] = run(document.tokens(), document.spec)
        return self._kept[number]


@pytest.fixture(scope="module")
def runs() -> Runs:
    return Runs()


def panel_of(number: Number, run: Run, lessons: tuple[Lesson, ...] = LESSONS) -> LessonPanel:
    lesson = lessons[number[0]]
    document = lesson.pages[number[1]].document
    return present_page(lesson, number[1], document, run, document)


def present_page(
    lesson: Lesson, page: int, document: Document, run: Run | None, computed: Document | None
) -> LessonPanel:
    position = LessonPosition(lesson.name, page)
    return present_lesson_page({lesson.name: lesson}, position, document, run, computed)


# ----------------------------------------------------------------------------------- pages


def test_all_lessons_are_read_and_have_pages_enough() -> None:
    assert ERRORS == ()
    assert len(LESSONS) == 9
    assert all(4 <= len(lesson.pages) <= 10 for lesson in LESSONS)
    assert len({lesson.title for lesson in LESSONS}) == len(LESSONS)
    assert all(lesson.section for lesson in LESSONS)


def test_the_shipped_numbers_are_those_that_the_tests_hold() -> None:
    golden = ROOT / "tests" / "golden" / "chapter3.json"
    assert (FOLDER / "chapter3.json").read_bytes() == golden.read_bytes()


@pytest.mark.parametrize("number", PAGES, ids=name_of)
def test_what_a_page_points_at_is_there(number: Number, runs: Runs) -> None:
    page, trace = page_of(number), runs(number).trace
    if page.cell:
        batch = (0,) * len(trace.axes)
        assert page.cell.stage in page.stages
        assert trace.read(page.cell.stage, (*batch, *page.cell.place)).shape == ()
    if page.playback_start:
        assert page.grain
        assert page.playback_start.stage in page.stages
        assert (
            Timeline.from_trace(trace, page.grain).nearest_position(page.playback_start)
            == page.playback_start
        )
        shown = {page.playback_start.stage, *trace.stage(page.playback_start.stage).reads}
        assert shown <= page.stages, "a step shows its stage and what that reads"
    assert page.stages


@pytest.mark.parametrize("number", PAGES, ids=name_of)
def test_a_page_is_short(number: Number) -> None:
    page = page_of(number)
    assert 0 < len(page.markup.split()) <= 60
    assert len(page.title) <= 40
    assert "  " not in page.markup
    assert "<p>" in markup_to_html(page.markup)
    assert not re.search(r"[*`]", markup_to_html(page.markup))


def test_every_section_on_attention_is_ticked_somewhere() -> None:
    names = [name for name, value in PRINTED.sections.items() if isinstance(value, dict)]
    held = names[: names.index("notes: self-attention by hand") + 1]
    ticked = {claim.section for number in TICKED for claim in page_of(number).claims}
    assert [name for name in held if name not in ticked] == []


# ------------------------------------------------------------------------------- what is said

# Numbers of other pages, and numbers that are wrong in their source.
ELSEWHERE = {
    "First make the scores positive": {"0.2278"},
    "By hand: a mistake": {"3.912"},
    "The loss of a text": {f"{np.log(4):.4f}"},
}


@pytest.mark.parametrize("number", PAGES, ids=name_of)
def test_every_decimal_number_in_the_text_is_in_the_stages_shown(
    number: Number, runs: Runs
) -> None:
    page = page_of(number)
    said = set(re.findall(r"(?<![\d.])\d+\.\d+", page.markup))
    said -= ELSEWHERE.get(page.title, set())
    said -= {str(page.document.spec.dropout), str(page.document.spec.temperature)}
    assert [one for one in sorted(said) if not is_shown(one, page, runs(number).trace)] == []


def is_shown(written: str, page: Page, trace: Trace) -> bool:
    near = 0.5 * 10.0 ** -len(written.partition(".")[2]) + 1e-6
    for stage in page.stages:
        numbers = np.abs(trace.read(stage).astype(float))
        sums = numbers.sum(-1) if trace.stage(stage).is_weights else np.zeros(1)
        for pool in (numbers, sums):
            if (np.abs(pool[np.isfinite(pool)] - float(written)) <= near).any():
                return True
    return any((np.abs(loss - float(written)) <= near).any() for loss in losses_of(page))


def losses_of(page: Page) -> list[np.ndarray]:
    """Return the losses that a page compares; other tests compare them with those of the run."""
    return [claim.printed_numbers for claim in page.claims if claim.targets]


def first_dot_products(trace: Trace) -> bool:
    scores = trace.read("scores", (0, 1))
    return bool(scores[1] == scores.max() and scores[4] == scores.min())


def no_shares(trace: Trace) -> bool:
    weights = trace.read("weights", (0, 1))
    of_both_signs = bool((trace.read("scores", (0, 1)) < 0).any())
    return of_both_signs and weights[0] < 0 and weights[1] > 1 and abs(weights.sum() - 1) < 1e-5


def only_two_rows_survive(trace: Trace) -> bool:
    lost = np.isnan(trace.read("weights", (0,))).any(-1)
    return [place for place in range(6) if not lost[place]] == [3, 4]


def no_row_is_lost(trace: Trace) -> bool:
    return bool(np.allclose(trace.read("weights").sum(-1), 1))


def a_mirror(trace: Trace) -> bool:
    scores = trace.read("scores", (0,))
    return bool(np.array_equal(scores, scores.T))


def no_mirror(trace: Trace) -> bool:
    scores = trace.read("scores", (0,))
    written = [f"{scores[1, 4]:.4f}", f"{scores[4, 1]:.4f}"]
    return written == ["0.5577", "0.8819"]


def weights_without_a_mirror(trace: Trace) -> bool:
    weights = trace.read("weights", (0,))
    return [f"{weights[1, 4]:.4f}", f"{weights[4, 1]:.4f}"] == ["0.1082", "0.1958"]


def nearly_all_of_step(trace: Trace) -> bool:
    return f"{trace.read('weights', (0, 1, 5)):.4f}" == "0.9995"


def every_word_is_heard(trace: Trace) -> bool:
    weights = trace.read("weights", (0, 1))
    return weights.min() > 0.05 and f"{weights[5]:.4f}" == "0.3245"


def reads_ahead(trace: Trace) -> bool:
    return f"{trace.read('weights', (0, 0, 5)):.4f}" == "0.1510"


def something_is_lost(trace: Trace) -> bool:
    sums = trace.read("weights", (0,)).sum(-1)
    return [f"{one:.4f}" for one in sums[:2]] == ["0.1921", "0.3700"]


def the_last_reads_all(trace: Trace) -> bool:
    first = np.array_equal(trace.read("context", (0, 0)), trace.read("values", (0, 0)))
    scaled = trace.read("scaled", (0, 5)).astype(float)
    unmasked = np.exp(scaled) / np.exp(scaled).sum()
    last = np.allclose(trace.read("weights", (0, 5)), unmasked, atol=1e-6)
    return first and last and trace.read("weights", (0, 0, 0)) == 1


def kept(count: int, second_row: list[str]) -> Callable[[Trace], bool]:
    def is_so(trace: Trace) -> bool:
        dropped = trace.read("dropped", (0,))
        shown = [f"{one:.4f}" for one in dropped[1] if one]
        return int((dropped > 0).sum()) == count and shown == second_row

    return is_so


def sums_vary(trace: Trace) -> bool:
    sums = trace.read("dropped", (0,)).sum(-1)
    return [f"{one:.4f}" for one in sums[[3, 5]]] == ["0.9846", "1.3073"]


def twice_the_same(trace: Trace) -> bool:
    return bool(np.array_equal(*trace.read("concat")))


def nothing_is_dropped(trace: Trace) -> bool:
    return "dropped" not in trace and trace.spec.dropout == 0.5


def sizes(stage: str, *expected: int) -> Callable[[Trace], bool]:
    return lambda trace: tuple(trace.tensor(stage).shape) == expected


def four_axes(trace: Trace) -> bool:
    return sizes("queries", 2, 2, 6, 1)(trace) and sizes("scores", 2, 2, 6, 6)(trace)


def so_many_cells(trace: Trace) -> bool:
    return trace.tensor("scores").numel() == trace.tensor("weights").numel() == 25_165_824


def blind(trace: Trace) -> bool:
    context = trace.read("context", (0,))
    return bool(np.allclose(context, context[0]))


def second_reads_third(trace: Trace) -> bool:
    scores, weights = trace.read("scores", (0, 1)), trace.read("weights", (0, 1))
    return bool(scores.tolist() == [27, 19, 42] and weights[2] > 0.999)


def by_hand(trace: Trace) -> bool:
    scores = trace.read("scores", (0, 1))
    first = trace.read("weights", (0, 0))
    return bool(scores.tolist() == [2, 3] and first.tolist() == [1, 0])


def no_slip(trace: Trace) -> bool:
    values = trace.read("values", (0, slice(None), 1)).tolist()
    context = float(trace.read("context", (0, 1, 1)))
    return bool(values == [1, 4]) and abs(context - 3.1932) < 5e-5 and abs(context - 3.912) > 0.7


def softmax(scores: np.ndarray) -> np.ndarray:
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def masked_softmax(scores: np.ndarray) -> np.ndarray:
    return softmax(np.where(np.tri(len(scores), dtype=bool), scores, -np.inf))


def cross_entropies(logits: torch.Tensor, ids: list[int]) -> torch.Tensor:
    """Return the loss of each token except the first, from the logits after each token."""
    return torch.nn.functional.cross_entropy(
        logits[ids[:-1]], torch.tensor(ids[1:]), reduction="none"
    )


def test_what_is_worked_by_hand_is_so_in_numpy() -> None:
    def of(section: str, name: str) -> np.ndarray:
        return PRINTED.find_by_prefix(f"by hand: {section}", name)[2]

    def same(section: str, name: str, expected: np.ndarray) -> None:
        np.testing.assert_allclose(of(section, name), expected, atol=6e-5, err_msg=name)

    letters = sorted(set("hello"))
    same("characters", "ids of hello", np.array([[letters.index(one)] for one in "hello"]))
    same("characters", "contexts of hell", np.tri(4) / np.arange(1, 5)[:, None])
    table, after = (of("characters", name) for name in ("embedding table", "output vectors"))
    same("characters", "embeddings of hello", table[[letters.index(one) for one in "hello"]])
    logits = torch.tensor(table @ after.T)
    same("characters", "logits after h", logits[letters.index("h")].numpy())
    same("characters", "probabilities after h", logits[letters.index("h")].softmax(0).numpy())
    losses = cross_entropies(logits, [letters.index(one) for one in "hello"])
    same("characters", "losses of hello", losses.numpy())
    same("characters", "mean loss of hello", losses.mean().numpy())
    logits = torch.tensor(of("cross-entropy", "logits"))
    same("cross-entropy", "logits", np.array([[np.log(0.97 / 0.03), 0], [0, 0]]))
    same("cross-entropy", "probabilities", logits.softmax(1).numpy())
    losses = cross_entropies(logits, [0, 0, 1])
    same("cross-entropy", "losses", losses.numpy())
    same("cross-entropy", "mean", losses.mean().numpy())
    places = np.arange(3)
    same("positions", "sinusoidal", np.stack([np.sin(places), np.cos(places)], axis=1))
    same("positions", "embedding plus", of("positions", "equal") + of("positions", "sinusoidal"))
    heads = np.split(of("two heads", "x"), 2, axis=1)
    same("two heads", "queries of head 2", heads[1])
    weights = [masked_softmax(head @ head.T) for head in heads]
    for number, head in enumerate(heads, 1):
        same("two heads", f"scores of head {number}", head @ head.T)
        same("two heads", f"weights of head {number}", weights[number - 1])
    summed = [shares @ head for shares, head in zip(weights, heads, strict=True)]
    same("two heads", "concatenated heads", np.concatenate(summed, axis=1))
    a = torch.tensor(np.stack(np.split(of("a batch", "a"), 2, axis=1)))[None]
    products = a @ a.transpose(2, 3)
    assert (tuple(a.shape), tuple(products.shape)) == ((1, 2, 3, 2), (1, 2, 3, 3))
    for number in (1, 2):
        name = f"a @ a.transpose of head {number}"
        same("a batch", name, products[0, number - 1].numpy())
    for layer in ("query", "key", "value"):
        kinds = {"query": "queries", "key": "keys", "value": "values"}
        weight, bias = of("linear", f"W_{layer}"), of("linear", f"bias of {kinds[layer]}")
        linear = torch.nn.Linear(4, 2).double()
        linear.load_state_dict({"weight": torch.tensor(weight.T), "bias": torch.tensor(bias[0])})
        result = linear(torch.tensor(of("linear", "x").copy()))
        same("linear", kinds[layer], result.detach().numpy())


def test_the_tensor_of_the_notebook_has_eighteen_products() -> None:
    a = PRINTED.find_by_prefix("notebook: heads", "a")[2]
    heads = torch.tensor(np.stack(np.split(a, 2, axis=1)))[None]
    assert heads.shape == (1, 2, 3, 4)
    products = heads @ heads.transpose(2, 3)
    assert products.numel() == 18
    for number in (1, 2):
        printed = PRINTED.find_by_prefix("notebook: heads", f"products of head {number}")[2]
        np.testing.assert_allclose(products[0, number - 1], printed, atol=6e-5)


def one_row_a_target(trace: Trace) -> bool:
    read = trace.read("weights", (0,)) > 0
    return bool(read.sum(-1).tolist() == [1, 2, 3, 4])


def logits_of_h(trace: Trace) -> bool:
    return bool(trace.read("scores", (0, 1)).tolist() == [2, 0, 1, 1])


def picks_a_row(trace: Trace) -> bool:
    return bool(trace.read("values", (0, 2)).tolist() == [1, 2])


def heads_disagree(trace: Trace) -> bool:
    scores = trace.read("scores").astype(int)[:, 1].tolist()
    return bool(scores == [[0, 1], [3, 2]])


def one_product(trace: Trace) -> bool:
    return trace.read("queries").shape == (2, 3, 2) and trace.read("scores").shape == (2, 3, 3)


def biases_differ_by_head(trace: Trace) -> bool:
    scores, bias = trace.read("scaled"), trace.read("bias")
    is_equal = np.allclose(scores, scores[:, :1, :1])
    return bool(is_equal and np.allclose(bias[0, 2], [-0.5, -0.25, 0])) and trace.spec.heads == 4


def scores_follow_distances(trace: Trace) -> bool:
    scores = trace.read("scores")
    return np.allclose(scores[:, 1:, 1:], scores[:, :-1, :-1], atol=1e-6)


FACTS = {
    "Positions as biases": biases_differ_by_head,
    "Positions as rotations": scores_follow_distances,
    "One text, many contexts": one_row_a_target,
    "An embedding looks up a row": picks_a_row,
    "Logits: one number for every character": logits_of_h,
    "The scores, head by head": heads_disagree,
    "All heads in one product": one_product,
    "Exercise 3.2: two output numbers": sizes("concat", 2, 6, 2),
    "The tensor in the book's notebook": sizes("scores", 2, 3, 3),
    "How similar are two words?": first_dot_products,
    "Where division fails": no_shares,
    "Where the naive softmax overflows": only_two_rows_survive,
    "Softmax subtracts the maximum first": no_row_is_lost,
    "Every word is a query": sizes("scores", 1, 6, 6),
    "Scores are symmetric": a_mirror,
    "Softmax, row by row": weights_without_a_mirror,
    "Why scale? Large vectors, unscaled": nearly_all_of_step,
    "Large vectors, scaled": every_word_is_heard,
    "Attending to later words": reads_ahead,
    "Zeros break the sums": something_is_lost,
    "One softmax, the same weights": no_row_is_lost,
    "The first word attends to itself": the_last_reads_all,
    "A coin toss for each weight": kept(21, ["0.3333", "0.3333"]),
    "Dropout on causal weights": kept(12, []),
    "The same seed on macOS": kept(7, ["0.8966"]),
    "Sums that are not 1": sums_vary,
    "No dropout in evaluation": nothing_is_dropped,
    "A batch of two texts": twice_the_same,
    "Two heads, side by side": sizes("concat", 2, 6, 4),
    "One module, split": sizes("context", 2, 2, 6, 1),
    "Four axes": four_axes,
    "Exercise 3.3: the size of GPT-2": so_many_cells,
    "An average ignores content": blind,
    "Dot products use content": second_reads_third,
    "But scores are symmetric": a_mirror,
    "Queries and keys break the symmetry": no_mirror,
    "By hand: scores and weights": by_hand,
    "By hand: a mistake": no_slip,
}
BY_TITLE = {page_of(number).title: number for number in PAGES}


@pytest.mark.parametrize("title", FACTS)
def test_what_a_page_says_is_so(title: str, runs: Runs) -> None:
    assert FACTS[title](runs(BY_TITLE[title]).trace)


def test_titles_are_found_once() -> None:
    assert len(BY_TITLE) == len(PAGES)
    assert BY_TITLE.keys() >= FACTS.keys() | ELSEWHERE.keys()


def own_weights(title: str) -> dict[str, np.ndarray]:
    own = page_of(BY_TITLE[title]).document.spec.own_weights
    return {name: matrix.to_array().astype(np.float32) for name, matrix in own}


def test_the_carried_weights_are_those_that_seed_123_draws() -> None:
    torch.manual_seed(123)
    state = SelfAttentionV1(3, 2).state_dict()
    for name, matrix in own_weights("The same weights in linear layers").items():
        np.testing.assert_array_equal(matrix, state[name].numpy())
    torch.manual_seed(123)
    state = SelfAttentionV2(3, 2).state_dict()
    for name, matrix in own_weights("Exercise 3.1: the other way round").items():
        np.testing.assert_array_equal(matrix, state[f"{name}.weight"].numpy().T)
    torch.manual_seed(123)
    state = MultiHeadAttentionWrapper(3, 2, 6, 0.0, num_heads=2).state_dict()
    for name, matrix in own_weights("The same weights in split heads").items():
        heads = [state[f"heads.{head}.{name}.weight"].numpy().T for head in range(2)]
        np.testing.assert_array_equal(matrix, np.concatenate(heads, axis=1))


def test_the_overflowing_page_and_the_next_have_the_same_scores(runs: Runs) -> None:
    titles = ("Where the naive softmax overflows", "Softmax subtracts the maximum first")
    naive, soft = (runs(BY_TITLE[title]).trace for title in titles)
    np.testing.assert_array_equal(naive.read("scaled"), soft.read("scaled"))


def test_scaling_takes_the_same_scores(runs: Runs) -> None:
    titles = ("Why scale? Large vectors, unscaled", "Large vectors, scaled")
    plain, scaled = (runs(BY_TITLE[title]).trace for title in titles)
    np.testing.assert_array_equal(plain.read("scores"), scaled.read("scores"))


# ----------------------------------------------------------------------------------- ticks


def with_one_changed(section: str, name: str) -> tuple[Lesson, ...]:
    """Read the lessons with a change to the largest of the given printed numbers."""
    sections: dict[str, Any] = json.loads(json.dumps(PRINTED.sections))
    *_, numbers = PRINTED.find_by_prefix(section, name)
    flat = numbers.astype(float).ravel()
    flat[np.argmax(flat)] += 1 if "shape" in name else 0.0002
    changed = flat.reshape(numbers.shape).tolist()
    sections[section][name] = json.loads(json.dumps(changed).replace("-Infinity", "null"))
    lessons, errors = load_lessons([FOLDER], PrintedNumbers(sections))
    assert errors == ()
    return lessons


def test_a_tick_that_is_off_names_the_number(runs: Runs) -> None:
    lessons = with_one_changed("3.3.1 simplified, one query", "scores")
    number = BY_TITLE["How similar are two words?"]
    (check,) = panel_of(number, runs(number), lessons).checks
    assert check.words == "scores (3.3.1): differs from the book"
    assert check.detail == "Value 2: expected 1.4952, computed 1.4950."
    (check,) = panel_of(number, runs(number)).checks
    assert check.words == "scores (3.3.1): matches the book to four decimal places"
    assert check.detail == ""


def test_what_is_worked_by_hand_is_called_so(runs: Runs) -> None:
    number = BY_TITLE["Cross-entropy by hand"]
    words = [check.words for check in panel_of(number, runs(number)).checks]
    assert words == [
        "probabilities of e and of h: matches the worked example to four decimal places",
        "losses of e and of h after e: matches the worked example to four decimal places",
        "mean of the two losses: matches the worked example to four decimal places",
    ]


def test_a_shape_that_is_off_is_named_whole(runs: Runs) -> None:
    lessons = with_one_changed("GPT-2 small size", "output shape")
    number = BY_TITLE["Exercise 3.3: the size of GPT-2"]
    (check,) = panel_of(number, runs(number), lessons).checks
    assert check.detail == "Expected 2 × 1025 × 768, computed 2 × 1024 × 768."
    (check,) = panel_of(number, runs(number)).checks
    assert check.words == "output shape: matches the book"


EDITS: dict[str, list[Any]] = {
    "text": ["Another text", "Your journey starts with one step."],
    "tokenizer": [TokenizerKind.CHARACTERS],
    "seed": [5, 7],
    "temperature": [0.5, 3.0],
    "mask": list(MaskKind),
    "mode": list(DropoutMode),
    "normalisation": list(NormalisationKind),
    "dropout": [0.1, 0.3],
    "d_in": [5, 6],
    "bias": [True, False],
    "own_input": [None],
    "own_weights": [()],
}
ONE_EDIT = st.sampled_from([(name, value) for name, values in EDITS.items() for value in values])


@given(st.sampled_from(TICKED), st.lists(ONE_EDIT, min_size=1, max_size=4))
def test_whatever_the_reader_changes_the_tick_says_so(
    number: Number, edits: list[tuple[str, Any]]
) -> None:
    lesson, page = LESSONS[number[0]], number[1]
    own = edited = lesson.pages[page].document
    for name, value in edits:
        edited = edited.with_setting(name, value)
    for computed in (edited, own, None):  # the shown numbers do not matter
        panel = present_page(lesson, page, edited, None, computed)
        wanted = ClaimCheckResult.WAITING if edited == own else ClaimCheckResult.CHANGED
        assert {check.state for check in panel.checks} == {wanted}
        assert panel.is_changed == (edited != own)


def test_a_tick_waits_for_the_pages_own_numbers(runs: Runs) -> None:
    first, second = BY_TITLE["Scores are symmetric"], BY_TITLE["Attending to later words"]
    lesson, page = LESSONS[first[0]], first[1]
    document = lesson.pages[page].document
    for found, computed in (
        (None, None),
        (runs(second), LESSONS[second[0]].pages[second[1]].document),
        (None, document),
    ):
        panel = present_page(lesson, page, document, found, computed)
        assert [check.state for check in panel.checks] == [ClaimCheckResult.WAITING]


def test_where_it_is_computed_is_the_readers_choice(runs: Runs) -> None:
    number = BY_TITLE["Scores are symmetric"]
    lesson, page = LESSONS[number[0]], number[1]
    document = lesson.pages[page].document.with_setting("device", Device.CPU)
    panel = present_page(lesson, page, document, runs(number), document)
    assert [check.state for check in panel.checks] == [ClaimCheckResult.MATCHES]
    assert not panel.is_changed


# ------------------------------------------------------------------------------------ views


def test_a_page_is_looked_at_with_the_readers_colours() -> None:
    number = BY_TITLE["Two loops"]
    before = View(
        text=3,
        zoom=ZoomRange(range(2), range(1, 3)),
        hovered=Cell("weights", (0, 0, 0)),
        pinned=Cell("weights", (0, 0, 0)),
        colouring=ColourOptions(ColourCurve.LOG, sequential="cividis"),
    )
    before = replace(before, playhead=replace(before.playhead, speed=4.0, is_playing=True))
    view = view_of_page(LESSONS[number[0]], number[1], before)
    assert view.stages == {"queries", "keys", "scores"}
    assert (view.text, view.zoom, view.hovered, view.pinned) == (0, None, None, None)
    assert view.colouring == ColourOptions(ColourCurve.LOG, sequential="cividis")
    playhead = view.playhead
    assert (playhead.grain, playhead.speed, playhead.is_playing) == (StepSize.CELL, 4.0, False)
    assert playhead.place
    assert (playhead.place.stage, playhead.place.row, playhead.place.column) == ("scores", 0, 0)


def test_a_page_without_play_shows_everything_computed() -> None:
    number = BY_TITLE["Scores are symmetric"]
    view = view_of_page(LESSONS[number[0]], number[1], View())
    assert view.playhead.place is None
    assert view.pinned == Cell("scores", (0, 1, 4))


def test_pages_do_not_build_on_each_other() -> None:
    lesson = LESSONS[0]
    titles = {page.title: page.document for page in lesson.pages}
    plain = titles["The weighted sum"]
    assert titles["Where division fails"].spec.d_in == 4
    assert plain.spec.d_in == 3
    assert plain == Document().with_setting("mechanism", "simplified")


# ----------------------------------------------------------------------------------- markup


def test_light_markup_becomes_html_and_the_rest_is_escaped() -> None:
    html = markup_to_html("a **bold** `x < y`\n& so\n\n<b>not</b>\n")
    assert html == (
        "<p>a <b>bold</b> <code>x &lt; y</code>\n&amp; so</p><p>&lt;b&gt;not&lt;/b&gt;</p>"
    )
