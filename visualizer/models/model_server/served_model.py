"""The model, or its part, in one server process, with the runs of the texts that it processed.

Requests that run the model are sent to all processes in the same order; requests for values of a
text are sent to the process that holds the values.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from operator import ge
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from visualizer.attention.blockwise_captured_run import header_of_long_text_run
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.attention.captured_attention import SINKS_NAME
from visualizer.attention.drawn_tiles import PreviewLayout
from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisResults,
    DeferredResult,
    LogitAttributionResult,
    LogitLensResult,
)
from visualizer.attention.roles import Role
from visualizer.errors import InputError
from visualizer.language.wire_format import Message
from visualizer.models.answer_model_question import answer_model_question
from visualizer.models.chunked_prefill import PROBE_TOKENS
from visualizer.models.kv_cache_generation import NextTokenPredictor
from visualizer.models.model_protocol.requests import UNKNOWN_HEAD_ERROR
from visualizer.models.model_protocol.responses import (
    ROWS_PREFIX,
    AblationAnswerFields,
    DeferredAnswerFields,
    LogitLensAnswerFields,
    LogitPartsAnswerFields,
    ModelMetadata,
    NextTokenResponse,
    TokenizeResponse,
    TokenTextsResponse,
)
from visualizer.models.model_protocol.run_message import (
    ATTENTION_ARRAY,
    FIRST_LAYER_ARRAY,
    MAX_INLINE_BYTES,
    MAX_WHOLE_BYTES,
    MEASURES_PREFIX,
    RankHeads,
    TextRunResponse,
    create_long_run_message,
    create_short_run_message,
    inline_weight_names,
)
from visualizer.models.model_source import check_edits_and_cuts
from visualizer.models.model_text_runs import read_text, replacement_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from visualizer.attention.model_forward_pass import ModelAnswer
    from visualizer.attention.run import Run
    from visualizer.attention.spec import Device
    from visualizer.models.model_protocol.requests import (
        HeadMeasuresRequest,
        MatrixBlocksRequest,
        NextTokenRequest,
        QuestionRequest,
        StageParametersRequest,
        StageRequest,
        TextRunRequest,
        TokenizeRequest,
    )
    from visualizer.models.model_protocol.responses import QuestionValues
    from visualizer.models.model_source import ModelSource
    from visualizer.models.opened_model import OpenedModel
    from visualizer.progress import Progress

MAX_CACHED_RUNS = 4
"""Maximum number of runs that are kept. The most recently computed runs are kept, not the most
recently requested ones, so that all processes keep the same runs.
"""
MAX_NAMED_TOKENS = 200
"""Maximum number of the most likely next tokens that are sent with their texts."""
MAX_BLOCK_NUMBERS = 2**22
"""Maximum number of values in a response with blocks."""
MAX_ROW_BYTES = 2**29
"""Maximum size, in bytes, of the attention weights in one response during generation."""
WARM_UP_TEXT = "A few words. "
PROBE_TEXT = WARM_UP_TEXT * PROBE_TOKENS
"""Text with enough tokens to determine how the model processes long texts."""
UNKNOWN_STAGE_ERROR = "The stage does not exist."
UNKNOWN_TOKEN_ERROR = "The token id is not in the vocabulary."
TOO_MANY_ROWS_ERROR = (
    "The attention weights for {tokens:,} tokens are too large to be sent during generation. "
    "Use a shorter text."
)
RUN_EXPIRED_ERROR = (
    "The server no longer has the results for this text. To compute them again, change the text "
    "and undo the change."
)

Response = tuple[dict[str, Any], dict[str, np.ndarray]]
"""Values and arrays of a response."""


class ServedModel:
    """A model with the runs of the texts that it has processed.

    Parameters
    ----------
    source : ModelSource
        Source by which `read_text` finds the model on the given device.
    """

    def __init__(self, source: ModelSource, model: OpenedModel, device: Device) -> None:
        self._source, self._model, self._device = source, model, device
        model.long_texts.max_weight_bytes = MAX_WHOLE_BYTES
        self._runs: OrderedDict[int, Run] = OrderedDict()
        self._owned: dict[int, _RunPartOfRank] = {}
        self._lock = Lock()
        self._reader: tuple[NextTokenRequest, NextTokenPredictor] | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the model, as sent to clients."""
        folder, ranks = self._model.folder, self._model.ranks
        sent = ModelMetadata(
            folder.name, folder.kind, folder.fingerprint, folder.layers, folder.heads, ranks.count,
            ranks.parallelism.value,
        )  # fmt: skip
        metadata: dict[str, Any] = msgspec.to_builtins(sent)
        return metadata

    # ------------------------------------------------------------------ on all processes

    def warm_up_model(self) -> None:
        """Process a long and a short text, so that a client's first text is not slower than others.

        Determining how the model processes a long text takes several forward passes.
        """
        for text, most_held in ((PROBE_TEXT, 0), (WARM_UP_TEXT, MAX_WHOLE_BYTES)):
            self._model.long_texts.max_weight_bytes = most_held
            # The error is reported when a client sends a text.
            with suppress(InputError), self.job_context():
                self._model.read(text, by_blocks=True)

    def job_context(self) -> AbstractContextManager[None]:
        """Return the context of a job; a job that fails on one process fails on all of them."""
        return self._model.ranks.job_context()

    def read(self, number: int, request: TextRunRequest) -> Response:
        """Process a text, and keep the run under the given id."""
        own, other = self._source, request.source
        for holds, subject in check_edits_and_cuts(other):
            if not holds:
                raise InputError("edits", f"The request contains an invalid value: {subject}.")
        source = replace(
            own,
            edits=other.edits,
            cuts=other.cuts,
            second=other.second,
            is_chat=other.is_chat,
            part=other.part,
        )
        run = read_text(source, request.text, self._device)
        with self._lock:
            self._runs[number] = run
            while len(self._runs) > MAX_CACHED_RUNS:
                gone, _ = self._runs.popitem(last=False)
                self._owned.pop(gone, None)
        if not run.trace.is_blockwise:
            sent, arrays = create_short_run_message(run)
            if arrays[ATTENTION_ARRAY].nbytes > MAX_INLINE_BYTES:
                layers = arrays.pop(ATTENTION_ARRAY)
                if layers.ndim > 3 and layers[0].nbytes <= MAX_INLINE_BYTES:
                    arrays[FIRST_LAYER_ARRAY] = layers[0]
            values = TextRunResponse(
                sent,
                number,
                {name: run.trace.shape(name) for name in run.trace.names},
                {
                    name: tuple(run.trace.model_weights[name].shape)
                    for name in inline_weight_names(run)
                },
                run.trace.cached_stage_tensor(run.trace.attention_stage_name).limits(),
            )
            # The window shows these measures for all heads immediately.
            if Role.WEIGHTS in run.trace:
                measures = run.trace.head_measures(Role.WEIGHTS, run.key_texts)
                names = type(measures).__struct_fields__
                arrays |= {f"{MEASURES_PREFIX}{name}": getattr(measures, name) for name in names}
            return msgspec.to_builtins(values), arrays
        return self._gather_long_text_run(number, run)

    def _gather_long_text_run(self, number: int, run: Run) -> Response:
        """Return the message for a long text's run, with the parts of all processes."""
        reading, ranks, trace = run.reading, self._model.ranks, run.trace
        assert reading is not None
        header = header_of_long_text_run(run)
        first = ranks.first_local_head(header.heads)
        description = {
            "key": [reading.part, header.queries, header.vectors and header.vectors.d_head],
            "layers": reading.layers,
            "first": first,
            "heads": header.heads,
        }
        sinks = {SINKS_NAME: trace.read(SINKS_NAME)} if SINKS_NAME in trace.model_weights else {}
        parts = ranks.gather_messages(Message("part", description, sinks))
        matching = [
            (rank, one) for rank, one in enumerate(parts)
            if one.values["key"] == parts[0].values["key"]
        ]  # fmt: skip
        layers = tuple(sorted({layer for _, one in matching for layer in one.values["layers"]}))
        heads = max(one.values["first"] + one.values["heads"] for _, one in matching)
        owners = tuple(
            RankHeads(
                rank,
                tuple(layers.index(layer) for layer in one.values["layers"]),
                one.values["first"],
                one.values["heads"],
            )
            for rank, one in matching
        )
        at = [layers.index(layer) for layer in reading.layers]
        self._owned[number] = _RunPartOfRank(at, first)
        arrays = {}
        if sinks:
            whole = np.zeros((len(layers), heads), sinks[SINKS_NAME].dtype)
            for owner, (_, one) in zip(owners, matching, strict=True):
                _copy_heads(whole, owner.layers, owner.first, one.arrays[SINKS_NAME])
            arrays["sinks"] = whole
        masks = [
            message.values["masks"]
            for message in ranks.gather_messages(_create_mask_message(run, at))
        ]
        by_layer = {place: mask for one in masks for place, mask in one}
        sent = create_long_run_message(
            run, layers, heads, [by_layer[at] for at in range(len(layers))]
        )
        return msgspec.to_builtins(TextRunResponse(sent, number, owners=owners)), arrays

    def answer(
        self, request: QuestionRequest, progress: Progress, report: Callable[[Response], object]
    ) -> Response:
        """Answer a question about a processed text."""
        reading = self._find_run(request.run).reading
        assert reading is not None
        answers = AnalysisResults()  # not shared with other requests
        if request.known is not None:
            if len({len(row) for row in request.known.changes}) > 1:
                raise InputError(
                    "question", "The rows of the known changes have different lengths."
                )
            changes = np.array(request.known.changes, np.float64)
            answers.known[request.question] = AblationResult("", request.known.layers, changes)
        reading = replace(reading, answers=answers)

        def report_part(part: ModelAnswer) -> None:
            values, arrays = encode_answer(part)
            report(({**values, "is_part": True}, arrays))

        return encode_answer(
            answer_model_question(reading, request.question, progress, report_part)
        )

    def next_token(self, request: NextTokenRequest) -> Response:
        """Process a text and the tokens generated after it, and return the next-token logits."""
        prompt = replace(request, numbers=())
        self._check_token_ids(request.numbers)
        if self._reader is None or self._reader[0] != prompt:
            edits = {(layer, head): factor for layer, head, factor in request.factors}
            # Dropped on all processes, even if only one of them rejects the text.
            self._reader = None
            self._reader = (
                prompt,
                NextTokenPredictor(self._model, request.text, edits, is_chat=request.is_chat),
            )
        reader = self._reader[1]
        reader.check_memory(len(request.numbers))
        read = reader.predict(request.numbers)
        if sum(rows.nbytes for rows in read.rows.values()) > MAX_ROW_BYTES:
            raise InputError("text", TOO_MANY_ROWS_ERROR.format(tokens=read.tokens))
        text, is_split_alike = reader.continued_text(request.numbers)
        likely = np.argsort(read.logits)[: -1 - MAX_NAMED_TOKENS : -1].tolist()
        values = NextTokenResponse(
            tuple(reader.words),
            tuple(sorted(reader.ends)),
            read.tokens,
            read.cache_bytes,
            text,
            is_split_alike,
            tuple(zip(likely, self._model.token_texts(likely), strict=True)),
        )
        rows = {f"{ROWS_PREFIX}{layer}": rows for layer, rows in read.rows.items()}
        return msgspec.to_builtins(values), {"logits": read.logits, **rows}

    def names(self, numbers: tuple[int, ...]) -> Response:
        """Return the texts of the tokens with the given ids."""
        self._check_token_ids(numbers)
        return msgspec.to_builtins(TokenTextsResponse(tuple(self._model.token_texts(numbers)))), {}

    def _check_token_ids(self, numbers: tuple[int, ...]) -> None:
        if max(numbers, default=0) >= self._model.config_size("vocab_size"):
            raise InputError("tokens", UNKNOWN_TOKEN_ERROR)

    def measures(self, request: HeadMeasuresRequest, progress: Progress) -> Response:
        """Compute the head measures of a stage of attention weights."""
        run, ranks = self._find_run(request.run), self._model.ranks
        rows = {row.name: row for row in run.trace.stages}
        if request.stage not in rows or rows[request.stage].dims[-1] != "key":
            raise InputError("stage", UNKNOWN_STAGE_ERROR)
        measures = run.trace.head_measures(request.stage, run.key_texts, progress)
        own = self._owned.get(
            request.run, _RunPartOfRank([*range(run.trace.axis_size("layer"))], 0)
        )
        arrays = {
            name: np.atleast_2d(getattr(measures, name))
            for name in type(measures).__struct_fields__
        }
        parts = ranks.gather_messages(
            Message("measures", {"at": own.layers, "first": own.first}, arrays)
        )
        layers = 1 + max(at for one in parts for at in one.values["at"])
        heads = max(one.values["first"] + one.arrays["entropy"].shape[1] for one in parts)
        joined = {}
        for name, array in arrays.items():
            whole = np.full((layers, heads), 0, array.dtype)
            for one in parts:
                _copy_heads(whole, one.values["at"], one.values["first"], one.arrays[name])
            joined[name] = whole if layers > 1 else whole[0]
        return {}, joined

    # ------------------------------------------------------------------ on one process

    def tokens(self, request: TokenizeRequest) -> Response:
        """Return the tokens of a text, or a replacement if the model cannot process the text."""
        other = replacement_text(self._model, request.text)
        words = () if other else self._model.encode_inputs(request.text)[1]
        return msgspec.to_builtins(TokenizeResponse(tuple(words), other)), {}

    def stage(self, request: StageRequest) -> Response:
        """Return whole stages of a short text, or one matrix of each stage."""
        trace, arrays = self._find_run(request.run).trace, {}
        for name in request.stages:
            if name not in trace or trace.is_blockwise:
                raise InputError("stage", UNKNOWN_STAGE_ERROR)
            sizes, place = trace.shape(name), request.place
            if len(place) >= len(sizes) or any(map(ge, place, sizes)):
                raise InputError("place", UNKNOWN_HEAD_ERROR)
            arrays[name] = trace.read(name, request.place)
        return {}, arrays

    def weights(self, request: StageParametersRequest) -> Response:
        """Return the small model weights that are needed to explain the stages of a run."""
        run = self._find_run(request.run)
        return {}, {name: run.trace.read(name) for name in inline_weight_names(run)}

    def blocks(self, request: MatrixBlocksRequest) -> Response:
        """Compute blocks of a long text's stage, or the extremes of each block of columns."""
        tensor, place = self._find_block_tensor(request)
        if not (request.rows or any(request.columns) or request.block):
            first = PreviewLayout.from_matrix_sizes(tensor.shape)
            few, whole = tuple(first.rows.tolist()), (0, first.sizes[1])
            request = replace(request, rows=few, columns=whole, block=first.blocks[1])
        _check_block_request(tensor, place, request)
        rows, columns = np.array(request.rows, np.int64), range(*request.columns)
        if request.block == 0:
            return {}, {
                "cells": tensor.compute_cells(place, rows, slice(columns.start, columns.stop))
            }
        high, low = tensor.column_extremes(place, rows, columns, request.block)
        return {}, {"high": high} if low is None else {"high": high, "low": low}

    def _find_block_tensor(
        self, request: MatrixBlocksRequest
    ) -> tuple[BlockwiseTensor, tuple[int, ...]]:
        run = self._find_run(request.run)
        tensor = (
            run.trace.cached_stage_tensor(request.stage) if request.stage in run.trace else None
        )
        if not isinstance(tensor, BlockwiseTensor):
            raise InputError("stage", UNKNOWN_STAGE_ERROR)
        own = self._owned.get(request.run)
        if own is None:
            raise InputError("text", RUN_EXPIRED_ERROR)
        *layer, head = request.place
        at = layer[0] if layer else 0
        if at not in own.layers:
            raise InputError("place", UNKNOWN_HEAD_ERROR)
        local = (own.layers.index(at), head - own.first)
        return tensor, local if len(own.layers) > 1 else local[1:]

    def _find_run(self, number: int) -> Run:
        with self._lock:
            run = self._runs.get(number)
            if run is None:
                raise InputError("text", RUN_EXPIRED_ERROR)
        return run


