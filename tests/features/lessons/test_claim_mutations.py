"""Every claim of every lesson fails if the numbers or the computation are different."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.architecture.project_graph import ROOT
from visualizer.attention.run import run
from visualizer.attention.spec import (
    BooleanMatrix,
    MaskKind,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.features.lessons.claim_check import ClaimCheckResult, PrintedNumbers, check_claim
from visualizer.features.lessons.lesson import ClaimedProperty
from visualizer.features.lessons.lesson_file import load_lessons, read_lesson

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run
    from visualizer.features.lessons.lesson import LessonClaim, Page
    from visualizer.session.document import Document

FOLDER = ROOT / "resources" / "lessons"
PRINTED = PrintedNumbers.read_files(*FOLDER.glob("*.json"))
LESSONS, _ = load_lessons([FOLDER], PRINTED)

Number = tuple[int, int, int]
"""Indices of a lesson, of a page in it, and of a claim on the page."""

CLAIMS = [
    (one, page, claim)
    for one, lesson in enumerate(LESSONS)
    for page, shown in enumerate(lesson.pages)
    for claim in range(len(shown.claims))
]
LARGE = 100_000
"""Number of cells of a query–key matrix whose computation takes several seconds."""

# Claims that repeat custom values of their page, and why their check is still meaningful.
COPIES = {
    ("Characters become numbers", "ids of hello"): "its vectors are encoded from the text",
    ("By hand: queries, keys, values", "queries"): "vectors times a matrix that is the identity",
    ("The exercise", "queries of head 2"): "the same, cut into heads",
    ("The scores, head by head", "scores of head 1"): "the identity times itself",
}


def name_of(number: Number) -> str:
    lesson, page, claim = number
    shown = LESSONS[lesson].pages[page]
    return f"{shown.title}: {shown.claims[claim].name} {claim}"


def page_of(number: Number) -> Page:
    return LESSONS[number[0]].pages[number[1]]


def claim_of(number: Number) -> LessonClaim:
    return page_of(number).claims[number[2]]


def is_large(document: Document) -> bool:
    return max(map(len, document.tokens())) ** 2 > LARGE


BY_SIZE = [
    pytest.param(number, marks=[pytest.mark.slow] * is_large(page_of(number).document))
    for number in CLAIMS
]


class Runs:
    """Computes each document once."""

    def __init__(self) -> None:
        self._kept: dict[Document, Run] = {}

    def __call__(self, document: Document) -> Run:
        if document not in self._kept:
            self._kept[document] = run(document.tokens(), document.spec)
        return self._kept[document]


@pytest.fixture(scope="module")
def runs() -> Runs:
    return Runs()


def result(claim: LessonClaim, found: Run) -> ClaimCheckResult:
    return check_claim(claim, found, is_changed=False, is_working=False).state


# ------------------------------------------------------------------------ what is expected


@pytest.mark.parametrize("number", BY_SIZE, ids=name_of)
def test_a_claim_fails_if_any_of_its_numbers_is_another(number: Number, runs: Runs) -> None:
    claim, found = claim_of(number), runs(page_of(number).document)
    assert result(claim, found) is ClaimCheckResult.MATCHES
    step = 1 if claim.measure is ClaimedProperty.SHAPE else 0.0002
    for place in np.ndindex(claim.printed_numbers.shape):
        for other in (
            claim.printed_numbers[place] + step,
            claim.printed_numbers[place] - step,
            np.nan,
        ):
            printed = claim.printed_numbers.copy()
            printed[place] = other if np.isfinite(claim.printed_numbers[place]) else 0
            if not np.isnan(printed[place]) or claim.measure is not ClaimedProperty.SHAPE:
                assert (
                    result(replace(claim, printed_numbers=printed), found)
                    is ClaimCheckResult.DIFFERS
                )


@pytest.mark.parametrize("number", CLAIMS, ids=name_of)
def test_a_page_is_not_computed_from_the_numbers_that_it_is_compared_with(number: Number) -> None:
    claim, lesson = claim_of(number), LESSONS[number[0]]
    sections: dict[str, Any] = json.loads(json.dumps(PRINTED.sections))
    # If the numbers are used as a mask, this is a different mask.
    others = np.where(claim.printed_numbers == 0, 1.0, 0.0)
    sections[claim.section][claim.name] = others.tolist()
    text = (FOLDER / lesson.name).read_text(encoding="utf-8")
    changed = read_lesson(text, lesson.name, PrintedNumbers(sections))
    assert changed.pages[number[1]].document == page_of(number).document


def own_numbers(document: Document) -> Iterator[np.ndarray]:
    """Yield the custom matrices of a document and their transposes, except identity matrices."""
    spec = document.spec
    matrices = [spec.own_input, spec.own_mask, spec.own_kept, *(own for _, own in spec.own_weights)]
    for matrix in matrices:
        numbers = matrix.to_array().astype(float) if matrix else np.eye(1)
        if not np.array_equal(numbers, np.eye(len(numbers))):
            yield from (numbers, numbers.T)


def is_within(part: np.ndarray, whole: np.ndarray) -> bool:
    """Return whether a matrix is a block of another one, apart from signs."""
    rows, columns = part.shape
    if rows > whole.shape[0] or columns > whole.shape[1]:
        return False
    places = np.ndindex(whole.shape[0] - rows + 1, whole.shape[1] - columns + 1)
    blocks = (whole[row : row + rows, column : column + columns] for row, column in places)
    return any(np.allclose(np.abs(block), np.abs(part), atol=1e-4) for block in blocks)


@pytest.mark.parametrize("number", CLAIMS, ids=name_of)
def test_a_claim_is_about_computed_numbers(number: Number) -> None:
    claim, page = claim_of(number), page_of(number)
    printed = np.atleast_2d(claim.printed_numbers / claim.factor)
    is_copy = any(is_within(printed, whole) for whole in own_numbers(page.document))
    assert is_copy == ((page.title, claim.name) in COPIES)


# -------------------------------------------------------------------------- what is computed


def other_computations(document: Document) -> dict[str, Document]:
    """Return valid documents that differ in one setting or matrix, by its name."""
    spec = document.spec
    is_uniform = spec.normalisation is NormalisationKind.UNIFORM
    others: dict[str, Any] = {
        "temperature": spec.temperature * 2,
        "mask": MaskKind.NONE if spec.mask is MaskKind.CAUSAL else MaskKind.CAUSAL,
        "scale": ScaleKind.D_MODEL if spec.scale is ScaleKind.NONE else ScaleKind.NONE,
        "normalisation": NormalisationKind.SOFTMAX if is_uniform else NormalisationKind.UNIFORM,
        "position": PositionKind.SINUSOIDAL
        if spec.position is PositionKind.NONE
        else PositionKind.LEARNED,
        "dropout": 0.25,
        "seed": spec.seed + 1,
        "d_out": spec.d_out * 2,
        "text": "\n".join(" ".join(reversed(x.split())) for x in document.text.splitlines()),
    }
    if spec.projection is not Projection.NONE and not spec.own_weights:
        is_linear = spec.projection is Projection.LINEAR
        others["projection"] = Projection.UNIFORM if is_linear else Projection.LINEAR
    if spec.own_input:
        others["own_input"] = other_matrix(spec.own_input)
    if spec.own_weights:
        others["own_weights"] = tuple((name, other_matrix(own)) for name, own in spec.own_weights)
    if spec.own_kept:
        others["own_kept"] = BooleanMatrix.from_array(~spec.own_kept.to_array())
    found = {name: document.with_setting(name, value) for name, value in others.items()}
    return {name: other for name, other in found.items() if not spec_problems(other.spec)}


def other_matrix(matrix: NumberMatrix) -> NumberMatrix:
    numbers = matrix.to_array()
    added = 0.1 * np.sqrt(1 + np.arange(numbers.size))
    return NumberMatrix.from_array(numbers + added.reshape(numbers.shape))


def compared(claim: LessonClaim, found: Run) -> np.ndarray:
    """Return the values of a stage that a claim compares, or its shape."""
    if claim.measure is ClaimedProperty.SHAPE:
        return np.array(found.trace.shape(claim.stage))
    return found.trace.read(claim.stage, claim.at).astype(float)


@pytest.mark.parametrize("number", BY_SIZE, ids=name_of)
def test_a_claim_fails_if_something_else_is_computed(number: Number, runs: Runs) -> None:
    claim, page = claim_of(number), page_of(number)
    before, failed = compared(claim, runs(page.document)), []
    for name, other in other_computations(page.document).items():
        found = runs(other)
        after = compared(claim, found) if claim.stage in found.trace.names else np.zeros(0)
        if after.shape != before.shape:
            continue
        if result(claim, found) is ClaimCheckResult.DIFFERS:
            failed.append(name)
        else:
            np.testing.assert_allclose(after, before, atol=2e-4, err_msg=name)
    assert failed
