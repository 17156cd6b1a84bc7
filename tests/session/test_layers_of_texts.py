"""A batch of texts with several layers has two leading axes, in every pane and export."""

from __future__ import annotations

import csv
import io
import json
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.explained_values import result_of
from tests.support.screens import present, resolved, warm
from tests.support.small_runs import EVERYTHING, a_run, cells
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.run import Run
from visualizer.attention.trace import Trace
from visualizer.explanations.explain import explain
from visualizer.export.data.data_writers import write_csv, write_json
from visualizer.export.data.exported_matrices import shown_matrices
from visualizer.features.head_table.presenter import HEADS_PANEL
from visualizer.features.line_view.presenter import LINES_PANEL
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.heatmap.board_presenter import BOARD_CONTENTS
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.view import View
from visualizer.shell import pane_table

PANES = frozenset(pane.id for pane in pane_table.PANES)
TEXTS = ("one two three four", "five six")
LEADING = list(product(range(2), range(2)))


def layered(**fields: Any) -> Run:
    """Stack the runs of two batches with equal lengths, which have the same parameters."""
    first, second = a_run(*TEXTS, **fields), a_run("a b c d", "e f", **fields)
    held = {
        name: CachedTensor(torch.stack([run.trace.tensor(name) for run in (first, second)]))
        for name in first.trace.names
    }
    spec, stages, parameters = first.trace.spec, first.trace.stages, first.trace.parameters
    trace = Trace(spec, stages, parameters, held, frozenset(), ("layer", "text"))
    return Run(first.texts, trace, first.device, ())


RUN = layered(heads=2, d_out=4, dropout=0.5)


@given(st.sampled_from(LEADING), st.sampled_from(list(cells(RUN))))
def test_every_cell_of_every_layer_and_text_is_explained(
    leading: tuple[int, int], cell: Cell
) -> None:
    explanation = explain(RUN.trace, cell.stage, (*leading, *cell.place))
    value = float(RUN.trace.read(cell.stage)[(*leading, *cell.place)])
    assert explanation.value == value
    np.testing.assert_allclose(result_of(explanation), value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("leading", LEADING)
def test_every_pane_shows_the_layer_and_the_text(leading: tuple[int, int]) -> None:
    layer, text = leading
    document = Document("\n".join(TEXTS))
    view = View(
        stages=EVERYTHING,
        layer=layer,
        text=text,
        panes=PANES,
        pinned=Cell("weights", (1, 1, 0)),
        playhead=PlaybackState(PlaybackPosition("context", 1), StepSize.ROW),
    )
    warm(RUN, view)
    screen = present(document, view, RUN, None, False, None, document)
    assert screen.resolved
    assert screen.resolved.leading_description == f"layer {layer + 1} of 2, text {text + 1} of 2"
    for panel in screen.panel(BOARD_CONTENTS).board.heatmaps:
        head = () if panel.head is None else (panel.head,)
        np.testing.assert_array_equal(panel.values, RUN.trace.read(panel.stage)[(*leading, *head)])
    assert screen.panel(TOKENS_PANEL).labels[0] == ("one", "five")[text]
    lines, heads = screen.panel(LINES_PANEL), screen.panel(HEADS_PANEL)
    assert lines
    assert lines.labels == screen.panel(TOKENS_PANEL).labels
    assert heads
    weights = RUN.trace.read("weights")[leading].astype(np.float64)  # head query key
    count = len(TEXTS[text].split())
    entropies = -(weights * np.log2(np.where(weights, weights, 1))).sum(-1)[:, :count].mean(-1)
    titles = [column.title for column in heads.columns]
    of_layer = [row for row in heads.rows if row.layer == layer]
    for row, entropy in zip(of_layer, entropies, strict=True):
        assert row.values[titles.index("Entropy")] == pytest.approx(entropy, rel=1e-5)


def test_texts_of_one_layer_are_shown_side_by_side() -> None:
    view = View(stages=frozenset({"weights"}), layer=1, spread=True)
    screen = present(Document(), view, RUN, None, False, None, Document())
    panels = screen.panel(BOARD_CONTENTS).board.heatmaps
    assert [(panel.leading, panel.label) for panel in panels] == [
        ((1, 0), "Text 1"),
        ((1, 1), "Text 2"),
    ]


def test_a_layer_beyond_the_last_is_the_last() -> None:
    assert resolved(RUN, View(layer=7, text=9)).leading == (1, 1)


def test_exports_name_both_axes() -> None:
    file = io.BytesIO()
    sheets = shown_matrices(resolved(RUN, View(stages=EVERYTHING, layer=1, text=1)))
    write_csv(RUN, sheets, file)
    header, first, *_ = csv.reader(io.StringIO(file.getvalue().decode("utf-8-sig")))
    assert header[:4] == ["stage", "head", "layer", "text"]
    assert first[2:4] == ["2", "2"]
    file = io.BytesIO()
    write_json(RUN, file)
    written = json.loads(file.getvalue())
    assert written["stages"][0]["dims"] == ["layer", "text", "token", "d_in"]
    assert written["texts"] == [list(RUN.texts[text]) for _, text in LEADING]
