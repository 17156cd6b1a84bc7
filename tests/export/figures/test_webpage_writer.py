"""A board as a web page: the embedded data match the board, and a real browser displays them."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import zlib
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import headless_browser
from tests.support.screens import resolved
from tests.support.small_runs import a_run, board
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.run import run as compute
from visualizer.attention.spec import AttentionSpec, Device, Dtype, MaskKind
from visualizer.documents.embedded_document import find_embedded_document
from visualizer.errors import InputError
from visualizer.export.figures import webpage_writer
from visualizer.export.figures.webpage_writer import max_cells_per_side, write_webpage
from visualizer.format import format_number
from visualizer.heatmap import colour_mapping
from visualizer.heatmap.board import Board
from visualizer.heatmap.comparison_board_presenter import present_comparison_board
from visualizer.session.comparison import format_signed
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.view import View
from visualizer.session.view_options import ColourLimits, ColourOptions
from visualizer.session.zoom_ranges import ZoomRange
from visualizer.widgets.theme import DARK, LIGHT, PRINT, Theme

if TYPE_CHECKING:
    from pathlib import Path

in_a_browser = pytest.mark.skipif(
    headless_browser.FOUND is None, reason="there is no Chromium here"
)
STAGES = frozenset({"scores", "weights", "dropped", "context"})
HOSTILE = [
    "</script><script>window.broken = 1</script>",
    '<img src=x onerror="window.broken = 1">',
    "<!--", "]]>", "&lt;", '"', "'", "\\", "\u2028", "\ud800", "\0", "$cells", "$script",
    "猫", "سلام",
    '<script type="application/octet-stream" id="document">eA==</script>',
]  # fmt: skip


def page(
    shown: Board, title: str = "A title", theme: Theme | None = LIGHT, document: bytes = b""
) -> bytes:
    file = io.BytesIO()
    write_webpage([shown], title, "A caption", theme, file, document)
    return file.getvalue()


def usual(**fields: Any) -> Board:
    return board(a_run(dropout=0.5), stages=STAGES, **fields)


def of_tokens(tokens: list[str]) -> Board:
    return board(compute((tuple(tokens),), AttentionSpec(device=Device.CPU)), stages=STAGES)


def parts(made: bytes, pattern: str) -> list[str]:
    return re.findall(pattern, made.decode("utf-8"))


def described(made: bytes) -> dict[str, Any]:
    """Return the description of a page together with that of its only board."""
    (text,) = parts(made, r'<script type="application/json" id="page">(.*?)</script>')
    read: dict[str, Any] = json.loads(text)
    (only,) = read.pop("boards")
    return {**read, **only}


def unpacked(made: bytes) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return each panel's colours, marks and values, as the page's script decodes them."""
    panels = [panel for column in described(made)["columns"] for panel in column]
    packed = parts(made, r'<script type="application/octet-stream" class="cells">(.*?)</script>')
    found = []
    for panel, text in zip(panels, packed, strict=True):
        content = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
        count = math.prod(panel["shape"])
        planes = content[2 * count :].reshape(panel["bytes"], count)
        values = np.ascontiguousarray(planes.T).view(f"<f{panel['bytes']}")
        three = (content[:count], content[count : 2 * count], values)
        found.append(tuple(part.reshape(panel["shape"]) for part in three))
    return found  # type: ignore[return-value]


