"""Each document setting has an option that sets it, or is rejected if it has no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from visualizer import app
from visualizer.attention.settings import SETTINGS, Setting
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    DropoutMode,
    Dtype,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.cli.document_options import build_document
from visualizer.cli.options import SETTING_GROUPS, create_parser, option_name
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document import Document, LineGrouping

if TYPE_CHECKING:
    from pathlib import Path

FROM_THE_TEXTS = {"lengths"}
"""Fields of a spec that are derived from the texts."""


def opened(*arguments: str) -> Document:
    return app.open_document_from_options(create_parser().parse_args(arguments)).document


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_of_the_table_has_an_option(setting: Setting) -> None:
    options = {option for action in create_parser()._actions for option in action.option_strings}
    assert option_name(setting.name) in options


def test_every_field_of_a_document_has_an_option() -> None:
    grouped = {name for names in SETTING_GROUPS.values() for name in names}
    assert set(AttentionSpec.__struct_fields__) <= grouped | FROM_THE_TEXTS
    options = {option for action in create_parser()._actions for option in action.option_strings}
    assert {"--text", "--tokenizer", "--lines"} <= options


@pytest.mark.parametrize(
    ("options", "field", "value"),
    [
        ("--embedding-size 8", "d_in", 8),
        ("--output-size 4", "d_out", 4),
        ("--heads 1", "heads", 1),
        ("--dropout 0.5", "dropout", 0.5),
        ("--dropout=.25", "dropout", 0.25),
        ("--seed 789", "seed", 789),
        ("--device cpu", "device", Device.CPU),
        ("--dtype float64", "dtype", Dtype.FLOAT64),
        ("--projection uniform", "projection", Projection.UNIFORM),
        ("--causal", "mask", MaskKind.CAUSAL),
        ("--no-causal", "mask", MaskKind.NONE),
        ("--scale none", "scale", ScaleKind.NONE),
        ("--scale d_model", "scale", ScaleKind.D_MODEL),
        ("--temperature 0.5", "temperature", 0.5),
        ("--normalisation naive", "normalisation", NormalisationKind.NAIVE_SOFTMAX),
        ("--mask none", "mask", MaskKind.NONE),
        ("--route after", "route", MaskPlacement.AFTER),
        ("--position sinusoidal", "position", PositionKind.SINUSOIDAL),
        ("--position alibi", "position", PositionKind.ALIBI),
        ("--bias", "bias", True),
        ("--no-output-projection", "output_projection", False),
        ("--tokenizer characters", "tokenizer", TokenizerKind.CHARACTERS),
        ("--lines apart", "lines", LineGrouping.APART),
    ],
)
def test_an_option_sets_its_setting_and_no_other(options: str, field: str, value: object) -> None:
    made = build_document(create_parser().parse_args(options.split()))
    assert made.get_setting(field) is value or made.get_setting(field) == value
    assert type(made.get_setting(field)) is type(value)
    assert made == Document().with_setting(field, value)


def test_settings_that_need_another_act_with_it() -> None:
    made = opened("--mask", "window", "--window", "2", "--dropout", "0.5", "--dropout-seed", "7")
    assert (made.spec.mask, made.spec.window, made.spec.dropout_seed) == (MaskKind.WINDOW, 2, 7)
    assert opened("--dropout", "0.5", "--mode", "eval").spec.mode is DropoutMode.EVAL


def test_the_lines_of_a_text_become_a_batch() -> None:
    made = opened("--text", "one two\nthree", "--lines", "apart")
    assert made.tokens() == (("one", "two"), ("three",))
    together = opened("--text", "one", "--text", "two", "--lines", "together")
    assert together.tokens() == (("one", "two"),)


# ----------------------------------------------------------------------------- matrices in files


def test_own_vectors_are_those_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    vectors = np.arange(8.0).reshape(2, 4)
    np.save(path, vectors)
    made = opened("--vectors", str(path))
    assert made.spec.own_input == NumberMatrix.from_array(vectors)
    assert (made.spec.d_in, made.tokens()) == (4, (("1", "2"),))
    assert opened("--vectors", str(path), "--text", "a b").tokens() == (("a", "b"),)
    assert app.main(["--vectors", str(path), "--export", str(tmp_path / "a.npz")]) == 0
    with np.load(tmp_path / "a.npz") as arrays:
        np.testing.assert_array_equal(arrays["input"], vectors)


def test_own_weights_are_those_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    weights = {"W_query": np.ones((3, 4)), "W_output": np.eye(4)}
    np.savez(path, **weights)  # type: ignore[arg-type]
    made = opened("--weights", str(path))
    assert made.spec.own_weights == tuple(
        (name, NumberMatrix.from_array(weights[name])) for name in ("W_query", "W_output")
    )
    assert (made.spec.d_in, made.spec.d_out, made.spec.heads) == (3, 4, 2)


@pytest.mark.parametrize("heads", [1, 2])
def test_the_weights_of_an_export_are_taken_back(
    heads: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights, there, back = (str(tmp_path / name) for name in ("w.safetensors", "a.npz", "b.npz"))
    options = ["--heads", str(heads), "--output-size", "4", "--device", "cpu", "--quiet"]
    assert app.main([*options, "--seed", "5", "--export", weights, "--export", there]) == 0
    vectors = str(tmp_path / "x.npy")
    with np.load(there) as arrays:
        np.save(vectors, arrays["input"])
        expected = arrays["output"]
    given = ["--weights", weights, "--vectors", vectors, "--text", "a b c d e f"]
    assert app.main([*given, *options, "--mask", "causal", "--export", back]) == 0
    assert f"{heads} is used." in capsys.readouterr().err
    with np.load(back) as arrays:
        np.testing.assert_array_equal(arrays["output"], expected)


@pytest.mark.parametrize("name", ["mask.txt", "mask.npy"])
def test_an_own_mask_is_that_of_a_file(name: str, tmp_path: Path) -> None:
    cells = np.eye(6, dtype=bool)
    if name.endswith(".npy"):
        np.save(tmp_path / name, cells)
    else:
        np.savetxt(tmp_path / name, cells, fmt="%d")
    made = opened("--own-mask", str(tmp_path / name), "--own-kept", str(tmp_path / name))
    assert (made.spec.mask, made.spec.own_mask) == (MaskKind.OWN, BooleanMatrix.from_array(cells))
    assert made.spec.own_kept == BooleanMatrix.from_array(cells)
