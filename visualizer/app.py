"""Entry point: parses the command line, then opens a window or exports files without a window."""

from __future__ import annotations

import builtins
import gc
import logging
import platform
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.remote_numbers import NumbersPendingError, forbid_waiting_for_numbers
from visualizer.attention.spec import Device, Dtype
from visualizer.console import print_message
from visualizer.documents.document_file import SavedDocument
from visualizer.errors import MEMORY_ERROR, InputError, is_out_of_memory
from visualizer.export.offscreen_qt_application import exit_if_qt_cannot_start
from visualizer.file_opening import (
    EXPORT_VIEW,
    open_as_document,
    read_file,
    read_trained_example,
    restore_document,
)
from visualizer.models.model_folder import is_model_folder
from visualizer.process_settings import (
    SIGNAL_EXIT_STATUS,
    enable_huge_pages,
    fix_mmap_threshold,
)
from visualizer.session.document import Document
from visualizer.session.worker_jobs import compute, release_idle_memory
from visualizer.storage.log_file import (
    ProgramText,
    log_unexpected_error,
    start_log_file,
    stop_log_file,
)
from visualizer.version import __version__

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from PySide6.QtCore import QCoreApplication

    from visualizer.attention.run import Run
    from visualizer.session.view import View
    from visualizer.shell.application import Application
    from visualizer.shell.injected_services import WindowServices
    from visualizer.shell.window import MainWindow
    from visualizer.shell.window_manager import WindowManager
