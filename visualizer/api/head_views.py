"""The table of heads, the overview and the interactive view, for all classes of attention."""

from __future__ import annotations

import base64
import math
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from numbers import Integral
from typing import TYPE_CHECKING, Any

from visualizer.api.argument_validation import (
    validate_choice,
    validate_colour_map,
    validate_integer,
    validate_sequence,
)
from visualizer.api.notebook_display import InteractiveView, Overview
from visualizer.attention.roles import Role
from visualizer.errors import InputError, not_found_error
from visualizer.export.offscreen_qt_application import offscreen_qt
from visualizer.models.layer_run_lookup import (
    find_layer_run,
    layer_numbers,
    list_head_measure_rows,
)
from visualizer.optional_packages import require_package
from visualizer.session.head_order import HeadOrder
from visualizer.session.view_options import (
    DEFAULT_MAP,
    ColourMapKind,
    colour_maps_of_kind,
    kind_of_colour_map,
)
from visualizer.session.zoom_ranges import row_token_role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Unpack

    import numpy as np

    from visualizer.api.argument_conversion import FigureArguments
    from visualizer.api.labelled_arrays import LabelledArray
    from visualizer.api.notebook_display import Figure
    from visualizer.export.figures.notebook_page import NotebookPage, PageLayout
    from visualizer.models.recorded_runs import LayerGroupRun

MAX_DISPLAYED_CELLS = 2**26
"""Maximum number of weights that a notebook displays without a call; more take over a second."""


