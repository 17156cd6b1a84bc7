"""Direct logit attribution of heads and layers, and the logit lens.

Sources: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits" (the residual
stream as a sum, and the parts of a logit); nostalgebraist 2020, "interpreting GPT: the logit
lens".
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from torch import nn

from visualizer.attention.cached_tensor import to_float64_on_cpu
from visualizer.attention.model_forward_pass import LogitParts
from visualizer.errors import InputError
from visualizer.models.float32_computation import compute_in_float32, has_half_precision
from visualizer.models.layer_recorder import first_input, first_output, layer_path
from visualizer.models.layer_stage_builder import recognize_norm
from visualizer.models.layer_values import are_tensors_close
from visualizer.models.model_ranks import Parallelism
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import numpy as np
    from torch import Tensor

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.editable_heads import Cuts, Edits
    from visualizer.models.opened_model import OpenedModel
    from visualizer.progress import Progress

DISTRIBUTED_MODEL_ERROR = (
    "The logits of {name} cannot be decomposed because the model is split across several "
    "processes. Run the model in one process."
)
VECTOR_TOLERANCE = 1e-4
"""Tolerance for treating two vectors as equal, relative to the largest value."""
ADDED_TOLERANCE, ROUNDING_TOLERANCE = 1e-2, 1e-6
"""Tolerances relative to the attention output and to its sum with the stream, respectively."""
LOGITS_PATH = ""
"""Path of the model itself; its result is the logits."""
TOKENS_PER_BATCH = 256
"""Number of tokens for which logits are computed at a time."""


class _ModuleValues(Struct, frozen=True, eq=False):
    """First input and output of a module.

    Parameters
    ----------
    given, result : Tensor
        For the last token, [d], float64.
    stream : Tensor
        Output for all tokens in the model's own data type, [query, d].
    """

    given: Tensor
    result: Tensor
    stream: Tensor


@torch.inference_mode()
def logit_parts(
    model: OpenedModel,
    text: str,
    token: int | None = None,
    edits: Edits | None = None,
    cuts: Cuts | None = None,
) -> LogitParts:
    """Return the direct contributions of heads and layers to the logit of a next token.

    A model that computes in 16 bits runs in float32.

    Parameters
    ----------
    token : int, optional
        The token's id in the vocabulary; by default, the most likely token.

    Raises
    ------
    InputError
        With field ``text``, as in `OpenedModel.attend`; with ``model`` if the model does not
        continue texts, or the output of a head is not added to the residual stream unchanged; with
        ``token`` if the token does not exist.
    """
    _check_model_supported(model, (Parallelism.TENSOR, Parallelism.PIPELINE))
    given, *_ = model.encode_inputs(text)
    # Rounded to 16 bits, the contributions would not sum to the logit.
    is_half = has_half_precision(model.model)
    exact = compute_in_float32(model.model, with_logits=True) if is_half else nullcontext()
    with _record_modules(model) as module_values, exact:
        calls, _ = model.record_calls_by_layer({**given, "use_cache": False}, edits, cuts)
    layers = sorted(calls)
    names = [layer_path(calls[layer].module) for layer in layers]
    streams = [_values_of_module(model, module_values, name).given for name in names]
    matrix, norm = _find_unembedding(model, module_values, names[-1])
    streams.append(module_values[norm].given)
    logits = module_values[LOGITS_PATH].result
    number = int(logits.argmax()) if token is None else token
    if not 0 <= number < len(logits):
        raise InputError(
            "token", f"Token {number:,} does not exist: the vocabulary has {len(logits):,} tokens."
        )
    towards = to_float64_on_cpu(matrix.weight[number])
    scale, shift, is_centred = _linearize_norm(model, norm, module_values[norm])
    direction = towards * scale
    if is_centred:
        direction = direction - direction.mean()
    rows, rest = [], []
    for at, layer in enumerate(layers):
        added = _head_contributions(model, calls[layer], module_values, names[at])
        rows.append(added @ direction)
        rest.append((streams[at + 1] - streams[at] - added.sum(0)) @ direction)
    own = to_float64_on_cpu(matrix.bias[number]) if getattr(matrix, "bias", None) is not None else 0
    if len({len(row) for row in rows}) > 1:
        raise InputError(
            "model", "The logits cannot be decomposed: the layers have different numbers of heads."
        )
    return LogitParts(
        number,
        float(logits[number]),
        torch.stack(rows).cpu().numpy(),
        torch.stack(rest).cpu().numpy(),
        float(streams[0] @ direction),
        float(towards @ shift + own),
        tuple(layers),
    )


class LogitLensPredictions(Struct, frozen=True, eq=False):
    """Next-token predictions of the logit lens after each layer, the most likely token first.

    Parameters
    ----------
    numbers : ndarray
        The tokens' ids in the vocabulary, [layer, query, rank].
    probabilities : ndarray
        Float32, [layer, query, rank].
    """

    layers: tuple[int, ...]
    numbers: np.ndarray
    probabilities: np.ndarray


@torch.inference_mode()
def logit_lens(
    model: OpenedModel,
    text: str,
    count: int = 1,
    edits: Edits | None = None,
    cuts: Cuts | None = None,
    progress: Progress = ignore_progress,
) -> LogitLensPredictions:
    """Apply the logit lens: predict the next token after each layer, at every position.

    The final norm and the unembedding are applied to the residual stream after each layer. For the
    last layer, this is the prediction of the model.

    Raises
    ------
    InputError
        As in `logit_parts`.
    """
    _check_model_supported(model, (Parallelism.PIPELINE,))
    given, *_ = model.encode_inputs(text)
    with _record_modules(model) as module_values:
        calls, _ = model.record_calls_by_layer({**given, "use_cache": False}, edits, cuts)
    layers = tuple(sorted(calls))
    paths = [layer_path(calls[layer].module) for layer in layers]
    matrix, norm = _find_unembedding(model, module_values, paths[-1])
    last = model.model.get_submodule(norm)
    streams = [_values_of_module(model, module_values, path).stream for path in paths]
    module_values.clear()  # releases memory, most of it for the logits of all tokens
    predictions = []
    for done, stream in enumerate(streams):
        progress(done, len(streams))
        # All ranks cancel together, because each may hold a part of the unembedding.
        model.ranks.check_cancelled()
        with model.forward.lock:  # other threads may have hooks on these modules
            predictions.append(_most_likely_tokens(lambda part: matrix(last(part)), stream, count))
    numbers, shares = (torch.stack(each).numpy() for each in zip(*predictions, strict=True))
    return LogitLensPredictions(layers, numbers, shares)


def _most_likely_tokens(
    predict: Callable[[Tensor], Tensor], stream: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return the ids and probabilities of the most likely tokens, [query, rank]."""
    parts = []
    # The logits of a whole long text would not fit in memory.
    for start in range(0, len(stream), TOKENS_PER_BATCH):
        shares = predict(stream[start : start + TOKENS_PER_BATCH]).float().softmax(-1)
        parts.append(shares.topk(min(count, shares.shape[-1])))
    numbers = torch.cat([part.indices for part in parts]).cpu()
    return numbers, torch.cat([part.values for part in parts]).cpu()


