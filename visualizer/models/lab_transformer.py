"""The language lab's transformer as a transformers model, with its tokenizer.

It computes the same values as `visualizer.language.language_models.LanguageModel`, and supports the
recording of attention and generation with a cache. Importing this module imports transformers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import (
    AttentionInterface,
    DynamicCache,
    GenerationMixin,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from visualizer.errors import InputError
from visualizer.language.checkpoints import read_checkpoint_weights, read_weights
from visualizer.language.language_models import FEED_FORWARD_FACTOR, build_model
from visualizer.language.memory_estimate import CHECKPOINT_COPIES, check_model_memory
from visualizer.language.run_folder import metadata_to_json
from visualizer.language.training_settings import FEED_FORWARD_MODELS, ModelKind
from visualizer.models.lab_model_files import find_lab_model
from visualizer.models.model_folder import ModelFolder, compute_fingerprint
from visualizer.models.model_tokenizer import EncodedText, missing_chat_template_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from visualizer.language.language_models import LanguageModel
    from visualizer.language.tokenizers import Vocabulary

MODEL_TYPE = "attention_visualizer_lab"


class LabConfig(PretrainedConfig):  # type: ignore[misc]
    """Config of a lab model; its sizes have the names that are usual in transformers configs."""

    model_type = MODEL_TYPE
    has_output_projection = True
    has_final_norm = True


def create_lab_config(model: LanguageModel) -> LabConfig:
    """Return the config of a model with heads."""
    settings = model.settings
    feeds = settings.model in FEED_FORWARD_MODELS
    is_of_notes = settings.model is ModelKind.NOTES
    return LabConfig(
        vocab_size=model.projection.out_features,
        hidden_size=settings.width,
        intermediate_size=FEED_FORWARD_FACTOR * settings.width if feeds else 0,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        max_position_embeddings=settings.block,
        tie_word_embeddings=False,
        has_output_projection=not is_of_notes,
        has_final_norm=not is_of_notes,
        attn_implementation="eager",
    )


class LabAttention(nn.Module):
    """Multi-head causal attention; the projections of queries, keys and values have no biases."""

    def __init__(self, config: LabConfig, number: int) -> None:
        super().__init__()
        self.config, self.number = config, number
        width = config.hidden_size
        for name in ("W_query", "W_key", "W_value"):
            self.add_module(name, nn.Linear(width, width, bias=False))
        self.out_proj = nn.Linear(width, width) if config.has_output_projection else nn.Identity()

    def forward(self, stream: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Map vectors [batch, query, width] to the attention output."""
        heads = self.config.num_attention_heads
        queries, keys, values = (
            self.get_submodule(name)(stream).unflatten(-1, (heads, -1)).transpose(1, 2)
            for name in ("W_query", "W_key", "W_value")
        )  # batch head token d_head
        if cache is not None:
            keys, values = cache.update(keys, values, self.number)
        attend = AttentionInterface().get_interface(
            self.config._attn_implementation, _eager_attention
        )
        scaling = queries.shape[-1] ** -0.5
        context, _ = attend(self, queries, keys, values, mask, scaling=scaling)
        written: Tensor = self.out_proj(context.flatten(2))
        return written


