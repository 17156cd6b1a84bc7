"""Lessons: their files, the checks of their values, and the Lesson pane."""