def _check_model_supported(model: OpenedModel, spread: Collection[Parallelism]) -> None:
    """Reject a model that predicts no next token or that is split in one of the given ways."""
    model.check_can_generate()
    if model.ranks.parallelism in spread:
        raise InputError("model", DISTRIBUTED_MODEL_ERROR.format(name=model.folder.name))


@contextmanager
def _record_modules(model: OpenedModel) -> Iterator[dict[str, _ModuleValues]]:
    """Record the values of every module, keyed by path; runs on other threads wait."""
    module_values: dict[str, _ModuleValues] = {}

    def record(
        name: str, module: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any], result: Any
    ) -> None:
        given, first = first_input(inputs, named), first_output(result)
        if name == LOGITS_PATH and getattr(result, "logits", None) is not None:
            given = first = result.logits
        if _has_vector_per_token(given) and _has_vector_per_token(first):
            rows = [each.reshape(-1, each.shape[-1]) for each in (given, first)]
            given, result = (to_float64_on_cpu(each[-1]) for each in rows)
            module_values[name] = _ModuleValues(given, result, rows[1])

    with model.forward.lock, ExitStack() as hooks:
        for name, module in model.model.named_modules():
            hook = module.register_forward_hook(partial(record, name), with_kwargs=True)
            hooks.enter_context(hook)
        yield module_values


def _has_vector_per_token(given: Any) -> bool:
    """Return whether a value has one vector per token: [1, query, d] or, in OPT, [query, d]."""
    is_floating = isinstance(given, torch.Tensor) and given.is_floating_point()
    return is_floating and given.ndim in (2, 3) and len(given) > 0


def _values_of_module(
    model: OpenedModel, module_values: Mapping[str, _ModuleValues], name: str
) -> _ModuleValues:
    if name not in module_values:
        raise _unsupported_error(model, "its layers do not output one vector per token")
    return module_values[name]


def _find_unembedding(
    model: OpenedModel, module_values: Mapping[str, _ModuleValues], last: str
) -> tuple[Any, str]:
    """Return the unembedding and the path of the final norm; reject models without these."""
    matrix = model.model.get_output_embeddings()
    names = {module: name for name, module in model.model.named_modules()}
    if matrix is None or names[matrix] not in module_values:
        raise _unsupported_error(model, "its unembedding is not a plain matrix")
    norm = _find_final_norm(
        model, module_values, names[matrix], _values_of_module(model, module_values, last).result
    )
    if not are_tensors_close(
        module_values[names[matrix]].result, module_values[LOGITS_PATH].result, VECTOR_TOLERANCE
    ):
        raise _unsupported_error(model, "its logits are scaled or capped after the unembedding")
    return matrix, norm


