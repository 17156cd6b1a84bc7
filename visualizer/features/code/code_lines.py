"""The lines of Python that make a spec's stages, in one of three dialects.

They come from the stage table and from nothing else. A script is made of the very same lines, so
each of them runs as it is shown; what they find there is said at `lines`.

Sources: Raschka 2024, "Build a Large Language Model (From Scratch)", chapter 3, for the book's
names; Karpathy 2023, "Let's build GPT", for the lecture's; the reference of
``torch.nn.functional.scaled_dot_product_attention`` for what it can be asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from visualizer.attention.spec import Mask, Normalisation, Scale
from visualizer.attention.stages import Operation, stages
from visualizer.explanations.code_expression import ExpressionContext
from visualizer.explanations.dialect_identifiers import VOCABULARIES
from visualizer.explanations.operation_registry import TEXTS
from visualizer.session.view_options import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.spec import AttentionSpec
    from visualizer.explanations.dialect_identifiers import CodeIdentifiers


@dataclass(frozen=True, slots=True)
class CodeLine:
    """One line of code.

    Parameters
    ----------
    stages : tuple of str
        What it makes, in order; empty for a comment, and for what only helps the next lines.
    """

    stages: tuple[str, ...]
    text: str


def lines(spec: AttentionSpec, dialect: CodeDialect) -> tuple[CodeLine, ...]:
    """Write the lines that make every stage of a spec, each stage once.

    They need torch, ``nn``, ``F``, ``inputs`` and the layers; where the spec asks for them also
    ``position_table`` or ``sinusoids``, ``own_mask``, ``lengths`` and ``kept``.
    """
    # Own numbers can be many, and are read by their names: what is kept here need not hold them.
    return _lines(replace(spec, own_input=None, own_weights=()), dialect)


@lru_cache(maxsize=8)
def _lines(spec: AttentionSpec, dialect: CodeDialect) -> tuple[CodeLine, ...]:
    words = VOCABULARIES[dialect]
    rows = stages(spec)
    together = _together(spec) if dialect is CodeDialect.SDPA else ()
    made, comments = [], []
    for stage in rows:
        asked, name = ExpressionContext(spec, stage, words), words.names[stage.name]
        if stage.name not in together:
            made.append(CodeLine((stage.name,), f"{name} = {TEXTS[stage.operation].code(asked)}"))
        elif stage.name == together[-1]:
            made.append(CodeLine(together, f"{name} = {_in_one_call(asked)}"))
    if dialect is CodeDialect.SDPA:
        comments = [CodeLine((), f"# Written out: {reason}") for reason in _reasons(spec)]
    return tuple(_helped(spec, words, comments, made))


# ------------------------------------------------------------------------------ all in one call


def _together(spec: AttentionSpec) -> tuple[str, ...]:
    """Name the stages that one call makes, where it can make what the spec asks for."""
    if list(_reasons(spec)):
        return ()
    names = [stage.name for stage in stages(spec)]
    return tuple(names[names.index("scores") : names.index("context") + 1])


def _reasons(spec: AttentionSpec) -> Iterator[str]:
    """Say why the one call cannot make what the spec asks for."""
    call = "scaled_dot_product_attention"
    by_kind = {
        Normalisation.UNIFORM: f"{call} compares queries with keys; here every key is read alike.",
        Normalisation.SUM: f"{call} has softmax alone and does not divide by a row's sum.",
        Normalisation.NAIVE_SOFTMAX: f"{call} takes a row's largest score away before the exp.",
    }
    if spec.normalisation in by_kind:
        yield by_kind[spec.normalisation]
    if any(stage.operation is Operation.ZERO for stage in stages(spec)):
        yield f"{call} masks before it normalises, and not after."
    if spec.drops:
        yield f"{call} draws the cells to drop itself; here they are given."


def _in_one_call(asked: ExpressionContext) -> str:
    spec, names, weights = asked.spec, asked.words.names, _as_at("weights", asked)
    parts = [names["queries"], names["keys"], names["values"]]
    if spec.mask is Mask.CAUSAL and not spec.lengths:
        parts.append("is_causal=True")
    elif weights.masks():
        parts.append(f"attn_mask={weights.allowed()}")
    if spec.scale is Scale.NONE and spec.temperature == 1:
        parts.append("scale=1.0")
    elif spec.scale is not Scale.D_HEAD or spec.temperature != 1:
        parts.append(f"scale=1 / {asked.divisor}")
    return f"F.scaled_dot_product_attention({', '.join(parts)}){weights.where_nothing()}"


def _as_at(name: str, asked: ExpressionContext) -> ExpressionContext:
    row = next(stage for stage in stages(asked.spec) if stage.name == name)
    return ExpressionContext(asked.spec, row, asked.words)


# ------------------------------------------------------------------------------ lines that help


def _helped(
    spec: AttentionSpec, words: CodeIdentifiers, comments: list[CodeLine], made: list[CodeLine]
) -> Iterator[CodeLine]:
    """Put before a line what it needs and what was not there before."""
    waiting = _helpers(spec, words)
    yield from comments
    for line in made:
        yield from _needed(line.text, waiting)
        yield line


def _needed(text: str, waiting: dict[str, str]) -> Iterator[CodeLine]:
    for name in [name for name in waiting if re.search(rf"\b{name}\b", text)]:
        if helper := waiting.pop(name, ""):
            yield from _needed(helper.partition(" = ")[2], waiting)
            yield CodeLine((), helper)


def _helpers(spec: AttentionSpec, words: CodeIdentifiers) -> dict[str, str]:
    """Write what some lines need, by the name that they need it under."""
    tokens, x = words.tokens, words.names["input"]
    made = {tokens: f"*{words.batch}, {tokens}, {words.width} = {x}.shape"}
    made[words.padding] = words.real_tokens
    if spec.mask is not Mask.NONE:
        made[words.mask_names[spec.mask]] = words.mask_lines[spec.mask].format(
            window=1 - spec.window
        )
    average = [stage for stage in stages(spec) if stage.operation is Operation.AVERAGE]
    if average and (found := ExpressionContext(spec, average[0], words).masks()):
        sizes = f"*{words.batch}, {spec.heads}, {tokens}, {tokens}"
        allowed = words.allowed(found)
        allowed = allowed if allowed.isidentifier() else f"({allowed})"
        made["readable"] = f"readable = {allowed}.to({x}.dtype).expand({sizes})"
    return made
