"""Losses are read from their file unchanged, also by other programs."""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.support.small_trainings import full_disk
from visualizer.errors import InputError
from visualizer.language.loss_log import (
    CSV_HEADER,
    MISSING_VALUE,
    ROWS_PER_PARSE,
    LossLog,
    LossRow,
    parse_loss_rows,
    parse_row_blocks,
    rows_to_loss_curves,
)
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from pathlib import Path

LOSS = some.floats(min_value=0) | some.just(MISSING_VALUE)
ROWS = some.lists(some.tuples(LOSS, LOSS, LOSS), max_size=30).map(
    lambda found: [LossRow(step, *losses, seconds=step / 8) for step, losses in enumerate(found)]
)

MANY_ROWS = [LossRow(step, step / 7, MISSING_VALUE, 0.1, 0) for step in range(3 * ROWS_PER_PARSE)]
MANY, MANY_LINES = np.array(MANY_ROWS), [row.to_csv_line() for row in MANY_ROWS]


def text_of(rows: list[LossRow]) -> str:
    return "".join([f"{CSV_HEADER}\n", *(row.to_csv_line() for row in rows)])


def read(text: str) -> list[LossRow]:
    return parse_loss_rows(io.StringIO(text))


def assert_same(rows: list[LossRow], others: list[LossRow]) -> None:
    assert len(rows) == len(others)
    np.testing.assert_array_equal(np.array(rows), np.array(others))


@given(ROWS)
def test_a_file_is_read_as_it_was_written(rows: list[LossRow]) -> None:
    assert_same(read(text_of(rows)), rows)


@given(ROWS, some.integers(0, 10**6))
def test_a_truncated_last_line_is_ignored(rows: list[LossRow], cut: int) -> None:
    text = text_of(rows)
    text = text[: cut % (len(text) + 1)]
    assert_same(read(text), rows[: max(0, text.count("\n") - 1)])


def test_other_programs_read_the_file() -> None:
    rows = [
        LossRow(0, MISSING_VALUE, 4.2, MISSING_VALUE, 0.5),
        LossRow(1, 1 / 3, MISSING_VALUE, 1e-3, 1.25),
    ]
    first, second = csv.DictReader(io.StringIO(text_of(rows)))
    named = {"step": "0", "training": "", "validation": "4.2", "rate": "", "seconds": "0.500"}
    assert first == named
    assert float(second["training"]) == 1 / 3


def test_nan_losses_differ_from_missing_losses() -> None:
    rows = [LossRow(0, math.nan, 2.5, 0.1, 1.0), LossRow(1, 3.0, MISSING_VALUE, 0.1, 2.0)]
    text = text_of(rows)
    assert text.splitlines()[1:] == ["0,nan,2.5,0.1,1.000", "1,3.0,,0.1,2.000"]
    found = rows_to_loss_curves(read(text))
    assert found["steps"].tolist() == [0, 1]
    assert np.isnan(found["training"][0])
    assert found["validation_steps"].tolist() == [0]


@given(
    some.integers(0, 3 * ROWS_PER_PARSE),
    some.sampled_from(
        ["", "7,1,", "7,1,,.1,0", "x\n", "7.5,1,,1,0\n", "10000001,1,,1,0\n", "1e300,1,,1,0\n"]
    ),
)
def test_rows_before_an_invalid_one_are_read(place: int, bad: str) -> None:
    lines = [CSV_HEADER + "\n", *MANY_LINES]
    lines.insert(place + 1, bad)
    found = list(parse_row_blocks(lines))
    np.testing.assert_array_equal(np.concatenate(found), MANY[:place])
    assert max(map(len, found)) <= ROWS_PER_PARSE


@pytest.mark.parametrize("more", [1, 2 * ROWS_PER_PARSE])
def test_a_repeated_step_in_the_next_block_ends_parsing(more: int) -> None:
    lines = [
        CSV_HEADER + "\n",
        *MANY_LINES[:ROWS_PER_PARSE],
        *MANY_LINES[ROWS_PER_PARSE - 1 :][:more],
    ]
    np.testing.assert_array_equal(
        np.concatenate(list(parse_row_blocks(lines))), MANY[:ROWS_PER_PARSE]
    )


def test_missing_losses_are_not_in_the_curves() -> None:
    rows = [LossRow(0, 4.1, 4.2, 1e-3, 0), LossRow(1, math.inf, MISSING_VALUE, 5e-4, 1)]
    rows += [LossRow(2, MISSING_VALUE, 3.9, 1e-4, 2)]
    found = {name: values.tolist() for name, values in rows_to_loss_curves(rows).items()}
    assert found == {
        "steps": [0, 1], "training": [4.1, math.inf], "rates": [1e-3, 5e-4],
        "validation_steps": [0, 2], "validation": [4.2, 3.9],
    }  # fmt: skip
    assert all(len(values) == 0 for values in rows_to_loss_curves([]).values())


def test_lines_after_a_damaged_line_are_ignored() -> None:
    good, wrong = LossRow(0, 4.0, MISSING_VALUE, 0.1, 0), LossRow(2, 3.0, MISSING_VALUE, 0.1, 0)
    for damaged in ("1,2.0\n", "x,2.0,,0.1,0\n", "1,two,,0.1,0\n", "\0\0\n", "0,2.0,,0.1,0\n"):
        assert_same(read(text_of([good]) + damaged + wrong.to_csv_line()), [good])


def test_rows_that_could_not_be_removed_are_removed_the_next_time(tmp_path: Path) -> None:
    place = SymlinkSafeFile.from_path(tmp_path / "losses.csv")
    place.path.write_text(text_of(MANY_ROWS[:6]))
    log = LossLog(place)
    log.read_rows_before(end_step=MANY_ROWS[4].step)
    with full_disk(), pytest.raises(InputError, match="No space left"):
        log.remove_unread_rows()
    log.remove_unread_rows()
    for row in MANY_ROWS[4:6]:
        log.add_row(row)
    log.flush()
    assert_same(read(place.path.read_text()), MANY_ROWS[:6])


def test_written_rows_are_not_written_again(tmp_path: Path) -> None:
    log = LossLog(SymlinkSafeFile.from_path(tmp_path / "losses.csv"))
    log.remove_rows_from(0)
    for start in (0, 2, 4):
        for row in MANY_ROWS[start : start + 2]:
            log.add_row(row)
        log.flush()
        log.flush()
    assert_same(read((tmp_path / "losses.csv").read_text()), MANY_ROWS[:6])
