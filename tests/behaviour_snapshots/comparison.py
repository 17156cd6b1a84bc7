"""Lists the differences between two folders: texts by line and images by pixel."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = {".png", ".apng", ".gif", ".webp"}
MAX_LINES = 40
"""Maximum number of lines that are printed for a difference between texts."""
EQUAL_OPACITY, DIFFERENT_COLOUR = 0.25, (255, 0, 80)
"""Opacity of equal pixels, and colour of different pixels, in an image of differences."""


def compare(before: Path, after: Path, differences: Path) -> int:
    """Print the differences; return 1 if there are any.

    Parameters
    ----------
    differences : Path
        A folder for images in which the different pixels are marked.
    """
    names = sorted(_names(before) | _names(after))
    said = {name: _difference(name, before, after, differences) for name in names}
    found = {name: words for name, words in said.items() if words}
    for name, words in found.items():
        print(f"{name}: {words}")
    print(f"{len(found)} of {len(names)} files differ")
    return int(bool(found) or not names)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def _difference(name: str, before: Path, after: Path, differences: Path) -> str:
    """Describe how a file differs; return "" if it does not."""
    old, new = before / name, after / name
    for path, words in ((old, "only after"), (new, "only before")):
        if not path.exists():
            return words
    if old.read_bytes() == new.read_bytes():
        return ""
    if old.suffix in PICTURES:
        return _difference_of_pictures(old, new, differences / f"{name}.png")
    try:
        first, second = (path.read_text("utf-8").splitlines() for path in (old, new))
    except UnicodeDecodeError:
        return f"other bytes, {old.stat().st_size:,} before and {new.stat().st_size:,} after"
    lines = [*difflib.unified_diff(first, second, "before", "after", n=1, lineterm="")]
    left_out = [f"… {len(lines) - MAX_LINES} more lines"] * (len(lines) > MAX_LINES)
    return "\n  ".join(["other text", *lines[:MAX_LINES], *left_out])


def _difference_of_pictures(old: Path, new: Path, marked: Path) -> str:
    """Compare frame by frame; mark the differences in the first frame that has differences."""
    with Image.open(old) as before, Image.open(new) as after:
        if before.size != after.size:
            return f"other size, {before.size} before and {after.size} after"
        frames = [getattr(picture, "n_frames", 1) for picture in (before, after)]
        if frames[0] != frames[1]:
            return f"other number of frames, {frames[0]} before and {frames[1]} after"
        for frame in range(frames[0]):
            before.seek(frame)
            after.seek(frame)
            pixels = np.asarray(before.convert("RGBA"))
            differs = (pixels != np.asarray(after.convert("RGBA"))).any(-1)
            if differs.any():
                _mark(pixels[..., :3], differs, marked)
                rows, columns = (np.flatnonzero(differs.any(axis)) for axis in (1, 0))
                box = f"x {columns[0]}–{columns[-1]}, y {rows[0]}–{rows[-1]}"
                where = f"frame {frame + 1}, " * (frames[0] > 1) + box
                return f"{differs.sum():,} other pixels in {where}; see {marked}"
    return "the same pixels in other bytes"


def _mark(pixels: np.ndarray, differs: np.ndarray, path: Path) -> None:
    picture = (255 - EQUAL_OPACITY * (255 - pixels.astype(float))).astype(np.uint8)
    picture[differs] = DIFFERENT_COLOUR
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(path)
