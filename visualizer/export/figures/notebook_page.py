"""Writes all heads of all layers as one interactive HTML page, for notebooks.

This module chooses and packs the weights; the script and the style sheet that draw them are in
``resources/notebook``. Colours and ranges are those of the window.
"""

from __future__ import annotations

import base64
import html
import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from visualizer.attention.masks import MaskingSpec, blocks_with_allowed_cells
from visualizer.attention.roles import Role
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError
from visualizer.export.figures.self_contained_page import (
    compress_to_base64,
    data_element,
    encode_colour_table,
    encode_page_json,
    fill_template,
    read_page_resource,
)
from visualizer.format import format_count
from visualizer.heatmap.colour_range import (
    find_cached_range,
    find_range_of_samples,
    sample_layer_weights,
)
from visualizer.session.view_options import DEFAULT_MAP
from visualizer.widgets.theme import DARK, LIGHT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from visualizer.attention.blockwise_tensor import BlockwiseTensor
    from visualizer.attention.cached_tensor import CachedTensor
    from visualizer.attention.run import Run
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.heatmap.colour_range import AutomaticColourRange
    from visualizer.session.export_snapshot import ExportSnapshot

MAX_PACKED_BYTES = 5_800_000
"""Maximum size of the compressed weights in a page, in bytes."""
MAX_PRECISE_BYTES = 1_150_000
"""Maximum size of compressed weights with more than three decimal places, in bytes."""
MAX_EXACT_CELLS = 2**17
"""Maximum number of weights that are stored as float32."""
MAX_FOUR_DECIMALS_CELLS = 2**21
"""Maximum number of weights that are stored with four decimal places."""
MAX_CELLS = 24 * 2**20
"""Maximum number of weights that a browser unpacks."""
MAX_COMPUTED_CELLS = 2**31
"""Maximum number of weights of a long text that are computed for a page, which takes 10 to 60 s."""
MAX_BLOCK_DOUBLINGS = 6
"""Maximum number of times that the block size is doubled to make a page smaller."""
NAN_CODE, MAX_CODE = 65535, 65534
SMALL_TEXT_TOKENS, MEDIUM_TEXT_TOKENS = 12, 128
HEIGHTS_PX = 480, 720, 840
"""Heights of the view for small, medium and other texts."""
FLOW_MARGINS_PX = 170
"""Height of the heading, the buttons and the caption around the flow board."""
UNTRUSTED_HINT = "To use the interactive view, trust this notebook: File &gt; Trust Notebook."


class PageLayout(StrEnum):
    """Content of a page: the entire computation of each head, or the weights of all heads."""

    FLOW = "flow"
    HEADS = "heads"


class NotebookPage(Struct, frozen=True):
    """An HTML page, and the height of the frame in which a notebook displays it, in pixels."""

    html: str
    height: int

    __repr__ = brief_repr


class LayerWeights(Struct, frozen=True, eq=False):
    """One layer of a run.

    Parameters
    ----------
    number : int
        Index of the layer in the model.
    at : int
        Index of the layer in the run.
    index : int
        Index of the layer among all layers of the runs, in the order of the model.
    """

    run: Run
    number: int
    at: int
    index: int

    @property
    def heads(self) -> int:
        """Number of heads."""
        return self.run.trace.spec.heads

    @property
    def leading(self) -> tuple[int, ...]:
        """Index of the layer in the tensors of the run."""
        return (self.at,) if self.run.trace.axes else ()

    def read(self, block: int) -> PooledLayer:
        """Read the largest weight of each block, and the range that the heads share.

        For a long text, only one row per block is read.
        """
        trace = self.run.trace
        tensor = trace.cached_stage_tensor(Role.WEIGHTS)
        if tensor.is_blockwise or trace.cut:
            shown = [(trace, tensor)]
            own_range = find_cached_range(shown, [self.leading], Role.WEIGHTS, is_share=True)
            return PooledLayer(self, self._read_blocks(tensor, block), own_range)
        weights = tensor.read(self.leading)  # computed once, because it may not fit in the cache
        sample = sample_layer_weights(weights, trace.allowed_mask(Role.WEIGHTS, self.leading))
        own_range = find_range_of_samples([sample], is_share=True)
        return PooledLayer(self, _pool_largest(weights, block), own_range)

    def _read_blocks(self, tensor: CachedTensor, block: int) -> np.ndarray:
        if not tensor.is_blockwise:
            return tensor.read_pooled(block, block, self.leading)
        places = [(*self.leading, head) for head in range(self.heads)]
        if block == 1:
            return np.stack([tensor.read(place) for place in places])
        sampled = cast("BlockwiseTensor", tensor)
        return np.stack([sampled.sample_pooled_rows(block, place) for place in places])

    def masked_blocks(self, block: int) -> np.ndarray:
        """Return which blocks contain no allowed cell, as a boolean array [row, column]."""
        trace = self.run.trace
        masking = MaskingSpec.from_spec(trace.spec_at(self.leading), Role.WEIGHTS)
        return ~blocks_with_allowed_cells(masking, trace.query_key_counts, 0, (block, block))


