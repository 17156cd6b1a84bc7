"""Resolves views and creates screens as the window does, but without a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.session.document import Document
from visualizer.session.resolved_view import ResolvedView, resolve_view
from visualizer.session.screen import Screen, ScreenInputs, TokenProgress
from visualizer.shell.screen_presenter import ScreenPresenter

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.attention.run import Run
    from visualizer.errors import InputError
    from visualizer.session.view import View


def resolved(run: Run, view: View, document: Document | None = None) -> ResolvedView:
    """Resolve a view of a run that was computed from the document."""
    document = document or Document()
    return resolve_view(document, view, run, document)


def present(
    document: Document,
    view: View,
    run: Run | None,
    refused: InputError | None,
    is_working: bool,
    previous: Screen | None,
    computed: Document | None = None,
    progress: TokenProgress | None = None,
) -> Screen:
    """Create the screen for a document, a view and the last valid run."""
    shown = resolve_view(document, view, run, computed) if run else None
    inputs = ScreenInputs(document, view, shown, view, refused, is_working, progress)
    screen = ScreenPresenter().present(inputs, previous.panels if previous else {})
    screen.panels.build_all()  # as the window does after showing them
    return screen


def needs(run: Run, view: View) -> Hashable:
    """Return the prefetch key of a view."""
    return ScreenPresenter().prefetch_key(resolved(run, view))


def warm(run: Run, view: View) -> None:
    """Prefetch everything that a view needs, as the worker does."""
    ScreenPresenter().prefetch(resolved(run, view), {})
