"""The table of panels: how each is presented, and what is prefetched for it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec import Struct

from visualizer.attention.remote_numbers import NumbersOnTheirWayError, without_waiting
from visualizer.features.cell.presenter import CELL, present_cell
from visualizer.features.code.presenter import CODE, present_code
from visualizer.features.comparison_bar import presenter as comparison_bar_presenter
from visualizer.features.comparison_bar.presenter import COMPARISON, present_comparison
from visualizer.features.head_scatter import presenter as head_scatter_presenter
from visualizer.features.head_scatter.presenter import (
    SCATTER,
    HeadScatterPanel,
    present_scatter,
)
from visualizer.features.head_table import presenter as head_table_presenter
from visualizer.features.head_table.presenter import HEADS, present_heads
from visualizer.features.layer_overview import presenter as layer_overview_presenter
from visualizer.features.layer_overview.presenter import (
    LAYERS,
    LayerOverviewPanel,
    present_layers,
)
from visualizer.features.lessons.presenter import LESSON, present_position
from visualizer.features.line_view import line_selection, long_text_lines
from visualizer.features.line_view.presenter import LINES, present_lines
from visualizer.features.logit_attribution.presenter import (
    ATTRIBUTION,
    AttributionPanel,
    present_attribution,
)
from visualizer.features.logit_lens.presenter import LENS, LensPanel, present_lens
from visualizer.features.mask_editor.presenter import MASK_EDIT, present_mask_edit
from visualizer.features.next_token.presenter import (
    NEXT_TOKEN,
    NextTokenPanel,
    present_next_token,
)
from visualizer.features.playback.presenter import (
    PLAYBACK,
    PlaybackBarState,
    present_playback,
)
from visualizer.features.setup.presenter import SETUP, present_setup
from visualizer.features.shapes.presenter import SHAPES, ShapesPanel, present_shapes
from visualizer.features.stage_bar.presenter import STAGE_BAR, present_stage_bar
from visualizer.features.tensor_editor.presenter import TABLE, present_table
from visualizer.features.token_strip import presenter as token_strip_presenter
from visualizer.features.token_strip.presenter import TOKENS, TokenPanel, present_tokens
from visualizer.features.view_bar.presenter import (
    VIEW_CONTROLS,
    ViewControlsPanel,
    present_view_controls,
)
from visualizer.format import format_count
from visualizer.heatmap import board_presenter
from visualizer.heatmap.board_presenter import BOARD_CONTENTS, BoardContents, present_board_contents
from visualizer.session.computation_caption import facts
from visualizer.session.head_retrieval import is_retrieval_read, read_retrieval
from visualizer.session.provenance import provenance_of_view
from visualizer.session.screen import LatePanels, PanelId, Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from visualizer.attention.model_reading import ModelReading
    from visualizer.features.lessons.lesson import Lessons
    from visualizer.features.lessons.presenter import LessonPanel
    from visualizer.features.setup.presenter import SetupPanel
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.screen import Moment

WAITING = "Loading PyTorch…"
IMAGE_REQUIRED = "Choose an image to show the heatmaps."
EMPTY = "The heatmaps appear here when the text and the settings are valid."


READING = "Running on {tokens} … {share} %"


class StatusLine(Struct, frozen=True):
    """Contents of the status bar: what was computed where, and notices.

    Parameters
    ----------
    provenance : str
        Where the weights come from, such as "untrained: random weights, seed 123".
    progress : str
        Progress of a model on a long text; empty otherwise.
    share : float
        Completed share; 1 if unknown.
    """

    facts: str = ""
    notices: tuple[str, ...] = ()
    is_working: bool = False
    progress: str = ""
    share: float = 1.0
    provenance: str = ""


STATUS: PanelId[StatusLine] = PanelId("Status")

Panel = TypeVar("Panel")


def _return_none(*given: object) -> None:
    return None


class PanelPresenter(Struct, Generic[Panel], frozen=True):
    """Describes how one panel is created.

    Parameters
    ----------
    present : callable
        Creates the panel from the moment, its other panels and the previous panel.
    empty : object
        The panel if there are no numbers or its pane is closed.
    pane : str
        The closable pane that shows it; the panel is not created while it is closed.
    prefetch_key : callable
        Returns a key of the parts of large tensors that the panel needs.
    prefetch : callable
        Reads these parts, and returns the panel if it was created in the process; receives the
        panels of the rows above and the previous panel.
    """

    id: PanelId[Panel]
    present: Callable[[Resolved, Moment, Panel], Panel]
    empty: Panel
    pane: str = ""
    prefetch_key: Callable[[Resolved], Hashable] = _return_none
    prefetch: Callable[[Resolved, Mapping[str, object], Any], Panel | None] = _return_none

    def is_seen(self, resolved: Resolved) -> bool:
        """Whether its pane is visible."""
        return not self.pane or self.pane in resolved.view.panes


def _prefetch_only(read: Callable[[Resolved], object], resolved: Resolved, *given: object) -> None:
    read(resolved)


def _board_of(moment: Moment) -> Any:
    return moment.panel(BOARD_CONTENTS).board


ROWS: tuple[PanelPresenter[Any], ...] = (
    PanelPresenter(
        BOARD_CONTENTS,
        lambda resolved, moment, previous: present_board_contents(resolved, previous),
        BoardContents(),
        prefetch_key=board_presenter.needs,
        prefetch=lambda resolved, made, previous: board_presenter.warm(resolved, previous),
    ),
    PanelPresenter(STAGE_BAR, lambda resolved, moment, previous: present_stage_bar(resolved), ()),
    PanelPresenter(
        TOKENS,
        lambda resolved, moment, previous: present_tokens(
            resolved, moment.panel(BOARD_CONTENTS).cursor
        ),
        TokenPanel(),
        prefetch_key=token_strip_presenter.needs,
        prefetch=partial(_prefetch_only, token_strip_presenter.warm),
    ),
    PanelPresenter(
        CELL,
        lambda resolved, moment, previous: present_cell(resolved, _board_of(moment), previous),
        None,
    ),
    PanelPresenter(
        PLAYBACK,
        lambda resolved, moment, previous: present_playback(
            resolved, previous, moment.panel(BOARD_CONTENTS).step_lights
        ),
        PlaybackBarState(),
        prefetch=lambda resolved, made, previous: present_playback(
            resolved, previous, BOARD_CONTENTS.of(made).step_lights
        ),
    ),
    PanelPresenter(CODE, lambda resolved, moment, previous: present_code(resolved), None, "Code"),
    PanelPresenter(
        SHAPES,
        lambda resolved, moment, previous: present_shapes(resolved, previous),
        ShapesPanel(),
        "Shapes",
    ),
    PanelPresenter(
        HEADS,
        lambda resolved, moment, previous: present_heads(resolved, previous),
        None,
        "Heads",
        prefetch_key=lambda resolved: True,
        prefetch=partial(_prefetch_only, head_table_presenter.warm),
    ),
    PanelPresenter(
        LAYERS,
        lambda resolved, moment, previous: present_layers(resolved, previous),
        LayerOverviewPanel(),
        "Layers",
        prefetch_key=layer_overview_presenter.needs,
        prefetch=partial(_prefetch_only, layer_overview_presenter.warm),
    ),
    PanelPresenter(
        NEXT_TOKEN,
        lambda resolved, moment, previous: present_next_token(resolved, moment.refused),
        NextTokenPanel(),
    ),
    PanelPresenter(
        LENS,
        lambda resolved, moment, previous: present_lens(resolved, previous, moment.refused),
        LensPanel(),
        "Lens",
    ),
    PanelPresenter(
        ATTRIBUTION,
        lambda resolved, moment, previous: present_attribution(resolved, previous, moment.refused),
        AttributionPanel(),
        "Attribution",
    ),
    PanelPresenter(
        SCATTER,
        lambda resolved, moment, previous: present_scatter(resolved, previous),
        HeadScatterPanel(),
        "Scatter",
        prefetch_key=lambda resolved: resolved.leading,
        prefetch=partial(_prefetch_only, head_scatter_presenter.warm),
    ),
    PanelPresenter(
        COMPARISON,
        lambda resolved, moment, previous: present_comparison(resolved),
        None,
        prefetch_key=comparison_bar_presenter.needs,
        prefetch=partial(_prefetch_only, comparison_bar_presenter.warm),
    ),
    PanelPresenter(
        VIEW_CONTROLS,
        lambda resolved, moment, previous: present_view_controls(resolved, _board_of(moment)),
        ViewControlsPanel(),
    ),
    PanelPresenter(
        TABLE, lambda resolved, moment, previous: present_table(resolved), None, "Numbers"
    ),
    PanelPresenter(
        LINES,
        lambda resolved, moment, previous: present_lines(
            resolved, moment.panel(BOARD_CONTENTS).cursor, previous
        ),
        None,
        "Lines",
        prefetch_key=line_selection.needs,
        prefetch=partial(_prefetch_only, line_selection.warm),
    ),
    PanelPresenter(
        MASK_EDIT,
        lambda resolved, moment, previous: present_mask_edit(
            resolved, _board_of(moment), moment.refused
        ),
        None,
    ),
)
"""The panels that show numbers; prefetched panels follow the panels they depend on."""


DRAWN = frozenset(
    panel.name for panel in (BOARD_CONTENTS, TOKENS, LAYERS, LINES, HEADS, SCATTER, STATUS)
)
"""The panels that change while the images of long texts are refined."""


class PanelPresenters:
    """Makes screens from the rows.

    Parameters
    ----------
    lessons : callable
        Returns the available lessons.
    """

    def __init__(self, lessons: Callable[[], Lessons] = dict) -> None:
        self._lessons = lessons

    def present(self, moment: Moment, previous: Mapping[str, object]) -> Screen:
        """Create a screen, reusing the objects of unchanged panels."""
        resolved, made = moment.resolved, moment.panels
        made.makers.update(
            {
                SETUP.name: partial(
                    present_setup, moment.document, moment.refused, _reading_by_its_model(moment)
                ),
                LESSON.name: partial(self._present_lesson, moment),
                STATUS.name: partial(_present_status, moment),
            }
        )
        for row in ROWS:
            name = row.id.name
            if resolved is not None and row.is_seen(resolved):
                before = previous.get(name, row.empty)
                made.makers[name] = partial(_present_or_keep, row, resolved, moment, before)
                made.before[name] = before
            else:
                made[name] = row.empty
        if resolved is None:
            empty = IMAGE_REQUIRED if moment.document.reads_image else EMPTY
            waiting = _describe_progress(moment) or WAITING
            made[BOARD_CONTENTS.name] = BoardContents(
                message=waiting if moment.is_working else empty
            )
        return Screen(moment.document, moment.view, resolved, made, moment.wanted)

    def present_drawn(self, moment: Moment, shown: LatePanels) -> Screen:
        """Create a screen in which only the panels of `DRAWN` have changed."""
        screen = self.present(moment, shown.newest())
        made = screen.panels
        for name in made.makers.keys() & shown.keys() - DRAWN:
            del made.makers[name]
            made[name] = shown[name]
        return screen

    def prefetch_key(self, resolved: Resolved) -> Hashable:
        """Return a key of everything to prefetch; equal keys need only one prefetch."""
        return tuple(row.prefetch_key(resolved) if row.is_seen(resolved) else None for row in ROWS)

    def prefetch(self, resolved: Resolved, previous: Mapping[str, object]) -> Mapping[str, object]:
        """Prefetch everything needed, and return the panels created in the process."""
        made: dict[str, object] = {}
        for row in ROWS:
            if row.is_seen(resolved):
                panel = row.prefetch(resolved, made, previous.get(row.id.name, row.empty))
                if panel is not None:
                    made[row.id.name] = panel
        return made

    def is_begun(self, resolved: Resolved) -> bool:
        """Whether all visible panels have a first image and the pointed-at rows are computed."""
        is_read = token_strip_presenter.is_read(resolved) and long_text_lines.is_read(resolved)
        is_read = is_read and not _is_retrieval_wanted(resolved)
        return is_read and board_presenter.is_begun(resolved)

    def is_drawn(self, resolved: Resolved) -> bool:
        """Whether all visible images are exact."""
        return board_presenter.is_drawn(resolved) and self.is_begun(resolved)

    def begin(self, resolved: Resolved, is_over: Callable[[], bool]) -> None:
        """Create a first image of all visible panels, on the worker, until `is_over`."""
        if not token_strip_presenter.is_read(resolved):  # pointed at, and quick to compute
            token_strip_presenter.read_more(resolved, is_over)
            if token_strip_presenter.is_read(resolved):
                return
        if board_presenter.is_begun(resolved):
            if _is_retrieval_wanted(resolved):  # the fewest rows
                read_retrieval(resolved, is_over)
            else:
                long_text_lines.read_more(resolved, is_over)
        else:
            board_presenter.begin(resolved, is_over)

    def draw_more(self, resolved: Resolved, is_over: Callable[[], bool]) -> None:
        """Refine the visible images, on the worker, until `is_over`."""
        board_presenter.draw_more(resolved, is_over)

    def _present_lesson(self, moment: Moment) -> LessonPanel | None:
        position, resolved = moment.view.lesson, moment.resolved
        lessons = self._lessons()
        if position is None or position.lesson_id not in lessons:
            return None
        run, computed = (resolved.run, resolved.computed) if resolved else (None, None)
        return present_position(
            lessons, position, moment.document, run, computed, moment.is_working
        )


def _present_or_keep(
    row: PanelPresenter[Panel], resolved: Resolved, moment: Moment, before: Panel
) -> Panel:
    """Create a panel; keep the previous one while its numbers arrive from another machine."""
    with without_waiting(), suppress(NumbersOnTheirWayError):
        return row.present(resolved, moment, before)
    return before


def _is_retrieval_wanted(resolved: Resolved) -> bool:
    """Whether visible panes need the retrieval measure of a long text's heads."""
    is_seen = not resolved.view.panes.isdisjoint({head_table_presenter.PANE, "Scatter"})
    return is_seen and resolved.run.trace.is_blockwise and not is_retrieval_read(resolved)


