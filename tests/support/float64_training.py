"""The program with float64 models, in which processes cannot exchange Python objects.

In float32, training doubles the rounding differences every few steps. After some hundred steps, a
run cannot be compared with another run that adds numbers in another order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn
from unittest.mock import patch

from visualizer.__main__ import main
from visualizer.language.language_models import build_model

if TYPE_CHECKING:
    from visualizer.language.language_models import LanguageModel
    from visualizer.language.training_settings import TrainingSettings


def _build_exact(settings: TrainingSettings, tokens: int) -> LanguageModel:
    return build_model(settings, tokens).double()


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("an object is pickled")


if __name__ == "__main__":
    patch("visualizer.language.trainer.build_model", _build_exact).start()
    for name in ("_object_to_tensor", "_tensor_to_object"):
        patch(f"torch.distributed.distributed_c10d.{name}", _refuse).start()
    raise SystemExit(main())
