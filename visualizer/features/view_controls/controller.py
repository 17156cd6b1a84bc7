"""How the panels are looked at: which heads, how close, in which colours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from visualizer.attention.weight_transforms import HeadAggregate, WeightTransform
from visualizer.features.view_controls.model import BoardArrangement
from visualizer.heatmap.board_picture import PICTURE
from visualizer.session.view import View
from visualizer.session.view_options import CodeDialect, ColourCurve, ColourLimits
from visualizer.session.zoom import Zoom, row_role, zoomed

if TYPE_CHECKING:
    from visualizer.session.resolved_view import Resolved
    from visualizer.session.workspace import Workspace

STEP = 1.5
PAN = 4
"""How much closer a key goes, and which part of what is seen it moves by."""


class ViewController(QObject):
    """Changes how a workspace is looked at; every method is something a reader wants."""

    def __init__(self, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._before = self._wanted

    @property
    def _wanted(self) -> View:
        return self._workspace.wanted

    @property
    def _seen(self) -> Zoom | None:
        """The part that is seen, as far as the text has it."""
        resolved = self._workspace.wanted_resolved
        return resolved.zoom if resolved else None

    # ------------------------------------------------------------------ closer and further

    def zoom(self, factor: float, at: tuple[float, float] | None = None) -> None:
        """Look closer or from further away, around a place, or around the pinned cell."""
        resolved = self._workspace.wanted_resolved
        if resolved:
            sides, seen = resolved.run.trace.sides, _drawn(resolved)
            if seen and at is None:
                cursor = self._workspace.screen.panel(PICTURE).cursor
                seen = seen.including(sides, cursor.query, cursor.key)
            at = at or self._middle(seen or Zoom.whole(sides))
            self._workspace.look(zoom=zoomed(seen, sides, factor, at))

    def zoom_at(self, factor: float, stage: str, row: float, column: float) -> None:
        """Look closer at a row and column of a stage; what is under the pointer stays there."""
        resolved = self._workspace.wanted_resolved
        if resolved:
            at = self._tokens_at(stage, row, column)
            middle = self._middle(_drawn(resolved) or Zoom.whole(resolved.run.trace.sides))
            query, key = (now if it is None else it for it, now in zip(at, middle, strict=True))
            self.zoom(factor, (query, key))

    def drag(self, stage: str, down: int, right: int) -> None:
        """Look so many rows and columns of a stage further down and right."""
        queries, keys = self._tokens_at(stage, down, right)
        self.pan_by(int(queries or 0), int(keys or 0))

    def _tokens_at(
        self, stage: str, row: float, column: float
    ) -> tuple[float | None, float | None]:
        """Say which queries and keys rows and columns of a stage are, if they are any."""
        run = self._workspace.run
        if run and run.trace.stage(stage).dims[-1] == "key":
            return row, column
        return (None, row) if row_role(stage) == "key" else (row, None)

    def closer(self) -> None:
        """Look closer at the pinned cell, or at the middle."""
        self.zoom(STEP)

    def further(self) -> None:
        """Look from further away."""
        self.zoom(1 / STEP)

    def whole(self) -> None:
        """Look at all of every panel."""
        self._workspace.look(zoom=None)

    def pan(self, down: int, right: int) -> None:
        """Look at what is a part further down and right."""
        zoom = self._seen
        if zoom:
            steps = (max(1, len(span) // PAN) for span in (zoom.queries, zoom.keys))
            self.pan_by(down * next(steps), right * next(steps))

    def pan_by(self, queries: int, keys: int) -> None:
        """Look so many tokens further down and right."""
        run, zoom = self._workspace.run, self._seen
        if run and zoom:
            self._workspace.look(zoom=zoom.panned(run.trace.sides, queries, keys))

    def centre(self, query: int, key: int) -> None:
        """Look at what is around a query and a key, as close as now."""
        zoom = self._seen
        if zoom:
            now = (span.start + len(span) // 2 for span in (zoom.queries, zoom.keys))
            self.pan_by(query - next(now), key - next(now))

    def _middle(self, seen: Zoom) -> tuple[float, float]:
        cursor = self._workspace.screen.panel(PICTURE).cursor
        query, key = (span.start + len(span) / 2 for span in (seen.queries, seen.keys))
        at_query = query if cursor.query is None else cursor.query + 0.5
        return at_query, key if cursor.key is None else cursor.key + 0.5

    # ------------------------------------------------------------------ layouts and heads

    def arrange(self, layout: str) -> None:
        """Arrange the panels in one of the layouts."""
        {
            BoardArrangement.ALL: self.all_panels,
            BoardArrangement.STAGE: self.one_stage,
            BoardArrangement.HEAD: self.one_head,
        }[BoardArrangement(layout)]()

    def all_panels(self) -> None:
        """Show the stages side by side, a row a head."""
        stages = self._wanted.stages
        several = stages if len(stages) > 1 else View().stages
        self._workspace.look(heads=None, stages=several)

    def one_stage(self) -> None:
        """Show one stage in all its heads: that of the pinned cell, else the last with heads."""
        resolved = self._workspace.wanted_resolved
        if resolved is None:
            return
        run, pinned = resolved.run, self._wanted.pinned
        with_heads = [
            stage.name
            for stage in run.trace.stages
            if "head" in stage.dims and stage.name in resolved.chosen
        ]
        shares = [name for name in with_heads if run.trace.stage(name).is_weights]
        last = (shares or with_heads or [run.trace.attention])[-1]
        stage = pinned.stage if pinned and pinned.head is not None else last
        self._workspace.look(stages=frozenset({stage}), heads=None)

    def stage_alone(self, stage: str) -> None:
        """Show one stage and no other; a cell that is pinned elsewhere is let go."""
        pinned = self._wanted.pinned
        kept = pinned if pinned and pinned.stage == stage else None
        self._workspace.look(stages=frozenset({stage}), pinned=kept)

    def one_head(self) -> None:
        """Show one head, as large as can be: that of the pinned cell, else the first shown."""
        resolved, pinned = self._workspace.wanted_resolved, self._wanted.pinned
        if resolved:
            first = resolved.heads[:1] or (0,)
            head = first[0] if pinned is None or pinned.head is None else pinned.head
            self._workspace.look(heads=frozenset({head}))
            self._show_folds(frozenset())

    def next_head(self, steps: int) -> None:
        """Show the next head alone, or the one before."""
        resolved = self._workspace.wanted_resolved
        if resolved:
            shown = resolved.heads[:1] or (0,)
            chosen = self._wanted.heads or frozenset()
            head = min(chosen) + steps if len(chosen) == 1 else shown[0]
            self._show_alone(head % resolved.run.trace.spec.heads)

    def toggle_head(self, head: int) -> None:
        """Show or hide a head; what is shown last stays."""
        resolved, self._before = self._workspace.wanted_resolved, self._wanted
        if resolved:
            shown = frozenset(resolved.heads) ^ {head}
            if shown or self._wanted.folds:
                is_all = len(shown) == resolved.run.trace.spec.heads
                self._let_go_of({head} - shown)
                self._workspace.look(heads=None if is_all else shown)

    def solo_head(self, head: int) -> None:
        """Show one head alone; a second time, all of them."""
        if self._wanted.heads == frozenset({head}):
            self._workspace.look(heads=None)
        else:
            self._show_alone(head)

    def solo_clicked_head(self, head: int) -> None:
        """Show one head alone by a double click, of which the first click is taken back."""
        self._workspace.look(heads=self._before.heads, pinned=self._before.pinned)
        self.solo_head(head)

    def _show_alone(self, head: int) -> None:
        pinned = self._wanted.pinned
        if pinned and pinned.head is not None:
            self._let_go_of({pinned.head} - {head})
        self._workspace.look(heads=frozenset({head}))

    def toggle_fold(self, by: str) -> None:
        """Show or hide the mean or the largest of all heads, as one more head."""
        self._show_folds(self._wanted.folds ^ {HeadAggregate(by)})

    def _show_folds(self, folds: frozenset[HeadAggregate]) -> None:
        pinned = self._wanted.pinned
        is_hidden = pinned is not None and pinned.fold is not None and pinned.fold not in folds
        self._workspace.look(folds=folds, pinned=None if is_hidden else pinned)

    def toggle_spread(self) -> None:
        """Show the texts of a batch side by side, in one head; or one text in all heads."""
        self._workspace.look(spread=not self._wanted.spread)

    def look_at_text(self, text: int) -> None:
        """Look at the text whose panel the pointer came to."""
        self._workspace.look(text=text)

    def step_text(self, step: int) -> None:
        """Look at the next text of a batch, or layer of what was captured, or the one before."""
        resolved = self._workspace.screen.resolved
        if resolved:
            self._workspace.show_text(resolved.text + step)

    def set_dialect(self, dialect: str) -> None:
        """Read the code in one of its dialects."""
        self._workspace.look(dialect=CodeDialect(dialect))

    def _let_go_of(self, heads: set[int]) -> None:
        pinned = self._wanted.pinned
        if pinned and pinned.head in heads:
            self._workspace.look(pinned=None)

    def set_lens(self, lens: str) -> None:
        """Look at weights as they are, without the first token, or times their values' length."""
        self._workspace.look(lens=WeightTransform(lens))

    # ------------------------------------------------------------------ colours

    def set_curve(self, curve: str) -> None:
        """Share the colours out by size, by power or by order."""
        self._colour(curve=ColourCurve(curve))

    def set_limits(self, limits: str) -> None:
        """Choose which numbers have the colours at the ends."""
        self._colour(limits=ColourLimits(limits))

    def set_map(self, name: str) -> None:
        """Choose the colours of weights."""
        self._colour(sequential=name)

    def set_diverging(self, name: str) -> None:
        """Choose the colours of numbers above and below 0."""
        self._colour(diverging=name)

    def type_limits(self, stage: str, low: float, high: float) -> None:
        """Give a stage the two numbers at the ends of its colours."""
        typed = self._wanted.colouring.typed
        others = tuple(ends for ends in typed if ends[0] != stage)
        self._colour(limits=ColourLimits.TYPED, typed=(*others, (stage, low, high)))

    def _colour(self, **changes: Any) -> None:
        self._workspace.look(colouring=replace(self._wanted.colouring, **changes))


def _drawn(resolved: Resolved) -> Zoom | None:
    """Say what is drawn: of what is seen, whole blocks."""
    trace = resolved.run.trace
    look = resolved.extent(trace.stage(trace.attention))
    return Zoom(look.rows, look.columns) if look.rows and look.columns else None
