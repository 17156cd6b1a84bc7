"""A model on a server, with the interface of a local model."""

from __future__ import annotations

from functools import partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
import torch
from msgspec.structs import replace

from visualizer.attention.blockwise_captured_run import create_blockwise_run, long_text_stages
from visualizer.attention.head_measures import HeadMeasures
from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisKind,
    DeferredResult,
    LogitAttributionResult,
    LogitLensResult,
    LogitParts,
)
from visualizer.attention.roles import Role
from visualizer.errors import InputError
from visualizer.models.kv_cache_generation import LazyVocabulary, NextTokenPrediction
from visualizer.models.model_client.access_token_store import load_access_token
from visualizer.models.model_client.prefetch import WEIGHTS, PrefetchedResponse
from visualizer.models.model_client.remote_stages import (
    MAX_CONCURRENT_REQUESTS,
    FetchedArrayCache,
    RemoteAttentionWeights,
    RemoteBlockCalculator,
    RemoteParameters,
    RemoteStage,
)
from visualizer.models.model_client.server_client import ModelServerClient
from visualizer.models.model_protocol.responses import (
    ROWS_PREFIX,
    DeferredAnswerFields,
    LogitLensAnswerFields,
    LogitPartsAnswerFields,
    ModelMetadata,
    NextTokenResponse,
    QuestionValues,
    TokenizeResponse,
    TokenTextsResponse,
    check_response_array,
    decode_response_values,
    invalid_response_error,
)
from visualizer.models.model_protocol.run_message import (
    FIRST_LAYER_ARRAY,
    MAX_INLINE_BYTES,
    MAX_WHOLE_BYTES,
    MEASURES_PREFIX,
    TextRunResponse,
    build_run_from_message,
)
from visualizer.models.model_protocol.run_validation import check_received_run
from visualizer.models.model_source import SERVER_SCHEME, ModelSource, parse_server_address
from visualizer.progress import abandon_wait_when, is_cancelled, report_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from concurrent.futures import Future

    import numpy as np

    from visualizer.attention.model_forward_pass import (
        AnalysisRequest,
        ModelAnswer,
        ModelForwardPass,
    )
    from visualizer.attention.run import Run
    from visualizer.models.model_client.server_client import Response
    from visualizer.models.model_source import LayerAndHead
    from visualizer.progress import Progress

CONNECTION_REQUIRED = (
    "This model runs on the server {server}. To connect, choose File > Connect to a model…."
)
FILES_CHANGED_ERROR = "The model files of {name} have changed since the document was saved."
DEVICE_ON_SERVER = "{device} on {server}"

MAX_LAYER_DIGITS = 10
"""Maximum number of digits of a layer number."""
CHARACTERS_PER_TOKEN = 4
"""Approximate number of characters per token."""

_connections_lock = Lock()
_connected_models: WeakValueDictionary[tuple[str, int], RemoteModel] = WeakValueDictionary()
"""Connected models that are still referenced, by server and connection number."""
_connection_numbers = count()


