"""The Code pane as a value: the lines of Python that compute the run, or read a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.model_reading import AttentionKind, SecondTextUse
from visualizer.features.code.code_lines import CodeLine, stage_code_lines
from visualizer.models.model_source import parse_server_address
from visualizer.session.pane import PanelPresenter
from visualizer.session.screen import PanelId
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from visualizer.attention.model_reading import ModelReading
    from visualizer.attention.run import Run
    from visualizer.models.model_source import ImageFile, ModelSource
    from visualizer.session.resolved_view import ResolvedView

MAX_LISTED_STEPS = 3
_ATTENTIONS: dict[str, str] = {
    AttentionKind.ENCODER: "encoder_attentions",
    AttentionKind.DECODER: "decoder_attentions",
    AttentionKind.CROSS: "cross_attentions",
}
"""Output attribute for each attention kind of an encoder-decoder model."""
_VISION = "vision_model"
"""Name of the vision submodule in a model that also reads text."""


def model_script_lines(
    model: ModelSource, reading: ModelReading, text: str, layer: int, head: int
) -> tuple[str, ...]:
    """Return the lines of a program that stores a head's weights in ``weights``, [query, key].

    Parameters
    ----------
    layer, head : int
        Zero-based indices in the model.
    """
    if reading.is_of_lab:
        return _lab_model_lines(model, reading, text, layer, head)
    kind = "AutoModel" if reading.no_next_token else "AutoModelForCausalLM"
    reads_image = model.image is not None
    prepares = "AutoImageProcessor" if reads_image else "AutoTokenizer"
    has_decoder = reading.second is SecondTextUse.DECODER
    part = dict(reading.parts).get(reading.part, "") if has_decoder else ""
    seen = _ATTENTIONS.get(part, "attentions")
    is_within = reading.part.startswith(f"{_VISION}.")
    return (
        "import torch",
        *(("from PIL import Image, ImageOps",) if reads_image else ()),
        f"from transformers import {prepares}, {kind}",
        "",
        *_folder_lines(model),
        *(_image_lines(model.image) if model.image else _text_lines(model, text)),
        f"model = {kind}.from_pretrained(",
        '    folder, attn_implementation="eager",',
        "    dtype=torch.float32).eval()",
        *((f"model = getattr(model, {_VISION!r}, model)",) if is_within else ()),
        *(() if reads_image else _input_lines(model, reading)),
        "with torch.inference_mode():",
        "    seen = model(**inputs, output_attentions=True)",
        f"# layer {layer + 1}, head {head + 1}; here both count from 0",
        f"weights = seen.{seen}[{layer}][0, {head}]",
        *_edit_comments(reading),
    )


def _folder_lines(model: ModelSource) -> tuple[str, ...]:
    server = parse_server_address(model.folder)
    if not server:
        return (f"folder = {model.folder!r}",)
    return f"# its folder on the machine that serves it at {server}", f"folder = {model.name!r}"


def _text_lines(model: ModelSource, text: str) -> tuple[str, ...]:
    second = (f"second = {model.second!r}",) if model.second else ()
    return f"text = {text!r}", *second, "tokenizer = AutoTokenizer.from_pretrained(folder)"


def _image_lines(image: ImageFile) -> tuple[str, ...]:
    """Return the lines that prepare an image."""
    return (
        f"image = Image.open({image.path!r})",
        'image = ImageOps.exif_transpose(image).convert("RGB")',
        "prepare = AutoImageProcessor.from_pretrained(folder)",
        'inputs = prepare(images=image, return_tensors="pt")',
    )


def _lab_model_lines(
    model: ModelSource, reading: ModelReading, text: str, layer: int, head: int
) -> tuple[str, ...]:
    return (
        "import visualizer",
        "",
        *_folder_lines(model),
        "model = visualizer.open_model(folder)",
        f"seen = model.attend({text!r})",
        f"# layer {layer + 1}, head {head + 1}; here both count from 0",
        f'weights = seen["weights"][{layer}, {head}]',
        *_edit_comments(reading),
    )


def _edit_comments(reading: ModelReading) -> list[str]:
    edits = [
        f"# in the window layer {at + 1}, head {one + 1}: {' '.join(becomes.split())}"
        for (at, one), becomes in sorted(reading.edits.items())
    ]
    edits += [
        f"# in the window edges of layer {at + 1}, head {one + 1} are cut"
        for at, one in sorted(reading.cuts)
    ]
    return edits[:MAX_LISTED_STEPS]


def _input_lines(model: ModelSource, reading: ModelReading) -> tuple[str, ...]:
    """Return the lines that split the texts into tokens."""
    if model.is_chat:
        return (
            "text = tokenizer.apply_chat_template(",
            '    [{"role": "user", "content": text}],',
            "    tokenize=False, add_generation_prompt=True)",
            "inputs = tokenizer(",
            '    text, add_special_tokens=False, return_tensors="pt")',
        )
    if reading.second is not SecondTextUse.DECODER:
        given = "text, second" if model.second else "text"
        return (f'inputs = tokenizer({given}, return_tensors="pt")',)
    second = ("ids += tokenizer(second, add_special_tokens=False).input_ids",)
    return (
        'inputs = tokenizer(text, return_tensors="pt")',
        "ids = [model.config.decoder_start_token_id]",
        *(second if model.second else ()),
        'inputs["decoder_input_ids"] = torch.tensor([ids])',
    )


DIALECT_TITLES = {
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
    is_highlighted : bool
        Whether the line computes the stage in focus.
    """

    text: str
    shape: str = ""
    is_highlighted: bool = False

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")


class CodePanel(Struct, frozen=True):
    """The code of a run, in one dialect."""

    title: str
    dialect: CodeDialect
    lines: tuple[CodePanelLine, ...]


CODE_PANEL: PanelId[CodePanel | None] = PanelId("Code")


def present_code(resolved: ResolvedView) -> CodePanel:
    """Present the code; the highlighted line computes the current stage, else the cell's stage."""
    looked_at = resolved.pointed or resolved.step_cell
    stage = resolved.focus or (looked_at.stage if looked_at else None)
    model, reading = resolved.document.model, resolved.run.reading
    if model and reading:
        layer = reading.layers[resolved.run.trace.at("layer", resolved.leading)]
        head = resolved.heads[0] if len(resolved.heads) == 1 else resolved.caption_head
        code = model_script_lines(model, reading, resolved.document.text, layer, head)
        dialect = resolved.view.dialect
        return CodePanel("In code", dialect, tuple(map(CodePanelLine, code)))
    return present_run_code(resolved.run, resolved.view.dialect, stage)


def present_run_code(run: Run, dialect: CodeDialect, stage: str | None) -> CodePanel:
    """Present a run's code; equal runs and stages give equal values."""
    if not run.trace.has_module:
        comments = ("# Read from a file:", f"# {run.source}", "# No code is available.")
        return CodePanel("In code", dialect, tuple(map(CodePanelLine, comments)))
    is_there = stage is not None and stage in run.trace
    title = f"{run.trace.stage(stage).title} in code" if stage and is_there else "In code"
    shown = tuple(
        CodePanelLine(line.text, shape_comment(run, line), stage in line.stages)
        for line in stage_code_lines(run.trace.spec, dialect)
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


PANEL = PanelPresenter(
    CODE_PANEL, lambda resolved, moment, previous: present_code(resolved), None, CODE_PANEL.name
)
