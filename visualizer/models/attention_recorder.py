"""Records the inputs and results of each attention call of a transformers model.

There are two methods; each recorded call specifies which of them was used:

- *interface*: the model asks transformers for its attention function. Our function forwards the
  call to the model's own eager function and records queries, keys, values and the returned weights,
  so every argument of every architecture takes effect.
- *softmax*: for a model that computes attention itself, the results of softmax are observed. Only
  the weights are known in this case.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch import nn
from torch.overrides import TorchFunctionMode

from visualizer.attention.captured_layers import WeightSample
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError
from visualizer.models.model_ranks import SINGLE_RANK
from visualizer.models.recognition_errors import infer_or_none
from visualizer.optional_packages import require_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from visualizer.models.model_ranks import ModelProcessGroup

Given = TypeVar("Given")
COMPARED_CELLS = 2**18
"""Approximate number of attention weights per layer that are compared with recomputed weights."""
EAGER_ATTENTION = "eager"
"""Attention implementation of transformers that computes every weight."""
_SOFTMAX_FUNCTIONS = frozenset({
    torch.softmax, torch.nn.functional.softmax, torch.Tensor.softmax, torch.special.softmax,
})  # fmt: skip
ContextEdit: TypeAlias = "float | torch.Tensor"
"""Edit of a head's context vectors: a factor; a tensor with one factor per text of a batch, [text];
or replacement vectors, [query, d_head] or, for a batch, [text, query, d_head].
"""
ContextEdits = Mapping[str, Mapping[int, ContextEdit]]
"""Edits of heads, keyed by the path of the attention module and the number of the head."""
EdgeCuts = Mapping[str, Mapping[int, "MaskedEdges"]]
"""Cut edges of heads, keyed by the path of the attention module and the number of the head."""
_ATTENTION_NAME_PARTS = ("att", "Att")
"""Strings that identify attention modules by their paths; softmax elsewhere is not recorded."""


ModuleFilter = Callable[[str], bool]
"""Returns whether the values of an attention module are kept, given its path."""


def keep_every_module(path: str) -> bool:
    """Return True for every module."""
    return True


class RecordingMethod(StrEnum):
    """Method by which a call was recorded."""

    INTERFACE = "interface"
    SOFTMAX = "softmax"


class MaskedEdges(Struct, frozen=True, eq=False):
    """Edges of a head's attention that are masked before the softmax.

    Parameters
    ----------
    queries, keys : tuple of int
        Positions in the text; each edge leads from the query to the key at the same index.
    name : str
        Name of the head in error messages.
    """

    queries: tuple[int, ...]
    keys: tuple[int, ...]
    name: str


class AttentionCall(Struct, frozen=True, eq=False):
    """One call of one layer's attention, for a batch.

    Parameters
    ----------
    module : str
        The path of the attention module within its model: ``model.layers.3.self_attn``.
    weights : Tensor
        The model's own weights, [batch, head, query, key]. If they are recomputed on demand, this
        is an empty tensor on the device ``meta``; use `read_weights` to read them.
    queries, keys, values : Tensor or None
        Vectors as used in the dot product, after rotary embedding and norms, [batch, head, token,
        d_head]. Each head of the keys and values may be shared by several query heads. None if the
        model computes its attention itself.
    mask : Tensor or None
        Values that are added to the scores, [batch, 1 or head, query, key].
    scaling : float
        Factor by which the scores are multiplied.
    arguments : mapping
        Other arguments of the attention function that are not None.
    context : Tensor or None
        Context vectors of the heads after edits, [batch, query, head, d_value]; None if ``queries``
        is None.
    cuts : mapping
        Edges that were masked in addition to the model's own mask, by head.
    recompute_weights : callable or None
        Returns the weights, computed by the model's own function from the same arguments; None if
        the weights are stored.
    sample : WeightSample or None
        A sample of weights that are recomputed on demand.
    is_continuation : bool
        Whether only the last tokens have queries, because the keys of earlier tokens were cached.
    """

    module: str
    method: RecordingMethod
    weights: Tensor
    queries: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None
    mask: Tensor | None = None
    scaling: float = 1.0
    arguments: dict[str, Any] = {}
    context: Tensor | None = None
    cuts: Mapping[int, MaskedEdges] = {}
    recompute_weights: Callable[[], Tensor] | None = None
    sample: WeightSample | None = None
    is_continuation: bool = False

    __repr__ = brief_repr

    @classmethod
    def without_values(cls, module: str, weights: Tensor) -> AttentionCall:
        """Return a call of a module whose values are not kept, with the shape of its weights."""
        return cls(module, RecordingMethod.INTERFACE, weights.detach().to("meta"))

    def read_weights(self) -> Tensor:
        """Return the weights, [batch, head, query, key]; recompute them if they are not stored."""
        return self.recompute_weights() if self.recompute_weights else self.weights

    def with_weights_only(self) -> AttentionCall:
        """Return a copy of the call that contains only its weights."""
        return AttentionCall(
            self.module,
            self.method,
            self.weights,
            recompute_weights=self.recompute_weights,
            sample=self.sample,
            is_continuation=self.is_continuation,
        )

    def select_text_of_batch(self, text: int) -> AttentionCall:
        """Return the part of the call that belongs to one text of the batch."""
        own: dict[str, Any] = {
            name: select_text(getattr(self, name), text) for name in TENSOR_FIELDS
        }
        bias = select_text(self.arguments.get("position_bias"), text)
        if bias is not None:
            own["arguments"] = {**self.arguments, "position_bias": bias}
        return replace(self, **own)


TENSOR_FIELDS = ("weights", "queries", "keys", "values", "context", "mask")
"""Fields of a call that are a tensor or None."""


def select_text(part: Tensor | None, text: int) -> Tensor | None:
    """Return one text's part of a tensor, or the whole tensor if all texts share it."""
    return part if part is None or len(part) == 1 else part[text : text + 1]


