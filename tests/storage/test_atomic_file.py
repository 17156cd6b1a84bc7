"""Files are written with exactly the given content, or not at all."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
import sys
import tracemalloc
import zipfile
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pytest

from tests.support.small_runs import a_run
from visualizer.attention.spec import Dtype
from visualizer.errors import InputError
from visualizer.export.data.data_writers import write_npz
from visualizer.storage.atomic_file import write_atomically
from visualizer.storage.symlink_safe_folder import SymlinkSafeFolder, make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.attention.run import Run

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(*_: object, **__: object) -> None:
    raise FULL


def content(data: bytes) -> Any:
    """Return a function that writes the given bytes to a file."""

    def fill(file: BinaryIO) -> None:
        file.write(data)

    return fill


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------ writing


def test_a_file_is_written_and_nothing_beside_it(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.npz", content(b"content"))
    assert (tmp_path / "a.npz").read_bytes() == b"content"
    assert left(tmp_path) == ["a.npz"]


def test_a_file_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"a much longer content than the new one")
    write_atomically(path, content(b"new"))
    assert path.read_bytes() == b"new"


def test_what_is_written_beside_has_a_short_name(tmp_path: Path) -> None:
    seen: list[str] = []
    write_atomically(tmp_path / "a.npz", lambda _: seen.extend(left(tmp_path)))
    (name,) = seen
    assert re.fullmatch(r"\.attention-[0-9a-f]{8}\.part", name)


@pytest.mark.parametrize("name", ["a" * 251 + ".png", "é" * 125 + ".png"])
def test_the_longest_names_can_be_written(name: str, tmp_path: Path) -> None:
    write_atomically(tmp_path / name, content(b"content"))
    assert left(tmp_path) == [name]


@pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")
@pytest.mark.parametrize("existed", [True, False])
def test_a_link_stays_and_what_it_leads_to_is_written(existed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    real, link = folder / "real.npz", tmp_path / "link.npz"
    if existed:
        real.write_bytes(b"old")
    link.symlink_to(real)
    write_atomically(link, content(b"new"))
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    assert (left(tmp_path), left(folder)) == (["folder", "link.npz"], ["real.npz"])


@pytest.mark.skipif(os.name == "nt", reason="links take a right on Windows")
def test_the_folder_that_a_link_leads_to_is_named(tmp_path: Path) -> None:
    link = tmp_path / "link.npz"
    link.symlink_to(tmp_path / "missing" / "real.npz")
    with pytest.raises(InputError) as refused:
        write_atomically(link, content(b""))
    assert refused.value.sentence == (
        f"Cannot write “link.npz” to {tmp_path / 'missing'}: No such file or directory."
    )


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_a_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a.npz", content(b""))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.npz").stat().st_mode) == 0o640


def test_the_umask_of_other_threads_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "umask", fail)
    write_atomically(tmp_path / "a.npz", content(b"content"))
    assert left(tmp_path) == ["a.npz"]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_a_file_keeps_the_permissions_it_had(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.touch()
    path.chmod(0o604)
    write_atomically(path, content(b"new"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


@pytest.mark.parametrize("moment", ["open", "fill", "sync", "move"])
@pytest.mark.parametrize("existed", [True, False])
def test_when_the_disk_is_full_all_stays_as_it_was(
    moment: str, existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    if existed:
        path.write_bytes(b"old")
    where: dict[str, tuple[Any, str]] = {
        "open": (os, "open"),
        "sync": (os, "fsync"),
        "move": (os, "replace"),
    }
    with monkeypatch.context() as patch:
        if moment in where:
            patch.setattr(*where[moment], fail)
        with pytest.raises(InputError) as refused:
            write_atomically(path, fail if moment == "fill" else content(b"new"))
    assert refused.value.sentence == (
        f"Cannot write “a.npz” to {tmp_path}: No space left on device."
    )
    assert refused.value.field == "export"
    assert left(tmp_path) == ["a.npz"] * existed
    assert not existed or path.read_bytes() == b"old"


@pytest.mark.skipif(os.name == "nt", reason="no such limit on Windows")
@pytest.mark.parametrize("limit", [0, 100, 4_000, 50_000])
def test_numbers_that_do_not_fit_on_the_disk_are_said(limit: int, tmp_path: Path) -> None:
    import resource

    run = a_run(" ".join(["word"] * 100))
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(InputError, match="File too large"):
            write_atomically(path, partial(write_npz, run))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["a.npz"]


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_when_memory_runs_out_it_is_said_and_all_stays_as_it_was(
    error: Exception, tmp_path: Path
) -> None:
    def fill(file: BinaryIO) -> None:
        file.write(b"half")
        raise error

    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    with pytest.raises(InputError, match="There is not enough memory to write") as refused:
        write_atomically(path, fill)
    assert refused.value.field == "memory"
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["a.npz"]


def test_a_bug_is_no_refusal_and_leaves_nothing(tmp_path: Path) -> None:
    def fill(_: BinaryIO) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "a.npz", fill)
    assert left(tmp_path) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file or directory"):
        write_atomically(tmp_path / "missing" / "a.npz", content(b""))
    assert left(tmp_path) == []


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.npz").mkdir()
    with pytest.raises(InputError, match=r"a\.npz"):
        write_atomically(tmp_path / "a.npz", content(b""))
    assert left(tmp_path) == ["a.npz"]


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="permissions bind neither here nor the superuser"
)
def test_a_folder_that_is_read_only_is_said_to_be(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="Permission denied"):
        write_atomically(tmp_path / "a.npz", content(b""))
    tmp_path.chmod(0o700)
    assert left(tmp_path) == []


def test_what_is_written_is_checked_just_before_it_replaces_a_file(tmp_path: Path) -> None:
    path, done = tmp_path / "a.npz", list[str]()
    path.write_bytes(b"old")

    def fill(file: BinaryIO) -> None:
        file.write(b"new")
        done.append("filled")

    def check() -> None:
        done.append("checked")
        raise LookupError

    with pytest.raises(LookupError):
        write_atomically(path, fill, check=check)
    assert done == ["filled", "checked"]
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["a.npz"]


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="permissions bind neither here nor the superuser"
)
def test_a_file_that_is_read_only_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(InputError, match="it is write-protected"):
        write_atomically(path, content(b"new"))
    assert path.read_bytes() == b"old"
    assert left(tmp_path) == ["a.npz"]


# -------------------------------------------------------------------------------------- numbers


def written(run: Run) -> bytes:
    file = io.BytesIO()
    write_npz(run, file)
    return file.getvalue()


def read(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("dtype", Dtype)
def test_every_stage_is_in_the_numbers(dtype: Dtype) -> None:
    run = a_run(dtype=dtype, dropout=0.5)
    arrays = read(written(run))
    weights = {f"parameters/{name}" for name in run.trace.parameters}
    assert set(arrays) == {*run.trace.names, *weights, "tokens", "spec"}
    for name in run.trace.names:
        np.testing.assert_array_equal(arrays[name], run.trace.read(name))
        assert arrays[name].dtype == dtype
    assert arrays["tokens"].tolist() == list(run.texts[0])


def test_the_weights_and_the_spec_are_in_the_numbers() -> None:
    run = a_run(bias=True)
    arrays = read(written(run))
    for name in run.trace.parameters:
        np.testing.assert_array_equal(arrays[f"parameters/{name}"], run.trace.read(name))
    assert "parameters/W_query.bias" in arrays
    assert json.loads(str(arrays["spec"]))["d_in"] == run.trace.spec.d_in


def test_a_batch_is_the_first_axis() -> None:
    run = a_run("猫 🙂", "e\u0301 سلام")
    arrays = read(written(run))
    assert arrays["weights"].shape == (2, 2, 2, 2)
    assert arrays["tokens"].tolist() == [["猫", "🙂"], ["e\u0301", "سلام"]]


def test_nothing_is_pickled() -> None:
    with zipfile.ZipFile(io.BytesIO(written(a_run()))) as archive:
        headers = [archive.read(name)[:128] for name in archive.namelist()]
    assert headers
    assert not [header for header in headers if b"'|O'" in header]


def test_a_nul_is_seen_where_numpy_would_lose_it() -> None:
    run = a_run("a\0 \0\0")
    assert run.texts == (("a", "\0", "\0", "\0"),)
    assert read(written(run))["tokens"].tolist() == ["a", "␀", "␀", "␀"]


def test_the_numbers_are_not_held_a_second_time(tmp_path: Path) -> None:
    run = a_run(" ".join(["word"] * 1_500), heads=1, d_out=1)
    tracemalloc.start()
    write_atomically(tmp_path / "a.npz", partial(write_npz, run))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "a.npz").stat().st_size > 30_000_000
    assert peak < 20_000_000 + 4 * 1_500 * 1_500


# ----------------------------------------------------------------- leftovers of killed programs


LEFT = ".attention-0123abcd.part"


def test_what_a_kill_left_is_removed_when_something_is_written_beside_it(tmp_path: Path) -> None:
    (tmp_path / LEFT).write_bytes(b"half")
    write_atomically(tmp_path / "a", content(b"new"))
    assert left(tmp_path) == ["a"]


@pytest.mark.parametrize("name", [".0123abcd.part", "a.part", ".attention-0123abcd.part2"])
def test_what_others_have_written_stays(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"precious")
    write_atomically(tmp_path / "a", content(b"new"))
    assert (tmp_path / name).read_bytes() == b"precious"


def test_what_is_being_written_is_not_taken_for_left(tmp_path: Path) -> None:
    def fill(file: BinaryIO) -> None:
        write_atomically(tmp_path / "b", content(b"other"))
        file.write(b"new")

    write_atomically(tmp_path / "a", fill)
    assert left(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"new"


@pytest.mark.skipif(sys.platform == "win32", reason="what is open cannot be removed there")
def test_what_is_removed_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    lock = fcntl.flock
    taken: list[Path] = []

    def lock_late(descriptor: int, how: int) -> None:
        if not taken:  # another program removes the file first
            taken.extend(tmp_path.glob(".attention-*.part"))
            taken[0].unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    write_atomically(tmp_path / "a", content(b"new"))
    assert taken
    assert (tmp_path / "a").read_bytes() == b"new"
    assert left(tmp_path) == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="what is open cannot be removed there")
def test_where_there_are_no_locks_it_is_written_and_nothing_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / LEFT).write_bytes(b"half")
    write_atomically(tmp_path / "a", content(b"new"))
    assert left(tmp_path) == [LEFT, "a"]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_what_is_in_a_private_folder_is_private(tmp_path: Path) -> None:
    folder = SymlinkSafeFolder(tmp_path / "home", "inner", is_private=True)
    folder.create_folder()
    write_atomically(folder.file("a"), content(b""))
    folder.file("b").touch()
    (tmp_path / "home" / "inner" / "c").touch(0o644)
    write_atomically(folder.file("c"), content(b""))
    found = [tmp_path / "home", *sorted((tmp_path / "home").rglob("*"))]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in found]
    assert modes == [0o700, 0o700, 0o600, 0o600, 0o600]


@pytest.mark.skipif(os.name == "nt", reason="no such permissions on Windows")
def test_a_folder_is_made_private(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(0o755)
    for path in (tmp_path / "open", tmp_path / "new" / "inner"):
        make_private_folder(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
