"""The error for attention that cannot be computed in tiles."""

from __future__ import annotations

from visualizer.errors import InputError


class NotByRuleError(InputError):
    """A model's attention cannot be recomputed from its vectors and a mask rule."""

    def __init__(self, sentence: str) -> None:
        super().__init__("text", sentence)

    def __reduce__(self) -> tuple[type[InputError], tuple[object, ...]]:
        return NotByRuleError, (self.sentence,)
