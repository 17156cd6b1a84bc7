"""The code in the Explain pane: Python lines that compute the run's values or run the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_forward_pass import AttentionKind, SecondTextUse
from visualizer.features.explain.code_lines import CodeLine, stage_code_lines
from visualizer.features.explain.presenter import EXPLAIN_PANE
from visualizer.models.model_source import parse_server_address
from visualizer.session.pane_spec import PanelSpec
from visualizer.session.screen import PanelId
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from visualizer.attention.model_forward_pass import ModelForwardPass
    from visualizer.attention.run import Run
    from visualizer.models.model_source import ModelSource
    from visualizer.session.resolved_view import ResolvedView

MAX_LISTED_EDITS = 3
_ATTENTIONS: dict[str, str] = {
    AttentionKind.ENCODER: "encoder_attentions",
    AttentionKind.DECODER: "decoder_attentions",
    AttentionKind.CROSS: "cross_attentions",
}
"""Name of the output attribute that contains the weights of each kind in an encoder-decoder."""
_VISION = "vision_model"
"""Name of the vision submodule in a model that also takes text."""


def model_script_lines(
    model: ModelSource, reading: ModelForwardPass, text: str, layer: int, head: int
) -> Iterator[str]:
    """Yield the lines of a program that stores a head's weights in ``weights``, [query, key].

    Parameters
    ----------
    layer, head : int
        Zero-based indices in the model.
    """
    if reading.is_of_lab:
        yield from ("import visualizer", "", *_model_folder_lines(model))
        yield "model = visualizer.open_model(folder)"
        yield f"seen = model.attend({text!r})"
        weights = f'seen["weights"][{layer}, {head}]'
    else:
        yield from _transformers_lines(model, reading, text)
        has_decoder = reading.second is SecondTextUse.DECODER
        kind = dict(reading.parts).get(reading.part, "") if has_decoder else ""
        weights = f"seen.{_ATTENTIONS.get(kind, 'attentions')}[{layer}][0, {head}]"
    yield f"# layer {layer + 1}, head {head + 1}; both are counted from 0 here"
    yield f"weights = {weights}"
    yield from _edit_comments(reading)


def _transformers_lines(model: ModelSource, reading: ModelForwardPass, text: str) -> Iterator[str]:
    """Yield the lines that run a model and output its attention weights."""
    kind = "AutoModel" if reading.no_next_token else "AutoModelForCausalLM"
    preparation = "AutoImageProcessor" if model.image else "AutoTokenizer"
    yield "import torch"
    if model.image:
        yield "from PIL import Image, ImageOps"
    yield from (f"from transformers import {preparation}, {kind}", "", *_model_folder_lines(model))
    if model.image:
        yield f"image = Image.open({model.image.path!r})"
        yield 'image = ImageOps.exif_transpose(image).convert("RGB")'
        yield "prepare = AutoImageProcessor.from_pretrained(folder)"
        yield 'inputs = prepare(images=image, return_tensors="pt")'
    else:
        yield f"text = {text!r}"
        if model.second:
            yield f"second = {model.second!r}"
        yield "tokenizer = AutoTokenizer.from_pretrained(folder)"
    yield f"model = {kind}.from_pretrained("
    yield '    folder, attn_implementation="eager",'
    yield "    dtype=torch.float32).eval()"
    if reading.part.startswith(f"{_VISION}."):
        yield f"model = getattr(model, {_VISION!r}, model)"
    if not model.image:
        yield from _tokenizer_lines(model, reading)
    yield "with torch.inference_mode():"
    yield "    seen = model(**inputs, output_attentions=True)"


def _model_folder_lines(model: ModelSource) -> tuple[str, ...]:
    server = parse_server_address(model.folder)
    if not server:
        return (f"folder = {model.folder!r}",)
    return f"# folder on the machine that serves the model at {server}", f"folder = {model.name!r}"


def _tokenizer_lines(model: ModelSource, reading: ModelForwardPass) -> Iterator[str]:
    """Yield the lines that split the texts into tokens."""
    if model.is_chat:
        yield "text = tokenizer.apply_chat_template("
        yield '    [{"role": "user", "content": text}],'
        yield "    tokenize=False, add_generation_prompt=True)"
        yield "inputs = tokenizer("
        yield '    text, add_special_tokens=False, return_tensors="pt")'
    elif reading.second is SecondTextUse.DECODER:
        yield 'inputs = tokenizer(text, return_tensors="pt")'
        yield "ids = [model.config.decoder_start_token_id]"
        if model.second:
            yield "ids += tokenizer(second, add_special_tokens=False).input_ids"
        yield 'inputs["decoder_input_ids"] = torch.tensor([ids])'
    else:
        texts = "text, second" if model.second else "text"
        yield f'inputs = tokenizer({texts}, return_tensors="pt")'


def _edit_comments(reading: ModelForwardPass) -> list[str]:
    edits = [
        f"# in the window, layer {at + 1}, head {one + 1}: {' '.join(becomes.split())}"
        for (at, one), becomes in sorted(reading.edits.items())
    ]
    edits += [
        f"# in the window, edges of layer {at + 1}, head {one + 1} are cut"
        for at, one in sorted(reading.cuts)
    ]
    return edits[:MAX_LISTED_EDITS]


DIALECT_TITLES = {
    CodeDialect.BOOK: "Book",
    CodeDialect.LECTURE: "Lecture notes",
    CodeDialect.SDPA: "Fused torch call",
}


class DisplayedCodeLine(Struct, frozen=True):
    """One line of code.

    Parameters
    ----------
    shape : str
        A comment with the sizes and names of the axes; empty if the line computes no stage.
    is_highlighted : bool
        Whether the line computes the stage in focus.
    """

    text: str
    shape: str = ""
    is_highlighted: bool = False

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")


class CodeContents(Struct, frozen=True):
    """The code of a run in one dialect."""

    title: str
    dialect: CodeDialect
    lines: tuple[DisplayedCodeLine, ...]


CODE_PANEL: PanelId[CodeContents | None] = PanelId("Code")


def present_code(resolved: ResolvedView) -> CodeContents:
    """Present the code, and highlight the line of the current stage.

    Without a playback step, this is the stage of the explained cell or, without a cell, the stage
    in focus.
    """
    model, reading, dialect = resolved.document.model, resolved.run.reading, resolved.view.dialect
    if model and reading:
        layer = reading.layers[resolved.run.trace.axis_position("layer", resolved.leading)]
        head = resolved.heads[0] if len(resolved.heads) == 1 else resolved.caption_head
        lines = model_script_lines(model, reading, resolved.document.text, layer, head)
        return CodeContents("In code", dialect, tuple(map(DisplayedCodeLine, lines)))
    parameter = None if resolved.reached_hovered_cell else resolved.hovered_or_pinned_parameter
    explained = parameter or resolved.hovered_or_pinned_cell or resolved.described_step_cell
    flow = resolved.flow
    in_focus = flow.stages[flow.focus] if flow else None
    stage = explained.stage if explained else resolved.focus or in_focus
    return present_run_code(resolved.run, dialect, stage)


def present_run_code(run: Run, dialect: CodeDialect, stage: str | None) -> CodeContents:
    """Present a run's code; the results for equal runs and stages are equal."""
    if not run.trace.has_module:
        comments = (
            "# Read from a file:",
            f"# {run.source_display_name}",
            "# No code is available.",
        )
        return CodeContents("In code", dialect, tuple(map(DisplayedCodeLine, comments)))
    is_named = stage is not None and stage in run.trace
    title = f"{run.trace.stage(stage).title} in code" if stage and is_named else "In code"
    lines = tuple(
        DisplayedCodeLine(line.text, shape_comment(run, line), stage in line.stages)
        for line in stage_code_lines(run.trace.spec, dialect)
    )
    return CodeContents(title, dialect, lines)


def shape_comment(run: Run, line: CodeLine) -> str:
    """Format the shape of a line's result with the names of the axes, as a comment."""
    if not line.stages:
        return ""
    result = line.stages[-1]
    dims = run.trace.axes + run.trace.stage(result).dims
    sizes = ", ".join(map(str, run.trace.shape(result)))
    return f"# ({sizes}) {' '.join(dims)}"


PANEL = PanelSpec(
    CODE_PANEL, lambda resolved, inputs, previous: present_code(resolved), None, EXPLAIN_PANE
)
