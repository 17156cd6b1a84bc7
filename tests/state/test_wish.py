"""What is asked for is said in words, measured in three units and remembered."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visualizer.state.figure import PRESETS, Extent, FigureLook, Paper
from visualizer.state.wish import (
    EXTENTS,
    OWN,
    PAPERS,
    Unit,
    Wish,
    preset_of,
    read,
    size_in_words,
    sized_as,
    written,
)


@given(st.floats(10, 5000), st.integers(36, 2400), st.sampled_from(Unit))
def test_a_length_comes_back_from_every_unit(mm: float, dpi: int, unit: Unit) -> None:
    assert unit.mm(unit.of(mm, dpi), dpi) == pytest.approx(mm)


@pytest.mark.parametrize(
    ("unit", "words"), [(Unit.MM, "85"), (Unit.INCH, "3.346"), (Unit.PIXEL, "2008")]
)
def test_a_length_is_written_as_it_is_typed(unit: Unit, words: str) -> None:
    assert unit.written(85, 600) == words


def test_a_size_in_words() -> None:
    width, height = 85 / 25.4 * 96, 80 / 25.4 * 96
    assert size_in_words(width, height, 600) == "85 × 80 mm · 2,008 × 1,890 pixels"
    assert size_in_words(width, height, None) == "85 × 80 mm"


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_known_again_whatever_is_on_it(preset: str) -> None:
    look = FigureLook(extent=Extent.HEADS, title="A title", has_caption=False)
    sized = sized_as(look, preset)
    assert preset_of(sized) == preset
    assert (sized.extent, sized.title, sized.has_caption) == (Extent.HEADS, "A title", False)
    assert preset_of(replace(sized, width_mm=123)) == OWN
    assert sized_as(sized, OWN) is sized


def test_every_choice_has_its_words() -> None:
    assert set(EXTENTS) == set(Extent)
    assert set(PAPERS) == set(Paper)


looks = st.builds(
    FigureLook,
    extent=st.sampled_from(Extent),
    paper=st.sampled_from(Paper),
    width_mm=st.floats(10, 5000),
    height_mm=st.none() | st.floats(10, 5000),
    dpi=st.integers(36, 2400),
    points=st.floats(3, 144),
    is_trimmed=st.booleans(),
    has_caption=st.booleans(),
)


@given(looks, st.sampled_from(Unit), st.sampled_from([".png", ".svg", ".npz"]))
def test_a_wish_is_remembered(look: FigureLook, unit: Unit, suffix: str) -> None:
    wish = Wish(suffix, look, unit)
    assert read(written(wish)) == wish


def test_a_title_is_of_one_figure_only() -> None:
    assert read(written(Wish(look=FigureLook(title="Mine")))) == Wish()


@given(st.text())
def test_nonsense_is_as_usual(text: str) -> None:
    assert read(text) == Wish()


@pytest.mark.parametrize(
    "changes",
    [
        {"suffix": ".exe"},
        {"unit": "mile"},
        {"look": None},
        {"look": {"width_mm": -1}},
        {"look": {"width_mm": float("nan")}},
        {"look": {"height_mm": "high"}},
        {"look": {"dpi": 10**9}},
        {"look": {"points": float("inf")}},
        {"look": {"paper": "pink"}},
    ],
)
def test_what_is_not_possible_is_as_usual(changes: dict[str, Any]) -> None:
    parts = json.loads(written(Wish(".svg", PRESETS["Slide"], Unit.INCH)))
    assert read(json.dumps(parts)) != Wish()
    assert read(json.dumps({**parts, **changes})) == Wish()
