"""Tests that downloads from the Hub are complete, can be resumed and are verified."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.hub_server import COMMIT, HubServer, files_of, serving
from visualizer.errors import InputError
from visualizer.models import hub_download
from visualizer.models.cached_models import list_cached_models
from visualizer.models.hub_download import download_model, plan_download
from visualizer.progress import CancelledError, ignore_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "org/tiny"
WEIGHTS = "model.safetensors"


@pytest.fixture
def server(tiny_model_folder: Path) -> HubServer:
    return HubServer(NAME, files_of(tiny_model_folder))


@pytest.fixture
def environment(server: HubServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(server) as address:
        yield {"HF_ENDPOINT": address}


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "hub"


def fetched(cache: Path, environment: dict[str, str]) -> Path:
    return download_model(plan_download(NAME, cache, environment), ignore_progress, environment)


def refusal(do: Any, *given: Any) -> str:
    with pytest.raises(InputError) as caught:
        do(*given)
    return caught.value.sentence


def contents(folder: Path) -> set[str]:
    """Return the paths of all files in a folder and its subfolders."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_model_is_downloaded_into_the_cache(
    server: HubServer, cache: Path, environment: dict[str, str], tiny_model_folder: Path
) -> None:
    server.files |= {"pytorch_model.bin": b"x", "code.py": b"x", "README.md": b"x"}
    offer = plan_download(f"  {NAME} ", cache, environment)
    wanted = files_of(tiny_model_folder)
    assert {file.name: file.size for file in offer.files} == {
        name: len(content) for name, content in wanted.items()
    }
    assert offer.bytes == offer.missing == sum(map(len, wanted.values()))
    assert not cache.exists()
    told: list[tuple[int, int]] = []
    path = download_model(offer, lambda *progress: told.append(progress), environment)
    assert path == cache / "models--org--tiny" / "snapshots" / COMMIT
    assert files_of(path) == wanted
    assert sorted(server.downloads) == sorted(wanted)
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert told[-1] == (offer.bytes, offer.bytes)
    (listed,) = list_cached_models(cache)
    assert (listed.name, listed.path, listed.unavailable_reason) == (NAME, path, "")
    if os.name != "nt":
        blob = hashlib.sha256(wanted[WEIGHTS]).hexdigest()
        assert (path / WEIGHTS).readlink() == Path(f"../../blobs/{blob}")
    server.asked.clear()
    assert plan_download(NAME, cache, environment).missing == 0
    assert fetched(cache, environment) == path
    assert server.downloads == []


def test_the_downloaded_folder_is_found_by_huggingface_hub(
    cache: Path, environment: dict[str, str]
) -> None:
    library = pytest.importorskip("huggingface_hub")
    path = fetched(cache, environment)
    found = library.try_to_load_from_cache(NAME, WEIGHTS, cache_dir=cache)
    assert Path(found) == path / WEIGHTS
    (repository,) = library.scan_cache_dir(cache).repos
    assert repository.repo_id == NAME


