"""Lessons: their files, their settings, navigation and the lesson pane."""
