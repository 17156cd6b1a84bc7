"""A key/value cache preallocated for a whole text. Importing this module imports transformers.

The recorded keys and values share memory with the cache, so they are stored only once. Layers with
a sliding window also keep all keys and values.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from visualizer.models.long_text_vectors import allocate_vectors

if TYPE_CHECKING:
    from torch import Tensor

_ATTENTION_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)


class PreallocatedCacheLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """Keys and values of one layer, in preallocated tensors."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self._tokens = tokens
        self._whole: tuple[Tensor, ...] = ()

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.dtype, self.device = key_states.dtype, key_states.device
        self._whole = tuple(self._allocate(states) for states in (key_states, value_states))
        self.keys, self.values = (whole[:, :, :0] for whole in self._whole)
        self.is_initialized = True

    def _allocate(self, states: Tensor) -> Tensor:
        texts, heads, _, width = states.shape
        shape = (texts, heads, self._tokens, width)
        if states.device.type == "cpu":
            return allocate_vectors(shape, states.dtype)
        return states.new_empty(shape)

    def update(
        self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the keys and values of a chunk, and return all keys and values so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        for whole, states in zip(self._whole, (key_states, value_states), strict=True):
            whole[:, :, start:end] = states
        self.keys, self.values = (whole[:, :, :end] for whole in self._whole)
        return self.keys, self.values


def create_text_cache(config: Any, tokens: int) -> DynamicCache | None:
    """Return an empty cache for a text of ``tokens`` tokens.

    Returns None for a model with layers that cache something other than keys and values.
    """
    usual = DynamicCache(config=config)
    if any(type(layer) not in _ATTENTION_LAYERS for layer in usual.layers):
        return None
    made = DynamicCache()
    made.layer_class_to_replicate = partial(PreallocatedCacheLayer, tokens)
    return made
