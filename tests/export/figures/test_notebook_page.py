"""The interactive page for notebooks shows the given weights, and no token runs as code."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support import headless_browser
from tests.support.examples import examples
from tests.support.long_texts import held_shot, long_shot
from tests.support.small_runs import a_run
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.drawn_tiles import middle_rows
from visualizer.attention.roles import Role
from visualizer.attention.spec import MaskKind
from visualizer.errors import InputError
from visualizer.export.figures import notebook_page
from visualizer.export.figures.notebook_page import (
    NotebookPage,
    create_notebook_page,
    frame_notebook_page,
)
from visualizer.format import format_number
from visualizer.heatmap.colour_range import find_cached_range
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

pytestmark = pytest.mark.usefixtures("application")

in_a_browser = pytest.mark.skipif(
    headless_browser.FOUND is None, reason="there is no Chromium here"
)
HOSTILE = (
    "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "${alert(1)}", "`", "'",
    '" onload="alert(1)', "\u2028", "\u2029", "\u202eabc", "\u2066", "&lt;b&gt;", "<!--", "-->",
    "]]>", "\0", "\x1b[31m", "$script", "$data", "$rules", "\\u003cscript>", "</iframe>", "🙂", "",
)  # fmt: skip


def weights_of(*shape: int, seed: int = 0) -> np.ndarray:
    """Return random rows with few large weights, which sum to 1."""
    numbers = np.random.default_rng(seed).random(shape) ** 6
    return np.asarray(numbers / numbers.sum(-1, keepdims=True), dtype=np.float32)


def captured_run(weights: np.ndarray, *tokens: tuple[str, ...]) -> Run:
    return create_captured_run(CapturedAttention.from_array("some.npz", weights, *tokens))


def page_of(weights: np.ndarray, *tokens: tuple[str, ...], **more: Any) -> str:
    run = captured_run(weights, *tokens)
    return create_notebook_page([(run, tuple(range(len(weights))))], "some model", **more).html


def description(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="page">(.*?)</script>', page)
    assert found
    described: dict[str, Any] = json.loads(found[1])
    return described


def unpacked(page: str) -> list[np.ndarray]:
    """Return the weights of each layer as the script computes them."""
    described, found = description(page), []
    packed = re.findall(r'class="layer">(.*?)</script>', page)
    for layer, text in zip(described["layers"], packed, strict=True):
        content = zlib.decompress(base64.b64decode(text))
        planes = np.frombuffer(content, np.uint8).reshape(described["bytes"], -1)
        numbers = np.ascontiguousarray(planes.T).view("<f4" if described["bytes"] == 4 else "<u2")
        shape = layer["heads"], *described["shape"]
        found.append(numbers.reshape(shape) * described["step"])
    return found


def test_few_weights_are_exact() -> None:
    weights = weights_of(3, 2, 6, 6)
    page = page_of(weights)
    np.testing.assert_array_equal(unpacked(page), weights)
    assert description(page)["notes"] == []
    assert description(page)["sizes"] == "3 layers · 2 heads · 6 tokens"


@pytest.mark.parametrize(("most", "decimals"), [(2**21, 4), (0, 3)])
def test_more_weights_are_rounded(
    most: int, decimals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_page, "MAX_EXACT_CELLS", 0)
    monkeypatch.setattr(notebook_page, "MAX_FOUR_DECIMALS_CELLS", most)
    weights = weights_of(3, 2, 16, 16)
    weights[0, 1, 2, 3] = np.nan
    page = page_of(weights)
    assert description(page)["notes"] == [f"Weights are rounded to {decimals} decimal places."]
    found = np.array(unpacked(page))
    assert found[0, 1, 2, 3] == pytest.approx(65535 * 10.0**-decimals)
    found[0, 1, 2, 3] = np.nan
    np.testing.assert_allclose(found, weights, atol=0.5001 * 10.0**-decimals)


def test_weights_far_above_1_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_page, "MAX_EXACT_CELLS", 0)
    weights = weights_of(1, 1, 8, 8) * 1000
    weights[0, 0, 0, 0] = np.inf
    found = np.array(unpacked(page_of(weights)))
    largest = weights[np.isfinite(weights)].max()
    assert found[0, 0, 0, 0] == pytest.approx(largest)
    np.testing.assert_allclose(found.ravel()[1:], weights.ravel()[1:], atol=largest / 65534)


@pytest.mark.parametrize("limit", ["MAX_CELLS", "MAX_PACKED_BYTES"])
def test_a_long_text_shows_the_largest_weights_of_blocks(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = weights_of(2, 2, 50, 30)
    monkeypatch.setattr(notebook_page, "MAX_EXACT_CELLS", 0)
    monkeypatch.setattr(notebook_page, "MAX_FOUR_DECIMALS_CELLS", 0)
    monkeypatch.setattr(notebook_page, limit, 1500)
    page = page_of(weights)
    block = description(page)["block"]
    assert block == (2 if limit == "MAX_CELLS" else 4)
    assert description(page)["shape"] == [-(-50 // block), -(-30 // block)]
    for layer, found in zip(weights, unpacked(page), strict=True):
        for row, column in ((0, 0), (3, 5), (found.shape[1] - 1, found.shape[2] - 1)):
            part = layer[:, row * block : (row + 1) * block, column * block : (column + 1) * block]
            np.testing.assert_allclose(found[:, row, column], part.max((1, 2)), atol=0.5001e-3)
    assert f"largest weight of {block} queries on {block} keys" in description(page)["notes"][0]


def test_the_weights_of_a_long_text_are_computed_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shots = [make(90, heads=2, d_out=4) for make in (long_shot, held_shot)]
    pages = [create_notebook_page([(shot.run, (0,))], "a module").html for shot in shots]
    assert shots[0].run.trace.is_blockwise
    held = shots[1].run.trace.read(Role.WEIGHTS)
    for page in pages:
        np.testing.assert_allclose(unpacked(page)[0], held, rtol=1e-4, atol=1e-6)
    ends = [description(page)["layers"][0]["end"] for page in pages]
    assert ends[0] == ends[1]
    monkeypatch.setattr(notebook_page, "MAX_CELLS", 2 * 30 * 30)
    page = create_notebook_page([(shots[0].run, (0,))], "a module").html
    pooled = held[:, middle_rows(3, 90)].reshape(2, 30, 30, 3).max(-1)
    np.testing.assert_allclose(unpacked(page)[0], pooled, rtol=1e-4, atol=1e-6)
    assert "one of 3 queries on 3 keys" in description(page)["notes"][0]
    monkeypatch.setattr(notebook_page, "MAX_COMPUTED_CELLS", 100)
    with pytest.raises(InputError, match=r"too long for the interactive view\. Use figure"):
        create_notebook_page([(shots[0].run, (0,))], "a module")
    create_notebook_page([(shots[1].run, (0,))], "a module")


def test_too_many_heads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_PACKED_BYTES", "MAX_PRECISE_BYTES"):
        monkeypatch.setattr(notebook_page, limit, 10)
    with pytest.raises(InputError, match=r"Select fewer with layers, such as interactive"):
        page_of(weights_of(3, 2, 6, 6))


@pytest.mark.parametrize(
    "run",
    [
        captured_run(weights_of(3, 4, 20, 20)),
        captured_run(weights_of(3, 8, 200, 200)),  # only some rows are sampled
        a_run("a b c d e f", mask=MaskKind.CAUSAL, heads=2),
        a_run("a b c d e f", mask=MaskKind.WINDOW, window=2, heads=2),
    ],
    ids=["captured", "large", "causal", "window"],
)
def test_colours_have_the_range_of_the_window(run: Run) -> None:
    count = run.trace.axis_size("layer")
    page = create_notebook_page([(run, tuple(range(count)))], "some model").html
    shown = [(run.trace, run.trace.cached_stage_tensor(Role.WEIGHTS))]
    for at, layer in enumerate(description(page)["layers"]):
        leading = (at,) if count > 1 else ()
        expected = find_cached_range(shown, [leading], Role.WEIGHTS, is_share=True)
        assert (layer["end"], layer["endText"]) == (expected.end, str(expected))
    assert {*description(page)["tables"]} == {LIGHT.name, DARK.name}


def test_masked_cells_are_known() -> None:
    run = a_run("a b c d e", mask=MaskKind.CAUSAL, heads=2)
    described = description(create_notebook_page([(run, (0,))], "a module").html)
    bits = zlib.decompress(base64.b64decode(described["masks"][described["layers"][0]["mask"]]))
    cells = np.unpackbits(np.frombuffer(bits, np.uint8))[:25].reshape(5, 5)
    np.testing.assert_array_equal(cells, np.triu(np.ones((5, 5)), 1))
    assert description(page_of(weights_of(1, 1, 5, 5)))["layers"][0]["mask"] is None


def test_selected_layers_keep_their_indices() -> None:
    weights = weights_of(4, 2, 6, 6)
    page = page_of(weights, shown={1, 3})
    layers = description(page)["layers"]
    assert [(layer["number"], layer["index"]) for layer in layers] == [(1, 1), (3, 3)]
    np.testing.assert_array_equal(unpacked(page), weights[[1, 3]])


# ------------------------------------------------------------------------------ hostile tokens


class _Elements(HTMLParser):
    """Collects the elements of a page, with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text()), min_size=2, max_size=6))
