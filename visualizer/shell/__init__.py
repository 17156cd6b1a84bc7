"""The main window: panes, commands, documents and presenter mode."""
