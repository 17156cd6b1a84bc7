"""Models compute in bfloat16 or float16, and the stages have the values that the model computed."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import visualizer
from tests.support.tiny_models import save_tiny_model
from visualizer import InputError
from visualizer.attention.spec import Device, ModelDtype
from visualizer.cli.model import model as run_model_command
from visualizer.models.model_text_runs import open_model_folder, read_text
from visualizer.session.computation_caption import describe_computation

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer import ModelAttention

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore"),  # libraries warn about small models
]
TEXT = "the cat sat on the mat the cat sat"
WIDE = {"moe_intermediate_size": 24, "intermediate_size": 56}
"""Sizes for which torch multiplies the matrices of experts in 16 bits."""


@pytest.fixture(scope="module")
def one_thread() -> Any:
    """Compute on one thread, because starting others takes longer than so little work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that is stored in bfloat16."""
    folder = save_tiny_model(tmp_path_factory.mktemp("models") / "half")
    transformers = pytest.importorskip("transformers")
    stored = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, part in stored.named_parameters():
            if "q_proj" in name or "k_proj" in name:
                part.mul_(30)  # so that some weights are small
    stored.save_pretrained(folder)
    return folder


def eager_weights(folder: Path, dtype: torch.dtype) -> np.ndarray:
    """Return the weights that transformers computes, [layer, head, query, key]."""
    import transformers  # imported here, because some tests do not need it

    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager"
    )
    ids = transformers.AutoTokenizer.from_pretrained(folder)(TEXT, return_tensors="pt")
    with torch.no_grad():
        found = model(**ids, output_attentions=True).attentions
    return torch.cat(found).float().numpy()


def check_stages(found: ModelAttention, wanted: ModelAttention, dtype: torch.dtype) -> None:
    """Check that all stages are there, and have numbers of the 16-bit type near the exact ones."""
    assert found.stages == wanted.stages
    for stage in found.stages:
        values, exact = found[stage], wanted[stage]
        assert values.dtype == np.float32
        np.testing.assert_array_equal(torch.tensor(values).to(dtype).float().numpy(), values)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(np.isfinite(values), finite)
        assert np.abs(values - exact)[finite].max() <= 0.1 * np.abs(exact[finite]).max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_weights_are_those_of_transformers_bit_for_bit(
    folder: Path, dtype: torch.dtype
) -> None:
    model = visualizer.open_model(folder, dtype=dtype)
    found = model.attend(TEXT)
    np.testing.assert_array_equal(found["weights"], eager_weights(folder, dtype))
    assert {part.dtype for part in model.opened.model.parameters()} == {dtype}
    check_stages(found, visualizer.open_model(folder).attend(TEXT), dtype)
    queries, keys = (torch.tensor(found[name]).to(dtype) for name in ("queries", "keys"))
    np.testing.assert_array_equal(found["scores"], (queries @ keys.mT).float().numpy())
    explained = found.explain("scores", layer=1, head=2, query=5, key=3)
    assert explained.value == found["scores"][1, 2, 5, 3]


def test_a_notice_tells_the_measured_difference(folder: Path) -> None:
    model = visualizer.open_model(folder, dtype="bfloat16")
    found = model.attend(TEXT)
    (notice,) = found.notices
    layer, absolute, low, high, share = map(
        float,
        re.findall(
            r"layer (\d+) differ by up to ([\d.]+) .* from ([\d.]+) to ([\d.]+) .* ([\d.]+)%",
            notice,
        )[0],
    )
    exact = copy.deepcopy(model.opened.model).float()
    stream = torch.tensor(found["residual"][int(layer) - 1])[None]
    rotation = tuple(
        part.bfloat16().float() for part in exact.model.rotary_emb(stream, torch.arange(10)[None])
    )
    mask = torch.full((10, 10), torch.finfo(torch.bfloat16).min).triu(1)[None, None]
    weights: list[torch.Tensor] = []
    module = exact.model.layers[int(layer) - 1]
    module.self_attn.register_forward_hook(lambda _, given, result: weights.append(result[1]))
    with torch.no_grad():
        module(stream, attention_mask=mask, position_embeddings=rotation)
    wanted = weights[0][0].numpy()
    apart = np.abs(found["weights"][int(layer) - 1] - wanted)
    assert absolute == pytest.approx(apart.max(), rel=1e-2)
    is_small = (wanted >= low) & (wanted <= high)
    assert share == pytest.approx(100 * (apart[is_small] / wanted[is_small]).max(), abs=0.6)


def test_parts_of_a_logit_sum_to_it(folder: Path) -> None:
    parts = visualizer.open_model(folder, dtype="bfloat16").logit_parts(TEXT)
    whole = parts.heads.sum() + parts.rest.sum() + parts.embedding + parts.bias
    assert whole == pytest.approx(parts.logit, abs=1e-4)


def test_weights_that_do_not_fit_as_float32_stay_in_their_type(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = visualizer.open_model(folder).opened.folder.parameters

    def limit_memory(bytes_per_parameter: float) -> None:
        free = round(bytes_per_parameter * parameters / 0.8)
        monkeypatch.setattr("visualizer.attention.device.free_device_bytes", lambda _: free)

    limit_memory(5)
    assert visualizer.open_model(folder).opened.dtype == "float32"
    limit_memory(3)
    model = visualizer.open_model(folder)
    assert model.opened.dtype == "bfloat16"
    monkeypatch.undo()
    assert any("because float32 would need" in each for each in model.attend(TEXT).notices)
    limit_memory(3)
    with pytest.raises(InputError, match="stored as bfloat16; select this type"):
        visualizer.open_model(folder, dtype="float32")


def test_the_command_line_has_the_same_option(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "heads.csv"
    arguments = [str(folder), "--text", TEXT, "--dtype", "bfloat16", "--heads", str(table)]
    assert run_model_command(arguments) == 0
    assert "Computed in bfloat16" in capsys.readouterr().err
    wanted = visualizer.open_model(folder, dtype="bfloat16").attend(TEXT).heads()
    entropy = [float(row.split(",")[-3]) for row in table.read_text().splitlines()[1:]]
    np.testing.assert_allclose(entropy, [row["entropy"] for row in wanted], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["gpt2", "gemma2", "qwen3", "bert", "t5", "mixtral", "gpt_oss", "gpt_neox", "jamba"]
)
def test_other_architectures_have_all_stages(kind: str, tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / kind, kind, **WIDE)
    found, wanted = (
        visualizer.open_model(folder, dtype=dtype).attend(TEXT) for dtype in ("bfloat16", "float32")
    )
    assert found.parts == wanted.parts
    for part in found.parts:
        check_stages(found.part(part), wanted.part(part), torch.bfloat16)


def test_a_long_text_is_computed_in_tiles_from_16_bit_vectors(folder: Path) -> None:
    model = visualizer.open_model(folder, dtype="bfloat16")
    wanted = model.attend(TEXT * 4)["weights"]
    model.opened.long_texts.max_weight_bytes = 1
    (found,) = model.opened.read(TEXT * 4, by_blocks=True).runs
    trace = found.run.trace
    assert trace.is_blockwise
    queries, keys, weights = (
        np.stack([trace.read(name, (1, head)) for head in range(4)])
        for name in ("queries", "keys", "weights")
    )
    np.testing.assert_array_equal(torch.tensor(queries).bfloat16().float().numpy(), queries)
    scores = torch.tensor(queries).double() @ torch.tensor(keys).double().mT * 8**-0.5
    masked = scores.masked_fill(torch.ones(scores.shape[1:]).triu(1).bool(), -torch.inf)
    np.testing.assert_allclose(weights, masked.softmax(-1).numpy(), atol=1e-5)
    assert np.abs(weights - wanted[1]).max() < 0.1
    assert any("in float32 from queries and keys" in notice for notice in found.notices)


def test_a_document_keeps_the_type_of_its_model(folder: Path) -> None:
    source, model = open_model_folder(folder, Device.CPU, ModelDtype.BFLOAT16)
    assert source.half_dtype is ModelDtype.BFLOAT16
    run = read_text(source, TEXT, Device.CPU)
    assert run.reading
    assert run.reading.model is model
    assert "bfloat16" in describe_computation(run)
    assert "float32" in describe_computation(
        read_text(open_model_folder(folder, Device.CPU)[0], TEXT, Device.CPU)
    )
