"""Generation steps that run on the worker thread; the first step imports torch."""

from __future__ import annotations

from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from visualizer.errors import InputError, convert_memory_error
from visualizer.generation.token_choice_presenter import NextTokenChoicePanel, present_next_tokens
from visualizer.language.sampling import sampling_probabilities
from visualizer.progress import CancelledError, cancel_when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from visualizer.generation.generation_tree import GenerationTree
    from visualizer.language.sampling import SamplingSettings
    from visualizer.models.kv_cache_generation import NextTokenPrediction, NextTokenPredictor
    from visualizer.models.model_client.remote_model import RemoteModel, RemoteNextTokenPredictor
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel

Step = TypeVar("Step")


class GenerationNodeResult(Struct, frozen=True, eq=False):
    """Result of the forward pass at a node of the generation tree.

    Parameters
    ----------
    rows : mapping
        Attention weights [head, query, key] by layer number in the model. At the root, the queries
        are all tokens of the given text; at any other node, the node's token is the only query.
    bars : NextTokenChoicePanel
        Probabilities of the next token.
    tokens, cache_bytes : int
        Number of tokens in the key/value cache, and its size in bytes.
    is_end : bool
        Whether the node's token is an end-of-text token.
    """

    rows: Mapping[int, np.ndarray]
    bars: NextTokenChoicePanel
    tokens: int
    cache_bytes: int
    is_end: bool = False

    @property
    def row_bytes(self) -> int:
        """Size of the attention rows in bytes."""
        return sum(each.nbytes for each in self.rows.values())


class GenerationStepResult(Struct, frozen=True, eq=False):
    """Result of a step: the tree, and the forward pass at the current node of the tree.

    Parameters
    ----------
    source : TextGenerator
        The text that was continued.
    before, tree : GenerationTree
        The tree before and after the step.
    """

    source: TextGenerator
    before: GenerationTree
    tree: GenerationTree
    result: GenerationNodeResult


class BranchText(Struct, frozen=True, eq=False):
    """The text up to the current node, which becomes the document's text.

    Parameters
    ----------
    is_split_alike : bool
        Whether the tokenizer splits the text into exactly the generated tokens.
    """

    source: TextGenerator
    text: str
    is_split_alike: bool


class RejectedStep(Struct, frozen=True, eq=False):
    """The error message of a step that was rejected."""

    source: TextGenerator
    sentence: str


class FailedStep(Struct, frozen=True, eq=False):
    """An unexpected exception raised by a step."""

    source: TextGenerator
    error: Exception


class TextGenerator:
    """A text that is being continued, with its model and key/value cache; not thread-safe.

    The parameters are those of `create_next_token_predictor`.
    """

    def __init__(
        self,
        model: OpenedModel | RemoteModel,
        text: str,
        factors: Mapping[LayerAndHead, float],
        is_chat: bool,
    ) -> None:
        self.model, self._text, self._factors = model, text, factors
        self._is_chat = is_chat
        self._is_closed = Event()

    def cancel(self) -> None:
        """Cancel the current step and all later steps, because the text is no longer shown."""
        self._is_closed.set()

    @cached_property
    def _incremental_decoder(self) -> NextTokenPredictor | RemoteNextTokenPredictor:
        from visualizer.attention.run import reserve_gui_core
        from visualizer.models.model_text_runs import create_next_token_predictor

        reserve_gui_core()
        return create_next_token_predictor(
            self.model, self._text, self._factors, is_chat=self._is_chat
        )

    def run_current_node(
        self, tree: GenerationTree, sampling: SamplingSettings
    ) -> GenerationStepResult:
        """Run the model on the text up to the current node.

        Raises
        ------
        InputError
            As in `NextTokenPredictor.predict`, or if `create_next_token_predictor` rejects the
            model.
        """
        reader = self._incremental_decoder
        if not tree.prompt:
            tree = tree.restart(reader.words)
        return self._run_node(tree, tree, sampling)

    def sample_token(
        self, before: GenerationTree, sampling: SamplingSettings
    ) -> GenerationStepResult:
        """Sample a token after the current node and run the model on this token."""
        reader = self._incremental_decoder
        reader.check_memory(len(before.path) + 1)
        logits = reader.predict(_token_ids(before)).logits
        drawable = sampling_probabilities(logits, sampling)
        tree = before.append_sampled_token(
            drawable, reader.vocabulary, sampling_probabilities(logits)
        )
        return self._run_node(before, tree, sampling)

    def pick_token(
        self, before: GenerationTree, token: int, sampling: SamplingSettings
    ) -> GenerationStepResult:
        """Append the token with the given id, or go to its branch, and run the model on it."""
        reader = self._incremental_decoder
        reader.check_memory(len(before.path) + 1)
        share = float(sampling_probabilities(reader.predict(_token_ids(before)).logits)[token])
        tree = before.append_picked_token(token, reader.vocabulary[token], share)
        return self._run_node(before, tree, sampling)

    def read_branch_text(self, tree: GenerationTree) -> BranchText:
        """Return the text up to the current node."""
        return BranchText(self, *self._incremental_decoder.continued_text(_token_ids(tree)))

    def run_step(self, step: Callable[[], Step]) -> Step | RejectedStep | FailedStep:
        """Run one of the steps above and return any error as a value."""
        try:
            with cancel_when(self._is_closed.is_set):
                return step()
        except CancelledError:
            return RejectedStep(self, "")  # ignored, because the text is no longer shown
        except Exception as error:  # noqa: BLE001 - reported on the GUI thread
            described = convert_memory_error(error)
            if isinstance(described, InputError):
                return RejectedStep(self, described.sentence)
            return FailedStep(self, error)

    def _run_node(
        self, before: GenerationTree, tree: GenerationTree, sampling: SamplingSettings
    ) -> GenerationStepResult:
        numbers = _token_ids(tree)
        read: NextTokenPrediction = self._incremental_decoder.predict(numbers)
        vocabulary = self._incremental_decoder.vocabulary
        reading = GenerationNodeResult(
            read.rows,
            present_next_tokens(tree.tokens, read.logits[None], vocabulary, sampling),
            read.tokens,
            read.cache_bytes,
            bool(numbers) and numbers[-1] in self._incremental_decoder.ends,
        )
        return GenerationStepResult(self, before, tree, reading)


def _token_ids(tree: GenerationTree) -> list[int]:
    return [tree.nodes[node].token for node in tree.path]
