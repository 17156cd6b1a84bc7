"""Recording has no effect on the training, and what it records is the attention of the model."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import POSITIONS, VOCABULARY, tiny_model
from visualizer.api.recorder import MAX_PENDING_SNAPSHOTS
from visualizer.api.training_callbacks import TrainerHooks
from visualizer.errors import InputError
from visualizer.language import recording
from visualizer.language.loss_log import MAX_STEPS
from visualizer.language.recording import RecordingWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*loss_type")
TEXTS = ([5, 6, 7, 8, 9, 5, 6], [9, 8, 7])


class WordTokenizer:
    """A tokenizer whose tokens are single letters."""

    def __call__(self, text: str, return_tensors: str) -> dict[str, torch.Tensor]:
        assert return_tensors == "pt"
        return {"input_ids": torch.tensor([[ord(letter) for letter in text]])}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [chr(number) for number in ids]

    def decode(self, ids: list[int]) -> str:
        return "".join(map(chr, ids))


def a_model(kind: str = "gpt2") -> Any:
    """Return a model with dropout in training mode, except for its first layer norm."""
    model = tiny_model(f"{kind}", resid_pdrop=0.2, attn_pdrop=0.2, embd_pdrop=0.2)
    model.train()
    next(module for module in model.modules() if isinstance(module, torch.nn.LayerNorm)).eval()
    return model


def training_states(
    model: Any, recorder: visualizer.Recorder | None, steps: int, *, is_mixed: bool
) -> Iterator[list[Any]]:
    """Train a model, and yield everything on which the training depends after each step."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the generator that training loops use
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
            if recorder:
                recorder.step()  # before autocast has converted any weights
            for _ in range(2):  # gradients are accumulated
                ids = torch.randint(VOCABULARY, (2, 8))
                loss = model(input_ids=ids, labels=ids).loss
                loss.backward()
            if recorder:
                recorder.step(loss)  # the gradients are not cleared yet
            second = model(input_ids=ids, labels=ids).loss
            second.backward()
        optimizer.step()
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        optimizer.zero_grad()
        modes = [module.training for module in model.modules()]
        yield [
            *gradients,
            *(parameter.detach().clone() for parameter in model.parameters()),
            torch.get_rng_state(),
            torch.tensor([random.random(), *np.random.rand(2)]),  # noqa: NPY002
            torch.tensor(modes),
            torch.tensor([torch.is_grad_enabled(), torch.is_autocast_cache_enabled()]),
        ]


@pytest.mark.parametrize("is_mixed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_training_is_bit_identical_with_and_without_recording(
    tmp_path: Path, is_mixed: bool
) -> None:
    alone = [*training_states(a_model(), None, 2, is_mixed=is_mixed)]
    model = a_model()
    with visualizer.record(model, every=1, texts=TEXTS, to=tmp_path / "run") as recorder:
        recorded = training_states(model, recorder, 2, is_mixed=is_mixed)
        for expected, found in zip(alone, recorded, strict=True):
            assert all(map(torch.equal, expected, found))
    assert visualizer.load(tmp_path / "run").steps == (0, 1, 2, 3, 4)


def test_snapshots_are_the_attention_of_the_model_in_evaluation_mode(tmp_path: Path) -> None:
    model = a_model()
    expected = []

    def keep() -> None:
        model.set_attn_implementation("eager")
        model.eval()
        for text in TEXTS:
            ids = torch.tensor([text])
            layers = model(input_ids=ids, output_attentions=True).attentions
            expected.append(torch.stack(layers)[:, 0].detach().numpy())
        a_copy = [module.training for module in a_model().modules()]
        for module, mode in zip(model.modules(), a_copy, strict=True):
            module.training = mode

    keep()
    with visualizer.record(model, every=3, texts=TEXTS, to=tmp_path / "run") as recorder:
        for _ in training_states(model, recorder, 2, is_mixed=False):
            pass
        keep()  # the last snapshot is that of the end
    recording = visualizer.load(tmp_path / "run")
    assert recording.steps == (0, 3, 4)
    assert repr(recording) == (
        "<Recording: GPT2LMHeadModel · 2 layers × 4 heads · 3 snapshots up to step 4>"
    )
    for text in range(2):
        weights = recording.weights(text)
        assert weights.shape == (3, 2, 4, len(TEXTS[text]), len(TEXTS[text]))
        assert np.array_equal(weights[0], expected[text])
        assert np.array_equal(weights[2], expected[2 + text])
        assert np.array_equal(recording.attention(4, text)["weights"], weights[2])
    assert recording.tokens(1) == ("9", "8", "7")
    assert recording.losses["steps"].tolist() == [1, 3]
    with pytest.raises(IndexError):
        recording.attention(0, 2)


