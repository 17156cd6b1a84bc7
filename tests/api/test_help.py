"""The keyword arguments accept the values that `help` lists."""

from __future__ import annotations

import pydoc
import re
from enum import StrEnum

import pytest

import visualizer
from visualizer.api.argument_conversion import AttendArguments, FigureArguments
from visualizer.api.argument_validation import ARGUMENT_NAMES
from visualizer.api.notebook_display import ExplainedValue
from visualizer.attention.settings import SETTINGS
from visualizer.attention.spec import MAX_SEED, AttentionSpec
from visualizer.export.figure_settings import (
    MAX_DPI,
    MIN_DPI,
    FigureExtent,
    FigureSettings,
    FigureTheme,
)
from visualizer.export.option_parsing import SIZE_PRESETS, parse_figure_size
from visualizer.session.document import Document
from visualizer.session.view_options import COLOUR_MAPS

DEFAULT = Document()
FIELDS = {argument: field for field, argument in ARGUMENT_NAMES.items()}


def said(kind: type) -> dict[str, str]:
    """Return the description of each argument in `help`, without the line of its name and type."""
    text = pydoc.plain(pydoc.render_doc(kind))
    parts = re.split(r"^ \|  (\w+(?:, \w+)*) : .*\n", text.split("----------\n", 1)[1], flags=re.M)
    words = (part.replace(" |  ", " ") for part in parts[2::2])
    return dict(zip(parts[1::2], words, strict=True))


def choices() -> dict[str, tuple[str, ...]]:
    """Yield the choices of each setting that has an enumeration."""
    kinds = {
        name: type(DEFAULT.get_setting(FIELDS.get(name, name)))
        for name in AttendArguments.__annotations__
    }
    return {name: tuple(kind) for name, kind in kinds.items() if issubclass(kind, StrEnum)}


def quoted(words: str) -> set[str]:
    return set(re.findall(r'``"([^"]+)"``', words))


@pytest.mark.parametrize("kind", [visualizer.AttendArguments, visualizer.FigureArguments])
def test_every_argument_is_described_in_order(kind: type) -> None:
    described = [name for name in said(kind) if name in kind.__annotations__]
    assert described == list(kind.__annotations__)


@pytest.mark.parametrize("name", [*visualizer.__all__, "ExplainedValue"])
def test_help_is_given_of_all_that_a_notebook_uses(name: str) -> None:
    thing = ExplainedValue if name == "ExplainedValue" else getattr(visualizer, name)
    assert name.strip("_") in pydoc.plain(pydoc.render_doc(thing)) or name == "__version__"


@pytest.mark.parametrize("name", choices())
def test_every_choice_of_a_setting_is_listed(name: str) -> None:
    assert quoted(said(AttendArguments)[name]) == set(choices()[name])


def test_the_choices_are_those_of_the_windows_table() -> None:
    table = {setting.name: {value for value, _ in setting.choices} for setting in SETTINGS}
    own = {FIELDS.get(name, name): set(values) for name, values in choices().items()}
    assert own.pop("tokenizer") == {"words", "characters"}
    assert {name: table[name] for name in own} == own


@pytest.mark.parametrize(("name", "kind"), [("layout", FigureExtent), ("theme", FigureTheme)])
def test_every_choice_of_a_figure_is_listed(name: str, kind: type[StrEnum]) -> None:
    assert quoted(said(FigureArguments)[name]) == set(kind)


def test_every_colour_map_is_listed() -> None:
    assert quoted(said(FigureArguments)["colour_map"]) == {each.id for each in COLOUR_MAPS}


def test_every_preset_of_the_size_is_listed() -> None:
    listed = quoted(said(FigureArguments)["size"])
    assert set(SIZE_PRESETS) <= listed
    for size in listed - set(SIZE_PRESETS):
        assert parse_figure_size(size).width > 0


def test_defaults_and_limits_are_those_of_the_program() -> None:
    about, spec, look = said(AttendArguments), AttentionSpec(), said(FigureArguments)
    for name in ("embedding_size", "output_size", "dropout", "seed", "dropout_seed", "window"):
        value = DEFAULT.get_setting(FIELDS.get(name, name))
        assert f"; {value:g} " in about[name] or f"; {value:g} by default" in about[name]
    assert f'``"{DEFAULT.get_setting("mechanism")}"`` (the default)' in " ".join(
        about["mechanism"].split()
    )
    assert (MAX_SEED, spec.temperature) == (2**31 - 1, 1)
    assert "from 0 to 2³¹ − 1" in about["seed"]
    assert f"{MIN_DPI} to {MAX_DPI:,}; {FigureSettings().dpi} by default" in look["dpi"]
