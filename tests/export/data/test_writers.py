"""Exported values are unchanged when they are read again."""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.screens import resolved
from tests.support.small_runs import EVERYTHING, a_run, board
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.run import run as compute
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    Dtype,
    MaskKind,
    NormalisationKind,
    NumberMatrix,
)
from visualizer.export.data.data_preview import (
    estimate_array_bytes,
    estimate_csv_bytes,
    estimate_json_bytes,
    estimate_markdown_bytes,
)
from visualizer.export.data.data_writers import (
    escape_formula,
    format_exact_row,
    spec_to_json,
    write_csv,
    write_json,
    write_markdown,
    write_npz,
)
from visualizer.export.data.exported_matrices import ExportMatrix, shown_matrices
from visualizer.format import format_number
from visualizer.progress import REPORT_INTERVAL
from visualizer.session.cell_address import Cell
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.view import View
from visualizer.version import __version__

if TYPE_CHECKING:
    from visualizer.attention.run import Run

HOSTILE = ["=1+1", "-2+3", "+cmd|x", "@SUM(A1)", '"', 'a"b', ",", "a,b;c", "a\nb", "\r\n", "\0",
           "\ud800", "|", "a|b", "\\", "\\|", "<b>", "</script>", "*_`", "", " ", "\ufeff",
           "\u2028", "猫", "سلام", "🙂", "'", "-", "="]  # fmt: skip
TOKENS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=5), min_size=1, max_size=6)


def of_tokens(tokens: list[str], **changed: Any) -> Run:
    return compute((tuple(tokens),), AttentionSpec(**{"device": Device.CPU, **changed}))


def as_csv(run: Run, *sheets: ExportMatrix) -> str:
    file = io.BytesIO()
    write_csv(run, sheets, file)
    return file.getvalue().decode("utf-8")


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True))


def as_markdown(run: Run, *sheets: ExportMatrix) -> str:
    file = io.BytesIO()
    write_markdown(run, sheets, file)
    return file.getvalue().decode("utf-8")


def as_json(run: Run) -> dict[str, Any]:
    file = io.BytesIO()
    write_json(run, file)
    read: dict[str, Any] = json.loads(file.getvalue().decode("ascii"), parse_constant=pytest.fail)
    return read


# ------------------------------------------------------------------------------ which matrices


@pytest.mark.parametrize(
    "view",
    [
        View(),
        View(stages=EVERYTHING, heads=frozenset({1})),
        View(folds=frozenset(HeadAggregate), lens=WeightTransform.TIMES_VALUE),
        View(text=1),
        View(spread=True, pinned=Cell("weights", (1, 0, 0))),
        View(spread=True),
    ],
)
def test_the_displayed_content_is_written(view: View) -> None:
    run = a_run("one two three", "four five six", dropout=0.5)
    seen = {name: getattr(view, name) for name in view.__struct_fields__}
    heatmaps = board(run, **seen).heatmaps
    sheets = shown_matrices(resolved(run, view))
    assert [(one.stage, one.head, one.leading, one.fold) for one in sheets] == [
        (one.stage, one.head, one.leading, one.fold) for one in heatmaps
    ]
    for sheet, heatmap in zip(sheets, heatmaps, strict=True):
        np.testing.assert_array_equal(sheet.read(run), heatmap.values)
        assert sheet.row_and_column_labels(run) == (heatmap.rows.labels, heatmap.columns.labels)


def test_a_stage_that_is_drawn_pooled_is_written_whole() -> None:
    run = a_run(" ".join(["word"] * 40))
    view = View(stages=frozenset({"weights"}), room=8)
    assert board(run, stages=view.stages, room=8).heatmaps[0].values.shape == (8, 8)
    assert shown_matrices(resolved(run, view))[0].read(run).shape == (40, 40)


def test_a_matrix_is_named() -> None:
    run = a_run("one two", "three four")
    assert ExportMatrix("weights", 1, (1,)).title(run) == "Weights, head 2, text 2"
    assert (
        ExportMatrix("weights", None, (0,), HeadAggregate.MEAN).title(run)
        == "Weights, mean of the heads, text 1"
    )
    whole = ExportMatrix("weights", 0, (0,), lens=WeightTransform.TIMES_VALUE)
    assert whole.title(run) == "Weights × ‖value‖, head 1, text 1"
    assert (
        ExportMatrix("scores", 0, (0,), lens=WeightTransform.TIMES_VALUE).title(run)
        == "Scores, head 1, text 1"
    )


# ----------------------------------------------------------------------------------------- CSV


