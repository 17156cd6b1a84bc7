"""The caption of a playback step: one plain sentence, suitable for screen readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.explain import explain
from visualizer.explanations.cell_explanation import SENTENCES, CellFacts
from visualizer.explanations.row_explanation import ROWS
from visualizer.explanations.stage_explanation import STAGES
from visualizer.explanations.step_values import EMPTY, StepValues
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.timeline import Step


def step_caption(run: Run, text: int, step: Step, head: int) -> str:
    """Describe a step in one sentence with the tokens in bold (HTML).

    A cell that is a whole row of its stage is described as the row.

    Parameters
    ----------
    text : int
        The index of the text in a batch.
    head : int
        The head to describe, where the stage has heads.
    """
    block = StepValues(run, run.nearest(text), step, min(head, run.trace.spec.heads - 1))
    operation = block.stage.operation
    if len(step.rows) > 1:
        return block.sentence(STAGES[operation](block))
    if len(step.columns) == run.trace.tensor(step.stage).shape[-1]:
        return block.sentence(ROWS[operation](block))
    return _of_cell(block)


def _of_cell(block: StepValues) -> str:
    head = (block.head,) if "head" in block.stage.dims else ()
    cell = Cell(block.stage.name, (*head, block.at, block.step.columns[0]))
    batch = block.run.index(block.text)
    explanation = explain(block.run.trace, cell.stage, (*batch, *cell.place))
    told = CellFacts(block.run, block.text, cell, explanation)
    sentence = SENTENCES[block.stage.operation](told).replace("<b></b>", f"<b>{EMPTY}</b>")
    if not told.in_head or told.in_head in sentence:
        return sentence
    return f"{told.in_head.strip().capitalize()}, {sentence[0].lower()}{sentence[1:]}"
