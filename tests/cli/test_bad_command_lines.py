"""Invalid command lines of every command fail with one sentence and exit status 2."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_options import refusal
from tests.support.small_trainings import begun, finish

REJECTED = """\
# Settings
--heads 0 => argument --heads: invalid value '0': must be
--heads 1.5 => argument --heads: invalid value '1.5': must be
--seed 9223372036854775808 => argument --seed: invalid value '9223372036854775808': must be
--dropout 1 => argument --dropout: invalid value '1': must be
--dropout nan => argument --dropout: invalid value 'nan': must be
--mechanism best => argument --mechanism: invalid value 'best' … simplified, self, causal, stacked
--device gpu => argument --device: invalid value 'gpu' … auto, cpu, cuda, mps
--heads 3 => argument --heads: invalid value '3' … Use 2 heads, or the output size 3.
--output-size 3 => argument --output-size: … Use 1 or 3 heads, or the output size 4.
--projection none => argument --projection: invalid value 'none' … or the embedding size 4.
--projection none --embedding-size 5 => argument --embedding-size: … Use 1 or 5 heads
--projection none --output-size 3 => argument --projection: … embedding size 4.
--heads 4 --output-size 6 => argument --heads: invalid value '4' … Use 3 or 6 heads
--temperature 0 => argument --temperature: invalid value '0': must be greater than 0
--temperature inf => argument --temperature: invalid value 'inf': must be finite
--window 0 --mask window => argument --window: invalid value '0' … at least 1
--mode eval => --mode has no effect without --dropout above 0 or --own-kept.
--scale d_head --mechanism average => --scale has no effect with --normalisation uniform.
--causal --mask none => --causal cannot be combined with --mask. Remove one of them.
--mask own => argument --mask: invalid value 'own': requires --own-mask FILE
--normalisation sum => argument --normalisation: invalid value 'sum' … has no finite sum
--vectors a.txt => argument --vectors: Cannot open “a.txt”: unsupported file type.
--vectors a.npy => argument --vectors: The file “a.npy” was not found in
--vectors three.npy => argument --vectors: “three.npy” must be a matrix with at most
--vectors nan.npy => argument --vectors: an array (1 × 3) must not contain infinite or NaN values.
--vectors two.npy --embedding-size 5 => argument --vectors: … 2 × 3 … embedding size is 5.
--vectors two.npy --text one --export a.npz => argument --vectors: … 2 × 3 … 1 × 3.
--weights two.npy => argument --weights: “two.npy” does not contain weights. Found: an array
--weights query.npz --embedding-size 5 => argument --weights: W_query is 3 × 4 … 5 × 4.
--weights query.npz --mechanism simplified => --weights has no effect … lacks these weights.
--own-mask two.npy => argument --own-mask: “two.npy” must contain only the numbers 0 and 1.
--own-mask bad.txt => argument --own-mask: Row 1 contains “2”. Use only 0 and 1.
--own-mask one.txt --export a.npz => argument --own-mask: … 1 × 1 … 6 × 6.
--own-kept one.txt --dropout 0.5 --dropout-seed 2 => --dropout-seed has no effect with --own-kept.
--own-kept one.txt --export a.npz => argument --own-kept: … 1 × 1 … 6 × 6.
weights.npy --heads 3 => --heads has no effect on weights.npy
weights.npy --lines apart => --lines has no effect on weights.npy
weights.npy --temperature 2 => --temperature has no effect on weights.npy
# Exports
--export a.bmp => argument --export: invalid value 'a.bmp': must end in .png, .svg
--stages weights,sums => argument --stages: … “sums” does not exist … Stages of modules: embedding
--heads-shown 0 => argument --heads-shown: invalid value '0' … such as 1,3-5, or 'all'
--heads-shown 3-1 => argument --heads-shown: invalid value '3-1' … such as 1,3-5, or 'all'
--heads-shown 1,,2 => argument --heads-shown: invalid value '1,,2' … such as 1,3-5, or 'all'
--layout wide => argument --layout: invalid value 'wide' … shown, flow, panel, head, heads
--size 180 => argument --size: invalid value '180' … such as 180mm, 180x120mm, 1920x1080px or 7in
--size 180mmx7in => argument --size: invalid value '180mmx7in' … paper-column, paper-page, slide
--size 0x5mm => argument --size: invalid value '0x5mm' … such as 180mm
--size -5mm => argument --size: expected one argument
--size 5mm --export a.png => argument --size: The width and height … must be 10 mm to 5 m
--size 99x200000px --export a.png => argument --size: The width and height … 10 mm to 5 m
--dpi 0 => argument --dpi: invalid value '0' … whole number from 36 to 2,400
--dpi 2401 => argument --dpi: invalid value '2401' … whole number from 36 to 2,400
--span weights => argument --span: invalid value 'weights' … such as scores..context
--span context..scores => argument --span: invalid value 'context..scores' … in order
--span scores:0..weights => argument --span: invalid value 'scores:0..weights' … scores:2..weights
--speed 0 => argument --speed: invalid value '0' … at least 0.05 and at most 100
--text-file nowhere.txt => argument --text-file: cannot read 'nowhere.txt' … No such file
--no-caption => --no-caption has no effect … without --export
--stages dropped --export a.png => argument --stages: … no stage “dropped” … It has input
--heads-shown 3 --export a.png => argument --heads-shown: Head 3 … There are 2 heads.
--heads => argument --heads: expected one argument
--head 2 => unrecognized argument … Did you mean --heads? See --help.
--color-map=magma => unrecognized argument: --color-map=magma. Did you mean --colour-map?
--normalization sum => unrecognized argument … Did you mean --normalisation?
--nonsense => unrecognized argument: --nonsense. See --help.
nowhere.attention => argument FILE: “nowhere.attention”
empty => argument FILE: “empty”
picture.bmp => argument FILE: “picture.bmp”
one two => unrecognized argument: two. See --help.
--text => argument --text: expected one argument
--tokenizer letters => argument --tokenizer: invalid value 'letters' … words, characters
--heads 2 --heads 4 => argument --heads: can be given only once
--heads=2 --seed 1 --heads 4 => argument --heads: can be given only once
--causal --no-causal => argument --no-causal: not allowed with argument --causal
--title a --title b --export a.png => argument --title: can be given only once
--title= => --title has no effect without --export. Remove --title.
--layer 0 --export a.png => argument --layer: invalid value '0' … at least 1, or 'all'
--layer 2 --export a.png => argument --layer: Layer 2 does not exist. There is 1 layer.
layers.npy --layer 4 --export a.png => argument --layer: Layer 4 … There are 3 layers.
--text-shown 3 --text a --text b --export a.png => argument --text-shown: … There are 2 texts.
--dpi 90 --export a.gif => --dpi affects only .png, .svg or .pdf files.
--colour-map jet => argument --colour-map: invalid value 'jet' … plum, viridis
--colour-map magma --colour-map cividis --export a.png => … 'cividis' and 'magma' are both
--export - => argument --export: invalid value '-': requires --format, such as --format csv
--format csv --export a.csv => --format has no effect without --export -. Remove --format.
--format csv --export - --export - => argument --export: only one file … standard output
--format csv --export - --layer all => argument --layer: 'all' writes several files
--list nothing => argument --list: invalid value 'nothing' … stages, formats, presets
--list => argument --list: expected one argument
--print-completion fish => argument --print-completion: invalid value 'fish' … bash, zsh
--print-completion bash --heads 1 => --print-completion cannot be combined with other options.
--reset-settings --export a.png => --reset-settings cannot be combined with other options.
--layout all --stages weights --export a.png => --stages has no effect … shows all stages
--layout heads --heads-shown 1 --export a.png => --heads-shown has no effect … all heads
--layout stages --export a.gif => --layout affects only .png, .svg, .pdf, .html, .csv
a.txt --text one => --text cannot be combined with a text file. Remove one of them.
# Runs
run --layer 3 => argument --layer: Layer 3 does not exist: this model has 2 layers.
run --layer all => argument --layer: 'all' requires --export.
run --layer all --export - --format csv => argument --layer: 'all' writes several files
run --text ?? => argument --text: “?” is not in the model’s vocabulary.
run --text abcdefghijklmnop => argument --text: … 16 tokens … block size of this model is 10.
run --text a --text b => argument --text: A lab model accepts only one text.
run --embedding-size 5 => argument --embedding-size: invalid value '5' … 10 × 16
lab nowhere => argument RUN: invalid value 'nowhere': must be the folder of a training run
lab run more => unrecognized argument: more. See --help.
# Training
train --out new => the following argument is required: SOURCE … world, repeat, copy
train repeat => the following argument is required: --out, the folder of the new run
train nowhere.txt --out new => argument SOURCE:
train repeat --out new --heads 3 => argument --heads: … 64 cannot be split into 3 heads. Use 2
train repeat --out new --heads 0 => argument --heads: invalid value '0' … from 1 to 64
train repeat --out new --rate 0 => argument --rate: … greater than 0 and at most 100.
train repeat --out new --rate fast => argument --rate: invalid value 'fast' … finite number
train repeat --out new --model best => argument --model: invalid value 'best' … bigram, average
train repeat --out new --model bigram --layers 3 => --layers … without --model transformer or
train repeat --out new --tokenizer words => --tokenizer has no effect … generated task
train a.txt --out new --size 5000 => --size has no effect with a text file. Remove --size.
train repeat --out new --size 1000 --block 1024 => argument --size: 1,000 … Use 10,250 or more.
train --resume nowhere => argument --resume: … 'nowhere': must be the folder of a training run
train repeat --resume run => --resume cannot be combined with SOURCE or --out.
train --resume run --steps 3 => argument --steps: must be at least 4
train --resume run --width 3 => --width cannot be combined with --resume.
train --resume run --preset repeat => --preset cannot be combined with --resume.
train repeat --out new --learning-rate 1 => unrecognized argument: --learning-rate. See --help.
# Generation
generate => the following argument is required: FOLDER, the folder of a run or of a model
generate run --tokens 0 => argument --tokens: invalid value '0' … from 1 to
generate run --seed -1 => argument --seed: invalid value '-1': must be a whole number
generate run --temperature -1 => argument --temperature: … at least 0 and at most 100.
generate run --temperature nan => argument --temperature: invalid value 'nan' … finite number
generate run --top-k 0 => argument --top-k: invalid value '0' … at least 1
generate run --top-p 1.5 => argument --top-p: Top-p must be greater than 0 and at most 1.
generate run --prompt ? => argument --prompt: “?” is not in the model’s vocabulary.
generate run --prompt= => argument --prompt: The text is empty
generate run --step 7 => argument --step: Step 7 has no snapshot.
"""
"""Command lines and parts of their error messages, in order; the first part begins the message."""
ENTRIES = [line.split(" => ") for line in REJECTED.splitlines() if not line.startswith("# ")]


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    opened = begun(folder / "run")
    finish(opened, 4)
    assert opened.running
    opened.running.save_checkpoint()
    opened.close()
    (folder / "picture.bmp").write_bytes(b"BM")
    (folder / "empty").mkdir()
    for name, text in (("a.txt", "one two"), ("bad.txt", "0 2"), ("one.txt", "1")):
        (folder / name).write_text(text, encoding="utf-8")
    np.save(folder / "layers.npy", np.full((3, 2, 4, 4), 0.25))
    np.save(folder / "weights.npy", np.full((1, 2, 4, 4), 0.25))
    np.save(folder / "two.npy", np.arange(6.0).reshape(2, 3))
    np.save(folder / "three.npy", np.zeros((2, 2, 2)))
    np.save(folder / "nan.npy", np.array([[1.0, np.nan, 2.0]]))
    np.savez(folder / "query.npz", W_query=np.ones((3, 4)))
    return folder


@pytest.mark.parametrize(("line", "message"), ENTRIES, ids=[line for line, _ in ENTRIES])
def test_a_bad_command_line_is_rejected_with_a_sentence(
    line: str,
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = {path.name for path in folder.iterdir()}
    status, said = refusal(line, capsys)
    assert (status, said.count("\n")) == (2, 1), said
    parts = (re.escape(part.strip()) for part in message.split("…"))
    assert re.match(f"attention-visualizer: {'.*'.join(parts)}", said)
    assert {path.name for path in folder.iterdir()} == before