class WeightEncoding(Struct, frozen=True):
    """Precision of the weights in a page.

    Parameters
    ----------
    block : int
        Number of queries and keys per cell, which shows their largest weight.
    decimals : int or None
        Number of decimal places; None for float32.
    step : float
        Difference between adjacent codes, which exceeds the decimal place for weights far above 1.
    """

    block: int
    decimals: int | None
    step: float = 1.0


class PooledLayer(Struct, frozen=True, eq=False):
    """The weights of a layer, [head, row, column], and their colour range."""

    layer: LayerWeights
    weights: np.ndarray
    range: AutomaticColourRange

    def pool_pairs(self) -> PooledLayer:
        """Return the layer with the largest weight of each 2 × 2 cells."""
        return replace(self, weights=_pool_largest(self.weights, 2))


def create_notebook_page(
    runs: Sequence[tuple[Run, tuple[int, ...]]],
    title: str,
    notes: Sequence[str] = (),
    shown: Collection[int] | None = None,
    map_: str = DEFAULT_MAP,
    *,
    has_layer_axis: bool = True,
) -> NotebookPage:
    """Return an HTML page with the weights of runs on the same text.

    Parameters
    ----------
    runs : sequence of (Run, layers)
        Runs, each with the indices of its layers in the model.
    title : str
        Name of the model.
    notes : sequence of str
        Sentences about the weights, which are shown below them.
    shown : collection of int, optional
        Indices of the layers to show in the model; all layers by default.
    map_ : str
        Name of the colour map.
    has_layer_axis : bool
        Whether the page shows indices of weights with an index of the layer.

    Raises
    ------
    InputError
        With field ``layers`` if the layers belong to different texts, or the text is too long.
    """
    pairs = [(number, run, at) for run, numbers in runs for at, number in enumerate(numbers)]
    pairs.sort(key=lambda pair: pair[0])
    layers = [
        LayerWeights(run, number, at, index)
        for index, (number, run, at) in enumerate(pairs)
        if shown is None or number in shown
    ]
    if len({layer.run.trace.query_key_counts for layer in layers}) != 1:
        sentence = "The layers cannot be combined: their heads differ in size. Select one layer."
        raise InputError("layers", sentence)
    _check_computed_cells(layers)
    encoding, pooled, packed = _pack_layers(*_read_layers(layers))
    themes = LIGHT, DARK
    description = _describe_page(pooled, title, notes, encoding) | {
        "hasLayers": has_layer_axis,
        "themes": {theme.name: asdict(theme) for theme in themes},
        "tables": {theme.name: encode_colour_table(map_, theme) for theme in themes},
    }
    data = [
        data_element("application/json", encode_page_json(description), "id", "page"),
        *(data_element("application/octet-stream", each, "class", "layer") for each in packed),
    ]
    script = "\n".join(
        read_page_resource(folder, name)
        for folder, name in (("webpage", "common.js"), ("notebook", "page.js"))
    )
    template = read_page_resource("notebook", "page.html")
    before, after = (
        fill_template(part, title, read_page_resource("notebook", "page.css"), script)
        for part in template.split("$data")
    )
    tokens = layers[0].run.trace.query_key_counts[1]
    limits = SMALL_TEXT_TOKENS, MEDIUM_TEXT_TOKENS, math.inf
    height = next(px for px, most in zip(HEIGHTS_PX, limits, strict=True) if tokens <= most)
    return NotebookPage("".join([before, *data, after]), height)


