"""The code twin: the lines of Python that make what is shown, and which of them runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from visualizer.features.code.code_lines import CodeLine, lines
from visualizer.session.screen import PanelId
from visualizer.session.view_options import CodeDialect

if TYPE_CHECKING:
    from visualizer.attention.run import Run
    from visualizer.session.resolved_view import Resolved

TITLES = {
    CodeDialect.BOOK: "The book’s words",
    CodeDialect.LECTURE: "The lecture’s words",
    CodeDialect.SDPA: "torch’s one call",
}


@dataclass(frozen=True, slots=True)
class CodePanelLine:
    """One line as it is shown.

    Parameters
    ----------
    shape : str
        A comment with the sizes and names of the axes; empty where no stage is made.
    is_lit : bool
        Whether it makes the stage that is looked at.
    """

    text: str
    shape: str = ""
    is_lit: bool = False

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")


@dataclass(frozen=True, slots=True)
class CodePanel:
    """The code of a run, in one dialect."""

    title: str
    dialect: CodeDialect
    lines: tuple[CodePanelLine, ...]


CODE: PanelId[CodePanel | None] = PanelId("Code")


def present_code(resolved: Resolved) -> CodePanel:
    """Show the code; the line runs of the stage in focus, else of the cell that is looked at."""
    looked_at = resolved.pointed or resolved.step_cell
    stage = resolved.focus or (looked_at.stage if looked_at else None)
    return present_twin(resolved.run, resolved.view.dialect, stage)


def present_twin(run: Run, dialect: CodeDialect, stage: str | None) -> CodePanel:
    """Show a run's code; equal runs and stages give equal values."""
    if run.captured:
        said = ("# Read from a file:", f"# {run.captured.called}", "# No code made it here.")
        return CodePanel("In code", dialect, tuple(map(CodePanelLine, said)))
    is_there = stage is not None and stage in run.trace
    title = f"{run.trace.stage(stage).title} in code" if stage and is_there else "In code"
    shown = tuple(
        CodePanelLine(line.text, shape_comment(run, line), stage in line.stages)
        for line in lines(run.trace.spec, dialect)
    )
    return CodePanel(title, dialect, shown)


def shape_comment(run: Run, line: CodeLine) -> str:
    """Write the real sizes of what a line leaves behind, with the names of the axes."""
    if not line.stages:
        return ""
    made = line.stages[-1]
    dims = ("text",) * len(run.trace.batch) + run.trace.stage(made).dims
    sizes = ", ".join(str(size) for size in run.trace.tensor(made).shape)
    return f"# ({sizes}) {' '.join(dims)}"
