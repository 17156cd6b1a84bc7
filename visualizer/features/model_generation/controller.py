"""Has the model that reads the text continue it, token by token, on a thread of its own."""

from __future__ import annotations

import traceback
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.features.model_generation.continued_text import (
    ContinuedText,
    FailedStep,
    NodeReading,
    RefusedStep,
    TextOfBranch,
)
from visualizer.features.model_generation.presenter import (
    MODEL_REQUIRED,
    SPLIT_CHANGED_NOTICE,
    USUAL_STEPS,
    GenerationState,
    ModelGenerationPanel,
    present_model_generation,
)
from visualizer.generation.generation_tree import ROOT, GenerationTree
from visualizer.language.sampling import Sampling
from visualizer.models.model_source import HeadEditKind
from visualizer.number_format import format_size
from visualizer.session.message_without_model_reading import why_unread
from visualizer.session.newest_request_worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from visualizer.attention.model_reading import ModelReading
    from visualizer.errors import InputError
    from visualizer.features.model_generation.continued_text import Continuation
    from visualizer.models.model_client.remote_model import RemoteModel
    from visualizer.models.model_source import LayerAndHead, ModelSource
    from visualizer.models.opened_model import OpenedModel
    from visualizer.session.workspace import Workspace

TOKEN_EDITS_ERROR = (
    "Edges that are cut, and heads that are patched or set to their mean, are of the tokens of the "
    "text. Take them back to have the model go on."
)
FAILED = "The model could not go on here."
MAX_ROW_BYTES = 2**29
"""The memory that the rows of all branches may take."""
TOO_LARGE = (
    "The rows that were read take {size}, and more are not kept. Start again, or use the text."
)


