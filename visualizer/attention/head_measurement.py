"""How far the heads of a long text have been measured; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class HeadMeasurement:
    """A measurement that was asked for, is under way or has failed; changed on one thread only.

    Parameters
    ----------
    is_wanted : bool
        Whether it is to be made, or is being made.
    done, of : int
        The rows that were measured, and all.
    problem : str
        Why it failed, as a sentence.
    """

    is_wanted: bool = False
    done: int = 0
    of: int = 0
    problem: str = ""
