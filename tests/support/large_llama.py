"""Writes a Llama model with random weights in several files, without holding it in memory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file

from tests.support.tiny_models import save_tiny_model, tiny_model
from visualizer.models.model_folder import INDEX_FILE, WEIGHTS_FILE

if TYPE_CHECKING:
    from pathlib import Path

WIDTH, WIDE = 1024, 2816
LAYER_BYTES = 4 * (4 * WIDTH**2 + 3 * WIDTH * WIDE + 2 * WIDTH)


def save_large_llama(folder: Path, least: int, *, file_layers: int = 4) -> int:
    """Save a model whose layers take at least this many bytes; return the size of its files.

    Parameters
    ----------
    file_layers : int
        Number of layers per file.
    """
    layers = -(-least // LAYER_BYTES)
    sizes = {"hidden_size": WIDTH, "intermediate_size": WIDE, "head_dim": 128}
    sizes |= {"num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 128}
    save_tiny_model(folder, "llama", **sizes, num_hidden_layers=1)  # together with its tokenizer
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}))
    (folder / WEIGHTS_FILE).unlink()
    one = tiny_model("llama", **sizes, num_hidden_layers=1).state_dict()
    of_layer = {name: each for name, each in one.items() if ".layers.0." in name}
    places: dict[str, str] = {}

    def save(number: int, weights: dict[str, torch.Tensor]) -> None:
        file = f"model-{number:05}.safetensors"
        save_file(weights, folder / file, {"format": "pt"})
        places.update(dict.fromkeys(weights, file))

    save(0, {name: each for name, each in one.items() if name not in of_layer})
    for start in range(0, layers, file_layers):
        weights = {}
        for at in range(start, min(layers, start + file_layers)):
            generator = torch.Generator().manual_seed(at)
            for name, like in of_layer.items():
                made = torch.empty_like(like).normal_(0, 0.02, generator=generator)
                made = made + 1 if like.ndim == 1 else made
                weights[name.replace(".layers.0.", f".layers.{at}.")] = made
        save(1 + start, weights)
    (folder / INDEX_FILE).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))
