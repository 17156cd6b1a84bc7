"""The attention classes of the book's chapter, in plain torch without the program.

The classes follow Raschka 2024, "Build a Large Language Model (From Scratch)", §3.4 to §3.6. The
names of classes, arguments, parameters and buffers are the same, so that a ``state_dict`` fits
exactly.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention_v1(nn.Module):  # noqa: N801 (the book's name)
    """§3.4.1: the weights are plain parameters."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.W_query = nn.Parameter(torch.rand(d_in, d_out))
        self.W_key = nn.Parameter(torch.rand(d_in, d_out))
        self.W_value = nn.Parameter(torch.rand(d_in, d_out))

    def forward(self, x: Tensor) -> Tensor:
        keys, queries, values = x @ self.W_key, x @ self.W_query, x @ self.W_value
        scores = queries @ keys.mT
        return torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1) @ values


class SelfAttention_v2(nn.Module):  # noqa: N801 (the book's name)
    """§3.4.2: the weights are linear layers."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)

    def forward(self, x: Tensor) -> Tensor:
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        scores = queries @ keys.mT
        context: Tensor = torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1) @ values
        return context


class CausalAttention(nn.Module):
    """§3.5.3: the mask is a buffer with the context length."""

    mask: Tensor

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout = nn.Dropout(dropout)
        above = torch.triu(torch.ones(context_length, context_length), diagonal=1)
        self.register_buffer("mask", above)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[-2]
        keys, queries, values = self.W_key(x), self.W_query(x), self.W_value(x)
        scores = queries @ keys.mT
        scores.masked_fill_(self.mask.bool()[:tokens, :tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        context: Tensor = weights @ values
        return context


class MultiHeadAttentionWrapper(nn.Module):
    """§3.6.1: causal heads, one after another."""

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            CausalAttention(d_in, d_out, context_length, dropout, qkv_bias)
            for _ in range(num_heads)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([head(x) for head in self.heads], dim=-1)


class MultiHeadAttention(nn.Module):
    """§3.6.2: heads that are split from shared layers, and an output projection."""

    mask: Tensor

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        above = torch.triu(torch.ones(context_length, context_length), diagonal=1)
        self.register_buffer("mask", above)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.shape[-2]
        parts = (self.W_query(x), self.W_key(x), self.W_value(x))
        queries, keys, values = (
            part.unflatten(-1, (self.num_heads, self.head_dim)).transpose(-3, -2) for part in parts
        )
        scores = queries @ keys.mT
        scores.masked_fill_(self.mask.bool()[:tokens, :tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / self.head_dim**0.5, dim=-1))
        joined = (weights @ values).transpose(-3, -2).flatten(-2)
        mixed: Tensor = self.out_proj(joined)
        return mixed
