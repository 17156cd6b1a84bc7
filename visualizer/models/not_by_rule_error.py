"""The error of attention that cannot be computed again block by block."""

from __future__ import annotations

from visualizer.errors import InputError


class NotByRuleError(InputError):
    """The attention of a model cannot be computed again from its vectors and a rule."""

    def __init__(self, sentence: str) -> None:
        super().__init__("text", sentence)

    def __reduce__(self) -> tuple[type[InputError], tuple[object, ...]]:
        return NotByRuleError, (self.sentence,)
