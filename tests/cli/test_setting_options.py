"""Each document setting has an option that sets it, or is rejected if it has no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.cli.test_options import refusal
from visualizer import app
from visualizer.attention.settings import SETTINGS, Setting
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    DropoutMode,
    MaskKind,
    MaskRoute,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    ScaleKind,
)
from visualizer.cli.document_options import build_document
from visualizer.cli.options import SETTING_GROUPS, create_parser, option_name
from visualizer.language.tokenizers import TokenizerKind
from visualizer.session.document import Document, LineSplit

if TYPE_CHECKING:
    from pathlib import Path

FROM_THE_TEXTS = {"lengths"}
"""Fields of a spec that are derived from the texts."""


def opened(*arguments: str) -> Document:
    return app.open_file(create_parser().parse_args(arguments)).document


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
        ("--scale none", "scale", ScaleKind.NONE),
        ("--scale d_model", "scale", ScaleKind.D_MODEL),
        ("--temperature 0.5", "temperature", 0.5),
        ("--normalisation naive", "normalisation", NormalisationKind.NAIVE_SOFTMAX),
        ("--mask none", "mask", MaskKind.NONE),
        ("--route after", "route", MaskRoute.AFTER),
        ("--position sinusoidal", "position", PositionKind.SINUSOIDAL),
        ("--position alibi", "position", PositionKind.ALIBI),
        ("--bias", "bias", True),
        ("--no-output-projection", "output_projection", False),
        ("--tokenizer characters", "tokenizer", TokenizerKind.CHARACTERS),
        ("--lines apart", "lines", LineSplit.APART),
    ],
)
def test_an_option_sets_its_setting_and_no_other(options: str, field: str, value: object) -> None:
    made = build_document(create_parser().parse_args(options.split()))
    assert made.get(field) is value or made.get(field) == value
    assert type(made.get(field)) is type(value)
    assert made == Document().set(field, value)


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
    assert made.spec.own_input == NumberMatrix.of(vectors)
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
        (name, NumberMatrix.of(weights[name])) for name in ("W_query", "W_output")
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
    made = opened("--own-mask", str(tmp_path / name), "--kept", str(tmp_path / name))
    assert (made.spec.mask, made.spec.own_mask) == (MaskKind.OWN, BooleanMatrix.of(cells))
    assert made.spec.own_kept == BooleanMatrix.of(cells)


# ---------------------------------------------------------------------------------------- refusals

WRONG = [
    ("--temperature 0", "argument --temperature: invalid value '0': must be greater than 0"),
    ("--temperature inf", "argument --temperature: invalid value 'inf': must be finite"),
    ("--window 2", "--window has no effect without --mask window. Remove --window."),
    (
        "--window 0 --mask window",
        "argument --window: invalid value '0': must be at least 1 and at most 1,000,000",
    ),
    ("--route after --no-causal", "--route has no effect with --mask none. Remove --route."),
    ("--dropout-seed 3", "--dropout-seed has no effect without --dropout above 0."),
    ("--mode eval", "--mode has no effect without --dropout above 0 or --kept."),
    (
        "--bias --projection uniform",
        "--bias has no effect without --projection linear. Remove --bias.",
    ),
    (
        "--scale d_head --mechanism average",
        "--scale has no effect with --normalisation uniform. Remove --scale.",
    ),
    (
        "--output-size 4 --mechanism simplified",
        "--output-size has no effect with --projection none. Remove --output-size.",
    ),
    (
        "--causal --mask none",
        "--causal cannot be combined with --mask. Remove one of them.",
    ),
    (
        "--mask own",
        "argument --mask: invalid value 'own': requires --own-mask FILE",
    ),
    (
        "--normalisation sum",
        "argument --normalisation: invalid value 'sum': A row that contains −∞ has no finite sum "
        "to divide "
        "by. Mask after normalising.",
    ),
    ("--vectors a.txt", "argument --vectors: Cannot open “a.txt”: unsupported file type."),
    ("--vectors a.npy", "argument --vectors: The file “a.npy” was not found in "),
    (
        "--vectors three.npy",
        "argument --vectors: “three.npy” must be a matrix with at most",
    ),
    (
        "--vectors nan.npy",
        "argument --vectors: an array (1 × 3) must not contain infinite or NaN values.",
    ),
    (
        "--vectors two.npy --embedding-size 5",
        "argument --vectors: The vectors are 2 × 3, but the embedding size is 5.",
    ),
    (
        "--vectors two.npy --text one --export a.npz",
        "argument --vectors: The vectors are 2 × 3, but the text needs 1 × 3.",
    ),
    (
        "--weights two.npy",
        "argument --weights: “two.npy” does not contain weights. Found: an array",
    ),
    (
        "--weights query.npz --embedding-size 5",
        "argument --weights: W_query is 3 × 4, but the settings need 5 × 4.",
    ),
    (
        "--weights query.npz --mechanism simplified",
        "--weights has no effect with a module that lacks these weights.",
    ),
    (
        "--own-mask two.npy",
        "argument --own-mask: “two.npy” must contain only the numbers 0 and 1.",
    ),
    ("--own-mask bad.txt", "argument --own-mask: Row 1 contains “2”. Use only 0 and 1."),
    (
        "--own-mask one.txt --mask causal",
        "--own-mask has no effect without --mask own. Remove --own-mask.",
    ),
    (
        "--own-mask one.txt --export a.npz",
        "argument --own-mask: The matrix is 1 × 1, but the text needs 6 × 6.",
    ),
    (
        "--kept one.txt --dropout 0.5 --mode eval",
        "--kept has no effect without --mode train. Remove --kept.",
    ),
    (
        "--kept one.txt --dropout 0.5 --dropout-seed 2",
        "--dropout-seed has no effect with --kept. Remove --dropout-seed.",
    ),
    (
        "--kept one.txt --export a.npz",
        "argument --kept: The matrix is 1 × 1, but the text needs 6 × 6.",
    ),
    ("weights.npy --heads 3", "--heads has no effect on weights.npy, which contains attention "),
    (
        "weights.npy --lines apart",
        "--lines has no effect on weights.npy, which contains attention ",
    ),
    ("weights.npy --temperature 2", "--temperature has no effect on weights.npy, which contains "),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_a_setting_that_cannot_be_is_rejected_with_a_sentence(
    options: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("two.npy", np.arange(6.0).reshape(2, 3))
    np.save("three.npy", np.zeros((2, 2, 2)))
    np.save("nan.npy", np.array([[1.0, np.nan, 2.0]]))
    np.save("weights.npy", np.full((1, 2, 4, 4), 0.25))
    np.savez("query.npz", W_query=np.ones((3, 4)))
    (tmp_path / "bad.txt").write_text("0 2")
    (tmp_path / "one.txt").write_text("1")
    status, said = refusal(options, capsys)
    assert (status, said.count("\n")) == (2, 1)
    assert said.startswith(f"attention-visualizer: {sentence}")
    assert not (tmp_path / "a.npz").exists()
