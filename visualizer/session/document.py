"""The document, which is saved and has an undo history: text, spec and source of attention."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.saved_numbers import (
    are_numbers_local,
    attach_numbers,
    captured_attention_of_layer,
    captured_header,
)
from visualizer.attention.settings import setting_value, with_setting
from visualizer.attention.spec import AttentionSpec, MaskKind
from visualizer.attention.spec_validation import spec_problems
from visualizer.brief_repr import brief_repr
from visualizer.language.tokenizers import TokenizerKind, tokenize

if TYPE_CHECKING:
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.run import Run
    from visualizer.errors import Problem
    from visualizer.models.model_source import ModelSource

BOOK_SENTENCE = "Your journey starts with one step"
LONG_TEXT_CHARACTERS = 10_000
"""Number of characters above which a text is long."""


class LineGrouping(StrEnum):
    """Whether the lines of the entered text form one text or a batch of texts."""

    TOGETHER = "together"
    APART = "apart"


class Document(Struct, frozen=True):
    """One text or batch of texts, and the attention module to run on it.

    Parameters
    ----------
    captured : CapturedAttention or None
        Attention that was computed elsewhere and replaces the text and the module. If there is a
        model, this contains the model's results for the text at the time of saving.
    model : ModelSource or None
        The model that runs on the text, instead of a module.
    labels : str
        The token labels that the user entered; they are edited instead of the text while captured
        attention is shown.
    weights_source : str
        Phrase that names the source of the custom weights, or of the custom vectors if the module
        has no weights; empty if they were entered by the user or passed as arrays.
    """

    text: str = BOOK_SENTENCE
    tokenizer: TokenizerKind = TokenizerKind.WORDS
    lines: LineGrouping = LineGrouping.TOGETHER
    spec: AttentionSpec = field(default_factory=AttentionSpec)
    captured: CapturedAttention | None = None
    labels: str = ""
    model: ModelSource | None = None
    weights_source: str = ""

    __repr__ = brief_repr

    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """Return the tokens of each text; a batch omits lines without tokens."""
        if self.lines is LineGrouping.TOGETHER:
            return (_tokenize_cached(self.text, self.tokenizer),)
        split = (_tokenize_cached(line, self.tokenizer) for line in self.text.splitlines())
        return tuple(tokens for tokens in split if tokens)

    @property
    def max_text_tokens(self) -> int:
        """Number of tokens in the longest text."""
        return max(map(len, self.tokens()), default=0)

    @property
    def has_module(self) -> bool:
        """Whether the attention is computed by a module rather than elsewhere."""
        return self.captured is None and self.model is None

    @property
    def has_labels(self) -> bool:
        """Whether the entered text consists of token labels."""
        return self.captured is not None and self.model is None

    @property
    def takes_image(self) -> bool:
        """Whether the model takes an image instead of the text."""
        return self.model is not None and self.model.image is not None

    @property
    def needs_image(self) -> bool:
        """Whether the model takes an image and none has been chosen yet."""
        image = self.model.image if self.model else None
        return image is not None and not image.path

    def with_results(self, run: Run) -> Document:
        """Return the document with its model's results, if the run is for the document's text.

        Values of captured attention that are stored only in the run are also added.
        """
        reading = run.reading
        if self.model is None:
            captured = attach_numbers(self.captured, run)
            return self if captured is self.captured else replace(self, captured=captured)
        if reading is None:
            return self
        made_of = (self.model, self.text, self.spec.device, self.spec.dtype)
        if reading.made_of != made_of:  # the forward pass belongs to an earlier text
            return self
        model = replace(self.model, layers=reading.layers)
        captured = reading.captured
        if captured is None and reading.fetch_captured:
            captured = reading.fetch_captured()
        return replace(self, captured=captured, model=model)

    def with_layer_data(self, run: Run, layer: int) -> Document | None:
        """Return the document with one layer's data from its run, or None if the data is missing.

        Parameters
        ----------
        layer : int
            The index of the layer in the run.
        """
        reading = run.reading
        if self.model is not None:
            made_of = (self.model, self.text, self.spec.device, self.spec.dtype)
            if reading is None or reading.made_of != made_of or reading.captured is not None:
                return None
            if reading.fetch_captured is None or not are_numbers_local(run):
                return None
        elif self.captured is None or self.captured != captured_header(run):
            return None
        captured = captured_attention_of_layer(run, layer)
        if captured is None:
            return None
        model = self.model
        if model is not None and reading is not None:
            model = replace(model, layers=(reading.layers[layer],))
        return replace(self, captured=captured, model=model)

    def setting_problems(self) -> tuple[Problem, ...]:
        """Return the problems with the settings, unless the settings have no effect."""
        return spec_problems(self.spec) if self.has_module else ()

    def large_objects(self) -> tuple[bytes | str, ...]:
        """Return the objects that use most of the document's memory: its buffers and long texts."""
        texts = (self.text, self.labels, self.model.second if self.model else "")
        return (*self.data_buffers(), *(text for text in texts if len(text) > LONG_TEXT_CHARACTERS))

    def data_buffers(self) -> tuple[bytes, ...]:
        """Return the data and masks of custom matrices and of captured attention."""
        spec = self.spec
        cells = [own.bits for own in (spec.own_mask, spec.own_kept) if own]
        given = [spec.own_input] if spec.own_input else []
        matrices = [*given, *(matrix for _, matrix in spec.own_weights)]
        captured = self.captured.buffers() if self.captured else ()
        return (*cells, *(matrix.numbers for matrix in matrices), *captured)

    def get_setting(self, name: str) -> Any:
        """Return a setting by name: a field of the document or its spec, or a derived setting."""
        if name == "text" and self.has_labels:
            return self.labels
        if name in MODEL_FIELDS:
            return getattr(self.model, name) if self.model else None
        if name == "painted":
            return self.spec.own_mask if self.spec.mask is MaskKind.OWN else None
        if name in _DOCUMENT_SETTINGS:
            return getattr(self, name)
        return setting_value(self.spec, name)

    def with_setting(self, name: str, value: Any) -> Document:
        """Return the document with one changed setting; the names are those of `get`."""
        if name == "captured":
            return replace(self, captured=value, labels="", model=None)
        if name == "model":
            return replace(self, captured=None, labels="", model=value)
        if name in MODEL_FIELDS and self.model:
            return self.with_setting("model", replace(self.model, **{name: value}))
        if name == "text" and self.has_labels:
            return replace(self, labels=value)
        if name == "text":
            return replace(self, text=value, captured=None)
        if name in _DOCUMENT_SETTINGS:
            return replace(self, **{name: value})
        if name == "painted":
            return replace(self, spec=replace(self.spec, mask=MaskKind.OWN, own_mask=value))
        given = "own_weights" if self.spec.weight_names else "own_input"
        source = "" if name == given else self.weights_source
        spec = with_setting(self.spec, name, value)
        return replace(self, spec=spec, weights_source=source)


