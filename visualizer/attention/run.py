"""Runs: a spec that is computed on tokenized texts, on a chosen device within the free memory.

Errors, such as a missing text or too little memory, are reported with messages for the user.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention import device as attention_device
from visualizer.attention.attend import attend
from visualizer.attention.captured_attention import MAX_TOKENS
from visualizer.attention.masks import MASKED_SCORES, allowed
from visualizer.attention.mechanisms import with_block_embedding_size
from visualizer.attention.parameter_init import convert_custom_matrix, initialize_parameters
from visualizer.attention.roles import Role
from visualizer.attention.spec import (
    INPUT_FIELDS,
    WEIGHT_FIELDS,
    AttentionSpec,
    Device,
    HeadArrangement,
    MaskKind,
    NormalisationKind,
)
from visualizer.attention.spec_validation import check_spec
from visualizer.attention.stages import Operation, estimate_bytes, query_key_matrix_bytes
from visualizer.attention.token_embeddings import PADDING_LABEL, embed_tokens
from visualizer.brief_repr import brief_repr
from visualizer.errors import FIRST_TOKENS, InputError, is_out_of_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from visualizer.attention.buffer_pool import BufferPool
    from visualizer.attention.captured_attention import CapturedAttention, ImagePatches
    from visualizer.attention.model_forward_pass import ModelForwardPass
    from visualizer.attention.spec import NumberMatrix, Texts
    from visualizer.attention.stages import Stage
    from visualizer.attention.trace import LeadingIndex, Trace


def run_notices(trace: Trace) -> tuple[str, ...]:
    """Return one sentence for each unexpected property of a trace's numbers."""
    spec, notices = trace.spec, []
    if trace.is_blockwise:
        return (*_divisor_notices(trace), *_empty_row_notices(trace))
    if spec.normalisation is NormalisationKind.NAIVE_SOFTMAX and _has_nan_weights(trace):
        notices.append(
            f"The naive softmax overflowed: some rows are NaN because exp(score) exceeds the range "
            f"of {spec.dtype} or is 0 in the whole row. Use Softmax, which first subtracts the "
            "maximum of each row."
        )
    if spec.normalisation is NormalisationKind.SUM and _has_weights_outside_unit_range(trace):
        notices.append(
            "Dividing by the sum gave weights below 0 or above 1, because a row has positive and "
            "negative scores."
        )
    if spec.normalisation is NormalisationKind.SUM and _has_nonfinite_weights(trace):
        notices.append("Dividing by the sum gave NaN or infinite weights in rows that sum to 0.")
    return (
        *notices,
        *_overflow_notices(trace),
        *_divisor_notices(trace),
        *_empty_row_notices(trace),
    )


def _has_nan_weights(trace: Trace) -> bool:
    normalised = trace.stage_of_role(Role.UNMASKED) or trace.stage_of_role(Role.WEIGHTS)
    return normalised is not None and bool(trace.tensor(normalised.name).isnan().any())


def _has_nonfinite_weights(trace: Trace) -> bool:
    stages = [stage for stage in (Role.UNMASKED, Role.WEIGHTS) if stage in trace]
    return not all(trace.tensor(stage).isfinite().all() for stage in stages)


def _has_weights_outside_unit_range(trace: Trace) -> bool:
    low, high = trace.limits(Role.WEIGHTS) if Role.WEIGHTS in trace else (0.0, 1.0)
    return low < 0 or high > 1


def _overflow_notices(trace: Trace) -> list[str]:
    """Return a notice that names the first stage with numbers outside the dtype's range."""
    if not _can_overflow(trace):
        return []
    spec = trace.spec
    stage = next((one for one in trace.stages if _has_overflowed(trace, one)), None)
    is_reported = spec.normalisation in {NormalisationKind.NAIVE_SOFTMAX, NormalisationKind.SUM}
    if stage is None or (stage.is_weights and is_reported):
        return []
    largest = torch.finfo(getattr(torch, spec.dtype)).max
    advice = " or a larger temperature" if spec.divisor < 1 else ""
    return [
        f"Overflow: some {stage.plural_number_noun} are beyond "
        f"the range of {spec.dtype} (±{largest:.2g}), and "
        f"results computed from them may be NaN. Use smaller vectors or weights{advice}."
    ]