class AttentionCallRecorder(Protocol):
    """Interface for objects that receive the attention calls of a model's forward passes."""

    def begin_pass(self, name: str, arguments: Mapping[str, Any], *, is_model: bool) -> None:
        """Begin a forward pass through a module; ``is_model`` is False for a submodule."""

    def record_call(self, call: AttentionCall) -> None:
        """Store a call of the current pass."""

    def accepts_weights_shape(self, weights: Tensor) -> bool:
        """Return whether weights with fewer queries than keys may be attention to cached keys."""


class LastPassRecorder:
    """Recorder that keeps only the calls of the last pass."""

    def __init__(self) -> None:
        self.calls: list[AttentionCall] = []

    def begin_pass(self, name: str, arguments: Mapping[str, Any], *, is_model: bool) -> None:
        """Discard the previous pass."""
        self.calls.clear()

    def record_call(self, call: AttentionCall) -> None:
        """Store a call of the current pass."""
        self.calls.append(call)

    def accepts_weights_shape(self, weights: Tensor) -> bool:
        """Return False: a single pass does not show which keys were cached."""
        return False


class AttentionSession(Protocol):
    """A recording that computes the attention of a model."""

    implementation: str
    """Name by which the model looks up its attention function during the recording."""

    def compute_attention(
        self, eager: Callable[..., tuple[Tensor, Tensor]], *given: Any, **arguments: Any
    ) -> tuple[Tensor, Tensor | None]:
        """Compute the attention of one call, given the model's eager function."""


