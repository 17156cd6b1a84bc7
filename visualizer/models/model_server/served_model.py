"""What one process of a server does with its model, or with its part of it.

Requests that run the model come to all processes in the same order; those for numbers of a text
that was read, to the process that has them.
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

from visualizer.attention.blockwise_captured_run import header_of
from visualizer.attention.blockwise_tensor import BlockwiseTensor, FirstPicture
from visualizer.attention.captured_attention import SINKS
from visualizer.attention.model_answers import (
    AblationAnswer,
    CostlyAnswer,
    LensAnswer,
    ModelAnswers,
    PartsAnswer,
)
from visualizer.errors import InputError
from visualizer.language.wire_format import Message
from visualizer.models.answer_model_question import answer_model_question
from visualizer.models.chunked_prefill import PROBE_TOKENS
from visualizer.models.generation_with_cache import TokenReader
from visualizer.models.model_protocol.answer_values import (
    ROWS,
    AblationsValues,
    CostlyValues,
    LensValues,
    ModelFacts,
    PartsValues,
    TextRead,
    TextTokens,
    TokenNames,
)
from visualizer.models.model_protocol.run_message import (
    ATTENTION,
    FIRST_LAYER,
    MAX_INLINE_BYTES,
    MAX_WHOLE_BYTES,
    MEASURES,
    HeadsOfProcess,
    RunValues,
    long_run_message,
    small_weights,
    whole_run_message,
)
from visualizer.models.model_source import claims_of_changes
from visualizer.models.text_reading import other_text_of, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from visualizer.attention.model_answers import ModelAnswer
    from visualizer.attention.run import Run
    from visualizer.attention.spec import Device
    from visualizer.models.model_protocol.answer_values import QuestionValues
    from visualizer.models.model_protocol.requests import (
        AnswerRequest,
        BlocksRequest,
        MeasuresRequest,
        NextTokenRequest,
        ReadRequest,
        StageRequest,
        TokensRequest,
        WeightsRequest,
    )
    from visualizer.models.model_source import ModelSource
    from visualizer.models.opened_model import OpenedModel
    from visualizer.progress_callback import Progress

MAX_CACHED_RUNS = 4
"""So many texts are kept, those that were read last: on all processes the same ones, whichever of
them numbers are asked of."""
MAX_NEXT_TOKENS = 200
"""So many of the likeliest next tokens are named."""
MAX_BLOCK_NUMBERS = 2**22
"""Numbers of one answer with blocks."""
MAX_ROW_BYTES = 2**29
"""Bytes of the weights that one answer has of a text that is continued."""
WARM_UP_TEXT = "A few words. "
LONG_TEXT = WARM_UP_TEXT * PROBE_TOKENS
"""Of so many tokens at least as tell how the model reads a long text."""
UNKNOWN_STAGE = "There is no such stage."
UNKNOWN_TOKEN = "There is no such token."
TOO_MANY_ROWS = (
    "The weights of {tokens:,} tokens are more than the server sends of a text that is continued. "
    "Use less text."
)
GONE = "The text is no longer kept where the model runs. Change it and undo that: it is read again."

Answer = tuple[dict[str, Any], dict[str, np.ndarray]]
"""The values and arrays of an answer."""


class ServedModel:
    """A model with the runs of texts that it has read.

    Parameters
    ----------
    source : ModelSource
        What `read_text` finds the model by, with the device that it was opened for.
    """

    def __init__(self, source: ModelSource, model: OpenedModel, device: Device) -> None:
        self._source, self._model, self._device = source, model, device
        model.most_held = MAX_WHOLE_BYTES
        self._runs: OrderedDict[int, Run] = OrderedDict()
        self._owned: dict[int, _OwnPart] = {}
        self._lock = Lock()
        self._reader: tuple[NextTokenRequest, TokenReader] | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What a window is told of the model."""
        folder, ranks = self._model.folder, self._model.ranks
        facts = ModelFacts(
            folder.name, folder.kind, folder.fingerprint, folder.layers, folder.heads, ranks.count,
            ranks.parallelism.value,
        )  # fmt: skip
        told: dict[str, Any] = msgspec.to_builtins(facts)
        return told

    # ------------------------------------------------------------------ on all processes

    def warm_up(self) -> None:
        """Read a little as a long text and as a short one, so that the first takes no longer.

        What is found out of the model with a long text takes several passes.
        """
        for text, most_held in ((LONG_TEXT, 0), (WARM_UP_TEXT, MAX_WHOLE_BYTES)):
            self._model.most_held = most_held
            with suppress(InputError), self.job():  # a refusal is said where a text is to be read
                self._model.read(text, by_blocks=True)

    def job(self) -> AbstractContextManager[None]:
        """Do a job within the context, which ends alike on all processes."""
        return self._model.ranks.job()

    def read(self, number: int, asked: ReadRequest) -> Answer:
        """Read a text, and keep the run under a number."""
        own, other = self._source, asked.source
        for holds, subject in claims_of_changes(other):
            if not holds:
                raise InputError("edits", f"The request has no valid {subject}.")
        source = replace(
            own,
            edits=other.edits,
            cuts=other.cuts,
            second=other.second,
            is_chat=other.is_chat,
            part=other.part,
        )
        run = read_text(source, asked.text, self._device)
        with self._lock:
            self._runs[number] = run
            while len(self._runs) > MAX_CACHED_RUNS:
                gone, _ = self._runs.popitem(last=False)
                self._owned.pop(gone, None)
        if not run.trace.is_blockwise:
            sent, arrays = whole_run_message(run)
            if arrays[ATTENTION].nbytes > MAX_INLINE_BYTES:
                layers = arrays.pop(ATTENTION)
                if layers.ndim > 3 and layers[0].nbytes <= MAX_INLINE_BYTES:
                    arrays[FIRST_LAYER] = layers[0]
            values = RunValues(
                sent,
                number,
                {name: run.trace.shape(name) for name in run.trace.names},
                {name: tuple(run.trace.model_weights[name].shape) for name in small_weights(run)},
                run.trace.holding(run.trace.attention).limits(),
            )
            if "weights" in run.trace:  # what the window shows of each head at once
                found = run.trace.measured("weights", run.compared_texts)
                names = type(found).__struct_fields__
                arrays |= {f"{MEASURES}{name}": getattr(found, name) for name in names}
            return msgspec.to_builtins(values), arrays
        return self._long(number, run)

    def _long(self, number: int, run: Run) -> Answer:
        """Gather what all processes have of a long text."""
        reading, ranks, trace = run.reading, self._model.ranks, run.trace
        assert reading is not None
        header = header_of(run)
        first = ranks.first_head(header.heads)
        about = {
            "key": [reading.part, header.queries, header.vectors and header.vectors.d_head],
            "layers": reading.layers,
            "first": first,
            "heads": header.heads,
        }
        sinks = {SINKS: trace.read(SINKS)} if SINKS in trace.model_weights else {}
        parts = ranks.gathered(Message("part", about, sinks))
        alike = [
            (rank, one) for rank, one in enumerate(parts)
            if one.values["key"] == parts[0].values["key"]
        ]  # fmt: skip
        layers = tuple(sorted({layer for _, one in alike for layer in one.values["layers"]}))
        heads = max(one.values["first"] + one.values["heads"] for _, one in alike)
        owners = tuple(
            HeadsOfProcess(
                rank,
                tuple(layers.index(layer) for layer in one.values["layers"]),
                one.values["first"],
                one.values["heads"],
            )
            for rank, one in alike
        )
        at = [layers.index(layer) for layer in reading.layers]
        self._owned[number] = _OwnPart(at, first)
        arrays = {}
        if sinks:
            whole = np.zeros((len(layers), heads), sinks[SINKS].dtype)
            for owner, (_, one) in zip(owners, alike, strict=True):
                _put(whole, owner.layers, owner.first, one.arrays[SINKS])
            arrays["sinks"] = whole
        masks = [message.values["masks"] for message in ranks.gathered(_masks(run, at))]
        by_layer = {place: mask for one in masks for place, mask in one}
        sent = long_run_message(run, layers, heads, [by_layer[at] for at in range(len(layers))])
        return msgspec.to_builtins(RunValues(sent, number, owners=owners)), arrays

    def answer(
        self, asked: AnswerRequest, progress: Progress, report: Callable[[Answer], object]
    ) -> Answer:
        """Answer a question about a text that was read."""
        reading = self._run(asked.run).reading
        assert reading is not None
        answers = ModelAnswers()  # of this request alone: others know what they know
        if asked.known is not None:
            if len({len(row) for row in asked.known.changes}) > 1:
                raise InputError("question", "What is known has rows of several lengths.")
            changes = np.array(asked.known.changes, np.float64)
            answers.known[asked.question] = AblationAnswer("", asked.known.layers, changes)
        reading = replace(reading, answers=answers)

        def tell(part: ModelAnswer) -> None:
            values, found = answer_values(part)
            report(({**values, "is_part": True}, found))

        return answer_values(answer_model_question(reading, asked.question, progress, tell))

    def next_token(self, asked: NextTokenRequest) -> Answer:
        """Read tokens after a text, and say what may come next."""
        begins = replace(asked, numbers=())
        self._check_numbers(asked.numbers)
        if self._reader is None or self._reader[0] != begins:
            edits = {(layer, head): factor for layer, head, factor in asked.factors}
            self._reader = None  # on all processes, whichever of them refuses the text
            self._reader = (
                begins,
                TokenReader(self._model, asked.text, edits, is_chat=asked.is_chat),
            )
        reader = self._reader[1]
        reader.check_memory(len(asked.numbers))
        read = reader.read(asked.numbers)
        if sum(rows.nbytes for rows in read.rows.values()) > MAX_ROW_BYTES:
            raise InputError("text", TOO_MANY_ROWS.format(tokens=read.tokens))
        text, is_split_alike = reader.continued_text(asked.numbers)
        likely = np.argsort(read.logits)[: -1 - MAX_NEXT_TOKENS : -1].tolist()
        values = TextRead(
            tuple(reader.words),
            tuple(sorted(reader.ends)),
            read.tokens,
            read.cache_bytes,
            text,
            is_split_alike,
            tuple(zip(likely, self._model.tokens(likely), strict=True)),
        )
        rows = {f"{ROWS}{layer}": rows for layer, rows in read.rows.items()}
        return msgspec.to_builtins(values), {"logits": read.logits, **rows}

    def names(self, numbers: tuple[int, ...]) -> Answer:
        """Write tokens of the vocabulary by their numbers."""
        self._check_numbers(numbers)
        return msgspec.to_builtins(TokenNames(tuple(self._model.tokens(numbers)))), {}

    def _check_numbers(self, numbers: tuple[int, ...]) -> None:
        """Refuse numbers of tokens that the model does not have."""
        if max(numbers, default=0) >= self._model.size("vocab_size"):
            raise InputError("tokens", UNKNOWN_TOKEN)

    def measures(self, asked: MeasuresRequest, progress: Progress) -> Answer:
        """Measure the heads of a stage of weights."""
        run, ranks = self._run(asked.run), self._model.ranks
        rows = {row.name: row for row in run.trace.stages}
        if asked.stage not in rows or rows[asked.stage].dims[-1] != "key":
            raise InputError("stage", UNKNOWN_STAGE)
        found = run.trace.measured(asked.stage, run.compared_texts, progress)
        own = self._owned.get(asked.run, _OwnPart([*range(run.trace.count("layer"))], 0))
        arrays = {
            name: np.atleast_2d(getattr(found, name)) for name in type(found).__struct_fields__
        }
        parts = ranks.gathered(Message("measures", {"at": own.layers, "first": own.first}, arrays))
        layers = 1 + max(at for one in parts for at in one.values["at"])
        heads = max(one.values["first"] + one.arrays["entropy"].shape[1] for one in parts)
        joined = {}
        for name, array in arrays.items():
            whole = np.full((layers, heads), 0, array.dtype)
            for one in parts:
                _put(whole, one.values["at"], one.values["first"], one.arrays[name])
            joined[name] = whole if layers > 1 else whole[0]
        return {}, joined

    # ------------------------------------------------------------------ on one process

    def tokens(self, asked: TokensRequest) -> Answer:
        """Split a text into the model's tokens; say what can be read in place of it, if it must."""
        other = other_text_of(self._model, asked.text)
        words = () if other else self._model.inputs(asked.text)[1]
        return msgspec.to_builtins(TextTokens(tuple(words), other)), {}

    def stage(self, asked: StageRequest) -> Answer:
        """Return stages of a text whose numbers are held, as a whole or one matrix of each."""
        trace, found = self._run(asked.run).trace, {}
        for name in asked.stages:
            if name not in trace or trace.is_blockwise:
                raise InputError("stage", UNKNOWN_STAGE)
            sizes, place = trace.shape(name), asked.place
            if len(place) >= len(sizes) or any(map(ge, place, sizes)):
                raise InputError("place", "There is no such layer or head.")
            found[name] = trace.read(name, asked.place)
        return {}, found

    def weights(self, asked: WeightsRequest) -> Answer:
        """Return the model's weights that explain the stages of a run, those that are small."""
        run = self._run(asked.run)
        return {}, {name: run.trace.read(name) for name in small_weights(run)}

    def blocks(self, asked: BlocksRequest) -> Answer:
        """Compute rows of a range of columns of a stage of a long text, or their ends."""
        held, place = self._block_place(asked)
        if not (asked.rows or any(asked.columns) or asked.block):
            first = FirstPicture.of(held.shape)
            few, whole = tuple(first.rows.tolist()), (0, first.sizes[1])
            asked = replace(asked, rows=few, columns=whole, block=first.blocks[1])
        _check(held, place, asked)
        rows, columns = np.array(asked.rows, np.int64), range(*asked.columns)
        if asked.block == 0:
            return {}, {"cells": held.cells(place, rows, slice(columns.start, columns.stop))}
        high, low = held.column_ends(place, rows, columns, asked.block)
        return {}, {"high": high} if low is None else {"high": high, "low": low}

    def _block_place(self, asked: BlocksRequest) -> tuple[BlockwiseTensor, tuple[int, ...]]:
        run = self._run(asked.run)
        held = run.trace.holding(asked.stage) if asked.stage in run.trace else None
        if not isinstance(held, BlockwiseTensor):
            raise InputError("stage", UNKNOWN_STAGE)
        own = self._owned.get(asked.run)
        if own is None:
            raise InputError("text", GONE)
        *layer, head = asked.place
        at = layer[0] if layer else 0
        if at not in own.layers:
            raise InputError("place", "There is no such layer here.")
        local = (own.layers.index(at), head - own.first)
        return held, local if len(own.layers) > 1 else local[1:]

    def _run(self, number: int) -> Run:
        with self._lock:
            run = self._runs.get(number)
            if run is None:
                raise InputError("text", GONE)
        return run


