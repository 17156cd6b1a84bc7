"""Encodes animations as MP4 (H.264) with FFmpeg through PyAV, an optional dependency."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import av
import numpy as np
from av.video.reformatter import Colorspace
from av.video.stream import VideoStream

if TYPE_CHECKING:
    from typing import BinaryIO

    from av.video.frame import VideoFrame

H264_OPTIONS = {"crf": "18", "preset": "veryfast", "tune": "zerolatency"}
"""Encode almost without loss, and without lookahead, so that no frames are pending at the end."""
MPEG4_OPTIONS = {"qscale": "2"}
KEYFRAME_INTERVAL = 24
BT709_COLOUR_SPACE = 1
MS_PER_SECOND = 1000


class Mp4Encoder:
    """Encoder for MP4 with a variable frame rate."""

    unit_ms = 1

    def __init__(self, file: BinaryIO, size: tuple[int, int]) -> None:
        self.written = 0
        self._at = 0
        self._durations: dict[int, int] = {}
        self._container = av.open(file, "w", format="mp4")
        name = "libx264" if "libx264" in av.codecs_available else "mpeg4"
        stream = self._container.add_stream(name, rate=MS_PER_SECOND)
        assert isinstance(stream, VideoStream)
        self._stream = stream
        self._stream.width, self._stream.height = size
        self._stream.pix_fmt = "yuv420p"
        self._stream.options = {**H264_OPTIONS} if name == "libx264" else {**MPEG4_OPTIONS}
        codec = self._stream.codec_context
        codec.time_base = self._time_base = Fraction(1, MS_PER_SECOND)
        codec.gop_size = KEYFRAME_INTERVAL
        codec.colorspace = codec.color_primaries = codec.color_trc = BT709_COLOUR_SPACE

    def add_frame(self, pixels: np.ndarray, duration: int) -> None:
        """Write a frame; `duration` is in milliseconds."""
        channels = np.stack([pixels >> 16, pixels >> 8, pixels], axis=-1).astype(np.uint8)
        picture = av.VideoFrame.from_ndarray(channels, format="rgb24")
        frame = picture.reformat(format="yuv420p", dst_colorspace=Colorspace.ITU709)
        frame.pts, frame.time_base = self._at, self._time_base
        self._durations[self._at] = duration
        self._at += duration
        self._mux_packets(frame)

    def close(self) -> None:
        self._mux_packets(None)
        self._container.close()

    def _mux_packets(self, frame: VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            self.written += packet.size
            packet.duration = self._durations.pop(packet.pts or 0)
            self._container.mux(packet)
