"""The language models of the lecture notes, and variants of their transformer.

They use the program's own attention modules, so every stage can be inspected:
`LanguageModel.forward_with_traces` returns one trace per layer with the values that the model
computes.

Sources: lecture notes on self-attention and character models, partly adapted from Karpathy 2023,
"Let's build GPT" (the steps, `ModelKind.NOTES`); Xiong et al. 2020, "On Layer Normalization in the
Transformer Architecture" (pre-norm layers); Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits" (attention-only models); Radford et al. 2019, "Language Models are
Unsupervised Multitask Learners" (standard deviation of the initial weights).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from visualizer.attention.mechanisms import Mechanism, apply_mechanism
from visualizer.attention.modules import AttentionModule, MultiHeadAttention
from visualizer.attention.spec import MaskKind
from visualizer.language.training_settings import (
    FEED_FORWARD_MODELS,
    LAYERED_MODELS,
    POSITIONAL_MODELS,
    ModelKind,
)

if TYPE_CHECKING:
    from visualizer.attention.trace import Trace
    from visualizer.language.training_settings import TrainingSettings

INITIAL_WEIGHT_STD = 0.02
"""Standard deviation of the initial weights of layered models.

The models without layers and the transformer of the lecture notes use PyTorch's default.
"""
FEED_FORWARD_FACTOR = 4
"""Width of the feed-forward block relative to that of the residual stream."""


class LanguageModel(nn.Module):
    """Computes the logits of the next token at every position of a block.

    Parameters
    ----------
    settings : TrainingSettings
        The settings that define the model's architecture; see `ModelKind`.
    tokens : int
        Size of the vocabulary.
    """

    def __init__(self, settings: TrainingSettings, tokens: int) -> None:
        super().__init__()
        self.settings = settings
        width, model = settings.width, settings.model
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Embedding(settings.block, width) if model in POSITIONAL_MODELS else None
        self.layers = nn.ModuleList(_create_layer(settings) for _ in range(count_layers(settings)))
        has_norm = settings.has_configurable_layers and model is not ModelKind.NOTES
        self.norm = nn.LayerNorm(width) if has_norm else nn.Identity()
        self.projection = nn.Linear(width, tokens)

    def forward(self, ids: Tensor, *, fused: bool = False) -> Tensor:
        """Compute logits [..., token, vocabulary] for token ids [..., token].

        Parameters
        ----------
        fused : bool
            Whether to use fused attention, which is faster but has no stages; the results are equal
            up to rounding.
        """
        stream = self._embed(ids)
        for layer in self.layers:
            stream = layer(stream, fused=fused)
        logits: Tensor = self.projection(self.norm(stream))
        return logits

    def forward_with_traces(self, ids: Tensor) -> tuple[Tensor, tuple[Trace, ...]]:
        """Compute the logits as `forward` does, and return each layer's attention trace."""
        stream, traces = self._embed(ids), []
        for layer in self.layers:
            assert isinstance(layer, AttentionLayer)
            trace = layer.trace(stream)
            stream = layer.update_stream(stream, trace.tensor(trace.output_stage_name))
            traces.append(trace)
        return self.projection(self.norm(stream)), tuple(traces)

    def _embed(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.embedding(ids)  # ... token width
        if self.position is None:
            return vectors
        return vectors + self.position.weight[: ids.shape[-1]]


class AttentionLayer(nn.Module):
    """Attention without learned weights; its output replaces the input (no residual connection)."""

    def __init__(self, attention: AttentionModule) -> None:
        super().__init__()
        self.attention = attention

    def attention_input(self, stream: Tensor) -> Tensor:
        """Return the input of attention for vectors [..., token, width]."""
        return stream

    def update_stream(self, stream: Tensor, mixed: Tensor) -> Tensor:
        """Combine the layer's input and attention output into its result [..., token, width]."""
        return mixed

    def trace(self, stream: Tensor) -> Trace:
        """Compute every stage of the attention for vectors [..., token, width]."""
        return self.attention.trace(self.attention_input(stream))

    def forward(self, stream: Tensor, *, fused: bool = False) -> Tensor:
        """Map vectors [..., token, width] to the result of the layer."""
        attention = self.attention.fused if fused else self.attention
        return self.update_stream(stream, attention(self.attention_input(stream)))


class ResidualAttentionLayer(AttentionLayer):
    """Residual layer: pre-norm multi-head causal attention and an optional feed-forward block."""

    def __init__(self, settings: TrainingSettings) -> None:
        width, rate = settings.width, settings.dropout
        super().__init__(
            MultiHeadAttention(
                width,
                width,
                settings.block,
                rate,
                num_heads=settings.heads,
                output_projection=settings.model is not ModelKind.NOTES,
            )
        )
        self.attention_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(rate)
        feeds = settings.model in FEED_FORWARD_MODELS
        self.feed_forward = _create_feed_forward(width, rate) if feeds else None

    def attention_input(self, stream: Tensor) -> Tensor:
        """Return the input of attention: the vectors after layer normalization."""
        normalized: Tensor = self.attention_norm(stream)
        return normalized

    def update_stream(self, stream: Tensor, mixed: Tensor) -> Tensor:
        """Combine the layer's input and attention output into its result [..., token, width]."""
        stream = stream + self.dropout(mixed)
        return stream if self.feed_forward is None else stream + self.feed_forward(stream)


def count_layers(settings: TrainingSettings) -> int:
    """Return the number of attention layers of the model."""
    if settings.model in LAYERED_MODELS:
        return settings.layers
    return 0 if settings.model is ModelKind.BIGRAM else 1


def _create_layer(settings: TrainingSettings) -> AttentionLayer:
    if settings.has_configurable_layers:
        return ResidualAttentionLayer(settings)
    if settings.model is ModelKind.AVERAGE:
        spec = apply_mechanism(Mechanism.AVERAGE)
    else:
        spec = replace(apply_mechanism(Mechanism.SIMPLIFIED), mask=MaskKind.CAUSAL)
    return AttentionLayer(AttentionModule(replace(spec, d_in=settings.width), settings.block))


def _create_feed_forward(width: int, rate: float) -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(width),
        nn.Linear(width, FEED_FORWARD_FACTOR * width),
        nn.ReLU(),
        nn.Linear(FEED_FORWARD_FACTOR * width, width),
        nn.Dropout(rate),
    )


def build_model(settings: TrainingSettings, tokens: int) -> LanguageModel:
    """Build a model on the CPU and initialize its weights from the seed of the settings."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = LanguageModel(settings, tokens)
        if settings.has_configurable_layers and settings.model is not ModelKind.NOTES:
            model.apply(_init_weights)
        return model


def _init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=INITIAL_WEIGHT_STD)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
