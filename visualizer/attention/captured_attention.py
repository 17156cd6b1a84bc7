"""Attention that was computed by another program, as an immutable value; imports no torch."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.layer_stages import (
    STAGE_ORDER,
    LayerStageSpec,
    create_layer_stages,
)
from visualizer.attention.roles import Role
from visualizer.attention.spec import (
    MAX_VALUES,
    AttentionSpec,
    BooleanMatrix,
    DropoutMode,
    Dtype,
    MaskKind,
    NormalisationKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.stages import (
    LAYER_STAGES,
    SCORE_AXES,
    STAGE_TABLE,
    Operation,
    Stage,
    is_always_present,
    stages,
)
from visualizer.brief_repr import brief_repr

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from visualizer.attention.layer_operations import LayerStep

MAX_LAYERS = 1_000
MAX_TOKENS = 100_000
"""Maximum number of queries, and maximum number of keys."""
MAX_CUT_EDGES = 100_000
"""Maximum number of attention edges that can be cut in a model."""
MAX_NAME_LENGTH = 28
HALF_NAME_LENGTH = 13
SCORE_STAGES = (Role.SCORES, Role.SCALED, Role.CAPPED, Role.BIASED, Role.MASKED, Role.WEIGHTS)
"""Stages from scores to weights; the input of each is the nearest stage before it that exists."""
SINKS_NAME = "sinks"
"""Name of the array of sink logits in a trace."""
_CROSS_ATTENTION_DIMS: dict[str, tuple[str, ...]] = {
    Role.QUERIES: ("head", "query", "d_head"),
    Role.KEYS: ("head", "key", "d_head"),
    Role.VALUES: ("head", "key", "d_head"),
}
_READS: dict[str, tuple[str, ...]] = {Role.BIASED: (Role.SCORES, Role.BIAS)}
"""Additional inputs of stages that exist only in models."""


class LayerMask(Struct, frozen=True):
    """Mask of one layer, with the same fields as in `AttentionSpec`."""

    mask: MaskKind = MaskKind.NONE
    own_mask: BooleanMatrix | None = None
    window: int = 0


class CapturedVectors(Struct, frozen=True):
    """Queries, keys and values of captured attention, and how weights were computed from them.

    Parameters
    ----------
    d_head, d_value : int
        Number of columns of a query or key, and of a value.
    queries, keys, values : bytes
        Vectors [layer, head, query, d_head], [layer, head, key, d_head] and [layer, head, key,
        d_value]; keys and values that heads share are repeated for each head.
    scaling : float
        Scaling factor for the scores.
    mask, own_mask, window
        Which keys a query may attend to, as in `AttentionSpec`.
    layer_masks : tuple of LayerMask
        The mask of each layer if the layers have different masks; otherwise empty.
    softcap : float
        Soft cap of the scaled scores, softcap·tanh(score/softcap); 0 if there is none.
    bias : bytes or None
        Numbers added to the scores, [layer, head, query, key], or [head, query, key] if all layers
        have the same bias.
    sinks : bytes or None
        Logits [layer, head] that are part of the softmax of each row but belong to no key.
    not_understood : tuple of str
        Names of additional attention inputs with unknown effects.
    is_plain : bool
        Whether only scaling and mask were applied between scores and softmax.
    cut : tuple of (layer, head, query, key)
        Cells that were additionally masked in individual heads, in ascending order.
    """

    d_head: int
    d_value: int
    queries: bytes
    keys: bytes
    values: bytes
    scaling: float
    mask: MaskKind
    own_mask: BooleanMatrix | None = None
    window: int = 0
    is_plain: bool = True
    layer_masks: tuple[LayerMask, ...] = ()
    softcap: float = 0.0
    bias: bytes | None = None
    sinks: bytes | None = None
    not_understood: tuple[str, ...] = ()
    cut: tuple[tuple[int, int, int, int], ...] = ()

    __repr__ = brief_repr

    @property
    def common_mask(self) -> LayerMask:
        """The mask that all layers have, unless `layer_masks` is given."""
        return LayerMask(self.mask, self.own_mask, self.window)

    def read_array(self, name: str, captured: CapturedAttention) -> np.ndarray:
        """Return the queries, keys, values, bias or sinks as a read-only array.

        A bias that is the same in all layers has the shape [1, head, query, key].
        """
        layers, heads, queries, keys = (
            captured.layers, captured.heads, captured.queries, captured.keys
        )  # fmt: skip
        sizes = {
            Role.QUERIES: (layers, heads, queries, self.d_head),
            Role.KEYS: (layers, heads, keys, self.d_head),
            Role.VALUES: (layers, heads, keys, self.d_value),
            Role.BIAS: (-1, heads, queries, keys),
            "sinks": (layers, heads),
        }[name]
        return np.frombuffer(getattr(self, name), dtype=captured.dtype.value).reshape(sizes)


class ImagePatches(Struct, frozen=True):
    """The input image of a vision model, and the positions of its patches among the tokens.

    Parameters
    ----------
    first : int
        Number of tokens before the patches.
    rows, columns : int
        Size of the grid of patches; the tokens are in row-major order.
    height, width : int
        Size of the image, in pixels.
    pixels : bytes
        RGB values of the image, row by row, after it was cropped and resized for the model.
    """

    first: int
    rows: int
    columns: int
    height: int
    width: int
    pixels: bytes

    __repr__ = brief_repr

    @property
    def patch_labels(self) -> tuple[str, ...]:
        """Short labels for the patches: the row and column numbers, counted from 1."""
        places = product(range(1, self.rows + 1), range(1, self.columns + 1))
        return tuple(f"{row}, {column}" for row, column in places)

    @property
    def token_count(self) -> int:
        """Number of tokens, including tokens that are not patches."""
        return self.first + self.rows * self.columns


class CapturedAttention(Struct, frozen=True):
    """Captured attention [layer, head, query, key] with its tokens; comparable and hashable.

    Parameters
    ----------
    name : str
        Name of the file that the numbers were read from.
    dtype : Dtype
        Type of the numbers; types with fewer bits are converted to float32.
    numbers : bytes
        The numbers, in the machine's byte order and in C order.
    query_tokens, key_tokens : tuple of str
        One token per query and one per key; empty if the file contains no tokens. If only the keys
        have tokens and there are more keys than queries, the queries are the last keys, as in a
        generation step with cached keys.
    vectors : CapturedVectors or None
        Vectors from which the weights were computed, if known.
    patches : ImagePatches or None
        The image, if the tokens are its patches; None for a text.
    """

    name: str
    layers: int
    heads: int
    queries: int
    keys: int
    dtype: Dtype
    numbers: bytes
    query_tokens: tuple[str, ...] = ()
    key_tokens: tuple[str, ...] = ()
    vectors: CapturedVectors | None = None
    patches: ImagePatches | None = None

    __repr__ = brief_repr

    @classmethod
    def from_array(
        cls,
        name: str,
        array: np.ndarray,
        query_tokens: tuple[str, ...] = (),
        key_tokens: tuple[str, ...] = (),
    ) -> CapturedAttention:
        """Create captured attention from an array [layer, head, query, key] of floats."""
        dtype = Dtype.FLOAT64 if array.dtype == np.float64 else Dtype.FLOAT32
        layers, heads, queries, keys = array.shape
        numbers = np.ascontiguousarray(array, dtype=dtype.value).tobytes()
        return cls(
            name, layers, heads, queries, keys, dtype, numbers, query_tokens, key_tokens or ()
        )

    def to_array(self) -> np.ndarray:
        """Return the numbers as a read-only array [layer, head, query, key]."""
        sizes = (self.layers, self.heads, self.queries, self.keys)
        return np.frombuffer(self.numbers, dtype=self.dtype.value).reshape(sizes)

    def buffers(self) -> tuple[bytes, ...]:
        """Return all stored numbers, which can be large, in parts."""
        vectors, patches = self.vectors, self.patches
        parts = [self.numbers, patches.pixels if patches else None]
        if vectors:
            parts += [vectors.queries, vectors.keys, vectors.values, vectors.bias, vectors.sinks]
        return tuple(part for part in parts if part is not None)

    @property
    def is_square(self) -> bool:
        """Whether there are as many queries as keys."""
        return self.queries == self.keys

    @property
    def is_continuation(self) -> bool:
        """Whether the queries are the last keys, as in a generation step with cached keys."""
        return self.queries < self.keys and bool(self.key_tokens) and not self.query_tokens

    @property
    def has_other_keys(self) -> bool:
        """Whether the tokens of the keys differ from the tokens of the queries."""
        own = self.key_tokens and self.key_tokens != self.query_tokens
        return not self.is_square or bool(own)

    @property
    def display_name(self) -> str:
        """The file's name as shown in messages: printable, and shortened in the middle."""
        seen = "".join(letter if letter.isprintable() else "�" for letter in self.name)
        return (
            seen
            if len(seen) <= MAX_NAME_LENGTH
            else f"{seen[:HALF_NAME_LENGTH]}…{seen[-HALF_NAME_LENGTH:]}"
        )

    @property
    def size_text(self) -> str:
        """Text with the numbers of layers, heads, queries and keys."""
        layers = f"{self.layers:,} layer{'s' * (self.layers != 1)}"
        heads = f"{self.heads:,} head{'s' * (self.heads != 1)}"
        return f"{layers} × {heads} × {self.queries:,} × {self.keys:,}"

    @property
    def spec(self) -> AttentionSpec:
        """Spec for a trace of this attention; only its dtype and head count are always known."""
        d_head = self.vectors.d_head if self.vectors else 1
        spec = AttentionSpec(
            d_in=self.heads * d_head,
            d_out=self.heads * d_head,
            heads=self.heads,
            projection=Projection.NONE,
            output_projection=False,
            mask=MaskKind.NONE,
            mode=DropoutMode.EVAL,
            dtype=self.dtype,
        )
        unknown = replace(spec, normalisation=NormalisationKind.UNIFORM)
        return _with_mask_and_scaling(spec, self.vectors) if self.vectors else unknown