class _OwnPart(msgspec.Struct, frozen=True):
    """Which layers of a run, by their places in it, and which heads a process has."""

    layers: list[int]
    first: int


def _put(whole: np.ndarray, layers: Iterable[int], first: int, part: np.ndarray) -> None:
    own = np.atleast_2d(part)
    for row, at in enumerate(layers):
        whole[at, first : first + own.shape[1]] = own[row]


def _masks(run: Run, at: list[int]) -> Message:
    """Return the mask of each layer that is here, with the layer's place in the run."""
    vectors = header_of(run).vectors
    assert vectors is not None
    masks = vectors.layer_masks or (vectors.common_mask,) * len(at)
    return Message("masks", {"masks": [*zip(at, map(msgspec.to_builtins, masks), strict=True)]})


def _check(held: BlockwiseTensor, place: tuple[int, ...], asked: BlocksRequest) -> None:
    """Refuse what a stage does not have, or more than an answer may hold."""
    *leading, rows, columns = held.shape
    start, stop = asked.columns
    is_there = len(place) == len(leading) and all(
        0 <= at < size for at, size in zip(place, leading, strict=True)
    )
    are_rows = bool(asked.rows) and max(asked.rows) < rows
    are_columns = 0 <= start < stop <= columns and asked.block >= 0
    is_aligned = asked.block == 0 or start % asked.block == 0
    if not (is_there and are_rows and are_columns and is_aligned):
        raise InputError("place", "There are no such rows or columns.")
    if len(asked.rows) * (stop - start) // max(1, asked.block) > MAX_BLOCK_NUMBERS:
        raise InputError("place", "That is more than one answer holds.")


def answer_values(answer: ModelAnswer) -> Answer:
    """Write an answer as values and arrays."""
    if isinstance(answer, InputError):
        raise answer
    values: QuestionValues
    arrays = {}
    if isinstance(answer, CostlyAnswer):
        values = CostlyValues(answer.sentence)
    elif isinstance(answer, LensAnswer):
        values = LensValues(answer.layers, answer.words)
        arrays = {"probabilities": answer.probabilities}
    elif isinstance(answer, PartsAnswer):
        parts = answer.parts
        values = PartsValues(
            answer.token, answer.probability, parts.number, parts.logit, parts.embedding,
            parts.bias, parts.layers,
        )  # fmt: skip
        arrays = {"heads": parts.heads, "rest": parts.rest}
    else:
        values = AblationsValues(answer.token, answer.layers)
        arrays = {"changes": answer.changes}
    return msgspec.to_builtins(values), arrays