class Tags(HTMLParser):
    def __init__(self, made: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(made.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


# ----------------------------------------------------------------------------------- the file


@pytest.mark.parametrize("dtype", Dtype)
@pytest.mark.parametrize("room", [256, 4])
def test_the_packed_data_match_the_drawn_cells(dtype: Dtype, room: int) -> None:
    shown = board(a_run(dropout=0.5, dtype=dtype), stages=STAGES, room=room)
    packed = unpacked(page(shown))
    assert len(packed) == len(shown.heatmaps) == 8
    for heatmap, (entries, marks, values) in zip(shown.heatmaps, packed, strict=True):
        np.testing.assert_array_equal(values, heatmap.values)
        np.testing.assert_array_equal(entries, colour_mapping.colour_indices(heatmap))
        bits = {
            webpage_writer.FORBIDDEN: heatmap.forbidden,
            webpage_writer.DROPPED: heatmap.dropped,
        }
        for bit, cells in bits.items():
            expected = np.zeros(values.shape, bool) if cells is None else cells
            np.testing.assert_array_equal(marks & bit != 0, expected)


def test_hidden_cells_and_cells_beyond_custom_limits_are_marked() -> None:
    typed = ColourOptions(
        limits=ColourLimits.TYPED, typed=(("scores", -0.1, 0.1), ("weights", 0.2, 0.3))
    )
    shown = board(a_run(), stages=STAGES, lens=WeightTransform.WITHOUT_FIRST, colouring=typed)
    for heatmap, (_, marks, _) in zip(shown.heatmaps, unpacked(page(shown)), strict=True):
        for bit, note in ((webpage_writer.ABOVE, "◥"), (webpage_writer.BELOW, "◢")):
            told = [re.search(rf"{note} (\d+)", said) for said in heatmap.notes]
            counts = [int(found.group(1)) for found in told if found]
            assert int((marks & bit != 0).sum()) == sum(counts)
        if heatmap.stage == "weights":
            assert (marks[:, 0] & webpage_writer.HIDDEN).all()


def test_panels_say_what_the_window_says() -> None:
    run = a_run(dropout=0.5)
    shown = board(run, stages=STAGES, folds=frozenset(HeadAggregate), room=4)
    told = [panel for column in described(page(shown))["columns"] for panel in column]
    for heatmap, panel in zip(shown.heatmaps, told, strict=True):
        assert (panel["title"], panel["label"]) == (heatmap.title, heatmap.label)
        assert panel["notes"] == list(heatmap.notes)
        assert (panel["pooled"] != "") == heatmap.is_pooled
    assert {panel["isLabelled"] for panel in told[:4]} == {True}
    assert {panel["isLabelled"] for panel in told[4:]} == {False}


def test_a_part_of_a_text_is_reported_as_one() -> None:
    shown = usual(zoom=ZoomRange(range(1, 3), range(2, 6)))
    axis = described(page(shown))["columns"][0][0]["columns"]
    assert (axis["start"], axis["stop"], axis["count"]) == (2, 6, 6)


@given(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), min_size=1, max_size=5))
def test_no_token_becomes_markup(tokens: list[str]) -> None:
    made = page(of_tokens(tokens), title=tokens[0])
    plain = page(of_tokens(["a"] * len(tokens)))
    assert Tags(made).found == Tags(plain).found
    assert find_embedded_document(made) is None


def test_a_page_needs_no_network_and_runs_its_own_script_only() -> None:
    made = page(usual()).decode("utf-8")
    assert not re.search(r"https?:|ftp:|@import|url\(| src=| href=", made)
    assert "innerHTML" not in made
    rules = parts(made.encode(), r'http-equiv="Content-Security-Policy" content="(.*?)"')
    assert rules[0].startswith("default-src 'none'")
    assert "unsafe" not in rules[0]


def test_a_document_is_taken_out_of_a_page_as_it_was_put_in() -> None:
    content = bytes(range(256)) * 3
    assert find_embedded_document(page(usual(), document=content)) == content
    assert find_embedded_document(page(usual())) is None


def test_a_page_without_panels_is_a_page() -> None:
    assert described(page(Board()))["columns"] == []


@pytest.mark.parametrize("panels", [1, 2, 8, 48, 1000])
def test_there_is_room_for_so_many_cells(panels: int) -> None:
    side = max_cells_per_side(panels)
    cells = panels * side**2
    assert cells * webpage_writer.BYTES_PER_CELL <= webpage_writer.MAX_CELL_BYTES
    assert panels * (side + 8) ** 2 * webpage_writer.BYTES_PER_CELL > webpage_writer.MAX_CELL_BYTES