def _with_mask_and_scaling(spec: AttentionSpec, vectors: CapturedVectors) -> AttentionSpec:
    """Return a spec with the mask and the scaling of captured vectors.

    A scaling of 1/√d_head becomes the spec's scale; any other becomes a temperature of 1/scaling.
    If the layers have different masks, the mask of the first layer that has one is used.
    """
    forbidding = (one for one in vectors.layer_masks if one.mask is not MaskKind.NONE)
    spec = with_layer_mask(spec, next(forbidding, vectors.common_mask))
    if abs(vectors.scaling * math.sqrt(vectors.d_head) - 1) < 1e-6:
        return spec
    return replace(spec, scale=ScaleKind.NONE, temperature=1 / vectors.scaling)


def with_layer_mask(spec: AttentionSpec, of_layer: LayerMask) -> AttentionSpec:
    """Return a spec with the given mask of a layer."""
    spec = replace(spec, mask=of_layer.mask, own_mask=of_layer.own_mask)
    return replace(spec, window=of_layer.window) if of_layer.window else spec


def captured_stages(
    spec: AttentionSpec,
    names: Iterable[str],
    given: Collection[str],
    steps: Mapping[str, LayerStep] | None = None,
    *,
    has_other_keys: bool = False,
) -> tuple[Stage, ...]:
    """Return the stages for captured attention.

    Parameters
    ----------
    names : iterable of str
        Names of all stages.
    given : collection of str
        Stages that were computed elsewhere; the others are computed from them as in a module.
    steps : mapping, optional
        How the model computes stages that no setting of the spec describes.
    has_other_keys : bool
        Whether the keys and values belong to different tokens than the queries.

    Returns
    -------
    tuple of Stage
        The stages in order of computation. From scores to weights, the input of each stage is the
        preceding one.
    """
    rows = {row.name: row for row in stages(spec)}
    if spec.scale is ScaleKind.NONE and Role.SCALED in rows:
        by = f"{spec.divisor:.4g}"  # the model's own scaling, not a temperature
        rows[Role.SCALED] = replace(
            rows[Role.SCALED], symbol=f"QKᵀ/{by}", description=f"scores divided by {by}"
        )
    rows |= {
        row.name: row
        for row in create_layer_stages({
            name: LayerStageSpec(step, _READS.get(name, ())) for name, step in (steps or {}).items()
        })
    }  # fmt: skip
    present = sorted(names, key=STAGE_ORDER.index)
    rows = {
        name: _captured_stage(name, rows.get(name)) if name in given else rows[name]
        for name in present
    }
    computed = [name for name in SCORE_STAGES if name in present]
    for before, name in pairwise(computed):
        if name not in given:
            rows[name] = replace(rows[name], reads=(before, *rows[name].reads[1:]))
    dims = _CROSS_ATTENTION_DIMS if has_other_keys else {}
    return tuple(
        replace(rows[name], when=is_always_present, dims=dims.get(name, rows[name].dims))
        for name in present
    )


