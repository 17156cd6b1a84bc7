"""Builds a document from texts and settings given by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from visualizer.attention.spec import BIAS, BLOCK_LAYERS, LAYERS, Arrangement, Projection
from visualizer.errors import InputError
from visualizer.session.document import Document, LineSplit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from visualizer.attention.spec import AttentionSpec, NumberMatrix


# Qt displays these characters differently; a normalized text equals the text in the editor.
_AS_SHOWN = str.maketrans({"\r": "\n", "\u2028": "\n", "\u2029": "\n", "\u00a0": " "})

_FIRST = {"d_in": 0, "mechanism": 1}
"""Settings that are applied before the others, in this order."""


def text_of(text: str) -> str:
    """Normalize a text as the text editor does.

    Raises
    ------
    InputError
        If it is blank.
    """
    if not text or text.isspace():
        raise InputError("text", f"invalid value {text[:20]!r}: must not be blank")
    return text.replace("\r\n", "\n").translate(_AS_SHOWN)


def document_of(
    texts: Sequence[str], settings: Mapping[str, Any], base: Document | None = None
) -> Document:
    """Create a document from texts and settings.

    Missing sizes are taken from custom vectors and weights, and custom biases turn biases on. If
    there is neither a text nor a base, custom vectors belong to numbered tokens.

    Parameters
    ----------
    texts : sequence of str
        Several texts form a batch, or the labels of queries and of keys of captured attention;
        none keeps the texts of the base.
    settings : mapping
        By the names of `Document.set`; the embedding size and then the mechanism, which may need
        it, are set before the others.
    base : Document, optional
        Supplies everything that is not given.
    """
    document = base or Document()
    if not texts and base is None and settings.get("own_input"):
        texts = [" ".join(str(place + 1) for place in range(settings["own_input"].rows))]
    if texts:
        apart = [" ".join(text.splitlines()) for text in texts]  # each line becomes a text
        document = document.set("text", "\n".join(apart if len(texts) > 1 else texts))
    if texts and document.has_module:
        lines = LineSplit.APART if len(texts) > 1 else LineSplit.TOGETHER
        document = document.set("lines", lines)
    own_input = settings.get("own_input")
    if own_input and "d_in" not in settings:
        document = document.set("d_in", own_input.columns)
    for name in sorted(settings, key=lambda name: _FIRST.get(name, len(_FIRST))):
        document = document.set(name, settings[name])
    return replace(document, spec=_fitting_own(document.spec, settings))


def _fitting_own(spec: AttentionSpec, settings: Mapping[str, Any]) -> AttentionSpec:
    """Infer sizes and biases that are not set from custom vectors and weights."""
    found: dict[str, Any] = {}
    share = max(1, spec.heads if spec.arrangement is Arrangement.STACKED else 1)
    for name, matrix in settings.get("own_weights") or ():
        if name.removesuffix(BIAS) in BLOCK_LAYERS:
            found |= _sizes_of_block(name, matrix)
            continue
        if name in LAYERS:
            found["d_in"] = matrix.rows
        elif name.removesuffix(BIAS) in LAYERS and spec.projection is Projection.LINEAR:
            found["bias"] = True
        found["d_out"] = matrix.columns // share
    if settings.get("own_input"):
        found["d_in"] = settings["own_input"].columns
    return replace(spec, **{name: value for name, value in found.items() if name not in settings})


def _sizes_of_block(name: str, matrix: NumberMatrix) -> dict[str, int]:
    """Return the feed-forward size of custom weights of a block."""
    return {"linear1": {"d_ff": matrix.columns}, "linear2": {"d_ff": matrix.rows}}.get(name, {})
