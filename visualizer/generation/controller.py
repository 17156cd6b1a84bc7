"""Controls text generation: sampling and picking tokens, and moving through the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.generation.generation_tree import GenerationTree
from visualizer.language.sampling import SamplingSettings

if TYPE_CHECKING:
    from visualizer.generation.generated_tokens_widget import GenerationPane
    from visualizer.generation.token_choice_widget import NextTokenChoicePane


class GenerationController(QObject):
    """Controller of the tree of generated tokens; a subclass runs the model."""

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.tree, self.sampling = GenerationTree(), SamplingSettings()

    def connect_panes(self, next_tokens: NextTokenChoicePane, generated: GenerationPane) -> None:
        """Connect the signals of the panes to this controller."""
        next_tokens.tokenChosen.connect(self.pick_token)
        next_tokens.samplingChosen.connect(self.set_sampling)
        generated.sampleRequested.connect(self.sample_token)
        generated.runToggled.connect(self.set_running)
        generated.steppedBackward.connect(self.step_back)
        generated.steppedForward.connect(self.step_forward)
        generated.branchSwitched.connect(self.switch_branch)
        generated.nodeChosen.connect(self.go_to_node)
        generated.seedChosen.connect(self.set_seed)

    # ------------------------------------------------------------------ defined by subclasses

    @property
    def is_running(self) -> bool:
        """Whether tokens are being generated."""
        raise NotImplementedError

    def sample_token(self) -> None:
        """Append one sampled token."""
        raise NotImplementedError

    def set_running(self, is_on: bool) -> None:
        """Start or stop generating tokens."""
        raise NotImplementedError

    def pick_token(self, token: int) -> None:
        """Append the token with the given id, or go to the branch that already contains it."""
        raise NotImplementedError

    def _show_tree(self, tree: GenerationTree) -> None:
        """Stop generating, and show a tree in which another node may be current."""
        raise NotImplementedError

    def _notify_listeners(self) -> None:
        self.changed.emit()

    # ------------------------------------------------------------------ intents

    def toggle_generation(self) -> None:
        """Start or stop generating."""
        self.set_running(not self.is_running)

    def step_back(self) -> None:
        """Go to the previous token."""
        self._show_tree(self.tree.step_back())

    def step_forward(self) -> None:
        """Go to the next token of the newest branch."""
        self._show_tree(self.tree.step_forward())

    def switch_branch(self, by: int = 1) -> None:
        """Go to a sibling of the current token."""
        self._show_tree(self.tree.go_to_sibling(by))

    def go_to_node(self, node: int) -> None:
        """Go to a generated token, or to the end of the prompt."""
        self._show_tree(self.tree.go_to_node(node))

    def set_seed(self, seed: int) -> None:
        """Change the sampling seed."""
        self.tree = self.tree.with_seed(seed)
        self._notify_listeners()

    def set_sampling(self, sampling: SamplingSettings) -> None:
        """Change temperature, top-k or top-p."""
        self.sampling = sampling
        self._notify_listeners()
