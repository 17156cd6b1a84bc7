"""Small model folders that describe models of many gigabytes, or files without an end.

As a program, it opens each folder in the folder given by the first argument, in one process with
little memory. The folders named by the other arguments are then opened again, with their layers
read from disk one by one. The program prints one line of JSON per folder: the name, the time in
seconds, the peak memory so far in MB, and the error message.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

from visualizer.language.run_folder import RunMetadata, metadata_to_json
from visualizer.language.training_settings import ModelKind, TrainingSettings

if TYPE_CHECKING:
    from collections.abc import Callable

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 32,
    "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
LLAMA_70B = LLAMA | {
    "hidden_size": 8_192, "intermediate_size": 28_672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128_256,
}  # fmt: skip
ADDRESS_SPACE = 8 * 10**9
"""Address space limit of the process, in bytes; torch alone maps several gigabytes."""


def _folder(config: dict[str, Any], **shapes: tuple[int, ...]) -> Callable[[Path], None]:
    """Return a function that writes a model folder with the given config and weight shapes.

    Without shapes, there is one weight with four numbers.
    """

    def make(folder: Path) -> None:
        (folder / "config.json").write_text(
            json.dumps(config, separators=(",", ":")), encoding="utf-8"
        )
        arrays = {
            name.replace("__", "."): np.zeros(shape, np.float32) for name, shape in shapes.items()
        }
        save_file(arrays or {"four": np.zeros(4, np.float32)}, folder / "model.safetensors")

    return make


def _with_file(name: str, size: int, content: str = "") -> Callable[[Path], None]:
    """Return a function that writes a folder with a file of this size: JSON or repeated text."""

    def make(folder: Path) -> None:
        _folder(LLAMA)(folder)
        repeated = content * (size // max(1, len(content)))
        (folder / name).write_text(repeated or _config_of(size // 3), encoding="utf-8")

    return make


def _config_of(count: int) -> str:
    """Return a config with many values; encoding them one by one takes several seconds."""
    return f'{json.dumps(LLAMA)[:-1]}, "x": [{"0, " * (count - 1)}0]}}'


def _long_config(folder: Path) -> None:
    """Write a folder whose config is within its size limit but has a million values."""
    _folder(LLAMA | {"x": [0] * 1_000_000})(folder)


def _many_tensors(folder: Path) -> None:
    """Write a folder whose list of tensors is within its size limit but has 30,000 entries."""
    _folder(LLAMA)(folder)
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    coded = json.dumps({f"a{at}": empty for at in range(30_000)}).encode()
    (folder / "model.safetensors").write_bytes(len(coded).to_bytes(8, "little") + coded)


def _sparse(folder: Path) -> None:
    """Write a folder whose weights are a sparse file of 200 GB."""
    _folder(LLAMA_70B)(folder)
    size = 200 * 10**9
    header = {"lm_head.weight": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}
    coded = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(coded).to_bytes(8, "little") + coded)
        file.truncate(8 + len(coded) + size)


def _long_header(folder: Path) -> None:
    """Write a folder whose list of tensors takes 60 MB."""
    _folder(LLAMA)(folder)
    empty = json.dumps({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]})
    listed = ", ".join([f'"a{at}": {empty}' for at in range(900_000)])
    coded = f"{{{listed}}}".encode()
    (folder / "model.safetensors").write_bytes(len(coded).to_bytes(8, "little") + coded)


def _lab_run(folder: Path) -> None:
    """Write a lab run whose metadata describe 300 million numbers, with a file of four numbers."""
    settings = TrainingSettings(model=ModelKind.TRANSFORMER, width=1_024, layers=24)
    metadata = metadata_to_json(RunMetadata(settings, ("a", "b"), 1.0, 1.0, "a b", ""))
    (folder / "run.json").write_text(json.dumps(metadata), encoding="utf-8")
    (folder / "snapshots").mkdir()
    save_file({"four": np.zeros(4, np.float32)}, folder / "snapshots" / "00000000.safetensors")


def _pipe(folder: Path) -> None:
    import os

    _folder(LLAMA)(folder)
    os.mkfifo(folder / "generation_config.json")


FOLDERS: dict[str, Callable[[Path], None]] = {
    "70B": _folder(LLAMA_70B),
    "llava": _folder({"model_type": "llava", "text_config": LLAMA}),
    "vocabulary": _folder(LLAMA | {"vocab_size": 10**9}),
    "width": _folder(LLAMA | {"hidden_size": 2**20, "head_dim": 2**18}),
    "layers": _folder(LLAMA | {"num_hidden_layers": 10**9}),
    "thousand-layers": _folder(LLAMA | {"num_hidden_layers": 1_000}),
    "nested-layers": _folder(
        {"model_type": "gemma3", "text_config": {"a": {"num_hidden_layers": 10**9}}}
    ),
    "experts": _folder(
        {"model_type": "switch_transformers", "num_experts": 4_096, "num_layers": 24}
    ),
    "labels": _folder(LLAMA | {"num_labels": 10**9}),
    "attention-types": _folder(
        {"model_type": "gpt_neo", "attention_types": [[["global"], 10**9]], "num_layers": 2}
    ),
    "depths": _folder({"model_type": "swin", "depths": [10**9]}),
    "positions": _folder(
        {"model_type": "gpt2", "n_positions": 10**9, "n_layer": 2, "n_embd": 32, "n_head": 4}
    ),
    "sinusoids": _folder(
        {"model_type": "marian", "max_position_embeddings": 10**8, "architectures": ["MarianModel"]}
    ),
    "masks": _folder(
        {
            **{"model_type": "gpt_neo", "num_layers": 2, "hidden_size": 32, "num_heads": 4},
            **{"attention_types": [[["global"], 2]], "max_position_embeddings": 10**6},
        }
    ),
    "one-shape": _folder(
        LLAMA | {"vocab_size": 10**8},
        model__embed_tokens__weight=(64, 32),
        lm_head__weight=(64, 32),
    ),
    "quantized": _folder(
        LLAMA_70B | {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    ),
    "long-config": _long_config,
    "many-tensors": _many_tensors,
    "sparse": _sparse,
    "long-header": _long_header,
    "config.json": _with_file("config.json", 60 * 10**6),
    "generation_config.json": _with_file("generation_config.json", 40 * 10**6),
    "adapter_config.json": _with_file("adapter_config.json", 40 * 10**6),
    "tokenizer_config.json": _with_file("tokenizer_config.json", 40 * 10**6),
    "special_tokens_map.json": _with_file("special_tokens_map.json", 40 * 10**6),
    "preprocessor_config.json": _with_file("preprocessor_config.json", 40 * 10**6),
    "chat_template.jinja": _with_file("chat_template.jinja", 40 * 10**6, "{{ x }}"),
    "tokenizer.json": _with_file("tokenizer.json", 80 * 10**6),
    "vocab.json": _with_file("vocab.json", 80 * 10**6),
    "index": _with_file("model.safetensors.index.json", 60 * 10**6),
    "pipe": _pipe,
    "lab-run": _lab_run,
}
"""Functions that write each folder, by its name."""


def _peak_bytes() -> int:
    """Return the peak memory use of this program, without that of its parent process, in bytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Open the folders in the folder given by the first argument."""
    import resource
    import time

    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    import transformers

    from visualizer.attention.spec import Device
    from visualizer.errors import InputError
    from visualizer.models.opened_model import open_model

    assert transformers.PreTrainedModel  # imported by the query itself
    place, *from_disk = sys.argv[1:]
    opened = [(folder, False) for folder in sorted(Path(place).iterdir())]
    for folder, is_from_disk in (*opened, *((Path(place, name), True) for name in from_disk)):
        began, said = time.perf_counter(), ""
        try:
            open_model(folder, Device.CPU, is_from_disk=is_from_disk)
        except InputError as refused:
            said = refused.sentence
        took = time.perf_counter() - began
        peak = _peak_bytes() / 10**6
        sys.stdout.write(json.dumps([folder.name, took, peak, said]) + "\n")


if __name__ == "__main__":
    main()
