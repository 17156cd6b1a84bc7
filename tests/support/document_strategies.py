"""Hypothesis strategies for documents and views."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.struct_strategies import structs
from visualizer.attention.captured_attention import (
    CapturedAttention,
    CapturedVectors,
    ImagePatches,
    LayerMask,
)
from visualizer.attention.display_transforms import HeadAggregate, WeightTransform
from visualizer.attention.settings import CONTROL_RANGES, SettingKind
from visualizer.attention.spec import (
    BIAS_SUFFIX,
    OWN_LAYERS,
    Activation,
    AttentionSpec,
    BooleanMatrix,
    Device,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    ModelDtype,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)
from visualizer.attention.stages import STAGE_TABLE
from visualizer.language.tokenizers import TokenizerKind
from visualizer.models.model_source import (
    MAX_HEAD_SCALE,
    CutEdges,
    HeadEdit,
    HeadEditKind,
    ImageFile,
    ModelSource,
)
from visualizer.session.cell_address import Cell, ComparisonSide, ParameterCell
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document, LineGrouping
from visualizer.session.head_order import HeadOrder
from visualizer.session.model_pane_options import AttributionOptions, HeadScatterOptions
from visualizer.session.timeline import PLAYBACK_SPEEDS, PlaybackPosition, PlaybackState, StepSize
from visualizer.session.token_selection import TokenRole, TokenSelection
from visualizer.session.user_prediction import Prediction, PredictionQuestion
from visualizer.session.view import CodeDialect, TableSelection, View
from visualizer.session.view_options import (
    MAX_LINES_PER_QUERY,
    ColourCurve,
    ColourLimits,
    ColourMapKind,
    ColourOptions,
    LineViewOptions,
    MaskEditState,
    colour_maps_of_kind,
)
from visualizer.session.zoom_ranges import ZoomRange

STAGES = st.sampled_from(sorted({row.name for row in STAGE_TABLE}))
COUNTS = st.integers(0, 5) | st.integers(0, 2**31 - 1)
SIZES = st.integers(0, 5) | st.integers(*map(int, CONTROL_RANGES[SettingKind.COUNT]))
SEEDS = st.integers(*map(int, CONTROL_RANGES[SettingKind.SEED]))
RATES = st.floats(*CONTROL_RANGES[SettingKind.RATE])
TEMPERATURES = st.floats(*CONTROL_RANGES[SettingKind.NUMBER]) | st.floats(
    min_value=0, exclude_min=True, allow_infinity=False
)
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)


@st.composite
def booleans(draw: st.DrawFn) -> BooleanMatrix:
    rows, columns = draw(st.integers(0, 5)), draw(st.integers(0, 9))
    cells = draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))
    return BooleanMatrix.from_array(np.array(cells, dtype=bool).reshape(rows, columns))


@st.composite
def numbers(draw: st.DrawFn) -> NumberMatrix:
    rows, columns = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    finite = st.floats(allow_nan=False, allow_infinity=False)
    cells = draw(st.lists(finite, min_size=rows * columns, max_size=rows * columns))
    return NumberMatrix.from_array(np.array(cells).reshape(rows, columns))


@st.composite
def captured(draw: st.DrawFn) -> CapturedAttention:
    """Draw captured attention with any bit patterns, including all kinds of NaN."""
    layers, heads, queries, keys = (draw(st.integers(1, most)) for most in (2, 2, 3, 3))
    dtype = draw(st.sampled_from(Dtype))
    count = layers * heads * queries * keys * np.dtype(dtype.value).itemsize
    named = [
        draw(st.just(()) | st.lists(ANY_TEXT, min_size=size, max_size=size).map(tuple))
        for size in (queries, keys)
    ]
    content = draw(st.binary(min_size=count, max_size=count))
    sizes = (layers, heads, queries, keys)
    made = CapturedAttention(draw(ANY_TEXT), *sizes, dtype, content, named[0], named[1])
    if made.is_square and not made.key_tokens and draw(st.booleans()):
        made = replace(made, patches=draw(image_patches(made.queries)))
    return replace(made, vectors=draw(captured_vectors(made))) if draw(st.booleans()) else made


@st.composite
def image_patches(draw: st.DrawFn, tokens: int) -> ImagePatches:
    """Draw an image with any pixels and with patches for this number of tokens."""
    first = draw(st.integers(0, tokens - 1))
    rows = draw(st.sampled_from([at for at in (1, 2, 3) if not (tokens - first) % at]))
    high, wide = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    pixels = draw(st.binary(min_size=3 * high * wide, max_size=3 * high * wide))
    return ImagePatches(first, rows, (tokens - first) // rows, high, wide, pixels)


@st.composite
def captured_vectors(draw: st.DrawFn, of: CapturedAttention) -> CapturedVectors:
    """Draw vectors with any bit patterns that fit captured attention, with any mask."""
    d_head, d_value = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    heads = of.layers * of.heads * np.dtype(of.dtype.value).itemsize
    queries, keys = heads * of.queries, heads * of.keys
    sizes = (queries * d_head, keys * d_head, keys * d_value)
    parts = [draw(st.binary(min_size=size, max_size=size)) for size in sizes]
    mask = draw(layer_masks(of))
    masks = st.lists(layer_masks(of), min_size=of.layers, max_size=of.layers).map(tuple)
    limits = (of.layers, of.heads, of.queries, of.keys)
    edges = st.tuples(*(st.integers(0, size - 1) for size in limits))
    return CapturedVectors(
        d_head,
        d_value,
        parts[0],
        parts[1],
        parts[2],
        draw(st.floats(0.01, 100)),
        mask.mask,
        mask.own_mask,
        mask.window,
        draw(st.booleans()),
        draw(st.just(()) | masks),
        draw(st.just(0.0) | st.floats(0.01, 100)),
        draw(st.none() | bias_of(of)),
        draw(st.none() | st.binary(min_size=heads, max_size=heads)),
        draw(st.lists(ANY_TEXT, max_size=2).map(tuple)),
        tuple(sorted(draw(st.frozensets(edges, max_size=3)))),
    )


def bias_of(of: CapturedAttention) -> st.SearchStrategy[bytes]:
    """Draw a score bias, which is the same in all layers or differs between them."""
    size = len(of.numbers) // of.layers
    return st.sampled_from([size, len(of.numbers)]).flatmap(
        lambda count: st.binary(min_size=count, max_size=count)
    )


@st.composite
def layer_masks(draw: st.DrawFn, of: CapturedAttention) -> LayerMask:
    """Draw the mask of a layer of captured attention."""
    mask = draw(st.sampled_from(MaskKind if of.is_square else (MaskKind.NONE, MaskKind.OWN)))
    allowed = np.array(draw(st.lists(st.booleans(), min_size=9, max_size=9))).reshape(3, 3)
    own = (
        BooleanMatrix.from_array(allowed[: of.queries, : of.keys]) if mask is MaskKind.OWN else None
    )
    return LayerMask(mask, own, draw(st.integers(1, 4)) if mask is MaskKind.WINDOW else 0)


OWN_NAMES = [*OWN_LAYERS, *(f"{name}{BIAS_SUFFIX}" for name in OWN_LAYERS)]
SPECS = structs(
    AttentionSpec,
    d_in=SIZES,
    d_out=SIZES,
    heads=SIZES,
    projection=st.sampled_from(Projection),
    bias=st.booleans(),
    arrangement=st.sampled_from(HeadArrangement),
    output_projection=st.booleans(),
    position=st.sampled_from(PositionKind),
    scale=st.sampled_from(ScaleKind),
    temperature=TEMPERATURES,
    normalisation=st.sampled_from(NormalisationKind),
    mask=st.sampled_from(MaskKind),
    window=SIZES,
    own_mask=st.none() | booleans(),
    route=st.sampled_from(MaskPlacement),
    dropout=RATES,
    dropout_seed=SEEDS,
    own_kept=st.none() | booleans(),
    mode=st.sampled_from(DropoutMode),
    seed=SEEDS,
    own_input=st.none() | numbers(),
    own_weights=st.lists(
        st.tuples(st.sampled_from(OWN_NAMES), numbers()), max_size=3, unique_by=lambda own: own[0]
    ).map(tuple),
    dtype=st.sampled_from(Dtype),
    device=st.sampled_from(Device),
    block=st.sampled_from(TransformerBlockKind),
    d_ff=SIZES,
    key_value_heads=SIZES,
    activation=st.sampled_from(Activation),
)
PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5))
EDITS = (
    structs(
        HeadEdit,
        layer=st.integers(0, 5),
        head=st.integers(0, 5),
        kind=st.just(HeadEditKind.SCALED),
        factor=st.floats(-MAX_HEAD_SCALE, MAX_HEAD_SCALE),
        text=st.just(""),
    )
    | structs(
        HeadEdit,
        layer=st.integers(0, 5),
        head=st.integers(0, 5),
        kind=st.sampled_from([HeadEditKind.OFF, HeadEditKind.MEAN]),
        factor=st.just(0.0),
        text=st.just(""),
    )
    | structs(
        HeadEdit,
        layer=st.integers(0, 5),
        head=st.integers(0, 5),
        kind=st.just(HeadEditKind.PATCHED),
        factor=st.just(0.0),
        text=ANY_TEXT,
    )
)
CUTS = structs(
    CutEdges,
    layer=st.integers(0, 5),
    head=st.integers(0, 5),
    cells=st.frozensets(PAIRS, min_size=1, max_size=4).map(lambda cells: tuple(sorted(cells))),
)


def by_place(each: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a few values with different heads, in the order of the heads."""
    found = st.lists(each, max_size=3, unique_by=lambda one: one.layer_and_head)
    return found.map(lambda drawn: tuple(sorted(drawn, key=lambda one: one.layer_and_head)))


