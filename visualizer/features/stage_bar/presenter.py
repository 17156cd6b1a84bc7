"""Presenter of the stage bar: each stage, its size, and whether it is shown or played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.session.pane import PanelPresenter
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.session.resolved_view import ResolvedView


class StageBarItem(Struct, frozen=True):
    """One stage of the stage bar."""

    stage: str
    title: str
    symbol: str
    size: str
    says: str
    is_shown: bool
    is_current: bool = False


STAGE_BAR_PANEL: PanelId[tuple[StageBarItem, ...]] = PanelId("Rail")


def present_stage_bar(resolved: ResolvedView) -> tuple[StageBarItem, ...]:
    """Return one item per stage of a run."""
    trace = resolved.run.trace
    return tuple(
        StageBarItem(
            stage.name,
            stage.title,
            stage.symbol,
            " × ".join(str(size) for size in trace.shape(stage.name)),
            stage.description,
            stage.name in resolved.stages,
            stage.name == resolved.focus,
        )
        for stage in trace.stages
    )


PANEL = PanelPresenter(
    STAGE_BAR_PANEL, lambda resolved, moment, previous: present_stage_bar(resolved), ()
)