@pytest.mark.parametrize("dtype", Dtype)
@pytest.mark.parametrize("stage", ["input", "scores", "masked", "weights", "context", "output"])
def test_a_table_of_commas_has_the_very_numbers(stage: str, dtype: Dtype) -> None:
    run = a_run(dtype=dtype)
    head = 1 if "head" in run.trace.stage(stage).dims else None
    text = as_csv(run, ExportMatrix(stage, head))
    numbers = run.trace.read(stage) if head is None else run.trace.read(stage, (head,))
    header, *rows = table(text)
    read = np.array([row[1:] for row in rows]).astype(dtype)
    np.testing.assert_array_equal(read, numbers)
    assert [row[0] for row in rows] == list(run.texts[0])
    assert header[0] in {"token", "query"}
    by_numpy = np.loadtxt(
        io.StringIO(text), delimiter=",", skiprows=1, usecols=range(1, len(header)), dtype=dtype
    )
    np.testing.assert_array_equal(by_numpy.reshape(numbers.shape), numbers)


def test_numbers_have_no_more_digits_than_they_need() -> None:
    own = NumberMatrix.from_array(np.array([[0.1, 1e-7, -3.0]] * 2))
    run = of_tokens(["a", "b"], own_input=own)
    assert table(as_csv(run, ExportMatrix("input")))[1] == ["a", "0.1", "1e-07", "-3.0"]


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
def test_any_number_reads_back_from_at_most_nine_digits(numbers: list[float]) -> None:
    row = np.array(numbers, dtype=np.float32)
    written = format_exact_row(row)
    np.testing.assert_array_equal(np.array([float(one) for one in written], np.float32), row)
    for one in written:
        digits = re.sub(r"e.*|[^0-9]", "", one).lstrip("0")
        assert len(digits.rstrip("0")) <= 9


def test_a_table_of_commas_says_its_encoding() -> None:
    run = of_tokens(["猫", "é"], own_input=NumberMatrix.from_array(np.eye(2, 3)))
    file = io.BytesIO()
    write_csv(run, [ExportMatrix("input")], file)
    content = file.getvalue()
    assert content.startswith(codecs.BOM_UTF8)
    assert content.decode("utf-8-sig").startswith("token,1,2,3\r\n猫,1.0,0.0,0.0\r\né,0.0")


def test_nan_and_infinity_are_written_as_other_programs_read_them() -> None:
    large = NumberMatrix.from_array(np.full((2, 3), 1e20))
    run = of_tokens(["a", "b"], own_input=large, normalisation=NormalisationKind.NAIVE_SOFTMAX)
    assert not np.isfinite(run.trace.read("scores", (0,))).all()
    scores = [row[1:] for row in table(as_csv(run, ExportMatrix("scores", 0)))[1:]]
    np.testing.assert_array_equal(np.array(scores).astype("f4"), run.trace.read("scores", (0,)))
    weights = [
        cell for row in table(as_csv(run, ExportMatrix("weights", 0)))[1:] for cell in row[1:]
    ]
    assert "NaN" in weights
    assert table(as_csv(a_run(), ExportMatrix("masked", 0)))[1][2] == "-inf"


def test_several_tables_are_a_line_per_number() -> None:
    run = a_run("one two", "three four", dropout=0.5)
    sheets = shown_matrices(
        resolved(run, View(stages=EVERYTHING, folds=frozenset({HeadAggregate.MAX}), text=1))
    )
    header, *lines = table(as_csv(run, *sheets))
    assert header == [
        *("stage", "head", "text", "row", "column", "row token", "column token", "value")
    ]
    expected = []
    for sheet in sheets:
        rows, columns = sheet.row_and_column_labels(run)
        values = sheet.read(run)
        for (row, column), value in np.ndenumerate(values):
            whose = "max" if sheet.fold else "" if sheet.head is None else str(sheet.head + 1)
            key = columns[column] if sheet.has_key_columns(run) else ""
            places = [str(row + 1), str(column + 1)]
            expected.append([sheet.stage, whose, "2", *places, rows[row], key, float(value)])
    read = [[*line[:-1], float(np.float32(line[-1]))] for line in lines]
    assert read == expected


def test_a_lens_is_named_next_to_the_stage() -> None:
    run = a_run()
    sheets = shown_matrices(
        resolved(
            run, View(stages=frozenset({"scores", "weights"}), lens=WeightTransform.TIMES_VALUE)
        )
    )
    names = {line[0] for line in table(as_csv(run, *sheets))[1:]}
    assert names == {"scores", "weights times-value"}


