"""Controls text generation that continues the probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.generation.controller import GenerationController
from visualizer.generation.generation_tree import GenerationTree
from visualizer.language.sampling import SamplingSettings, sampling_probabilities
from visualizer.language.tokenizers import Vocabulary, tokenize

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.lab.attention_view.probe_controller import ProbeController
    from visualizer.lab.attention_view.probe_result import ProbeResult
    from visualizer.lab.controller import LabStateController


class LabGenerationController(GenerationController):
    """Holds the generation tree; each token that is added to it extends the probe.

    Entering another probe starts another tree.
    """

    def __init__(self, lab: LabStateController, probe_controller: ProbeController) -> None:
        super().__init__(lab)
        self._lab, self._probe_controller = lab, probe_controller
        self._is_running = False
        self._is_sample_pending = False
        """Whether a token is sampled as soon as the next result arrives."""
        self._folder: Path | None = None
        lab.changed.connect(self._on_lab_changed)
        probe_controller.changed.connect(self._on_result)

    @property
    def result(self) -> ProbeResult | None:
        """The result for the text up to the current node; None while it is pending."""
        is_of_this = self._probe_controller.text == self._lab.view.probe
        return self._probe_controller.result if is_of_this else None

    @property
    def is_running(self) -> bool:
        return self._is_running

    @property
    def can_sample(self) -> bool:
        """Whether there is a text to continue."""
        return bool(self.tree.tokens) and not self._probe_controller.refusal_reason

    def _current_vocabulary(self) -> Vocabulary:
        run = self._lab.run
        return Vocabulary(run.tokens if run else (), self._lab.settings.source.effective_tokenizer)

    def _on_lab_changed(self) -> None:
        """Start another tree if the probe or the run has changed."""
        folder = self._lab.run.folder if self._lab.run else None
        if folder != self._folder:
            self._folder, self.tree, self.sampling = folder, GenerationTree(), SamplingSettings()
        tokens = tokenize(self._lab.view.probe, self._lab.settings.source.effective_tokenizer)
        if tokens != self.tree.tokens:
            self.tree, self._is_running = self.tree.restart(tokens), False
            self._is_sample_pending = False
            self.changed.emit()

    def _set_tree(self, tree: GenerationTree) -> None:
        if tree is not self.tree:
            self.tree = tree
            self.changed.emit()
            self._lab.set_probe(self._current_vocabulary().join_tokens(tree.tokens))

    def _on_result(self) -> None:
        if self._is_running and self._probe_controller.refusal_reason:
            self.set_running(False)
        elif self._is_running or self._is_sample_pending:
            self.sample_token()

    # ------------------------------------------------------------------ intents

    def pick_token(self, token: int) -> None:
        result, vocabulary = self.result, self._current_vocabulary()
        if result and token < len(vocabulary):
            share = float(sampling_probabilities(result.logits[-1])[token])
            self._set_tree(self.tree.append_picked_token(token, vocabulary.tokens[token], share))

    def sample_token(self) -> None:
        """Append a sampled token, now or when the result arrives."""
        result, sampling = self.result, self.sampling
        self._is_sample_pending = result is None and self.can_sample
        if self._is_sample_pending:
            self._probe_controller.request_result()
        if result and self.can_sample:
            last = result.logits[-1]
            chosen = sampling_probabilities(last, sampling)
            tokens = self._current_vocabulary().tokens
            self._set_tree(
                self.tree.append_sampled_token(chosen, tokens, sampling_probabilities(last))
            )

    def set_running(self, is_on: bool) -> None:
        """Start or stop continuous sampling."""
        self._is_running, self._is_sample_pending = is_on and self.can_sample, False
        self.changed.emit()
        if self._is_running:
            self.sample_token()

    def _show_tree(self, tree: GenerationTree) -> None:
        self._is_running = self._is_sample_pending = False
        if tree is self.tree:  # at the prompt, only the running state changes
            self.changed.emit()
        self._set_tree(tree)
