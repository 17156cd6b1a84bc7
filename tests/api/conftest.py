"""Fixtures of the tests of the Python API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread, because starting others takes longer than so little work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
