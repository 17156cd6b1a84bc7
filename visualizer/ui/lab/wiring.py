"""Which signal of the lab's widgets leads to what."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

if TYPE_CHECKING:
    from visualizer.ui.lab.window import LabWindow


def connect(window: LabWindow) -> None:
    """Lead every signal to the intent that it means."""
    _connect_run(window)
    _connect_pictures(window)
    QApplication.styleHints().colorSchemeChanged.connect(window.follow_system)


def _connect_run(window: LabWindow) -> None:
    lab, keeper = window.lab, window.keeper
    lab.changed.connect(window.show_soon.start)
    for broken in (window.sampler, keeper):
        broken.broke.connect(window.show_bug)
    pane = window.settings_pane
    pane.chosen.connect(lab.set)
    pane.remedied.connect(lab.remedy)
    pane.anotherWanted.connect(keeper.begin_another)
    keeper.changed.connect(window.show_soon.start)
    window.folding.changed.connect(window.show_commands)
    keeper.settingsWanted.connect(partial(window.show_pane, "settings"))
    for part in (lab, keeper, window.saver):
        part.said.connect(window.statusBar().showMessage)
    window.saver.filmer.broke.connect(window.show_bug)
    runs = window.runs_pane
    # Later, as the list is made anew by it, and cannot be while it changes one of its rows.
    for signal, intent in (
        (runs.opened, keeper.open_name),
        (runs.overlaid, keeper.overlay),
        (runs.renamed, keeper.rename_to),
    ):
        signal.connect(intent, Qt.ConnectionType.QueuedConnection)


def _connect_pictures(window: LabWindow) -> None:
    lab, pictures = window.lab, window.pictures
    window.puller.changed.connect(window.show_soon.start)
    window.probe.textEdited.connect(lab.probe)
    attention = window.attention
    attention.cellHovered.connect(pictures.hover)
    attention.cellClicked.connect(pictures.pin)
    attention.walked.connect(pictures.walk)
    attention.roomChanged.connect(pictures.make_room)
    attention.layerWanted.connect(pictures.open_layer_of)
    _connect_story(window)
    plot = window.plot_pane
    plot.lookChosen.connect(window.plotter.choose)
    plot.view.stepPicked.connect(window.plotter.pick)
    plot.view.presentPicked.connect(partial(lab.scrub, None))
    window.plotter.changed.connect(window.show_plot)
    pictures.changed.connect(window.show_pictures)
    pictures.layerWanted.connect(window.opener.want)
    window.opener.opened.connect(window.layerOpened)
    window.opener.refused.connect(window.statusBar().showMessage)
    window.scrub.stepLooked.connect(lab.scrub)


def _connect_story(window: LabWindow) -> None:
    teller, story = window.teller, window.story
    teller.changed.connect(window.show_pictures)
    window.next.tokenPicked.connect(teller.pick)
    window.next.samplingChosen.connect(teller.choose)
    story.sampleWanted.connect(teller.sample)
    story.runWanted.connect(teller.run)
    story.steppedBack.connect(teller.step_back)
    story.steppedOn.connect(teller.step_on)
    story.turned.connect(teller.turn)
    story.nodeChosen.connect(teller.go)
    story.seedChosen.connect(teller.reseed)