_logger = logging.getLogger(__name__)
COLLECTION_DELAY_MS = 5_000
"""Delay before garbage collection starts, in milliseconds; nearly all objects created before
then are permanent.
"""
SWITCH_INTERVAL_S = 0.0005
"""GIL switch interval in seconds. Every Qt call releases the GIL, and the GUI thread then waits up
to this long for a worker thread. Python's default of 5 ms causes visible pauses, because there are
several such waits per repaint.
"""
VALUES_PENDING = "These values are still loading from the model server. Try again in a moment."
MESSAGE_MS = 5_000
SCREEN_ERROR = (
    "Cannot open a window: Qt could not start on this display. "
    "To write a file without a display, use --export."
)
TRANSIENT_CLIPBOARD_PLATFORMS = frozenset({"eglfs", "linuxfb", "minimal", "offscreen", "vnc"})
"""Names of Qt platforms on which the clipboard contents are lost when the program exits."""
__all__ = ["compute", "main", "make_application", "open_window"]
NAME = "Attention Visualizer"
DESKTOP_ENTRY_NAME = "attention-visualizer"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program, and return the exit status."""
    argument_list = sys.argv[1:] if arguments is None else [*arguments]
    try:
        if not argument_list:  # importing the argument parser would delay the window
            return show_window(None, None)
        return run_command(argument_list)
    except InputError as refused:  # standard output cannot be written
        print_message(refused.sentence)
        return 1
    except KeyboardInterrupt:  # while text is read from standard input
        return SIGNAL_EXIT_STATUS["SIGINT"]
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print_message(MEMORY_ERROR)
        return 2


def run_command(arguments: list[str]) -> int:
    """Run the command given by the arguments, and return the exit status."""
    from visualizer.cli.generate import GENERATE_COMMAND, generate
    from visualizer.cli.model import MODEL_COMMAND, model
    from visualizer.cli.option_checks import unused_option_error
    from visualizer.cli.options import LAB_COMMAND, create_lab_parser, create_parser
    from visualizer.cli.serve import SERVE_COMMAND, serve
    from visualizer.cli.shell_completion import print_completion
    from visualizer.cli.train import TRAIN_COMMAND, train

    commands = {
        TRAIN_COMMAND: train,
        GENERATE_COMMAND: generate,
        MODEL_COMMAND: model,
        SERVE_COMMAND: serve,
    }
    if arguments[0] == LAB_COMMAND:
        folder = create_lab_parser().parse_args(arguments[1:]).folder
        return run_event_loop(lambda windows: windows.open_lab(folder))
    if arguments[0] in commands:
        return commands[arguments[0]](arguments[1:])
    options = create_parser().parse_args(arguments)
    if wrong := unused_option_error(options):
        print_message(wrong)
        return 2
    if options.print_completion:
        return print_completion(options.print_completion)
    if options.reset_settings:
        return reset_settings()
    return open_or_export_layers(options)


def open_or_export_layers(options: argparse.Namespace) -> int:
    """Open or export the document that the options describe, or the documents of several layers."""
    from visualizer.cli.document_options import split_options_per_layer
    from visualizer.cli.options import option_name

    status = 0
    try:
        for each in split_options_per_layer(options):
            status = max(status, open_or_export_document(each))
            if status in SIGNAL_EXIT_STATUS.values():
                break
    except InputError as refused:
        option = option_name(refused.field) if refused.field in SOURCE_FIELDS else "FILE"
        print_message(f"argument {option}: {refused.sentence}")
        return 2
    return status


def open_or_export_document(options: argparse.Namespace) -> int:
    """Open a document in a window or export it, and return the exit status.

    Raises
    ------
    InputError
        As in `open_document_from_options`.
    """
    from visualizer.cli.option_checks import first_option_error

    # The CPU and automatic selection are always available.
    if options.device in {Device.CUDA, Device.MPS}:
        from visualizer.attention.device import check_device_available

        check_device_available(Device(options.device), Dtype(options.dtype or Dtype.FLOAT32))
    is_left_to_window = (
        not (options.export or options.weights) and options.file and is_model_folder(options.file)
    )
    saved = (
        _create_model_document(options)
        if is_left_to_window
        else open_document_from_options(options)
    )
    wrong = first_option_error(options, saved.document)
    if wrong:
        print_message(wrong)
        return 2
    return (
        export_without_window(options, saved)
        if options.export
        else show_window(saved, options.file)
    )


def _create_model_document(options: argparse.Namespace) -> SavedDocument:
    """Return a document, but leave loading its model to the window, which shows the progress.

    Raises
    ------
    InputError
        If the folder contains no model that can be opened.
    """
    from visualizer.cli.document_options import build_document
    from visualizer.models.model_folder import read_model_folder
    from visualizer.models.model_source import ModelSource

    folder = read_model_folder(options.file, has_fingerprint=False)
    source = ModelSource(str(folder.path.absolute()), folder.name, folder.fingerprint)
    return SavedDocument(build_document(options).with_setting("model", source), EXPORT_VIEW)


SOURCE_FIELDS = ("own_weights", "text", "layer", "device")
"""Error fields of the options that determine what is opened."""


def open_document_from_options(options: argparse.Namespace) -> SavedDocument:
    """Open the given file, if any, apply the options to it, and print its notices.

    Raises
    ------
    InputError
        If the file cannot be opened; the field of the error is in `SOURCE_FIELDS` if an option is
        the cause.
    """
    from visualizer.cli.document_options import (
        build_document,
        build_document_of_layer,
        is_run_folder,
        load_weights_into_document,
    )

    base, saved, notices = None, SavedDocument(Document(), EXPORT_VIEW), []
    if options.file and is_run_folder(options.file):
        saved = build_document_of_layer(options)
        base = saved.document
    elif options.file:
        # The options supply the settings that a weights file does not contain.
        saved, notice = open_as_document(options.file, build_document(options))
        base, notices = saved.document, [notice]
    document = build_document(options, base)
    if options.weights:
        document, notice = load_weights_into_document(options, document)
        notices.append(notice)
    for sentence in filter(None, notices):
        print_message(sentence)
    # Recorded and exported numbers are valid only for the document they were computed from.
    if document == saved.document:
        return saved
    return replace(saved, document=document, recorded=None, exported=None)


def export_without_window(options: argparse.Namespace, saved: SavedDocument) -> int:
    """Export files without a window or a display.

    Returns
    -------
    int
        The exit status: 2 if the options or the text are invalid or there is not enough memory, 1
        if a file could not be written, and 128 plus the signal number after a signal.
    """
    from visualizer.cli.document_options import (
        apply_colour_options,
        build_figure_settings,
    )
    from visualizer.cli.export_files import create_export_jobs, option_error_message, write_exports
    from visualizer.console import ConsoleProgress
    from visualizer.process_settings import InterruptSignalError, handle_stop_signals
    from visualizer.session.document_builder import with_stages_and_heads
    from visualizer.session.export_snapshot import ExportSnapshot

    progress = ConsoleProgress(is_quiet=options.quiet)
    try:
        with handle_stop_signals(progress.handle_signal):
            figure_settings = build_figure_settings(options)
            run, view = restore_run_and_view(saved)
            view = with_stages_and_heads(run, view, options.stages, options.heads_shown)
            for notice in run.notices:
                print_message(notice)
            view = replace(view, colouring=apply_colour_options(options, view.colouring))
            jobs = create_export_jobs(options, ExportSnapshot(saved.document, view, run))
            return write_exports(jobs, figure_settings, progress, options)
    except InputError as refused:
        print_message(option_error_message(refused, options))
        return 1 if refused.field == "export" else 2
    except InterruptSignalError as stopped:
        progress.clear_line()
        return stopped.status


def restore_run_and_view(saved: SavedDocument) -> tuple[Run, View]:
    """Return the run and the view of an opened document; a recorded run is not recomputed."""
    return restore_document(saved, compute)


def reset_settings() -> int:
    """Delete the settings stored between sessions."""
    from PySide6.QtCore import QCoreApplication

    from visualizer.storage.program_folders import move_old_folders
    from visualizer.widgets.app_settings import clear_settings

    move_old_folders()  # otherwise the next window would move the old settings here
    set_application_names(QCoreApplication)
    refused = clear_settings()
    print_message(refused or "Settings have been reset.")
    return 1 if refused else 0


def show_window(saved: SavedDocument | None, path: Path | None) -> int:
    """Open a window with the given document, or restore the last session if it is None.

    The function returns the exit status when all windows have been closed.
    """
    return run_event_loop(lambda windows: windows.open_first_window(saved, path))


def run_event_loop(open_windows: Callable[[WindowManager], object]) -> int:
    """Run the event loop until all windows are closed and all training runs have been saved."""
    application = make_application()
    log_file = start_log_file()
    sys.excepthook = partial(show_bug, None)
    versions = map(ProgramText, (__version__, platform.python_version()))
    _logger.info("Started version %s, Python %s", *versions)
    from visualizer.shell.window_manager import WindowManager

    is_interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_interruptible:
        # Ctrl+C in the terminal ends the process in the same way as other signals. An exception
        # raised in a slot could leave the window waiting forever.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    windows = WindowManager(create_window_services())
    sys.excepthook = partial(show_bug, windows)
    application.fileRequested.connect(windows.open_file)
    open_windows(windows)
    with forbid_waiting_for_numbers():
        status = application.exec()
    from visualizer.lab.training.process_controller import wait_for_processes  # not at startup

    wait_for_processes()
    sys.excepthook = sys.__excepthook__
    if is_interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    del windows  # before the application that owns them is deleted
    _logger.info("Exited with status %d", status)
    stop_log_file(log_file)
    clear_transient_clipboard()
    return status


def clear_transient_clipboard() -> None:
    """Clear the clipboard on platforms on which its contents are lost when the program exits.

    Otherwise, Qt would delete the copied data after Python has ended, and crash. On other
    platforms, the system takes over the clipboard.
    """
    from PySide6.QtGui import QGuiApplication

    if QGuiApplication.platformName() in TRANSIENT_CLIPBOARD_PLATFORMS:
        QGuiApplication.clipboard().clear()


def show_bug(
    windows: WindowManager | None,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Log and show an unhandled exception in the GUI thread, which Qt would only print.

    Access to numbers that have not arrived from a server yet is not a bug: the user can try again.
    """
    window = windows.front_window if windows else None
    if isinstance(error, NumbersPendingError):
        if window:
            window.statusBar().showMessage(VALUES_PENDING, MESSAGE_MS)
        return
    if window and is_out_of_memory(error):
        from visualizer.widgets.dialogs import show_out_of_memory

        show_out_of_memory(window)
        return
    sys.__excepthook__(kind, error, trace)
    shown = log_unexpected_error(error)
    if window:
        window.show_unexpected_error(shown)
    elif windows:  # without a visible window, the program would keep running unnoticed
        windows.exit_without_window()