PATHS = ANY_TEXT.map(lambda text: f"/{text}".replace("//", "/").replace("\0", ""))
HASHES = st.binary(min_size=32, max_size=32).map(bytes.hex)
MODELS = structs(
    ModelSource,
    folder=PATHS,
    name=ANY_TEXT,
    fingerprint=HASHES,
    second=ANY_TEXT,
    is_chat=st.booleans(),
    part=ANY_TEXT,
    image=st.none() | st.just(ImageFile()) | structs(ImageFile, path=PATHS, sha256=HASHES),
    edits=by_place(EDITS),
    cuts=by_place(CUTS),
    half_dtype=st.sampled_from([None, ModelDtype.BFLOAT16, ModelDtype.FLOAT16]),
)
DOCUMENTS = structs(
    Document,
    text=ANY_TEXT,
    tokenizer=st.sampled_from(TokenizerKind),
    lines=st.sampled_from(LineGrouping),
    spec=SPECS,
    captured=st.none() | captured(),
    labels=ANY_TEXT,
    model=st.none() | MODELS,
    weights_source=ANY_TEXT,
)

PLACES = st.lists(COUNTS, min_size=2, max_size=3).map(tuple)
CELLS = structs(
    Cell, stage=STAGES, place=PLACES, fold=st.none() | st.sampled_from(HeadAggregate),
    part=st.sampled_from(ComparisonSide), layer=st.none(),
)  # fmt: skip
CELLS_ON_THE_WAY = structs(
    Cell, stage=STAGES, place=PLACES, fold=st.none() | st.sampled_from(HeadAggregate),
    part=st.sampled_from(ComparisonSide), layer=st.none() | COUNTS,
)  # fmt: skip
STEPS = structs(PlaybackPosition, stage=STAGES, row=COUNTS, column=COUNTS)
SPANS = st.tuples(COUNTS, COUNTS).filter(lambda ends: ends[0] < ends[1]).map(lambda e: range(*e))


