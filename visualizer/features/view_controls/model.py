"""How the panels are looked at, as controls show it: layout, heads, colours and their ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from visualizer.attention.weight_transforms import HeadAggregate, WeightTransform
from visualizer.session.screen import PanelId
from visualizer.session.view_options import ColourOptions

if TYPE_CHECKING:
    from visualizer.heatmap.model import Board
    from visualizer.session.resolved_view import Resolved


class BoardArrangement(StrEnum):
    """How the panels are arranged."""

    ALL = "all_panels"
    STAGE = "one_stage"
    HEAD = "one_head"


@dataclass(frozen=True, slots=True)
class ColourEnds:
    """The numbers at the ends of a stage's colours; where 0 is in the middle, the lower follows."""

    stage: str
    title: str
    low: float
    high: float
    is_signed: bool


@dataclass(frozen=True, slots=True)
class ViewControlsPanel:
    """What is chosen, and what there is to choose from.

    Parameters
    ----------
    heads : tuple of bool
        Which head has a row of panels.
    folds : frozenset of Fold
        Which ways of folding the heads have one.
    part, part_in_words : str
        What is seen of the text; empty where all is.
    """

    layout: BoardArrangement = BoardArrangement.ALL
    heads: tuple[bool, ...] = ()
    folds: frozenset[HeadAggregate] = frozenset()
    lens: WeightTransform = WeightTransform.PLAIN
    colouring: ColourOptions = field(default_factory=ColourOptions)
    ends: tuple[ColourEnds, ...] = ()
    part: str = ""
    part_in_words: str = ""


LOOKS: PanelId[ViewControlsPanel] = PanelId("Looks")


def present_looks(resolved: Resolved, board: Board) -> ViewControlsPanel:
    """Say how a run's panels are looked at."""
    heads = tuple(head in resolved.heads for head in range(resolved.run.trace.spec.heads))
    return ViewControlsPanel(
        _layout(board, heads),
        heads,
        frozenset(resolved.folds),
        resolved.view.lens,
        resolved.view.colouring,
        tuple(_ends(board)),
        *_part(resolved),
    )


def _layout(board: Board, heads: tuple[bool, ...]) -> BoardArrangement:
    if len(heads) > 1 and sum(heads) == 1:
        return BoardArrangement.HEAD
    is_one = len(board.columns) == 1 and len(board.columns[0]) > 1
    return BoardArrangement.STAGE if is_one else BoardArrangement.ALL


def _ends(board: Board) -> list[ColourEnds]:
    # Of what is compared, those of A and B, which stand before the difference.
    firsts = {column[0].stage: column[0] for column in reversed(board.columns)}
    return [
        ColourEnds(stage, first.title, first.colour.low, first.colour.high, first.colour.is_signed)
        for stage, first in reversed(firsts.items())
    ]


def _part(resolved: Resolved) -> tuple[str, str]:
    """Say which queries and keys are seen: in short, and in words."""
    zoom = resolved.zoom
    if zoom is None:
        return "", ""
    queries, keys = (f"{span.start + 1}–{span.stop}" for span in (zoom.queries, zoom.keys))
    down, across = (f"of {count:,}" for count in resolved.run.trace.sides)
    if down == across:
        return f"{queries} × {keys} {down}", f"Queries {queries}, keys {keys} {down} are seen"
    parts = f"{queries} {down}", f"{keys} {across}"
    return " × ".join(parts), "Queries {}, keys {} are seen".format(*parts)
