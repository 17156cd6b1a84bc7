"""A vision model is opened in the window, and images are chosen, dropped and saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QEvent, QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog

import visualizer
from tests.support.tiny_vision_models import picture, save_vision_model
from tests.support.waiting import wait_until
from tests.support.window_input import LEFT, PATIENCE_MS, name_file, words
from visualizer.documents.document_file import SavedDocument
from visualizer.features.next_token.widget import IMAGE_MEAN_LABEL
from visualizer.features.token_strip.presenter import TOKENS_PANEL
from visualizer.file_opening import open_as_document, read_file
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_fixtures import Open
    from tests.support.window_input import Hand
    from visualizer.attention.run import Run
    from visualizer.features.token_strip.patch_strip_widget import PatchStrip

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
ASKED = "tiny_vit takes images. Choose an image, or drop an image file on the window."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vision_model(tmp_path_factory.mktemp("models") / "tiny_vit")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    picture(tmp_path / "noise.png", wide=48)
    return tmp_path / "noise.png"


def open_model(hand: Hand, folder: Path) -> None:
    """Open a vision model and leave its image dialog open."""
    hand.window.controllers.document_controller.open(folder)
    hand.until(lambda: hand.window.workspace.document.takes_image)
    hand.until(lambda: bool(hand.window.findChildren(QFileDialog)))
    (dialog,) = hand.window.findChildren(QFileDialog)
    dialog.reject()
    hand.until(lambda: not hand.window.findChildren(QFileDialog))
    hand.until(hand.window.settings_bar.image_problem.isVisible)
    hand.activate()


def choose(hand: Hand, image: Path) -> None:
    QTest.mouseClick(hand.window.settings_bar.choose_image, LEFT)
    (dialog,) = hand.window.findChildren(QFileDialog)
    name_file(dialog, image)
    hand.until(lambda: hand.window.workspace.document.get_setting("image").name == image.name)
    hand.settle()


def drop(hand: Hand, path: Path) -> None:
    data, copy, none = QMimeData(), Qt.DropAction.CopyAction, Qt.KeyboardModifier.NoModifier
    data.setUrls([QUrl.fromLocalFile(str(path))])
    place = hand.window.rect().center()
    entering = QDragEnterEvent(place, copy, data, LEFT, none)
    QApplication.sendEvent(hand.window, entering)
    assert entering.isAccepted()
    dropped = QDropEvent(QPointF(place), copy, data, LEFT, none, QEvent.Type.Drop)
    QApplication.sendEvent(hand.window, dropped)


def run_of(hand: Hand) -> Run:
    run = hand.window.workspace.run
    assert run
    return run


def strip_of(hand: Hand) -> PatchStrip:
    hand.window.docks.open_pane("Tokens")
    strip: PatchStrip | None = hand.window.panes["Tokens"].patches
    assert strip
    hand.until(strip.isVisible)
    QApplication.processEvents()  # the new image replaces it
    hand.window.panes["Tokens"].ensureWidgetVisible(strip)
    return strip


def test_a_vision_model_asks_for_an_image_and_reads_it(
    hand: Hand, folder: Path, image: Path
) -> None:
    before, setup = run_of(hand), hand.window.settings_bar
    by_id = hand.window.actions_.by_id
    assert not by_id["model_image.choose"].isEnabled()
    open_model(hand, folder)
    assert words(setup.image_problem) == ASKED
    assert run_of(hand) is before
    assert not setup.sentence.isVisible()
    assert not by_id["text.edit"].isEnabled()
    assert by_id["model_image.choose"].isEnabled()
    choose(hand, image)
    assert not setup.image_problem.isVisible()
    assert words(setup.image_name) == "noise.png"
    expected = visualizer.open_model(folder).attend(image=image)
    assert run_of(hand).texts == (expected.tokens,)
    np.testing.assert_allclose(run_of(hand).trace.read("weights"), expected["weights"], atol=1e-6)
    assert not hand.window.panes["Tokens"].strip.isVisible()
    assert strip_of(hand).accessibleName().startswith("Tokens: 17 tokens, class row 1, column 1")
    assert hand.panel("weights").rows.labels[:2] == ("class", "1, 1")
    by_id["workspace.undo"].trigger()
    hand.until(setup.image_problem.isVisible)
    by_id["workspace.redo"].trigger()
    hand.settle()
    hand.window.workspace.change_setting("captured", None)
    hand.settle()
    assert setup.sentence.isVisible()
    assert hand.window.panes["Tokens"].strip.isVisible()


def test_an_image_is_dropped_and_another_one_after_it(
    hand: Hand, folder: Path, image: Path, tmp_path: Path
) -> None:
    open_model(hand, folder)
    drop(hand, image)
    hand.until(lambda: run_of(hand).reading is not None)
    first = run_of(hand)
    Image.new("RGB", (40, 40), "red").save(tmp_path / "red.jpg")
    drop(hand, tmp_path / "red.jpg")
    hand.until(lambda: run_of(hand) is not first)
    hand.settle()
    expected = visualizer.open_model(folder).attend(image=tmp_path / "red.jpg")
    np.testing.assert_allclose(run_of(hand).trace.read("weights"), expected["weights"], atol=1e-6)
    (tmp_path / "no.webp").write_bytes(b"no image")
    drop(hand, tmp_path / "no.webp")
    setup = hand.window.settings_bar
    hand.until(setup.image_problem.isVisible)
    assert words(setup.image_problem).startswith("Cannot open “no.webp” as an image.")
    assert words(setup.image_name) == "red.jpg"
    drop(hand, tmp_path / "red.jpg")
    hand.until(lambda: not setup.image_problem.isVisible())


def test_a_text_is_not_for_a_vision_model(hand: Hand, folder: Path, image: Path) -> None:
    open_model(hand, folder)
    choose(hand, image)
    text = hand.window.workspace.document.text
    hand.window.drop_handler.textDropped.emit("a cat")
    assert words(hand.window.settings_bar.image_problem) == "tiny_vit takes images, not texts."
    assert hand.window.workspace.document.text == text


def test_an_image_with_a_document_in_it_stays_a_document(
    hand: Hand, folder: Path, tmp_path: Path
) -> None:
    visualizer.attend("a cat sat").figure(["weights"]).save(tmp_path / "figure.png")
    open_model(hand, folder)
    opened = []
    hand.window.controllers.document_controller.newDocumentRequested.disconnect()
    hand.window.controllers.document_controller.newDocumentRequested.connect(
        lambda *given: opened.append(given)
    )
    drop(hand, tmp_path / "figure.png")
    hand.until(lambda: bool(opened))
    saved, path = opened[0]
    assert (saved.document.text, path) == ("a cat sat", tmp_path / "figure.png")
    assert hand.window.workspace.document.get_setting("image").path == ""


def test_pointing_at_a_patch_shows_what_it_reads_and_a_click_keeps_it(
    hand: Hand, folder: Path, image: Path
) -> None:
    open_model(hand, folder)
    choose(hand, image)
    hand.window.controllers.view_controller.show_head_of_layer(1, 2)
    hand.settle()
    strip, weights = strip_of(hand), run_of(hand).trace.read("weights", (1, 2))
    QTest.mouseMove(strip.viewport(), strip.chip_rect(6).center().toPoint())
    largest = int(weights[6].argmax())
    workspace = hand.window.workspace
    hand.until(lambda: workspace.view.hovered == Cell("weights", (2, 6, largest)))
    shown = workspace.screen.panel(TOKENS_PANEL).weights
    assert shown
    np.testing.assert_allclose(shown.values, weights[6], atol=1e-7)
    assert shown.plain_sentence.endswith("row 2, column 2, head 3")
    QTest.mouseClick(strip.viewport(), LEFT, pos=strip.chip_rect(6).center().toPoint())
    hand.settle()
    QTest.mouseMove(strip.viewport(), strip.chip_rect(9).center().toPoint())
    hand.until(lambda: workspace.view.hovered == Cell("weights", (2, 6, 9)))
    assert workspace.screen.panel(TOKENS_PANEL).subjects == {6}
    weight = f"{100 * weights[6, 9]:.1f}%"
    said = f"row 2, column 2 (query 7) attends to row 3, column 1 (key 10) with weight {weight}"
    assert hand.caption.startswith(said)
    hand.window.actions_.by_id["token_selection.switch_role"].trigger()
    hand.settle()
    shown = workspace.screen.panel(TOKENS_PANEL).weights
    assert shown
    np.testing.assert_allclose(shown.values, weights[:, 6], atol=1e-7)


def test_heads_are_ablated_but_not_patched_from_a_text(
    hand: Hand, folder: Path, image: Path
) -> None:
    open_model(hand, folder)
    choose(hand, image)
    pane, by_id = hand.window.panes["Next token"], hand.window.actions_.by_id
    offered = [pane.kind.itemText(at) for at in range(pane.kind.count())]
    assert offered == ["Unedited", "Ablate (zeros)", IMAGE_MEAN_LABEL, "Scale"]
    assert not by_id["head_edit.patch"].isEnabled()
    before = run_of(hand).trace.read("weights")
    hand.window.controllers.view_controller.show_head_of_layer(0, 1)
    hand.settle()
    by_id["head_edit.toggle"].trigger()
    hand.settle()
    now = run_of(hand).trace.read("weights")
    np.testing.assert_array_equal(now[0], before[0])
    assert not np.array_equal(now[1], before[1])
    assert "the mean of the output over the image" in words(pane.hint)
    hand.window.workspace.change_setting("captured", None)
    hand.settle()
    assert pane.kind.count() == len(offered) + 1


def test_a_document_keeps_the_image_and_opens_without_it(
    hand: Hand, folder: Path, image: Path, tmp_path: Path
) -> None:
    open_model(hand, folder)
    choose(hand, image)
    weights, model = run_of(hand).trace.read("weights"), hand.window.workspace.document.model
    path = tmp_path / "seen.attention"
    hand.window.controllers.document_controller.save_to(str(path))
    hand.until(lambda: hand.window.controllers.document_controller.is_saved and path.exists())
    saved = read_file(path, Document())
    assert isinstance(saved, SavedDocument)
    assert saved.document.model
    assert model
    assert saved.document.model.image == model.image
    image.unlink()
    hand.window.controllers.document_controller.show_opened_document(saved, path)
    hand.settle()
    assert run_of(hand).reading is None
    np.testing.assert_array_equal(run_of(hand).trace.read("weights"), weights)
    patches = hand.window.workspace.screen.panel(TOKENS_PANEL).patches
    assert patches
    assert (patches.rows, patches.columns, patches.first) == (4, 4, 1)
    strip_of(hand)
    notice = hand.window.settings_bar.captured.notice
    assert "computed when the document was saved" in words(notice)
    # This requires processing the image again.
    hand.window.controllers.head_edit_controller.toggle_ablation(0, 1)
    setup = hand.window.settings_bar
    hand.until(setup.image_problem.isVisible)
    assert words(setup.image_problem).startswith("Image not found: “noise.png” in ")


def test_a_model_that_is_named_when_the_program_starts_asks_for_an_image(
    open_window: Open, folder: Path, image: Path
) -> None:
    window = open_window(open_as_document(folder, Document())[0].document)
    wait_until(lambda: bool(window.findChildren(QFileDialog)), PATIENCE_MS)
    (dialog,) = window.findChildren(QFileDialog)
    name_file(dialog, image)
    wait_until(lambda: window.workspace.run is not None, PATIENCE_MS)
    assert window.workspace.run
    assert window.workspace.run.texts[0][:2] == ("class", "row 1, column 1")
