"""Files are whole or not there, and hold the very numbers."""

from __future__ import annotations

import errno
import io
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.state.making import a_run
from visualizer.attention.spec import Dtype, InputError
from visualizer.state import files
from visualizer.state.files import npz, write

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(*_: object, **__: object) -> None:
    raise FULL


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------ writing


def test_a_file_is_written_and_nothing_beside_it(tmp_path: Path) -> None:
    write(tmp_path / "a.npz", b"content")
    assert (tmp_path / "a.npz").read_bytes() == b"content"
    assert left(tmp_path) == ["a.npz"]


def test_a_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"a much longer content than the new one")
    write(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_a_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(tmp_path / "a.npz", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.npz").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_a_file_keeps_the_permissions_it_had(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.touch()
    path.chmod(0o604)
    write(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.parametrize("moment", ["open", "sync", "move"])
@pytest.mark.parametrize("existed", [True, False])
def test_when_the_disk_is_full_all_stays_as_it_was(
    moment: str, existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    if existed:
        path.write_bytes(b"old")
    where: dict[str, tuple[Any, str]] = {
        "open": (files, "NamedTemporaryFile"),
        "sync": (os, "fsync"),
        "move": (Path, "replace"),
    }
    monkeypatch.setattr(*where[moment], fail)
    with pytest.raises(InputError) as refused:
        write(path, b"new")
    assert refused.value.sentence == (
        f"“a.npz” could not be written to {tmp_path}: No space left on device."
    )
    assert refused.value.field == "export"
    assert left(tmp_path) == ["a.npz"] * existed
    assert not existed or path.read_bytes() == b"old"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        write(tmp_path / "missing" / "a.npz", b"")
    assert left(tmp_path) == []


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(InputError, match=r"a\.npz"):
        write(tmp_path / "a.npz", b"")
    assert left(tmp_path) == ["a.npz"]


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="permissions bind neither here nor the superuser"
)
def test_a_folder_that_is_read_only_is_said_to_be(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        write(tmp_path / "a.npz", b"")
    tmp_path.chmod(0o700)
    assert left(tmp_path) == []


# -------------------------------------------------------------------------------------- numbers


def read(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("dtype", Dtype)
def test_every_stage_is_in_the_numbers(dtype: Dtype) -> None:
    run = a_run(dtype=dtype, dropout=0.5)
    arrays = read(npz(run))
    assert set(arrays) == {*run.trace.names, "tokens"}
    for name in run.trace.names:
        np.testing.assert_array_equal(arrays[name], run.trace.read(name))
        assert arrays[name].dtype == dtype
    assert arrays["tokens"].tolist() == list(run.texts[0])


def test_a_batch_is_the_first_axis() -> None:
    run = a_run("猫 🙂", "e\u0301 سلام")
    arrays = read(npz(run))
    assert arrays["weights"].shape == (2, 2, 2, 2)
    assert arrays["tokens"].tolist() == [["猫", "🙂"], ["e\u0301", "سلام"]]


def test_nothing_is_pickled() -> None:
    content = npz(a_run())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        headers = [archive.read(name)[:128] for name in archive.namelist()]
    assert headers
    assert not [header for header in headers if b"'|O'" in header]
