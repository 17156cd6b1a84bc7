"""Colours say the number they stand for, and only that."""

from __future__ import annotations

import json

import numpy as np
import pyqtgraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ui.eyes import EYES, lightness, luminance, oklab, rgb
from tests.ui.making import LOG, SIGNED, UNIT, a_heatmap
from visualizer.assets import resource
from visualizer.state.colouring import AUTOMATIC, Colour, Curve, Limits
from visualizer.ui.colours import (
    DROPPED,
    FORBIDDEN,
    LARGEST,
    LOG_SPAN,
    NOT_A_NUMBER,
    entries,
    image,
    light_entries,
    table,
)
from visualizer.ui.theme import DARK, LIGHT, PRINT, Theme

MAPS = json.loads(resource("colormaps.json").read_text(encoding="utf-8"))
NAMES = [*MAPS["sequential"], *MAPS["diverging"]]
THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=lambda theme: theme.name)
ROW = Colour("viridis", Curve.LINEAR, Limits.ROW, 0.0, 1.0)


def channels(words: np.ndarray) -> np.ndarray:
    return np.stack([words >> 16 & 255, words >> 8 & 255, words & 255], axis=1)


# ------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("name", NAMES)
def test_our_tables_are_pyqtgraphs(name: str) -> None:
    ours = MAPS["sequential"].get(name) or MAPS["diverging"][name]
    theirs = pyqtgraph.colormap.get(name).getLookupTable(nPts=256)
    assert ours == [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in theirs[:, :3]]


@pytest.mark.parametrize("name", MAPS["sequential"])
def test_more_is_lighter_all_along_a_sequential_map(name: str) -> None:
    steps = np.diff(lightness(channels(table(name, LIGHT)[: LARGEST + 1])))
    ups = steps if steps.sum() > 0 else -steps
    assert (ups > -0.15).all()  # the tables are rounded to 8 bits
    assert ups.sum() > 60


def shades(name: str, theme: Theme = LIGHT) -> np.ndarray:
    return channels(table(name, theme)[: LARGEST + 1])


@pytest.mark.parametrize("name", MAPS["diverging"])
@pytest.mark.parametrize("eyes", EYES)
def test_a_diverging_map_is_lightest_or_darkest_at_0(name: str, eyes: str) -> None:
    along = oklab(shades(name), eyes)[:, 0]
    middle = LARGEST // 2
    outwards = np.sign(along[0] - along[middle])
    assert (np.diff(along[middle::-1]) * outwards > -0.002).all()  # rounded to 8 bits
    assert (np.diff(along[middle:]) * outwards > -0.002).all()
    assert min(abs(along[[0, -1]] - along[middle])) > 0.25


@pytest.mark.parametrize("name", MAPS["diverging"])
def test_the_sides_of_a_diverging_map_are_as_far_from_0(name: str) -> None:
    along = lightness(shades(name))
    assert np.abs(along - along[::-1]).max() < 3


