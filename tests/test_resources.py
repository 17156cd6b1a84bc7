"""No data file is shipped that nothing uses."""

from __future__ import annotations

import pytest

from tests.house_rules import ROOT

UI = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("visualizer/ui/*.py"))]
ICONS = sorted(path.stem for path in ROOT.glob("resources/icons/*"))
PICTURES = sorted(path.name for path in ROOT.glob("resources/pictures/*"))


def test_there_are_icons_and_pictures() -> None:
    assert "app" in ICONS
    assert PICTURES


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_is_used(name: str) -> None:
    assert any(f'"{name}"' in source for source in UI)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_in_the_readme(name: str) -> None:
    assert f"resources/pictures/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")
