"""Infers what the layers of a model compute around their attention, from recorded tensors.

The name of the architecture is never used. A step is recognized only if recomputing it gives the
model's own values: sums must match bit for bit; norms and rotary embeddings are recomputed for the
last token and must be close. Steps that are not recognized are left out.
"""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec import Struct, field
from msgspec.structs import replace
from torch import nn

from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.attention.layer_operations import (
    ACTIVATIONS,
    EmbeddedTokens,
    ExpertMixture,
    HiddenActivation,
    JoinedHeads,
    LatentKeys,
    LateSink,
    LayerStep,
    LinearLayer,
    NormLayer,
    ResidualAddition,
    ResidualStream,
    RotaryPosition,
    ScaledVector,
)
from visualizer.attention.layer_stages import StageStep
from visualizer.attention.roles import Role
from visualizer.attention.stage_computation import rotate_pairs
from visualizer.models.layer_numbers import (
    LayerPass,
    RoutedExperts,
    StageReader,
    concatenated_heads,
    context_with_sinks,
    dot_product_vectors,
    find_factor,
    find_table_rows,
    gated_context,
    head_norm_values,
    head_vectors,
    latent_keys,
    module_columns,
    module_heads,
    module_input,
    module_output,
    scaled_stage,
    sink_kept_share,
    sum_stages,
    unedited_context,
    vectors,
)
from visualizer.models.layer_recorder import layer_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.layer_recorder import ModuleCall

VALUE_TOLERANCE = 1e-5
"""Tolerance for recomputed values, relative to the largest value."""
CHECKED_VALUES = 8
"""Number of values recomputed from each matrix's result."""
CHECKED_HIDDEN_VALUES = 64
"""Approximate number of hidden values on which activation functions are compared."""
SUPPORTED_DTYPES = (torch.float32, torch.float64)
"""Supported dtypes; with fewer bits, rounding makes different steps indistinguishable."""
CONTEXT_STAGE = Role.CONTEXT
"""Name of the attention stage that later stages use as input."""
ROTARY_KEY = "rotary"
KEPT_SHARE_KEY = "kept_by_sinks"
"""Key, in the weights of a trace, of the share that sinks leave to each row."""
EPSILON_ATTRIBUTES = ("eps", "variance_epsilon", "epsilon")
DEFAULT_EPSILONS = (1e-5, 1e-6)
"""Values that norms add to the mean square if the module does not name one."""
MAX_EMBEDDINGS = 3
"""Token, position and token-type embeddings."""
FACTOR_DIGITS = (2, 3, 4, 5, 6)
"""Numbers of significant digits with which a config may give a layer's multiplier."""


ModuleStep = NormLayer | LinearLayer | ExpertMixture | ScaledVector
"""Steps that refer to one module per layer."""
_Part = tuple[str, "Tensor", int]
"""Part of a matrix's result: the module path, the values, and their first column."""


class StepMismatchError(Exception):
    """The recognized steps do not match what the model computed for a text."""


class LayerSteps(Struct, eq=False):
    """The stages of one layer and how they are computed.

    Parameters
    ----------
    steps : dict
        By stage name; the per-layer tuples of a step contain only this layer.
    sources : dict
        How to obtain the values of each stage.
    weights : dict
        Parameters used by the steps, by their name in the model.
    experts : dict
        Expert mixtures, by module path.
    """

    steps: dict[str, StageStep] = field(default_factory=dict)
    sources: dict[str, StageReader] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    experts: dict[str, RoutedExperts] = field(default_factory=dict)


class KnownLayers(Struct, frozen=True, eq=False):
    """The recognized computation of several layers of the same kind; valid for any text.

    Parameters
    ----------
    steps : dict
        By stage name, in order of computation.
    sources : tuple of dict
        For each layer, how to obtain the values of its stages.
    weights : dict
        Parameters used by the steps, by their name in the model.
    experts : dict
        Expert mixtures, by module path.
    paths : tuple of str
        Module path of each layer.
    """

    steps: dict[str, StageStep]
    sources: tuple[dict[str, StageReader], ...]
    weights: dict[str, Tensor]
    experts: dict[str, RoutedExperts]
    paths: tuple[str, ...]


class ModelLayers(Struct, frozen=True, eq=False):
    """The stages of several layers of the same kind, for one text.

    Parameters
    ----------
    tensors : dict
        [layer, head, token, d_head] or [layer, token, column], on the CPU.
    weights : dict
        Parameters used by the steps, by their name in the model, and the angles of rotary
        embeddings.
    """

    tensors: dict[str, Tensor]
    steps: dict[str, StageStep]
    weights: dict[str, Tensor]


def infer_layers(
    model: nn.Module,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    passed: Mapping[str, ModuleCall],
) -> KnownLayers | None:
    """Return what the layers compute around their attention; None if nothing is recognized.

    Stages that some layers lack are left out. If the layers compute a stage differently, only its
    values are kept.

    Parameters
    ----------
    calls, layers
        One attention call per layer, all for one text, and the layers' numbers in the model.
    """
    readers = [_read_layer(model, call, passed) for call in calls]
    _fill_missing_steps(readers)
    first = readers[0].at.tensors
    names = [
        name
        for name, numbers in first.items()
        if all(name in one.at.tensors and one.at.tensors[name].shape == numbers.shape
               for one in readers)
    ]  # fmt: skip
    if Role.RESIDUAL not in names:
        return None
    steps = {
        name: _merge_layer_steps([one.found.steps[name] for one in readers], names)
        for name in names
    }
    weights = {name: each for one in readers for name, each in one.found.weights.items()}
    stream = _find_stream_sources(model, layers, [one.at for one in readers], passed)
    steps[Role.RESIDUAL] = StageStep(stream)
    if stream.embedded:
        paths = [path for path, _ in stream.embedded.tables]
        for path in (*paths, *(stream.embedded.norm.modules if stream.embedded.norm else ())):
            named = _own_weights(model.get_submodule(path))
            weights |= {f"{path}.{name}": each for name, each in named.items()}
    sources = tuple({name: one.found.sources[name] for name in names} for one in readers)
    experts = {path: each for one in readers for path, each in one.found.experts.items()}
    return KnownLayers(steps, sources, weights, experts, tuple(one.path for one in readers))


def _read_layer(
    model: nn.Module, call: AttentionCall, passed: Mapping[str, ModuleCall]
) -> _LayerReader:
    """Trace the computation of a layer, or of its parent if the parts are numbered, as in T5."""
    layer = _LayerReader(model, call, passed, layer_path(call.module))
    layer.read()
    outer = layer_path(layer.path)
    if outer == layer.path or layer.is_output_known:
        return layer
    whole = _LayerReader(model, call, passed, outer)
    whole.read()
    return whole if whole.is_output_known else layer