@example([*HOSTILE])
@examples(40)
def test_tokens_are_only_data(tokens: list[str]) -> None:
    words = tuple(tokens)
    weights, harmless = weights_of(1, 1, len(words), len(words)), ("a",) * len(words)
    page, usual = page_of(weights, words), page_of(weights, harmless)
    assert _Elements(page).found == _Elements(usual).found
    assert description(page)["queries"] == [*words]
    data = re.search(r'id="page">(.*?)</script>', page, re.DOTALL)
    assert data
    assert data[1].isascii()
    assert not {*"<>&\n\r"} & {*data[1]}
    frame = frame_notebook_page(NotebookPage(page, 480))
    assert frame.isascii()
    (tag, attributes), *others = _Elements(frame).found
    assert [each for each, _ in others] == ["p"]
    assert (tag, attributes["sandbox"]) == ("iframe", "allow-scripts")
    assert attributes["srcdoc"] == html.unescape(html.escape(page))


def test_lone_surrogates_are_escaped() -> None:
    page = page_of(weights_of(1, 1, 2, 2), ("\ud800", "\udc00"))
    page.encode()
    assert description(page)["queries"] == ["\ud800", "\udc00"]


def test_the_page_may_not_load_anything() -> None:
    page = page_of(weights_of(1, 1, 2, 2))
    rules = next(
        attributes["content"]
        for tag, attributes in _Elements(page).found
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert rules
    assert rules.startswith("default-src 'none'; base-uri 'none'; form-action 'none'; script-src ")
    assert "unsafe" not in rules
    assert "http" not in page.replace("http-equiv", "")


# ----------------------------------------------------------------------------------- a browser

WORDS = ("the", " cat", " sat", " on", " a", "\n")
POINT = """
const point = (row, column) => {
  const area = matrix.getBoundingClientRect();
  matrix.dispatchEvent(new PointerEvent("pointermove", {bubbles: true,
    clientX: area.left + box.left + (column + 0.5) * box.cell,
    clientY: area.top + box.top + (row + 0.5) * box.cell}));
};
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const said = () => readout.textContent;
const shades = () => [...document.querySelectorAll(".token")].map((one) => one.style.background);
const here = () => [...document.querySelectorAll(".token.here")].map((one) => one.textContent);
// Observers are called in the order in which they were created, so the page's own is called before.
// The browser's clock, which limits how long it waits, stands still while messages are handled.
const sizeReport = async () => {
  let isReported = false;
  new ResizeObserver(() => { isReported = true; }).observe(document.documentElement);
  const {port1, port2} = new MessageChannel();
  while (!isReported) {
    const isReceived = new Promise((done) => { port1.onmessage = done; });
    port2.postMessage(null);
    await isReceived;
  }
};
"""


def seen_in_browser(page: str, script: str, folder: Path, *options: str) -> Any:
    found, messages = headless_browser.see(page.encode(), POINT + script, folder, *options)
    assert messages == []
    return found


@in_a_browser
def test_a_browser_shows_the_weight_under_the_pointer(tmp_path: Path) -> None:
    weights = weights_of(3, 2, 6, 6)
    script = """
      const found = [];
      for (const [at, of, row, column] of [[0, 0, 0, 0], [2, 1, 5, 3], [1, 0, 2, 1]]) {
        selectHead(at, of);
        point(row, column);
        found.push([document.querySelector("h2").textContent, said(), here()]);
      }
      return found;
    """
    expected, words = [], (*WORDS[:-1], "⏎")
    for place in ((0, 0, 0, 0), (2, 1, 5, 3), (1, 0, 2, 1)):
        at, of, row, column = place
        value = format_number(float(weights[place]))
        pair = f"“{words[row]}” (query {row + 1}) attends to “{words[column]}” (key {column + 1})"
        here = [words[each] for each in sorted({row, column})]
        told = f'{pair}: {value}  ["weights"]{[*place]}'
        expected.append([f"Layer {at + 1}, head {of + 1}", told, here])
    assert seen_in_browser(page_of(weights, WORDS), script, tmp_path) == expected


@in_a_browser
def test_rounded_weights_are_shown_with_their_decimals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_page, "MAX_EXACT_CELLS", 0)
    monkeypatch.setattr(notebook_page, "MAX_FOUR_DECIMALS_CELLS", 0)
    weights = weights_of(1, 1, 6, 6)
    weights[0, 0, 0, :3] = 0.12345, 0, np.nan
    script = "return [0, 1, 2].map((at) => { point(0, at); return said().match(/: (.*?) /)[1]; });"
    found = seen_in_browser(page_of(weights, WORDS), script, tmp_path)
    assert found == ["0.123", "<", "NaN"]


