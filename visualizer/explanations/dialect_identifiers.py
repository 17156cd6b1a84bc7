"""The identifiers of each code dialect: its names of stages, layers and masks."""

from __future__ import annotations

from enum import StrEnum, auto

from msgspec import Struct

from visualizer.attention.spec import BLOCK_LAYERS, LAYERS, Mask
from visualizer.attention.stages import TABLE


class MaskPolarity(StrEnum):
    """The meaning of a mask's values: true for forbidden, true for allowed, or 1 and 0."""

    FORBIDS = auto()
    ALLOWS = auto()
    COUNTS = auto()


class CodeIdentifiers(Struct, frozen=True, eq=False):
    """The identifiers of one dialect.

    Parameters
    ----------
    names : dict
        The variable of each stage: the stage's name unless the dialect uses another. Every stage
        has its own variable, so that each can be inspected.
    layers : dict
        The variable of each layer, by its name in the book's ``state_dict``.
    mask_names, mask_lines : dict
        By the kind of mask; in the lines, ``{window}`` is the lowest diagonal to keep.
    real_tokens : str
        The line that defines `padding`, a mask that separates tokens from padding.
    """

    names: dict[str, str]
    layers: dict[str, str]
    tokens: str
    batch: str
    width: str
    softmax: str
    infinity: str
    polarity: MaskPolarity
    mask_names: dict[Mask, str]
    mask_lines: dict[Mask, str]
    padding: str
    real_tokens: str

    def forbidden(self, found: tuple[str, ...]) -> str:
        """Return an expression that is true for forbidden cells."""
        if self.polarity is MaskPolarity.COUNTS:
            return _join([f"{name} == 0" for name in found], " | ")
        return " | ".join(found) if self.polarity is MaskPolarity.FORBIDS else _negate(found, " & ")

    def allowed(self, found: tuple[str, ...]) -> str:
        """Return an expression that is true for allowed cells."""
        if self.polarity is MaskPolarity.COUNTS:
            return _join([f"{name} > 0" for name in found], " & ")
        return " & ".join(found) if self.polarity is MaskPolarity.ALLOWS else _negate(found, " | ")


def _join(parts: list[str], joint: str) -> str:
    return parts[0] if len(parts) == 1 else joint.join(f"({part})" for part in parts)


def _negate(found: tuple[str, ...], joint: str) -> str:
    return f"~{found[0]}" if len(found) == 1 else f"~({joint.join(found)})"


_STAGES = {row.name: row.name for row in TABLE} | {"input": "x"}
_LAYERS = {name: name for name in (*LAYERS, "out_proj", *BLOCK_LAYERS)}

BOOK = CodeIdentifiers(
    names=_STAGES
    | {
        "embedding": "token_embeddings",
        "position": "pos_embeddings",
        "scores": "attn_scores",
        "scaled": "scaled_scores",
        "masked": "masked_scores",
        "unmasked": "unmasked_weights",
        "zeroed": "masked_weights",
        "weights": "attn_weights",
        "dropped": "dropped_weights",
        "context": "context_vec",
    },
    layers=_LAYERS,
    tokens="num_tokens",
    batch="batch",
    width="d_in",
    softmax="torch.softmax",
    infinity="-torch.inf",
    polarity=MaskPolarity.FORBIDS,
    mask_names=dict.fromkeys(Mask, "mask"),
    mask_lines={
        Mask.CAUSAL: "mask = torch.triu(torch.ones(num_tokens, num_tokens), diagonal=1).bool()",
        Mask.WINDOW: "mask = torch.ones(num_tokens, num_tokens).tril().triu({window}) == 0",
        Mask.OWN: "mask = ~own_mask",
    },
    padding="padding",
    real_tokens="padding = torch.arange(num_tokens) >= lengths[:, None, None, None]",
)

LECTURE = CodeIdentifiers(
    names=_STAGES
    | {
        "embedding": "tok_emb",
        "position": "pos_emb",
        "queries": "q",
        "keys": "k",
        "values": "v",
        "scores": "wei_scores",
        "scaled": "wei_scaled",
        "masked": "wei_masked",
        "unmasked": "wei_unmasked",
        "zeroed": "wei_zeroed",
        "weights": "wei",
        "dropped": "wei_dropped",
        "context": "out",
        "concat": "out_heads",
        "output": "y",
    },
    layers=_LAYERS | {"W_query": "query", "W_key": "key", "W_value": "value", "out_proj": "proj"},
    tokens="T",
    batch="B",
    width="C",
    softmax="F.softmax",
    infinity='float("-inf")',
    polarity=MaskPolarity.COUNTS,
    mask_names={Mask.CAUSAL: "tril", Mask.WINDOW: "band", Mask.OWN: "own_mask"},
    mask_lines={
        Mask.CAUSAL: "tril = torch.tril(torch.ones(T, T))",
        Mask.WINDOW: "band = torch.tril(torch.ones(T, T)).triu({window})",
        Mask.OWN: "",
    },
    padding="real",
    real_tokens="real = torch.arange(T) < lengths[:, None, None, None]",
)

SDPA = CodeIdentifiers(
    names=_STAGES,
    layers=_LAYERS,
    tokens="num_tokens",
    batch="batch",
    width="d_in",
    softmax="F.softmax",
    infinity="-torch.inf",
    polarity=MaskPolarity.ALLOWS,
    mask_names={Mask.CAUSAL: "allowed", Mask.WINDOW: "allowed", Mask.OWN: "own_mask"},
    mask_lines={
        Mask.CAUSAL: "allowed = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()",
        Mask.WINDOW: "allowed = torch.ones(num_tokens, num_tokens).tril().triu({window}) == 1",
        Mask.OWN: "",
    },
    padding="real",
    real_tokens="real = torch.arange(num_tokens) < lengths[:, None, None, None]",
)

VOCABULARIES = {"book": BOOK, "lecture": LECTURE, "sdpa": SDPA}
