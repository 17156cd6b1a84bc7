"""Compute devices: which are present, which to use, and how much memory is free."""

from __future__ import annotations

import psutil
import torch

from visualizer.attention.memory_limits import bytes_within_limits
from visualizer.attention.spec import Device, Dtype

NAMES = {Device.CPU: "the CPU", Device.CUDA: "a CUDA GPU", Device.MPS: "Apple's GPU (MPS)"}


def available() -> tuple[Device, ...]:
    """List the present devices, the fastest first."""
    found = []
    if torch.cuda.is_available():
        found.append(Device.CUDA)
    if torch.backends.mps.is_available():
        found.append(Device.MPS)
    return (*found, Device.CPU)


def resolve(wanted: Device, dtype: Dtype) -> tuple[Device, str | None]:
    """Choose the device to compute on.

    Returns
    -------
    Device
        The wanted one, the fastest for auto, or the CPU.
    str or None
        The reason if it is not the wanted one.
    """
    present = available()
    if wanted is Device.AUTO:
        fitting = [found for found in present if _holds(found, dtype)]
        return fitting[0], None
    if wanted not in present:
        name = NAMES[wanted][0].upper() + NAMES[wanted][1:]
        return Device.CPU, f"{name} is not present; computed on the CPU."
    if not _holds(wanted, dtype):
        return Device.CPU, "Apple's GPU has no float64; computed on the CPU."
    return wanted, None


def describe(device: Device) -> str:
    """Return a device's name for display; of a CUDA GPU with its model."""
    if device is Device.CUDA:
        return f"CUDA GPU ({torch.cuda.get_device_name()})"
    return {Device.CPU: "CPU", Device.MPS: "Apple GPU"}[device]


def free_bytes(device: Device) -> int:
    """Return the bytes that can be allocated without swapping out other programs.

    On the CPU no more than the limits of this process leave.
    """
    if device is Device.CUDA:
        return int(torch.cuda.mem_get_info()[0])
    return int(min(psutil.virtual_memory().available, bytes_within_limits()))


def _holds(device: Device, dtype: Dtype) -> bool:
    return not (device is Device.MPS and dtype is Dtype.FLOAT64)