class RemoteModel:
    """A model on a server.

    Parameters
    ----------
    started : object
        Object that keeps the server running if this program started it.
    text : str
        The text to process first, if any; the server starts to process it immediately.
    """

    def __init__(
        self, connection: ModelServerClient, started: object = None, text: str = ""
    ) -> None:
        self._connection, self._started = connection, started
        self._run_sizes: dict[int, tuple[int, int]] = {}
        """Numbers of heads and tokens of each processed text, by run id."""
        connection.open_connections(MAX_CONCURRENT_REQUESTS)
        request = _text_run_request(ModelSource("", "", ""), text)
        self._ahead = PrefetchedResponse(connection, request) if text.strip() else None
        metadata = decode_response_values(ModelMetadata, connection.fetch_response("/model", {})[0])
        if self._ahead:
            _prefetch_first_heads(self._ahead, metadata, text)
        self.name, self.kind = metadata.name[:200], metadata.kind[:60]
        self.fingerprint = metadata.fingerprint[:64]

    @property
    def server_address(self) -> str:
        """Host and port of the server."""
        return self._connection.address

    @property
    def source(self) -> ModelSource:
        """Location of the model, as stored in documents."""
        return ModelSource(f"{SERVER_SCHEME}{self.server_address}", self.name, self.fingerprint)

    def fallback_text(self, text: str) -> str:
        """Return a replacement for a text that the model cannot process, or an empty string."""
        if not text.strip():
            return ""
        return decode_response_values(
            TokenizeResponse, self._connection.fetch_response("/tokens", {"text": text})[0]
        ).other_text

    def read(self, source: ModelSource, text: str, made_of: Hashable) -> Run:
        """Process a text on the server, and return the run.

        Raises
        ------
        InputError
            As in `read_text`; with field ``server`` if the server cannot be reached.
        CancelledError
            If the work on this thread was cancelled; the server then stops as well.
        """
        request = _text_run_request(source, text)
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.request == request:
            values, arrays = ahead.wait_for_response()
            heads = ahead.heads
        else:
            values, arrays = self._connection.run_job("/read", request, report_progress)
            heads = ()
        run = self._build_run(
            decode_response_values(TextRunResponse, values), arrays, made_of, heads
        )
        if self.fingerprint != source.fingerprint:
            notice = FILES_CHANGED_ERROR.format(name=source.name)
            run = replace(run, notices=(*run.notices, notice))
        return run

    def _build_run(
        self,
        values: TextRunResponse,
        arrays: dict[str, np.ndarray],
        made_of: Hashable,
        heads: Sequence[Future[Response]],
    ) -> Run:
        check_received_run(values)
        sent, number = values.run, values.number
        header = sent.captured
        sent = replace(
            sent, device=DEVICE_ON_SERVER.format(device=sent.device, server=self.server_address)
        )
        sizes = (header.layers, header.heads)
        self._run_sizes[number] = (header.heads, header.queries)
        changes = (
            check_response_array(arrays.get("changes"), sizes) if "changes" in arrays else None
        )
        ask = partial(self._fetch_arrays, number)
        dtype = getattr(torch, header.dtype.value)
        fetcher = FetchedArrayCache()
        measured = partial(self._fetch_head_measures, number, sizes)
        if values.owners is None:
            # Per-head stages are fetched together for one cell; all other stages are fetched
            # separately.
            of_heads = tuple(row.name for row in sent.stages if row.dims[0] == "head")

            def fetch_stage(name: str, *, is_attention: bool = False) -> RemoteStage:
                if is_attention:
                    first = arrays.get(FIRST_LAYER_ARRAY)
                    return RemoteAttentionWeights(
                        name, values.shapes[name], dtype, values.limits, first, heads, fetcher, ask
                    )
                together = of_heads if name in of_heads else (name,)
                return RemoteStage(name, values.shapes[name], dtype, together, fetcher, ask)

            known = {
                name.removeprefix(MEASURES_PREFIX): array
                for name, array in arrays.items()
                if name.startswith(MEASURES_PREFIX)
            }
            weights = RemoteParameters(values.weights, fetcher, ask)
            measure = partial(measured, known)
            run = build_run_from_message(sent, arrays, made_of, self, fetch_stage, measure, weights)
            assert run.reading is not None
            reading = replace(run.reading, number=number, refusal=fetcher.last_error)
            return replace(run, reading=reading)
        sinks = check_response_array(arrays.get("sinks"), sizes) if "sinks" in arrays else None
        rows = long_text_stages(header, has_sinks=sinks is not None)
        matrices = RemoteBlockCalculator(header, dtype, rows, fetcher, ask)
        run = create_blockwise_run(
            header,
            rows,
            {row.name: matrices.stage(row, heads if row.name == WEIGHTS else ()) for row in rows},
            None if sinks is None else torch.from_numpy(sinks.copy()),
            sent.device,
            partial(measured, {}),
        )
        reading = sent.reading.to_reading(made_of, None, self, changes)
        reading = replace(reading, number=number, refusal=fetcher.last_error)
        return replace(run, notices=sent.notices, reading=reading)

    def _fetch_arrays(
        self, number: int, kind: str, fields: dict[str, Any]
    ) -> dict[str, np.ndarray]:
        return self._connection.fetch_response(f"/{kind}", {"run": number, **fields})[1]

    def _fetch_head_measures(
        self,
        number: int,
        sizes: tuple[int, int],
        known: dict[str, np.ndarray],
        stage: str,
        progress: Progress,
    ) -> HeadMeasures:
        """Return the measures of a stage; ``known`` may contain those of the weights."""
        sent, arrays = {"run": number, "stage": stage}, known
        if stage != Role.WEIGHTS or not known:
            arrays = self._connection.run_job("/measures", sent, progress)[1]
        own = sizes[sizes[0] == 1 :]
        names = HeadMeasures.__struct_fields__
        return HeadMeasures(*(check_response_array(arrays.get(name), own) for name in names))

    def answer(
        self,
        reading: ModelForwardPass,
        question: AnalysisRequest,
        progress: Progress,
        report: Callable[[ModelAnswer], object],
    ) -> ModelAnswer:
        """Answer a question about a processed text, like `answer_model_question`."""
        known = reading.answers.known.get(question)
        known_changes = None
        if isinstance(known, AblationResult):
            changes = [
                [None if value != value else value for value in row]
                for row in known.changes.tolist()
            ]
            known_changes = {"layers": known.layers, "changes": changes}
        sent = {
            "run": reading.number,
            "question": msgspec.to_builtins(question),
            "known": known_changes,
        }
        read = partial(_parse_answer, question.kind, self._run_sizes[reading.number])
        result = self._connection.run_job(
            "/answer", sent, progress, lambda part: report(read(part))
        )
        return read(result)

    def create_predictor(
        self, text: str, factors: Mapping[LayerAndHead, float], *, is_chat: bool
    ) -> RemoteNextTokenPredictor:
        """Return a reader for a text and the tokens generated after it."""
        return RemoteNextTokenPredictor(self._connection, text, factors, is_chat=is_chat)


