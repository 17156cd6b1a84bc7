"""Python source lines that compute a spec's stages, in one of three dialects.

The lines derive from the stage table alone, with one expression writer per operation. A script
consists of the same lines, so each of them runs as shown; `lines` lists the names they need.

Sources: Raschka 2024, "Build a Large Language Model (From Scratch)", chapter 3, for the book's
names; Karpathy 2023, "Let's build GPT", for the lecture's; the reference of
``torch.nn.functional.scaled_dot_product_attention`` for the arguments it accepts.
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
        The stages it computes, in order; empty for a comment and for a helper line.
    """

    stages: tuple[str, ...]
    text: str


def lines(spec: AttentionSpec, dialect: CodeDialect) -> tuple[CodeLine, ...]:
    """The lines that compute every stage of a spec, each stage once.

    They need torch, ``nn``, ``F``, ``inputs`` and the layers; where the spec uses them also
    ``position_table`` or ``sinusoids``, ``own_mask``, ``lengths`` and ``kept``.
    """
    # Custom numbers can be large, and lines refer to them by name: the cache must not hold them.
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


# ------------------------------------------------------------------------------ the fused call


def _together(spec: AttentionSpec) -> tuple[str, ...]:
    """The stages that the fused call computes; empty where it does not support the spec."""
    if list(_reasons(spec)):
        return ()
    names = [stage.name for stage in stages(spec)]
    return tuple(names[names.index("scores") : names.index("context") + 1])


def _reasons(spec: AttentionSpec) -> Iterator[str]:
    """The reasons why the fused call does not support the spec."""
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


# ------------------------------------------------------------------------------ helper lines


def _helped(
    spec: AttentionSpec, words: CodeIdentifiers, comments: list[CodeLine], made: list[CodeLine]
) -> Iterator[CodeLine]:
    """Insert before each line the helper lines that it needs first."""
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
    """The helper lines, by the name that they define."""
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
    """A stage to write as an expression, with the dialect's identifiers for it."""

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
        """The divisor of the scores, as an expression that may follow a division sign."""
        size = {Scale.D_HEAD: self.words.names["keys"], Scale.D_MODEL: self.x}
        temperature = repr(float(self.spec.temperature))
        if self.spec.scale is Scale.NONE:
            return temperature
        root = f"{size[self.spec.scale]}.shape[-1] ** 0.5"
        return root if self.spec.temperature == 1 else f"({root} * {temperature})"

    def masks(self) -> tuple[str, ...]:
        """The names of the masks that apply at this stage."""
        masking = Masking.of(self.spec, self.stage.name)
        mask = () if masking.mask is Mask.NONE else (self.words.mask_names[masking.mask],)
        return (*mask, self.words.padding) if masking.lengths else mask

    def forbidden(self) -> str:
        return self.words.forbidden(self.masks())

    def allowed(self) -> str:
        return self.words.allowed(self.masks())

    def leaves_nothing(self) -> bool:
        """Whether some query may attend to no key at this stage."""
        masking = Masking.of(self.spec, self.stage.name)
        if masking.lengths:
            tokens = max(masking.lengths)
        elif masking.own:
            tokens = masking.own.rows
        else:
            return False  # causal masks and windows always allow the token itself
        return not attention_masks.allowed_by(masking, tokens).any(-1).all()

    def where_nothing(self) -> str:
        """A suffix that zeroes rows of queries without an allowed key; empty where unneeded."""
        if not self.leaves_nothing():
            return ""
        forbidden = self.forbidden()
        forbidden = forbidden if forbidden.isidentifier() else f"({forbidden})"
        return f".masked_fill({forbidden}.all(-1, keepdim=True), 0)"

    def to_heads(self, expression: str) -> str:
        """Add the axis of heads to an expression [token, width]."""
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
    # A row of zeros cannot be normalised.
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