@st.composite
def ends(draw: st.DrawFn) -> tuple[str, float, float]:
    finite = st.floats(allow_nan=False, allow_infinity=False)
    low, high = sorted(draw(st.lists(finite, min_size=2, max_size=2, unique=True)))
    return draw(STAGES), low, high


COLOURINGS = structs(
    ColourOptions,
    curve=st.sampled_from(ColourCurve),
    limits=st.sampled_from(ColourLimits),
    typed=st.lists(ends(), max_size=3).map(tuple),
    sequential=st.sampled_from([each.id for each in colour_maps_of_kind(ColourMapKind.SEQUENTIAL)]),
    diverging=st.sampled_from([each.id for each in colour_maps_of_kind(ColourMapKind.DIVERGING)]),
)
PLAYHEADS = structs(
    PlaybackState,
    place=st.none() | STEPS,
    grain=st.sampled_from(StepSize),
    speed=st.sampled_from(PLAYBACK_SPEEDS),
    loops=st.booleans(),
    is_playing=st.booleans(),
    span=st.none() | st.tuples(STEPS, STAGES),
)


@st.composite
def guesses(draw: st.DrawFn) -> Prediction:
    stage = draw(STAGES)
    marks = draw(
        st.lists(structs(Cell, stage=st.just(stage), place=PLACES, layer=st.none()), max_size=2)
    )
    return Prediction(
        stage, draw(st.sampled_from(PredictionQuestion)), tuple(marks), draw(st.booleans())
    )