def create_window_services() -> WindowServices:
    """Return the services that windows need from packages that import torch."""
    from visualizer.shell.injected_services import WindowServices
    from visualizer.shell.screen_presenter import ScreenPresenter

    return WindowServices(
        compute,
        read_file,
        restore_run_and_view,
        ScreenPresenter,
        read_trained_example,
        release_idle_memory,
    )


def make_application() -> Application:
    """Create the application with the program's style, locale and memory settings."""
    gc.disable()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    from visualizer.shell.application import Application
    from visualizer.storage.program_folders import move_old_folders

    move_old_folders()
    fix_mmap_threshold()
    enable_huge_pages()
    set_number_locale()
    restore_builtin_import()
    with exit_if_qt_cannot_start(SCREEN_ERROR):
        application = Application([sys.argv[0]])
    from visualizer.widgets.garbage_collector import GarbageCollector

    GarbageCollector(application, COLLECTION_DELAY_MS)
    set_application_names(application)
    set_desktop_file_name()
    from visualizer.widgets.app_settings import disable_qt_settings

    disable_qt_settings()
    application.setStyle("Fusion")
    apply_stored_text_size()
    return application


def apply_stored_text_size() -> None:
    from visualizer.widgets.app_settings import load_text_size
    from visualizer.widgets.fonts import apply_interface_font

    apply_interface_font(load_text_size())


