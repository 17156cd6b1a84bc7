"""Tests that tokens are labelled with readable characters for every kind of vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer.attention.importers.tensor_file_reader import add_tokens
from visualizer.attention.token_labels import label_tokens
from visualizer.generation.generated_tokens_presenter import present_generation
from visualizer.generation.generation_tree import GenerationTree
from visualizer.language.tokenizers import visible_tokens

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
TEXT = "a 我é b"
LABELS = ("a", "␣", "我 1/3", "我 2/3", "我 3/3", "é 1/2", "é 2/2", "␣", "b")


def byte_level(tokenizers: Any) -> Any:
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<s>": 0, **{letter: at for at, letter in enumerate(alphabet, 1)}}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return made


def byte_fallback(tokenizers: Any) -> Any:
    known = ["<s>", "<unk>", "▁", "a", "b", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {token: at for at, token in enumerate(known)}
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True)
    )
    made.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    decoders = tokenizers.decoders
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return made


@pytest.fixture(params=[byte_level, byte_fallback])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    transformers = pytest.importorskip("transformers", reason="models need transformers")
    tokenizers = pytest.importorskip("tokenizers")
    made = save_tiny_model(tmp_path / "model", vocab_size=300, sliding_window=None)
    splitting = request.param(tokenizers)
    template = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    splitting.post_processor = template
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=splitting, bos_token="<s>"
    ).save_pretrained(made)
    return made


def test_the_tokens_of_a_character_share_its_label(folder: Path) -> None:
    model = visualizer.open_model(folder)
    seen = model.attend(TEXT)
    assert visible_tokens(seen.tokens[1:]) == LABELS
    tokenizer = model.opened.tokenizer
    assert tokenizer
    ids = tokenizer.encode(TEXT).inputs["input_ids"]
    assert tokenizer.decode(ids[1:]) == TEXT, "decoding restores the text"
    assert "<0xE6>" in tokenizer.token_texts(ids)


def test_raw_vocabulary_entries_get_the_same_labels(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    raw = tokenizer.convert_ids_to_tokens(tokenizer(TEXT)["input_ids"])
    assert visible_tokens(label_tokens(raw))[1:] == LABELS
    captured = visualizer.open_model(folder).attend(TEXT).runs[0].captured_attention
    assert captured
    named, notice = add_tokens(folder, captured, {"tokens": tuple(raw)})
    assert notice == ""
    assert visible_tokens(named.query_tokens)[1:] == LABELS


@pytest.mark.parametrize("text", ["<s>a b", "a b"])
def test_two_start_tokens_lead_to_a_notice(folder: Path, text: str) -> None:
    (run,) = visualizer.open_model(folder).attend(text).runs
    said = [notice for notice in run.notices if "twice" in notice]
    assert bool(said) is text.startswith("<s>")
    assert all("<s>" in each for each in said)


def test_generated_tokens_of_a_character_share_its_label() -> None:
    tree = GenerationTree().restart(("a",))
    for number, text in enumerate(("<0xE6><0x88>", "<0x91>", " b")):
        tree = tree.append_picked_token(number, text, 0.5)
    panel = present_generation(tree, False, is_readable=True)
    assert [chip.label for chip in panel.chips] == ["a", "我 1/2", "我 2/2", "␣b"]
    back = present_generation(tree.step_back().step_back(), False, is_readable=True)
    assert [chip.label for chip in back.chips] == [chip.label for chip in panel.chips]
