"""The code dialects: identifiers of stages, layers and masks, and the context of an expression."""

from __future__ import annotations

from enum import StrEnum, auto
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention import masks as attention_masks
from visualizer.attention.masks import MaskingSpec
from visualizer.attention.roles import Role
from visualizer.attention.spec import BLOCK_LAYERS, PROJECTION_LAYERS, MaskKind, ScaleKind
from visualizer.attention.stages import STAGE_TABLE

if TYPE_CHECKING:
    from visualizer.attention.spec import AttentionSpec
    from visualizer.attention.stages import Stage


class MaskPolarity(StrEnum):
    """Meaning of the numbers in a mask."""

    FORBIDS = auto()
    """True forbids a cell."""
    ALLOWS = auto()
    """True allows a cell."""
    COUNTS = auto()
    """1 allows a cell and 0 forbids it."""


class CodeIdentifiers(Struct, frozen=True, eq=False):
    """The identifiers of one dialect.

    Parameters
    ----------
    names : dict
        Variable for each stage, by the name of the stage. Every stage has its own variable so that
        it can be inspected.
    layers : dict
        Variable for each layer, by the layer's name in the book's ``state_dict``.
    mask_names, mask_lines : dict
        Variable and definition of each kind of mask; in a definition, ``{window}`` stands for the
        lowest diagonal to keep.
    padding : str
        Variable of the mask that distinguishes tokens from padding.
    real_tokens : str
        Definition of the variable `padding`.
    """

    names: dict[str, str]
    layers: dict[str, str]
    tokens: str
    batch: str
    width: str
    softmax: str
    infinity: str
    polarity: MaskPolarity
    mask_names: dict[MaskKind, str]
    mask_lines: dict[MaskKind, str]
    padding: str
    real_tokens: str

    def forbidden_expression(self, found: tuple[str, ...]) -> str:
        """Return an expression that is true for forbidden cells."""
        if self.polarity is MaskPolarity.COUNTS:
            return _join_mask_conditions([f"{name} == 0" for name in found], " | ")
        if self.polarity is MaskPolarity.FORBIDS:
            return " | ".join(found)
        return _negate_mask_conditions(found, " & ")

    def allowed_expression(self, found: tuple[str, ...]) -> str:
        """Return an expression that is true for allowed cells."""
        if self.polarity is MaskPolarity.COUNTS:
            return _join_mask_conditions([f"{name} > 0" for name in found], " & ")
        if self.polarity is MaskPolarity.ALLOWS:
            return " & ".join(found)
        return _negate_mask_conditions(found, " | ")


def _join_mask_conditions(parts: list[str], joint: str) -> str:
    return parts[0] if len(parts) == 1 else joint.join(f"({part})" for part in parts)


def _negate_mask_conditions(found: tuple[str, ...], joint: str) -> str:
    return f"~{found[0]}" if len(found) == 1 else f"~({joint.join(found)})"


_STAGES = {row.name: row.name for row in STAGE_TABLE} | {Role.INPUT: "x"}
_LAYERS = {name: name for name in (*PROJECTION_LAYERS, "out_proj", *BLOCK_LAYERS)}

BOOK_IDENTIFIERS = CodeIdentifiers(
    names=_STAGES
    | {
        "embedding": "token_embeddings",
        "position": "pos_embeddings",
        Role.SCORES: "attn_scores",
        Role.SCALED: "scaled_scores",
        Role.MASKED: "masked_scores",
        Role.UNMASKED: "unmasked_weights",
        Role.ZEROED: "masked_weights",
        Role.WEIGHTS: "attn_weights",
        Role.DROPPED: "dropped_weights",
        Role.CONTEXT: "context_vec",
    },
    layers=_LAYERS,
    tokens="num_tokens",
    batch="batch",
    width="d_in",
    softmax="torch.softmax",
    infinity="-torch.inf",
    polarity=MaskPolarity.FORBIDS,
    mask_names=dict.fromkeys(MaskKind, "mask"),
    mask_lines={
        MaskKind.CAUSAL: "mask = torch.triu(torch.ones(num_tokens, num_tokens), diagonal=1).bool()",
        MaskKind.WINDOW: "mask = torch.ones(num_tokens, num_tokens).tril().triu({window}) == 0",
        MaskKind.OWN: "mask = ~own_mask",
    },
    padding="padding",
    real_tokens="padding = torch.arange(num_tokens) >= lengths[:, None, None, None]",
)

