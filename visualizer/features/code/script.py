"""Export of a run as a self-contained torch script that recomputes and asserts its numbers.

A script holds the run's inputs (vectors, seeded or custom weights, masks, the cells kept by
dropout), computes with the lines of the Code pane, and asserts the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from visualizer.attention.spec import (
    BIAS,
    BLOCK_LAYERS,
    LAYERS,
    NORMS,
    OWN_BIASES,
    OWN_LAYERS,
    Arrangement,
    Mask,
    Position,
    Projection,
)
from visualizer.errors import InputError
from visualizer.explanations.dialect_identifiers import VOCABULARIES
from visualizer.features.code.array_literals import cells, listed, literal, tensor
from visualizer.features.code.code_line_generator import lines
from visualizer.features.code.presenter import TITLES, shape_comment
from visualizer.features.code.script_assertions import checks, is_odd, note
from visualizer.number_format import format_size
from visualizer.session.computation_caption import caption

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec
    from visualizer.explanations.dialect_identifiers import CodeIdentifiers
    from visualizer.session.view import CodeDialect


MAX_SCRIPT_BYTES = 2_000_000
SMALLEST_LITERAL = 5  # "0.0, "

SINUSOIDS = '''
def sinusoids(tokens, d_in):
    """Vaswani et al. 2017, section 3.5."""
    rows = []
    for place in range(tokens):
        angles = [place / 10_000 ** ((column - column % 2) / d_in) for column in range(d_in)]
        waves = [math.cos if column % 2 else math.sin for column in range(d_in)]
        rows.append([wave(angle) for wave, angle in zip(waves, angles)])
    return torch.tensor(rows, dtype=dtype)  # token d_in
'''


def script(run: Run, dialect: CodeDialect) -> str:
    """Return a script that recomputes a run using only torch and asserts its numbers.

    Raises
    ------
    InputError
        If the script would be too large.
    """
    if not run.trace.has_module:
        sentence = f"No code made these numbers: they were read from “{run.source}”."
        raise InputError("script", f"{sentence} Export them as NPZ to compute with them.")
    least = _least_bytes(run)
    if least > MAX_SCRIPT_BYTES:
        raise _too_large_error(least)
    parts = (
        _heading_comments(run, dialect),
        _import_lines(run, dialect),
        _input_vectors(run),
        *_other_tensors(run),
        *_weight_lines(run.trace.spec, VOCABULARIES[dialect], run),
        _computation_lines(run, dialect),
        *checks(run, dialect),
    )
    written = "\n\n".join(part for part in parts if part) + "\n"
    if (count := len(written.encode())) > MAX_SCRIPT_BYTES:
        raise _too_large_error(count)
    return written


def _too_large_error(count: int) -> InputError:
    sentence = (
        f"The script would be {format_size(count)} of numbers, and more than "
        f"{format_size(MAX_SCRIPT_BYTES)} is "
        "hard to open. Use a shorter text or a smaller embedding size, and copy again."
    )
    return InputError("script", sentence)


def _least_bytes(run: Run) -> int:
    """A lower bound of the script's size in bytes, known before any number is read."""
    spec, tokens = run.trace.spec, run.trace.tokens
    vectors = tokens if spec.own_input else len({word for text in run.texts for word in text})
    numbers = vectors * spec.d_in
    numbers += tokens * spec.d_in if spec.position is Position.LEARNED else 0
    numbers += sum(matrix.rows * matrix.columns for _, matrix in spec.counting_weights)
    square = len(run.texts) * spec.heads * tokens**2 if spec.drops else 0
    square += tokens**2 if spec.mask is Mask.OWN else 0
    return SMALLEST_LITERAL * numbers + square


def _heading_comments(run: Run, dialect: CodeDialect) -> str:
    comments = (
        caption(run),
        f"Made by Attention Visualizer. {TITLES[dialect]}; torch alone, on the CPU.",
        *note(run, dialect),
    )
    return "\n".join(f"# {sentence}" for sentence in comments)


def _import_lines(run: Run, dialect: CodeDialect) -> str:
    needed = ["import math"] if run.trace.spec.position is Position.SINUSOIDAL else []
    needed += ["from math import inf, nan"] if is_odd(run, dialect) else []
    needed += ["", "import torch", "from torch import nn", "from torch.nn import functional as F"]
    needed += ["", "torch.set_grad_enabled(False)", f"dtype = torch.{run.trace.spec.dtype}"]
    return "\n".join(needed).lstrip()


# ----------------------------------------------------------------------------- inputs


def _input_vectors(run: Run) -> str:
    """The input vectors: one per distinct token if equal tokens have equal vectors, else all."""
    first = run.trace.stages[0]  # the input stage
    vectors = run.trace.read(first.name)
    dims = " ".join((*run.trace.axes, "token d_in"))
    by_token: dict[str, np.ndarray] = {}
    rows = vectors.reshape(-1, vectors.shape[-1])
    words = [word for text in run.texts for word in text]
    for word, row in zip(words, rows, strict=True):
        if by_token.setdefault(word, row).tobytes() != row.tobytes():
            return f"{_token_lists(run)}\n\n{tensor('inputs', vectors, dims)}"
    known = "".join(f"    {word!r}: {literal(row, 4)},\n" for word, row in by_token.items())
    found = "[vectors[token] for token in tokens]"
    if run.trace.axes:
        found = "[[vectors[token] for token in text] for text in texts]"
    made = f"inputs = torch.tensor({found}, dtype=dtype)  # {dims}"
    return f"vectors = {{\n{known}}}\n{_token_lists(run)}\n{made}"


