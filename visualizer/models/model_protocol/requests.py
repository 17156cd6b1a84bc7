"""What a server of a model is asked: JSON of these types, with limits; no torch here."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from visualizer.attention.model_answers import ModelQuestion  # noqa: TC001 - decoded
from visualizer.models.model_source import MAX_HEAD_SCALE, ModelSource
from visualizer.number_format import format_size

MAX_BODY_BYTES = 2**23
"""Most bytes of the body of a request."""
MAX_ROWS = 4096
MAX_STAGES = 60
MAX_NEXT_TOKENS = 10_000
MAX_TEXT_LENGTH = 2_000_000

Count = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(max_length=60)]
Text = Annotated[str, Meta(max_length=MAX_TEXT_LENGTH)]
Factor = Annotated[float, Meta(ge=-MAX_HEAD_SCALE, le=MAX_HEAD_SCALE)]


def too_large_message(size: int) -> str:
    """Return the message that a request has too many bytes."""
    limit = format_size(MAX_BODY_BYTES)
    return (
        f"The request to the model's server has {format_size(size)}, and at most {limit} are "
        "accepted. Use a shorter text or fewer edits."
    )


class TokensRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Split a text into tokens."""

    text: Text


class NamesRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Write tokens by their numbers."""

    numbers: Annotated[tuple[Count, ...], Meta(max_length=MAX_NEXT_TOKENS)]


class ReadRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a text, with what of the source is changed in the model.

    Parameters
    ----------
    called : int
        A number drawn by who asks, by which numbers of the run may be asked for before it is there.
    """

    source: ModelSource
    text: Text
    called: Count = 0


class KnownChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of ablations, [layer][head], None of heads that have not been tried yet."""

    layers: Annotated[tuple[Count, ...], Meta(max_length=MAX_ROWS)]
    changes: Annotated[tuple[tuple[float | None, ...], ...], Meta(max_length=MAX_ROWS)]


class AnswerRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Answer a question about a run; of ablations, from what is known."""

    run: Count
    question: ModelQuestion
    known: KnownChanges | None = None


class NextTokenRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Read tokens after a text, with heads (layer, head, factor) multiplied."""

    text: Text
    factors: Annotated[
        tuple[tuple[Count, Count, Factor], ...], Meta(max_length=MAX_NEXT_TOKENS)
    ] = ()
    is_chat: bool = False
    numbers: Annotated[tuple[Count, ...], Meta(max_length=MAX_NEXT_TOKENS)] = ()


class MeasuresRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Measure the heads of a stage."""

    run: Count
    stage: Name


class StageRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send stages: one as a whole, or one matrix of some, by the layer's place and the head."""

    run: Count
    stages: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MAX_STAGES)]
    place: Annotated[tuple[Count, ...], Meta(max_length=2)] = ()


class WeightsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send the weights that the stages around attention are computed with, those that are small."""

    run: Count


class BlocksRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Send rows of a range of columns, or the ends of blocks of so many of them.

    Parameters
    ----------
    place : tuple of int
        The layer's place in the run, where it has several, and the head.
    rows : tuple of int
        None of them, nor columns nor a block, for a `FirstPicture`: who asks before the text is
        read does not know its tokens.
    block : int
        0 for the numbers themselves.
    """

    run: Count
    stage: Name
    place: Annotated[tuple[Count, ...], Meta(min_length=1, max_length=2)]
    rows: Annotated[tuple[Count, ...], Meta(max_length=MAX_ROWS)] = ()
    columns: tuple[Count, Count] = (0, 0)
    block: Count = 0


class ResultRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Wait for the result of a job, for some seconds at most."""

    job: Count
    wait: Annotated[float, Meta(ge=0, le=20)] = 10.0


class CancelRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Give up a job."""

    job: Count


JOBS: dict[str, type[Struct]] = {
    "names": NamesRequest,
    "read": ReadRequest,
    "answer": AnswerRequest,
    "next_token": NextTokenRequest,
    "measures": MeasuresRequest,
}
"""What runs the model, one after another, and is told about while it does."""
AT_ONCE: dict[str, type[Struct]] = {
    "tokens": TokensRequest,
    "stage": StageRequest,
    "blocks": BlocksRequest,
    "weights": WeightsRequest,
}
"""What needs no pass of the model: numbers of a run are read by the process that has it."""
