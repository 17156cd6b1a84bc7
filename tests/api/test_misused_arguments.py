"""Every misuse of the Python API raises an `InputError` with a sentence, not an internal error."""

from __future__ import annotations

import decimal
import io
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from visualizer.api import attention_api, loading
from visualizer.api.argument_conversion import AttendArguments, FigureArguments
from visualizer.api.argument_validation import CUSTOM_WEIGHT_LAYERS
from visualizer.attention.stages import STAGE_TABLE
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable


attend: Any = attention_api.attend
load: Any = loading.load
NAN = float("nan")
LONG = "head" * 100
IT_HAS = (
    "It has input, queries, keys, values, scores, scaled, masked, weights, context, concat, output."
)
STAGES = (
    f"Stages of modules: {', '.join(dict.fromkeys(row.name for row in STAGE_TABLE))}; "
    "models have more."
)
NAMES = f"{', '.join(CUSTOM_WEIGHT_LAYERS)}."
SETTINGS = f"The settings are {', '.join(AttendArguments.__annotations__)}."


pytestmark = pytest.mark.usefixtures("one_thread", "qapp")

MISUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: attend(7), "text must be a text or a list of texts. It is 7."),
    (lambda: attend(b"a b"), "text must be a text or a list of texts. It is b'a b'."),
    (lambda: attend({"a", "b"}), "text must be a text or a list of texts. It is {'a', 'b'}."),
    (lambda: attend(["a", 1]), "text must be a text. It is 1."),
    (
        lambda: attend(" "),
        "text must be a text with at least one character other than whitespace. It is ' '.",
    ),
    (
        lambda: attend("\ud800"),
        "text must be a text without surrogate characters. It is '\\ud800'.",
    ),
    (lambda: attend("a", heads=True), "heads must be a whole number. It is True."),
    (lambda: attend("a", heads=2.0), "heads must be a whole number. It is 2.0."),
    (
        lambda: attend("a", heads=-1),
        "The number of heads must be at least 1 and at most 1,000. It is -1.",
    ),
    (
        lambda: attend("a", heads=0, mechanism="stacked", weights={"W_key": [[1.0]]}),
        "The number of heads must be at least 1 and at most 1,000. It is 0.",
    ),
    (
        lambda: attend("a", heads=10**5000),
        "The number of heads must be at least 1 and at most 1,000. It is a number of 5,001 digits.",
    ),
    (
        lambda: attend("a", embedding_size=10**7),
        "The embedding size must be at least 1 and at most 1,000,000. It is 10,000,000.",
    ),
    (
        lambda: attend("a", seed=-(2**63) + 1),
        "The seed must be at least 0 and at most 2,147,483,647. It is -9,223,372,036,854,775,807.",
    ),
    (lambda: attend("a", causal=1), "causal must be true or false. It is 1."),
    (lambda: attend("a", dropout=NAN), "The dropout rate must be a number. It is nan."),
    (
        lambda: attend("a", dropout=10**400),
        "The dropout rate must be at least 0 and less than 1. It is inf.",
    ),
    (
        lambda: attend("a", dropout=torch.tensor(0.5, requires_grad=True)),
        "dropout must be a number. It is tensor(0.5000, requires_grad=True).",
    ),
    (lambda: attend("a", temperature=NAN), "The temperature must be a number. It is nan."),
    (lambda: attend("a", temperature=-1), "The temperature must be greater than 0. It is -1."),
    (
        lambda: attend("a", mechanism="best"),
        "mechanism must be one of simplified, self, causal, stacked, multi-head, block, average. "
        "It is 'best'.",
    ),
    (
        lambda: attend("a", dtype=torch.int64),
        "dtype must be one of float32, float64. It is 'int64'.",
    ),
    (
        lambda: attend("a", dtype="float16"),
        "dtype must be one of float32, float64. It is 'float16'. Did you mean float64?",
    ),
    (lambda: attend("a", device=0), "device must be one of auto, cpu, cuda, mps. It is 0."),
    (lambda: attend("a", mask=[]), "mask must be one of none, causal, window, own. It is []."),
    (
        lambda: attend("a", own_mask=[[0.5]]),
        "own_mask must contain True and False, or 1 and 0. It contains other numbers.",
    ),
    (
        lambda: attend("a", own_mask=[["yes"]]),
        "own_mask must contain True and False, or 1 and 0. It contains strings.",
    ),
    (lambda: attend("a b", own_mask=[[1]]), "own_mask is 1 × 1, but the text requires 2 × 2."),
    (
        lambda: attend("a b", own_kept=[[1, 0, 1]]),
        "own_kept is 1 × 3, but the text requires 2 × 2.",
    ),
    (lambda: attend("a", own_mask=True), "own_mask must be a matrix. It is a single number."),
    (lambda: attend("a", **{LONG: 1}), f"Unknown setting “{LONG[:60]}”. {SETTINGS}"),
    (
        lambda: attend("a b", vectors=[1, 2]),
        "vectors must be a matrix. It is a vector of 2 numbers.",
    ),
    (
        lambda: attend("a b", vectors=[[1, 2], [3]]),
        "vectors must be a matrix of numbers: setting an array element with a sequence. "
        "The requested array has an inhomogeneous shape after 1 dimensions. The "
        "detected shape was (2,) + inhomogeneous part.",
    ),
    (
        lambda: attend("a", vectors=[[True, False]]),
        "vectors must contain numbers. It contains True and False.",
    ),
    (
        lambda: attend("a", vectors=[["1", "2"]]),
        "vectors must contain numbers. It contains strings.",
    ),
    (lambda: attend("a", vectors=[[NAN]]), "vectors must not contain infinite or NaN values."),
    (
        lambda: attend("a", vectors=np.array([["2026-01-01"]], "datetime64[D]")),
        "vectors must contain numbers. It contains dates.",
    ),
    (lambda: attend("a", vectors=np.zeros((0, 3))), "vectors must be a matrix. It is 0 × 3."),
    (
        lambda: attend("a", vectors=np.zeros((1, 1, 3))),
        "vectors must be a matrix. It is 1 × 1 × 3.",
    ),
    (
        lambda: attend("a", vectors=np.ma.masked_invalid([[NAN, 1]])),
        "vectors must not have masked elements.",
    ),
    (
        lambda: attend("a", vectors=np.broadcast_to(1.0, (10**6, 10**6))),
        "vectors must have at most 268,435,456 numbers. It has 1,000,000,000,000.",
    ),
    (
        lambda: attend("a", vectors=torch.eye(3).to_sparse()),
        "vectors must be a matrix of numbers: can't convert Sparse layout tensor to "
        "numpy. Use Tensor.to_dense() first.",
    ),
    (
        lambda: attend("a", vectors=torch.empty(1, 3, device="meta")),
        "vectors must be a matrix of numbers: Cannot copy out of meta tensor; no data.",
    ),
    (
        lambda: attend("a", vectors=[[1e300]]),
        "vectors: Some of the numbers are out of range for float32.",
    ),
    (lambda: attend("a b", vectors=[[1, 2]]), "The vectors are 1 × 2, but the text needs 2 × 2."),
    (
        lambda: attend(["a", "b"], vectors=[[1.0]]),
        "The custom vectors are for one text, but there are 2 texts.",
    ),
    (
        lambda: attend("a", weights=[[1.0]]),
        "weights must be a dictionary that maps names to arrays. It is [[1.0]].",
    ),
    (lambda: attend("a", weights={"Q": [[1.0]]}), f"Unknown weights “Q”. The names are {NAMES}"),
    (lambda: attend("a", weights={1: [[1.0]]}), f"Unknown weights “1”. The names are {NAMES}"),
    (
        lambda: attend("a", weights={"W_query": [1.0]}),
        "W_query must be a matrix. It is a vector of 1 numbers.",
    ),
    (
        lambda: attend("a", weights={"W_query.bias": [[1.0]]}),
        "W_query.bias must be a vector. It is 1 × 1.",
    ),
    (
        lambda: attend(
            "a", weights={"W_query.bias": [1.0, 2.0, 3.0], "W_key.bias": [1.0]}, heads=1
        ),
        "weights: W_query.bias is 1 × 3, but the settings need 1 × 1.",
    ),
    (
        lambda: attend("a", output_size=4, weights={"W_output": np.eye(2)}),
        "weights: W_output is 2 × 2, but the settings need 4 × 4.",
    ),
    (lambda: attend("a")[0], f"This module has no stage “0”. {IT_HAS}"),
    (lambda: attend("a")[np.arange(2)], f"This module has no stage “array([0, 1])”. {IT_HAS}"),
    (lambda: attend("a")["sums", 0], f"This module has no stage “sums”. {IT_HAS}"),
    (lambda: attend("a").dims(None), f"This module has no stage “None”. {IT_HAS}"),
    (
        lambda: attend("a").explain("weights", head=0, query=0.0, key=0),
        "query must be a whole number. It is 0.0.",
    ),
    (
        lambda: attend("a").explain("weights", head=True, query=0, key=0),
        "head must be a whole number. It is True.",
    ),
    (
        lambda: attend("a").explain("weights", head=0, query=10**30, key=0),
        "query must be a whole number of at most 18 digits. It is 1000000000000000000000000000000.",
    ),
    (
        lambda: attend("a").explain("weights", head=0, row=0, key=0),
        "The stage “weights” requires head, query, key.",
    ),
    (
        lambda: attend("a").figure(7),
        "stages must be the name of a stage or a list of names. It is 7.",
    ),
    (lambda: attend("a").figure([7]), "stages must be a list of names. It is 7."),
    (lambda: attend("a").figure(["sums"]), f"The stage “sums” does not exist. {STAGES}"),
    (lambda: attend("a").figure(heads=[0, 0.5]), "head must be a whole number. It is 0.5."),
    (
        lambda: attend("a").figure(heads="01"),
        "heads must be a list of heads, such as [0]. It is '01'.",
    ),
    (lambda: attend("a").figure(heads=[-1]), "Head -1 does not exist. Valid indices are 0 to 1."),
    (lambda: attend("a").figure(text=True), "text must be a whole number. It is True."),
    (lambda: attend("a").figure(size=85), "size must be a text. It is 85."),
    (
        lambda: attend("a").figure(size="85"),
        "size must be a size such as 180mm, 180x120mm, 1920x1080px or 7in, or one of "
        "as-in-the-window, paper-column, paper-page, slide, poster. It is '85'.",
    ),
    (
        lambda: attend("a").figure(dpi=-300),
        "The resolution must be at least 36 and at most 2,400 dpi.",
    ),
    (
        lambda: attend("a").figure(dpi=10**400),
        "dpi must be a whole number of at most 18 digits. It is "
        "100000000000000000...0000000000000000000.",
    ),
    (lambda: attend("a").figure(title=7), "title must be a text. It is 7."),
    (
        lambda: attend("a").figure(title="a\nb"),
        "title must be one line of at most 1,000 characters.",
    ),
    (lambda: attend("a").figure(caption="no"), "caption must be True or False. It is 'no'."),
    (
        lambda: attend("a").figure(layout=np.arange(3)),
        "layout must be one of shown, flow, panel, head, heads, stages, all, cells. "
        "It is array([0, 1, 2]).",
    ),
    (lambda: attend("a").save(7), "path must be the path of a file. It is 7."),
    (lambda: attend("a").save("a\0.png"), "path must be the path of a file. It is 'a\\x00.png'."),
    (
        lambda: attend("a").save("a.bmp"),
        "Unsupported export format “.bmp”. Supported: .png, .svg, .pdf, .html, .gif, .apng, "
        ".webp, .mp4, .npz, .csv, .md, .json, .safetensors or .attention.",
    ),
    (lambda: attend("a").save(b"a.png"), "path must be the path of a file. It is b'a.png'."),
    (lambda: load(None), "path must be the path of a file. It is None."),
    (lambda: load(""), "path must be the path of a file. It is ''."),
    (
        lambda: load("a" * 10_000),
        "path must be the path of a file. It is 'aaaaaaaaaaaa...aaaaaaaaaaaaa'.",
    ),
]


