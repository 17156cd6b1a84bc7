"""Compute devices: which are present, which to use, and how much memory is free."""

from __future__ import annotations

import psutil
import torch

from visualizer.attention.memory_limits import bytes_within_limits
from visualizer.attention.spec import Device, Dtype
from visualizer.errors import InputError

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


def check_available(wanted: Device, dtype: Dtype = Dtype.FLOAT32) -> None:
    """Reject a device that was asked for and cannot be used; `resolve` falls back to the CPU.

    Raises
    ------
    InputError
        Of ``device``, with the devices that can be used.
    """
    used, _ = resolve(wanted, dtype)
    if wanted not in {Device.AUTO, used}:
        name = NAMES[wanted][0].upper() + NAMES[wanted][1:]
        is_present = wanted in available()
        problem = f"does not compute in {dtype}" if is_present else "is not available here"
        usable = ", ".join(device for device in available() if _holds(device, dtype))
        sentence = f"{name} {problem}. Available for {dtype}: {usable}. Use one of these, or auto."
        raise InputError("device", sentence)


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
