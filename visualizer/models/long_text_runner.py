"""Runs a model on a long text without query-key matrices, in chunks if possible."""

from __future__ import annotations

from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

import torch

from visualizer.attention import device as attention_device
from visualizer.attention.run import MAX_FULL_MATRIX_BYTES
from visualizer.errors import InputError
from visualizer.models.chunked_prefill import (
    TOKENS_PER_CHUNK,
    prefill_in_chunks,
    supports_chunked_prefill,
)
from visualizer.models.editable_heads import PROBE_TOKENS
from visualizer.models.long_text_recorder import create_long_text_runs, record_long_text
from visualizer.models.long_text_vectors import reserve_vector_file, store_vectors_in
from visualizer.models.model_tokenizer import MAX_MODEL_TOKENS
from visualizer.models.recognition_errors import UnsupportedAttentionError
from visualizer.models.recorded_runs import LayerGroupRun
from visualizer.models.text_model import IDS_ARGUMENT, check_free_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from visualizer.models.editable_heads import EditableHeads, Edits
    from visualizer.models.forward_runner import ForwardRunner
    from visualizer.models.long_text_recorder import LongTextCall
    from visualizer.models.recorded_runs import KeptLayersAndStages
    from visualizer.models.text_model import Inputs, TextModel

ATTENTION_ONLY_NOTICE = (
    "Only attention is shown. The other stages are not available for a text of this length."
)
HALF_TILES_NOTICE = (
    "The model computes in {dtype}, but its attention weights are computed in float32 from queries "
    "and keys in this type."
)
OWN_ATTENTION_ERROR = (
    "This model uses its own attention implementation, so its attention weights cannot be computed "
    "in tiles."
)
MASK_INSPECTION_ERROR = (
    "This model inspects its attention mask, so its attention weights cannot be computed in tiles."
)