@pytest.mark.parametrize("name", MAPS["diverging"])
@pytest.mark.parametrize("eyes", EYES)
def test_the_sides_of_a_diverging_map_are_told_apart(name: str, eyes: str) -> None:
    seen = oklab(shades(name), eyes)
    apart = np.linalg.norm(seen - seen[::-1], axis=1)[LARGEST // 2 :: -1]  # from 0 outwards
    assert (np.diff(apart) > -0.005).all()
    assert apart[LARGEST // 8] > 0.05
    assert apart[-1] > 0.25


@pytest.mark.parametrize(
    ("theme", "name"), [(LIGHT, "CET-CBD1"), (PRINT, "CET-CBD1"), (DARK, "CET-D6")]
)
def test_0_is_near_the_paper(theme: Theme, name: str) -> None:
    assert (table(AUTOMATIC, theme) == table(name, theme)).all()
    assert (light_entries(AUTOMATIC, theme) == light_entries(name, theme)).all()
    along = lightness(shades(AUTOMATIC, theme))
    paper = lightness(rgb(theme.paper))
    assert abs(along - paper).argmin() == pytest.approx(LARGEST / 2, abs=2)


@THEMES
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_has_a_colour_of_the_theme(name: str, theme: Theme) -> None:
    words = table(name, theme)
    assert len(words) == 256
    assert (words >> 24 == 255).all()
    for entry, colour in (
        (NOT_A_NUMBER, theme.warning),
        (DROPPED, theme.raised),
        (FORBIDDEN, theme.paper),
    ):
        assert f"#{int(words[entry]) & 0xFFFFFF:06X}" == colour


@THEMES
@pytest.mark.parametrize("name", NAMES)
def test_numbers_can_be_read_on_every_colour(name: str, theme: Theme) -> None:
    grounds = luminance(channels(table(name, theme)[: LARGEST + 1]))
    ink = np.where(light_entries(name, theme)[: LARGEST + 1], 0.0, 1.0)  # black or white
    high, low = np.maximum(ink, grounds), np.minimum(ink, grounds)
    assert ((high + 0.05) / (low + 0.05)).min() >= 4.5


# ------------------------------------------------------------------------------------ positions


def test_linear_goes_from_end_to_end() -> None:
    heatmap = a_heatmap([[0, 0.25, 0.5, 1]])
    assert entries(heatmap).tolist() == [[0, LARGEST // 4, LARGEST // 2, LARGEST]]
    signed = a_heatmap([[-2, -1, 0, 1, 2]], colour=SIGNED)
    assert entries(signed).tolist() == [[0, 63, 126, 189, 252]]


def test_by_row_the_largest_of_each_row_is_at_the_end() -> None:
    heatmap = a_heatmap([[0.1, 0.2], [0.5, 0.25], [0, 0]], colour=ROW)
    assert entries(heatmap).tolist() == [[126, 252], [252, 126], [0, 0]]
    signed = Colour("CET-CBD1", Curve.LINEAR, Limits.ROW, -2.0, 2.0)
    assert entries(a_heatmap([[-0.5, 0.25], [0, 2]], colour=signed)).tolist() == [
        [0, 189],
        [126, 252],
    ]


def test_log_gives_each_power_of_ten_the_same_room() -> None:
    heatmap = a_heatmap([[1, 0.1, 0.01, 0.001, LOG_SPAN, 1e-9, 0]], colour=LOG)
    assert entries(heatmap).tolist() == [[252, 189, 126, 63, 0, 0, 0]]


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8), st.sampled_from([UNIT, ROW, LOG])
)
def test_a_larger_number_never_has_a_smaller_place(row: list[float], colour: Colour) -> None:
    chosen = entries(a_heatmap([sorted(row)], colour=colour))
    assert (np.diff(chosen.astype(int)) >= 0).all()
    assert chosen.max() <= LARGEST


@pytest.mark.parametrize("colour", [UNIT, SIGNED, ROW, LOG], ids=str)
def test_what_is_no_number_has_its_own_entry(colour: Colour) -> None:
    values = [[np.nan, np.inf, -np.inf], [1, 0, 0.5]]
    chosen = entries(a_heatmap(values, colour=colour))
    assert chosen[0].tolist() == [NOT_A_NUMBER, LARGEST, 0]
    assert (chosen[1] <= LARGEST).all()


def test_marks_go_before_numbers_and_forbidden_before_dropped() -> None:
    yes = np.array([[True, False, True]])
    heatmap = a_heatmap([[1, 1, np.nan]], dropped=yes, forbidden=~yes)
    assert entries(heatmap).tolist() == [[DROPPED, FORBIDDEN, DROPPED]]
    both = a_heatmap([[0.5, 0.5, 0.5]], dropped=yes, forbidden=yes)
    assert entries(both).tolist() == [[FORBIDDEN, 126, FORBIDDEN]]


def test_what_is_hidden_does_not_count_in_the_order_of_the_others() -> None:
    rank = Colour("viridis", Curve.RANK, Limits.SHARED, 0.0, 1.0)
    hidden = np.array([[True, True, False, False]])
    chosen = entries(a_heatmap([[0, 0, 0.5, 1]], colour=rank, hidden=hidden))
    alone = entries(a_heatmap([[0.5, 1]], colour=rank))
    assert chosen.tolist() == [[DROPPED, DROPPED, *alone[0].tolist()]]


def test_masked_rows_take_their_scale_from_what_is_allowed() -> None:
    signed = Colour("CET-CBD1", Curve.LINEAR, Limits.ROW, -2.0, 2.0)
    forbidden = np.array([[False, True]])
    heatmap = a_heatmap([[0.5, -np.inf]], colour=signed, forbidden=forbidden)
    assert entries(heatmap).tolist() == [[LARGEST, FORBIDDEN]]


def test_a_picture_has_a_pixel_a_cell() -> None:
    indices = np.array([[0, 100, LARGEST], [FORBIDDEN, DROPPED, NOT_A_NUMBER]], dtype=np.uint8)
    made = image(indices, "viridis", LIGHT)
    words = table("viridis", LIGHT)
    assert (made.width(), made.height()) == (3, 2)
    seen = [[made.pixel(x, y) for x in range(3)] for y in range(2)]
    assert seen == words[indices].tolist()