def test_texts_are_strings_with_a_tokenizer_or_arguments_of_the_model(tmp_path: Path) -> None:
    model, tokenizer = a_model(), WordTokenizer()
    given = ["abcab", torch.tensor([100, 101]), {"input_ids": [[102, 103, 104]]}]
    recorder = visualizer.record(model, texts=given, tokenizer=tokenizer, to=tmp_path / "run")
    recorder.close()
    recording = visualizer.load(tmp_path / "run")
    assert recording.texts == ("abcab", "de", "fgh")
    assert recording.tokens(0) == ("a", "b", "c", "a", "b")


@pytest.mark.slow  # imports the compiler
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of the compiler
def test_a_compiled_model_keeps_its_graphs(tmp_path: Path) -> None:
    def graphs_of_training(to: Path | None) -> int:
        compiler: Any = torch._dynamo
        compiler.reset()
        compiler.utils.counters.clear()
        model = a_model()
        compiled: Any = torch.compile(model, backend="eager")
        recorder = visualizer.record(compiled, every=1, texts=TEXTS, to=to) if to else None
        for _ in range(3):
            ids = torch.randint(VOCABULARY, (2, 8))
            loss: Any = compiled(input_ids=ids, labels=ids).loss
            loss.backward()
            if recorder:
                recorder.step()
        if recorder:
            recorder.close()
        return int(compiler.utils.counters["stats"]["unique_graphs"])

    alone = graphs_of_training(None)
    assert graphs_of_training(tmp_path / "run") == alone


