"""Truncated, corrupted and hostile run folders, reproducible by a seed."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from tests.support.damaged_files import flip, lose, put_in, splice, spoiled_tree
from tests.support.small_trainings import begun, finish
from visualizer.language.checkpoints import read_metadata
from visualizer.language.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

STEPS, DONE = 12, 6
"""Number of steps of the run that is damaged, and number of completed steps."""
FILES = ("run.json", "checkpoint.safetensors", "losses.csv", "snapshots/00000003.safetensors")
LINES = (
    *("5,1,1,1,1\n", "-1,1,1,1,1\n", "99999999,1,1,1,1\n", "1e300,1,1,1,1\n", "nan,1,1,1,1\n"),
    *("0x5,1,1,1,1\n", "True,1,1,1,1\n", "6,inf,-inf,nan,1e400\n", "7,,,,\n", "\n", "6,1,1,1"),
)


def made_whole(folder: Path) -> None:
    """Train half of a run, so that its folder contains a file of every kind."""
    opened = begun(folder, steps=STEPS, width=8, layers=1)
    finish(opened, DONE).save_checkpoint()
    opened.close()


def damaged_runs(whole: Path, place: Path, count: int, seed: int) -> Iterator[tuple[str, Path]]:
    """Yield this many damaged copies of a run, each with a description of its damage."""
    chance = random.Random(seed)
    for number in range(count):
        spoil = SPOILS[number % len(SPOILS)]
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(whole, place)
        spoil(chance, place)
        yield f"{number}, {spoil.__name__}", place


def bytes_of_a_file(chance: random.Random, run: Path) -> None:
    names = chance.choice(FILES), chance.choice(FILES)
    contents = {name: (run / name).read_bytes() for name in FILES}
    spoiled = chance.choice((flip, lose, put_in, splice))(chance, contents[names[0]], contents)
    (run / names[0]).write_bytes(spoiled)


def a_file(chance: random.Random, run: Path) -> None:
    """Remove a file, or replace it by another one."""
    name, other = chance.choice(FILES), chance.choice(FILES)
    (run / name).unlink()
    if chance.random() < 0.7 and other != name:
        shutil.copy(run / other, run / name)


def about(chance: random.Random, run: Path) -> None:
    path = run / "run.json"
    path.write_bytes(spoiled_tree(chance, path.read_bytes()))


def losses(chance: random.Random, run: Path) -> None:
    """Add lines whose steps are out of order, too large or not numbers."""
    path = run / "losses.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for _ in range(chance.choice((1, 2, 5))):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice((*LINES, *lines)))
    if chance.random() < 0.3:
        chance.shuffle(lines)
    path.write_text("".join(lines), encoding="utf-8")


def steps(chance: random.Random, run: Path) -> None:
    """Rename a snapshot to another step, which may be later than the last one."""
    (old,) = chance.sample(sorted((run / "snapshots").iterdir()), 1)
    name = chance.choice(("00000004", "00000099", "99999999", "-0000001", "4", "００００００００"))
    old.rename(old.with_name(f"{name}.safetensors"))


def header(chance: random.Random, run: Path) -> None:
    _rewritten(run, lambda tensors, said: (tensors, spoiled_tree(chance, said)))


_BAD_HEADERS: dict[str, tuple[Any, ...]] = {
    "step": (STEPS + 1, -1, 2**70, "5", 5.5, True, None),
    "high": (-1, 2**70, "x", 1.5),
    "first": ("x", [], True),
    "seconds": (-1, "x", 1e400),
    "final": ([1], "xy", [1, "x"], {"a": 1, "b": 2}),
    "is_ended": (1, None, "x"),
    "generator": ({}, "x", {"bit_generator": "PCG64"}, 2**200),
    "run": ({}, None, "x"),
}
HEADERS = [(field, value) for field, values in _BAD_HEADERS.items() for value in values]
"""Fields of a checkpoint's header, with values that training never writes."""


def named_header(chance: random.Random, run: Path) -> None:
    field, value = chance.choice(HEADERS)

    def put(tensors: dict[str, torch.Tensor], said: bytes) -> Any:
        return tensors, json.dumps(json.loads(said) | {field: value}).encode()

    _rewritten(run, put)


TENSORS: tuple[Callable[[torch.Tensor], torch.Tensor | None], ...] = (
    lambda tensor: None,
    lambda tensor: tensor[None],
    lambda tensor: torch.zeros(0),
    lambda tensor: torch.ones(1),
    lambda tensor: torch.ones(()),
    lambda tensor: tensor.to(torch.float64),
    lambda tensor: tensor.to(torch.int8),
    lambda tensor: tensor.to(torch.complex64),
    lambda tensor: tensor.flip(0) if tensor.ndim else -tensor,
    lambda tensor: torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else tensor,
    lambda tensor: torch.cat([tensor, tensor]) if tensor.ndim else tensor,
)


def tensor(chance: random.Random, run: Path) -> None:
    """Replace a tensor by one that does not fit the model."""

    def put(tensors: dict[str, torch.Tensor], said: bytes) -> Any:
        name = chance.choice([*tensors])
        spoiled = chance.choice(TENSORS)(tensors.pop(name))
        if spoiled is not None:
            tensors[name] = spoiled.contiguous()
        return tensors, said

    _rewritten(run, put)


def _rewritten(run: Path, change: Callable[[dict[str, torch.Tensor], bytes], Any]) -> None:
    path = RunFolder(run).checkpoint_file.path
    content = path.read_bytes()
    said = read_metadata(content)["checkpoint"].encode()
    tensors, spoiled = change(load(content), said)
    try:
        path.write_bytes(save(tensors, {"checkpoint": spoiled.decode("utf-8", "replace")}))
    except (SafetensorError, RuntimeError, ValueError):  # this file cannot be written at all
        path.write_bytes(b"")


SPOILS: tuple[Callable[[random.Random, Path], None], ...] = (
    *(bytes_of_a_file, a_file, about, losses, steps, header, named_header, tensor),
)
