"""Presenter of the Continue pane: generated text, next tokens and the weights of one head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.token_labels import label_split_characters
from visualizer.format import format_count, format_percentage, format_size, shorten
from visualizer.generation.generated_tokens_presenter import (
    GenerationPanel,
    present_generation,
)
from visualizer.generation.generation_tree import ROOT_NODE, GenerationTree
from visualizer.generation.token_choice_presenter import NextTokenChoicePanel
from visualizer.heatmap.colour_range import (
    AutomaticColourRange,
    find_range_of_samples,
    sample_cells,
)
from visualizer.language.sampling import SamplingSettings
from visualizer.language.tokenizers import visible_token
from visualizer.session.model_pane_options import RUNNING_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from visualizer.features.model_generation.text_generator import GenerationNodeResult
    from visualizer.models.model_source import LayerAndHead

MODEL_REQUIRED = "Open a model (File > Open a model…) to generate text."
SPLIT_CHANGED_NOTICE = (
    "The tokenizer splits this text into tokens other than those generated, so the rows differ."
)
TEXT_ENDED_MESSAGE = "The model ended the text here."
DEFAULT_STEPS = 20
MAX_STEPS = 1_000
MAX_ROWS = 256
"""Maximum number of rows that are drawn; earlier rows are omitted."""
MAX_NAMED_KEYS = 3
"""Maximum number of keys named in the description of a row, in descending order of weight."""


class HeadWeightRows(Struct, frozen=True, eq=False):
    """Attention weights of one head, row by row.

    Parameters
    ----------
    head : LayerAndHead
        The layer number is that of the model.
    weights : ndarray
        The last rows up to the current token, [query, key]; NaN where attention is masked.
    first : int
        Position of the first row in the text.
    prompt_tokens : int
        Number of tokens of the given text.
    labels : tuple of str
        Labels of all keys.
    """

    head: LayerAndHead
    weights: np.ndarray
    first: int
    prompt_tokens: int
    labels: tuple[str, ...]

    @property
    def title(self) -> str:
        """Title with the numbers of the layer and the head, counted from 1."""
        layer, head = self.head
        return f"Layer {layer + 1}, head {head + 1}: weights from 0 to {self.colour_range}"

    @property
    def colour_range(self) -> AutomaticColourRange:
        """Colour range of these rows."""
        return find_range_of_samples(
            [sample_cells(self.weights, ~np.isnan(self.weights))], is_share=True
        )

    @property
    def last_token_sentence(self) -> str:
        """Sentence that names the keys to which the last token attends most."""
        row = np.nan_to_num(self.weights[-1])
        most = np.argsort(-row, kind="stable")[:MAX_NAMED_KEYS].tolist()
        said = [
            f"“{self.labels[key]}” {format_percentage(float(row[key]))}" for key in most if row[key]
        ]
        return f"“{self.labels[-1]}” attends to {', '.join(said)}."

    def describe_cell_at(self, row: int, key: int) -> str:
        """Return a description of the given cell, or an empty string if its attention is masked."""
        weight = float(self.weights[row, key])
        if np.isnan(weight):
            return ""
        query = self.labels[self.first + row]
        return f"“{query}” attends to “{self.labels[key]}” with {format_percentage(weight)}"


class ModelGenerationPanel(Struct, frozen=True, eq=False):
    """Contents of the Continue pane.

    Parameters
    ----------
    message : str
        Why text cannot be generated; empty if it can.
    problem : str
        Why the last step failed, or a notice about the text that was used.
    step, last_step : int
        Number of generated tokens up to the current token, and on the whole branch.
    steps : int
        Number of tokens to generate in one run.
    """

    message: str = MODEL_REQUIRED
    problem: str = ""
    generation: GenerationPanel = field(default_factory=GenerationPanel)
    bars: NextTokenChoicePanel = field(default_factory=NextTokenChoicePanel)
    rows: HeadWeightRows | None = None
    step: int = 0
    last_step: int = 0
    steps: int = DEFAULT_STEPS

    @property
    def can_sample(self) -> bool:
        """Whether a token can be sampled now."""
        return not self.message and self.generation.can_sample

    @property
    def can_run(self) -> bool:
        """Whether generation can be started or stopped."""
        return not self.message and self.generation.can_run

    @property
    def can_use_as_text(self) -> bool:
        """Whether generated text can be used as the document's text."""
        return not self.message and self.step > 0 and not self.generation.is_running


class GenerationState(Struct, frozen=True, eq=False):
    """The state from which the contents of the pane are computed.

    Parameters
    ----------
    node_results : mapping
        Results of the forward passes by node of the tree.
    head : LayerAndHead or None
        The head of the rows.
    """

    message: str = MODEL_REQUIRED
    problem: str = ""
    tree: GenerationTree = field(default_factory=GenerationTree)
    node_results: Mapping[int, GenerationNodeResult] = {}
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    steps: int = DEFAULT_STEPS
    is_running: bool = False
    head: LayerAndHead | None = None


def present_model_generation(state: GenerationState) -> ModelGenerationPanel:
    """Return the contents of the Continue pane."""
    if state.message:
        return ModelGenerationPanel(state.message, steps=state.steps)
    tree, readings = state.tree, state.node_results
    reading = readings.get(tree.at)
    is_ended = bool(reading and reading.is_end)
    shown = present_generation(tree, state.is_running, is_readable=not is_ended)
    bars = reading.bars if reading else NextTokenChoicePanel(sampling=state.sampling)
    taken = tree.nodes[tree.following_nodes[0]].token if tree.following_nodes else None
    return ModelGenerationPanel(
        "",
        state.problem,
        replace(shown, status=_describe_cache(shown.status, reading)),
        replace(bars, sampling=state.sampling, next_on_branch=taken),
        _join_head_rows(state),
        len(tree.path),
        len(tree.path) + len(tree.following_nodes),
        state.steps,
    )


def _describe_cache(added: str, reading: GenerationNodeResult | None) -> str:
    if reading is None:
        return f"{added}. {RUNNING_MESSAGE}"
    size = format_size(reading.cache_bytes)
    cache = f"Cache: {size}, {format_count(reading.tokens, 'token')}."
    return f"{added}. {cache}" + (f" {TEXT_ENDED_MESSAGE}" if reading.is_end else "")


def _join_head_rows(state: GenerationState) -> HeadWeightRows | None:
    """Return the joined rows of the head, or None unless all of them are available."""
    nodes = (ROOT_NODE, *state.tree.path)
    if state.head is None or not all(node in state.node_results for node in nodes):
        return None
    layer, head = state.head
    found = [state.node_results[node].rows.get(layer) for node in nodes]
    rows = [each[head] for each in found if each is not None and head < len(each)]
    if len(rows) < len(nodes):
        return None
    words = label_split_characters(state.tree.tokens)
    labels = tuple(shorten(visible_token(word)) for word in words)
    given = len(state.tree.prompt)
    return HeadWeightRows(state.head, *_last_rows(rows, len(labels)), given, labels)


def _last_rows(rows: Sequence[np.ndarray], tokens: int) -> tuple[np.ndarray, int]:
    """Return the last rows [query, key] and the position of the first of them.

    With a sliding window, a block has fewer keys than the text; its last key is the token of its
    last query.
    """
    first = max(0, tokens - MAX_ROWS)
    matrix = np.full((tokens - first, tokens), np.nan, np.float32)
    end = 0
    for block in rows:
        start, end = end, end + len(block)
        for query in range(max(start, first), end):
            last = end - block.shape[1]  # position of the block's first key
            count = query + 1 - last
            matrix[query - first, last : query + 1] = block[query - start, :count]
    return matrix, first
