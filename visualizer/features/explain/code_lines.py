"""Python source lines that compute a spec's stages, in one of three dialects.

The lines are derived only from the stage table, with one expression writer per operation. A script
consists of the same lines, so each line can be run as shown.

Sources: Raschka 2024, "Build a Large Language Model (From Scratch)", chapter 3, for the book's
names; Karpathy 2023, "Let's build GPT", for the lecture's names; the documentation of
``torch.nn.functional.scaled_dot_product_attention`` for its arguments.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from visualizer.attention.roles import VECTOR_ROLES, Role
from visualizer.attention.spec import MaskKind, NormalisationKind, ScaleKind
from visualizer.attention.stages import LINEAR_OPERATIONS, Operation, stages, unfused_stages
from visualizer.explanations.code_dialects import DIALECTS, StageCodeContext
from visualizer.explanations.explain import EXPLAINERS
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from visualizer.attention.spec import AttentionSpec
    from visualizer.explanations.code_dialects import CodeIdentifiers


class CodeLine(Struct, frozen=True):
    """One line of code.

    Parameters
    ----------
    stages : tuple of str
        The stages that the line computes, in order; empty for a comment and for a helper line.
    """

    stages: tuple[str, ...]
    text: str


def stage_code_lines(spec: AttentionSpec, dialect: CodeDialect) -> tuple[CodeLine, ...]:
    """Return the lines that compute every stage of a spec once.

    The lines need torch, ``nn``, ``F``, ``inputs`` and the layers. Depending on the spec, they also
    need ``position_table`` or ``sinusoids``, ``own_mask``, ``lengths`` and ``kept``.
    """
    # Custom values can be large, and lines refer to them by name, so keep them out of the cache.
    return _cached_code_lines(replace(spec, own_input=None, own_weights=()), dialect)


@lru_cache(maxsize=8)
def _cached_code_lines(spec: AttentionSpec, dialect: CodeDialect) -> tuple[CodeLine, ...]:
    words, is_fused = DIALECTS[dialect], dialect is CodeDialect.SDPA
    together = _fused_stages(spec) if is_fused else ()
    helpers = _helper_lines(spec, words)
    reasons = _unsupported_reasons(spec) if is_fused else ()
    lines = [CodeLine((), f"# Written out: {reason}") for reason in reasons]
    for stage in stages(spec):
        context, name = StageCodeContext(spec, stage, words), words.names[stage.name]
        if stage.name not in together:
            line = CodeLine(
                (stage.name,), f"{name} = {EXPLAINERS[stage.operation].code_expression(context)}"
            )
        elif stage.name == together[-1]:
            line = CodeLine(together, f"{name} = {_fused_call_code(context)}")
        else:
            continue
        lines += [*_pop_helpers(line.text, helpers), line]
    return tuple(lines)


# ------------------------------------------------------------------------------ the fused call


def _fused_stages(spec: AttentionSpec) -> tuple[str, ...]:
    """Return the stages that the fused call computes, or () if it does not support the spec."""
    if list(_unsupported_reasons(spec)):
        return ()
    names = [stage.name for stage in stages(spec)]
    fused = names[names.index(Role.SCORES) : names.index(Role.CONTEXT) + 1]
    return tuple(name for name in fused if name != Role.BIAS)


EXPLAINED_OPERATIONS = {
    Operation.EQUAL_WEIGHTS,
    Operation.MASK_AFTER_SOFTMAX,
    Operation.RENORMALISE_MASKED_WEIGHTS,
    *LINEAR_OPERATIONS,
}
"""Operations that have a specific message in `_unsupported_reasons`."""


def _unsupported_reasons(spec: AttentionSpec) -> Iterator[str]:
    """Yield the reasons why the fused call does not support the spec."""
    call = "scaled_dot_product_attention"
    by_kind = {
        NormalisationKind.UNIFORM: f"{call} does not support equal weights for all keys.",
        NormalisationKind.SUM: f"{call} only supports softmax, not division by a row's sum.",
        NormalisationKind.LINEAR: f"{call} only supports softmax, not a feature map.",
        NormalisationKind.NAIVE_SOFTMAX: f"{call} subtracts the row maximum before exponentiation.",
    }
    if spec.normalisation in by_kind:
        yield by_kind[spec.normalisation]
    if any(stage.operation is Operation.MASK_AFTER_SOFTMAX for stage in stages(spec)):
        yield f"{call} masks before normalization, not after."
    for stage in unfused_stages(spec):
        if stage.operation not in EXPLAINED_OPERATIONS:
            yield f"{call} does not support “{stage.title}”."
    if spec.is_dropout_active:
        yield f"{call} chooses the dropped cells itself; here they are fixed."


def _fused_call_code(context: StageCodeContext) -> str:
    spec = context.spec
    stage = next(stage for stage in stages(spec) if stage.role is Role.WEIGHTS)
    weights = StageCodeContext(spec, stage, context.identifiers)
    parts = [context.identifiers.names[role] for role in VECTOR_ROLES]
    if any(stage.role is Role.BIAS for stage in stages(spec)):
        bias = context.identifiers.names[Role.BIAS]
        forbidden = (
            f".masked_fill({weights.forbidden_expression()}, -torch.inf)"
            if weights.mask_variables()
            else ""
        )
        parts.append(f"attn_mask={bias}{forbidden}")
    elif spec.mask is MaskKind.CAUSAL and not spec.lengths:
        parts.append("is_causal=True")
    elif weights.mask_variables():
        parts.append(f"attn_mask={weights.allowed_expression()}")
    if spec.scale is ScaleKind.NONE and spec.temperature == 1:
        parts.append("scale=1.0")
    elif spec.scale is not ScaleKind.D_HEAD or spec.temperature != 1:
        parts.append(f"scale=1 / {context.divisor_expression}")
    return f"F.scaled_dot_product_attention({', '.join(parts)}){weights.zero_empty_rows_code()}"


# ------------------------------------------------------------------------------ helper lines


def _pop_helpers(text: str, waiting: dict[str, str]) -> Iterator[CodeLine]:
    """Yield the helper lines that a line needs and that no earlier line needed."""
    for name in [name for name in waiting if re.search(rf"\b{name}\b", text)]:
        if helper := waiting.pop(name, ""):
            yield from _pop_helpers(helper.partition(" = ")[2], waiting)
            yield CodeLine((), helper)


def _helper_lines(spec: AttentionSpec, words: CodeIdentifiers) -> dict[str, str]:
    """Return the helper lines, keyed by the name that they define."""
    tokens, x = words.tokens, words.names[Role.INPUT]
    helpers = {tokens: f"*{words.batch}, {tokens}, {words.width} = {x}.shape"}
    for stage in stages(spec):
        helpers |= EXPLAINERS[stage.operation].helper_definitions(
            StageCodeContext(spec, stage, words)
        )
    helpers[words.padding] = words.real_tokens
    if spec.mask is not MaskKind.NONE:
        line = words.mask_lines[spec.mask].format(window=1 - spec.window)
        helpers[words.mask_names[spec.mask]] = line
    average = [stage for stage in stages(spec) if stage.operation is Operation.EQUAL_WEIGHTS]
    if average and (found := StageCodeContext(spec, average[0], words).mask_variables()):
        sizes = f"*{words.batch}, {spec.heads}, {tokens}, {tokens}"
        allowed = words.allowed_expression(found)
        allowed = allowed if allowed.isidentifier() else f"({allowed})"
        helpers["readable"] = f"readable = {allowed}.to({x}.dtype).expand({sizes})"
    return helpers


MAX_LINE_LENGTH = 96
ITEMS_PER_LINE = 8


def format_array_literal(array: np.ndarray, indent: int = 0) -> str:
    """Format an array as nested list literals, with as few digits as its dtype needs."""
    if array.ndim == 1:
        return format_list_literal([str(number) for number in array], indent)
    inner = " " * (indent + 4)
    rows = "".join(f"{inner}{format_array_literal(row, indent + 4)},\n" for row in array)
    return f"[\n{rows}{' ' * indent}]"


def format_list_literal(parts: Sequence[str], indent: int = 0) -> str:
    """Format a list literal on one line, or with a few items per line if that is too long."""
    line = f"[{', '.join(parts)}]"
    if len(line) + indent <= MAX_LINE_LENGTH:
        return line
    inner = " " * (indent + 4)
    chunks = (
        parts[start : start + ITEMS_PER_LINE] for start in range(0, len(parts), ITEMS_PER_LINE)
    )
    rows = "".join(f"{inner}{', '.join(chunk)},\n" for chunk in chunks)
    return f"[\n{rows}{' ' * indent}]"


def tensor_line(name: str, array: np.ndarray, note: str = "") -> str:
    """Return a line that creates a tensor of the script's dtype."""
    comment = f"  # {note}" if note else ""
    return f"{name} = torch.tensor({format_array_literal(array)}, dtype=dtype){comment}"


def boolean_tensor_line(name: str, array: np.ndarray, note: str) -> str:
    """Return lines that create a boolean tensor with any number of axes; its rows are 1s and 0s."""
    rows = (array.reshape(-1, array.shape[-1]).astype("u1") + ord("0")).tobytes().decode()
    width = array.shape[-1]
    literals = "".join(
        f'    "{rows[start : start + width]}",\n' for start in range(0, len(rows), width)
    )
    shape = ", ".join(map(str, array.shape))
    tensor = "torch.tensor([[cell == '1' for cell in row] for row in rows])"
    return f"# {note}\nrows = [\n{literals}]\n{name} = {tensor}.view({shape})"