def _can_overflow(trace: Trace) -> bool:
    vectors = [stage for stage in trace.stages if not {"query", "key"} <= {*stage.dims}]
    if not all(
        trace.cached_stage_tensor(stage.name).cached_reduction("finite sum", _has_finite_sum)
        for stage in vectors
    ):
        return True
    products = (one for one in trace.stages if one.operation is Operation.DOT_PRODUCT)
    largest = torch.finfo(getattr(torch, trace.spec.dtype)).max
    # A score is at most the product of the norms of its vectors (Cauchy–Schwarz).
    return any(
        not _largest_norm_product(trace, stage) / min(1, trace.spec.divisor) < largest
        for stage in products
    )


def _largest_norm_product(trace: Trace, stage: Stage) -> float:
    """Return the product of the largest norms among the vectors that a stage multiplies."""
    lengths = [
        trace.cached_stage_tensor(name).cached_reduction("longest vector", _largest_norm)
        for name in stage.reads
    ]
    return float(np.prod(lengths))


def _largest_norm(vectors: Tensor) -> float:
    return float(vectors.norm(dim=-1).max())


def _has_finite_sum(numbers: Tensor) -> bool:
    """Return whether the sum is finite; if it is, all numbers are finite."""
    return bool(numbers.sum().isfinite())


def _has_overflowed(trace: Trace, stage: Stage) -> bool:
    is_masked = stage.name in MASKED_SCORES  # −∞ is intended there
    return not is_masked and not bool(trace.tensor(stage.name).isfinite().all())


def _divisor_notices(trace: Trace) -> list[str]:
    spec = trace.spec
    smallest = torch.finfo(getattr(torch, spec.dtype)).tiny
    if Role.SCALED not in trace or spec.divisor >= smallest:
        return []
    return [
        f"The scores are divided by {spec.divisor:.3g}, but {spec.dtype} loses precision below "
        f"{smallest:.2g}. Use a larger temperature."
    ]


def _empty_row_notices(trace: Trace) -> list[str]:
    spec = trace.spec
    if spec.mask is not MaskKind.OWN:  # every other mask lets queries attend to themselves
        return []
    attends = np.asarray(allowed(spec, trace.query_count).any(-1))  # query, or text 1 query
    if spec.lengths:
        is_real = np.arange(trace.query_count) < np.array(spec.lengths)[:, None]  # text query
        attends = attends[:, 0][is_real]
    count = attends.size - int(attends.sum())
    if not count:
        return []
    return [
        f"{count:,} of {attends.size:,} queries attend to nothing: the mask forbids all their keys."
    ]


SMALL_RUN_BYTES = 2**24
"""Estimated memory, in bytes, below which a computation uses a single thread."""
MAX_FULL_MATRIX_BYTES = 2**29
"""Maximum size, in bytes, of matrices held in full; larger matrices are computed in blocks."""

MIN_BLOCKWISE_BYTES = 2**26
"""Maximum size, in bytes, of matrices that are always held in full; blocks would save nothing."""

USABLE_MEMORY_SHARE = 0.75
"""Fraction of the free memory that a trace may use, so that the machine stays responsive."""


