"""Exports files from the command line, with progress, until done or interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.console_messages_and_progress import say
from visualizer.errors import InputError
from visualizer.export.formats import format_of
from visualizer.export.missing_font_characters import missing_fonts
from visualizer.export.offscreen_qt_application import qt_for_drawing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from visualizer.console_messages_and_progress import ConsoleProgress
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.exportable_snapshot import Snapshot


def write_all(
    paths: Sequence[Path],
    snapshot: Snapshot,
    figure_settings: FigureSettings,
    progress: ConsoleProgress,
) -> int:
    """Write files of one run; a failed one does not stop the others.

    Returns
    -------
    int
        The worst exit status: 1 where a file could not be written, 2 where its content was
        invalid.
    """
    status = 0
    with qt_for_drawing():
        from visualizer.export.writers import export

        lacking = missing_fonts(snapshot, figure_settings) if any(map(_has_words, paths)) else ""
        if lacking:
            say(lacking)
        for path in paths:
            try:
                export(path, snapshot, figure_settings, progress.progress(path.name))
                progress.written(path.name)
            except InputError as refused:
                progress.clear()
                say(refused.sentence)
                status = max(status, 1 if refused.field == "export" else 2)
    return status


def _has_words(path: Path) -> bool:
    found = format_of(path.name)
    return found is not None and found.kind.is_drawn
