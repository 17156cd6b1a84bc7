"""Compute devices: availability, selection and free memory."""

from __future__ import annotations

import psutil
import torch

from visualizer.attention.memory_limits import bytes_within_limits
from visualizer.attention.spec import Device, Dtype
from visualizer.errors import InputError

NAMES = {Device.CPU: "the CPU", Device.CUDA: "a CUDA GPU", Device.MPS: "Apple's GPU (MPS)"}


def available() -> tuple[Device, ...]:
    """List the available devices, fastest first."""
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
        The requested device, the fastest one for auto, or the CPU as a fallback.
    str or None
        Why the requested device is not used; None if it is.
    """
    present = available()
    if wanted is Device.AUTO:
        fitting = [found for found in present if _supports_dtype(found, dtype)]
        return fitting[0], None
    if wanted not in present:
        name = NAMES[wanted][0].upper() + NAMES[wanted][1:]
        return Device.CPU, f"{name} is not available; computed on the CPU."
    if not _supports_dtype(wanted, dtype):
        return Device.CPU, "Apple's GPU does not support float64; computed on the CPU."
    return wanted, None


def check_available(wanted: Device, dtype: Dtype = Dtype.FLOAT32) -> None:
    """Reject a requested device that is not available, where `resolve` falls back to the CPU.

    Raises
    ------
    InputError
        With the field ``device``; the message lists the available devices.
    """
    used, _ = resolve(wanted, dtype)
    if wanted not in {Device.AUTO, used}:
        name = NAMES[wanted][0].upper() + NAMES[wanted][1:]
        is_present = wanted in available()
        problem = f"does not support {dtype}" if is_present else "is not available here"
        usable = ", ".join(device for device in available() if _supports_dtype(device, dtype))
        sentence = f"{name} {problem}. Available for {dtype}: {usable}. Use one of these, or auto."
        raise InputError("device", sentence)


def describe(device: Device) -> str:
    """Return the display name of a device, including the model of a CUDA GPU."""
    if device is Device.CUDA:
        return f"CUDA GPU ({torch.cuda.get_device_name()})"
    return {Device.CPU: "CPU", Device.MPS: "Apple GPU"}[device]


def free_bytes(device: Device) -> int:
    """Return the bytes that can be allocated without swapping out other programs.

    On the CPU, the memory limits of this process are taken into account.
    """
    if device is Device.CUDA:
        return int(torch.cuda.mem_get_info()[0])
    return int(min(psutil.virtual_memory().available, bytes_within_limits()))


def _supports_dtype(device: Device, dtype: Dtype) -> bool:
    return not (device is Device.MPS and dtype is Dtype.FLOAT64)
