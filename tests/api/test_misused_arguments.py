"""Every misuse of the notebook API is an `InputError` in a sentence, never an error from inside."""

from __future__ import annotations

import decimal
import io
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from visualizer.api import attention_api
from visualizer.api.arguments_without_effect import OWN
from visualizer.api.keyword_argument_types import Look, Settings
from visualizer.attention.stages import TABLE
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from PySide6.QtGui import QGuiApplication

attend: Any = attention_api.attend
load: Any = attention_api.load
NAN = float("nan")
LONG = "head" * 100
IT_HAS = (
    "It has input, queries, keys, values, scores, scaled, masked, weights, context, concat, output."
)
STAGES = (
    f"Stages of modules: {', '.join(dict.fromkeys(row.name for row in TABLE))}; models have more."
)
NAMES = f"{', '.join(OWN)}."
SETTINGS = f"There are {', '.join(Settings.__annotations__)}."


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Compute on one thread: waking others takes longer than so little work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def one_application(qapp: QGuiApplication) -> None:
    """Draw with the application of the tests."""


MISUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: attend(7),
        "text is a text or a list of texts, and not 7.",
    ),
    (
        lambda: attend(b"a b"),
        "text is a text or a list of texts, and not b'a b'.",
    ),
    (
        lambda: attend({"a", "b"}),
        "text is a text or a list of texts, and not {'a', 'b'}.",
    ),
    (
        lambda: attend({"a": 1}),
        "text is a text or a list of texts, and not {'a': 1}.",
    ),
    (
        lambda: attend(["a", 1]),
        "text is a text, and not 1.",
    ),
    (
        lambda: attend(" "),
        "text is a text that is not blank, and not ' '.",
    ),
    (
        lambda: attend(["a", "\n"]),
        "text is a text that is not blank, and not '\\n'.",
    ),
    (
        lambda: attend("\ud800"),
        "text is a text of whole characters (no surrogates), and not '\\ud800'.",
    ),
    (
        lambda: attend("a", heads=True),
        "heads is a whole number, and not True.",
    ),
    (
        lambda: attend("a", heads=2.0),
        "heads is a whole number, and not 2.0.",
    ),
    (
        lambda: attend("a", heads="2"),
        "heads is a whole number, and not '2'.",
    ),
    (
        lambda: attend("a", heads=-1),
        "The heads cannot be -1. Use 1 or more.",
    ),
    (
        lambda: attend("a", heads=0, mechanism="stacked", weights={"W_key": [[1.0]]}),
        "The heads cannot be 0. Use 1 or more.",
    ),
    (
        lambda: attend("a", heads=10**5000),
        "heads is a whole number of at most 18 digits, and not an int of more than 4,300 digits.",
    ),
    (
        lambda: attend("a", embedding_size=10**7),
        "The embedding size cannot be more than 1,000,000. Use 1,000,000 or less.",
    ),
    (
        lambda: attend("a", seed=-(2**63) + 1),
        "A seed is a whole number from 0 to 2³¹ − 1, not -9223372036854775807.",
    ),
    (
        lambda: attend("a", causal=1),
        "causal is True or False, and not 1.",
    ),
    (
        lambda: attend("a", causal=[True, False]),
        "causal is True or False, and not [True, False].",
    ),
    (
        lambda: attend("a", dropout=True),
        "dropout is a number, and not True.",
    ),
    (
        lambda: attend("a", dropout=NAN),
        "dropout: The rate is not a number. Use 0 up to, but not with, 1.",
    ),
    (
        lambda: attend("a", dropout=10**400),
        "dropout is a number that a float can hold, and not "
        "100000000000000000...0000000000000000000.",
    ),
    (
        lambda: attend("a", dropout=torch.tensor(0.5, requires_grad=True)),
        "dropout is a number, and not tensor(0.5000, requires_grad=True).",
    ),
    (
        lambda: attend("a", temperature=NAN),
        "A temperature of nan cannot divide. Use more than 0.",
    ),
    (
        lambda: attend("a", temperature=-1),
        "A temperature of -1 cannot divide. Use more than 0.",
    ),
    (
        lambda: attend("a", temperature="hot"),
        "temperature is a number, and not 'hot'.",
    ),
    (
        lambda: attend("a", mechanism="best"),
        "mechanism is one of simplified, self, causal, stacked, multi-head, block, average, "
        "and not 'best'.",
    ),
    (
        lambda: attend("a", scale="d_k"),
        "scale is one of none, d_head, d_model, and not 'd_k'.",
    ),
    (
        lambda: attend("a", dtype=torch.int64),
        "dtype is one of float32, float64, and not 'int64'.",
    ),
    (
        lambda: attend("a", dtype="float16"),
        "dtype is one of float32, float64, and not float16. Weights that are stored as float16 are "
        "converted to float32 without loss.",
    ),
    (
        lambda: attend("a", device=0),
        "device is one of auto, cpu, cuda, mps, and not 0.",
    ),
    (
        lambda: attend("a", mask=[]),
        "mask is one of none, causal, window, own, and not [].",
    ),
    (
        lambda: attend("a", own_mask=[[0.5]]),
        "“own_mask” takes True and False, or 1 and 0, not other numbers.",
    ),
    (
        lambda: attend("a", own_mask=[["yes"]]),
        "“own_mask” takes True and False, or 1 and 0, not texts.",
    ),
    (
        lambda: attend("a b", own_mask=[[1]]),
        "own_mask is 1 × 1 and the text needs 2 × 2.",
    ),
    (
        lambda: attend("a b", own_kept=[[1, 0, 1]]),
        "own_kept is 1 × 3 and the text needs 2 × 2.",
    ),
    (
        lambda: attend("a", own_mask=True),
        "“own_mask” takes a matrix of rows and columns, and is a single number.",
    ),
    (
        lambda: attend("a", **{LONG: 1}),
        f"There is no setting “{LONG[:60]}”. {SETTINGS}",
    ),
    (
        lambda: attend("a b", vectors=[1, 2]),
        "“vectors” takes a matrix of rows and columns, and is a row of 2.",
    ),
    (
        lambda: attend("a b", vectors=[[1, 2], [3]]),
        "“vectors” is no matrix of numbers: setting an array element with a sequence. "
        "The requested array has an inhomogeneous shape after 1 dimensions. The "
        "detected shape was (2,) + inhomogeneous part.",
    ),
    (
        lambda: attend("a", vectors=[[True, False]]),
        "“vectors” takes numbers, and has True and False.",
    ),
    (
        lambda: attend("a", vectors=[["1", "2"]]),
        "“vectors” takes numbers, and has texts.",
    ),
    (
        lambda: attend("a", vectors=[[1j]]),
        "“vectors” takes numbers, and has complex numbers.",
    ),
    (
        lambda: attend("a", vectors=np.array([[object()]])),
        "“vectors” takes numbers, and has objects.",
    ),
    (
        lambda: attend("a", vectors=[[NAN]]),
        "“vectors” has numbers that are not finite.",
    ),
    (
        lambda: attend("a", vectors=np.array([["2026-01-01"]], "datetime64[D]")),
        "“vectors” takes numbers, and has dates.",
    ),
    (
        lambda: attend("a", vectors=np.zeros((0, 3))),
        "“vectors” takes a matrix of rows and columns, and is 0 × 3.",
    ),
    (
        lambda: attend("a", vectors=np.zeros((1, 1, 3))),
        "“vectors” takes a matrix of rows and columns, and is 1 × 1 × 3.",
    ),
    (
        lambda: attend("a", vectors=np.ma.masked_invalid([[NAN, 1]])),
        "“vectors” has masked cells. Fill them with numbers.",
    ),
    (
        lambda: attend("a", vectors=np.broadcast_to(1.0, (10**6, 10**6))),
        "“vectors” has 1,000,000,000,000 numbers, and 268,435,456 can be given.",
    ),
    (
        lambda: attend("a", vectors=torch.eye(3).to_sparse()),
        "“vectors” is no matrix of numbers: can't convert Sparse layout tensor to "
        "numpy. Use Tensor.to_dense() first.",
    ),
    (
        lambda: attend("a", vectors=torch.empty(1, 3, device="meta")),
        "“vectors” is no matrix of numbers: Cannot copy out of meta tensor; no data.",
    ),
    (
        lambda: attend("a", vectors=[[1e300]]),
        "vectors: Some of the numbers are out of range for float32.",
    ),
    (
        lambda: attend("a b", vectors=[[1, 2]]),
        "The vectors are 1 × 2, but the text needs 2 × 2.",
    ),
    (
        lambda: attend(["a", "b"], vectors=[[1.0]]),
        "The custom vectors are for one text, but there are 2 texts.",
    ),
    (
        lambda: attend("a", weights=[[1.0]]),
        "weights is a dictionary of arrays by name, and not [[1.0]].",
    ),
    (
        lambda: attend("a", weights={"Q": [[1.0]]}),
        f"There are no weights “Q”, only {NAMES}",
    ),
    (
        lambda: attend("a", weights={1: [[1.0]]}),
        f"There are no weights “1”, only {NAMES}",
    ),
    (
        lambda: attend("a", weights={"W_query": [1.0]}),
        "“W_query” takes a matrix of rows and columns, and is a row of 1.",
    ),
    (
        lambda: attend("a", weights={"W_query.bias": [[1.0]]}),
        "“W_query.bias” takes a row of numbers, and is 1 × 1.",
    ),
    (
        lambda: attend(
            "a", weights={"W_query.bias": [1.0, 2.0, 3.0], "W_key.bias": [1.0]}, heads=1
        ),
        "weights: W_query.bias is 1 × 3 and the sizes need 1 × 1.",
    ),
    (
        lambda: attend("a", output_size=4, weights={"W_output": np.eye(2)}),
        "weights: W_output is 2 × 2 and the sizes need 4 × 4.",
    ),
    (
        lambda: attend("a")[0],
        f"This module has no stage “0”. {IT_HAS}",
    ),
    (
        lambda: attend("a")[np.arange(2)],
        f"This module has no stage “array([0, 1])”. {IT_HAS}",
    ),
    (
        lambda: attend("a")["sums", 0],
        f"This module has no stage “sums”. {IT_HAS}",
    ),
    (
        lambda: attend("a")["sums"],
        f"This module has no stage “sums”. {IT_HAS}",
    ),
    (
        lambda: attend("a").dims(None),
        f"This module has no stage “None”. {IT_HAS}",
    ),
    (
        lambda: attend("a").explain("weights", head=0, query=0.0, key=0),
        "query is a whole number, and not 0.0.",
    ),
    (
        lambda: attend("a").explain("weights", head=True, query=0, key=0),
        "head is a whole number, and not True.",
    ),
    (
        lambda: attend("a").explain("weights", head="1", query=0, key=0),
        "head is a whole number, and not '1'.",
    ),
    (
        lambda: attend("a").explain("weights", head=NAN, query=0, key=0),
        "head is a whole number, and not nan.",
    ),
    (
        lambda: attend("a").explain("weights", head=0, query=10**30, key=0),
        "query is a whole number of at most 18 digits, and not 1000000000000000000000000000000.",
    ),
    (
        lambda: attend("a").explain("weights", head=0, row=0, key=0),
        "The stage “weights” takes head, query, key.",
    ),
    (
        lambda: attend("a").figure(7),
        "stages is the name of a stage or a list of names, and not 7.",
    ),
    (
        lambda: attend("a").figure([7]),
        "stages is a list of names, and not 7.",
    ),
    (
        lambda: attend("a").figure(["sums"]),
        f"There is no stage “sums”. {STAGES}",
    ),
    (
        lambda: attend("a").figure(heads=[0, 0.5]),
        "head is a whole number, and not 0.5.",
    ),
    (
        lambda: attend("a").figure(heads="01"),
        "heads is a list of heads, such as [0], and not '01'.",
    ),
    (
        lambda: attend("a").figure(heads=[-1]),
        "There is no head -1, only 0 to 1.",
    ),
    (
        lambda: attend("a").figure(text=True),
        "text is a whole number, and not True.",
    ),
    (
        lambda: attend("a").figure(text="0"),
        "text is a whole number, and not '0'.",
    ),
    (
        lambda: attend("a").figure(layer=None),
        "layer is a whole number, and not None.",
    ),
    (
        lambda: attend("a").figure(width=85),
        "width is a text, and not 85.",
    ),
    (
        lambda: attend("a").figure(width="85"),
        "width is a size such as 180mm, 180x120mm, 1920x1080px or 7in, or one of "
        "as-in-the-window, paper-column, paper-page, slide, poster, and not '85'.",
    ),
    (
        lambda: attend("a").figure(dpi=300.5),
        "dpi is a whole number, and not 300.5.",
    ),
    (
        lambda: attend("a").figure(dpi=-300),
        "dpi: A figure has 36 to 2,400 pixels an inch.",
    ),
    (
        lambda: attend("a").figure(dpi=10**400),
        "dpi is a whole number of at most 18 digits, and not "
        "100000000000000000...0000000000000000000.",
    ),
    (
        lambda: attend("a").figure(title=7),
        "title is a text, and not 7.",
    ),
    (
        lambda: attend("a").figure(title="a\nb"),
        "title is one line of at most 1,000 characters.",
    ),
    (
        lambda: attend("a").figure(caption="no"),
        "caption is True or False, and not 'no'.",
    ),
    (
        lambda: attend("a").figure(theme="blue"),
        "theme is one of print, light, dark, and not 'blue'.",
    ),
    (
        lambda: attend("a").figure(layout=np.arange(3)),
        "layout is one of shown, panel, head, heads, stages, all, cells, and not array([0, 1, 2]).",
    ),
    (
        lambda: attend("a").save(7),
        "path is the path of a file, and not 7.",
    ),
    (
        lambda: attend("a").save("a\0.png"),
        "path is the path of a file, and not 'a\\x00.png'.",
    ),
    (
        lambda: attend("a").save("a.bmp"),
        "“.bmp” is no format to export. Use .png, .svg, .pdf, .html, .gif, .apng, "
        ".webp, .mp4, .npz, .csv, .md, .json, .safetensors or .attention.",
    ),
    (
        lambda: attend("a").save(b"a.png"),
        "path is the path of a file, and not b'a.png'.",
    ),
    (
        lambda: load(None),
        "path is the path of a file, and not None.",
    ),
    (
        lambda: load(""),
        "path is the path of a file, and not ''.",
    ),
    (
        lambda: load("a" * 10_000),
        "path is the path of a file, and not 'aaaaaaaaaaaa...aaaaaaaaaaaaa'.",
    ),
]


@pytest.mark.parametrize(("ask", "sentence"), MISUSED)
def test_a_misuse_is_refused_in_a_sentence(ask: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(InputError) as refused:
        ask()
    assert refused.value.sentence == sentence


# ------------------------------------------------------------------ everything, given everywhere


class Unequal:
    """An object that can neither be compared nor described nor made an array."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __repr__(self) -> str:
        raise RuntimeError("not to be described")

    def __array__(self, *_: object) -> np.ndarray:
        raise TypeError("no array")


def values() -> dict[str, Any]:
    """Values of every kind, made anew: some can be read once."""
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
    """Return a call that gives a value to one argument."""
    return lambda value: ask(**(beside | {name: value}))


@pytest.mark.parametrize("name", values())
def test_any_value_is_taken_or_refused(name: str) -> None:
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
    asked += [by_name(attend, setting, {"text": "a b c"}) for setting in Settings.__annotations__]
    asked += [by_name(attention.figure, look, {}) for look in Look.__annotations__]
    at = {"stage": "weights", **PLACE}
    asked += [by_name(attention.explain, axis, at) for axis in (*PLACE, "text", "layer")]
    for ask in asked:
        assert_said_if_refused(ask, values()[name])
    assert values()[name] not in attention