class ModelGenerationController(QObject):
    """Holds the tree of the text that the model continues; another text starts another tree."""

    changed = Signal()
    broke = Signal(str)
    """An unexpected exception: the whole traceback."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self.tree, self.sampling, self.steps = GenerationTree(), Sampling(), USUAL_STEPS
        self._readings: dict[int, NodeReading] = {}
        self._text: ContinuedText | None = None
        self._made_of: Hashable = None
        self._left = 0
        """How many tokens are still to be drawn."""
        self._picked: int | None = None
        """The token that is to be appended as soon as the thread is free."""
        self._is_text_wanted = False
        self._problem, self._is_refused = "", False
        self._used = ""
        """The text that was used last, if it is split into other tokens."""
        self._is_seen = False
        self._shown: tuple[object, ...] = ()
        workspace.changed.connect(self._follow)

    @cached_property
    def _worker(self) -> Worker:
        worker = Worker(self)
        worker.answered.connect(self._take)
        worker.failed.connect(self._refuse)
        return worker

    def close(self) -> None:
        """Draw nothing any more."""
        self._left = 0
        text, self._text = self._text, None
        if text:
            text.leave()
        if "_worker" in self.__dict__:
            self._worker.leave()

    @property
    def is_running(self) -> bool:
        """Whether several tokens are being drawn."""
        return self._left > 0

    @cached_property
    def panel(self) -> ModelGenerationPanel:
        """What the pane shows."""
        return present_model_generation(
            GenerationState(
                self._message,
                self._problem,
                self.tree,
                self._readings,
                self.sampling,
                self.steps,
                self.is_running,
                self._head,
            )
        )

    # ------------------------------------------------------------------ what is continued

    @property
    def _reading(self) -> ModelReading | None:
        """The model's reading of the document as it is now; None where there is none yet."""
        run, document = self._workspace.run, self._workspace.document
        reading = run.reading if run else None
        spec = document.spec
        wanted = (document.model, document.text, spec.device, spec.dtype)
        return reading if reading and reading.made_of == wanted else None

    @property
    def _message(self) -> str:
        model, reading = self._workspace.document.model, self._reading
        if model is None:
            return MODEL_REQUIRED
        if reading is not None:
            return reading.no_next_token or (TOKEN_EDITS_ERROR if _are_of_the_text(model) else "")
        return why_unread(self._workspace.document, self._workspace.complaint)

    @property
    def _head(self) -> LayerAndHead | None:
        """The first head that the board shows, or that of the pinned cell."""
        resolved, reading = self._workspace.screen.resolved, self._reading
        if resolved is None or reading is None or not resolved.heads:
            return None
        pinned = resolved.pinned
        is_pinned = len(resolved.heads) > 1 and pinned and pinned.head is not None
        head = pinned.head if is_pinned and pinned else resolved.heads[0]
        layer = reading.layers[resolved.run.trace.at("layer", resolved.leading)]
        return (layer, cast("int", head))

    def _follow(self) -> None:
        """Start another tree where another text is read, or by another model."""
        reading = self._reading
        made_of = reading.made_of if reading and not self._message else None
        if made_of != self._made_of:
            self._made_of = made_of
            self._begin(reading if made_of is not None else None)
        elif reading and self._text and self._text.model is not reading.model:
            self._problem = ""
            self._take_text(reading)  # of the model as it was connected again
        self._is_seen = "Continue" in self._workspace.view.panes
        self._tell_changes()
        self._go_on()

    def _begin(self, reading: ModelReading | None) -> None:
        self._left, self._picked, self._is_text_wanted = 0, None, False
        self.tree, self._readings = GenerationTree(seed=self.tree.seed), {}
        text = self._workspace.document.text
        self._problem = SPLIT_CHANGED_NOTICE if reading and text == self._used else ""
        self._take_text(reading)

    def _take_text(self, reading: ModelReading | None) -> None:
        """Continue the document's text with the model that has read it; nothing without one."""
        text, self._is_refused = self._workspace.document.text, False
        before, self._text = self._text, None
        source = self._workspace.document.model
        if reading and source:
            model = cast("OpenedModel | RemoteModel", reading.model)
            factors = {edit.place: edit.factor for edit in source.edits}  # 0 of one that is off
            self._text = ContinuedText(model, text, factors, source.is_chat)
        if before is not None:
            before.leave()
            self._worker.discard([before])  # with its cache of keys and values

    def _tell_changes(self) -> None:
        """Say that something has changed, unless only another part of the window has."""
        shown = (self._made_of, self._message, self._head, self.tree, len(self._readings))
        if shown != self._shown:
            self._shown = shown
            self._tell()

    def _tell(self) -> None:
        self.__dict__.pop("panel", None)
        self.changed.emit()

    # ------------------------------------------------------------------ the thread

    def _go_on(self) -> None:
        """Ask for what is wanted next, unless the thread is at work."""
        text, tree = self._text, self.tree
        if text is None or self._worker.is_working or self._workspace.is_working:
            return
        is_needed = self._is_seen or self._left or self._picked is not None
        if tree.at not in self._readings and is_needed:
            self._read(text)
        elif self._picked is not None:
            picked, self._picked = self._picked, None
            self._ask(text, partial(text.pick, tree, picked, self.sampling))
        elif self._is_text_wanted:
            self._is_text_wanted = False
            self._ask(text, partial(text.text_of, tree))
        elif self._left:
            self._ask(text, partial(text.draw, tree, self.sampling))
        elif self._is_seen and self._readings[tree.at].bars.sampling != self.sampling:
            self._read(text)

    def _read(self, text: ContinuedText) -> None:
        if not self._is_refused:  # it would be refused again
            self._ask(text, partial(text.read, self.tree, self.sampling))

    def _ask(self, text: ContinuedText, step: Callable[[], Continuation | TextOfBranch]) -> None:
        self._worker.ask(partial(text.attempt, step))

    def _take(self, answer: Continuation | TextOfBranch | RefusedStep | FailedStep) -> None:
        if isinstance(answer, FailedStep):
            self.broke.emit("".join(traceback.format_exception(answer.error)))
        if answer.of is not self._text:
            pass  # of an earlier text
        elif isinstance(answer, FailedStep):
            self._stop(FAILED)
        elif isinstance(answer, RefusedStep):
            self._stop(answer.sentence)
        elif isinstance(answer, TextOfBranch):
            self._use(answer)
        else:
            self._step(answer)
        self._go_on()

    def _refuse(self, refused: InputError) -> None:
        """Say that nothing can be done: the system makes no more threads."""
        self._stop(refused.sentence)

    def _step(self, answer: Continuation) -> None:
        """Take the tree after a step, unless another place has been gone to meanwhile."""
        is_same = answer.before is self.tree or not self.tree.prompt
        if is_same:
            is_drawn = answer.tree.draws > answer.before.draws
            self.tree = replace(answer.tree, seed=self.tree.seed)
            self._left = max(0, self._left - is_drawn)
            self._readings[self.tree.at] = answer.reading
            if answer.reading.is_end:
                self._left = 0
            self._check_memory()
        self._tell()

    def _check_memory(self) -> None:
        size = sum(each.row_bytes for each in self._readings.values())
        if size > MAX_ROW_BYTES:
            self._left = 0
            self._problem = TOO_LARGE.format(size=format_size(size))

    def _stop(self, problem: str) -> None:
        self._left, self._picked, self._is_text_wanted = 0, None, False
        self._problem, self._is_refused = problem, True
        self._tell()

    # ------------------------------------------------------------------ intents

    def sample(self) -> None:
        """Draw one token."""
        self._draw(1)

    def run(self, is_on: bool) -> None:
        """Start to draw as many tokens as are wanted, or stop."""
        self._draw(self.steps if is_on else 0)

    def toggle(self) -> None:
        """Start, or stop."""
        self.run(not self.is_running)

    def _draw(self, count: int) -> None:
        reading = self._readings.get(self.tree.at)
        is_ended = reading is not None and reading.is_end
        self._left = 0 if is_ended or self._text is None else count
        self._problem, self._is_refused = "", False
        self._tell()
        self._go_on()

    def pick(self, token: int) -> None:
        """Append a token by its number, or go to the branch that has it."""
        self._left, self._picked = 0, token
        self._problem, self._is_refused = "", False
        self._tell()
        self._go_on()

    def step_back(self) -> None:
        """Go to the token before."""
        self._stay(self.tree.stepped_back())

    def step_on(self) -> None:
        """Go to the token after, of the branch that was added last."""
        self._stay(self.tree.stepped_on())

    def turn(self, by: int = 1) -> None:
        """Go to another token that was tried in this place."""
        self._stay(self.tree.turned(by))

    def go(self, node: int) -> None:
        """Go to any token that was generated, or to the end of the text."""
        self._stay(self.tree.gone_to(node))

    def go_to_step(self, step: int) -> None:
        """Go to a token of the present branch by its number, from 0 for the text's end."""
        line = (ROOT, *self.tree.path, *self.tree.ahead)
        self._stay(self.tree.gone_to(line[min(step, len(line) - 1)]))

    def _stay(self, tree: GenerationTree) -> None:
        self._left, self._picked = 0, None
        self._problem, self._is_refused = "", False
        self.tree = tree
        self._tell()
        self._go_on()

    def start_again(self) -> None:
        """Leave all that was generated."""
        readings = self._readings
        self._readings = {ROOT: readings.pop(ROOT)} if ROOT in readings else {}
        self._stay(self.tree.begun(self.tree.prompt))

    def reseed(self, seed: int) -> None:
        """Change the seed of what is drawn."""
        self.tree = self.tree.reseeded(seed)
        self._tell()

    def choose(self, sampling: Sampling) -> None:
        """Change temperature, top-k or top-p."""
        self.sampling, self._is_refused = sampling, False  # what was read so far is asked again
        self._tell()
        self._go_on()

    def set_steps(self, steps: int) -> None:
        """Change how many tokens are drawn together."""
        self.steps = steps
        self._tell()

    def toggle_chat(self) -> None:
        """Give the text as a user's message, or as it is."""
        model = self._workspace.document.model
        if model:
            self._workspace.seal()
            self._workspace.set("model", replace(model, is_chat=not model.is_chat))

    def use(self) -> None:
        """Use the text up to the current token as the document's."""
        self._left, self._is_text_wanted = 0, self.panel.can_use
        self._go_on()

    def _use(self, branch: TextOfBranch) -> None:
        document = self._workspace.document
        if document.model and self._reading is not None:  # else it was edited in the meantime
            self._used = "" if branch.is_split_alike else branch.text
            model = replace(document.model, is_chat=False)  # the template's words are in the text
            used = document.set("text", branch.text).set("model", model)
            self._workspace.show_document(used, self._workspace.wanted)


def _are_of_the_text(model: ModelSource) -> bool:
    """Whether something is edited that tokens after the text would not have."""
    kinds = {edit.kind for edit in model.edits}
    return bool(model.cuts or kinds - {HeadEditKind.OFF, HeadEditKind.SCALED})
