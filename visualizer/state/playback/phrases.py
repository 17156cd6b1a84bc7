"""Parts of sentences that rows and whole stages share: what divides, projects, drops and mixes."""

from __future__ import annotations

import numpy as np

from visualizer.attention.spec import Arrangement, AttentionSpec, Scale
from visualizer.state.playback.block import ALIKE, Block, Largest, others, trimmed
from visualizer.state.words import counted, number, share

KINDS = {"queries": "query", "keys": "key", "values": "value"}


def divided_by(spec: AttentionSpec) -> str:
    """Write what divides the scores, as it is made."""
    temperature, divisor = trimmed(spec.temperature), trimmed(spec.divisor)
    if spec.scale is Scale.NONE:
        return f"the temperature, {temperature}"
    root = f"√{spec.d_head if spec.scale is Scale.D_HEAD else spec.d_in}"
    made = root if spec.temperature == 1 else f"{root} × {temperature}"
    return f"{made} = {divisor}"


def changed(before: float, after: float) -> str:
    """Say from what to what a number goes."""
    old, new = number(before), number(after)
    return f"stays {new}" if old == new else f"goes from {old} to {new}"


def projected_by(block: Block) -> str:
    """Name the weights of a projection that belong to the head."""
    spec, layer = block.spec, block.stage.parameters[0]
    bias = " plus a bias" if any(".bias" in name for name in _layers(block)) else ""
    if spec.heads == 1:
        return f"{layer}{bias}"
    if spec.arrangement is Arrangement.STACKED:
        return f"the head’s own {layer}{bias}"
    columns = "column" if spec.d_head == 1 else "columns"
    return f"the head’s {columns} of {layer}{bias}"


def _layers(block: Block) -> list[str]:
    layer = block.stage.parameters[0]
    return [name for name in block.run.trace.parameters if layer in name]


def taken_over(block: Block) -> str:
    """Say which part of the input a head takes where there is no projection."""
    spec = block.spec
    if spec.heads == 1 or spec.arrangement is Arrangement.STACKED:
        return "its input itself"
    first = block.head * spec.d_head + 1
    last = first + spec.d_head - 1
    return (
        f"column {first} of its input"
        if first == last
        else f"columns {first} to {last} of its input"
    )


def factor_of(spec: AttentionSpec) -> str:
    """Say what dropout does to the weights that it keeps."""
    factor = 1 / (1 - spec.dropout)
    if factor == 1:
        return "stays as it is"
    written = f"{factor:.4g}"
    return "counts a little more" if written == "1" else f"counts {written} times"


def all_heads(spec: AttentionSpec) -> str:
    """Name the heads together."""
    return "both heads" if spec.heads == 2 else f"all {spec.heads} heads"


def shared_out(block: Block, weights: np.ndarray) -> str:
    """Say who gets most of a row of finite weights."""
    low, top = float(weights.min()), Largest.of(weights)
    if top is None or low < 0 or top.value > 1:
        return f"the weights run from {number(low)} to {number(float(weights.max()))}"
    key, written = block.key(top.at), share(top.value)
    if top.is_shared:
        if top.times == np.count_nonzero(weights):
            return f"{written} goes to each of {counted(top.times, 'key')} alike"
        return f"the largest, {written} each, go to {key} and {others(top.times - 1)}"
    if top.value == 1:
        return f"all of it, 100 %, goes to {key}"
    if written == "100 %":
        return f"nearly all of it goes to {key}"
    return f"{'most' if top.value > 0.5 else 'the largest'}, {written}, goes to {key}"


def parts_of(block: Block, weights: np.ndarray, keys: np.ndarray) -> str:
    """Name the largest parts of a mixture, and how many there are besides."""
    sizes = np.abs(weights[keys])
    order = keys[np.argsort(-sizes, kind="stable")]
    values = weights[order]
    are_shares = bool((values >= 0).all() and (values <= 1).all())
    written = [share(float(v)) if are_shares else trimmed(float(v)) for v in values[:2]]
    of = "of" if are_shares else "times"
    if len(order) > 2 and np.ptp(values) <= ALIKE * sizes.max():
        return f"{written[0]} {of} the value of each of {len(order):,} keys"
    first = f"{written[0]} {of} the value of {block.key(int(order[0]))}"
    if len(order) == 1:
        return first
    second = f"{written[1]} {of} that of {block.key(int(order[1]))}"
    if len(order) == 2:
        return f"{first} and {second}"
    kind = "smaller parts" if abs(values[2]) < abs(values[1]) else "no larger parts"
    return f"{first}, {second} and {kind} of {others(len(order) - 2)}"
