"""The command line runs a real model and writes figures of its layers and a table of its heads."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np
import pytest

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer.app import main
from visualizer.attention.spec import Device
from visualizer.language.example_run import EXAMPLE_FOLDER
from visualizer.language.example_run import EXAMPLE_TEXT as REPEATED
from visualizer.models.forward_runner import DISK_STAGES_NOTICE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
EXAMPLE_TEXT = "the cat sat on the mat the cat"


@pytest.fixture
def folder(tiny_model_folder: Path) -> Path:
    return tiny_model_folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("models") / "pair", "bart")


def model(capsys: pytest.CaptureFixture[str], *options: object, status: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    try:
        ended = main(["model", *map(str, options)])
    except SystemExit as left:
        ended = int(left.code or 0)
    told = capsys.readouterr()
    assert ended == status, told
    return told.out, told.err.removeprefix("attention-visualizer: ").strip()


def table_of(text: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(text))]


def test_without_a_file_the_table_of_heads_goes_to_standard_output(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = model(capsys, folder, "--text", EXAMPLE_TEXT)
    assert err == ""
    rows = table_of(out)
    known = visualizer.open_model(folder).attend(EXAMPLE_TEXT).heads()
    assert len(rows) == len(known) == 8
    for row, other in zip(rows, known, strict=True):
        assert (int(row["layer"]), int(row["head"])) == (other["layer"] + 1, other["head"] + 1)
        assert float(row["previous"]) == pytest.approx(other["previous"], rel=1e-5)


def test_progress_is_not_reported_where_that_is_requested(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = model(capsys, folder, "--text", EXAMPLE_TEXT, "--text", "a b", "--quiet")
    assert err == ""
    assert len(table_of(out)) == 16


def test_a_device_that_is_not_available_is_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str], machine: Machine
) -> None:
    machine.set_devices(Device.CPU)
    assert main(["model", str(folder), "--text", EXAMPLE_TEXT, "--device", "cuda"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "argument --device: A CUDA GPU is not available" in said.err


def test_layers_are_read_from_the_disk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted, _ = model(capsys, folder, "--text", EXAMPLE_TEXT)
    out, err = model(capsys, folder, "--text", EXAMPLE_TEXT, "--from-disk")
    assert out == wanted
    assert "Each pass reads" in err
    assert DISK_STAGES_NOTICE in err


def test_models_that_cannot_be_streamed_are_reported(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for each in (pair, EXAMPLE_FOLDER):
        _, err = model(capsys, each, "--text", EXAMPLE_TEXT, "--from-disk", status=1)
        assert "cannot be run from disk" in err


def test_the_heads_of_several_texts_are_one_table(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("the cat\n\na dog ran to the log\r\n", encoding="utf-8")
    written = tmp_path / "heads.csv"
    given = ("--text", EXAMPLE_TEXT, "--texts", tmp_path / "lines.txt", "--heads", written)
    assert model(capsys, folder, *given) == ("", "")
    rows = table_of(written.read_text())
    assert [*rows[0]][:3] == ["text", "layer", "head"]
    assert [int(row.pop("text")) for row in rows] == [1] * 8 + [2] * 8 + [3] * 8
    for number, text in enumerate((EXAMPLE_TEXT, "the cat", "a dog ran to the log")):
        out, _ = model(capsys, folder, "--text", text)
        assert rows[8 * number : 8 * number + 8] == table_of(out)


@pytest.mark.slow
def test_a_layer_is_written_as_numbers_and_as_an_image(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("layer.npz", "layer.png", "heads.csv")]
    shown = ("--layer", 2, "--heads-shown", "1,3", "--stages", "weights")
    exports = ("--export", files[0], "--export", files[1], "--heads", files[2])
    out, _ = model(capsys, folder, "--text", EXAMPLE_TEXT, *shown[:2], *exports)
    assert out == ""
    assert len(table_of(files[2].read_text())) == 8
    expected = visualizer.open_model(folder).attend(EXAMPLE_TEXT)["weights"]
    with np.load(files[0]) as held:
        np.testing.assert_allclose(held["weights"], expected, atol=1e-6)
    np.testing.assert_allclose(visualizer.load(files[1])["weights"], expected[1], atol=1e-6)
    model(capsys, folder, "--text", EXAMPLE_TEXT, *shown, "--export", files[1])


def test_all_layers_are_a_file_each(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model(
        capsys, folder, "--text", EXAMPLE_TEXT, "--layer", "all", "--export", tmp_path / "seen.svg"
    )
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["seen-layer1.svg", "seen-layer2.svg"]


def test_a_part_is_chosen_where_there_are_several(
    pair: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = (pair, "--text", "the cat sat", "--second", "a dog")
    _, said = model(capsys, *given, status=2)
    assert said.startswith(
        "argument --part: The model has several kinds of attention. Select one of"
    )
    out, _ = model(capsys, *given, "--part", "encoder_attn")
    assert len(table_of(out)) == 8


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        ((), 2, "the following argument is required: FOLDER, the folder of a model"),
        (("nothing",), 2, "one of the arguments --text --texts --image is required"),
        (("not a model", "--text", "a"), 1, "Folder not found: “not a model”."),
        (("F", "--text", " "), 2, "argument --text: invalid value ' ': must not be blank"),
        (("F", "--text", "a", "--layer", "2"), 2,
         "--layer has no effect without --export. Remove --layer."),
        (("F", "--text", "a", "--layer", "3", "--export", "x.png"), 2,
         "argument --layer: Layer 3 does not exist. The layers are 1 to 2."),
        (("F", "--text", "a", "--heads-shown", "9", "--export", "x.png"), 2,
         "argument --heads-shown: Head 9 does not exist. There are 4 heads."),
        (("F", "--text", "a", "--export", "-"), 2,
         "argument --export: invalid value '-': requires --format, such as --format csv"),
        (("F", "--text", "a", "--export", "-", "--format", "csv", "--heads", "-"), 2,
         "argument --heads: only one file can be written to standard output. Use '-' only once."),
        (("F", "--text", "a", "--text", "b", "--export", "x.png"), 2,
         "argument --export: only available for a single text, but 2 texts are given. "
         "Remove --export, or specify one text."),
        (("F", "--text", "a", "--text", "b", "--second", "c"), 2,
         "argument --second: only available for a single text, but 2 texts are given. "
         "Remove --second, or specify one text."),
        (("F", "--text", "a", "--text", "a " * 200), 2,
         "argument --text: Text 2 of 2: The text has 201 tokens; tiny supports at most 67. "
         "Use a shorter text."),
        (("F", "--texts", "nowhere.txt"), 2,
         "argument --texts: cannot read 'nowhere.txt': No such file or directory"),
        (("F", "--text", "a", "--part", "z"), 2,
         "argument --part: “z” must match exactly one of model.layers.*.self_attn."),
        (("F", "--text", "a " * 200), 2,
         "argument --text: The text has 201 tokens; tiny supports at most 67. Use a shorter text."),
        (("F", "--text", "a", "--heads", "nowhere/heads.csv"), 1,
         "Cannot write “heads.csv” to nowhere: No such file or directory."),
    ],
)  # fmt: skip
def test_errors_have_a_message_and_an_exit_status(
    options: tuple[str, ...], status: int, sentence: str, folder: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    given = [folder if each == "F" else each for each in options]
    out, said = model(capsys, *given, status=status)
    assert (out, said) == ("", sentence)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.usefixtures("application")
def test_all_heads_are_drawn(
    folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out, err = model(capsys, folder, "--text", EXAMPLE_TEXT, "--overview", tmp_path / "heads.png")
    assert (out, err) == ("", "")
    drawn = visualizer.open_model(folder).attend(EXAMPLE_TEXT).overview()
    assert (tmp_path / "heads.png").read_bytes() == drawn.png
    wrong = ("--overview", tmp_path / "heads.pdf")
    _, err = model(capsys, folder, "--text", EXAMPLE_TEXT, *wrong, status=2)
    assert err.startswith("argument --overview: invalid value ")
    wrong = ("--overview", tmp_path / "gone" / "heads.png")
    _, err = model(capsys, folder, "--text", EXAMPLE_TEXT, *wrong, status=1)
    assert err.startswith("Cannot write “heads.png” to ")


def test_a_run_of_the_language_lab_is_a_model(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="models need transformers")
    out, _ = model(capsys, EXAMPLE_FOLDER, "--text", REPEATED)
    rows = {(row["layer"], row["head"]): row for row in table_of(out)}
    assert len(rows) == 4
    assert float(rows["2", "1"]["induction"]) > 0.95
    _, err = model(capsys, EXAMPLE_FOLDER, "--text", "Your journey", status=2)
    assert err == "argument --text: “Y”, “␣” are not in the model’s vocabulary."
    (tmp_path / "run.json").write_text("{", encoding="utf-8")
    _, err = model(capsys, tmp_path, "--text", REPEATED, status=1)
    assert "is not valid JSON." in err
