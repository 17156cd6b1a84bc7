"""What stands right of the equals sign: one expression an operation, in the words of a dialect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.attention import masks
from visualizer.attention.masks import Masking
from visualizer.attention.spec import Arrangement, Mask, Normalisation, Position, Projection, Scale
from visualizer.attention.stages import Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.state.code.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Asked:
    """A stage to be written, with short ways to the words for it."""

    spec: AttentionSpec
    stage: Stage
    words: Vocabulary

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
        return not masks.allowed_by(masking, tokens).any(-1).all()

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


def _position(asked: Asked) -> str:
    embedding = asked.words.names["embedding"]
    if asked.spec.position is Position.LEARNED:
        return f"position_table.expand_as({embedding})"
    return f"sinusoids(*{embedding}.shape[-2:]).expand_as({embedding})"


def _project(asked: Asked) -> str:
    layer, x = asked.words.layers[asked.stage.parameters[0]], asked.x
    is_matrix = asked.spec.projection is Projection.UNIFORM
    if asked.spec.arrangement is Arrangement.STACKED and asked.spec.heads > 1:
        each = f"{x} @ W" if is_matrix else f"W({x})"
        return f"torch.stack([{each} for W in {layer}], dim=-3)"
    return asked.to_heads(f"({x} @ {layer})" if is_matrix else f"{layer}({x})")


def _split(asked: Asked) -> str:
    if asked.spec.arrangement is Arrangement.STACKED and asked.spec.heads > 1:
        return f"torch.stack([{asked.x}] * {asked.spec.heads}, dim=-3)"
    return asked.to_heads(asked.x)


def _normalise(asked: Asked) -> str:
    x = asked.read[0]
    if asked.spec.normalisation is Normalisation.SUM:
        return f"{x} / {x}.sum(dim=-1, keepdim=True)"
    rest = asked.where_nothing() if asked.stage.reads == ("masked",) else ""
    if asked.spec.normalisation is Normalisation.SOFTMAX:
        return f"{asked.words.softmax}({x}, dim=-1){rest}"
    shares = f"torch.exp({x}) / torch.exp({x}).sum(dim=-1, keepdim=True)"
    return f"({shares}){rest}" if rest else shares


def _average(asked: Asked) -> str:
    tokens = asked.words.tokens
    if not asked.masks():
        sizes = f"(*{asked.words.batch}, {asked.spec.heads}, {tokens}, {tokens})"
        return f"torch.full({sizes}, 1 / {tokens}, dtype={asked.x}.dtype)"
    least = ".clamp(min=1)" if asked.leaves_nothing() else ""
    return f"readable / readable.sum(dim=-1, keepdim=True){least}"


def _renormalise(asked: Asked) -> str:
    zeroed = asked.read[0]
    # A row of nothing but zeros has nothing to share out.
    sums = f"{zeroed}.sum(dim=-1, keepdim=True)"
    return f"{zeroed} / {sums}.where({zeroed}.any(dim=-1, keepdim=True), 1)"


def _drop(asked: Asked) -> str:
    return f"({asked.read[0]} / (1 - {float(asked.spec.dropout)!r})).where(kept, 0.0)"


WRITE: dict[Operation, Callable[[Asked], str]] = {
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
