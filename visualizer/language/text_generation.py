"""Generation of text: a model samples one token after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from visualizer.attention.tensor_with_cached_reductions import readable
from visualizer.language.probe import Probe
from visualizer.language.sampling import draw_of_seed, probabilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.language.language_models import LanguageModel
    from visualizer.language.sampling import Sampling
    from visualizer.language.tokenizers import Vocabulary


def generated_tokens(
    model: LanguageModel,
    vocabulary: Vocabulary,
    prompt: str,
    sampling: Sampling,
    seed: int,
) -> Iterator[str]:
    """Yield sampled tokens indefinitely; the same seed gives the same tokens, as in the lab.

    Raises
    ------
    InputError
        With field ``text`` if the prompt is empty or has unknown tokens; with ``logits`` if the
        model's training diverged; with the field of an invalid sampling setting.
    """
    model.eval()
    ids, draws = Probe.of(prompt, vocabulary, model).ids, 0
    while True:
        with torch.no_grad():
            logits = readable(model(ids)[-1])
        chosen = probabilities(logits, sampling.temperature, sampling.top_k, sampling.top_p)
        token = draw_of_seed(chosen, seed, draws)
        draws += 1
        ids = torch.cat([ids, ids.new_tensor([token])])[-model.settings.block :]
        yield vocabulary.tokens[token]
