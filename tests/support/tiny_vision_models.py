"""Small transformers vision models with random weights, and images for them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from tests.support.tiny_models import SMALL, tiny_model

if TYPE_CHECKING:
    from pathlib import Path

MEAN, DEVIATION = (0.5, 0.25, 0.5), (0.5, 0.25, 0.125)
PROCESSORS = {
    "vit": "ViTImageProcessor",
    "dinov2": "BitImageProcessor",
    "dinov2_with_registers": "BitImageProcessor",
    "deit": "DeiTImageProcessor",
    "clip_vision_model": "CLIPImageProcessor",
    "siglip_vision_model": "SiglipImageProcessor",
    "clip": "CLIPImageProcessor",
}


def vision_model(kind: str) -> Any:
    """Return a tiny model that processes images of 32 × 32 pixels, with or without texts."""
    parts = {name: SMALL for name in ("text_config", "vision_config") if kind == "clip"}
    return tiny_model(kind, **parts)


def save_vision_model(folder: Path, kind: str = "vit", **settings: Any) -> Path:
    """Save a tiny vision model that processes images of 32 × 32 pixels as 4 × 4 patches."""
    vision_model(kind).save_pretrained(folder)
    is_cut = PROCESSORS[kind] in {"BitImageProcessor", "CLIPImageProcessor", "DeiTImageProcessor"}
    said = {
        "image_processor_type": PROCESSORS[kind],
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "size": {"shortest_edge": 32} if is_cut else {"height": 32, "width": 32},
        "crop_size": {"height": 32, "width": 32},
        **settings,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


def picture(path: Path, *, wide: int = 32, high: int = 32) -> np.ndarray:
    """Write an image of random pixels, and return the pixels [row, column, colour]."""
    pixels = np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels
