"""Context for writing an operation's line of code: a stage and the names of a dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention import masks as attention_masks
from visualizer.attention.masks import Masking
from visualizer.attention.spec import Mask, Scale

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage
    from visualizer.explanations.dialect_identifiers import CodeIdentifiers


class ExpressionContext(Struct, frozen=True):
    """A stage to write as code, with shortcuts to its names."""

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
        """Divisor of the scores, as an expression that can follow a division sign."""
        size = {Scale.D_HEAD: self.words.names["keys"], Scale.D_MODEL: self.x}
        temperature = repr(float(self.spec.temperature))
        if self.spec.scale is Scale.NONE:
            return temperature
        root = f"{size[self.spec.scale]}.shape[-1] ** 0.5"
        return root if self.spec.temperature == 1 else f"({root} * {temperature})"

    def masks(self) -> tuple[str, ...]:
        """Names of the masks that forbid cells at this stage."""
        masking = Masking.of(self.spec, self.stage.name)
        mask = () if masking.mask is Mask.NONE else (self.words.mask_names[masking.mask],)
        return (*mask, self.words.padding) if masking.lengths else mask

    def forbidden(self) -> str:
        return self.words.forbidden(self.masks())

    def allowed(self) -> str:
        return self.words.allowed(self.masks())

    def leaves_nothing(self) -> bool:
        """Return whether a query may have no allowed key at this stage."""
        masking = Masking.of(self.spec, self.stage.name)
        if masking.lengths:
            tokens = max(masking.lengths)
        elif masking.own:
            tokens = masking.own.rows
        else:
            return False  # causal masks and windows keep the token itself
        return not attention_masks.allowed_by(masking, tokens).any(-1).all()

    def where_nothing(self) -> str:
        """Return code that zeroes the row of a query without allowed keys; usually empty."""
        if not self.leaves_nothing():
            return ""
        forbidden = self.forbidden()
        forbidden = forbidden if forbidden.isidentifier() else f"({forbidden})"
        return f".masked_fill({forbidden}.all(-1, keepdim=True), 0)"

    def to_heads(self, expression: str) -> str:
        """Add the head axis to an expression [token, width]."""
        heads = self.spec.heads
        if heads == 1:
            return f"{expression}.unsqueeze(-3)"
        sizes = f"*{self.words.batch}, {self.words.tokens}, {heads}, {self.spec.d_head}"
        return f"{expression}.view({sizes}).transpose(-3, -2)"
