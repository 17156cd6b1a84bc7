"""Tests that the tokenizer process gives the same results as this process, and restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from time import monotonic
from typing import TYPE_CHECKING

import psutil
import pytest
from transformers.convert_slow_tokenizer import bytes_to_unicode

from tests.support.reference_tokenizer import tokenizer_of
from tests.support.tiny_models import save_tiny_model
from visualizer.errors import InputError
from visualizer.models import model_tokenizer
from visualizer.models.opened_model import OpenedModel, open_model
from visualizer.models.tokenizer_process import (
    PROCESS_COMMAND,
    ResponseLimits,
    TokenizerError,
    tokenizer_process,
)
from visualizer.progress import CancelledError
from visualizer.session import model_opening

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
BYTES = {letter: byte for byte, letter in bytes_to_unicode().items()}
"""Bytes by the letters that represent them in a byte-level vocabulary."""
TEXT = "The naïve fox, 日本語 and 🙂 e\u0301 <s>\n\tsat  on"
WAIT_S = 30.0


def processes() -> list[psutil.Process]:
    """Return the tokenizer processes that this process started."""
    found = psutil.Process().children()
    return [each for each in found if PROCESS_COMMAND[-1] in each.cmdline()]


def byte_level_folder(folder: Path) -> Path:
    """Save a model with a byte-level tokenizer, whose tokens may be parts of characters."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    save_tiny_model(folder, sliding_window=None, vocab_size=400)
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=letters, special_tokens=["<s>"], show_progress=False
    )
    made.train_from_iterator(["the cat sat on the mat"] * 9, trainer)
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>").save_pretrained(folder)
    return folder


def bert_folder(folder: Path) -> Path:
    """Save a BERT model that has only a WordPiece vocabulary as its tokenizer."""
    save_tiny_model(folder, "bert", vocab_size=400)
    for each in folder.glob("tokenizer*"):
        each.unlink()
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    pieces = (*special, "the", "fox", "na", "##ive", "s", "##at", "日", "on")
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    return folder


@pytest.fixture
def opened(tmp_path: Path) -> OpenedModel:
    return open_model(byte_level_folder(tmp_path / "bytes"))


@pytest.mark.parametrize("save", [byte_level_folder, bert_folder])
def test_texts_are_tokenized_as_in_transformers(
    tmp_path: Path, save: Callable[[Path], Path]
) -> None:
    model = open_model(save(tmp_path / "model"))
    split, plain = model.required_tokenizer, tokenizer_of(model)
    for texts in ((TEXT,), (TEXT, "the cat"), ("",)):
        for has_special in (True, False):
            found = split.encode(*texts, has_special=has_special)
            wanted = plain(*texts, add_special_tokens=has_special)
            assert found.inputs == dict(wanted)
            assert found.count == len(found.tokens) == len(wanted["input_ids"])
    numbers = plain(TEXT)["input_ids"]
    assert split.decode(numbers) == plain.decode(numbers, clean_up_tokenization_spaces=False)
    for number, word in zip(numbers, split.token_texts(numbers), strict=True):
        alone = plain.decode([number], clean_up_tokenization_spaces=False)
        is_letter = alone and "�" not in alone
        known = plain.convert_ids_to_tokens(number)
        content = "".join(f"<0x{BYTES[each]:02X}>" for each in known if each in BYTES)
        assert word == (alone if is_letter else content or known)
    assert {*split.special_names} == {*plain.all_special_ids}
    assert split.bos_token == (plain.bos_token or "")


def test_the_process_is_started_while_a_model_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer_process.kill()
    with monkeypatch.context() as without:
        without.setattr(model_opening, "can_open_models", lambda: False)
        model_opening.start_importing_model_library()
    assert processes() == []
    model_opening.start_importing_model_library()
    (process,) = processes()
    model_opening.start_importing_model_library()
    assert processes() == [process]


def test_no_vocabulary_is_loaded_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    folder = bert_folder(tmp_path / "bert")
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", None)
    assert open_model(folder).encode_inputs("the fox")[1] == ("[CLS]", "the", "fox", "[SEP]")


def test_parts_of_a_character_are_numbered(opened: OpenedModel) -> None:
    assert opened.encode_inputs("é sat")[1] == ("é 1/2", "é 2/2", " sat")  # its two bytes


def test_an_id_outside_the_vocabulary_is_its_own_label(opened: OpenedModel) -> None:
    assert opened.token_texts((5, 399, 5)) == (opened.token_text(5), "#399", opened.token_text(5))


def test_a_text_that_is_much_too_long_is_only_counted(opened: OpenedModel) -> None:
    coded = opened.required_tokenizer.encode("!" * 30_001)
    assert (coded.count, coded.inputs, coded.tokens) == (30_001, {}, [])
    with pytest.raises(InputError, match="The text has 30,001 tokens; bytes supports at most 67"):
        opened.encode_inputs("!" * 30_001)