class _RecordingSession:
    """State of one recording: the model, its edits, and the modules being executed."""

    implementation = EAGER_ATTENTION

    def __init__(
        self,
        model: nn.Module,
        edits: ContextEdits,
        cuts: EdgeCuts,
        ranks: ModelProcessGroup,
        recorder: AttentionCallRecorder | None,
        *,
        holds_weights: bool,
        keeps_module: ModuleFilter,
    ) -> None:
        self.keeps_module = keeps_module
        self.edits, self.cuts, self.ranks = edits, cuts, ranks
        self.holds_weights = holds_weights
        self.names = {module: name for name, module in model.named_modules()}
        self.is_in_call = False
        self._recorder = recorder
        self._module_stack: list[nn.Module] = []

    @property
    def is_current(self) -> bool:
        """Whether the current thread records; other threads may run the same model."""
        return _CURRENT.get() is self

    def enter_module(self, module: nn.Module, given: Any, named: Any) -> None:
        if self.is_current:
            if not self._module_stack and self._recorder:
                arguments = _bind_arguments(module, given, named)
                is_model = hasattr(module, "config") and hasattr(module, "main_input_name")
                self._recorder.begin_pass(self.names[module], arguments, is_model=is_model)
            self._module_stack.append(module)

    def leave_module(self, module: nn.Module, given: object, result: object) -> None:
        if self.is_current:
            self._module_stack.pop()

    def compute_attention(
        self,
        eager: Callable[..., tuple[Tensor, Tensor]],
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **arguments: Any,
    ) -> tuple[Tensor, Tensor]:
        """Call the model's own eager function, and record the call."""
        if module not in self.names:
            return eager(module, query, key, value, attention_mask, **arguments)
        name, ranks = self.names[module], self.ranks
        cuts = select_local_heads(self.cuts.get(name, {}), ranks, query.shape[1])
        edits = select_local_heads(self.edits.get(name, {}), ranks, query.shape[1])
        mask = attention_mask
        if cuts:
            try:
                mask = _mask_with_cut_edges(attention_mask, cuts, query, key)
            except InputError as refused:
                ranks.raise_or_keep_error(refused)
        self.is_in_call = True
        try:
            output, weights = eager(module, query, key, value, mask, **arguments)
        finally:
            self.is_in_call = False
        if edits:
            output = output.clone()  # batch query head d_head
            for head, edit in edits.items():
                output[:, :, head] = apply_context_edit(output[:, :, head], edit)
        if self._recorder is None:
            return output, weights
        if not self.keeps_module(name):
            self._recorder.record_call(AttentionCall.without_values(name, weights))
            return output, weights
        scaling = arguments.get("scaling")
        held = weights.detach()
        recompute: Callable[[], Tensor] | None = None
        sample: WeightSample | None = None
        if not self.holds_weights:

            def recompute() -> Tensor:
                own = (
                    _mask_with_cut_edges(attention_mask, cuts, query, key)
                    if cuts
                    else attention_mask
                )
                with torch.no_grad():
                    return eager(module, query, key, value, own, **arguments)[1].detach()

            sample = WeightSample.from_weights(held[0], COMPARED_CELLS)
            held = held.to("meta")
        call = infer_or_none(
            f"the inputs of the attention of {name}",
            lambda: AttentionCall(
                name,
                RecordingMethod.INTERFACE,
                held,
                queries=query.detach(),
                keys=key.detach(),
                values=value.detach(),
                mask=attention_mask,
                scaling=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
                arguments={name: given for name, given in arguments.items() if given is not None},
                context=output.detach(),
                cuts=self.cuts.get(name, {}) if cuts else {},
                recompute_weights=recompute,
                sample=sample,
            ),
        )
        self._recorder.record_call(
            call or AttentionCall(name, RecordingMethod.INTERFACE, weights.detach())
        )
        return output, weights

    def record_softmax(self, weights: Tensor) -> None:
        """Record the result of a softmax if it contains the weights of an attention module."""
        owners = [module for module in self._module_stack if not isinstance(module, nn.Softmax)]
        name = self.names[owners[-1]] if owners else ""
        if (
            weights.ndim != 4
            or not any(part in name for part in _ATTENTION_NAME_PARTS)
            or not self._recorder
        ):
            return
        if weights.shape[-1] == weights.shape[-2] or self._recorder.accepts_weights_shape(weights):
            held = weights.detach() if self.keeps_module(name) else weights.to("meta")
            self._recorder.record_call(AttentionCall(name, RecordingMethod.SOFTMAX, held))


