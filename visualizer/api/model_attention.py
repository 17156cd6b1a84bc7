"""The attention of a Transformers model, layer by layer, and a recorder for models in memory."""

from __future__ import annotations

import base64
import math
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any, Protocol

from visualizer.api.argument_validation import (
    describe_value,
    validate_choice,
    validate_colour_map,
    validate_integer,
    validate_sequence,
    validate_string,
)
from visualizer.api.attention_api import Attention, array_conversion_error, validate_axis_index
from visualizer.api.notebook_display import InteractiveView, Overview
from visualizer.attention.roles import Role
from visualizer.attention.saved_numbers import captured_header
from visualizer.attention.token_labels import label_tokens
from visualizer.brief_repr import truncate
from visualizer.errors import InputError, not_found_error
from visualizer.export.offscreen_qt_application import offscreen_qt
from visualizer.file_opening import EXPORT_VIEW
from visualizer.models.layer_run_lookup import (
    attention_part_names,
    find_layer_run,
    find_runs_of_part,
    layer_numbers,
    list_head_measure_rows,
    require_single_part,
)
from visualizer.optional_packages import PACKAGE_FIELD, is_installed
from visualizer.session.document import Document
from visualizer.session.head_order import HeadOrder
from visualizer.session.view_options import (
    DEFAULT_MAP,
    ColourMapKind,
    colour_maps_of_kind,
    kind_of_colour_map,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import Unpack

    import numpy as np

    from visualizer.api.argument_conversion import FigureArguments
    from visualizer.api.notebook_display import ExplainedValue, Figure
    from visualizer.models.recorded_runs import LayerGroupRun

MAX_DISPLAYED_CELLS = 2**26
"""Maximum number of weights that a notebook displays without a call; more take over a second."""


class TextBatch(Protocol):
    """The texts of a batch; the runs of a text are built on first access."""

    def __len__(self) -> int: ...

    def runs_of_text(self, at: int) -> tuple[LayerGroupRun, ...]: ...


@contextmanager
def capture(
    model: Any, tokens: Iterable[str] | Iterable[Iterable[str]] | None = None
) -> Iterator[ModelAttention]:
    """Record the attention of a Hugging Face Transformers model while the model runs.

    ::

        with visualizer.capture(model) as seen:
            model(**inputs)
        seen["weights"]  # [layer, head, query, key]

    If the model runs several times within the context, the last text is kept. Runs that continue
    the same text with a key/value cache are joined, so that ``model.generate()`` yields the rows of
    the prompt and of all generated tokens. If the cache already contained tokens before the
    context, only the rows of the new tokens are recorded, and a notice is added.

    For a batch, ``seen`` is the attention of the first text, and ``seen.texts`` contains the
    attention of all texts. Padding is removed according to ``attention_mask``. The model uses its
    eager attention implementation within the context.

    Parameters
    ----------
    model : transformers.PreTrainedModel
        The model, or any object that contains a model: a PEFT model, a ``SentenceTransformer``, a
        pipeline, your own module, or a compiled model, which runs uncompiled within the context.
    tokens : iterable of str, or iterable of iterables of str, optional
        Labels for the tokens of the whole text, instead of position numbers; for a batch, one list
        per text. Tokens in the form of the vocabulary are also accepted:
        ``tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])``.

    Raises
    ------
    InputError
        If the object contains no Transformers model or several models, or if the model did not
        compute any attention.
    """
    from visualizer.models.recorded_texts import RecordedBatch, record_texts
    from visualizer.models.wrapped_model_search import find_transformers_model

    labels = () if tokens is None else parse_token_lists("tokens", tokens)
    transformers_model = find_transformers_model(model)
    attention = ModelAttention(())
    with record_texts(transformers_model) as recorded:
        yield attention
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
class ModelAttention:
    """The attention of a model for a text, layer by layer.

    ``seen["weights"]`` is a read-only array [layer, head, query, key], and ``seen["weights", 3]``
    that of one layer, without computing the others. ``seen.stages`` lists the other stages that all
    layers have. An encoder-decoder model has several kinds of attention,
    which are selected by name: ``seen.part("encoder")``; ``seen.parts`` lists the names.
    For a recorded batch, this is the attention of the first text; ``seen.texts`` has one
    `ModelAttention` per text.
    """

    runs: tuple[LayerGroupRun, ...]
    batch: TextBatch | None = None

    def __repr__(self) -> str:
        if not self.runs:
            return "<ModelAttention: not run yet>"
        name = self._source_name
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
        """Return the attention of one part, given the part's name or a unique substring of it."""
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
        """
        found, at = self._find_run_of_layer(layer)
        return _attention_of_layer_group(found).explain(stage, layer=at, **place)

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int,
        **look: Unpack[FigureArguments],
    ) -> Figure:
        """Create a figure of one layer's heatmaps; see `Attention.figure`."""
        found, at = self._find_run_of_layer(layer)
        return _attention_of_layer_group(found).figure(stages, heads, layer=at, **look)

    def save(self, *paths: str | Path, layer: int | None = None) -> None:
        """Write files, each in the format of its suffix; see `Figure.save`.

        Documents and data files, such as ``.attention``, ``.npz`` and ``.csv``, contain all layers
        that have the same structure as the given layer; figures show the given layer.

        Parameters
        ----------
        layer : int, optional
            Index of the layer in the model; the first layer by default.
        """
        shown = min(layer_numbers(self._runs_of_single_part())) if layer is None else layer
        self.figure(layer=shown).save(*paths)

    def overview(self, order: str = HeadOrder.LAYER) -> Overview:
        """Draw all heads of all layers as small heatmaps.

        Parameters
        ----------
        order : str
            ``"layer"`` for the order in the model; ``"induction"``, ``"duplicate"``,
            ``"previous"``, ``"first"`` or ``"own"`` to begin with the heads that have the highest
            mean weight on these tokens; ``"sharpest"`` or ``"farthest"`` to begin with the heads
            that have the lowest entropy or the longest mean distance; or ``"alike"`` to group
            similar heads.

        Raises
        ------
        InputError
            If the layers have different numbers of heads.
        """
        chosen = validate_choice("order", HeadOrder, order)
        runs = [(each.run, each.group.layers) for each in self._runs_with_weights()]
        with offscreen_qt():
            from visualizer.export.figures.png_writer import render_overview_png

            return Overview(render_overview_png(runs, chosen), repr(self)[1:-1])

    def interactive(
        self, layers: int | Iterable[int] | None = None, *, colour_map: str = DEFAULT_MAP
    ) -> InteractiveView:
        """Show all heads as an interactive page, in which you can select heads, cells and tokens.

        A notebook also displays this page for the attention itself, if it is the last expression of
        a cell. The page contains the weights: up to 131,072 weights as they are, and more with four
        or three decimal places. If they take more than 6 MB, each cell of the page shows the
        largest weight of several queries and keys.

        Parameters
        ----------
        layers : int or iterable of int, optional
            Indices of the layers to show; all layers by default.
        colour_map : str
            A colour map for weights; see `visualizer.FigureArguments`.

        Raises
        ------
        InputError
            If a layer or colour map does not exist, the layers differ in the number of tokens, or
            the text is too long for so many layers.
        """
        from visualizer.export.figures.notebook_page import create_notebook_page

        runs = [(each.run, each.group.layers) for each in self._runs_with_weights()]
        shown = None if layers is None else self._validate_layers(layers)
        map_name = validate_colour_map(colour_map)
        if kind_of_colour_map(map_name) is not ColourMapKind.SEQUENTIAL:
            maps = ", ".join(each.id for each in colour_maps_of_kind(ColourMapKind.SEQUENTIAL))
            sentence = f"colour_map “{map_name}” is not for weights. Use {maps}."
            raise InputError("colour_map", sentence)
        page = create_notebook_page(runs, self._source_name, self.notices, shown, map_name)
        return InteractiveView(page, len(self.key_tokens), repr(self)[1:-1])

    def _validate_layers(self, layers: object) -> frozenset[int]:
        is_one = isinstance(layers, Integral) and not isinstance(layers, bool)
        numbers = [layers] if is_one else validate_sequence("layers", "a list of layers", layers)
        for number in numbers:
            self._find_run_of_layer(number)
        return frozenset(numbers)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the interactive page, and the overview for viewers that run no scripts."""
        found = {"text/plain": repr(self)}
        if not self.runs:
            return found
        traces = [each.run.trace for each in self.runs]
        cells = sum(math.prod(trace.shape(trace.attention_stage_name)) for trace in traces)
        if cells > MAX_DISPLAYED_CELLS:
            found["text/plain"] += "\nThe text is long. To display it, call interactive()."
            return found
        with suppress(InputError):  # such as several parts, of which one must be selected
            found["text/html"] = self.interactive()._repr_html_()
        with suppress(InputError):  # such as a thread other than the main thread
            found["image/png"] = base64.b64encode(self.overview().png).decode("ascii")
        return found

    @property
    def _source_name(self) -> str:
        return self.runs[0].run.source_full_name.rpartition(" of ")[2]

    def heads(self) -> list[dict[str, float]]:
        """Return a table of measures with one row per head.

        Each row has ``layer``, ``head`` and the mean weights on the ``previous`` token, the
        ``first`` token, the query's ``own`` token, earlier occurrences of the query's token
        (``duplicate``) and the tokens after those occurrences (``induction``); the mean ``largest``
        weight; the ``entropy`` in bits; and the mean ``distance`` in tokens. ``value_weighting`` is
        the distance between a row of weights and the same row weighted by the norms of the values
        and normalized (Kobayashi et al. 2020): half the sum of the absolute differences. A measure
        is NaN if there is nothing to average.
        """
        return list_head_measure_rows(self._runs_with_weights())

    def to_dataframe(self) -> Any:
        """Return the table of `heads` as a ``pandas.DataFrame``; requires pandas.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        if not is_installed("pandas"):
            sentence = (
                "to_dataframe requires pandas, which is not installed. Install it with: "
                "pip install pandas"
            )
            raise InputError(PACKAGE_FIELD, sentence)
        return import_module("pandas").DataFrame(self.heads())

    def _require_runs(self) -> tuple[LayerGroupRun, ...]:
        if not self.runs:
            raise InputError(
                "model", "The model has not been run yet. Run it within the context of capture()."
            )
        return self.runs

    def _runs_of_single_part(self) -> tuple[LayerGroupRun, ...]:
        return require_single_part(self._require_runs())

    def _runs_with_weights(self) -> tuple[LayerGroupRun, ...]:
        runs = self._runs_of_single_part()
        if not all(Role.WEIGHTS in each.run.trace for each in runs):
            sentence = (
                "Attention weights are required, but some of the numbers are negative, so they are "
                "scores. Pass the weights, such as the softmax of the scores."
            )
            raise InputError("attention", sentence)
        return runs

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