@in_a_browser
def test_a_token_shows_what_it_attends_to_and_what_attends_to_it(tmp_path: Path) -> None:
    weights = weights_of(1, 1, 6, 6)
    script = """
      const token = (at) => document.querySelectorAll(".token")[at];
      const at = (place, kind) =>
        token(place).dispatchEvent(new MouseEvent(kind, {bubbles: true}));
      const colour = (row, column) => {
        const entry = colourOf(layers[0], row, column, weight(row, column));
        token(0).style.background = colours.of(entry);
        return token(0).style.background;
      };
      const rows = [0, 1, 2, 3, 4, 5];
      const byRow = rows.map((one) => colour(2, one)), byColumn = rows.map((one) => colour(one, 2));
      at(2, "pointerover");
      const to = [said(), shades(), here()];
      document.getElementById("by").click();
      at(3, "pointerover");
      at(2, "pointerover");
      const by = [said(), shades(), here()];
      at(2, "click");
      document.getElementById("to").click();
      at(4, "pointerover");
      return {to, by, byRow, byColumn, pair: said()};
    """
    found = seen_in_browser(page_of(weights, WORDS), script, tmp_path)
    labels = (*WORDS[:-1], "⏎")

    def largest(values: np.ndarray) -> str:
        order = np.argsort(-values)[:4]
        return ", ".join(f"“{labels[at]}” {format_number(float(values[at]))}" for at in order)

    told = f"“ sat” (query 3) attends most to {largest(weights[0, 0, 2])}"
    assert found["to"] == [told, found["byRow"], [" sat"]]
    told = f"“ sat” (key 3) is attended to most by {largest(weights[0, 0, :, 2])}"
    assert found["by"] == [told, found["byColumn"], [" sat"]]
    assert found["pair"].startswith(
        f"“ sat” (query 3) attends to “ a” (key 5): {weights[0, 0, 2, 4]:.4f}"
    )


