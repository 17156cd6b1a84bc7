"""Controller of the Continue pane: generates tokens with the open model on a worker thread."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace
from PySide6.QtCore import QObject, Signal

from visualizer.features.model_generation.presenter import (
    DEFAULT_STEPS,
    MODEL_REQUIRED,
    SPLIT_CHANGED_NOTICE,
    GenerationState,
    ModelGenerationPanel,
    present_model_generation,
)
from visualizer.features.model_generation.text_generator import (
    BranchText,
    FailedStep,
    GenerationNodeResult,
    RejectedStep,
    TextGenerator,
)
from visualizer.format import format_size
from visualizer.generation.controller import GenerationController
from visualizer.generation.generation_tree import ROOT_NODE, GenerationTree
from visualizer.models.model_source import HeadEditKind
from visualizer.session.model_pane_options import no_forward_pass_reason
from visualizer.session.newest_request_worker import NewestRequestWorker
from visualizer.storage.log_file import log_unexpected_error

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from visualizer.attention.model_forward_pass import ModelForwardPass
    from visualizer.errors import InputError
    from visualizer.features.model_generation.text_generator import GenerationStepResult
    from visualizer.language.sampling import SamplingSettings
    from visualizer.models.model_client.remote_model import RemoteModel
    from visualizer.models.model_source import LayerAndHead, ModelSource
    from visualizer.models.opened_model import OpenedModel
    from visualizer.session.workspace import Workspace

TOKEN_EDITS_ERROR = (
    "Cut edges, patched heads and mean-ablated heads apply to the current tokens only. Undo "
    "these edits to generate text."
)
GENERATION_FAILED_MESSAGE = "Generation failed at this token."
MAX_ROW_BYTES = 2**29
"""Maximum size, in bytes, of the attention rows that are stored for all branches."""
TOO_MANY_ROWS_ERROR = (
    "The stored attention rows have reached the limit of {size}. Start over, or use the generated "
    "text."
)


class ModelGenerationController(GenerationController):
    """Controller of the generation tree of the current text; a new text starts a new tree."""

    failed = Signal(str)
    """Emitted with the full traceback of an unexpected exception."""

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self.steps = DEFAULT_STEPS
        self.node_results: dict[int, GenerationNodeResult] = {}
        self.text_generator: TextGenerator | None = None
        self._tree_source: Hashable = None
        self._remaining = 0
        """Number of tokens still to be sampled."""
        self.picked: int | None = None
        """Id of the token to append as soon as the worker is free."""
        self._is_use_requested = False
        self._problem, self._is_refused = "", False
        self._used = ""
        """The last text that was used as the document's text, if the tokenizer splits it
        differently."""
        self._is_seen = False
        self._shown: tuple[object, ...] = ()
        workspace.changed.connect(self._on_workspace_changed)

    @cached_property
    def _worker(self) -> NewestRequestWorker:
        worker = NewestRequestWorker(self)
        worker.answered.connect(self._handle_answer)
        worker.failed.connect(self._handle_thread_failure)
        return worker

    def close(self) -> None:
        """Stop generating and release the worker."""
        self._remaining = 0
        text, self.text_generator = self.text_generator, None
        if text:
            text.cancel()
        if "_worker" in self.__dict__:
            self._worker.abandon()

    @property
    def is_running(self) -> bool:
        return self._remaining > 0

    @cached_property
    def panel(self) -> ModelGenerationPanel:
        """Contents of the pane."""
        return present_model_generation(
            GenerationState(
                self._unavailable_message,
                self._problem,
                self.tree,
                self.node_results,
                self.sampling,
                self.steps,
                self.is_running,
                self._shown_head,
            )
        )

    # ------------------------------------------------------------------ text and model

    @property
    def _current_forward_pass(self) -> ModelForwardPass | None:
        """The forward pass of the current document, or None if it is not finished yet."""
        run, document = self._workspace.run, self._workspace.document
        reading = run.reading if run else None
        spec = document.spec
        wanted = (document.model, document.text, spec.device, spec.dtype)
        return reading if reading and reading.made_of == wanted else None

    @property
    def _unavailable_message(self) -> str:
        model, reading = self._workspace.document.model, self._current_forward_pass
        if model is None:
            return MODEL_REQUIRED
        if reading is not None:
            return reading.no_next_token or (TOKEN_EDITS_ERROR if _has_token_edits(model) else "")
        return no_forward_pass_reason(self._workspace.document, self._workspace.input_error)

    @property
    def _shown_head(self) -> LayerAndHead | None:
        """The head of the pinned cell or, if no cell is pinned, the first visible head."""
        resolved = self._workspace.screen.resolved
        if resolved is None or self._current_forward_pass is None or not resolved.heads:
            return None
        return resolved.layer_number, resolved.target_heads[0]

    def _on_workspace_changed(self) -> None:
        """Start a new tree if the text or the model has changed."""
        reading = self._current_forward_pass
        made_of = reading.made_of if reading and not self._unavailable_message else None
        if made_of != self._tree_source:
            self._tree_source = made_of
            self._start_tree(reading if made_of is not None else None)
        elif reading and self.text_generator and self.text_generator.model is not reading.model:
            self._problem = ""
            self._set_text(reading)  # the model has been reconnected
        self._is_seen = "Continue" in self._workspace.view.panes
        self._notify_if_changed()
        self._run_next_step()

    def _start_tree(self, reading: ModelForwardPass | None) -> None:
        self._remaining, self.picked, self._is_use_requested = 0, None, False
        self.tree, self.node_results = self.tree.restart(()), {}
        text = self._workspace.document.text
        self._problem = SPLIT_CHANGED_NOTICE if reading and text == self._used else ""
        self._set_text(reading)

    def _set_text(self, reading: ModelForwardPass | None) -> None:
        """Set the text to continue; without a forward pass, no text can be continued."""
        text, self._is_refused = self._workspace.document.text, False
        before, self.text_generator = self.text_generator, None
        source = self._workspace.document.model
        if reading and source:
            model = cast("OpenedModel | RemoteModel", reading.model)
            factors = {
                edit.layer_and_head: edit.factor for edit in source.edits
            }  # 0 if the head is ablated
            self.text_generator = TextGenerator(model, text, factors, source.is_chat)
        if before is not None:
            before.cancel()
            self._worker.clear_on_thread([before])  # frees its key/value cache on the worker thread

    def _notify_if_changed(self) -> None:
        """Notify listeners if anything that the pane shows has changed."""
        shown = (
            self._tree_source,
            self._unavailable_message,
            self._shown_head,
            self.tree,
            len(self.node_results),
        )
        if shown != self._shown:
            self._shown = shown
            self._notify_listeners()

    def _notify_listeners(self) -> None:
        self.__dict__.pop("panel", None)
        super()._notify_listeners()

    # ------------------------------------------------------------------ worker

    def _run_next_step(self) -> None:
        """Start the next pending step unless the worker is busy."""
        text, tree = self.text_generator, self.tree
        if text is None or self._worker.is_working or self._workspace.is_working:
            return
        is_needed = self._is_seen or self._remaining or self.picked is not None
        if tree.at not in self.node_results and is_needed:
            self._request_forward_pass(text)
        elif self.picked is not None:
            picked, self.picked = self.picked, None
            self._submit_step(text, partial(text.pick_token, tree, picked, self.sampling))
        elif self._is_use_requested:
            self._is_use_requested = False
            self._submit_step(text, partial(text.read_branch_text, tree))
        elif self._remaining:
            self._submit_step(text, partial(text.sample_token, tree, self.sampling))
        elif self._is_seen and self.node_results[tree.at].bars.sampling != self.sampling:
            self._request_forward_pass(text)

    def _request_forward_pass(self, text: TextGenerator) -> None:
        if not self._is_refused:  # otherwise, it would be rejected again
            self._submit_step(text, partial(text.run_current_node, self.tree, self.sampling))

    def _submit_step(
        self, text: TextGenerator, step: Callable[[], GenerationStepResult | BranchText]
    ) -> None:
        self._worker.submit(partial(text.run_step, step))

    def _handle_answer(
        self, answer: GenerationStepResult | BranchText | RejectedStep | FailedStep
    ) -> None:
        if isinstance(answer, FailedStep):
            self.failed.emit(log_unexpected_error(answer.error))
        if answer.source is not self.text_generator:
            pass  # the answer belongs to an earlier text
        elif isinstance(answer, FailedStep):
            self._stop_with_problem(GENERATION_FAILED_MESSAGE)
        elif isinstance(answer, RejectedStep):
            self._stop_with_problem(answer.sentence)
        elif isinstance(answer, BranchText):
            self._use_branch_as_text(answer)
        else:
            self._apply_step_result(answer)
        self._run_next_step()

    def _handle_thread_failure(self, refused: InputError) -> None:
        """Stop because the system could not start a thread."""
        self._stop_with_problem(refused.sentence)

    def _apply_step_result(self, answer: GenerationStepResult) -> None:
        """Apply the result of a step unless the user has moved in the tree in the meantime."""
        is_same = answer.before is self.tree or not self.tree.prompt
        if is_same:
            is_drawn = answer.tree.sample_count > answer.before.sample_count
            self.tree = replace(answer.tree, seed=self.tree.seed)
            self._remaining = max(0, self._remaining - is_drawn)
            self.node_results[self.tree.at] = answer.result
            if answer.result.is_end:
                self._remaining = 0
            self._check_row_memory()
        self._notify_listeners()

    def _check_row_memory(self) -> None:
        size = sum(each.row_bytes for each in self.node_results.values())
        if size > MAX_ROW_BYTES:
            self._remaining = 0
            self._problem = TOO_MANY_ROWS_ERROR.format(size=format_size(size))

    def _stop_with_problem(self, problem: str) -> None:
        self._remaining, self.picked, self._is_use_requested = 0, None, False
        self._problem, self._is_refused = problem, True
        self._notify_listeners()

    # ------------------------------------------------------------------ intents

    def sample_token(self) -> None:
        self._sample_tokens(1)

    def set_running(self, is_on: bool) -> None:
        """Start generating `steps` tokens, or stop."""
        self._sample_tokens(self.steps if is_on else 0)

    def _sample_tokens(self, count: int) -> None:
        reading = self.node_results.get(self.tree.at)
        is_ended = reading is not None and reading.is_end
        self._remaining = 0 if is_ended or self.text_generator is None else count
        self._resume_steps()

    def pick_token(self, token: int) -> None:
        self._remaining, self.picked = 0, token
        self._resume_steps()

    def go_to_step(self, step: int) -> None:
        """Go to the token with the given number on the branch; 0 is the end of the given text."""
        line = (ROOT_NODE, *self.tree.path, *self.tree.following_nodes)
        self._show_tree(self.tree.go_to_node(line[min(step, len(line) - 1)]))

    def _show_tree(self, tree: GenerationTree) -> None:
        self._remaining, self.picked = 0, None
        self.tree = tree
        self._resume_steps()

    def _resume_steps(self) -> None:
        """Clear the error message and start the next pending step."""
        self._problem, self._is_refused = "", False
        self._notify_listeners()
        self._run_next_step()

    def discard_generated_tokens(self) -> None:
        """Discard all generated tokens."""
        readings = self.node_results
        self.node_results = {ROOT_NODE: readings.pop(ROOT_NODE)} if ROOT_NODE in readings else {}
        self._show_tree(self.tree.restart(self.tree.prompt))

    def set_sampling(self, sampling: SamplingSettings) -> None:
        self._is_refused = False  # retry the current node
        super().set_sampling(sampling)
        self._run_next_step()

    def set_steps(self, steps: int) -> None:
        """Set the number of tokens that `run` generates."""
        self.steps = steps
        self._notify_listeners()

    def toggle_chat_template(self) -> None:
        """Switch between the chat template and the plain text."""
        model = self._workspace.document.model
        if model:
            self._workspace.change_setting("model", replace(model, is_chat=not model.is_chat))

    def use_as_document_text(self) -> None:
        """Use the text up to the current token as the document's text."""
        self._remaining, self._is_use_requested = 0, self.panel.can_use_as_text
        self._run_next_step()

    def _use_branch_as_text(self, branch: BranchText) -> None:
        document = self._workspace.document
        if (
            document.model and self._current_forward_pass is not None
        ):  # otherwise edited in the meantime
            self._used = "" if branch.is_split_alike else branch.text
            model = replace(document.model, is_chat=False)  # the text already contains the template
            used = document.with_setting("text", branch.text).with_setting("model", model)
            self._workspace.show_document(used, self._workspace.requested_view)


def _has_token_edits(model: ModelSource) -> bool:
    """Return whether the model has edits that apply only to the tokens of the given text."""
    kinds = {edit.kind for edit in model.edits}
    return bool(model.cuts or kinds - {HeadEditKind.OFF, HeadEditKind.SCALED})
