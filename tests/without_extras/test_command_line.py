"""Without the optional packages, the command line names the missing package and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from visualizer.app import main
from visualizer.language.example_run import EXAMPLE_FOLDER as TRAINED_RUN
from visualizer.optional_packages import OPTIONAL_PACKAGES, TITLES, install_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def refused(arguments: Sequence[object], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the message of a command that exits with status 2 and has no output."""
    capsys.readouterr()
    assert main([*map(str, arguments)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    return line


def assert_names(package: str, message: str) -> None:
    """Assert that a message names a package and the command that installs the package."""
    assert message.endswith(install_command(*OPTIONAL_PACKAGES[package]))
    assert TITLES.get(package, package) in message.partition("Install")[0]


@pytest.mark.parametrize("size", [(), ("--span", "scores..weights", "--grain", "stage")])
def test_a_video_names_its_missing_package(
    size: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for first in ((), (TRAINED_RUN,)):
        path = tmp_path / "film.mp4"
        assert_names("av", refused([*first, "--export", path, *size], capsys))
    assert [*tmp_path.iterdir()] == []


def test_a_video_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert_names("av", refused(["--export", "-", "--format", "mp4"], capsys))


def test_no_other_file_is_written_next_to_a_video(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exports = ["--export", tmp_path / "a.csv", "--export", tmp_path / "a.mp4"]
    assert_names("av", refused(exports, capsys))
    assert [*tmp_path.iterdir()] == []


def test_a_video_of_a_model(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["--export", tmp_path / "a.mp4"]
    assert_names("av", refused(["model", model_folder, "--text", "a b", *export], capsys))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_names_its_missing_package(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_names("shtab", refused(["--print-completion", shell], capsys))


@pytest.mark.parametrize(
    "options",
    [("--text", "a b"), ("--text", "a b", "--text", "b a"), ("--image", "a.png"),
     ("--text", "a", "--chat"), ("--text", "a b", "--heads", "heads.csv"),
     ("--text", "a b", "--overview", "heads.png"), ("--text", "a b", "--export", "layer.svg")],
)  # fmt: skip
def test_a_model_names_its_missing_packages(
    options: tuple[str, ...],
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (model_folder, TRAINED_RUN):
        assert_names("transformers", refused(["model", folder, *options], capsys))
    assert [*tmp_path.iterdir()] == []


def test_a_model_that_is_read_from_the_disk(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["model", str(model_folder), "--text", "a b", "--from-disk"]) == 2
    assert_names("accelerate", capsys.readouterr().err.splitlines()[-1])


def test_a_model_that_continues_a_text(
    model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["generate", model_folder, "--prompt", "a b", "--tokens", 2]
    assert_names("transformers", refused(command, capsys))


@pytest.mark.parametrize("spread", [(), ("--tensor-parallel", 2), ("--pipeline-parallel", 2)])
def test_a_server_names_its_missing_packages(
    spread: tuple[object, ...], model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_names("h11", refused(["serve", model_folder, "--port", 0, *spread], capsys))


def test_formats_that_cannot_be_written_are_listed_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--list", "formats"])
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert_names("av", lines["mp4"])
    assert not any("Install it" in line for name, line in lines.items() if name != "mp4")


def test_features_without_extras_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / f"a{suffix}" for suffix in (".png", ".gif", ".csv", ".attention")]
    exports = [each for path in paths for each in ("--export", str(path))]
    film = ["--grain", "stage", "--span", "scores..weights", "--quiet"]
    assert main(["--text", "a b", *exports, *film]) == 0, capsys.readouterr().err
    assert all(path.stat().st_size for path in paths)
    assert main(["generate", str(TRAINED_RUN), "--tokens", "3"]) == 0
    assert capsys.readouterr().out