_DOCUMENT_SETTINGS = frozenset({"text", "tokenizer", "lines", "captured", "model"})
MODEL_FIELDS = frozenset({"second", "part", "image"})
"""Model inputs in addition to the text; they have no effect without a model."""


def default_document() -> Document:
    """Return the document of a window that is opened without one: two heads of size 2.

    Its context vectors are those that the book prints for ``MultiHeadAttentionWrapper`` (Raschka
    2024, §3.6.1). With the settings of a plain `Document`, which are those of §3.6.2, every head
    would have a single column.
    """
    return Document(spec=apply_mechanism(Mechanism.STACKED))


def _tokenize_cached(text: str, tokenizer: TokenizerKind) -> tuple[str, ...]:
    return (_tokens_of_long if len(text) > LONG_TEXT_CHARACTERS else _tokens_of_short)(
        text, tokenizer
    )


# Most changes do not affect the text. While a long text is edited, each key press creates a new
# text, and its tokens take several megabytes.
_tokens_of_short = lru_cache(maxsize=64)(tokenize)
_tokens_of_long = lru_cache(maxsize=4)(tokenize)


def find_changed_span(old: str, new: str) -> tuple[int, int]:
    """Return the span of the new text that differs from the old text."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - start
    same = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    return start, len(new) - same


def detect_typed_text(old: str, new: str) -> tuple[bool, str]:
    """Return whether a single keystroke made the change, and the text that it inserted."""
    start, end = find_changed_span(old, new)
    written = end - start
    is_one_more_or_less = written + (len(old) - len(new) + written) == 1
    return is_one_more_or_less, new[start:end]


def truncate_text_to_tokens(document: Document, count: int) -> str:
    """Truncate a document's text to `count` tokens, or each line of a batch separately."""
    is_one = document.lines is LineGrouping.TOGETHER
    parts = [document.text] if is_one else document.text.splitlines()
    return "\n".join(_prefix_with_tokens(part, document.tokenizer, count) for part in parts)


def _prefix_with_tokens(text: str, tokenizer: TokenizerKind, count: int) -> str:
    wanted = tokenize(text, tokenizer)[:count]

    def has_all_tokens(length: int) -> bool:
        return tokenize(text[:length], tokenizer)[:count] == wanted

    return text[: bisect_left(range(len(text)), True, key=has_all_tokens)]