def test_a_page_that_no_browser_could_show_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webpage_writer, "MAX_CELL_BYTES", 8 * 36 * 6 - 1)
    shown = board(a_run(), stages=frozenset({"scores", "scaled", "masked", "weights"}))
    with pytest.raises(InputError, match="A web page with 288 cells is too large") as refused:
        page(shown)
    assert refused.value.field == "export"


# --------------------------------------------------------------------------------- in a browser

POINT = """
const at = (stage, head) => panels.find((one) => one.stage === stage && one.head === head);
const move = (panel, row, column, kind = "pointermove") => {
  const area = panel.box.cells.getBoundingClientRect();
  panel.box.cells.dispatchEvent(new PointerEvent(kind, {
    clientX: area.left + (column + 0.5) * panel.width,
    clientY: area.top + (row + 0.5) * panel.height, bubbles: true, pointerType: "mouse",
  }));
};
const press = (key) => document.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const words = () => (tip.hidden ? "" : tip.textContent);
"""


@in_a_browser
def test_a_browser_shows_it_in_the_windows_colours_and_complains_of_nothing(tmp_path: Path) -> None:
    shown = usual()
    script = """
    const look = () => panels.map((panel) => {
      const {width, height} = panel.box.colours;
      const copy = new OffscreenCanvas(width, height).getContext("2d");
      copy.drawImage(panel.box.colours, 0, 0);
      const data = copy.getImageData(0, 0, width, height).data;
      return [width, height, Array.from(new Uint32Array(data.buffer))];
    });
    const light = look();
    document.getElementById("scheme").click();
    return [light, look()];
    """
    both, said = headless_browser.see(page(shown), script, tmp_path)
    assert said == []
    for theme, seen in zip((LIGHT, DARK), both, strict=True):
        for heatmap, (width, height, pixels) in zip(shown.heatmaps, seen, strict=True):
            words = np.array(pixels, dtype="<u4").reshape(height, width)
            red, green, blue = (words >> shift & 255 for shift in (0, 8, 16))
            expected = colour_mapping.colour_table(heatmap.colour.map, theme)[
                colour_mapping.colour_indices(heatmap)
            ]
            np.testing.assert_array_equal(0xFF000000 | red << 16 | green << 8 | blue, expected)


@pytest.mark.slow
@in_a_browser
def test_numbers_are_written_as_in_the_window(tmp_path: Path) -> None:
    draws = np.random.default_rng(1)
    sizes = [
        *draws.normal(size=500), *10 ** draws.uniform(-12, 30, 500), *(np.arange(1, 65) / 32),
        *(np.arange(1, 33) / 8 + 1000), 5e-5, 4.9999e-5, 99999.99996, 1e5, 124_500, 125_500,
        995_000, 999_500, 1.235e22, 1e22, 0.0, 5e-324, 1.7e308,
    ]  # fmt: skip
    values = [float(sign * size) for size in sizes for sign in (1, -1)]
    values += [float(np.float32(value)) for value in values if abs(value) < 1e38]
    script = f"const all = {json.dumps(values)};"
    script += "return [[NaN, Infinity, -Infinity].map((one) => formatNumber(one)),"
    script += "all.map((one) => formatNumber(one)), all.map((one) => formatNumber(one, 2))];"
    (words, four, two), said = headless_browser.see(page(Board()), script, tmp_path)
    assert words == ["NaN", "∞", "−∞"]
    assert four == [format_number(value) for value in values]
    assert two == [format_number(value, 2) for value in values]
    assert said == []


