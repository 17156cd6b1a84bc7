"""SVG and PDF files have the given size and contain all text, and every cell in its colour."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import unicodedata
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QByteArray
from PySide6.QtGui import QFontDatabase, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from tests.support.snapshots import HARD, SENTENCE, cell_colours, numbers, shot
from visualizer.errors import InputError
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    MM_PER_INCH,
    PIXELS_PER_INCH,
    FigureSettings,
)
from visualizer.export.figures import svg_pdf_writer
from visualizer.export.figures.figure_page import create_figure_content, lay_out_page
from visualizer.export.figures.svg_pdf_writer import draw_pdf, draw_svg, draw_svg_picture
from visualizer.export.writers import WRITERS
from visualizer.heatmap.panel_margins_paint import paint_column_headers
from visualizer.progress import CancelledError, ignore_progress
from visualizer.widgets.theme import PRINT

if TYPE_CHECKING:
    from pathlib import Path

    from PySide6.QtWidgets import QApplication

    from visualizer.export.figures.figure_page import FigurePage

pytestmark = pytest.mark.usefixtures("application")
SVG = "{http://www.w3.org/2000/svg}"


def page(text: str = SENTENCE, **settings: Any) -> FigurePage:
    return lay_out_page(
        create_figure_content(shot(text, **settings), FigureSettings()), FigureSettings()
    )


def texts(drawn: bytes) -> list[str]:
    return ["".join(one.itertext()) for one in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


def rendered(drawn: bytes, made: FigurePage, times: float = 1) -> QImage:
    image = QImage((made.size * times).toSize(), QImage.Format.Format_RGB32)
    painter = QPainter(image)
    QSvgRenderer(QByteArray(drawn)).render(painter)
    painter.end()
    return image


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here")
    return found


def assert_colours(image: QImage, made: FigurePage, tolerance: int = 3) -> None:
    ratio = image.width() / made.size.width()
    for x, y, colour in cell_colours(made):
        seen = image.pixelColor(int(x * ratio), int(y * ratio))
        pairs = zip(seen.getRgb(), colour.getRgb(), strict=True)  # type: ignore[call-overload]
        assert max(abs(one - other) for one, other in pairs) <= tolerance, (x, y)


# --------------------------------------------------------------------------------------- SVG


def test_every_word_and_number_is_a_text() -> None:
    made = page()
    found = texts(draw_svg(made))
    assert set(SENTENCE.split()) <= set(found)
    assert numbers(made) <= set(found)
    assert made.figure.caption in " ".join(found)


def test_stages_have_letters_before_their_names() -> None:
    shown = shot(stages=("masked", "weights", "context"))
    content = create_figure_content(shown, FIGURE_PRESETS["Paper page"])
    titles = [column[0].title for column in content.board.columns]
    drawn = draw_svg(lay_out_page(content, FIGURE_PRESETS["Paper page"]))
    left = {
        "".join(one.itertext()).strip(): float(one.attrib["x"])
        for one in ElementTree.fromstring(drawn).iter(f"{SVG}text")
    }
    order = [left[name] for pair in zip("abc", titles, strict=True) for name in pair]
    assert order == sorted(order)
    assert "a" not in texts(draw_svg(page()))


def test_every_column_has_its_heading() -> None:
    (header,) = page().layout.column_headers
    headers = tuple(replace(header, left=100.0 * at) for at in range(40))

    def paint(painter: QPainter) -> None:
        paint_column_headers(painter, headers, PRINT, has_letters=True)

    assert texts(draw_svg_picture(4000, 50, paint)).count(header.heatmap.title) == 40


def test_words_of_every_script_are_valid_and_whole() -> None:
    made = page(HARD)
    found = "".join(texts(draw_svg(made)))
    for label in made.figure.board.heatmaps[0].rows.labels:
        assert label in found


@pytest.mark.slow
@pytest.mark.parametrize("odd", ["a\0b", "a\x1bb", "a\ud800b", "a\uffffb", "\x7f\x85"])
def test_characters_that_xml_forbids_are_replaced(odd: str) -> None:
    made = page(f"Your {odd} step")
    assert ElementTree.fromstring(draw_svg(made)).tag == f"{SVG}svg"
    assert draw_pdf(made, b"").startswith(b"%PDF")


def test_texts_name_an_installed_font_and_keep_their_ends_in_another_one() -> None:
    made = page()
    drawn = list(ElementTree.fromstring(draw_svg(made)).iter(f"{SVG}text"))
    families = {text.attrib["font-family"].removesuffix(", sans-serif") for text in drawn}
    assert families <= {*QFontDatabase.families()}
    labels = {*made.figure.board.heatmaps[0].rows.labels}
    ends = {
        round(float(text.attrib["x"]) + float(text.attrib["textLength"]))
        for text in drawn
        if "".join(text.itertext()).strip() in labels and float(text.attrib["x"]) > 0  # not rotated
    }
    assert len(ends) == 1, ends  # flush right


def test_an_svg_is_as_large_as_requested() -> None:
    figure_settings = FIGURE_PRESETS["Paper column"]
    made = lay_out_page(create_figure_content(shot(), figure_settings), figure_settings)
    root = ElementTree.fromstring(draw_svg(made))
    assert root.get("width") == "85.0000mm"
    _, _, width, height = map(float, root.get("viewBox", "").split())
    assert width == pytest.approx(85 / MM_PER_INCH * PIXELS_PER_INCH, abs=0.01)
    assert float(root.get("height", "")[:-2]) == pytest.approx(height * 25.4 / 96, abs=0.01)


def test_an_svg_describes_itself() -> None:
    made = page()
    root = ElementTree.fromstring(draw_svg(made))
    assert root.findtext(f"{SVG}title") == made.figure.name == "Weights"
    assert root.findtext(f"{SVG}desc") == made.figure.caption


@pytest.mark.slow
def test_cells_have_their_colours_in_qt() -> None:
    made = page()
    assert_colours(rendered(draw_svg(made), made), made)


@pytest.mark.slow
def test_large_panels_have_their_colours() -> None:
    made = page(" ".join(map(str, range(70))), heads=1)
    assert made.figure.board.heatmaps[0].values.size > 64 * 64
    assert_colours(rendered(draw_svg(made), made, 2), made)


def test_cells_have_their_colours_in_another_program(tmp_path: Path) -> None:
    made = page()
    path = tmp_path / "a.svg"
    path.write_bytes(draw_svg(made))
    out = str(tmp_path / "a.png")
    subprocess.run([tool("rsvg-convert"), "-o", out, str(path)], check=True, timeout=60)
    assert_colours(QImage(out), made)


# --------------------------------------------------------------------------------------- PDF


def sides(drawn: bytes) -> tuple[float, float]:
    found = re.search(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", drawn)
    assert found
    return float(found[1]), float(found[2])


def test_a_page_is_exactly_as_large_as_the_figure() -> None:
    figure_settings = FIGURE_PRESETS["Paper column"]
    made = lay_out_page(create_figure_content(shot(), figure_settings), figure_settings)
    width, height = sides(draw_pdf(made, b""))
    assert width == pytest.approx(85 / 25.4 * 72, abs=0.5)
    assert height == pytest.approx(made.size.height() * 0.75, abs=0.5)


def test_nothing_is_blurred_by_jpeg() -> None:
    drawn = draw_pdf(page(), b"")
    assert b"/DCTDecode" not in drawn
    assert b"/Subtype /Image" in drawn
    assert b"/ToUnicode" in drawn  # the text of the PDF is searchable


def test_every_word_and_number_is_found_in_a_page(tmp_path: Path) -> None:
    made = page()
    path = tmp_path / "a.pdf"
    path.write_bytes(draw_pdf(made, b""))
    asked = [tool("pdftotext"), "-layout", str(path), "-"]
    said = subprocess.run(asked, check=True, capture_output=True, timeout=60).stdout.decode()
    found = set(unicodedata.normalize("NFKC", said).split())
    assert set(SENTENCE.split()) <= found
    assert numbers(made) <= found


def test_cells_have_their_colours_on_paper(tmp_path: Path) -> None:
    made = page()
    (tmp_path / "a.pdf").write_bytes(draw_pdf(made, b""))
    asked = [tool("pdftoppm"), "-r", "96", "-png", "-singlefile"]
    subprocess.run([*asked, str(tmp_path / "a.pdf"), str(tmp_path / "a")], check=True, timeout=60)
    assert_colours(QImage(str(tmp_path / "a.png")), made)


def test_a_page_too_large_for_a_pdf_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svg_pdf_writer, "MAX_PDF_SIDE_POINTS", 100)
    with pytest.raises(InputError, match="too large for a PDF"):
        draw_pdf(page(), b"")


def test_text_in_a_pdf_can_be_searched() -> None:
    made = page()
    tables = re.findall(rb"beginbfrange(.*?)endbfrange", draw_pdf(made, b""), re.DOTALL)
    mapped = {
        chr(int(code, 16))
        for table in tables
        for row in re.findall(rb"\[(.*?)\]", table, re.DOTALL)
        for code in re.findall(rb"<([0-9A-Fa-f]{4})>", row)
    }
    assert set(made.figure.caption) | set("0123456789.") <= mapped
    assert {unicodedata.category(letter) for letter in mapped - {"\0"}}.isdisjoint({"Cc", "Co"})


# ------------------------------------------------------------------------------------- both


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_progress_is_reported(suffix: str) -> None:
    told: list[tuple[int, int]] = []
    file = io.BytesIO()
    WRITERS[suffix](shot(), FigureSettings(), file, lambda done, of: told.append((done, of)))
    assert file.getvalue()
    assert told == sorted(told)
    assert told[0][0] == 0
    assert told[-1][0] <= told[-1][1]


def test_an_svg_off_the_gui_thread_is_the_same(application: QApplication) -> None:
    import threading

    made, found = shot(), list[bytes]()

    def write() -> None:
        file = io.BytesIO()
        WRITERS[".svg"](made, FigureSettings(), file, ignore_progress)
        found.append(file.getvalue())

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    write()
    assert found[0] == found[1]


@pytest.mark.parametrize("suffix", [".svg", ".pdf", ".png"])
def test_painting_that_is_cancelled_leaves_no_warning(suffix: str) -> None:
    def call_off(done: int, of: int) -> None:
        if done:
            raise CancelledError

    with pytest.raises(CancelledError):  # any warning of Qt would also fail this test
        WRITERS[suffix](shot(SENTENCE), FigureSettings(), io.BytesIO(), call_off)