def _bind_arguments(
    module: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of a module call, by parameter name."""
    try:
        bound = inspect.signature(module.forward).bind_partial(*given, **named).arguments
    except (TypeError, ValueError):  # the call will fail, or its parameters are unknown
        return named
    return {**bound, **named}


_CURRENT: ContextVar[AttentionSession | None] = ContextVar("recording", default=None)


@contextmanager
def record_attention(
    model: nn.Module,
    edits: ContextEdits | None = None,
    cuts: EdgeCuts | None = None,
    *,
    keeps: bool = True,
    watches_softmax: bool = True,
    holds_weights: bool = True,
    keeps_module: ModuleFilter = keep_every_module,
    ranks: ModelProcessGroup = SINGLE_RANK,
) -> Iterator[list[AttentionCall]]:
    """Record every attention call of a transformers model within the context.

    The model uses its eager attention within the context; its own implementation is restored
    afterwards. Other models, and this model on other threads, are not recorded. If the model runs
    several times, only the last run is kept.

    Parameters
    ----------
    edits : mapping, optional
        Edits of the context vectors of some heads, by module path and head number: 0 ablates a
        head. Modules that compute attention themselves cannot be edited.
    cuts : mapping, optional
        Edges that are masked in some heads, by module path and head number.
    keeps : bool
        Whether calls are stored; otherwise, they are only edited.
    watches_softmax : bool
        Whether softmax is observed as well, which slows down every operation; not needed for a
        model that is known to use the interface.
    holds_weights : bool
        Whether weights are stored; otherwise, they are recomputed when they are read. Until then,
        the model must remain in evaluation mode, with its weights in memory.
    keeps_module : callable
        Returns, given the path of an attention module, whether the values of its calls are kept.
    ranks : ModelProcessGroup
        The processes across which the model is split: a call contains the heads of this process,
        whereas edits and cuts use the head numbers of the whole model.

    Yields
    ------
    list of AttentionCall
        Filled while the model runs.

    Raises
    ------
    InputError
        With field ``model`` if ``model`` is not a transformers model; with field ``package`` if
        transformers is not installed.
    """
    last = LastPassRecorder()
    with record_calls(
        model, last if keeps else None, edits, cuts,
        watches_softmax=watches_softmax, holds_weights=holds_weights, keeps_module=keeps_module,
        ranks=ranks,
    ):  # fmt: skip
        yield last.calls


@contextmanager
def record_calls(
    model: nn.Module,
    recorder: AttentionCallRecorder | None,
    edits: ContextEdits | None = None,
    cuts: EdgeCuts | None = None,
    *,
    watches_softmax: bool = True,
    holds_weights: bool = True,
    keeps_module: ModuleFilter = keep_every_module,
    ranks: ModelProcessGroup = SINGLE_RANK,
) -> Iterator[None]:
    """Pass every attention call of a model to a recorder; see `record_attention`."""
    require_package("transformers", "Recording a model")
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel):
        sentence = "Only transformers models (PreTrainedModel) can be recorded."
        raise InputError("model", sentence)
    recording = _RecordingSession(
        model, edits or {}, cuts or {}, ranks, recorder,
        holds_weights=holds_weights, keeps_module=keeps_module,
    )  # fmt: skip
    with ExitStack() as stack:
        for module in recording.names if watches_softmax else (model,):
            enter = module.register_forward_pre_hook(recording.enter_module, with_kwargs=True)
            leave = module.register_forward_hook(recording.leave_module, always_call=True)
            stack.enter_context(enter)
            stack.enter_context(leave)
        stack.enter_context(replace_attention(model, recording))
        if watches_softmax:
            stack.enter_context(_SoftmaxObserver(recording))
        yield


def list_configs(model: nn.Module) -> list[Any]:
    """List the configs of a model and its submodels, with parents before their children."""
    configs: dict[int, Any] = {}
    waiting = [part.config for part in model.modules() if hasattr(part, "config")]
    while waiting:
        config = waiting.pop(0)
        if id(config) not in configs and hasattr(config, "_attn_implementation"):
            configs[id(config)] = config
            parts = (getattr(config, name, None) for name in getattr(config, "sub_configs", ()))
            waiting += [part for part in parts if part is not None]
    return list(configs.values())


@contextmanager
def replace_attention(model: nn.Module, session: AttentionSession) -> Iterator[None]:
    """Let a session compute the model's attention on this thread within the context."""
    before = [(config, config._attn_implementation) for config in list_configs(model)]
    token = _CURRENT.set(session)
    _INTERFACE_WRAPPER.acquire()
    try:
        for config, _ in before:
            config._attn_implementation = session.implementation
        yield
    finally:
        _INTERFACE_WRAPPER.release()
        for config, implementation in before:
            config._attn_implementation = implementation
        _CURRENT.reset(token)


class _AttentionInterfaceWrapper:
    """Wrapper of the lookup of attention functions, which exists while a session needs it.

    Outside sessions, the lookup is the original one, because torch.compile cannot compile the
    wrapper and would divide the model into many graphs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions = 0
        self._restore: Callable[[], None] | None = None

    def acquire(self) -> None:
        """Install the wrapper unless another session has done so."""
        with self._lock:
            if not self._sessions:
                self._restore = _wrap_attention_interface()
            self._sessions += 1

    def release(self) -> None:
        """Remove the wrapper if no session needs it any more."""
        with self._lock:
            self._sessions -= 1
            if not self._sessions and self._restore:
                self._restore()


def _wrap_attention_interface() -> Callable[[], None]:
    """Wrap the lookup of attention functions, and pass the eager one to the current session.

    The model's eager function is available only as the default argument of this lookup. The result
    restores the original lookup.
    """
    from transformers import AttentionInterface

    original_lookup = AttentionInterface.get_interface

    def get_interface(self: Any, attn_implementation: Any, default: Any) -> Any:
        session = _CURRENT.get()
        if session is None or attn_implementation != session.implementation:
            return original_lookup(self, attn_implementation, default)
        return partial(session.compute_attention, original_lookup(self, EAGER_ATTENTION, default))

    AttentionInterface.get_interface = get_interface

    def restore() -> None:
        AttentionInterface.get_interface = original_lookup

    return restore


_INTERFACE_WRAPPER = _AttentionInterfaceWrapper()


def select_local_heads(
    by_head: Mapping[int, Given], ranks: ModelProcessGroup, count: int
) -> Mapping[int, Given]:
    """Return the values for the heads of this process, by local head number."""
    if not by_head:
        return by_head
    first = ranks.first_local_head(count)
    return {head - first: given for head, given in by_head.items() if 0 <= head - first < count}


def apply_context_edit(context: Tensor, edit: ContextEdit) -> Tensor:
    """Return the edited context vectors of a head, [text, query, d_head]."""
    if not isinstance(edit, torch.Tensor):
        return context * edit
    return context * edit[:, None, None] if edit.ndim == 1 else edit


def _mask_with_cut_edges(
    mask: Tensor | None, cuts: Mapping[int, MaskedEdges], query: Tensor, key: Tensor
) -> Tensor:
    """Return the mask with the cut edges of each head added, [batch, head, query, key].

    Raise an `InputError` with field ``cuts`` if a query would have no key left: softmax would then
    attend to all keys.
    """
    batch, heads, queries, _ = query.shape
    whole = query.new_zeros(()) if mask is None else mask
    whole = whole.expand(batch, heads, queries, key.shape[-2]).clone()
    is_choice = whole.dtype is torch.bool
    lowest: bool | float = False if is_choice else torch.finfo(whole.dtype).min
    for head, cut in cuts.items():
        whole[:, head, [*cut.queries], [*cut.keys]] = lowest
        is_open = whole[:, head] if is_choice else whole[:, head] > lowest / 2
        empty = (~is_open.any(-1)).any(0).nonzero().flatten().tolist()
        if cut_off := [at for at in empty if at in cut.queries]:
            sentence = (
                f"Query {cut_off[0] + 1} of {cut.name} would have no key left. "
                "Keep at least one of its edges."
            )
            raise InputError("cuts", sentence)
    return whole


class _SoftmaxObserver(TorchFunctionMode):
    """Context that records the results of softmax outside recorded attention calls."""

    def __init__(self, recording: _RecordingSession) -> None:
        super().__init__()
        self._recording = recording

    def __torch_function__(
        self, function: Any, types: Any, given: Any = (), named: Any = None
    ) -> Any:
        result = function(*given, **(named or {}))
        if function in _SOFTMAX_FUNCTIONS and not self._recording.is_in_call:
            self._recording.record_softmax(result)
        return result