def create_flow_page(
    snapshots: Sequence[ExportSnapshot], figure_settings: FigureSettings, title: str
) -> NotebookPage:
    """Return an HTML page with the entire computation of the head that the reader selects.

    Call this within `offscreen_qt`.

    Parameters
    ----------
    snapshots : sequence of ExportSnapshot
        A snapshot for each head.
    """
    from visualizer.export.figures.figure_page import create_pooled_figure_content
    from visualizer.export.figures.webpage_flow_board import WebpageFlowBoard
    from visualizer.export.figures.webpage_writer import max_cells_per_side, write_webpage

    count = len(snapshots)
    contents = [
        create_pooled_figure_content(each, figure_settings, lambda n: max_cells_per_side(n * count))
        for each in snapshots
    ]
    file = io.BytesIO()
    write_webpage([each.board for each in contents], title, contents[0].caption, None, file)
    height = WebpageFlowBoard(contents[0].board).height + FLOW_MARGINS_PX
    least, *_, most = HEIGHTS_PX
    return NotebookPage(file.getvalue().decode(), round(min(max(height, least), most)))


def frame_notebook_page(page: NotebookPage, image: bytes = b"") -> str:
    """Return a page in a frame that isolates it from the notebook, in ASCII.

    Other characters would change in a notebook with another encoding, and the page would then not
    run its script, because the hash would differ. Until a notebook is trusted, JupyterLab removes
    frames and displays their content, which browsers otherwise ignore: a hint and the image.

    Parameters
    ----------
    image : bytes, optional
        A PNG image of the weights.
    """
    content = html.escape(page.html).encode("ascii", "xmlcharrefreplace").decode("ascii")
    encoded = base64.b64encode(image).decode("ascii")
    picture = f'<img alt="All heads" src="data:image/png;base64,{encoded}">' if image else ""
    return (
        f'<iframe sandbox="allow-scripts" width="100%" height="{page.height}" title="Attention" '
        f'style="border: 0; display: block" srcdoc="{content}"><p>{UNTRUSTED_HINT}</p>{picture}'
        "</iframe>"
    )


# ------------------------------------------------------------------------------------- weights


def _check_computed_cells(layers: Sequence[LayerWeights]) -> None:
    """Raise an `InputError` if the weights of a long text would take minutes to compute."""
    trace = layers[0].run.trace
    cells = sum(layer.heads for layer in layers) * math.prod(trace.query_key_counts)
    if trace.cached_stage_tensor(Role.WEIGHTS).is_blockwise and cells > MAX_COMPUTED_CELLS:
        most = MAX_COMPUTED_CELLS * len(layers) // cells
        sentence = (
            f"The text is too long for {len(layers):,} layers. Select at most {most:,} with "
            "layers, such as interactive(layers=[0])."
        )
        if not most:
            sentence = (
                "The text is too long for the interactive view. Use figure, which accepts texts of "
                "any length."
            )
        raise InputError("layers", sentence)