def restore_builtin_import() -> None:
    """Restore Python's own ``__import__``, which PySide6 replaces with a wrapper.

    The wrapper supports modules that select ``snake_case`` names; this program has none. The
    wrapper slows down the thousands of imports in torch by a fifth, and imports numpy because it
    accesses numpy's attributes.
    """
    builtins.__import__ = getattr(builtins, "__orig_import__", builtins.__import__)


def set_application_names(application: QCoreApplication | type[QCoreApplication]) -> None:
    application.setApplicationName(NAME)
    application.setOrganizationName(NAME)


def set_desktop_file_name() -> None:
    """Set the name of the desktop entry if it is installed.

    Wayland uses this name to find the window icon. Desktops print a warning if the entry does not
    exist.
    """
    from PySide6.QtCore import QStandardPaths
    from PySide6.QtGui import QGuiApplication

    entries = QStandardPaths.StandardLocation.ApplicationsLocation
    if QStandardPaths.locate(entries, f"{DESKTOP_ENTRY_NAME}.desktop"):
        QGuiApplication.setDesktopFileName(DESKTOP_ENTRY_NAME)


def open_window(document: Document, view: View | None = None) -> MainWindow:
    """Open a window with a document, and start its first computation."""
    from visualizer.session.view import WINDOW_VIEW
    from visualizer.shell.window_manager import create_window

    window = create_window(create_window_services(), document, view or WINDOW_VIEW)
    window.show()
    return window


def set_number_locale() -> None:
    """Set the C locale without group separators, so that input fields use a decimal point."""
    from PySide6.QtCore import QLocale

    locale = QLocale.c()
    locale.setNumberOptions(QLocale.NumberOption.OmitGroupSeparator)
    QLocale.setDefault(locale)
