"""Creates the files of the start page: ``python -m tests.support.start_page_files``.

It trains the example and writes the numbers of the images. The program reads these numbers without
torch, and ``tests/features/start_page/test_shipped_numbers.py`` compares them with the numbers that
torch computes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from visualizer.attention.run import run
from visualizer.language.checkpoints import write_weights
from visualizer.language.example_run import (
    EXAMPLE_FOLDER,
    EXAMPLE_TEXT,
    HEAD,
    LAYER,
    SNAPSHOT_STEPS,
    load_example_model,
)
from visualizer.language.opened_run import OpenedRun
from visualizer.language.probe import ProbeText, run_probe
from visualizer.language.run_folder import RunFolder
from visualizer.language.training_settings import TrainingSettings
from visualizer.resources import resource_path
from visualizer.session.document import default_document

PICTURES = resource_path("start_page", "pictures.json")
DECIMALS = 4
SECTION = "3.3.1 simplified, one query"


def train() -> None:
    """Train a run with the lab's default settings, and keep the weights that are shown."""
    shutil.rmtree(EXAMPLE_FOLDER, ignore_errors=True)
    with TemporaryDirectory() as folder:
        opened = OpenedRun(RunFolder(Path(folder) / "run"), TrainingSettings())
        assert opened.running
        kept = RunFolder(EXAMPLE_FOLDER)
        kept.create_run(opened.metadata)
        while not opened.running.is_done:
            opened.running.train_one_step()
            step = opened.running.step
            if step in SNAPSHOT_STEPS:
                write_weights(
                    kept.snapshot_file(step), opened.running.trainer.model, opened.metadata
                )
        opened.close()


def pictures() -> dict[str, Any]:
    """Compute the numbers of the images."""
    document = default_document()
    (tokens,) = document.tokens()
    printed = json.loads(resource_path("lessons", "chapter3.json").read_text(encoding="utf-8"))
    contexts = run((tokens,), document.spec).trace.read("context")
    return {
        "book": {"tokens": tokens, "contexts": rounded(contexts)},
        "lesson": {"tokens": printed["tokens"], "query": printed[SECTION]["query"],
                   "weights": printed[SECTION]["weights by softmax"]},
        "training": {"tokens": [*EXAMPLE_TEXT], "steps": SNAPSHOT_STEPS,
                     "weights": [rounded(head_weights(step)) for step in SNAPSHOT_STEPS]},
    }  # fmt: skip


def head_weights(step: int) -> np.ndarray:
    """Return the attention weights of the head after a number of steps [query, key]."""
    model, metadata = load_example_model(step)
    arrays = run_probe(model, ProbeText.from_text(EXAMPLE_TEXT, metadata.vocabulary, model))
    weights: np.ndarray = arrays["weights"][LAYER, HEAD]
    return weights


def rounded(numbers: np.ndarray) -> Any:
    """Round numbers to the decimal places stored in the file."""
    return numbers.astype(np.float64).round(DECIMALS).tolist()


def write() -> None:
    """Write the numbers of the images."""
    text = json.dumps(pictures(), ensure_ascii=False, separators=(",", ":"))
    PICTURES.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    train()
    write()
