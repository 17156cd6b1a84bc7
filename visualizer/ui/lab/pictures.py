"""What is watched of a training, from the present values to the widgets; where a hand points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from visualizer.state.colouring import Colouring, Limits
from visualizer.state.lab.attention import NO_TEXT, AttentionPanel, present_attention
from visualizer.state.lab.bars import Bars, present_bars
from visualizer.state.lab.chips import present_story
from visualizer.state.lab.pointing import Pointing, place_of
from visualizer.state.lab.scrub import present_scrub
from visualizer.state.words import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.state.lab.story import Story
    from visualizer.state.view import Cell
    from visualizer.ui.lab.window import LabWindow
    from visualizer.ui.theme import Theme

BEFORE = "Start the training, and the attention of every layer and head is shown here as it forms."


class Pictures(QObject):
    """Shows what is watched."""

    def __init__(self, window: LabWindow) -> None:
        super().__init__(window)
        self._window = window
        self._panel = AttentionPanel(message=BEFORE)
        self._pointing = Pointing()
        self._room = 256
        self._colouring = Colouring()
        # What was shown last: nothing is painted again while only a line of numbers changes.
        self._bars_of: tuple[object, ...] = ()
        self._told: tuple[Story, bool, bool, int, Theme] | None = None
        self._folder: Path | None = None

    @property
    def has_layers(self) -> bool:
        """Whether there is a layer that could be opened."""
        return bool(self._panel.board.columns)

    def show(self) -> None:
        """Show the attention, and where in training time it is."""
        window = self._window
        run = window.lab.run
        if (run.folder if run else None) != self._folder:
            self._folder = run.folder if run else None
            self._pointing = Pointing()
            window.next.forget()
        self._panel = self._read_panel()
        window.attention.show_attention(self._panel, window.theme)
        self._show_probe()
        self._show_scrub()
        self._show_story()

    def _read_panel(self) -> AttentionPanel:
        lab, reading = self._window.lab, self._window.puller.reading
        if lab.run is None:
            return AttentionPanel(message=BEFORE)
        if lab.run.is_open and not lab.view.probe:
            return AttentionPanel(message=NO_TEXT)
        model, look = lab.run.settings.model, self._colouring
        return present_attention(reading, model, self._pointing, self._room, look, self._panel)

    @property
    def _is_known(self) -> bool:
        """Whether there is a model to be asked, or was: not while a run is opened at first."""
        run = self._window.lab.run
        return run is not None and bool(run.tokens)

    def _show_probe(self) -> None:
        """Show the text that is to be read, and whether it is what the pictures are of."""
        window, puller = self._window, self._window.puller
        window.probe.setVisible(self._is_known)
        if window.probe.text() != window.lab.view.probe:
            window.probe.setText(window.lab.view.probe)
        said = [puller.refused] if puller.refused else []
        if puller.reading and puller.older:
            text, step = shortened(puller.older), puller.reading.step
            said.append(f"Shown is still “{text}” at step {step:,}.")
        window.probe_problem.setText(" ".join(said))
        window.probe_problem.setVisible(bool(said))

    def _show_story(self) -> None:
        """Show what may come next, and the text that is continued."""
        window, teller = self._window, self._window.teller
        run, reading = window.lab.run, teller.reading
        window.right.setVisible(self._is_known)
        made_of = (reading, teller.sampling, window.theme, self._folder)
        is_coming = reading is None and teller.can_draw and not window.puller.older
        stays = is_coming and self._folder in self._bars_of  # until the next ones are there
        if run is not None and self._is_known and not stays and made_of != self._bars_of:
            self._bars_of = made_of
            bars = Bars(sampling=teller.sampling, vocabulary=len(run.tokens))
            if reading is not None:
                bars = present_bars(reading.tokens, reading.logits, run.tokens, teller.sampling)
            window.next.show_bars(bars, window.theme)
        can_draw = teller.can_draw
        block = window.lab.settings.block
        told = (teller.story, teller.is_running, can_draw, block, window.theme)
        for key in ("teller.sample", "teller.toggle"):
            window.menus.enable(key, self._is_known and can_draw)
        if told != self._told:
            self._told = told
            window.story.show_story(present_story(*told[:4]), window.theme)

    def _show_scrub(self) -> None:
        window = self._window
        run, view = window.lab.run, window.lab.view
        window.scrub.setVisible(self._is_known)
        if run is None or not run.tokens:
            window.menus.enable("scrub.toggle", False)
            return
        losses = run.losses_now if view.step is None else run.losses_at(view.step)
        scrub = present_scrub(run.snapshots, run.step, view.step, *losses, window.puller.is_waiting)
        window.scrub.show_scrub(scrub, window.theme)
        window.menus.enable("scrub.toggle", len(scrub.stops) > 1)

    # ------------------------------------------------------------------ the hand

    def hover(self, cell: Cell | None) -> None:
        """Look at the cell under the pointer."""
        self._point(self._pointing.hover(cell))

    def pin(self, cell: Cell | None) -> None:
        """Hold on to a cell, or let go of it."""
        self._point(self._pointing.pin(cell))

    def walk(self, down: int, right: int) -> None:
        """Go from the pinned cell to another one."""
        self._point(self._pointing.walk(self._panel.board, down, right))

    def _point(self, pointing: Pointing) -> None:
        self._pointing = pointing
        self.show()

    def make_room(self, room: int) -> None:
        """Draw as many cells as there is room for."""
        if room != self._room:
            self._room = room
            self.show()

    def turn_colours(self) -> None:
        """Have the colours of each row go up to its largest weight, or all to 1 again."""
        is_on = self._colouring.limits is Limits.ROW
        self._colouring = Colouring(limits=Limits.AUTO if is_on else Limits.ROW)
        self._window.saver.colouring = self._colouring
        self._window.menus.check("pictures.turn_colours", not is_on)
        self.show()

    def open_layer(self) -> None:
        """Open the layer and head of the cell that is looked at; else the first."""
        places = (place for place, _ in self._looked_at())
        self.open_layer_of(*next(places, (0, 0)))

    def open_layer_of(self, layer: int, head: int) -> None:
        """Open a layer in the visualizer, at a head of it, and at the cell that is looked at."""
        cells = (cell for place, cell in self._looked_at() if place == (layer, head))
        cell = next(cells, None)
        self._window.opener.want(layer, head, (cell.place[-2], cell.place[-1]) if cell else None)

    def _looked_at(self) -> Iterator[tuple[tuple[int, int], Cell]]:
        """Give the cells that are looked at with their layers and heads: the pinned one first."""
        for cell in (self._pointing.pinned, self._pointing.hovered):
            place = place_of(self._panel.board, cell) if cell else None
            if cell and place:
                yield place, cell
