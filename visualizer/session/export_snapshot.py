"""The input of an export: a document, its view and its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.remote_numbers import forbid_waiting_for_numbers
from visualizer.brief_repr import brief_repr

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.document import Document
    from visualizer.session.view import View


class ExportSnapshot(Struct, frozen=True, eq=False):
    """Everything that an export needs: a run, its document and a view.

    Parameters
    ----------
    document : Document
        The document that the run was computed from.
    """

    document: Document
    view: View
    run: Run

    __repr__ = brief_repr

    @property
    def document_with_data(self) -> Document:
        """The document as it is written to a file, with the data that is stored only in its run."""
        with forbid_waiting_for_numbers():
            return self.document.with_results(self.run)

    def with_separate_tiles(self) -> ExportSnapshot:
        """Return a copy with images that can be refined without changing those in a window.

        Only matrices that are too large to be kept in memory are drawn in tiles.
        """
        if not self.run.trace.is_blockwise:
            return self
        run = replace(self.run, trace=self.run.trace.with_separate_tiles())
        return replace(self, run=run)
