"""Colour tables and scales: monotonic, distinguishable; linear, log and by rank."""

from __future__ import annotations

import json

import numpy as np
import pyqtgraph
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.colour_vision import EYES, lightness, luminance, oklab, rgb
from tests.support.hand_made_panels import LOG, SIGNED, UNIT, a_heatmap
from visualizer.heatmap.colour_mapping import (
    DROPPED,
    FORBIDDEN,
    LOG_SPAN,
    MAX_COLOUR_INDEX,
    NAN_COLOUR_INDEX,
    colour_indices,
    colour_table,
    create_colour_image,
    dark_text_mask,
)
from visualizer.heatmap.panel_colour_scale import ColourScale
from visualizer.resources import resource_path
from visualizer.session.view_options import (
    AUTOMATIC_MAP,
    COLOUR_MAPS,
    ColourCurve,
    ColourLimits,
    ColourMapKind,
    colour_maps_of_kind,
)
from visualizer.widgets.theme import DARK, LIGHT, PRINT, Theme

MAPS = json.loads(resource_path("colormaps.json").read_text(encoding="utf-8"))
SEQUENTIAL, DIVERGING = (
    [each.id for each in COLOUR_MAPS if each.kind is kind and each.id not in MAPS["themed"]]
    for kind in ColourMapKind
)
THEMED = sorted(MAPS["themed"])
OWN = frozenset({"blue-gold-dark"})
"""Maps that are not from pyqtgraph."""
THEMES = pytest.mark.parametrize("theme", [LIGHT, DARK, PRINT], ids=lambda theme: theme.name)
ROW = ColourScale("viridis", ColourCurve.LINEAR, ColourLimits.ROW, 0.0, 1.0)
JUST_SEEN = 0.02
"""The smallest difference in Oklab that is visible side by side."""


def channels(words: np.ndarray) -> np.ndarray:
    return np.stack([words >> 16 & 255, words >> 8 & 255, words & 255], axis=1)


# ------------------------------------------------------------------------------------- tables


def test_colours_and_colour_maps_correspond() -> None:
    for kind, names in zip(ColourMapKind, (SEQUENTIAL, DIVERGING), strict=True):
        assert sorted(MAPS[kind]) == sorted(names)
        assert {len(colours) for colours in MAPS[kind].values()} == {256}
    assert {tuple(variants) for variants in MAPS["themed"].values()} == {("light", "dark")}
    ids = [each.id for each in COLOUR_MAPS]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", [name for name in SEQUENTIAL + DIVERGING if name not in OWN])
def test_our_tables_match_pyqtgraph(name: str) -> None:
    ours = MAPS["sequential"].get(name) or MAPS["diverging"][name]
    theirs = pyqtgraph.colormap.get(name).getLookupTable(nPts=256)
    assert ours == [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in theirs[:, :3]]


def themes_of(kind: ColourMapKind) -> list[tuple[str, Theme]]:
    """List the maps of a kind, each with the light theme and, if it is themed, the dark one."""
    return [
        (each.id, theme)
        for each in colour_maps_of_kind(kind)
        for theme in ((LIGHT, DARK) if each.id in THEMED else (LIGHT,))
    ]


@pytest.mark.parametrize(("name", "theme"), themes_of(ColourMapKind.SEQUENTIAL))
def test_lightness_is_monotonic_along_a_sequential_map(name: str, theme: Theme) -> None:
    steps = np.diff(lightness(channels(colour_table(name, theme)[: MAX_COLOUR_INDEX + 1])))
    ups = steps if steps.sum() > 0 else -steps
    assert (ups > -0.15).all()  # the tables are rounded to 8 bits
    assert ups.sum() > 60


def shades(name: str, theme: Theme = LIGHT) -> np.ndarray:
    return channels(colour_table(name, theme)[: MAX_COLOUR_INDEX + 1])


SIGNED_MAPS = pytest.mark.parametrize(("name", "theme"), themes_of(ColourMapKind.DIVERGING))


