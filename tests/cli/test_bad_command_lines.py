"""Invalid command lines of every command fail with one sentence and exit status 2."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_options import refusal
from tests.support.small_trainings import begun, finish

MADE = "world, repeat, copy, brackets, sorting, addition"
NEW = "train repeat --out new"

BAD = [
    # Opened files and settings.
    ("nowhere.attention", "argument FILE: “nowhere.attention” "),
    ("empty", "argument FILE: “empty” "),
    ("picture.bmp", "argument FILE: “picture.bmp” "),
    ("one two", "unrecognized argument: two. See --help."),
    ("--text", "argument --text: expected one argument"),
    (
        "--tokenizer letters",
        "argument --tokenizer: invalid value 'letters': must be one of words, characters",
    ),
    ("--lines both", "argument --lines: invalid value 'both': must be one of together, apart"),
    ("--heads 2 --heads 4", "argument --heads: can be given only once"),
    ("--heads=2 --seed 1 --heads 4", "argument --heads: can be given only once"),
    (
        "--causal --no-causal",
        "argument --no-causal: not allowed with argument --causal",
    ),
    # Exports.
    ("--title a --title b --export a.png", "argument --title: can be given only once"),
    ("--title=", "--title has no effect without --export. Remove --title."),
    ("--layer 2", "--layer has no effect without --export. Remove --layer."),
    (
        "--layer 0 --export a.png",
        "argument --layer: invalid value '0': must be a whole number of at least 1, or 'all'",
    ),
    ("--layer 2 --export a.png", "argument --layer: Layer 2 does not exist. There is 1 layer."),
    (
        "layers.npy --layer 4 --export a.png",
        "argument --layer: Layer 4 does not exist. There are 3 layers.",
    ),
    (
        "--text-shown 3 --text a --text b --export a.png",
        "argument --text-shown: Text 3 does not exist. There are 2 texts.",
    ),
    ("--text-shown 2 --export a.npz", "--text-shown affects only .png, .svg, .pdf, .html, "),
    (
        "--stages weights --export a.gif",
        "--stages affects only .png, .svg, .pdf, .html, .csv, ",
    ),
    ("--theme dark --export a.csv", "--theme affects only .png, .svg, .pdf, .html, .gif, "),
    ("--dpi 90 --export a.gif", "--dpi affects only .png, .svg or .pdf files."),
    ("--size slide --export a.html", "--size affects only .png, .svg, .pdf, .gif, "),
    ("--colour-map magma --export a.npz", "--colour-map affects only .png, .svg, .pdf, "),
    (
        "--colour-map jet",
        "argument --colour-map: invalid value 'jet': must be one of plum, viridis, ",
    ),
    (
        "--colour-map magma --colour-map cividis --export a.png",
        "argument --colour-map: 'cividis' and 'magma' are both colour maps for weights.",
    ),
    ("--export -", "argument --export: invalid value '-': requires --format, such as --format csv"),
    ("--format csv", "--format has no effect without --export. Remove --format."),
    (
        "--format csv --export a.csv",
        "--format has no effect without --export -. Remove --format.",
    ),
    (
        "--format bmp --export -",
        "argument --format: invalid value 'bmp': must be one of png, svg, ",
    ),
    (
        "--format csv --export - --export -",
        "argument --export: only one file can be written to standard output. Use '-' only once.",
    ),
    (
        "--format csv --export - --layer all",
        "argument --layer: 'all' writes several files, but standard output accepts only one.",
    ),
    (
        "--list nothing",
        "argument --list: invalid value 'nothing': must be one of stages, formats, presets, ",
    ),
    ("--list", "argument --list: expected one argument"),
    (
        "--print-completion fish",
        "argument --print-completion: invalid value 'fish': must be one of bash, zsh",
    ),
    (
        "--print-completion bash --heads 1",
        "--print-completion cannot be combined with other options.",
    ),
    (
        "--reset-settings --export a.png",
        "--reset-settings cannot be combined with other options.",
    ),
    (
        "--layout all --stages weights --export a.png",
        "--stages has no effect with --layout all, which shows all stages. Remove --stages.",
    ),
    (
        "--layout heads --heads-shown 1 --export a.png",
        "--heads-shown has no effect with --layout heads, which shows all heads. Remove",
    ),
    ("--layout stages --export a.gif", "--layout affects only .png, .svg, .pdf, .html, .csv "),
    ("a.txt --text one", "--text cannot be combined with a text file. Remove one of them."),
    # Runs.
    ("run --layer 3", "argument --layer: Layer 3 does not exist: this model has 2 layers."),
    (
        "run --layer all",
        "argument --layer: 'all' requires --export.",
    ),
    (
        "run --layer all --export - --format csv",
        "argument --layer: 'all' writes several files, but standard output accepts only one.",
    ),
    ("run --text ??", "argument --text: “?” is not in the model’s vocabulary."),
    (
        "run --text abcdefghijklmnop",
        "argument --text: The text has 16 tokens, but the block size of this model is 10. "
        "Use a shorter text.",
    ),
    (
        "run --text a --text b",
        "argument --text: A lab model accepts only one text.",
    ),
    (
        "run --embedding-size 5",
        "argument --embedding-size: invalid value '5': The vectors are 10 × 16, but",
    ),
    ("lab nowhere", "argument RUN: invalid value 'nowhere': must be the folder of a training run"),
    ("lab run more", "unrecognized argument: more. See --help."),
    # Training.
    (
        "train --out new",
        f"the following argument is required: SOURCE, a text file or one of: {MADE}",
    ),
    ("train repeat", "the following argument is required: --out, the folder of the new run"),
    ("train nowhere.txt --out new", "argument SOURCE: "),
    (
        f"{NEW} --heads 3",
        "argument --heads: The embedding size 64 is not divisible by 3 heads. Use 2.",
    ),
    (
        f"{NEW} --heads 0",
        "argument --heads: invalid value '0': must be a whole number from 1 to 64",
    ),
    (
        f"{NEW} --rate 0",
        "argument --rate: The learning rate must be greater than 0 and at most 100.",
    ),
    (f"{NEW} --rate fast", "argument --rate: invalid value 'fast': must be a finite number"),
    (
        f"{NEW} --model best",
        "argument --model: invalid value 'best': must be one of bigram, average, ",
    ),
    (
        f"{NEW} --preset best",
        "argument --preset: invalid value 'best': must be one of repeat, brackets, ",
    ),
    (
        f"{NEW} --model bigram --layers 3",
        "--layers has no effect without --model transformer or notes-transformer or "
        "attention-only. Remove --layers.",
    ),
    (
        f"{NEW} --tokenizer words",
        "--tokenizer has no effect with a generated task. Remove --tokenizer.",
    ),
    (
        "train a.txt --out new --size 5000",
        "--size has no effect with a text file. Remove --size.",
    ),
    (
        f"{NEW} --size 1000 --block 1024",
        "argument --size: 1,000 tokens are not enough for rows of 1,025. Use 10,250 or more.",
    ),
    (
        "train --resume nowhere",
        "argument --resume: invalid value 'nowhere': must be the folder of a training run",
    ),
    (
        "train repeat --resume run",
        "--resume cannot be combined with SOURCE or --out.",
    ),
    (
        "train --resume run --steps 3",
        "argument --steps: must be at least 4, the number of completed steps.",
    ),
    ("train --resume run --width 3", "--width cannot be combined with --resume."),
    ("train --resume run --preset repeat", "--preset cannot be combined with --resume."),
    (f"{NEW} --learning-rate 1", "unrecognized argument: --learning-rate. See --help."),
    # Generation.
    ("generate", "the following argument is required: FOLDER, the folder of a run or of a model"),
    (
        "generate nowhere",
        "argument FOLDER: invalid value 'nowhere': must be the folder of a training run",
    ),
    (
        "generate run --tokens 0",
        "argument --tokens: invalid value '0': must be a whole number from 1 to ",
    ),
    (
        "generate run --seed -1",
        "argument --seed: invalid value '-1': must be a whole number ",
    ),
    (
        "generate run --temperature -1",
        "argument --temperature: The temperature must be at least 0 and at most 100.",
    ),
    (
        "generate run --temperature nan",
        "argument --temperature: invalid value 'nan': must be a finite number",
    ),
    (
        "generate run --top-k 0",
        "argument --top-k: invalid value '0': must be a whole number of at least 1",
    ),
    ("generate run --top-p 1.5", "argument --top-p: Top-p must be greater than 0 and at most 1."),
    ("generate run --prompt ?", "argument --prompt: “?” is not in the model’s vocabulary."),
    ("generate run --prompt=", "argument --prompt: The text is empty"),
    ("generate run --step 7", "argument --step: Step 7 has no snapshot."),
]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows gives other reasons")
@pytest.mark.parametrize(
    "line", ["", "lab", "generate", "model --text a", "train repeat --out", "train --resume"]
)
def test_a_path_that_the_system_refuses_is_reported(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    for name, reason in (
        ("words" * 60, "File name too long"),
        ("loop", "Too many levels of symbolic links"),
    ):
        status, said = refusal(f"{line} {name}", capsys)
        assert (status, said.count("\n")) == (2, 1), said
        assert said.endswith(f"cannot open '{name}': {reason}\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    opened = begun(folder)
    finish(opened, 4)
    assert opened.running
    opened.running.save()
    opened.close()
    return folder


@pytest.mark.parametrize(("line", "sentence"), BAD, ids=[line for line, _ in BAD])
def test_a_bad_command_line_is_rejected_with_a_sentence(
    line: str,
    sentence: str,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "run")
    np.save("layers.npy", np.full((3, 2, 4, 4), 0.25))
    Path("picture.bmp").write_bytes(b"BM")
    Path("empty").mkdir()
    Path("a.txt").write_text("one two", encoding="utf-8")
    before = {path.name for path in tmp_path.iterdir()}
    status, said = refusal(line, capsys)
    assert (status, said.count("\n")) == (2, 1), said
    assert said.startswith(f"attention-visualizer: {sentence}")
    assert {path.name for path in tmp_path.iterdir()} == before
