"""Provenance of the weights of a computation: random, given or trained."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from visualizer.attention.spec import OWN_LAYERS, NormalisationKind, layer_symbol
from visualizer.attention.token_embeddings import BOOK_DIMENSIONS, BOOK_VECTORS, PADDING_LABEL

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.resolved_view import ResolvedView

MAX_NAMED = 3
"""Maximum number of random matrices to name; if there are more, they are only counted."""


def describe_provenance(run: Run, layer: int | None = None) -> str:
    """Describe where the weights of a run come from, as one short phrase.

    The phrase is used in the window, in the captions of figures, animations and web pages, and in
    data files, so that random weights are never mistaken for trained ones.

    Parameters
    ----------
    layer : int, optional
        The number of the shown layer in its model, counted from 0; None if no single layer is
        shown.
    """
    if run.trace.has_module:
        return _describe_module_weights(run)
    shown = "" if layer is None else f"layer {layer + 1}"
    reading = run.reading
    if reading is None:
        return ", ".join(filter(None, (f"from {run.source_display_name}", shown)))
    if not reading.is_of_lab:
        return ", ".join(filter(None, (run.source_display_name, shown)))
    return describe_lab_provenance(reading.training_step, run.source_display_name, shown)


def has_random_weights(run: Run) -> bool:
    """Return whether any weights are random, so that patterns in the heads may be due to chance."""
    if run.trace.has_module:
        given = {name for name, _ in run.trace.spec.used_custom_weights}
        return any(name not in given for name in run.trace.spec.weight_names)
    return run.reading is not None and run.reading.is_of_lab and run.reading.training_step == 0


def describe_layer_origin(run: Run, layer: str) -> str:
    """Describe where the weights of one layer come from, as one short phrase."""
    spec = run.trace.spec
    own = [name for name in spec.weight_names if OWN_LAYERS[name] == layer]
    if not run.trace.has_module or not own:
        return describe_provenance(run)
    given = {name for name, _ in spec.used_custom_weights}
    if given.isdisjoint(own):
        return f"untrained: random, seed {spec.seed}"
    return run.weights_source or "custom weights"


def describe_lab_provenance(step: int | None, run_name: str, shown: str = "") -> str:
    """Describe weights from the language lab after the given number of training steps.

    Parameters
    ----------
    step : int or None
        Number of training steps; None if the file does not contain it.
    run_name : str
        The name of the run, or of its snapshot.
    shown : str
        Description of the layer that is shown.
    """
    when = "" if step is None else f"step {step:,}"
    state = "untrained: random weights" if step == 0 else "trained"
    name = run_name.removesuffix(f", {when}")  # the name of a snapshot includes its step
    where = ", ".join(filter(None, (name, shown)))
    return ", ".join(filter(None, (state, when))) + f" ({where})" * bool(where)


def describe_view_provenance(resolved: ResolvedView) -> str:
    """Describe the weights shown by a view, with the layer if only one is shown."""
    trace = resolved.run.trace
    has_layers = resolved.run.reading is not None or trace.axis_size("layer") > 1
    if not has_layers or (resolved.is_spread and "layer" in trace.axes):
        return describe_provenance(resolved.run)
    return describe_provenance(resolved.run, resolved.layer_number)


def _describe_module_weights(run: Run) -> str:
    spec, names = run.trace.spec, run.trace.spec.weight_names
    if not names:
        return f"no weights: {_describe_inputs(run)}"
    given = {name for name, _ in spec.used_custom_weights}
    drawn = [name for name in names if name not in given]
    if not given:
        return f"untrained: random weights, seed {spec.seed}"
    given_by = run.weights_source or "custom weights"
    if not drawn:
        return given_by
    symbols = [layer_symbol(OWN_LAYERS[name]) for name in drawn]
    named = ", ".join(symbols) if len(drawn) <= MAX_NAMED else f"{len(drawn)} of {len(names)}"
    return f"partly untrained: {named} random, seed {spec.seed}; others: {given_by}"


def _describe_inputs(run: Run) -> str:
    """Describe the inputs of attention without weights."""
    spec = run.trace.spec
    if spec.own_input and run.weights_source:  # a layer of the lab without trainable weights
        return f"vectors {run.weights_source}"
    if spec.normalisation is NormalisationKind.UNIFORM:
        return "uniform average over the allowed keys"
    if spec.own_input:
        return "custom vectors"
    are_of_book = spec.d_in == BOOK_DIMENSIONS and {*chain(*run.texts)} <= {
        *BOOK_VECTORS,
        PADDING_LABEL,
    }
    return "vectors of Raschka (2024)" if are_of_book else f"random vectors, seed {spec.seed}"
