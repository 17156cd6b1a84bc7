"""Every shipped data file is used, and every used one is shipped."""

from __future__ import annotations

import tomllib

import pytest

from tests.architecture.project_graph import ROOT

UI = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("visualizer/**/*.py"))]
ICONS = sorted(path.stem for path in ROOT.glob("resources/icons/*"))
PICTURES = sorted(path.name for path in ROOT.glob("resources/pictures/*"))

WEBPAGE = sorted(path.name for path in ROOT.glob("resources/webpage/*"))


def test_there_are_icons_and_pictures() -> None:
    assert "app" in ICONS
    assert PICTURES
    assert WEBPAGE


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_is_used(name: str) -> None:
    assert any(f'"{name}"' in source for source in UI)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_in_the_readme(name: str) -> None:
    assert f"resources/pictures/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WEBPAGE)
def test_every_part_of_the_web_page_is_used(name: str) -> None:
    source = ROOT / "visualizer" / "export" / "figures" / "webpage_writer.py"
    assert f'"{name}"' in source.read_text(encoding="utf-8")


def test_all_but_the_pictures_of_the_readme_is_in_a_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    there = {f"resources/{path.name}" for path in ROOT.glob("resources/*")}
    assert set(included) == there - {"resources/pictures"}
    assert all(target == f"visualizer/{source}" for source, target in included.items())
