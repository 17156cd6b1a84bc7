"""Python API that computes, loads, explains, draws and saves attention.

Indices start at 0, as in NumPy; positions in sentences start at 1.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.api.argument_conversion import (
    AttendArguments,
    FigureArguments,
    document_from_arguments,
    figure_settings_from_arguments,
    rename_error_fields,
)
from visualizer.api.argument_validation import (
    MAX_QUOTED_NAME_LENGTH,
    describe_value,
    reject_unused_selection,
    used_weight_names,
    validate_colour_map,
    validate_integer,
    validate_sequence,
    validate_string,
)
from visualizer.api.head_views import HeadViews
from visualizer.api.notebook_display import ExplainedValue, Figure
from visualizer.attention.custom_weights import read_bias, read_weights
from visualizer.attention.spec import NORM_LAYERS, OWN_BIASES
from visualizer.brief_repr import truncate
from visualizer.errors import InputError, OutOfRangeError, not_found_error
from visualizer.export.figure_settings import FigureExtent
from visualizer.features.explain.presenter import explain_head_cell
from visualizer.file_opening import EXPORT_VIEW
from visualizer.format import format_size
from visualizer.session.cell_address import Cell
from visualizer.session.computation_caption import describe_value_origin
from visualizer.session.document_builder import (
    check_stage_names,
    missing_stage_message,
    with_stages_and_heads,
)
from visualizer.session.export_snapshot import ExportSnapshot
from visualizer.session.resolved_view import MAX_FLOW_KEYS, resolve_view
from visualizer.session.timeline import PlaybackState
from visualizer.session.view import View
from visualizer.session.view_options import (
    COLOUR_MAPS,
    ColourMapKind,
    kind_of_colour_map,
)
from visualizer.session.worker_jobs import run_document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import Unpack

    import numpy as np
    from numpy.typing import ArrayLike

    from visualizer.attention.cached_tensor import Index
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.trace import Trace
    from visualizer.export.figures.notebook_page import PageLayout
    from visualizer.models.recorded_runs import LayerGroupRun
    from visualizer.session.document import Document

MAX_FLOW_HEADS = 8
"""Maximum number of heads that a notebook displays with all stages; a page takes 0.1 s per head."""
MAX_READ_BYTES = 2**29
"""Maximum size of a part that is read from a matrix that is not kept in memory, in bytes."""


def validate_stage_index(trace: Trace, stage: str, index: Sequence[object]) -> tuple[str, Index]:
    """Validate the indices into a stage and the size of the indexed part.

    Returns
    -------
    tuple of str and tuple of int or slice
        The arguments of `Trace.read`.

    Raises
    ------
    InputError
        If the part does not exist, or it is too large and the stage is not kept in memory.
    """
    sizes = trace.shape(stage)
    if len(index) > len(sizes):
        dims = ", ".join((*trace.axes, *trace.stage(stage).dims))
        raise InputError("stage", f"“{stage}” has {len(sizes)} axes: {dims}.")
    part = tuple(validate_axis_index(*pair) for pair in zip(index, sizes, strict=False))
    if trace.cached_stage_tensor(stage).is_blockwise:
        _check_read_size(trace, stage, part)
    return stage, part


def array_conversion_error(stage: str) -> InputError:
    """Return the error for attention that is passed to a function that requires an array."""
    return InputError("stage", f'Attention is not an array. Use attention["{stage}"].')


def validate_axis_index(at: object, size: int) -> int | slice:
    """Validate the index of an axis, which may be negative, or a slice with a positive step."""
    if isinstance(at, slice):
        try:
            start, stop, step = at.indices(size)
        except TypeError:
            step = 0
        if step > 0:
            return slice(start, max(start, stop), step)
    elif hasattr(at, "__index__") and not isinstance(at, bool):
        place = int(at.__index__())
        if -size <= place < size:
            return place % size
        sentence = f"Index {place} is out of range. Valid indices are 0 to {size - 1}."
        raise OutOfRangeError("stage", sentence)
    sentence = (
        f"An index must be a whole number or a slice such as :10. It is {describe_value(at)}."
    )
    raise InputError("stage", sentence)


def _check_read_size(trace: Trace, stage: str, part: Index) -> None:
    """Raise `InputError` if a part of a stage that is not kept in memory would be too large."""
    sizes = trace.shape(stage)
    counts = [
        1 if isinstance(at, int) else len(range(*at.indices(size)))
        for at, size in zip(part, sizes, strict=False)
    ]
    counts += sizes[len(part) :]
    itemsize = trace.read(stage, (0,) * len(sizes)).itemsize
    count = math.prod(counts) * itemsize
    if count <= MAX_READ_BYTES:
        return
    shape = " × ".join(f"{each:,}" for each in counts)
    index = "0, " * (len(sizes) - 2) + f":{max(1, MAX_READ_BYTES // (itemsize * sizes[-1]))}"
    sentence = (
        f"The text is long, and this part of “{stage}” has {shape} numbers, which take "
        f"{format_size(count)}. Read at most {format_size(MAX_READ_BYTES)} at once, for example "
        f'attention["{stage}", {index}]; `explain` and `figure` accept texts of any length.'
    )
    raise InputError("stage", sentence)


__all__ = [
    "AttendArguments",
    "Attention",
    "ExplainedValue",
    "Figure",
    "FigureArguments",
    "InputError",
    "attend",
]


def attend(
    text: str | Sequence[str] | None = None,
    *,
    vectors: ArrayLike | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    **settings: Unpack[AttendArguments],
) -> Attention:
    """Run an attention module on a text: ``attend("a b c", heads=2, embedding_size=8)``.

    The global random state, the number of threads and the settings of torch do not change.

    Parameters
    ----------
    text : str or sequence of str, optional
        The text; several texts form a batch. The default is the book's example sentence, or
        numbered tokens if ``vectors`` is given.
    vectors : array_like, optional
        Token vectors [token, embedding_size], used instead of random ones.
    weights : mapping of str to array_like, optional
        Any of ``"W_query"``, ``"W_key"`` and ``"W_value"``, [embedding_size, width] with all heads
        side by side; ``"W_output"``, [width, width]; and their biases [width],
        ``"W_query.bias"`` and so on. Queries are ``x @ W_query + bias``. Weights that are not
        given are random.
    **settings
        See `visualizer.AttendArguments`. The sizes of the vectors and weights are the defaults.

    Raises
    ------
    InputError
        A `ValueError` that states which argument is invalid or has no effect, and how to correct
        it.

    Examples
    --------
    >>> short = visualizer.attend("The cat sat", embedding_size=8, output_size=8, heads=2)
    >>> short["weights"].shape  # head query key
    (2, 3, 3)
    >>> two_texts = visualizer.attend(["a b c", "d e"], mechanism="causal")
    >>> two_texts["weights"].shape  # text head query key: padded to the longest text
    (2, 1, 3, 3)
    """
    with rename_error_fields():
        document = document_from_arguments(text, vectors, weights, settings)
        run = run_document(document, None)
    return issue_warnings(Attention(document, EXPORT_VIEW, run))


def issue_warnings(attention: Attention, notice: str = "") -> Attention:
    """Issue the notices about attention as warnings of the caller of a public function."""
    for sentence in filter(None, (notice, *attention.notices)):
        warnings.warn(sentence, stacklevel=3)
    return attention


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attention(HeadViews):
    """The attention of a module for a text, with its values, explanations and figures.

    Attention that was captured by another program has only weights or scores.

    ``attention["weights"]`` returns a stage as a read-only array with the dimensions
    ``attention.dims("weights")``. The first axis is the text in a batch, or the layer if several
    layers were opened. ``attention["weights", 0, :10]`` returns part of a stage. Matrices of long
    texts are not kept in memory and can only be read in parts.

    Objects of this class, their figures and their explanations can be copied and pickled, because
    all values are stored as NumPy arrays on the CPU.

    Examples
    --------
    >>> attention["context"].shape  # head query d_head
    (2, 6, 4)
    >>> attention["weights", 0, 2].shape  # one row of head 0: the weights of query 2
    (6,)
    >>> "dropped" in attention  # there is no dropout
    False
    >>> attention.spec.heads
    2
    >>> sorted(attention.parameters)[:2]
    ['W_key.weight', 'W_query.weight']
    """

    document: Document
    view: View
    run: Run

    def __repr__(self) -> str:
        return truncate(f"<Attention: {describe_value_origin(self.run)}>")

    def __getitem__(self, stage: str | tuple[str | int | slice, ...]) -> np.ndarray:
        name, *index = stage if isinstance(stage, tuple) else (stage,)
        return self.run.trace.read(
            *validate_stage_index(self.run.trace, self._validate_stage_name(name), index)
        )

    def __contains__(self, stage: object) -> bool:
        return isinstance(stage, str) and stage in self.stages

    def __array__(self, *types: object, **options: object) -> np.ndarray:
        """Refuse the conversion to an array, because there are several stages."""
        raise array_conversion_error(self.run.trace.attention_stage_name)

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages in order of computation."""
        return self.run.trace.names

    @property
    def tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens; for a batch, the tokens of each text, padded to the longest text.

        Tokens without labels are numbered from 1.
        """
        return self.run.texts if len(self.run.texts) > 1 else self.run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The key tokens, which can differ from the query tokens in captured attention."""
        return self.run.key_tokens or self.tokens

    @property
    def spec(self) -> AttentionSpec:
        """The specification of the module: sizes, mask, scale and all other settings.

        Raises
        ------
        InputError
            If the attention was captured by another program; the specification is then unknown.
        """
        if not self.run.trace.has_module:
            sentence = f"{self.run.source_display_name} does not contain the settings of a module."
            raise InputError("spec", sentence)
        return self.run.trace.spec

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The weights and biases, keyed by their names in the book's ``state_dict``; read-only."""
        return {name: self.run.trace.read(name) for name in self.run.trace.parameters}

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights and biases in the form that the argument of `attend` requires."""
        trace, found = self.run.trace, {}
        for name in used_weight_names(trace.spec):
            if name in OWN_BIASES:
                found[name] = read_bias(trace, name)
            else:
                matrix = read_weights(trace, name)
                found[name] = matrix[0] if name in NORM_LAYERS else matrix
        return found

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the values, as sentences."""
        return self.run.notices

    def dims(self, stage: str) -> tuple[str, ...]:
        """Return the dimensions of a stage, for example ``("head", "query", "key")``.

        Examples
        --------
        >>> attention.dims("weights")
        ('head', 'query', 'key')
        """
        return (*self.run.trace.axes, *self.run.trace.stage(self._validate_stage_name(stage)).dims)

    def explain(self, stage: str, **place: int) -> ExplainedValue:
        """Explain how a value is computed.

        Parameters
        ----------
        **place : int
            The index along each dimension of the stage, such as ``head=0, query=2, key=1``.
            ``head`` can be omitted if there is only one head; ``text`` and ``layer`` are 0 by
            default.

        Raises
        ------
        InputError
            If the stage or position does not exist.

        Examples
        --------
        >>> explained = attention.explain("weights", head=0, query=2, key=1)
        >>> explained.sentence
        >>> explained.terms
        """
        trace = self.run.trace
        dims = trace.stage(self._validate_stage_name(stage)).dims
        sizes = trace.shape(stage)[-len(dims) :]
        axes = trace.leading_axis_names
        place = {**dict.fromkeys(axes, 0), **place}
        if trace.spec.heads == 1:
            place = {"head": 0, **place} if "head" in dims else place
        if place.keys() != {*axes, *dims}:
            raise InputError("place", f"The stage “{stage}” requires {', '.join(dims)}.")
        counts = ((axis, trace.axis_size(axis)) for axis in axes)
        place = {
            dim: _validate_index(dim, place[dim], size)
            for dim, size in (*zip(dims, sizes, strict=True), *counts)
        }
        cell = Cell(stage, tuple(place[dim] for dim in dims))
        view = View(layer=place.get("layer", 0), text=place.get("text", 0))
        resolved = resolve_view(self.document, view, self.run)
        panel = explain_head_cell(resolved, cell, is_pinned=False)
        index = (*resolved.leading, *cell.place)
        return ExplainedValue(panel, float(trace.read(stage, index)))

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        text: int = 0,
        layer: int = 0,
        **look: Unpack[FigureArguments],
    ) -> Figure:
        """Create a figure with the heatmaps of the given stages and heads; notebooks display it.

        Parameters
        ----------
        stages : str or iterable of str, optional
            The stages to show; scores, weights, weights after dropout and context vectors by
            default.
        heads : int or iterable of int, optional
            Indices of the heads, from 0; all heads by default.
        text : int
            Index of the text in a batch.
        layer : int
            Index of the layer, if several layers were opened.
        **look
            Colours, size and title; see `visualizer.FigureArguments`.

        Raises
        ------
        InputError
            If a stage or head does not exist, the figure cannot be created, or an argument would
            have no effect.

        Examples
        --------
        >>> figure = attention.figure(["scores", "weights"], heads=[1], size="85mm")
        >>> figure.save("figure.pdf")
        """
        settings = figure_settings_from_arguments(look)
        trace = self.run.trace
        if settings.has_all_layers and trace.axis_size("layer") < 2:
            raise InputError(
                "all_layers", "all_layers has no effect with a single layer. Remove all_layers."
            )
        view = replace(
            self.view,
            text=_validate_index("text", text, trace.axis_size("text")),
            layer=_validate_index("layer", layer, trace.axis_size("layer")),
        )
        names = None if stages is None else validate_stage_names(stages)
        rows = None if heads is None else _check_heads(heads, trace.spec.heads)
        view = with_stages_and_heads(self.run, view, names, rows)
        if names or rows or text or layer or look.get("layout") is not None:
            # The view that is saved in a loaded file could hide the requested stages or heads.
            view = replace(view, playhead=PlaybackState(), guess=None, pinned=None, spread=False)
        if rows:
            view = replace(view, folds=frozenset())
            if not any("head" in trace.stage(name).dims for name in view.stages & {*self.stages}):
                raise InputError(
                    "heads", "heads has no effect on stages without heads. Remove heads."
                )
        reject_unused_selection(settings.extent, names, rows)
        if (colour_map := look.get("colour_map")) is not None:
            map_name = validate_colour_map(colour_map)
            every = settings.extent in {FigureExtent.STAGES, FigureExtent.ALL, FigureExtent.FLOW}
            self._check_colour_map_used(map_name, self.stages if every else view.stages)
            view = replace(view, colouring=view.colouring.with_colour_map(map_name))
        return Figure(ExportSnapshot(self.document, view, self.run), settings)

    def _check_colour_map_used(self, name: str, stages: Collection[str]) -> None:
        """Reject a colour map that is not used for the values of any of the stages."""
        trace = self.run.trace
        kinds = {
            ColourMapKind.SEQUENTIAL if trace.stage(each).is_weights else ColourMapKind.DIVERGING
            for each in stages
            if each in trace
        }
        kind = kind_of_colour_map(name)
        if kinds and kind not in kinds:
            is_for_weights = kind is ColourMapKind.SEQUENTIAL
            uses = "for weights" if is_for_weights else "for numbers other than weights"
            maps = ", ".join(each.id for each in COLOUR_MAPS if each.kind in kinds)
            sentence = f"colour_map “{name}” is {uses}, and the figure has none. Use {maps}."
            raise InputError("colour_map", sentence)

    def save(self, *paths: str | Path) -> None:
        """Write files, each in the format of its suffix; see `Figure.save`.

        Examples
        --------
        >>> attention.save("cat.png", "cat.npz", "cat.attention")
        """
        self.figure().save(*paths)

    def _layer_runs(self) -> tuple[LayerGroupRun, ...]:
        from visualizer.models.array_runs import as_layer_group

        return (as_layer_group(self.run, tuple(range(self.run.trace.axis_size("layer")))),)

    @property
    def _has_layer_axis(self) -> bool:
        return "layer" in self.run.trace.axes

    @property
    def _default_layout(self) -> PageLayout:
        from visualizer.export.figures.notebook_page import PageLayout

        trace = self.run.trace
        is_small = trace.spec.heads <= MAX_FLOW_HEADS and trace.query_key_counts[1] <= MAX_FLOW_KEYS
        return PageLayout.FLOW if trace.has_module and is_small else PageLayout.HEADS

    @property
    def _source_title(self) -> str:
        return describe_value_origin(self.run).partition(" · ")[0]

    def _validate_stage_name(self, stage: object) -> str:
        if isinstance(stage, str) and stage in self.stages:
            return stage
        name = stage[:MAX_QUOTED_NAME_LENGTH] if isinstance(stage, str) else describe_value(stage)
        raise InputError("stage", missing_stage_message(self.run, name))


def _validate_index(name: str, at: object, size: int) -> int:
    index = validate_integer(name, at)
    if not 0 <= index < size:
        error = not_found_error(name, f"{name} {index}", f"Valid indices are 0 to {size - 1}.")
        raise OutOfRangeError(error.field, error.sentence)
    return index


def validate_stage_names(stages: str | Iterable[str]) -> frozenset[str]:
    """Validate the name of a stage or a list of names."""
    requirement = "the name of a stage or a list of names"
    found = (
        [stages] if isinstance(stages, str) else validate_sequence("stages", requirement, stages)
    )
    names = (validate_string("stages", name, "a list of names") for name in found)
    return check_stage_names([name[:MAX_QUOTED_NAME_LENGTH] for name in names])


def _check_heads(heads: int | Iterable[int], count: int) -> frozenset[int]:
    is_one = isinstance(heads, Integral) and not isinstance(heads, bool)
    rows = [heads] if is_one else validate_sequence("heads", "a list of heads, such as [0]", heads)
    return frozenset(_validate_index("head", head, count) for head in rows)
