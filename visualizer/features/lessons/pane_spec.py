"""Lesson pane: the current lesson page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.features.lessons.presenter import LESSON_PANEL
from visualizer.session.pane_spec import PaneArea, PaneSpec

if TYPE_CHECKING:
    from visualizer.features.controllers import FeatureControllers
    from visualizer.features.lessons.widget import LessonPane


def connect(pane: LessonPane, to: FeatureControllers) -> None:
    """Connect the buttons of the current page."""
    pane.stepped.connect(to.lesson_controller.turn_pages)
    pane.restoreRequested.connect(to.lesson_controller.restore_page_settings)
    pane.closed.connect(to.lesson_controller.close_lesson)
    to.set_command_tooltips(
        {
            pane.close_button: "lesson.close",
            pane.return_button: "lesson.restore_page",
            pane.back_button: "lesson.step -1",
            pane.next_button: "lesson.step 1",
        }
    )


PANE = PaneSpec(
    "Lesson",
    "Lesson",
    "The current lesson page",
    "visualizer.features.lessons.widget:LessonPane",
    connect,
    area=PaneArea.LEFT,
    is_created_with_window=True,
    opens_with=lambda screen: screen.panel(LESSON_PANEL) is not None,
)