@in_a_browser
def test_the_keyboard_moves_between_heads_and_cells(tmp_path: Path) -> None:
    script = """
      const title = () => document.querySelector("h2").textContent, found = [];
      document.getElementById("heads").focus();
      for (const key of ["ArrowUp", "ArrowDown", "ArrowRight", "ArrowRight"]) {
        press(key);
        found.push(title());
      }
      press("Enter");
      for (const key of ["ArrowDown", "ArrowRight", "ArrowLeft", "ArrowLeft"]) press(key);
      found.push(document.activeElement.id, pinned);
      press("PageDown");
      found.push(title());
      press("Escape");
      found.push(document.activeElement.id, pinned);
      return found;
    """
    assert seen_in_browser(page_of(weights_of(3, 2, 6, 6), WORDS), script, tmp_path) == [
        *("Layer 1, head 1", "Layer 2, head 1", "Layer 2, head 2", "Layer 2, head 2"),
        *("matrix", {"row": 1, "column": 0}),
        *("Layer 3, head 1", "heads", None),
    ]


@in_a_browser
def test_a_click_opens_a_head_and_pins_a_cell(tmp_path: Path) -> None:
    script = """
      const area = map.getBoundingClientRect();
      map.dispatchEvent(new MouseEvent("click", {bubbles: true,
        clientX: area.left + grid.left + 1.5 * grid.across,
        clientY: area.top + grid.top + 2.5 * grid.down}));
      const title = document.querySelector("h2").textContent;
      const cell = matrix.getBoundingClientRect();
      const click = () => matrix.dispatchEvent(new MouseEvent("click", {bubbles: true,
        clientX: cell.left + box.left + 3.5 * box.cell,
        clientY: cell.top + box.top + 1.5 * box.cell}));
      click();
      const once = pinned;
      click();
      return [title, once, pinned];
    """
    found = seen_in_browser(page_of(weights_of(3, 2, 6, 6), WORDS), script, tmp_path)
    assert found == ["Layer 3, head 2", {"row": 1, "column": 3}, None]


