"""The examples of the start page, and the data of their pictures."""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache

import numpy as np
from msgspec import Struct

from visualizer.resources import resource_path


class StartPageExample(StrEnum):
    """An example that can be opened from the start page."""

    BOOK = "book"
    TRAINING = "training"
    LESSON = "lesson"
    TRAINED = "trained"


class ExampleCaption(Struct, frozen=True):
    """The text under a picture."""

    title: str
    sentence: str


EXAMPLE_TEXTS = {
    StartPageExample.BOOK: ExampleCaption(
        "Six words, two heads",
        "The example of Build a Large Language Model (From Scratch), section 3.6.1. Change any "
        "setting to update all values.",
    ),
    StartPageExample.TRAINING: ExampleCaption(
        "Watch a head form",
        "Train a small language model. Within 200 steps, a head learns to find the next letter.",
    ),
    StartPageExample.LESSON: ExampleCaption(
        "A context vector by hand",
        "The first lesson: one query and six words, computed step by step.",
    ),
    StartPageExample.TRAINED: ExampleCaption(
        "A trained head",
        "When a word is repeated, each letter attends to the letter that followed its first "
        "occurrence. Click any value to see how it was computed.",
    ),
}
"""The texts of the examples, in the order in which the page shows them."""


class ExamplePictureData(Struct, frozen=True, eq=False):
    """The data of the pictures, computed with torch.

    Parameters
    ----------
    book : ndarray
        Context vectors of the starting document, [head, query, column].
    lesson : ndarray
        Weights of one query in the first lesson, [key].
    learned : ndarray
        Weights of the trained example's head after each of the steps, [step, query, key].
    """

    book_tokens: tuple[str, ...]
    book: np.ndarray
    lesson_tokens: tuple[str, ...]
    lesson_query: int
    lesson: np.ndarray
    letters: tuple[str, ...]
    steps: tuple[int, ...]
    learned: np.ndarray

    @property
    def mean_weights_on_next_letter(self) -> tuple[float, ...]:
        """The mean weight on the letter that comes next, after each of the steps."""
        half = len(self.letters) // 2
        queries = np.arange(half, len(self.letters))
        found = self.learned[:, queries, queries - half + 1].mean(axis=1)
        return tuple(map(float, found))


@cache
def load_picture_data() -> ExamplePictureData:
    """Load the bundled data of the pictures."""
    found = json.loads(resource_path("start_page", "pictures.json").read_text(encoding="utf-8"))
    book, lesson, training = (found[name] for name in ("book", "lesson", "training"))
    return ExamplePictureData(
        tuple(book["tokens"]),
        np.array(book["contexts"]),
        tuple(lesson["tokens"]),
        lesson["query"],
        np.array(lesson["weights"]),
        tuple(training["tokens"]),
        tuple(training["steps"]),
        np.array(training["weights"]),
    )
