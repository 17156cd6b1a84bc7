"""Computes the layers of a Llama checkpoint in float64 with NumPy only."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ReferenceLlama:
    """A checkpoint and the stages that it computes for token ids."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text("utf-8"))
        self.weights = {
            name: numbers.astype(np.float64)
            for file in sorted(folder.glob("*.safetensors"))
            for name, numbers in load_file(file).items()
        }

    def layers(self, tokens: list[int]) -> list[dict[str, np.ndarray]]:
        """Return the stages of every layer: [head, token, d_head] or [token, column]."""
        stream = self.weights["model.embed_tokens.weight"][tokens]
        found = []
        for layer in range(self.config["num_hidden_layers"]):
            found.append(self._layer(f"model.layers.{layer}.", stream))
            stream = found[-1]["result"]
        return found

    def _layer(self, path: str, stream: np.ndarray) -> dict[str, np.ndarray]:
        own = {
            name.removeprefix(path).removesuffix(".weight"): numbers
            for name, numbers in self.weights.items()
            if name.startswith(path)
        }
        heads, shared = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        normed = self._norm(stream, own["input_layernorm"])
        queries = _apart(normed @ own["self_attn.q_proj"].T, heads)
        keys, values = (
            _apart(normed @ own[f"self_attn.{name}_proj"].T, shared).repeat(heads // shared, 0)
            for name in ("k", "v")
        )
        turned = [self._turned(each) for each in (queries, keys)]
        scores = turned[0] @ turned[1].transpose(0, 2, 1)
        scaled = scores / np.sqrt(queries.shape[-1])
        masked = np.where(np.tri(len(stream), dtype=bool), scaled, -np.inf)
        weights = np.exp(masked - masked.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        context = weights @ values
        concat = context.transpose(1, 0, 2).reshape(len(stream), -1)
        output = concat @ own["self_attn.o_proj"].T
        attended = stream + output
        again = self._norm(attended, own["post_attention_layernorm"])
        gate, up = again @ own["mlp.gate_proj"].T, again @ own["mlp.up_proj"].T
        hidden = gate / (1 + np.exp(-gate)) * up
        made = hidden @ own["mlp.down_proj"].T
        return {
            "residual": stream, "normed": normed, "projected_queries": queries,
            "projected_keys": keys, "queries": turned[0], "keys": turned[1], "values": values,
            "scores": scores, "scaled": scaled, "masked": masked, "weights": weights,
            "context": context, "concat": concat, "output": output, "attended": attended,
            "normed_attended": again, "gate": gate, "up": up, "hidden": hidden,
            "feed_forward": made, "result": attended + made,
        }  # fmt: skip

    def _norm(self, vectors: np.ndarray, gain: np.ndarray) -> np.ndarray:
        size = np.square(vectors).mean(-1, keepdims=True) + self.config["rms_norm_eps"]
        made: np.ndarray = vectors / np.sqrt(size) * gain
        return made

    def _turned(self, vectors: np.ndarray) -> np.ndarray:
        cosines, sines = self.angles(vectors.shape[1], vectors.shape[2])
        first, second = np.split(vectors, 2, axis=-1)
        return np.concatenate(
            [first * cosines - second * sines, second * cosines + first * sines], axis=-1
        )

    def angles(self, tokens: int, d_head: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the cosines and sines for every position and pair of columns."""
        given: Mapping[str, object] = self.config.get("rope_parameters") or self.config
        base = float(str(given.get("rope_theta", 10_000.0)))
        speeds = base ** (-np.arange(0, d_head, 2) / d_head)
        turns = np.arange(tokens)[:, None] * speeds
        return np.cos(turns), np.sin(turns)


def _apart(vectors: np.ndarray, heads: int) -> np.ndarray:
    return vectors.reshape(len(vectors), heads, -1).transpose(1, 0, 2)
