"""A text that a model continues, as the thread that reads it sees it. It loads torch when used."""

from __future__ import annotations

from functools import cached_property
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from visualizer.errors import InputError, memory_error_in_words
from visualizer.generation.next_tokens_presenter import NextTokensPanel, present_bars
from visualizer.language.sampling import probabilities
from visualizer.progress_callback import CancelledError, stopped_when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from visualizer.generation.generation_tree import GenerationTree
    from visualizer.language.sampling import Sampling
    from visualizer.models.generation_with_cache import ReadToken, TokenReader
    from visualizer.models.model_client.remote_model import RemoteModel, RemoteTokenReader
    from visualizer.models.model_source import LayerAndHead
    from visualizer.models.opened_model import OpenedModel

Step = TypeVar("Step")


class NodeReading(Struct, frozen=True, eq=False):
    """What was read at a node of the tree.

    Parameters
    ----------
    rows : mapping
        For each layer by its number in the model, [head, query, key]: of all tokens of the text at
        the root, and of the node's own token elsewhere.
    bars : NextTokensPanel
        What may come next.
    tokens, cache_bytes : int
        How many tokens the cache of keys and values held, and its memory.
    is_end : bool
        Whether the node's token ends the text.
    """

    rows: Mapping[int, np.ndarray]
    bars: NextTokensPanel
    tokens: int
    cache_bytes: int
    is_end: bool = False

    @property
    def row_bytes(self) -> int:
        """The memory of its rows."""
        return sum(each.nbytes for each in self.rows.values())


class Continuation(Struct, frozen=True, eq=False):
    """The tree after a step, and what was read at its current node.

    Parameters
    ----------
    of : ContinuedText
        The text that was continued.
    before, tree : GenerationTree
        The tree before and after.
    """

    of: ContinuedText
    before: GenerationTree
    tree: GenerationTree
    reading: NodeReading


class TextOfBranch(Struct, frozen=True, eq=False):
    """The text up to the current node, to be used as the document's.

    Parameters
    ----------
    is_split_alike : bool
        Whether the tokenizer splits it into the tokens that were generated.
    """

    of: ContinuedText
    text: str
    is_split_alike: bool


class RefusedStep(Struct, frozen=True, eq=False):
    """Why a step could not be done, as a sentence."""

    of: ContinuedText
    sentence: str


class FailedStep(Struct, frozen=True, eq=False):
    """The unexpected exception of a step."""

    of: ContinuedText
    error: Exception


class ContinuedText:
    """A text, its model, and the cache of what was read; its methods run on one thread at a time.

    Its parameters are those of `token_reader_of`.
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
        self._is_left = Event()

    def leave(self) -> None:
        """Stop what is done, and do nothing any more: nobody looks at the text."""
        self._is_left.set()

    @cached_property
    def _reader(self) -> TokenReader | RemoteTokenReader:
        from visualizer.attention.run import leave_core_to_window
        from visualizer.models.token_reader_of_model import token_reader_of

        leave_core_to_window()
        return token_reader_of(self.model, self._text, self._factors, is_chat=self._is_chat)

    def read(self, tree: GenerationTree, sampling: Sampling) -> Continuation:
        """Read up to the current node.

        Raises
        ------
        InputError
            As `TokenReader.read` does, and of a model that it refuses.
        """
        reader = self._reader
        if not tree.prompt:
            tree = tree.begun(reader.words)
        return self._reached(tree, tree, sampling)

    def draw(self, before: GenerationTree, sampling: Sampling) -> Continuation:
        """Draw a token after the current node, and read it."""
        reader = self._reader
        reader.check_memory(len(before.path) + 1)
        logits = reader.read(_numbers(before)).logits
        drawable = probabilities(logits, sampling.temperature, sampling.top_k, sampling.top_p)
        tree = before.drawn(drawable, reader.vocabulary, probabilities(logits))
        return self._reached(before, tree, sampling)

    def pick(self, before: GenerationTree, token: int, sampling: Sampling) -> Continuation:
        """Append a token by its number, or go to the branch that has it, and read it."""
        reader = self._reader
        reader.check_memory(len(before.path) + 1)
        share = float(probabilities(reader.read(_numbers(before)).logits)[token])
        tree = before.picked(token, reader.vocabulary[token], share)
        return self._reached(before, tree, sampling)

    def text_of(self, tree: GenerationTree) -> TextOfBranch:
        """Return the text up to the current node."""
        return TextOfBranch(self, *self._reader.continued_text(_numbers(tree)))

    def attempt(self, step: Callable[[], Step]) -> Step | RefusedStep | FailedStep:
        """Do one of the steps above; what is refused, or fails, is a result of its own."""
        try:
            with stopped_when(self._is_left.is_set):
                return step()
        except CancelledError:
            return RefusedStep(self, "")  # which nobody looks at
        except Exception as error:  # noqa: BLE001 - handed to the GUI thread
            said = memory_error_in_words(error)
            if isinstance(said, InputError):
                return RefusedStep(self, said.sentence)
            return FailedStep(self, error)

    def _reached(
        self, before: GenerationTree, tree: GenerationTree, sampling: Sampling
    ) -> Continuation:
        numbers = _numbers(tree)
        read: ReadToken = self._reader.read(numbers)
        vocabulary = self._reader.vocabulary
        reading = NodeReading(
            read.rows,
            present_bars(tree.tokens, read.logits[None], vocabulary, sampling),
            read.tokens,
            read.cache_bytes,
            bool(numbers) and numbers[-1] in self._reader.ends,
        )
        return Continuation(self, before, tree, reading)


def _numbers(tree: GenerationTree) -> list[int]:
    return [tree.nodes[node].token for node in tree.path]