def infer_text_layers(
    known: KnownLayers,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    passed: Mapping[str, ModuleCall],
    edits: Mapping[tuple[int, int], float | Tensor] | None = None,
) -> ModelLayers:
    """Return the stages around the attention of layers, for a recorded text.

    Parameters
    ----------
    known : KnownLayers
        The recognized computation of these layers.
    edits : mapping, optional
        Edits of the context vectors of heads, by the number of the layer in the model and the head:
        a factor, or replacement vectors.

    Raises
    ------
    OtherStepsError
        If the model computed something else for this text.
    """
    tensors = _numbers_of_text(known, [LayerPass(call, passed) for call in calls])
    return ModelLayers(tensors, *infer_text_steps(known, calls, layers, passed, edits))


def infer_text_steps(
    known: KnownLayers,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    passed: Mapping[str, ModuleCall],
    edits: Mapping[tuple[int, int], float | Tensor] | None = None,
) -> tuple[dict[str, StageStep], dict[str, Tensor]]:
    """Return how the stages are computed, and their parameters, as in `ModelLayers`.

    Only the token ids, the rotary angles and the sizes of vectors are read from the recorded
    passes.
    The parameters are those of `infer_text_layers`.
    """
    steps, weights = {**known.steps}, {**known.weights}
    stream = steps[Role.RESIDUAL].step
    if isinstance(stream, ResidualStream) and stream.embedded:
        embedded = _embedded_text(known, stream.embedded, passed)
        steps[Role.RESIDUAL] = StageStep(replace(stream, embedded=embedded))
    if Role.CONCAT in steps:
        at = {layer: place for place, layer in enumerate(layers)}
        heads = frozenset(
            (at[layer], head, None if isinstance(edit, torch.Tensor) else float(edit))
            for (layer, head), edit in (edits or {}).items()
            if layer in at
        )
        steps[Role.CONCAT] = replace(steps[Role.CONCAT], step=JoinedHeads(heads))
    kinds = {
        each.step
        for each in steps.values()
        if isinstance(each.step, RotaryPosition) and each.step.pairs
    }
    for rotary in kinds:
        if any(call.module not in passed for call in calls):
            raise StepMismatchError
        turns = _angles_of_layers([passed[call.module] for call in calls], rotary)
        for at_, kind in enumerate(("cos", "sin")):
            weights[f"{ROTARY_KEY}.{kind}"] = torch.stack([turn[at_] for turn in turns])
    if any(isinstance(each.step, LateSink) for each in steps.values()):
        weights[KEPT_SHARE_KEY] = torch.stack(
            [sink_kept_share(LayerPass(call, passed)) for call in calls]
        )
    weights |= _experts_of_text(known, len(calls), passed)
    return steps, weights


def _numbers_of_text(known: KnownLayers, passes: list[LayerPass]) -> dict[str, Tensor]:
    """Collect the values of all stages; raises OtherStepsError if shapes differ between layers."""
    each = [collect_layer_values(known, place, one) for place, one in enumerate(passes)]
    try:
        return {name: torch.stack([own[name] for own in each]) for name in known.steps}
    except RuntimeError as error:
        raise StepMismatchError from error  # shapes differ