@in_a_browser
def test_pointing_and_walking_light_the_same_tokens_everywhere(tmp_path: Path) -> None:
    script = (
        POINT
        + """
    const lit = () => panels.map((panel) => [panel.stage, panel.head,
      [...panel.box.figure.querySelectorAll(".lit")].map((one) => one.textContent),
      panel.box.figure.querySelectorAll(".band").length]);
    const saw = {};
    move(at("weights", 1), 4, 1);
    saw.pointed = [words(), lit()];
    move(at("weights", 1), 1, 4);
    saw.forbidden = words();
    move(at("dropped", 0), 0, 0);
    saw.dropped = words();
    move(at("context", 0), 2, 0);
    saw.context = [words(), lit()];
    const away = new PointerEvent("pointerleave", {pointerType: "mouse"});
    at("context", 0).box.cells.dispatchEvent(away);
    saw.left = [words(), document.querySelectorAll(".lit, .band, .here").length];
    const scores = at("scores", 0);
    scores.box.cells.focus();
    saw.first = words();
    press("ArrowRight");
    press("ArrowRight");
    saw.walked = words();
    for (let step = 0; step < 4; step++) press("ArrowRight");
    saw.next = [words(), document.activeElement.getAttribute("aria-label")];
    press("Escape");
    saw.escaped = words();
    return saw;
    """
    )
    run = a_run(dropout=0.5)
    saw, said = headless_browser.see(page(usual()), script, tmp_path)
    weight = format_number(float(run.trace.read("weights", (1, 4, 1))))
    pointed, lit = saw["pointed"]
    assert pointed == f"Weights, head 2: query 5 “one”, key 2 “journey” {weight}"
    labels = {(stage, head): found for stage, head, found, _ in lit}
    assert labels["scores", 0] == labels["scores", 1] == ["journey", "one"]
    assert labels["weights", 0] == labels["dropped", 0] == ["journey"]
    assert labels["context", 0] == []
    assert {(stage, count) for stage, _, _, count in lit} == {
        ("scores", 2), ("weights", 2), ("dropped", 2), ("context", 1),
    }  # fmt: skip
    assert saw["forbidden"] == "Weights, head 2: query 2 “journey”, key 5 “one” masked"
    assert saw["dropped"].endswith(" dropped")
    context = format_number(float(run.trace.read("context", (0, 2, 0))))
    assert saw["context"][0] == f"Context, head 1: query 3 “starts”, column 1 {context}"
    assert saw["left"] == ["", 0]
    first, there = (format_number(float(run.trace.read("scores", (0, 0, at)))) for at in (0, 2))
    assert saw["first"] == f"Scores, head 1: query 1 “Your”, key 1 “Your” {first}"
    assert saw["walked"] == f"Scores, head 1: query 1 “Your”, key 3 “starts” {there}"
    assert saw["next"][0].startswith("Weights, head 1: query 1 “Your”, key 1 “Your” ")
    assert saw["next"][1].startswith("Weights, Head 1, 6 × 6")
    assert saw["escaped"] == ""
    assert said == []


@pytest.mark.slow
@in_a_browser
def test_pooled_cells_say_so_and_stay_within_their_panel(tmp_path: Path) -> None:
    run = a_run(" ".join(f"w{at}" for at in range(100)))
    shown = board(run, stages=frozenset({"scores"}), room=16)
    script = POINT + "move(at('scores', 0), 14, 13); return words();"
    saw, said = headless_browser.see(page(shown), script, tmp_path)
    value = format_number(float(shown.heatmaps[0].values[14, 13]))
    assert saw == (
        "Scores, head 1: queries 99–100 “w98 … w99”, keys 92–98 “w91 … w97” "
        f"{value}, largest magnitude of 7 × 7"
    )
    assert said == []


@in_a_browser
def test_a_difference_has_its_sign_and_says_of_what_it_is(tmp_path: Path) -> None:
    kept = Comparison(against=ComparisonKind.KEPT, kept=a_run())
    live = a_run(mask=MaskKind.NONE)
    view = View(stages=frozenset({"weights"}), comparison=kept)
    shown = present_comparison_board(resolved(live, view), Board())
    change = shown.columns[2][0]
    script = (
        POINT
        + """
    const change = board.columns[2][0];
    return [[0, 0], [0, 1]].map(([row, column]) => (move(change, row, column), words()));
    """
    )
    (less, more), said = headless_browser.see(page(shown), script, tmp_path)
    whose = "B − A, weights, head 1: query 1 “Your”, key"
    assert less == f"{whose} 1 “Your” {format_signed(float(change.values[0, 0]))}"
    allowed = format_signed(float(change.values[0, 1]))
    assert more == f"{whose} 2 “journey” {allowed}, masked in one of the two"
    assert allowed.startswith("+")
    assert said == []