def _captured_stage(name: str, row: Stage | None) -> Stage:
    says = f"{name} computed elsewhere"
    symbol = row.symbol if row and row.dims[-1] != "key" else ""
    return Stage(
        name,
        name.capitalize(),
        symbol or "given",
        row.dims if row else SCORE_AXES,
        Operation.CAPTURED,
        (),
        (),
        (),
        says,
        is_always_present,
    )


def possible_stage_axes(name: str) -> set[tuple[str, ...]]:
    """Return all axes that a stage can have, in a module, in a layer, or with other keys."""
    found = {row.dims for row in STAGE_TABLE if row.name == name}
    if name in LAYER_STAGES:
        found.add(LAYER_STAGES[name][0])
    return found | ({_CROSS_ATTENTION_DIMS[name]} if name in _CROSS_ATTENTION_DIMS else set())


def numbered_labels(count: int) -> tuple[str, ...]:
    """Return labels for positions without tokens: their numbers, counted from 1."""
    return tuple(str(place) for place in range(1, count + 1))


MAX_IMAGE_SIDE_PX = 10_000
MAX_NAMES, MAX_ARGUMENT_LENGTH = 100, 200
NumberCheck = tuple[bool, str]
"""Whether a condition holds, and the name of the invalid value if the condition does not hold."""