def _eager_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    **arguments: Any,
) -> tuple[Tensor, Tensor]:
    """Compute context [batch, query, head, d_head] and weights [batch, head, query, key]."""
    scores = query @ key.transpose(-1, -2) * scaling
    masked = scores if attention_mask is None else scores + attention_mask
    weights = masked.softmax(-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


class LabLayer(nn.Module):
    """Pre-norm attention and, in a transformer, a feed-forward block, with residual connections."""

    def __init__(self, config: LabConfig, number: int) -> None:
        super().__init__()
        width, wide = config.hidden_size, config.intermediate_size
        self.attention = LabAttention(config, number)
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward = (
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, wide), nn.ReLU(), nn.Linear(wide, width)
            )
            if wide
            else None
        )

    def forward(self, stream: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Map vectors [batch, token, width] to the output of the layer."""
        stream = stream + self.attention(self.attention_norm(stream), mask, cache)
        return stream if self.feed_forward is None else stream + self.feed_forward(stream)


class LabForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A lab model with heads and the parameter names of `LanguageModel`."""

    config_class = LabConfig

    def __init__(self, config: LabConfig) -> None:
        super().__init__(config)
        width = config.hidden_size
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.position = nn.Embedding(config.max_position_embeddings, width)
        self.layers = nn.ModuleList(
            LabLayer(config, number) for number in range(config.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(width) if config.has_final_norm else nn.Identity()
        self.projection = nn.Linear(width, config.vocab_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """Return the token embedding."""
        return self.embedding

    def get_output_embeddings(self) -> nn.Linear:
        """Return the unembedding."""
        return self.projection

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **others: Any,
    ) -> Any:
        """Compute logits [batch, token, vocabulary].

        Parameters
        ----------
        attention_mask : Tensor, optional
            Mask that is 0 for padding tokens, [batch, token].
        logits_to_keep : int
            Number of tokens at the end for which logits are computed; 0 for all tokens.
        """
        if use_cache and past_key_values is None:
            past_key_values = DynamicCache()
        before = 0 if past_key_values is None else past_key_values.get_seq_length()
        places = torch.arange(before, before + input_ids.shape[-1], device=input_ids.device)
        stream = self.embedding(input_ids) + self.position(places[None])
        mask = _create_attention_mask(places, attention_mask, stream.dtype)
        for layer in self.layers:
            stream = layer(stream, mask, past_key_values if use_cache else None)
        stream = self.norm(stream[:, -logits_to_keep:])
        cache = past_key_values if use_cache else None
        return CausalLMOutputWithPast(logits=self.projection(stream), past_key_values=cache)


def _create_attention_mask(
    places: Tensor, attention_mask: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Return the mask that is added to scores, [batch or 1, 1, query, key]."""
    keys = torch.arange(int(places[-1]) + 1, device=places.device)
    allowed = (keys <= places[:, None])[None, None]  # 1 1 query key
    if attention_mask is not None:
        allowed = allowed & (attention_mask[:, None, None, : len(keys)] != 0)
    lowest = torch.finfo(dtype).min
    return torch.zeros(allowed.shape, dtype=dtype, device=places.device).masked_fill(
        ~allowed, lowest
    )


def create_lab_transformer(model: LanguageModel) -> LabForCausalLM:
    """Return a transformers model equal to a lab model with heads."""
    transformer = LabForCausalLM(create_lab_config(model))
    # The lab's modules have a mask buffer in addition to their parameters.
    transformer.load_state_dict({name: each.detach() for name, each in model.named_parameters()})
    return transformer


class LabTokenizer:
    """Tokenizer that splits texts as the lab does, with the vocabulary of a training run."""

    has_chat_template = False
    bos_token = ""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.special_names: Mapping[int, str] = {}

    def encode(
        self, text: str, second: str | None = None, *, has_special: bool = True
    ) -> EncodedText:
        """Tokenize a text; unknown tokens raise an `InputError` with field ``text``."""
        words, numbers = self.vocabulary.tokenize_and_encode(text)
        if second is not None:
            more, others = self.vocabulary.tokenize_and_encode(second)
            words, numbers = (*words, *more), np.concatenate([numbers, others])
        count = len(words)
        given = {"input_ids": numbers.tolist(), "attention_mask": [1] * count}
        return EncodedText(count, given, words)

    def decode(self, ids: Sequence[int]) -> str:
        """Join tokens into a text: words with spaces between them, characters without spaces."""
        return self.vocabulary.join_tokens(self.token_texts(ids))

    def token_texts(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the tokens with these ids."""
        return self.vocabulary.ids_to_tokens(ids)

    def format_user_message(self, text: str, name: str) -> str:
        """Reject the text: lab models have no chat template."""
        raise missing_chat_template_error(name)


def read_lab_model(path: Path) -> tuple[ModelFolder, Any, Any]:
    """Load a run folder or weights file of the lab; return its description, model and tokenizer.

    The model is a transformers model in float32 on the CPU. transformers must be installed.

    Raises
    ------
    InputError
        With field ``model`` if the model cannot be opened.
    """
    found = find_lab_model(path)
    metadata, file, step = found.metadata, found.weights, found.snapshot_step
    try:
        check_model_memory(metadata.settings, len(metadata.tokens), CHECKPOINT_COPIES, file)
        trained = build_model(metadata.settings, len(metadata.tokens)).eval()
        if found.is_checkpoint:
            step, _ = read_checkpoint_weights(file, trained)
        else:
            read_weights(file, trained)
    except InputError as refused:
        raise InputError("model", refused.sentence) from refused
    model = create_lab_transformer(trained)
    folder = ModelFolder(
        path,
        found.name,
        kind=metadata.settings.model.value,
        architectures=(type(model).__name__,),
        layers=metadata.settings.layers,
        heads=metadata.settings.heads,
        parameters=sum(each.numel() for each in model.parameters()),
        bytes=file.path.stat().st_size,
        has_tokenizer=True,
        fingerprint=compute_fingerprint(
            json.loads(json.dumps(metadata_to_json(metadata))), [file.path]
        ),
        lab_run=metadata,
        training_step=step,
    )
    return folder, model, LabTokenizer(metadata.vocabulary)
