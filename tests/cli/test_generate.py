"""A trained model's text on standard output, and its layers as documents for export."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from tests.architecture.project_graph import ROOT
from tests.cli.test_options import refusal
from tests.support.small_trainings import begun
from visualizer import app
from visualizer.app import main
from visualizer.generation.generation_tree import GenerationTree
from visualizer.lab.runs.store import store_probe
from visualizer.language import probe as language_probe
from visualizer.language.opened_run import OpenedRun
from visualizer.language.run_folder import RunFolder, choose_probe_text
from visualizer.language.sampling import DIVERGED_ERROR, SamplingSettings, sampling_probabilities
from visualizer.language.saved_model import iterate_generated_tokens
from visualizer.language.tokenizers import TokenizerKind
from visualizer.language.training_settings import CorpusKind, CorpusSource, ModelKind

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    begun(folder).close()
    return folder


def generated(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    assert main(["generate", str(folder), *options]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_the_text_is_that_of_the_lab_with_the_same_seed(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = OpenedRun(RunFolder(trained), is_held=False)
    vocabulary, (model, _) = opened.metadata.vocabulary, opened.model_at(None)
    tree = GenerationTree(tuple("abc"), seed=5)
    for _ in range(15):  # longer than the block size
        probe = language_probe.ProbeText.from_text(
            vocabulary.join_tokens(tree.tokens), vocabulary, model
        )
        logits = language_probe.run_probe(model, probe)["logits"][-1]
        chosen = sampling_probabilities(logits, SamplingSettings(0.7, 4, 0.9))
        tree = tree.append_sampled_token(chosen, vocabulary.tokens, sampling_probabilities(logits))
    opened.close()
    options = "--seed 5 --tokens 15 --temperature 0.7 --top-k 4 --top-p 0.9 --prompt abc"
    assert generated(capsys, trained, *options.split()) == f"{''.join(tree.tokens)}\n"


@pytest.mark.slow
def test_the_options_decide_the_text(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    usual = generated(capsys, trained, "--tokens", "30")
    opened = OpenedRun(RunFolder(trained), is_held=False)
    start = choose_probe_text(opened.metadata.sample, opened.metadata.settings)
    opened.close()
    assert usual.startswith(start)
    assert len(usual) == len(start) + 30 + 1
    assert generated(capsys, trained, "--tokens", "30") == usual
    assert generated(capsys, trained, "--tokens", "30", "--seed", "1") != usual
    likeliest = generated(capsys, trained, "--tokens", "30", "--temperature", "0")
    assert generated(capsys, trained, "--tokens", "30", "--top-k", "1") == likeliest
    assert generated(capsys, trained, "--tokens", "30", "--top-p", "0.0001") == likeliest
    assert len(generated(capsys, trained)) == len(start) + 200 + 1


def test_a_text_typed_in_the_lab_is_not_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(tmp_path / "run").close()
    usual = generated(capsys, tmp_path / "run", "--tokens", "3")
    store_probe(tmp_path / "run", "cab")
    assert generated(capsys, tmp_path / "run", "--tokens", "3") == usual


def test_words_are_separated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = CorpusSource(CorpusKind.WORLD, size=4_000, tokenizer=TokenizerKind.WORDS)
    begun(tmp_path / "run", source=source).close()
    said = generated(capsys, tmp_path / "run", "--tokens", "6", "--prompt", "the")
    assert said.startswith("the ")
    assert len(said.split()) == 7


@pytest.mark.slow
def test_a_kept_step_can_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opened = begun(tmp_path / "run")
    running = opened.running
    assert running
    for _ in range(5):
        running.train_one_step()
    running.save_checkpoint()
    steps = opened.snapshot_steps()
    opened.close()
    first, last = (generated(capsys, tmp_path / "run", "--step", str(step)) for step in steps[:2])
    assert first != last


def test_a_model_that_diverged_is_reported(tmp_path: Path) -> None:
    opened = begun(tmp_path / "run")
    model, _ = opened.model_at(None)
    with torch.no_grad():
        model.projection.weight.fill_(torch.nan)
    tokens = iterate_generated_tokens(model, opened.metadata.vocabulary, "a", SamplingSettings(), 0)
    with pytest.raises(ValueError, match="because training diverged") as refused:
        next(tokens)
    assert str(refused.value) == DIVERGED_ERROR
    opened.close()


def test_the_run_is_left_as_it_was(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.stat().st_mtime_ns for path in trained.rglob("*")}
    generated(capsys, trained, "--tokens", "3")
    assert {path: path.stat().st_mtime_ns for path in trained.rglob("*")} == before


def test_a_terminal_gets_no_orders_of_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "nasty.txt"
    text.write_bytes("a\x1b\u202e\n\tb".encode() * 1_000)
    source = CorpusSource(CorpusKind.FILE, str(text))
    begun(tmp_path / "run", source=source).close()
    options = ("--prompt", "a\x1b", "--tokens", "60")
    piped = generated(capsys, tmp_path / "run", *options)
    assert "\x1b" in piped
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = generated(capsys, tmp_path / "run", *options)
    assert shown == piped.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")


@contextmanager
def writing_on(run: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that writes a very long text, and wait until it has begun."""
    command = [sys.executable, "-m", "visualizer", "generate", str(run), "--tokens=1000000"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout
            process.stdout.read(1)
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no signals")
@pytest.mark.slow
def test_a_signal_ends_it_without_a_traceback(trained: Path) -> None:
    with writing_on(trained) as process:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, b"")


