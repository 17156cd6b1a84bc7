"""Direct logit attribution of each head, and the effect of ablating each head."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.model_forward_pass import (
    AblationResult,
    AnalysisKind,
    AnalysisRequest,
    LogitAttributionResult,
)
from visualizer.errors import InputError
from visualizer.format import format_number, format_percentage, format_two_decimals
from visualizer.heatmap.coloured_table import ColouredTable, max_magnitude
from visualizer.session.model_pane_options import no_forward_pass_reason
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId

if TYPE_CHECKING:
    from visualizer.attention.model_forward_pass import LogitParts
    from visualizer.attention.run import Run
    from visualizer.heatmap.coloured_table import RowColumnIndex
    from visualizer.session.resolved_view import ResolvedView

PANE_TITLE = "Attribution"
ShownHeads = tuple[int, tuple[int, ...]]
"""The number of the current layer in the model, and the heads that the heatmaps show."""
MODEL_REQUIRED = (
    "Open a model (File > Open a model…) to see how each head contributes to the next token."
)
COMPUTING_MESSAGE = "Computing the logit attribution…"
METHOD_NOTE = (
    "A head’s direct contribution to the logit and the effect of ablating it can differ, because "
    "later layers build on its output or compensate for its absence."
)
REST_LABEL = "rest"
TOP_TOKEN_LABEL = "most likely token"


class LogitAttributionPanel(Struct, frozen=True, eq=False):
    """Contents of the Attribution pane.

    Parameters
    ----------
    parts : ColouredTable or None
        One row per layer, one column per head, and one column for the rest of the layer.
    sum : str
        Sentence that states the sum of all parts.
    message : str
        Why the parts are not available; otherwise empty.
    changes : ColouredTable or None
        The decrease in log-probability when each head is ablated; None until requested.
    changes_message : str
        Why the requested ablations are not available.
    can_ablate : bool
        Whether each head can be ablated in turn.
    done, count : int
        Number of heads that have been ablated, and total number of heads.
    is_ablating : bool
        Whether heads are being ablated.
    token : str
        The token that the user entered; empty for the most likely token.
    top_token_names : tuple of str
        Likely next tokens that the user can choose.
    questions : tuple of AnalysisRequest
        The questions to send to the model.
    layers : tuple of int
        For each row, the number of the layer in the model.
    heads : int
        Number of columns for heads.
    """

    parts: ColouredTable | None = None
    sum: str = ""
    message: str = MODEL_REQUIRED
    changes: ColouredTable | None = None
    changes_message: str = ""
    can_ablate: bool = False
    done: int = 0
    count: int = 0
    is_ablating: bool = False
    token: str = ""
    top_token_names: tuple[str, ...] = ()
    questions: tuple[AnalysisRequest, ...] = ()
    layers: tuple[int, ...] = ()
    heads: int = 0
    made_of: tuple[object, ...] = ()

    @property
    def is_computing_parts(self) -> bool:
        """Whether the parts of the logit are being computed."""
        return any(each.kind is AnalysisKind.PARTS for each in self.questions)

    @property
    def is_complete(self) -> bool:
        """Whether every head has been ablated."""
        return 0 < self.count == self.done


ATTRIBUTION_PANEL: PanelId[LogitAttributionPanel] = PanelId(PANE_TITLE)


def ablation_question(run: Run | None, token: str) -> AnalysisRequest | None:
    """Return the request to ablate each head, or None if the run does not support ablation."""
    reading = run.reading if run else None
    if reading is None or reading.no_next_token or not reading.are_heads_switchable:
        return None
    return AnalysisRequest(AnalysisKind.ABLATIONS, token)


def present_logit_attribution(
    resolved: ResolvedView,
    previous: LogitAttributionPanel | None = None,
    refused: InputError | None = None,
) -> LogitAttributionPanel:
    """Present the parts of the logit, and the ablation results known so far."""
    reading, token = resolved.run.reading, resolved.view.attribution.token
    if resolved.document.model is None:
        return LogitAttributionPanel(token=token)
    if reading is None:
        return LogitAttributionPanel(
            message=no_forward_pass_reason(resolved.document, refused), token=token
        )
    if reading.no_next_token:
        return LogitAttributionPanel(message=reading.no_next_token, token=token)
    questions = [
        AnalysisRequest(kind, token) for kind in (AnalysisKind.PARTS, AnalysisKind.ABLATIONS)
    ]
    known, wanted = reading.answers.known, reading.answers.wanted
    parts, changes = map(known.get, questions)
    is_complete = isinstance(changes, InputError) or (
        isinstance(changes, AblationResult) and changes.is_complete
    )
    is_ablating = questions[1] in wanted and not is_complete
    pending = [questions[0]] if parts is None else []
    pending += [questions[1]] if is_ablating else []
    view = resolved.view.colouring.diverging, (resolved.layer_number, resolved.heads)
    made_of = (parts, changes, tuple(pending), token, view, reading)
    if previous and previous.made_of == made_of:
        return previous
    likely = sorted(reading.next_tokens, key=lambda row: -row.probability)
    panel = LogitAttributionPanel(
        message=COMPUTING_MESSAGE,
        can_ablate=ablation_question(resolved.run, token) is not None,
        is_ablating=is_ablating,
        token=token,
        top_token_names=tuple(row.token for row in likely),
        questions=tuple(pending),
        made_of=made_of,
    )
    if isinstance(changes, AblationResult):
        panel = replace(
            panel,
            changes=_ablation_effect_cells(changes, *view),
            done=changes.measured_heads,
            count=changes.changes.size,
            layers=changes.layers,
            heads=changes.changes.shape[1],
        )
    elif isinstance(changes, InputError):
        panel = replace(panel, changes_message=changes.sentence)
    if isinstance(parts, LogitAttributionResult):
        panel = replace(
            panel,
            parts=_contribution_cells(parts, *view),
            sum=_describe_logit_sum(parts),
            message="",
            layers=parts.parts.layers,
            heads=parts.parts.heads.shape[1],
        )
    elif isinstance(parts, InputError):
        panel = replace(panel, message=parts.sentence)
    return panel


def _contribution_cells(
    answer: LogitAttributionResult, map_name: str, shown: ShownHeads
) -> ColouredTable:
    parts = answer.parts
    values = np.concatenate([parts.heads, parts.rest[:, None]], axis=1)
    rest = max_magnitude(parts.rest)
    cells = _head_cells(parts.heads, parts.layers, map_name, shown)
    return replace(
        cells,
        values=values,
        columns=(*cells.columns, REST_LABEL),
        unit=f"logit contribution (rest: ±{format_two_decimals(rest)})",
        gap_column=len(cells.columns),
        separate_upper_limit=rest,
        describe=partial(describe_contribution, parts, answer.token),
    )


def _ablation_effect_cells(
    answer: AblationResult, map_name: str, shown: ShownHeads
) -> ColouredTable:
    # Negate the changes, so that support for the token has the same colour in both maps.
    return replace(
        _head_cells(-answer.changes, answer.layers, map_name, shown),
        unit="decrease in log-probability (nats)",
        describe=partial(describe_ablation, answer),
    )


def _head_cells(
    values: np.ndarray, layers: tuple[int, ...], map_name: str, shown: ShownHeads
) -> ColouredTable:
    """Return a table of layers and heads; if a single head is shown, it is framed."""
    layer, heads = shown
    row = layers.index(layer) if layer in layers else None
    marked: frozenset[RowColumnIndex] = frozenset()
    if row is not None and len(heads) == 1 and heads[0] < values.shape[1]:
        marked = frozenset({(row, heads[0])})
    end = max_magnitude(values)
    return ColouredTable(
        values,
        tuple(str(number + 1) for number in layers),
        tuple(str(head + 1) for head in range(values.shape[1])),
        -end,
        end,
        map_name,
        unit="",
        marked=marked,
        highlighted_row=row,
    )


def _describe_logit_sum(answer: LogitAttributionResult) -> str:
    parts = answer.parts
    whole, logit = format_number(parts.sum_of_parts, 3), format_number(parts.logit, 3)
    return (
        f"“{answer.token}” ({format_percentage(answer.probability)}): "
        f"heads {format_number(float(parts.heads.sum()), 2)}, "
        f"rest of the layers {format_number(float(parts.rest.sum()), 2)}, "
        f"embedding {format_number(parts.embedding, 2)}, biases {format_number(parts.bias, 2)}. "
        f"Sum {whole}; the model’s logit is {logit}."
    )


def describe_contribution(parts: LogitParts, token: str, row: int, column: int) -> str:
    """Describe the contribution of a head, or of the rest of a layer, to the logit."""
    layer, heads = parts.layers[row] + 1, parts.heads.shape[1]
    if column == heads:
        value = float(parts.rest[row])
        name = f"Layer {layer}, rest (feed-forward and biases)"
    else:
        value, name = float(parts.heads[row, column]), f"Layer {layer}, head {column + 1}"
    verb = "raises" if value >= 0 else "lowers"
    logit, size = format_number(parts.logit, 2), format_number(abs(value), 3)
    return f"{name} {verb} the logit of “{token}” ({logit}) by {size}."


def describe_ablation(answer: AblationResult, row: int, column: int) -> str:
    """Describe the effect of ablating a head on the token's probability."""
    change = float(answer.changes[row, column])
    name = f"layer {answer.layers[row] + 1}, head {column + 1}"
    if np.isnan(change):
        return f"{name.capitalize()} has not been ablated yet."
    rises = "falls" if change < 0 else "rises"
    factor = format_number(float(np.exp(change)), 3)
    effect = "The head supports this token." if change < 0 else "The head works against this token."
    return (
        f"Without {name}, the log-probability of “{answer.token}” {rises} by "
        f"{format_number(abs(change), 3)} nats (probability × {factor}). {effect}"
    )


PANEL = PanelSpec(
    ATTRIBUTION_PANEL,
    lambda resolved, inputs, previous: present_logit_attribution(
        resolved, previous, inputs.refused
    ),
    LogitAttributionPanel(),
    ATTRIBUTION_PANEL.name,
)
