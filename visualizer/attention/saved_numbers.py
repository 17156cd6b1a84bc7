"""The numbers of a run as they are stored in a document file; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.captured_attention import SINKS_NAME
from visualizer.attention.roles import Role

if TYPE_CHECKING:
    from collections.abc import Sequence

    from visualizer.attention.captured_attention import (
        CapturedAttention,
        CapturedVectors,
        ImagePatches,
    )
    from visualizer.attention.run import Run


def captured_header(run: Run) -> CapturedAttention | None:
    """Return the captured attention of a run; its numbers may be omitted."""
    return run.captured


def attach_numbers(captured: CapturedAttention | None, run: Run) -> CapturedAttention | None:
    """Return captured attention with its numbers, which are read from its run if necessary."""
    if captured is not None and not captured.numbers and captured == run.captured:
        return captured_attention_with_numbers(run)
    return captured


def with_image_patches(run: Run, patches: ImagePatches) -> Run:
    """Return a run with its tokens marked as the patches of an image."""
    assert run.captured is not None
    return replace(run, captured=replace(run.captured, patches=patches))


def are_numbers_local(run: Run) -> bool:
    """Return whether all stages of a run are on this machine."""
    trace = run.trace
    return all(trace.cached_stage_tensor(name).is_in_memory for name in trace.names)


def captured_attention_of_layer(run: Run, layer: int) -> CapturedAttention | None:
    """Return the captured attention in one layer of a run, or None if it is on another machine.

    Parameters
    ----------
    layer : int
        Index of the layer in the run. The name of the result includes the layer number if the run
        has several layers.
    """
    if not are_numbers_local(run):
        return None
    found = captured_attention_with_numbers(run, [layer])
    if found is None:
        return None
    if run.captured is not None and run.captured.layers > 1:
        found = replace(found, name=f"layer {layer + 1} of {found.name}")
    return found


def captured_attention_with_numbers(
    run: Run, layers: Sequence[int] | None = None
) -> CapturedAttention | None:
    """Return the captured attention of a run with its numbers.

    Returns None if the run has no captured attention or is computed block by block. Stages that are
    computed when read are computed here.

    Parameters
    ----------
    layers : sequence of int, optional
        Indices of the layers to return; all layers of the run by default.
    """
    captured, trace = run.captured, run.trace
    if captured is None or trace.is_blockwise:
        return None
    if captured.numbers and layers is None:
        return captured
    some = range(captured.layers) if layers is None else layers

    def read(name: str) -> list[np.ndarray]:
        return [trace.read(name, (layer,) if trace.axes else ()) for layer in some]

    numbers = _join_bytes(read(trace.attention_stage_name))
    made = replace(captured, layers=len(some), numbers=numbers, vectors=None)
    vectors = captured.vectors
    if vectors is None or Role.QUERIES not in trace:
        return made
    bias = read(Role.BIAS) if vectors.bias is not None and Role.BIAS in trace else []
    if all(np.array_equal(bias[0], other) for other in bias[1:]):
        bias = bias[:1]  # T5 uses one bias for all layers
    own = (
        trace.model_weights[SINKS_NAME][[*some]].numpy()
        if SINKS_NAME in trace.model_weights
        else None
    )
    vectors = replace(
        _captured_vectors_of_layers(vectors, some),
        queries=_join_bytes(read(Role.QUERIES)),
        keys=_join_bytes(read(Role.KEYS)),
        values=_join_bytes(read(Role.VALUES)),
        bias=_join_bytes(bias) if bias else None,
        sinks=None if own is None else own.tobytes(),
    )
    return replace(made, vectors=vectors)


def _captured_vectors_of_layers(vectors: CapturedVectors, layers: Sequence[int]) -> CapturedVectors:
    """Return vectors with the masks and the cut cells of only the given layers."""
    indices = {layer: at for at, layer in enumerate(layers)}
    cut = ((indices[layer], *cell) for layer, *cell in vectors.cut if layer in indices)
    masks = tuple(vectors.layer_masks[layer] for layer in layers) if vectors.layer_masks else ()
    found = replace(vectors, cut=tuple(sorted(cut)), layer_masks=masks)
    if len({*masks}) != 1:
        return found
    (one,) = {*masks}
    return replace(found, layer_masks=(), mask=one.mask, own_mask=one.own_mask, window=one.window)


def _join_bytes(parts: Sequence[np.ndarray]) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


class RecordedNumbers(Struct, frozen=True, eq=False):
    """The results of a run, without the spec, which is part of the document.

    Parameters
    ----------
    texts : tuple of tuple of str
        Tokens of each text, without padding.
    stages : dict of str to numpy.ndarray
        Numbers of each stage [..., *dims], in order and in the spec's dtype.
    parameters : dict of str to numpy.ndarray
        The weights, by their names in the book's ``state_dict``.
    device : str
        Name of the device that computed the results.
    notices : tuple of str
        Notices about the numbers, each a sentence.
    missing : tuple of str
        Names of stages that are missing, as in files from older versions; the run is then computed.
    """

    texts: tuple[tuple[str, ...], ...]
    stages: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    device: str
    notices: tuple[str, ...]
    missing: tuple[str, ...] = ()
