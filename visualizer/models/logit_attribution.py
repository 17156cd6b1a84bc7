"""What each head adds to a logit directly, and what each layer would say if it were the last.

Sources: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits" (the residual
stream as a sum, and the parts of a logit); nostalgebraist 2020, "interpreting GPT: the logit lens".
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from torch import nn

from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.attention.model_answers import LogitParts
from visualizer.errors import InputError
from visualizer.models.layer_path import layer_path
from visualizer.models.model_ranks import Parallelism
from visualizer.progress_callback import no_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import numpy as np
    from torch import Tensor

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.opened_model import Cuts, Edits, OpenedModel
    from visualizer.progress_callback import Progress

SPREAD = (
    "{name} is spread over several processes, and none of them has its last matrix: what adds to a "
    "logit is told of a model in one process."
)
CLOSE = 1e-4
"""How far, as a share of the largest number, two vectors may be apart that are taken for one."""
ADDED, ROUNDING = 1e-2, 1e-6
"""The same for what attention writes, and what rounding makes of the stream that it is added to."""
LOGITS = ""
"""The path of the model itself, whose result are its logits."""
UNNAMED = (1e-5, 1e-6)
"""What norms add to the square of their size, where they do not name it."""
ROWS = 256
"""So many tokens go through the last matrix at a time."""


class _Passed(Struct, frozen=True, eq=False):
    """What passed through a module: its first input and its output.

    Parameters
    ----------
    given, result : Tensor
        Of the last token, [d], float64.
    stream : Tensor
        The output of all tokens, [query, d], as it is.
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
    """Split the logit of a next token into what heads and layers add to it directly.

    Parameters
    ----------
    token : int, optional
        The token's number in the vocabulary; the likeliest without it.
    edits, cuts : mapping, optional
        As in `OpenedModel.next_token_log_probabilities`.

    Raises
    ------
    InputError
        Of ``text``, as `OpenedModel.attend`; of ``model``, when it continues no text, or what a
        head writes is not added to the residual stream as it is; of ``token``, when there is none.
    """
    _check_continues(model, (Parallelism.TENSOR, Parallelism.PIPELINE))
    given, *_ = model.inputs(text)
    with _watched(model) as passed:
        calls = model.calls_by_layer({**given, "use_cache": False}, edits, cuts)
    layers = sorted(calls)
    names = [layer_path(calls[layer].module) for layer in layers]
    streams = [_of(model, passed, name).given for name in names]
    matrix, norm = _ending(model, passed, names[-1])
    streams.append(passed[norm].given)
    logits = passed[LOGITS].result
    number = int(logits.argmax()) if token is None else token
    if not 0 <= number < len(logits):
        raise InputError("token", f"There is no token {number:,} among {len(logits):,}.")
    towards = float64_on_cpu(matrix.weight[number])
    scale, shift, is_centred = _frozen(model, norm, passed[norm])
    direction = towards * scale
    if is_centred:
        direction = direction - direction.mean()
    rows, rest = [], []
    for at, layer in enumerate(layers):
        added = _added_by_heads(model, calls[layer], passed, names[at])
        rows.append(added @ direction)
        rest.append((streams[at + 1] - streams[at] - added.sum(0)) @ direction)
    own = float64_on_cpu(matrix.bias[number]) if getattr(matrix, "bias", None) is not None else 0
    if len({len(row) for row in rows}) > 1:
        raise InputError("model", "The layers differ in their heads.")
    return LogitParts(
        number,
        float(logits[number]),
        torch.stack(rows).cpu().numpy(),
        torch.stack(rest).cpu().numpy(),
        float(streams[0] @ direction),
        float(towards @ shift + own),
        tuple(layers),
    )


