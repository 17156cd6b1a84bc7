"""The free memory respects the limits of the process and of its control groups."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from visualizer.attention import device
from visualizer.attention.device import allocatable_bytes, free_device_bytes
from visualizer.attention.spec import Device

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
MIB = 2**20


def test_own_limits_leave_what_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(device, "PROCESS_CGROUP", Path("/proc/self/none"))
    assert allocatable_bytes() == float("inf")
    taken = psutil.Process().memory_info()
    for limit, used in ((resource.RLIMIT_AS, taken.vms), (resource.RLIMIT_DATA, taken.data)):
        before = resource.getrlimit(limit)
        resource.setrlimit(limit, (used + 600 * MIB, before[1]))
        try:
            left, free = allocatable_bytes(), free_device_bytes(Device.CPU)
        finally:
            resource.setrlimit(limit, before)
        assert 500 * MIB < left < 700 * MIB
        assert free <= left + 10 * MIB


@pytest.mark.parametrize(
    ("line", "root", "names"),
    [
        ("0::/outer/inner", "", ("max", "current", "inactive_file")),
        (
            "4:memory:/outer/inner",
            "memory",
            ("limit_in_bytes", "usage_in_bytes", "total_inactive_file"),
        ),
    ],
)
def test_groups_leave_what_the_tightest_of_them_has(
    line: str,
    root: str,
    names: tuple[str, str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device, "CGROUP_ROOT", tmp_path / "groups")
    monkeypatch.setattr(device, "PROCESS_CGROUP", tmp_path / "own")
    (tmp_path / "own").write_text(f"3:cpu,cpuacct:/x\n{line}\n", encoding="utf-8")
    limit, taken, cache = names
    inner = tmp_path / "groups" / root / "outer" / "inner"
    inner.mkdir(parents=True)

    def set_group(folder: Path, most: object, used: int) -> None:
        (folder / f"memory.{limit}").write_text(f"{most}\n", encoding="ascii")
        (folder / f"memory.{taken}").write_text(f"{used}\n", encoding="ascii")
        stat = f"anon {used}\n{cache} {5 * MIB}\n"
        (folder / "memory.stat").write_text(stat, encoding="ascii")

    set_group(inner.parent, 100 * MIB, 30 * MIB)
    set_group(inner, "max", 30 * MIB)
    assert allocatable_bytes() == 75 * MIB
    set_group(inner, 30 * MIB, 30 * MIB)
    assert allocatable_bytes() == 5 * MIB
    set_group(inner, 10 * MIB, 30 * MIB)
    assert allocatable_bytes() == 0
    (tmp_path / "own").unlink()
    assert allocatable_bytes() == float("inf")
