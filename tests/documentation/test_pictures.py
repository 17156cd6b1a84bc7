"""One command creates all images in the README and the documentation, and all are used."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from PIL import Image

from tests.architecture.project_graph import ROOT
from tests.pictures import __main__ as pictures
from visualizer.widgets.documentation_pages import find_links

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = ROOT / "docs" / "pictures"
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_command_names_the_images_that_are_there() -> None:
    assert set(pictures.PICTURES) == {path.name for path in SHIPPED.iterdir()}


def test_every_image_is_used() -> None:
    targets = [
        target for path in FILES for _, target in find_links(path.read_text(encoding="utf-8"))
    ]
    used = {target.rpartition("pictures/")[2] for target in targets if "pictures/" in target}
    assert used == set(pictures.PICTURES)


def test_each_module_is_there() -> None:
    for module in pictures.MODULES:
        assert (ROOT / "tests" / "pictures" / f"{module.name}.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.png"], "there is no picture nothing.png"),
        (["model.png"], "this picture needs --model"),
    ],
)
def test_images_that_cannot_be_created_are_rejected(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        pictures.main(arguments)
    assert said in capsys.readouterr().err


def test_capabilities_are_listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, **_: started.append(command[2:]))
    pictures.main(["--out", str(tmp_path), "lab.png", "lines.png"])
    out = str(tmp_path)
    assert started == [
        ["tests.pictures.windows", out, "lines.png"],
        ["tests.pictures.lab", out, "lab.png"],
    ]
    started.clear()
    pictures.main(["--out", out])
    names = ["tests.pictures.windows", "tests.pictures.film", "tests.pictures.lab"]
    assert [command[0] for command in started] == names
    started.clear()
    pictures.main(["--out", out, "--model", out])
    assert started[-2:] == [
        ["tests.pictures.model", out, out, "model.png"],
        ["tests.pictures.notebook", out, out, "notebook.png"],
    ]


@pytest.mark.slow
def test_the_images_of_windows_are_made(tmp_path: Path) -> None:
    named = pictures.MODULES[0].pictures
    command = [sys.executable, "-m", "tests.pictures", "--out", str(tmp_path), *named]
    subprocess.run(command, cwd=ROOT, check=True)
    assert {path.name for path in tmp_path.iterdir()} == set(named)
    for path in tmp_path.iterdir():
        with Image.open(path) as made, Image.open(SHIPPED / path.name) as shipped:
            assert made.size == shipped.size
