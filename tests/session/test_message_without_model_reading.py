"""What a model's panes say before it has read: whether the numbers are saved ones, or it reads."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from visualizer.attention.captured_attention import CapturedAttention
from visualizer.models.model_source import ImageFile, ModelSource
from visualizer.session.document import Document
from visualizer.session.message_without_model_reading import (
    NO_IMAGE,
    READING,
    READING_IMAGE,
    SAVED,
    why_unread,
)

MODEL = ModelSource("folder", "tiny", "1")
NUMBERS = CapturedAttention.of("tiny", np.full((1, 1, 2, 2), 0.5, np.float32), (), ())


@pytest.mark.parametrize(
    ("captured", "image", "said"),
    [
        (None, None, READING),
        (NUMBERS, None, SAVED),
        (None, ImageFile(), NO_IMAGE),
        (None, ImageFile("cat.png"), READING_IMAGE),
    ],
    ids=["opened", "saved", "no image", "an image"],
)
def test_it_is_said_why_there_is_no_reading(
    captured: CapturedAttention | None, image: ImageFile | None, said: str
) -> None:
    document = replace(Document(), captured=captured, model=replace(MODEL, image=image))
    assert why_unread(document) == said
