"""The heatmaps of a page differ from each other, and none of them is uniform."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from msgspec.structs import replace

from tests.architecture.project_graph import ROOT
from tests.support.screens import resolved
from visualizer.attention.run import run
from visualizer.features.lessons.claim_check import PrintedNumbers
from visualizer.features.lessons.lesson import view_of_page
from visualizer.features.lessons.lesson_file import load_lessons
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import present_board
from visualizer.session.timeline import PlaybackState
from visualizer.session.view import View

if TYPE_CHECKING:
    from visualizer.heatmap.board import Heatmap

FOLDER = ROOT / "resources" / "lessons"
PRINTED = PrintedNumbers.read_files(*FOLDER.glob("*.json"))
LESSONS, _ = load_lessons([FOLDER], PRINTED)
PAGES = {
    page.title: (lesson, number) for lesson in LESSONS for number, page in enumerate(lesson.pages)
}
LARGE = "Exercise 3.3: the size of GPT-2"
TITLES = [pytest.param(title, marks=[pytest.mark.slow] * (title == LARGE)) for title in PAGES]

LEAST_SPREAD, LEAST_SIGNED_SPREAD = 0.25, 0.08
"""Minimum fractions of the colour scale that a heatmap covers: unsigned and signed values."""
LEAST_DIFFERENCE = 0.1
"""Minimum mean difference between the heatmaps of two heads, as a fraction of the scale."""

# Heatmaps that are uniform, because this is the subject of the page.
EVEN = {
    "An average is a matrix product": {"weights"},
    "An average ignores content": {"weights"},
    "A coin toss for each weight": {"weights", "dropped"},
    "Positions as vectors": {"embedding"},
    # The third and fourth heads have small slopes.
    "Positions as biases": {"scaled", "bias 3", "bias 4", "biased 3", "biased 4"},
}
# Pages with equal heatmaps, and the reason.
SAME = {
    "Fewer keys and values: grouped heads": "the heads of a group have the same keys",
    "How similar are two words?": "queries and keys are the input",
    "Two loops": "queries and keys are the input",
    "One matrix product": "queries and keys are the input",
    "Scale, then apply softmax": "scaled scores are the scores on a smaller scale",
    "Large vectors, scaled": "scaled scores are the scores on a smaller scale",
    "By hand: queries, keys, values": "the input times the identity is the input",
    "The exercise": "the matrices change nothing",
    "The scores, head by head": "the matrices change nothing",
    "All heads in one product": "queries and keys are the input",
    "The tensor in the book's notebook": "queries and keys are the input",
}


def heatmaps(title: str) -> tuple[Heatmap, ...]:
    """Return the heatmaps of a page, with all cells computed."""
    lesson, number = PAGES[title]
    document = lesson.pages[number].document
    view = replace(view_of_page(lesson, number, View()), playhead=PlaybackState())
    shown = resolved(run(document.tokens(), document.spec), view, document)
    return present_board(shown, Board()).heatmaps


def colours(heatmap: Heatmap) -> np.ndarray:
    """Return the position of each cell on the colour scale, from 0 to 1; NaN without a colour."""
    low, high = np.array(heatmap.colour.low), np.array(heatmap.colour.high)
    if heatmap.ends is not None:
        high = heatmap.ends
        low = -high if heatmap.colour.is_signed else 0 * high
    with np.errstate(divide="ignore", invalid="ignore"):
        places = (heatmap.values.astype(float) - low) / (high - low)
    for mark in heatmap.cell_masks:
        if mark is not None:
            places[mark] = np.nan
    places[~np.isfinite(places)] = np.nan
    return np.asarray(places)


@pytest.mark.parametrize("title", TITLES)
def test_no_panel_is_of_one_colour(title: str) -> None:
    for heatmap in heatmaps(title):
        places = colours(heatmap)
        least = LEAST_SIGNED_SPREAD if heatmap.colour.is_signed else LEAST_SPREAD
        is_even = np.nanmax(places) - np.nanmin(places) < least
        names = {heatmap.stage, f"{heatmap.stage} {(heatmap.head or 0) + 1}"}
        assert is_even == bool(names & EVEN.get(title, set())), heatmap.stage


@pytest.mark.parametrize("title", TITLES)
def test_no_two_panels_are_the_same(title: str) -> None:
    pairs = combinations(map(colours, heatmaps(title)), 2)
    found = any(
        one.shape == other.shape and np.allclose(one, other, atol=1e-6, equal_nan=True)
        for one, other in pairs
    )
    assert found == (title in SAME)


@pytest.mark.slow  # computes 12 heads of 1,024 tokens
def test_the_heads_of_the_large_page_differ() -> None:
    pictures = [colours(heatmap) for heatmap in heatmaps(LARGE)]
    assert len(pictures) == 12
    for one, other in combinations(pictures, 2):
        assert np.nanmean(np.abs(one - other)) > LEAST_DIFFERENCE
