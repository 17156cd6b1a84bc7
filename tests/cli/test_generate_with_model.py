"""``attention-visualizer generate`` generates text with real models, as with models of the lab."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import visualizer
from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import VOCABULARY
from visualizer.cli.generate import generate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # libraries warn about small models
TEXT = "the cat sat"


def test_the_text_and_what_follows_go_to_standard_output(
    tiny_model_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    greedy = [str(tiny_model_folder), "--prompt", TEXT, "--tokens", "6", "--temperature", "0"]
    assert generate(greedy) == 0
    model = visualizer.open_model(tiny_model_folder)
    made = model.generate(TEXT, 6)
    tokenizer = tokenizer_of(model.opened)
    words = tokenizer.decode(tokenizer.encode(TEXT))
    written = capfd.readouterr().out
    whole = tokenizer.decode([*tokenizer.encode(TEXT), *_numbers(model, made.tokens[made.start :])])
    assert written == TEXT + whole.removeprefix(words) + "\n"


def test_a_model_stops_with_any_program_that_reads_it(
    tiny_model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = list[str]()

    def write(text: str) -> bool:
        written.append(text)
        return len(written) < 2

    monkeypatch.setattr("visualizer.cli.generate.write_output", write)
    assert generate([str(tiny_model_folder), "--prompt", TEXT, "--tokens", "6"]) == 0
    assert (len(written), written[0], written[-1]) == (3, TEXT, "\n")


def _numbers(model: visualizer.Model, tokens: tuple[str, ...]) -> list[int]:
    """Return the ids of tokens; the vocabulary of the tiny model contains each token once."""
    known = {model.opened.token_text(number): number for number in range(VOCABULARY)}
    return [known[token] for token in tokens]


@pytest.mark.parametrize(
    ("options", "status", "sentence"),
    [
        ([], 2, "argument --prompt: required for a Transformers model"),
        (["--prompt", "a", "--step", "3"], 2, "argument --step: not available for Transformers"),
        (["--prompt", " "], 2, "argument --prompt: The text is empty."),
        (["--prompt", "a", "--tokens", "9999"], 2, "argument --tokens: The text has"),
    ],
)
def test_missing_arguments_are_reported(
    tiny_model_folder: Path,
    capfd: pytest.CaptureFixture[str],
    options: list[str],
    status: int,
    sentence: str,
) -> None:
    assert generate([str(tiny_model_folder), *options]) == status
    assert sentence in capfd.readouterr().err


def test_a_damaged_model_is_rejected(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    assert generate([str(tmp_path), "--prompt", "a"]) == 1
    assert "“config.json” is damaged: it is not valid JSON." in capfd.readouterr().err