def _reading_by_its_model(moment: Moment) -> ModelReading | None:
    """Return the shown forward pass if it is one of the document's model."""
    resolved, model = moment.resolved, moment.document.model
    before = resolved.computed.model if resolved and resolved.computed else None
    is_by_it = model is not None and before is not None and before.folder == model.folder
    return resolved.run.reading if resolved and is_by_it else None


def _present_status(moment: Moment) -> StatusLine:
    progress, share = _describe_progress(moment), moment.progress.share if moment.progress else 1.0
    if moment.resolved is None:
        return StatusLine(is_working=moment.is_working, progress=progress, share=share)
    run, painting = moment.resolved.run, moment.panel(MASK_EDIT)
    told = (facts(run), board_presenter.how_exact(moment.resolved))
    said = painting.says if painting else "  ·  ".join(filter(None, told))
    notices = (*_describe_problems(moment.panel(SETUP)), *run.notices)
    provenance = provenance_of_view(moment.resolved)
    return StatusLine(said, notices, moment.is_working, progress, share, provenance)


def _describe_progress(moment: Moment) -> str:
    if moment.progress is None:
        return ""
    tokens = format_count(moment.progress.of, "token")
    return READING.format(tokens=tokens, share=int(100 * moment.progress.share))


def _describe_problems(setup: SetupPanel) -> tuple[str, ...]:
    """Repeat problems above the heatmaps, as their settings may be scrolled out of view."""
    wrong = [shown.problem.sentence for shown in setup.settings if shown.problem]
    others = [field.problem for field in (setup.second, setup.image) if field]
    wrong += [problem.sentence for problem in (setup.problem, *others) if problem.sentence]
    return tuple(f"The heatmaps were not updated. {sentence}" for sentence in wrong[:1])
