"""Taking things out of the program: what a hand can want of it, and how far it is."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.state.figure import FigureLook
from visualizer.state.formats import named
from visualizer.ui import settings
from visualizer.ui.ask_file import ask_to_save
from visualizer.ui.exports import Exporter
from visualizer.ui.figures.saving import Saving
from visualizer.ui.messages import refuse
from visualizer.ui.theme import LIGHT, Theme

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QWidget

    from visualizer.state.wish import Wish
    from visualizer.ui.figures.dialog import ExportDialog
    from visualizer.ui.figures.preview import Previewer
    from visualizer.ui.workspace import Workspace


class Publisher(QObject):
    """Exports what a workspace holds; every method is something a person wants.

    Parameters
    ----------
    window : QWidget
        Over which it asks.
    title : callable
        Gives what stands over a figure at first.
    """

    broke = Signal(str)

    def __init__(self, workspace: Workspace, window: QWidget, title: Callable[[], str]) -> None:
        super().__init__(window)
        self._workspace, self._window, self._title = workspace, window, title
        self._theme = LIGHT
        self.exporter, self.saving = Exporter(self), Saving()
        self.wish = settings.load_wish()
        self.folder = Path.home()
        self.dialog: ExportDialog | None = None
        self._then: Callable[[], object] | None = None
        self.saving.cancel.clicked.connect(self.exporter.cancel)
        self.exporter.progressed.connect(self.saving.show_progress)
        self.exporter.changed.connect(self._show_working)
        self.exporter.refused.connect(self.refuse)
        self.exporter.broke.connect(self.broke)

    @cached_property
    def previewer(self) -> Previewer:
        """What draws a figure small, once something is to be exported."""
        from visualizer.ui.figures.preview import Previewer  # with all that draws figures

        made = Previewer(self)
        made.broke.connect(self.broke)
        return made

    def show_theme(self, theme: Theme) -> None:
        """Take the colours of a theme, for the dialogs that follow."""
        self._theme = theme

    def export(self) -> None:
        """Ask what to export and how."""
        shot = self._workspace.shot
        if shot is None or self.dialog is not None:
            return
        from visualizer.ui.figures.dialog import ExportDialog

        wish = _titled(self.wish, "", self._title())
        dialog = ExportDialog(shot, wish, self._theme, self.previewer, self._window)
        dialog.wished.connect(self._remember)
        dialog.saveWanted.connect(self._ask_where)
        dialog.copyWanted.connect(self._copy)
        dialog.finished.connect(self._forget_dialog)
        self.dialog = dialog
        dialog.open()

    def copy_picture(self) -> None:
        """Put the figure that is shown on the clipboard, as pixels and as a drawing."""
        if shot := self._workspace.shot:
            self.exporter.ask_for_picture(shot, FigureLook(title=self._title()))

    def copy_script(self) -> None:
        """Put a script that rebuilds the numbers on the clipboard."""
        if self._workspace.run:
            dialect = self._workspace.view.dialect
            self.exporter.ask_for_script(self._workspace.run, dialect)

    def may_close(self, then: Callable[[], object]) -> bool:
        """Say whether nothing is being written; else do what comes `then` once it is.

        A film takes its time, in which other windows are not to be held up.
        """
        if not self.exporter.is_working:
            return True
        self._then = then
        self.exporter.said.emit("The window closes as soon as the file is written.", 0)
        return False

    def _go_on(self) -> None:
        then, self._then = self._then, None
        if then:
            then()

    def refuse(self, sentence: str) -> None:
        """Say that nothing was written, and why; it is no time to close."""
        self._then = None
        refuse(self._window, "Not written", sentence)

    def close(self) -> None:
        """Have what was asked for come to its end, and end the threads."""
        if self.dialog:
            self.dialog.stop()
        self.exporter.close()
        if "previewer" in vars(self):
            self.previewer.close()

    # ------------------------------------------------------------------ of the dialog

    def _remember(self, wish: Wish) -> None:
        self.wish = _titled(wish, self._title(), "")  # the next figure may be of something else
        settings.save_wish(wish)

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _copy(self, wish: Wish) -> None:
        if self.dialog:
            self.exporter.ask_for_picture(self.dialog.shot, wish.asked)

    def _ask_where(self, wish: Wish) -> None:
        if self.dialog:
            ask_for_file(self.dialog, wish, self.folder, self._save)

    def _save(self, name: str) -> None:
        if self.dialog:
            wish = self.dialog.wish
            path = named(name, f"(*{wish.suffix})")
            self.folder = path.parent
            named_so = replace(wish, suffix=path.suffix.lower())
            self.exporter.ask(path, self.dialog.shot, named_so.asked)
            self.dialog.accept()

    def _show_working(self) -> None:
        self.saving.show_working(self.exporter.is_working)
        if not self.exporter.is_working:
            QTimer.singleShot(0, self, self._go_on)
        if self.dialog:
            self.dialog.allow_writing(not self.exporter.is_working)


def _titled(wish: Wish, before: str, title: str) -> Wish:
    """Give a wish another title, if its title is still the one before."""
    is_so = wish.look.title == before
    return replace(wish, look=replace(wish.look, title=title)) if is_so else wish


def ask_for_file(
    parent: QWidget, wish: Wish, folder: Path, answer: Callable[[str], object]
) -> None:
    """Ask for a file's name; a file that is there is replaced only if that is wanted."""
    words = f"{wish.format.words} (*{wish.suffix})"
    ask_to_save(parent, "Export", folder / f"attention{wish.suffix}", words, answer)