class _RunPartOfRank(msgspec.Struct, frozen=True):
    """The part of a run that one process holds: the indices of its layers, and its first head."""

    layers: list[int]
    first: int


def _copy_heads(whole: np.ndarray, layers: Iterable[int], first: int, part: np.ndarray) -> None:
    own = np.atleast_2d(part)
    for row, at in enumerate(layers):
        whole[at, first : first + own.shape[1]] = own[row]


def _create_mask_message(run: Run, at: list[int]) -> Message:
    """Return a message with the mask and the index of each layer in this process."""
    vectors = header_of_long_text_run(run).vectors
    assert vectors is not None
    masks = vectors.layer_masks or (vectors.common_mask,) * len(at)
    return Message("masks", {"masks": [*zip(at, map(msgspec.to_builtins, masks), strict=True)]})


def _check_block_request(
    tensor: BlockwiseTensor, place: tuple[int, ...], request: MatrixBlocksRequest
) -> None:
    """Raise an `InputError` if the request is out of range or its response would be too large."""
    *leading, rows, columns = tensor.shape
    start, stop = request.columns
    is_there = len(place) == len(leading) and all(
        0 <= at < size for at, size in zip(place, leading, strict=True)
    )
    are_rows = bool(request.rows) and max(request.rows) < rows
    are_columns = 0 <= start < stop <= columns and request.block >= 0
    is_aligned = request.block == 0 or start % request.block == 0
    if not (is_there and are_rows and are_columns and is_aligned):
        raise InputError("place", "The rows or columns are out of range.")
    if len(request.rows) * (stop - start) // max(1, request.block) > MAX_BLOCK_NUMBERS:
        raise InputError("place", f"A response contains at most {MAX_BLOCK_NUMBERS:,} values.")


def encode_answer(answer: ModelAnswer) -> Response:
    """Convert an answer to the values and arrays of a response."""
    if isinstance(answer, InputError):
        raise answer
    values: QuestionValues
    arrays = {}
    if isinstance(answer, DeferredResult):
        values = DeferredAnswerFields(answer.sentence)
    elif isinstance(answer, LogitLensResult):
        values = LogitLensAnswerFields(answer.layers, answer.words)
        arrays = {"probabilities": answer.probabilities}
    elif isinstance(answer, LogitAttributionResult):
        parts = answer.parts
        values = LogitPartsAnswerFields(
            answer.token, answer.probability, parts.number, parts.logit, parts.embedding,
            parts.bias, parts.layers,
        )  # fmt: skip
        arrays = {"heads": parts.heads, "rest": parts.rest}
    else:
        values = AblationAnswerFields(answer.token, answer.layers)
        arrays = {"changes": answer.changes}
    return msgspec.to_builtins(values), arrays