def header_checks(captured: CapturedAttention) -> Iterator[NumberCheck]:
    """Yield checks of the sizes, tokens and settings, which do not need the numbers."""
    sizes = (captured.layers, captured.heads, captured.queries, captured.keys)
    limits = (MAX_LAYERS, MAX_VALUES["heads"], MAX_TOKENS, MAX_TOKENS)
    are_sizes = all(1 <= size <= largest for size, largest in zip(sizes, limits, strict=True))
    yield are_sizes, "the size of the captured attention"
    yield len(captured.query_tokens) in (0, captured.queries), "the number of query tokens"
    yield len(captured.key_tokens) in (0, captured.keys), "the number of key tokens"
    if patches := captured.patches:
        yield _matches_patch_grid(captured, patches), "the image of the patches"
    if captured.vectors:
        yield from _vector_checks(captured, captured.vectors)


def value_checks(captured: CapturedAttention) -> Iterator[NumberCheck]:
    """Yield checks that the number of values agrees with the sizes."""
    sizes = (captured.layers, captured.heads, captured.queries, captured.keys)
    item = np.dtype(captured.dtype.value).itemsize
    yield len(captured.numbers) == math.prod(sizes) * item, "the number of captured weights"
    if not (vectors := captured.vectors):
        return
    widths = {
        Role.QUERIES: (captured.queries, vectors.d_head),
        Role.KEYS: (captured.keys, vectors.d_head),
        Role.VALUES: (captured.keys, vectors.d_value),
    }
    heads = captured.layers * captured.heads
    for name, (tokens, width) in widths.items():
        is_whole = len(getattr(vectors, name)) == item * heads * tokens * width
        yield is_whole, f"the number of {name}"
    per_layer = item * captured.heads
    sinks = len(vectors.sinks or b"")
    yield vectors.sinks is None or sinks == per_layer * captured.layers, "the number of sinks"
    bias, scores = len(vectors.bias or b""), per_layer * captured.queries * captured.keys
    yield vectors.bias is None or bias in (scores, scores * captured.layers), "the number of biases"