@in_a_browser
def test_no_token_or_foreign_script_runs_and_every_token_is_seen(tmp_path: Path) -> None:
    script = (
        POINT
        + """
    move(panels[0], 0, 1);
    document.querySelector("summary").click();
    await new Promise((done) => setTimeout(done, 100));
    const table = document.querySelector("table");
    const texts = (parent, chosen) =>
      [...parent.querySelectorAll(chosen)].map((one) => one.textContent);
    return {
      broken: typeof window.broken, words: words(), heading: texts(document, "h1")[0],
      labels: texts(panels[0].box.left, ".label:not(.lit)"),
      columns: texts(table, "thead th"), cells: texts(table, "td"),
      images: document.images.length, title: document.title,
    };
    """
    )
    shown = of_tokens(HOSTILE[:6])
    made = page(shown, title=HOSTILE[0])
    made = made.replace(b"</body>", b"<script>window.broken = 1</script></body>")
    saw, said = headless_browser.see(made, script, tmp_path)
    assert saw["broken"] == "undefined"
    assert saw["images"] == 0
    assert saw["heading"] == saw["title"] == HOSTILE[0]
    assert saw["labels"] == HOSTILE[:6]
    assert f"query 1 “{HOSTILE[0]}”, key 2 “{HOSTILE[1]}”" in saw["words"]
    assert saw["columns"] == ["query ↓  key →", *HOSTILE[:6]]
    assert saw["cells"] == list(map(format_number, shown.heatmaps[0].values.ravel().tolist()))
    (foreign_script,) = said
    assert "Content Security Policy" in foreign_script


def background(theme: Theme) -> str:
    """Return the background of a theme in the format that browsers return."""
    channels = (int(theme.paper[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({', '.join(map(str, channels))})"


@pytest.mark.slow
@in_a_browser
def test_light_and_dark_follow_the_system_until_one_is_chosen(tmp_path: Path) -> None:
    script = """
    const seen = [], button = document.getElementById("scheme");
    const look = () =>
      seen.push(getComputedStyle(document.body).backgroundColor, button.textContent);
    look();
    button.click();
    look();
    dispatchEvent(new Event("beforeprint"));
    look();
    dispatchEvent(new Event("afterprint"));
    look();
    return seen;
    """
    light = background(LIGHT), "Dark colours"
    dark = background(DARK), "Light colours"
    paper = background(PRINT), "Dark colours"
    saw, said = headless_browser.see(page(usual(), theme=None), script, tmp_path)
    assert saw == [*light, *dark, *paper, *dark]
    saw, more = headless_browser.see(
        page(usual(), theme=None), script, tmp_path, "--blink-settings=preferredColorScheme=0"
    )
    assert saw == [*dark, *light, *paper, *light]
    assert said + more == []


@pytest.mark.slow
@in_a_browser
@pytest.mark.parametrize("count", [1, 64])
def test_texts_of_any_length_are_shown_whole(count: int, tmp_path: Path) -> None:
    run = a_run(" ".join(f"w{at}" for at in range(count)), heads=12, d_out=24)
    shown = board(run, stages=frozenset({"scores", "weights", "context"}))
    script = """
    return [panels.length, document.documentElement.scrollWidth <= innerWidth,
      panels.map((panel) => panel.box.cells.getBoundingClientRect().width / panel.shape[1])];
    """
    (panels, fits, widths), said = headless_browser.see(
        page(shown, describe_value_origin(run)), script, tmp_path
    )
    assert panels == 36
    assert fits
    assert all(width >= 1 and width == round(width) for width in widths)
    assert said == []
