"""Runs with numbers that were captured from a model or saved in a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.captured_attention import SINKS_NAME, captured_stages, numbered_labels
from visualizer.attention.captured_layers import ArrayLayerSource, CapturedStageCalculator
from visualizer.attention.layer_operations import ScoreBias, ScoreCap, SinkSoftmax
from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.run import Run, pad_texts
from visualizer.attention.spec import MaskKind
from visualizer.attention.stages import shape, stages
from visualizer.attention.trace import Trace
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from visualizer.attention.captured_attention import CapturedAttention, CapturedVectors
    from visualizer.attention.captured_layers import CapturedLayerSource, WeightSample
    from visualizer.attention.layer_operations import LayerStep
    from visualizer.attention.saved_numbers import RecordedNumbers
    from visualizer.attention.spec import AttentionSpec

TOLERANCE = 1e-5
"""Maximum accepted difference between captured weights and the softmax of the scores."""
UNEXPLAINED_WEIGHTS_NOTICE = (
    "The weights are shown as captured; they do not follow exactly from the scores."
)
UNKNOWN_ARGUMENTS_NOTICE = (
    "The weights are shown as captured. The attention also received {named}, with an unknown "
    "effect on the scores, so the scores are omitted."
)
SINKS_NOTICE = (
    "Each head has an attention sink, an extra logit without a token. It receives a part of the "
    "weight in every row, so the weights of a row sum to less than 1."
)
ROW_SUM_TOLERANCE = 0.01
"""Maximum accepted difference between a row sum and 1, which can be due to 16-bit rounding."""


def create_captured_run(
    captured: CapturedAttention,
    query_tokens: tuple[str, ...] = (),
    key_tokens: tuple[str, ...] = (),
    previous: Run | None = None,
) -> Run:
    """Return a run of captured attention.

    Parameters
    ----------
    query_tokens, key_tokens : tuple of str
        Labels entered by the user, which replace the file's tokens.
    previous : Run, optional
        An earlier run; its trace is reused if it has the same numbers.
    """
    if previous is not None and previous.captured == captured:
        trace, notices = previous.trace, previous.notices
    else:
        layers = [ArrayLayerSource(captured, layer) for layer in range(captured.layers)]
        trace, notices = create_layered_trace(captured, layers)
    return _create_run(captured, trace, notices, query_tokens, key_tokens)


def create_layered_run(captured: CapturedAttention, layers: Sequence[CapturedLayerSource]) -> Run:
    """Return a run of captured attention from sources of each layer's numbers.

    See `create_layered_trace`.
    """
    return _create_run(captured, *create_layered_trace(captured, layers))


def _create_run(
    captured: CapturedAttention,
    trace: Trace,
    notices: tuple[str, ...],
    query_tokens: tuple[str, ...] = (),
    key_tokens: tuple[str, ...] = (),
) -> Run:
    keys = key_tokens or captured.key_tokens
    own = keys[-captured.queries :] if captured.is_continuation else captured.query_tokens
    queries = query_tokens or own or numbered_labels(captured.queries)
    if not keys:
        keys = queries if captured.is_square else numbered_labels(captured.keys)
    return Run((queries,), trace, "Not computed here", notices, captured, keys)


def create_layered_trace(
    captured: CapturedAttention, layers: Sequence[CapturedLayerSource]
) -> tuple[Trace, tuple[str, ...]]:
    """Return a trace with stages that are computed when read, and notices about its numbers.

    The weights are always the captured weights. The stages between scores and weights are included
    only if the softmax of the scores equals these weights. If nothing but the weights is known, and
    none of them is on a later key, a causal mask is assumed.

    Parameters
    ----------
    captured : CapturedAttention
        Sizes and settings; the numbers may be omitted.
    layers : sequence of CapturedLayerSource
        Sources of the numbers, one per layer.
    """
    samples = [layer.sample_weights() for layer in layers]
    is_weights = not any(one.is_negative for one in samples)
    calculator = CapturedStageCalculator(captured, layers)
    found = _CapturedStages((Role.WEIGHTS if is_weights else Role.SCORES,))
    if captured.vectors and is_weights:
        found = _find_stages_around_weights(captured, captured.vectors, calculator, samples, layers)
    spec = captured.spec
    is_mask_unknown = is_weights and not captured.vectors and captured.keys > 1
    if is_mask_unknown and all(one.is_causal for one in samples):
        spec = replace(spec, mask=MaskKind.CAUSAL)
    rows = captured_stages(
        spec,
        found.names,
        {*found.names} - found.computed,
        found.steps,
        has_other_keys=captured.has_other_keys,
    )
    names = tuple(row.name for row in rows)
    masks = captured.vectors.layer_masks if captured.vectors else ()
    cut = captured.vectors.cut if captured.vectors else ()
    trace = Trace(
        spec,
        rows,
        {},
        calculator.lazy_tensors(names),
        frozenset(names),
        ("layer",)[: captured.layers - 1],
        found.weights,
        masks,
        cut,
    )
    return trace, (*found.notices, *_weight_notices(samples, is_weights=is_weights))


class _CapturedStages(Struct):
    """The stages that captured attention has.

    Parameters
    ----------
    names : tuple of str
        Names of the stages, in any order.
    computed : frozenset of str
        Names of the stages that are computed from other stages.
    steps : dict
        How the model computes stages that no setting of the spec describes.
    weights : dict
        Weights of the model that the steps use.
    notices : tuple of str
        Notices about the stages, each a sentence.
    """

    names: tuple[str, ...]
    computed: frozenset[str] = frozenset()
    steps: dict[str, LayerStep] = {}
    weights: dict[str, Tensor] = {}
    notices: tuple[str, ...] = ()


def _find_stages_around_weights(
    captured: CapturedAttention,
    vectors: CapturedVectors,
    calculator: CapturedStageCalculator,
    samples: Sequence[WeightSample],
    layers: Sequence[CapturedLayerSource],
) -> _CapturedStages:
    """Find the stages around captured weights."""
    plain = (*VECTOR_ROLES, Role.WEIGHTS, Role.CONTEXT)
    if vectors.not_understood:
        named = ", ".join(f"“{each}”" for each in vectors.not_understood)
        notice = UNKNOWN_ARGUMENTS_NOTICE.format(named=named)
        return _CapturedStages(plain, frozenset({Role.CONTEXT}), notices=(notice,))
    if not vectors.is_plain or not calculator.are_weights_softmax_of_scores(samples, TOLERANCE):
        return _CapturedStages(
            (*plain, Role.SCORES),
            frozenset({Role.SCORES, Role.CONTEXT}),
            notices=(UNEXPLAINED_WEIGHTS_NOTICE,),
        )
    steps: dict[str, LayerStep] = {}
    if vectors.softcap:
        steps[Role.CAPPED] = ScoreCap(vectors.softcap)
    if vectors.bias is not None:
        steps[Role.BIASED] = ScoreBias()
    names = (*plain, *calculator.softmax_input, *((Role.BIAS,) if vectors.bias is not None else ()))
    computed = frozenset({*calculator.softmax_input, Role.WEIGHTS, Role.CONTEXT})
    if vectors.sinks is None:
        return _CapturedStages(names, computed, steps)
    steps[Role.WEIGHTS] = SinkSoftmax(SINKS_NAME)
    sinks = torch.stack([one for layer in layers if (one := layer.sinks()) is not None])
    return _CapturedStages(names, computed, steps, {SINKS_NAME: sinks}, (SINKS_NOTICE,))


def _weight_notices(samples: Sequence[WeightSample], *, is_weights: bool) -> Sequence[str]:
    notices = []
    nan_count = sum(one.nan_count for one in samples)
    if nan_count:
        cells = sum(one.sums.numel() * one.weights.shape[-1] for one in samples)
        notices.append(f"{nan_count:,} of {cells:,} cells are NaN.")
    if not is_weights:
        notices.append("Some numbers are negative, so they are shown as scores instead of weights.")
        return notices
    sums = torch.cat([one.sums.flatten() for one in samples])
    is_uneven = (sums - 1).abs() > ROW_SUM_TOLERANCE
    if is_uneven.any():
        low, high = float(sums[is_uneven].min()), float(sums[is_uneven].max())
        notices.append(
            f"In {int(is_uneven.sum()):,} of {len(sums):,} rows, the weights do not sum to 1; "
            f"the sums range from {low:.4g} to {high:.4g}."
        )
    return notices


RECORDED_PREFIX = "recorded on "


def create_recorded_run(
    spec: AttentionSpec, recorded: RecordedNumbers, weights_source: str = ""
) -> Run:
    """Return a run of recorded numbers on the CPU, without computing any stage.

    The arrays are not copied, and a later run can reuse unchanged stages.

    Parameters
    ----------
    spec : AttentionSpec
        The document's spec.
    weights_source : str
        Name of the source of the document's custom weights.

    Raises
    ------
    InputError
        With the field ``open`` if stages are missing or have the wrong shape; with a field of the
        spec or the text if these are invalid.
    """
    texts, spec = pad_texts(recorded.texts, spec)
    rows = stages(spec)
    if {row.name for row in rows} != recorded.stages.keys():
        raise InputError("open", "The recorded numbers do not match the settings.")
    held = {row.name: CachedTensor(torch.from_numpy(recorded.stages[row.name])) for row in rows}
    axes = ("text",)[: len(texts) - 1]
    parameters = {name: torch.from_numpy(array) for name, array in recorded.parameters.items()}
    trace = Trace(spec, rows, parameters, held, frozenset(), axes)
    for row in rows:
        actual = trace.shape(row.name)
        expected = trace.leading_sizes + shape(spec, row.dims, trace.query_count)
        if actual != expected:
            wrong = f"{row.name} has shape {actual}; expected {expected}"
            raise InputError("open", f"The recorded numbers are invalid: {wrong}.")
    device = recorded.device
    words = device if device.startswith(RECORDED_PREFIX) else f"{RECORDED_PREFIX}{device}"
    return Run(texts, trace, words, recorded.notices, weights_source=weights_source)
