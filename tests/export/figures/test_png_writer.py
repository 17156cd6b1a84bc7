"""PNG files contain the exact pixels of an image, regardless of its rows."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PySide6.QtGui import QImage

from visualizer.export.figures.png_writer import ROWS_PER_BAND, save_png_image

OPAQUE = 0xFF000000
COLOURS = st.integers(0, 3)
"""Few colours, so that many rows are equal to the row above."""


def written(words: np.ndarray) -> bytes:
    rows, columns = words.shape
    held = np.ascontiguousarray(words | OPAQUE, dtype=np.uint32)
    return saved(QImage(held.data, columns, rows, 4 * columns, QImage.Format.Format_RGB32))


def saved(image: QImage) -> bytes:
    file = io.BytesIO()
    save_png_image(image, file)
    return file.getvalue()


def read(png: bytes) -> np.ndarray:
    image = QImage()
    assert image.loadFromData(png)
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    whole = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), -1)
    return whole[:, : image.width()].copy()  # the image is deleted when this function returns


@given(
    arrays.arrays(np.uint32, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=COLOURS),
    st.integers(1, ROWS_PER_BAND // 3),
)
def test_pixels_come_back(colours: np.ndarray, times: int) -> None:
    words = (colours * 0x5A3C96).repeat(times, 0)  # sizes of up to several bands
    np.testing.assert_array_equal(read(written(words)), words | OPAQUE)


@pytest.mark.parametrize("columns", [1, 3, 400])  # rows of an image begin at multiples of 4 bytes
def test_an_image_with_a_palette_is_written_with_a_byte_per_pixel(columns: int) -> None:
    generator = np.random.default_rng(0)
    palette = generator.integers(0, 2**24, 256, dtype=np.uint32) | np.uint32(OPAQUE)
    indices = generator.integers(0, 256, (2 * ROWS_PER_BAND + 1, columns), dtype=np.uint8)
    image = QImage(indices.data, columns, len(indices), columns, QImage.Format.Format_Indexed8)
    image.setColorTable(palette.tolist())
    png = saved(image)
    np.testing.assert_array_equal(read(png), palette[indices])
    assert len(png) < indices.size + len(indices) + 2_000


def test_rows_like_those_above_cost_next_to_nothing() -> None:
    row = np.random.default_rng(0).integers(0, 2**24, (1, 2_000), dtype=np.uint32)
    one, many = written(row), written(row.repeat(20 * ROWS_PER_BAND, 0))
    assert len(many) < 20 * ROWS_PER_BAND / 100 * len(one)
    np.testing.assert_array_equal(read(many)[-1], row[0] | OPAQUE)
