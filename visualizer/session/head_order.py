"""Orders of the heads in the overview of all layers."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class HeadOrder(StrEnum):
    """Order by layer, by a measure, or by similarity."""

    LAYER = "layer"
    PREVIOUS = "previous"
    INDUCTION = "induction"
    DUPLICATE = "duplicate"
    FIRST = "first"
    OWN = "own"
    SHARPEST = "sharpest"
    FARTHEST = "farthest"
    VALUE_WEIGHTING = "value-weighting"
    ALIKE = "alike"
    CHANGED = "changed"


CHANGE_MEASURE = "change"
"""Name of the measure for the distance of a head's weights from those of the unedited model."""


class HeadOrderSpec(Struct, frozen=True):
    """The definition of an order of the heads.

    Parameters
    ----------
    title : str
        Label in the list of orders.
    measure : str
        The field of `HeadMeasures` to sort by, or `CHANGE_MEASURE`; empty if no measure is used.
    is_descending : bool
        Whether the largest value comes first.
    behaviour : str
        Behaviour of the heads that come first.
    """

    order: HeadOrder
    title: str
    measure: str = ""
    is_descending: bool = True
    behaviour: str = ""


ORDERS: tuple[HeadOrderSpec, ...] = (
    HeadOrderSpec(HeadOrder.LAYER, "By layer"),
    HeadOrderSpec(
        HeadOrder.INDUCTION,
        "Induction first",
        "induction",
        behaviour="attends to the token after an earlier occurrence of the same token",
    ),
    HeadOrderSpec(
        HeadOrder.DUPLICATE,
        "Duplicate token first",
        "duplicate",
        behaviour="attends to earlier occurrences of the same token",
    ),
    HeadOrderSpec(
        HeadOrder.PREVIOUS,
        "Previous token first",
        "previous",
        behaviour="attends to the previous token",
    ),
    HeadOrderSpec(
        HeadOrder.FIRST, "First token first", "first", behaviour="attends to the first token"
    ),
    HeadOrderSpec(
        HeadOrder.OWN, "Current token first", "own", behaviour="attends to the current token"
    ),
    HeadOrderSpec(HeadOrder.SHARPEST, "Sharpest first", "entropy", is_descending=False),
    HeadOrderSpec(HeadOrder.FARTHEST, "Farthest first", "distance"),
    HeadOrderSpec(
        HeadOrder.VALUE_WEIGHTING,
        "Value-weighted first",
        "value_weighting",
        behaviour="weights change when multiplied by ‖v‖ and renormalized",
    ),
    HeadOrderSpec(HeadOrder.ALIKE, "Similar heads together"),
    HeadOrderSpec(HeadOrder.CHANGED, "Most changed first", CHANGE_MEASURE),
)


def find_head_order_spec(order: HeadOrder) -> HeadOrderSpec:
    """Return the definition of an order."""
    return next(row for row in ORDERS if row.order is order)
