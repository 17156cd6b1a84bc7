"""The command line and notebooks open files with attention, weights and texts."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from PySide6.QtGui import QImage

from tests.cli.test_export import numbers
from tests.support.small_runs import KEYS, QUERIES, elsewhere
from visualizer import app
from visualizer.api.attention_api import Attention, attend
from visualizer.api.loading import load
from visualizer.attention.modules import SelfAttentionV2
from visualizer.documents.open_document import open_document
from visualizer.errors import InputError
from visualizer.export.formats import FORMATS, FormatKind

if TYPE_CHECKING:
    from pathlib import Path


SAID = "attention-visualizer: "
CARRYING = {FormatKind.FIGURE, FormatKind.DOCUMENT}


pytestmark = pytest.mark.usefixtures("qapp")


@pytest.fixture
def rectangle(tmp_path: Path) -> Path:
    """Write a NumPy file with two layers of attention with three queries and five keys."""
    tokens = {"query_tokens": np.array(QUERIES), "key_tokens": np.array(KEYS)}
    np.savez(tmp_path / "attn.npz", attention=elsewhere().to_array(), **tokens)  # type: ignore[arg-type]
    return tmp_path / "attn.npz"


@pytest.fixture
def attention(rectangle: Path) -> Attention:
    found = load(rectangle)
    assert isinstance(found, Attention)
    return found


# --------------------------------------------------------------------------------- in a notebook


def test_captured_stages_are_read_by_name(attention: Attention) -> None:
    assert attention.stages == ("weights",)
    assert attention.dims("weights") == ("layer", "head", "query", "key")
    np.testing.assert_array_equal(attention["weights"], elsewhere().to_array())
    assert (attention.tokens, attention.key_tokens) == (QUERIES, KEYS)
    assert (attention.parameters, attention.weights, attention.notices) == ({}, {}, ())
    assert repr(attention) == "<Attention: attn.npz · 2 layers × 2 heads × 3 × 5>"
    with pytest.raises(InputError, match=r"attn\.npz does not contain the settings of a module"):
        _ = attention.spec
    with pytest.raises(InputError, match=r"attn\.npz has no stage “scores”\. It has weights\."):
        attention["scores"]


def test_one_layer_has_no_axis_of_layers(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", elsewhere().to_array()[0, :, :, :3] * 0)
    with pytest.warns(UserWarning, match="do not sum to 1"):
        one = load(tmp_path / "a.npy")
    assert one.dims("weights") == ("head", "query", "key")
    assert one.tokens == one.key_tokens == ("1", "2", "3")


def test_the_tokens_of_a_module_attend_to_themselves() -> None:
    one, several = attend("a b c"), attend(["a b", "c d"])
    assert one.key_tokens == one.tokens == ("a", "b", "c")
    assert several.key_tokens == several.tokens == (("a", "b"), ("c", "d"))


def test_a_number_is_found_by_its_layer(attention: Attention) -> None:
    for layer, head, query, key in ((0, 0, 0, 0), (1, 1, 2, 3)):
        explained = attention.explain("weights", layer=layer, head=head, query=query, key=key)
        assert explained.value == elsewhere().to_array()[layer, head, query, key]
        assert explained.formula == f"read from {attention.run.source_display_name}"
        assert QUERIES[query] in explained.sentence
        assert KEYS[key] in explained.sentence
    first = attention.explain("weights", head=0, query=0, key=0)
    assert first.value == elsewhere().to_array()[0, 0, 0, 0]
    with pytest.raises(InputError, match="Layer 2 does not exist"):
        attention.explain("weights", layer=2, head=0, query=0, key=0)
    with pytest.raises(InputError, match="requires head, query, key"):
        attention.explain("weights", text=0, head=0, query=0, key=0)


UNWRITABLE = pytest.mark.filterwarnings("ignore:No installed font:UserWarning")
"""Tokens for which some systems have no font."""


@UNWRITABLE
def test_figures_are_of_a_layer(attention: Attention) -> None:
    first, second = (attention.figure(layer=layer).array() for layer in (0, 1))
    assert first.shape == second.shape
    assert (first != second).any()
    np.testing.assert_array_equal(attention.figure().array(), first)
    assert attention.figure(heads=[0]).array().shape[0] < first.shape[0]


@UNWRITABLE
def test_it_is_saved_to_be_opened_again(attention: Attention, tmp_path: Path) -> None:
    attention.save(tmp_path / "b.attention", tmp_path / "b.npz", tmp_path / "b.png")
    for name in ("b.attention", "b.npz"):
        again = load(tmp_path / name)
        np.testing.assert_array_equal(again["weights"], attention["weights"])
        assert (again.tokens, again.key_tokens) == (QUERIES, KEYS)
    assert load(tmp_path / "b.attention").document == attention.document
    assert not QImage(str(tmp_path / "b.png")).isNull()


def test_a_module_is_saved_to_be_opened_again(tmp_path: Path) -> None:
    first = attend("a b c", seed=5, dropout=0.5)
    first.save(tmp_path / "a.attention")
    again = load(tmp_path / "a.attention")
    assert again.document == first.document
    np.testing.assert_array_equal(again["output"], first["output"])


def test_a_text_is_computed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cat sat", encoding="utf-8")
    np.testing.assert_array_equal(
        load(tmp_path / "a.txt")["output"], attend("The cat sat")["output"]
    )


def module_in(path: Path) -> SelfAttentionV2:
    torch.manual_seed(0)
    module = SelfAttentionV2(6, 4, qkv_bias=True)
    torch.save(module.state_dict(), path)
    return module


def test_weights_are_those_of_the_module(tmp_path: Path) -> None:
    module = module_in(tmp_path / "a.pt")
    with pytest.warns(UserWarning, match="6 → 4"):
        attention = load(tmp_path / "a.pt")
    with torch.no_grad():
        expected = module(torch.tensor(attention["input"]))
    np.testing.assert_allclose(attention["context"][0], expected, rtol=1e-5, atol=1e-6)


def test_notices_are_warnings_at_the_caller(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", elsewhere().to_array() * 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(tmp_path / "a.npy")
    assert {warning.filename for warning in caught} == {__file__}
    assert any("the sums range from 2 to 2" in str(warning.message) for warning in caught)


# ------------------------------------------------------------------------------------ in a shell


@pytest.mark.slow
def test_every_format_that_there_is_can_be_written(
    rectangle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = [each for each in FORMATS if not each.needs and each.suffix != ".safetensors"]
    names = [f"b{each.suffix}" for each in written]
    options = [part for name in names for part in ("--export", str(tmp_path / name))]
    assert app.main([str(rectangle), *options]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if line.endswith("written.")]
    assert said == [f"{SAID}{name} written." for name in names]
    np.testing.assert_array_equal(numbers(tmp_path / "b.npz")["weights"], elsewhere().to_array())
    for name in (f"b{each.suffix}" for each in written if each.kind in CARRYING):
        captured = open_document(tmp_path / name).document.captured
        assert captured is not None
        shown = elsewhere().to_array()[: captured.layers]  # an image embeds the layer that it shows
        np.testing.assert_array_equal(captured.to_array(), shown)


def test_there_are_no_weights_and_the_other_files_are_written(
    rectangle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("b.safetensors", "b.json")
    options = [part for name in names for part in ("--export", str(tmp_path / name))]
    assert app.main([str(rectangle), *options]) == 1
    said = "attn.npz contains attention weights but no module weights. Export it as NPZ."
    assert capsys.readouterr().err == f"{SAID}{said}\n{SAID}b.json written.\n"
    assert not (tmp_path / "b.safetensors").exists()


def test_options_choose_and_name_what_was_captured(rectangle: Path, tmp_path: Path) -> None:
    options = ["--text", "a b c", "--text", "v w x y z", "--heads-shown", "2"]
    path = tmp_path / "b.attention"
    assert app.main([str(rectangle), *options, "--export", str(path)]) == 0
    saved = open_document(path)
    assert (saved.document.captured, saved.document.labels) == (elsewhere(), "a b c\nv w x y z")
    assert saved.view.heads == frozenset({1})
    assert load(path).key_tokens == ("v", "w", "x", "y", "z")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "--heads 2",
            "--heads has no effect on attn.npz, which contains attention weights rather "
            "than a module. Remove --heads.",
        ),
        (
            "--causal",
            "--causal has no effect on attn.npz, which contains attention weights rather "
            "than a module. Remove --causal.",
        ),
        ("--stages scores", "argument --stages: attn.npz has no stage “scores”. It has weights."),
        ("--heads-shown 3", "argument --heads-shown: Head 3 does not exist. There are 2 heads."),
        (
            "--text one",
            "argument --text: Enter 3 tokens for the queries on one line and 5 for the keys on the "
            "next. You entered 1.",
        ),
    ],
)
def test_options_without_effect_are_reported(
    options: str, said: str, rectangle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = rectangle.with_name("b.png")
    assert app.main([str(rectangle), *options.split(), "--export", str(target)]) == 2
    assert capsys.readouterr().err == f"{SAID}{said}\n"
    assert not target.exists()


def test_the_content_of_a_weights_file_is_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module_in(tmp_path / "a.pt")
    target = tmp_path / "b.npz"
    assert app.main([str(tmp_path / "a.pt"), "--causal", "--export", str(target)]) == 0
    assert capsys.readouterr().err.startswith(f"{SAID}Self-attention, 6 → 4")
    assert "masked" in numbers(target)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "--embedding-size 8",
            "argument --embedding-size: invalid value '8': W_query is 6 × 4, but",
        ),
        (
            "--heads 2",
            "argument --heads: invalid value '2': W_query is 6 × 4, but the settings need 6 × 8.",
        ),
    ],
)
def test_an_option_that_does_not_fit_weights_is_named(
    option: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module_in(tmp_path / "a.pt")
    assert app.main([str(tmp_path / "a.pt"), *option.split()]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"{SAID}{said}")


def test_a_text_in_a_file_is_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The cat sat", encoding="utf-8")
    assert app.main([str(tmp_path / "a.txt"), "--export", str(tmp_path / "b.npz")]) == 0
    assert numbers(tmp_path / "b.npz")["tokens"].tolist() == ["The", "cat", "sat"]


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.safetensors", "a.pt", "a.txt"])
def test_errors_when_opening_are_reported(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe nothing")
    assert app.main([str(tmp_path / name), "--export", str(tmp_path / "b.npz")]) == 2
    assert capsys.readouterr().err.startswith(f"{SAID}argument FILE: “{name}” is no")
    assert not (tmp_path / "b.npz").exists()
