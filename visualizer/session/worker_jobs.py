"""Jobs of the worker thread: compute or restore a document, label tokens, and prefetch a view.

Modules that load torch are imported where they are used.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from visualizer.attention.roles import Role
from visualizer.attention.torch_preload import load_torch_library
from visualizer.errors import InputError
from visualizer.format import format_count
from visualizer.language.tokenizers import tokenize
from visualizer.lazy_numpy import import_numpy_now
from visualizer.process_settings import (
    exclude_from_garbage_collection,
    run_in_thread,
    trim_freed_memory,
)
from visualizer.session.comparison_state import ComparisonKind
from visualizer.session.model_opening import forget_closed_models
from visualizer.session.resolved_view import resolve_view
from visualizer.session.view import ImmediateViewFields, View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.buffer_pool import BufferPool
    from visualizer.attention.captured_attention import CapturedAttention
    from visualizer.attention.model_forward_pass import (
        AnalysisRequest,
        ModelAnswer,
        ModelForwardPass,
    )
    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec, Texts
    from visualizer.progress import Progress
    from visualizer.session.document import Document
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.screen import Presenter

_logger = logging.getLogger(__name__)

Tokens = tuple[str, ...]
Labels = tuple[Tokens, Tokens]
"""Token labels of the queries and of the keys."""


def parse_token_labels(document: Document) -> Labels:
    """Return the token labels that the user entered for captured attention.

    A single line labels both the queries and the keys of the same text; otherwise, each of them has
    a line. If the number of tokens does not match, the text is split at spaces instead, which keeps
    labels such as ``[CLS]`` intact.

    Returns
    -------
    Labels
        The labels; empty if the user entered none.

    Raises
    ------
    InputError
        If the number of labels differs from the number of queries or keys.
    """
    captured = document.captured
    if captured is None or not document.labels.strip():
        return (), ()
    by_tokenizer = partial(tokenize, tokenizer=document.tokenizer)
    found = _matching_labels(captured, document.labels, by_tokenizer)
    found = found or _matching_labels(captured, document.labels, lambda text: tuple(text.split()))
    if found is None:
        raise InputError("text", _describe_needed_labels(captured, document.labels, by_tokenizer))
    return found


def _matching_labels(
    captured: CapturedAttention, text: str, split: Callable[[str], Tokens]
) -> Labels | None:
    whole = split(text)
    is_of_one_text = captured.is_square or captured.is_continuation
    if is_of_one_text and len(whole) == captured.keys:
        return whole[-captured.queries :], whole
    lines = [tokens for tokens in map(split, text.splitlines()) if tokens]
    if [len(tokens) for tokens in lines] == [captured.queries, captured.keys]:
        return lines[0], lines[1]
    return None


def _describe_needed_labels(
    captured: CapturedAttention, text: str, split: Callable[[str], Tokens]
) -> str:
    if captured.is_square or captured.is_continuation:
        count = len(split(text))
        typed = f"You entered {format_count(count, 'token')}"
        needed = f"but {captured.keys:,} are needed"
        return f"{typed}, {needed}. Leave the field empty to number the positions."
    lines = filter(None, (len(split(line)) for line in text.splitlines()))
    return (
        f"Enter {format_count(captured.queries, 'token')} for the queries on one line and "
        f"{captured.keys:,} for the keys on the next. You entered {' and '.join(map(str, lines))}."
    )


REFINEMENT_S = 0.2
"""Maximum duration of a refinement, in seconds, after which the images are shown."""


class ComputeFunction(Protocol):
    """Computes a document off the GUI thread, reusing unchanged stages of the last run."""

    def __call__(self, document: Document, previous: Run | None) -> Run: ...


class RequestState(Struct, frozen=True, eq=False):
    """The state at the time of a request.

    Parameters
    ----------
    document : Document
        The current document, or the one to be computed.
    view : View
        The requested view.
    run, computed : Run or None, Document or None
        The last valid run, and the document that it was computed from.
    panels : mapping
        The panels that are shown, by id; unchanged panels are reused.
    """

    document: Document
    view: View
    run: Run | None
    computed: Document | None
    panels: Mapping[str, object]


class RequestResult(Struct, frozen=True, eq=False):
    """The result of a request: a run, or the error that rejected the document.

    A result without a document is that of a prefetch for a view of the current run.

    Parameters
    ----------
    resolved : ResolvedView or None
        The prefetched view, if any.
    panels : mapping
        The panels built during the request, by id.
    opened : View or None
        The view of a document that was just opened.
    """

    document: Document | None
    view: View
    run: Run | None
    refused: InputError | None
    resolved: ResolvedView | None = None
    panels: Mapping[str, object] = field(default_factory=dict)
    opened: View | None = None


def adapt_restored_view(view: View, shown: View) -> View:
    """Adapt a restored view to this window; drop a comparison without a run for side A."""
    compared, pinned = view.comparison, view.pinned
    if compared and compared.against is ComparisonKind.KEPT and compared.kept is None:
        compared, pinned = None, None
    return replace(view, panes=shown.panes, room=shown.room, comparison=compared, pinned=pinned)


def restore_and_prefetch(
    restore: Callable[[], tuple[Run, View]], presenter: Presenter, requested: RequestState
) -> RequestResult:
    """Restore the run of an opened document and prefetch the data of its view."""
    _import_torch()
    try:
        run, view = restore()
        view = adapt_restored_view(view, requested.view)
        prefetched = _prefetch_panels(presenter, requested, view, run, requested.document)
        return RequestResult(requested.document, view, run, None, *prefetched, view)
    except InputError as refused:
        return _refusal_result(presenter, requested, refused)


def prefetch_view(presenter: Presenter, requested: RequestState) -> RequestResult:
    """Prefetch the data of a view of the current run."""
    assert requested.run
    prefetched = _prefetch_panels(
        presenter, requested, requested.view, requested.run, requested.computed
    )
    return RequestResult(None, requested.view, None, None, *prefetched)


def _prefetch_panels(
    presenter: Presenter, requested: RequestState, view: View, run: Run, computed: Document | None
) -> tuple[ResolvedView, Mapping[str, object]]:
    """Prefetch the data of a view; return the resolved view and the panels that were built."""
    resolved = resolve_view(requested.document, view, run, computed)
    return resolved, presenter.prefetch(resolved, requested.panels)


class RefinementResult(Struct, frozen=True, eq=False):
    """The result of refining the images of a run."""

    run: Run


def refine_images(
    presenter: Presenter,
    resolved: ResolvedView,
    has_newer_request: Callable[[], bool],
    is_paused: Callable[[], bool],
) -> RefinementResult:
    """Refine the visible images for `REFINEMENT_S` or until another request is waiting.

    Parameters
    ----------
    is_paused : callable
        Returns whether only images that have not been drawn yet may be drawn for now.
    """
    end = monotonic() + REFINEMENT_S
    if not presenter.has_preview(resolved):
        presenter.draw_first_images(resolved, lambda: has_newer_request() or monotonic() > end)
    else:
        over = (has_newer_request, is_paused, lambda: monotonic() > end)
        presenter.refine_images(resolved, lambda: any(is_over() for is_over in over))
    return RefinementResult(resolved.run)


def compute_and_prefetch(
    compute: ComputeFunction, presenter: Presenter, requested: RequestState
) -> RequestResult:
    """Compute a document and prefetch the data of its view."""
    try:
        run = compute(requested.document, requested.run)
        prefetched = _prefetch_panels(presenter, requested, requested.view, run, requested.document)
        return RequestResult(requested.document, requested.view, run, None, *prefetched)
    except InputError as refused:
        return _refusal_result(presenter, requested, refused)


def _refusal_result(
    presenter: Presenter, requested: RequestState, refused: InputError
) -> RequestResult:
    """Prefetch the data of the view from the last valid run."""
    # The copy has no traceback. The traceback would keep the result and the last run alive until it
    # is garbage-collected.
    refused = InputError(refused.field, refused.sentence, refused.remedy)
    if requested.run is None:
        return RequestResult(requested.document, requested.view, None, refused)
    prefetched = _prefetch_panels(
        presenter, requested, requested.view, requested.run, requested.computed
    )
    return RequestResult(requested.document, requested.view, None, refused, *prefetched)


def with_immediate_fields(view: View, read: View) -> View:
    """Return the prefetched view `read` with the parts of `view` that need no prefetch."""
    at_once = ImmediateViewFields.__struct_fields__
    return replace(read, **{name: getattr(view, name) for name in at_once})


def compute(document: Document, previous: Run | None) -> Run:
    """Compute a document; called on the worker thread.

    torch is imported here, on the worker thread, so that the window appears before torch is loaded.
    """
    _import_torch()
    from visualizer.attention.run import reserve_gui_core, set_torch_thread_count

    if document.model:
        reserve_gui_core()
    start = perf_counter()
    run = run_document(document, previous, set_torch_thread_count, shared_buffer_pool())
    _logger.debug("Computed a document in %.3f s", perf_counter() - start)
    return run


def release_idle_memory() -> None:
    """Return cached memory to the system; called on the worker thread when it is idle."""
    if shared_buffer_pool.cache_info().currsize:
        shared_buffer_pool().release_free_blocks()
    forget_closed_models()
    trim_freed_memory()  # closed models and long texts leave many small blocks


@cache
def shared_buffer_pool() -> BufferPool:
    """Return the buffer pool for large tensors, shared by all windows."""
    from visualizer.attention.buffer_pool import BufferPool

    return BufferPool()


def run_document(
    document: Document,
    previous: Run | None,
    prepare: Callable[[Texts, AttentionSpec], None] | None = None,
    pool: BufferPool | None = None,
) -> Run:
    """Compute a document, run its model, or return the run of its captured attention.

    Parameters
    ----------
    prepare : callable, optional
        Called with the tokens and the spec before they are computed.
    pool : BufferPool, optional
        Supplies the memory of large tensors.
    """
    from visualizer.attention.captured_run import create_captured_run
    from visualizer.attention.run import run

    if document.captured:
        return create_captured_run(document.captured, *parse_token_labels(document), previous)
    if document.model:
        from visualizer.models.model_text_runs import read_text

        spec = document.spec
        return read_text(document.model, document.text, spec.device, previous, spec.dtype)
    texts = document.tokens()
    if prepare:
        prepare(texts, document.spec)
    computed = run(texts, document.spec, previous, pool)
    return replace(computed, weights_source=document.weights_source)


def answer_question(
    reading: ModelForwardPass,
    question: AnalysisRequest,
    progress: Progress,
    report: Callable[[ModelAnswer], object],
) -> ModelAnswer:
    """Run an analysis of a forward pass with its model; called on a separate thread."""
    from visualizer.attention.run import reserve_gui_core
    from visualizer.models.answer_model_question import answer_model_question

    reserve_gui_core()
    return answer_model_question(reading, question, progress, report)


def measure_heads(run: Run, progress: Progress) -> None:
    """Measure the heads of a run and a uniform baseline; called on a separate thread."""
    from visualizer.attention.run import reserve_gui_core

    reserve_gui_core()
    for leading in run.trace.leading_indices():
        run.trace.uniform_head_measures(Role.WEIGHTS, leading, run.key_texts, progress)
    run.trace.head_measures(Role.WEIGHTS, run.key_texts, progress)


@cache
def _import_torch() -> None:
    """Import torch on a separate thread and wait for the import.

    The import leaves garbage that references the frames of its callers. On a separate thread, these
    frames do not contain a request; otherwise, the request would never be freed.
    """
    run_in_thread(_import_excluded_from_collection)


def _import_excluded_from_collection() -> None:
    with exclude_from_garbage_collection():
        load_torch_library()
        with suppress(Exception):  # the import fails again when it is used, which reports the error
            import_numpy_now()
            import_module("visualizer.attention.run")
