"""The matrices that data exports write: whole, unpooled stages of one text and head."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.head_aggregates import HeadAggregate
from visualizer.attention.weight_transforms import WeightTransform
from visualizer.heatmap.panel_and_board_types import counted_from_one
from visualizer.language.tokenizers import all_visible, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.resolved_view import Resolved

FOLDED = {HeadAggregate.MEAN: "mean of the heads", HeadAggregate.MAX: "largest of the heads"}
SEEN = {
    WeightTransform.WITHOUT_FIRST: "without the first token",
    WeightTransform.TIMES_VALUE: "× ‖value‖",
}

_NO_LETTER = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class ExportMatrix(Struct, frozen=True):
    """One matrix of a run.

    Parameters
    ----------
    head : int or None
        None for a stage without heads, and for aggregated heads.
    leading : tuple of int
        The layer and text, as an index of the run's leading axes.
    lens : WeightTransform
        The transform that is applied to it, if it is weights.
    """

    stage: str
    head: int | None = None
    leading: LeadingIndex = ()
    fold: HeadAggregate | None = None
    lens: WeightTransform = WeightTransform.PLAIN

    def title(self, run: Run) -> str:
        """Name the stage, the head and the text."""
        parts = [self._stage(run).title]
        if self._lens(run) is not WeightTransform.PLAIN:
            parts[0] += f" {SEEN[self.lens]}"
        if self.fold:
            parts.append(FOLDED[self.fold])
        if self.head is not None:
            parts.append(f"head {self.head + 1}")
        named = zip(run.trace.axes, self.leading, strict=True)
        parts += [f"{axis} {at + 1}" for axis, at in named]
        return ", ".join(parts)

    def axes(self, run: Run) -> tuple[str, str]:
        """Name what its rows and its columns count."""
        rows, columns = self._stage(run).dims[-2:]
        return rows, columns

    def labels(self, run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return a label for every row and column: displayed tokens, or numbers from 1.

        Line breaks, control characters and lone surrogates are replaced by symbols, so that a
        label is one line of text that any file can hold.
        """
        rows = self._tokens(run, self.axes(run)[0])
        if self.has_keys(run):
            return rows, self._tokens(run, "key")
        return rows, counted_from_one(self._columns(run))

    def has_keys(self, run: Run) -> bool:
        """Whether its columns are tokens."""
        return self.axes(run)[1] == "key"

    def name(self, run: Run) -> str:
        """Return the stage's identifier, with its weight transform."""
        lens = self._lens(run)
        return self.stage if lens is WeightTransform.PLAIN else f"{self.stage} {lens}"

    def read(self, run: Run) -> np.ndarray:
        """Read the matrix, read-only [row, column], in the spec's floating-point type."""
        head = () if self.head is None else (self.head,)
        held = run.trace.seen(self.stage, self.lens, self.fold)
        return held.read((*self.leading, *head))

    def _tokens(self, run: Run, axis: str) -> tuple[str, ...]:
        return tuple(map(_on_one_line, all_visible(run.words(self.leading, axis))))

    def rows(self, run: Run) -> int:
        return int(run.trace.shape(self.stage)[-2])

    def _stage(self, run: Run) -> Stage:
        return run.trace.stage(self.stage)

    def _lens(self, run: Run) -> WeightTransform:
        return (
            run.trace.possible(self.lens) if self._stage(run).is_weights else WeightTransform.PLAIN
        )

    def _columns(self, run: Run) -> int:
        return int(run.trace.shape(self.stage)[-1])


def _on_one_line(label: str) -> str:
    return _NO_LETTER.sub(lambda found: visible(found.group()), label)


def shown_matrices(resolved: Resolved) -> tuple[ExportMatrix, ...]:
    """Return the matrices of the panels that a view shows, stage by stage.

    In a comparison, those of the run itself.
    """
    return tuple(sheet for stage in resolved.shown_stages for sheet in _of(resolved, stage))


def _of(resolved: Resolved, stage: Stage) -> Iterator[ExportMatrix]:
    lens = resolved.view.lens
    if resolved.is_spread:
        head = resolved.spread_head(stage)
        for leading in resolved.spread_indices:
            yield ExportMatrix(stage.name, head, leading, None, lens)
        return
    for one, fold in resolved.rows_of(stage):
        yield ExportMatrix(stage.name, one, resolved.leading, fold, lens)
