"""Message and action in panes while the heads of a long text are not measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from visualizer.attention.run import Run

LONG = (
    "Measuring the heads of a long text row by row may take minutes. The heatmaps "
    "can be used in the meantime."
)
START, START_TIP = "Measure heads", "Compute the head measures of the long text, row by row"
COUNTED = "Measured rows"
MEASURING = "Measuring the heads: {share} of the rows are done."


class MeasurementOffer(Struct, frozen=True):
    """A measurement that can be started or is in progress.

    Parameters
    ----------
    says : str
        Message about the missing measurement.
    is_measuring : bool
        Whether the measurement is in progress.
    share : int
        Progress in per cent.
    """

    says: str
    is_measuring: bool = False
    share: int = 0


def measurement_offer(run: Run) -> MeasurementOffer | None:
    """Return the offer; None if the heads are measured already or immediately."""
    trace, texts = run.trace, run.compared_texts
    if "weights" not in trace or trace.is_measured("weights", texts):
        return None
    measurement = trace.head_measurement("weights", texts)
    if not measurement.is_wanted:
        return MeasurementOffer(f"{measurement.problem} {LONG}".strip())
    share = 100 * measurement.done // max(1, measurement.of)
    return MeasurementOffer(MEASURING.format(share=f"{share} %"), True, share)
