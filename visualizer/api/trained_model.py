"""A language model that the lab trained, in a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.api.argument_conversion import naming_arguments
from visualizer.api.argument_validation import number, string, whole_number
from visualizer.attention.spec import MAX_SEED
from visualizer.errors import InputError
from visualizer.language.run_folder import RunFolder
from visualizer.language.sampling import Sampling, check
from visualizer.language.training_settings import TITLES

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from visualizer.language.saved_model import AttentionState, SavedModel
    from visualizer.language.training_settings import TrainingSettings

MAX_GENERATED_TOKENS = 1_000_000


# No struct: `help` would evaluate the types of its fields, which are imported for checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainedModel:
    """A language model of a training run, as `load` reads it from the run's folder.

    The model is that of the last checkpoint. Plain torch reads it, too, with safetensors::

        from safetensors.torch import load_file

        tensors = load_file("runs/poems/checkpoint.safetensors")
        start = "model/layers.0.attention."
        state = {
            name.removeprefix(start): tensor
            for name, tensor in tensors.items()
            if name.startswith(start)
        }

    ``state`` has ``W_query.weight``, ``W_key.weight``, ``W_value.weight``, ``out_proj.weight`` and
    ``out_proj.bias`` of the first layer's attention, as ``attention_states[0]`` has: the
    ``state_dict`` of the book's ``MultiHeadAttention``, apart from its mask. The transformer of the
    notes has no ``out_proj``. All other parameters
    stand under ``model/`` in the same way, the optimiser's state under ``optimiser/``. The files in
    ``snapshots/``, one for each step that was kept, hold the parameters alone, without ``model/``.
    """

    saved: SavedModel

    def __repr__(self) -> str:
        about = f"{TITLES[self.settings.model]} · step {self.step:,}"
        return f"<TrainedModel: {about} · {len(self.vocabulary):,} tokens>"

    @property
    def settings(self) -> TrainingSettings:
        """The settings of the run: text, model and training."""
        return self.saved.about.settings

    @property
    def step(self) -> int:
        """Number of training steps done."""
        return self.saved.step

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, by their numbers in the model."""
        return self.saved.about.tokens

    @property
    def losses(self) -> dict[str, np.ndarray]:
        """The losses in nats per token.

        ``"training"`` and ``"rates"`` (the learning rates) at ``"steps"``, ``"validation"`` at
        ``"validation_steps"``.
        """
        return dict(self.saved.losses)

    @property
    def attention_states(self) -> tuple[AttentionState, ...]:
        """The parameters of each layer's attention, as torch tensors by their names."""
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
        """Continue a prompt by sampled tokens; equal arguments give equal text.

        Parameters
        ----------
        prompt : str
            The beginning; if it is empty, the text begins as the one that was learned does.
        tokens : int
            Number of tokens that follow the prompt, at least 1.
        seed : int, optional
            Determines what is sampled, from 0 to 2³¹ − 1; 0 by default.
        temperature : float, optional
            Divides the logits, from 0 to 100; at 0 only the likeliest token remains. 1 by default.
        top_k : int, optional
            Number of the likeliest tokens kept; all by default.
        top_p : float, optional
            Share of the probability that the likeliest tokens kept must reach, more than 0 and at
            most 1, which is the default.

        Returns
        -------
        str
            The prompt and what follows it. Where the tokens are words, spaces stand between them.

        Raises
        ------
        InputError
            When an argument is invalid or would have no effect, or training diverged.
        """
        from visualizer.language.saved_model import generate

        start, count = string("prompt", prompt), whole_number("tokens", tokens)
        if not 1 <= count <= MAX_GENERATED_TOKENS:
            raise InputError(
                "tokens", f"tokens is from 1 to {MAX_GENERATED_TOKENS:,}, and not {count:,}."
            )
        chance = 0 if seed is None else whole_number("seed", seed)
        if not 0 <= chance <= MAX_SEED:
            raise InputError("seed", f"seed is from 0 to 2³¹ − 1, and not {chance}.")
        kept = None if top_k is None else whole_number("top_k", top_k)
        sampling = Sampling(
            1.0 if temperature is None else number("temperature", temperature),
            kept,
            1.0 if top_p is None else number("top_p", top_p),
        )
        with naming_arguments({"text": "prompt"}):
            check(sampling)
            others = {"seed": seed, "temperature": temperature, "top_p": top_p}
            idle = [name for name, given in others.items() if given is not None]
            if kept == 1 and idle:
                sentence = f"{idle[0]} has no effect where top_k is 1, which leaves one token."
                raise InputError(idle[0], sentence)
            return generate(self.saved, start, count, chance, sampling)


def trained_model(folder: Path) -> TrainedModel:
    """Read the model of a run's folder."""
    from visualizer.language.saved_model import read_saved_model

    return TrainedModel(read_saved_model(RunFolder(folder)))
