"""The attention of a language model as panels: a row a layer, a column a head."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from visualizer.language.settings import Model
from visualizer.language.tokenizers import all_visible
from visualizer.state.colouring import Colour, Colouring, Limits
from visualizer.state.cursor import Cursor
from visualizer.state.lab.pointing import Pointing, cursor_of, sentence
from visualizer.state.panels import Axis, Board, Heatmap

if TYPE_CHECKING:
    from collections.abc import Hashable

    from visualizer.state.lab.reading import Reading

UNIT, SCORED = "weights", "weights;  %: on the right token"
"""What stands behind the bar, where it is known which token is right, too."""
FIGURE_SPACE = "\u2007"
"""As wide as a digit, so that panels stay where they are while their scores change."""

NO_ATTENTION = (
    "This model has no attention: it looks at the last token alone. There are no weights to show."
)
NO_TEXT = "Type a text that is to be read."
SEES_THE_FUTURE = (
    "Every token reads all tokens alike, those after it too. What comes next is among them, so "
    "the loss of this model is a cheat: where a text is to be continued, there is no future "
    "to look at."
)


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPanel:
    """All that the lab shows of attention.

    Parameters
    ----------
    said : str
        The sentence of the cell that is looked at.
    notices : tuple of str
        What must be known of the picture.
    message : str
        What stands in its place, where there is none.
    made_of : tuple
        What the board was made of: of the same, it is the very same board.
    """

    board: Board = field(default_factory=Board)
    cursor: Cursor = field(default_factory=Cursor)
    said: str = ""
    notices: tuple[str, ...] = ()
    message: str = ""
    made_of: tuple[Hashable, ...] = ()


def present_attention(
    reading: Reading | None,
    model: Model,
    pointing: Pointing,
    room: int = 256,
    colouring: Colouring | None = None,
    before: AttentionPanel | None = None,
) -> AttentionPanel:
    """Show the attention of a text, lit where a hand points.

    Parameters
    ----------
    reading : Reading or None
        None while there is none yet.
    room : int
        How many cells a panel's side has room for; more are pooled.
    colouring : Colouring, optional
        Unless said otherwise, from 0 to 1: so that one moment of training can be compared with
        another.
    before : AttentionPanel, optional
        What was shown before.
    """
    if reading is None:
        return AttentionPanel(message="The attention is on its way.")
    if reading.weights is None:
        return AttentionPanel(notices=_notices(reading, model), message=NO_ATTENTION)
    if not reading.tokens:
        return AttentionPanel(message=NO_TEXT)
    colouring = colouring or Colouring()
    made_of = reading, model, room, colouring
    is_same = before is not None and before.made_of == made_of
    board = before.board if is_same and before else board_of(reading, model, room, colouring)
    cursor = cursor_of(reading, board, pointing)
    cell = cursor.hovered or cursor.pinned
    said = sentence(reading, board, cell) if cell else ""
    return AttentionPanel(board, cursor, said, _notices(reading, model), "", made_of)


def _notices(reading: Reading, model: Model) -> tuple[str, ...]:
    found = [SEES_THE_FUTURE] if model is Model.AVERAGE else []
    if reading.cut:
        left = "token was" if reading.cut == 1 else f"{reading.cut:,} tokens were"
        found.append(f"The first {left} left out: the block is full.")
    return tuple(found)


def board_of(
    reading: Reading, model: Model, room: int = 256, colouring: Colouring | None = None
) -> Board:
    """Make the panels: a column a head, and in it a panel a layer."""
    making = _Making(reading, model, room, colouring or Colouring())
    return Board(
        tuple(
            tuple(making.panel(layer, head) for layer in range(reading.layers))
            for head in range(reading.heads)
        )
    )


class _Making:
    """What all panels of a board have in common."""

    def __init__(self, reading: Reading, model: Model, room: int, colouring: Colouring) -> None:
        self.reading = reading
        count = len(reading.tokens)
        self.block = math.ceil(count / max(1, room))
        labels = all_visible(reading.tokens)
        self.rows, self.columns = (Axis(name, labels, self.block) for name in ("query", "key"))
        self.side = math.ceil(count / self.block)
        limits = Limits.ROW if colouring.limits is Limits.ROW else Limits.SHARED
        self.colour = Colour(colouring.sequential, colouring.curve, limits, 0.0, 1.0)
        self.unit = SCORED if reading.is_scored else UNIT
        self.forbidden = None if model is Model.AVERAGE else _later(self.side)
        assert reading.weights is not None
        self.values = pooled(reading.weights, self.block)
        self.ends = self.values.max(axis=-1) if limits is Limits.ROW else None

    def panel(self, layer: int, head: int) -> Heatmap:
        return Heatmap(
            (self.reading, layer, head), f"layer {layer + 1}", f"Head {head + 1}", "softmax",
            head, None, 0, f"Layer {layer + 1}", self.values[layer, head], self.rows, self.columns,
            self.colour, self.forbidden, None, None, self._notes(layer, head), self.unit,
            (self.side, self.side),
            row_ends=None if self.ends is None else self.ends[layer, head],
            layer=layer, is_marked=self._is_best(layer, head),
        )  # fmt: skip

    def _is_best(self, layer: int, head: int) -> bool:
        return self.reading.layers * self.reading.heads > 1 and self.reading.best == (layer, head)

    def _notes(self, layer: int, head: int) -> tuple[str, ...]:
        notes = []
        score = self.reading.score(layer, head)
        if score is not None:
            percent = f"{100 * score:.0f}".rjust(3, FIGURE_SPACE)
            notes.append(f"{percent} %")
        if self.block > 1:
            notes.append(f"each cell: largest of {self.block} × {self.block}")
        return tuple(notes)


@lru_cache(maxsize=8)
def _later(side: int) -> np.ndarray:
    """Say which drawn cells hold only keys that come after their queries."""
    return ~np.tri(side, dtype=bool)


def pooled(weights: np.ndarray, block: int) -> np.ndarray:
    """Give the largest of each block of queries and keys [layer, head, row, column]."""
    if block == 1:
        return weights
    starts = np.arange(0, weights.shape[-1], block)
    rows = np.maximum.reduceat(weights, starts, axis=-2)
    return np.asarray(np.maximum.reduceat(rows, starts, axis=-1))
