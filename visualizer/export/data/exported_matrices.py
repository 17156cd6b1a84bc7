"""Matrices that data exports write: unpooled stages of one text and head.

If the text is too long to keep its matrices in memory, only the visible part of each matrix, the
rows of the selected tokens, or the row of the pinned cell is exported.
"""

from __future__ import annotations

import math
import re
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.errors import InputError
from visualizer.heatmap.board import numbered_labels
from visualizer.language.tokenizers import visible_token, visible_tokens
from visualizer.session.token_selection import TokenRole, group_adjacent_tokens
from visualizer.session.zoom_ranges import row_token_role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from visualizer.attention.run import Run
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.resolved_view import ResolvedView

AGGREGATE_NAMES = {
    HeadAggregate.MEAN: "mean of the heads",
    HeadAggregate.MAX: "maximum of the heads",
}
TRANSFORM_NAMES = {
    WeightTransform.WITHOUT_FIRST: "without the first token",
    WeightTransform.TIMES_VALUE: "× ‖value‖",
}

MAX_TABLE_NUMBERS = 2**24
"""Maximum number of values in a table of a long text."""
ROWS_PER_READ = 32
"""Number of rows of a long text that are read together."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class ExportMatrix(Struct, frozen=True):
    """Matrix, or part of a matrix, of a run.

    Parameters
    ----------
    head : int or None
        Index of the head; None for a stage without heads and for aggregated heads.
    leading : tuple of int
        Indices of the layer and text along the run's leading axes.
    layer : int or None
        Index of the layer in the model; None if it equals the index in the run.
    lens : WeightTransform
        Transform that is applied to the attention weights.
    visible_rows : tuple of range
        The included rows; empty for all.
    visible_columns : range or None
        The included columns; None for all.
    """

    stage: str
    head: int | None = None
    leading: LeadingIndex = ()
    fold: HeadAggregate | None = None
    lens: WeightTransform = WeightTransform.PLAIN
    visible_rows: tuple[range, ...] = ()
    visible_columns: range | None = None
    layer: int | None = None

    @property
    def is_partial(self) -> bool:
        """Whether some rows or columns of the stage are not included."""
        return bool(self.visible_rows) or self.visible_columns is not None

    def title(self, run: Run) -> str:
        """Return a title that names the stage, the head and the text."""
        parts = [self._find_stage(run).title]
        if self._find_weight_transform(run) is not WeightTransform.PLAIN:
            parts[0] += f" {TRANSFORM_NAMES[self.lens]}"
        if self.fold:
            parts.append(AGGREGATE_NAMES[self.fold])
        if self.head is not None:
            parts.append(f"head {self.head + 1}")
        if run.trace.axes:
            named = zip(run.trace.axes, self.layer_and_text_numbers(run), strict=True)
            parts += [f"{axis} {number}" for axis, number in named]
        if self.visible_rows:
            parts.append(f"rows {', '.join(map(_format_range, self.visible_rows))}")
        if self.visible_columns is not None:
            parts.append(f"columns {_format_range(self.visible_columns)}")
        return ", ".join(parts)

    def layer_and_text_numbers(self, run: Run) -> tuple[int, ...]:
        """Return the layer and text numbers, from 1, if the run has several layers or texts."""
        indices = dict(zip(run.trace.leading_axis_names, self.leading or (0,), strict=True))
        if self.layer is not None and "layer" in indices:
            indices["layer"] = self.layer
        return tuple(index + 1 for index in indices.values())

    def axis_names(self, run: Run) -> tuple[str, str]:
        """Return the names of the row and column axes."""
        rows, columns = self._find_stage(run).dims[-2:]
        return rows, columns

    def row_and_column_labels(self, run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the labels of the rows and columns: displayed tokens, or numbers from 1.

        Line breaks, control characters and lone surrogates are replaced with symbols, so that a
        label is a single line that can be encoded as UTF-8.
        """
        rows, columns = self.row_and_column_indices(run)
        row_labels = self._token_labels(run, self.axis_names(run)[0], rows)
        if self.has_key_columns(run):
            return row_labels, self._token_labels(run, "key", columns)
        column_labels = numbered_labels(run.trace.shape(self.stage)[-1])
        return row_labels, column_labels[columns.start : columns.stop]

    def row_and_column_indices(self, run: Run) -> tuple[tuple[int, ...], range]:
        """Return the indices of the matrix's rows and columns in the stage."""
        rows, columns = run.trace.shape(self.stage)[-2:]
        column_range = range(columns) if self.visible_columns is None else self.visible_columns
        return tuple(chain(*(self.visible_rows or (range(rows),)))), column_range

    def has_key_columns(self, run: Run) -> bool:
        """Return whether the columns are keys."""
        return self.axis_names(run)[1] == "key"

    def qualified_name(self, run: Run) -> str:
        """Return the stage's name, followed by the weight transform if there is one."""
        lens = self._find_weight_transform(run)
        return self.stage if lens is WeightTransform.PLAIN else f"{self.stage} {lens}"

    def read(self, run: Run) -> np.ndarray:
        """Read the whole matrix, read-only [row, column], in the spec's floating-point type."""
        return self.read_rows(run, slice(None))

    def read_rows(self, run: Run, rows: slice) -> np.ndarray:
        """Read the given rows of the stage, with the columns of the matrix."""
        head = () if self.head is None else (self.head,)
        stage = run.trace.displayed_tensor(self.stage, self.lens, self.fold)
        columns = self.row_and_column_indices(run)[1]
        return stage.read((*self.leading, *head, rows, slice(columns.start, columns.stop)))

    def iterate_rows(self, run: Run) -> Iterator[np.ndarray]:
        """Yield the rows of the matrix; rows of a long text are read a few at a time."""
        if not run.trace.is_blockwise:
            yield from self.read(run)
            return
        rows = self.visible_rows or (range(run.trace.shape(self.stage)[-2]),)
        for span in rows:
            for start in range(span.start, span.stop, ROWS_PER_READ):
                yield from self.read_rows(run, slice(start, min(start + ROWS_PER_READ, span.stop)))

    def _token_labels(self, run: Run, axis: str, indices: Sequence[int]) -> tuple[str, ...]:
        words = run.axis_tokens(self.leading, axis)
        return tuple(
            map(_replace_unprintable, visible_tokens(tuple(words[index] for index in indices)))
        )

    def row_count(self, run: Run) -> int:
        if self.visible_rows:
            return sum(map(len, self.visible_rows))
        return int(run.trace.shape(self.stage)[-2])

    def number_count(self, run: Run) -> int:
        return self.row_count(run) * len(self.row_and_column_indices(run)[1])

    def _find_stage(self, run: Run) -> Stage:
        return run.trace.stage(self.stage)

    def _find_weight_transform(self, run: Run) -> WeightTransform:
        return (
            run.trace.supported_transform(self.lens)
            if self._find_stage(run).is_weights
            else WeightTransform.PLAIN
        )


