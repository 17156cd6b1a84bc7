"""Controls text generation: picking, sampling, stepping back and on, and switching branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from visualizer.lab.generation.model import GenerationTree, begun
from visualizer.language.sampling import Sampling, probabilities
from visualizer.language.tokenizers import Vocabulary, tokenize

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.lab.attention_view.probe_controller import ProbeController
    from visualizer.lab.attention_view.probe_reading import ProbeReading
    from visualizer.lab.lab_controller import LabController


class GenerationController(QObject):
    """Holds the generation tree; its text is the probe, which grows by each token.

    Typing another probe starts another tree.
    """

    changed = Signal()

    def __init__(self, lab: LabController, puller: ProbeController) -> None:
        super().__init__(lab)
        self._lab, self._puller = lab, puller
        self.story, self.sampling = GenerationTree(), Sampling()
        self.is_running = False
        self._is_wanted = False
        """Whether to draw a token as soon as the next reading arrives."""
        self._folder: Path | None = None
        lab.changed.connect(self._follow)
        puller.changed.connect(self._go_on)

    @property
    def reading(self) -> ProbeReading | None:
        """The reading of the text up to the current node; None while it is pending."""
        is_of_this = self._puller.text == self._lab.view.probe
        return self._puller.reading if is_of_this else None

    @property
    def can_draw(self) -> bool:
        """Whether there is a text to continue."""
        return bool(self.story.tokens) and not self._puller.refused

    def _vocabulary(self) -> Vocabulary:
        run = self._lab.run
        return Vocabulary(run.tokens if run else (), self._lab.settings.source.tokenizer)

    def _follow(self) -> None:
        """Start another tree where the probe or the run has changed."""
        folder = self._lab.run.folder if self._lab.run else None
        if folder != self._folder:
            self._folder, self.story, self.sampling = folder, GenerationTree(), Sampling()
        tokens = tokenize(self._lab.view.probe, self._lab.settings.source.tokenizer)
        if tokens != self.story.tokens:
            self.story, self.is_running = begun(tokens, self.story.seed), False
            self._is_wanted = False
            self.changed.emit()

    def _tell(self, story: GenerationTree) -> None:
        if story is not self.story:
            self.story = story
            self.changed.emit()
            self._lab.probe(self._vocabulary().write(story.tokens))

    def _go_on(self) -> None:
        if self.is_running and self._puller.refused:
            self.run(False)
        elif self.is_running or self._is_wanted:
            self.sample()

    # ------------------------------------------------------------------ intents

    def pick(self, token: int) -> None:
        reading, vocabulary = self.reading, self._vocabulary()
        if reading and token < len(vocabulary):
            share = float(probabilities(reading.logits[-1])[token])
            self._tell(self.story.picked(token, vocabulary.tokens[token], share))

    def sample(self) -> None:
        """Append a sampled token, now or once the reading arrives."""
        reading, sampling = self.reading, self.sampling
        self._is_wanted = reading is None and self.can_draw
        if reading and self.can_draw:
            last = reading.logits[-1]
            chosen = probabilities(last, sampling.temperature, sampling.top_k, sampling.top_p)
            tokens = self._vocabulary().tokens
            self._tell(self.story.drawn(chosen, tokens, probabilities(last)))

    def run(self, is_on: bool) -> None:
        """Start or stop continuous sampling."""
        self.is_running, self._is_wanted = is_on and self.can_draw, False
        self.changed.emit()
        if self.is_running:
            self.sample()

    def toggle(self) -> None:
        self.run(not self.is_running)

    def step_back(self) -> None:
        """Go to the parent node."""
        self._stay(self.story.stepped_back())

    def step_on(self) -> None:
        """Go to the child that was added last."""
        self._stay(self.story.stepped_on())

    def turn(self, by: int = 1) -> None:
        """Go to a sibling node."""
        self._stay(self.story.turned(by))

    def go(self, node: int) -> None:
        self._stay(self.story.gone_to(node))

    def _stay(self, story: GenerationTree) -> None:
        self.is_running = self._is_wanted = False
        self._tell(story)

    def reseed(self, seed: int) -> None:
        self.story = self.story.reseeded(seed)
        self.changed.emit()

    def choose(self, sampling: Sampling) -> None:
        """Change the sampling settings."""
        self.sampling = sampling
        self.changed.emit()
