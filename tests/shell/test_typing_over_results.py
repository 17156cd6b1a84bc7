"""Typed letters are never lost, whatever the typing speed and whenever results arrive."""

from __future__ import annotations

import random
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest

from tests.support.tiny_models import save_tiny_model
from tests.support.window_input import PATIENCE_MS
from visualizer import app
from visualizer.attention import run as attention_run
from visualizer.attention.settings import SETTINGS, SettingKind
from visualizer.attention.spec import MaskKind, TransformerBlockKind
from visualizer.models import long_text_runner
from visualizer.shell.screen_presenter import ScreenPresenter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from PySide6.QtWidgets import QAbstractSpinBox

    from tests.support.window_fixtures import Open
    from tests.support.window_input import Hand
    from visualizer.attention.run import Run
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import ResolvedView

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # libraries warn about small models
]
SHORT = "the cat sat on the mat"
LONG = " ".join(f"word{at % 97}" for at in range(1_454))
SENTENCE = "Tell Vorzik the dog"
DELAY_S = 0.04
"""Maximum delay of a result, in seconds."""


class RandomDelays:
    """Delays computations and prefetches on the worker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self._random, self._nothing = random.Random(seed), threading.Event()
        self._compute, self._prefetch = app.compute, ScreenPresenter.prefetch
        monkeypatch.setattr(app, "compute", self._delayed_compute)
        delayed = self._delayed_prefetch
        monkeypatch.setattr(ScreenPresenter, "prefetch", lambda *given: delayed(*given))

    def _delay(self) -> None:
        self._nothing.wait(self._random.uniform(0, DELAY_S))

    def _delayed_compute(self, document: Document, previous: Run | None) -> Run:
        self._delay()
        return self._compute(document, previous)

    def _delayed_prefetch(
        self, presenters: ScreenPresenter, resolved: ResolvedView, previous: Mapping[str, object]
    ) -> Mapping[str, object]:
        self._delay()
        return self._prefetch(presenters, resolved, previous)


def act_at_pace(hand: Hand, acts: list[Callable[[], object]], pace_ms: int) -> None:
    """Perform an action every few milliseconds, whatever the window does."""
    left = acts.copy()
    timer = QTimer(hand.window, interval=pace_ms, timerType=Qt.TimerType.PreciseTimer)

    def act_next() -> None:
        left.pop(0)()
        if not left:
            timer.stop()

    timer.timeout.connect(act_next)
    timer.start()
    hand.until(lambda: not left, 6 * PATIENCE_MS)  # a busy machine is slow but loses nothing
    timer.deleteLater()


@pytest.fixture(scope="module")
def roomy_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model with enough positions for the long text."""
    folder = tmp_path_factory.mktemp("models") / "roomy"
    return save_tiny_model(folder, max_position_embeddings=2_048)


@pytest.fixture
def delayed_hand(
    monkeypatch: pytest.MonkeyPatch, open_window: Open, request: pytest.FixtureRequest
) -> Hand:
    RandomDelays(monkeypatch, seed=7)
    hand: Hand = request.getfixturevalue("hand")
    hand.settle()
    return hand


@pytest.mark.parametrize("count", [2, pytest.param(200, marks=pytest.mark.release)])
@pytest.mark.parametrize(
    ("before", "is_model", "pace_ms"),
    [
        pytest.param(before, is_model, pace_ms, id=f"{length}-{kind}-{pace_ms}")
        for length, before, kind, is_model, pace_ms in (
            ("short", SHORT, "module", False, 5),
            ("short", SHORT, "model", True, 15),
            ("short", SHORT, "module", False, 30),
            ("long", LONG, "model", True, 5),
            ("long", LONG, "module", False, 15),
            ("long", LONG, "model", True, 30),
        )
    ],
)  # all pairs of the three
def test_a_sentence_typed_over_a_text_stays_whole(
    delayed_hand: Hand,
    roomy_model_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    is_model: bool,
    pace_ms: int,
    count: int,
) -> None:
    hand, window = delayed_hand, delayed_hand.window
    for module in (attention_run, long_text_runner):  # the long text is processed in blocks
        monkeypatch.setattr(module, "MAX_FULL_MATRIX_BYTES", 2**20)
    if is_model:
        window.controllers.document_controller.open(roomy_model_folder)
        hand.until(lambda: window.workspace.document.model is not None)
        hand.settle()
    for _ in range(count):
        hand.paste_sentence(before)
        hand.settle()
        hand.press(Qt.Key.Key_A)
        press = partial(QTest.keyClicks, hand.sentence)
        act_at_pace(hand, [partial(press, letter) for letter in SENTENCE], pace_ms)
        hand.settle()
        assert hand.sentence.toPlainText() == SENTENCE
        assert window.workspace.document.text == SENTENCE


STEPPED = [
    setting.name
    for setting in SETTINGS
    if setting.kind in {SettingKind.COUNT, SettingKind.RATE, SettingKind.NUMBER, SettingKind.SEED}
]


@pytest.mark.parametrize("name", STEPPED)
def test_a_number_that_is_stepped_counts_every_step(
    delayed_hand: Hand, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """If a box were reset to an older number, later steps would be lost."""
    hand, workspace = delayed_hand, delayed_hand.window.workspace
    monkeypatch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 2**20)
    workspace.set_text(LONG)
    for setting, value in (("dropout", 0.5), ("mask", MaskKind.WINDOW)):
        workspace.change_setting(setting, value)
    if name == "d_ff":
        workspace.change_setting("block", TransformerBlockKind.PRE_NORM)
        workspace.change_setting("d_in", 4)  # this also changes the output size
    hand.settle()
    box: QAbstractSpinBox = getattr(hand.window.settings_bar.rows[name].control, "box")  # noqa: B009
    hand.window.settings_bar.open_other_settings()
    box.setFocus()
    before = workspace.document.get_setting(name)
    QTest.keyClick(box, Qt.Key.Key_Up)
    step = workspace.document.get_setting(name) - before
    press = partial(QTest.keyClick, box, Qt.Key.Key_Up)
    act_at_pace(hand, [press] * 7, 5)
    hand.until(lambda: not workspace.is_working and not workspace.is_screen_outdated)
    assert step > 0
    assert workspace.document.get_setting(name) == pytest.approx(before + 8 * step)
