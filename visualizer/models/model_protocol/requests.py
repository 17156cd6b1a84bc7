"""Requests to a model server: JSON of these types, with limits. No torch."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from visualizer.attention.model_reading import ModelQuestion  # noqa: TC001 - decoded
from visualizer.format import format_size
from visualizer.models.model_source import MAX_HEAD_SCALE, ModelSource

MAX_BODY_BYTES = 2**23
"""Maximum size of a request's body."""
MAX_ROWS = 4096
MAX_STAGES = 60
MAX_NEXT_TOKENS = 10_000
MAX_TEXT_LENGTH = 2_000_000

Count = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(max_length=60)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
Factor = Annotated[float, Meta(ge=-MAX_HEAD_SCALE, le=MAX_HEAD_SCALE)]


def too_large_message(size: int) -> str:
    """Return the error message for a request that is too large."""
    limit = format_size(MAX_BODY_BYTES)
    return (
        f"The request to the model server is too large ({format_size(size)}; the limit is "
        f"{limit}). Use a shorter text or fewer edits."
    )


class TokensRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokenize a text."""

    text: Text


class NamesRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send the text of tokens, given by their ids."""

    numbers: Annotated[tuple[Count, ...], Meta(max_length=MAX_NEXT_TOKENS)]


class ReadRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a text, with the edits and other settings of the source.

    Parameters
    ----------
    called : int
        Random id chosen by the client, by which it can request values of the run before the text
        has been read; 0 for none.
    """

    source: ModelSource
    text: Text
    called: Count = 0


class KnownAblationResults(Struct, frozen=True, forbid_unknown_fields=True):
    """Known ablation results, [layer][head]; None for heads that have not been ablated yet."""

    layers: Annotated[tuple[Count, ...], Meta(max_length=MAX_ROWS)]
    changes: Annotated[tuple[tuple[float | None, ...], ...], Meta(max_length=MAX_ROWS)]


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Answer a question about a run; ablations continue from known results."""

    run: Count
    question: ModelQuestion
    known: KnownAblationResults | None = None


class NextTokenRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a text and the tokens generated after it, with scaled heads: (layer, head, factor)."""

    text: Text
    factors: Annotated[
        tuple[tuple[Count, Count, Factor], ...], Meta(max_length=MAX_NEXT_TOKENS)
    ] = ()
    is_chat: bool = False
    numbers: Annotated[tuple[Count, ...], Meta(max_length=MAX_NEXT_TOKENS)] = ()


class MeasuresRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Compute the head measures of a stage."""

    run: Count
    stage: Name


class StageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send stages: whole ones, or one matrix of each, given by layer index and head."""

    run: Count
    stages: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_STAGES)]
    place: Annotated[tuple[Count, ...], Meta(max_length=2)] = ()


class WeightsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send the small model weights of the stages around attention."""

    run: Count


class BlocksRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send rows of a range of columns, or the extremes of blocks of columns.

    Parameters
    ----------
    place : tuple of int
        Index of the layer in the run, if it has several, and the head.
    rows : tuple of int
        The rows. If `rows`, `columns` and `block` are all empty or 0, a coarse preview is sent:
        before the text has been read, the client does not know its number of tokens.
    block : int
        Number of columns per block; 0 for the values themselves.
    """

    run: Count
    stage: Name
    place: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=2)]
    rows: Annotated[tuple[Count, ...], Meta(max_length=MAX_ROWS)] = ()
    columns: tuple[Count, Count] = (0, 0)
    block: Count = 0


class ResultRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send the result of a job, after waiting for it for at most a few seconds."""

    job: Count
    wait: Annotated[float, Meta(ge=0, le=20)] = 10.0


class CancelRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Cancel a job."""

    job: Count


JOB_REQUESTS: dict[str, type[Struct]] = {
    "names": NamesRequest,
    "read": ReadRequest,
    "answer": AnswerRequest,
    "next_token": NextTokenRequest,
    "measures": MeasuresRequest,
}
"""Requests that run the model, one after another, and report progress."""
IMMEDIATE_REQUESTS: dict[str, type[Struct]] = {
    "tokens": TokensRequest,
    "stage": StageRequest,
    "blocks": BlocksRequest,
    "weights": WeightsRequest,
}
"""Requests that do not run the model; the process that holds the values answers them."""
