"""Every shipped data file is used, and every data file that is used is shipped."""

from __future__ import annotations

import tomllib

import pytest

from tests.architecture.project_graph import ROOT

UI = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("visualizer/**/*.py"))]
ICONS = sorted(path.stem for path in ROOT.glob("resources/icons/*"))
PICTURES = sorted(path.name for path in ROOT.glob("docs/pictures/*"))
READ = [
    path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
]

WEBPAGE = sorted(path.name for path in ROOT.glob("resources/webpage/*"))


def test_there_are_icons_and_pictures() -> None:
    assert "app" in ICONS
    assert PICTURES
    assert WEBPAGE


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_is_used(name: str) -> None:
    assert any(f'"{name}"' in source for source in UI)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_in_the_readme_or_the_documentation(name: str) -> None:
    assert any(f"pictures/{name})" in page for page in READ)


@pytest.mark.parametrize("name", WEBPAGE)
def test_every_part_of_the_web_page_is_used(name: str) -> None:
    source = ROOT / "visualizer" / "export" / "figures" / "webpage_writer.py"
    assert f'"{name}"' in source.read_text(encoding="utf-8")


def test_all_resources_and_the_documentation_are_in_a_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets = project["tool"]["hatch"]["build"]["targets"]
    included = targets["wheel"]["force-include"]
    there = {f"resources/{path.name}" for path in ROOT.glob("resources/*")}
    assert set(included) == there | {"docs"}
    assert all(target == f"visualizer/{source}" for source, target in included.items())
    assert {"docs", "resources"} < set(targets["sdist"]["only-include"])
