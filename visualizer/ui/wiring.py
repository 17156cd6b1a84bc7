"""Which signal of which widget leads to what: the whole of the window's nerves, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QApplication

if TYPE_CHECKING:
    from visualizer.ui.window import Window


def connect(window: Window) -> None:
    """Lead every signal to the intent that it means."""
    _connect_state(window)
    _connect_files(window)
    _connect_setup(window)
    _connect_tokens(window)
    _connect_board(window)
    _connect_playback(window)
    _connect_panes(window)
    _connect_numbers(window)
    _connect_lines(window)
    _connect_painting(window)
    QApplication.styleHints().colorSchemeChanged.connect(window.follow_system)


def _connect_state(window: Window) -> None:
    window.workspace.changed.connect(window.show_screen)
    window.workspace.edited.connect(window.enable_changes)
    window.workspace.broke.connect(window.show_bug)
    exporter = window.exporter
    exporter.said.connect(window.statusBar().showMessage)
    exporter.changed.connect(window.show_screen)
    window.docks.changed.connect(window.see_panes)


def _connect_files(window: Window) -> None:
    filer, drops = window.filer, window.drops
    filer.changed.connect(window.show_name)
    filer.keeper.found.connect(window.rescue.offer)
    filer.keeper.broke.connect(window.show_bug)
    filer.settled.connect(window.recents.remember)
    window.recents.chosen.connect(filer.open)
    drops.fileDropped.connect(filer.open)
    drops.textDropped.connect(window.editor.take_text)


def _connect_setup(window: Window) -> None:
    editor, workspace = window.editor, window.workspace
    editor.textTyped.connect(workspace.set_text)
    editor.textTooLong.connect(workspace.refuse_text)
    editor.chosen.connect(window.choose)
    editor.settled.connect(workspace.seal)
    editor.remedied.connect(workspace.remedy)
    editor.textStepped.connect(window.step_text)
    editor.captured.left.connect(workspace.leave_captured)


def _connect_tokens(window: Window) -> None:
    pane, chooser = window.editor.token_pane, window.chooser
    pane.strip.chose.connect(chooser.choose)
    pane.roleChosen.connect(chooser.set_role)
    pane.sought.connect(chooser.seek)
    pane.stepped.connect(chooser.go)
    chooser.wanted.connect(window.board.reveal)


def _connect_board(window: Window) -> None:
    board, pointer = window.board, window.pointer
    board.cellHovered.connect(pointer.hover)
    board.cellClicked.connect(pointer.pin)
    board.walked.connect(window.walk)
    board.textPointed.connect(window.gaze.look_at_text)
    board.zoomed.connect(window.gaze.zoom_at)
    board.dragged.connect(window.gaze.drag)
    board.minimap.centred.connect(window.gaze.centre)
    board.roomChanged.connect(window.make_room)
    bar, gaze = window.viewbar, window.gaze
    bar.layoutChosen.connect(gaze.arrange)
    bar.headToggled.connect(gaze.toggle_head)
    bar.headAlone.connect(gaze.solo_clicked_head)
    window.rail.stageToggled.connect(window.go_to_stage)
    window.rail.stageAlone.connect(window.gaze.stage_alone)
    window.compare_bar.headsChosen.connect(window.comparer.choose_heads)
    window.compare_bar.countChosen.connect(window.comparer.choose_count)


def _connect_playback(window: Window) -> None:
    transport, player = window.transport, window.player
    transport.sought.connect(player.seek)
    transport.stepped.connect(player.step)
    transport.skipped.connect(player.skip)
    transport.grainChosen.connect(player.set_grain)
    transport.speedChosen.connect(player.set_speed)
    transport.questionChosen.connect(player.ask)


def _connect_panes(window: Window) -> None:
    lesson, reader = window.lesson, window.reader
    lesson.stepped.connect(reader.step)
    lesson.returned.connect(reader.back)
    lesson.closed.connect(reader.close)
    window.inspector.followed.connect(window.pointer.follow)
    colours, gaze = window.panes["Colours"], window.gaze
    colours.lensChosen.connect(gaze.set_lens)
    colours.curveChosen.connect(gaze.set_curve)
    colours.limitsChosen.connect(gaze.set_limits)
    colours.mapChosen.connect(gaze.set_map)
    colours.endsTyped.connect(gaze.type_limits)
    window.shapes.stageChosen.connect(window.show_stage)
    window.panes["Heads"].headChosen.connect(window.gaze.solo_head)
    window.twin.dialectChosen.connect(window.set_dialect)
    window.twin.scriptWanted.connect(window.publisher.copy_script)


def _connect_numbers(window: Window) -> None:
    numbers, typist = window.panes["Numbers"], window.typist
    numbers.tensorChosen.connect(typist.choose)
    numbers.headChosen.connect(typist.choose_head)
    numbers.cellPinned.connect(typist.pin)
    numbers.numberTyped.connect(typist.type)
    numbers.numbersPasted.connect(typist.paste)
    numbers.copyWanted.connect(typist.copy)
    numbers.drawnAgain.connect(typist.draw_again)


def _connect_lines(window: Window) -> None:
    lines, liner = window.lines, window.liner
    lines.chosen.connect(liner.choose)
    lines.view.cellHovered.connect(liner.hover)
    lines.view.cellClicked.connect(liner.pin)
    lines.view.tokenHovered.connect(liner.point)
    lines.view.tokenClicked.connect(liner.hold)
    lines.view.walked.connect(window.walk)


def _connect_painting(window: Window) -> None:
    brush, bar, painter = window.brush, window.paintbar, window.painter
    brush.begun.connect(painter.begin)
    brush.swept.connect(painter.sweep)
    brush.ended.connect(painter.end)
    brush.extended.connect(painter.extend)
    brush.left.connect(painter.stop)
    bar.brushChosen.connect(painter.start_from)
    bar.numberChosen.connect(painter.set_number)
    bar.settled.connect(painter.end)
    bar.left.connect(painter.stop)
    bar.left.connect(window.board.setFocus)
