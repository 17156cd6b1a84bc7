"""Models are opened by their name and revision, and downloaded on request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import visualizer
from tests.support.hub_folders import cache_folder, repository
from tests.support.hub_server import COMMIT, HubServer, files_of, serving
from visualizer import InputError
from visualizer.cli.generate import generate
from visualizer.cli.model import model as run_model_command
from visualizer.models.hub_download import find_access_token
from visualizer.models.model_path import RepositoryName, find_model_folder, parse_repository_name

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = "the cat sat on the mat"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


@pytest.fixture
def server(
    tiny_model_folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HubServer]:
    made = HubServer("org/tiny", files_of(tiny_model_folder))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(made) as address:
        monkeypatch.setenv("HF_ENDPOINT", address)
        yield made


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("org/name", RepositoryName("org/name")),
        ("gpt2", RepositoryName("gpt2")),
        ("org/name@v1.0", RepositoryName("org/name", "v1.0")),
        ("org/name@refs/pr/1", RepositoryName("org/name", "refs/pr/1")),
        *(
            (other, None)
            for other in (
                "a/b/c", "/a", "a/", "org/na--me", "org/..", "a/b@", "a/b@../c", "a/b@/c", "a b", ""
            )
        ),
    ],
)  # fmt: skip
def test_names_of_repositories(text: str, name: RepositoryName | None) -> None:
    assert parse_repository_name(text) == name


def test_revisions_and_the_oldest_names_are_found_in_the_cache(
    cache: Path, tiny_model_folder: Path
) -> None:
    snapshot = cache_folder(cache, "org/tiny", tiny_model_folder)
    old = cache_folder(cache, "gpt0", tiny_model_folder)
    other = snapshot.with_name("b" * 40)
    other.mkdir()
    (repository(cache, "org/tiny") / "refs" / "v1").write_text("b" * 40, encoding="ascii")
    for name, found in {
        "org/tiny": snapshot, "org/tiny@main": snapshot, "org/tiny@v1": other,
        f"org/tiny@{'b' * 40}": other, "gpt0": old,
    }.items():  # fmt: skip
        assert find_model_folder(Path(name)) == found
    assert "org/tiny" in repr(visualizer.open_model("org/tiny", revision=snapshot.name))
    assert "gpt0" in repr(visualizer.open_model("gpt0"))
    for name, named in {
        "org/tiny@v2": "attention-visualizer model org/tiny@v2 --download",
        f"org/tiny@{'c' * 40}": "download=True",
        "tiny": "Did you mean org/tiny?",
    }.items():
        with pytest.raises(InputError) as caught:
            find_model_folder(Path(name))
        assert named in caught.value.sentence
    with pytest.raises(InputError, match="revision has no effect"):
        visualizer.open_model(snapshot, revision="v1")
    with pytest.raises(InputError, match="Invalid revision"):
        visualizer.open_model("org/tiny", revision="../..")


def test_a_model_is_downloaded_only_on_request_and_once(
    server: HubServer, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r'open_model\("org/tiny", download=True\)'):
        visualizer.open_model("org/tiny")
    assert server.asked == []
    model = visualizer.open_model("org/tiny", download=True)
    assert model.opened.folder.path == cache / "models--org--tiny" / "snapshots" / COMMIT
    assert "Downloading: " in capsys.readouterr().err
    server.asked.clear()
    assert visualizer.open_model("org/tiny", download=True).attend(TEXT).tokens
    (model.opened.folder.path / "model.safetensors").resolve().unlink()
    assert server.asked == []
    visualizer.open_model("org/tiny", download=True)  # completes the files
    assert server.downloads == ["model.safetensors"]


def test_a_revision_is_downloaded(server: HubServer, cache: Path) -> None:
    server.revision = "refs/pr/1"
    model = visualizer.open_model("org/tiny", revision="refs/pr/1", download=True)
    assert model.opened.folder.name == "org/tiny"
    assert find_model_folder(Path("org/tiny@refs/pr/1")) == model.opened.folder.path
    server.refusal = (404, "RevisionNotFound")
    with pytest.raises(InputError, match="revision does not exist"):
        visualizer.open_model("org/tiny", revision="none", download=True)


def test_commands_take_names(
    server: HubServer, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_model_command(["org/tiny", "--text", TEXT]) == 1
    assert "attention-visualizer model org/tiny --download" in capsys.readouterr().err
    assert run_model_command(["org/tiny", "--text", TEXT, "--download"]) == 0
    assert capsys.readouterr().out.startswith("layer,head,")
    assert generate(["org/tiny", "--prompt", TEXT, "--tokens", "2"]) == 0
    assert capsys.readouterr().out.startswith(TEXT)
    assert generate(["org/other", "--prompt", TEXT, "--download"]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_text_is_generated_with_a_model_without_an_organization(
    server: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.repository = "tiny"
    assert generate(["tiny"]) == 1  # the name of neither a run nor a model
    assert "attention-visualizer model tiny --download" in capsys.readouterr().err
    assert generate(["tiny", "--prompt", TEXT, "--tokens", "2", "--download"]) == 0
    assert capsys.readouterr().out.startswith(TEXT)


def test_the_stored_token_is_used(server: HubServer, tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "token").write_text("stored\n", encoding="ascii")
    visualizer.open_model("org/tiny", download=True)
    assert {*server.tokens} == {"Bearer stored"}
    assert find_access_token({"HF_HOME": str(folder)}) == "stored"
    assert find_access_token({"HF_HOME": str(folder), "HF_TOKEN": " other "}) == "other"
    assert find_access_token({"HF_TOKEN_PATH": str(folder / "token")}) == "stored"
    hidden = {"HF_HOME": str(folder), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}
    assert find_access_token(hidden) == ""
    assert find_access_token({"HF_HOME": str(tmp_path)}) == ""


def test_the_token_is_where_huggingface_hub_stores_it(tmp_path: Path) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    place = Path(constants.HF_TOKEN_PATH)
    named = {"HF_TOKEN_PATH": str(place)} if "HF_TOKEN_PATH" in os.environ else {}
    home = {"HF_HOME": str(place.parent)} if "HF_HOME" in os.environ else {}
    expected = place.read_text(encoding="ascii").strip() if place.is_file() else ""
    assert find_access_token({**named, **home}) == expected
