"""A text that a model generated, with the attention of all its tokens."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.api.head_views import HeadViews
from visualizer.api.model_attention import ModelAttention
from visualizer.format import format_percentage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import Unpack

    import numpy as np

    from visualizer.api.argument_conversion import FigureArguments
    from visualizer.api.labelled_arrays import LabelledArray
    from visualizer.api.notebook_display import Figure
    from visualizer.models.kv_cache_generation import GenerationResult
    from visualizer.models.recorded_runs import LayerGroupRun

MAX_SHADED_TOKENS = 2_000
"""Maximum number of generated tokens that a notebook displays with their probabilities."""
_SHADE = "background:rgba(64,128,255,{opacity:.2f});border-radius:2px"


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GeneratedText(HeadViews):
    """A text and its continuation by a model.

    ``generated.text`` is the continuation. A notebook displays the tokens, shaded by their
    probabilities, and the interactive view of the attention. ``generated.attention`` is the
    attention of all tokens but the last, which the model has not processed.

    Examples
    --------
    >>> generated = model.generate(text, tokens=3)
    >>> generated.text, generated.probabilities
    >>> generated.weights[0].shape  # of layer 0: head query key
    """

    result: GenerationResult
    attention: ModelAttention

    def __repr__(self) -> str:
        return repr(self.result)

    @property
    def text(self) -> str:
        """The generated text, without the given text."""
        return self.result.text

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens: those of the given text, and then the generated ones."""
        return self.result.tokens

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """The tokens of the keys: all tokens but the last."""
        return self.attention.key_tokens

    @property
    def start(self) -> int:
        """Number of tokens of the given text."""
        return self.result.start

    @property
    def probabilities(self) -> tuple[float, ...]:
        """Probability of each generated token before temperature, top-k and top-p were applied."""
        return self.result.probabilities

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of the layers that compute attention."""
        return self.result.layers

    @property
    def weights(self) -> tuple[np.ndarray, ...]:
        """The weights of each layer, [head, query, key], for all tokens but the last."""
        return self.result.weights

    @property
    def cache_bytes(self) -> int:
        """Size of the key/value cache, in bytes."""
        return self.result.cache_bytes

    def __getitem__(self, stage: str | tuple[str | int | slice, ...]) -> np.ndarray:
        return self.attention[stage]

    def dims(self, stage: str) -> tuple[str, ...]:
        """Return the dimensions of a stage; see `ModelAttention.dims`.

        Examples
        --------
        >>> model.generate(text, tokens=3).dims("weights")
        ('layer', 'head', 'query', 'key')
        """
        return self.attention.dims(stage)

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int | None = None,
        **look: Unpack[FigureArguments],
    ) -> Figure:
        """Create a figure of one layer's heatmaps; see `ModelAttention.figure`.

        Examples
        --------
        >>> model.generate(text, tokens=3).figure("weights", heads=0, layer=1)
        """
        return self.attention.figure(stages, heads, layer=layer, **look)

    def save(self, *paths: str | Path, layer: int | None = None) -> None:
        """Write files, each in the format of its suffix; see `ModelAttention.save`.

        Examples
        --------
        >>> model.generate(text, tokens=3).save("generated.npz", "generated.html")
        """
        self.attention.save(*paths, layer=layer)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the tokens with their probabilities, and the interactive view."""
        # `super` without arguments fails in a dataclass with slots.
        found = {**HeadViews._repr_mimebundle_(self), "text/plain": repr(self)}
        found["text/html"] = self._shaded_tokens() + found.get("text/html", "")
        return found

    def _shaded_tokens(self) -> str:
        given = escape("".join(self.tokens[: self.start]))
        shown = [*zip(self.tokens[self.start :], self.probabilities, strict=True)]
        parts = [
            f'<span title="{format_percentage(probability)}" '
            f'style="{_SHADE.format(opacity=0.08 + 0.5 * probability)}">{escape(token)}</span>'
            for token, probability in shown[:MAX_SHADED_TOKENS]
        ]
        rest = escape("".join(token for token, _ in shown[MAX_SHADED_TOKENS:]))
        return f'<p style="white-space:pre-wrap">{given}{"".join(parts)}{rest}</p>'

    def _label_stage(self, stage: str) -> LabelledArray:
        return self.attention._label_stage(stage)

    def _layer_runs(self) -> tuple[LayerGroupRun, ...]:
        return self.attention.runs

    @property
    def _has_layer_axis(self) -> bool:
        return True

    @property
    def _source_title(self) -> str:
        return self.attention.runs[0].run.source_full_name


def generated_text(result: GenerationResult, name: str) -> GeneratedText:
    """Return the result of `generate` with its attention; ``name`` is that of the model."""
    from visualizer.models.array_runs import ArrayBatch, TextTokens

    tokens = [TextTokens(both=result.tokens[:-1])]
    runs = ArrayBatch(name, [*result.weights], {}, tokens).runs_of_text(0)
    numbered = tuple(
        replace(
            each,
            group=replace(each.group, layers=tuple(result.layers[at] for at in each.group.layers)),
        )
        for each in runs
    )
    return GeneratedText(result, ModelAttention(numbered))
