"""Reference implementation of attention in float64 NumPy, for one text and one head at a time.

It follows the formulas and shares no code with the program. It receives a specification, the
weights, the vectors and the cells that dropout keeps. Each number has an error bound at the
program's precision, in units of roundoff, to first order (Higham 2002, "Accuracy and Stability of
Numerical Algorithms", §3.1). The bound is small unless digits are lost: an exponential turns the
error of a large score into a relative error, and a sum near zero makes the quotients uncertain. If
the first order is not sufficient, the bound is infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from visualizer.attention.spec import (
    Activation,
    DropoutMode,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    PositionKind,
    Projection,
    ScaleKind,
    TransformerBlockKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from visualizer.attention.spec import AttentionSpec

    Rule = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Numbers and their error bounds."""

    value: np.ndarray
    doubt: np.ndarray


def reference(
    spec: AttentionSpec,
    given: np.ndarray,
    weights: Mapping[str, np.ndarray],
    kept: np.ndarray | None = None,
) -> dict[str, Known]:
    """Compute every stage of a specification, in order, for each text of a batch."""
    with np.errstate(all="ignore"):
        if given.ndim == 2:
            return _Text(spec, given, weights, kept, len(given)).stages()
        texts = [
            _Text(
                spec,
                given[text],
                weights,
                None if kept is None else kept[text],
                spec.lengths[text] if spec.lengths else given.shape[1],
            ).stages()
            for text in range(len(given))
        ]
    return {
        name: Known(
            np.stack([stages[name].value for stages in texts]),
            np.stack([stages[name].doubt for stages in texts]),
        )
        for name in texts[0]
    }


def is_allowed(spec: AttentionSpec, query: int, key: int, length: int) -> bool:
    """Return whether a query may attend to a key; the length of the text excludes padding."""
    if key >= length:
        return False
    if spec.mask is MaskKind.CAUSAL:
        return key <= query
    if spec.mask is MaskKind.WINDOW:
        return query - spec.window < key <= query
    if spec.mask is MaskKind.OWN:
        assert spec.own_mask is not None
        return bool(spec.own_mask.to_array()[query, key])
    return True


def divisor(spec: AttentionSpec) -> float:
    """Return the divisor of the scores."""
    total = spec.d_in if spec.projection is Projection.NONE else spec.d_out
    d_head = total / spec.heads if spec.arrangement is HeadArrangement.SPLIT else total
    sizes = {ScaleKind.NONE: 1.0, ScaleKind.D_HEAD: d_head, ScaleKind.D_MODEL: spec.d_in}
    return math.sqrt(sizes[spec.scale]) * spec.temperature


