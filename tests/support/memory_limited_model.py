"""Runs a model on a text and writes the results; runs in a separate process.

The arguments are the model's folder, the text, the output file and, optionally, a group's file of
processes. With a group, the process enters it first, and the layers are read from disk; otherwise,
the model is in memory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from visualizer.process_settings import fix_mmap_threshold


def main(folder: str, text: str, file: str, group: str = "") -> None:
    if group:
        Path(group).write_text(str(os.getpid()), encoding="ascii")
    fix_mmap_threshold()
    import numpy as np

    from visualizer.attention.spec import Device
    from visualizer.models.opened_model import open_model

    model = open_model(Path(folder), Device.CPU, is_from_disk=bool(group))
    seen = model.read(text)
    calls = [call for each in seen.runs for call in each.group.calls]
    assert seen.next_token is not None
    numbers: dict[str, Any] = {call.module: call.read_weights().numpy() for call in calls}
    np.savez(file, next_token=seen.next_token.numpy(), **numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