class LensReading(Struct, frozen=True, eq=False):
    """The tokens that each layer would say next if it were the last, the likeliest first.

    Parameters
    ----------
    layers : tuple of int
        The layers' numbers.
    numbers : ndarray
        The tokens' numbers in the vocabulary, [layer, query, rank].
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
    most: int = 1,
    edits: Edits | None = None,
    cuts: Cuts | None = None,
    progress: Progress = no_progress,
) -> LensReading:
    """Return what each layer would say next if it were the last, at every token of a text.

    The residual stream after each layer goes through the last norm and the last matrix. What the
    last layer says is what the model says.

    Parameters
    ----------
    edits, cuts : mapping, optional
        As in `OpenedModel.next_token_log_probabilities`.
    progress : callable
        Told how many layers are done; it may cancel.

    Raises
    ------
    InputError
        As `logit_parts`.
    """
    _check_continues(model, (Parallelism.PIPELINE,))
    given, *_ = model.inputs(text)
    with _watched(model) as passed:
        calls = model.calls_by_layer({**given, "use_cache": False}, edits, cuts)
    layers = tuple(sorted(calls))
    paths = [layer_path(calls[layer].module) for layer in layers]
    matrix, norm = _ending(model, passed, paths[-1])
    last = model.model.get_submodule(norm)
    streams = [_of(model, passed, path).stream for path in paths]
    passed.clear()  # the logits of all tokens, above all
    found = []
    for done, stream in enumerate(streams):
        progress(done, len(streams))
        model.ranks.check_stopped()  # together: each may have a part of the last matrix
        with model.lock:  # others watch these modules, too
            found.append(_likeliest(lambda part: matrix(last(part)), stream, most))
    numbers, shares = (torch.stack(each).numpy() for each in zip(*found, strict=True))
    return LensReading(layers, numbers, shares)


def _likeliest(say: Callable[[Tensor], Tensor], stream: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the numbers and probabilities of the likeliest tokens, [query, rank]."""
    parts = []
    for start in range(0, len(stream), ROWS):  # all of a long text at once would fill the memory
        shares = say(stream[start : start + ROWS]).float().softmax(-1)
        parts.append(shares.topk(min(most, shares.shape[-1])))
    numbers = torch.cat([part.indices for part in parts]).cpu()
    return numbers, torch.cat([part.values for part in parts]).cpu()


def _check_continues(model: OpenedModel, spread: Collection[Parallelism]) -> None:
    """Refuse a model that continues no text, or is spread in a way that hides its last matrix."""
    if model.why_no_next_token:
        raise InputError("model", model.why_no_next_token)
    if model.ranks.parallelism in spread:
        raise InputError("model", SPREAD.format(name=model.folder.name))


@contextmanager
def _watched(model: OpenedModel) -> Iterator[dict[str, _Passed]]:
    """Keep what passes through every module, by its path, while the model runs here alone."""
    passed: dict[str, _Passed] = {}

    def keep(name: str, inputs: tuple[Any, ...], named: Mapping[str, Any], result: Any) -> None:
        given: Any = inputs[0] if inputs else next(iter(named.values()), None)
        first = _first(result)
        if name == LOGITS and getattr(result, "logits", None) is not None:
            given = first = result.logits
        if _is_stream(given) and _is_stream(first):
            rows = [each.reshape(-1, each.shape[-1]) for each in (given, first)]
            given, result = (float64_on_cpu(each[-1]) for each in rows)
            passed[name] = _Passed(given, result, rows[1])

    with model.lock:
        hooks = [
            module.register_forward_hook(
                lambda _, inputs, named, result, name=name: keep(name, inputs, named, result),
                with_kwargs=True,
            )
            for name, module in model.model.named_modules()
        ]
        try:
            yield passed
        finally:
            for hook in hooks:
                hook.remove()


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) and result else result


def _is_stream(given: Any) -> bool:
    """Whether it has a vector for each token: [1, query, d] or, as in OPT, [query, d]."""
    is_floating = isinstance(given, torch.Tensor) and given.is_floating_point()
    return is_floating and given.ndim in (2, 3) and len(given) > 0


def _of(model: OpenedModel, passed: Mapping[str, _Passed], name: str) -> _Passed:
    if name not in passed:
        raise _unknown(model, "its layers do not pass on a single vector for each token")
    return passed[name]


def _ending(model: OpenedModel, passed: Mapping[str, _Passed], last: str) -> tuple[Any, str]:
    """Return the last matrix and the path of the last norm, if these alone make the logits."""
    matrix = model.model.get_output_embeddings()
    names = {module: name for name, module in model.model.named_modules()}
    if matrix is None or names[matrix] not in passed:
        raise _unknown(model, "its last matrix is not a plain one")
    norm = _last_norm(model, passed, names[matrix], _of(model, passed, last).result)
    if not _are_alike(passed[names[matrix]].result, passed[LOGITS].result):
        raise _unknown(model, "what its last matrix gives is scaled or capped afterwards")
    return matrix, norm


