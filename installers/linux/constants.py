"""Names and paths that are shared by the modules of the Linux installers."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The root of the repository."""
NAME = "attention-visualizer"
"""The name of the command, of the Debian package and of the desktop entry."""
TITLE = "Attention Visualizer"
APPSTREAM_ID = "org.attention_visualizer.attention_visualizer"
DOCUMENT_TYPE = "application/x-attention-visualizer"
"""The MIME type of an ``.attention`` document."""
PROGRAM = Path("lib") / NAME
"""The folder of the interpreter and all packages, relative to ``usr``."""
EXTRAS = ("models", "remote", "completion")
"""The extras that are included, because users without Python cannot install them later.

The extra for MP4 is not included: its FFmpeg contains encoders under the GPL, which would then
apply to the entire package.
"""
