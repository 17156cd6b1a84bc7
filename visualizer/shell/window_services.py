"""What windows ask of the parts that hold torch: handed in, as no window imports them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from visualizer.attention.run import Run
    from visualizer.documents.document_file import SavedDocument
    from visualizer.documents.open_document import DocumentChange
    from visualizer.features.lessons.model import Lessons
    from visualizer.session.document import Document
    from visualizer.session.requests import ComputeFunction
    from visualizer.session.screen import Presenter
    from visualizer.session.view import View


@dataclass(frozen=True, slots=True)
class Services:
    """The services of the program; but for the presenter, each is called off the GUI thread.

    Parameters
    ----------
    compute : callable
        Computes a document.
    read : callable
        Reads any file that can be opened: a document of its own, or a change of the one there is.
    restore : callable
        Gives the numbers of what was read: recorded ones as they are, or else computed.
    presenter : callable
        Gives a window what makes its screens; it asks for the lessons that are open there.
    rest : callable
        Gives back what was kept to compute faster, when nothing has been asked for a while.
    """

    compute: ComputeFunction
    read: Callable[[Path, Document], SavedDocument | DocumentChange]
    restore: Callable[[SavedDocument], tuple[Run, View]]
    presenter: Callable[[Callable[[], Lessons]], Presenter]
    rest: Callable[[], object]
