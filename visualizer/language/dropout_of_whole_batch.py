"""Dropout for some rows of a batch, with the masks that the whole batch would have.

Masks are drawn for the whole batch by torch's own dropout, so they and the states of the random
generators equal those of a process that has all rows. Only torch's fused attention on GPUs draws
its masks in another way: there, the masks differ, with the same rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor


class DropoutOfWholeBatch(TorchFunctionMode):
    """While active, applies dropout to these rows as in the whole batch.

    Parameters
    ----------
    rows : slice
        The rows of the batch that are computed.
    batch : int
        Number of rows of the whole batch.
    """

    def __init__(self, rows: slice, batch: int) -> None:
        super().__init__()
        self._rows, self._batch = rows, batch

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace the two functions that apply dropout."""
        given = dict(kwargs or {})
        if function is functional.dropout:
            return self._apply_dropout(*args, **given)
        if function is functional.scaled_dot_product_attention and given.get("dropout_p"):
            return self._attend_with_dropout(*args, **given)
        return function(*args, **given)

    def _apply_dropout(
        self, values: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not (training and p):
            return values
        ones = values.new_ones(self._batch, *values.shape[1:])
        # The copy does not keep the other rows in memory.
        mask = functional.dropout(ones, p)[self._rows].clone()
        return values * mask

    def _attend_with_dropout(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        dropout_p: float,
        is_causal: bool,
        scale: float,
    ) -> Tensor:
        scores = queries @ keys.mT * scale  # row head query key
        if is_causal:
            later = torch.ones_like(scores[0, 0], dtype=torch.bool).triu(1)  # query key
            scores = scores.masked_fill(later, -torch.inf)
        return self._apply_dropout(functional.softmax(scores, dim=-1), dropout_p) @ values
