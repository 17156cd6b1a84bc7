"""An untrusted run folder: viewing does not change it, and no operation leaves it."""

from __future__ import annotations

import os
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from tests.language.test_training_server import Client
from tests.support.examples import others_slow
from tests.support.planted_links import KINDS, LINKS, Tree, make_outside, plant, tree
from tests.support.small_trainings import begun, finish
from visualizer.app import main
from visualizer.errors import InputError
from visualizer.lab.runs.store import (
    delete_run,
    list_runs,
    read_losses,
    read_stored_probe,
    rename_run,
    store_probe,
)
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")

SNAPSHOT = "snapshots/00000003.safetensors"
NAMES = (
    "run.json", "losses.csv", "checkpoint.safetensors", "lock", "orders", "background.log", "stop",
    "probe.txt", "snapshots", SNAPSHOT,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that is at step 6 of 12."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    opened = begun(folder, steps=12)
    finish(opened, 6).save_checkpoint()
    opened.close()
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "runs" / "run")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return make_outside(tmp_path / "outside")


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client()
    yield made
    made.server.save_and_stop()


def looked_at(client: Client, folder: Path) -> None:
    client.send("open", folder=str(folder), settings=None)
    client.wait("opened")


def probe(client: Client, folder: Path) -> None:
    """Perform all operations that do not change a run."""
    looked_at(client, folder)
    for step in (None, 0, 3):
        client.send("read", id=1, text="abcabc", step=step)
        assert client.wait("read").arrays["weights"].shape == (2, 2, 6, 6)
    client.send("layer", id=2, text="abcabc", step=3, layer=0)
    client.wait("layer")
    client.send("save", id=3, path=str(folder.parent / "model.safetensors"), step=3)
    client.wait("said")
    client.send("pause")
    client.send("stop")


def left_over(folder: Path) -> None:
    """Create the files that a killed training leaves, and files of other programs."""
    part = ".attention-0123abcd.part"
    for name in ("stop", "orders", "lock", part, f"snapshots/{part}"):
        (folder / name).touch()
    shutil.copy(folder / SNAPSHOT, folder / "snapshots" / "00000009.safetensors")
    with (folder / "losses.csv").open("a") as file:
        file.write("6,1.5,,0.003,1.000\n7,1.")


@pytest.mark.slow
@pytest.mark.parametrize("leave", [lambda _: None, left_over], ids=["whole", "left over"])
def test_viewing_a_run_does_not_change_it(
    folder: Path, client: Client, leave: Callable[[Path], None]
) -> None:
    leave(folder)
    before = tree(folder)
    assert [run.name for run in list_runs(folder.parent)] == ["run"]
    assert len(read_losses(folder).steps) >= 6
    assert read_stored_probe(folder) == ""
    probe(client, folder)
    assert tree(folder) == before


@pytest.mark.slow
def test_a_run_without_snapshots_can_be_viewed_and_then_trained(
    folder: Path, client: Client
) -> None:
    shutil.rmtree(folder / "snapshots")
    before = tree(folder)
    looked_at(client, folder)
    assert tree(folder) == before
    client.send("run")
    assert client.until("done").values["snapshots"][-1] == 12


def test_leftovers_are_removed_when_training_starts(folder: Path, client: Client) -> None:
    left_over(folder)
    client.send("open", folder=str(folder), settings=None)
    opened = client.wait("opened")
    assert opened.values["snapshots"] == [0, 1, 2, 3, 4, 5, 6][: len(opened.values["snapshots"])]
    assert opened.arrays["steps"].tolist() == [0, 1, 2, 3, 4, 5]
    client.send("step")
    assert client.until("paused").values["step"] == 7
    assert not list(folder.rglob(".*.part"))
    assert not RunFolder(folder).snapshot_file(9).exists()
    assert not (folder / "orders").exists()
    assert [line.split(",")[0] for line in (folder / "losses.csv").read_text().splitlines()] == [
        "step", "0", "1", "2", "3", "4", "5", "6",
    ]  # fmt: skip


def test_a_run_that_was_changed_elsewhere_is_not_continued(folder: Path, client: Client) -> None:
    looked_at(client, folder)
    held = OpenedRun(RunFolder(folder))
    client.send("run")
    assert "is already open" in client.wait("refused").values["sentence"]
    finish(held, 8).save_checkpoint()
    held.close()
    before = {name: found for name, found in tree(folder).items() if name != "."}
    for says, values in (("run", {}), ("lengthen", {"steps": 20})):
        client.send(says, **values)
        refused = client.wait("refused").values
        assert refused["field"] == "held"
        assert "has changed since it was opened. Reopen it." in refused["sentence"]
    client.send("stop")
    assert {name: found for name, found in tree(folder).items() if name != "."} == before


# ------------------------------------------------------------------------- links


@pytest.mark.parametrize("kind", others_slow(KINDS))
@pytest.mark.parametrize("name", NAMES)
def test_planted_links_are_rejected_with_a_message(
    folder: Path, outside: Path, client: Client, capsys: pytest.CaptureFixture[str],
    name: str, kind: str,
) -> None:  # fmt: skip
    plant(folder / name, kind, outside)
    before = tree(outside), tree(folder)
    client.send("open", folder=str(folder), settings=None)
    refused = client.wait("refused").values
    assert refused["field"] == "folder"
    assert refused["sentence"].startswith(f"Cannot use “{name}” in {folder}: it is ")
    assert main(["train", "--resume", str(folder), "--steps", "20"]) == 1
    assert refused["sentence"] in capsys.readouterr().err
    _use(folder)
    assert (tree(outside), tree(folder)) == before
    _rename_and_delete(folder, has_run=name != "run.json")
    assert tree(outside) == before[0]