@given(TOKENS)
def test_any_tokens_are_read_back_from_commas(tokens: list[str]) -> None:
    run = of_tokens(tokens)
    sheet = ExportMatrix("weights", 0)
    rows, columns = (
        list(map(escape_formula, labels)) for labels in sheet.row_and_column_labels(run)
    )
    header, *lines = table(as_csv(run, sheet))
    assert header[1:] == columns
    assert [line[0] for line in lines] == rows
    tidy = table(as_csv(run, sheet, ExportMatrix("context", 0)))
    assert {len(line) for line in tidy} == {8}
    assert [line[5] for line in tidy[1 : 1 + len(rows)]] == [rows[0]] * len(rows)


@given(TOKENS)
def test_no_token_is_a_formula(tokens: list[str]) -> None:
    run = of_tokens(tokens)
    header, *lines = table(as_csv(run, ExportMatrix("weights", 0)))
    for cell in [*header, *(line[0] for line in lines)]:
        assert len(cell) < 2 or cell[0] not in "=+-@＝＋－＠\t\r"


@pytest.mark.parametrize("label", ["=1+1", "＝1+1", "＋1", "－1", "＠SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_is_quoted(label: str) -> None:
    assert escape_formula(label) == f"'{label}"


@pytest.mark.parametrize("label", ["-", "=", "a-b", "1+1", "", "’"])
def test_text_that_is_not_a_formula_is_unchanged(label: str) -> None:
    assert escape_formula(label) == label


# ------------------------------------------------------------------------------------ Markdown


def cells(line: str) -> list[str]:
    """Split a table row like GitHub, at vertical bars that are not escaped by a backslash."""
    inner, found, is_escaped = line.removeprefix("| ").removesuffix(" |"), [""], False
    for letter in inner:
        if letter == "|" and not is_escaped:
            found.append("")
        elif letter == "\\" and not is_escaped:
            is_escaped = True
            continue
        else:
            found[-1] += letter
        is_escaped = False
    return [cell.strip(" ") for cell in found]


@pytest.mark.parametrize("stage", ["scores", "masked", "weights", "context"])
def test_a_table_of_markdown_has_the_windows_numbers(stage: str) -> None:
    run = a_run()
    title, empty, header, rule, *rows = as_markdown(run, ExportMatrix(stage, 0)).splitlines()
    assert title == f"**{run.trace.stage(stage).title}, head 1** · {describe_value_origin(run)}"
    assert empty == ""
    assert set(rule) == set("| -:")
    values = run.trace.read(stage, (0,)).tolist()
    assert [cells(row)[1:] for row in rows] == [list(map(format_number, row)) for row in values]
    assert [cells(row)[0] for row in rows] == list(run.texts[0])
    assert len(cells(header)) == len(cells(rule)) == len(values[0]) + 1


def test_masked_scores_are_minus_infinity() -> None:
    assert cells(as_markdown(a_run(), ExportMatrix("masked", 0)).splitlines()[4])[2] == "−∞"


def test_tables_of_markdown_are_separated() -> None:
    run = a_run()
    both = ExportMatrix("scores", 0), ExportMatrix("weights", 1)
    assert as_markdown(run, *both) == "\n".join(as_markdown(run, one) for one in both)


@given(TOKENS)
def test_any_tokens_are_read_back_from_markdown(tokens: list[str]) -> None:
    run = of_tokens(tokens)
    sheet = ExportMatrix("weights", 0)
    _, _, header, _, *rows = as_markdown(run, sheet).removesuffix("\n").split("\n")
    row_labels, column_labels = sheet.row_and_column_labels(run)
    assert cells(header)[1:] == [label.strip(" ") for label in column_labels]
    assert [cells(row)[0] for row in rows] == [label.strip(" ") for label in row_labels]
    assert "<" not in as_markdown(run, sheet).replace("\\<", "")


# ---------------------------------------------------------------------------------------- JSON


def as_numbers(values: Any) -> Any:
    """Replace the strings for NaN and infinity in nested lists with numbers."""
    return list(map(as_numbers, values)) if isinstance(values, list) else float(values)


@pytest.mark.parametrize("dtype", Dtype)
def test_json_has_every_stage_and_every_weight(dtype: Dtype) -> None:
    run = a_run(dtype=dtype, dropout=0.5, bias=True)
    read = as_json(run)
    assert [stage["name"] for stage in read["stages"]] == list(run.trace.names)
    for stage in read["stages"]:
        numbers = run.trace.read(stage["name"]).astype(np.float64)
        assert np.array_equal(as_numbers(stage["values"]), numbers)
        assert tuple(stage["shape"]) == numbers.shape
        assert tuple(stage["dims"]) == run.trace.stage(stage["name"]).dims
    assert list(read["parameters"]) == list(run.trace.parameters)
    for name, parameter in read["parameters"].items():
        numbers = run.trace.read(name).astype(np.float64)
        assert np.array_equal(parameter["values"], numbers)
        assert tuple(parameter["shape"]) == numbers.shape


def test_json_describes_itself() -> None:
    run = a_run("one two", "three four")
    read = as_json(run)
    assert (read["program"], read["version"]) == ("Attention Visualizer", __version__)
    assert read["caption"] == describe_value_origin(run)
    assert read["texts"] == [["one", "two"], ["three", "four"]]
    assert read["stages"][0]["dims"][0] == "text"
    assert read["spec"] == spec_to_json(run.trace.spec)


def test_nan_and_infinity_are_strings_in_json() -> None:
    large = NumberMatrix.from_array(np.full((2, 3), 1e20))
    run = of_tokens(["a", "b"], own_input=large, normalisation=NormalisationKind.NAIVE_SOFTMAX)
    stages = {stage["name"]: stage["values"] for stage in as_json(run)["stages"]}
    assert stages["masked"][0][0][1] == "-Infinity"
    for name in run.trace.names:
        numbers = run.trace.read(name).astype(np.float64)
        assert np.array_equal(as_numbers(stages[name]), numbers, equal_nan=True)
    assert any(math.isnan(one) for one in np.ravel(as_numbers(stages["weights"])))


def test_the_spec_has_all_its_fields_as_plain_values() -> None:
    cells = np.tri(2, dtype=bool)
    weights = np.arange(6).reshape(3, 2) / 3
    spec = AttentionSpec(
        mask=MaskKind.OWN,
        own_mask=BooleanMatrix.from_array(cells),
        own_weights=(("W_query", NumberMatrix.from_array(weights)),),
        lengths=(1, 2),
    )
    read = json.loads(json.dumps(spec_to_json(spec), allow_nan=False))
    assert list(read) == list(spec.__struct_fields__)
    assert read["own_mask"] == [[1, 0], [1, 1]]
    assert np.array_equal(read["own_weights"]["W_query"], weights)
    assert (read["mask"], read["lengths"], read["own_kept"]) == ("own", [1, 2], None)


@given(TOKENS)
def test_any_tokens_are_read_back_from_json(tokens: list[str]) -> None:
    assert as_json(of_tokens(tokens))["texts"] == [tokens]


# ------------------------------------------------------------------------------------ progress


class EnoughError(Exception):
    pass


def test_progress_is_reported_up_to_the_end() -> None:
    run, told = a_run("one two", "three four"), list[tuple[int, int]]()
    write_json(run, io.BytesIO(), lambda *far: told.append(far))
    names = (*run.trace.names, *run.trace.parameters)
    total = sum(math.prod(run.trace.tensor(name).shape[:-1]) for name in names)
    blocks = math.ceil(total / REPORT_INTERVAL)
    assert told == [(math.ceil(done / REPORT_INTERVAL), blocks) for done in range(1, total + 1)]


@pytest.mark.parametrize("write", [write_csv, write_markdown])
def test_progress_of_tables_is_reported(write: Any) -> None:
    run, told = a_run(), list[tuple[int, int]]()
    sheets = shown_matrices(resolved(run, View()))
    write(run, sheets, io.BytesIO(), lambda *far: told.append(far))
    total = sum(len(sheet.read(run)) for sheet in sheets)
    blocks = math.ceil(total / REPORT_INTERVAL)
    assert told == [(math.ceil(done / REPORT_INTERVAL), blocks) for done in range(1, total + 1)]


@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("stages", [{"weights"}, {"scores", "masked", "output"}])
def test_the_file_size_is_estimated(heads: int, stages: set[str]) -> None:
    run = a_run(
        " ".join(["some", "Words", "of", "different", "lengths"] * 12), heads=heads, d_out=8
    )
    sheets = shown_matrices(resolved(run, View(stages=frozenset(stages))))
    table, text, everything, arrays = (io.BytesIO() for _ in range(4))
    write_csv(run, sheets, table)
    write_markdown(run, sheets, text)
    write_json(run, everything)
    write_npz(run, arrays)
    names = (*run.trace.names, *run.trace.parameters)
    for told, file in (
        (estimate_csv_bytes(run, sheets), table),
        (estimate_markdown_bytes(run, sheets), text),
        (estimate_json_bytes(run), everything),
        (estimate_array_bytes(run, names), arrays),
    ):
        assert told == pytest.approx(len(file.getvalue()), rel=0.2)


def test_an_exception_in_the_progress_callback_ends_the_export() -> None:
    told = []

    def stop(*far: int) -> None:
        told.append(far)
        if len(told) == 2:
            raise EnoughError

    file, whole = io.BytesIO(), io.BytesIO()
    with pytest.raises(EnoughError):
        write_json(a_run(), file, stop)
    write_json(a_run(), whole)
    assert len(file.getvalue()) < len(whole.getvalue()) / 4
