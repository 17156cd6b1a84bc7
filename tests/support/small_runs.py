"""Small attention runs, and iterators over their cells."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.support.screens import resolved
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.run import run
from visualizer.attention.spec import AttentionSpec, Device
from visualizer.attention.stages import STAGE_TABLE
from visualizer.heatmap.board import Board, Heatmap
from visualizer.heatmap.board_presenter import present_board
from visualizer.language.tokenizers import TokenizerKind, tokenize
from visualizer.session.cell_address import Cell
from visualizer.session.document import BOOK_SENTENCE
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.run import Run

EVERYTHING = frozenset(row.name for row in STAGE_TABLE)
QUERIES, KEYS = ("Le", "chat", "猫"), ("The", "cat", "<b>sat", "=1+1", "")


def a_run(*texts: str, previous: Run | None = None, **fields: Any) -> Run:
    """Compute texts, by default the book's sentence, with the given fields of the specification."""
    tokens = tuple(tokenize(text, TokenizerKind.WORDS) for text in texts or (BOOK_SENTENCE,))
    return run(tokens, AttentionSpec(**{"device": Device.CPU, **fields}), previous)


def elsewhere(shape: tuple[int, ...] = (2, 2, 3, 5), *, is_named: bool = True) -> CapturedAttention:
    """Return captured attention [layer, head, query, key] whose keys are not its queries."""
    scores = np.exp(np.random.default_rng(0).normal(size=shape))
    weights = (scores / scores.sum(-1, keepdims=True)).astype(np.float32)
    return CapturedAttention.from_array("attn.npz", weights, *((QUERIES, KEYS) if is_named else ()))


def replayed() -> Run:
    """Return a run of captured attention with two layers, three queries and five keys."""
    return create_captured_run(elsewhere())


def board(run: Run, previous: Board | None = None, **fields: Any) -> Board:
    """Return the board with every stage of a run and the given fields of the view."""
    view = View(**{"stages": EVERYTHING, **fields})
    return present_board(resolved(run, view), previous or Board())


def panel(run: Run, stage: str, head: int | None = 0, **fields: Any) -> Heatmap:
    """Return one panel of a run."""
    heatmaps = board(run, stages=frozenset({stage}), **fields).heatmaps
    return next(heatmap for heatmap in heatmaps if heatmap.head == head)


def places(run: Run, stage: str) -> Iterator[tuple[int, ...]]:
    """Yield every index within a stage's named dimensions."""
    sizes = run.trace.tensor(stage).shape[len(run.trace.axes) :]
    return itertools.product(*(range(size) for size in sizes))


def cells(run: Run) -> Iterator[Cell]:
    """Yield every cell of every stage for one text."""
    for stage in run.trace.names:
        for place in places(run, stage):
            yield Cell(stage, place)
