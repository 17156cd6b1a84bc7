"""Runs transformers tokenizers in the process that `TokenizerProcess` starts.

Messages have the format of `visualizer.language.wire_format`. They are read from standard input and
answered on standard output, one by one. The process exits at the end of the input, after being idle
without tokenizers, and if a response exceeds its time limit. A thread that does not need the GIL
enforces the time limit; the process therefore exits no matter what a tokenizer or template does,
even if the parent process no longer waits for it.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from visualizer.attention.token_labels import (
    BYTE_TOKEN_PATTERN,
    METASPACE,
    decode_byte_level_token,
    decode_bytes,
)
from visualizer.errors import InputError, first_line
from visualizer.language.wire_format import Message, open_message_sender, read_messages
from visualizer.models.model_tokenizer import format_user_message, has_chat_template, special_names
from visualizer.process_settings import trim_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TRANSFORMERS_PACKAGE = "transformers"
IDLE_TIMEOUT_S = 60.0
SKIPPED_IMPORTS = ("torch", "torchvision", "PIL")
"""Modules that are slow to import and that the tokenizers of transformers do not need."""


class LoadedTokenizer(Struct, frozen=True):
    """A tokenizer, with the name of its model."""

    name: str
    tokenizer: Any


class TokenizerServer:
    """Server that stores tokenizers under the ids that the client assigns to them."""

    def __init__(self) -> None:
        self._known: dict[int, LoadedTokenizer] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no tokenizers are loaded."""
        return not self._known

    def handle_message(self, message: Message) -> Message:
        """Return the response to a message: ``answered``, ``refused`` or ``failed``."""
        try:
            return Message("answered", _ANSWERS[message.kind](self, message.values))
        except InputError as refused:
            return Message("refused", {"field": refused.field, "sentence": refused.sentence})
        except Exception as error:  # noqa: BLE001 - third-party tokenizers raise various errors
            return Message("failed", {"reason": first_line(error)})

    def _load_tokenizer(self, values: Mapping[str, Any]) -> dict[str, Any]:
        library: Any = importlib.import_module(TRANSFORMERS_PACKAGE)
        tokenizer = library.AutoTokenizer.from_pretrained(
            values["folder"], local_files_only=True, trust_remote_code=False
        )
        self._known[values["number"]] = LoadedTokenizer(values["name"], tokenizer)
        return {
            "special_names": [*special_names(tokenizer).items()],
            "has_chat_template": has_chat_template(tokenizer),
            "bos_token": getattr(tokenizer, "bos_token", None) or "",
        }

    def _unload_tokenizers(self, values: Mapping[str, Any]) -> dict[str, Any]:
        for number in values["numbers"]:
            self._known.pop(number, None)
        gc.collect()
        trim_freed_memory()
        return {}

    def _encode_text(self, values: Mapping[str, Any]) -> dict[str, Any]:
        tokenizer = self._find_tokenizer(values).tokenizer
        texts = [values["text"], *([] if values["second"] is None else [values["second"]])]
        coded = tokenizer(*texts, add_special_tokens=values["has_special"])
        count = len(coded["input_ids"])
        if count > values["most"]:
            return {"count": count, "numbers": {}, "words": []}
        numbers = {name: [*map(int, each)] for name, each in coded.items()}
        return {
            "count": count,
            "numbers": numbers,
            "words": _token_texts(tokenizer, coded["input_ids"]),
        }

    def _decode_text(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": _decode_tokens(self._find_tokenizer(values).tokenizer, values["numbers"])}

    def _list_token_texts(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {"words": _token_texts(self._find_tokenizer(values).tokenizer, values["numbers"])}

    def _render_chat_message(self, values: Mapping[str, Any]) -> dict[str, Any]:
        known = self._find_tokenizer(values)
        return {"text": format_user_message(known.tokenizer, values["text"], known.name)}

    def _find_tokenizer(self, values: Mapping[str, Any]) -> LoadedTokenizer:
        return self._known[values["number"]]


_ANSWERS: dict[str, Callable[[TokenizerServer, Mapping[str, Any]], dict[str, Any]]] = {
    "load": TokenizerServer._load_tokenizer,
    "forget": TokenizerServer._unload_tokenizers,
    "encode": TokenizerServer._encode_text,
    "decode": TokenizerServer._decode_text,
    "words": TokenizerServer._list_token_texts,
    "message": TokenizerServer._render_chat_message,
}


def _decode_tokens(tokenizer: Any, numbers: list[int]) -> str:
    return str(tokenizer.decode(numbers, clean_up_tokenization_spaces=False))


def _token_texts(tokenizer: Any, numbers: Iterable[int]) -> list[str]:
    """Decode each token separately."""
    known = {number: _token_text(tokenizer, number) for number in {*numbers}}
    return [known[number] for number in numbers]


def _token_text(tokenizer: Any, number: int) -> str:
    word = _decode_tokens(tokenizer, [number])
    known = tokenizer.convert_ids_to_tokens(number)
    if not word or "�" in word:  # a part of a character
        if not isinstance(known, str):
            return f"#{number}"
        content = None if BYTE_TOKEN_PATTERN.fullmatch(known) else decode_byte_level_token(known)
        return known if content is None else decode_bytes(content)
    if isinstance(known, str) and known.startswith(METASPACE) and not word.startswith(" "):
        return f" {word}"  # decoding drops a leading space
    return word


def main() -> int:
    """Respond to messages until the input ends, and return the exit status."""
    send = open_message_sender()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # terminals send it to the whole process group
    sys.modules.update(dict.fromkeys(SKIPPED_IMPORTS))  # type: ignore[arg-type]  # None blocks an import
    with suppress(Exception):  # the first use fails again, with the reason
        from transformers import AutoTokenizer  # noqa: F401 - preloaded
    server = TokenizerServer()
    faulthandler.dump_traceback_later(IDLE_TIMEOUT_S, exit=True)
    for message in read_messages(sys.stdin.fileno()):
        faulthandler.dump_traceback_later(message.values["seconds"], exit=True)
        answer = server.handle_message(message)
        faulthandler.cancel_dump_traceback_later()
        send(answer)
        if server.is_empty:
            faulthandler.dump_traceback_later(IDLE_TIMEOUT_S, exit=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
