"""What of the main window's actions is possible now, and what is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PySide6.QtWidgets import QMainWindow

    from visualizer.state.screen import Screen
    from visualizer.ui.theme import Theme

from visualizer.attention.derived import Fold
from visualizer.attention.spec import Mode
from visualizer.state.cell import CELL
from visualizer.state.compare.bar import COMPARISON
from visualizer.state.compare.comparison import Against
from visualizer.state.lessons.pages import LESSON
from visualizer.state.looks import LOOKS
from visualizer.state.painting import PAINTING, target_of
from visualizer.state.picture import PICTURE
from visualizer.state.playback.transport import PLAYBACK
from visualizer.state.setup import SETUP
from visualizer.state.shapes import SHAPES
from visualizer.state.tokens import TOKENS
from visualizer.state.weights import are_kept
from visualizer.ui.entries import ENTRIES
from visualizer.ui.icons import icon
from visualizer.ui.menus import Menus

OF_MODULES = (
    *("toggle_mask", "painter.toggle", "toggle_mode", "workspace.resample dropout_seed"),
    *("workspace.resample seed", "open_settings", "gaze.set_lens times-value"),
)
"""What changes a module or needs more of it than weights; captured attention has none."""


class Actions(Menus):
    """The actions of the main window."""

    def __init__(self, window: QMainWindow) -> None:
        super().__init__(window, ENTRIES)
        self._play: tuple[str, Theme] | None = None

    def show_screen(self, screen: Screen, theme: Theme) -> None:
        """Let what is possible now be done, and only that; check what is on."""
        document, view = screen.document, screen.view
        self._enable_for(screen)
        for key in OF_MODULES:
            self.enable(key, not screen.panel(SETUP).captured)
        for key, is_on in (
            ("toggle_mask", document.get("causal")),
            ("toggle_mode", document.spec.mode is Mode.TRAIN),
            ("workspace.keep_weights", are_kept(document.spec)),
            ("painter.toggle", view.painting.is_on),
            (f"gaze.set_curve {view.colouring.curve}", True),
            (f"gaze.set_limits {view.colouring.limits}", True),
            (f"gaze.set_diverging {view.colouring.diverging}", True),
            (f"gaze.set_map {view.colouring.sequential}", True),
            (f"gaze.set_lens {view.lens}", True),
            ("gaze.toggle_spread", view.spread),
            *((f"gaze.toggle_fold {by}", by in view.folds) for by in Fold),
            (f"set_dialect {view.dialect}", True),
            (f"player.set_grain {view.playhead.grain}", True),
            ("player.toggle_loop", view.playhead.loops),
            ("player.predict", screen.panel(PLAYBACK).question is not None),
        ):
            self.check(key, is_on)
        name = "pause" if view.playhead.is_playing else "play"
        if self._play != (name, theme):
            self._play = (name, theme)
            self.by_key["player.toggle"].setIcon(icon(name, theme.ink))
            self.by_key["player.toggle"].setToolTip(f"{name.capitalize()} (Space)")

    def _enable_for(self, screen: Screen) -> None:
        resolved, lesson = screen.resolved, screen.panel(LESSON)
        for way in (-1, 1):
            is_there = resolved is not None and way in resolved.directions
            self.enable(f"pointer.go {way}", is_there)
        self.enable("inspector.copy", screen.panel(CELL) is not None)
        self.enable("player.predict", resolved is not None)
        self.enable("pointer.mark", self._can_mark(screen))
        self.enable("reader.step 1", bool(lesson and lesson.has_next))
        self.enable("reader.step -1", bool(lesson and lesson.number > 1))
        self.enable("reader.back", bool(lesson and lesson.is_changed))
        self.enable("reader.close", lesson is not None)
        split = screen.panel(SHAPES).split
        self.enable("shapes.drawing.turn", split is not None and split.heads > 1)
        self.enable("chooser.let_go", bool(screen.panel(TOKENS).chosen))
        pinned, painting = screen.panel(PICTURE).cursor.pinned, screen.panel(PAINTING)
        can_paint = bool(painting and pinned and target_of(pinned) in painting.targets)
        self.enable("painter.paint_pinned", can_paint)
        self.enable("pointer.let_go", pinned is not None)
        for key in ("step_text 1", "step_text -1", "gaze.toggle_spread"):
            self.enable(key, screen.panel(TOKENS).texts > 1)
        for key in ("gaze.whole", "gaze.further"):
            self.enable(key, bool(screen.panel(LOOKS).part))
        self._enable_comparing(screen)
        transport = screen.panel(PLAYBACK)
        self.enable("player.reveal", transport.question is not None and not transport.is_revealed)

    def _enable_comparing(self, screen: Screen) -> None:
        bar, has_numbers = screen.panel(COMPARISON), screen.resolved is not None
        samples = bar.count if bar and bar.against is Against.SAMPLES else 0
        most = bar.most if bar else 0
        for key, is_possible in (
            ("comparer.keep_as_a", has_numbers),
            ("comparer.swap", bar is not None and bar.can_swap),
            ("comparer.compare_heads", has_numbers),
            ("comparer.compare_samples", has_numbers),
            ("comparer.scale_samples 1", 0 < samples < most),
            ("comparer.scale_samples -1", samples > 1),
            ("comparer.add_sample", 0 < samples < most),
            ("comparer.go_to_largest", bar is not None and bar.largest is not None),
            ("comparer.stop", bar is not None),
        ):
            self.enable(key, is_possible)

    @staticmethod
    def _can_mark(screen: Screen) -> bool:
        resolved = screen.resolved
        pinned = resolved.reached_pinned if resolved else None
        return bool(resolved and pinned and pinned.stage in resolved.covered)