@dataclass(frozen=True, slots=True, eq=False)
class _Text:
    spec: AttentionSpec
    given: np.ndarray
    weights: Mapping[str, np.ndarray]
    kept: np.ndarray | None
    length: int

    def stages(self) -> dict[str, Known]:
        """Compute every stage, in order."""
        spec = self.spec
        found: dict[str, Known] = {}
        x = _exact(self.given)
        if spec.position in {PositionKind.LEARNED, PositionKind.SINUSOIDAL}:
            found |= {"embedding": x, "position": self.position()}
            x = _plus(x, found["position"])
        found["input"] = x
        if spec.block is TransformerBlockKind.PRE_NORM:
            found["residual"] = x
            x = found["normed"] = self.normed(x, "ln1")
        compares = spec.normalisation is not NormalisationKind.UNIFORM
        if compares:
            before = "projected_" * (spec.position is PositionKind.ROTARY)
            found[f"{before}queries"] = self.projected(x, "W_query")
            found[f"{before}keys"] = self.projected(x, "W_key")
            for name in ("queries", "keys") if before else ():
                found[name] = self.rotated(found[f"{before}{name}"])
        found["values"] = self.projected(x, "W_value")
        if spec.normalisation is NormalisationKind.LINEAR:
            found |= self.without_weights(found)
        else:
            found |= self.weighed(found) if compares else self.averaged()
        is_linear = spec.normalisation is NormalisationKind.LINEAR
        is_dropped = spec.mode is DropoutMode.TRAIN and not is_linear
        if is_dropped and (spec.dropout > 0 or spec.own_kept is not None):
            found["dropped"] = self.dropped(found["weights"])
        read = found.get("dropped", found["weights"])
        if not is_linear:
            found["context"] = _dot("hqk,hkc->hqc", read, found["values"])
        found["concat"] = Known(
            np.concatenate(list(found["context"].value), axis=1),
            np.concatenate(list(found["context"].doubt), axis=1),
        )
        if spec.output_projection:
            mixed = _dot("tc,oc->to", found["concat"], self.weight("out_proj.weight"))
            found["output"] = _plus(mixed, self.weight("out_proj.bias"))
        return found | (
            self.after_attention(found) if spec.block is TransformerBlockKind.PRE_NORM else {}
        )

    def after_attention(self, found: Mapping[str, Known]) -> dict[str, Known]:
        attended = _plus(found["residual"], found.get("output", found["concat"]))
        normed = self.normed(attended, "ln2")
        up = self.linear(normed, "linear1")
        hidden = self.activated(up)
        added = self.linear(hidden, "linear2")
        return {
            **{"attended": attended, "normed_attended": normed, "up": up, "hidden": hidden},
            **{"feed_forward": added, "result": _plus(attended, added)},
        }

    def linear(self, x: Known, layer: str) -> Known:
        mixed = _dot("ti,oi->to", x, self.weight(f"{layer}.weight"))
        return _plus(mixed, self.weight(f"{layer}.bias"))

    def activated(self, up: Known) -> Known:
        if self.spec.activation is Activation.RELU:
            return Known(np.maximum(up.value, 0), up.doubt)
        halves = np.vectorize(lambda number: math.erfc(-number / math.sqrt(2)) / 2)(up.value)
        value = up.value * halves
        return Known(value, 1.2 * up.doubt + 4 * np.abs(up.value))  # the slope is less than 1.13

    def normed(self, x: Known, layer: str) -> Known:
        """Ba et al. 2016, eq. 4, for each row."""
        moved = x.value - x.value.mean(axis=1, keepdims=True)
        of_mean = (x.doubt + np.abs(x.value)).mean(axis=1, keepdims=True)
        doubt = x.doubt + of_mean + np.abs(moved)
        size = np.sqrt((moved**2).mean(axis=1, keepdims=True) + 1e-5)
        off = (np.abs(moved) * doubt).mean(axis=1, keepdims=True) / size**2 + 2
        share = Known(moved / size, doubt / size + np.abs(moved / size) * off)
        unsure = off * self.precision.eps > 0.1  # the first order is not sufficient
        gain, bias = self.weights[f"{layer}.weight"], self.weight(f"{layer}.bias")
        scaled = Known(share.value * gain, np.where(unsure, np.inf, share.doubt * np.abs(gain)))
        return _plus(scaled, bias)

    def weight(self, name: str) -> Known:
        return _exact(self.weights[name])

    def position(self) -> Known:
        tokens, d_in = self.given.shape
        if self.spec.position is PositionKind.LEARNED:
            return _exact(self.weights["position.weight"][:tokens])
        waves = np.empty((tokens, d_in))
        for place in range(tokens):
            for column in range(d_in):
                angle = place / 10_000 ** (2 * (column // 2) / d_in)
                waves[place, column] = math.cos(angle) if column % 2 else math.sin(angle)
        return Known(waves, np.abs(waves))

    def without_weights(self, found: Mapping[str, Known]) -> dict[str, Known]:
        """Linear attention: sums over the allowed keys of each query."""
        queries, keys = (_features(found[name]) for name in ("queries", "keys"))
        allowed = _exact(np.broadcast_to(self.allowed, (self.spec.heads, *self.allowed.shape)))
        values = found["values"]
        pairs = _times(
            Known(keys.value[..., None], keys.doubt[..., None]),
            Known(values.value[..., None, :], values.doubt[..., None, :]),
        )
        flat = [part.reshape(*part.shape[:2], -1) for part in (pairs.value, pairs.doubt)]
        sums = _dot("hqk,hks->hqs", allowed, Known(*flat))
        key_sums = _dot("hqk,hkd->hqd", allowed, keys)
        z = _dot("hqd,hqd->hq", queries, key_sums)
        z = Known(z.value[..., None], z.doubt[..., None])
        size = values.value.shape[-1]
        state = [part.reshape(*part.shape[:2], size, size) for part in (sums.value, sums.doubt)]
        products = _times(_dot("hqd,hkd->hqk", queries, keys), allowed)
        return {
            "feature_queries": queries,
            "feature_keys": keys,
            "key_value_sums": sums,
            "key_sums": key_sums,
            "normalizer": z,
            "weights": _over(products, z),
            "context": _over(_dot("hqd,hqdc->hqc", queries, Known(*state)), z),
        }

    def projected(self, x: Known, layer: str) -> Known:
        heads = [self.head(x, layer, head) for head in range(self.spec.heads)]
        return Known(np.stack([h.value for h in heads]), np.stack([h.doubt for h in heads]))

    def head(self, x: Known, layer: str, head: int) -> Known:
        spec = self.spec
        whole = x
        stacked = spec.arrangement is HeadArrangement.STACKED
        name = f"heads.{head}.{layer}" if stacked and spec.heads > 1 else layer
        if spec.projection is Projection.UNIFORM:
            whole = _dot("ti,io->to", x, self.weight(name))
        elif spec.projection is Projection.LINEAR:
            whole = _dot("ti,oi->to", x, self.weight(f"{name}.weight"))
            whole = _plus(whole, self.weight(f"{name}.bias")) if spec.bias else whole
        if stacked:
            return whole
        d_head = (spec.d_in if spec.projection is Projection.NONE else spec.d_out) // spec.heads
        group = spec.heads * d_head // whole.value.shape[1]  # query heads per key-value head
        columns = slice(head // group * d_head, (head // group + 1) * d_head)
        return Known(whole.value[:, columns], whole.doubt[:, columns])

    @property
    def allowed(self) -> np.ndarray:
        places = range(len(self.given))
        rows = [[is_allowed(self.spec, q, k, self.length) for k in places] for q in places]
        return np.array(rows)

    @property
    def real(self) -> np.ndarray:
        places = range(len(self.given))
        return np.array([[k < self.length for k in places] for _ in places])

    @property
    def masks_after(self) -> bool:
        return self.spec.mask is not MaskKind.NONE and self.spec.route is not MaskPlacement.BEFORE

    def weighed(self, found: Mapping[str, Known]) -> dict[str, Known]:
        spec = self.spec
        x = _dot("hqc,hkc->hqk", found["queries"], found["keys"])
        made = {"scores": x}
        if spec.scale is not ScaleKind.NONE or spec.temperature != 1:
            scaled = x.value / divisor(spec)
            x = made["scaled"] = Known(scaled, x.doubt / divisor(spec) + np.abs(scaled))
        if spec.position is PositionKind.ALIBI:
            made["bias"] = self.linear_biases()
            x = made["biased"] = _plus(x, made["bias"])
        cells = self.real if self.masks_after else self.allowed
        if spec.lengths or (spec.mask is not MaskKind.NONE and not self.masks_after):
            x = made["masked"] = Known(
                np.where(cells, x.value, -np.inf), np.where(cells, x.doubt, 0)
            )
        weights = self.normalised(x)
        if "masked" in made:
            some = cells.any(axis=1, keepdims=True)
            weights = Known(np.where(some, weights.value, 0), np.where(some, weights.doubt, 0))
        return made | (self.masked_after(weights) if self.masks_after else {"weights": weights})

    def rotated(self, x: Known) -> Known:
        """Su et al. 2021, §3.2.2, with complex numbers; the first half is the real part."""
        _, tokens, size = x.value.shape
        places, pairs = np.arange(tokens)[:, None], np.arange(size // 2)
        first, second = np.split(x.value, 2, axis=-1)
        turned = (first + 1j * second) * np.exp(1j * places * 10_000 ** (-2 * pairs / size))
        doubt = sum(np.split(x.doubt + 2 * np.abs(x.value), 2, axis=-1))
        return Known(
            np.concatenate([turned.real, turned.imag], axis=-1),
            np.concatenate([doubt, doubt], axis=-1),
        )

    def linear_biases(self) -> Known:
        """Press et al. 2022, §3, with the slopes of the authors' code."""

        def slopes(heads: int) -> list[float]:
            if math.log2(heads).is_integer():
                start = 2 ** -(2 ** -(math.log2(heads) - 3))
                return [start * start**head for head in range(heads)]
            below = 2 ** math.floor(math.log2(heads))
            return slopes(below) + slopes(2 * below)[::2][: heads - below]

        places = np.arange(len(self.given))
        distances = np.abs(places[:, None] - places)
        bias = np.stack([-slope * distances for slope in slopes(self.spec.heads)])
        return Known(bias, np.abs(bias))

    def averaged(self) -> dict[str, Known]:
        if self.masks_after:
            return self.masked_after(self.shared_alike(self.real))
        return {"weights": self.shared_alike(self.allowed)}

    def shared_alike(self, cells: np.ndarray) -> Known:
        rows = [row / row.sum() if row.any() else 0.0 * row for row in cells.astype(float)]
        shares = np.stack([np.stack(rows)] * self.spec.heads)
        return Known(shares, shares)

    def masked_after(self, weights: Known) -> dict[str, Known]:
        cells = self.allowed
        zeroed = Known(np.where(cells, weights.value, 0), np.where(cells, weights.doubt, 0))
        made = {"unmasked": weights}
        if self.spec.route is MaskPlacement.AFTER:
            return made | {"weights": zeroed}
        shares = self.rows(zeroed, self.shared)
        some = (np.abs(zeroed.value) + zeroed.doubt).any(axis=-1, keepdims=True)
        weights = Known(np.where(some, shares.value, 0), np.where(some, shares.doubt, 0))
        return made | {"zeroed": zeroed, "weights": weights}

    def normalised(self, x: Known) -> Known:
        rules: dict[NormalisationKind, Rule] = {
            NormalisationKind.SOFTMAX: self.softmax,
            NormalisationKind.NAIVE_SOFTMAX: self.naive,
            NormalisationKind.SUM: self.shared,
        }
        return self.rows(x, rules[self.spec.normalisation])

    def rows(self, x: Known, rule: Rule) -> Known:
        shape = x.value.shape
        value, doubt = np.empty(shape), np.empty(shape)
        for head in range(shape[0]):
            for query in range(shape[1]):
                row, row_doubt = x.value[head, query], x.doubt[head, query]
                value[head, query], doubt[head, query] = rule(row, row_doubt)
        return Known(value, doubt)

    def softmax(self, row: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        steps = row - row.max()
        exponentials = np.exp(steps)
        shares = exponentials / exponentials.sum()
        return shares, self.after_exponential(shares, steps, doubt)

    def naive(self, row: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kind = self.precision
        exponentials = np.exp(row).astype(kind.dtype).astype(np.float64)
        total = float(exponentials.sum().astype(kind.dtype))
        shares = exponentials / total
        own = self.after_exponential(shares, row, doubt)
        if 0 < total < 1e6 * float(kind.tiny):  # too few digits are left
            own[:] = np.inf
        return shares, np.where(np.isnan(shares), 0, own)

    def after_exponential(
        self, shares: np.ndarray, steps: np.ndarray, doubt: np.ndarray
    ) -> np.ndarray:
        counted = shares > 0
        own = np.where(counted, doubt + np.abs(np.where(counted, steps, 0)) + 2, 0)
        least = float(self.precision.tiny / self.precision.eps)
        doubts: np.ndarray = shares * (own + (shares * own).sum()) + least
        return doubts

    def shared(self, row: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = row.sum()
        shares = row / total
        total_doubt = doubt.sum() + np.abs(row).sum()
        if np.isnan(total) and np.isfinite(doubt).all():
            return shares, np.zeros(row.shape)
        if not total_doubt * self.precision.eps <= 0.1 * abs(total):
            return shares, np.full(row.shape, np.inf)
        return shares, (doubt + np.abs(shares) * total_doubt) / abs(total) + np.abs(shares)

    @property
    def precision(self) -> np.finfo[np.floating]:
        return np.finfo(self.spec.dtype.value)

    def dropped(self, weights: Known) -> Known:
        kept = self.kept if self.spec.own_kept is None else self.spec.own_kept.to_array()
        assert kept is not None
        larger = weights.value / (1 - self.spec.dropout)
        doubt = weights.doubt / (1 - self.spec.dropout) + np.abs(np.nan_to_num(larger))
        return Known(np.where(kept, larger, 0), np.where(kept, doubt, 0))


def _features(x: Known) -> Known:
    value = np.where(x.value > 0, x.value + 1, np.exp(np.minimum(x.value, 0)))
    slope = np.where(x.value > 0, 1, value)
    return Known(value, slope * x.doubt + (np.abs(np.minimum(x.value, 0)) + 2) * value)


def _times(one: Known, other: Known) -> Known:
    value = one.value * other.value
    doubt = np.abs(one.value) * other.doubt + np.abs(other.value) * one.doubt
    return Known(value, doubt + np.abs(value))


def _over(one: Known, z: Known) -> Known:
    """Divide by a positive number; rows of queries without keys become zero."""
    by = np.where(z.value == 0, 1, z.value)
    value = one.value / by
    return Known(value, (one.doubt + np.abs(value) * z.doubt) / by + np.abs(value))


def _exact(value: np.ndarray) -> Known:
    value = np.asarray(value, dtype=np.float64)
    return Known(value, np.zeros(value.shape))


def _plus(a: Known, b: Known) -> Known:
    total = a.value + b.value
    return Known(total, a.doubt + b.doubt + np.abs(total))


def _dot(axes: str, a: Known, b: Known) -> Known:
    value = np.einsum(axes, a.value, b.value)
    size_a, size_b = np.abs(a.value), np.abs(b.value)
    doubt = (
        np.einsum(axes, size_a, b.doubt)
        + np.einsum(axes, a.doubt, size_b)
        + np.einsum(axes, size_a, size_b)
    )
    lost_a, lost_b = 1.0 * np.isinf(a.doubt), 1.0 * np.isinf(b.doubt)
    lost = np.einsum(axes, lost_a, np.ones_like(lost_b)) + np.einsum(
        axes, np.ones_like(lost_a), lost_b
    )
    return Known(value, np.where(lost > 0, np.inf, np.where(np.isnan(value), 0, doubt)))
