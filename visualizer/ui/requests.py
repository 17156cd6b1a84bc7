"""What the worker is asked for: the numbers of a document, or what a view needs to be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from visualizer.attention.spec import InputError
from visualizer.state.compare.comparison import Against
from visualizer.state.needed import needs, warm
from visualizer.state.playback.transport import Stand, present_stand

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.state.document import Document
    from visualizer.state.view import View


class Compute(Protocol):
    """Computes a document, keeping of the last run what did not change; off the GUI thread."""

    def __call__(self, document: Document, view: View, previous: Run | None) -> Run: ...


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What a request came to: a run, or a sentence about what was refused.

    Without a document it was about a view of the run that is there. With it comes what a step says,
    where there is one: of a large stage that takes a while.
    """

    document: Document | None
    view: View
    run: Run | None
    refused: InputError | None
    stand: Stand | None = None
    opened: View | None = None
    """How a document is looked at that has just been opened."""


def in_window(view: View, shown: View) -> View:
    """Give a view that was read as a window can want it; a kept A comes with its numbers."""
    compared, pinned = view.comparison, view.pinned
    if compared and compared.against is Against.KEPT and compared.kept is None:
        compared, pinned = None, None
    return replace(view, panes=shown.panes, room=shown.room, comparison=compared, pinned=pinned)


def opened(
    restore: Callable[[], tuple[Run, View]],
    document: Document,
    shown: View,
    previous: Run | None,
) -> Answer:
    """Give the numbers of a document that was read, and read what its view needs in this window."""
    try:
        run, view = restore()
        view = in_window(view, shown)
        warm(run, view)
        return Answer(document, view, run, None, present_stand(run, view, Stand()), view)
    except InputError as refused:
        if previous:
            warm(previous, shown)
        return Answer(document, shown, None, refused)


def looked(run: Run, view: View) -> Answer:
    """Read what a view of a run needs."""
    warm(run, view)
    return Answer(None, view, None, None, present_stand(run, view, Stand()))


def computed(compute: Compute, document: Document, view: View, previous: Run | None) -> Answer:
    """Compute a document, and read what a view of it needs."""
    try:
        run = compute(document, view, previous)
        return Answer(document, view, run, None, present_stand(run, view, Stand()))
    except InputError as refused:
        if previous:
            warm(previous, view)
        return Answer(document, view, None, refused)


def is_read_with(run: Run | None, view: View, other: View) -> bool:
    """Whether all that a view needs has been read for another one."""
    if run is None:
        return True
    return needs(run, view) == needs(run, other)


# What decides which panels there are, and what goes with it.
READ = (
    *("stages", "text", "spread", "room", "heads", "folds", "lens", "zoom", "colouring"),
    *("panes", "playhead", "guess", "pinned", "past", "future", "tokens", "lines", "comparison"),
)


def as_far_as_read(view: View, read: View) -> View:
    """Give what can be shown of a view while only another one's panels have been read."""
    return replace(view, **{name: getattr(read, name) for name in READ})
