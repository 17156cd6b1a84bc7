"""Sends the workspace's requests to its worker, and refines images between requests."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from visualizer.session import worker_jobs
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.session.screen import TokenProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.run import Run
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import Presenter
    from visualizer.session.view import View

REFINEMENT_DELAY_MS = 80
"""Delay before images are refined after a user action, because refinement slows the window down."""


class RequestController(QObject):
    """Sends requests to the worker, and refines the images of a long text while the worker is idle.

    Parameters
    ----------
    presenter : Presenter
        Refines the images.
    on_idle : callable or None
        Called on the worker's thread when the worker is idle.
    """

    refinement_due = Signal()
    """Emitted when the delay after a user action has passed, or a dialog was opened or closed."""

    def __init__(
        self, presenter: Presenter, on_idle: Callable[[], object] | None, parent: QObject
    ) -> None:
        super().__init__(parent)
        self.worker = NewestRequestWorker(self, on_idle)
        self.progress: TokenProgress | None = None
        """Progress of the model in the last request, or None if the request has reported none."""
        self._presenter = presenter
        self._request: Callable[[], object] | None = None
        """The last request to the worker."""
        self._refining: tuple[Run | None, View] | None = None
        """Run and view that the worker is refining, or None during any other request."""
        self._failed_refinement: tuple[Run | None, View] | None = None
        """Run and view that are no longer refined because their refinement failed."""
        self.is_refinement_delayed = self._is_covered = False
        """These flags are also read on the worker's thread."""
        self.refinement_timer = QTimer(self, singleShot=True, interval=REFINEMENT_DELAY_MS)
        self.refinement_timer.timeout.connect(self.resume_refinement)

    @property
    def is_working(self) -> bool:
        """Whether the worker has a request other than refining images."""
        return self.worker.is_working and self._refining is None

    def submit(self, request: Callable[[], object]) -> None:
        """Send a request, which replaces the one that is waiting."""
        self._refining, self._request, self.progress = None, request, None
        self.worker.submit(request)

    def drop_answered_request(self) -> None:
        """Drop the answered request, because it references the previous run."""
        if not self.worker.is_working:
            self._request = None

    def record_progress(self, request: Callable[[], object], done: int, of: int) -> bool:
        """Record the progress of a request; return whether the request is the last one."""
        is_last = request is self._request
        if is_last:
            self.progress = TokenProgress(done, of)
        return is_last

    def refine_images(self, run: Run | None, view: View, resolved: ResolvedView | None) -> None:
        """Refine the images of a view unless another request is running."""
        wanted = run, view
        # A second request for the same images would only interrupt the first.
        is_busy = self.worker.is_working and self._refining in (None, wanted)
        if is_busy or resolved is None or self._failed_refinement == wanted:
            return
        if self._presenter.are_images_exact(resolved):
            return
        if self._is_paused() and self._presenter.has_preview(resolved):
            return
        # The same worker also handles the requests for the next view.
        has_newer_request = partial(getattr, self.worker, "has_newer_request")
        self.submit(
            partial(
                worker_jobs.refine_images,
                self._presenter,
                resolved,
                has_newer_request,
                self._is_paused,
            )
        )
        self._refining = wanted

    def mark_refinement_failed(self, run: Run | None, view: View) -> None:
        """Stop refining a view after its refinement failed, because it would fail again."""
        if self._refining:
            self._failed_refinement = run, view

    def delay_refinement(self) -> None:
        """Delay refinement after a user action."""
        self.is_refinement_delayed = True
        self.refinement_timer.start()

    def resume_refinement(self) -> None:
        """Resume refinement."""
        self.is_refinement_delayed = False
        self.refinement_due.emit()

    def set_images_covered(self, is_covered: bool) -> None:
        """Pause refinement while a dialog covers the images and needs the CPU cores."""
        self._is_covered = is_covered
        self.refinement_due.emit()

    def _is_paused(self) -> bool:
        return self.is_refinement_delayed or self._is_covered

    def close(self) -> None:
        """Stop all computation; a running request ends at its next interruption point."""
        self.refinement_timer.stop()
        self.worker.abandon()