def collect_layer_values(known: KnownLayers, place: int, one: LayerPass) -> dict[str, Tensor]:
    """Collect the values of the stages of one layer, by its index among the known layers.

    Raises
    ------
    OtherStepsError
        If the model computed something else for this text.
    """
    try:
        for name, numbers_of in known.sources[place].items():
            one.tensors[name] = numbers_of(one)
        tensors = {name: one.tensors[name].cpu().contiguous() for name in known.steps}
    except (AssertionError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise StepMismatchError from error  # a module did not run, or got other shapes
    if any(numbers.shape[-2] != one.call.weights.shape[2] for numbers in tensors.values()):
        raise StepMismatchError
    return tensors


def _embedded_text(
    known: KnownLayers, embedded: EmbeddedTokens, passed: Mapping[str, ModuleCall]
) -> EmbeddedTokens:
    """Find the embedding rows for a text; raises OtherStepsError if some are unknown."""
    tables = []
    for path, _ in embedded.tables:
        rows = (
            find_table_rows(known.weights[f"{path}.weight"], passed[path])
            if path in passed
            else None
        )
        if rows is None:
            raise StepMismatchError
        tables.append((path, rows))
    return replace(embedded, tables=tuple(tables))


def _experts_of_text(
    known: KnownLayers, layers: int, passed: Mapping[str, ModuleCall]
) -> dict[str, Tensor]:
    """Return what the experts of all layers compute for the tokens."""
    outputs: dict[str, Tensor] = {}
    for each in known.steps.values():
        for layer in range(layers):
            step = (each.by_layer[layer] if each.by_layer else each).step
            if isinstance(step, ExpertMixture):
                try:
                    outputs |= known.experts[step.modules[layer]].of_text(passed)
                except (AssertionError, KeyError) as error:
                    raise StepMismatchError from error
    return outputs


def _angles_of_layers(
    passed: list[ModuleCall], step: RotaryPosition
) -> list[tuple[Tensor, Tensor]]:
    """Return the cosines and sines of each layer; those of angle 0 for layers without rotation."""
    angles = [None if each.rotation is None else _rotation_angles(each, step) for each in passed]
    cosines = next((turn[0] for turn in angles if turn), None)
    if cosines is None:
        raise StepMismatchError
    none = torch.ones_like(cosines), torch.zeros_like(cosines)
    return [turn or none for turn in angles]


def _rotation_angles(each: ModuleCall, step: RotaryPosition) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of a rotation, [token, pair]."""
    assert each.rotation is not None
    cosines, sines = (part[0].detach() for part in each.rotation)
    # The first tokens may have no position, e.g. class and register tokens of an image model.
    if (first := each.given.shape[-2] - len(cosines)) > 0:
        unturned = cosines.new_ones(first, cosines.shape[-1])
        cosines = torch.cat([unturned, cosines])
        sines = torch.cat([torch.zeros_like(unturned), sines])
    kept = slice(None, step.pairs * step.stride, step.stride)
    return cosines[:, kept], sines[:, kept] * (-1 if step.is_backward else 1)


def _own_weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: each.detach() for name, each in module.named_parameters(recurse=False)}


def _fill_missing_steps(found: list[_LayerReader]) -> None:
    """Add identity stages to layers that skip a step which other layers have.

    Some layers have no positional encoding, and the first layer of some models has no norm; there,
    the values before and after the step are the same.
    """
    if any(Role.NORMED in one.found.steps for one in found):
        for one in found:
            if Role.RESIDUAL in one.found.steps and Role.NORMED not in one.found.steps:
                one.add_identity_norm()
    for name, before in product((Role.QUERIES, Role.KEYS), ("projected_", "normed_")):
        source = f"{before}{name}"
        turned = [
            one for one in found
            if source in one.found.steps and _is_rotary(one.found.steps[name].step)
        ]  # fmt: skip
        kinds = {type(one.found.steps[source].step) for one in turned}
        for one in found:
            own = one.found.steps.get(name)
            if own and source not in one.found.steps and type(own.step) in kinds:
                one.add_identity_rotation(name, source)


def _is_rotary(step: LayerStep | None) -> bool:
    return isinstance(step, RotaryPosition)


def _merge_layer_steps(found: list[StageStep], names: list[str]) -> StageStep:
    """Return the common step of all layers, or one step per layer if they differ."""
    known = [_with_known_sources(one, names) for one in found]
    plain = [_without_modules(one) for one in known]
    turns = {one.step for one in known if isinstance(one.step, RotaryPosition) and one.step.pairs}
    if len(turns) > 1:  # a trace holds the angles of one rotation only
        return StageStep()
    most = max(plain, key=lambda each: (plain.count(each), each.step is not None))
    common = known[plain.index(most)]
    if isinstance(common.step, ModuleStep):
        modules = tuple(_module_path(one) for one in known)
        common = replace(common, step=replace(common.step, modules=modules))
    if all(one == most for one in plain):
        return common
    return replace(common, by_layer=tuple(_repeat_module(one, len(known)) for one in known))


def _with_known_sources(found: StageStep, names: list[str]) -> StageStep:
    """Return the step if all its inputs are known; otherwise, an unknown step."""
    is_known = found.step is not None and {*found.reads} <= {*names, CONTEXT_STAGE}
    return found if is_known else StageStep()


def _repeat_module(found: StageStep, layers: int) -> StageStep:
    """Repeat the module path for every layer, so that it can be looked up by layer index."""
    if isinstance(found.step, ModuleStep):
        return replace(found, step=replace(found.step, modules=found.step.modules * layers))
    return found


def _module_path(found: StageStep) -> str:
    step = found.step
    return step.modules[0] if isinstance(step, ModuleStep) else ""


def _without_modules(found: StageStep) -> StageStep:
    """Return a step without what differs by layer: its modules and the rounding of a factor."""
    step = found.step
    if isinstance(step, NormLayer | ExpertMixture | ScaledVector):
        return replace(found, step=replace(step, modules=()))
    if isinstance(step, LinearLayer):
        rounded = float(f"{step.factor:.5g}")
        return replace(found, step=replace(step, modules=(), factor=rounded))
    return found


def _find_stream_sources(
    model: nn.Module,
    layers: Sequence[int],
    passes: list[LayerPass],
    passed: Mapping[str, ModuleCall],
) -> ResidualStream:
    """Determine for each layer whether its input is the result of the previous layer."""
    before: list[int | None] = [None]
    for (last, this), (one, other) in zip(pairwise(layers), pairwise(passes), strict=True):
        is_next = this == last + 1 and "result" in one.tensors
        is_same = is_next and _is_same(one.tensors["result"], other.tensors[Role.RESIDUAL])
        before.append(len(before) - 1 if is_same else None)
    first = passes[0].tensors[Role.RESIDUAL].cpu()
    embedded = _find_embedding(model, passed, first) if layers[0] == 0 else None
    return ResidualStream(tuple(before), embedded)


def _find_embedding(
    model: nn.Module, passed: Mapping[str, ModuleCall], stream: Tensor
) -> EmbeddedTokens | None:
    """Find the embedding rows whose sum is the input of the first layer.

    The sum may be multiplied by a factor or normalized.
    """
    tables = []
    for path, each in passed.items():
        module = model.get_submodule(path)
        if isinstance(module, nn.Embedding) and (rows := find_table_rows(module.weight, each)):
            numbers = module.weight.detach()[[*rows]].cpu()
            if numbers.shape == stream.shape:
                tables.append((path, rows, numbers))
    norms = [
        (path, given.cpu())
        for path, each in passed.items()
        if _is_norm(model.get_submodule(path))
        and (given := vectors(each.given)) is not None
        and (normed := vectors(each.result)) is not None
        and _is_same(normed.cpu(), stream)
    ]
    for count in range(1, MAX_EMBEDDINGS + 1):
        for chosen in combinations(tables, count):
            whole = torch.stack([numbers for *_, numbers in chosen]).sum(0)
            named = tuple((path, rows) for path, rows, _ in chosen)
            factor = find_factor(whole, stream)
            if factor is not None:
                return EmbeddedTokens(named, factor)
            for path, given in norms:
                factor = find_factor(whole, given)
                step = recognized_norm(model.get_submodule(path), path, given, stream)
                if factor is not None and step:
                    return EmbeddedTokens(named, factor, step)
    return None


def _likely_factors(numbers: Tensor, product: Tensor) -> Iterator[float]:
    """Yield factors of few digits that may relate a tensor to a rounded product."""
    largest = numbers.abs().argmax()
    ratio = float64_on_cpu(product.flatten()[largest]) / float64_on_cpu(numbers.flatten()[largest])
    if bool(ratio.isfinite()) and ratio:
        yield from dict.fromkeys(float(f"{float(ratio):.{digits}g}") for digits in FACTOR_DIGITS)


class _LayerReader:
    """Recognizes the steps of one layer, one after another."""

    def __init__(
        self,
        model: nn.Module,
        call: AttentionCall,
        passed: Mapping[str, ModuleCall],
        path: str,
    ) -> None:
        self.call = call
        self.path = path
        within = f"{self.path}."
        self.layer = model.get_submodule(self.path)
        self.modules = {within + name: part for name, part in self.layer.named_modules() if name}
        self.passed = {path: passed[path] for path in self.modules if path in passed}
        self.whole_area = passed.get(self.path)
        self.found, self.at = LayerSteps(), LayerPass(call, passed)
        matrices = [path for path, each in self.passed.items() if self._is_product(path, each)]
        inner = layer_path(call.module)
        is_part = inner != path
        self.around = f"{inner}." if is_part else _attention_block(path, call.module)
        # In BERT, ``attention.output.dense`` is a sibling of ``attention.self``.
        self.attention_passes = [path for path in matrices if path.startswith(self.around)]
        self.feed_forward_passes = [path for path in matrices if not path.startswith(self.around)]
        self.norms = [path for path in self.passed if _is_norm(self.modules[path])]

    def _add_stage(
        self, name: str, numbers_of: StageReader, step: LayerStep | None, *reads: str
    ) -> None:
        """Add a stage: the source of its values, how it is computed, and its inputs."""
        self.found.sources[name] = numbers_of
        self.found.steps[name] = StageStep(step, reads)
        self.at.tensors[name] = numbers_of(self.at)

    def read(self) -> None:
        """Trace the computation through the layer as far as it is recognized."""
        call = self.call
        if self.whole_area is None or call.queries is None or call.context is None:
            return
        stream, result = vectors(self.whole_area.given), vectors(self.whole_area.result)
        if stream is None or result is None or stream.shape != result.shape:
            return
        if stream.dtype not in SUPPORTED_DTYPES:
            return
        entered = self._enter_attention(stream)
        if entered is None:
            self.at.tensors.clear()
            return
        self._project_heads(entered)
        written = self._join_heads(entered, result)
        if written is None:
            self._add_result(None)
        elif self._ends_after_attention(stream + self.at.tensors[written], result):
            self._add_result(ResidualAddition(), Role.RESIDUAL, written)
        else:
            self._follow_feed_forward(written, result)

    @property
    def is_output_known(self) -> bool:
        """Whether the layer's result is known to follow from its input."""
        end = self.found.steps.get("result")
        return end is not None and end.step is not None

    def add_identity_norm(self) -> None:
        """Add an identity norm stage as the input of stages that use the stream directly."""
        for name, each in self.found.steps.items():
            if name != "attended" and Role.RESIDUAL in each.reads and len(each.reads) == 1:
                self.found.steps[name] = replace(each, reads=(Role.NORMED,))
        self._add_stage(Role.NORMED, module_input(self.path), ResidualAddition(), Role.RESIDUAL)

    def add_identity_rotation(self, name: str, source: str) -> None:
        """Treat unrotated queries or keys as the result of an empty rotation."""
        self._add_stage(source, self.found.sources[name], self.found.steps[name].step,
                  *self.found.steps[name].reads)  # fmt: skip
        self.found.steps[name] = StageStep(RotaryPosition(ROTARY_KEY, 0), (source,))

    def _ends_after_attention(self, attended: Tensor, result: Tensor) -> bool:
        """Whether the result is the stream after attention, without a feed-forward block.

        In T5, each part of a layer is a module of its own, and the feed-forward block is in
        another one.
        """
        is_part = layer_path(self.path) != self.path
        return not is_part and torch.equal(attended, result) and not self._is_read(attended)

    def _add_result(self, step: LayerStep | None, *reads: str) -> None:
        """Add the result of the layer.

        If its step is unknown, an unknown feed-forward stage is removed, since it is not known to
        contribute to the result.
        """
        unknown = self.found.steps.get("feed_forward")
        if step is None and unknown and unknown.step is None:
            self._remove_stages("feed_forward", "normed_feed_forward")
        self._add_stage("result", module_output(self.path), step, *reads)

    # ------------------------------------------------------------------ attention

    def _enter_attention(self, stream: Tensor) -> str | None:
        """Find the input of the attention's matrices: the stream, or its norm."""
        self._add_stage(Role.RESIDUAL, module_input(self.path), ResidualStream((None,)))
        inputs = [vectors(each.given) for _, each in self._matrix_passes(of_attention=True)]
        if any(_is_same(one, stream) for one in inputs):
            return Role.RESIDUAL
        for name, each in self._norms_of_input(stream):
            numbers = vectors(each.result)
            if numbers is not None and any(_is_same(one, numbers) for one in inputs):
                step = self._norm_step(name, stream, numbers)
                if step:
                    self._add_stage(Role.NORMED, module_output(name), step, Role.RESIDUAL)
                    return Role.NORMED
        return None

    def _project_heads(self, entered: str) -> None:
        call = self.call
        parts = {Role.QUERIES: call.queries, Role.KEYS: call.keys, Role.VALUES: call.values}
        heads = call.weights.shape[1]
        sizes = [(part.shape[1], part.shape[3]) for part in parts.values() if part is not None]
        self._keys_of_latent(entered)
        for role, (name, part) in enumerate(parts.items()):
            assert part is not None
            if name in self.found.steps:
                continue
            whole = part[0]  # head token d_head
            shared = tuple(at // (heads // len(whole)) for at in range(heads))
            if self._find_projection(entered, name, whole, shared, role, sizes):
                continue
            if name != Role.QUERIES or not self._queries_of_latent(entered, whole, shared, sizes):
                self._add_stage(name, dot_product_vectors(name, shared), None)

    def _find_latents(self, entered: str) -> Iterator[tuple[str, str, NormLayer, Tensor]]:
        """Yield latent vectors: projections of the stream to fewer columns, then normalized.

        Each with the path of its matrix, whose first columns it may be, and the path of its norm.
        """
        for path, each in self._matrix_passes(of_attention=True):
            numbers = vectors(each.result)
            if numbers is None or not _is_same(vectors(each.given), self.at.tensors[entered]):
                continue
            for norm in self.norms:
                given, normed = (
                    vectors(part) for part in (self.passed[norm].given, self.passed[norm].result)
                )
                if given is None or normed is None or given.shape[-1] > numbers.shape[-1]:
                    continue
                if _is_same(given, numbers[:, : given.shape[-1]]):
                    step = self._norm_step(norm, given, normed)
                    if step:
                        yield path, norm, step, normed

    def _add_latent(self, name: str, path: str, norm: str, step: NormLayer, entered: str) -> str:
        size = self.at.vectors(norm, is_input=True).shape[-1]
        self._add_stage(name, module_columns(path, 0, size), self._linear_step(path), entered)
        self._add_stage(f"normed_{name}", module_output(norm), step, name)
        return f"normed_{name}"

    def _queries_of_latent(
        self, entered: str, whole: Tensor, shared: tuple[int, ...], sizes: list[tuple[int, int]]
    ) -> bool:
        """Find queries computed from a latent vector per token."""
        for path, norm, step, _ in self._find_latents(entered):
            read = self._add_latent("latent_queries", path, norm, step, entered)
            if self._find_projection(read, Role.QUERIES, whole, shared, 0, sizes):
                return True
            self._remove_stages("latent_queries", read)
        return False

    def _keys_of_latent(self, entered: str) -> None:
        """Find keys and values computed from one latent vector per token, as in DeepSeek.

        The rotary columns of the keys are shared by all heads.
        """
        keys, values = self.call.keys, self.call.values
        assert keys is not None
        assert values is not None
        heads, _, size = keys.shape[1:]
        for path, norm, step, normed in self._find_latents(entered):
            for to, each in self._matrix_passes(of_attention=True):
                numbers = vectors(each.result)
                if numbers is None or not _is_same(vectors(each.given), normed):
                    continue
                wide, left = divmod(numbers.shape[-1], heads)
                own = wide - values.shape[-1]
                if left or values.shape[1] != heads or not 0 < own < size:
                    continue
                first = tuple(range(0, heads * wide, wide))
                after = tuple(at + own for at in first)
                if not torch.equal(module_heads(to, after, values.shape[-1])(self.at), values[0]):
                    continue
                start = normed.shape[-1]
                keys_source = latent_keys(to, first, own, path, start, size - own)
                rotary = self._find_rotation(keys_source(self.at), keys[0])
                if rotary is None:
                    continue
                read = self._add_latent("latent_keys", path, norm, step, entered)
                others = module_columns(path, start, size - own)
                self._add_stage("shared_keys", others, self._linear_step(path, (start,)), entered)
                linear = self._linear_step(to, first)
                projected = LatentKeys(
                    linear.modules, linear.has_bias, linear.is_transposed, first, own_columns=own
                )
                self._add_stage("projected_keys", keys_source, projected, read, "shared_keys")
                every = tuple(range(heads))
                self._add_stage(
                    Role.KEYS, dot_product_vectors(Role.KEYS, every), rotary, "projected_keys"
                )
                self._add_stage(
                    Role.VALUES,
                    dot_product_vectors(Role.VALUES, every),
                    self._linear_step(to, after),
                    read,
                )
                return

    def _remove_stages(self, *names: str) -> None:
        """Remove stages that turned out to lead nowhere."""
        for name in names:
            for known in (self.found.steps, self.found.sources, self.at.tensors):
                known.pop(name, None)

    def _find_projection(
        self,
        entered: str,
        name: str,
        whole: Tensor,
        shared: tuple[int, ...],
        role: int,
        sizes: list[tuple[int, int]],
    ) -> bool:
        """Find the matrix that computes queries, keys or values, and the steps after it."""
        source = self.at.tensors[entered]
        for path, each in self._matrix_passes(of_attention=True):
            numbers = vectors(each.result)
            if numbers is None or not _is_same(vectors(each.given), source):
                continue
            for first in _first_columns(role, sizes, numbers.shape[-1]):
                width = whole.shape[-1]
                projected = module_heads(path, first, width)(self.at)
                columns = tuple(first[head] for head in shared)
                step = self._linear_step(path, columns)
                factor = find_factor(projected, whole)
                if factor is not None:
                    self._add_stage(
                        name,
                        dot_product_vectors(name, shared),
                        replace(step, factor=factor),
                        entered,
                    )
                    return True
                if name != Role.VALUES and self._find_head_transforms(
                    name, projected, whole, shared, step, entered
                ):
                    return True
        return False

    def _find_head_transforms(
        self,
        name: str,
        made: Tensor,
        whole: Tensor,
        shared: tuple[int, ...],
        step: LinearLayer,
        entered: str,
    ) -> bool:
        """Find the steps from projected to final queries or keys: norm, rotary embedding."""
        read, columns = f"projected_{name}", step.first_columns
        projected = module_heads(step.modules[0], columns, whole.shape[-1])
        sizes = (len(whole), whole.shape[-1], shared)
        for now, normed in (*self._norms_of_heads(shared, given=made), (made, None)):
            rotary = self._find_rotation(now, whole)
            if rotary is None and not torch.equal(now, whole):
                continue
            self._add_stage(read, projected, step, entered)
            if normed and rotary:
                target = f"normed_{name}"
                source = head_norm_values(normed.modules[0], *sizes, is_input=False)
                self._add_stage(target, source, normed, read)
                read = target
            self._add_stage(name, dot_product_vectors(name, shared), rotary or normed, read)
            return True
        for turned, normed in self._norms_of_heads(shared, result=whole):
            rotary = self._find_rotation(made, turned)
            if rotary:
                self._add_stage(read, projected, step, entered)
                source = head_norm_values(normed.modules[0], *sizes, is_input=True)
                self._add_stage(f"turned_{name}", source, rotary, read)
                self._add_stage(name, dot_product_vectors(name, shared), normed, f"turned_{name}")
                return True
        return False

    def _norms_of_heads(
        self, shared: tuple[int, ...], given: Tensor | None = None, result: Tensor | None = None
    ) -> Iterator[tuple[Tensor, NormLayer]]:
        """Yield norms of queries or keys with this input or result, and the other tensor.

        A norm applies to each head's vectors, or to the vectors of all heads together.
        """
        known = given if given is not None else result
        assert known is not None
        heads, _, width = known.shape
        for path in self.norms:
            each = self.passed[path]
            if not path.startswith(f"{self.call.module}."):
                continue
            ends = [head_vectors(part, heads, width) for part in (each.given, each.result)]
            before, after = ends
            if before is None or after is None:
                continue
            if not _is_same(before if given is not None else after, known):
                continue
            is_over_heads = each.given.shape[-1] != width
            if is_over_heads:
                before, after = (part.transpose(0, 1).flatten(1) for part in (before, after))
            step = self._norm_step(path, before, after)
            if step:
                step = replace(step, is_over_heads=is_over_heads, heads=shared)
                other = ends[1] if given is not None else ends[0]
                assert other is not None
                yield other, step

    def _find_rotation(self, before: Tensor, after: Tensor) -> RotaryPosition | None:
        """Find the rotation that explains the last token's vectors."""
        each = self.passed.get(self.call.module)
        if each is None or each.rotation is None:
            return None
        columns = each.rotation[0].shape[-1]
        given, wanted = float64_on_cpu(before[:, -1]), float64_on_cpu(after[:, -1])  # head d_head
        size = given.shape[-1]
        kinds = product((columns // 2, columns), (False, True), (1, 2), (False, True))
        for pairs, is_interleaved, stride, is_backward in kinds:
            if not 0 < 2 * pairs <= size or pairs * stride > columns:
                continue
            step = RotaryPosition(ROTARY_KEY, pairs, is_interleaved, stride, is_backward)
            cosines, sines = (float64_on_cpu(part[-1]) for part in _rotation_angles(each, step))
            starts = dict.fromkeys((0, size - 2 * pairs))
            for start, is_regrouped in product(starts, (False, True)[: 1 + is_interleaved]):
                candidate = replace(step, start=start, is_regrouped=is_regrouped)
                if _is_close(rotate_pairs(given, cosines, sines, candidate), wanted):
                    return candidate
        return None

    def _join_heads(self, entered: str, result: Tensor) -> str | None:
        """Find the matrix that mixes the heads, if any; return the last stage."""
        context = self.call.context
        assert context is not None
        joined = concatenated_heads(self.at)
        for path, each in self._matrix_passes(of_attention=True):
            given = vectors(each.given)
            if given is None or given.shape != joined.shape or vectors(each.result) is None:
                continue
            is_plain = _is_same(given, joined)
            if not is_plain and not self._find_context_gate(entered, given, joined):
                continue
            numbers_of = module_input(path)
            is_whole = is_plain and not self._has_late_sinks()
            read = CONTEXT_STAGE if is_whole else "gated_context"
            self._add_stage(Role.CONCAT, numbers_of, JoinedHeads(frozenset()), read)
            self._add_stage(Role.OUTPUT, module_output(path), self._linear_step(path), Role.CONCAT)
            return Role.OUTPUT
        stream = self.at.tensors[Role.RESIDUAL]
        if joined.shape == stream.shape and self._is_read_or_result(stream + joined, result):
            self._add_stage(
                Role.CONCAT, concatenated_heads, JoinedHeads(frozenset()), CONTEXT_STAGE
            )
            return Role.CONCAT
        return None

    def _has_late_sinks(self) -> bool:
        """Whether sinks took their share of the context vectors after the softmax."""
        context, sinks = self.call.context, self.call.arguments.get("s_aux")
        assert context is not None
        if not isinstance(sinks, torch.Tensor) or sinks.numel() != context.shape[2]:
            return False
        pairs = zip(context_with_sinks(self.at), unedited_context(self.at), strict=True)
        outputs = context[0].transpose(0, 1)  # head token d_value
        # For an edited head, neither matches its output.
        are_reduced = [
            _is_close(left, wanted) and not _is_close(left, own)
            for (left, own), wanted in zip(pairs, outputs, strict=True)
        ]
        if any(are_reduced):
            self._add_stage(
                "gated_context", context_with_sinks, LateSink(KEPT_SHARE_KEY), CONTEXT_STAGE
            )
        return any(are_reduced)

    def _find_context_gate(self, entered: str, given: Tensor, joined: Tensor) -> bool:
        """Find the gate whose sigmoid multiplies the context vectors: a matrix or its columns."""
        assert self.call.context is not None
        source, (_, _, heads, width) = self.at.tensors[entered], self.call.context.shape
        for path, each in self._matrix_passes(of_attention=True):
            numbers = vectors(each.result)
            if numbers is None or not _is_same(vectors(each.given), source):
                continue
            kinds = {heads * width: (width, 0), 2 * heads * width: (2 * width, width)}
            if numbers.shape[-1] not in kinds:
                continue
            stride, start = kinds[numbers.shape[-1]]
            first = tuple(start + stride * head for head in range(heads))
            gates = module_heads(path, first, width)(self.at)  # head token d_head
            if _is_close(gates.transpose(0, 1).flatten(1).sigmoid() * joined, given):
                self._add_stage(
                    "context_gate",
                    module_heads(path, first, width),
                    self._linear_step(path, first),
                    entered,
                )
                self._add_stage(
                    "gated_context",
                    gated_context(path, first, width),
                    HiddenActivation("sigmoid"),
                    "context_gate",
                    CONTEXT_STAGE,
                )
                return True
        return False

    # ------------------------------------------------------------------ after attention

    def _follow_feed_forward(self, written: str, result: Tensor) -> None:
        """Trace the stream from the attention output to the result of the layer."""
        tensors, stream = self.at.tensors, self.at.tensors[Role.RESIDUAL]
        written = self._follow_output_scaling(
            self._follow_output_norm(written, stream), stream, result
        )
        attended = stream + tensors[written]
        if not self._is_read_or_result(attended, result):
            self._follow_parallel_feed_forward(written, result)
            return
        self._add_stage(
            "attended",
            sum_stages(Role.RESIDUAL, written),
            ResidualAddition(),
            Role.RESIDUAL,
            written,
        )
        read = self._follow_norm("attended", "normed_attended")
        base, read = self._follow_cross_attention("attended", read)
        output = self._find_feed_forward(read)
        if output is None:
            self._add_result(None)
            return
        output = self._follow_feed_forward_norm(output)
        output = (
            self._find_scaling(output, tensors[base], [result], "scaled_feed_forward") or output
        )
        for before in dict.fromkeys((base, read)):
            whole = tensors[before] + tensors[output]
            if torch.equal(whole, result):
                self._add_result(ResidualAddition(), before, output)
                return
            for name, each in self._norms_of_input(whole):
                if _is_same(vectors(each.result), result):
                    step = self._norm_step(name, whole, result)
                    if step:
                        parts = (before, output)
                        self._add_stage("added", sum_stages(*parts), ResidualAddition(), *parts)
                        self._add_result(step, "added")
                        return
        self._add_result(None)

    def _follow_norm(self, name: str, normed: str) -> str:
        """Trace a norm of a stream; return the last stage."""
        stream = self.at.tensors[name]
        for path, each in self._norms_of_input(stream):
            numbers = vectors(each.result)
            step = None if numbers is None else self._norm_step(path, stream, numbers)
            if step:
                self._add_stage(normed, module_output(path), step, name)
                return normed
        return name

    def _follow_cross_attention(self, base: str, read: str) -> tuple[str, str]:
        """Trace cross-attention, a module of the same class as the self-attention.

        Returns
        -------
        tuple of str
            The stream after it, and the input of the next part; both unchanged if there is none.
        """
        tensors, kind = self.at.tensors, type(self.modules[self.call.module])
        others = [
            path
            for path, module in self.modules.items()
            if type(module) is kind and path != self.call.module and path in self.passed
        ]
        for path in others:
            numbers = vectors(self.passed[path].result)
            if not _is_same(vectors(self.passed[path].given), tensors[read]) or numbers is None:
                continue
            for before in dict.fromkeys((base, read)):
                if numbers.shape == tensors[before].shape and self._is_read(
                    tensors[before] + numbers
                ):
                    self._add_stage("cross_output", module_output(path), None)
                    parts = (before, "cross_output")
                    self._add_stage("crossed", sum_stages(*parts), ResidualAddition(), *parts)
                    return "crossed", self._follow_norm("crossed", "normed_crossed")
        return base, read

    def _follow_parallel_feed_forward(self, written: str, result: Tensor) -> None:
        """Trace a feed-forward block parallel to the attention: both use the layer's input."""
        tensors, stream = self.at.tensors, self.at.tensors[Role.RESIDUAL]
        read = Role.NORMED if Role.NORMED in tensors else Role.RESIDUAL
        output = self._find_feed_forward(read)
        if output is None:
            for name, each in self._norms_of_input(stream):
                numbers = vectors(each.result)
                step = None if numbers is None else self._norm_step(name, stream, numbers)
                if numbers is not None and step and not _is_same(numbers, tensors.get(Role.NORMED)):
                    self._add_stage("normed_attended", module_output(name), step, Role.RESIDUAL)
                    output = self._find_feed_forward("normed_attended")
                    break
        if output is not None:
            names = (Role.RESIDUAL, written, output)
            parts = {name: tensors[name] for name in names}
            for one, two, three in ((0, 1, 2), (1, 2, 0), (0, 2, 1)):
                first, second, third = (parts[names[at]] for at in (one, two, three))
                if torch.equal(first + second + third, result):
                    self._add_result(ResidualAddition(), *names)
                    return
        self._add_result(None)

    def _follow_output_scaling(self, written: str, stream: Tensor, result: Tensor) -> str:
        """Trace a factor on the attention output, if the scaled output is added to the stream."""
        if self._is_read_or_result(stream + self.at.tensors[written], result):
            return written
        given = [vectors(each.given) for each in self.passed.values()]
        return self._find_scaling(written, stream, given, "scaled_output") or written

    def _find_scaling(
        self, name: str, stream: Tensor, sums: Sequence[Tensor | None], scaled: str
    ) -> str | None:
        """Find the factor by which a part is multiplied before it is added to the stream.

        Parameters
        ----------
        sums : sequence of Tensor or None
            Candidates for the stream after the addition.
        scaled : str
            Name of the scaled stage.

        Returns
        -------
        str or None
            The same name; None if no candidate is explained by a factor.
        """
        numbers = self.at.tensors[name]
        gains = [*self._column_factors(numbers.shape[-1])]
        for whole in sums:
            if whole is None or whole.shape != stream.shape or _is_same(whole, stream + numbers):
                continue
            for path, gain in gains:
                if torch.equal(stream + numbers * gain, whole):
                    self._add_stage(scaled, scaled_stage(name, gain), ScaledVector((path,)), name)
                    self.found.weights[path] = gain
                    return scaled
            for factor in _likely_factors(numbers, whole - stream):
                if torch.equal(stream + numbers * factor, whole):
                    self._add_stage(
                        scaled, scaled_stage(name, factor), ScaledVector(("",), factor), name
                    )
                    return scaled
        return None

    def _column_factors(self, columns: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the vector parameters of the layer that do not belong to a norm or a matrix."""
        for name, part in self.layer.named_parameters():
            path = f"{self.path}.{name}"
            owner = self.modules.get(path.rpartition(".")[0])
            is_part = owner is not None and (_is_norm(owner) or _is_matrix(owner))
            if part.shape == (columns,) and not is_part:
                yield path, part.detach()

    def _is_read_or_result(self, stream: Tensor, result: Tensor) -> bool:
        """Whether a stream is the input of a module of the layer, or the layer's result."""
        return torch.equal(stream, result) or self._is_read(stream)

    def _is_read(self, stream: Tensor) -> bool:
        """Whether a stream is the input of a module of the layer."""
        others = (vectors(each.given) for each in self.passed.values())
        return any(_is_same(one, stream) for one in others)

    def _follow_output_norm(self, written: str, stream: Tensor) -> str:
        """Trace a norm of the attention output, if its result is added to the stream."""
        numbers = self.at.tensors[written]
        if self._is_read_or_result(stream + numbers, stream):
            return written
        for name, each in self._norms_of_input(numbers):
            normed = vectors(each.result)
            step = None if normed is None else self._norm_step(name, numbers, normed)
            if normed is not None and step:
                self._add_stage("normed_output", module_output(name), step, written)
                return "normed_output"
        return written

    def _follow_feed_forward_norm(self, made: str) -> str:
        """Trace a norm of the feed-forward output."""
        numbers = self.at.tensors[made]
        for name, each in self._norms_of_input(numbers):
            normed = vectors(each.result)
            step = None if normed is None else self._norm_step(name, numbers, normed)
            if normed is not None and step:
                self._add_stage("normed_feed_forward", module_output(name), step, made)
                return "normed_feed_forward"
        return made

    def _find_feed_forward(self, read: str) -> str | None:
        """Find the matrices of the feed-forward block and the activation between them."""
        if self._find_experts(read):
            return "feed_forward"
        source = self.at.tensors[read]
        first = [
            (path, numbers)
            for path, each in self._matrix_passes(of_attention=False)
            if _is_same(vectors(each.given), source)
            and (numbers := vectors(each.result)) is not None
        ]
        for path, each in self._matrix_passes(of_attention=False):
            given, numbers = vectors(each.given), vectors(each.result)
            if given is None or numbers is None or any(path == known for known, _ in first):
                continue
            activated = self._find_activation(first, given)
            if activated is None:
                continue
            gate, up, function = activated
            size = given.shape[-1]
            for name, part in (("gate", gate), ("up", up)):
                if part is not None:
                    module, _, at = part
                    step = self._linear_step(module, (at,))
                    self._add_stage(name, module_columns(module, at, size), step, read)
            reads = ("gate", "up") if gate is not None else ("up",)
            self._add_stage("hidden", module_input(path), HiddenActivation(function), *reads)
            self._add_stage("feed_forward", module_output(path), self._linear_step(path), "hidden")
            return "feed_forward"
        return self._unknown_feed_forward(read)

    def _find_experts(self, read: str) -> bool:
        """Find experts to which the tokens of a stream are routed, and any shared expert."""
        source = self.at.tensors[read]
        for path, each in self.passed.items():
            if each.routing is None or not _is_same(vectors(each.given), source):
                continue
            block = path.rpartition(".")[0]
            whole = self.passed.get(block)
            numbers = None if whole is None else vectors(whole.result)
            if numbers is None:
                continue
            experts = RoutedExperts(path, self.modules[path])
            if not experts.is_weighted_mixture(self.passed):
                continue
            for one in (experts, *self._with_shared_experts(experts, block, source)):
                if one.is_shared_only(self.passed, numbers):
                    step = ExpertMixture((path,), has_shared=bool(one.shared))
                    self._add_stage("feed_forward", module_output(block), step, read)
                    self.found.experts[path] = one
                    return True
        return False

    def _with_shared_experts(
        self, experts: RoutedExperts, block: str, source: Tensor
    ) -> Iterator[RoutedExperts]:
        """Yield the experts with each sibling module that may be a shared expert, gated or not."""
        beside = [
            path
            for path, each in self.passed.items()
            if path.startswith(f"{block}.")
            and path != experts.path
            and _is_same(vectors(each.given), source)
        ]
        gates = [path for path in beside if self.passed[path].result.shape[-1] == 1]
        for path in beside:
            if self.passed[path].result.shape[-1] == source.shape[-1]:
                for gate in ("", *gates):
                    yield replace(experts, shared=path, shared_gate=gate)

    def _unknown_feed_forward(self, read: str) -> str | None:
        """Add the output of a child module as it is, without knowing how it is computed."""
        for path, each in self.passed.items():
            numbers, is_whole = vectors(each.result), path.count(".") == self.path.count(".") + 1
            if (
                is_whole
                and numbers is not None
                and not path.startswith(self.around.rstrip("."))
                and path not in self.norms
                and _is_same(vectors(each.given), self.at.tensors[read])
            ):
                self._add_stage("feed_forward", module_output(path), None)
                return "feed_forward"
        return None

    def _find_activation(
        self, first: list[tuple[str, Tensor]], hidden: Tensor
    ) -> tuple[_Part | None, _Part, str] | None:
        """Return the gate, the gated part and the activation that explain the hidden values."""
        size = hidden.shape[-1]
        parts = [
            (path, numbers[:, at : at + size], at)
            for path, numbers in first
            for at in range(0, numbers.shape[-1] - size + 1, size)
        ]
        some = slice(None, None, max(1, size // CHECKED_HIDDEN_VALUES))
        wanted = float64_on_cpu(hidden[-1, some]).numpy()
        last = {id(part): float64_on_cpu(part[1][-1, some]).numpy() for part in parts}
        limit = VALUE_TOLERANCE * max(float(np.abs(wanted).max()), 1e-12)
        best: tuple[float, tuple[_Part | None, _Part, str]] | None = None
        for one in parts:
            others = [part for part in parts if part is not one]
            for name, function in ACTIVATIONS.items():
                activated = np.array([function(value) for value in last[id(one)].tolist()])
                pairs = [
                    (None, one, activated),
                    *((one, two, activated * last[id(two)]) for two in others),
                ]
                for gate, up, numbers in pairs:
                    error = float(np.abs(numbers - wanted).max())
                    if error <= limit and (best is None or error < best[0]):
                        best = error, (gate, up, name)
        return best[1] if best else None

    # ------------------------------------------------------------------ modules

    def _matrix_passes(self, *, of_attention: bool) -> Iterator[tuple[str, ModuleCall]]:
        """Yield the matrices of the attention, or the others."""
        for path in self.attention_passes if of_attention else self.feed_forward_passes:
            yield path, self.passed[path]

    def _is_product(self, path: str, each: ModuleCall) -> bool:
        """Whether a module is a matrix whose recorded result is still its own.

        A model may add to a matrix's result in place. This is detected by recomputing some values
        of the last token, which takes almost no time.
        """
        module = self.modules[path]
        given, result = vectors(each.given), vectors(each.result)
        if not _is_matrix(module) or given is None or result is None:
            return False
        weights = _own_weights(module)
        matrix = weights["weight"] if isinstance(module, nn.Linear) else weights["weight"].T
        some = torch.linspace(0, len(matrix) - 1, min(CHECKED_VALUES, len(matrix))).long()
        recomputed = float64_on_cpu(matrix[some]) @ float64_on_cpu(given[-1])
        if "bias" in weights:
            recomputed = recomputed + float64_on_cpu(weights["bias"][some])
        last = float64_on_cpu(result[-1])
        error = (recomputed - last[some]).abs().max()
        return bool(error <= VALUE_TOLERANCE * last.abs().max().clamp_min(1e-12))

    def _norms_of_input(self, given: Tensor) -> Iterator[tuple[str, ModuleCall]]:
        """Yield the norms with this input."""
        for path in self.norms:
            if _is_same(vectors(self.passed[path].given), given):
                yield path, self.passed[path]

    def _linear_step(self, path: str, first: tuple[int, ...] = (0,)) -> LinearLayer:
        module = self.modules[path]
        weights = _own_weights(module)
        self._keep_weights(path, weights)
        return LinearLayer((path,), "bias" in weights, not isinstance(module, nn.Linear), first)

    def _keep_weights(self, path: str, weights: dict[str, Tensor]) -> None:
        self.found.weights |= {f"{path}.{name}": each for name, each in weights.items()}

    def _norm_step(self, path: str, given: Tensor, result: Tensor) -> NormLayer | None:
        module = self.modules[path]
        step = recognized_norm(module, path, given, result)
        if step:
            self._keep_weights(path, _own_weights(module))
        return step


def recognized_norm(
    module: nn.Module, path: str, given: Tensor, result: Tensor, within: float = VALUE_TOLERANCE
) -> NormLayer | None:
    """Return the kind of norm that explains the last vectors; None if none does.

    Parameters
    ----------
    given, result : Tensor
        Input and output of the module, [query, d_model].
    within : float
        Tolerance, relative to the largest value.
    """
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    named = [float(value) for name in EPSILON_ATTRIBUTES if (value := getattr(module, name, None))]
    vector, wanted = float64_on_cpu(given[..., -1, :]), float64_on_cpu(result[..., -1, :])
    if any(part is not None and part.shape != vector.shape[-1:] for part in (weight, bias)):
        return None
    # If the mean of the vectors is 0, both kinds give the same result; the class name decides.
    kinds = (False, True) if "RMS" in type(module).__name__ else (True, False)
    for is_centred, adds_one, epsilon in product(
        kinds, (False, True) if weight is not None else (False,), named or DEFAULT_EPSILONS
    ):
        moved = vector - vector.mean(-1, keepdim=True) if is_centred else vector
        recomputed = moved * (moved.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        if weight is not None:
            recomputed = recomputed * (float64_on_cpu(weight) + adds_one)
        if bias is not None:
            recomputed = recomputed + float64_on_cpu(bias)
        if _is_close(recomputed, wanted, within):
            has_gain, has_bias = weight is not None, bias is not None
            return NormLayer((path,), epsilon, is_centred, has_gain, has_bias, adds_one)
    return None


def _attention_block(layer: str, module: str) -> str:
    """Return the path prefix of the attention's parts, which may be siblings of its module."""
    step = module[len(layer) + 1 :].split(".")[0]
    return f"{layer}.{step}."


def _first_columns(role: int, sizes: list[tuple[int, int]], width: int) -> Iterator[list[int]]:
    """Yield candidates for the first column of each head's queries, keys or values."""
    heads, size = sizes[role]
    if width == 2 * heads * size:  # each head's columns are followed by a gate of the same size
        yield [2 * head * size for head in range(heads)]
    if width == heads * size:
        yield [head * size for head in range(heads)]
    elif width == sum(count * wide for count, wide in sizes):
        start = sum(count * wide for count, wide in sizes[:role])
        yield [start + head * size for head in range(heads)]
        if len({*sizes}) == 1:
            yield [(3 * head + role) * size for head in range(heads)]


def _is_same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    is_one = one.data_ptr() == other.data_ptr() and one.stride() == other.stride()
    return is_one or torch.equal(one, other)


def _is_close(made: Tensor, wanted: Tensor, within: float = VALUE_TOLERANCE) -> bool:
    return bool((made - wanted).abs().max() <= within * wanted.abs().max().clamp_min(1e-12))


def _is_matrix(module: nn.Module) -> bool:
    """Whether a module is a plain matrix product: torch's Linear or transformers' Conv1D."""
    return type(module) is nn.Linear or type(module).__name__ == "Conv1D"


def _is_norm(module: nn.Module) -> bool:
    """Whether a module may be a norm: no child modules and only vector parameters."""
    sizes = [part.ndim for part in module.parameters(recurse=False)]
    return (
        not [*module.children()]
        and all(size == 1 for size in sizes)
        and "Norm" in type(module).__name__
    )
