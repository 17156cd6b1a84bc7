"""Writes films in any format frame by frame, without keeping frames in memory.

Encoders are imported when they are needed.
"""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Protocol

from visualizer.export.films.film_layout import reel_of
from visualizer.progress_callback import Progress, no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.films.animation_frames import AnimationFrames
    from visualizer.session.screen import Snapshot

SAMPLES = 3
"""Of how many steps of a kind the size is measured, to tell how large a film will be."""


class FilmEncoder(Protocol):
    """A film that is being written.

    Parameters
    ----------
    unit_ms : int
        In what the format counts time.
    written : int
        How many bytes its frames take until now.
    """

    unit_ms: int
    written: int

    def add(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame, words 0xrrggbb [row, column], that is seen for so many units."""

    def close(self) -> None:
        """Write what comes after the last."""


class FrameSource(Protocol):
    """What is filmed: pictures of one size, which can be painted in any order."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, both even."""

    def __len__(self) -> int: ...

    def durations(self, unit_ms: int) -> tuple[int, ...]:
        """Give how many units each is seen."""

    def samples(self) -> Iterable[int]:
        """Name frames that have all the colours there are, as well as a few can."""

    def pixels(self, frame: int) -> np.ndarray:
        """Paint one as words 0xrrggbb, uint32 [row, column]."""


def _coder(suffix: str) -> Callable[..., FilmEncoder]:
    if suffix == ".gif":
        from visualizer.export.films.gif_encoder import GifEncoder

        return GifEncoder
    if suffix == ".webp":
        from visualizer.export.films.webp_encoder import WebpEncoder

        return WebpEncoder
    if suffix == ".mp4":
        from visualizer.export.films.mp4_encoder import Mp4Encoder

        return Mp4Encoder
    from visualizer.export.films.apng_encoder import ApngEncoder

    return ApngEncoder


def write_film(
    suffix: str, shot: Snapshot, look: FigureSettings, file: BinaryIO, progress: Progress
) -> None:
    """Write a film.

    Parameters
    ----------
    progress : callable
        Told how many frames are written, of how many; asked at each whether to go on.

    Raises
    ------
    InputError
        When there are more frames than can be written.
    """
    write_frames(suffix, reel_of(shot, look, progress), look.film.loops, file, progress)


def write_frames(
    suffix: str, frames: FrameSource, loops: bool, file: BinaryIO, progress: Progress
) -> None:
    """Write a film of any frames; see `write_film`."""
    coder = _opened(suffix, frames, loops, file, progress)
    for frame, duration in enumerate(frames.durations(coder.unit_ms)):
        progress(frame, len(frames))
        coder.add(frames.pixels(frame), duration)
    progress(len(frames), len(frames))
    coder.close()


def _opened(
    suffix: str, frames: FrameSource, loops: bool, file: BinaryIO, progress: Progress
) -> FilmEncoder:
    return _coder(suffix)(file, frames.size, len(frames), loops, _samples(frames, progress))


def _samples(frames: FrameSource, progress: Progress) -> Iterator[np.ndarray]:
    for frame in frames.samples():
        progress(0, len(frames))
        yield frames.pixels(frame)


def estimate(
    shot: Snapshot, look: FigureSettings, suffix: str, progress: Progress = no_progress
) -> int:
    """Tell about how many bytes a film will have, from some of its frames.

    Parameters
    ----------
    progress : callable
        Asked again and again whether to go on.

    Raises
    ------
    InputError
        When there are more frames than can be written.
    """
    reel = reel_of(shot, look, progress)
    coder = _opened(suffix, reel, look.film.loops, BytesIO(), progress)
    coder.add(reel.pixels(0), 1)
    whole: float = coder.written
    stages = [reel.film.place(at).stage for at in range(len(reel))]
    turns = [at for at, (one, other) in enumerate(pairwise(stages), 1) if one != other]
    others = sorted({*range(1, len(reel))}.difference(turns))
    for frames in (turns, others):
        count = min(SAMPLES, len(frames))
        for part in range(count):
            progress(0, len(reel))
            frame = frames[len(frames) * (2 * part + 1) // (2 * count)]
            whole += len(frames) / count * _bytes_of(frame, reel, coder)
    return round(whole)


def _bytes_of(frame: int, reel: AnimationFrames, coder: FilmEncoder) -> int:
    """Write a frame after the one before it, and tell how many bytes it takes."""
    coder.add(reel.pixels(frame - 1), 1)
    before = coder.written
    coder.add(reel.pixels(frame), 1)
    return coder.written - before
