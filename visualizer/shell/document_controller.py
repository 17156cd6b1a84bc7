"""Opens, saves and recovers documents, and asks about unsaved changes."""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.documents.document_file import DOCUMENT_SUFFIX, UNTITLED_NAME, SavedDocument
from visualizer.documents.open_document import DocumentChange, switch_to_model
from visualizer.errors import InputError
from visualizer.export.progress_controller import CLOSING_NOTICE
from visualizer.models.image_file import has_image_suffix
from visualizer.models.model_source import parse_server_address
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.shell.document_io import (
    OPEN_FILE_FILTER,
    FileReadResult,
    FileWriteResult,
    InputImageFile,
    WriteConflict,
    write_saved_document,
)
from visualizer.shell.document_recovery import AutosaveController
from visualizer.storage.log_file import log_unexpected_error
from visualizer.widgets.app_settings import NOTICE_MS
from visualizer.widgets.dialogs import (
    ask_open_path,
    ask_overwrite,
    ask_save_path,
    ask_to_save_changes,
    show_warning,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from PySide6.QtWidgets import QMainWindow, QWidget

    from visualizer.attention.spec import Device, Dtype
    from visualizer.documents.recovery_file import CrashRecoveryFile
    from visualizer.features.lessons.lesson import LessonState
    from visualizer.session.document import Document
    from visualizer.session.model_opening import OpenedModelSource
    from visualizer.session.view import View
    from visualizer.session.view_options import ColourOptions
    from visualizer.session.workspace import Workspace
    from visualizer.shell.document_io import LessonPage
    from visualizer.shell.injected_services import WindowServices
    from visualizer.storage.regular_file import FileVersion

    WindowOn = Callable[[Path], QMainWindow | None]
    """Function that returns the window in which a file is open."""

_logger = logging.getLogger(__name__)

MESSAGE_MS = 5000
OPEN_ERROR = "Cannot open {name}."


class DocumentController(QObject):
    """Controller that opens and saves a window's document; each public method is one action."""

    changed = Signal()
    """Emitted when the path or the saved state has changed."""
    newDocumentRequested = Signal(object, object)
    """Requests another window, with a document (or None) and its path."""
    recoveredInNewWindow = Signal(object, object)
    """Requests another window, with a recovered document and its recovery file."""
    modelRequested = Signal(object)
    """Requests that the model in the given folder is opened."""
    imageRequested = Signal(object)
    """Requests that the vision model runs on an image file; None asks the user for the file."""
    quitRequested = Signal()
    lessonLeft = Signal()
    """Requests that the lesson is closed and the user's document is shown again."""
    messageReported = Signal(str, int)
    """Emitted with a status message and its duration in ms; with 0, it lasts until the next one."""
    failed = Signal(str)
    settled = Signal(object)
    """Emitted with the path of a file that was opened or saved."""

    def __init__(
        self,
        program: WindowServices,
        workspace: Workspace,
        lessons: LessonState,
        window: QWidget,
        window_on: WindowOn,
    ) -> None:
        super().__init__(window)
        self.program, self._workspace, self._lessons = program, workspace, lessons
        self._window, self._window_on = window, window_on
        self.path: Path | None = None
        self._version: FileVersion | None = None
        """Version of the file when this window last opened or saved it."""
        self._title = UNTITLED_NAME
        self.saves_numbers = self._kept_numbers = False
        self.is_requested = False
        """Whether the document was requested on the command line; recovery does not replace it."""
        self._clean: Document | None = self._workspace.document
        self._then: Callable[[], object] | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_restoring = False
        self._writes = 0
        """Number of pending and running writes."""
        self._is_asking = False
        """Whether the worker is still processing a request."""
        self._is_writing = False
        """Whether that request is a write."""
        self._worker = NewestRequestWorker(self)
        self._worker.answered.connect(self._handle_result)
        self._worker.failed.connect(self._report_failure)
        self.autosave_controller = AutosaveController(self)
        self.autosave_controller.refused.connect(self._show_message)
        self._was_saved = True

    # ------------------------------------------------------------------ state

    @property
    def name(self) -> str:
        return self.path.stem if self.path else self._title

    def figure_title(self) -> str:
        """Return the default title of a figure: the name of the document if it has no file yet."""
        return "" if self.path or self.name == UNTITLED_NAME else self.name

    @property
    def is_saved(self) -> bool:
        """Whether all changes are saved."""
        return self._state_outside_lesson[0] == self._clean

    @property
    def _state_outside_lesson(self) -> tuple[Document, View]:
        """The user's own document and view, which are restored after a lesson."""
        if self._workspace.requested_view.lesson and self._lessons.before:
            return self._lessons.before
        return self._workspace.document, self._workspace.requested_view

    @property
    def is_new_and_unmodified(self) -> bool:
        """Whether the window has no file and no unsaved changes."""
        return self.path is None and self.is_saved

    @property
    def can_revert(self) -> bool:
        """Whether a document with a file has unsaved changes."""
        return self.path is not None and not (
            self._workspace.requested_view.lesson or self.is_saved
        )

    @property
    def is_busy(self) -> bool:
        """Whether a file is being read or written."""
        return self._is_asking or bool(self._waiting)

    def track_changes(self) -> None:
        """Pass changes to the autosave controller and update whether the document is saved."""
        self._is_restoring = self._is_restoring and self._workspace.is_working
        is_saved = self.is_saved
        self.autosave_controller.schedule_autosave(
            *self._state_outside_lesson, self.path, self._version, is_saved
        )
        if is_saved != self._was_saved:
            self._was_saved = is_saved
            self.changed.emit()
        self._start_next_request()

    def _start_next_request(self) -> None:
        if self._waiting and not self._is_asking:
            self._waiting.popleft()()

    def _send_request(self, request: Callable[[], object], *, writes: bool = False) -> None:
        self._is_asking, self._is_writing = True, writes
        self._worker.submit(request)

    def _finish_request(self) -> None:
        if self._is_writing:
            self._writes -= 1
        self._is_asking = self._is_writing = False

    # ------------------------------------------------------------------ opening

    def new_window(self) -> None:
        """Open another window with a new document."""
        self.newDocumentRequested.emit(None, None)

    def choose_and_open_file(self) -> None:
        folder = self.path.parent if self.path else Path.home()
        ask_open_path(self._window, folder, OPEN_FILE_FILTER, self._open_chosen_file)

    def _open_chosen_file(self, name: str) -> None:
        self.open(Path(name))

    def open(self, path: Path) -> None:
        """Open a file in this window, or in another one if this window has a document.

        A model folder is opened for the current text, and an image for the current vision model.
        An exported figure always opens as a document.
        """
        if _may_be_model_folder(path):
            self.modelRequested.emit(path)
            return
        self._waiting.append(partial(self._start_reading_file, path))
        self._start_next_request()

    def _start_reading_file(self, path: Path) -> None:
        # Two windows with the same file would overwrite each other's changes.
        if there := self._window_on(path):
            there.activateWindow()
            there.raise_()
            there.statusBar().showMessage(f"{path.name} is already open in this window", MESSAGE_MS)
            self._start_next_request()
            return
        self._show_message("Opening…", 0)
        self._send_request(partial(self._read_file, path, self._workspace.document))

    def _read_file(
        self, path: Path, document: Document, *, is_reverting: bool = False
    ) -> FileReadResult | InputImageFile:
        try:
            read = self.program.read(path, document)
            return FileReadResult(read, path, document, is_reverting)
        except InputError:
            if document.takes_image and has_image_suffix(path):
                return InputImageFile(path)
            raise

    def revert(self) -> None:
        """Reload the document from its file, as one undoable change."""
        if self.can_revert:
            self._waiting.append(self._start_reverting)
            self._start_next_request()

    def _start_reverting(self) -> None:
        if self.path:
            self._show_message("Opening…", 0)
            read = partial(self._read_file, self.path, self._workspace.document, is_reverting=True)
            self._send_request(read)

    def open_example(self, read: Callable[[], SavedDocument]) -> None:
        """Open a built-in example in this window, or in another if this window has a document."""
        self._waiting.append(partial(self._start_reading_example, read))
        self._start_next_request()

    def _start_reading_example(self, read: Callable[[], SavedDocument]) -> None:
        self._show_message("Opening…", 0)
        document, colouring = self._workspace.document, self._workspace.requested_view.colouring
        self._send_request(partial(_read_example, read, document, colouring))

    def show_opened_document(self, saved: SavedDocument, path: Path | None) -> None:
        """Show a document; it counts as unsaved if it has a title.

        The path is kept only if it is that of a document file.
        """
        _logger.info("Opened a document; has a model: %s", saved.document.model is not None)
        is_own = path is not None and path.suffix.lower() == DOCUMENT_SUFFIX
        self.path = path if is_own else None
        self._version = saved.version
        # Without numbers, the document would not open on machines without the model.
        is_read = saved.document.model is not None
        self.saves_numbers = is_read or (is_own and saved.recorded is not None)
        self._title = saved.title or UNTITLED_NAME
        self._clean, self._is_restoring = None if saved.title else saved.document, True
        self._workspace.open_document(
            saved.document, saved.view, partial(self.program.restore, saved)
        )
        self.changed.emit()

    def set_opened_model(
        self, opened: OpenedModelSource, device: Device, dtype: Dtype, read: str
    ) -> None:
        """Set an opened model as the document's source, as one undoable change.

        Parameters
        ----------
        read : str
            The text with which the model was opened; if the user has changed the text since then,
            the user's text is kept.
        """
        source = opened.source
        if read != self._workspace.document.text:
            opened = replace(opened, other_text="")
        self._kept_numbers = self.saves_numbers
        document = self._workspace.document.with_setting("device", device)
        document = document.with_setting("dtype", dtype)
        change = switch_to_model(document, opened)
        self._handle_change(change)
        self._show_message(change.notice or f"Opened {source.name}.")
        if not parse_server_address(source.folder):
            self.settled.emit(source.path)
        if self._workspace.document.needs_image:
            self.imageRequested.emit(None)

    def report_model_error(self, name: str, refused: InputError | None) -> None:
        """Report that a model could not run on the document; the document is unchanged.

        Parameters
        ----------
        refused : InputError or None
            The reason; None for an unexpected exception, which is reported separately.
        """
        self.saves_numbers = self._kept_numbers
        message = OPEN_ERROR.format(name=name)
        self._show_message(message)
        if refused:
            show_warning(self._window, "Cannot open", f"{message} {refused.sentence}")

    def open_recovered_document(self, saved: SavedDocument, left: CrashRecoveryFile) -> None:
        """Show a recovered document in this window, or in another if this window has a document."""
        is_of_this = self.path is not None and self.path == left.path and self.is_saved
        if is_of_this or (self.is_new_and_unmodified and not self.is_requested):
            self.show_recovered_document(saved, left)
        else:
            self.recoveredInNewWindow.emit(saved, left)

    def show_recovered_document(self, saved: SavedDocument, left: CrashRecoveryFile) -> None:
        """Show a recovered document as an unsaved document."""
        self.autosave_controller.adopt_recovery_file(left)
        self.show_opened_document(saved, left.path)
        self._clean = None
        self.track_changes()

    # ------------------------------------------------------------------ saving

    def save(self) -> None:
        """Save the document; ask for a path if it has no file or a lesson is open."""
        if self.path and not self._workspace.requested_view.lesson:
            self._queue_write(self.path)
        else:
            self.save_as()

    def save_as(self) -> None:
        start = self.path or Path.home() / f"{self._title.lower()}{DOCUMENT_SUFFIX}"
        dialog = ask_save_path(
            self._window, "Save as", start, f"Document (*{DOCUMENT_SUFFIX})", self.save_to
        )
        dialog.rejected.connect(self._cancel_closing)

    def save_to(self, name: str) -> None:
        """Save the document under the given file name; add the suffix if it is missing."""
        is_named = name.lower().endswith(DOCUMENT_SUFFIX)
        path = Path(name if is_named else name + DOCUMENT_SUFFIX)
        if self._window_on(path) in (None, self._window):
            view = self._workspace.requested_view
            page = (self._workspace.document, view) if view.lesson is not None else None
            # The file dialog has asked only about the name without the suffix.
            self._queue_write(path, may_replace=is_named, page=page)
        else:
            self._cancel_closing()
            message = f"“{path.name}” is open in another window. Close it or choose another name."
            show_warning(self._window, "Cannot save", message)

    def _cancel_closing(self) -> None:
        if not self._writes:  # the window closes after pending writes
            self._then = None

    def toggle_saving_numbers(self) -> None:
        """Toggle whether the numbers are saved in the file."""
        self.saves_numbers = not self.saves_numbers
        self.changed.emit()
        self._start_next_request()

    def _queue_write(
        self, path: Path, *, may_replace: bool = False, page: LessonPage | None = None
    ) -> None:
        """Request that the user's document, or a copy of a lesson's page, is written."""
        self._writes += 1
        self._show_message("Saving…", 0)
        self._waiting.append(partial(self._start_writing, path, may_replace, page))
        self._start_next_request()

    def _start_writing(self, path: Path, may_replace: bool, page: LessonPage | None) -> None:
        if self._workspace.is_working and (self.saves_numbers or self._is_restoring):
            again = partial(self._start_writing, path, may_replace, page)
            self._waiting.appendleft(again)  # this is called again when the workspace has finished
            return
        document, view = page or self._state_outside_lesson
        has_numbers = self.saves_numbers and document == self._workspace.document
        run = self._workspace.run if has_numbers else None
        write = partial(write_saved_document, path, document, view, run)
        writing = partial(
            write,
            page=page,
            replaced=None if page else self._version,
            may_replace=may_replace,
            are_numbers_late=self.saves_numbers and not has_numbers,
        )
        self._send_request(writing, writes=True)

    # ------------------------------------------------------------------ closing

    def may_close(self, then: Callable[[], object]) -> bool:
        """Return whether closing is safe; if not, ask the user or wait, and then call `then`."""
        if self._writes:  # `then` calls this again and asks about any other changes
            self._then = then
            self._show_message(f"{CLOSING_NOTICE}.", 0)
            return False
        if self.is_saved:
            return True
        save, lose = partial(self._save_then_call, then), partial(self._discard_then_call, then)
        ask_to_save_changes(self._window, self.name, save, lose)
        return False

    def _save_then_call(self, then: Callable[[], object]) -> None:
        self._then = then
        self.lessonLeft.emit()  # save the user's own document, not a lesson's page
        self.save()

    def _discard_then_call(self, then: Callable[[], object]) -> None:
        self.discard_unsaved_changes()
        then()

    def discard_unsaved_changes(self) -> None:
        """Discard unsaved changes by treating the document as saved."""
        self._clean = self._state_outside_lesson[0]
        self._waiting.clear()
        self._writes, self._is_writing = 0, False
        self.track_changes()

    def quit(self) -> None:
        self.quitRequested.emit()

    def close(self) -> None:
        """Stop the worker thread and remove the recovery file."""
        self._worker.abandon()
        self.autosave_controller.close()

    # ------------------------------------------------------------------ results

    def _handle_result(
        self, answer: FileReadResult | FileWriteResult | WriteConflict | InputImageFile
    ) -> None:
        self._finish_request()
        if not isinstance(answer, WriteConflict | InputImageFile) and answer.path:
            self.settled.emit(answer.path)
        if isinstance(answer, WriteConflict):
            self._ask_overwrite(answer.path, answer.page)
        elif isinstance(answer, InputImageFile):
            self._show_message("")
            self.imageRequested.emit(answer.path)
        elif isinstance(answer, FileWriteResult):
            self._handle_write_result(answer)
        elif answer.path and answer.is_reverting:
            self._handle_revert_result(answer.what, answer.path)
        elif isinstance(answer.what, DocumentChange):
            change = answer.what.apply_to_edited_document(answer.before, self._workspace.document)
            self._handle_read_result(change, answer.path)
        else:
            self._handle_read_result(answer.what, answer.path)
        self._start_next_request()

    def _handle_write_result(self, done: FileWriteResult) -> None:
        if not done.is_copy:
            self.path, self._clean, self._version = done.path, done.document, done.version
        saved = f"Saved {'a copy as ' * done.is_copy}{done.path}"
        if done.missing_numbers_notice:
            self._show_message(f"{saved}. {done.missing_numbers_notice}", NOTICE_MS)
        else:
            self._show_message(saved)
        self.track_changes()
        self.changed.emit()
        if not self._writes:
            then, self._then = self._then, None
            if then:
                then()

    def _handle_read_result(self, what: SavedDocument | DocumentChange, path: Path | None) -> None:
        self._show_message(f"Opened {path or 'the example'}")
        if isinstance(what, DocumentChange):
            self._handle_change(what)
        elif self.is_new_and_unmodified:
            self.show_opened_document(what, path)
        else:
            self.newDocumentRequested.emit(what, path)
        if isinstance(what, DocumentChange) or what.notice:
            self._show_message(
                f"Opened {path.name}. {what.notice}" if path else what.notice, NOTICE_MS
            )

    def _handle_change(self, change: DocumentChange) -> None:
        view = self._workspace.requested_view
        if change.stages is not None:
            view = replace(view, stages=change.stages)
        self.saves_numbers = self.saves_numbers or change.document.model is not None
        self._workspace.show_document(change.document, view, change.opened_model)

    def _handle_revert_result(self, what: SavedDocument | DocumentChange, path: Path) -> None:
        self._show_message("")
        is_still_open = path == self.path and not self._workspace.requested_view.lesson
        if is_still_open and isinstance(what, SavedDocument):
            self._clean, self._version = what.document, what.version
            self._workspace.show_document(what.document, self._workspace.requested_view)
            self._show_message(f"Reverted to {path}. Use Undo to restore your changes.")
            self.changed.emit()

    def _ask_overwrite(self, path: Path, page: LessonPage | None) -> None:
        self._show_message("")
        overwrite = partial(self._queue_write, path, may_replace=True, page=page)
        problem, lost = "already exists", "its contents"
        if path == self.path and page is None:
            problem = "has been changed by another program since you opened or saved it"
            lost = "the changes of the other program"
        answers = overwrite, self.save_as, self._cancel_closing
        ask_overwrite(self._window, f"“{path.name}” {problem}.", lost, *answers)

    def _report_failure(self, error: Exception) -> None:
        if self._is_writing:
            self._then = None
        self._finish_request()
        self._show_message("")
        self._start_next_request()
        if isinstance(error, InputError):
            show_warning(
                self._window,
                "Cannot open" if error.field == "open" else "Cannot save",
                error.sentence,
            )
        else:
            self.failed.emit(log_unexpected_error(error))

    def _show_message(self, words: str, for_ms: int = MESSAGE_MS) -> None:
        self.messageReported.emit(words, for_ms)


def _may_be_model_folder(path: Path) -> bool:
    """Return whether a path may be a model folder; if it has a suffix, check for model files."""
    from visualizer.language.recording import is_recording
    from visualizer.language.run_folder import RunFolder
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import is_model_folder

    if not path.is_dir() or is_recording(RunFolder(path)):
        return False
    return not path.suffix or is_model_folder(path) or is_lab_model(path)


def _read_example(
    read: Callable[[], SavedDocument], before: Document, colouring: ColourOptions
) -> FileReadResult:
    """Read an example and keep the user's choice of device and colours."""
    example = read()
    document = example.document.with_setting("device", before.spec.device)
    view = replace(example.view, colouring=colouring)
    saved = SavedDocument(document, view, opened_model=example.opened_model)
    return FileReadResult(saved, None, before, is_reverting=False)
