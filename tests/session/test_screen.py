"""The screen is a function of the document, the view and the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from tests.support.screens import present
from tests.support.small_runs import a_run
from visualizer.attention.spec import NormalisationKind
from visualizer.errors import InputError
from visualizer.features.explain.presenter import CELL_PANEL
from visualizer.features.setup.presenter import SETUP_PANEL
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.features.view_bar.presenter import VIEW_CONTROLS_PANEL
from visualizer.heatmap.board import Board
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.heatmap.cell_cursor import CellCursor
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.screen import TokenProgress
from visualizer.session.view import View
from visualizer.session.zoom_ranges import row_token_role
from visualizer.shell.screen_presenter import (
    EMPTY_MESSAGE,
    LOADING_TORCH_MESSAGE,
    STALE_HEATMAPS_NOTICE,
    STATUS_PANEL,
)

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.screen import Screen

WEIGHTS = Cell("weights", (1, 3, 2))
BOOK = a_run(d_in=3, d_out=4)


def screen(run: Run | None = BOOK, previous: Screen | None = None, **fields: Any) -> Screen:
    return present(Document(), View(**fields), run, None, False, previous)


def cursor(cell: Cell, run: Run = BOOK) -> CellCursor:
    return screen(run, hovered=cell).panel(BOARD_CONTENTS).cursor


# -------------------------------------------------------------------------------------- cursor


@pytest.mark.parametrize(
    ("cell", "query", "key", "column"),
    [
        (WEIGHTS, 3, 2, None),
        (Cell("scores", (0, 5, 0)), 5, 0, None),
        (Cell("context", (1, 4, 1)), 4, None, ("context", 1)),
        (Cell("queries", (0, 2, 1)), 2, None, ("queries", 1)),
        (Cell("keys", (0, 2, 1)), None, 2, ("keys", 1)),
        (Cell("values", (1, 2, 0)), None, 2, ("values", 0)),
        (Cell("input", (2, 1)), 2, None, ("input", 1)),
        (Cell("output", (5, 3)), 5, None, ("output", 3)),
    ],
)
def test_a_cell_highlights_its_query_key_and_column(
    cell: Cell, query: int | None, key: int | None, column: object
) -> None:
    lit = cursor(cell)
    assert (lit.query, lit.key, lit.column) == (query, key, column)
    assert lit.hovered == cell
    tokens = screen(hovered=cell).panel(TOKENS_PANEL)
    assert (tokens.query, tokens.key) == (query, key)


def test_the_pinned_cell_is_highlighted_if_no_cell_is_hovered() -> None:
    pinned, hovered = WEIGHTS, Cell("weights", (0, 1, 0))
    assert screen(pinned=pinned).panel(BOARD_CONTENTS).cursor.query == 3
    both = screen(pinned=pinned, hovered=hovered)
    assert (
        both.panel(BOARD_CONTENTS).cursor.query,
        both.panel(BOARD_CONTENTS).cursor.pinned,
        both.panel(BOARD_CONTENTS).cursor.hovered,
    ) == (1, pinned, hovered)
    readout = both.panel(CELL_PANEL)
    assert readout
    assert not readout.is_pinned
    alone = screen(pinned=pinned).panel(CELL_PANEL)
    assert alone
    assert alone.is_pinned


@pytest.mark.parametrize(
    "cell",
    [
        Cell("weights", (0, 6, 0)),
        Cell("weights", (0, 0, 6)),
        Cell("weights", (2, 0, 0)),
        Cell("weights", (0, 0)),
        Cell("context", (0, 0, 2)),
        Cell("dropped", (0, 0, 0)),
        Cell("nonsense", ()),
    ],
)
def test_cells_that_a_run_does_not_have_are_ignored(cell: Cell) -> None:
    shown = screen(hovered=cell, pinned=cell)
    assert shown.panel(BOARD_CONTENTS).cursor == CellCursor()
    assert shown.panel(CELL_PANEL) is None


def test_a_cell_reappears_with_its_tokens() -> None:
    view = View(pinned=Cell("weights", (0, 4, 4)))
    short = present(Document("a b"), view, a_run("a b"), None, False, None)
    assert short.panel(BOARD_CONTENTS).cursor.pinned is None
    assert (
        present(Document(), view, BOOK, None, False, short).panel(BOARD_CONTENTS).cursor.pinned
        == view.pinned
    )


def test_in_a_batch_a_cell_belongs_to_the_shown_text() -> None:
    batch = a_run("a b c", "d e f")
    shown = screen(batch, text=1, hovered=Cell("weights", (0, 2, 1)))
    assert shown.panel(BOARD_CONTENTS).cursor.query == 2
    readout = shown.panel(CELL_PANEL)
    assert readout
    assert "f (query 3) attends to " in readout.plain_text
    assert shown.resolved
    assert shown.panel(TOKENS_PANEL).labels == ("d", "e", "f")
    assert (shown.resolved.leading, batch.trace.leading_sizes) == ((1,), (2,))


def test_rows_are_queries_or_keys_depending_on_the_stage() -> None:
    assert [row_token_role(stage) for stage in ("queries", "keys", "values", "weights")] == [
        *("query", "key", "key", "query")
    ]


# ------------------------------------------------------------------------------ stages, status


def test_the_menu_of_stages_has_every_stage_of_the_run() -> None:
    stages = screen(stages=frozenset({"weights"})).panel(VIEW_CONTROLS_PANEL).stages
    assert tuple(item.stage for item in stages) == BOOK.trace.names
    assert [item.stage for item in stages if item.is_shown] == ["weights"]
    assert all(item.title for item in stages)


def test_the_menu_of_stages_follows_the_spec() -> None:
    uniform = screen(a_run(normalisation=NormalisationKind.UNIFORM)).panel(VIEW_CONTROLS_PANEL)
    names = [item.stage for item in uniform.stages]
    assert names == ["input", "values", "weights", "context", "concat", "output"]


def test_the_status_describes_the_run() -> None:
    facts = screen().panel(STATUS_PANEL).facts.split("  ·  ")
    assert facts[:4] == ["CPU", "6 tokens", "2 heads of size 2", "float32"]
    assert facts[4].startswith(f"{len(BOOK.trace.stages)} stages, ")
    batch = screen(a_run("a", "b c", heads=1)).panel(STATUS_PANEL).facts
    assert "2 texts of 2 tokens" in batch
    assert "1 head of size 2" in batch


def test_notices_of_the_run_are_shown() -> None:
    run = replace(BOOK, notices=("A CUDA GPU is not available; the CPU was used instead.",))
    assert screen(run).panel(STATUS_PANEL).notices == run.notices
    assert screen().panel(STATUS_PANEL).notices == ()


def test_a_problem_is_also_shown_above_the_heatmaps() -> None:
    run = replace(BOOK, notices=("A CUDA GPU is not available; the CPU was used instead.",))
    refused = InputError("text", "The text is empty.")
    said, *others = (
        present(Document(""), View(), run, refused, False, None).panel(STATUS_PANEL).notices
    )
    assert said.startswith(STALE_HEATMAPS_NOTICE)
    assert refused.sentence not in said  # it is below the text
    assert (*others,) == run.notices
    wrong = Document().with_setting("dropout", 1.5)
    (notice,) = present(wrong, View(), BOOK, None, False, None).panel(STATUS_PANEL).notices
    assert notice.startswith(f"{STALE_HEATMAPS_NOTICE} The dropout rate must be")


def test_padding_is_not_a_token_of_a_text() -> None:
    run = a_run("a b", "c d e f")
    short, long = (screen(run, text=text).panel(TOKENS_PANEL) for text in (0, 1))
    assert (len(short.labels), short.padding) == (4, 2)
    assert (len(long.labels), long.padding) == (4, 0)
    assert screen().panel(TOKENS_PANEL).padding == 0


# -------------------------------------------------------------------------- caching, laziness


def test_without_a_run_a_message_states_what_will_appear() -> None:
    waiting = present(Document(), View(), None, None, True, None)
    assert waiting.panel(BOARD_CONTENTS).message == LOADING_TORCH_MESSAGE
    assert waiting.panel(STATUS_PANEL).is_working
    refused = present(Document(""), View(), None, InputError("text", "Nothing."), False, waiting)
    assert refused.panel(BOARD_CONTENTS).message == EMPTY_MESSAGE
    assert refused.panel(SETUP_PANEL).problem.sentence == "Nothing."
    assert refused.panel(BOARD_CONTENTS).board.columns == ()


def test_the_progress_of_a_long_text_is_shown_in_both_places() -> None:
    progress = TokenProgress(3_264, 8_161)
    waiting = present(Document(), View(), None, None, True, None, progress=progress)
    assert waiting.panel(BOARD_CONTENTS).message == "Running on 8,161 tokens … 39%"
    again = present(Document(), View(), BOOK, None, True, None, progress=progress)
    for status in (waiting.panel(STATUS_PANEL), again.panel(STATUS_PANEL)):
        assert status.progress == "Running on 8,161 tokens … 39%"
        assert status.share == pytest.approx(0.39995, abs=1e-5)


def test_the_heatmaps_stay_while_values_are_being_fetched() -> None:
    before = screen()
    after = present(Document("other words"), View(), BOOK, None, True, before)
    assert after.panel(BOARD_CONTENTS).board is before.panel(BOARD_CONTENTS).board
    assert after.panel(SETUP_PANEL).text == "other words"
    assert after.panel(TOKENS_PANEL).labels == before.panel(TOKENS_PANEL).labels
    assert (after.panel(BOARD_CONTENTS).message, after.panel(STATUS_PANEL).is_working) == ("", True)


def test_unchanged_panels_are_the_same_objects() -> None:
    before = screen(hovered=WEIGHTS)
    again = screen(previous=before, hovered=WEIGHTS)
    assert again.panel(BOARD_CONTENTS).board is before.panel(BOARD_CONTENTS).board
    assert again.panel(CELL_PANEL) is before.panel(CELL_PANEL)
    other = screen(previous=before, hovered=Cell("weights", (0, 0, 0)))
    assert other.panel(BOARD_CONTENTS).board is before.panel(BOARD_CONTENTS).board
    assert other.panel(CELL_PANEL) is not before.panel(CELL_PANEL)
    assert (
        screen(previous=before, stages=frozenset({"scores"})).panel(BOARD_CONTENTS).board
        is not before.panel(BOARD_CONTENTS).board
    )


def test_a_text_index_beyond_the_batch_selects_the_last_text() -> None:
    shown = screen(a_run("a b", "c d"), text=7)
    assert shown.resolved
    assert shown.resolved.leading == (1,)
    assert isinstance(screen(text=7, hovered=WEIGHTS).panel(BOARD_CONTENTS).board, Board)
