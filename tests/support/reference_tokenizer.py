"""Loads a model's tokenizer in this process, to compare it with the tokenizer process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from visualizer.models.opened_model import OpenedModel


def tokenizer_of(model: OpenedModel) -> Any:
    """Return the tokenizer that transformers loads from a model folder."""
    transformers = pytest.importorskip("transformers", reason="models need transformers")
    return transformers.AutoTokenizer.from_pretrained(model.folder.path)
