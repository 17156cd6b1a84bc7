"""Finds out what the layers of a model compute around their attention, from what passed through.

Nothing is taken from the name of an architecture. A step is known where it gives the very numbers
that the model has: sums bit by bit, norms and rotary positions as computed anew for the last token.
What is not known is left out, and nothing is said of it.
"""

from __future__ import annotations

from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING

import numpy as np
import torch
from msgspec import Struct, field
from msgspec.structs import replace
from torch import nn

from visualizer.attention.activation_functions import ACTIVATIONS
from visualizer.attention.float64_conversion import float64_on_cpu
from visualizer.attention.model_layer_stages import StepOfStage
from visualizer.attention.model_layer_steps import (
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
from visualizer.models.layer_numbers import (
    LayerPass,
    NumbersOf,
    columns_of,
    context_beside_sinks,
    factor_between,
    gated_context,
    given_to,
    head_vectors,
    heads_of,
    heads_through,
    joined_heads,
    kept_by_sinks,
    latent_keys,
    met,
    own_context,
    product_of,
    result_of,
    sum_of,
    table_rows,
    vectors,
)
from visualizer.models.layer_path import layer_path
from visualizer.models.routed_experts import RoutedExperts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch import Tensor

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.layer_recorder import ModulePass

CLOSE = 1e-5
"""How far, as a share of the largest number, computed numbers may be from the model's."""
CHECKED = 8
"""So many numbers of each matrix's results are made anew."""
FUNCTION_CHECKED = 64
"""On about so many numbers it is found out which function gives the hidden ones."""
EXACT = (torch.float32, torch.float64)
"""In types of fewer bits too much is rounded to tell one step from another."""
CONTEXT = "context"
"""The stage of attention that stages after it read."""
ANGLES = "rotary"
KEPT = "kept_by_sinks"
"""The name of the shares that sinks leave of rows, among a trace's numbers."""
EPSILONS = ("eps", "variance_epsilon", "epsilon")
UNNAMED = (1e-5, 1e-6)
"""What norms add to the mean square, where they do not name it."""
MAX_EMBEDDINGS = 3
"""Embeddings of tokens, of places and of kinds of tokens."""
FACTOR_DIGITS = (2, 3, 4, 5, 6)
"""A config gives the number that parts of a layer are multiplied by with so many digits."""


OfModules = NormLayer | LinearLayer | ExpertMixture | ScaledVector
"""Steps that name a module of each layer."""
_Part = tuple[str, "Tensor", int]
"""A part of what a matrix gives: its path, the numbers, and the first column of them."""


class OtherStepsError(Exception):
    """What is known of layers does not hold for a text."""


class LayerSteps(Struct, eq=False):
    """What one layer computes.

    Parameters
    ----------
    steps : dict
        By the name of the stage; a step's tuples by layer have this layer alone.
    sources : dict
        Where the numbers of each stage are found.
    weights : dict
        What they are computed with, by its name in the model.
    experts : dict
        Those that tokens are routed to, by their path.
    """

    steps: dict[str, StepOfStage] = field(default_factory=dict)
    sources: dict[str, NumbersOf] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    experts: dict[str, RoutedExperts] = field(default_factory=dict)


class KnownLayers(Struct, frozen=True, eq=False):
    """What several layers compute that are alike, as far as it is known; it holds for any text.

    Parameters
    ----------
    steps : dict
        By the name of the stage, in order of computation.
    sources : tuple of dict
        For each layer, where the numbers of its stages are found.
    weights : dict
        What they are computed with, by its name in the model.
    experts : dict
        Those that tokens are routed to, by their path.
    paths : tuple of str
        The module of each layer.
    """

    steps: dict[str, StepOfStage]
    sources: tuple[dict[str, NumbersOf], ...]
    weights: dict[str, Tensor]
    experts: dict[str, RoutedExperts]
    paths: tuple[str, ...]


class ModelLayers(Struct, frozen=True, eq=False):
    """The stages of several layers that are alike, for one text.

    Parameters
    ----------
    tensors : dict
        [layer, head, token, d_head] or [layer, token, column], on the CPU.
    weights : dict
        What they are computed with, by its name in the model, and the angles of rotary positions.
    """

    tensors: dict[str, Tensor]
    steps: dict[str, StepOfStage]
    weights: dict[str, Tensor]


def known_layers(
    model: nn.Module,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    passed: Mapping[str, ModulePass],
) -> KnownLayers | None:
    """Return what the layers compute around their attention; None where nothing is known.

    Stages that not every layer has are left out; of those that are not computed alike in all, only
    the numbers are known.

    Parameters
    ----------
    calls, layers
        One a layer, of one text, and its number in the model.
    """
    found = [_read_layer(model, call, passed) for call in calls]
    _stand_in_for_left_out_steps(found)
    first = found[0].at.tensors
    names = [
        name
        for name, numbers in first.items()
        if all(name in one.at.tensors and one.at.tensors[name].shape == numbers.shape
               for one in found)
    ]  # fmt: skip
    if "residual" not in names:
        return None
    steps = {name: _of_all([one.found.steps[name] for one in found], names) for name in names}
    weights = {name: each for one in found for name, each in one.found.weights.items()}
    stream = _stream(model, layers, [one.at for one in found], passed)
    steps["residual"] = StepOfStage(stream)
    if stream.embedded:
        paths = [path for path, _ in stream.embedded.tables]
        for path in (*paths, *(stream.embedded.norm.modules if stream.embedded.norm else ())):
            named = _own_weights(model.get_submodule(path))
            weights |= {f"{path}.{name}": each for name, each in named.items()}
    sources = tuple({name: one.found.sources[name] for name in names} for one in found)
    experts = {path: each for one in found for path, each in one.found.experts.items()}
    return KnownLayers(steps, sources, weights, experts, tuple(one.path for one in found))


def _read_layer(model: nn.Module, call: AttentionCall, passed: Mapping[str, ModulePass]) -> _Layer:
    """Follow the numbers through a layer; where its parts are numbered, as in T5, through all."""
    layer = _Layer(model, call, passed, layer_path(call.module))
    layer.read()
    outer = layer_path(layer.path)
    if outer == layer.path or layer.is_known_to_its_end:
        return layer
    whole = _Layer(model, call, passed, outer)
    whole.read()
    return whole if whole.is_known_to_its_end else layer


def layers_of_text(
    known: KnownLayers,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    passed: Mapping[str, ModulePass],
    edits: Mapping[tuple[int, int], float | Tensor] | None = None,
) -> ModelLayers:
    """Return the stages around the attention of layers, for the text that they have read.

    Parameters
    ----------
    known : KnownLayers
        What the same layers compute.
    edits : mapping, optional
        What becomes of the context vectors of heads, by the number of the layer in the model and
        the head: a factor, or others in their place.

    Raises
    ------
    OtherStepsError
        When the model has computed something else for this text.
    """
    tensors = _numbers_of_text(known, [LayerPass(call, passed) for call in calls])
    return ModelLayers(tensors, *steps_of_text(known, calls, layers, passed, edits))


def steps_of_text(
    known: KnownLayers,
    calls: Sequence[AttentionCall],
    layers: Sequence[int],
    passed: Mapping[str, ModulePass],
    edits: Mapping[tuple[int, int], float | Tensor] | None = None,
) -> tuple[dict[str, StepOfStage], dict[str, Tensor]]:
    """Return how the stages are computed, and what with, as `ModelLayers` has them.

    Of what has passed, the numbers of tokens and of rotary positions are read, and of vectors the
    sizes only. Parameters are as of `layers_of_text`.
    """
    steps, weights = {**known.steps}, {**known.weights}
    stream = steps["residual"].step
    if isinstance(stream, ResidualStream) and stream.embedded:
        embedded = _embedded_text(known, stream.embedded, passed)
        steps["residual"] = StepOfStage(replace(stream, embedded=embedded))
    if "concat" in steps:
        at = {layer: place for place, layer in enumerate(layers)}
        heads = frozenset(
            (at[layer], head, None if isinstance(edit, torch.Tensor) else float(edit))
            for (layer, head), edit in (edits or {}).items()
            if layer in at
        )
        steps["concat"] = replace(steps["concat"], step=JoinedHeads(heads))
    kinds = {
        each.step
        for each in steps.values()
        if isinstance(each.step, RotaryPosition) and each.step.pairs
    }
    for rotary in kinds:
        if any(call.module not in passed for call in calls):
            raise OtherStepsError
        turns = _angles_of_layers([passed[call.module] for call in calls], rotary)
        for at_, kind in enumerate(("cos", "sin")):
            weights[f"{ANGLES}.{kind}"] = torch.stack([turn[at_] for turn in turns])
    if any(isinstance(each.step, LateSink) for each in steps.values()):
        weights[KEPT] = torch.stack([kept_by_sinks(LayerPass(call, passed)) for call in calls])
    weights |= _experts_of_text(known, len(calls), passed)
    return steps, weights


def _numbers_of_text(known: KnownLayers, passes: list[LayerPass]) -> dict[str, Tensor]:
    """Find the numbers of all stages; raises OtherStepsError where some are not as they were."""
    each = [numbers_of_layer(known, place, one) for place, one in enumerate(passes)]
    try:
        return {name: torch.stack([own[name] for own in each]) for name in known.steps}
    except RuntimeError as error:
        raise OtherStepsError from error  # of other sizes


def numbers_of_layer(known: KnownLayers, place: int, one: LayerPass) -> dict[str, Tensor]:
    """Find the numbers of the stages of one layer, by its place among those that are known.

    Raises
    ------
    OtherStepsError
        When the model has computed something else for this text.
    """
    try:
        for name, numbers_of in known.sources[place].items():
            one.tensors[name] = numbers_of(one)
        found = {name: one.tensors[name].cpu().contiguous() for name in known.steps}
    except (AssertionError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise OtherStepsError from error  # a module did not run, or was given other sizes
    if any(numbers.shape[-2] != one.call.weights.shape[2] for numbers in found.values()):
        raise OtherStepsError
    return found


def _embedded_text(
    known: KnownLayers, embedded: EmbeddedTokens, passed: Mapping[str, ModulePass]
) -> EmbeddedTokens:
    """Find the rows of the tables for a text; raises OtherStepsError if some are not known."""
    tables = []
    for path, _ in embedded.tables:
        rows = table_rows(known.weights[f"{path}.weight"], passed[path]) if path in passed else None
        if rows is None:
            raise OtherStepsError
        tables.append((path, rows))
    return replace(embedded, tables=tuple(tables))


def _experts_of_text(
    known: KnownLayers, layers: int, passed: Mapping[str, ModulePass]
) -> dict[str, Tensor]:
    """Return what the experts of all layers make of the tokens."""
    found: dict[str, Tensor] = {}
    for each in known.steps.values():
        for layer in range(layers):
            step = (each.by_layer[layer] if each.by_layer else each).step
            if isinstance(step, ExpertMixture):
                try:
                    found |= known.experts[step.modules[layer]].of_text(passed)
                except (AssertionError, KeyError) as error:
                    raise OtherStepsError from error
    return found


def _angles_of_layers(
    passed: list[ModulePass], step: RotaryPosition
) -> list[tuple[Tensor, Tensor]]:
    """Return the cosines and sines of each layer; those of no rotation where it has none."""
    found = [None if each.rotation is None else _angles(each, step) for each in passed]
    cosines = next((turn[0] for turn in found if turn), None)
    if cosines is None:
        raise OtherStepsError
    none = torch.ones_like(cosines), torch.zeros_like(cosines)
    return [turn or none for turn in found]


def _angles(each: ModulePass, step: RotaryPosition) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of a rotation, [token, pair]."""
    assert each.rotation is not None
    cosines, sines = (part[0].detach() for part in each.rotation)
    if (first := each.given.shape[-2] - len(cosines)) > 0:  # as of an image's class and registers
        unturned = cosines.new_ones(first, cosines.shape[-1])
        cosines = torch.cat([unturned, cosines])
        sines = torch.cat([torch.zeros_like(unturned), sines])
    kept = slice(None, step.pairs * step.stride, step.stride)
    return cosines[:, kept], sines[:, kept] * (-1 if step.is_backward else 1)


def _own_weights(module: nn.Module) -> dict[str, Tensor]:
    return {name: each.detach() for name, each in module.named_parameters(recurse=False)}


def _stand_in_for_left_out_steps(found: list[_Layer]) -> None:
    """Give layers that leave out a step of others a stage that takes its place.

    Some layers have no positions, and the first of some models has no norm; the numbers before
    and after such a step are the same there.
    """
    if any("normed" in one.found.steps for one in found):
        for one in found:
            if "residual" in one.found.steps and "normed" not in one.found.steps:
                one.take_over_as_normed()
    for name, before in product(("queries", "keys"), ("projected", "normed")):
        source = f"{before}_{name}"
        turned = [
            one for one in found
            if source in one.found.steps and _is_rotary(one.found.steps[name].step)
        ]  # fmt: skip
        kinds = {type(one.found.steps[source].step) for one in turned}
        for one in found:
            own = one.found.steps.get(name)
            if own and source not in one.found.steps and type(own.step) in kinds:
                one.leave_unturned(name, source)


def _is_rotary(step: LayerStep | None) -> bool:
    return isinstance(step, RotaryPosition)


def _of_all(found: list[StepOfStage], names: list[str]) -> StepOfStage:
    """Return the step of all layers: with that of each, where they differ."""
    known = [_known(one, names) for one in found]
    plain = [_without_modules(one) for one in known]
    turns = {one.step for one in known if isinstance(one.step, RotaryPosition) and one.step.pairs}
    if len(turns) > 1:  # the angles of a trace are of one kind
        return StepOfStage()
    most = max(plain, key=lambda each: (plain.count(each), each.step is not None))
    common = known[plain.index(most)]
    if isinstance(common.step, OfModules):
        modules = tuple(_module(one) for one in known)
        common = replace(common, step=replace(common.step, modules=modules))
    if all(one == most for one in plain):
        return common
    return replace(common, by_layer=tuple(_in_any_layer(one, len(known)) for one in known))


def _known(found: StepOfStage, names: list[str]) -> StepOfStage:
    """Return a step whose sources are known, or else an unknown one."""
    is_known = found.step is not None and {*found.reads} <= {*names, CONTEXT}
    return found if is_known else StepOfStage()


def _in_any_layer(found: StepOfStage, layers: int) -> StepOfStage:
    """Return the step of one layer, for whose place in the run its module is named."""
    if isinstance(found.step, OfModules):
        return replace(found, step=replace(found.step, modules=found.step.modules * layers))
    return found


def _module(found: StepOfStage) -> str:
    step = found.step
    return step.modules[0] if isinstance(step, OfModules) else ""


def _without_modules(found: StepOfStage) -> StepOfStage:
    """Return a step without what differs by layer: its modules, and how a factor was rounded."""
    step = found.step
    if isinstance(step, NormLayer | ExpertMixture | ScaledVector):
        return replace(found, step=replace(step, modules=()))
    if isinstance(step, LinearLayer):
        rounded = float(f"{step.factor:.5g}")
        return replace(found, step=replace(step, modules=(), factor=rounded))
    return found


def _stream(
    model: nn.Module,
    layers: Sequence[int],
    passes: list[LayerPass],
    passed: Mapping[str, ModulePass],
) -> ResidualStream:
    """Say for each layer whether its stream is what leaves the layer before."""
    before: list[int | None] = [None]
    for (last, this), (one, other) in zip(pairwise(layers), pairwise(passes), strict=True):
        is_next = this == last + 1 and "result" in one.tensors
        is_same = is_next and _is_same(one.tensors["result"], other.tensors["residual"])
        before.append(len(before) - 1 if is_same else None)
    first = passes[0].tensors["residual"].cpu()
    embedded = _embedded(model, passed, first) if layers[0] == 0 else None
    return ResidualStream(tuple(before), embedded)


def _embedded(
    model: nn.Module, passed: Mapping[str, ModulePass], stream: Tensor
) -> EmbeddedTokens | None:
    """Find the rows of tables that are, added up, what enters the first layer.

    The sum may be multiplied by a factor, or be made of one size by a norm.
    """
    tables = []
    for path, each in passed.items():
        module = model.get_submodule(path)
        if isinstance(module, nn.Embedding) and (rows := table_rows(module.weight, each)):
            numbers = module.weight.detach()[[*rows]].cpu()
            if numbers.shape == stream.shape:
                tables.append((path, rows, numbers))
    norms = [
        (path, given.cpu())
        for path, each in passed.items()
        if _is_norm(model.get_submodule(path))
        and (given := vectors(each.given)) is not None
        and (made := vectors(each.result)) is not None
        and _is_same(made.cpu(), stream)
    ]
    for count in range(1, MAX_EMBEDDINGS + 1):
        for chosen in combinations(tables, count):
            whole = torch.stack([numbers for *_, numbers in chosen]).sum(0)
            named = tuple((path, rows) for path, rows, _ in chosen)
            factor = factor_between(whole, stream)
            if factor is not None:
                return EmbeddedTokens(named, factor)
            for path, given in norms:
                factor = factor_between(whole, given)
                step = _norm_step(model.get_submodule(path), path, given, stream)
                if factor is not None and step:
                    return EmbeddedTokens(named, factor, step)
    return None


def _likely_factors(numbers: Tensor, product: Tensor) -> Iterator[float]:
    """Yield numbers of few digits that may multiply a tensor to another one, which is rounded."""
    largest = numbers.abs().argmax()
    ratio = float64_on_cpu(product.flatten()[largest]) / float64_on_cpu(numbers.flatten()[largest])
    if bool(ratio.isfinite()) and ratio:
        yield from dict.fromkeys(float(f"{float(ratio):.{digits}g}") for digits in FACTOR_DIGITS)


class _Layer:
    """One layer, of which step after step is looked for."""

    def __init__(
        self,
        model: nn.Module,
        call: AttentionCall,
        passed: Mapping[str, ModulePass],
        path: str,
    ) -> None:
        self.call = call
        self.path = path
        within = f"{self.path}."
        self.layer = model.get_submodule(self.path)
        self.modules = {within + name: part for name, part in self.layer.named_modules() if name}
        self.passed = {path: passed[path] for path in self.modules if path in passed}
        self.whole = passed.get(self.path)
        self.found, self.at = LayerSteps(), LayerPass(call, passed)
        matrices = [path for path, each in self.passed.items() if self._is_product(path, each)]
        inner = layer_path(call.module)
        is_part = inner != path
        self.around = f"{inner}." if is_part else _attention_block(path, call.module)
        # In BERT, ``attention.output.dense`` stands beside ``attention.self``.
        self.of_attention = [path for path in matrices if path.startswith(self.around)]
        self.of_feed_forward = [path for path in matrices if not path.startswith(self.around)]
        self.norms = [path for path in self.passed if _is_norm(self.modules[path])]

    def _add(self, name: str, numbers_of: NumbersOf, step: LayerStep | None, *reads: str) -> None:
        """Add a stage: where its numbers are, how they are computed, and what it reads."""
        self.found.sources[name] = numbers_of
        self.found.steps[name] = StepOfStage(step, reads)
        self.at.tensors[name] = numbers_of(self.at)

    def read(self) -> None:
        """Follow the numbers through the layer as far as they are known."""
        call = self.call
        if self.whole is None or call.queries is None or call.context is None:
            return
        stream, result = vectors(self.whole.given), vectors(self.whole.result)
        if stream is None or result is None or stream.shape != result.shape:
            return
        if stream.dtype not in EXACT:
            return
        entered = self._enter_attention(stream)
        if entered is None:
            self.at.tensors.clear()
            return
        self._project_heads(entered)
        written = self._join_heads(entered, result)
        if written is None:
            self._end(None)
        elif self._is_whole(stream + self.at.tensors[written], result):
            self._end(ResidualAddition(), "residual", written)
        else:
            self._feed_forward(written, result)

    @property
    def is_known_to_its_end(self) -> bool:
        """Whether what leaves it is known to follow from what enters."""
        end = self.found.steps.get("result")
        return end is not None and end.step is not None

    def take_over_as_normed(self) -> None:
        """Have what is read of the stream be of a stage that takes it over as it is."""
        for name, each in self.found.steps.items():
            if name != "attended" and "residual" in each.reads and len(each.reads) == 1:
                self.found.steps[name] = replace(each, reads=("normed",))
        self._add("normed", given_to(self.path), ResidualAddition(), "residual")

    def leave_unturned(self, name: str, source: str) -> None:
        """Have queries or keys be a stage after their own, which is not turned by place."""
        self._add(source, self.found.sources[name], self.found.steps[name].step,
                  *self.found.steps[name].reads)  # fmt: skip
        self.found.steps[name] = StepOfStage(RotaryPosition(ANGLES, 0), (source,))

    def _is_whole(self, attended: Tensor, result: Tensor) -> bool:
        """Whether the stream leaves the layer as attention has left it, with no feed-forward.

        A part of a layer, as in T5, has its feed-forward in another one.
        """
        is_part = layer_path(self.path) != self.path
        return not is_part and torch.equal(attended, result) and not self._is_read(attended)

    def _end(self, step: LayerStep | None, *reads: str) -> None:
        """Add what leaves the layer.

        Where it is not known how, nothing is said of what is not known to lead to it.
        """
        unknown = self.found.steps.get("feed_forward")
        if step is None and unknown and unknown.step is None:
            self._forget("feed_forward", "normed_feed_forward")
        self._add("result", result_of(self.path), step, *reads)

    # ------------------------------------------------------------------ attention

    def _enter_attention(self, stream: Tensor) -> str | None:
        """Find what the matrices of the attention read: the stream, or a norm of it."""
        self._add("residual", given_to(self.path), ResidualStream((None,)))
        inputs = [vectors(each.given) for _, each in self._linear(of_attention=True)]
        if any(_is_same(one, stream) for one in inputs):
            return "residual"
        for name, each in self._norms(stream):
            numbers = vectors(each.result)
            if numbers is not None and any(_is_same(one, numbers) for one in inputs):
                step = self._norm_step(name, stream, numbers)
                if step:
                    self._add("normed", result_of(name), step, "residual")
                    return "normed"
        return None

    def _project_heads(self, entered: str) -> None:
        call = self.call
        parts = {"queries": call.queries, "keys": call.keys, "values": call.values}
        heads = call.weights.shape[1]
        sizes = [(part.shape[1], part.shape[3]) for part in parts.values() if part is not None]
        self._keys_of_latent(entered)
        for role, (name, part) in enumerate(parts.items()):
            assert part is not None
            if name in self.found.steps:
                continue
            whole = part[0]  # head token d_head
            shared = tuple(at // (heads // len(whole)) for at in range(heads))
            if self._project(entered, name, whole, shared, role, sizes):
                continue
            if name != "queries" or not self._queries_of_latent(entered, whole, shared, sizes):
                self._add(name, met(name, shared), None)

    def _latents(self, entered: str) -> Iterator[tuple[str, str, NormLayer, Tensor]]:
        """Yield shorter vectors that the stream is projected to, made of one size.

        Each by the paths of its matrix, of which it may be the first columns, and of its norm.
        """
        for path, each in self._linear(of_attention=True):
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
        self._add(name, columns_of(path, 0, size), self._linear_step(path), entered)
        self._add(f"normed_{name}", result_of(norm), step, name)
        return f"normed_{name}"

    def _queries_of_latent(
        self, entered: str, whole: Tensor, shared: tuple[int, ...], sizes: list[tuple[int, int]]
    ) -> bool:
        """Find queries that are made of a shorter vector of each token."""
        for path, norm, step, _ in self._latents(entered):
            read = self._add_latent("latent_queries", path, norm, step, entered)
            if self._project(read, "queries", whole, shared, 0, sizes):
                return True
            self._forget("latent_queries", read)
        return False

    def _keys_of_latent(self, entered: str) -> None:
        """Find keys and values that are made of one shorter vector of each token.

        Some columns of the keys, those that are turned by place, are the same in all heads.
        """
        keys, values = self.call.keys, self.call.values
        assert keys is not None
        assert values is not None
        heads, _, size = keys.shape[1:]
        for path, norm, step, normed in self._latents(entered):
            for to, each in self._linear(of_attention=True):
                numbers = vectors(each.result)
                if numbers is None or not _is_same(vectors(each.given), normed):
                    continue
                wide, left = divmod(numbers.shape[-1], heads)
                own = wide - values.shape[-1]
                if left or values.shape[1] != heads or not 0 < own < size:
                    continue
                first = tuple(range(0, heads * wide, wide))
                after = tuple(at + own for at in first)
                if not torch.equal(heads_of(to, after, values.shape[-1])(self.at), values[0]):
                    continue
                start = normed.shape[-1]
                made = latent_keys(to, first, own, path, start, size - own)
                rotary = self._rotary(made(self.at), keys[0])
                if rotary is None:
                    continue
                read = self._add_latent("latent_keys", path, norm, step, entered)
                others = columns_of(path, start, size - own)
                self._add("shared_keys", others, self._linear_step(path, (start,)), entered)
                linear = self._linear_step(to, first)
                projected = LatentKeys(
                    linear.modules, linear.has_bias, linear.is_transposed, first, own_columns=own
                )
                self._add("projected_keys", made, projected, read, "shared_keys")
                every = tuple(range(heads))
                self._add("keys", met("keys", every), rotary, "projected_keys")
                self._add("values", met("values", every), self._linear_step(to, after), read)
                return

    def _forget(self, *names: str) -> None:
        """Take stages back that lead nowhere."""
        for name in names:
            for known in (self.found.steps, self.found.sources, self.at.tensors):
                known.pop(name, None)

    def _project(
        self,
        entered: str,
        name: str,
        whole: Tensor,
        shared: tuple[int, ...],
        role: int,
        sizes: list[tuple[int, int]],
    ) -> bool:
        """Find the matrix that makes queries, keys or values, and what comes after it."""
        source = self.at.tensors[entered]
        for path, each in self._linear(of_attention=True):
            numbers = vectors(each.result)
            if numbers is None or not _is_same(vectors(each.given), source):
                continue
            for first in _first_columns(role, sizes, numbers.shape[-1]):
                width = whole.shape[-1]
                made = heads_of(path, first, width)(self.at)
                columns = tuple(first[head] for head in shared)
                step = self._linear_step(path, columns)
                factor = factor_between(made, whole)
                if factor is not None:
                    self._add(name, met(name, shared), replace(step, factor=factor), entered)
                    return True
                if name != "values" and self._turn(name, made, whole, shared, step, entered):
                    return True
        return False

    def _turn(
        self,
        name: str,
        made: Tensor,
        whole: Tensor,
        shared: tuple[int, ...],
        step: LinearLayer,
        entered: str,
    ) -> bool:
        """Find how projected queries or keys become those that meet: norm, rotary position."""
        read, columns = f"projected_{name}", step.first_columns
        projected = heads_of(step.modules[0], columns, whole.shape[-1])
        sizes = (len(whole), whole.shape[-1], shared)
        for now, normed in (*self._norms_of_heads(shared, given=made), (made, None)):
            rotary = self._rotary(now, whole)
            if rotary is None and not torch.equal(now, whole):
                continue
            self._add(read, projected, step, entered)
            if normed and rotary:
                target = f"normed_{name}"
                source = heads_through(normed.modules[0], *sizes, is_input=False)
                self._add(target, source, normed, read)
                read = target
            self._add(name, met(name, shared), rotary or normed, read)
            return True
        for turned, normed in self._norms_of_heads(shared, result=whole):
            rotary = self._rotary(made, turned)
            if rotary:
                self._add(read, projected, step, entered)
                source = heads_through(normed.modules[0], *sizes, is_input=True)
                self._add(f"turned_{name}", source, rotary, read)
                self._add(name, met(name, shared), normed, f"turned_{name}")
                return True
        return False

    def _norms_of_heads(
        self, shared: tuple[int, ...], given: Tensor | None = None, result: Tensor | None = None
    ) -> Iterator[tuple[Tensor, NormLayer]]:
        """Yield norms of queries or keys by what they read or made, with the other of the two.

        They are of each head's vectors, or of all heads' together.
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

    def _rotary(self, before: Tensor, after: Tensor) -> RotaryPosition | None:
        """Find the rotation that makes the last token's vectors what they are."""
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
            step = RotaryPosition(ANGLES, pairs, is_interleaved, stride, is_backward)
            cosines, sines = (float64_on_cpu(part[-1]) for part in _angles(each, step))
            starts = dict.fromkeys((0, size - 2 * pairs))
            for start, is_regrouped in product(starts, (False, True)[: 1 + is_interleaved]):
                found = replace(step, start=start, is_regrouped=is_regrouped)
                if _is_close(_turned(given, cosines, sines, found), wanted):
                    return found
        return None

    def _join_heads(self, entered: str, result: Tensor) -> str | None:
        """Find the matrix that mixes the heads, if there is one; return the last stage."""
        context = self.call.context
        assert context is not None
        joined = joined_heads(self.at)
        for path, each in self._linear(of_attention=True):
            given = vectors(each.given)
            if given is None or given.shape != joined.shape or vectors(each.result) is None:
                continue
            is_plain = _is_same(given, joined)
            if not is_plain and not self._gate(entered, given, joined):
                continue
            numbers_of = given_to(path)
            is_whole = is_plain and not self._beside_sinks()
            read = CONTEXT if is_whole else "gated_context"
            self._add("concat", numbers_of, JoinedHeads(frozenset()), read)
            self._add("output", result_of(path), self._linear_step(path), "concat")
            return "output"
        stream = self.at.tensors["residual"]
        if joined.shape == stream.shape and self._is_met(stream + joined, result):
            self._add("concat", joined_heads, JoinedHeads(frozenset()), CONTEXT)
            return "concat"
        return None

    def _beside_sinks(self) -> bool:
        """Find whether sinks have taken their share of the context vectors, after the softmax."""
        context, sinks = self.call.context, self.call.arguments.get("s_aux")
        assert context is not None
        if not isinstance(sinks, torch.Tensor) or sinks.numel() != context.shape[2]:
            return False
        pairs = zip(context_beside_sinks(self.at), own_context(self.at), strict=True)
        handed_on = context[0].transpose(0, 1)  # head token d_value
        # Of a head that is edited, neither is what it hands on.
        are_left = [
            _is_close(left, wanted) and not _is_close(left, own)
            for (left, own), wanted in zip(pairs, handed_on, strict=True)
        ]
        if any(are_left):
            self._add("gated_context", context_beside_sinks, LateSink(KEPT), CONTEXT)
        return any(are_left)

    def _gate(self, entered: str, given: Tensor, joined: Tensor) -> bool:
        """Find the gate whose sigmoid lets context vectors through: a matrix, or columns of one."""
        assert self.call.context is not None
        source, (_, _, heads, width) = self.at.tensors[entered], self.call.context.shape
        for path, each in self._linear(of_attention=True):
            numbers = vectors(each.result)
            if numbers is None or not _is_same(vectors(each.given), source):
                continue
            kinds = {heads * width: (width, 0), 2 * heads * width: (2 * width, width)}
            if numbers.shape[-1] not in kinds:
                continue
            apart, start = kinds[numbers.shape[-1]]
            first = tuple(start + apart * head for head in range(heads))
            gates = heads_of(path, first, width)(self.at)  # head token d_head
            if _is_close(gates.transpose(0, 1).flatten(1).sigmoid() * joined, given):
                self._add(
                    "context_gate",
                    heads_of(path, first, width),
                    self._linear_step(path, first),
                    entered,
                )
                self._add(
                    "gated_context",
                    gated_context(path, first, width),
                    HiddenActivation("sigmoid"),
                    "context_gate",
                    CONTEXT,
                )
                return True
        return False

    # ------------------------------------------------------------------ after attention

    def _feed_forward(self, written: str, result: Tensor) -> None:
        """Follow the stream from what attention wrote to what leaves the layer."""
        found, stream = self.at.tensors, self.at.tensors["residual"]
        written = self._scaled_if_added(self._normed_if_added(written, stream), stream, result)
        attended = stream + found[written]
        if not self._is_met(attended, result):
            self._beside(written, result)
            return
        self._add("attended", sum_of("residual", written), ResidualAddition(), "residual", written)
        read = self._normed("attended", "normed_attended")
        base, read = self._cross("attended", read)
        made = self._hidden(read)
        if made is None:
            self._end(None)
            return
        made = self._normed_if_last(made)
        made = self._scaled(made, found[base], [result], "scaled_feed_forward") or made
        for before in dict.fromkeys((base, read)):
            whole = found[before] + found[made]
            if torch.equal(whole, result):
                self._end(ResidualAddition(), before, made)
                return
            for name, each in self._norms(whole):
                if _is_same(vectors(each.result), result):
                    step = self._norm_step(name, whole, result)
                    if step:
                        parts = (before, made)
                        self._add("added", sum_of(*parts), ResidualAddition(), *parts)
                        self._end(step, "added")
                        return
        self._end(None)

    def _normed(self, name: str, normed: str) -> str:
        """Follow a norm of a stream; return the last stage."""
        stream = self.at.tensors[name]
        for path, each in self._norms(stream):
            numbers = vectors(each.result)
            step = None if numbers is None else self._norm_step(path, stream, numbers)
            if step:
                self._add(normed, result_of(path), step, name)
                return normed
        return name

    def _cross(self, base: str, read: str) -> tuple[str, str]:
        """Follow attention to another text, a module of the same kind as that to the own one.

        Returns
        -------
        tuple of str
            The stream after it, and what is read of that; the given ones where there is none.
        """
        found, kind = self.at.tensors, type(self.modules[self.call.module])
        others = [
            path
            for path, module in self.modules.items()
            if type(module) is kind and path != self.call.module and path in self.passed
        ]
        for path in others:
            numbers = vectors(self.passed[path].result)
            if not _is_same(vectors(self.passed[path].given), found[read]) or numbers is None:
                continue
            for before in dict.fromkeys((base, read)):
                if numbers.shape == found[before].shape and self._is_read(found[before] + numbers):
                    self._add("cross_output", result_of(path), None)
                    parts = (before, "cross_output")
                    self._add("crossed", sum_of(*parts), ResidualAddition(), *parts)
                    return "crossed", self._normed("crossed", "normed_crossed")
        return base, read

    def _beside(self, written: str, result: Tensor) -> None:
        """Follow a feed-forward beside the attention: both read the stream that enters."""
        found, stream = self.at.tensors, self.at.tensors["residual"]
        read = "normed" if "normed" in found else "residual"
        made = self._hidden(read)
        if made is None:
            for name, each in self._norms(stream):
                numbers = vectors(each.result)
                step = None if numbers is None else self._norm_step(name, stream, numbers)
                if numbers is not None and step and not _is_same(numbers, found.get("normed")):
                    self._add("normed_attended", result_of(name), step, "residual")
                    made = self._hidden("normed_attended")
                    break
        if made is not None:
            names = ("residual", written, made)
            parts = {name: found[name] for name in names}
            for one, two, three in ((0, 1, 2), (1, 2, 0), (0, 2, 1)):
                first, second, third = (parts[names[at]] for at in (one, two, three))
                if torch.equal(first + second + third, result):
                    self._end(ResidualAddition(), *names)
                    return
        self._end(None)

    def _scaled_if_added(self, written: str, stream: Tensor, result: Tensor) -> str:
        """Follow a factor of what attention wrote, if the stream takes the product."""
        if self._is_met(stream + self.at.tensors[written], result):
            return written
        given = [vectors(each.given) for each in self.passed.values()]
        return self._scaled(written, stream, given, "scaled_output") or written

    def _scaled(
        self, name: str, stream: Tensor, sums: Sequence[Tensor | None], scaled: str
    ) -> str | None:
        """Find the factor that a part is multiplied by before it is added to the stream.

        Parameters
        ----------
        sums : sequence of Tensor or None
            What the stream may be then.
        scaled : str
            The name of the stage that is added.

        Returns
        -------
        str or None
            The same name; None where none of the sums is one with a factor.
        """
        numbers = self.at.tensors[name]
        gains = [*self._column_factors(numbers.shape[-1])]
        for whole in sums:
            if whole is None or whole.shape != stream.shape or _is_same(whole, stream + numbers):
                continue
            for path, gain in gains:
                if torch.equal(stream + numbers * gain, whole):
                    self._add(scaled, product_of(name, gain), ScaledVector((path,)), name)
                    self.found.weights[path] = gain
                    return scaled
            for factor in _likely_factors(numbers, whole - stream):
                if torch.equal(stream + numbers * factor, whole):
                    self._add(scaled, product_of(name, factor), ScaledVector(("",), factor), name)
                    return scaled
        return None

    def _column_factors(self, columns: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the vectors of the layer that are no part of a norm or of a matrix."""
        for name, part in self.layer.named_parameters():
            path = f"{self.path}.{name}"
            owner = self.modules.get(path.rpartition(".")[0])
            is_part = owner is not None and (_is_norm(owner) or _is_matrix(owner))
            if part.shape == (columns,) and not is_part:
                yield path, part.detach()

    def _is_met(self, stream: Tensor, result: Tensor) -> bool:
        """Whether a stream is read by a module of the layer, or leaves it."""
        return torch.equal(stream, result) or self._is_read(stream)

    def _is_read(self, stream: Tensor) -> bool:
        """Whether a stream is read by a module of the layer."""
        others = (vectors(each.given) for each in self.passed.values())
        return any(_is_same(one, stream) for one in others)

    def _normed_if_added(self, written: str, stream: Tensor) -> str:
        """Follow a norm of what attention wrote, if the stream takes its result."""
        numbers = self.at.tensors[written]
        if self._is_met(stream + numbers, stream):
            return written
        for name, each in self._norms(numbers):
            normed = vectors(each.result)
            step = None if normed is None else self._norm_step(name, numbers, normed)
            if normed is not None and step:
                self._add("normed_output", result_of(name), step, written)
                return "normed_output"
        return written

    def _normed_if_last(self, made: str) -> str:
        """Follow a norm of what the feed-forward made."""
        numbers = self.at.tensors[made]
        for name, each in self._norms(numbers):
            normed = vectors(each.result)
            step = None if normed is None else self._norm_step(name, numbers, normed)
            if normed is not None and step:
                self._add("normed_feed_forward", result_of(name), step, made)
                return "normed_feed_forward"
        return made

    def _hidden(self, read: str) -> str | None:
        """Find the matrices of the feed-forward and what is between them."""
        if self._experts(read):
            return "feed_forward"
        source = self.at.tensors[read]
        first = [
            (path, numbers)
            for path, each in self._linear(of_attention=False)
            if _is_same(vectors(each.given), source)
            and (numbers := vectors(each.result)) is not None
        ]
        for path, each in self._linear(of_attention=False):
            given, numbers = vectors(each.given), vectors(each.result)
            if given is None or numbers is None or any(path == known for known, _ in first):
                continue
            activated = self._activated(first, given)
            if activated is None:
                continue
            gate, up, function = activated
            size = given.shape[-1]
            for name, part in (("gate", gate), ("up", up)):
                if part is not None:
                    module, _, at = part
                    step = self._linear_step(module, (at,))
                    self._add(name, columns_of(module, at, size), step, read)
            reads = ("gate", "up") if gate is not None else ("up",)
            self._add("hidden", given_to(path), HiddenActivation(function), *reads)
            self._add("feed_forward", result_of(path), self._linear_step(path), "hidden")
            return "feed_forward"
        return self._unknown_feed_forward(read)

    def _experts(self, read: str) -> bool:
        """Find experts that a stream is routed to, and what is added to their results."""
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
            if not experts.are_a_mixture(self.passed):
                continue
            for one in (experts, *self._with_shared(experts, block, source)):
                if one.are_whole(self.passed, numbers):
                    step = ExpertMixture((path,), has_shared=bool(one.shared))
                    self._add("feed_forward", result_of(block), step, read)
                    self.found.experts[path] = one
                    return True
        return False

    def _with_shared(
        self, experts: RoutedExperts, block: str, source: Tensor
    ) -> Iterator[RoutedExperts]:
        """Yield experts with each module beside them whose result may be added, gated or not."""
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
        """Take what a part of the layer makes of a stream as it is, as of experts."""
        for path, each in self.passed.items():
            numbers, is_whole = vectors(each.result), path.count(".") == self.path.count(".") + 1
            if (
                is_whole
                and numbers is not None
                and not path.startswith(self.around.rstrip("."))
                and path not in self.norms
                and _is_same(vectors(each.given), self.at.tensors[read])
            ):
                self._add("feed_forward", result_of(path), None)
                return "feed_forward"
        return None

    def _activated(
        self, first: list[tuple[str, Tensor]], hidden: Tensor
    ) -> tuple[_Part | None, _Part, str] | None:
        """Return the gate, what it lets through and the function that give the hidden numbers."""
        size = hidden.shape[-1]
        parts = [
            (path, numbers[:, at : at + size], at)
            for path, numbers in first
            for at in range(0, numbers.shape[-1] - size + 1, size)
        ]
        some = slice(None, None, max(1, size // FUNCTION_CHECKED))
        wanted = float64_on_cpu(hidden[-1, some]).numpy()
        last = {id(part): float64_on_cpu(part[1][-1, some]).numpy() for part in parts}
        limit = CLOSE * max(float(np.abs(wanted).max()), 1e-12)
        best: tuple[float, tuple[_Part | None, _Part, str]] | None = None
        for one in parts:
            others = [part for part in parts if part is not one]
            for name, function in ACTIVATIONS.items():
                made = np.array([function(value) for value in last[id(one)].tolist()])
                pairs = [(None, one, made), *((one, two, made * last[id(two)]) for two in others)]
                for gate, up, numbers in pairs:
                    off = float(np.abs(numbers - wanted).max())
                    if off <= limit and (best is None or off < best[0]):
                        best = off, (gate, up, name)
        return best[1] if best else None

    # ------------------------------------------------------------------ modules

    def _linear(self, *, of_attention: bool) -> Iterator[tuple[str, ModulePass]]:
        """Yield the matrices of the attention, or the others."""
        for path in self.of_attention if of_attention else self.of_feed_forward:
            yield path, self.passed[path]

    def _is_product(self, path: str, each: ModulePass) -> bool:
        """Whether a module is a matrix, and what it gave is still what it gave.

        A model may add to the result of a matrix in its place. Some numbers of the last token show
        it, and are made anew in no time.
        """
        module = self.modules[path]
        given, result = vectors(each.given), vectors(each.result)
        if not _is_matrix(module) or given is None or result is None:
            return False
        weights = _own_weights(module)
        matrix = weights["weight"] if isinstance(module, nn.Linear) else weights["weight"].T
        some = torch.linspace(0, len(matrix) - 1, min(CHECKED, len(matrix))).long()
        made = float64_on_cpu(matrix[some]) @ float64_on_cpu(given[-1])
        if "bias" in weights:
            made = made + float64_on_cpu(weights["bias"][some])
        last = float64_on_cpu(result[-1])
        off = (made - last[some]).abs().max()
        return bool(off <= CLOSE * last.abs().max().clamp_min(1e-12))

    def _norms(self, given: Tensor) -> Iterator[tuple[str, ModulePass]]:
        """Yield the norms that read a stream."""
        for path in self.norms:
            if _is_same(vectors(self.passed[path].given), given):
                yield path, self.passed[path]

    def _linear_step(self, path: str, first: tuple[int, ...] = (0,)) -> LinearLayer:
        module = self.modules[path]
        weights = _own_weights(module)
        self._keep(path, weights)
        return LinearLayer((path,), "bias" in weights, not isinstance(module, nn.Linear), first)

    def _keep(self, path: str, weights: dict[str, Tensor]) -> None:
        self.found.weights |= {f"{path}.{name}": each for name, each in weights.items()}

    def _norm_step(self, path: str, given: Tensor, result: Tensor) -> NormLayer | None:
        module = self.modules[path]
        step = _norm_step(module, path, given, result)
        if step:
            self._keep(path, _own_weights(module))
        return step


def _norm_step(module: nn.Module, path: str, given: Tensor, result: Tensor) -> NormLayer | None:
    """Return the kind of norm that makes the last vectors what they are."""
    weight, bias = (getattr(module, name, None) for name in ("weight", "bias"))
    named = [float(value) for name in EPSILONS if (value := getattr(module, name, None))]
    vector, wanted = float64_on_cpu(given[..., -1, :]), float64_on_cpu(result[..., -1, :])
    if any(part is not None and part.shape != vector.shape[-1:] for part in (weight, bias)):
        return None
    # Of vectors whose mean is 0 both kinds are alike; the name tells then.
    kinds = (False, True) if "RMS" in type(module).__name__ else (True, False)
    for is_centred, adds_one, epsilon in product(
        kinds, (False, True) if weight is not None else (False,), named or UNNAMED
    ):
        moved = vector - vector.mean(-1, keepdim=True) if is_centred else vector
        made = moved * (moved.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        if weight is not None:
            made = made * (float64_on_cpu(weight) + adds_one)
        if bias is not None:
            made = made + float64_on_cpu(bias)
        if _is_close(made, wanted):
            has_gain, has_bias = weight is not None, bias is not None
            return NormLayer((path,), epsilon, is_centred, has_gain, has_bias, adds_one)
    return None


def _attention_block(layer: str, module: str) -> str:
    """Return how the paths of the attention's parts begin, which may stand beside its module."""
    step = module[len(layer) + 1 :].split(".")[0]
    return f"{layer}.{step}."


def _first_columns(role: int, sizes: list[tuple[int, int]], width: int) -> Iterator[list[int]]:
    """Yield where the heads of queries, keys or values may begin in a matrix's results."""
    heads, size = sizes[role]
    if width == 2 * heads * size:  # a gate of the same size stands beside each head
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


def _is_close(made: Tensor, wanted: Tensor) -> bool:
    return bool((made - wanted).abs().max() <= CLOSE * wanted.abs().max().clamp_min(1e-12))


def _is_matrix(module: nn.Module) -> bool:
    """Whether it is a plain product with a matrix: of torch, or transformers' Conv1D."""
    return type(module) is nn.Linear or type(module).__name__ == "Conv1D"


def _is_norm(module: nn.Module) -> bool:
    """Whether it may be a norm: no parts, and no matrix."""
    sizes = [part.ndim for part in module.parameters(recurse=False)]
    return (
        not [*module.children()]
        and all(size == 1 for size in sizes)
        and "Norm" in type(module).__name__
    )


def _turned(vectors: Tensor, cosines: Tensor, sines: Tensor, step: RotaryPosition) -> Tensor:
    """Turn pairs of columns of vectors [head, d_head] by angles [pair]."""
    turned, columns = vectors.clone(), torch.arange(step.pairs)
    apart, beside = (columns, columns + step.pairs), (2 * columns, 2 * columns + 1)
    first, second = (step.start + each for each in (beside if step.is_interleaved else apart))
    is_apart = step.is_regrouped or not step.is_interleaved
    to_first, to_second = (step.start + each for each in (apart if is_apart else beside))
    turned[:, to_first] = vectors[:, first] * cosines - vectors[:, second] * sines
    turned[:, to_second] = vectors[:, second] * cosines + vectors[:, first] * sines
    return turned
