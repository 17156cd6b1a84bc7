"""Small transformers models of any architecture, with random weights, created from a config."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import torch

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("the", "cat", "sat", "on", "mat", "dog", "ran", "to", "a", "log", ".", "and")
RARE = {"the": 330, "mat": 201}
"""Words with larger ids than all other words and all positions."""
WORDLESS = 40
"""Id of the only token in the vocabulary that is not a word."""
VOCABULARY, POSITIONS, LATENT = 331, 67, 12
SMALL = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "d_model": 32, "intermediate_size": 52,
    "num_hidden_layers": 2, "num_layers": 2, "num_attention_heads": 4, "num_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": POSITIONS, "encoder_layers": 2,
    "decoder_layers": 2, "num_decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 47, "decoder_ffn_dim": 47, "d_ff": 47,
    "d_kv": 8, "head_dim": 8, "num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 20, "n_routed_experts": 4, "pad_token_id": 0, "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "image_size": 32, "patch_size": 8,
    "q_lora_rank": 28, "kv_lora_rank": LATENT, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
    "v_head_dim": 12, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
    "embedding_size": 23, "word_embed_proj_dim": 32, "ffn_dim": 47, "n_inner": 47,
}  # fmt: skip
"""Sizes by all names that configs use for them; a config ignores the names that it does not use.

As in real models, the vocabulary is larger than the table of positions, and this table is larger
than a vector. No two of these sizes are equal. They are prime numbers, except for sizes that heads
or experts share, which must be multiples of 4.
"""
WINDOW = 4
"""The sliding window of models that have one."""
_LATENT = {"head_dim": None, "num_key_value_heads": 4}
OTHERS: dict[str, dict[str, Any]] = {
    "gemma3n_text": {
        "num_kv_shared_layers": 0,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": 8,
    },
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "deepseek_v32": {**_LATENT, "index_topk": 4, "index_n_heads": 2, "index_head_dim": 8},
    "qwen3_next": {"layer_types": ["linear_attention", "full_attention"]},
    "gptj": {"rotary_dim": 4},
    "codegen": {"rotary_dim": 4},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "falcon": {"head_dim": None},
    "xlnet": {"max_position_embeddings": None, "n_head": 4, "d_head": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
}
"""Additional settings of some architectures; None removes one of the small sizes."""

DECODERS = (
    "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2",
    "gemma3_text", "gemma3n_text", "phi", "phi3", "olmo", "olmo2", "olmo3", "olmoe", "cohere",
    "cohere2", "granite", "granitemoe", "glm", "glm4", "glm4_moe", "gpt_oss", "llama4_text",
    "gpt2", "gpt_neox", "opt", "deepseek_v2", "deepseek_v3", "deepseek_v32", "qwen3_next",
    "nanochat", "starcoder2", "stablelm", "smollm3", "helium", "nemotron", "ernie4_5", "exaone4",
    "hunyuan_v1_dense", "gpt_bigcode", "jamba", "lfm2", "afmoe", "granite_swa",
)  # fmt: skip
ENCODERS = (
    "bert", "roberta", "distilbert", "modernbert", "electra", "albert", "camembert",
    "xlm-roberta", "clip_text_model",
)  # fmt: skip
PAIRS = (
    "t5", "mt5", "umt5", "bart", "marian", "mbart", "plbart", "pegasus", "blenderbot",
    "m2m_100",
)  # fmt: skip
VISION = (
    "vit", "dinov2", "dinov3_vit", "siglip_vision_model", "clip_vision_model", "deit", "beit",
)  # fmt: skip
CAUSAL_HEADS = tuple(
    f"{kind} causal head"
    for kind in (
        "bart", "mbart", "plbart", "marian", "pegasus", "blenderbot", "blenderbot-small",
        "bigbird_pegasus",
    )
)  # fmt: skip
"""Decoders of encoder-decoder models, used as separate models that continue a text."""
BY_THEMSELVES = (
    "bloom", "gptj", "gpt_neo", "mpt", "codegen", "falcon", "deberta", "deberta-v2", "mpnet",
    "openai-gpt", "xlnet",
)  # fmt: skip
"""Models that compute attention without the attention interface of transformers."""


def tiny_model(kind: str, **settings: Any) -> Any:
    """Return a model with random weights in evaluation mode; each call returns the same weights.

    Parameters
    ----------
    kind : str
        An architecture, or one of `CAUSAL_HEADS`.
    """
    kind, _, head = kind.partition(" ")
    transformers = pytest.importorskip("transformers", reason="models need transformers")
    # transformers prints many warnings about such small sizes
    transformers.logging.set_verbosity(logging.CRITICAL)
    torch.manual_seed(0)
    config_class = transformers.CONFIG_MAPPING[kind]
    windowed = {"sliding_window": WINDOW} if hasattr(config_class(), "sliding_window") else {}
    wanted = {**SMALL, **windowed, **OTHERS.get(kind, {}), **settings}
    config = config_class(**{name: value for name, value in wanted.items() if value is not None})
    made = transformers.AutoModel
    if head:
        made = transformers.AutoModelForCausalLM
    elif kind in PAIRS:
        made = transformers.AutoModelForSeq2SeqLM
    elif kind in (*DECODERS, "bloom") and config_class in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        made = transformers.AutoModelForCausalLM
    return made.from_config(config).eval()


def inputs_of(model: Any, tokens: int = 9) -> dict[str, torch.Tensor]:
    """Return the inputs of a tiny model: tokens, tokens for encoder and decoder, or an image."""
    if model.main_input_name == "pixel_values":
        generator = torch.Generator().manual_seed(1)
        return {"pixel_values": torch.randn(1, 3, 32, 32, generator=generator)}
    given = {"input_ids": some_ids(tokens)}
    if getattr(model.config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = some_ids(6).flip(-1)
    return given


def some_ids(count: int) -> torch.Tensor:
    """Return token ids from the whole vocabulary [1, token], including the last id."""
    last = VOCABULARY - 1
    return (last - torch.arange(count) * 101 % (last - 2))[None]


def save_tiny_model(folder: Path, kind: str = "llama", **settings: Any) -> Path:
    """Save a tiny model with a tokenizer of a few words as a model folder."""
    transformers = pytest.importorskip("transformers", reason="models need transformers")
    tokenizers = pytest.importorskip("tokenizers")
    tiny_model(kind, **settings).save_pretrained(folder)
    known = ("<pad>", "<s>", "</s>", "<unk>", *WORDS)
    vocabulary = {word: number for number, word in enumerate(known)} | RARE
    free = {*range(VOCABULARY)} - {*vocabulary.values(), WORDLESS}
    vocabulary |= {f"word{number}": number for number in sorted(free)}
    splitting = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    splitting.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    splitting.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A </s> $B", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=splitting, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>",
    )  # fmt: skip
    made.save_pretrained(folder)
    return folder