COMPARISONS = structs(
    Comparison,
    against=st.sampled_from(ComparisonKind),
    document=DOCUMENTS,
    heads=st.tuples(COUNTS, COUNTS),
    count=st.integers(1, 256),
    alone=st.frozensets(STAGES),
    before=st.frozensets(STAGES),
)
TABLES = structs(
    TableSelection,
    name=STAGES | ANY_TEXT,
    head=COUNTS,
    problem=ANY_TEXT,
    document=st.none() | DOCUMENTS,
)
TOKENS = structs(
    TokenSelection,
    chosen=st.frozensets(COUNTS, max_size=4),
    role=st.sampled_from(TokenRole),
    sought=ANY_TEXT,
    match=st.none() | COUNTS,
)
TRAILS = st.lists(CELLS_ON_THE_WAY, max_size=3).map(tuple)
LINES = structs(
    LineViewOptions,
    threshold=st.floats(0, 1),
    top=st.integers(0, MAX_LINES_PER_QUERY),
    solo=st.none() | st.just(-1) | COUNTS,
    by_key=st.frozensets(CELLS, max_size=2),
)
PAINTINGS = structs(
    MaskEditState, is_on=st.booleans(), window=COUNTS, prefix=COUNTS, padding=COUNTS,
    is_of_all_heads=st.booleans(),
)  # fmt: skip
PARAMETERS = st.none() | st.builds(
    ParameterCell, st.sampled_from(["keys", "output"]), st.none() | st.integers(0, 3),
    st.integers(0, 9), st.integers(0, 9),
)  # fmt: skip
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "stages": st.frozensets(STAGES),
    "text": COUNTS,
    "layer": COUNTS,
    "panes": st.frozensets(ANY_TEXT, max_size=2),
    "hovered_parameter": PARAMETERS,
    "pinned_parameter": PARAMETERS,
    "hovered": st.none() | CELLS,
    "pinned": st.none() | CELLS,
    "heads": st.none() | st.frozensets(COUNTS, max_size=4),
    "folds": st.frozensets(st.sampled_from(HeadAggregate)),
    "lens": st.sampled_from(WeightTransform),
    "spread": st.booleans(),
    "flow": st.booleans(),
    "zoom": st.none() | st.builds(ZoomRange, SPANS, SPANS),
    "colouring": COLOURINGS,
    "large": st.none() | STAGES,
    "room": st.integers(1, 1_000),
    "playhead": PLAYHEADS,
    "guess": st.none() | guesses(),
    "dialect": st.sampled_from(CodeDialect),
    "lesson": st.none(),
    "comparison": st.none() | COMPARISONS,
    "table": TABLES,
    "tokens": TOKENS,
    "last_pinned": st.none() | CELLS,
    "past": TRAILS,
    "future": TRAILS,
    "lines": LINES,
    "painting": PAINTINGS,
    "head_order": st.sampled_from(HeadOrder),
    "attribution": st.builds(AttributionOptions, st.text(max_size=8)),
    "scatter": st.builds(HeadScatterOptions, st.text(max_size=8), st.text(max_size=8)),
}
VIEWS = st.fixed_dictionaries(FIELDS).map(lambda fields: View(**fields))
