"""Export settings are described in words, support three units, and are stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.export.data.data_preview import TEXT_SIZE_ESTIMATES
from visualizer.export.export_settings import (
    CUSTOM_PRESET,
    EXTENT_LABELS,
    PAPER_LABELS,
    ExportSettings,
    LengthUnit,
    apply_preset,
    describe_figure_size,
    matching_preset,
    settings_from_json,
    settings_to_json,
)
from visualizer.export.figure_settings import (
    FIGURE_PRESETS,
    FILM_WIDTHS_PX,
    AnimationSettings,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.export.formats import FORMATS
from visualizer.export.writers import WRITERS
from visualizer.session.timeline import PLAYBACK_SPEEDS, PlaybackPosition, StepSize


@given(st.floats(10, 5000), st.integers(36, 2400), st.sampled_from(LengthUnit))
def test_a_length_comes_back_from_every_unit(mm: float, dpi: int, unit: LengthUnit) -> None:
    assert unit.to_mm(unit.from_mm(mm, dpi), dpi) == pytest.approx(mm)


@pytest.mark.parametrize(
    ("unit", "words"),
    [(LengthUnit.MM, "85"), (LengthUnit.INCH, "3.346"), (LengthUnit.PIXEL, "2008")],
)
def test_a_length_is_written_as_it_is_typed(unit: LengthUnit, words: str) -> None:
    assert unit.format_mm(85, 600) == words


def test_a_size_in_words() -> None:
    width, height = 85 / 25.4 * 96, 80 / 25.4 * 96
    assert describe_figure_size(width, height, 600) == "85 × 80 mm · 2,008 × 1,890 pixels"
    assert describe_figure_size(width, height, None) == "85 × 80 mm"


@pytest.mark.parametrize("preset", FIGURE_PRESETS)
def test_a_preset_is_known_again_whatever_is_on_it(preset: str) -> None:
    figure_settings = FigureSettings(extent=FigureExtent.HEADS, title="A title", has_caption=False)
    sized = apply_preset(figure_settings, preset)
    assert matching_preset(sized) == preset
    assert (sized.extent, sized.title, sized.has_caption) == (FigureExtent.HEADS, "A title", False)
    assert matching_preset(replace(sized, width_mm=123)) == CUSTOM_PRESET
    assert apply_preset(sized, CUSTOM_PRESET) is sized


def test_every_choice_has_its_words() -> None:
    assert set(EXTENT_LABELS) == set(FigureExtent)
    assert set(PAPER_LABELS) == set(FigureTheme)


places = st.builds(
    PlaybackPosition, st.sampled_from(STAGE_ORDER), st.integers(0, 10**6), st.integers(0, 10**6)
)
spans = st.tuples(places, st.sampled_from(STAGE_ORDER)).filter(
    lambda span: STAGE_ORDER.index(span[0].stage) <= STAGE_ORDER.index(span[1])
)
films = st.builds(
    AnimationSettings,
    span=st.none() | spans,
    grain=st.sampled_from(StepSize),
    speed=st.sampled_from(PLAYBACK_SPEEDS),
    loops=st.booleans(),
    width=st.sampled_from(FILM_WIDTHS_PX),
    has_motion=st.booleans(),
)
looks = st.builds(
    FigureSettings,
    extent=st.sampled_from(FigureExtent),
    paper=st.sampled_from(FigureTheme),
    width_mm=st.floats(10, 5000),
    height_mm=st.none() | st.floats(10, 5000),
    dpi=st.integers(36, 2400),
    points=st.floats(3, 144),
    is_trimmed=st.booleans(),
    has_caption=st.booleans(),
    has_letters=st.booleans(),
    has_marks=st.booleans(),
    film=films,
    carries_document=st.booleans(),
)


def test_every_format_has_a_writer_and_every_text_a_size() -> None:
    assert set(WRITERS) == {each.suffix for each in FORMATS}
    assert set(TEXT_SIZE_ESTIMATES) == {each.suffix for each in FORMATS if each.is_text}
    known = set(FigureSettings.__struct_fields__)
    assert all(set(each.used_fields) <= known for each in FORMATS)


suffixes = st.sampled_from([each.suffix for each in FORMATS])


@given(looks, st.sampled_from(LengthUnit), suffixes)
def test_export_settings_are_stored(
    figure_settings: FigureSettings, unit: LengthUnit, suffix: str
) -> None:
    settings = ExportSettings(suffix, figure_settings, unit)
    assert settings_from_json(settings_to_json(settings)) == settings


def test_a_title_is_of_one_figure_only() -> None:
    assert (
        settings_from_json(settings_to_json(ExportSettings(look=FigureSettings(title="Mine"))))
        == ExportSettings()
    )


def test_settings_from_before_animated_inputs_are_kept() -> None:
    settings = ExportSettings(".gif", FigureSettings(dpi=123))
    older = json.loads(settings_to_json(settings))
    del older["look"]["film"]["has_motion"]
    assert settings_from_json(json.dumps(older)) == settings


@given(st.text())
def test_invalid_stored_settings_become_defaults(text: str) -> None:
    assert settings_from_json(text) == ExportSettings()


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
        {"look": {"is_trimmed": "no"}},
        {"look": {"has_caption": 1}},
        {"look": {"dpi": "300"}},
        {"look": {"dpi": True}},
        {"look": {"film": None}},
        {"look": {"film": {"speed": 3.0}}},
        {"look": {"film": {"width": 10**9}}},
        {"look": {"film": {"width": 640.5}}},
        {"look": {"film": {"grain": "column"}}},
        {"look": {"film": {"loops": "yes"}}},
        {"look": {"film": {"span": ["scores", "weights"]}}},
        {"look": {"film": {"span": [{"stage": "heart", "row": 0, "column": 0}, "weights"]}}},
        {"look": {"film": {"span": [{"stage": "scores", "row": -1, "column": 0}, "weights"]}}},
        {"look": {"film": {"span": [{"stage": "weights", "row": 0, "column": 0}, "scores"]}}},
        {"look": {"title": "of another figure"}},
    ],
)
def test_impossible_settings_become_defaults(changes: dict[str, Any]) -> None:
    parts = json.loads(
        settings_to_json(ExportSettings(".svg", FIGURE_PRESETS["Slide"], LengthUnit.INCH))
    )
    assert settings_from_json(json.dumps(parts)) != ExportSettings()
    assert settings_from_json(json.dumps(_changed(parts, changes))) == ExportSettings()


def _changed(parts: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Change some leaves of a tree and nothing else."""
    inner = {
        name: _changed(parts[name], value)
        for name, value in changes.items()
        if isinstance(value, dict)
    }
    return {**parts, **changes, **inner}


@given(looks, suffixes)
def test_hidden_options_of_a_format_have_no_effect(
    figure_settings: FigureSettings, suffix: str
) -> None:
    settings = ExportSettings(suffix, figure_settings)
    usual, asked = FigureSettings(), settings.figure_settings
    for each in FigureSettings.__struct_fields__:
        if each not in settings.used_field_names:
            assert getattr(asked, each) == getattr(usual, each)
        elif each != "extent":
            assert getattr(asked, each) == getattr(figure_settings, each)
    assert asked.extent in settings.extent_labels
    assert (
        asked.extent is figure_settings.extent
        or figure_settings.extent not in settings.extent_labels
        or "extent" not in settings.used_field_names
    )
    assert replace(settings, look=asked).figure_settings == asked


def test_deeply_nested_settings_become_defaults() -> None:
    assert settings_from_json("[" * 100_000) == ExportSettings()
