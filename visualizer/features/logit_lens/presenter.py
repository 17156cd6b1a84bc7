"""The logit lens: the next tokens that each layer of a model predicts at every token."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_forward_pass import (
    AnalysisKind,
    AnalysisRequest,
    DeferredResult,
    LogitLensResult,
)
from visualizer.errors import InputError
from visualizer.format import format_percentage
from visualizer.heatmap.coloured_table import ColouredTable
from visualizer.language.tokenizers import visible_token
from visualizer.session.model_pane_options import no_forward_pass_reason
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.session.resolved_view import ResolvedView

PANE_TITLE = "Lens"
MODEL_REQUIRED = (
    "Open a model (File > Open a model…) to see the next token that each layer predicts."
)
COMPUTING_MESSAGE = "Computing the logit lens…"
METHOD_NOTE = (
    "Applies the final norm and the unembedding to the residual stream after each layer. The last "
    "row is the model’s own prediction."
)
LENS_QUESTION = AnalysisRequest(AnalysisKind.LENS)
COSTLY_LENS_QUESTION = AnalysisRequest(AnalysisKind.LENS, is_costly=True)


class LogitLensPanel(Struct, frozen=True, eq=False):
    """Contents of the Lens pane.

    Parameters
    ----------
    cells : ColouredTable or None
        One row per layer, one column per token: the most likely next token and its probability.
    message : str
        Why the cells are not available; otherwise empty.
    costly : AnalysisRequest or None
        The expensive request that is sent only if the user confirms it.
    questions : tuple of AnalysisRequest
        The questions to send to the model.
    layers : tuple of int
        For each row, the number of the layer in the model.
    """

    cells: ColouredTable | None = None
    message: str = MODEL_REQUIRED
    costly: AnalysisRequest | None = None
    questions: tuple[AnalysisRequest, ...] = ()
    layers: tuple[int, ...] = ()
    made_of: tuple[object, ...] = ()


LENS_PANEL: PanelId[LogitLensPanel] = PanelId(PANE_TITLE)


def present_logit_lens(
    resolved: ResolvedView,
    previous: LogitLensPanel | None = None,
    refused: InputError | None = None,
) -> LogitLensPanel:
    """Present each layer's predictions, or the reason why they are not available."""
    reading = resolved.run.reading
    if resolved.document.model is None:
        return LogitLensPanel()
    if reading is None:
        return LogitLensPanel(message=no_forward_pass_reason(resolved.document, refused))
    if reading.no_next_token:
        return LogitLensPanel(message=reading.no_next_token)
    answers = reading.answers
    question = COSTLY_LENS_QUESTION if COSTLY_LENS_QUESTION in answers.wanted else LENS_QUESTION
    answer = answers.known.get(question)
    if isinstance(answer, InputError):
        return LogitLensPanel(message=answer.sentence)
    if isinstance(answer, DeferredResult):
        return LogitLensPanel(message=answer.sentence, costly=COSTLY_LENS_QUESTION)
    if not isinstance(answer, LogitLensResult):
        return LogitLensPanel(message=COMPUTING_MESSAGE, questions=(question,))
    number = resolved.layer_number
    row = answer.layers.index(number) if number in answer.layers else None
    pinned = _pinned_token(resolved)
    map_name = resolved.view.colouring.sequential
    made_of = (answer, row, pinned, map_name)
    if previous and previous.made_of == made_of:
        return previous
    tokens = resolved.run.texts[0]
    cells = ColouredTable(
        answer.probabilities[..., 0],
        (*(str(layer + 1) for layer in answer.layers[:-1]), "model"),
        tuple(map(visible_token, tokens)),
        0.0,
        1.0,
        map_name,
        "probability of the most likely next token",
        tuple(tuple(visible_token(rank[0]) for rank in layer) for layer in answer.words),
        frozenset() if row is None or pinned is None else frozenset({(row, pinned)}),
        row,
        describe=partial(describe_predictions, answer, tokens),
    )
    return LogitLensPanel(cells, "", None, (), answer.layers, made_of)


def _pinned_token(resolved: ResolvedView) -> int | None:
    """Return the index of the token in the row of the pinned cell, or None."""
    pinned = resolved.pinned
    dims = resolved.run.trace.stage(pinned.stage).dims if pinned else ()
    is_of_token = pinned is not None and len(dims) > 1 and dims[-2] in {"query", "token"}
    return pinned.place[-2] if pinned and is_of_token else None


def describe_predictions(
    answer: LogitLensResult, tokens: tuple[str, ...], row: int, column: int
) -> str:
    """Describe the next tokens that a layer predicts after a token of the text."""
    words, shares = answer.words[row][column], answer.probabilities[row, column].tolist()
    predictions = ", ".join(
        f"“{word}” {format_percentage(share)}" for word, share in zip(words, shares, strict=True)
    )
    after = f"after “{tokens[column]}” (token {column + 1:,} of {len(tokens):,})"
    if row == len(answer.layers) - 1:
        return f"The model’s prediction {after}: {predictions}."
    return f"Prediction of layer {answer.layers[row] + 1:,} {after}: {predictions}."


PANEL = PanelSpec(
    LENS_PANEL,
    lambda resolved, inputs, previous: present_logit_lens(resolved, previous, inputs.refused),
    LogitLensPanel(),
    LENS_PANEL.name,
)
