"""A model generates text in the window: token by token, with branches, and as a new text."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest

import visualizer
from tests.support.background_work import is_work_pending
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import save_tiny_model
from visualizer.features.model_generation.controller import TOKEN_EDITS_ERROR
from visualizer.features.model_generation.presenter import MODEL_REQUIRED, SPLIT_CHANGED_NOTICE
from visualizer.features.model_generation.text_generator import TextGenerator
from visualizer.generation.generation_tree import ROOT_NODE
from visualizer.language.sampling import SamplingSettings
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind
from visualizer.progress import check_cancelled

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.window_input import Hand
    from visualizer.features.model_generation.controller import ModelGenerationController
    from visualizer.features.model_generation.widget import ModelGenerationPane

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = "the cat sat on the mat"


class Continuing:
    """A window with a model and a text, with the Continue pane open."""

    def __init__(self, hand: Hand, folder: Path) -> None:
        self.hand, self.folder = hand, folder
        hand.type_sentence(TEXT)
        hand.settle()
        hand.window.controllers.document_controller.open(folder)
        hand.until(lambda: hand.window.workspace.document.model is not None)
        hand.settle()
        hand.window.docks.open_pane("Continue")
        hand.until(lambda: bool(self.controller.panel.bars.bars) or bool(self.problem))

    @property
    def controller(self) -> ModelGenerationController:
        return self.hand.window.controllers.model_generation_controller

    @property
    def pane(self) -> ModelGenerationPane:
        pane: ModelGenerationPane = self.hand.window.panes["Continue"]
        return pane

    @property
    def problem(self) -> str:
        return self.controller.panel.problem

    def click(self, button: Any) -> None:
        QTest.mouseClick(button, Qt.MouseButton.LeftButton)

    def rest(self) -> None:
        """Wait until there are no requests and no pending updates."""
        for _ in range(2):
            self.hand.settle()
            self.hand.until(
                lambda: (
                    not self.controller.is_running
                    and self.controller.picked is None
                    and not is_work_pending(self.controller)
                )
            )

    def greedily(self, count: int) -> None:
        self.controller.set_sampling(SamplingSettings(0.0))
        self.rest()
        self.pane.steps.setValue(count)
        self.click(self.pane.generation.run_button)
        self.rest()

    @property
    def numbers(self) -> list[int]:
        tree = self.controller.tree
        return [tree.nodes[node].token for node in tree.path]

    def expected(self, count: int, numbers: list[int] | None = None) -> list[int]:
        """Return the continuation that transformers generates after the text and some tokens."""
        opened = visualizer.open_model(self.folder).opened
        ids = tokenizer_of(opened)(TEXT, return_tensors="pt")["input_ids"]
        ids = torch.cat([ids, torch.tensor([numbers or []], dtype=ids.dtype)], -1)
        with torch.no_grad():
            made = opened.model.generate(ids, max_new_tokens=count, do_sample=False)
        return [int(number) for number in made[0, ids.shape[-1] :]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model whose cache has no sliding window."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "tiny", sliding_window=None)


@pytest.fixture(scope="module")
def bloom_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model with its own attention implementation."""
    return save_tiny_model(tmp_path_factory.mktemp("models") / "bloom", "bloom")


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model with a chat template."""
    saved = save_tiny_model(tmp_path_factory.mktemp("models") / "chat", sliding_window=None)
    template = "{{ bos_token }}the {{ messages[0]['content'] }} </s> a"
    (saved / "chat_template.jinja").write_text(template, encoding="utf-8")
    return saved


@pytest.fixture
def continuing(hand: Hand, folder: Path) -> Continuing:
    return Continuing(hand, folder)


def test_the_greedy_text_is_that_of_transformers(continuing: Continuing) -> None:
    continuing.greedily(6)
    assert continuing.numbers == continuing.expected(6)
    panel = continuing.controller.panel
    assert panel.generation.status.startswith("6 tokens added. Cache: ")
    assert panel.generation.status.endswith(f"{7 + 6} tokens.")
    chips = continuing.pane.generation.strip.panel.chips
    assert [chip.probability is not None for chip in chips] == [False] * 7 + [True] * 6
    assert continuing.pane.step.value() == 6


def test_its_command_brings_the_pane_that_shows_what_is_drawn(continuing: Continuing) -> None:
    hand = continuing.hand
    hand.window.docks.by_id["Continue"].close()
    hand.settle()
    assert not continuing.pane.isVisible()
    hand.window.actions_.by_id["model_generation.sample"].trigger()
    continuing.rest()
    assert continuing.pane.isVisible()
    assert len(continuing.numbers) == 1


def test_going_back_shows_what_might_have_come_and_a_click_branches(continuing: Continuing) -> None:
    hand, controller = continuing.hand, continuing.controller
    continuing.greedily(4)
    first = continuing.numbers
    continuing.pane.step.setValue(2)
    continuing.rest()
    panel = controller.panel
    assert (panel.step, panel.last_step) == (2, 4)
    assert panel.bars.next_on_branch == first[2]
    bars = continuing.pane.next.bars
    at, other = next(
        (at, bar.token)
        for at, bar in enumerate(panel.bars.bars)
        if bar.token not in (None, first[2], 2)
    )
    middle = bars.row_rectangle(at).center().toPoint()
    QTest.mouseClick(bars, Qt.MouseButton.LeftButton, pos=QPoint(middle.x(), middle.y()))
    continuing.rest()
    assert continuing.numbers == [*first[:2], other]
    assert controller.tree.nodes[controller.tree.at].is_sampled is False
    continuing.pane.steps.setValue(3)
    continuing.click(continuing.pane.generation.run_button)
    continuing.rest()
    expected = continuing.expected(3, continuing.numbers[:3])
    assert continuing.numbers[3:] == expected
    hand.window.actions_.by_id["model_generation.step_back"].trigger()
    continuing.controller.go_to_step(3)
    hand.window.actions_.by_id["model_generation.switch_branch"].trigger()
    continuing.rest()
    assert continuing.numbers == first[:3]


def test_rows_and_the_text_that_is_used_are_those_of_one_pass(continuing: Continuing) -> None:
    hand, controller = continuing.hand, continuing.controller
    hand.window.workspace.change_view(layer=1, heads=frozenset({2}))
    hand.settle()
    continuing.greedily(5)
    rows = continuing.pane.rows.rows
    assert rows
    assert rows.head == (1, 2)
    numbers = continuing.numbers
    opened = visualizer.open_model(continuing.folder).opened
    ids = [*tokenizer_of(opened)(TEXT)["input_ids"], *numbers]
    with visualizer.capture(opened.model) as seen, torch.no_grad():
        opened.model(torch.tensor([ids]))
    allowed = np.tri(len(ids), dtype=bool)
    expected = seen["weights"][1, 2]
    np.testing.assert_allclose(rows.weights[allowed], expected[allowed], atol=1e-5)
    assert np.isnan(rows.weights[~allowed]).all()
    continuing.click(continuing.pane.use)
    hand.until(lambda: hand.window.workspace.document.text != TEXT)
    hand.settle()
    continuing.rest()
    run = hand.window.workspace.run
    assert run
    is_alike = continuing.problem != SPLIT_CHANGED_NOTICE
    assert is_alike == (run.texts[0] == tuple(map(opened.token_text, ids)))
    if is_alike:
        np.testing.assert_allclose(run.trace.read("weights")[1, 2], expected, atol=1e-5)
    assert controller.tree.path == ()
    hand.window.actions_.by_id["workspace.undo"].trigger()
    assert hand.window.workspace.document.text == TEXT


def test_words_that_are_picked_become_the_text(continuing: Continuing) -> None:
    hand, controller = continuing.hand, continuing.controller
    for number in (9, 6, 7):  # dog sat on
        controller.pick_token(number)
        continuing.rest()
    rows = {layer: [] for layer in (0, 1)}  # type: ignore[var-annotated]
    for node in (ROOT_NODE, *controller.tree.path):
        for layer, made in rows.items():
            made.append(controller.node_results[node].rows[layer])
    hand.window.actions_.by_id["model_generation.use_as_text"].trigger()
    hand.until(lambda: hand.window.workspace.document.text == f"{TEXT} dog sat on")
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert continuing.problem == ""
    whole = run.trace.read("weights")
    for layer, made in rows.items():
        at = 0
        for block in made:
            end = at + block.shape[1]
            np.testing.assert_allclose(whole[layer][:, at:end, :end], block, atol=1e-5)
            at = end


def test_a_text_that_is_typed_is_not_replaced_by_what_was_generated(continuing: Continuing) -> None:
    hand, controller = continuing.hand, continuing.controller
    controller.pick_token(9)
    continuing.rest()
    hand.click(hand.sentence.viewport())
    hand.press(Qt.Key.Key_End)
    controller.use_as_document_text()
    QTest.keyClicks(hand.sentence, "s")  # before the worker has a result
    continuing.rest()
    assert hand.window.workspace.document.text == hand.sentence.toPlainText() == f"{TEXT}s"


def test_heads_that_are_off_are_off_in_what_is_written(continuing: Continuing) -> None:
    hand = continuing.hand
    hand.window.controllers.head_edit_controller.ablate_heads([(0, 0), (1, 2)])
    hand.settle()
    hand.until(lambda: bool(continuing.controller.panel.bars.bars))
    opened = visualizer.open_model(continuing.folder).opened
    off = {(0, 0): 0.0, (1, 2): 0.0}
    logs = opened.next_token_log_probabilities(TEXT, off)
    bars = continuing.controller.panel.bars.bars
    for bar in bars:
        if bar.token is not None:
            assert bar.model_probability == pytest.approx(float(logs[bar.token].exp()), abs=1e-6)
    continuing.greedily(1)
    assert continuing.numbers == [int(logs.argmax())]


def test_edits_that_are_of_the_tokens_of_the_text_are_reported(continuing: Continuing) -> None:
    hand = continuing.hand
    source = hand.window.workspace.document.model
    assert source
    for changed in (
        replace(source, cuts=(CutEdges(0, 0, ((3, 1),)),)),
        replace(source, edits=(HeadEdit(0, 0, HeadEditKind.MEAN),)),
    ):
        hand.window.workspace.change_setting("model", changed)
        hand.settle()
        assert continuing.controller.panel.message == TOKEN_EDITS_ERROR
        assert not continuing.controller.panel.bars.bars
    hand.window.workspace.change_setting("model", source)
    hand.settle()
    hand.until(lambda: bool(continuing.controller.panel.bars.bars))


def test_another_text_begins_again_and_what_was_asked_before_is_dropped(
    continuing: Continuing,
) -> None:
    hand, controller = continuing.hand, continuing.controller
    continuing.greedily(2)
    controller.set_steps(200)
    controller.toggle_generation()
    assert controller.is_running
    hand.type_sentence("a dog ran")
    hand.settle()
    hand.until(lambda: controller.tree.tokens == ("<s>", "a", "dog", "ran"))
    assert not controller.is_running
    assert controller.tree.nodes == ()


def test_it_can_be_stopped_and_stays_where_it_is(continuing: Continuing) -> None:
    hand, controller = continuing.hand, continuing.controller
    by_id = hand.window.actions_.by_id
    controller.set_steps(50)
    by_id["model_generation.toggle"].trigger()
    assert by_id["model_generation.toggle"].isChecked()
    hand.until(lambda: len(controller.tree.path) > 1)
    by_id["model_generation.toggle"].trigger()
    continuing.rest()
    assert 1 < len(controller.tree.path) < 50
    by_id["model_generation.start_again"].trigger()
    assert controller.tree.nodes == ()
    assert not by_id["model_generation.use_as_text"].isEnabled()


def test_reading_of_an_earlier_text_is_stopped(
    continuing: Continuing, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand, controller = continuing.hand, continuing.controller
    has_begun, tick = threading.Event(), threading.Event()

    def draw_on(*_: object) -> None:
        has_begun.set()
        while not tick.wait(0.001):
            check_cancelled()

    with monkeypatch.context() as patched:
        patched.setattr(TextGenerator, "sample_token", draw_on)
        controller.sample_token()
        hand.until(has_begun.is_set)
        hand.type_sentence("a dog ran")
        hand.settle()
        hand.until(lambda: controller.tree.tokens == ("<s>", "a", "dog", "ran"))
    continuing.rest()
    assert continuing.problem == ""


def test_too_long_a_text_is_rejected_in_a_sentence(continuing: Continuing) -> None:
    hand, controller = continuing.hand, continuing.controller
    hand.type_sentence("cat " * 65)  # 66 of the maximum of 67 tokens
    hand.settle()
    hand.until(lambda: len(controller.tree.prompt) == 66)
    controller.pick_token(9)
    continuing.rest()
    assert continuing.problem == ""
    continuing.controller.sample_token()
    continuing.rest()
    assert (
        continuing.problem
        == "The text has 68 tokens; tiny supports at most 67. Use a shorter text."
    )
    assert continuing.pane.problem.isVisible()
    assert len(continuing.controller.tree.tokens) == 67
    before = controller.panel.bars.bars
    controller.set_sampling(SamplingSettings(1.75))  # the bars of the tokens up to this one follow
    continuing.rest()
    assert controller.panel.bars.bars != before


def test_failures_of_an_earlier_text_are_not_reported_for_the_next(
    continuing: Continuing, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand, controller = continuing.hand, continuing.controller
    has_begun, goes_on = threading.Event(), threading.Event()

    def fail(*_: object) -> None:
        has_begun.set()
        goes_on.wait()
        raise ZeroDivisionError("of all things")

    with monkeypatch.context() as patched:
        patched.setattr(TextGenerator, "sample_token", fail)
        controller.sample_token()
        hand.until(has_begun.is_set)
        hand.type_sentence("a dog ran")
        hand.settle()
        goes_on.set()
        assert "ZeroDivisionError: of all things" in hand.details_of_bug()
    hand.until(lambda: controller.tree.tokens == ("<s>", "a", "dog", "ran"))
    continuing.rest()
    assert continuing.problem == ""
    assert controller.panel.bars.bars


def test_without_a_model_the_pane_says_what_to_do(hand: Hand) -> None:
    hand.window.docks.open_pane("Continue")
    hand.until(lambda: hand.window.panes["Continue"].isVisible())
    pane = hand.window.panes["Continue"]
    assert pane.message.text() == MODEL_REQUIRED
    assert not pane.body.isVisible()


def test_a_model_without_a_cache_that_can_be_read_is_rejected(
    hand: Hand, bloom_folder: Path
) -> None:
    continuing = Continuing(hand, bloom_folder)
    assert "does not support a key/value cache" in continuing.problem
    assert continuing.controller.tree.nodes == ()


def test_the_pane_shows_attention(continuing: Continuing) -> None:
    continuing.greedily(1)
    view, rows = continuing.pane.rows, continuing.controller.panel.rows
    assert rows
    words = view.describe_at(view.cell_rect(3, 0).center())
    assert words == rows.describe_cell_at(3, 0)
    assert words.startswith("“sat” attends to ")
    assert view.describe_at(view.cell_rect(0, 3).center()) == ""
    assert continuing.pane.reads.text() == rows.last_token_sentence


@pytest.mark.slow
def test_the_text_is_given_as_a_message(hand: Hand, chat_folder: Path) -> None:
    continuing = Continuing(hand, chat_folder)
    strip = hand.window.panes["Tokens"].strip
    assert strip.tooltip_text(0) == "<s>, token 1 (BOS: start of the text)"
    assert strip.tooltip_text(1) == "the, token 2"
    by_id = hand.window.actions_.by_id
    by_id["model_generation.toggle_chat"].trigger()
    hand.settle()
    words = ("<s>", "the", *TEXT.split(), "</s>", "a")
    hand.until(lambda: continuing.controller.tree.prompt == words)
    run = hand.window.workspace.run
    assert run
    assert run.texts == (words,)
    assert by_id["model_generation.toggle_chat"].isChecked()
    assert strip.tooltip_text(8) == "</s>, token 9 (EOS: end of the text)"
    continuing.controller.pick_token(9)
    continuing.rest()
    hand.until(lambda: continuing.controller.panel.can_use_as_text)  # to enable its command
    continuing.controller.use_as_document_text()
    hand.until(lambda: hand.window.workspace.document.text != TEXT)
    hand.settle()
    run = hand.window.workspace.run
    assert run
    assert run.texts == ((*words, "dog"),)
    by_id["workspace.undo"].trigger()
    hand.settle()
    model = hand.window.workspace.document.model
    assert model
    assert model.is_chat
    assert hand.window.workspace.document.text == TEXT
    by_id["workspace.undo"].trigger()
    hand.settle()
    assert hand.window.workspace.run
    assert hand.window.workspace.run.texts == (("<s>", *TEXT.split()),)


def test_a_rejected_patch_is_the_reason_that_there_is_nothing_to_continue(
    hand: Hand, folder: Path
) -> None:
    continuing = Continuing(hand, folder)
    model = hand.window.workspace.document.model
    assert model
    patch = HeadEdit(0, 1, HeadEditKind.PATCHED, text=f"{TEXT} and more")
    hand.window.workspace.change_setting("model", replace(model, edits=(patch,)))
    hand.until(lambda: hand.window.workspace.input_error is not None)
    refused = hand.window.workspace.input_error
    assert refused
    assert "tokens" in refused.sentence
    hand.until(lambda: refused.sentence in continuing.controller.panel.message)
    hand.window.workspace.undo()
    continuing.rest()
    assert continuing.controller.panel.message == ""
    assert continuing.controller.panel.bars.bars
