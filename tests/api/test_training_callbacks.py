"""The callbacks for the trainers of Transformers and Lightning record without any effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import VOCABULARY, tiny_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,  # the trainers take seconds to import
    pytest.mark.filterwarnings("ignore"),  # of trainers, about devices and data loaders
]
TEXTS = [[5, 6, 7, 8], [9, 8, 7]]
STEPS = 4


class Blocks(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sixteen blocks of tokens, which are also their labels."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, at: int) -> dict[str, torch.Tensor]:
        ids = (torch.arange(8) * (at + 3)) % VOCABULARY
        return {"input_ids": ids, "labels": ids}


def a_model() -> Any:
    return tiny_model("gpt2", resid_pdrop=0.2, attn_pdrop=0.2)


def are_equal(one: Any, other: Any) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def train_with_trainer(folder: Path, *callbacks: Any, resumes: bool = False, steps: int = 4) -> Any:
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        str(folder / "checkpoints"),
        max_steps=steps,
        per_device_train_batch_size=2,
        logging_steps=1,
        save_steps=2,
        eval_strategy="steps",
        eval_steps=2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=3,
    )
    model = a_model()
    blocks = Blocks()
    trainer = Trainer(
        model, arguments, train_dataset=blocks, eval_dataset=blocks, callbacks=list(callbacks)
    )
    trainer.train(resume_from_checkpoint=resumes)
    return model


def test_a_trainer_is_recorded_and_resumed(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    alone = train_with_trainer(tmp_path / "alone")
    callback = visualizer.trainer_callback(every=2, texts=TEXTS, to=tmp_path / "run")
    recorded = train_with_trainer(tmp_path / "recorded", callback)
    assert are_equal(alone, recorded)
    recording = visualizer.load(tmp_path / "run")
    assert recording.steps == (0, 2, 4)
    assert recording.losses["training"].shape == (STEPS,)
    assert recording.losses["validation_steps"].tolist() == [2, 4]
    assert (recording.losses["rates"] > 0).sum() > 0
    train_with_trainer(tmp_path / "recorded", callback, resumes=True, steps=6)
    assert visualizer.load(tmp_path / "run").steps == (0, 2, 4, 6)
    with pytest.raises(visualizer.InputError, match="resume=True"):
        train_with_trainer(tmp_path / "again", callback)


def train_with_lightning(folder: Path, *callbacks: Any) -> Any:
    lightning: Any = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = a_model().train()
            self.losses: list[float] = []

        def training_step(self, batch: Any, index: int) -> Any:
            loss = self.model(**batch).loss
            self.losses.append(float(loss))
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("val_loss", self.model(**batch).loss)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), 0.01)

    lightning.seed_everything(3, verbose=False)
    module = Module()
    loader = torch.utils.data.DataLoader(Blocks(), batch_size=2)
    trainer = lightning.Trainer(
        max_steps=STEPS,
        accumulate_grad_batches=2,
        val_check_interval=4,
        callbacks=list(callbacks),
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(module, loader, loader)
    return module


def test_a_trainer_of_lightning_is_recorded(tmp_path: Path) -> None:
    alone = train_with_lightning(tmp_path)
    callback = visualizer.lightning_callback(every=2, texts=TEXTS, to=tmp_path / "run")
    recorded = train_with_lightning(tmp_path, callback)
    assert are_equal(alone, recorded)
    assert callback.recorder is None
    recording = visualizer.load(tmp_path / "run")
    assert recording.steps == (0, 2, 4)
    np.testing.assert_allclose(recording.losses["training"], recorded.losses[1::2], rtol=1e-6)
    assert recording.losses["validation_steps"].tolist() == [2, 4]
