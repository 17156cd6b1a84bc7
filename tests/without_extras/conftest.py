"""Hides the optional packages, so that the tests run as in an environment without extras.

`.ci/run` also runs these tests, with many others, in an environment without the packages.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from visualizer.optional_packages import OPTIONAL_PACKAGES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in OPTIONAL_PACKAGES:
        monkeypatch.setitem(sys.modules, package, None)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of a transformers model but without usable weights."""
    folder = tmp_path_factory.mktemp("models") / "bare"
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    name = "model.layers.0.self_attn.q_proj.weight"
    save_file({name: np.zeros((4, 4), np.float32)}, folder / "model.safetensors")
    return folder
