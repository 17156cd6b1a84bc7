"""Copied and unpickled results have equal values, and unpickling does not import Qt."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.architecture.project_graph import ROOT
from tests.support.small_runs import KEYS, elsewhere
from visualizer.api.attention_api import Attention, attend
from visualizer.api.loading import load
from visualizer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("qapp")


def pickled(result: Any) -> Any:
    return pickle.loads(pickle.dumps(result))


WAYS = [copy.copy, copy.deepcopy, pickled]


@pytest.fixture(
    params=[
        {},
        {"mechanism": "average", "causal": True},
        {"text": ["a b c", "d"], "dropout": 0.5, "position": "learned", "dtype": "float64"},
        {"own_mask": np.tri(3), "mechanism": "stacked", "bias": True, "route": "after"},
    ],
    ids=["default", "average", "batch", "own mask"],
)
def attention(request: pytest.FixtureRequest) -> Attention:
    return attend(**{"text": "a b c", "device": "cpu", **request.param})


def assert_same(one: Attention, other: Attention) -> None:
    assert repr(one) == repr(other)
    assert (one.tokens, one.key_tokens, one.notices) == (
        *(other.tokens, other.key_tokens),
        other.notices,
    )
    assert (one.stages, one.document, one.view) == (other.stages, other.document, other.view)
    for stage in one.stages:
        assert one.dims(stage) == other.dims(stage)
        np.testing.assert_array_equal(one[stage], other[stage], strict=True)
    for name, array in one.parameters.items():
        np.testing.assert_array_equal(array, other.parameters[name], strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_copy_has_the_same_numbers(attention: Attention, way: Callable[[Any], Any]) -> None:
    again = way(attention)
    assert_same(again, attention)
    assert again.spec == attention.spec
    last = attention.stages[-1]
    place = dict.fromkeys(attention.dims(last), 0)
    assert again.explain(last, **place).sentence == attention.explain(last, **place).sentence
    np.testing.assert_array_equal(again.figure().array(), attention.figure().array())
    with pytest.raises(ValueError, match="read-only"):
        again["weights"][..., 0] = 1


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_of_captured_attention_has_the_same_numbers(
    tmp_path: Path, way: Callable[[Any], Any]
) -> None:
    np.savez(tmp_path / "a.npz", attention=elsewhere().to_array(), key_tokens=np.array(KEYS))
    loaded = load(tmp_path / "a.npz")
    assert_same(way(loaded), loaded)


@pytest.mark.parametrize("way", [copy.deepcopy, pickled])
def test_copies_do_not_share_data(attention: Attention, way: Callable[[Any], Any]) -> None:
    again = way(attention)
    for stage in attention.stages:
        assert not np.shares_memory(again[stage], attention[stage])


@pytest.mark.parametrize("way", WAYS)
def test_figures_and_explanations_are_copied(way: Callable[[Any], Any]) -> None:
    attention = attend("a b c")
    figure = attention.figure("weights", size="85mm", title="Two heads")
    np.testing.assert_array_equal(way(figure).array(), figure.array())
    explained = attention.explain("weights", head=0, query=1, key=0)
    again = way(explained)
    assert (again.value, again.terms, repr(again)) == (
        *(explained.value, explained.terms),
        repr(explained),
    )


def test_an_error_is_pickled_as_other_processes_do() -> None:
    with pytest.raises(InputError) as refused:
        attend("a", heads=3)
    again = pickled(refused.value)
    assert (again.field, again.sentence, again.remedy) == ("heads", str(again), ("d_out", 3))
    assert str(again) == str(refused.value)


UNPICKLED = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    attention, figure, explained = pickle.load(file)
print(attention["weights"].sum(), explained.value)
assert "PySide6" not in sys.modules
"""


@pytest.mark.slow
def test_unpickling_starts_no_qt(tmp_path: Path) -> None:
    attention = attend("a b c", device="cpu")
    explained = attention.explain("weights", head=0, query=1, key=0)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps((attention, attention.figure(), explained)))
    kept = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
    ended = subprocess.run(
        [sys.executable, "-c", UNPICKLED, str(tmp_path / "a.pkl")],
        cwd=ROOT,
        env={name: os.environ[name] for name in kept if name in os.environ},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == [str(attention["weights"].sum()), str(explained.value)]
