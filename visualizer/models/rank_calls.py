"""Combines the attention calls recorded on each rank into calls with all heads and layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace

from visualizer.language.wire_format import Message
from visualizer.models.attention_recorder import AttentionCall, HeadCut, RecordingMethod
from visualizer.models.model_ranks import ModelRanks, Parallelism

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from torch import Tensor

TENSOR_FIELDS = ("weights", "queries", "keys", "values", "context", "mask")
"""Fields of a call that are a tensor or None."""
HEAD_AXIS = {"context": 2}
"""Axis of the heads, if it is not the second one."""


def gather_calls(ranks: ModelRanks, calls: list[AttentionCall]) -> list[AttentionCall]:
    """Return the calls of a run with all heads of all layers, from the calls of each rank."""
    if ranks.count == 1:
        return calls
    parts = [_parse_message(message) for message in ranks.gather_messages(_create_message(calls))]
    if ranks.parallelism is Parallelism.PIPELINE:
        return [call for part in parts for call in part]
    return [
        _join_heads(each) if ranks.is_partial(each[0].weights.shape[1]) else each[0]
        for each in zip(*parts, strict=True)
    ]


def _join_heads(calls: Sequence[AttentionCall]) -> AttentionCall:
    """Join the heads of one call from all ranks."""
    first = calls[0]
    joined: dict[str, Tensor | None] = {}
    for name in TENSOR_FIELDS:
        tensors = [part for call in calls if (part := getattr(call, name)) is not None]
        is_shared = name == "mask" and bool(tensors) and tensors[0].shape[1] == 1
        if is_shared or not tensors:
            joined[name] = tensors[0] if tensors else None
        else:
            joined[name] = torch.cat(tensors, HEAD_AXIS.get(name, 1))
    arguments = dict(first.arguments)
    if "s_aux" in arguments:
        arguments["s_aux"] = torch.cat([call.arguments["s_aux"].flatten() for call in calls])
    cuts = {head: cut for call in calls for head, cut in call.cuts.items()}
    return replace(first, **joined, arguments=arguments, cuts=cuts)


def _create_message(calls: Sequence[AttentionCall]) -> Message:
    """Convert calls to a message with their tensors and other fields."""
    values, arrays = [], {}
    for at, call in enumerate(calls):
        plain: dict[str, Any] = {}
        for name, given in call.arguments.items():
            if isinstance(given, torch.Tensor):
                arrays[f"{at}/arguments/{name}"] = _to_array(given)
            elif given is None or isinstance(given, (bool, int, float, str)):
                plain[name] = given
            elif (
                not isinstance(given, Mapping) or given
            ):  # only its presence matters: such arguments are not supported
                plain[name] = type(given).__name__
        for name in TENSOR_FIELDS:
            if (part := getattr(call, name)) is not None:
                arrays[f"{at}/{name}"] = _to_array(part)
        cuts = {
            str(head): [list(cut.queries), list(cut.keys), cut.name]
            for head, cut in call.cuts.items()
        }
        values.append([call.module, call.method, call.scaling, plain, cuts])
    return Message("calls", {"calls": values}, arrays)


def _parse_message(message: Message) -> list[AttentionCall]:
    calls = []
    for at, (module, method, scaling, plain, cuts) in enumerate(message.values["calls"]):
        prefix = f"{at}/arguments/"
        tensors = {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in message.arrays.items()
            if name.startswith(prefix)
        }
        parts: dict[str, Any] = {
            name: torch.from_numpy(message.arrays[key].copy())
            for name in TENSOR_FIELDS
            if (key := f"{at}/{name}") in message.arrays
        }
        of_heads = {
            int(head): HeadCut(tuple(queries), tuple(keys), name)
            for head, (queries, keys, name) in cuts.items()
        }
        calls.append(
            AttentionCall(
                module, RecordingMethod(method), scaling=scaling,
                arguments={**plain, **tensors}, cuts=of_heads, **parts,
            )
        )  # fmt: skip
    return calls


def _to_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor as an array; bfloat16, which numpy lacks, is converted to float32 exactly."""
    whole = tensor.detach().cpu()
    if whole.is_floating_point() and whole.dtype not in (torch.float32, torch.float64):
        whole = whole.float()
    array: np.ndarray = whole.contiguous().numpy()
    return array
