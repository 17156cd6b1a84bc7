"""Python API for the attention that was recorded during a training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.api.argument_validation import validate_integer
from visualizer.brief_repr import truncate
from visualizer.errors import OutOfRangeError
from visualizer.language.loss_log import rows_to_loss_curves
from visualizer.language.recording import OpenedRecording

if TYPE_CHECKING:
    from visualizer.api.model_attention import ModelAttention
    from visualizer.language.run_folder import RunFolder

NO_SNAPSHOTS_ERROR = "The run has no snapshots yet."


# This is a dataclass, because `help` would evaluate the types of a Struct's fields, which are
# imported for type checking only.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Recording:
    """A run that was recorded with `record`, as returned by `load` for its folder.

    ``recording.attention(step)`` is the attention of all layers and heads after a number of
    training steps, and ``recording.weights()`` contains the weights of all steps. A run that is
    still being recorded can be read; `steps` lists the snapshots that exist by then.

    Examples
    --------
    >>> recording = visualizer.load("runs/recorded")
    >>> recording.attention(recording.steps[-1]).overview()
    >>> recording.losses["training"]
    """

    opened: OpenedRecording

    def __repr__(self) -> str:
        metadata, steps = self.opened.metadata, self.steps
        size = f"{metadata.layers:,} layers × {metadata.heads:,} heads"
        until = f" up to step {steps[-1]:,}" if steps else ""
        return truncate(f"<Recording: {metadata.model} · {size} · {len(steps):,} snapshots{until}>")

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps with a snapshot, as numbers of completed training steps, in order."""
        return self.opened.steps()

    @property
    def texts(self) -> tuple[str, ...]:
        """The recorded texts."""
        return tuple(each.text for each in self.opened.metadata.texts)

    @property
    def losses(self) -> dict[str, np.ndarray]:
        """The losses that were passed to the recorder, as in `TrainedModel.losses`."""
        return rows_to_loss_curves(OpenedRecording(self.opened.folder).take_new_rows())

    def tokens(self, text: int = 0) -> tuple[str, ...]:
        """Return the tokens of a text.

        Examples
        --------
        >>> visualizer.load("runs/recorded").tokens(0)
        """
        return self.opened.metadata.texts[self._validate_text(text)].tokens

    def attention(self, step: int | None = None, text: int = 0) -> ModelAttention:
        """Return the attention for a text after a number of training steps.

        Parameters
        ----------
        step : int, optional
            One of `steps`; the last one by default.
        text : int
            Index of the text in `texts`.

        Raises
        ------
        InputError
            If the text or the step was not recorded, or its file is damaged.

        Examples
        --------
        >>> recording = visualizer.load("runs/recorded")
        >>> first, last = (recording.attention(step) for step in (0, recording.steps[-1]))
        >>> last["weights"] - first["weights"]  # layer head query key
        """
        from visualizer.api.given_arrays import from_arrays

        at = self._validate_text(text)
        wanted = self._last_step() if step is None else validate_integer("step", step)
        weights = self.opened.read_weights(wanted, at)
        tokens = self.opened.metadata.texts[at].tokens
        name = f"{self.opened.folder.path.resolve().name}, step {wanted:,}"
        return from_arrays(weights, tokens, name=name)

    def weights(self, text: int = 0) -> np.ndarray:
        """Return the weights of all steps, [step, layer, head, query, key].

        Raises
        ------
        InputError
            As in `attention`.

        Examples
        --------
        >>> visualizer.load("runs/recorded").weights().shape  # step layer head query key
        """
        at = self._validate_text(text)
        steps = self.steps
        if not steps:
            raise OutOfRangeError("step", NO_SNAPSHOTS_ERROR)
        return np.stack([self.opened.read_weights(step, at) for step in steps])

    def heads(self, text: int = 0) -> list[dict[str, float]]:
        """Return the measures of all heads at all steps, one row per step and head.

        The rows are those of `ModelAttention.heads`, with the step.

        Raises
        ------
        InputError
            As in `attention`.

        Examples
        --------
        >>> rows = visualizer.load("runs/recorded").heads()
        >>> [row["previous"] for row in rows if (row["layer"], row["head"]) == (0, 1)]
        """
        return [
            {"step": step, **row}
            for step in self.steps
            for row in self.attention(step, text).heads()
        ]

    def _last_step(self) -> int:
        steps = self.steps
        if not steps:
            raise OutOfRangeError("step", NO_SNAPSHOTS_ERROR)
        return steps[-1]

    def _validate_text(self, text: object) -> int:
        number, count = validate_integer("text", text), len(self.texts)
        if not 0 <= number < count:
            sentence = f"Text {number} does not exist. Valid indices are 0 to {count - 1}."
            raise OutOfRangeError("text", sentence)
        return number


def open_recording(folder: RunFolder) -> Recording:
    """Open the recording in a folder."""
    return Recording(OpenedRecording(folder))
