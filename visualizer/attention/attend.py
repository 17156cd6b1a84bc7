"""Computes all stages of a spec, in the order of the stage table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.blockwise_stages import ModuleBlockCalculator
from visualizer.attention.cached_tensor import CachedTensor
from visualizer.attention.spec_validation import check_spec
from visualizer.attention.stage_computation import StageInputs, compute_stage
from visualizer.attention.stages import Operation, Stage, parameter_names, shape, stages
from visualizer.attention.trace import Trace
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from visualizer.attention.buffer_pool import BufferPool
    from visualizer.attention.spec import AttentionSpec


def attend(
    spec: AttentionSpec,
    given: Tensor,
    parameters: Mapping[str, Tensor],
    *,
    reuse: Trace | None = None,
    kept: Tensor | None = None,
    pool: BufferPool | None = None,
    by_blocks: bool = False,
) -> Trace:
    """Compute every stage of a spec.

    Parameters
    ----------
    given : Tensor
        Embeddings [..., token, d_in].
    parameters : mapping
        Weights, by their names in the book's ``state_dict``; see `initialize_parameters`.
    reuse : Trace, optional
        An earlier trace; its unchanged stages are reused.
    kept : Tensor, optional
        Cells [..., head, query, key] that dropout keeps, instead of those drawn with the spec's
        seed. A trace that is computed with these cells must not be passed as ``reuse``.
    pool : BufferPool, optional
        Supplies memory for large stages, unless gradients are enabled.
    by_blocks : bool
        Whether the scores and all later stages are computed block by block when read.

    Raises
    ------
    InputError
        If the spec is invalid, or if the size of the input does not match the embedding size or the
        custom matrices of the spec.
    """
    _check_input_size(spec, given)
    work = StageInputs(spec, given, parameters, kept, None if torch.is_grad_enabled() else pool)
    held: dict[str, CachedTensor] = {}
    recomputed: set[str] = set()
    blocks: ModuleBlockCalculator | None = None
    for stage in stages(spec):
        is_read_late = by_blocks and (blocks is not None or stage.dims[-1] == "key")
        if is_read_late and blocks is None:
            blocks = ModuleBlockCalculator(work, held)
        if (
            reuse
            and recomputed.isdisjoint(stage.reads)
            and _can_reuse_stage(stage, work, reuse, is_read_late=is_read_late)
        ):
            held[stage.name] = reuse.cached_stage_tensor(stage.name)
        elif is_read_late and blocks is not None:
            held[stage.name] = blocks.stage_tensor(stage)
            recomputed.add(stage.name)
        else:
            read = [held[name].tensor for name in stage.reads]
            held[stage.name] = CachedTensor(compute_stage(work, stage, read))
            recomputed.add(stage.name)
    axes = ("text",)[: given.ndim - 2]
    return Trace(spec, stages(spec), dict(parameters), held, frozenset(recomputed), axes)


def _check_input_size(spec: AttentionSpec, given: Tensor) -> None:
    check_spec(spec)
    if given.shape[-1] != spec.d_in:
        sentence = f"The input has vectors of size {given.shape[-1]}, but d_in is {spec.d_in}."
        raise InputError("d_in", sentence)


def _can_reuse_stage(stage: Stage, work: StageInputs, reuse: Trace, *, is_read_late: bool) -> bool:
    if stage.name not in reuse or reuse.stage(stage.name) != stage:
        return False
    old, spec = reuse.cached_stage_tensor(stage.name), work.spec
    expected = work.given.shape[:-2] + shape(spec, stage.dims, work.token_count)
    if old.is_blockwise is not is_read_late or old.shape != expected:
        return False
    if old.dtype != work.given.dtype or old.device != work.given.device:
        return False
    if stage.operation is Operation.INPUT_VECTORS:
        return _are_tensors_equal(old.tensor, work.given)
    if stage.operation is Operation.DROPOUT and work.kept is not None:
        return False
    return all(getattr(spec, name) == getattr(reuse.spec, name) for name in stage.fields) and all(
        name in reuse.parameters
        and _are_tensors_equal(reuse.parameters[name], work.parameters[name])
        for layer in stage.parameters
        for name in parameter_names(spec, layer)
    )


def _are_tensors_equal(old: Tensor, new: Tensor) -> bool:
    return old is new or (old.shape == new.shape and torch.equal(old, new))
