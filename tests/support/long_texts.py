"""Snapshots of texts of any length whose matrices are computed block by block."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from visualizer import app
from visualizer.attention import run as attention_run
from visualizer.session.document import Document
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.view import View


def long_text(tokens: int) -> str:
    """Return a text with one token per word, in which every seventh word is the same."""
    return " ".join(f"w{number % 7}" for number in range(tokens))


def long_shot(tokens: int = 600, view: View | None = None, **settings: Any) -> ExportSnapshot:
    """Compute a text block by block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_run, "MAX_FULL_MATRIX_BYTES", 0)
        patch.setattr(attention_run, "MIN_BLOCKWISE_BYTES", 0)
        return held_shot(tokens, view, **settings)


def held_shot(tokens: int = 600, view: View | None = None, **settings: Any) -> ExportSnapshot:
    """Compute the same text as `long_shot`, but store its matrices."""
    document = replace(Document(), text=long_text(tokens))
    for name, value in settings.items():
        document = document.with_setting(name, value)
    view = view or View(stages=frozenset({"weights"}), heads=frozenset({0}), room=128)
    return ExportSnapshot(document, view, app.compute(document, None))
