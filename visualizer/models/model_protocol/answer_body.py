"""Bodies of answers: a safetensors file with its values as JSON among the metadata. No torch.

Such a file holds arrays and text and nothing that could run, unlike a pickle.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

if TYPE_CHECKING:
    from collections.abc import Mapping

VALUES = "values"
LONGEST_HEADER = 2**26
"""Most bytes of the header, in which the values stand."""


class BodyError(ValueError):
    """What was received is no body of an answer."""


def answer_body(values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> bytes:
    """Write values and arrays."""
    whole = {name: np.ascontiguousarray(array) for name, array in (arrays or {}).items()}
    return save(whole, {VALUES: json.dumps(dict(values))})


def read_body(body: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read what `answer_body` has written.

    Raises
    ------
    BodyError
        When it is anything else.
    """
    try:
        length = int.from_bytes(body[:8], "little")
        if not 2 <= length <= min(LONGEST_HEADER, len(body) - 8):
            raise BodyError("its header has another length")
        header = json.loads(body[8 : 8 + length])
        values = json.loads(header["__metadata__"][VALUES])
        arrays = load(body)
    except (ValueError, LookupError, TypeError, RecursionError, SafetensorError) as error:
        raise BodyError(str(error)) from error
    if not isinstance(values, dict):
        raise BodyError("its values are none")
    return values, arrays
