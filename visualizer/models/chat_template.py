"""A text as a user's message to a model, by the chat template of its tokenizer.

The template is code of the model's folder. transformers renders it in a sandbox, which keeps it
from files and from other objects. Its own length and that of what it writes are bounded here. Its
time is, too, as it is looked at between two lines of Python: a single operation is not interrupted.
Products and powers, which make the largest numbers and texts in one, are refused before anything is
compiled.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LONGEST_TEMPLATE = 2**18
LONGEST_ADDED = 2**18
"""How many letters a template may add to a text."""
MOST_SECONDS = 2.0
TAKES_LONG = f"it takes longer than {MOST_SECONDS:g} seconds"


def has_chat_template(tokenizer: Any) -> bool:
    """Whether a tokenizer says how a message is given to its model."""
    return bool(getattr(tokenizer, "chat_template", None))


def as_users_message(tokenizer: Any, text: str, name: str) -> str:
    """Return a text as a user's message, up to where the model's answer begins.

    Parameters
    ----------
    name : str
        What the model is called.

    Raises
    ------
    InputError
        Of ``chat``, when there is no template, or it fails, is too long or takes too long.
    """
    if not has_chat_template(tokenizer):
        raise InputError("chat", f"{name} has no chat template. Give the text as it is.")
    try:
        template = tokenizer.get_chat_template()
        if len(template) > LONGEST_TEMPLATE:
            raise _refused(name, f"it is longer than {LONGEST_TEMPLATE:,} letters")
        if _multiplies(template):
            raise _refused(name, "it multiplies, which may take any time and memory")
        with _stopped_after(MOST_SECONDS):
            rendered = tokenizer.apply_chat_template(
                [{"role": "user", "content": text}],
                chat_template=template,
                tokenize=False,
                add_generation_prompt=True,
            )
    except InputError:
        raise
    except Exception as error:  # a template fails in its own way
        lines = str(error).strip().splitlines()
        reason = lines[0][:200] if lines else type(error).__name__
        raise _refused(name, reason) from error
    if len(rendered) > len(text) + LONGEST_ADDED:
        raise _refused(name, f"it adds more than {LONGEST_ADDED:,} letters")
    return str(rendered)


def _multiplies(template: str) -> bool:
    """Whether a template has a product or a power; what follows from constants is compiled away."""
    from jinja2 import Environment  # transformers renders with it

    tokens = Environment(autoescape=True).lex(template)
    return any(kind == "operator" and value in ("*", "**") for _, kind, value in tokens)


def _refused(name: str, reason: str) -> InputError:
    sentence = f"The chat template of {name} cannot be used: {reason.rstrip('.')}."
    return InputError("chat", f"{sentence} Give the text as it is.")


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """End what this thread does after a time, at the next line of Python that it comes to."""
    end = time.monotonic() + seconds

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        if time.monotonic() > end:
            raise TimeoutError(TAKES_LONG)
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        yield
    finally:
        sys.settrace(before)
