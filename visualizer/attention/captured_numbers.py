"""The numbers of a run of captured attention, as a document holds them; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from visualizer.attention.captured_attention import SINKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.captured_attention import (
        CapturedAttention,
        CapturedVectors,
        ImagePatches,
    )
    from visualizer.attention.run import Run


def captured_header(run: Run) -> CapturedAttention | None:
    """Return the sizes and settings of the captured attention of a run, maybe without numbers."""
    return run.captured


def with_numbers(captured: CapturedAttention | None, run: Run) -> CapturedAttention | None:
    """Return captured attention with the numbers of its run, where only the run has them."""
    if captured is not None and not captured.numbers and captured == run.captured:
        return captured_numbers(run)
    return captured


def with_patches(run: Run, patches: ImagePatches) -> Run:
    """Return a run whose tokens are the patches of an image."""
    assert run.captured is not None
    return replace(run, captured=replace(run.captured, patches=patches))


def are_numbers_here(run: Run) -> bool:
    """Whether no stage of a run is on another machine."""
    trace = run.trace
    return all(trace.holding(name).is_held for name in trace.names)


def captured_layer(run: Run, layer: int) -> CapturedAttention | None:
    """Return the captured attention of one layer of a run; None where its numbers are not here.

    Parameters
    ----------
    layer : int
        The place of the layer in the run; it is in the name, as the result has no other layer.
    """
    if not are_numbers_here(run):
        return None
    found = captured_numbers(run, [layer])
    if found is None:
        return None
    if run.captured is not None and run.captured.layers > 1:
        found = replace(found, name=f"layer {layer + 1} of {found.name}")
    return found


def captured_numbers(run: Run, layers: Sequence[int] | None = None) -> CapturedAttention | None:
    """Return the captured attention of a run with its numbers; None where they are not held.

    A run may have been made from its sizes and settings only, with stages that are computed where
    they are read.

    Parameters
    ----------
    layers : sequence of int, optional
        Places of layers in the run, of which alone numbers are returned.
    """
    captured, trace = run.captured, run.trace
    if captured is None or trace.is_blockwise:
        return None
    if captured.numbers and layers is None:
        return captured
    some = range(captured.layers) if layers is None else layers

    def read(name: str) -> list[np.ndarray]:
        return [trace.read(name, (layer,) if trace.axes else ()) for layer in some]

    numbers = _bytes(read(trace.attention))
    made = replace(captured, layers=len(some), numbers=numbers, vectors=None)
    vectors = captured.vectors
    if vectors is None or "queries" not in trace:
        return made
    bias = read("bias") if vectors.bias is not None and "bias" in trace else []
    if all(np.array_equal(bias[0], other) for other in bias[1:]):
        bias = bias[:1]  # as T5 makes it once for all layers
    own = trace.model_weights[SINKS][[*some]].numpy() if SINKS in trace.model_weights else None
    vectors = replace(
        _of_layers(vectors, some),
        queries=_bytes(read("queries")),
        keys=_bytes(read("keys")),
        values=_bytes(read("values")),
        bias=_bytes(bias) if bias else None,
        sinks=None if own is None else own.tobytes(),
    )
    return replace(made, vectors=vectors)


def _of_layers(vectors: CapturedVectors, layers: Sequence[int]) -> CapturedVectors:
    """Return the masks and the cut cells of some layers."""
    places = {layer: at for at, layer in enumerate(layers)}
    cut = ((places[layer], *cell) for layer, *cell in vectors.cut if layer in places)
    masks = tuple(vectors.layer_masks[layer] for layer in layers) if vectors.layer_masks else ()
    found = replace(vectors, cut=tuple(sorted(cut)), layer_masks=masks)
    if len({*masks}) != 1:
        return found
    (one,) = {*masks}
    return replace(found, layer_masks=(), mask=one.mask, own_mask=one.own_mask, window=one.window)


def _bytes(parts: Sequence[np.ndarray]) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
