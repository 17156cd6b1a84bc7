"""Tests that images are prepared for vision models, and that patches become tokens."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from PIL import Image

import visualizer
from tests.support.tiny_vision_models import (
    DEVIATION,
    MEAN,
    PROCESSORS,
    picture,
    save_vision_model,
    vision_model,
)
from visualizer.app import main
from visualizer.attention.model_forward_pass import SecondTextUse
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models import image_file
from visualizer.models.image_file import hash_image_file
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, ImageFile
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.models.opened_model import open_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries warn about tiny models
SIDES = ("height", "width")
SPECIAL = {
    "vit": ("class",),
    "dinov2": ("class",),
    "dinov2_with_registers": ("class", *(f"register {at}" for at in (1, 2, 3, 4))),
    "deit": ("class", "distillation"),
    "clip_vision_model": ("class",),
    "siglip_vision_model": (),
    "clip": ("class",),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_vision_model(tmp_path_factory.mktemp("models") / "tiny_vit")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("images") / "noise.png"
    picture(path)
    return path


def refusal(given: Any, *more: Any, **named: Any) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        given(*more, **named)
    return caught.value.field, caught.value.sentence


@pytest.mark.parametrize(
    "kind", ["vit", *(pytest.param(kind, marks=pytest.mark.slow) for kind in [*PROCESSORS][1:])]
)
def test_attention_between_patches_equals_that_of_the_model(kind: str, tmp_path: Path) -> None:
    model = open_model(save_vision_model(tmp_path / kind, kind), Device.CPU)
    pixels = picture(tmp_path / "image.png")
    (found,) = model.attend_image(tmp_path / "image.png")
    places = [f"row {row}, column {column}" for row in (1, 2, 3, 4) for column in (1, 2, 3, 4)]
    assert found.run.texts == ((*SPECIAL[kind], *places),)
    plain = vision_model(kind)
    part = getattr(plain, "vision_model", plain)
    plain.set_attn_implementation("eager")
    normed = (pixels / 255 - MEAN) / DEVIATION
    given = torch.tensor(normed.transpose(2, 0, 1)[None], dtype=torch.float32)
    with torch.no_grad():
        expected = torch.stack(part(given, output_attentions=True).attentions)[:, 0]
    np.testing.assert_allclose(found.run.trace.read("weights"), expected, atol=1e-6)
    assert {"residual", "scores", "context", "output", "result"} <= {*found.run.trace.names}


def test_an_image_is_resized_and_cropped_as_configured(tmp_path: Path) -> None:
    model = open_model(save_vision_model(tmp_path / "clip", "clip_vision_model"), Device.CPU)
    pixels = picture(tmp_path / "wide.png", wide=50, high=32)
    picture(tmp_path / "cut.png")
    Image.fromarray(pixels[:, 9:41]).save(tmp_path / "cut.png")
    wide, cut = (
        model.attend_image(tmp_path / f"{name}.png")[0].run.trace.read("weights")
        for name in ("wide", "cut")
    )
    np.testing.assert_allclose(wide, cut, atol=1e-6)


def test_an_image_is_rotated_upright(folder: Path, tmp_path: Path) -> None:
    pixels = picture(tmp_path / "plain.png")
    turned = Image.fromarray(np.rot90(pixels))
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate clockwise by 90°
    turned.save(tmp_path / "turned.png", exif=exif)
    model = visualizer.open_model(folder)
    one, other = (
        model.attend(image=tmp_path / name)["weights"] for name in ("plain.png", "turned.png")
    )
    np.testing.assert_array_equal(one, other)


def test_images_work_in_python_and_on_the_command_line(
    folder: Path, image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = visualizer.open_model(folder)
    seen = model.attend(image=image)
    assert seen.tokens[:3] == ("class", "row 1, column 1", "row 1, column 2")
    assert "row 2, column 3" in str(seen.explain("weights", layer=1, head=0, query=7, key=0))
    out = tmp_path / "heads.png"
    command = ["model", str(folder), "--image", str(image), "--heads", "-", "--overview", str(out)]
    assert main(command) == 0
    assert capsys.readouterr().out.count("\n") == 9
    assert Image.open(out).size > (100, 100)


def test_unsupported_inputs_are_rejected(
    folder: Path, image: Path, tiny_model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vision, text = visualizer.open_model(folder), visualizer.open_model(tiny_model_folder)
    assert refusal(text.attend, image=image) == ("model", "tiny does not accept images.")
    field, sentence = refusal(vision.attend, "a cat")
    assert field == "model"
    assert sentence.startswith("tiny_vit takes images instead of text. ")
    assert refusal(vision.attend)[1].startswith("A text or an image is required.")
    assert refusal(vision.attend, "a cat", image=image)[0] == "image"
    assert refusal(vision.attend, image=image, chat=True)[0] == "chat"
    assert main(["model", str(folder), "--image", str(image), "--text", "a"]) == 2
    assert "--image cannot be combined with --text" in capsys.readouterr().err
    assert main(["model", str(folder), "--image", str(image), "--chat"]) == 2
    assert "--chat has no effect with --image" in capsys.readouterr().err
    assert main(["model", str(folder), "--image", str(folder / "config.json")]) == 2
    assert "argument --image: Cannot open “config.json” as an image" in capsys.readouterr().err


def test_an_image_of_an_unsupported_size_is_rejected(image: Path, tmp_path: Path) -> None:
    other = {"height": 64, "width": 64}
    model = open_model(save_vision_model(tmp_path / "vit", size=other), Device.CPU)
    field, sentence = refusal(model.attend_image, image)
    assert field == "image"
    assert sentence.startswith("vit failed on this image: Input image size (64*64) doesn't match")


def test_files_other_than_images_are_rejected(
    folder: Path, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend = open_model(folder, Device.CPU).attend_image
    assert refusal(attend, tmp_path / "no.png")[1].startswith("Image not found: “no.png” in")
    (tmp_path / "cut.png").write_bytes(image.read_bytes()[:200])
    kinds = "Supported formats: PNG, JPEG, WEBP, BMP, GIF."
    said = ("image", f"Cannot open “cut.png” as an image. {kinds}")
    assert refusal(attend, tmp_path / "cut.png") == said
    Image.open(image).save(tmp_path / "image.tiff")
    assert kinds in refusal(attend, tmp_path / "image.tiff")[1]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.png")
        assert "it is not a file, but a pipe" in refusal(attend, tmp_path / "pipe.png")[1]
    monkeypatch.setattr(image_file, "MAX_PIXELS", 1_000)
    said = (
        "image",
        "“noise.png” has 32 × 32 pixels. The limit is 1,000 pixels. Scale the image down.",
    )
    assert refusal(attend, image) == said
    monkeypatch.setattr(image_file, "MAX_FILE_BYTES", 100)
    assert refusal(attend, image)[1].startswith("“noise.png” is too large")


BAD_SETTINGS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "“preprocessor_config.json” is damaged: it is not valid JSON."),
    "a list": ("[]", "preprocessor_config.json is invalid: it must contain a JSON object."),
    "huge": (
        {"size": {"height": 10**6}},
        "preprocessor_config.json is invalid: “size” must be at most",
    ),
    "code": ({"auto_map": {}}, "preprocessor_config.json requires custom code (auto_map)"),
    "unknown": ({"image_processor_type": "x"}, "The preprocessor_config.json of bad is invalid"),
    "nothing": (
        None,
        "“bad” has no preprocessor_config.json, so images cannot be prepared for this model.",
    ),
}


def test_an_image_with_an_extreme_aspect_ratio_is_rejected(folder: Path, tmp_path: Path) -> None:
    Image.new("RGB", (2, 60_000)).save(tmp_path / "line.png")
    with pytest.raises(InputError, match="the aspect ratio must be at most 10:1"):
        open_model(folder, Device.CPU).attend_image(tmp_path / "line.png")


def test_too_many_patches_for_the_memory_are_rejected_before_the_run(
    folder: Path, tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    model = open_model(folder, Device.CPU)
    machine.set_free_bytes(1_000)
    monkeypatch.setattr(model.forward, "run", lambda given: pytest.fail("the model was run"))
    with pytest.raises(InputError, match="Use a smaller model"):
        model.attend_image(tmp_path / "a.png")


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_invalid_image_settings_are_rejected(
    folder: Path, image: Path, tmp_path: Path, name: str
) -> None:
    bad = shutil.copytree(folder, tmp_path / "bad")
    settings, said = BAD_SETTINGS[name]
    written = settings if isinstance(settings, str) else json.dumps(settings)
    (bad / "preprocessor_config.json").write_text(written, encoding="utf-8")
    if settings is None:
        (bad / "preprocessor_config.json").unlink()
    model = open_model(bad, Device.CPU)
    field, sentence = refusal(model.attend_image, image)
    assert field == "model"
    assert sentence.startswith(said)


def test_the_image_is_kept_as_the_model_sees_it(tmp_path: Path) -> None:
    model = open_model(save_vision_model(tmp_path / "clip", "clip_vision_model"), Device.CPU)
    pixels = picture(tmp_path / "wide.png", wide=50, high=32)
    (found,) = model.attend_image(tmp_path / "wide.png")
    assert found.captured_attention
    patches = found.captured_attention.patches
    assert patches
    assert (patches.first, patches.rows, patches.columns) == (1, 4, 4)
    seen = np.frombuffer(patches.pixels, np.uint8).reshape(patches.height, patches.width, 3)
    np.testing.assert_array_equal(seen, pixels[:, 9:41])
    assert found.run.token_labels((0,)) == (
        "class",
        *(f"{row}, {column}" for row in (1, 2, 3, 4) for column in (1, 2, 3, 4)),
    )


def test_pixels_after_the_last_whole_patch_are_not_shown(tmp_path: Path) -> None:
    folder = save_vision_model(
        tmp_path / "dino", "dinov2", size={"shortest_edge": 37}, crop_size=dict.fromkeys(SIDES, 37)
    )
    picture(tmp_path / "image.png", wide=37, high=37)
    image = open_model(folder, Device.CPU).prepare_image(tmp_path / "image.png")
    assert image.patches
    assert (image.patches.height, image.patches.width) == (32, 32)


def test_a_document_requires_an_image(folder: Path, image: Path) -> None:
    source, _model = open_model_folder(folder, Device.CPU)
    assert source.image == ImageFile()
    said = "tiny_vit takes images. Choose an image, or drop an image file on the window."
    assert refusal(read_text, source, "", Device.CPU) == ("image", said)
    run = read_text(replace(source, image=hash_image_file(image)), "", Device.CPU)
    expected = open_model(folder, Device.CPU).attend_image(image)[0].run
    np.testing.assert_array_equal(run.trace.read("weights"), expected.trace.read("weights"))
    assert run.reading
    assert run.reading.second is SecondTextUse.NONE
    assert not run.reading.next_tokens


def test_a_changed_image_file_is_rejected(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    picture(path)
    source, _model = open_model_folder(folder, Device.CPU)
    source = replace(source, image=hash_image_file(path))
    Image.new("RGB", (32, 32)).save(path)
    said = "“cat.png” has changed since it was chosen. Choose it again to use the current"
    assert refusal(read_text, source, "", Device.CPU) == ("image", f"{said} version.")
    path.unlink()
    said = f"Image not found: “cat.png” in {tmp_path}."
    assert refusal(read_text, source, "", Device.CPU) == ("image", said)


def test_heads_can_be_edited_for_an_image(folder: Path, image: Path) -> None:
    source, _model = open_model_folder(folder, Device.CPU)
    source = replace(source, image=hash_image_file(image))
    plain = read_text(source, "", Device.CPU)
    off = read_text(replace(source, edits=(HeadEdit(0, 1),)), "", Device.CPU)
    weights, now = (run.trace.read("weights") for run in (plain, off))
    np.testing.assert_array_equal(now[0], weights[0])
    apart = abs(now[1].astype(np.float64) - weights[1]).sum(-1).mean(-1) / 2
    assert off.reading
    assert off.reading.changes is not None
    np.testing.assert_allclose(off.reading.changes[1], apart, atol=1e-6)
    assert apart.min() > 0
    mean = HeadEdit(0, 1, HeadEditKind.MEAN)
    meant = read_text(replace(source, edits=(mean,)), "", Device.CPU)
    assert not np.array_equal(meant.trace.read("weights")[1], weights[1])
    cut = read_text(replace(source, cuts=(CutEdges(0, 2, ((5, 3), (99, 1))),)), "", Device.CPU)
    row = cut.trace.read("weights")[0, 2, 5]
    assert row[3] == 0
    np.testing.assert_allclose(
        np.delete(row, 3), np.delete(weights[0, 2, 5], 3) / (1 - weights[0, 2, 5, 3]), rtol=1e-5
    )
    patched = HeadEdit(0, 1, HeadEditKind.PATCHED, text="a cat")
    said = "Heads cannot be patched from a text when the model’s input is an image."
    assert refusal(read_text, replace(source, edits=(patched,)), "", Device.CPU)[1].endswith(said)
