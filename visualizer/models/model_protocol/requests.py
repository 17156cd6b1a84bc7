"""Types and limits of the JSON requests to a model server. Does not import torch."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from visualizer.attention.model_forward_pass import AnalysisRequest  # noqa: TC001 - decoded
from visualizer.format import format_size
from visualizer.models.model_source import MAX_HEAD_SCALE, ModelSource

PROGRAM_NAME = "attention-visualizer"
"""Name by which a server identifies itself to clients."""
MAX_ID = 2**53
"""Number of possible random job and run ids; it is so large that the ids cannot be guessed."""
UNKNOWN_HEAD_ERROR = "The layer or head does not exist."
MAX_BODY_BYTES = 2**23
"""Maximum size of a request's body, in bytes."""
MAX_ROWS = 4096
MAX_STAGES = 60
MAX_LIST_LENGTH = 10_000
"""Maximum number of token ids, or of scaled heads, in a request."""
MAX_TEXT_LENGTH = 2_000_000

Count = Annotated[int, Meta(ge=0, le=MAX_ID)]
Name = Annotated[str, Meta(max_length=60)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
Factor = Annotated[float, Meta(ge=-MAX_HEAD_SCALE, le=MAX_HEAD_SCALE)]


def request_too_large_message(size: int) -> str:
    """Return the error message for a request that is too large."""
    limit = format_size(MAX_BODY_BYTES)
    return (
        f"The request to the model server is too large ({format_size(size)}; the limit is "
        f"{limit}). Use a shorter text or fewer edits."
    )


class TokenizeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request to tokenize a text."""

    text: Text


class TokenTextsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the texts of the tokens with the given ids."""

    numbers: Annotated[tuple[Count, ...], Meta(max_length=MAX_LIST_LENGTH)]


class TextRunRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request to process a text with the edits and other settings of the source.

    Parameters
    ----------
    called : int
        Random id that the client has chosen for the run, or 0. With this id, the client can request
        values before the text has been processed.
    """

    source: ModelSource
    text: Text
    called: Count = 0


class KnownAblationResults(Struct, frozen=True, forbid_unknown_fields=True):
    """Known ablation results [layer][head]; None for heads that have not been ablated yet."""

    layers: Annotated[tuple[Count, ...], Meta(max_length=MAX_ROWS)]
    changes: Annotated[tuple[tuple[float | None, ...], ...], Meta(max_length=MAX_ROWS)]


class QuestionRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request to answer a question about a run; an ablation continues from the known results."""

    run: Count
    question: AnalysisRequest
    known: KnownAblationResults | None = None


class NextTokenRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request to process a text and the tokens generated after it.

    Parameters
    ----------
    factors : tuple of (int, int, float)
        Layer, head and factor of each scaled head.
    """

    text: Text
    factors: Annotated[
        tuple[tuple[Count, Count, Factor], ...], Meta(max_length=MAX_LIST_LENGTH)
    ] = ()
    is_chat: bool = False
    numbers: Annotated[tuple[Count, ...], Meta(max_length=MAX_LIST_LENGTH)] = ()


class HeadMeasuresRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request to compute the head measures of a stage."""

    run: Count
    stage: Name


class StageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request for whole stages, or for one matrix of each stage by layer index and head."""

    run: Count
    stages: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_STAGES)]
    place: Annotated[tuple[Count, ...], Meta(max_length=2)] = ()


class StageParametersRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the small model weights of the stages around attention."""

    run: Count


class MatrixBlocksRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request for rows of a range of columns, or for the extremes of blocks of columns.

    Parameters
    ----------
    place : tuple of int
        Index of the layer in the run, if the run has several layers, and the head.
    rows : tuple of int
        The rows. If `rows`, `columns` and `block` are all empty or 0, a coarse preview is sent,
        because the client does not know the number of tokens before the text has been processed.
    block : int
        Number of columns per block; 0 for the values themselves.
    """

    run: Count
    stage: Name
    place: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=2)]
    rows: Annotated[tuple[Count, ...], Meta(max_length=MAX_ROWS)] = ()
    columns: tuple[Count, Count] = (0, 0)
    block: Count = 0


class JobResultRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request for the result of a job, for which the server waits at most ``wait`` seconds."""

    job: Count
    wait: Annotated[float, Meta(ge=0, le=20)] = 10.0


class CancelJobRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Request to cancel a job."""

    job: Count


JOB_REQUESTS: dict[str, type[Struct]] = {
    "names": TokenTextsRequest,
    "read": TextRunRequest,
    "answer": QuestionRequest,
    "next_token": NextTokenRequest,
    "measures": HeadMeasuresRequest,
}
"""Requests that run the model; they run one after another and report their progress."""
IMMEDIATE_REQUESTS: dict[str, type[Struct]] = {
    "tokens": TokenizeRequest,
    "stage": StageRequest,
    "blocks": MatrixBlocksRequest,
    "weights": StageParametersRequest,
}
"""Requests that do not run the model; the process that holds the values responds to them."""
