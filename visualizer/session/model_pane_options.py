"""Options and messages of the panes that show the heads of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.roles import Role

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.errors import InputError
    from visualizer.session.document import Document


class AttributionOptions(Struct, frozen=True):
    """Options of the Attribution pane.

    Parameters
    ----------
    token : str
        The candidate next token; empty for the most likely one.
    """

    token: str = ""


class HeadScatterOptions(Struct, frozen=True):
    """Names of the two measures on the axes of the Scatter pane."""

    across: str = "previous"
    up: str = "induction"


SAVED_NUMBERS_MESSAGE = "These are the saved numbers. Change the text to run the model again."
MODEL_ERROR_MESSAGE = "The model could not run on this input: {reason}"
RUNNING_MESSAGE = "The model is running on the text."
IMAGE_REQUIRED = "Choose an image above the heatmaps, or drop an image file, to run the model."
RUNNING_ON_IMAGE_MESSAGE = "The model is running on the image."


def no_forward_pass_reason(document: Document, refused: InputError | None = None) -> str:
    """Return why a document with a model has no forward pass.

    Parameters
    ----------
    refused : InputError, optional
        The error that prevented the model from running on the current document.
    """
    if refused and not document.needs_image:
        return MODEL_ERROR_MESSAGE.format(reason=refused.sentence)
    if document.takes_image:
        return IMAGE_REQUIRED if document.needs_image else RUNNING_ON_IMAGE_MESSAGE
    return SAVED_NUMBERS_MESSAGE if document.captured else RUNNING_MESSAGE


HIDDEN_MESSAGE = "Hidden until the prediction is revealed."
SCORES_ONLY_MESSAGE = "This file contains scores only; head measures need attention weights."
LONG_TEXT_MESSAGE = (
    "Measuring the heads of a long text row by row may take several minutes. The heatmaps "
    "can be used in the meantime."
)
MEASURING_MESSAGE = "Measuring the heads: {share} of the rows are done."


class MeasurementStatus(Struct, frozen=True):
    """An offer to measure the heads, or a measurement that is in progress.

    Parameters
    ----------
    message : str
        Message about the missing measurement.
    is_measuring : bool
        Whether the measurement is in progress.
    share : int
        Progress as a percentage.
    """

    message: str
    is_measuring: bool = False
    share: int = 0


def measurement_status(run: Run) -> MeasurementStatus | None:
    """Return the offer, or None if the heads have been measured or can be measured immediately."""
    trace, texts = run.trace, run.key_texts
    if Role.WEIGHTS not in trace or trace.has_head_measures(Role.WEIGHTS, texts):
        return None
    measurement = trace.head_measurement_state(Role.WEIGHTS, texts)
    if not measurement.is_wanted:
        return MeasurementStatus(f"{measurement.problem} {LONG_TEXT_MESSAGE}".strip())
    share = 100 * measurement.done // max(1, measurement.of)
    return MeasurementStatus(MEASURING_MESSAGE.format(share=f"{share}%"), True, share)
