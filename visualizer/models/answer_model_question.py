"""Answers a question about a model's run on a text, using the same edits as in that run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisKind,
    DeferredResult,
    LogitAttributionResult,
    LogitLensResult,
)
from visualizer.errors import InputError
from visualizer.models.head_edits import compute_ablation_changes
from visualizer.models.logit_attribution import logit_lens, logit_parts
from visualizer.models.model_client.remote_model import RemoteModel
from visualizer.models.opened_model import OpenedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from visualizer.attention.model_forward_pass import (
        AnalysisRequest,
        ModelAnswer,
        ModelForwardPass,
    )
    from visualizer.models.editable_heads import Cuts, Edits
    from visualizer.progress import Progress

CHAT_UNSUPPORTED = (
    "This analysis is not available for chat messages or pairs of texts. Turn off “Treat text as "
    "a user message” and remove the second text."
)
TOP_TOKENS = 5
"""Number of most likely tokens listed at each position."""
MAX_CHEAP_PRODUCTS = 6e10
"""Maximum number of multiplications for which the logit lens runs without a warning; more can
take several seconds."""


def answer_model_question(
    reading: ModelForwardPass,
    question: AnalysisRequest,
    progress: Progress,
    report: Callable[[ModelAnswer], object],
) -> ModelAnswer:
    """Answer a question about a text.

    Parameters
    ----------
    report : callable
        Called with partial answers as they become available.

    Raises
    ------
    InputError
        If the model does not support the question, or the token does not exist.
    """
    if not reading.is_text_alone:
        raise InputError("text", CHAT_UNSUPPORTED)
    model, text = reading.model, reading.text
    if isinstance(model, RemoteModel):
        return model.answer(reading, question, progress, report)
    assert isinstance(model, OpenedModel)
    edits, cuts = reading.context_edits, reading.cuts
    if question.kind is AnalysisKind.LENS:
        costly = "" if question.is_costly else _logit_lens_cost_warning(model, text)
        return (
            DeferredResult(costly)
            if costly
            else _answer_logit_lens(model, text, edits, cuts, progress)
        )
    if question.kind is AnalysisKind.PARTS:
        number = model.token_id(question.token) if question.token else None
        parts = logit_parts(model, text, number, edits, cuts)
        logs = model.next_token_log_probabilities(text, edits, cuts)
        return LogitAttributionResult(
            parts, model.token_text(parts.number), math.exp(float(logs[parts.number]))
        )
    known = reading.answers.known.get(question)
    begun = known if isinstance(known, AblationResult) else None
    token = question.token or None
    return compute_ablation_changes(model, text, token, edits, cuts, begun, progress, report)


def _answer_logit_lens(
    model: OpenedModel, text: str, edits: Edits, cuts: Cuts, progress: Progress
) -> LogitLensResult:
    read = logit_lens(model, text, TOP_TOKENS, edits, cuts, progress)
    numbers = read.numbers.tolist()
    ids = list({one for layer in numbers for rank in layer for one in rank})
    names = dict(zip(ids, model.token_texts(ids), strict=True))
    words = tuple(tuple(tuple(names[one] for one in rank) for rank in layer) for layer in numbers)
    return LogitLensResult(read.layers, words, read.probabilities)


def _logit_lens_cost_warning(model: OpenedModel, text: str) -> str:
    """Return a warning that states the cost of the logit lens; empty if the cost is low."""
    tokens = len(model.encode_inputs(text)[1])
    layers, width, words = map(
        model.config_size, ("num_hidden_layers", "hidden_size", "vocab_size")
    )
    if float(layers) * tokens * width * words <= MAX_CHEAP_PRODUCTS:
        return ""
    return (
        f"The logit lens computes {layers * tokens:,} predictions ({layers:,} layers × {tokens:,} "
        f"tokens) over a vocabulary of {words:,} tokens. This may take a while."
    )