@pytest.mark.parametrize(("ask", "sentence"), MISUSED)
def test_a_misuse_is_rejected_in_a_sentence(ask: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        ask()
    assert refused.value.sentence == sentence


# ------------------------------------------------------------------ everything, given everywhere


class Unequal:
    """An object that cannot be compared, described or converted to an array."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __repr__(self) -> str:
        raise RuntimeError("not to be described")

    def __array__(self, *_: object) -> np.ndarray:
        raise TypeError("no array")


def values() -> dict[str, Any]:
    """Return new values of every kind, because some can be read only once."""
    needs_grad = torch.rand(3, 3, requires_grad=True)
    return {
        "True": True,
        "0": 0,
        "-1": -1,
        "2": 2,
        "huge": 10**5000,
        "1.5": 1.5,
        "nan": NAN,
        "inf": float("inf"),
        "blank": "",
        "letter": "x",
        "surrogate": "\ud800",
        "null": "a\0b",
        "long": "a" * 20_000,
        "bytes": b"x",
        "list": [],
        "dictionary": {},
        "set": {"a"},
        "nested": [[1, 2], [3]],
        "nothing inside": [None],
        "object": object(),
        "unequal": Unequal(),
        "function": attend,
        "type": int,
        "lock": threading.Lock(),
        "file": io.BytesIO(b"a"),
        "iterator": iter(["a"]),
        "decimal": decimal.Decimal(1),
        "complex": 3j,
        "array": np.eye(3),
        "array of bools": np.array([True, False]),
        "scalar of numpy": np.float32(1),
        "complex array": np.eye(3, dtype=complex),
        "array of objects": np.array([[object()]]),
        "no rows": np.zeros((0, 3)),
        "tensor that needs grad": needs_grad,
        "scalar tensor": needs_grad[0, 0],
        "bfloat16": torch.eye(3, dtype=torch.bfloat16),
        "sparse": torch.eye(3).to_sparse(),
        "meta": torch.empty(3, 3, device="meta"),
        "weights": {"W_query": needs_grad, "W_query.bias": [1]},
    }


def assert_said_if_refused(ask: Callable[[Any], Any], value: object) -> None:
    said = "Taken."
    try:
        ask(value)
    except InputError as refused:
        said = refused.sentence
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 500


PLACE = {"head": 0, "query": 0, "key": 0}


def by_name(ask: Any, name: str, beside: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a function that calls `ask` with a value for one argument."""
    return lambda value: ask(**(beside | {name: value}))


@pytest.mark.parametrize("name", values())
def test_any_value_is_accepted_or_rejected(name: str) -> None:
    attention = attend(["a b c", "d"], embedding_size=3)
    asked: list[Callable[[Any], Any]] = [
        attend,
        load,
        attention.save,
        attention.dims,
        attention.figure,
        attention.__getitem__,
        lambda value: attend(vectors=value),
        lambda value: attend("a b c", vectors=value),
        lambda value: attend("a b c", weights=value),
        lambda value: attend("a b c", weights={"W_query": value}),
        lambda value: attend("a b c", weights={"W_output.bias": value}),
        lambda value: attention.explain(value, **PLACE),
        lambda value: attention.figure(heads=value),
        lambda value: attention.figure(text=value),
        lambda value: attention.figure(layer=value),
    ]
    asked += [
        by_name(attend, setting, {"text": "a b c"}) for setting in AttendArguments.__annotations__
    ]
    asked += [by_name(attention.figure, look, {}) for look in FigureArguments.__annotations__]
    at = {"stage": "weights", **PLACE}
    asked += [by_name(attention.explain, axis, at) for axis in (*PLACE, "text", "layer")]
    for ask in asked:
        assert_said_if_refused(ask, values()[name])
    assert values()[name] not in attention