LECTURE_IDENTIFIERS = CodeIdentifiers(
    names=_STAGES
    | {
        "embedding": "tok_emb",
        "position": "pos_emb",
        Role.QUERIES: "q",
        Role.KEYS: "k",
        Role.VALUES: "v",
        Role.SCORES: "wei_scores",
        Role.SCALED: "wei_scaled",
        Role.MASKED: "wei_masked",
        Role.UNMASKED: "wei_unmasked",
        Role.ZEROED: "wei_zeroed",
        Role.WEIGHTS: "wei",
        Role.DROPPED: "wei_dropped",
        Role.CONTEXT: "out",
        Role.CONCAT: "out_heads",
        Role.OUTPUT: "y",
    },
    layers=_LAYERS | {"W_query": "query", "W_key": "key", "W_value": "value", "out_proj": "proj"},
    tokens="T",
    batch="B",
    width="C",
    softmax="F.softmax",
    infinity='float("-inf")',
    polarity=MaskPolarity.COUNTS,
    mask_names={MaskKind.CAUSAL: "tril", MaskKind.WINDOW: "band", MaskKind.OWN: "own_mask"},
    mask_lines={
        MaskKind.CAUSAL: "tril = torch.tril(torch.ones(T, T))",
        MaskKind.WINDOW: "band = torch.tril(torch.ones(T, T)).triu({window})",
        MaskKind.OWN: "",
    },
    padding="real",
    real_tokens="real = torch.arange(T) < lengths[:, None, None, None]",
)

SDPA_IDENTIFIERS = CodeIdentifiers(
    names=_STAGES,
    layers=_LAYERS,
    tokens="num_tokens",
    batch="batch",
    width="d_in",
    softmax="F.softmax",
    infinity="-torch.inf",
    polarity=MaskPolarity.ALLOWS,
    mask_names={MaskKind.CAUSAL: "allowed", MaskKind.WINDOW: "allowed", MaskKind.OWN: "own_mask"},
    mask_lines={
        MaskKind.CAUSAL: "allowed = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()",
        MaskKind.WINDOW: "allowed = torch.ones(num_tokens, num_tokens).tril().triu({window}) == 1",
        MaskKind.OWN: "",
    },
    padding="real",
    real_tokens="real = torch.arange(num_tokens) < lengths[:, None, None, None]",
)

DIALECTS = {"book": BOOK_IDENTIFIERS, "lecture": LECTURE_IDENTIFIERS, "sdpa": SDPA_IDENTIFIERS}


class StageCodeContext(Struct, frozen=True):
    """A stage to be written as code, with the expressions that its code is composed of."""

    spec: AttentionSpec
    stage: Stage
    identifiers: CodeIdentifiers

    @property
    def input_variables(self) -> tuple[str, ...]:
        """Variables of the stage's inputs."""
        return tuple(self.identifiers.names[name] for name in self.stage.reads)

    @property
    def x(self) -> str:
        return self.identifiers.names[Role.INPUT]

    @property
    def divisor_expression(self) -> str:
        """Divisor of the scores, as an expression that can follow a division sign."""
        size = {ScaleKind.D_HEAD: self.identifiers.names[Role.KEYS], ScaleKind.D_MODEL: self.x}
        temperature = repr(float(self.spec.temperature))
        if self.spec.scale is ScaleKind.NONE:
            return temperature
        root = f"{size[self.spec.scale]}.shape[-1] ** 0.5"
        return root if self.spec.temperature == 1 else f"({root} * {temperature})"

    def mask_variables(self) -> tuple[str, ...]:
        """Return the names of the masks that forbid cells at this stage."""
        masking = MaskingSpec.from_spec(self.spec, self.stage.name)
        mask = () if masking.mask is MaskKind.NONE else (self.identifiers.mask_names[masking.mask],)
        return (*mask, self.identifiers.padding) if masking.lengths else mask

    def forbidden_expression(self) -> str:
        return self.identifiers.forbidden_expression(self.mask_variables())

    def allowed_expression(self) -> str:
        return self.identifiers.allowed_expression(self.mask_variables())

    def may_have_empty_rows(self) -> bool:
        """Return whether a query may have no allowed key at this stage."""
        masking = MaskingSpec.from_spec(self.spec, self.stage.name)
        if masking.lengths:
            tokens = max(masking.lengths)
        elif masking.own:
            tokens = masking.own.rows
        else:
            return False  # causal masks and windows let each token attend to itself
        return not attention_masks.cached_allowed_cells(masking, tokens).any(-1).all()

    def zero_empty_rows_code(self) -> str:
        """Return code that zeroes the rows of queries without allowed keys, or an empty string."""
        if not self.may_have_empty_rows():
            return ""
        forbidden = self.forbidden_expression()
        forbidden = forbidden if forbidden.isidentifier() else f"({forbidden})"
        return f".masked_fill({forbidden}.all(-1, keepdim=True), 0)"

    def split_heads_code(self, expression: str, heads: int) -> str:
        """Return code that splits an expression [token, width] into heads."""
        if heads == 1:
            return f"{expression}.unsqueeze(-3)"
        sizes = f"*{self.identifiers.batch}, {self.identifiers.tokens}, {heads}, {self.spec.d_head}"
        return f"{expression}.view({sizes}).transpose(-3, -2)"
