"""The program, in which only the first process reads the requested text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from unittest.mock import patch

from msgspec.structs import replace

from visualizer.__main__ import main
from visualizer.language.corpora.corpus import load_corpus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.language.corpora.corpus import Corpus
    from visualizer.language.training_settings import TrainingSettings


def _of_another_machine(settings: TrainingSettings) -> Corpus:
    found = load_corpus(settings)
    return replace(found, text=f"{found.text}!")


def main_with_own_text(arguments: Sequence[str] | None = None) -> int:
    """Run the program as `main` does."""
    if os.environ["RANK"] != "0":
        patch("visualizer.language.distributed_training.load_corpus", _of_another_machine).start()
    return main(arguments)
