"""Captions of playback steps: one sentence each, suitable for screen readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.explanations.cell_facts import CellFacts
from visualizer.explanations.explain import EXPLAINERS, explain
from visualizer.explanations.step_values_and_wording import EMPTY, StepValues
from visualizer.session.cell_address import Cell

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.attention.trace import LeadingIndex
    from visualizer.session.timeline import Step


def step_caption(run: Run, leading: LeadingIndex, step: Step, head: int) -> str:
    """Describe a step in one sentence with the tokens in bold (HTML).

    If a row has only one cell, the caption describes the row.

    Parameters
    ----------
    leading : tuple of int
        Layer and text, as an index into the run's leading axes.
    head : int
        The head to describe if the stage has heads.
    """
    block = StepValues(run, leading, step, min(head, run.trace.spec.heads - 1))
    texts = EXPLAINERS[block.stage.operation]
    if len(step.rows) > 1 and run.trace.holding(step.stage).is_blockwise:
        return block.sentence(f"{block.stage.says}, in all {len(step.rows):,} rows")
    if len(step.rows) > 1:
        return block.sentence(texts.stage_sentence(block))
    if len(step.columns) == run.trace.shape(step.stage)[-1]:
        return block.sentence(texts.row_sentence(block))
    return _describe_cell(block)


def _describe_cell(block: StepValues) -> str:
    head = (block.head,) if "head" in block.stage.dims else ()
    cell = Cell(block.stage.name, (*head, block.at, block.step.columns[0]))
    explanation = explain(block.run.trace, cell.stage, (*block.leading, *cell.place))
    facts = CellFacts(block.run, block.leading, cell, explanation)
    sentence = EXPLAINERS[block.stage.operation].cell_sentence(facts)
    sentence = sentence.replace("<b></b>", f"<b>{EMPTY}</b>")
    if not facts.in_head or facts.in_head in sentence:
        return sentence
    return f"{facts.in_head.strip().capitalize()}, {sentence[0].lower()}{sentence[1:]}"
