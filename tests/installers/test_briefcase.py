"""Briefcase can read the configuration for Windows and macOS, and finds the icons."""

from __future__ import annotations

import os
import tomllib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from installers.briefcase_icons import FOLDER, MAC_OS, NAME, WINDOWS, write_icons
from installers.linux.constants import EXTRAS
from tests.architecture.project_graph import ROOT
from visualizer.app import NAME as TITLE
from visualizer.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_icons_have_all_sizes_and_the_drawing(tmp_path: Path) -> None:
    write_icons(tmp_path)
    with Image.open(tmp_path / f"{NAME}.ico") as icon:
        assert icon.info["sizes"] == {(side, side) for side in WINDOWS}
        assert icon.convert("RGBA").getpixel((54, 54)) == (228, 241, 255, 255)
    with Image.open(tmp_path / f"{NAME}.icns") as icon:
        widths = {width * scale for width, _, scale in icon.info["sizes"]}
        assert widths == set(MAC_OS)
        assert icon.convert("RGBA").getpixel((218, 218)) == (228, 241, 255, 255)


def test_it_brings_the_extras_that_the_debian_package_brings() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [one for extra in EXTRAS for one in extras[extra]]
    assert PROJECT["tool"]["briefcase"]["app"]["visualizer"]["requires"] == wanted


def ask_here(ask: Callable[..., Any], sources: Path, *, isolated: bool) -> Any:
    """Call a build hook without an isolated environment."""
    assert isolated
    return ask(sources, isolated=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("platform", "output_format"), [("windows", "app"), ("macOS", "app"), ("macOS", "Xcode")]
)
def test_briefcase_reads_the_configuration(
    platform: str, output_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "CI" not in os.environ:
        pytest.importorskip("briefcase", reason="the group release is not installed here")
    from briefcase import config
    from briefcase.console import Console

    # The installed build backend returns the version, so no package index is required.
    ask = config.project_wheel_metadata
    monkeypatch.setattr(config, "project_wheel_metadata", partial(ask_here, ask))
    _, apps = config.parse_config(ROOT / "pyproject.toml", platform, output_format, Console())
    app = config.DraftAppConfig(**apps["visualizer"])
    assert (app.formal_name, str(app.version)) == (TITLE, __version__)
    assert app.module_name == "visualizer"
    assert (ROOT / app.icon).parent == FOLDER
    assert {"torch>=2.6", "transformers>=5"} <= set(app.requires or ())
    assert all((ROOT / source).is_dir() for source in app.sources or ())
    opened = [one["extension"] for one in app.document_types.values()]
    assert opened == ["attention"]
