"""Joins recorded attention calls into whole texts, and builds runs from them."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.captured_attention import numbered_labels
from visualizer.errors import InputError
from visualizer.models.attention_recorder import record_calls, select_text
from visualizer.models.layer_run_lookup import is_decoder_part
from visualizer.models.recorded_runs import (
    KEEP_ALL_PARTS,
    create_layer_run,
    group_calls,
    is_cross_attention_path,
    number_calls_by_layer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor, nn

    from visualizer.models.attention_recorder import AttentionCall
    from visualizer.models.recorded_runs import KeptLayersAndStages, LayerGroup, LayerGroupRun

ModuleCallIndex = tuple[str, int]
"""Path of an attention module, and the number of its earlier calls in the same pass."""
_TEXT, _DECODER = "text", "decoder"
"""The two texts of an encoder-decoder model; other models have only the first."""
_OWN_MASKS = {"attention_mask": _TEXT, "decoder_attention_mask": _DECODER}
_MASKS_OF_DECODER = {"attention_mask": _DECODER, "encoder_attention_mask": _TEXT}
"""Arguments of a forward pass that mark padding, with the text to which each refers."""


class _ForwardPass(Struct, eq=False):
    """One forward pass of the model or of one of its submodules.

    Parameters
    ----------
    past : int
        Number of positions from earlier passes that are in the cache.
    has_cache : bool
        Whether a cache was passed; its tensors may be larger than its content.
    is_overwritten : bool
        Whether later passes overwrite the cached keys that this pass used.
    real : dict
        Masks of the positions that are not padding, by text, boolean [batch, position].
    is_ended : Tensor or None
        Mask of the positions after the end of each text, boolean [batch, query]; None unless the
        batch continues after some texts have ended.
    is_encoded : bool
        Whether the pass received the encoder output of an earlier pass.
    """

    past: int
    has_cache: bool
    is_overwritten: bool
    real: dict[str, Tensor]
    is_ended: Tensor | None
    is_encoded: bool
    calls: list[AttentionCall]


class _CallRows(Struct, frozen=True, eq=False):
    """Rows of one call, without keys and values.

    Parameters
    ----------
    first, first_key : int
        Positions of the first query and of the first key within the text.
    order : Tensor or None
        For each text of this call, the index of the text in the previous batch that it continues;
        None if the order is unchanged.
    """

    call: AttentionCall
    first: int
    first_key: int
    order: Tensor | None = None

    @property
    def stop(self) -> int:
        return self.first + self.call.weights.shape[-2]


class _KeyValueBlock(Struct, frozen=True, eq=False):
    """Keys and values from a position onwards, [batch, head, key, …]; None if unknown."""

    first: int
    keys: Tensor | None
    values: Tensor | None

    def copy_prefix(self, position: int) -> _KeyValueBlock:
        """Copy the part before a position, so that the memory of the rest can be released."""
        stop = position - self.first
        parts = (self.keys, self.values)
        return _KeyValueBlock(
            self.first, *(p if p is None else p[..., :stop, :].clone() for p in parts)
        )

    def reorder_batch(self, order: Tensor) -> _KeyValueBlock:
        """Return the block with the batch reordered."""
        return _KeyValueBlock(
            self.first, *(_reorder_batch(part, order) for part in (self.keys, self.values))
        )


class _CallChain:
    """Successive calls of one attention module for the same texts."""

    def __init__(self, rows: _CallRows, keys: _KeyValueBlock, *, is_cross: bool) -> None:
        self.rows, self.keys, self.is_cross = [rows], [keys], is_cross

    @property
    def stop(self) -> int:
        """Number of positions in the text so far."""
        return self.rows[-1].stop

    def match_continuation(self, other: _CallChain) -> Tensor | bool:
        """Return whether a later call continues these calls, and for which texts of the batch.

        A call continues these calls if its cached keys are the same. If the result is a tensor, it
        contains the indices of the continued texts, because beam search keeps some and drops
        others. True means that all texts are continued in the same order.
        """
        rows, block, mine = other.rows[0], other.keys[0], self.keys[-1]
        known = rows.first - block.first
        if self.stop < rows.first or self.rows[0].first > rows.first or mine.first > block.first:
            return False
        if block.keys is None or mine.keys is None:
            is_same_batch = len(rows.call.weights) == len(self.rows[-1].call.weights)
            return is_same_batch and self.stop == rows.first
        start = block.first - mine.first
        before = mine.keys[..., start : start + known, :].flatten(1)
        now = block.keys[..., :known, :].flatten(1)
        if before.shape == now.shape and torch.equal(before, now):
            return True
        found = [next((at for at, a in enumerate(before) if torch.equal(a, b)), -1) for b in now]
        return False if -1 in found else torch.tensor(found, device=now.device)

    def extend(self, other: _CallChain, order: Tensor | None) -> None:
        """Add the rows of a later call, replacing those that it recomputes."""
        (rows,), (block,) = other.rows, other.keys
        if not self.is_cross:
            while self.rows and self.rows[-1].first >= rows.first:
                self.rows.pop()
            if self.rows and self.stop > rows.first:
                last = self.rows.pop()
                kept = range(rows.first - last.first), range(last.call.weights.shape[-1])
                self.rows.append(replace(last, call=_select_positions(last.call, *kept)))
        if order is not None:
            self.keys = [one.reorder_batch(order) for one in self.keys]
        while self.keys and self.keys[-1].first >= block.first:
            self.keys.pop()
        if self.keys:
            self.keys.append(self.keys.pop().copy_prefix(block.first))
        self.keys.append(block)
        self.rows.append(replace(rows, order=order))

    def join_calls(self, text: int) -> AttentionCall:
        """Return all rows of a text as one call, with all keys up to that of the last query.

        Keys that the cache no longer contained are 0 and masked.
        """
        first, last, calls = self.rows[0], self.rows[-1], self._collect_calls(text)
        start = self.keys[0].first
        keys = {
            name: _concatenate_after_zeros(
                [select_text(getattr(block, name), text) for block in self.keys], start
            )
            for name in ("keys", "values")
        }
        if len(calls) == 1 and not start:
            return replace(calls[0], **keys)
        columns = last.call.weights.shape[-1] if self.is_cross else self.stop
        size = last.stop - first.first, columns
        starts = [(rows.first - first.first, rows.first_key) for rows in self.rows]
        biases = [call.arguments.get("position_bias") for call in calls]
        arguments = dict(calls[-1].arguments)
        if any(bias is not None for bias in biases):
            arguments["position_bias"] = _place_blocks(biases, starts, size)
        return replace(
            calls[-1],
            weights=_place_blocks([call.weights for call in calls], starts, size),
            queries=_concatenate([call.queries for call in calls], -2),
            mask=_assemble_masks(calls, starts, size),
            context=_concatenate([call.context for call in calls], 1),
            arguments=arguments,
            **keys,
        )

    def _collect_calls(self, text: int) -> list[AttentionCall]:
        """Return the calls for a text of the last batch, including the calls that they continue."""
        found = []
        for rows in reversed(self.rows):
            found.append(rows.call.select_text_of_batch(text))
            if rows.order is not None:
                text = int(rows.order[text])
        return found[::-1]


class UnpaddedCall(Struct, frozen=True, eq=False):
    """A call of one text, without padding.

    Parameters
    ----------
    length : int
        Number of positions in the text of the queries, without padding.
    padding : int
        Number of padding positions in that text.
    absent_keys : int
        Number of positions at the start with unknown keys and values, which are set to 0.
    """

    call: AttentionCall
    length: int
    padding: int
    absent_keys: int


class RecordedText(Struct, frozen=True, eq=False):
    """The recorded calls of one text of a batch.

    Parameters
    ----------
    real : dict
        Masks of the positions that are not padding, by text.
    """

    calls: tuple[UnpaddedCall, ...]
    real: Mapping[str, tuple[bool, ...]]


@contextmanager
def record_texts(
    model: nn.Module, kept: KeptLayersAndStages = KEEP_ALL_PARTS
) -> Iterator[TextRecorder]:
    """Record the last text or batch that a transformers model processes within the context.

    Compiled models run eagerly in the context, because code compiled earlier has no hooks.
    """
    recorded = TextRecorder(model, kept)
    with run_uncompiled(), record_calls(model, recorded, keeps_module=kept.keeps_module):
        yield recorded


def run_uncompiled() -> AbstractContextManager[Any]:
    """Return a context in which compiled models run eagerly."""
    is_any_compiled = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if is_any_compiled else nullcontext()


class TextRecorder:
    """Recorder of the attention for a model's last text or batch, over one or several passes.

    A pass with a key/value cache continues the earlier passes if the cache contains their keys;
    modules that did not run before belong to the same text. Any other pass starts a new text.
    """

    def __init__(self, model: nn.Module, kept: KeptLayersAndStages) -> None:
        self._kept = kept
        self._layers: set[int] = set()
        """Numbers of all layers that have computed attention."""
        self._is_pair = bool(getattr(model.config, "is_encoder_decoder", False))
        settings = getattr(model, "generation_config", None) or model.config
        self._padding_token = getattr(settings, "pad_token_id", None)
        self._pass: _ForwardPass | None = None
        self._chains: dict[ModuleCallIndex, _CallChain] = {}
        self._real: dict[str, Tensor] = {}

    def begin_pass(self, name: str, arguments: Mapping[str, Any], *, is_model: bool) -> None:
        """Begin a pass.

        Parameters
        ----------
        name : str
            Path of the module that runs; empty for the whole model.
        is_model : bool
            Whether the module is a complete transformers model.
        """
        self._finish_pass()
        cache = arguments.get("past_key_values")
        masks = _MASKS_OF_DECODER if self._is_pair and is_decoder_part(name) else _OWN_MASKS
        real = {
            text: found
            for argument, text in masks.items()
            if (found := _non_padding_mask(arguments.get(argument), is_model=is_model)) is not None
        }
        has_encoded = any(
            arguments.get(name) is not None for name in ("encoder_outputs", "encoder_hidden_states")
        )
        past = _cached_positions(cache)
        ids = arguments.get("decoder_input_ids" if self._is_pair else "input_ids")
        is_ended = None
        if past and isinstance(ids, torch.Tensor) and isinstance(self._padding_token, int):
            # generate() continues ended texts of a batch with padding that the mask does not mark.
            is_step_of_batch = ids.ndim == 2 and ids.shape[0] > 1 == ids.shape[1]
            is_ended = ids.eq(self._padding_token) if is_step_of_batch else None
        self._pass = _ForwardPass(
            past,
            cache is not None,
            bool(getattr(cache, "is_compileable", False)),
            real,
            is_ended,
            has_encoded,
            [],
        )

    def record_call(self, call: AttentionCall) -> None:
        """Add a call to the pass."""
        if self._pass is not None:
            self._pass.calls.append(call)

    def accepts_weights_shape(self, weights: Tensor) -> bool:
        """Return whether the shape of weights fits queries that follow the cached keys."""
        past, (queries, keys) = self._pass.past if self._pass else 0, weights.shape[-2:]
        return past > 0 and keys == past + queries

    @property
    def text_count(self) -> int:
        """Number of texts in the batch; 0 if nothing was recorded."""
        self._finish_pass()
        return max((len(each.rows[-1].call.weights) for each in self._chains.values()), default=0)

    def check_layers_exist(self) -> None:
        """Raise an `InputError` with field ``layers`` if a layer to keep did not run."""
        self._finish_pass()
        if self._layers:
            self._kept.check_layers_exist(self._layers)

    def recorded_text(self, at: int) -> RecordedText:
        """Return the recorded calls of one text of the batch."""
        size = self.text_count
        real = {
            side: tuple(mask[at * len(mask) // size].tolist()) for side, mask in self._real.items()
        }
        calls = tuple(self._call_of_text(chain, at, size, real) for chain in self._chains.values())
        return RecordedText(calls, real)

    def _call_of_text(
        self, chain: _CallChain, at: int, size: int, real: Mapping[str, tuple[bool, ...]]
    ) -> UnpaddedCall:
        # One encoded text may belong to several texts of the batch.
        call = chain.join_calls(at * len(chain.rows[-1].call.weights) // size)
        side, first, stop = self._text_key_of_module(call.module), chain.rows[0].first, chain.stop
        before = _non_padding_positions(real.get(side), stop)
        if not before or before[-1] < first:  # everything is padding: keep all positions
            before = [*range(stop)]
        queries = [place for place in before if place >= first]
        keys = before
        if chain.is_cross:
            count = call.weights.shape[-1]
            keys = _non_padding_positions(real.get(_TEXT), count, is_whole=True) or [*range(count)]
        is_continuation = not chain.is_cross and len(queries) < len(keys)
        call = _select_positions(call, [place - first for place in queries], keys)
        return UnpaddedCall(
            replace(call, is_continuation=is_continuation),
            len(before),
            stop - len(before),
            0 if chain.is_cross else sum(key < chain.keys[0].first for key in keys),
        )

    def _text_key_of_module(self, module: str) -> str:
        return _DECODER if self._is_pair and is_decoder_part(module) else _TEXT

    def _finish_pass(self) -> None:
        """Join the pass that has just ended to the earlier passes."""
        made, self._pass = self._pass, None
        if made is None or not made.calls:
            return
        numbers = {number for number, _ in number_calls_by_layer(made.calls)}
        self._layers |= numbers
        if self._kept.layers is not None:  # a pass may run only some of the layers
            here = replace(self._kept, layers=self._kept.layers & numbers)
            made.calls = here.select_calls(made.calls)
        chains = dict(_build_chains(made))
        order: Tensor | bool = True
        if self._chains.keys() & chains.keys():
            order = self._match_continued_texts(made, chains)
            if order is False:
                is_kept = made.is_encoded and self._attends_to_same_encoding(chains)
                others = self._chains if is_kept else {}
                self._chains = {at: one for at, one in others.items() if at not in chains}
                is_marked = bool(others) and _TEXT in self._real
                self._real = {_TEXT: self._real[_TEXT]} if is_marked else {}
        for place, chain in chains.items():
            if place in self._chains:
                before = self._chains[place]
                before.extend(chain, None if isinstance(order, bool) else order)
            else:
                self._chains[place] = chain
        self._update_padding(chains.values(), made, None if isinstance(order, bool) else order)

    def _attends_to_same_encoding(self, chains: Mapping[ModuleCallIndex, _CallChain]) -> bool:
        """Return whether a decoder attends to the same encoded text as before."""
        across = [
            (self._chains[place].keys[-1].keys, chain.keys[-1].keys)
            for place, chain in chains.items()
            if chain.is_cross and place in self._chains
        ]
        return all(
            before is not None and now is not None and torch.equal(before, now)
            for before, now in across
        )

    def _match_continued_texts(
        self, made: _ForwardPass, chains: Mapping[ModuleCallIndex, _CallChain]
    ) -> Tensor | bool:
        """Return whether a pass continues earlier passes, and for which texts of the batch."""
        if not made.past or not chains.keys() <= self._chains.keys():
            return False
        found: Tensor | bool = False
        for place, chain in chains.items():
            if not chain.is_cross:
                found = self._chains[place].match_continuation(chain)
                if found is False:
                    return False
        return found

    def _update_padding(
        self, chains: Iterable[_CallChain], made: _ForwardPass, order: Tensor | None
    ) -> None:
        """Update the padding positions; the mask of a pass may omit cached positions."""
        own = [each for each in chains if not each.is_cross]
        for side, chain in {
            self._text_key_of_module(each.rows[0].call.module): each for each in own
        }.items():
            first, stop, batch = chain.rows[0].first, chain.stop, len(chain.rows[0].call.weights)
            known, before = made.real.get(side), self._real.get(side)
            if known is None and before is None and made.is_ended is None:
                continue
            if before is not None and order is not None:
                before = before[order.cpu()]
            is_whole = known is not None and known.shape[-1] >= stop
            now = _non_padding_before(stop if is_whole else stop - first, known, batch)
            cached = _non_padding_before(first, before, batch)
            self._real[side] = torch.cat([cached, now[:, -(stop - first) :]], -1)
            if is_whole:
                self._real[side] &= now
            if made.is_ended is not None and made.is_ended.shape == (batch, stop - first):
                self._real[side][:, first:] &= ~made.is_ended.cpu()
        self._real = made.real | self._real


def _build_chains(made: _ForwardPass) -> Iterator[tuple[ModuleCallIndex, _CallChain]]:
    """Yield a chain for each call of a pass."""
    counts: Counter[str] = Counter()
    for call in made.calls:
        queries, keys = call.weights.shape[-2:]
        stop = made.past + queries
        is_unequal = keys != queries and not made.past
        is_room = made.has_cache and keys > queries  # a cache of fixed size has room for more
        is_cross = is_cross_attention_path(call.module) or (is_unequal and not is_room)
        if not is_cross and keys > stop:
            call = _select_positions(call, range(queries), range(stop))
            keys = stop
        elif made.is_overwritten and call.keys is not None and call.values is not None:
            call = replace(call, keys=call.keys.clone(), values=call.values.clone())
        first_key = 0 if is_cross else stop - keys
        rows = _CallRows(replace(call, keys=None, values=None), made.past, first_key)
        block = _KeyValueBlock(first_key, call.keys, call.values)
        yield (call.module, counts[call.module]), _CallChain(rows, block, is_cross=is_cross)
        counts[call.module] += 1


def _cached_positions(cache: Any) -> int:
    """Return the number of positions that a key/value cache has processed."""
    if cache is None:
        return 0
    if hasattr(cache, "get_seq_length"):
        return int(cache.get_seq_length())
    try:
        return int(cache[0][0].shape[-2])
    except (TypeError, IndexError, KeyError, AttributeError):
        return 0


def _non_padding_mask(mask: Any, *, is_model: bool) -> Tensor | None:
    """Return a mask of the positions that are not padding, [batch, position]; None if unknown.

    A mask with four axes that is passed to a whole model was chosen by its caller and does not
    indicate padding. If it is passed to a submodule, it was derived from the padding mask.
    """
    if not isinstance(mask, torch.Tensor) or (mask.ndim != 2 and (mask.ndim != 4 or is_model)):
        return None
    if mask.ndim == 2:
        real: Tensor = mask.ne(0)
        return real
    is_open: Tensor = mask if mask.dtype is torch.bool else mask > torch.finfo(mask.dtype).min / 2
    return is_open.flatten(1, 2).any(1)


def _non_padding_before(stop: int, known: Tensor | None, batch: int) -> Tensor:
    """Return a mask of the positions before ``stop`` that are not padding or are unknown."""
    if known is None:
        return torch.ones(batch, stop, dtype=torch.bool)
    known = known[:, :stop].cpu()
    return torch.cat([torch.ones(batch, stop - known.shape[-1], dtype=torch.bool), known], -1)


def _non_padding_positions(
    real: tuple[bool, ...] | None, stop: int, *, is_whole: bool = False
) -> list[int]:
    """Return the positions before ``stop`` that are not padding.

    If the text ends at ``stop`` (``is_whole``), a longer mask belongs to another text.
    """
    if real is None or len(real) < stop or (is_whole and len(real) > stop):
        return [*range(stop)]
    return [place for place in range(stop) if real[place]]


def _select_positions(
    call: AttentionCall, queries: Iterable[int], keys: Iterable[int]
) -> AttentionCall:
    """Return a call restricted to some of its queries and keys."""
    rows, columns = list(queries), list(keys)
    sides = call.weights.shape[-2:]
    if (rows, columns) == tuple(list(range(side)) for side in sides):
        return call
    rows_at, columns_at = (
        torch.tensor(places, dtype=torch.long, device=call.weights.device)
        for places in (rows, columns)
    )

    def cells(whole: Tensor | None) -> Tensor | None:
        if whole is None:
            return None
        if whole.shape[-2] != 1 or sides[0] == 1:
            whole = whole.index_select(-2, rows_at.to(whole.device))
        if whole.shape[-1] != 1 or sides[1] == 1:
            whole = whole.index_select(-1, columns_at.to(whole.device))
        return whole

    def tokens(whole: Tensor | None, places: Tensor, axis: int) -> Tensor | None:
        return None if whole is None else whole.index_select(axis, places.to(whole.device))

    arguments = dict(call.arguments)
    if arguments.get("position_bias") is not None:
        arguments["position_bias"] = cells(arguments["position_bias"])
    weights = cells(call.weights)
    assert weights is not None
    return replace(
        call,
        weights=weights,
        mask=cells(call.mask),
        queries=tokens(call.queries, rows_at, -2),
        keys=tokens(call.keys, columns_at, -2),
        values=tokens(call.values, columns_at, -2),
        context=tokens(call.context, rows_at, 1),
        arguments=arguments,
    )


def _reorder_batch(part: Tensor | None, order: Tensor) -> Tensor | None:
    return part if part is None or len(part) == 1 else part[order.to(part.device)]


def _concatenate_after_zeros(parts: list[Tensor | None], count: int) -> Tensor | None:
    """Concatenate keys or values, after ``count`` positions of zeros."""
    whole = _concatenate(parts, -2)
    if whole is None or not count:
        return whole
    return torch.cat([whole.new_zeros((*whole.shape[:-2], count, whole.shape[-1])), whole], -2)


def _concatenate(parts: list[Tensor | None], axis: int) -> Tensor | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return known[0] if len(known) == 1 else torch.cat(known, axis)


def _place_blocks(
    parts: list[Tensor | None],
    starts: list[tuple[int, int]],
    size: tuple[int, int],
    fill: float = 0.0,
) -> Tensor:
    """Place each block at its first row and column, and fill the cells between the blocks."""
    known = [part for part in parts if part is not None]
    batch, heads = (max(part.shape[axis] for part in known) for axis in (0, 1))
    whole = known[0].new_full((batch, heads, *size), fill)
    for part, (row, column) in zip(parts, starts, strict=True):
        if part is not None:
            rows, columns = part.shape[-2:]
            whole[..., row : row + rows, column : column + columns] = part
    return whole


def _assemble_masks(
    calls: list[AttentionCall], starts: list[tuple[int, int]], size: tuple[int, int]
) -> Tensor:
    """Assemble the masks of calls; the keys that a call did not have are masked."""
    lowest = torch.finfo(torch.float32).min
    parts: list[Tensor | None] = []
    for call in calls:
        sides = call.weights.shape[-2:]
        mask = call.weights.new_zeros(1, 1, *sides) if call.mask is None else call.mask
        if mask.dtype is torch.bool:
            mask = torch.zeros_like(mask, dtype=torch.float32).masked_fill_(~mask, lowest)
        is_closed = mask <= torch.finfo(mask.dtype).min / 2
        wide = mask.to(torch.promote_types(mask.dtype, torch.float32))
        parts.append(wide.masked_fill(is_closed, lowest).expand(-1, -1, *sides))
    return _place_blocks(parts, starts, size, lowest)


Tokens = tuple[str, ...]
BATCH_NOTICE = "This is text {number:,} of {count:,} in a batch. “texts” contains all texts."
PADDING_NOTICE = "Padding is omitted ({padding:,} of {count:,} positions)."
MISSING_ROWS_NOTICE = (
    "Only {recorded:,} of {count:,} rows were recorded, because the earlier positions were already "
    "in the cache. To record all rows, run the model on the whole text during the recording."
)
MISSING_KEYS_NOTICE = (
    "The keys and values of the first {count:,} positions are shown as 0 because the cache no "
    "longer contains them."
)


def create_text_runs(
    text: RecordedText, name: str, words: Tokens | None
) -> tuple[LayerGroupRun, ...]:
    """Build the runs of the layers of a recorded text.

    Parameters
    ----------
    name : str
        Name of the model.
    words : tuple of str, optional
        The tokens of the whole text, with or without padding. In an encoder-decoder model, the
        tokens of the other text are numbered.

    Raises
    ------
    InputError
        With field ``model`` if no attention was recorded; with field ``tokens`` if the number of
        tokens does not match.
    """
    by_call = {id(each.call): each for each in text.calls}
    groups = group_calls([each.call for each in text.calls])
    if not groups:
        sentence = (
            "No attention was recorded: the model was not run, or its attention is unsupported."
        )
        raise InputError("model", sentence)
    each_first = [by_call[id(group.calls[0])] for group in groups]
    lengths = {one.length for one in each_first}
    named = {} if words is None else _tokens_by_length(words, text)
    if words is not None and not lengths & named.keys():
        sentence = (
            f"There are {len(words):,} token labels, but the text has {max(lengths):,} tokens."
        )
        raise InputError("tokens", sentence)
    return tuple(
        _build_run(group, first, name, named)
        for group, first in zip(groups, each_first, strict=True)
    )


def _tokens_by_length(words: Tokens, text: RecordedText) -> dict[int, Tokens]:
    """Return the tokens without padding, keyed by the length of their text."""
    found = {len(words): words}
    for real in text.real.values():
        if len(real) == len(words) and not all(real):
            own = tuple(word for word, is_real in zip(words, real, strict=True) if is_real)
            found = {len(own): own}
    return found


def _build_run(
    group: LayerGroup, first: UnpaddedCall, name: str, named: dict[int, Tokens]
) -> LayerGroupRun:
    words = named.get(first.length) or numbered_labels(first.length)
    queries, keys = first.call.weights.shape[-2:]
    if group.is_cross:  # one list of tokens cannot label two texts
        return create_layer_run(group, name, numbered_labels(queries), numbered_labels(keys))
    run = create_layer_run(group, name, *(((), words) if first.call.is_continuation else (words,)))
    if queries < first.length:
        run = run.with_notice(MISSING_ROWS_NOTICE.format(recorded=queries, count=first.length))
    if first.absent_keys:
        run = run.with_notice(MISSING_KEYS_NOTICE.format(count=first.absent_keys))
    if first.padding:
        notice = PADDING_NOTICE.format(padding=first.padding, count=first.padding + first.length)
        run = run.with_notice(notice)
    return run


class RecordedBatch:
    """The texts of a recorded batch; their runs are built on first access.

    Parameters
    ----------
    name : str
        Name of the model.
    words : tuple of tuple of str
        The tokens of the texts, in order; the tokens of further texts are numbered.
    """

    def __init__(self, recorded: TextRecorder, name: str, words: tuple[Tokens, ...]) -> None:
        self._recorded, self._name, self._words = recorded, name, words
        self._made: dict[int, tuple[LayerGroupRun, ...]] = {}

    def __len__(self) -> int:
        return self._recorded.text_count

    def runs_of_text(self, at: int) -> tuple[LayerGroupRun, ...]:
        """Return the runs of one of the texts; errors are those of `create_text_runs`."""
        if at not in self._made:
            words = self._words[at] if at < len(self._words) else None
            found = create_text_runs(self._recorded.recorded_text(at), self._name, words)
            if len(self) > 1:
                notice = BATCH_NOTICE.format(number=at + 1, count=len(self))
                found = tuple(each.with_notice(notice) for each in found)
            self._made[at] = found
        return self._made[at]