def test_a_process_that_has_exited_is_started_again(opened: OpenedModel) -> None:
    before = opened.encode_inputs(TEXT)[1]
    (process,) = processes()
    process.kill()
    process.wait(WAIT_S)  # removes its entry from the process table
    assert not psutil.pid_exists(process.pid)
    assert opened.encode_inputs(TEXT)[1] == before
    assert [each.pid for each in processes()] != [process.pid]


def test_an_exit_that_is_noticed_late_is_not_an_error(
    opened: OpenedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened.encode_inputs(TEXT)[1]
    (process,) = processes()
    process.kill()
    process.wait(WAIT_S)
    monkeypatch.setattr(subprocess.Popen, "poll", lambda _: None)
    assert opened.encode_inputs(TEXT)[1] == before


@pytest.mark.slow
def test_an_exit_during_a_request_is_reported_and_the_next_one_succeeds(
    opened: OpenedModel,
) -> None:
    (process,) = processes()
    process.suspend()  # so that it cannot respond before it is killed
    threading.Timer(0.05, process.kill).start()
    with pytest.raises(InputError, match="exited unexpectedly; try again") as refused:
        opened.encode_inputs(TEXT)
    assert refused.value.field == "text"
    assert opened.encode_inputs("the cat")[1]
    assert len(processes()) == 1


@pytest.mark.slow
def test_a_text_that_takes_too_long_to_tokenize_is_rejected(
    opened: OpenedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_tokenizer, "SPLIT_LIMITS", ResponseLimits(0.05, 2**30))
    with pytest.raises(InputError, match=r"it took longer than 0\.05 seconds"):
        opened.encode_inputs("the cat " * 1_000_000)


def test_a_text_that_the_library_cannot_tokenize_is_reported(opened: OpenedModel) -> None:
    with pytest.raises(InputError, match="The tokenizer of bytes failed on this text: ") as refused:
        opened.encode_inputs("lone \ud800 surrogate")
    assert refused.value.field == "text"
    assert len(processes()) == 1


def test_models_share_a_process_and_closed_models_are_released(
    tmp_path: Path, opened: OpenedModel
) -> None:
    other = open_model(bert_folder(tmp_path / "bert"))
    assert [model.encode_inputs("the fox")[1][-1] for model in (opened, other)] == ["x", "[SEP]"]
    (process,) = processes()
    assert isinstance(other.tokenizer, model_tokenizer.FolderTokenizer)
    location, numbers = other.tokenizer.location, {"numbers": [1]}
    asked = location, "words", numbers, model_tokenizer.SPLIT_LIMITS
    assert tokenizer_process.send_request(*asked)
    del other
    tokenizer_process.release_closed_tokenizers()
    with pytest.raises(TokenizerError, match=f"^{location.number}$"):  # it has been released
        tokenizer_process.send_request(*asked)
    assert opened.encode_inputs("the fox")[1][-1] == "x"
    assert processes() == [process]


def test_opening_can_be_cancelled_while_the_tokenizer_is_loading(tmp_path: Path) -> None:
    model_folder = byte_level_folder(tmp_path / "bytes")
    open_model(model_folder)  # starts the process
    (process,) = processes()
    process.suspend()
    start = monotonic()

    def cancel(done: int, of: int) -> None:
        if done == of and monotonic() - start > 0.2:
            raise CancelledError

    try:
        with pytest.raises(CancelledError):
            open_model(model_folder, progress=cancel)
    finally:
        process.resume()


@pytest.mark.slow
def test_a_large_vocabulary_is_supported(tmp_path: Path) -> None:
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = save_tiny_model(tmp_path / "large")
    vocabulary = {f"word{number}": number for number in range(400_000)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="word0"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    model = open_model(folder)
    found = model.required_tokenizer.encode("word399999 word7")
    assert found.inputs["input_ids"] == [399_999, 7]
    assert found.tokens == ["word399999", "word7"]


PARENT = """
import sys
from pathlib import Path
from visualizer.models.model_folder import read_model_folder
from visualizer.models.model_tokenizer import FolderTokenizer
import psutil

tokenizer = FolderTokenizer(read_model_folder(Path(sys.argv[1])))
print(psutil.Process().children()[0].pid, flush=True)
tokenizer.format_user_message("a", "model")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("template", ["{{ 3 ** (10 ** 9) }}", "a"], ids=["busy", "idle"])
def test_the_process_exits_after_its_parent_was_killed(tmp_path: Path, template: str) -> None:
    folder = byte_level_folder(tmp_path / "bytes")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    command = [sys.executable, "-c", PARENT, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
    child.wait(WAIT_S)


@pytest.mark.slow
def test_a_process_without_tokenizers_exits_after_a_while() -> None:
    code = f"import {PROCESS_COMMAND[-1]} as main; main.IDLE_TIMEOUT_S = 0.1; main.main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.wait(WAIT_S) == 1
