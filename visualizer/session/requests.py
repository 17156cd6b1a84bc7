"""What the worker is asked for: the numbers of a document, or what a view needs to be read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Protocol

from visualizer.errors import InputError
from visualizer.session.comparison import ComparisonKind
from visualizer.session.resolved_view import resolve
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.run import Run
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.screen import Presenter


class ComputeFunction(Protocol):
    """Computes a document, keeping of the last run what did not change; off the GUI thread."""

    def __call__(self, document: Document, previous: Run | None) -> Run: ...


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What is there when a request is made.

    Parameters
    ----------
    document : Document
        The one that is worked on, or that is to be computed.
    view : View
        What is wanted to be looked at.
    run, computed : Run or None, Document or None
        The last good run, and the document that it is of.
    panels : mapping
        Those that are shown, by their ids: what does not change of them is kept.
    """

    document: Document
    view: View
    run: Run | None
    computed: Document | None
    panels: Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class WorkerResult:
    """What a request came to: a run, or a sentence about what was refused.

    Without a document it was about a view of the run that is there.

    Parameters
    ----------
    resolved : Resolved or None
        What has been read, where anything has.
    panels : mapping
        The panels that were made on the way, by their ids.
    opened : View or None
        How a document is looked at that has just been opened.
    """

    document: Document | None
    view: View
    run: Run | None
    refused: InputError | None
    resolved: Resolved | None = None
    panels: Mapping[str, object] = field(default_factory=dict)
    opened: View | None = None


def in_window(view: View, shown: View) -> View:
    """Give a view that was read as a window can want it; a kept A comes with its numbers."""
    compared, pinned = view.comparison, view.pinned
    if compared and compared.against is ComparisonKind.KEPT and compared.kept is None:
        compared, pinned = None, None
    return replace(view, panes=shown.panes, room=shown.room, comparison=compared, pinned=pinned)


def opened(
    restore: Callable[[], tuple[Run, View]], presenter: Presenter, shown: Shown
) -> WorkerResult:
    """Give the numbers of a document that was read, and read what its view needs in this window."""
    try:
        run, view = restore()
        view = in_window(view, shown.view)
        resolved = resolve(shown.document, view, run, shown.document)
        panels = presenter.prefetch(resolved, shown.panels)
        return WorkerResult(shown.document, view, run, None, resolved, panels, view)
    except InputError as refused:
        return _refused(presenter, shown, refused)


def looked(presenter: Presenter, shown: Shown) -> WorkerResult:
    """Read what a view of the run that is there needs."""
    assert shown.run
    resolved = resolve(shown.document, shown.view, shown.run, shown.computed)
    panels = presenter.prefetch(resolved, shown.panels)
    return WorkerResult(None, shown.view, None, None, resolved, panels)


def computed(compute: ComputeFunction, presenter: Presenter, shown: Shown) -> WorkerResult:
    """Compute a document, and read what a view of it needs."""
    try:
        run = compute(shown.document, shown.run)
        resolved = resolve(shown.document, shown.view, run, shown.document)
        panels = presenter.prefetch(resolved, shown.panels)
        return WorkerResult(shown.document, shown.view, run, None, resolved, panels)
    except InputError as refused:
        return _refused(presenter, shown, refused)


def _refused(presenter: Presenter, shown: Shown, refused: InputError) -> WorkerResult:
    """Read what the view needs of the run that stays."""
    if shown.run is None:
        return WorkerResult(shown.document, shown.view, None, refused)
    resolved = resolve(shown.document, shown.view, shown.run, shown.computed)
    panels = presenter.prefetch(resolved, shown.panels)
    return WorkerResult(shown.document, shown.view, None, refused, resolved, panels)


def as_far_as_read(view: View, read: View) -> View:
    """Give what can be shown of a view while only another one's panels have been read."""
    at_once = [each.name for each in fields(View) if each.metadata.get("at once")]
    return replace(read, **{name: getattr(view, name) for name in at_once})