def _token_lists(run: Run) -> str:
    written = [[repr(word) for word in text] for text in run.texts]
    if not run.trace.axes:
        return f"tokens = {listed(written[0])}"
    rows = "".join(f"    {listed(text, 4)},\n" for text in written)
    return f"texts = [\n{rows}]"


def _other_tensors(run: Run) -> Iterator[str]:
    """The other tensors that the lines of this spec need."""
    spec, trace = run.trace.spec, run.trace
    if spec.lengths:
        yield f"lengths = torch.tensor({listed([str(length) for length in spec.lengths])})  # text"
    if spec.position is Position.LEARNED:
        yield tensor("position_table", trace.read("position.weight"), "token d_in")
    if spec.position is Position.SINUSOIDAL:
        yield SINUSOIDS
    if spec.mask is Mask.OWN and spec.own_mask:
        yield cells("own_mask", spec.own_mask.array(), "query key; 1 where allowed")
    if spec.drops:
        weights = trace.read(trace.stage("dropped").reads[0])
        kept = (trace.read("dropped") != 0) | (weights == 0)
        dims = " ".join((*trace.axes, "head query key"))
        yield cells("kept", kept, f"{dims}; 0 where dropout takes a weight away")


# ---------------------------------------------------------------------------- layers and weights


def _weight_lines(spec: AttentionSpec, words: CodeIdentifiers, run: Run) -> Iterator[str]:
    """Lines that initialize the layers as the run did: same seed, same order, in float32."""
    has_layers = spec.projection is not Projection.NONE
    if not (has_layers or spec.output_projection or spec.has_block):
        return
    drawn = [f"torch.manual_seed({spec.seed})"]
    drawn += _layer_lines(spec, words) if has_layers else []
    if spec.output_projection:
        width = spec.width
        drawn.append(f"{words.layers['out_proj']} = nn.Linear({width}, {width}).to(dtype)")
    drawn += _block_lines(spec, words)
    yield "\n".join(drawn)
    dtype = run.trace.read("input").dtype
    for name, matrix in spec.counting_weights:
        yield _custom_weight_lines(spec, words, name, matrix.array().astype(dtype))


def _layer_lines(spec: AttentionSpec, words: CodeIdentifiers) -> Iterator[str]:
    layer = f"nn.Linear({spec.d_in}, {spec.d_out}, bias={spec.bias}).to(dtype)"
    if spec.projection is Projection.UNIFORM:
        layer = f"torch.rand({spec.d_in}, {spec.d_out}).to(dtype)"
    names = [words.layers[name] for name in LAYERS]
    if not _is_stacked(spec):
        yield from (f"{name} = {layer}" for name in names)
        return
    together = ", ".join(names)
    yield f"{together} = [], [], []"
    yield f"for _ in range({spec.heads}):  # heads"
    yield f"    for layers in ({together}):"
    yield f"        layers.append({layer})"


def _block_lines(spec: AttentionSpec, words: CodeIdentifiers) -> Iterator[str]:
    """Lines that create the layers of a block; its norms draw no random numbers."""
    for layer in BLOCK_LAYERS if spec.has_block else ():
        sizes = spec.block_sizes[f"{layer}.weight"]
        made = f"Linear({sizes[1]}, {sizes[0]})" if len(sizes) > 1 else f"LayerNorm({sizes[0]})"
        yield f"{words.layers[layer]} = nn.{made}.to(dtype)"


def _is_stacked(spec: AttentionSpec) -> bool:
    return spec.arrangement is Arrangement.STACKED and spec.heads > 1


def _custom_weight_lines(
    spec: AttentionSpec, words: CodeIdentifiers, name: str, matrix: np.ndarray
) -> str:
    """Lines that replace initialized weights by custom ones."""
    if name in OWN_BIASES:
        return _custom_bias_lines(spec, words, name, matrix)
    if name in NORMS:
        return f"{tensor(f'own_{name}', matrix[0], 'd_model')}\n{name}.weight.copy_(own_{name})"
    layer, own = words.layers[OWN_LAYERS[name]], f"own_{name}"
    is_raw = spec.projection is Projection.UNIFORM and name in LAYERS
    if not _is_stacked(spec) or name not in LAYERS:
        put = f"{layer}.copy_({own})" if is_raw else f"{layer}.weight.copy_({own}.T)"
    else:
        each = "layer.copy_(part)" if is_raw else "layer.weight.copy_(part.T)"
        parts = f"{own}.chunk({spec.heads}, dim=1)"
        put = f"for layer, part in zip({layer}, {parts}):\n    {each}"
    return f"{tensor(own, matrix, _CUSTOM_WEIGHT_DIMS.get(name, 'd_in width'))}\n{put}"


_CUSTOM_WEIGHT_DIMS = {
    "W_output": "width width",
    "linear1": "d_model d_ff",
    "linear2": "d_ff d_model",
}


def _custom_bias_lines(
    spec: AttentionSpec, words: CodeIdentifiers, name: str, matrix: np.ndarray
) -> str:
    layer, own = words.layers[OWN_BIASES[name]], f"own_{name.removesuffix(BIAS)}_bias"
    put = f"{layer}.bias.copy_({own})"
    if _is_stacked(spec) and OWN_BIASES[name] in LAYERS:
        put = f"for layer, part in zip({layer}, {own}.chunk({spec.heads})):\n"
        put += "    layer.bias.copy_(part)"
    return f"{tensor(own, matrix[0], 'width')}\n{put}"


# ------------------------------------------------------------------------------- the computation


def _computation_lines(run: Run, dialect: CodeDialect) -> str:
    written = []
    for line in lines(run.trace.spec, dialect):
        shape = shape_comment(run, line)
        written.append(f"{line.text}  {shape}" if shape else line.text)
    return "\n".join(written)