@SIGNED_MAPS
@pytest.mark.parametrize("eyes", EYES)
def test_a_diverging_map_is_lightest_or_darkest_at_0(name: str, theme: Theme, eyes: str) -> None:
    along = oklab(shades(name, theme), eyes)[:, 0]
    middle = MAX_COLOUR_INDEX // 2
    outwards = np.sign(along[0] - along[middle])
    assert (np.diff(along[middle::-1]) * outwards > -0.002).all()  # rounded to 8 bits
    assert (np.diff(along[middle:]) * outwards > -0.002).all()
    assert min(abs(along[[0, -1]] - along[middle])) > 0.25


@SIGNED_MAPS
def test_the_sides_of_a_diverging_map_are_symmetric(name: str, theme: Theme) -> None:
    along = lightness(shades(name, theme))
    assert np.abs(along - along[::-1]).max() < 3


@SIGNED_MAPS
@pytest.mark.parametrize("eyes", EYES)
def test_the_sides_of_a_diverging_map_are_distinguishable(
    name: str, theme: Theme, eyes: str
) -> None:
    seen = oklab(shades(name, theme), eyes)
    outwards_from_0 = slice(MAX_COLOUR_INDEX // 2, None, -1)
    apart = np.linalg.norm(seen - seen[::-1], axis=1)[outwards_from_0]
    assert (np.diff(apart) > -0.005).all()
    assert apart[MAX_COLOUR_INDEX // 8] > 0.05
    assert apart[-1] > 0.25


@THEMES
def test_0_is_close_to_the_paper_colour(theme: Theme) -> None:
    along = lightness(shades(AUTOMATIC_MAP, theme))
    paper = lightness(rgb(theme.paper))
    assert abs(along - paper).argmin() == pytest.approx(MAX_COLOUR_INDEX / 2, abs=2)


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the contrast of colours according to WCAG 2, from 1 to 21."""
    first, second = (relative_luminance(colour) + 0.05 for colour in (one, other))
    return np.maximum(first, second) / np.minimum(first, second)


def relative_luminance(colours: np.ndarray) -> np.ndarray:
    share = np.asarray(colours) / 255
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))


def test_half_of_the_range_is_visible_on_a_dark_background() -> None:
    along = shades(AUTOMATIC_MAP, DARK)
    middle = MAX_COLOUR_INDEX // 2
    for half in (middle // 2, middle + (MAX_COLOUR_INDEX - middle) // 2 + 1):
        assert contrast(along[half], along[middle]) >= 3


@THEMES
@pytest.mark.parametrize("name", [*SEQUENTIAL, *DIVERGING, *THEMED])
def test_the_contrast_of_numbers_is_sufficient_on_every_colour(name: str, theme: Theme) -> None:
    light = dark_text_mask(name, theme)[: MAX_COLOUR_INDEX + 1]
    ink = np.where(light[:, None], 0, 255) * np.ones(3)
    assert contrast(shades(name, theme), ink).min() >= 4.5


@THEMES
@pytest.mark.parametrize("name", [*SEQUENTIAL, *DIVERGING, *THEMED])
def test_missing_values_have_a_theme_colour(name: str, theme: Theme) -> None:
    words = colour_table(name, theme)
    assert len(words) == 256
    assert (words >> 24 == 255).all()
    for entry, colour in (
        (NAN_COLOUR_INDEX, theme.warning),
        (DROPPED, theme.paper),
        (FORBIDDEN, theme.mask),
    ):
        assert f"#{int(words[entry]) & 0xFFFFFF:06X}" == colour


@THEMES
@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize(
    "name", [each.id for each in colour_maps_of_kind(ColourMapKind.SEQUENTIAL)]
)
def test_a_masked_cell_differs_from_a_weight_of_0_the_largest_one_and_an_empty_cell(
    name: str, eyes: str, theme: Theme
) -> None:
    ends = (colour_table(name, theme)[at] for at in (0, MAX_COLOUR_INDEX))
    zero, largest = (f"#{int(end) & 0xFFFFFF:06X}" for end in ends)
    mask, *others = oklab(rgb(theme.mask, zero, largest, theme.paper), eyes)
    assert min(np.linalg.norm(mask - other) for other in others) >= JUST_SEEN


@THEMES
@pytest.mark.parametrize("name", [*SEQUENTIAL, *DIVERGING, *THEMED])
def test_numbers_can_be_read_on_every_colour(name: str, theme: Theme) -> None:
    grounds = luminance(channels(colour_table(name, theme)[: MAX_COLOUR_INDEX + 1]))
    is_black = dark_text_mask(name, theme)[: MAX_COLOUR_INDEX + 1]
    ink = np.where(is_black, 0.0, 1.0)
    high, low = np.maximum(ink, grounds), np.minimum(ink, grounds)
    assert ((high + 0.05) / (low + 0.05)).min() >= 4.5


# ------------------------------------------------------------------------------------ positions


def test_a_linear_scale_spans_all_positions() -> None:
    heatmap = a_heatmap([[0, 0.25, 0.5, 1]])
    assert colour_indices(heatmap).tolist() == [
        [0, MAX_COLOUR_INDEX // 4, MAX_COLOUR_INDEX // 2, MAX_COLOUR_INDEX]
    ]
    signed = a_heatmap([[-2, -1, 0, 1, 2]], colour=SIGNED)
    assert colour_indices(signed).tolist() == [[0, 63, 126, 189, 252]]


def test_on_a_scale_by_row_the_largest_value_of_each_row_is_at_the_end() -> None:
    heatmap = a_heatmap([[0.1, 0.2], [0.5, 0.25], [0, 0]], colour=ROW)
    assert colour_indices(heatmap).tolist() == [[126, 252], [252, 126], [0, 0]]
    signed = ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.ROW, -2.0, 2.0)
    assert colour_indices(a_heatmap([[-0.5, 0.25], [0, 2]], colour=signed)).tolist() == [
        [0, 189],
        [126, 252],
    ]


def test_a_log_scale_gives_each_power_of_ten_the_same_space() -> None:
    heatmap = a_heatmap([[1, 0.1, 0.01, 0.001, LOG_SPAN, 1e-9, 0]], colour=LOG)
    assert colour_indices(heatmap).tolist() == [[252, 189, 126, 63, 0, 0, 0]]


@given(
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8), st.sampled_from([UNIT, ROW, LOG])
)
def test_a_larger_number_never_has_a_lower_position(row: list[float], colour: ColourScale) -> None:
    chosen = colour_indices(a_heatmap([sorted(row)], colour=colour))
    assert (np.diff(chosen.astype(int)) >= 0).all()
    assert chosen.max() <= MAX_COLOUR_INDEX


@pytest.mark.parametrize("colour", [UNIT, SIGNED, ROW, LOG], ids=str)
def test_missing_values_have_their_own_entry(colour: ColourScale) -> None:
    values = [[np.nan, np.inf, -np.inf], [1, 0, 0.5]]
    chosen = colour_indices(a_heatmap(values, colour=colour))
    assert chosen[0].tolist() == [NAN_COLOUR_INDEX, MAX_COLOUR_INDEX, 0]
    assert (chosen[1] <= MAX_COLOUR_INDEX).all()


def test_marks_take_precedence_over_numbers_and_forbidden_over_dropped() -> None:
    yes = np.array([[True, False, True]])
    heatmap = a_heatmap([[1, 1, np.nan]], dropped=yes, forbidden=~yes)
    assert colour_indices(heatmap).tolist() == [[DROPPED, FORBIDDEN, DROPPED]]
    both = a_heatmap([[0.5, 0.5, 0.5]], dropped=yes, forbidden=yes)
    assert colour_indices(both).tolist() == [[FORBIDDEN, 126, FORBIDDEN]]


def test_hidden_cells_do_not_affect_the_ranks_of_others() -> None:
    rank = ColourScale("viridis", ColourCurve.RANK, ColourLimits.SHARED, 0.0, 1.0)
    hidden = np.array([[True, True, False, False]])
    chosen = colour_indices(a_heatmap([[0, 0, 0.5, 1]], colour=rank, hidden=hidden))
    alone = colour_indices(a_heatmap([[0.5, 1]], colour=rank))
    assert chosen.tolist() == [[DROPPED, DROPPED, *alone[0].tolist()]]


def test_the_scale_of_a_masked_row_depends_only_on_allowed_cells() -> None:
    signed = ColourScale("CET-CBD1", ColourCurve.LINEAR, ColourLimits.ROW, -2.0, 2.0)
    forbidden = np.array([[False, True]])
    heatmap = a_heatmap([[0.5, -np.inf]], colour=signed, forbidden=forbidden)
    assert colour_indices(heatmap).tolist() == [[MAX_COLOUR_INDEX, FORBIDDEN]]


def test_an_image_has_one_pixel_per_cell() -> None:
    indices = np.array(
        [[0, 100, MAX_COLOUR_INDEX], [FORBIDDEN, DROPPED, NAN_COLOUR_INDEX]], dtype=np.uint8
    )
    made = create_colour_image(indices, "viridis", LIGHT)
    words = colour_table("viridis", LIGHT)
    assert (made.width(), made.height()) == (3, 2)
    seen = [[made.pixel(x, y) for x in range(3)] for y in range(2)]
    assert seen == words[indices].tolist()


# ------------------------------------------------------------------------------------- by power

SIGNED_LOG = ColourScale("CET-CBD1", ColourCurve.LOG, ColourLimits.SHARED, -2.0, 2.0)
NUMBERS = st.floats(-2, 2, width=32)


def test_a_signed_log_scale_gives_each_power_the_same_space_on_both_sides() -> None:
    sizes = [2.0, 0.2, 0.02, 0.002, 2 * LOG_SPAN, 1e-9, 0.0]
    heatmap = a_heatmap([sizes, [-size for size in sizes]], colour=SIGNED_LOG)
    above, below = colour_indices(heatmap).astype(int)
    assert above.tolist() == [252, 221, 189, 158, 126, 126, 126]
    assert np.abs(above + below - MAX_COLOUR_INDEX).max() <= 1  # halves are rounded up


@given(st.lists(NUMBERS, min_size=1, max_size=12))
def test_a_signed_log_scale_is_symmetric(row: list[float]) -> None:
    heatmap = a_heatmap([sorted(row), sorted(-number for number in row)], colour=SIGNED_LOG)
    one, other = colour_indices(heatmap).astype(int)
    assert (np.diff(one) >= 0).all()
    assert (np.abs(one + other[::-1] - MAX_COLOUR_INDEX) <= 1).all()
    for number, entry in zip(sorted(row), one, strict=True):
        if abs(number) > 2 * LOG_SPAN:
            power = np.sign(number) * (1 + np.log10(abs(number) / 2) / 4)
            assert entry == pytest.approx((1 + power) / 2 * MAX_COLOUR_INDEX, abs=0.51)
        else:
            assert entry == MAX_COLOUR_INDEX // 2


def test_a_log_scale_starts_at_an_entered_low_end() -> None:
    colour = ColourScale("viridis", ColourCurve.LOG, ColourLimits.TYPED, 0.01, 1.0)
    heatmap = a_heatmap([[0.0, 0.001, 0.01, 0.1, 1.0, 5.0]], colour=colour)
    assert colour_indices(heatmap).tolist() == [[0, 0, 0, 126, 252, 252]]


@pytest.mark.parametrize("limits", [ColourLimits.SHARED, ColourLimits.ROW])
def test_on_a_log_scale_a_panel_of_zeros_has_the_lowest_colour(limits: ColourLimits) -> None:
    heatmap = a_heatmap(
        [[0.0, 0.0]], colour=ColourScale("viridis", ColourCurve.LOG, limits, 0.0, 1.0)
    )
    assert colour_indices(heatmap).tolist() == [[0, 0]]


# -------------------------------------------------------------------------------------- by rank

RANK = ColourScale("viridis", ColourCurve.RANK, ColourLimits.SHARED, 0.0, 1.0)
ROW_RANK = ColourScale("viridis", ColourCurve.RANK, ColourLimits.ROW, 0.0, 1.0)
SIGNED_RANK = ColourScale("CET-CBD1", ColourCurve.RANK, ColourLimits.SHARED, -1.0, 1.0)


def share(number: float, among: np.ndarray) -> float:
    """Return the share of the numbers that are smaller; ties count half."""
    return float(((among < number).sum() + (among == number).sum() / 2) / among.size)


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7]) | st.floats(0, 1, width=32), min_size=1,
                max_size=40))  # fmt: skip
def test_a_rank_is_the_share_of_smaller_numbers(row: list[float]) -> None:
    numbers = np.array(row, dtype=np.float32)
    expected = [share(number, numbers) * MAX_COLOUR_INDEX for number in numbers]
    found = colour_indices(a_heatmap([row], colour=RANK))[0]
    np.testing.assert_allclose(found, expected, atol=0.51)
    for number in set(row):  # equal numbers have equal colours
        assert len(set(found[numbers == np.float32(number)])) <= 1


def test_ranks_of_many_numbers_use_all_colours() -> None:
    numbers = np.random.default_rng(3).random((70, 70)).astype(np.float32) ** 8
    found = colour_indices(a_heatmap(numbers, colour=RANK)).astype(int)
    ranks = numbers.ravel().argsort().argsort().reshape(70, 70) / numbers.size
    assert np.abs(found - ranks * MAX_COLOUR_INDEX).max() < 2


@pytest.mark.parametrize("mark", ["forbidden", "dropped", "hidden"])
def test_marked_cells_do_not_affect_ranks(mark: str) -> None:
    row = [0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 0.8]
    marks = np.array([[True, True, True, False, False, False, False]])
    found = colour_indices(a_heatmap([row], colour=RANK, **{mark: marks}))[0]
    expected = [(2 * place + 1) / 8 * MAX_COLOUR_INDEX for place in range(4)]
    np.testing.assert_allclose(found[3:], expected, atol=0.51)
    assert set(found[:3]) == {FORBIDDEN if mark == "forbidden" else DROPPED}


def test_numbers_can_be_ranked_within_each_row() -> None:
    values = [[0.1, 0.2, 0.3, 0.4], [10, 40, 20, 30], [5, 5, 5, 5]]
    found = colour_indices(a_heatmap(values, colour=ROW_RANK))
    assert found[0].tolist() == sorted(found[0])
    assert found[1].tolist() == [found[0][0], found[0][3], found[0][1], found[0][2]]
    assert set(found[2]) == {126}


def test_signed_numbers_are_ranked_by_magnitude_on_their_side() -> None:
    found = colour_indices(a_heatmap([[-8, -0.5, 0, 0.001, 4]], colour=SIGNED_RANK))[0].astype(int)
    sizes = [share(size, np.array([8, 0.5, 0, 0.001, 4])) for size in (8, 0.5, 0.001, 4)]
    expected = [1 - sizes[0], 1 - sizes[1], 1, 1 + sizes[2], 1 + sizes[3]]
    np.testing.assert_allclose(found, np.array(expected) / 2 * MAX_COLOUR_INDEX, atol=0.51)


@pytest.mark.parametrize("colour", [RANK, ROW_RANK, SIGNED_RANK], ids=str)
def test_missing_values_have_their_own_entry_on_a_rank_scale(colour: ColourScale) -> None:
    found = colour_indices(a_heatmap([[np.nan, np.inf, 1, 0.5]], colour=colour))[0]
    assert found[0] == NAN_COLOUR_INDEX
    assert (found[1:] <= MAX_COLOUR_INDEX).all()
    alone = colour_indices(a_heatmap([[np.nan, np.nan]], colour=colour))
    assert (alone == NAN_COLOUR_INDEX).all()
