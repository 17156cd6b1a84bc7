"""The tokenizer of an opened model: tokens, special tokens and its chat template."""

from __future__ import annotations

from itertools import count
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol
from weakref import finalize

from msgspec import Struct

from visualizer.errors import InputError, first_line
from visualizer.models.tokenizer_process import (
    ProcessEndedError,
    ResponseLimits,
    TokenizerError,
    TokenizerLocation,
    tokenizer_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from visualizer.models.model_folder import ModelFolder

MAX_TEMPLATE_LENGTH = 2**18
MAX_ADDED_LENGTH = 2**18
"""Maximum number of characters that a template may add to a text."""


def has_chat_template(tokenizer: Any) -> bool:
    """Return whether a transformers tokenizer has a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def format_user_message(tokenizer: Any, text: str, name: str) -> str:
    """Return a text as a user message, up to the start of the model's reply.

    Parameters
    ----------
    tokenizer
        A tokenizer of transformers with a chat template.
    name : str
        Name of the model.

    Raises
    ------
    InputError
        With field ``chat`` if the template fails or is too long, or adds too much text.
    """
    try:
        template = tokenizer.get_chat_template()
        if len(template) > MAX_TEMPLATE_LENGTH:
            raise invalid_chat_template_error(
                name, f"it is longer than {MAX_TEMPLATE_LENGTH:,} characters"
            )
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
        )
    except InputError:
        raise
    except Exception as error:  # templates raise various errors
        raise invalid_chat_template_error(name, first_line(error)) from error
    if len(rendered) > len(text) + MAX_ADDED_LENGTH:
        raise invalid_chat_template_error(
            name, f"it adds more than {MAX_ADDED_LENGTH:,} characters"
        )
    return str(rendered)


def missing_chat_template_error(name: str) -> InputError:
    """Return the error for a model without a template."""
    return InputError("chat", f"{name} has no chat template. Use the text without a template.")


def invalid_chat_template_error(name: str, reason: str) -> InputError:
    """Return the error for a template that cannot be used."""
    sentence = f"The chat template of {name} failed: {reason.rstrip('.')}."
    return InputError("chat", f"{sentence} Use the text without a template.")


MAX_MODEL_TOKENS = 20_000
"""Maximum number of tokens of a text for a model."""
SPLIT_LIMITS = ResponseLimits(20, 2**30)
CHAT_LIMITS = ResponseLimits(2, 2**28)
CANCEL_CHECK_INTERVAL_S = 0.05

_numbers = count()


class EncodedText(Struct, frozen=True):
    """A tokenized text.

    Parameters
    ----------
    inputs : mapping
        Inputs of the model by argument name, one number per token; empty if there are more than
        `MAX_MODEL_TOKENS` tokens.
    """

    count: int
    inputs: Mapping[str, Sequence[int]]
    tokens: Sequence[str]


class ModelTokenizer(Protocol):
    """Interface of model tokenizers."""

    has_chat_template: bool
    bos_token: str
    """Text of the BOS token; empty if there is none."""
    special_names: Mapping[int, str]
    """Descriptions of the special tokens, by id."""

    def encode(
        self, text: str, second: str | None = None, *, has_special: bool = True
    ) -> EncodedText:
        """Tokenize a text or a pair of texts, with or without special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Decode tokens into one text."""
        ...

    def token_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Decode each token separately."""
        ...

    def format_user_message(self, text: str, name: str) -> str:
        """Format a text as a user message; the model's name is used in error messages."""
        ...


class FolderTokenizer:
    """The transformers tokenizer of a model folder.

    Raises
    ------
    InputError
        With field ``model`` if the tokenizer cannot be loaded. The methods raise errors with the
        fields ``text`` and ``chat``.
    """

    def __init__(self, folder: ModelFolder) -> None:
        self.location = TokenizerLocation(next(_numbers), str(folder.path.absolute()), folder.name)
        self._token_texts: dict[int, str] = {}
        """Cached texts of tokens, keyed by id."""
        finalize(self, tokenizer_process.close_tokenizer, self.location.number)
        sentence = f"Cannot load the tokenizer of {folder.name}"
        try:
            found = tokenizer_process.load_tokenizer(self.location)
        except TokenizerError as error:
            raise InputError("model", f"{sentence}.") from error
        except ProcessEndedError as ended:
            raise InputError("model", f"{sentence}: {ended}.") from ended
        self.has_chat_template: bool = found["has_chat_template"]
        self.bos_token: str = found["bos_token"]
        self.special_names: Mapping[int, str] = dict(found["special_names"])

    def encode(
        self, text: str, second: str | None = None, *, has_special: bool = True
    ) -> EncodedText:
        """See `ModelTokenizer`."""
        found = self._ask_tokenizer_process(
            "encode", text=text, second=second, has_special=has_special, most=MAX_MODEL_TOKENS
        )
        return EncodedText(found["count"], found["numbers"], found["words"])

    def decode(self, ids: Sequence[int]) -> str:
        """See `ModelTokenizer`."""
        return str(self._ask_tokenizer_process("decode", numbers=[*ids])["text"])

    def token_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """See `ModelTokenizer`."""
        if unknown := [*{*ids} - self._token_texts.keys()]:
            found = self._ask_tokenizer_process("words", numbers=unknown)["words"]
            self._token_texts.update(zip(unknown, found, strict=True))
        return tuple(self._token_texts[each] for each in ids)

    def format_user_message(self, text: str, name: str) -> str:
        """See `ModelTokenizer`."""
        if not self.has_chat_template:
            raise missing_chat_template_error(name)
        try:
            return str(
                tokenizer_process.send_request(
                    self.location, "message", {"text": text}, CHAT_LIMITS
                )["text"]
            )
        except (TokenizerError, ProcessEndedError) as error:
            raise invalid_chat_template_error(name, str(error)) from error

    def _ask_tokenizer_process(self, kind: str, **values: Any) -> Mapping[str, Any]:
        try:
            return tokenizer_process.send_request(self.location, kind, values, SPLIT_LIMITS)
        except (TokenizerError, ProcessEndedError) as error:
            sentence = f"The tokenizer of {self.location.name} failed on this text: {error}."
            raise InputError("text", sentence) from error


class BackgroundTokenizerLoader:
    """Tokenizer that is loaded on a background thread, which waits for the tokenizer process."""

    def __init__(self, folder: ModelFolder) -> None:
        # Unlike a future, a queue does not keep the error and the objects in its traceback alive.
        self._results: SimpleQueue[FolderTokenizer | Exception] = SimpleQueue()
        Thread(target=_load_tokenizer, args=(folder, self._results), daemon=True).start()

    def wait_for_tokenizer(self, check: Callable[[], object]) -> FolderTokenizer:
        """Wait until the tokenizer is loaded; return it or raise its error.

        Parameters
        ----------
        check : callable
            Called repeatedly; an exception that it raises ends the wait.
        """
        while True:
            try:
                found = self._results.get(timeout=CANCEL_CHECK_INTERVAL_S)
            except Empty:
                check()
                continue
            if isinstance(found, Exception):
                raise found
            return found


def _load_tokenizer(folder: ModelFolder, results: SimpleQueue[FolderTokenizer | Exception]) -> None:
    try:
        results.put(FolderTokenizer(folder))
    except Exception as error:  # noqa: BLE001 - raised again by `result`
        results.put(error)


SPECIAL_TOKEN_NAMES = {
    "bos_token": "BOS: start of the text",
    "eos_token": "EOS: end of the text",
    "cls_token": "CLS: represents the whole text",
    "sep_token": "SEP: separates two texts, or ends the text",
    "pad_token": "PAD: padding",
    "mask_token": "MASK: masked token",
    "unk_token": "UNK: not in the vocabulary",
}
"""Descriptions of special tokens by their names in transformers; if a token has several names, the
first name is used.
"""
UNNAMED_SPECIAL_TOKEN = "a special token of this model"


def special_names(tokenizer: Any) -> dict[int, str]:
    """Return descriptions of the special tokens, by id."""
    found = dict.fromkeys(getattr(tokenizer, "all_special_ids", ()), UNNAMED_SPECIAL_TOKEN)
    added = getattr(tokenizer, "added_tokens_decoder", {})
    found |= {
        number: UNNAMED_SPECIAL_TOKEN
        for number, token in added.items()
        if getattr(token, "special", False)
    }
    for name in reversed(SPECIAL_TOKEN_NAMES):
        number = getattr(tokenizer, f"{name}_id", None)
        if isinstance(number, int):
            found[number] = SPECIAL_TOKEN_NAMES[name]
    return found
