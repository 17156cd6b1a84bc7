"""The code that reads the weights of a head of a real model.

It uses transformers alone; of a model of the language lab, this program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from visualizer.attention.model_reading import ModelReading
    from visualizer.models.model_source import ModelSource

MOST_NAMED = 3


def model_lines(
    model: ModelSource, reading: ModelReading, text: str, layer: int, head: int
) -> tuple[str, ...]:
    """Return the lines of a program whose ``weights`` are those of a head, [query, key].

    Parameters
    ----------
    layer, head : int
        By their numbers in the model.
    """
    if reading.is_of_lab:
        return _lines_of_lab(model, reading, text, layer, head)
    kind = "AutoModel" if reading.no_next_token else "AutoModelForCausalLM"
    return (
        "import torch",
        f"from transformers import AutoTokenizer, {kind}",
        "",
        f"folder = {model.folder!r}",
        f"text = {text!r}",
        "tokenizer = AutoTokenizer.from_pretrained(folder)",
        f"model = {kind}.from_pretrained(",
        '    folder, attn_implementation="eager",',
        "    dtype=torch.float32).eval()",
        *_inputs(model),
        "with torch.inference_mode():",
        "    seen = model(**inputs, output_attentions=True)",
        f"# layer {layer + 1}, head {head + 1}; here both count from 0",
        f"weights = seen.attentions[{layer}][0, {head}]",
        *_edits(reading),
    )


def _lines_of_lab(
    model: ModelSource, reading: ModelReading, text: str, layer: int, head: int
) -> tuple[str, ...]:
    return (
        "import visualizer",
        "",
        f"model = visualizer.open_model({model.folder!r})",
        f"seen = model.attend({text!r})",
        f"# layer {layer + 1}, head {head + 1}; here both count from 0",
        f'weights = seen["weights"][{layer}, {head}]',
        *_edits(reading),
    )


def _edits(reading: ModelReading) -> list[str]:
    edits = [
        f"# in the window layer {at + 1}, head {one + 1}: {' '.join(becomes.split())}"
        for (at, one), becomes in sorted(reading.edits.items())
    ]
    edits += [
        f"# in the window edges of layer {at + 1}, head {one + 1} are cut"
        for at, one in sorted(reading.cuts)
    ]
    return edits[:MOST_NAMED]


def _inputs(model: ModelSource) -> tuple[str, ...]:
    """Return the lines that split the text into tokens."""
    if model.is_chat:
        return (
            "text = tokenizer.apply_chat_template(",
            '    [{"role": "user", "content": text}],',
            "    tokenize=False, add_generation_prompt=True)",
            "inputs = tokenizer(",
            '    text, add_special_tokens=False, return_tensors="pt")',
        )
    return ('inputs = tokenizer(text, return_tensors="pt")',)
