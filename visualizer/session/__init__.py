"""The state of a session: document, view, timeline, history, workspace and worker."""
