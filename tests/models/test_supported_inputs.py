"""Tests that models with unsupported inputs are recognized by their configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.hub_folders import cache_config, cache_folder
from tests.support.tiny_models import SMALL, save_tiny_model, tiny_model
from tests.support.tiny_models import VISION as READ_AS_IMAGES
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.features.model_chooser.presenter import ModelChooserState, present_model_chooser
from visualizer.models.cached_models import list_cached_models
from visualizer.models.opened_model import open_model
from visualizer.models.supported_inputs import (
    SUPPORTED_INPUTS,
    check_input_kind,
    check_main_input,
    unused_submodels_notice,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
LLAVA: dict[str, Any] = {
    "text_config": {**SMALL, "model_type": "llama"},
    "vision_config": {
        **{"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 48},
        **{"num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8},
    },
    "image_token_index": 5,
}


def is_rejected(kind: str) -> bool:
    try:
        check_input_kind("it", {"model_type": kind})
    except InputError:
        return True
    return False


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        *(("whisper", "audio"), ("wav2vec2", "audio"), ("videomae", "videos"), ("tapas", "tables")),
        *(("patchtst", "time series"), ("blip-2", "an image together with a text")),
    ],
)
def test_models_with_unsupported_inputs_are_listed_with_a_reason(
    tmp_path: Path, kind: str, what: str
) -> None:
    folder = cache_config(tmp_path, "org/other", {"model_type": kind})
    (listed,) = list_cached_models(tmp_path)
    assert what in listed.unavailable_reason
    (row,) = present_model_chooser(ModelChooserState(tmp_path, (listed,))).rows
    assert not row.can_open
    assert row.note == listed.unavailable_reason
    with pytest.raises(InputError) as caught:
        open_model(folder, Device.CPU)
    assert (caught.value.field, caught.value.sentence) == ("model", listed.unavailable_reason)


def test_a_vision_language_model_is_run_on_text_only(tmp_path: Path) -> None:
    saved = save_tiny_model(tmp_path / "saved", "llava", **LLAVA)
    cache_folder(tmp_path / "hub", "org/llava", saved)
    (listed,) = list_cached_models(tmp_path / "hub")
    assert not listed.unavailable_reason
    assert "images" in listed.notice
    (row,) = present_model_chooser(ModelChooserState(tmp_path, (listed,))).rows
    assert row.can_open
    assert row.note == listed.notice
    runs = open_model(listed.path, Device.CPU).attend("the cat sat")
    assert all(listed.notice in run.notices for run in runs)


def test_only_the_image_encoder_of_clip_is_run(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"text_config": {**SMALL}, "vision_config": {**LLAVA["vision_config"]}}
    model = tiny_model("clip", **parts)
    model.save_pretrained(tmp_path)
    opened = open_model(tmp_path, Device.CPU)
    assert opened.is_image_model
    assert "Only the image encoder of" in opened.folder.notices[0]


@pytest.mark.parametrize("config", [{"model_type": "llama"}, {"vision_config": None}, {}])
def test_a_model_that_is_run_completely_has_no_notice(config: dict[str, object]) -> None:
    check_input_kind("it", config)
    assert unused_submodels_notice("it", config) == ""


def test_an_unlisted_model_type_is_checked_by_its_class() -> None:
    for supplied in ("input_ids", "pixel_values", ["other", "input_ids"]):
        check_main_input("it", supplied)
    for name, what in (("input_features", "audio"), ("unheard", "“unheard”")):
        with pytest.raises(InputError, match=f"{what} as input"):
            check_main_input("it", name)


@pytest.mark.slow
def test_the_listed_model_types_match_the_classes_of_transformers() -> None:
    transformers: Any = pytest.importorskip("transformers", reason="models need transformers")
    unknown = []
    for kind, config in transformers.CONFIG_MAPPING.items():
        try:
            made = transformers.MODEL_MAPPING[config]
            made = made[0] if isinstance(made, tuple) else made
            main = made.main_input_name
        except (
            KeyError,
            ImportError,
            ValueError,
        ):  # without a model class, or with one from a missing library
            continue
        names = [main] if isinstance(main, str) else main
        if not any(name in SUPPORTED_INPUTS for name in names) and not is_rejected(kind):
            unknown.append(kind)
        if kind in READ_AS_IMAGES:
            assert not is_rejected(kind)
    # Parts of larger models, which are rarely saved separately.
    parts = ("encoder", "decoder", "audio", "tokenizer", "timestamp", "assistant")
    assert [kind for kind in unknown if not any(part in kind for part in parts)] == []
