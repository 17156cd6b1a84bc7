"""The attention of a Transformers model, layer by layer, and a recorder for models in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from visualizer.api.argument_validation import (
    describe_value,
    validate_integer,
    validate_sequence,
    validate_string,
)
from visualizer.api.attention_api import Attention, array_conversion_error, validate_axis_index
from visualizer.api.head_views import HeadViews
from visualizer.api.model_inputs import parse_kept_parts
from visualizer.attention.saved_numbers import captured_header
from visualizer.attention.token_labels import label_tokens
from visualizer.brief_repr import truncate
from visualizer.errors import InputError, not_found_error
from visualizer.file_opening import EXPORT_VIEW
from visualizer.models.layer_run_lookup import (
    attention_part_names,
    find_layer_run,
    find_runs_of_part,
    layer_numbers,
    require_single_part,
)
from visualizer.session.document import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    import numpy as np

    from visualizer.api.argument_conversion import FigureArguments
    from visualizer.api.notebook_display import ExplainedValue, Figure
    from visualizer.models.recorded_runs import LayerGroupRun


class TextBatch(Protocol):
    """The texts of a batch; the runs of a text are built on first access."""

    def __len__(self) -> int: ...

    def runs_of_text(self, at: int) -> tuple[LayerGroupRun, ...]: ...


@contextmanager
def capture(
    model: Any,
    tokens: Iterable[str] | Iterable[Iterable[str]] | None = None,
    *,
    layers: int | Iterable[int] | None = None,
) -> Iterator[ModelAttention]:
    """Record the attention of a Hugging Face Transformers model while the model runs.

    ::

        with visualizer.capture(model) as captured:
            model(**inputs)
        captured["weights"]  # [layer, head, query, key]

    If the model runs several times within the context, the last text is kept. Runs that continue
    the same text with a key/value cache are joined, so that ``model.generate()`` yields the rows of
    the prompt and of all generated tokens. If the cache already contained tokens before the
    context, only the rows of the new tokens are recorded, and a notice is added.

    For a batch, ``captured`` is the attention of the first text, and ``captured.texts`` contains
    the attention of all texts. Padding is removed according to ``attention_mask``. The model uses
    its eager attention implementation within the context.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The model, or any object that contains a model: a PEFT model, a ``SentenceTransformer``, a
        pipeline, your own module, or a compiled model, which runs uncompiled within the context.
    tokens : iterable of str, or iterable of iterables of str, optional
        Labels for the tokens of the whole text, instead of position numbers; for a batch, one list
        per text. Tokens in the form of the vocabulary are also accepted:
        ``tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])``.
    layers : int or iterable of int, optional
        Indices of the layers to keep in memory, from 0; all layers by default.

    Raises
    ------
    InputError
        If the object contains no Transformers model or several models, the model did not compute
        any attention, or a layer does not exist.

    Examples
    --------
    >>> import torch
    >>> transformers_model = model.opened.model  # any Transformers model
    >>> with visualizer.capture(transformers_model) as captured, torch.no_grad():
    ...     transformers_model(torch.tensor([[4, 5, 6, 7]]))
    >>> captured["weights"].shape[2:]  # layer head query key
    (4, 4)
    """
    from visualizer.models.recorded_texts import RecordedBatch, record_texts
    from visualizer.models.wrapped_model_search import find_transformers_model

    labels = () if tokens is None else parse_token_lists("tokens", tokens)
    transformers_model = find_transformers_model(model)
    attention = ModelAttention(())
    with record_texts(transformers_model, parse_kept_parts(layers, None)) as recorded:
        yield attention
    recorded.check_layers_exist()
    batch = RecordedBatch(recorded, type(transformers_model).__name__, labels)
    if labels and len(labels) > max(1, len(batch)):
        sentence = f"tokens has {len(labels):,} lists, but there are {len(batch):,} texts."
        raise InputError("tokens", sentence)
    object.__setattr__(attention, "runs", batch.runs_of_text(0))
    object.__setattr__(attention, "batch", batch if len(batch) > 1 else None)


def parse_token_lists(name: str, tokens: object) -> tuple[tuple[str, ...], ...]:
    """Return the labels of the tokens of each text, given one list, or one list per text."""
    texts = validate_sequence(name, "a list of texts", tokens)
    if texts and not any(isinstance(each, str) for each in texts):
        token_lists = [validate_sequence(name, "a list of texts", each) for each in texts]
    else:
        token_lists = [texts]
    return tuple(
        label_tokens([validate_string(name, word) for word in words]) for words in token_lists
    )


def _attention_of_layer_group(layers: LayerGroupRun) -> Attention:
    return Attention(
        Document().with_setting("captured", captured_header(layers.run)), EXPORT_VIEW, layers.run
    )


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelAttention(HeadViews):
    """The attention of a model for a text, layer by layer.

    ``model_attention["weights"]`` is a read-only array [layer, head, query, key], and
    ``model_attention["weights", 3]`` that of one layer, without computing the others. ``stages``
    lists the other stages that all layers have. An encoder-decoder model has several kinds of
    attention, which are selected by name: ``part("encoder")``; ``parts`` lists the names. For a
    recorded batch, this is the attention of the first text; ``texts`` has one `ModelAttention` per
    text.

    Examples
    --------
    >>> model_attention.dims("weights")
    ('layer', 'head', 'query', 'key')
    >>> model_attention["weights", 1, 0].sum(axis=-1)  # head 0 of layer 1: each row sums to 1
    >>> model_attention.layers[:2]
    (0, 1)
    """

    runs: tuple[LayerGroupRun, ...]
    batch: TextBatch | None = None

    def __repr__(self) -> str:
        if not self.runs:
            return "<ModelAttention: not run yet>"
        name = self._source_title
        parts = [*((name,) if name else ()), *map(_describe_layer_group, self.runs)]
        count = (f"{len(self.batch):,} texts",) if self.batch else ()
        return truncate(f"<ModelAttention: {' · '.join((*parts, *count))}>")

    def __getitem__(self, stage: str | tuple[str | int | slice, ...]) -> np.ndarray:
        import numpy as np

        name, *index = stage if isinstance(stage, tuple) else (stage,)
        places = {
            layer: (_attention_of_layer_group(each), (at,) if each.run.trace.axes else ())
            for each in self._runs_of_single_part()
            for at, layer in enumerate(each.group.layers)
        }
        layers = [places[layer] for layer in sorted(places)]
        rows = validate_axis_index(index[0] if index else slice(None), len(layers))
        if isinstance(rows, int):
            attention, leading = layers[rows]
            return attention[(name, *leading, *index[1:])]
        selected = layers[rows]
        stacked = np.empty(0)
        for row, (attention, leading) in enumerate(selected):
            layer_values = attention[(name, *leading, *index[1:])]
            if not row:
                stacked = np.empty((len(selected), *layer_values.shape), layer_values.dtype)
            elif layer_values.shape != stacked.shape[1:]:
                sentence = "The layers differ in size. Use attention(layer) to select one layer."
                raise InputError("stage", sentence)
            stacked[row] = layer_values
        stacked.flags.writeable = False
        return stacked

    def __contains__(self, stage: object) -> bool:
        return isinstance(stage, str) and stage in self.stages

    def __array__(self, *types: object, **options: object) -> np.ndarray:
        """Refuse the conversion to an array, because there are several stages."""
        raise array_conversion_error(self._require_runs()[0].run.trace.attention_stage_name)

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the model's kinds of attention; each name stands for all layers of that kind."""
        return attention_part_names(self.runs)

    def part(self, name: str) -> ModelAttention:
        """Return the attention of one part, given the part's name or a unique substring of it.

        Examples
        --------
        >>> [model_attention.part(name) for name in model_attention.parts]
        """
        return ModelAttention(
            find_runs_of_part(self._require_runs(), validate_string("name", name))
        )

    @property
    def texts(self) -> tuple[ModelAttention, ...]:
        """The attention of each text in a recorded batch; for a single text, only this object."""
        if self.batch is None:
            return (self,)
        return tuple(ModelAttention(self.batch.runs_of_text(at)) for at in range(len(self.batch)))

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages that all layers have in common, in order of computation."""
        first, *others = (each.run.trace.names for each in self._require_runs())
        return tuple(name for name in first if all(name in each for each in others))

    def dims(self, stage: str) -> tuple[str, ...]:
        """Return the dimensions of a stage: ``("layer", "head", "query", "key")`` for weights.

        Examples
        --------
        >>> model_attention.dims("queries")
        ('layer', 'head', 'token', 'd_head')
        """
        attention = _attention_of_layer_group(self._runs_of_single_part()[0])
        dims = attention.dims(stage)
        return dims if dims[0] == "layer" else ("layer", *dims)

    @property
    def layers(self) -> tuple[int, ...]:
        """Indices of the recorded layers in ascending order."""
        return layer_numbers(self._require_runs())

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of the queries, as returned by the model's tokenizer."""
        return self._runs_of_single_part()[0].run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...]:
        """The tokens of the keys, which differ from those of the queries in cross-attention."""
        return self._runs_of_single_part()[0].run.key_tokens or self.tokens

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the values, as sentences."""
        sentences = (notice for each in self.runs for notice in each.notices)
        return tuple(dict.fromkeys(sentences))

    def attention(self, layer: int) -> Attention:
        """Return the attention of a layer together with all layers that have the same structure.

        The axis ``layer`` of the result indexes these layers from 0.

        Examples
        --------
        >>> model_attention.attention(1).dims("weights")
        ('layer', 'head', 'query', 'key')
        """
        return _attention_of_layer_group(self._find_run_of_layer(layer)[0])

    def explain(self, stage: str, *, layer: int, **place: int) -> ExplainedValue:
        """Explain how a value is computed.

        Parameters
        ----------
        layer : int
            Index of the layer in the model.
        **place : int
            The index along each dimension of the stage, such as ``head=1, query=3, key=2``.

        Raises
        ------
        InputError
            If the stage or position does not exist.

        Examples
        --------
        >>> model_attention.explain("weights", layer=1, head=0, query=3, key=2).sentence
        """
        found, at = self._find_run_of_layer(layer)
        return _attention_of_layer_group(found).explain(stage, layer=at, **place)

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int | None = None,
        **look: Unpack[FigureArguments],
    ) -> Figure:
        """Create a figure of one layer's heatmaps; see `Attention.figure`.

        Parameters
        ----------
        layer : int, optional
            Index of the layer in the model; the first layer by default.

        Examples
        --------
        >>> model_attention.figure("weights", heads=[0, 1], layer=1, size="85mm").save("layer.pdf")
        """
        shown = self._first_layer if layer is None else layer
        found, at = self._find_run_of_layer(shown)
        return _attention_of_layer_group(found).figure(stages, heads, layer=at, **look)

    def save(self, *paths: str | Path, layer: int | None = None) -> None:
        """Write files, each in the format of its suffix; see `Figure.save`.

        Documents and data files, such as ``.attention``, ``.npz`` and ``.csv``, contain all layers
        that have the same structure as the given layer; figures show the given layer.

        Parameters
        ----------
        layer : int, optional
            Index of the layer in the model; the first layer by default.

        Examples
        --------
        >>> model_attention.save("mat.npz", "mat.attention")
        """
        self.figure(layer=layer).save(*paths)

    @property
    def _first_layer(self) -> int:
        return min(layer_numbers(self._runs_of_single_part()))

    @property
    def _has_layer_axis(self) -> bool:
        return True

    @property
    def _source_title(self) -> str:
        return self.runs[0].run.source_full_name.rpartition(" of ")[2]

    def _require_runs(self) -> tuple[LayerGroupRun, ...]:
        if not self.runs:
            raise InputError(
                "model", "The model has not been run yet. Run it within the context of capture()."
            )
        return self.runs

    def _runs_of_single_part(self) -> tuple[LayerGroupRun, ...]:
        return require_single_part(self._require_runs())

    def _layer_runs(self) -> tuple[LayerGroupRun, ...]:
        return self._runs_of_single_part()

    def _find_run_of_layer(self, layer: object) -> tuple[LayerGroupRun, int]:
        number = validate_integer("layer", layer)
        found = find_layer_run(self._runs_of_single_part(), number)
        if found is None:
            name = f"layer {describe_value(number)}"
            raise not_found_error("layer", name, f"The layers are {self.layers}.")
        return found


def _describe_layer_group(layers: LayerGroupRun) -> str:
    trace, count = layers.run.trace, len(layers.group.layers)
    queries, keys = trace.query_key_counts
    tokens = f"{queries:,}" if queries == keys else f"{queries:,} × {keys:,}"
    heads = trace.spec.heads
    return (
        f"{layers.group.name}: {count:,} layer{'s' * (count != 1)} × {heads:,} "
        f"head{'s' * (heads != 1)}, {tokens} token{'s' * (keys != 1)}"
    )