def _use(folder: Path) -> None:
    """Perform the operations for runs that are not open."""
    if RunFolder(folder).loss_log_file.is_file():
        assert len(read_losses(folder).steps) == 6
    else:
        with pytest.raises(InputError, match="Cannot read the losses of “run”: it is "):
            read_losses(folder)
    assert read_stored_probe(folder) == ""


def _rename_and_delete(folder: Path, has_run: bool) -> None:
    other = rename_run(folder, "other")
    if has_run:
        delete_run(other)
        assert not other.exists()
    else:
        with pytest.raises(InputError, match="does not contain a run"):
            delete_run(other)


@pytest.mark.parametrize("kind", LINKS)
def test_a_probe_is_not_kept_through_a_link(folder: Path, outside: Path, kind: str) -> None:
    plant(folder / "probe.txt", kind, outside)
    before = tree(outside), tree(folder)
    store_probe(folder, "abc")
    assert (tree(outside), tree(folder)) == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("name", NAMES)
def test_links_planted_during_training_are_not_followed(
    folder: Path, outside: Path, client: Client, name: str, kind: str
) -> None:
    looked_at(client, folder)
    client.send("step")
    client.until("paused")
    before = tree(outside)
    plant(folder / name, kind, outside)
    client.send("lengthen", steps=15)
    client.send("run")
    while client.server.is_training:
        client.server.train_one_step()
    client.send("read", id=1, text="abcabc", step=3)
    client.send("stop")
    assert tree(outside) == before
    assert (outside / "folder" / "00000003.safetensors").read_bytes() == b"precious"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_temporary_links_are_removed_but_not_their_targets(
    folder: Path, outside: Path, client: Client, kind: str
) -> None:
    for place in (folder, folder / "snapshots"):
        plant(place / ".attention-0123abcd.part", kind, outside)
    before = tree(outside)
    looked_at(client, folder)
    client.send("run")
    client.until("done")
    assert not list(folder.rglob(".*.part"))
    assert tree(outside) == before


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_a_new_run_does_not_start_in_a_folder_with_links(
    tmp_path: Path, outside: Path, capsys: pytest.CaptureFixture[str], name: str, kind: str
) -> None:
    folder = tmp_path / "run"
    (folder / "snapshots").mkdir(parents=True)
    plant(folder / name, kind, outside)
    before = tree(outside)
    arguments = ["train", "repeat", "--out", str(folder), "--steps=2", "--size=2000", "--quiet"]
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert "it is " in said or "already contains a run" in said
    assert tree(outside) == before


def test_a_file_with_other_hard_links_is_not_written_through_them(
    folder: Path, outside: Path, client: Client
) -> None:
    for name in ("losses.csv", "checkpoint.safetensors", SNAPSHOT, "run.json"):
        os.link(folder / name, outside / f"also {name.replace('/', ' ')}")
    before = {path.name: path.read_bytes() for path in outside.iterdir() if path.is_file()}
    looked_at(client, folder)
    client.send("lengthen", steps=15)
    client.send("run")
    client.until("done")
    after = {path.name: path.read_bytes() for path in outside.iterdir() if path.is_file()}
    assert after == before


def test_a_link_to_a_run_is_used_and_not_deleted(
    folder: Path, tmp_path: Path, client: Client
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(folder)
    before = tree(folder)
    assert [run.name for run in list_runs(home)] == ["link"]
    looked_at(client, home / "link")
    with pytest.raises(InputError, match="is a link to another folder"):
        delete_run(home / "link")
    assert rename_run(home / "link", "other").is_symlink()
    assert tree(folder) == before
    rename_run(home / "other", "link")
    client.send("run")
    assert client.until("done").values["step"] == 12


def test_a_dangling_link_occupies_its_name(folder: Path) -> None:
    (folder.parent / "other").symlink_to("nowhere")
    with pytest.raises(InputError, match="A run named “other” already exists"):
        rename_run(folder, "other")


def test_an_export_into_the_folder_is_not_written_through_a_link(
    folder: Path, outside: Path, client: Client
) -> None:
    plant(folder / "model.safetensors", "link to a file", outside)
    before = tree(outside)
    looked_at(client, folder)
    client.send("save", id=1, path=str(folder / "model.safetensors"), step=3)
    assert "it is a link" in client.wait("refused").values["sentence"]
    assert tree(outside) == before
    client.send("save", id=2, path=str(folder / "own.safetensors"), step=3)
    client.wait("said")
    assert (folder / "own.safetensors").is_file()


@pytest.mark.parametrize("name", ["run.json", "losses.csv", "checkpoint.safetensors", SNAPSHOT])
def test_files_that_are_too_large_are_rejected_and_not_read(
    folder: Path, client: Client, name: str
) -> None:
    os.truncate(folder / name, 2**40)  # the file is sparse
    client.send("open", folder=str(folder), settings=None)
    if name == SNAPSHOT:
        client.wait("opened")
        client.send("read", id=1, text="abc", step=3)
    sentence = client.wait("refused").values["sentence"]
    assert name.rpartition("/")[2] in sentence
    assert "it is larger than" in sentence
    if name == "losses.csv":
        with pytest.raises(InputError, match="it is larger than"):
            read_losses(folder)


def test_a_socket_in_place_of_a_file_is_rejected(
    folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "losses.csv").unlink()
    monkeypatch.chdir(folder)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("losses.csv")
        client.send("open", folder=str(folder), settings=None)
        assert "it is not a file" in client.wait("refused").values["sentence"]


def test_writing_through_a_planted_link_would_be_detected(outside: Path) -> None:
    before: Tree = tree(outside)
    (outside / "folder" / "new").touch()
    assert tree(outside) != before
