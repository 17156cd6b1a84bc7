"""Writes animations in any format frame by frame, without keeping frames in memory.

Encoders are imported on demand.
"""

from __future__ import annotations

import time
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, Protocol

from msgspec import Struct

from visualizer.export.films.film_layout import lay_out_animation
from visualizer.format import format_count
from visualizer.optional_packages import require_package
from visualizer.progress import Progress, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np

    from visualizer.export.figure_settings import FigureSettings
    from visualizer.export.films.animation_frames import AnimationRenderer
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.timeline import PlaybackPosition

SAMPLED_FRAMES = 8
"""Maximum number of frames of each kind that are encoded to estimate the file size."""

TIMED_STEPS = 3
"""Maximum number of steps that are rendered to estimate the duration of an export."""


class AnimationEncoder(Protocol):
    """Interface of the encoders.

    Parameters
    ----------
    unit_ms : int
        The format's time unit in ms.
    written : int
        Number of bytes written so far.
    """

    unit_ms: int
    written: int

    def add_frame(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame, 0xrrggbb [row, column]; `duration` is in units of `unit_ms`."""

    def close(self) -> None:
        """Write the end of the file."""


class FrameSource(Protocol):
    """Interface of an animation: frames of equal size that can be painted in any order."""

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels, both even."""

    def __len__(self) -> int: ...

    def frame_durations(self, unit_ms: int) -> tuple[int, ...]:
        """Return the duration of each frame in units of `unit_ms`."""

    def sample_frames(self) -> Iterable[int]:
        """Return the indices of a few frames that together contain most colours."""

    def frame_pixels(self, frame: int) -> np.ndarray:
        """Paint a frame as 0xrrggbb, uint32 [row, column]."""


def write_animation(
    suffix: str,
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    file: BinaryIO,
    progress: Progress,
) -> None:
    """Write an animation of the computation.

    Parameters
    ----------
    progress : callable
        Called with the written and the total number of frames; an exception that it raises cancels
        the work.

    Raises
    ------
    InputError
        If there are too many steps or too many pixels.
    """
    write_frames(
        suffix,
        lay_out_animation(snapshot, figure_settings, progress),
        figure_settings.film.loops,
        file,
        progress,
    )


def write_frames(
    suffix: str, frames: FrameSource, loops: bool, file: BinaryIO, progress: Progress
) -> None:
    """Write any frames as an animation; see `write_animation`."""
    encoder = _open_encoder(suffix, frames, loops, file, progress)
    for frame, duration in enumerate(frames.frame_durations(encoder.unit_ms)):
        progress(frame, len(frames))
        encoder.add_frame(frames.frame_pixels(frame), duration)
    progress(len(frames), len(frames))
    encoder.close()


def _open_encoder(
    suffix: str, frames: FrameSource, loops: bool, file: BinaryIO, progress: Progress
) -> AnimationEncoder:
    if suffix == ".gif":
        from visualizer.export.films.encoders import GifEncoder

        return GifEncoder(file, frames.size, loops, _sample_pixels(frames, progress))
    if suffix == ".webp":
        from visualizer.export.films.encoders import WebpEncoder

        return WebpEncoder(file, frames.size, loops)
    if suffix == ".mp4":
        require_package("av", "MP4")
        from visualizer.export.films.mp4_encoder import Mp4Encoder

        return Mp4Encoder(file, frames.size)
    from visualizer.export.films.encoders import ApngEncoder

    return ApngEncoder(file, frames.size, len(frames), loops)


def _sample_pixels(frames: FrameSource, progress: Progress) -> Iterator[np.ndarray]:
    for frame in frames.sample_frames():
        progress(0, len(frames))
        yield frames.frame_pixels(frame)


class AnimationEstimate(Struct, frozen=True):
    """Estimated file size of an animation and the estimated time to render it."""

    bytes: int
    seconds: float

    @property
    def duration_text(self) -> str:
        """The rendering time as part of a message."""
        minutes = round(self.seconds / 60)
        return f"about {format_count(minutes, 'minute')}" if minutes else "less than a minute"


def estimate_animation(
    snapshot: ExportSnapshot,
    figure_settings: FigureSettings,
    suffix: str,
    progress: Progress = ignore_progress,
) -> AnimationEstimate:
    """Estimate the file size and rendering time of an animation from some of its frames.

    Parameters
    ----------
    progress : callable
        Called repeatedly; an exception that it raises cancels the work.

    Raises
    ------
    InputError
        If there are too many steps or too many pixels.
    """
    began = time.perf_counter()
    animation = lay_out_animation(snapshot, figure_settings, progress)
    encoder = _open_encoder(suffix, animation, figure_settings.film.loops, BytesIO(), progress)
    # The first frame needs more time and bytes than the others.
    encoder.add_frame(animation.frame_pixels(0), 1)
    started, total_bytes = time.perf_counter(), float(encoder.written)
    film = animation.film
    stages = [film.position_of_frame(index).stage for index in range(len(animation))]
    kinds: dict[tuple[bool, bool], list[int]] = {}
    for index, (stage, next_stage) in enumerate(pairwise(stages), 1):
        is_moving = film.frames[index].motion_progress is not None
        kinds.setdefault((stage != next_stage, is_moving), []).append(index)
    for frames in kinds.values():
        count = min(SAMPLED_FRAMES, len(frames))
        for part in range(count):
            progress(0, len(animation))
            frame = frames[len(frames) * (2 * part + 1) // (2 * count)]
            total_bytes += len(frames) / count * _count_frame_bytes(frame, animation, encoder)
    return AnimationEstimate(
        round(total_bytes),
        started - began + _measure_seconds_per_frame(animation, encoder, progress) * len(animation),
    )


def _measure_seconds_per_frame(
    animation: AnimationRenderer, encoder: AnimationEncoder, progress: Progress
) -> float:
    """Render a few whole steps, because the static part of a step is painted only once."""
    steps: dict[PlaybackPosition, list[int]] = {}
    for index, frame in enumerate(animation.film.frames):
        steps.setdefault(frame.place, []).append(index)
    frames_by_step = [*steps.values()]
    count = min(TIMED_STEPS, len(frames_by_step))
    frames = [
        index
        for part in range(count)
        for index in frames_by_step[len(frames_by_step) * part // count]
    ]
    began = time.perf_counter()
    for index in frames:
        progress(0, len(animation))
        encoder.add_frame(animation.frame_pixels(index), 1)
    return (time.perf_counter() - began) / len(frames)


def _count_frame_bytes(frame: int, animation: AnimationRenderer, encoder: AnimationEncoder) -> int:
    """Encode a frame after its predecessor and return its size in bytes."""
    encoder.add_frame(animation.frame_pixels(frame - 1), 1)
    previous_total = encoder.written
    encoder.add_frame(animation.frame_pixels(frame), 1)
    return encoder.written - previous_total