@in_a_browser
def test_the_small_heatmaps_have_the_colours_of_the_largest_weights(tmp_path: Path) -> None:
    weights = weights_of(2, 2, 100, 100)
    page = page_of(weights)
    script = """
      const one = layers[1], side = 25;
      return [[...smallEntries(one, 1, 4, side, side)], one.end];
    """
    entries, end = seen_in_browser(page, script, tmp_path)
    pooled = np.array(unpacked(page))[1, 1].reshape(25, 4, 25, 4).max((1, 3))
    expected = np.minimum(252, np.floor(pooled / end * 252 + 0.5))
    np.testing.assert_allclose(np.reshape(entries, (25, 25)), expected, atol=1)


@in_a_browser
def test_two_texts_shade_each_other(tmp_path: Path) -> None:
    weights = weights_of(1, 2, 2, 3)
    script = """
      point(1, 2);
      const [hidden, all] = [document.getElementById("directions").hidden, shades()];
      return [hidden, here(), all.map((shade) => shade !== ""), box.cell > 20];
    """
    found = seen_in_browser(page_of(weights, ("le", "chat"), ("a", "b", "c")), script, tmp_path)
    assert found == [True, ["chat", "c"], [True] * 5, True]


@in_a_browser
@pytest.mark.parametrize("width", [420, 900])
def test_hostile_tokens_run_nothing_and_everything_fits(width: int, tmp_path: Path) -> None:
    words = (*HOSTILE, "\ud800", "x" * 300)
    script = """
      point(2, 1);
      const own = document.querySelectorAll("img, iframe, body script:not([type])");
      const texts = [...document.querySelectorAll(".token")].map((one) => one.textContent);
      return {count: own.length - 2, texts, across: document.body.scrollWidth - innerWidth,
        label: document.querySelector("h2").textContent};
    """
    page = page_of(weights_of(1, 1, len(words), len(words)), words)
    options = (f"--window-size={width},600",)
    found = seen_in_browser(
        page, f"window.alert = () => {{ throw 1; }};{script}", tmp_path, *options
    )
    assert found["count"] == 0
    assert found["across"] <= 0
    shown = zip(found["texts"], words, strict=True)
    for text, word in shown:
        if word.strip() and word.isprintable():
            assert text == word


@in_a_browser
def test_the_script_runs_in_a_frame_of_a_page_with_another_encoding(tmp_path: Path) -> None:
    frame = frame_notebook_page(NotebookPage(page_of(weights_of(1, 2, 6, 6), WORDS), 480))
    outer = f"""<!-- script-src --><meta charset="windows-1252">
      <body><script>const ready = Promise.resolve();</script>{frame}</body>"""
    script = "return document.querySelector('iframe').clientHeight;"
    assert headless_browser.see(outer.encode(), script, tmp_path) == (480, [])


@in_a_browser
def test_colours_follow_the_system_until_they_are_chosen(tmp_path: Path) -> None:
    page = page_of(weights_of(1, 2, 6, 6))
    script = """
      const button = document.getElementById("scheme");
      const state = () => [getComputedStyle(document.body).color, button.textContent];
      const before = state();
      button.click();
      return [before, state()];
    """
    dark, light = (
        [
            f"rgb({', '.join(str(int(ink[at : at + 2], 16)) for at in (1, 3, 5))})",
            f"{other} colours",
        ]
        for ink, other in ((DARK.ink, "Light"), (LIGHT.ink, "Dark"))
    )
    assert seen_in_browser(page, script, tmp_path) == [light, dark]
    options = "--blink-settings=preferredColorScheme=0"
    assert seen_in_browser(page, script, tmp_path, options) == [dark, light]


@in_a_browser
def test_the_page_is_not_drawn_again_while_its_size_is_the_same(tmp_path: Path) -> None:
    script = """
      let count = 0;
      draw = () => { count++; };
      await sizeReport();
      return count;
    """
    assert seen_in_browser(page_of(weights_of(1, 2, 6, 6)), script, tmp_path) == 0


@in_a_browser
def test_the_page_is_drawn_again_when_its_size_changes_without_an_event(tmp_path: Path) -> None:
    script = """
    const before = box.cell;
    document.documentElement.style.height = "200px";
    await sizeReport();
    return [before, box.cell];
    """
    page = page_of(weights_of(1, 2, 6, 6), WORDS)
    before, after = seen_in_browser(page, script, tmp_path)
    assert 0 < after < before
