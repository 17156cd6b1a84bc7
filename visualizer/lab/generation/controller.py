"""Controls text generation: picking, sampling, stepping and switching branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.generation.generation_tree import GenerationTree, new_generation_tree
from visualizer.language.sampling import Sampling, probabilities
from visualizer.language.tokenizers import Vocabulary, tokenize

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.lab.attention_view.probe_controller import ProbeController
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.lab.controller import LabStateController


class GenerationController(QObject):
    """Holds the generation tree; its text is the probe, which grows with each token.

    Typing another probe starts another tree.
    """

    changed = Signal()

    def __init__(self, lab: LabStateController, probe_controller: ProbeController) -> None:
        super().__init__(lab)
        self._lab, self._probe_controller = lab, probe_controller
        self.tree, self.sampling = GenerationTree(), Sampling()
        self.is_running = False
        self._is_sample_pending = False
        """Whether to sample a token as soon as the next result arrives."""
        self._folder: Path | None = None
        lab.changed.connect(self._on_lab_changed)
        probe_controller.changed.connect(self._on_result)

    @property
    def result(self) -> ProbeResult | None:
        """Result for the text up to the current node; None while it is pending."""
        is_of_this = self._probe_controller.text == self._lab.view.probe
        return self._probe_controller.result if is_of_this else None

    @property
    def can_draw(self) -> bool:
        """Whether there is a text to continue."""
        return bool(self.tree.tokens) and not self._probe_controller.refused

    def _current_vocabulary(self) -> Vocabulary:
        run = self._lab.run
        return Vocabulary(run.tokens if run else (), self._lab.settings.source.effective_tokenizer)

    def _on_lab_changed(self) -> None:
        """Start another tree if the probe or the run has changed."""
        folder = self._lab.run.folder if self._lab.run else None
        if folder != self._folder:
            self._folder, self.tree, self.sampling = folder, GenerationTree(), Sampling()
        tokens = tokenize(self._lab.view.probe, self._lab.settings.source.effective_tokenizer)
        if tokens != self.tree.tokens:
            self.tree, self.is_running = new_generation_tree(tokens, self.tree.seed), False
            self._is_sample_pending = False
            self.changed.emit()

    def _set_tree(self, tree: GenerationTree) -> None:
        if tree is not self.tree:
            self.tree = tree
            self.changed.emit()
            self._lab.probe(self._current_vocabulary().write(tree.tokens))

    def _on_result(self) -> None:
        if self.is_running and self._probe_controller.refused:
            self.run(False)
        elif self.is_running or self._is_sample_pending:
            self.sample()

    # ------------------------------------------------------------------ intents

    def pick(self, token: int) -> None:
        result, vocabulary = self.result, self._current_vocabulary()
        if result and token < len(vocabulary):
            share = float(probabilities(result.logits[-1])[token])
            self._set_tree(self.tree.picked(token, vocabulary.tokens[token], share))

    def sample(self) -> None:
        """Append a sampled token, now or when the result arrives."""
        result, sampling = self.result, self.sampling
        self._is_sample_pending = result is None and self.can_draw
        if self._is_sample_pending:
            self._probe_controller.want()
        if result and self.can_draw:
            last = result.logits[-1]
            chosen = probabilities(last, sampling.temperature, sampling.top_k, sampling.top_p)
            tokens = self._current_vocabulary().tokens
            self._set_tree(self.tree.drawn(chosen, tokens, probabilities(last)))

    def run(self, is_on: bool) -> None:
        """Start or stop continuous sampling."""
        self.is_running, self._is_sample_pending = is_on and self.can_draw, False
        self.changed.emit()
        if self.is_running:
            self.sample()

    def toggle(self) -> None:
        self.run(not self.is_running)

    def step_back(self) -> None:
        """Go to the parent node."""
        self._go_to(self.tree.stepped_back())

    def step_forward(self) -> None:
        """Go to the child that was added last."""
        self._go_to(self.tree.stepped_on())

    def switch_branch(self, by: int = 1) -> None:
        """Go to a sibling node."""
        self._go_to(self.tree.turned(by))

    def go(self, node: int) -> None:
        self._go_to(self.tree.gone_to(node))

    def _go_to(self, tree: GenerationTree) -> None:
        self.is_running = self._is_sample_pending = False
        self._set_tree(tree)

    def reseed(self, seed: int) -> None:
        self.tree = self.tree.reseeded(seed)
        self.changed.emit()

    def choose(self, sampling: Sampling) -> None:
        """Change the sampling settings."""
        self.sampling = sampling
        self.changed.emit()