def has_valid_packed_bits(own: BooleanMatrix) -> bool:
    """Return whether a matrix has as many bits as its size requires, padded with zeros."""
    if min(own.rows, own.columns) < 0 or len(own.bits) != -(-own.rows * own.columns // 8):
        return False
    spare = -own.rows * own.columns % 8
    return not spare or own.bits[-1] & ((1 << spare) - 1) == 0


def _matches_patch_grid(captured: CapturedAttention, patches: ImagePatches) -> bool:
    """Return whether the tokens match the grid of patches and the image is complete."""
    sides = (patches.rows, patches.columns, patches.height, patches.width)
    are_sizes = patches.first >= 0 and all(1 <= side <= MAX_IMAGE_SIDE_PX for side in sides)
    is_whole = len(patches.pixels) == 3 * patches.height * patches.width
    are_tokens = (captured.queries, captured.keys) == (patches.token_count,) * 2
    return are_sizes and is_whole and are_tokens and not captured.key_tokens


def _vector_checks(captured: CapturedAttention, vectors: CapturedVectors) -> Iterator[NumberCheck]:
    yield min(vectors.d_head, vectors.d_value) >= 1, "the size of the captured vectors"
    yield 0 <= vectors.softcap < math.inf, "the soft cap of the scores"
    names = vectors.not_understood
    is_short = len(names) <= MAX_NAMES and max(map(len, names), default=0) <= MAX_ARGUMENT_LENGTH
    yield is_short, "the argument names"
    widest = captured.heads * max(vectors.d_head, vectors.d_value)
    yield widest <= MAX_VALUES["d_in"], "the size of the captured vectors"
    yield 0 < vectors.scaling < math.inf, "the scaling of the scores"
    yield len(vectors.layer_masks) in (0, captured.layers), "the number of masks"
    for each in (vectors.common_mask, *vectors.layer_masks):
        yield from _mask_checks(captured, each)
    limits = (captured.layers, captured.heads, captured.queries, captured.keys)
    are_within = all(
        0 <= at < most for edge in vectors.cut for at, most in zip(edge, limits, strict=True)
    )
    are_sorted = [*vectors.cut] == sorted({*vectors.cut})
    yield are_within and are_sorted and len(vectors.cut) <= MAX_CUT_EDGES, "the cut edges"


def _mask_checks(captured: CapturedAttention, each: LayerMask) -> Iterator[NumberCheck]:
    own = each.own_mask
    yield (own is not None) == (each.mask is MaskKind.OWN), "the mask of the captured attention"
    if own:
        is_fitting = (own.rows, own.columns) == (captured.queries, captured.keys)
        yield is_fitting and has_valid_packed_bits(own), "the mask of the captured attention"
    yield (
        captured.is_square or each.mask in {MaskKind.NONE, MaskKind.OWN},
        "the mask for keys of another text",
    )
    is_window = each.mask is MaskKind.WINDOW
    yield (1 <= each.window <= MAX_VALUES["window"]) == is_window, "the window size"