class LongTextRunner:
    """Reader that runs a model on texts whose attention weights do not fit in memory.

    Weights are computed in tiles on access, from the stored queries and keys.
    """

    def __init__(self, model: TextModel, forward: ForwardRunner, heads: EditableHeads) -> None:
        self._model, self._forward, self._heads = model, forward, heads
        self.max_weight_bytes: int | None = None
        """Maximum size, in bytes, of the attention weights of all layers that are kept in memory;
        None for `MAX_FULL_MATRIX_BYTES`."""
        self.reads_in_chunks: bool | None = None if forward.can_chunk else False
        """Whether texts can be processed in chunks; None until the first long text."""
        self._vector_bytes: int | None = None
        """Size, in bytes, of one token's vectors in all local layers; None until measured."""

    def is_long(self, given: Mapping[str, Any]) -> bool:
        """Return whether the weights of all layers exceed the limit for keeping them in memory."""
        names = ("num_hidden_layers", "num_attention_heads")
        layers, heads = (self._model.config_size(name) or 1 for name in names)
        count = self._model.count_tokens(given)
        needed = self._model.model.dtype.itemsize * layers * heads * count**2
        return not self._model.is_encoder_decoder and needed > (
            MAX_FULL_MATRIX_BYTES if self.max_weight_bytes is None else self.max_weight_bytes
        )

    def can_keep_weights(self, given: Mapping[str, Any]) -> bool:
        """Return whether the weights of a text are below the limit, or fit in the free memory."""
        if not self.is_long(given):
            return True
        try:
            self._model.check_memory(self._model.count_tokens(given))
        except InputError:
            return False
        return True

    def run_and_record(
        self, given: Mapping[str, Any], edits: Edits, *, keeps: bool = True
    ) -> tuple[list[LongTextCall], Any]:
        """Run the model on a long text; return its attention calls and its result.

        Raises
        ------
        UnsupportedAttentionError
            If the attention cannot be recomputed from its inputs.
        """
        whole = {**given, **self._model.last_logits_arguments}
        with torch.inference_mode(), self._forward.lock:
            layers = len(self._heads.find_heads(given))
            by_module = self._heads.edits_by_module(given, edits)
            model, run, ranks = self._model.model, self._run_with_mask_rules, self._model.ranks
            has_ids = IDS_ARGUMENT in given  # vectors cannot be sliced into chunks
            if has_ids and self.reads_in_chunks is None:
                self.reads_in_chunks = supports_chunked_prefill(model, run, whole, ranks)
            if has_ids and self.reads_in_chunks:
                # The cache holds keys and values during the run, even if nothing is kept.
                room = self._reserve_vector_storage(given, keeps=True, at_once=TOKENS_PER_CHUNK)
                try:
                    with room:
                        return prefill_in_chunks(
                            model, run, whole, by_module, layers=layers, keeps=keeps, ranks=ranks
                        )
                except UnsupportedAttentionError:  # one pass may still work
                    self.reads_in_chunks = False
            recording = record_long_text(model, by_module, layers=layers, keeps=keeps, ranks=ranks)
            with self._reserve_vector_storage(given, keeps=keeps), recording as calls:
                return calls, run({**whole, **self._model.cache_disabling_arguments})

    def attend(
        self, inputs: Inputs, edits: Edits, kept: KeptLayersAndStages
    ) -> tuple[tuple[LayerGroupRun, ...], Any]:
        """Run the model on a text, as in `read`; return its attention runs and its result."""
        given, tokens, _ = inputs
        calls, result = self.run_and_record(given, edits)
        if not calls:
            raise UnsupportedAttentionError(OWN_ATTENTION_ERROR)
        where = attention_device.describe_device(self._model.device)
        runs = create_long_text_runs(
            kept.select_calls(calls), self._model.folder.name, tokens, where
        )
        is_one_pass = not (self.reads_in_chunks or self._model.no_next_token_reason)
        dtype = self._model.dtype
        notices_of_text = (
            self._model.double_bos_notice(given),
            HALF_TILES_NOTICE.format(dtype=dtype) if dtype.is_half else "",
            ATTENTION_ONLY_NOTICE,
            self._forward.one_pass_notice if is_one_pass else "",
        )
        notices = (" ".join(filter(None, notices_of_text)), *self._model.folder.notices)
        return tuple(reduce(LayerGroupRun.with_notice, notices, each) for each in runs), result

    def _run_with_mask_rules(self, given: Mapping[str, Any]) -> Any:
        """Run the model with mask rules in place of mask tensors."""
        try:
            return self._forward.run(given)
        except InputError as error:
            if isinstance(error.__cause__, TypeError | AttributeError):
                raise UnsupportedAttentionError(MASK_INSPECTION_ERROR) from error
            raise

    @contextmanager
    def _reserve_vector_storage(
        self, given: Mapping[str, Any], *, keeps: bool, at_once: int = MAX_MODEL_TOKENS
    ) -> Iterator[None]:
        """Reserve memory or a file for the vectors of a text; reject a text that does not fit.

        At most ``at_once`` tokens are processed at once.
        """
        tokens = self._model.count_tokens(given)
        of_token = self._vector_bytes_of_token(given) if keeps else 0
        with self._model.ranks.propagate_errors():
            file = reserve_vector_file(of_token, tokens)
            self._check_vector_memory(tokens, 0 if file else of_token * tokens, at_once)
        with store_vectors_in(file):
            yield

    def _check_vector_memory(self, tokens: int, in_memory: int, at_once: int) -> None:
        """Reject a text if its vectors and intermediate values would not fit in the free memory."""
        width = self._model.config_size("hidden_size") or 1
        wide = self._model.config_size("intermediate_size") or 4 * width
        needed = in_memory + 4 * min(tokens, at_once) * (8 * width + 3 * wide)
        check_free_memory(needed, f"{tokens:,} tokens", "text", "Use a shorter text.")

    def _vector_bytes_of_token(self, given: Mapping[str, Any]) -> int:
        """Return the size, in bytes, of one token's vectors in all layers; measured once."""
        if self._vector_bytes is None:
            few = {name: tensor[:, :PROBE_TOKENS] for name, tensor in given.items()}
            with record_long_text(self._model.model, ranks=self._model.ranks) as calls:
                self._run_with_mask_rules({**few, **self._model.cache_disabling_arguments})
            found = sum(call.vectors.bytes for call in calls)
            self._vector_bytes = found // self._model.count_tokens(few)
        return self._vector_bytes