def test_a_cancelled_download_is_resumed(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    offer = plan_download(NAME, cache, environment)

    small = sum(file.size for file in offer.files if file.name != WEIGHTS)

    def stop(done: int, of: int) -> None:
        if done > small:
            raise CancelledError

    server.continued_note.clear()
    with pytest.raises(CancelledError):
        download_model(offer, stop, environment)
    server.continued_note.set()
    assert list_cached_models(cache) == ()
    left = plan_download(NAME, cache, environment).missing
    assert 0 < left < offer.missing
    server.asked.clear()
    path = fetched(cache, environment)
    assert files_of(path) == server.files
    ((name, asked),) = server.asked[1:]
    assert name.endswith(WEIGHTS)
    assert asked == f"bytes={len(server.files[WEIGHTS]) - left}-"


@pytest.mark.parametrize("has_ranges", [True, False])
def test_an_interrupted_download_is_resumed_or_restarted(
    server: HubServer, cache: Path, environment: dict[str, str], has_ranges: bool
) -> None:
    server.stops_after = 5_000
    assert "connection was lost" in refusal(fetched, cache, environment)
    server.stops_after, server.has_ranges = None, has_ranges
    assert files_of(fetched(cache, environment)) == server.files


def test_a_modified_partial_download_is_discarded(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    server.stops_after = 5_000
    refusal(fetched, cache, environment)
    (begun,) = (cache / "models--org--tiny" / "blobs").glob("*.incomplete")
    begun.write_bytes(b"\0" * 5_000)
    server.stops_after = None
    assert "hash mismatch" in refusal(fetched, cache, environment)
    assert files_of(fetched(cache, environment)) == server.files
    begun.write_bytes(bytes(len(server.files[WEIGHTS]) + 1))
    (begun.with_suffix("")).unlink()
    assert files_of(fetched(cache, environment)) == server.files


NAMES = (
    "../../../evil.safetensors", "/etc/model.safetensors", "..\\model.safetensors",
    "sub/model.safetensors", "model.safetensors/../../x", "\0", "model-1-of-1.safetensors",
)  # fmt: skip


def test_files_with_unknown_names_are_not_requested(
    server: HubServer, cache: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    wanted = dict(server.files)
    server.files = {**dict.fromkeys(NAMES, b"x" * 20_000), **server.files}
    path = fetched(cache, environment)
    assert files_of(path) == wanted
    assert sorted(server.downloads) == sorted(wanted)
    outside = {each for each in contents(tmp_path) if not each.startswith("hub")}
    assert outside == set()


@pytest.mark.parametrize(
    "listed",
    [
        {"size": -1}, {"size": 2**60}, {"size": "12"}, {"size": True}, {"size": None},
        {"blobId": "../../../evil"}, {"blobId": "A" * 40}, {"blobId": ["a"]}, {"blobId": ""},
        {"lfs": {"size": 12, "sha256": "../../x" + "0" * 57}}, {"lfs": {}},
    ],
)  # fmt: skip
def test_an_invalid_file_list_is_rejected(
    server: HubServer, cache: Path, environment: dict[str, str], listed: dict[str, Any]
) -> None:
    server.listed["config.json"] = listed
    assert "invalid file list" in refusal(plan_download, NAME, cache, environment)


@pytest.mark.parametrize(
    "answer",
    [
        [], 3, {}, {"siblings": 3}, {"sha": "../..", "siblings": [{"rfilename": "config.json"}]},
        {"sha": COMMIT, "siblings": [3, {"rfilename": [1]}, {}]},
    ],
)  # fmt: skip
def test_an_unexpected_response_is_rejected(
    server: HubServer, cache: Path, environment: dict[str, str], answer: Any
) -> None:
    server.answer = answer
    assert refusal(plan_download, NAME, cache, environment)
    assert not cache.exists()


def test_a_commit_that_is_a_path_is_rejected(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    server.answer = {**server.listing(), "sha": "../../../../evil"}
    assert "invalid file list" in refusal(plan_download, NAME, cache, environment)


def test_an_endless_file_list_is_rejected(
    server: HubServer, cache: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_download, "MAX_LIST_BYTES", 100)
    assert "invalid file list" in refusal(plan_download, NAME, cache, environment)


def test_an_endless_file_is_rejected(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    server.is_endless = True
    assert "larger than expected" in refusal(fetched, cache, environment)
    size = len(server.files[WEIGHTS])
    assert all(file.stat().st_size <= size for file in cache.rglob("*") if file.is_file())
    assert list_cached_models(cache) == ()


def test_a_file_with_other_content_is_rejected(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    for name in ("config.json", WEIGHTS):
        content = server.files[name]
        server.served = {name: content[:-1] + bytes([content[-1] ^ 1])}
        assert "hash mismatch" in refusal(fetched, cache, environment)
        assert list_cached_models(cache) == ()
    server.served = {WEIGHTS: server.files[WEIGHTS][:-10]}
    assert "connection was lost" in refusal(fetched, cache, environment)
    server.served = {}
    assert files_of(fetched(cache, environment)) == server.files


def test_custom_code_is_rejected_before_the_weights_are_downloaded(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    server.files["config.json"] = b'{"auto_map": {"AutoModel": "code.Model"}}'
    assert "custom code" in refusal(fetched, cache, environment)
    assert WEIGHTS not in server.downloads


def test_an_image_processor_is_downloaded_unless_it_requires_code(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    server.files["preprocessor_config.json"] = b'{"auto_map": {"AutoImageProcessor": "code.It"}}'
    assert "custom code" in refusal(fetched, cache, environment)
    assert WEIGHTS not in server.downloads
    server.files["preprocessor_config.json"] = b'{"image_processor_type": "ViTImageProcessor"}'
    assert files_of(fetched(cache, environment)) == server.files


def test_weights_in_other_formats_are_not_downloaded(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    server.files["pytorch_model.bin"] = server.files.pop(WEIGHTS)
    assert "has no .safetensors weights" in refusal(plan_download, NAME, cache, environment)


def test_sharded_weights_are_downloaded_with_their_index(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    parts = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    content = server.files.pop(WEIGHTS)
    server.files |= dict(zip(parts, (content, content[::-1]), strict=True))
    assert "no .safetensors weights" in refusal(plan_download, NAME, cache, environment)
    server.files["model.safetensors.index.json"] = b"{}"
    assert files_of(fetched(cache, environment)) == server.files


@pytest.mark.parametrize(
    "name", ["", "a/b/c", "../../etc", "a/..", "a--b/c", "a/b?x", "a/b#", "a b/c", "ä/b"]
)
def test_an_invalid_repository_name_is_not_requested(
    server: HubServer, cache: Path, environment: dict[str, str], name: str
) -> None:
    assert "organization/name" in refusal(plan_download, name, cache, environment)
    assert server.asked == []


def test_each_obstacle_to_a_download_is_reported(
    server: HubServer, cache: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Repository “org/other” does not exist" in refusal(
        plan_download, "org/other", cache, environment
    )
    for refused, expected in (
        ((401, "GatedRepo"), "is gated"),
        ((401, "RepoNotFound"), "does not exist"),
        ((503, ""), "error 503"),
    ):
        server.refusal = refused
        assert expected in refusal(plan_download, NAME, cache, environment)
    server.refusal, server.refused_files = None, (403, "GatedRepo")
    assert "is gated" in refusal(fetched, cache, environment)
    server.refused_files = None
    assert "HF_HUB_OFFLINE" in refusal(
        plan_download, NAME, cache, {**environment, "HF_HUB_OFFLINE": "1"}
    )
    assert "HF_ENDPOINT is invalid" in refusal(
        plan_download, NAME, cache, {"HF_ENDPOINT": "file:///etc"}
    )
    monkeypatch.setattr(hub_download, "RESERVED_BYTES", 2**62)
    assert "Free some space" in refusal(plan_download, NAME, cache, environment)


def test_a_missing_network_is_reported(
    cache: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    gone = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    assert refusal(plan_download, NAME, cache, gone).startswith("Cannot reach 127.0.0.1: ")


def test_a_full_disk_is_reported(
    cache: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = plan_download(NAME, cache, environment)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "symlink_to", full)
    monkeypatch.setattr(shutil, "copyfile", full)
    assert "The disk is full" in refusal(download_model, offer, ignore_progress, environment)


def test_an_unreadable_cache_folder_is_reported(
    cache: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", broken)
    said = refusal(plan_download, NAME, cache, environment)
    assert said == f"Cannot read the cache folder {cache}: Input/output error."


def test_waiting_for_a_silent_hub_can_be_cancelled(
    server: HubServer, cache: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_download, "TIMEOUT_S", 60.0)
    offer = plan_download(NAME, cache, environment)

    def stop_once_asked(done: int, of: int) -> None:
        if len(server.asked) == asked:
            raise CancelledError

    began = time.monotonic()
    server.answers.clear()
    asked = len(server.asked) + 1
    with pytest.raises(CancelledError):
        plan_download(NAME, cache, environment, stop_once_asked)
    asked += 1
    with pytest.raises(CancelledError):
        download_model(offer, stop_once_asked, environment)
    server.answers.set()
    server.continued_note.clear()  # also cancel in the middle of a file
    asked = len(server.asked) + len(offer.files)
    with pytest.raises(CancelledError):
        download_model(offer, stop_once_asked, environment)
    assert time.monotonic() - began < 10


def test_a_repository_is_downloaded_only_once_at_a_time(
    cache: Path, environment: dict[str, str]
) -> None:
    offer = plan_download(NAME, cache, environment)
    said: list[str] = []

    def again(done: int, of: int) -> None:
        if not said:
            said.append(refusal(download_model, offer, ignore_progress, environment))

    download_model(offer, again, environment)
    assert said == ["org/tiny is already being downloaded."]


@pytest.mark.skipif(os.name == "nt", reason="links may not be allowed")
def test_a_link_in_place_of_a_partial_download_is_not_followed(
    server: HubServer, cache: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    offer = plan_download(NAME, cache, environment)
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    blobs = offer.folder / "blobs"
    blobs.mkdir(parents=True)
    for file in offer.files:
        (blobs / f"{file.blob}.incomplete").symlink_to(other)
    assert "Cannot write to the cache" in refusal(
        download_model, offer, ignore_progress, environment
    )
    assert other.read_bytes() == b"mine"


def test_the_token_is_sent_only_to_the_hub(
    server: HubServer, cache: Path, environment: dict[str, str]
) -> None:
    plan_download(NAME, cache, {**environment, "HF_TOKEN": "secret"})
    assert server.tokens == ["Bearer secret"]
    with serving(HubServer(NAME, server.files)) as elsewhere:
        server.leads_to = elsewhere
        other = plan_download(NAME, cache, {**environment, "HF_TOKEN": "secret"})
    assert other.files
    assert server.tokens == ["Bearer secret"] * 2


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_redirects_to_other_protocols_are_rejected(
    server: HubServer, cache: Path, environment: dict[str, str], address: str
) -> None:
    server.leads_to = address
    assert "unsafe address" in refusal(plan_download, NAME, cache, environment)
