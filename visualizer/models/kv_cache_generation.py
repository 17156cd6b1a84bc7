"""Generates text token by token with a key/value cache, and records every row of weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import torch
from msgspec import Struct

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.errors import InputError
from visualizer.language.sampling import (
    SamplingSettings,
    check_sampling_settings,
    sample_token_with_seed,
    sampling_probabilities,
)
from visualizer.models.attention_recorder import RecordingMethod
from visualizer.models.model_ranks import Parallelism
from visualizer.models.recorded_runs import number_calls_by_layer

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.editable_heads import Edits
    from visualizer.models.opened_model import OpenedModel

MAX_STEPS = 10_000
"""Maximum number of generated tokens."""
MAX_REPR_CHARACTERS = 160
"""Maximum number of characters of the generated text shown in ``repr``."""
CACHE_MISSING = "does not support a key/value cache, so it cannot generate text here."


class GenerationResult(Struct, frozen=True, eq=False):
    """A text and its continuation by a model.

    Parameters
    ----------
    tokens : tuple of str
        All tokens: those of the text, then the generated ones.
    start : int
        Number of tokens of the text.
    probabilities : tuple of float
        Probability of each generated token before temperature, top-k and top-p were applied.
    weights : tuple of ndarray
        The weights of each layer, [head, query, key], for all tokens but the last, which the model
        has not processed.
    layers : tuple of int
        Numbers of the layers in the model.
    cache_bytes : int
        Size of the key/value cache, in bytes.
    """

    tokens: tuple[str, ...]
    start: int
    probabilities: tuple[float, ...]
    text: str
    weights: tuple[np.ndarray, ...]
    layers: tuple[int, ...]
    cache_bytes: int

    def __repr__(self) -> str:
        generated = len(self.tokens) - self.start
        heads = max((len(each) for each in self.weights), default=0)
        sizes = (
            f"{self.start:,} + {generated:,} tokens · {len(self.layers):,} layers × {heads:,} heads"
        )
        return f"<GeneratedText: {self.text[:MAX_REPR_CHARACTERS]!r} · {sizes}>"


def generate(
    model: OpenedModel,
    text: str,
    steps: int,
    sampling: SamplingSettings,
    seed: int = 0,
    report_text: Callable[[str], object] | None = None,
    *,
    is_chat: bool = False,
) -> GenerationResult:
    """Continue a text by the given number of tokens, or until the model ends it.

    Parameters
    ----------
    report_text : callable, optional
        Called with the text that each token adds.
    is_chat : bool
        Whether the text is a user message to which the model replies.

    Raises
    ------
    InputError
        As in `OpenedModel.attend`; with field ``model`` if the model does not generate text; with
        ``tokens`` if too many tokens are requested; with a field of ``sampling`` if its value is
        invalid.
    """
    reader = NextTokenPredictor(model, text, is_chat=is_chat)
    start = len(reader.words)
    if not 1 <= steps <= MAX_STEPS:
        raise InputError(
            "tokens", f"tokens must be at least 1 and at most {MAX_STEPS:,}. It is {steps:,}."
        )
    try:
        model.check_token_count(start + steps - 1)
    except InputError as refused:
        raise InputError(
            "tokens", refused.sentence.replace("a shorter text", "fewer tokens")
        ) from refused
    reader.check_memory(steps)
    check_sampling_settings(sampling)
    rows: list[Mapping[int, np.ndarray]] = []
    numbers: list[int] = []
    chances: list[float] = []
    written, read = "", None
    for _ in range(steps):
        read = reader.predict(numbers)
        rows.append(read.rows)
        logits = read.logits
        drawable = sampling_probabilities(logits, sampling)
        number = sample_token_with_seed(drawable, seed, len(numbers))
        numbers.append(number)
        chances.append(float(sampling_probabilities(logits)[number]))
        if report_text:
            written = _report_new_text(report_text, reader.decode_added_text(numbers), written)
        if number in reader.ends:
            break
    assert read
    layers = sorted(rows[0])
    return GenerationResult(
        (*reader.words, *model.token_texts(numbers)),
        start,
        tuple(chances),
        model.decode_tokens(numbers),
        tuple(
            combine_attention_rows([each[layer] for each in rows], start + len(numbers) - 1)
            for layer in layers
        ),
        tuple(layers),
        read.cache_bytes,
    )


class NextTokenPrediction(Struct, frozen=True, eq=False):
    """Attention weights of the last token of a text, and the logits of the next token.

    Parameters
    ----------
    rows : mapping
        Weights by layer number, [head, query, key]. The queries are all tokens of the given text
        or, if tokens were generated, only the last token.
    logits : ndarray
        Logits of the next token, [vocabulary], float64.
    tokens : int
        Number of tokens in the cache.
    cache_bytes : int
        Size of the cached keys and values, in bytes.
    """

    rows: Mapping[int, np.ndarray]
    logits: np.ndarray
    tokens: int
    cache_bytes: int


class NextTokenPredictor:
    """Reader that runs the model on a text and its generated tokens with one key/value cache.

    The cache is truncated when another branch begins. A cache that cannot be truncated, because it
    keeps only a window or a state, is rebuilt.

    Raises
    ------
    InputError
        As in `OpenedModel.attend`; with field ``model`` if the model does not generate text; with
        ``heads`` if a head does not exist or cannot be ablated.
    """

    def __init__(
        self, model: OpenedModel, text: str, edits: Edits | None = None, *, is_chat: bool = False
    ) -> None:
        model.check_can_generate()
        self._model, self._text = model, model.prepare_text(text, is_chat=is_chat)
        self._given, self.words, _ = model.encode_inputs(text, is_chat=is_chat)
        self._edits = edits or {}
        self._cache: Any = None
        self._read_numbers: list[int] = []
        """Ids of the cached tokens that follow the text."""
        self._last: NextTokenPrediction | None = None
        """Result for the last token; None before the first read."""
        self.ends = _end_token_ids(model)
        """Ids of the tokens that end a text."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """All tokens as strings, which are decoded when they are accessed."""
        return LazyVocabulary(
            self._model.token_texts, 0 if self._last is None else len(self._last.logits)
        )

    def check_memory(self, tokens: int) -> None:
        """Reject the given number of further tokens if their weights would not fit in memory."""
        self._model.check_memory(len(self.words) + tokens)

    def predict(self, numbers: Sequence[int]) -> NextTokenPrediction:
        """Run the model on the text followed by the tokens with these ids; reuse cached tokens.

        Raises
        ------
        InputError
            With field ``text`` if the text has become too long; with ``model`` if the model returns
            no cache.
        """
        wanted = list(numbers)
        if self._last is not None and wanted == self._read_numbers:
            return self._last
        self._model.check_token_count(len(self.words) + len(wanted))
        cached_count = self._truncate_cache(wanted)
        # If the run fails, no cache is kept.
        cache, self._cache, self._last = self._cache, None, None
        with torch.inference_mode():
            by_module = self._model.heads.edits_by_module(self._given, self._edits)
            with self._model.forward.record_calls(by_module) as calls:
                result = self._model.forward.run(
                    {
                        **self._model_inputs(wanted, cached_count),
                        "past_key_values": cache,
                        "use_cache": True,
                    }
                )
        cache = getattr(result, "past_key_values", None)
        if cache is None or not _use_attention_interface(calls):
            raise InputError("model", f"{self._model.folder.name} {CACHE_MISSING}")
        rows = _weights_by_layer(calls)
        if wanted:
            rows = {layer: each[:, -1:] for layer, each in rows.items()}
        self._cache, self._read_numbers = cache, wanted
        self._last = NextTokenPrediction(
            rows,
            to_float64_on_cpu(result.logits[0, -1]).numpy(),
            len(self.words) + len(wanted),
            _cache_bytes(cache),
        )
        return self._last

    def decode_added_text(self, numbers: Sequence[int]) -> str:
        """Return the text that tokens add; an incomplete character at the end is left out."""
        before = self._given["input_ids"][0].tolist()
        start, whole = map(self._model.decode_tokens, (before, [*before, *numbers]))
        is_longer = whole.startswith(start)
        return (whole[len(start) :] if is_longer else self._model.decode_tokens(numbers)).rstrip(
            "�"
        )

    def continued_text(self, numbers: Sequence[int]) -> tuple[str, bool]:
        """Return the text with the tokens, and whether tokenizing it gives the same tokens.

        For a user message, the text begins with the whole output of the chat template.
        """
        text = self._text + self.decode_added_text(numbers)
        wanted = [*self._given["input_ids"][0].tolist(), *numbers]
        first = self._model.required_tokenizer.bos_token
        bare = text.removeprefix(first)  # the tokenizer may add it again
        for each in (text, bare):
            if self._model.encode_inputs(each)[0]["input_ids"][0].tolist() == wanted:
                return each, True
        return text, False

    def _truncate_cache(self, wanted: list[int]) -> int:
        """Truncate the cache to the common prefix; return its length, or -1 if no cache exists."""
        if self._model.ranks.parallelism is Parallelism.PIPELINE:
            # In a process without the first layer, the cache does not contain its own length.
            self._cache = None
            return -1
        pairs = zip(self._read_numbers, wanted, strict=False)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        shared = min(shared, len(wanted) - 1)  # the last token is run again to obtain its row
        surplus = len(self._read_numbers) - shared
        if self._cache is None or shared < 0 or (surplus and not _can_truncate(self._cache)):
            self._cache = None
            return -1
        if surplus:
            self._cache.crop(-surplus)
        return shared

    def _model_inputs(self, wanted: list[int], have: int) -> dict[str, Any]:
        """Return the model inputs, given a cache with the first ``have`` of the wanted tokens.

        If ``have`` is negative, no cache exists, and the inputs include the text.
        """
        ids, mask = self._given["input_ids"], self._given.get("attention_mask")
        more = ids.new_tensor([wanted[max(have, 0) :]])
        if have < 0 and not wanted:
            return dict(self._given)
        inputs = {"input_ids": torch.cat([ids, more], -1) if have < 0 else more}
        if mask is not None:
            inputs["attention_mask"] = torch.cat([mask, mask.new_ones(1, len(wanted))], -1)
        return inputs


class LazyVocabulary(Sequence[str]):
    """The vocabulary of a model as strings, which are decoded when they are accessed.

    Parameters
    ----------
    decode : callable
        Returns the texts of tokens, given their ids.
    """

    def __init__(self, decode: Callable[[Sequence[int]], Sequence[str]], count: int) -> None:
        self._decode, self._count = decode, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return self._decode(range(*at.indices(self._count)))
        if not 0 <= at < self._count:
            raise IndexError(at)
        return self._decode((at,))[0]


def _can_truncate(cache: Any) -> bool:
    """Return whether every layer of a cache stores each token separately."""
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in getattr(cache, "layers", (None,)))


def _use_attention_interface(calls: Sequence[AttentionCall]) -> bool:
    return bool(calls) and all(call.method is RecordingMethod.INTERFACE for call in calls)


def _report_new_text(report_text: Callable[[str], object], text: str, written: str) -> str:
    """Report the text that was added, and return all text reported so far."""
    if not text.startswith(written):
        return written
    report_text(text[len(written) :])
    return text


def _end_token_ids(model: OpenedModel) -> frozenset[int]:
    settings = getattr(model.model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    named = named if isinstance(named, list) else [named]
    return frozenset(number for number in named if isinstance(number, int))


def _weights_by_layer(calls: Sequence[AttentionCall]) -> dict[int, np.ndarray]:
    return {
        layer: call.weights[0].float().cpu().numpy() for layer, call in number_calls_by_layer(calls)
    }


def combine_attention_rows(rows: Sequence[np.ndarray], tokens: int) -> np.ndarray:
    """Combine the rows of all steps into one matrix per head.

    Rows of a sliding window contain only the last keys.
    """
    heads = rows[0].shape[0]
    whole = np.zeros((heads, tokens, tokens), np.float32)
    at = 0
    for row in rows:
        queries, keys = row.shape[1:]
        end = at + queries
        whole[:, at:end, end - keys : end] = row
        at = end
    whole.flags.writeable = False
    return whole


def _cache_bytes(cache: Any) -> int:
    """Return the size, in bytes, of the keys and values in a transformers cache."""
    layers = getattr(cache, "layers", ())
    parts = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    return sum(part.nbytes for part in parts if isinstance(part, torch.Tensor))
