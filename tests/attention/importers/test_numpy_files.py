"""Arrays from ``.npy`` and ``.npz`` files equal NumPy's, for every dtype and shape."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

import visualizer
from tests.support.examples import examples
from tests.support.tensor_files import WRITERS, attention
from visualizer.attention.captured_attention import CapturedAttention
from visualizer.attention.captured_run import create_captured_run
from visualizer.attention.importers.numpy_files import ALLOWED_UNPACKED_BYTES, MAX_COMPRESSION_RATIO
from visualizer.attention.importers.tensor_file_reader import read_tensor_file
from visualizer.attention.spec import AttentionSpec, Dtype
from visualizer.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Machine

SPEC = AttentionSpec()


def opened(path: Path) -> CapturedAttention:
    found, _ = read_tensor_file(path, SPEC)
    assert isinstance(found, CapturedAttention)
    return found


def notice(path: Path) -> str:
    return read_tensor_file(path, SPEC)[1]


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_tensor_file(path, SPEC)
    assert caught.value.field == "open"
    return caught.value.sentence


SIZES = st.integers(1, 5)


@pytest.mark.parametrize("kind", WRITERS)
@examples(0.15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=st.lists(SIZES, min_size=2, max_size=4).map(tuple), seed=st.integers(0, 99))
def test_any_shape_is_read_cell_by_cell(
    kind: str, shape: tuple[int, ...], seed: int, tmp_path: Path
) -> None:
    array = attention(shape, seed)
    captured = opened(WRITERS[kind](tmp_path, array))
    assert captured.to_array().shape == (1,) * (4 - len(shape)) + shape
    np.testing.assert_array_equal(captured.to_array().ravel(), array.ravel())


@pytest.mark.parametrize("kind", WRITERS)
def test_a_batch_of_one_is_left_out(kind: str, tmp_path: Path) -> None:
    array = attention((3, 1, 2, 4, 5))
    np.testing.assert_array_equal(opened(WRITERS[kind](tmp_path, array)).to_array(), array[:, 0])
    array = attention((1, 3, 2, 4, 5))
    np.testing.assert_array_equal(opened(WRITERS[kind](tmp_path, array)).to_array(), array[0])


@pytest.mark.parametrize(
    ("dtype", "held"),
    [
        ("float16", Dtype.FLOAT32),
        ("float32", Dtype.FLOAT32),
        ("float64", Dtype.FLOAT64),
        ("int8", Dtype.FLOAT32),
        ("int64", Dtype.FLOAT64),
        ("bool", Dtype.FLOAT32),
        (">f4", Dtype.FLOAT32),
        (">f8", Dtype.FLOAT64),
    ],
)
def test_any_type_of_number_is_read(dtype: str, held: Dtype, tmp_path: Path) -> None:
    array = (attention((2, 3, 4)) * 7).astype(dtype)
    np.save(tmp_path / "a.npy", array)
    captured = opened(tmp_path / "a.npy")
    assert captured.dtype is held
    np.testing.assert_array_equal(captured.to_array()[0], array.astype(held.value))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
def test_small_types_of_torch_are_read(dtype: torch.dtype, suffix: str, tmp_path: Path) -> None:
    tensor = torch.from_numpy(attention((2, 3, 4))).to(dtype)
    path = tmp_path / f"a.{suffix}"
    (torch.save if suffix == "pt" else save_tensors)({"attention": tensor}, path)
    np.testing.assert_array_equal(opened(path).to_array()[0], tensor.float().numpy())


def test_columns_first_is_read_in_its_order(tmp_path: Path) -> None:
    array = np.asfortranarray(attention((2, 3, 4, 5)))
    np.save(tmp_path / "a.npy", array)
    np.testing.assert_array_equal(opened(tmp_path / "a.npy").to_array(), array)


# ----------------------------------------------------------------------------------- several arrays


def test_a_tuple_as_hugging_face_gives_it_is_layers(tmp_path: Path) -> None:
    layers = [attention((1, 2, 4, 4), seed) for seed in range(12)]
    torch.save(tuple(torch.from_numpy(layer) for layer in layers), tmp_path / "a.pt")
    np.testing.assert_array_equal(opened(tmp_path / "a.pt").to_array(), np.concatenate(layers))


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_layers_are_in_the_order_of_their_numbers(suffix: str, tmp_path: Path) -> None:
    layers = {f"attentions.{number}": attention((2, 3, 3), number) for number in range(12)}
    shuffled = dict(sorted(layers.items(), key=lambda item: item[0][::-1]))
    path = tmp_path / f"a.{suffix}"
    if suffix == "npz":
        np.savez(path, **shuffled)  # type: ignore[arg-type]
    else:
        save_file(shuffled, path)
    np.testing.assert_array_equal(opened(path).to_array(), np.stack(list(layers.values())))


def test_matrices_that_are_called_heads_are_heads(tmp_path: Path) -> None:
    heads: dict[str, Any] = {f"attn_head_{number}": attention((3, 5), number) for number in (1, 2)}
    np.savez(tmp_path / "a.npz", **heads)
    array = opened(tmp_path / "a.npz").to_array()
    np.testing.assert_array_equal(array, np.stack(list(heads.values()))[None])


def test_what_is_called_attention_comes_before_what_is_not(tmp_path: Path) -> None:
    weights = attention((2, 3, 3))
    np.savez(tmp_path / "a.npz", input=np.ones((3, 4)), scores=np.ones((2, 3, 3)), weights=weights)
    np.testing.assert_array_equal(opened(tmp_path / "a.npz").to_array()[0], weights)


def test_what_does_not_fit_together_is_listed(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        encoder_attentions_0=attention((1, 2, 4, 4)),
        encoder_attentions_1=attention((1, 2, 4, 4)),
        cross_attentions_0=attention((1, 2, 3, 4)),
    )
    assert refusal(tmp_path / "a.npz") == (
        "The file contains different kinds of arrays: cross_attentions_0 (1 × 2 × 3 × 4), "
        "2 of encoder_attentions_0 (1 × 2 × 4 × 4). Save only one kind."
    )


def test_a_batch_of_several_texts_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", attn_0=np.ones((2, 3, 4, 4)), attn_1=np.ones((2, 3, 4, 4)))
    said = "attn_0 (2 × 3 × 4 × 4) is a batch of 2 texts. Save only one text."
    assert refusal(tmp_path / "a.npz") == said


@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (4, 0), (1, 1, 1, 1, 3, 3)])
def test_what_is_no_attention_is_said_to_be_none(shape: tuple[int, ...], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(shape, np.float32))
    assert refusal(tmp_path / "a.npy").startswith("No array has the axes [layer, head, query, key]")


def test_complex_numbers_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((3, 3), np.complex64))
    assert refusal(tmp_path / "a.npy").endswith("Found: an array (complex numbers).")


def test_more_heads_than_can_be_shown_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((1001, 1, 1), np.float32))
    said = "Attention of shape 1 × 1,001 × 1 × 1 has 1,001 heads; the maximum is 1,000."
    assert refusal(tmp_path / "a.npy") == said


def test_what_does_not_fit_into_memory_is_not_read(tmp_path: Path, machine: Machine) -> None:
    machine.set_free_bytes(1000)
    np.save(tmp_path / "a.npy", attention((12, 12)))
    assert "is available. Save fewer layers or heads." in refusal(tmp_path / "a.npy")


# ------------------------------------------------------------------------------------------- tokens

WORDS = ("The", "cat", "sat")


def test_tokens_are_read_from_the_file(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weights=attention((3, 3)), tokens=np.array(WORDS))
    captured = opened(tmp_path / "a.npz")
    assert captured.query_tokens == captured.key_tokens == WORDS
    torch.save({"attention": torch.ones(3, 3), "tokens": list(WORDS)}, tmp_path / "a.pt")
    assert opened(tmp_path / "a.pt").query_tokens == WORDS
    metadata = {"tokens": json.dumps(WORDS)}
    save_file({"attention": attention((3, 3))}, tmp_path / "a.safetensors", metadata=metadata)
    assert opened(tmp_path / "a.safetensors").key_tokens == WORDS


def test_queries_and_keys_have_tokens_of_their_own(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "a.npz",
        weights=attention((2, 3)),
        query_tokens=np.array(["Le", "chat"]),
        key_tokens=np.array(WORDS),
    )
    captured = opened(tmp_path / "a.npz")
    assert (captured.query_tokens, captured.key_tokens) == (("Le", "chat"), WORDS)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("a.txt", "The\ncat\nsat\n"),
        ("a.tokens.txt", "The\r\ncat\r\nsat"),
        ("a.txt", "\ufeffThe\r\ncat\r\nsat\r\n"),  # Notepad writes this mark
        ("a.json", '["The", "cat", "sat"]'),
        ("a.tokens.json", '{"tokens": ["The", "cat", "sat"], "model": "gpt2"}'),
    ],
)
def test_tokens_are_read_beside_the_file(name: str, written: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", attention((3, 3)))
    (tmp_path / name).write_text(written, encoding="utf-8")
    assert opened(tmp_path / "a.npy").query_tokens == WORDS
    assert notice(tmp_path / "a.npy") == ""


def test_a_small_archive_may_be_packed_as_tightly_as_it_likes(tmp_path: Path) -> None:
    array = np.full((2, 200, 200), 0.005)
    np.savez_compressed(tmp_path / "a.npz", array)
    assert array.nbytes > MAX_COMPRESSION_RATIO * (tmp_path / "a.npz").stat().st_size
    assert array.nbytes < ALLOWED_UNPACKED_BYTES
    np.testing.assert_array_equal(opened(tmp_path / "a.npz").to_array()[0], array)


def test_tokens_that_do_not_fit_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", weights=attention((4, 4)), tokens=np.array(WORDS))
    assert opened(tmp_path / "a.npz").query_tokens == ()
    said = "Found 3 tokens for 4 queries and 4 keys, so positions have numbers, not labels."
    assert notice(tmp_path / "a.npz") == said


def test_a_broken_list_of_tokens_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", attention((3, 3)))
    (tmp_path / "a.json").write_text("[", encoding="utf-8")
    assert refusal(tmp_path / "a.npy") == "“a.json” is not a valid json file, or it is damaged."


@pytest.mark.parametrize("shape", ["(True, True)", "(1.0, 1)", "(-1, 1)", "(2, 1)"])
def test_a_shape_that_is_none_is_refused(shape: str, tmp_path: Path) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(4)
    (tmp_path / "a.npy").write_bytes(content)
    assert "damaged" in refusal(tmp_path / "a.npy")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("weights.npy", content)
    assert "damaged" in refusal(tmp_path / "a.npz")


# ------------------------------------------------------------------------------------ invalid files


def test_what_is_no_file_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "folder.npy").mkdir()
    of_folder = "“folder.npy” could not be opened: it is not a file, but a folder."
    assert refusal(tmp_path / "folder.npy") == of_folder
    assert refusal(tmp_path / "absent.npy").startswith("The file “absent.npy” was not found in ")
    assert refusal(tmp_path / "a.csv") == (
        "Cannot open “a.csv”: unsupported file type. "
        "Supported: .npy, .npz, .safetensors, .pt, .pth, .bin."
    )


def test_queries_are_the_last_tokens_of_one_text(tmp_path: Path) -> None:
    array = np.full((2, 1, 3), 1 / 3, np.float32)
    np.savez(tmp_path / "step.npz", attention=array, tokens=np.array(WORDS))
    captured = opened(tmp_path / "step.npz")
    assert captured.is_continuation
    run = create_captured_run(captured)
    assert (run.texts, run.key_tokens) == ((WORDS[-1:],), WORDS)
    measures = run.trace.head_measures("weights", run.key_texts)
    np.testing.assert_allclose(measures.distance, 1, rtol=1e-6)  # (2 + 1 + 0) / 3
    np.testing.assert_allclose(measures.previous, 1 / 3, rtol=1e-6)
    np.savez(tmp_path / "other.npz", attention=array, key_tokens=np.array(WORDS))
    other = create_captured_run(opened(tmp_path / "other.npz"))
    assert (other.texts, other.key_texts) == ((("1",),), ())
    assert np.isnan(other.trace.head_measures("weights", other.key_texts).distance).all()


def test_without_tokens_it_is_said_how_a_single_query_is_numbered(tmp_path: Path) -> None:
    np.save(tmp_path / "step.npy", np.full((2, 1, 3), 1 / 3, np.float32))
    with pytest.warns(UserWarning, match="numbered separately"):
        assert visualizer.load(tmp_path / "step.npy").tokens == ("1",)