def _are_alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    return bool((one - other).abs().max() <= CLOSE * other.abs().max().clamp_min(1e-12))


def _last_norm(
    model: OpenedModel, passed: Mapping[str, _Passed], matrix: str, stream: Tensor
) -> str:
    """Return the path of the module between the last layer and the last matrix."""
    wanted = passed[matrix].given
    for name, each in passed.items():
        is_own = name != matrix and not list(model.model.get_submodule(name).children())
        if is_own and _are_alike(each.result, wanted) and _are_alike(each.given, stream):
            return name
    raise _unknown(model, "between its last layer and its last matrix is more than a norm")


def _frozen(model: OpenedModel, name: str, passed: _Passed) -> tuple[Tensor, Tensor, bool]:
    """Return a norm as a linear map: its scale and shift [d_model], and whether it centres.

    A model without a final norm may have a module there that changes nothing.
    """
    module = model.model.get_submodule(name)
    stream = passed.given
    if _are_alike(stream, passed.result):
        return torch.ones_like(stream), torch.zeros_like(stream), False
    named = [
        float(getattr(module, name))
        for name in ("eps", "variance_epsilon")
        if hasattr(module, name)
    ]
    weight, bias = (getattr(module, each, None) for each in ("weight", "bias"))
    gains = torch.ones_like(stream) if weight is None else float64_on_cpu(weight)
    shift = torch.zeros_like(stream) if bias is None else float64_on_cpu(bias)
    kinds = product((False, True), (gains, 1 + gains), named or UNNAMED)
    for is_centred, gain, epsilon in kinds:
        moved = stream - stream.mean() if is_centred else stream
        scale = gain * (moved.square().mean() + epsilon).rsqrt()
        if _are_alike(moved * scale + shift, passed.result):
            return scale, shift, is_centred
    raise _unknown(model, "its last norm is of a kind that is not known")


def _added_by_heads(
    model: OpenedModel, call: AttentionCall, passed: Mapping[str, _Passed], layer: str
) -> Tensor:
    """Return what each head of a layer adds to the residual stream, [head, d_model]."""
    assert call.context is not None
    context = float64_on_cpu(call.context[0, -1])  # head d_value
    attention = model.model.get_submodule(call.module)
    for name, module in attention.named_modules():
        path = f"{call.module}.{name}"
        weight = getattr(module, "weight", None)
        if (
            path not in passed
            or weight is None
            or not _are_alike(passed[path].given, context.reshape(-1))
        ):
            continue
        with model.weights_in_memory(path):
            weight = float64_on_cpu(module.weight)
        # transformers' Conv1D keeps its matrix the other way round than torch's Linear.
        matrix = weight if isinstance(module, nn.Linear) else weight.T
        parts = matrix.reshape(matrix.shape[0], *context.shape)  # d_model head d_value
        written = torch.einsum("mhd,hd->hm", parts, context)
        if _is_added_as_it_is(passed, layer, passed[path].result):
            return written
    joined = context.reshape(-1)
    has_size = joined.shape == passed[layer].given.shape
    if has_size and _is_added_as_it_is(passed, layer, joined):  # without an output projection
        heads = len(context)
        own = torch.eye(heads, dtype=context.dtype, device=context.device)
        return (own[..., None] * context).reshape(heads, -1)  # head d_model
    raise _unknown(model, "what a head writes is changed before it is added")


def _is_added_as_it_is(passed: Mapping[str, _Passed], layer: str, written: Tensor) -> bool:
    """Whether a layer's stream is its input and what attention wrote, at some module or its end."""
    whole = passed[layer]
    stream = whole.given + written
    # What was written may be tiny beside the stream, whose own rounding is the limit then.
    limit = ADDED * written.abs().max() + ROUNDING * stream.abs().max()
    within = [each for name, each in passed.items() if name.startswith(f"{layer}.")]
    ends = [whole.result, *(each.given for each in within)]
    ends += [
        whole.result - each.result for each in within if each.result.shape == whole.result.shape
    ]
    return any(
        each.shape == stream.shape and bool((each - stream).abs().max() <= limit) for each in ends
    )


def _unknown(model: OpenedModel, why: str) -> InputError:
    sentence = f"The parts of a logit of {model.folder.name} are not known: {why}."
    return InputError("model", sentence)
