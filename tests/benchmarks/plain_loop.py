"""A plain PyTorch loop that trains the lab's models with ``scaled_dot_product_attention``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from visualizer.language.training_settings import ModelKind

if TYPE_CHECKING:
    import numpy as np

    from visualizer.language.training_settings import TrainingSettings


class _Heads(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        split = self.queries_keys_values(x).view(rows, tokens, 3, self.heads, -1)
        queries, keys, values = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        joined: Tensor = self.out(mixed.transpose(1, 2).reshape(rows, tokens, width))
        return joined


class _Block(nn.Module):
    def __init__(self, settings: TrainingSettings) -> None:
        super().__init__()
        width = settings.width
        self.norm, self.attention = nn.LayerNorm(width), _Heads(width, settings.heads)
        self.feed = (
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 4 * width),
                nn.ReLU(),
                nn.Linear(4 * width, width),
            )
            if settings.model is ModelKind.TRANSFORMER
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x if self.feed is None else x + self.feed(x)


class _Network(nn.Module):
    def __init__(self, settings: TrainingSettings, tokens: int) -> None:
        super().__init__()
        width = settings.width
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Embedding(settings.block, width)
        self.blocks = nn.Sequential(*(_Block(settings) for _ in range(settings.layers)))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, tokens)

    def forward(self, ids: Tensor) -> Tensor:
        stream = self.embedding(ids) + self.position.weight
        logits: Tensor = self.out(self.norm(self.blocks(stream)))
        return logits


class PlainLoop:
    """Trains on batches of random windows of a text."""

    def __init__(self, settings: TrainingSettings, text: np.ndarray, tokens: int) -> None:
        torch.manual_seed(settings.seed)
        self._settings = settings
        self._text = torch.from_numpy(text.reshape(-1).copy())
        self._network = _Network(settings, tokens)
        self._optimiser = torch.optim.AdamW(self._network.parameters(), lr=settings.rate)

    @property
    def parameters(self) -> int:
        """The number of trainable parameters."""
        return sum(one.numel() for one in self._network.parameters())

    def advance(self) -> float:
        """Run one training step and return its loss."""
        block, batch = self._settings.block, self._settings.batch
        starts = torch.randint(len(self._text) - block, (batch, 1))
        rows = self._text[starts + torch.arange(block + 1)]
        logits = self._network(rows[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        self._optimiser.step()
        return loss.item()
