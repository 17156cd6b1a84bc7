"""Python API for a language model that was trained in the lab."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.api.argument_conversion import rename_error_fields
from visualizer.api.argument_validation import (
    validate_integer,
    validate_sampling,
    validate_seed,
    validate_string,
)
from visualizer.errors import InputError
from visualizer.language.run_folder import RunFolder
from visualizer.language.sampling import check_sampling_settings
from visualizer.language.training_settings import MODEL_TITLES

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from visualizer.language.saved_model import AttentionState, SavedModel
    from visualizer.language.training_settings import TrainingSettings

MAX_GENERATED_TOKENS = 1_000_000


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainedModel:
    """A language model from a training run, as returned by `load` for the run's folder.

    The model has the parameters of the last checkpoint. You can also load it with plain torch and
    safetensors::

        from safetensors.torch import load_file

        tensors = load_file("runs/poems/checkpoint.safetensors")
        start = "model/layers.0.attention."
        state = {
            name.removeprefix(start): tensor
            for name, tensor in tensors.items()
            if name.startswith(start)
        }

    ``state`` contains ``W_query.weight``, ``W_key.weight``, ``W_value.weight``, ``out_proj.weight``
    and ``out_proj.bias`` of the first layer's attention, like ``attention_states[0]``. This is the
    ``state_dict`` of the book's ``MultiHeadAttention`` without its mask. The transformer from the
    notes has no ``out_proj``. All other parameters are stored under ``model/`` in the same way, and
    the optimizer's state under ``optimiser/``. The files in ``snapshots/``, one per saved step,
    contain only the parameters, without the prefix ``model/``.

    Examples
    --------
    >>> run = visualizer.load("runs/poems")
    >>> run.step, run.losses["validation"][-1]
    >>> run.attention_states[0]["W_query.weight"]  # a torch tensor
    """

    saved: SavedModel

    def __repr__(self) -> str:
        description = f"{MODEL_TITLES[self.settings.model]} · step {self.step:,}"
        return f"<TrainedModel: {description} · {len(self.vocabulary):,} tokens>"

    @property
    def settings(self) -> TrainingSettings:
        """Settings of the run: text, model and training."""
        return self.saved.metadata.settings

    @property
    def step(self) -> int:
        """Number of completed training steps."""
        return self.saved.step

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, indexed by their ids in the model."""
        return self.saved.metadata.tokens

    @property
    def losses(self) -> dict[str, np.ndarray]:
        """The losses in nats per token.

        ``"steps"`` contains the steps at which the losses in ``"training"`` and the learning rates
        in ``"rates"`` were recorded; ``"validation_steps"`` contains those for ``"validation"``.
        """
        return dict(self.saved.losses)

    @property
    def attention_states(self) -> tuple[AttentionState, ...]:
        """The parameters of each layer's attention, as torch tensors that are keyed by name."""
        return self.saved.attention_states

    def generate(
        self,
        prompt: str = "",
        tokens: int = 200,
        *,
        seed: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> str:
        """Continue a prompt with sampled tokens; the same arguments return the same text.

        Parameters
        ----------
        prompt : str
            The beginning of the text; if it is empty, the first token of the training text is used.
        tokens : int
            Number of tokens to generate after the prompt, at least 1.
        seed : int, optional
            Random seed for sampling, from 0 to 2³¹ − 1; 0 by default.
        temperature : float, optional
            Divisor of the logits, from 0 to 100; at 0, the most likely token is always chosen. 1 by
            default.
        top_k : int, optional
            Number of most likely tokens from which to sample; all by default.
        top_p : float, optional
            Total probability of the most likely tokens from which to sample, greater than 0 and at
            most 1; 1 by default.

        Returns
        -------
        str
            The prompt and the generated text. If the tokens are words, the words are separated by
            spaces.

        Raises
        ------
        InputError
            If an argument is invalid or would have no effect, or training diverged.

        Examples
        --------
        >>> visualizer.load("runs/poems").generate("The ", tokens=20, seed=1)
        """
        from visualizer.language.saved_model import generate

        start, count = validate_string("prompt", prompt), validate_integer("tokens", tokens)
        if not 1 <= count <= MAX_GENERATED_TOKENS:
            sentence = f"tokens must be at least 1 and at most {MAX_GENERATED_TOKENS:,}."
            raise InputError("tokens", f"{sentence} It is {count:,}.")
        random_seed = 0 if seed is None else validate_seed(seed)
        sampling = validate_sampling(
            1.0 if temperature is None else temperature, top_k, 1.0 if top_p is None else top_p
        )
        with rename_error_fields({"text": "prompt"}):
            check_sampling_settings(sampling)
            others = {"seed": seed, "temperature": temperature, "top_p": top_p}
            unused = [name for name, given in others.items() if given is not None]
            if sampling.top_k == 1 and unused:
                sentence = (
                    f"{unused[0]} has no effect with top_k=1, which leaves only one token. "
                    f"Remove {unused[0]}."
                )
                raise InputError(unused[0], sentence)
            return generate(self.saved, start, count, random_seed, sampling)


def trained_model(folder: Path) -> TrainedModel:
    """Load the model from a run's folder."""
    from visualizer.language.saved_model import read_saved_model

    return TrainedModel(read_saved_model(RunFolder(folder)))
