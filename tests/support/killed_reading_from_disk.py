"""Reads a text from the disk and ends at once before the third layer, as a killed program does.

Arguments: the model's folder, the text, and the number of threads.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest.mock import patch

import torch

from visualizer.attention.spec import Device
from visualizer.models import unfinished_reading
from visualizer.models.opened_model import open_model
from visualizer.progress import progress_told_to


def _end(done: int, of: int) -> None:
    if done == 2:
        os._exit(9)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[3]))
    model = open_model(Path(sys.argv[1]), Device.CPU, is_from_disk=True)
    # Whatever the folder of the tests lies on.
    with (
        patch.object(unfinished_reading, "is_in_memory", return_value=False),
        progress_told_to(_end),
    ):
        model.attend(sys.argv[2])
