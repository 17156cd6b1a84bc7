"""The lines of Python that make a spec's stages, in one of three dialects.

They come from the stage table and from nothing else. A script is made of the very same lines, so
each of them runs as it is shown; what they find there is said at `lines`.

Sources: Raschka 2024, "Build a Large Language Model (From Scratch)", chapter 3, for the book's
names; Karpathy 2023, "Let's build GPT", for the lecture's; the reference of
``torch.nn.functional.scaled_dot_product_attention`` for what it can be asked.

What stands right of the equals sign: one expression an operation, in the words of a dialect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from visualizer.attention import masks as attention_masks
from visualizer.attention.masks import Masking
from visualizer.attention.spec import Arrangement, Mask, Normalisation, Position, Projection, Scale
from visualizer.attention.stages import Operation, stages
from visualizer.features.code.dialect_identifiers import VOCABULARIES
from visualizer.session.view_options import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.features.code.dialect_identifiers import CodeIdentifiers


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
            made.append(CodeLine((stage.name,), f"{name} = {WRITE[stage.operation](asked)}"))
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


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """A stage to be written, with short ways to the words for it."""

    spec: AttentionSpec
    stage: Stage
    words: CodeIdentifiers

    @property
    def read(self) -> tuple[str, ...]:
        return tuple(self.words.names[name] for name in self.stage.reads)

    @property
    def x(self) -> str:
        return self.words.names["input"]

    @property
    def divisor(self) -> str:
        """What the scores are divided by, as an expression that a division may be put before."""
        size = {Scale.D_HEAD: self.words.names["keys"], Scale.D_MODEL: self.x}
        temperature = repr(float(self.spec.temperature))
        if self.spec.scale is Scale.NONE:
            return temperature
        root = f"{size[self.spec.scale]}.shape[-1] ** 0.5"
        return root if self.spec.temperature == 1 else f"({root} * {temperature})"

    def masks(self) -> tuple[str, ...]:
        """Name what forbids cells at this stage."""
        masking = Masking.of(self.spec, self.stage.name)
        mask = () if masking.mask is Mask.NONE else (self.words.mask_names[masking.mask],)
        return (*mask, self.words.padding) if masking.lengths else mask

    def forbidden(self) -> str:
        return self.words.forbidden(self.masks())

    def allowed(self) -> str:
        return self.words.allowed(self.masks())

    def leaves_nothing(self) -> bool:
        """Whether there is a query that may read no key at this stage."""
        masking = Masking.of(self.spec, self.stage.name)
        if masking.lengths:
            tokens = max(masking.lengths)
        elif masking.own:
            tokens = masking.own.rows
        else:
            return False  # causal masks and windows leave the token itself
        return not attention_masks.allowed_by(masking, tokens).any(-1).all()

    def where_nothing(self) -> str:
        """Say what to add so that a query that may read nothing has zeros; mostly nothing."""
        if not self.leaves_nothing():
            return ""
        forbidden = self.forbidden()
        forbidden = forbidden if forbidden.isidentifier() else f"({forbidden})"
        return f".masked_fill({forbidden}.all(-1, keepdim=True), 0)"

    def to_heads(self, expression: str) -> str:
        """Give an expression [token, width] its axis of heads."""
        heads = self.spec.heads
        if heads == 1:
            return f"{expression}.unsqueeze(-3)"
        sizes = f"*{self.words.batch}, {self.words.tokens}, {heads}, {self.spec.d_head}"
        return f"{expression}.view({sizes}).transpose(-3, -2)"


def _position(asked: ExpressionContext) -> str:
    embedding = asked.words.names["embedding"]
    if asked.spec.position is Position.LEARNED:
        return f"position_table.expand_as({embedding})"
    return f"sinusoids(*{embedding}.shape[-2:]).expand_as({embedding})"


def _project(asked: ExpressionContext) -> str:
    layer, x = asked.words.layers[asked.stage.parameters[0]], asked.x
    is_matrix = asked.spec.projection is Projection.UNIFORM
    if asked.spec.arrangement is Arrangement.STACKED and asked.spec.heads > 1:
        each = f"{x} @ W" if is_matrix else f"W({x})"
        return f"torch.stack([{each} for W in {layer}], dim=-3)"
    return asked.to_heads(f"({x} @ {layer})" if is_matrix else f"{layer}({x})")


def _split(asked: ExpressionContext) -> str:
    if asked.spec.arrangement is Arrangement.STACKED and asked.spec.heads > 1:
        return f"torch.stack([{asked.x}] * {asked.spec.heads}, dim=-3)"
    return asked.to_heads(asked.x)


def _normalise(asked: ExpressionContext) -> str:
    x = asked.read[0]
    if asked.spec.normalisation is Normalisation.SUM:
        return f"{x} / {x}.sum(dim=-1, keepdim=True)"
    rest = asked.where_nothing() if asked.stage.reads == ("masked",) else ""
    if asked.spec.normalisation is Normalisation.SOFTMAX:
        return f"{asked.words.softmax}({x}, dim=-1){rest}"
    shares = f"torch.exp({x}) / torch.exp({x}).sum(dim=-1, keepdim=True)"
    return f"({shares}){rest}" if rest else shares


def _average(asked: ExpressionContext) -> str:
    tokens = asked.words.tokens
    if not asked.masks():
        sizes = f"(*{asked.words.batch}, {asked.spec.heads}, {tokens}, {tokens})"
        return f"torch.full({sizes}, 1 / {tokens}, dtype={asked.x}.dtype)"
    least = ".clamp(min=1)" if asked.leaves_nothing() else ""
    return f"readable / readable.sum(dim=-1, keepdim=True){least}"


def _renormalise(asked: ExpressionContext) -> str:
    zeroed = asked.read[0]
    # A row of nothing but zeros has nothing to share out.
    sums = f"{zeroed}.sum(dim=-1, keepdim=True)"
    return f"{zeroed} / {sums}.where({zeroed}.any(dim=-1, keepdim=True), 1)"


def _drop(asked: ExpressionContext) -> str:
    return f"({asked.read[0]} / (1 - {float(asked.spec.dropout)!r})).where(kept, 0.0)"


WRITE: dict[Operation, Callable[[ExpressionContext], str]] = {
    Operation.GIVEN: lambda asked: "inputs",
    Operation.POSITION: _position,
    Operation.ADD: lambda asked: " + ".join(asked.read),
    Operation.PROJECT: _project,
    Operation.SPLIT: _split,
    Operation.DOT: lambda asked: f"{asked.read[0]} @ {asked.read[1]}.transpose(-2, -1)",
    Operation.SCALE: lambda asked: f"{asked.read[0]} / {asked.divisor}",
    Operation.FORBID: lambda asked: (
        f"{asked.read[0]}.masked_fill({asked.forbidden()}, {asked.words.infinity})"
    ),
    Operation.NORMALISE: _normalise,
    Operation.AVERAGE: _average,
    Operation.ZERO: lambda asked: f"{asked.read[0]}.masked_fill({asked.forbidden()}, 0)",
    Operation.RENORMALISE: _renormalise,
    Operation.DROP: _drop,
    Operation.MIX: lambda asked: f"{asked.read[0]} @ {asked.read[1]}",
    Operation.JOIN: lambda asked: f"{asked.read[0]}.transpose(-3, -2).flatten(-2)",
    Operation.PROJECT_OUT: lambda asked: f"{asked.words.layers['out_proj']}({asked.read[0]})",
}
