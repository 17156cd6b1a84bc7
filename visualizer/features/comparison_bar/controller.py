"""Controller of comparisons: of two runs, of two heads, or of dropout samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from PySide6.QtCore import QObject

from visualizer.attention.roles import Role
from visualizer.features.comparison_bar.presenter import COMPARISON_PANEL
from visualizer.session.cell_address import ComparisonSide
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.dropout_samples import drawable_sample_count, max_sample_count

if TYPE_CHECKING:
    from visualizer.features.comparison_bar.widget import ComparisonBar
    from visualizer.heatmap.cell_selection_controller import CellSelectionController
    from visualizer.session.workspace import Workspace


class ComparisonController(QObject):
    """Controller that starts, changes and ends comparisons; each public method is one action."""

    def __init__(
        self, workspace: Workspace, cell_selection: CellSelectionController, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._cell_selection = cell_selection

    def connect_bar(self, bar: ComparisonBar) -> None:
        """Connect the comparison bar."""
        bar.headsChosen.connect(self.choose_heads)
        bar.countChosen.connect(self.choose_sample_count)

    @property
    def _comparison(self) -> Comparison | None:
        return self._workspace.requested_view.comparison

    # ------------------------------------------------------------------ A and B

    def keep_as_side_a(self) -> None:
        """Keep the current run as A; later changes affect only B."""
        workspace = self._workspace
        self._start_comparison(ComparisonKind.KEPT, kept=workspace.run, document=workspace.computed)

    def swap_sides(self) -> None:
        """Exchange A and B: the current run becomes A, and the document of A is shown."""
        now, workspace = self._comparison, self._workspace
        if now and now.document and workspace.run:
            swapped = now.with_changes(kept=workspace.run, document=workspace.computed)
            view = replace(workspace.requested_view, comparison=swapped)
            workspace.show_document(now.document, view)

    def end_comparison(self) -> None:
        """End the comparison and restore the stages that were shown before it."""
        now, wanted = self._comparison, self._workspace.requested_view
        if now:
            stages = now.before if wanted.stages == now.alone else wanted.stages
            pinned = wanted.pinned and replace(wanted.pinned, part=ComparisonSide.PLAIN)
            self._workspace.change_view(comparison=None, stages=stages, pinned=pinned, hovered=None)

    # ------------------------------------------------------------------ heads

    def compare_heads(self) -> None:
        """Compare the head of the pinned cell or, if none is pinned, the first shown head.

        The other head is the next one.
        """
        resolved = self._workspace.resolved_requested_view
        if resolved:
            heads, head = resolved.run.trace.spec.heads, resolved.caption_head
            following = (head + 1) % heads if heads > 1 else 1
            self._start_comparison(ComparisonKind.HEAD, heads=(head, following))

    def choose_heads(self, one: int, other: int) -> None:
        """Set the two heads; choosing the same head twice swaps the current two heads."""
        now, run = self._comparison, self._workspace.run
        if now and run and one == other:
            count = run.trace.spec.heads
            first, second = (min(head, count - 1) for head in now.heads)
            one, other = (second, first) if first != second else (one, (one + 1) % count)
        self._change_comparison(heads=(one, other))

    # ------------------------------------------------------------------ samples

    def compare_dropout_samples(self) -> None:
        """Compare the mean of dropout samples with the weights before dropout."""
        self._start_comparison(ComparisonKind.SAMPLES)

    def scale_samples(self, steps: int) -> None:
        """Double or halve the number of samples."""
        if count := self._sample_count:
            self.choose_sample_count(2 * count if steps > 0 else (count + 1) // 2)

    def add_sample(self) -> None:
        if count := self._sample_count:
            self.choose_sample_count(count + 1)

    @property
    def _sample_count(self) -> int:
        """The number of samples, or 0 if nothing is compared."""
        now, run = self._comparison, self._workspace.run
        return drawable_sample_count(run, now.count) if now and run else 0

    def choose_sample_count(self, count: int) -> None:
        """Set the number of samples, limited to `max_sample_count`."""
        run = self._workspace.run
        if run:
            self._change_comparison(count=min(max(count, 1), max_sample_count(run)))

    # ------------------------------------------------------------------ all kinds

    def go_to_largest(self) -> None:
        """Pin the cell with the largest difference."""
        bar = self._workspace.screen.panel(COMPARISON_PANEL)
        if bar and bar.largest:
            self._cell_selection.follow_link(bar.largest)

    def _start_comparison(self, against: ComparisonKind, **fields: Any) -> None:
        """Start a comparison, and end playback and prediction.

        To save space, only one stage is shown: that of the pinned cell or,
        if no cell is pinned, the weights.
        """
        wanted, now = self._workspace.requested_view, self._comparison
        if self._workspace.run is None:
            return
        resolved = self._workspace.resolved_requested_view
        pinned = resolved.pinned if resolved else None
        initial = frozenset({pinned.stage if pinned else Role.WEIGHTS})
        alone = now.alone if now else initial
        before = now.before if now else wanted.stages
        self._workspace.change_view(
            comparison=Comparison(against, alone=alone, before=before, **fields),
            stages=wanted.stages if now else alone,
            playhead=replace(wanted.playhead, place=None, is_playing=False),
            guess=None,
            hovered=None,
        )

    def _change_comparison(self, **fields: Any) -> None:
        now = self._comparison
        if now and any(getattr(now, name) != value for name, value in fields.items()):
            self._workspace.change_view(comparison=now.with_changes(**fields))