def _read_layers(layers: Sequence[LayerWeights]) -> tuple[int, list[PooledLayer]]:
    """Read the weights with the smallest block size with which a browser can unpack them."""
    queries, keys = layers[0].run.trace.query_key_counts
    heads, block = sum(layer.heads for layer in layers), 1
    while heads * -(-queries // block) * -(-keys // block) > MAX_CELLS:
        block += 1
    return block, [layer.read(block) for layer in layers]


def _pool_largest(weights: np.ndarray, block: int) -> np.ndarray:
    """Return the largest weight of each block, or NaN, [head, row, column]."""
    if block == 1:
        return weights
    rows = np.maximum.reduceat(weights, range(0, weights.shape[1], block), axis=1)
    pooled: np.ndarray = np.maximum.reduceat(rows, range(0, weights.shape[2], block), axis=2)
    return pooled


def _pack_layers(
    block: int, layers: list[PooledLayer]
) -> tuple[WeightEncoding, list[PooledLayer], list[str]]:
    """Return the first encoding with which the weights fit in a page, and the packed weights."""
    largest = max(
        float(each.weights.max(initial=0, where=np.isfinite(each.weights))) for each in layers
    )
    for encoding in _list_encodings(block, sum(each.weights.size for each in layers), largest):
        while block < encoding.block:
            layers, block = [each.pool_pairs() for each in layers], 2 * block
        limit = MAX_PACKED_BYTES if encoding.decimals == 3 else MAX_PRECISE_BYTES
        if packed := _pack_within(limit, [each.weights for each in layers], encoding):
            return encoding, layers, packed
    sentence = (
        "There are too many layers and heads for a page. Select fewer with layers, such as "
        "interactive(layers=[0])."
    )
    raise InputError("layers", sentence)


def _pack_within(
    limit: int, layers: Sequence[np.ndarray], encoding: WeightEncoding
) -> list[str] | None:
    """Pack the layers in parallel; return None as soon as they take more bytes than the limit."""
    packed = list[str]()
    threads = ThreadPoolExecutor(os.cpu_count())  # zlib releases the GIL
    try:
        for each in threads.map(partial(_pack_weights, encoding=encoding), layers):
            packed.append(each)
            if (limit := limit - len(each)) < 0:
                return None
    finally:
        threads.shutdown(cancel_futures=True)
    return packed


def _list_encodings(block: int, cells: int, largest: float) -> Iterator[WeightEncoding]:
    """Yield encodings in order of decreasing precision."""
    if cells <= MAX_EXACT_CELLS:
        yield WeightEncoding(block, None)
    if cells <= MAX_FOUR_DECIMALS_CELLS:
        yield WeightEncoding(block, 4, max(1e-4, largest / MAX_CODE))
    for power in range(MAX_BLOCK_DOUBLINGS):
        yield WeightEncoding(block << power, 3, max(1e-3, largest / MAX_CODE))


def _pack_weights(weights: np.ndarray, encoding: WeightEncoding) -> str:
    """Compress the weights of a layer, stored as byte planes."""
    if encoding.decimals is None:
        codes = np.ascontiguousarray(weights, dtype="<f4")
    else:
        scaled = np.rint(weights / weights.dtype.type(encoding.step))
        is_nan = np.isnan(scaled)
        codes = np.where(is_nan, NAN_CODE, scaled.clip(0, MAX_CODE)).astype("<u2")
    planes = codes.view(np.uint8).reshape(-1, codes.itemsize).T
    return compress_to_base64(planes.tobytes())


# -------------------------------------------------------------------------------- description


def _describe_page(
    pooled: Sequence[PooledLayer], title: str, notes: Sequence[str], encoding: WeightEncoding
) -> dict[str, object]:
    """Describe everything except the weights."""
    layers = [each.layer for each in pooled]
    run, block = layers[0].run, encoding.block
    queries, keys = run.texts[0], run.key_tokens or run.texts[0]
    masks: dict[bytes, int] = {}
    return {
        "title": title,
        "sizes": _describe_sizes(layers),
        "queries": queries,
        "keys": None if keys == queries else keys,
        "shape": pooled[0].weights.shape[1:],
        "before": run.token_number(0, "query") - 1,
        "block": block,
        "bytes": 4 if encoding.decimals is None else 2,
        "decimals": encoding.decimals,
        "step": encoding.step,
        "layers": [_describe_layer(each, block, masks) for each in pooled],
        "masks": [compress_to_base64(mask) for mask in masks],
        "notes": [*_describe_encoding(run, encoding), *notes],
    }


def _describe_layer(pooled: PooledLayer, block: int, masks: dict[bytes, int]) -> dict[str, object]:
    layer, found, masked = pooled.layer, pooled.range, pooled.layer.masked_blocks(block)
    bits = np.packbits(masked).tobytes()
    return {
        "number": layer.number,
        "index": layer.index,
        "heads": layer.heads,
        "end": found.end,
        "endText": str(found),
        "mask": masks.setdefault(bits, len(masks)) if masked.any() else None,
    }


def _describe_sizes(layers: Sequence[LayerWeights]) -> str:
    queries, keys = layers[0].run.trace.query_key_counts
    fewest, most = min(layer.heads for layer in layers), max(layer.heads for layer in layers)
    heads = format_count(most, "head") if fewest == most else f"{fewest:,} to {most:,} heads"
    tokens = f"{queries:,} × {keys:,} tokens" if queries != keys else format_count(keys, "token")
    return " · ".join([format_count(len(layers), "layer"), heads, tokens])


def _describe_encoding(run: Run, encoding: WeightEncoding) -> Iterator[str]:
    if encoding.block > 1:
        size = f"{encoding.block:,}"
        rows = f"one of {size} queries" if run.trace.is_blockwise else f"{size} queries"
        yield (
            f"The text is long: each cell shows the largest weight of {rows} on {size} keys. "
            "Select fewer layers to see more detail."
        )
    if encoding.decimals is not None:
        yield f"Weights are rounded to {encoding.decimals} decimal places."
