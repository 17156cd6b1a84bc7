"""Errors that occur while the program infers the steps of a model from recorded tensors.

Models vary more than the inference supports, so the inference may fail with any error. The program
then continues: stages that cannot be inferred are left out, and the values computed by the model
are shown.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from visualizer.errors import InputError, is_out_of_memory
from visualizer.process_settings import run_in_thread
from visualizer.progress import CancelledError

if TYPE_CHECKING:
    from collections.abc import Callable

Inferred = TypeVar("Inferred")
_log = logging.getLogger(__name__)


def infer_or_none(what: str, infer: Callable[[], Inferred]) -> Inferred | None:
    """Return the result of an inference; None if it fails.

    Errors other than a lack of memory are bugs in this program and are logged with a traceback.

    Parameters
    ----------
    what : str
        Description of the inferred object for the log.
    infer : callable
        Function that performs the inference; it never returns None.

    Raises
    ------
    InputError, CancelledError
        If ``infer`` raises one of them; these are not inference errors.
    """
    try:
        return infer()
    except (InputError, CancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - architectures fail in various ways
        if not is_out_of_memory(error):
            # Logging looks up the current thread, and Python would keep an entry for a Qt thread.
            run_in_thread(partial(_log.error, "Could not infer %s.", what, exc_info=error))
        return None


class StepMismatchError(Exception):
    """The recognized steps do not match what the model computed for a text."""


class UnsupportedAttentionError(InputError):
    """A model's attention cannot be recomputed from its vectors and a mask rule."""

    def __init__(self, sentence: str) -> None:
        super().__init__("text", sentence)

    def __reduce__(self) -> tuple[type[InputError], tuple[object, ...]]:
        return UnsupportedAttentionError, (self.sentence,)
