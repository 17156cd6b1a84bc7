"""Each optional package has an extra and is imported only after it has been required."""

from __future__ import annotations

import ast
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.errors import InputError
from visualizer.optional_packages import (
    BUNDLE_INSTALLER,
    BUNDLE_NOTES,
    OPTIONAL_PACKAGES,
    PACKAGE_FIELD,
    REQUIREMENTS_OF_EXTRA,
    TITLES,
    Installation,
    detect_installation,
    install_command,
    is_installed,
    missing_package_message,
    require_package,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTENSIBLE = [*Installation][:-1]


def test_the_requirements_are_those_of_the_project() -> None:
    declared = PROJECT["optional-dependencies"]
    assert {name: tuple(declared[name]) for name in REQUIREMENTS_OF_EXTRA} == REQUIREMENTS_OF_EXTRA


@pytest.mark.parametrize("package", OPTIONAL_PACKAGES)
def test_a_message_names_the_feature_the_package_and_the_command(package: str) -> None:
    assert not is_installed(package)
    said = missing_package_message(package, "This")
    assert said.startswith(f"This requires {TITLES.get(package, package)}")
    assert said.endswith(install_command(*OPTIONAL_PACKAGES[package]))
    with pytest.raises(InputError) as refused:
        require_package(package, "This")
    assert (refused.value.field, refused.value.sentence) == (PACKAGE_FIELD, said)


@pytest.mark.parametrize("installation", EXTENSIBLE)
def test_a_command_passes_the_requirements_unchanged(installation: Installation) -> None:
    for requirements in REQUIREMENTS_OF_EXTRA.values():
        command = shlex.split(install_command(*requirements, installation=installation))
        assert command[-len(requirements) :] == [*requirements]
        assert not any(each.startswith("attention-visualizer[") for each in command)


def test_commands_by_installation() -> None:
    others = EXTENSIBLE[1:]  # that of pip depends on the environment
    assert {each: install_command("av>=14", installation=each) for each in others} == {
        Installation.NOTEBOOK: '%pip install "av>=14"',
        Installation.UV: f'uv pip install --python {sys.prefix} "av>=14"',
        Installation.PIPX: f'pipx inject {Path(sys.prefix).name} "av>=14"',
    }


def test_pip_is_that_of_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "pip"
    other.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    command = install_command("pandas", installation=Installation.PIP)
    assert command == f"{sys.executable} -m pip install pandas"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert install_command("pandas", installation=Installation.PIP) == "pip install pandas"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "with space" / "python"))
    program, *_ = shlex.split(install_command("pandas", installation=Installation.PIP))
    assert program == sys.executable


def test_a_bundle_explains_why_it_has_no_video() -> None:
    said = missing_package_message("av", "MP4", installation=Installation.BUNDLE)
    assert BUNDLE_NOTES["av"] in said
    assert "install it with" not in said.lower()
    other = missing_package_message("pandas", "to_dataframe", installation=Installation.BUNDLE)
    assert "pipx" in other


def test_the_installation_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {each: tmp_path / each for each in Installation}
    for folder in environment.values():
        folder.mkdir()
    (environment[Installation.PIPX] / "pipx_metadata.json").touch()
    for each in (Installation.UV, Installation.PIPX):  # pipx can create environments with uv
        (environment[each] / "pyvenv.cfg").write_text("home = /usr/bin\nuv = 0.13.9\n")
    (environment[Installation.PIP] / "pyvenv.cfg").write_text("home = /usr/bin\n")
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    for each in (Installation.PIPX, Installation.UV, Installation.PIP):
        assert detect_installation(environment[each]) is each
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert detect_installation(environment[Installation.NOTEBOOK]) is Installation.NOTEBOOK


@pytest.mark.parametrize(
    ("name", "metadata", "installer"),
    [
        ("attention_visualizer", "", BUNDLE_INSTALLER),
        ("visualizer", "Briefcase-Version: 0.4\n", ""),
    ],
)
def test_a_bundle_is_detected(
    name: str, metadata: str, installer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"{name}-0.1.0.dist-info"
    folder.mkdir()
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n{metadata}\n"
    (folder / "METADATA").write_text(head)
    (folder / "INSTALLER").write_text(f"{installer}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert detect_installation(tmp_path) is Installation.BUNDLE


IMPORTS_AT_ONCE = {
    "visualizer/export/films/mp4_encoder.py",
    "visualizer/models/lab_transformer.py",
    "visualizer/models/preallocated_cache.py",
    "visualizer/models/model_server/http_server.py",
}
"""Modules that import optional packages at the top; other modules import them on demand."""


def test_modules_that_import_optional_packages_are_known() -> None:
    found = set()
    for path in (ROOT / "visualizer").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if {name.partition(".")[0] for name in names} & OPTIONAL_PACKAGES.keys():
                found.add(path.relative_to(ROOT).as_posix())
    assert found == IMPORTS_AT_ONCE
