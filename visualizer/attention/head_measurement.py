"""Progress of measuring the heads of a long text; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class HeadMeasurement:
    """A requested, running or failed measurement; modified on one thread only.

    Parameters
    ----------
    is_wanted : bool
        Whether it is requested or running.
    done, of : int
        Number of measured rows, and of all rows.
    problem : str
        Why it failed, as a sentence; else empty.
    """

    is_wanted: bool = False
    done: int = 0
    of: int = 0
    problem: str = ""
