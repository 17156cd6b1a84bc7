"""What an export takes: a document, its view and its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.document import Document
    from visualizer.session.view import View


class Snapshot(Struct, frozen=True, eq=False):
    """Everything exportable at one moment: a run, its document and its resolved view.

    Parameters
    ----------
    document : Document
        The document that the run was computed from.
    """

    document: Document
    view: View
    run: Run