def _replace_unprintable(label: str) -> str:
    return _UNPRINTABLE.sub(lambda found: visible_token(found.group()), label)


def _format_range(span: range) -> str:
    """Format a range of rows or columns, numbered from 1."""
    return f"{span.start + 1:,}" if len(span) == 1 else f"{span.start + 1:,}–{span.stop:,}"


def shown_matrices(resolved: ResolvedView) -> tuple[ExportMatrix, ...]:
    """Return the matrices of the panels that a view shows, stage by stage.

    In a comparison, the matrices of the run itself are returned.

    Raises
    ------
    InputError
        If the text is long and the shown part is too large for a table.
    """
    matrices = tuple(
        sheet for stage in resolved.shown_stages for sheet in _stage_matrices(resolved, stage)
    )
    run = resolved.run
    count = sum(sheet.number_count(run) for sheet in matrices)
    if run.trace.is_blockwise and count > MAX_TABLE_NUMBERS:
        side = math.isqrt(MAX_TABLE_NUMBERS // len(matrices))
        sentence = (
            f"The current view of this long text has {count:,} values, but a table "
            f"can contain at most {MAX_TABLE_NUMBERS:,}. Zoom in to at most {side:,} "
            f"× {side:,} tokens, pin a cell to export its row, or select tokens to "
            "export their rows."
        )
        raise InputError("export", sentence)
    return matrices


def _stage_matrices(resolved: ResolvedView, stage: Stage) -> Iterator[ExportMatrix]:
    rows, columns = _select_rows_and_columns(resolved, stage)
    for matrix in _whole_matrices(resolved, stage):
        yield replace(matrix, visible_rows=rows, visible_columns=columns)


def _select_rows_and_columns(
    resolved: ResolvedView, stage: Stage
) -> tuple[tuple[range, ...], range | None]:
    """Return the rows and columns of a stage to export; see `ExportMatrix`."""
    zoom, pinned, tokens = resolved.zoom, resolved.pinned, resolved.view.tokens
    if not resolved.run.trace.is_blockwise:
        return (), None
    if zoom is not None:
        rows, columns = zoom.visible_ranges(stage)
        return (rows,), columns
    if row_token_role(stage.name) != TokenRole.QUERY:
        return (), None
    count = resolved.run.trace.shape(stage.name)[-2]
    chosen = [index for index in tokens.chosen if index < count and tokens.role is TokenRole.QUERY]
    if not chosen and pinned and row_token_role(pinned.stage) == TokenRole.QUERY:
        chosen = [pinned.place[-2]]
    return group_adjacent_tokens(chosen), None


def _whole_matrices(resolved: ResolvedView, stage: Stage) -> Iterator[ExportMatrix]:
    lens = resolved.view.lens
    if resolved.is_spread:
        head = resolved.side_by_side_head(stage)
        for leading in resolved.side_by_side_indices:
            layer = _layer_number(resolved, leading)
            yield ExportMatrix(stage.name, head, leading, None, lens, layer=layer)
        return
    layer = _layer_number(resolved, resolved.leading)
    for head_index, fold in resolved.rows_of(stage):
        yield ExportMatrix(stage.name, head_index, resolved.leading, fold, lens, layer=layer)


def _layer_number(resolved: ResolvedView, leading: LeadingIndex) -> int:
    return resolved.layer_numbers[resolved.run.trace.axis_position("layer", leading)]
