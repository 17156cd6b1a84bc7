"""Functions that are passed to windows, so that windows do not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.documents.document_file import SavedDocument
    from visualizer.documents.open_document import DocumentChange
    from visualizer.features.lessons.lesson import LessonsById
    from visualizer.session.document import Document
    from visualizer.session.screen import Presenter
    from visualizer.session.view import View
    from visualizer.session.worker_jobs import ComputeFunction


class WindowServices(Struct, frozen=True):
    """Services for windows; all except `presenter` are called on worker threads.

    Parameters
    ----------
    compute : callable
        Computes a document.
    read : callable
        Reads any supported file: a document, or a change to the current one.
    restore : callable
        Returns the run that is stored in a document, or computes the run.
    presenter : callable
        Creates the presenter of a window; takes a function that returns the window's lessons.
    read_example : callable
        Reads the trained example of the start page.
    rest : callable
        Frees cached data; called when a window has been idle for some time.
    """

    compute: ComputeFunction
    read: Callable[[Path, Document], SavedDocument | DocumentChange]
    restore: Callable[[SavedDocument], tuple[Run, View]]
    presenter: Callable[[Callable[[], LessonsById]], Presenter]
    read_example: Callable[[], SavedDocument]
    rest: Callable[[], object]
