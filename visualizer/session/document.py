"""What is computed, undone and later saved: the text and the spec.

Tokens that are typed for captured attention, whose file does not name them.

Texts and settings that are asked for, as a document.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from visualizer.attention.mechanisms import Mechanism, mechanism_of, spec_of
from visualizer.attention.spec import AttentionSpec, Mask, problems
from visualizer.errors import InputError, Problem
from visualizer.language.tokenizers import Tokenizer, tokenize
from visualizer.number_format import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.attention.captured import CapturedAttention

BOOK_SENTENCE = "Your journey starts with one step"


class LineSplit(StrEnum):
    """Whether the lines of the text are one text, or a batch of texts."""

    TOGETHER = "together"
    APART = "apart"


@dataclass(frozen=True, slots=True)
class Document:
    """One text or batch of texts, and the attention module to run on it.

    Parameters
    ----------
    captured : Captured or None
        Attention that was computed elsewhere, shown instead of text and module.
    labels : str
        What was typed for its tokens; it is the text that one sees and types meanwhile.
    """

    text: str = BOOK_SENTENCE
    tokenizer: Tokenizer = Tokenizer.WORDS
    lines: LineSplit = LineSplit.TOGETHER
    spec: AttentionSpec = field(default_factory=AttentionSpec)
    captured: CapturedAttention | None = None
    labels: str = ""

    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """Split into texts and tokens; lines without a token are left out of a batch."""
        if self.lines is LineSplit.TOGETHER:
            return (_tokens(self.text, self.tokenizer),)
        split = (_tokens(line, self.tokenizer) for line in self.text.splitlines())
        return tuple(tokens for tokens in split if tokens)

    def problems(self) -> tuple[Problem, ...]:
        """Say what is wrong with its settings; nothing where these do not count."""
        return () if self.captured else problems(self.spec)

    def held(self) -> tuple[bytes, ...]:
        """Give the numbers and the cells of its own matrices: what of it can be large."""
        spec = self.spec
        cells = [own.bits for own in (spec.own_mask, spec.own_kept) if own]
        given = [spec.own_input] if spec.own_input else []
        matrices = [*given, *(matrix for _, matrix in spec.own_weights)]
        captured = (self.captured.numbers,) if self.captured else ()
        return (*cells, *(matrix.numbers for matrix in matrices), *captured)

    def get(self, name: str) -> Any:
        """Read a setting by name: a field of the document or of its spec, or one derived."""
        if name == "text" and self.captured:
            return self.labels
        if name == "mechanism":
            return mechanism_of(self.spec)
        if name == "causal":
            return self.spec.mask is Mask.CAUSAL
        if name == "painted":
            return self.spec.own_mask if self.spec.mask is Mask.OWN else None
        return getattr(self if name in _OWN else self.spec, name)

    def set(self, name: str, value: Any) -> Document:
        """Give the document with one setting changed, by the names that `get` takes."""
        if name == "captured":
            return replace(self, captured=value, labels="")
        if name == "text" and self.captured:
            return replace(self, labels=value)
        if name == "mechanism":
            return replace(self, spec=spec_of(Mechanism(value), self.spec))
        if name == "causal":
            mask = Mask.CAUSAL if value else Mask.NONE
            return replace(self, spec=replace(self.spec, mask=mask))
        if name == "painted":
            return replace(self, spec=replace(self.spec, mask=Mask.OWN, own_mask=value))
        if name in _OWN:
            return replace(self, **{name: value})
        return replace(self, spec=replace(self.spec, **{name: value}))


_OWN = frozenset({"text", "tokenizer", "lines", "captured"})


# Most changes are of something else than the text.
_tokens = lru_cache(maxsize=64)(tokenize)


def changed_span(old: str, new: str) -> tuple[int, int]:
    """Say where a text differs from an older one: the part of the new one that was written."""
    shorter = min(len(old), len(new))
    start = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - start
    same = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    return start, len(new) - same


def typed(old: str, new: str) -> tuple[bool, str]:
    """Say whether a text became another by one key, and what was written."""
    start, end = changed_span(old, new)
    written = end - start
    is_one_more_or_less = written + (len(old) - len(new) + written) == 1
    return is_one_more_or_less, new[start:end]


Tokens = tuple[str, ...]
Labels = tuple[Tokens, Tokens]
"""Of the queries, and of the keys."""


def typed_labels(document: Document) -> Labels:
    """Take the tokens of captured attention from what was typed.

    One text names queries and keys where these are as many; else a line each does. Where the
    tokenizer makes another number of tokens, what stands between blanks is tried: ``[CLS]``.

    Returns
    -------
    Labels
        Empty where nothing was typed.

    Raises
    ------
    InputError
        When these are not as many tokens as there are queries and keys.
    """
    captured = document.captured
    if captured is None or not document.labels.strip():
        return (), ()
    by_tokenizer = partial(tokenize, tokenizer=document.tokenizer)
    found = _fitting(captured, document.labels, by_tokenizer)
    found = found or _fitting(captured, document.labels, _between_blanks)
    if found is None:
        raise InputError("text", _needed(captured, document.labels, by_tokenizer))
    return found


def _between_blanks(text: str) -> Tokens:
    return tuple(text.split())


def _fitting(
    captured: CapturedAttention, text: str, split: Callable[[str], Tokens]
) -> Labels | None:
    whole = split(text)
    if captured.is_square and len(whole) == captured.queries:
        return whole, whole
    lines = [tokens for tokens in map(split, text.splitlines()) if tokens]
    if [len(tokens) for tokens in lines] == [captured.queries, captured.keys]:
        return lines[0], lines[1]
    return None


def _needed(captured: CapturedAttention, text: str, split: Callable[[str], Tokens]) -> str:
    if captured.is_square:
        count = len(split(text))
        typed = f"{format_count(count, 'token')} {'is' if count == 1 else 'are'} typed"
        return f"{typed}, and {captured.queries:,} are needed; without any, places are numbered."
    lines = filter(None, (len(split(line)) for line in text.splitlines()))
    return (
        f"Type {format_count(captured.queries, 'token')} for the queries on one line and "
        f"{captured.keys:,} for the keys on the next; typed are {' and '.join(map(str, lines))}."
    )


# Qt shows these otherwise than they are: a text is the same here and in the sentence box.
_AS_SHOWN = str.maketrans({"\r": "\n", "\u2028": "\n", "\u2029": "\n", "\u00a0": " "})


def text_of(text: str) -> str:
    """Take a text as the sentence box would.

    Raises
    ------
    InputError
        When it is blank.
    """
    if not text or text.isspace():
        raise InputError("text", f"got {text[:20]!r}, takes a text that is not blank")
    return text.replace("\r\n", "\n").translate(_AS_SHOWN)


def document_of(
    texts: Sequence[str], settings: Mapping[str, object], base: Document | None = None
) -> Document:
    """Make the document of texts and settings.

    Parameters
    ----------
    texts : sequence of str
        Several are a batch, or the tokens of queries and of keys where attention was captured;
        where there is none, those of the base stay.
    settings : mapping
        By the names that `Document.set` takes; the mechanism is set before the others.
    base : Document, optional
        What holds where nothing else is asked for.
    """
    document = base or Document()
    if texts:
        apart = [" ".join(text.splitlines()) for text in texts]  # a line is a text from now on
        document = document.set("text", "\n".join(apart if len(texts) > 1 else texts))
    if texts and not document.captured:
        lines = LineSplit.APART if len(texts) > 1 else LineSplit.TOGETHER
        document = document.set("lines", lines)
    for name in sorted(settings, key=lambda name: name != "mechanism"):
        document = document.set(name, settings[name])
    return document