def _find_final_norm(
    model: OpenedModel, module_values: Mapping[str, _ModuleValues], matrix: str, stream: Tensor
) -> str:
    """Return the path of the module between the last layer and the unembedding."""
    wanted = module_values[matrix].given
    for name, each in module_values.items():
        is_own = name != matrix and not list(model.model.get_submodule(name).children())
        if (
            is_own
            and are_tensors_close(each.result, wanted, VECTOR_TOLERANCE)
            and are_tensors_close(each.given, stream, VECTOR_TOLERANCE)
        ):
            return name
    raise _unsupported_error(
        model, "there is more than a norm between its last layer and its unembedding"
    )


def _linearize_norm(
    model: OpenedModel, name: str, values: _ModuleValues
) -> tuple[Tensor, Tensor, bool]:
    """Return a norm as a linear map: its scale and shift [d_model], and whether it is centred.

    A model without a final norm may have an identity module in its place.
    """
    module: Any = model.model.get_submodule(name)
    stream = values.given
    if are_tensors_close(stream, values.result, VECTOR_TOLERANCE):
        return torch.ones_like(stream), torch.zeros_like(stream), False
    norm = recognize_norm(module, name, stream[None], values.result[None], VECTOR_TOLERANCE)
    if norm is None:
        raise _unsupported_error(model, "the type of its final norm is unknown")
    moved = stream - stream.mean() if norm.is_centred else stream
    gain = to_float64_on_cpu(module.weight) + norm.adds_one if norm.has_gain else 1.0
    shift = to_float64_on_cpu(module.bias) if norm.has_bias else torch.zeros_like(stream)
    scale = torch.ones_like(stream) * gain * (moved.square().mean() + norm.epsilon).rsqrt()
    return scale, shift, norm.is_centred


def _head_contributions(
    model: OpenedModel, call: AttentionCall, module_values: Mapping[str, _ModuleValues], layer: str
) -> Tensor:
    """Return the contribution of each head of a layer to the residual stream, [head, d_model]."""
    assert call.context is not None
    context = to_float64_on_cpu(call.context[0, -1])  # head d_value
    attention = model.model.get_submodule(call.module)
    for name, module in attention.named_modules():
        path = f"{call.module}.{name}"
        weight = getattr(module, "weight", None)
        if (
            path not in module_values
            or weight is None
            or not are_tensors_close(
                module_values[path].given, context.reshape(-1), VECTOR_TOLERANCE
            )
        ):
            continue
        with model.forward.weights_in_memory(path):
            weight = to_float64_on_cpu(module.weight)
        # The matrix of transformers' Conv1D is the transpose of that of torch's Linear.
        matrix = weight if isinstance(module, nn.Linear) else weight.T
        parts = matrix.reshape(matrix.shape[0], *context.shape)  # d_model head d_value
        written = torch.einsum("mhd,hd->hm", parts, context)
        if _is_added_unchanged(module_values, layer, module_values[path].result):
            return written
    joined = context.reshape(-1)
    has_size = joined.shape == module_values[layer].given.shape
    # Without an output projection, the head outputs themselves are added.
    if has_size and _is_added_unchanged(module_values, layer, joined):
        heads = len(context)
        own = torch.eye(heads, dtype=context.dtype, device=context.device)
        return (own[..., None] * context).reshape(heads, -1)  # head d_model
    raise _unsupported_error(
        model, "the attention output is changed before it is added to the residual stream"
    )


def _is_added_unchanged(
    module_values: Mapping[str, _ModuleValues], layer: str, written: Tensor
) -> bool:
    """Return whether the attention output is added unchanged to the layer's input.

    The sum is the input of a module in the layer, or the result of the layer.
    """
    whole = module_values[layer]
    stream = whole.given + written
    # The output may be tiny compared with the stream; the rounding of the stream is then the limit.
    limit = ADDED_TOLERANCE * written.abs().max() + ROUNDING_TOLERANCE * stream.abs().max()
    within = [each for name, each in module_values.items() if name.startswith(f"{layer}.")]
    ends = [whole.result, *(each.given for each in within)]
    ends += [
        whole.result - each.result for each in within if each.result.shape == whole.result.shape
    ]
    return any(
        each.shape == stream.shape and bool((each - stream).abs().max() <= limit) for each in ends
    )


def _unsupported_error(model: OpenedModel, why: str) -> InputError:
    return InputError("model", f"The logits of {model.folder.name} cannot be decomposed: {why}.")
