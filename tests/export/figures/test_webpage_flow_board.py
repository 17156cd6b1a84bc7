"""The flow board on a web page: calculations yield the displayed values, also in a browser."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given

from tests.support import headless_browser
from tests.support.attention_strategies import Case, cases
from tests.support.examples import examples
from tests.support.small_runs import a_run, board
from visualizer.attention.spec import (
    MaskKind,
    NormalisationKind,
    PositionKind,
    TransformerBlockKind,
)
from visualizer.export.figures.webpage_flow_board import PanelComputation, WebpageFlowBoard
from visualizer.export.figures.webpage_writer import write_webpage
from visualizer.format import format_number
from visualizer.widgets.theme import DARK, LIGHT, PRINT, Theme

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.heatmap.board import Board

pytestmark = pytest.mark.usefixtures("application")

in_a_browser = pytest.mark.skipif(
    headless_browser.FOUND is None, reason="there is no Chromium here"
)
TOLERANCE = 1e-3


def flow_board(run: Run, **fields: Any) -> Board:
    return board(run, flow=True, **fields)


def page(*shown: Board, theme: Theme = LIGHT) -> bytes:
    file = io.BytesIO()
    write_webpage(shown, "A title", "A caption", theme, file)
    return file.getvalue()


def relations(flow: WebpageFlowBoard) -> dict[str, PanelComputation]:
    """Return how each stage on the page is computed."""
    columns = [PanelComputation(**_snake(column)) for column in _columns(flow)]
    return {flow.panels[column.panel].stage: column for column in columns}


def _columns(flow: WebpageFlowBoard) -> list[dict[str, Any]]:
    columns = flow.describe_layout()["columns"]
    assert isinstance(columns, list)
    return columns


def _snake(column: dict[str, Any]) -> dict[str, Any]:
    return {name.lower(): value for name, value in column.items()}


def computed(flow: WebpageFlowBoard, column: PanelComputation) -> np.ndarray:
    """Compute the values of a panel as the page describes it."""
    assert column.row is not None
    row = flow.panels[column.row].values.astype(np.float64)
    if column.kind == "softmax":
        powers = np.exp(row - row.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    assert column.above is not None
    product = column.factor * (row @ flow.panels[column.above].values.astype(np.float64))
    return np.asarray(product + np.array(column.bias or 0.0))


@pytest.mark.parametrize(
    ("fields", "products"),
    [
        ({}, {"queries", "keys", "values", "masked", "context", "output"}),
        ({"bias": True}, {"queries", "keys", "values", "masked", "context", "output"}),
        ({"mask": MaskKind.NONE}, {"queries", "keys", "values", "scaled", "context", "output"}),
        (
            {"d_in": 8, "d_out": 8, "position": PositionKind.ROTARY},
            {"values", "masked", "context", "output"},
        ),
        (
            {"d_in": 4, "d_out": 4, "block": TransformerBlockKind.PRE_NORM},
            {"queries", "keys", "values", "masked", "context", "output", "feed_forward"},
        ),
    ],
    ids=["plain", "bias", "no mask", "rotary", "block"],
)
def test_products_and_softmax_are_found(fields: dict[str, Any], products: set[str]) -> None:
    found = relations(WebpageFlowBoard(flow_board(a_run(**fields))))
    assert {stage for stage, column in found.items() if column.kind == "product"} >= products
    assert found["weights"].kind == "softmax"


def test_scores_are_scaled_by_the_root_of_the_size_of_a_head() -> None:
    found = relations(WebpageFlowBoard(flow_board(a_run(d_out=4, heads=1, mask=MaskKind.NONE))))
    assert found["scaled"].factor == pytest.approx(4**-0.5, abs=1e-5)
    assert found["context"].factor == 1
    assert found["queries"].bias is None


def test_weights_that_are_not_a_softmax_have_no_calculation() -> None:
    run = a_run(normalisation=NormalisationKind.SUM, mask=MaskKind.NONE)
    assert relations(WebpageFlowBoard(flow_board(run)))["weights"].kind == "other"


@given(cases(most_tokens=4))
@examples(1)
def test_no_calculation_gives_another_number(case: Case) -> None:
    flow = WebpageFlowBoard(flow_board(case.run()))
    for column in relations(flow).values():
        if column.kind == "other":
            continue
        values = flow.panels[column.panel].values.astype(np.float64)
        counts = np.isfinite(values)
        most = np.abs(values[counts]).max(initial=0)
        expected = computed(flow, column)[counts]
        np.testing.assert_allclose(values[counts], expected, atol=TOLERANCE * most, rtol=0)


POINT = """
const at = (stage) => panels.find((one) => one.stage === stage);
const move = (panel, row, column) => {
  const area = panel.box.cells.getBoundingClientRect();
  panel.box.cells.dispatchEvent(new PointerEvent("pointermove", {
    clientX: area.left + (column + 0.5) * panel.width,
    clientY: area.top + (row + 0.5) * panel.height, bubbles: true, pointerType: "mouse",
  }));
  return [tip.querySelector(".value").textContent,
    [...tip.querySelectorAll(".term")].map((one) => one.textContent),
    flowMarks.querySelectorAll("rect").length, flowMarks.querySelectorAll("path").length,
    flowMarks.querySelectorAll(".chosen").length];
};
"""


@pytest.mark.slow
@in_a_browser
def test_a_browser_says_how_a_cell_is_computed(tmp_path: Path) -> None:
    run = a_run(d_out=4)
    script = POINT + "return [move(at('weights'), 3, 1), move(at('context'), 3, 1)];"
    (weight, context), said = headless_browser.see(page(flow_board(run)), script, tmp_path)
    assert said == []
    trace = run.trace
    value, terms, frames, paths, chosen = weight
    assert value == format_number(float(trace.read("weights", (0, 3, 1))))
    masked = trace.read("masked", (0, 3)).astype(np.float64)
    powers = np.exp(masked)
    shares = f"{format_number(float(powers[1]))} ÷ {format_number(float(powers.sum()))}"
    assert terms[-1].endswith(shares)
    assert frames == 5  # weight, row of scores, score, query and key
    assert (paths, chosen) == (4, 1)  # one ribbon for each key that is not masked
    value, terms, frames, paths, chosen = context
    assert value == format_number(float(trace.read("context", (0, 3, 1))))
    assert len(terms) == 4
    sums = [float(term.split(" = ")[1].replace("−", "-")) for term in terms]
    assert sum(sums) == pytest.approx(float(trace.read("context", (0, 3, 1))), abs=3e-4)
    assert (frames, paths, chosen) == (3, 4, 0)


@pytest.mark.slow
@in_a_browser
def test_a_browser_shows_the_head_that_the_reader_selects(tmp_path: Path) -> None:
    run = a_run(d_out=4, heads=2)
    heads = [flow_board(run, heads=frozenset({head})) for head in range(2)]
    script = (
        POINT
        + """
    const buttons = [...document.querySelectorAll("#heads button")];
    const pressed = () => buttons.map((one) => one.getAttribute("aria-pressed"));
    const seen = [pressed(), move(at("weights"), 3, 1)[0], flowImage.src];
    buttons[1].click();
    seen.push(pressed(), move(at("weights"), 3, 1)[0], flowImage.src);
    const other = panels.findLast((one) => one.head === 0);
    other.box.cells.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true}));
    return [...seen, pressed(), tip.hidden];
    """
    )
    found, said = headless_browser.see(page(*heads), script, tmp_path)
    assert said == []
    first, value, image, second, other_value, other_image, last, is_hidden = found
    assert (first, second, last) == (["true", "false"], ["false", "true"], ["true", "false"])
    weights = run.trace.read("weights")
    assert value == format_number(float(weights[0, 3, 1]))
    assert other_value == format_number(float(weights[1, 3, 1])) != value
    assert image != other_image
    assert is_hidden


@pytest.mark.slow
@in_a_browser
def test_a_browser_shows_the_board_in_each_theme_and_width(tmp_path: Path) -> None:
    made = page(flow_board(a_run(d_in=4, d_out=4, block=TransformerBlockKind.PRE_NORM)))
    script = """
    await flowImage.decode();
    const before = flowImage.src, area = flowArea.getBoundingClientRect();
    document.getElementById("scheme").click();
    await flowImage.decode();
    const inside = panels.every((panel) => {
      const one = panel.box.cells.getBoundingClientRect();
      return one.left >= area.left && one.right <= area.right + 1 && one.width > 0;
    });
    return [before !== flowImage.src, flowImage.naturalWidth > 0, inside, area.width];
    """
    for width in (700, 1900):
        size = f"--window-size={width},900"
        (is_other, is_loaded, inside, across), said = headless_browser.see(
            made, script, tmp_path, size
        )
        assert (is_other, is_loaded, inside, said) == (True, True, True, [])
        assert across > 600


def test_an_image_of_the_board_is_there_for_each_theme() -> None:
    made = page(flow_board(a_run()), theme=DARK).decode("utf-8")
    for theme in (LIGHT, DARK, PRINT):
        assert made.count(f'class="flow-{theme.name}"') == 1


@pytest.mark.slow
@in_a_browser
def test_printed_cells_are_whole_pixels(tmp_path: Path) -> None:
    script = """
    dispatchEvent(new Event("beforeprint"));
    const areas = panels.map(({box}) => [box.figure.style.left, box.figure.style.top,
      box.cells.style.width, box.cells.style.height].map(parseFloat));
    dispatchEvent(new Event("afterprint"));
    return areas.flat();
    """
    run = a_run("Your journey starts with one step", heads=2, d_in=3, d_out=4)
    lengths, said = headless_browser.see(page(flow_board(run)), script, tmp_path)
    assert lengths == [round(length) for length in lengths] != []
    assert said == []
