"""The wheel and the source distribution are complete, valid and reproducible."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.optional_packages import REQUIREMENTS_OF_EXTRA
from visualizer.version import __version__

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = ("build", "hatchling", "twine", "check_wheel_contents")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(find_spec, TOOLS)) and "CI" not in os.environ,
        reason="the group release is not installed here",
    ),
]


def python(*arguments: str | Path, folder: Path = ROOT, path: Path | None = None) -> str:
    """Run Python and return its output."""
    environment = dict(os.environ)
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(path), environment.get("PYTHONPATH", "")])
        )
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, which is built from the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    python("-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (made,) = folder.glob("*.whl")
    assert made.name == f"attention_visualizer-{__version__}-py3-none-any.whl"
    return made


@pytest.fixture
def source_archive(wheel: Path) -> Path:
    return wheel.with_name(f"attention_visualizer-{__version__}.tar.gz")


def test_a_checkout_builds_the_wheel_that_the_source_archive_builds(
    wheel: Path, tmp_path: Path
) -> None:
    python("-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT)
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_index_can_show_the_description(wheel: Path, source_archive: Path) -> None:
    said = python("-m", "twine", "--no-color", "check", "--strict", wheel, source_archive)
    assert said.count("PASSED") == 2


def test_the_wheel_has_no_common_mistake(wheel: Path) -> None:
    assert python("-m", "check_wheel_contents", wheel).endswith("OK\n")


def test_the_wheel_has_every_module_and_says_that_it_has_types(wheel: Path) -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("visualizer/**/*.py")}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert len(modules) > 300
    assert modules <= names
    assert {"visualizer/py.typed", "visualizer/docs/index.md"} <= names
    assert not any(name.startswith(("tests/", "installers/")) for name in names)


def test_the_wheel_names_its_extras_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = message_from_string(archive.read(about).decode())
    assert {*metadata.get_all("Provides-Extra", [])} == {*REQUIREMENTS_OF_EXTRA, "all"}
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["License-Expression"] == "MIT"
    needed = metadata.get_all("Requires-Dist", [])
    assert any(one.startswith("transformers>=5; extra == ") for one in needed)


def test_the_source_archive_has_what_its_tests_read(source_archive: Path) -> None:
    with tarfile.open(source_archive) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "main.py", "constraints.txt", "CHANGELOG.md", "LICENSE"} <= names
    assert {"README.md", "CITATION.cff"} <= names
    assert "installers/linux/files/attention-visualizer.desktop" in names
    assert "tests/installers/test_package_index.py" in names


def test_the_installed_wheel_runs_away_from_its_sources(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    pip = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    python(*pip, "--target", installed, wheel)
    where = python(
        "-P", "-c", "import visualizer; print(visualizer.__file__)", folder=tmp_path, path=installed
    )
    assert where.strip() == str(installed / "visualizer" / "__init__.py")
    program = ("-P", "-m", "visualizer")
    version = python(*program, "--version", folder=tmp_path, path=installed)
    assert version == f"attention-visualizer {__version__}\n"
    python(*program, "--export", "a.png", "--quiet", folder=tmp_path, path=installed)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
