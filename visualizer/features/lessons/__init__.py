"""Lessons: files, settings, progress and the lesson pane."""
