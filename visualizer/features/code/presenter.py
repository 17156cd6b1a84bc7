"""The Code pane as a value: the lines of Python that compute the run, and the current one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.features.code.code_line_generator import CodeLine, lines
from visualizer.features.code.model_code import model_lines
from visualizer.session.screen import PanelId
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.resolved_view import Resolved

TITLES = {
    CodeDialect.BOOK: "Book",
    CodeDialect.LECTURE: "Lecture notes",
    CodeDialect.SDPA: "Fused torch call",
}


class CodePanelLine(Struct, frozen=True):
    """One line of the Code pane.

    Parameters
    ----------
    shape : str
        A comment with the sizes and names of the axes; empty if no stage is computed.
    is_lit : bool
        Whether the line computes the stage in focus.
    """

    text: str
    shape: str = ""
    is_lit: bool = False

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")


class CodePanel(Struct, frozen=True):
    """The code of a run, in one dialect."""

    title: str
    dialect: CodeDialect
    lines: tuple[CodePanelLine, ...]


CODE: PanelId[CodePanel | None] = PanelId("Code")


def present_code(resolved: Resolved) -> CodePanel:
    """Present the code; the highlighted line computes the current stage, else the cell's stage."""
    looked_at = resolved.pointed or resolved.step_cell
    stage = resolved.focus or (looked_at.stage if looked_at else None)
    model, reading = resolved.document.model, resolved.run.reading
    if model and reading:
        layer = reading.layers[resolved.run.trace.at("layer", resolved.leading)]
        head = resolved.heads[0] if len(resolved.heads) == 1 else resolved.told_head
        code = model_lines(model, reading, resolved.document.text, layer, head)
        dialect = resolved.view.dialect
        return CodePanel("In code", dialect, tuple(map(CodePanelLine, code)))
    return code_panel_of(resolved.run, resolved.view.dialect, stage)


def code_panel_of(run: Run, dialect: CodeDialect, stage: str | None) -> CodePanel:
    """Present a run's code; equal runs and stages give equal values."""
    if not run.trace.has_module:
        comments = ("# Read from a file:", f"# {run.source}", "# No code is available.")
        return CodePanel("In code", dialect, tuple(map(CodePanelLine, comments)))
    is_there = stage is not None and stage in run.trace
    title = f"{run.trace.stage(stage).title} in code" if stage and is_there else "In code"
    shown = tuple(
        CodePanelLine(line.text, shape_comment(run, line), stage in line.stages)
        for line in lines(run.trace.spec, dialect)
    )
    return CodePanel(title, dialect, shown)


def shape_comment(run: Run, line: CodeLine) -> str:
    """Format the shape of a line's result with the names of the axes, as a comment."""
    if not line.stages:
        return ""
    made = line.stages[-1]
    dims = run.trace.axes + run.trace.stage(made).dims
    sizes = ", ".join(str(size) for size in run.trace.shape(made))
    return f"# ({sizes}) {' '.join(dims)}"