class HeadViews:
    """The table of heads, the overview and the interactive view of attention."""

    __slots__ = ()

    def _layer_runs(self) -> tuple[LayerGroupRun, ...]:
        """Return the runs of layers with the same kind of attention."""
        raise NotImplementedError

    @property
    def _has_layer_axis(self) -> bool:
        """Whether the first axis of a stage is the layer."""
        raise NotImplementedError

    @property
    def _default_layout(self) -> PageLayout:
        """The content of the interactive page unless one is chosen."""
        from visualizer.export.figures.notebook_page import PageLayout

        return PageLayout.HEADS

    @property
    def _source_title(self) -> str:
        """Name of the model or module."""
        raise NotImplementedError

    def __getitem__(self, stage: str) -> np.ndarray:
        raise NotImplementedError

    def dims(self, stage: str) -> tuple[str, ...]:
        """Return the dimensions of a stage, for example ``("head", "query", "key")``."""
        raise NotImplementedError

    @property
    def tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens of the queries."""
        raise NotImplementedError

    @property
    def key_tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens of the keys."""
        raise NotImplementedError

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: int | Iterable[int] | None = None,
        *,
        layer: int = 0,
        **look: Unpack[FigureArguments],
    ) -> Figure:
        """Create a figure of one layer's heatmaps."""
        raise NotImplementedError

    def heads(self) -> list[dict[str, float]]:
        """Return a table of measures with one row per head.

        Each row has ``layer``, ``head`` and the mean weights on the ``previous`` token, the
        ``first`` token, the query's ``own`` token, earlier occurrences of the query's token
        (``duplicate``) and the tokens after those occurrences (``induction``); the mean ``largest``
        weight; the ``entropy`` in bits; and the mean ``distance`` in tokens. ``value_weighting`` is
        the distance between a row of weights and the same row weighted by the norms of the values
        and normalized (Kobayashi et al. 2020): half the sum of the absolute differences. A measure
        is NaN if there is nothing to average. For a batch of texts, there is one row per head and
        ``text``.

        Examples
        --------
        >>> rows = model_attention.heads()
        >>> best = max(rows, key=lambda row: row["previous"])
        >>> best["layer"], best["head"]  # the head that attends to the previous token most
        """
        return list_head_measure_rows(self._runs_with_weights())

    def to_dataframe(self, stage: str | None = None) -> Any:
        """Return a ``pandas.DataFrame``: the table of `heads`, or the values of a stage.

        A table of values has one row per value, with the index along each dimension and the tokens.

        Raises
        ------
        InputError
            If pandas is not installed, the stage does not exist, or it has over 20 million values.

        Examples
        --------
        >>> frame = model_attention.to_dataframe()  # requires pandas
        >>> frame.groupby("layer")["entropy"].mean()
        """
        if stage is not None:
            return self._label_stage(stage).to_dataframe()
        require_package("pandas", "to_dataframe")
        return import_module("pandas").DataFrame(self.heads())

    def to_xarray(self, stage: str) -> Any:
        """Return a stage as an ``xarray.DataArray`` with the dimensions `dims` and the tokens.

        ::

            model_attention.to_xarray("weights").sel(layer=3, head=2).mean("query")

        Raises
        ------
        InputError
            If xarray is not installed, or the stage does not exist.

        Examples
        --------
        >>> weights = model_attention.to_xarray("weights")  # requires xarray
        >>> weights.dims
        ('layer', 'head', 'query', 'key')
        """
        return self._label_stage(stage).to_xarray()

    def _label_stage(self, stage: str) -> LabelledArray:
        import numpy as np

        from visualizer.api.labelled_arrays import LabelledArray

        dims = self.dims(stage)
        layers = {"layer": np.array(layer_numbers(self._layer_runs()))} if "layer" in dims else {}
        of_role = {"query": self.tokens, "key": self.key_tokens}
        tokens = {dim: of_role[dim] for dim in dims if dim in of_role}
        if "token" in dims:
            tokens["token"] = of_role[row_token_role(stage)]
        labels = {dim: np.array(each) for dim, each in tokens.items()}
        return LabelledArray(stage, self[stage], dims, layers, labels)

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

        Examples
        --------
        >>> model_attention.overview(order="induction").save("heads.png")
        """
        chosen = validate_choice("order", HeadOrder, order)
        runs = [(each.run, each.group.layers) for each in self._runs_of_single_text()]
        with offscreen_qt():
            from visualizer.export.figures.png_writer import render_overview_png

            return Overview(render_overview_png(runs, chosen), repr(self)[1:-1])

    def interactive(
        self,
        layers: int | Iterable[int] | None = None,
        *,
        layout: str | None = None,
        colour_map: str = DEFAULT_MAP,
    ) -> InteractiveView:
        """Show the attention as an interactive page.

        A notebook also displays this page for the attention itself, if it is the last expression of
        a cell. With the layout ``"heads"``, you select a head, cells and tokens. The page contains
        the weights: up to 131,072 weights as they are, and more with four or three decimal places.
        If they take more than 6 MB, each cell of the page shows the largest weight of several
        queries and keys. With the layout ``"flow"``, the page shows all stages of the head that you
        select, and how each value is computed.

        Parameters
        ----------
        layers : int or iterable of int, optional
            Indices of the layers to show. By default, all layers or, with the layout ``"flow"``,
            which shows one layer, the first layer.
        layout : str, optional
            ``"heads"`` for the weights of all heads, or ``"flow"`` for the entire computation of
            each head, which is the default for a module with at most 8 heads and 64 tokens.
        colour_map : str
            A colour map for weights; see `visualizer.FigureArguments`.

        Raises
        ------
        InputError
            If a layer or colour map does not exist, the layers differ in the number of tokens, or
            the text is too long for that number of layers.

        Examples
        --------
        >>> model_attention.interactive(layers=[0, 1]).save("heads.html")
        >>> attention.interactive().save("computation.html")
        """
        from visualizer.export.figures.notebook_page import PageLayout

        found = self._runs_of_single_text()
        shown = None if layers is None else self._validate_layers(layers)
        map_name = validate_colour_map(colour_map)
        if kind_of_colour_map(map_name) is not ColourMapKind.SEQUENTIAL:
            maps = ", ".join(each.id for each in colour_maps_of_kind(ColourMapKind.SEQUENTIAL))
            sentence = f"colour_map “{map_name}” is not for weights. Use {maps}."
            raise InputError("colour_map", sentence)
        chosen = (
            self._default_layout
            if layout is None
            else validate_choice("layout", PageLayout, layout)
        )
        if chosen is PageLayout.FLOW:
            page = self._create_flow_page(shown or {min(layer_numbers(found))}, map_name)
        else:
            page = self._create_heads_page(found, shown, map_name)
        return InteractiveView(page, repr(self)[1:-1])

    def _create_heads_page(
        self, found: tuple[LayerGroupRun, ...], layers: frozenset[int] | None, map_name: str
    ) -> NotebookPage:
        from visualizer.export.figures.notebook_page import create_notebook_page

        runs = [(each.run, each.group.layers) for each in found]
        notices = tuple(dict.fromkeys(notice for each in found for notice in each.notices))
        return create_notebook_page(
            runs,
            self._source_title,
            notices,
            layers,
            map_name,
            has_layer_axis=self._has_layer_axis,
        )

    def _create_flow_page(self, layers: Collection[int], map_name: str) -> NotebookPage:
        from visualizer.export.figures.notebook_page import create_flow_page

        if len(layers) > 1:
            sentence = "layout=“flow” shows one layer. Select it, such as layers=0."
            raise InputError("layers", sentence)
        (layer,) = layers
        of_layer = find_layer_run(self._layer_runs(), layer)
        assert of_layer is not None
        options: FigureArguments = {"layout": "flow", "colour_map": map_name}
        figures = [
            self.figure(heads=head, layer=layer, **options)
            for head in range(of_layer[0].run.trace.spec.heads)
        ]
        title = (
            f"{self._source_title}, layer {layer + 1}"
            if self._has_layer_axis
            else self._source_title
        )
        with offscreen_qt():
            return create_flow_page([each.shot for each in figures], figures[0].look, title)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return the interactive page, and the overview for viewers that run no scripts."""
        found = {"text/plain": repr(self)}
        with suppress(InputError):  # for example if one of several parts must be selected
            traces = [each.run.trace for each in self._runs_of_single_text()]
            if sum(math.prod(trace.shape(Role.WEIGHTS)) for trace in traces) > MAX_DISPLAYED_CELLS:
                found["text/plain"] += "\nThe text is long. To display it, call interactive()."
                return found
            view = self.interactive()
            with suppress(InputError):  # for example if the layers differ in their number of heads
                view = replace(view, image=self.overview().png)
                found["image/png"] = base64.b64encode(view.image).decode("ascii")
            found["text/html"] = view._repr_html_()
        return found

    def _runs_with_weights(self) -> tuple[LayerGroupRun, ...]:
        runs = self._layer_runs()
        if not all(Role.WEIGHTS in each.run.trace for each in runs):
            sentence = (
                "Attention weights are required, but some of the numbers are negative, so they are "
                "scores. Pass the weights, such as the softmax of the scores."
            )
            raise InputError("attention", sentence)
        return runs

    def _runs_of_single_text(self) -> tuple[LayerGroupRun, ...]:
        runs = self._runs_with_weights()
        trace = runs[0].run.trace
        if "text" in trace.axes:
            count = trace.axis_size("text")
            sentence = f"This is a batch of {count} texts. Attend to one text at a time."
            raise InputError("text", sentence)
        return runs

    def _validate_layers(self, layers: object) -> frozenset[int]:
        is_one = isinstance(layers, Integral) and not isinstance(layers, bool)
        given = [layers] if is_one else validate_sequence("layers", "a list of layers", layers)
        numbers, existing = frozenset[int](), layer_numbers(self._layer_runs())
        for each in given:
            number = validate_integer("layers", each)
            if number not in existing:
                raise not_found_error("layers", f"layer {number}", f"The layers are {existing}.")
            numbers |= {number}
        return numbers
