"""The Continue pane as a value: the text with branches, what may come next, and a head’s rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.token_labels import join_split_characters
from visualizer.generation.generated_tokens_presenter import (
    GenerationPanel,
    present_generation,
)
from visualizer.generation.generation_tree import ROOT, GenerationTree
from visualizer.generation.next_tokens_presenter import NextTokensPanel
from visualizer.language.sampling import Sampling
from visualizer.language.tokenizers import visible
from visualizer.number_format import format_count, format_share, format_size, shorten
from visualizer.session.message_without_model_reading import READING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from visualizer.features.model_generation.continued_text import NodeReading
    from visualizer.models.model_source import LayerAndHead

MODEL_REQUIRED = "Open a model (File > Open a model…) to have it continue the text."
SPLIT_CHANGED_NOTICE = (
    "The text that was used is split into other tokens than those that were generated, so that its "
    "rows are others, too."
)
ENDED = "The model ended its text here."
USUAL_STEPS = 20
MAX_STEPS = 1_000
MAX_ROWS = 256
"""The most rows that are drawn, the last ones."""
NAMED = 3
"""How many keys are named of those that are read most."""


class HeadRows(Struct, frozen=True, eq=False):
    """What a head reads, row by row.

    Parameters
    ----------
    head : LayerAndHead
        By the number of its layer in the model.
    weights : ndarray
        [query, key], the last rows up to the current token; NaN where nothing can be read.
    first : int
        The place in the text of the first row.
    given : int
        How many tokens the text had at first.
    labels : tuple of str
        Those of all keys.
    """

    head: LayerAndHead
    weights: np.ndarray
    first: int
    given: int
    labels: tuple[str, ...]

    @property
    def title(self) -> str:
        """Which head it is, counted from 1."""
        layer, head = self.head
        return f"Layer {layer + 1}, head {head + 1}: weights from 0 to 1"

    @property
    def of_last(self) -> str:
        """What the last token reads most, as a sentence."""
        row = np.nan_to_num(self.weights[-1])
        most = np.argsort(-row, kind="stable")[:NAMED].tolist()
        said = [f"“{self.labels[key]}” {format_share(float(row[key]))}" for key in most if row[key]]
        return f"“{self.labels[-1]}” reads {', '.join(said)}."

    def cell_in_words(self, row: int, key: int) -> str:
        """Return what a cell says; empty where nothing can be read."""
        weight = float(self.weights[row, key])
        if np.isnan(weight):
            return ""
        query = self.labels[self.first + row]
        return f"“{query}” reads {format_share(weight)} from “{self.labels[key]}”"


class ModelGenerationPanel(Struct, frozen=True, eq=False):
    """The Continue pane.

    Parameters
    ----------
    message : str
        Why there is nothing to continue; empty where there is.
    problem : str
        Why the last step could not be done, or what is to be known of the text that was used.
    step, last_step : int
        How many tokens stand before the current one's end, and on its branch in all.
    steps : int
        How many tokens are written on together.
    """

    message: str = MODEL_REQUIRED
    problem: str = ""
    generation: GenerationPanel = field(default_factory=GenerationPanel)
    bars: NextTokensPanel = field(default_factory=NextTokensPanel)
    rows: HeadRows | None = None
    step: int = 0
    last_step: int = 0
    steps: int = USUAL_STEPS

    @property
    def can_draw(self) -> bool:
        """Whether a token can be drawn now."""
        return not self.message and self.generation.can_draw

    @property
    def can_run(self) -> bool:
        """Whether writing on can be started or stopped."""
        return not self.message and self.generation.can_run

    @property
    def can_use(self) -> bool:
        """Whether there is a longer text to use."""
        return not self.message and self.step > 0 and not self.generation.is_running


class GenerationState(Struct, frozen=True, eq=False):
    """All that the pane shows.

    Parameters
    ----------
    readings : mapping
        By the nodes of the tree.
    head : LayerAndHead or None
        The head of which rows are shown.
    """

    message: str = MODEL_REQUIRED
    problem: str = ""
    tree: GenerationTree = field(default_factory=GenerationTree)
    readings: Mapping[int, NodeReading] = {}
    sampling: Sampling = field(default_factory=Sampling)
    steps: int = USUAL_STEPS
    is_running: bool = False
    head: LayerAndHead | None = None


def present_model_generation(state: GenerationState) -> ModelGenerationPanel:
    """Present a text that a model continues."""
    if state.message:
        return ModelGenerationPanel(state.message, steps=state.steps)
    tree, readings = state.tree, state.readings
    reading = readings.get(tree.at)
    is_ended = bool(reading and reading.is_end)
    shown = present_generation(tree, state.is_running, is_readable=not is_ended)
    bars = reading.bars if reading else NextTokensPanel(sampling=state.sampling)
    taken = tree.nodes[tree.ahead[0]].token if tree.ahead else None
    return ModelGenerationPanel(
        "",
        state.problem,
        replace(shown, said=_said(shown.said, reading)),
        replace(bars, sampling=state.sampling, taken=taken),
        _rows(state),
        len(tree.path),
        len(tree.path) + len(tree.ahead),
        state.steps,
    )


def _said(added: str, reading: NodeReading | None) -> str:
    if reading is None:
        return f"{added}. {READING}"
    size = format_size(reading.cache_bytes)
    cache = f"Cache: {size}, {format_count(reading.tokens, 'token')}."
    return f"{added}. {cache}" + (f" {ENDED}" if reading.is_end else "")


def _rows(state: GenerationState) -> HeadRows | None:
    """Put the rows of a head together, as far as all of them were read."""
    nodes = (ROOT, *state.tree.path)
    if state.head is None or not all(node in state.readings for node in nodes):
        return None
    layer, head = state.head
    found = [state.readings[node].rows.get(layer) for node in nodes]
    rows = [each[head] for each in found if each is not None and head < len(each)]
    if len(rows) < len(nodes):
        return None
    words = join_split_characters(state.tree.tokens)
    labels = tuple(shorten(visible(word)) for word in words)
    given = len(state.tree.prompt)
    return HeadRows(state.head, *_last_rows(rows, len(labels)), given, labels)


def _last_rows(rows: Sequence[np.ndarray], tokens: int) -> tuple[np.ndarray, int]:
    """Return the last rows [query, key] and the place of the first; windows stand at their end."""
    first = max(0, tokens - MAX_ROWS)
    made = np.full((tokens - first, tokens), np.nan, np.float32)
    end = 0
    for block in rows:
        start, end = end, end + len(block)
        for query in range(max(start, first), end):
            last = end - block.shape[1]  # where the block's keys begin
            count = query + 1 - last
            made[query - first, last : query + 1] = block[query - start, :count]
    return made, first
