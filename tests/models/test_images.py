"""Vision models read images: patches are tokens, prepared as the folder says."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

import visualizer
from tests.support.tiny_models import SMALL, tiny_model
from visualizer.app import main
from visualizer.attention.spec import Device
from visualizer.errors import InputError
from visualizer.models import image_reading
from visualizer.models.opened_model import open_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say of such small models
MEAN, DEVIATION = (0.5, 0.25, 0.5), (0.5, 0.25, 0.125)
PROCESSORS = {
    "vit": "ViTImageProcessor",
    "dinov2": "BitImageProcessor",
    "dinov2_with_registers": "BitImageProcessor",
    "deit": "DeiTImageProcessor",
    "clip_vision_model": "CLIPImageProcessor",
    "siglip_vision_model": "SiglipImageProcessor",
    "clip": "CLIPImageProcessor",
}
SPECIAL = {
    "vit": ("class",),
    "dinov2": ("class",),
    "dinov2_with_registers": ("class", *(f"register {at}" for at in (1, 2, 3, 4))),
    "deit": ("class", "distillation"),
    "clip_vision_model": ("class",),
    "siglip_vision_model": (),
    "clip": ("class",),
}


def vision_model(kind: str) -> Any:
    """Make a tiny model that reads images of 32 × 32 pixels, alone or beside texts."""
    parts = {name: SMALL for name in ("text_config", "vision_config") if kind == "clip"}
    return tiny_model(kind, **parts)


def save_vision_model(folder: Path, kind: str = "vit", **settings: Any) -> Path:
    """Save a tiny vision model, which reads images of 32 × 32 pixels as 4 × 4 patches."""
    vision_model(kind).save_pretrained(folder)
    is_cut = PROCESSORS[kind] in {"BitImageProcessor", "CLIPImageProcessor", "DeiTImageProcessor"}
    said = {
        "image_processor_type": PROCESSORS[kind],
        "image_mean": MEAN,
        "image_std": DEVIATION,
        "size": {"shortest_edge": 32} if is_cut else {"height": 32, "width": 32},
        "crop_size": {"height": 32, "width": 32},
        **settings,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


def picture(path: Path, *, wide: int = 32, high: int = 32) -> np.ndarray:
    """Write an image of random pixels and return them, [row, column, colour]."""
    pixels = np.random.default_rng(0).integers(0, 256, (high, wide, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


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
def test_patches_are_read_as_the_model_reads_them(kind: str, tmp_path: Path) -> None:
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


def test_an_image_is_resized_and_cut_as_the_folder_says(tmp_path: Path) -> None:
    model = open_model(save_vision_model(tmp_path / "clip", "clip_vision_model"), Device.CPU)
    pixels = picture(tmp_path / "wide.png", wide=50, high=32)
    picture(tmp_path / "cut.png")
    Image.fromarray(pixels[:, 9:41]).save(tmp_path / "cut.png")
    wide, cut = (
        model.attend_image(tmp_path / f"{name}.png")[0].run.trace.read("weights")
        for name in ("wide", "cut")
    )
    np.testing.assert_allclose(wide, cut, atol=1e-6)


def test_an_image_is_turned_upright(folder: Path, tmp_path: Path) -> None:
    pixels = picture(tmp_path / "plain.png")
    turned = Image.fromarray(np.rot90(pixels))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° clockwise
    turned.save(tmp_path / "turned.png", exif=exif)
    model = visualizer.open_model(folder)
    one, other = (
        model.attend(image=tmp_path / name)["weights"] for name in ("plain.png", "turned.png")
    )
    np.testing.assert_array_equal(one, other)


def test_in_python_and_on_the_command_line(
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


def test_what_a_model_does_not_read_is_said(
    folder: Path, image: Path, tiny_model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vision, text = visualizer.open_model(folder), visualizer.open_model(tiny_model_folder)
    assert refusal(text.attend, image=image) == ("model", "tiny reads no images.")
    field, sentence = refusal(vision.attend, "a cat")
    assert field == "model"
    assert sentence.startswith("tiny_vit reads images, and no texts: ")
    assert refusal(vision.attend)[1] == "There is nothing to read: give a text or an image."
    assert refusal(vision.attend, "a cat", image=image)[0] == "image"
    assert refusal(vision.attend, image=image, chat=True)[0] == "chat"
    assert main(["model", str(folder), "--image", str(image), "--text", "a"]) == 2
    assert "--image: a model reads an image or a text. Give one" in capsys.readouterr().err
    assert main(["model", str(folder), "--image", str(image), "--chat"]) == 2
    assert "--chat: an image is no message." in capsys.readouterr().err
    assert main(["model", str(folder), "--image", str(folder / "config.json")]) == 2
    assert "argument --image: “config.json” is no image that can" in capsys.readouterr().err


def test_an_image_of_another_size_than_the_model_reads_is_refused(
    image: Path, tmp_path: Path
) -> None:
    other = {"height": 64, "width": 64}
    model = open_model(save_vision_model(tmp_path / "vit", size=other), Device.CPU)
    field, sentence = refusal(model.attend_image, image)
    assert field == "image"
    assert sentence.startswith("vit cannot read this image: Input image size (64*64) doesn't match")


def test_files_that_are_no_images(
    folder: Path, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attend = open_model(folder, Device.CPU).attend_image
    assert refusal(attend, tmp_path / "no.png")[1].startswith("There is no file “no.png” in")
    (tmp_path / "cut.png").write_bytes(image.read_bytes()[:200])
    kinds = "Use one of PNG, JPEG, WEBP, BMP, GIF."
    said = ("image", f"“cut.png” is no image that can be read. {kinds}")
    assert refusal(attend, tmp_path / "cut.png") == said
    Image.open(image).save(tmp_path / "image.tiff")
    assert kinds in refusal(attend, tmp_path / "image.tiff")[1]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.png")
        assert "it is no file, but a pipe" in refusal(attend, tmp_path / "pipe.png")[1]
    monkeypatch.setattr(image_reading, "MOST_PIXELS", 1_000)
    said = ("image", "“noise.png” has 32 × 32 pixels, and 1,000 can be read.")
    assert refusal(attend, image) == said
    monkeypatch.setattr(image_reading, "MOST_BYTES", 100)
    assert refusal(attend, image)[1].startswith("“noise.png” is larger than")


BAD_SETTINGS: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "“preprocessor_config.json” is damaged: it is not JSON."),
    "a list": ("[]", "The preprocessor_config.json holds no settings."),
    "huge": ({"size": {"height": 10**6}}, "The preprocessor_config.json says a size of more than"),
    "code": ({"auto_map": {}}, "The preprocessor_config.json names code of its own (auto_map)"),
    "unknown": ({"image_processor_type": "x"}, "The preprocessor_config.json of bad cannot be"),
    "nothing": (None, "There is no preprocessor_config.json in “bad”."),
}


def test_an_image_that_is_far_longer_than_wide_is_refused(folder: Path, tmp_path: Path) -> None:
    Image.new("RGB", (2, 60_000)).save(tmp_path / "line.png")
    with pytest.raises(InputError, match="one side is more than 10 times the other"):
        open_model(folder, Device.CPU).attend_image(tmp_path / "line.png")


def test_more_patches_than_the_memory_holds_are_refused_before_they_are_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png")
    model = open_model(folder, Device.CPU)
    monkeypatch.setattr("visualizer.attention.device.free_bytes", lambda device: 1_000)
    monkeypatch.setattr(model, "run", lambda given: pytest.fail("the model was run"))
    with pytest.raises(InputError, match="Use less text"):
        model.attend_image(tmp_path / "a.png")


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_folder_that_cannot_prepare_images(
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