class RemoteNextTokenPredictor:
    """Reader that processes a text and generated tokens on a server; see `NextTokenPredictor`."""

    def __init__(
        self,
        connection: ModelServerClient,
        text: str,
        factors: Mapping[LayerAndHead, float],
        *,
        is_chat: bool,
    ) -> None:
        self._connection = connection
        self._request = {
            "text": text,
            "factors": [(*place, factor) for place, factor in factors.items()],
            "is_chat": is_chat,
        }
        self._names: dict[int, str] = {}
        """Texts of known tokens, by token id."""
        self._numbers: list[int] = []
        """Ids of the generated tokens in the last request."""
        self._reading, self._response = self._run_tokens_on_server([])

    @property
    def vocabulary(self) -> Sequence[str]:
        """All tokens; unknown tokens are fetched when they are accessed."""
        return LazyVocabulary(self._fetch_token_texts, len(self._reading.logits))

    def _fetch_token_texts(self, numbers: Sequence[int]) -> list[str]:
        if unknown := [number for number in numbers if number not in self._names]:
            names = decode_response_values(
                TokenTextsResponse, self._connection.run_job("/names", {"numbers": unknown})[0]
            )
            if len(names.tokens) != len(unknown):
                raise invalid_response_error("it names a different number of tokens")
            self._names |= zip(unknown, names.tokens, strict=True)
        return [self._names[number] for number in numbers]

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens of the text."""
        return self._response.words

    @property
    def ends(self) -> frozenset[int]:
        """Ids of the end-of-text tokens."""
        return frozenset(self._response.ends)

    def check_memory(self, tokens: int) -> None:
        """Do nothing: the server checks its own memory."""

    def predict(self, numbers: Sequence[int]) -> NextTokenPrediction:
        """Process the text and the generated tokens; see `NextTokenPredictor.predict`."""
        if (wanted := list(numbers)) != self._numbers:
            self._reading, self._response = self._run_tokens_on_server(wanted)
            self._numbers = wanted
        return self._reading

    def _run_tokens_on_server(
        self, numbers: list[int]
    ) -> tuple[NextTokenPrediction, NextTokenResponse]:
        fields, arrays = self._connection.run_job(
            "/next_token", {**self._request, "numbers": numbers}
        )
        values = decode_response_values(NextTokenResponse, fields)
        if values.tokens != len(values.words) + len(numbers):
            raise invalid_response_error("it covers a different number of tokens")
        queries = 1 if numbers else len(values.words)
        rows = {
            int(layer): check_response_array(arrays.get(name), (None, queries, None))
            for name in arrays
            if name.startswith(ROWS_PREFIX)
            and (layer := name.removeprefix(ROWS_PREFIX)).isdecimal()
            if len(layer) < MAX_LAYER_DIGITS
        }
        if any(one.shape[-1] > values.tokens for one in rows.values()):
            raise invalid_response_error("it contains attention weights for too many tokens")
        logits = check_response_array(arrays.get("logits"), (None,))
        self._names |= values.names
        return NextTokenPrediction(rows, logits, values.tokens, values.cache_bytes), values

    def continued_text(self, numbers: Sequence[int]) -> tuple[str, bool]:
        """Return the text with the tokens, and whether tokenizing it gives the same tokens."""
        self.predict(numbers)
        return self._response.text, self._response.is_split_alike


def _prefetch_first_heads(ahead: PrefetchedResponse, metadata: ModelMetadata, text: str) -> None:
    """Prefetch the heads of the first layer, or coarse previews of them if the text is long.

    The heads of a short text are part of the response.
    """
    size = 4 * metadata.layers * metadata.heads * (len(text) / CHARACTERS_PER_TOKEN) ** 2
    if metadata.layers > 1 and size > MAX_INLINE_BYTES:
        ahead.request_heads(
            min(MAX_CONCURRENT_REQUESTS, metadata.heads), is_long=size > MAX_WHOLE_BYTES
        )


def _text_run_request(source: ModelSource, text: str) -> dict[str, Any]:
    """Return the request to process a text, without the folder, because the server has its own."""
    sent = replace(source, folder="", name="", fingerprint="", layers=())
    return {"source": msgspec.to_builtins(sent), "text": text}


def connect_to_model_server(
    address: str, token: str, started: object = None, text: str = ""
) -> RemoteModel:
    """Connect to a server; `find_connected_model` finds the model while it is referenced.

    The parameters ``address`` and ``token`` are those of `ModelServerClient`, ``started`` and
    ``text`` those of `RemoteModel`.

    Raises
    ------
    InputError
        With field ``server`` if the server cannot be reached or is not a model server; with field
        ``token`` if the token is wrong.
    """
    model = RemoteModel(ModelServerClient(address, token), started, text)
    with _connections_lock:
        _connected_models[model.server_address, next(_connection_numbers)] = model
    return model


def find_connected_model(source: ModelSource) -> RemoteModel | None:
    """Return the newest connected model for a server source, or None if there is none."""
    server = parse_server_address(source.folder)
    with _connections_lock:
        models = {
            number: model for (of, number), model in _connected_models.items() if of == server
        }
    return models[max(models)] if models else None


def run_text_on_server(source: ModelSource, text: str, made_of: Hashable) -> Run:
    """Process a text on the server of a source.

    Raises
    ------
    InputError
        As in `RemoteModel.read`; with field ``model`` if the program is not connected to the
        server.
    """
    server, model = parse_server_address(source.folder), find_connected_model(source)
    if model is None:
        with abandon_wait_when(is_cancelled):  # a locked keyring blocks until the user unlocks it
            token = load_access_token(server)
        if not token:
            raise InputError("model", CONNECTION_REQUIRED.format(server=server))
        model = connect_to_model_server(server, token, text=text)
    return model.read(source, text, made_of)


def _parse_answer(kind: AnalysisKind, sizes: tuple[int, int], answer: Response) -> ModelAnswer:
    """Parse and check an answer about a text with the given numbers of heads and tokens."""
    values: QuestionValues = decode_response_values(QuestionValues, answer[0])  # type: ignore[arg-type]
    arrays = answer[1]
    if isinstance(values, DeferredAnswerFields):
        return DeferredResult(values.sentence)
    if values.__struct_config__.tag != kind.value:
        raise invalid_response_error("it answers a different question")
    (heads, tokens), count = sizes, len(values.layers)
    if not count or len({*values.layers}) != count:
        raise invalid_response_error("its layers are missing or repeated")
    if isinstance(values, LogitLensAnswerFields):
        probabilities = check_response_array(arrays.get("probabilities"), (count, tokens, None))
        if not _has_token_per_value(values.words, probabilities.shape):
            raise invalid_response_error("its tokens and probabilities differ in number")
        return LogitLensResult(values.layers, values.words, probabilities)
    if isinstance(values, LogitPartsAnswerFields):
        parts = LogitParts(
            values.number,
            values.logit,
            check_response_array(arrays.get("heads"), (count, heads)),
            check_response_array(arrays.get("rest"), (count,)),
            values.embedding,
            values.bias,
            values.layers,
        )
        return LogitAttributionResult(parts, values.token, values.probability)
    changes = check_response_array(arrays.get("changes"), (count, heads))
    return AblationResult(values.token, values.layers, changes)


def _has_token_per_value(
    words: tuple[tuple[tuple[str, ...], ...], ...], sizes: tuple[int, ...]
) -> bool:
    """Return whether there is one token text for each value [layer, query, rank]."""
    layers, queries, ranks = sizes
    is_whole = len(words) == layers and all(len(layer) == queries for layer in words)
    return is_whole and all(len(rank) == ranks for layer in words for rank in layer)
