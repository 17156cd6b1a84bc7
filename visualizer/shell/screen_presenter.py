"""Creates screens from the table of panels and prefetches the data that the panels need."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from visualizer.attention.remote_numbers import NumbersPendingError, forbid_waiting_for_numbers
from visualizer.features.lessons.presenter import LESSON_PANEL, present_lesson_page
from visualizer.features.line_view import long_text_lines
from visualizer.features.mask_editor.presenter import MASK_EDIT_PANEL
from visualizer.features.setup.presenter import SETUP_PANEL, present_setup
from visualizer.features.token_strip import presenter as token_strip_presenter
from visualizer.format import format_count
from visualizer.heatmap import board_presenter
from visualizer.heatmap.board_presenter import BOARD_CONTENTS, BoardContents
from visualizer.session.computation_caption import describe_computation
from visualizer.session.provenance import describe_view_provenance
from visualizer.session.retrieval_weights import is_retrieval_complete, read_retrieval_weights
from visualizer.session.screen import LazyPanels, PanelId, Screen
from visualizer.shell.pane_table import PANELS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.attention.model_forward_pass import ModelForwardPass
    from visualizer.features.lessons.lesson import LessonsById
    from visualizer.features.lessons.presenter import LessonPanel
    from visualizer.features.setup.presenter import SetupPanel
    from visualizer.session.pane_spec import PanelSpec
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import ScreenInputs

LOADING_TORCH_MESSAGE = "Loading PyTorch…"
IMAGE_REQUIRED_MESSAGE = "Choose an image to show the heatmaps."
EMPTY_MESSAGE = "The heatmaps appear here when the text and the settings are valid."
STALE_HEATMAPS_NOTICE = "The heatmaps were not updated."


RUNNING_MESSAGE = "Running on {tokens} … {share}%"


class StatusBarContents(Struct, frozen=True):
    """Contents of the status bar: what was computed and on which device, and notices.

    Parameters
    ----------
    remedy : tuple of (field, text)
        The setting that fixes the first problem, and the text of the link; empty if there is none.
    provenance : str
        The origin of the weights, such as "untrained: random weights, seed 123".
    progress : str
        Progress of a model that is running on a long text; empty otherwise.
    share : float
        Completed share of the work; 1 if unknown.
    """

    facts: str = ""
    notices: tuple[str, ...] = ()
    is_working: bool = False
    progress: str = ""
    share: float = 1.0
    provenance: str = ""
    remedy: tuple[str, str] = ("", "")


STATUS_PANEL: PanelId[StatusBarContents] = PanelId("Status")

Panel = TypeVar("Panel")
REFINED = frozenset({STATUS_PANEL.name, *(row.id.name for row in PANELS if row.is_refined)})
"""Panels that change while the images of a long text are refined."""


class ScreenPresenter:
    """Presenter that creates screens from the table of panels.

    Parameters
    ----------
    lessons : callable
        Returns the available lessons.
    """

    def __init__(self, lessons: Callable[[], LessonsById] = dict) -> None:
        self._lessons = lessons

    def present(self, inputs: ScreenInputs, previous: Mapping[str, object]) -> Screen:
        """Create a screen that reuses the objects of unchanged panels."""
        resolved, panels = inputs.resolved, inputs.panels
        panels.panel_builders.update(
            {
                SETUP_PANEL.name: partial(
                    present_setup, inputs.document, inputs.refused, _forward_pass_of_model(inputs)
                ),
                LESSON_PANEL.name: partial(self._present_lesson, inputs),
                STATUS_PANEL.name: partial(_present_status, inputs),
            }
        )
        for row in PANELS:
            name = row.id.name
            if resolved is not None and row.is_pane_visible(resolved):
                before = previous.get(name, row.empty)
                panels.panel_builders[name] = partial(
                    _present_or_keep, row, resolved, inputs, before
                )
                panels.before[name] = before
            else:
                panels[name] = row.empty
        if resolved is None:
            empty = IMAGE_REQUIRED_MESSAGE if inputs.document.takes_image else EMPTY_MESSAGE
            waiting = _describe_progress(inputs) or LOADING_TORCH_MESSAGE
            panels[BOARD_CONTENTS.name] = BoardContents(
                message=waiting if inputs.is_working else empty
            )
        return Screen(inputs.document, inputs.view, resolved, panels, inputs.wanted)

    def present_refined_images(self, inputs: ScreenInputs, shown: LazyPanels) -> Screen:
        """Create a screen in which only the panels of `REFINED` have changed."""
        screen = self.present(inputs, shown.latest_panels())
        panels = screen.panels
        for name in panels.panel_builders.keys() & shown.keys() - REFINED:
            del panels.panel_builders[name]
            panels[name] = shown[name]
        return screen

    def prefetch_key(self, resolved: ResolvedView) -> Hashable:
        """Return a key for the data to prefetch; views with equal keys need the same data."""
        return tuple(
            row.prefetch_key(resolved) if row.is_pane_visible(resolved) else None for row in PANELS
        )

    def prefetch(
        self, resolved: ResolvedView, previous: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Prefetch the data of all visible panels; return the panels created in the process."""
        panels: dict[str, object] = {}
        for row in PANELS:
            if row.is_pane_visible(resolved):
                panel = row.prefetch(resolved, panels, previous.get(row.id.name, row.empty))
                if panel is not None:
                    panels[row.id.name] = panel
        return panels

    def has_preview(self, resolved: ResolvedView) -> bool:
        """Return whether all panels have an initial image and weights at the pointer are known."""
        is_read = token_strip_presenter.are_weights_read(
            resolved
        ) and long_text_lines.are_weights_read(resolved)
        is_read = is_read and not _is_retrieval_wanted(resolved)
        return is_read and board_presenter.has_preview(resolved)

    def are_images_exact(self, resolved: ResolvedView) -> bool:
        """Return whether all visible images are exact."""
        return board_presenter.is_fully_drawn(resolved) and self.has_preview(resolved)

    def draw_first_images(self, resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
        """Create initial images of all visible panels on the worker, until `is_over()` is true."""
        if not token_strip_presenter.are_weights_read(resolved):  # at the pointer: quick to compute
            token_strip_presenter.read_more_weights(resolved, is_over)
            if token_strip_presenter.are_weights_read(resolved):
                return
        if board_presenter.has_preview(resolved):
            if _is_retrieval_wanted(resolved):  # this needs the fewest rows
                read_retrieval_weights(resolved, is_over)
            else:
                long_text_lines.read_more_weights(resolved, is_over)
        else:
            board_presenter.draw_preview(resolved, is_over)

    def refine_images(self, resolved: ResolvedView, is_over: Callable[[], bool]) -> None:
        """Refine the visible images on the worker, until `is_over()` is true."""
        board_presenter.draw_exact_values(resolved, is_over)

    def _present_lesson(self, inputs: ScreenInputs) -> LessonPanel | None:
        position, resolved = inputs.view.lesson, inputs.resolved
        lessons = self._lessons()
        if position is None or position.lesson_id not in lessons:
            return None
        run, computed = (resolved.run, resolved.computed) if resolved else (None, None)
        return present_lesson_page(
            lessons, position, inputs.document, run, computed, inputs.is_working
        )


def _present_or_keep(
    row: PanelSpec[Panel], resolved: ResolvedView, inputs: ScreenInputs, before: Panel
) -> Panel:
    """Create a panel, or keep the previous one until values from another machine have arrived."""
    with forbid_waiting_for_numbers(), suppress(NumbersPendingError):
        return row.present(resolved, inputs, before)
    return before


def _is_retrieval_wanted(resolved: ResolvedView) -> bool:
    """Return whether a visible pane needs the retrieval measure of the heads for a long text."""
    return (
        resolved.run.trace.is_blockwise
        and any(row.needs_retrieval and row.is_pane_visible(resolved) for row in PANELS)
        and not is_retrieval_complete(resolved)
    )


def _forward_pass_of_model(inputs: ScreenInputs) -> ModelForwardPass | None:
    """Return the displayed forward pass if it is a forward pass of the document's model."""
    resolved, model = inputs.resolved, inputs.document.model
    before = resolved.computed.model if resolved and resolved.computed else None
    is_by_it = model is not None and before is not None and before.folder == model.folder
    return resolved.run.reading if resolved and is_by_it else None


def _present_status(inputs: ScreenInputs) -> StatusBarContents:
    progress, share = _describe_progress(inputs), inputs.progress.share if inputs.progress else 1.0
    if inputs.resolved is None:
        return StatusBarContents(is_working=inputs.is_working, progress=progress, share=share)
    run, painting = inputs.resolved.run, inputs.panel(MASK_EDIT_PANEL)
    facts = (describe_computation(run), board_presenter.describe_exactness(inputs.resolved))
    text = painting.status if painting else "  ·  ".join(filter(None, facts))
    problem, remedy = _describe_problem(inputs.panel(SETUP_PANEL))
    notices = (*filter(None, (problem,)), *run.notices)
    provenance = describe_view_provenance(inputs.resolved)
    return StatusBarContents(text, notices, inputs.is_working, progress, share, provenance, remedy)


def _describe_progress(inputs: ScreenInputs) -> str:
    if inputs.progress is None:
        return ""
    tokens = format_count(inputs.progress.of, "token")
    return RUNNING_MESSAGE.format(tokens=tokens, share=int(100 * inputs.progress.share))


def _describe_problem(setup: SetupPanel) -> tuple[str, tuple[str, str]]:
    """Return a notice and a remedy for the first problem.

    The notice repeats the problem of a setting, which may be hidden, but not that of an input,
    which is shown below its field.
    """
    for shown in setup.settings:
        if shown.problem:
            notice = f"{STALE_HEATMAPS_NOTICE} {shown.problem.sentence}"
            return notice, (shown.setting.name, shown.remedy_text)
    inputs = (setup, setup.second, setup.image)
    if any(each and each.problem.sentence for each in inputs):
        return f"{STALE_HEATMAPS_NOTICE} They show the previous input.", ("", "")
    return "", ("", "")
