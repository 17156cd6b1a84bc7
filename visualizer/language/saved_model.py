"""Reads the language model in a run's folder, and generates text.

Neither the training text nor the lock is needed, and nothing is written.
"""

from __future__ import annotations

import sys
from itertools import count, islice
from typing import TYPE_CHECKING

import torch
from msgspec import Struct

from visualizer.attention.cached_tensor import to_readonly_array
from visualizer.brief_repr import brief_repr
from visualizer.errors import InputError
from visualizer.language.checkpoints import read_checkpoint_weights, read_weights
from visualizer.language.language_models import AttentionLayer, build_model
from visualizer.language.loss_log import LossLog, rows_to_loss_curves
from visualizer.language.memory_estimate import CHECKPOINT_COPIES, check_model_memory
from visualizer.language.probe import ProbeText
from visualizer.language.sampling import sample_token_with_seed, sampling_probabilities
from visualizer.language.tokenizers import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from visualizer.language.language_models import LanguageModel
    from visualizer.language.run_folder import RunFolder, RunMetadata
    from visualizer.language.sampling import SamplingSettings
    from visualizer.language.tokenizers import Vocabulary

AttentionState = dict[str, torch.Tensor]
"""The parameters of an attention module, keyed by their names in its ``state_dict``."""


class SavedModel(Struct, frozen=True, eq=False):
    """A model from a run's folder.

    Parameters
    ----------
    step : int
        Number of completed training steps.
    losses : dict of str to numpy.ndarray
        The losses up to that step; see `visualizer.language.loss_log.rows_to_loss_curves`.
    model : LanguageModel
        The model, on the CPU and in evaluation mode.
    """

    metadata: RunMetadata
    step: int
    losses: dict[str, np.ndarray]
    model: LanguageModel

    __repr__ = brief_repr

    @property
    def attention_states(self) -> tuple[AttentionState, ...]:
        """Copies of the parameters of each layer's attention."""
        return tuple(
            {name: tensor.detach().clone() for name, tensor in layer.attention.named_parameters()}
            for layer in self.model.layers
            if isinstance(layer, AttentionLayer)
        )


def read_saved_model(folder: RunFolder) -> SavedModel:
    """Read the model of a run from its checkpoint or, without a checkpoint, from its last snapshot.

    Raises
    ------
    InputError
        With field ``folder`` if the folder contains no run or no weights, if it cannot be read, or
        if the model is too large for the free memory.
    """
    metadata, snapshots = folder.read_metadata(), folder.snapshot_steps()
    has_checkpoint = folder.checkpoint_file.exists()
    if not (has_checkpoint or snapshots):
        raise InputError("folder", f"The run in {folder.path} has no saved weights yet.")
    file = folder.checkpoint_file if has_checkpoint else folder.snapshot_file(snapshots[-1])
    check_model_memory(metadata.settings, len(metadata.tokens), CHECKPOINT_COPIES, file)
    model = build_model(metadata.settings, len(metadata.tokens)).eval()
    if has_checkpoint:
        step, state = read_checkpoint_weights(file, model)
        is_over = state.is_ended or (state.final is not None and step >= metadata.settings.steps)
    else:
        step, is_over = snapshots[-1], False
        read_weights(file, model)
    # Unless the run is over, rows after the step of the weights belong to steps to be repeated.
    rows = LossLog(folder.loss_log_file).read_rows_before(sys.maxsize if is_over else step)
    return SavedModel(metadata, step, rows_to_loss_curves(rows), model)


def generate(
    saved: SavedModel, prompt: str, tokens: int, seed: int, sampling: SamplingSettings
) -> str:
    """Continue a prompt with sampled tokens; with the same seed, the lab samples the same ones.

    Parameters
    ----------
    prompt : str
        The beginning of the text. If it is empty, generation starts with the first token of the
        training text, which counts towards ``tokens``.
    tokens : int
        Number of tokens to add to the prompt.

    Raises
    ------
    InputError
        With field ``text`` if the prompt has tokens that are not in the vocabulary; with field
        ``logits`` if training diverged; with the field of an invalid sampling setting.
    """
    metadata, vocabulary = saved.metadata, saved.metadata.vocabulary
    prompt_tokens, ids = vocabulary.tokenize_and_encode(prompt)
    if not prompt_tokens:
        prompt_tokens = tokenize(metadata.sample, vocabulary.tokenizer)[:1] or metadata.tokens[:1]
        ids, tokens = vocabulary.encode(prompt_tokens), tokens - 1
    sampled = islice(
        _iterate_generated_ids(saved.model, torch.from_numpy(ids), sampling, seed), tokens
    )
    return vocabulary.join_tokens((*prompt_tokens, *vocabulary.ids_to_tokens(sampled)))


def iterate_generated_tokens(
    model: LanguageModel, vocabulary: Vocabulary, prompt: str, sampling: SamplingSettings, seed: int
) -> Iterator[str]:
    """Yield sampled tokens indefinitely; with the same seed, the lab samples the same ones.

    Raises
    ------
    InputError
        With field ``text`` if the prompt is empty or has unknown tokens; with field ``logits`` if
        training diverged; with the field of an invalid sampling setting.
    """
    model.eval()
    for token in _iterate_generated_ids(
        model, ProbeText.from_text(prompt, vocabulary, model).ids, sampling, seed
    ):
        yield vocabulary.tokens[token]


def _iterate_generated_ids(
    model: LanguageModel, ids: torch.Tensor, sampling: SamplingSettings, seed: int
) -> Iterator[int]:
    for draws in count():
        ids = ids[-model.settings.block :]
        with torch.no_grad():
            logits = to_readonly_array(model(ids)[-1])
        probabilities = sampling_probabilities(logits, sampling)
        token = sample_token_with_seed(probabilities, seed, draws)
        ids = torch.cat([ids, ids.new_tensor([token])])
        yield token