class OwnModel(torch.nn.Module):
    """Two layers of attention that are not those of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(12, 8)
        self.layers = torch.nn.ModuleList(
            torch.nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True) for _ in range(2)
        )

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        stream, found = self.embedding(ids), []
        for layer in self.layers:
            stream, weights = layer(stream, stream, stream, average_attn_weights=False)
            found.append(weights)
        return found


@pytest.mark.parametrize("is_stacked", [False, True])
def test_a_module_of_any_kind_is_recorded_with_a_function(tmp_path: Path, is_stacked: bool) -> None:
    torch.manual_seed(0)
    model = OwnModel()

    def weights(ids: torch.Tensor) -> Any:
        assert not torch.is_grad_enabled()
        return torch.stack(model(ids))[:, 0] if is_stacked else model(ids)

    to = tmp_path / "run"
    visualizer.record(model, texts=TEXTS, to=to, weights=weights).close()
    assert model.training
    recording = visualizer.load(to)
    model.eval()
    with torch.no_grad():
        expected = torch.stack(model(torch.tensor(TEXTS[:1])))[:, 0].numpy()
    assert np.array_equal(recording.weights()[0], expected)
    assert {row["step"] for row in recording.heads()} == {0}
    assert len(recording.heads()) == 2 * 2
    with pytest.raises(InputError, match="query, key") as refused:
        visualizer.record(model, texts=TEXTS, to=to, weights=lambda ids: torch.ones(3, 3))
    assert refused.value.field == "weights"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"texts": []}, "texts"),
        ({"texts": ["a text"]}, "tokenizer"),
        ({"texts": [[1, 2], [1, 2]]}, "texts"),
        ({"texts": [torch.ones(2, 3, dtype=torch.long)]}, "texts"),
        ({"every": 0}, "every"),
        ({"first_step": -1}, "first_step"),
        ({"part": "encoder"}, "part"),
        ({"model": torch.nn.Linear(2, 2)}, "model"),
        ({"texts": [[at % 300, at // 300] * 33 for at in range(1000)]}, "texts"),
        ({"model": "gpt2", "weights": len}, "model"),
        ({"weights": "attention"}, "weights"),
        ({"weights": len, "part": "encoder"}, "part"),
    ],
)
def test_invalid_arguments_are_rejected_before_anything_is_written(
    tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    given = {"model": a_model(), "texts": TEXTS, "to": tmp_path / "run"} | arguments
    with pytest.raises(InputError) as refused:
        visualizer.record(**given)
    assert refused.value.field == field
    assert not (tmp_path / "run").exists()


def test_an_interrupted_run_is_readable_and_can_be_resumed(tmp_path: Path) -> None:
    model, to = a_model(), tmp_path / "run"

    def train_until_interrupted() -> None:
        with visualizer.record(model, every=2, texts=TEXTS, to=to) as recorder:
            for _ in range(5):
                recorder.step(2.5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_until_interrupted()
    assert visualizer.load(to).steps == (0, 2, 4)
    assert visualizer.load(to).losses["training"].tolist() == [2.5] * 5
    with pytest.raises(InputError, match="resume=True"):
        visualizer.record(model, every=2, texts=TEXTS, to=to)
    with visualizer.record(model, every=2, texts=TEXTS, to=to, resume=True) as recorder:
        assert recorder.steps == 4
        recorder.step(1.5)
        recorder.log(validation=3.5)
    recording = visualizer.load(to)
    assert recording.steps == (0, 2, 4, 5)
    assert recording.losses["training"].tolist() == [2.5, 2.5, 2.5, 2.5, 1.5]
    assert recording.losses["validation_steps"].tolist() == [5]
    with pytest.raises(InputError, match="other texts"):
        visualizer.record(model, texts=[[1, 2]], to=to, resume=True)


MISSING = "A snapshot of the attention is missing"


def train(recorder: visualizer.Recorder, steps: int) -> None:
    for _ in range(steps):
        recorder.step()


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore:{MISSING}")
def test_a_full_disk_is_reported_and_does_not_stop_the_training(tmp_path: Path) -> None:
    with visualizer.record(a_model(), every=1, texts=TEXTS, to=tmp_path / "run") as recorder:
        recorder.step()
        snapshots = tmp_path / "run" / "snapshots"
        snapshots.rename(tmp_path / "elsewhere")
        snapshots.write_bytes(b"not a folder")
        with pytest.warns(UserWarning, match=MISSING):
            train(recorder, 2 * MAX_PENDING_SNAPSHOTS)
        # Snapshots that are still pending may be written before or after the folder is back.
        snapshots.unlink()
        (tmp_path / "elsewhere").rename(snapshots)
        recorder.step()
    assert recorder.steps == visualizer.load(tmp_path / "run").steps[-1]


def uniform(ids: torch.Tensor) -> torch.Tensor:
    """Return the weights of a single head that attends to all tokens equally."""
    return torch.full((1, 1, ids.shape[1], ids.shape[1]), 1 / ids.shape[1])


def record_uniform(to: Path, **arguments: Any) -> visualizer.Recorder:
    given: dict[str, Any] = {"every": 1, "texts": TEXTS, "weights": uniform}
    return visualizer.record(torch.nn.Identity(), to=to, **(given | arguments))


@pytest.mark.filterwarnings(f"ignore:{MISSING}")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_an_unexpected_error_does_not_stop_the_training(
    tmp_path: Path,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise error

    recorder = record_uniform(tmp_path / "run")
    monkeypatch.setattr(RecordingWriter, "write_snapshot", fail)
    train(recorder, 2 * MAX_PENDING_SNAPSHOTS)
    recorder.close()
    monkeypatch.undo()
    assert ("could not be written" in caplog.text) == (error is RuntimeError)
    caplog.clear()
    record_uniform(tmp_path / "run", resume=True).close()


def test_a_buffer_that_is_overwritten_does_not_change_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer, is_overwritten = np.full((1, 1, 2, 2), 0.5, np.float32), threading.Event()
    write = RecordingWriter.write_snapshot

    def write_late(*given: Any) -> None:
        is_overwritten.wait(60)
        write(*given)

    monkeypatch.setattr(RecordingWriter, "write_snapshot", write_late)
    to = tmp_path / "run"
    recorder = record_uniform(to, texts=[[1, 2]], weights=lambda ids: buffer)
    buffer[:] = 7
    is_overwritten.set()
    recorder.close()
    assert visualizer.load(to).weights().max() == 0.5


def test_divided_parameters_are_rejected_also_with_a_function(tmp_path: Path) -> None:
    divided = type("FSDPModule", (torch.nn.Linear,), {})(2, 2)
    with pytest.raises(InputError, match="divided among processes") as refused:
        visualizer.record(divided, texts=TEXTS, to=tmp_path, weights=uniform)
    assert refused.value.field == "model"


def test_a_folder_is_released_if_the_last_snapshot_fails(tmp_path: Path) -> None:
    is_broken = threading.Event()

    def weights(ids: torch.Tensor) -> torch.Tensor:
        if is_broken.is_set():
            raise RuntimeError("the model is on another device")
        return uniform(ids)

    def train() -> None:
        with record_uniform(tmp_path, every=9, weights=weights) as recorder:
            recorder.step(2.5)
            is_broken.set()

    with pytest.raises(RuntimeError, match="another device"):
        train()
    assert visualizer.load(tmp_path).losses["training"].tolist() == [2.5]
    record_uniform(tmp_path, resume=True).close()


def test_a_callback_keeps_the_recording_if_the_training_starts_again(tmp_path: Path) -> None:
    with record_uniform(tmp_path) as recorder:
        recorder.step()
    names = ("tokenizer", "part")
    arguments = dict.fromkeys(names) | {"texts": TEXTS, "weights": uniform, "every": 1}
    hooks = TrainerHooks(arguments | {"to": tmp_path, "resume": True})
    with pytest.raises(InputError, match="up to step 1") as refused:
        hooks.on_train_begin(None, SimpleNamespace(global_step=0), None, model=torch.nn.Identity())
    assert refused.value.field == "resume"
    assert visualizer.load(tmp_path).steps == (0, 1)


def test_weights_of_a_part_of_the_tokens_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="7 tokens") as refused:
        record_uniform(tmp_path / "run", weights=lambda ids: uniform(ids[:, -4:]))
    assert refused.value.field == "weights"
    assert not (tmp_path / "run").exists()


def test_the_attention_of_a_decoder_has_the_tokens_of_the_decoder(tmp_path: Path) -> None:
    model, part = tiny_model("t5"), "decoder.block.*.layer.*.SelfAttention"
    text: dict[str, Any] = {"input_ids": [5, 6, 7], "decoder_input_ids": [1, 9]}
    visualizer.record(model, texts=[text], to=tmp_path / "run", part=part).close()
    recording = visualizer.load(tmp_path / "run")
    assert recording.tokens() == ("1", "9")
    assert recording.weights().shape[-2:] == (2, 2)
    text["decoder_input_ids"] = [1, VOCABULARY]
    with pytest.raises(InputError, match=f"token id {VOCABULARY}"):
        visualizer.record(model, texts=[text], to=tmp_path / "other", part=part)
    del text["decoder_input_ids"]
    text["labels"] = [9, 2]
    with pytest.raises(InputError, match="decoder_input_ids"):
        visualizer.record(model, texts=[text], to=tmp_path / "other", part=part)


def test_the_size_is_that_of_the_saved_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(len(text) ** 2 for text in TEXTS) * 4  # 16-bit weights are saved as float32
    monkeypatch.setattr(recording, "MAX_STEP_BYTES", size - 1)
    with pytest.raises(InputError, match="fewer or shorter") as refused:
        record_uniform(tmp_path, weights=lambda ids: uniform(ids).bfloat16())
    assert refused.value.field == "texts"


@pytest.mark.parametrize("text", [[5, VOCABULARY], [5, -1], [5] * (POSITIONS + 1)])
def test_texts_that_the_model_does_not_support_are_rejected(
    tmp_path: Path, text: list[int]
) -> None:
    with pytest.raises(InputError, match="GPT2LMHeadModel") as refused:
        visualizer.record(a_model(), texts=[TEXTS[0], text], to=tmp_path)
    assert refused.value.field == "texts"


@pytest.mark.parametrize("step", [4, 5.5, "6", True])
def test_a_number_of_steps_that_is_invalid_is_rejected(tmp_path: Path, step: Any) -> None:
    with record_uniform(tmp_path) as recorder:
        recorder.advance(5)
        with pytest.raises(InputError) as refused:
            recorder.advance(step)
        assert refused.value.field == "step"
        recorder.advance(5, 1.5)
        recorder.step(2.5)
    assert visualizer.load(tmp_path).steps == (0, 5, 6)
    assert visualizer.load(tmp_path).losses["training"].tolist() == [2.5]


def test_training_continues_after_the_maximum_number_of_steps(tmp_path: Path) -> None:
    with record_uniform(tmp_path, first_step=MAX_STEPS - 1) as recorder:
        recorder.step()
        with pytest.warns(UserWarning, match="10,000,000"):
            recorder.step()
        recorder.step(2.5)
        assert recorder.steps == MAX_STEPS + 2
    assert visualizer.load(tmp_path).steps == (MAX_STEPS - 1, MAX_STEPS)


def test_negative_losses_are_recorded(tmp_path: Path) -> None:
    given = [-0.5, -1.0, 0.0, float("nan")]
    with record_uniform(tmp_path, every=9) as recorder:
        for loss in given:
            recorder.step(loss)
    found = visualizer.load(tmp_path).losses
    np.testing.assert_array_equal(found["training"], given)
    assert len(found["validation"]) == 0


def test_a_recorder_that_was_left_open_is_closed_by_the_next_one(tmp_path: Path) -> None:
    left_open = record_uniform(tmp_path)
    left_open.step(2.5)
    with record_uniform(tmp_path, resume=True) as recorder:
        assert recorder.steps == 1
        left_open.step(9.5)
        recorder.step(1.5)
    assert visualizer.load(tmp_path).losses["training"].tolist() == [2.5, 1.5]
    left_open.close()


def test_a_folder_that_cannot_be_used_is_the_argument_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError) as refused:
        record_uniform(tmp_path / "file" / "run")
    assert refused.value.field == "to"


def test_a_recording_without_snapshots_has_no_weights(tmp_path: Path) -> None:
    record_uniform(tmp_path).close()
    for file in (tmp_path / "snapshots").iterdir():
        file.unlink()
    with pytest.raises(InputError, match="no snapshots"):
        visualizer.load(tmp_path).weights()