class Run(Struct, frozen=True, eq=False):
    """A trace with its tokens and further information on its source.

    Parameters
    ----------
    texts : tuple of tuple of str
        Tokens of each text, padded to the longest.
    device : str
        Name of the device that computed the trace.
    notices : tuple of str
        Notices about the numbers, each a sentence.
    captured : CapturedAttention or None
        The captured attention that the trace was created from; None for a computed run.
    key_tokens : tuple of str
        Tokens of the keys, if they differ from the tokens of the queries.
    reading : ModelForwardPass or None
        Additional data from a model's forward pass; None if no model computed the run.
    weights_source : str
        Name of the custom weights' source; empty if they were entered or passed as arrays.
    """

    texts: Texts
    trace: Trace
    device: str
    notices: tuple[str, ...]
    captured: CapturedAttention | None = None
    key_tokens: tuple[str, ...] = ()
    reading: ModelForwardPass | None = None
    weights_source: str = ""

    __repr__ = brief_repr

    def axis_tokens(self, leading: LeadingIndex, axis: str = "query") -> tuple[str, ...]:
        """Return the tokens along an axis of the stages, at an index along the leading axes."""
        is_key = axis == "key" and self.key_tokens
        return self.key_tokens if is_key else self.texts[self.trace.axis_position("text", leading)]

    def token_number(self, at: int, axis: str) -> int:
        """Return the number of a token, counted from 1; in a continuation, queries are keys."""
        is_later = axis == "query" and self.is_continuation
        return at + 1 + (len(self.key_tokens) - len(self.texts[0]) if is_later else 0)

    def token_labels(self, leading: LeadingIndex, axis: str = "query") -> tuple[str, ...]:
        """Return the tokens as `words` does or, for image patches, only their rows and columns."""
        words = self.axis_tokens(leading, axis)
        patches = self.patches
        return (*words[: patches.first], *patches.patch_labels) if patches else words

    @property
    def max_full_matrix_tokens(self) -> int:
        """Approximate number of tokens up to which this run's matrices would be held in full."""
        trace, (queries, keys) = self.trace, self.trace.query_key_counts
        if self.reading:  # for models, only the weights are counted
            item = trace.cached_stage_tensor(trace.attention_stage_name).dtype.itemsize
            size = item * math.prod(trace.shape(trace.attention_stage_name))
        else:
            size = query_key_matrix_bytes(trace.spec, queries, len(self.texts))
        held = MAX_FULL_MATRIX_BYTES if size > MAX_FULL_MATRIX_BYTES else MIN_BLOCKWISE_BYTES
        return math.isqrt(held * queries * keys // size)

    @property
    def has_same_keys(self) -> bool:
        """Whether the keys belong to the same tokens as the queries."""
        return not self.key_tokens or (self.key_tokens,) == self.texts

    @property
    def is_continuation(self) -> bool:
        """Whether the queries are the last keys, as in a generation step with cached keys."""
        return self.captured is not None and self.captured.is_continuation

    @property
    def key_texts(self) -> Texts:
        """Tokens of the keys, which end with the queries; empty if they are from another text."""
        if self.is_continuation:
            return (self.key_tokens,)
        return self.texts if self.has_same_keys else ()

    @property
    def patches(self) -> ImagePatches | None:
        """The image, if the tokens are its patches, or None for a text."""
        return self.captured.patches if self.captured else None

    @property
    def source_display_name(self) -> str:
        """Display name of the source of captured numbers, or an empty string for a module."""
        return self.captured.display_name if self.captured else ""

    @property
    def source_full_name(self) -> str:
        """Full name of the source, which may contain any characters."""
        return self.captured.name if self.captured else ""

    @property
    def size_text(self) -> str:
        """Text with the numbers of layers, heads, queries and keys of captured attention."""
        return self.captured.size_text if self.captured else ""


def set_torch_thread_count(texts: Texts, spec: AttentionSpec) -> None:
    """Set torch's number of threads for this thread, leaving one core for the window.

    Small computations use one thread, because waking other threads takes longer than the work.
    """
    tokens = max(map(len, texts), default=0)
    is_small = estimate_bytes(spec, tokens, len(texts)) < SMALL_RUN_BYTES
    if is_small:
        torch.set_num_threads(1)
    else:
        reserve_gui_core()


def reserve_gui_core() -> None:
    """Leave one core for the window by limiting torch's threads, for work of unknown size."""
    torch.set_num_threads(max(1, (os.cpu_count() or 1) - 1))


def run(
    texts: Texts,
    spec: AttentionSpec,
    previous: Run | None = None,
    pool: BufferPool | None = None,
) -> Run:
    """Compute a spec on tokenized texts.

    Parameters
    ----------
    texts : tuple of tuple of str
        One tuple of tokens per text. Several texts form a batch, padded if the lengths differ.
    previous : Run, optional
        An earlier run; its unchanged stages are reused.
    pool : BufferPool, optional
        Provides the memory for large tensors.

    Raises
    ------
    InputError
        If the spec or a text is invalid, or the computation needs more memory than is free.
    """
    check_spec(spec)
    texts, spec = pad_texts(texts, spec)
    device, notice = attention_device.resolve_device(spec.device, spec.dtype)
    if should_compute_blockwise(texts, spec, device):
        device = Device.CPU  # blocks are computed there, and any text's vectors fit
    with torch.no_grad():
        try:
            trace = _compute_trace(texts, spec, device, previous, pool)
        except torch.OutOfMemoryError:
            notice = (
                f"{attention_device.describe_device(device)} ran out of memory; "
                "the CPU was used instead."
            )
            device = Device.CPU
            trace = _compute_trace(texts, spec, device, previous, pool)
    notices = (notice,) if notice else ()
    return Run(texts, trace, attention_device.describe_device(device), notices + run_notices(trace))


def should_compute_blockwise(texts: Texts, spec: AttentionSpec, device: Device) -> bool:
    """Return whether query–key matrices are too large to hold or faster to compute in blocks."""
    count, tokens = len(texts), len(texts[0])
    size = query_key_matrix_bytes(spec, tokens, count)
    if not MIN_BLOCKWISE_BYTES < size <= MAX_FULL_MATRIX_BYTES:
        return size > MAX_FULL_MATRIX_BYTES
    return estimate_bytes(spec, tokens, count) > usable_bytes(device)


def usable_bytes(device: Device) -> float:
    """Return the part of a device's free memory that a trace may use."""
    return USABLE_MEMORY_SHARE * attention_device.free_device_bytes(device)


def _required_bytes(spec: AttentionSpec, tokens: int, texts: int = 1) -> int:
    """Return how many bytes a computation needs, in blocks if these are allowed."""
    whole = estimate_bytes(spec, tokens, texts)
    if query_key_matrix_bytes(spec, tokens, texts) <= MIN_BLOCKWISE_BYTES:
        return whole
    return min(whole, estimate_bytes(spec, tokens, texts, by_blocks=True))


def pad_texts(texts: Texts, spec: AttentionSpec) -> tuple[Texts, AttentionSpec]:
    """Pad texts to the length of the longest, and set the spec's lengths if they differ.

    Raises
    ------
    InputError
        If the spec or the texts are invalid.
    """
    if not texts or not all(texts):
        raise InputError("text", "The text is empty. Enter a word or a sentence.")
    lengths = tuple(len(text) for text in texts)
    longest = max(lengths)
    if longest > MAX_TOKENS:
        sentence = f"The text has {longest:,} tokens; the maximum is {MAX_TOKENS:,}."
        raise InputError("text", sentence, (FIRST_TOKENS, MAX_TOKENS))
    filled = tuple(text + (PADDING_LABEL,) * (longest - len(text)) for text in texts)
    spec = replace(spec, lengths=() if len(set(lengths)) == 1 else lengths)
    check_spec(spec)
    if spec.own_input:
        _check_custom_input(spec.own_input, len(texts), longest, spec.d_in)
    return filled, spec


def _check_custom_input(own: NumberMatrix, texts: int, tokens: int, d_in: int) -> None:
    sentence = ""
    if texts > 1:
        sentence = f"The custom vectors are for one text, but there are {texts:,} texts."
    elif own.rows != tokens:
        needed = f"{tokens:,} × {d_in}"
        sentence = f"The vectors are {own.rows:,} × {own.columns}, but the text needs {needed}."
    if sentence:
        raise InputError("own_input", sentence, ("own_input", None))


def _compute_trace(
    texts: Texts,
    spec: AttentionSpec,
    device: Device,
    previous: Run | None,
    pool: BufferPool | None,
) -> Trace:
    try:
        by_blocks = should_compute_blockwise(texts, spec, device)
        needed = estimate_bytes(spec, len(texts[0]), len(texts), by_blocks=by_blocks)
        _ensure_memory(needed, device, pool)
        return compute_stages(texts, spec, device, previous, pool, by_blocks=by_blocks)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        if device is not Device.CPU:
            raise torch.OutOfMemoryError from error
        if pool is None:
            raise _too_large_error(texts, spec, usable_bytes(device)) from error
    # Only now are the error and the stages that it references freed and returned to the pool.
    pool.release_free_blocks()
    return _compute_trace(texts, spec, device, previous, None)


def _ensure_memory(needed: int, device: Device, pool: BufferPool | None) -> None:
    if needed <= usable_bytes(device):
        return
    if pool is None or not pool.free_bytes:
        raise MemoryError
    pool.release_free_blocks()
    _ensure_memory(needed, device, pool)


def compute_stages(
    texts: Texts,
    spec: AttentionSpec,
    device: Device,
    previous: Run | None,
    pool: BufferPool | None,
    *,
    by_blocks: bool,
) -> Trace:
    """Compute all stages on a device, reusing the unchanged stages of a previous run."""
    target = torch.device(device)
    old = previous.trace if previous and _is_on_device(previous, target) else None
    is_same_text = previous is not None and previous.texts == texts
    if old and is_same_text and _are_fields_equal(INPUT_FIELDS, spec, old.spec):
        given = old.tensor(old.names[0])
    else:
        given = _create_input_vectors(texts, spec, target)
    tokens = given.shape[-2]
    if old and tokens == old.query_count and _are_fields_equal(WEIGHT_FIELDS, spec, old.spec):
        parameters = old.parameters
    else:
        parameters = initialize_parameters(spec, tokens, target)
    return attend(spec, given, parameters, reuse=old, pool=pool, by_blocks=by_blocks)


def _create_input_vectors(texts: Texts, spec: AttentionSpec, target: torch.device) -> torch.Tensor:
    if spec.own_input:
        return convert_custom_matrix("own_input", spec.own_input, spec, target)  # token d_in
    # text token d_in
    vectors = np.stack([embed_tokens(text, spec.d_in, spec.seed) for text in texts])
    dtype: torch.dtype = getattr(torch, spec.dtype)
    given = torch.from_numpy(vectors).to(target, dtype)
    return given[0] if len(texts) == 1 else given


def _is_on_device(run: Run, target: torch.device) -> bool:
    """Return whether a run was computed on the given device, so that its stages can be reused."""
    trace = run.trace
    return trace.has_module and trace.tensor(trace.names[0]).device.type == target.type


def _are_fields_equal(fields: Iterable[str], spec: AttentionSpec, other: AttentionSpec) -> bool:
    return all(getattr(spec, field) == getattr(other, field) for field in fields)


def _too_large_error(texts: Texts, spec: AttentionSpec, free: float) -> InputError:
    """Return an error that names the size that is too large by itself or, if none is, the text."""
    count, tokens = len(texts), len(texts[0])
    room = f"only {format_gib(free)} is available."
    token_bytes = _required_bytes(replace(spec, lengths=()), 1)
    if token_bytes > free:
        field, size = _field_of_largest_size(spec)
        less = "fewer heads" if field == "heads" else "a smaller size"
        sentence = f"With {size}, one token needs {format_gib(token_bytes)}, but {room} Use {less}."
        fitting_size = _largest_fitting_size(spec, field, tokens, count, free)
        return InputError(field, sentence, (field, fitting_size) if fitting_size else None)
    fits = _largest_fitting_tokens(spec, tokens, count, free)
    batch = f"{count:,} texts × " if count > 1 else ""
    heads = f"{spec.heads} head{'s' * (spec.heads > 1)}"
    asked = f"{batch}{tokens:,} token{'s' * (tokens > 1)} × {heads}"
    if fits == tokens:
        return InputError("text", f"Out of memory for {asked}. Try again, or shorten the text.")
    fitting = (
        f"About {fits:,} tokens{' per text' * (count > 1)} fit." if fits else "Use fewer texts."
    )
    needed = format_gib(_required_bytes(spec, tokens, count))
    sentence = f"{asked} need {needed}, but {room} {fitting}"
    return InputError("text", sentence, (FIRST_TOKENS, fits) if fits else None)


def _field_of_largest_size(spec: AttentionSpec) -> tuple[str, str]:
    """Return the field of the size that needs the most memory, and a phrase with its value."""
    sizes = {"d_in": (spec.d_in, f"the embedding size {spec.d_in:,}")}
    if spec.has_projection:
        sizes["d_out"] = (spec.d_out, f"the output size {spec.d_out:,}")
    if spec.arrangement is HeadArrangement.STACKED:
        sizes["heads"] = (spec.heads, f"{spec.heads:,} heads")
    if spec.has_transformer_block and spec.d_ff:
        sizes["d_ff"] = (spec.d_ff, f"the feed-forward size {spec.d_ff:,}")
    field = max(sizes, key=lambda field: sizes[field][0])
    return field, sizes[field][1]


def _largest_fitting_size(
    spec: AttentionSpec, field: str, tokens: int, texts: int, free: float
) -> int:
    """Return the largest value of a size with which the texts, or one token, fit, or 0."""
    is_split = spec.arrangement is HeadArrangement.SPLIT
    shared = {"d_out" if spec.has_projection else "d_in"} if is_split else set()
    shared |= {"d_in"} if spec.has_transformer_block else set()
    part, unpadded = spec.heads if field in shared else 1, replace(spec, lengths=())
    for asked in ((tokens, texts), (1, 1)):
        fitting = bisect_right(
            range(1, getattr(spec, field) // part + 1),
            free,
            key=lambda size: _required_bytes(_with_size(unpadded, field, size * part), *asked),
        )
        if fitting:
            return fitting * part
    return 0


def _with_size(spec: AttentionSpec, field: str, size: int) -> AttentionSpec:
    if field == "d_in" and spec.has_transformer_block:
        return with_block_embedding_size(spec, size)
    return replace(spec, **{field: size})


def _largest_fitting_tokens(spec: AttentionSpec, tokens: int, texts: int, free: float) -> int:
    return bisect_right(
        range(1, tokens + 1), free, key=lambda count: _required_bytes(spec, count, texts)
    )


def format_gib(count: float) -> str:
    """Format a byte count in GiB."""
    return f"{count / 2**30:,.1f} GiB"
