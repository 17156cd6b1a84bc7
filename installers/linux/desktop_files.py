"""Writes the desktop files: menu entry, file types, icons, description and shell completion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from installers.icon_drawing import DRAWING, render_icons
from installers.linux.constants import APPSTREAM_ID, DOCUMENT_TYPE, NAME, ROOT
from visualizer.cli.shell_completion import completion_script
from visualizer.version import __version__

if TYPE_CHECKING:
    from datetime import datetime

FILES = Path(__file__).with_name("files")
ICON_SIZES = (16, 22, 24, 32, 48, 64, 96, 128, 256, 512)
"""Side lengths, in pixels, of the icons in the hicolor theme."""


SCREENSHOTS = {
    "light.png": "The computation of one head, with one weight explained term by term",
    "model.png": "All heads of a language model",
    "lab.png": "Attention heads of a small model during training",
}
"""Captions of the pictures in software centres, by file name; the first one is the default."""
PICTURES = ROOT / "docs" / "pictures"


def write_desktop_files(share: Path, built: datetime, pictures_url: str = "") -> None:
    """Write all desktop files into a ``share`` folder; the parameters are those of `metainfo`."""
    _write(share / "applications" / f"{NAME}.desktop", _read_file(f"{NAME}.desktop"))
    _write(share / "mime" / "packages" / f"{NAME}.xml", _read_file(f"{NAME}.xml"))
    _write(share / "metainfo" / f"{APPSTREAM_ID}.metainfo.xml", metainfo(built, pictures_url))
    _write(share / "bash-completion" / "completions" / NAME, completion_script("bash"))
    _write(share / "zsh" / "vendor-completions" / f"_{NAME}", completion_script("zsh"))
    write_icons(share / "icons" / "hicolor")


def metainfo(built: datetime, pictures_url: str = "") -> str:
    """Return the AppStream description of the program for software centres.

    Parameters
    ----------
    pictures_url : str
        Address of the folder that contains the pictures of the documentation; software centres load
        screenshots only from the web. If empty, the description has no screenshots.
    """
    return _read_file("metainfo.xml").format(
        appstream_id=APPSTREAM_ID,
        version=__version__,
        date=f"{built:%Y-%m-%d}",
        screenshots=_screenshots_element(pictures_url) if pictures_url else "",
    )


def _screenshots_element(pictures_url: str) -> str:
    made = ET.Element("screenshots")
    for name, caption in SCREENSHOTS.items():
        screenshot = ET.SubElement(made, "screenshot")
        ET.SubElement(screenshot, "caption").text = caption
        ET.SubElement(screenshot, "image").text = f"{pictures_url.rstrip('/')}/{name}"
    made[0].set("type", "default")
    ET.indent(made, level=1)
    return f"  {ET.tostring(made, encoding='unicode')}\n"


def write_icons(theme: Path) -> None:
    """Write the icon as SVG and in all pixel sizes, for the program and for its documents."""
    names = [f"apps/{NAME}", f"mimetypes/{DOCUMENT_TYPE.replace('/', '-')}"]
    for name in names:
        _write(theme / "scalable" / f"{name}.svg", DRAWING.read_text(encoding="utf-8"))
    for side, image in zip(ICON_SIZES, render_icons(ICON_SIZES), strict=True):
        for name in names:
            path = theme / f"{side}x{side}" / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            image.save(str(path))


def _read_file(name: str) -> str:
    return (FILES / name).read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
