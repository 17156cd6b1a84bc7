"""Hides the optional packages, so that these tests find what an environment without extras does.

`.ci/run` also runs them, with many others, in an environment that has none of the packages.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from visualizer.optional_packages import EXTRA_OF_PACKAGE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in EXTRA_OF_PACKAGE:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that has the files of a model for transformers, and no numbers of use."""
    folder = tmp_path_factory.mktemp("models") / "bare"
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    name = "model.layers.0.self_attn.q_proj.weight"
    save_file({name: np.zeros((4, 4), np.float32)}, folder / "model.safetensors")
    return folder
