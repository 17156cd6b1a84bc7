"""Compute devices: the available devices, the choice of a device, and the available memory."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import torch

from visualizer.attention.spec import Device, Dtype, ModelDtype
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import resource

CGROUP_ROOT = Path("/sys/fs/cgroup")
PROCESS_CGROUP = Path("/proc/self/cgroup")
UNLIMITED_BYTES = 2**50
"""A larger number in a version 1 control group means that the memory is not limited."""
_LAYOUTS = {
    "": ("", ("memory.max", "memory.current", "inactive_file")),
    "memory": (
        "memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ),
}
"""File layout of control groups, by controller name; the empty name stands for version 2. An entry
lists the root folder, the files with the limit and the usage, and the statistic of reclaimable
cache."""


def allocatable_bytes() -> float:
    """Return how many bytes can be allocated before a limit is reached, or ∞ without limits."""
    return max(
        0, min((*_bytes_within_process_limits(), *_bytes_within_cgroups()), default=float("inf"))
    )


def _bytes_within_process_limits() -> Iterator[int]:
    """Yield the remaining bytes of the address space and data segment, if these are limited."""
    if sys.platform == "linux":
        for limit, taken in ((resource.RLIMIT_AS, "vms"), (resource.RLIMIT_DATA, "data")):
            most, _ = resource.getrlimit(limit)
            if most != resource.RLIM_INFINITY:
                yield most - getattr(psutil.Process().memory_info(), taken)


def _bytes_within_cgroups() -> Iterator[int]:
    """Yield the remaining bytes of each control group of this process, not counting caches."""
    with suppress(OSError):
        for line in PROCESS_CGROUP.read_text(encoding="utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            root, names = _LAYOUTS.get(kinds, (None, ("", "", "")))
            if root is not None:
                group = CGROUP_ROOT / root / path.lstrip("/")
                for folder in (group, *group.parents):
                    yield from _bytes_within_cgroup(folder, names)
                    if folder == CGROUP_ROOT / root:
                        break


def _bytes_within_cgroup(folder: Path, names: tuple[str, str, str]) -> Iterator[int]:
    limit, used, cache = names
    with suppress(OSError, ValueError):  # the root has no files, and "max" means no limit
        most = int((folder / limit).read_text(encoding="ascii"))
        if most > UNLIMITED_BYTES:
            return
        taken = int((folder / used).read_text(encoding="ascii"))
        rows = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        stat = {name: int(size) for name, _, size in (row.partition(" ") for row in rows)}
        yield most - taken + stat.get(cache, 0)


DEVICE_NAMES = {Device.CPU: "the CPU", Device.CUDA: "a CUDA GPU", Device.MPS: "Apple's GPU (MPS)"}


def available_devices() -> tuple[Device, ...]:
    """List the available devices, fastest first."""
    found = []
    if torch.cuda.is_available():
        found.append(Device.CUDA)
    if torch.backends.mps.is_available():
        found.append(Device.MPS)
    return (*found, Device.CPU)


def resolve_device(wanted: Device, dtype: Dtype | ModelDtype) -> tuple[Device, str | None]:
    """Choose the device to compute on.

    Returns
    -------
    Device
        The requested device, the fastest one for `Device.AUTO`, or the CPU as a fallback.
    str or None
        Why the requested device is not used; None if it is used.
    """
    present = available_devices()
    if wanted is Device.AUTO:
        fitting = [found for found in present if _supports_dtype(found, dtype)]
        return fitting[0], None
    if wanted not in present:
        name = DEVICE_NAMES[wanted][0].upper() + DEVICE_NAMES[wanted][1:]
        return Device.CPU, f"{name} is not available; the CPU was used instead."
    if not _supports_dtype(wanted, dtype):
        return Device.CPU, "Apple's GPU does not support float64; the CPU was used instead."
    return wanted, None


def check_device_available(wanted: Device, dtype: Dtype | ModelDtype = Dtype.FLOAT32) -> None:
    """Raise `InputError` if a device is unavailable, instead of using the CPU.

    Raises
    ------
    InputError
        With the field ``device`` and a message that lists the available devices.
    """
    used, _ = resolve_device(wanted, dtype)
    if wanted not in {Device.AUTO, used}:
        name = DEVICE_NAMES[wanted][0].upper() + DEVICE_NAMES[wanted][1:]
        is_present = wanted in available_devices()
        problem = f"does not support {dtype}" if is_present else "is not available here"
        usable = ", ".join(
            device for device in available_devices() if _supports_dtype(device, dtype)
        )
        purpose = "" if dtype == ModelDtype.AUTO else f" for {dtype}"
        sentence = f"{name} {problem}. Available{purpose}: {usable}. Use one of these, or 'auto'."
        raise InputError("device", sentence)


def describe_device(device: Device) -> str:
    """Return the display name of a device, including the model of a CUDA GPU."""
    if device is Device.CUDA:
        return f"CUDA GPU ({torch.cuda.get_device_name()})"
    return {Device.CPU: "CPU", Device.MPS: "Apple GPU"}[device]


def describe_available_devices() -> str:
    """Return the display names of all available devices; asking for them may initialize CUDA."""
    gpus = [f"CUDA GPU ({torch.cuda.get_device_name(at)})" for at in range(_count_cuda_gpus())]
    others = (each for each in available_devices() if each is not Device.CUDA)
    return ", ".join((*gpus, *map(describe_device, others)))


def _count_cuda_gpus() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def free_device_bytes(device: Device) -> int:
    """Return how many bytes can be allocated without swapping out other programs.

    On the CPU, the memory limits of this process are taken into account.
    """
    if device is Device.CUDA:
        return int(torch.cuda.mem_get_info()[0])
    return int(min(psutil.virtual_memory().available, allocatable_bytes()))


def _supports_dtype(device: Device, dtype: Dtype | ModelDtype) -> bool:
    return not (device is Device.MPS and dtype == Dtype.FLOAT64)
