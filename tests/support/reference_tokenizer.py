"""The tokenizer of a model's folder in this very process, to compare with that of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from visualizer.models.opened_model import OpenedModel


def tokenizer_of(model: OpenedModel) -> Any:
    """Return what transformers reads from the folder of a model."""
    transformers = pytest.importorskip("transformers", reason="models need transformers")
    return transformers.AutoTokenizer.from_pretrained(model.folder.path)
