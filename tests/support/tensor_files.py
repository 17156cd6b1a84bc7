"""Supported tensor files, written by the libraries that define the formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.numpy import save_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def attention(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Draw softmax weights in float32."""
    scores = np.random.default_rng(seed).normal(size=shape)
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return np.asarray(weights, dtype=np.float32)


def _npy(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "a.npy", array)
    return folder / "a.npy"


def _npz(folder: Path, array: np.ndarray) -> Path:
    np.savez(folder / "a.npz", attention=array)
    return folder / "a.npz"


def _packed(folder: Path, array: np.ndarray) -> Path:
    np.savez_compressed(folder / "a.npz", attention=array)
    return folder / "a.npz"


def _safetensors(folder: Path, array: np.ndarray) -> Path:
    save_file({"attention": np.ascontiguousarray(array)}, folder / "a.safetensors")
    return folder / "a.safetensors"


def _pt(folder: Path, array: np.ndarray) -> Path:
    torch.save(torch.tensor(array), folder / "a.pt")
    return folder / "a.pt"


def _dict(folder: Path, array: np.ndarray) -> Path:
    torch.save({"attention": torch.tensor(array)}, folder / "a.pth")
    return folder / "a.pth"


WRITERS: dict[str, Callable[[Path, np.ndarray], Path]] = {
    "npy": _npy,
    "npz": _npz,
    "npz, packed": _packed,
    "safetensors": _safetensors,
    "pt, a tensor": _pt,
    "pt, a dict": _dict,
}
