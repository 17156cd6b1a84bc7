"""Formats a text as a user's message, with the chat template of the model's tokenizer.

The template is code from the model's folder. transformers renders it in a sandbox without access
to files and other objects. It is rendered in the process of `TokenizerProcess`, which is terminated
if the template takes too long or too much memory.
"""

from __future__ import annotations

from typing import Any

from visualizer.errors import InputError

MAX_TEMPLATE_LENGTH = 2**18
MAX_ADDED_LENGTH = 2**18
"""Maximum number of characters that a template may add to a text."""


def has_chat_template(tokenizer: Any) -> bool:
    """Whether a transformers tokenizer has a chat template."""
    return bool(getattr(tokenizer, "chat_template", None))


def as_users_message(tokenizer: Any, text: str, name: str) -> str:
    """Return a text as a user's message, up to the start of the model's answer.

    Parameters
    ----------
    tokenizer
        Of transformers, with a template.
    name : str
        Name of the model.

    Raises
    ------
    InputError
        With field ``chat`` if the template fails or is too long.
    """
    try:
        template = tokenizer.get_chat_template()
        if len(template) > MAX_TEMPLATE_LENGTH:
            raise refused_template(name, f"it is longer than {MAX_TEMPLATE_LENGTH:,} characters")
        rendered = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
        )
    except InputError:
        raise
    except Exception as error:  # templates raise various errors
        lines = str(error).strip().splitlines()
        reason = lines[0][:200] if lines else type(error).__name__
        raise refused_template(name, reason) from error
    if len(rendered) > len(text) + MAX_ADDED_LENGTH:
        raise refused_template(name, f"it adds more than {MAX_ADDED_LENGTH:,} characters")
    return str(rendered)


def without_template(name: str) -> InputError:
    """Return the error for a model without a template."""
    return InputError("chat", f"{name} has no chat template. Use the text without one.")


def refused_template(name: str, reason: str) -> InputError:
    """Return the error for a template that cannot be used."""
    sentence = f"The chat template of {name} failed: {reason.rstrip('.')}."
    return InputError("chat", f"{sentence} Use the text without a template.")
