"""Names that the parts of the Linux installers share."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout."""
NAME = "attention-visualizer"
"""The name of the command, of the Debian package and of the desktop entry."""
TITLE = "Attention Visualizer"
APPSTREAM_ID = "org.attention_visualizer.attention_visualizer"
DOCUMENT_TYPE = "application/x-attention-visualizer"
"""The MIME type of an ``.attention`` document."""
PROGRAM = Path("lib") / NAME
"""The folder of the interpreter and all packages, under ``usr``."""
EXTRAS = ("models", "remote", "completion")
"""Extras that are inside, since who has no Python cannot install them later.

That of MP4 is not: its FFmpeg comes with encoders under the GPL, which would hold for the whole.
"""
