"""The boundary at which errors of inferring how a model computes are caught.

How a model computes is inferred from what it computed. Models differ in more ways than the
inference knows, so it may fail with any error. A reading does not end there: what cannot be
inferred is left out, and what the model itself computed is shown.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from visualizer.errors import InputError, is_out_of_memory
from visualizer.progress_callback import CancelledError
from visualizer.python_thread_for_qt_thread import on_python_thread

if TYPE_CHECKING:
    from collections.abc import Callable

Inferred = TypeVar("Inferred")
_log = logging.getLogger(__name__)


def inferred(what: str, infer: Callable[[], Inferred]) -> Inferred | None:
    """Return what is inferred of a model; None if that fails.

    An error is logged with its traceback, as it is a fault of this program, unless the memory ran
    out.

    Parameters
    ----------
    what : str
        What is inferred, for the log.
    infer : callable
        Never returns None.

    Raises
    ------
    InputError, CancelledError
        Those of the callable, which are not errors of inference.
    """
    try:
        return infer()
    except (InputError, CancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - each architecture fails in its own way
        if not is_out_of_memory(error):
            # Logging asks for the current thread, of which Python would keep an entry for Qt's.
            on_python_thread(partial(_log.error, "Could not infer %s.", what, exc_info=error))
        return None
