"""The menu entry, the description, the file types and the icons are valid."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from PySide6.QtGui import QGuiApplication, QImage

from installers.linux.constants import APPSTREAM_ID, DOCUMENT_TYPE, NAME
from installers.linux.desktop_files import (
    FILES,
    ICON_SIZES,
    PICTURES,
    SCREENSHOTS,
    metainfo,
    write_desktop_files,
)
from tests.architecture.project_graph import ROOT
from visualizer.app import NAME as WINDOW_CLASS
from visualizer.app import set_desktop_file_name
from visualizer.cli.options import LAB_COMMAND
from visualizer.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

IN_CI = "CI" in os.environ
"""Whether the tests run in CI, where the checkers are installed and no test is skipped."""
BUILT = datetime(2026, 5, 17, tzinfo=UTC)


@pytest.fixture(scope="module")
def share(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all desktop files."""
    folder = tmp_path_factory.mktemp("share")
    write_desktop_files(folder, BUILT)
    return folder


def checked_by(program: str, *arguments: str | Path) -> str:
    """Run a checker on a file, and return its output if it finds no errors."""
    if not shutil.which(program) and not IN_CI:
        pytest.skip(f"{program} is not installed here")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_menu_entry_is_valid(share: Path) -> None:
    assert checked_by("desktop-file-validate", share / f"applications/{NAME}.desktop") == ""


def test_the_description_is_valid(share: Path) -> None:
    file = share / f"metainfo/{APPSTREAM_ID}.metainfo.xml"
    said = checked_by("appstreamcli", "validate", "--no-net", file)
    assert "successful" in said
    assert not re.search(r"^[EW]:", said, re.M), said


def test_the_description_shows_pictures_of_the_documentation(tmp_path: Path) -> None:
    address = "https://example.org/pictures/"
    file = tmp_path / f"{APPSTREAM_ID}.metainfo.xml"
    file.write_text(metainfo(BUILT, address), encoding="utf-8")
    screenshots = ET.parse(file).getroot().findall("screenshots/screenshot")
    assert [each.findtext("caption") for each in screenshots] == [*SCREENSHOTS.values()]
    images = [each.findtext("image") or "" for each in screenshots]
    assert images == [address + name for name in SCREENSHOTS]
    assert all((PICTURES / name).is_file() for name in SCREENSHOTS)
    said = checked_by("appstreamcli", "validate", "--no-net", file)
    assert not re.search(r"^[EW]:", said, re.M), said


def test_the_description_names_what_the_menu_entry_and_the_file_types_name() -> None:
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(FILES / f"{NAME}.desktop", encoding="utf-8")
    opened = entry["Desktop Entry"]["MimeType"].strip(";").split(";")
    description = ET.fromstring(metainfo(BUILT))
    assert [one.text for one in description.findall("provides/mediatype")] == opened
    named = ET.parse(FILES / f"{NAME}.xml").getroot()
    assert [one.get("type") for one in named] == opened
    release = description.find("releases/release")
    assert release is not None
    assert release.attrib == {"version": __version__, "date": "2026-05-17"}
    assert description.findtext("launchable") == f"{NAME}.desktop"


def test_the_menu_entry_names_the_windows_and_starts_what_there_is() -> None:
    entry = configparser.ConfigParser(interpolation=None)
    entry.read(FILES / f"{NAME}.desktop", encoding="utf-8")
    main = entry["Desktop Entry"]
    assert main["StartupWMClass"] == WINDOW_CLASS
    assert main["Exec"] == f"{NAME} %f"
    assert main["Icon"] == NAME
    assert entry["Desktop Action lab"]["Exec"] == f"{NAME} {LAB_COMMAND}"


def test_a_window_names_the_menu_entry_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    before = QGuiApplication.desktopFileName()
    request.addfinalizer(lambda: QGuiApplication.setDesktopFileName(before))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    QGuiApplication.setDesktopFileName("")
    set_desktop_file_name()
    assert QGuiApplication.desktopFileName() == ""
    write_desktop_files(tmp_path, BUILT)
    set_desktop_file_name()
    assert QGuiApplication.desktopFileName() == NAME


ASKED = """
import sys
from PySide6.QtCore import QMimeDatabase
database = QMimeDatabase()
for name in sys.argv[1:]:
    print(database.mimeTypeForFile(name, QMimeDatabase.MatchMode.MatchExtension).name())
"""


def test_qt_tells_the_type_of_each_file_that_can_be_opened(share: Path) -> None:
    names = ["a.attention", "a.npy", "a.npz", "a.safetensors"]
    pages = (ROOT / "docs" / "reference" / "file-formats.md").read_text(encoding="utf-8")
    assert all(f"`{name[1:]}`" in pages for name in names)
    done = subprocess.run(
        [sys.executable, "-c", ASKED, *names],
        env={**os.environ, "XDG_DATA_HOME": str(share)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        DOCUMENT_TYPE,
        "application/x-numpy-array",
        "application/x-numpy-archive",
        "application/x-safetensors",
    ]


@pytest.mark.parametrize("side", ICON_SIZES)
def test_icons_of_each_size_show_the_drawing(side: int, share: Path) -> None:
    theme = share / "icons" / "hicolor" / f"{side}x{side}"
    (program,) = (theme / "apps").iterdir()
    (document,) = (theme / "mimetypes").iterdir()
    assert program.name == f"{NAME}.png"
    assert document.name == f"{DOCUMENT_TYPE.replace('/', '-')}.png"
    assert program.read_bytes() == document.read_bytes()
    image = QImage(str(program))
    assert (image.width(), image.height()) == (side, side)
    assert image.pixelColor(0, 0).alpha() == 0
    # The lightest cell of the icon is at a fifth of its width and height.
    at = round(54.5 / 256 * side)
    colour = image.pixelColor(at, at)
    assert (colour.red(), colour.green(), colour.blue()) == pytest.approx((228, 241, 255), abs=12)


def test_shells_complete_the_command(share: Path) -> None:
    bash = (share / "bash-completion" / "completions" / NAME).read_text(encoding="utf-8")
    zsh = (share / "zsh" / "vendor-completions" / f"_{NAME}").read_text(encoding="utf-8")
    assert re.search(rf"^complete .*-F \w+ {NAME}$", bash, re.M)
    assert zsh.startswith(f"#compdef {NAME}\n")
    assert "--colour-map" in bash
    assert "--colour-map" in zsh