@pytest.mark.skipif(os.name == "nt", reason="needs a pipe of POSIX")
@pytest.mark.slow
def test_it_ends_with_any_program_that_reads_it(trained: Path) -> None:
    with writing_on(trained) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.wait(timeout=60)
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")


# --------------------------------------------------------------------------------- run folders


@pytest.fixture
def offscreen(qapp: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")  # the program sets it; restore it


@pytest.mark.usefixtures("offscreen")
@pytest.mark.parametrize("layer", [1, 2])
def test_a_layer_of_a_run_is_exported(layer: int, trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    options = ["--layer", str(layer), "--text", "abcab", "--export", str(path), "--quiet"]
    assert main([str(trained), *options]) == 0
    opened = OpenedRun(RunFolder(trained), is_held=False)
    model, _ = opened.model_at(None)
    probe = language_probe.ProbeText.from_text("abcab", opened.metadata.vocabulary, model)
    expected = language_probe.run_probe(model, probe)["weights"][layer - 1]
    opened.close()
    with np.load(path) as arrays:
        np.testing.assert_allclose(arrays["weights"], expected, rtol=0, atol=1e-5)
        assert arrays["tokens"].tolist() == list("abcab")


@pytest.mark.usefixtures("offscreen")
def test_each_layer_of_a_run_has_a_file(trained: Path, tmp_path: Path) -> None:
    options = ["--text", "abcab", "--quiet", "--export"]
    for layer in ("1", "2"):
        one = str(tmp_path / f"alone{layer}.npz")
        assert main([str(trained), "--layer", layer, *options, one]) == 0
    assert main([str(trained), "--layer", "all", *options, str(tmp_path / "a.npz")]) == 0
    for layer in ("1", "2"):
        alone, each = (tmp_path / f"{name}{layer}.npz" for name in ("alone", "a-layer"))
        assert alone.read_bytes() == each.read_bytes()
    assert len([*tmp_path.iterdir()]) == 4


def test_an_interruption_ends_the_exports_of_all_layers(
    trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun_layers = []

    def interrupted(options: argparse.Namespace, saved: object) -> int:
        begun_layers.append(options.export)
        return 130

    monkeypatch.setattr(app, "export_without_window", interrupted)
    path = tmp_path / "a.npz"
    assert main([str(trained), "--layer", "all", "--export", str(path)]) == 130
    assert begun_layers == [[tmp_path / "a-layer1.npz"]]


@pytest.mark.usefixtures("offscreen")
def test_all_heads_of_a_run_are_shown(trained: Path, tmp_path: Path) -> None:
    options = ["--stages", "weights", "--export", str(tmp_path / "a.md"), "--quiet"]
    assert main([str(trained), *options]) == 0
    said = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert "head 1" in said
    assert "head 2" in said


@pytest.mark.usefixtures("offscreen")
def test_a_run_is_drawn_with_settings_changed(trained: Path, tmp_path: Path) -> None:
    options = ["--mask", "none", "--export", str(tmp_path / "a.npz"), "--quiet"]
    assert main([str(trained), *options]) == 0
    with np.load(tmp_path / "a.npz") as arrays:
        assert (arrays["weights"] > 0).all()


def test_a_model_without_attention_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(tmp_path / "run", model=ModelKind.BIGRAM).close()
    assert refusal(f"{tmp_path / 'run'} --export {tmp_path / 'a.png'}", capsys) == (
        2,
        "attention-visualizer: argument FILE: Layer 1 does not exist: this model has 0 layers.\n",
    )
