"""A script reproduces a run's numbers with torch alone, and fails where one differs.

All scripts of this file run in one process that cannot import the program.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from msgspec.structs import replace

from tests.support.attention_strategies import Batch, Case, cases
from tests.support.long_texts import long_shot
from tests.support.small_runs import a_run
from visualizer.attention.blockwise_tensor import BlockwiseTensor
from visualizer.attention.mechanisms import Mechanism, apply_mechanism, mechanism_of
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    DropoutMode,
    Dtype,
    HeadArrangement,
    MaskKind,
    MaskPlacement,
    NormalisationKind,
    NumberMatrix,
    PositionKind,
    Projection,
    ScaleKind,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.errors import InputError
from visualizer.features.explain.code_lines import stage_code_lines
from visualizer.features.explain.script_generator import (
    MAX_ASSERTED_NUMBERS,
    MAX_ROUNDING_UNITS,
    MAX_SCRIPT_BYTES,
    generate_script,
    rounding_unit,
    stage_tolerance,
)
from visualizer.session.view import CodeDialect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from visualizer.attention.cached_tensor import Index
    from visualizer.attention.run import Run

RUNNER = """
import contextlib, importlib.abc, io, json, pathlib, sys

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "visualizer":
            raise ImportError(name)

sys.meta_path.insert(0, Absent())
try:
    import visualizer
except ImportError:
    said = {"blocked": "yes"}
import torch
torch.set_num_threads(1)
for name, source in json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8")).items():
    torch.set_grad_enabled(True)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(source, name, "exec"), {"__name__": "__main__"})
        said[name] = out.getvalue()
    except AssertionError as error:
        said[name] = f"AssertionError: {error}"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
pathlib.Path(sys.argv[2]).write_text(json.dumps(said), "utf-8")
"""

OWN = NumberMatrix.from_array(
    np.array([[0.1, 0.2, 0.3, 0.4], [1, 2, 3, 4], [-0.5, 0.25, 1 / 3, 2]])
)
FOUR = NumberMatrix.from_array(np.cos(np.arange(16)).reshape(4, 4))
BIAS = NumberMatrix.from_array(np.array([[3, -1 / 3, 0.5, 7]]))
HALF = BooleanMatrix.from_array(np.eye(3, dtype=bool)[[0, 1, 1]] | np.eye(3, dtype=bool)[[2, 2, 0]])
NOTHING = BooleanMatrix.from_array(np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]], dtype=bool))

# One field after the other, and what random documents seldom have together.
CHOSEN: tuple[dict[str, Any], ...] = (
    {},
    *({"normalisation": kind, "mask": MaskKind.NONE} for kind in NormalisationKind),
    *({"normalisation": kind, "route": MaskPlacement.AFTER} for kind in NormalisationKind),
    *(
        {"route": route, "mask": mask}
        for route in MaskPlacement
        for mask in (MaskKind.CAUSAL, MaskKind.WINDOW)
    ),
    *({"position": kind} for kind in PositionKind),
    *({"scale": kind, "temperature": 0.7} for kind in ScaleKind),
    *({"projection": kind, "d_in": 4, "d_out": 4} for kind in Projection),
    *({"projection": kind, "arrangement": HeadArrangement.STACKED} for kind in Projection),
    {"dropout": 0.5, "dropout_seed": 7},
    {"dropout": 0.25, "dtype": Dtype.FLOAT64, "bias": True, "position": PositionKind.LEARNED},
    {"normalisation": NormalisationKind.NAIVE_SOFTMAX, "temperature": 1e-3},
    {"heads": 1, "output_projection": False, "d_out": 5},
    *({"heads": 4, "d_out": 8, "key_value_heads": groups, "bias": True} for groups in (1, 2)),
)
THREE: tuple[dict[str, Any], ...] = (
    {"mask": MaskKind.OWN, "own_mask": HALF},
    {"mask": MaskKind.OWN, "own_mask": NOTHING},
    {"mask": MaskKind.OWN, "own_mask": NOTHING, "route": MaskPlacement.AFTER_RENORMALISED},
    {"dropout": 0.5, "own_kept": HALF},
    {"own_input": NumberMatrix.from_array(np.arange(9).reshape(3, 3) / 7)},
    {"d_out": 4, "own_weights": (("W_key", OWN),)},
    {"d_out": 4, "own_weights": (("W_value", OWN), ("W_query", OWN)), "bias": True},
    {"d_out": 2, "own_weights": (("W_key", OWN),), "arrangement": HeadArrangement.STACKED},
    {"d_out": 4, "own_weights": (("W_query", OWN),), "projection": Projection.UNIFORM},
    {"d_in": 4, "projection": Projection.NONE, "own_weights": (("W_output", FOUR),)},
    {"d_out": 4, "own_weights": (("W_output", FOUR), ("W_key", OWN)), "bias": True},
    {"d_out": 2, "own_weights": (("W_output", FOUR),), "projection": Projection.UNIFORM,
     "arrangement": HeadArrangement.STACKED},
    {"d_out": 2, "own_weights": (("W_value", OWN),), "projection": Projection.UNIFORM,
     "arrangement": HeadArrangement.STACKED, "dtype": Dtype.FLOAT64},
    {"d_out": 4, "own_weights": (("W_key.bias", BIAS), ("W_output.bias", BIAS)), "bias": True},
    {"d_out": 2, "own_weights": (("W_query.bias", BIAS),), "bias": True,
     "arrangement": HeadArrangement.STACKED},
)  # fmt: skip


def drawn(strategy: Any, count: int) -> list[Case]:
    """Draw the same documents every time."""
    found: list[Case] = []

    @seed(20)
    @settings(
        max_examples=count,
        phases=(Phase.generate,),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def documents() -> Iterator[Run]:
    for case in drawn(cases(), 60) + drawn(cases(batch=Batch.RAGGED), 15):
        yield case.run()
    for mechanism in Mechanism:
        spec = apply_mechanism(mechanism, AttentionSpec(d_in=4, d_out=4, device=Device.CPU))
        yield Case((("Your", "journey", "starts"),), spec).run()
    for fields in CHOSEN:
        if not spec_problems(AttentionSpec(**fields)):
            yield a_run(**fields)
        padded = AttentionSpec(**fields, lengths=(1, 2))
        if not spec_problems(padded):
            yield a_run("Your journey starts again", "with one", **fields)
    for fields in THREE:
        yield a_run("Your journey starts", **fields)
    yield a_run("so it is so it is so", "and", d_in=5, mask=MaskKind.WINDOW, window=2)


def run_of_many_numbers() -> Run:
    return a_run(" ".join(f"word{number}" for number in range(70)), d_in=8, d_out=64, heads=2)


def scripts_of_many_numbers() -> dict[str, str]:
    """Write the scripts of one such run, as they are and with a number or a sum changed."""
    run, sources = run_of_many_numbers(), {}
    for dialect in CodeDialect:
        source = generate_script(run, dialect)
        sources[f"many {dialect}"] = source
        for at, other in enumerate(with_one_expected_number_changed(source)):
            sources[f"many {dialect} number {at}"] = other
        sources[f"many {dialect} sum"] = re.sub(
            r"(sum_of_\w+ = torch\.tensor\()", r"\g<1>0.01 + ", source
        )
    return sources


def scripts_of_large_scores() -> dict[str, str]:
    run = a_run(temperature=1e-4)
    return {f"large scores {dialect}": generate_script(run, dialect) for dialect in CodeDialect}


def script_of_odd_words() -> dict[str, str]:
    odd = ("\ud800", "'", '"', "\\", "\n", "猫", "سلام", "\u2028", "🙂", "# not a comment")
    run = Case((odd,), replace(AttentionSpec(device=Device.CPU), d_in=4)).run()
    return {"odd words": generate_script(run, CodeDialect.LECTURE)}


# -------------------------------------------------------------------------- changing one number


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])")


def fourth_digit(written: str) -> str:
    """Add one to the fourth significant digit; what is zero becomes one."""
    value = float(written)
    if value == 0:
        return "1.0"
    return repr(value + 10.0 ** (math.floor(math.log10(abs(value))) - 3))


def with_one_expected_number_changed(source: str) -> Iterator[str]:
    """Change the largest number of each tensor that is expected."""
    for found in re.finditer(
        r"^expected_\w+ = torch\.tensor\((.*?), dtype=dtype\)", source, re.S | re.M
    ):
        start, end = found.span(1)
        numbers = list(NUMBER.finditer(source, start, end))
        if numbers:  # else there is nothing but NaN
            largest = max(numbers, key=lambda number: abs(float(number.group())))
            changed = fourth_digit(largest.group())
            yield source[: largest.start()] + changed + source[largest.end() :]


def with_one_vector_changed(source: str, run: Run) -> str | None:
    """Change the vector of the token that is read most; None where none can be seen to matter."""
    trace = run.trace
    shares = np.abs(trace.read("dropped" if "dropped" in trace else "weights")).sum(-3)
    seen = np.isfinite(trace.read(trace.output_stage_name)).all(-1)
    shares = np.where(seen[..., None] & np.isfinite(shares), shares, 0).sum(-2)
    place = np.unravel_index(int(shares.argmax()), shares.shape)
    if shares[place] < 1e-3:
        return None
    token = run.texts[int(place[0]) if trace.axes else 0][int(place[-1])]
    start = source.find(f"    {token!r}: [")
    start = start if start >= 0 else source.find("inputs = torch.tensor([")
    rows = list(re.finditer(r"\[([^\[\]]*)\]", source[start:]))
    row = rows[0] if source[start] == " " else rows[int(place[-1])]
    return (
        source[: start + row.start(1)]
        + NUMBER.sub(lambda number: repr(1.5 - 2 * float(number.group())), row.group(1))
        + source[start + row.end(1) :]
    )


# ------------------------------------------------------------------------------ all in one process


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    run: Run
    dialect: CodeDialect
    source: str
    number: list[str] = field(default_factory=list)
    vector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Ran:
    made: dict[str, Made]
    sources: dict[str, str]
    said: dict[str, str]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Every document in every dialect, as it is and with a number changed."""
    made: dict[str, Made] = {}
    sources = scripts_of_many_numbers() | scripts_of_large_scores() | script_of_odd_words()
    for place, run in enumerate(documents()):
        for dialect in CodeDialect:
            name, source = f"{place} {dialect}", generate_script(run, dialect)
            changed = list(with_one_expected_number_changed(source))
            vector = with_one_vector_changed(source, run)
            made[name] = Made(run, dialect, source, changed, vector or "")
            sources[name] = source
            sources |= {f"{name} number {at}": other for at, other in enumerate(changed)}
            sources |= {f"{name} vector": vector} if vector else {}
    return Ran(made, sources, execute(sources, tmp_path_factory.mktemp("scripts")))


def execute(sources: dict[str, str], folder: Path) -> dict[str, str]:
    """Run scripts one after the other, each with names of its own; give what each said."""
    runner, given_, said = folder / "runner.py", folder / "given.json", folder / "said.json"
    runner.write_text(RUNNER, encoding="utf-8")
    given_.write_text(json.dumps(sources), encoding="utf-8")
    command = [sys.executable, "-I", str(runner), str(given_), str(said)]
    subprocess.run(command, cwd=folder, check=True, timeout=250)
    found: dict[str, str] = json.loads(said.read_text(encoding="utf-8"))
    assert found.pop("blocked") == "yes"
    assert found.keys() == sources.keys()
    return found


@pytest.mark.slow
def test_documents_of_every_kind_are_tried(ran: Ran) -> None:
    specs = [made.run.trace.spec for made in ran.made.values()]
    assert len(specs) >= 3 * 100
    assert {mechanism_of(spec) for spec in specs} == set(Mechanism)
    kinds = {
        "normalisation": NormalisationKind,
        "route": MaskPlacement,
        "mask": MaskKind,
        "position": PositionKind,
        "arrangement": HeadArrangement,
        "projection": Projection,
        "scale": ScaleKind,
        "dtype": Dtype,
        "mode": DropoutMode,
    }
    for name, kind in kinds.items():
        assert {getattr(spec, name) for spec in specs} == set(kind), name
    assert {bool(spec.lengths) for spec in specs} == {True, False}
    assert {spec.own_kept is not None for spec in specs if spec.is_dropout_active} == {True, False}
    assert any(spec.own_input for spec in specs)
    assert any(spec.own_weights for spec in specs)


@pytest.mark.slow
def test_every_script_makes_the_numbers_of_its_run(ran: Ran) -> None:
    wrong = {name: ran.said[name] for name in ran.made}
    wrong = {name: said for name, said in wrong.items() if not said.startswith("All numbers agree")}
    assert wrong == {}


@pytest.mark.slow
def test_a_changed_fourth_digit_is_found(ran: Ran) -> None:
    passed = [
        name
        for name, made in ran.made.items()
        for at in range(len(made.number))
        if not ran.said[f"{name} number {at}"].startswith("AssertionError")
    ]
    loose = {name for name, made in ran.made.items() if "fewer exact" in made.source}
    assert {name.partition(" number")[0] for name in passed} <= loose
    assert len(loose) < len(ran.made) / 30
    assert sum(len(made.number) for made in ran.made.values()) > len(ran.made)


@pytest.mark.slow
def test_a_changed_vector_is_found(ran: Ran) -> None:
    tried = {name for name, made in ran.made.items() if made.vector}
    passed = [name for name in tried if not ran.said[f"{name} vector"].startswith("AssertionError")]
    assert passed == []
    assert len(tried) > 0.8 * len(ran.made)


@pytest.mark.slow
def test_a_script_is_made_of_the_lines_that_are_shown(ran: Ran) -> None:
    for made in ran.made.values():
        written = [line.partition("  # ")[0] for line in made.source.splitlines()]
        shown = [line.text for line in stage_code_lines(made.run.trace.spec, made.dialect)]
        start = written.index(shown[0])
        assert written[start : start + len(shown)] == shown


@pytest.mark.slow
def test_a_script_imports_torch_and_the_standard_library_alone(ran: Ran) -> None:
    for made in ran.made.values():
        found = re.findall(r"^\s*(?:import|from) (\w+)", made.source, re.MULTILINE)
        assert set(found) <= {"torch", "math"}


# ---------------------------------------------------------------------------------- large and odd


@pytest.mark.slow
def test_of_many_numbers_a_sample_and_the_sum_are_asserted(ran: Ran) -> None:
    said = {name: told for name, told in ran.said.items() if name.startswith("many ")}
    whole = {f"many {dialect}" for dialect in CodeDialect}
    assert "9,800 values: compare one in 3" in ran.sources["many book"]
    assert said.keys() > whole
    for name, told in said.items():
        expected = "All numbers agree" if name in whole else "AssertionError"
        assert told.startswith(expected), name
    assert run_of_many_numbers().trace.read("weights").size > MAX_ASSERTED_NUMBERS


def test_a_script_that_would_be_too_large_is_refused() -> None:
    wide = apply_mechanism(Mechanism.SIMPLIFIED, AttentionSpec(device=Device.CPU))
    for d_in in (40_000, 200_000):  # found in what was written, and before anything is
        run = Case(
            (("Your", "journey", "starts", "with", "one", "step"),), replace(wide, d_in=d_in)
        )
        with pytest.raises(InputError, match="Use a shorter text or a smaller") as refused:
            generate_script(run.run(), CodeDialect.BOOK)
        assert refused.value.field == "script"
    assert len(generate_script(a_run(), CodeDialect.BOOK)) < MAX_SCRIPT_BYTES / 100


def test_a_run_on_a_gpu_is_said_to_be_one() -> None:
    run = a_run()
    other = replace(run, device="CUDA GPU (Some Card)")
    assert "Some Card" in generate_script(other, CodeDialect.BOOK)
    assert "A GPU sums in a different order" in generate_script(other, CodeDialect.BOOK)
    assert "A GPU" not in generate_script(run, CodeDialect.BOOK)
    here, there = (stage_tolerance(made, CodeDialect.BOOK, "output") for made in (run, other))
    assert there.absolute > here.absolute


def test_a_script_says_what_it_is_and_how_closely_it_agrees() -> None:
    source = generate_script(a_run(), CodeDialect.BOOK)
    assert source.startswith("# Multi-head attention · untrained: random weights, seed 123 · ")
    assert "rtol=1e-05" in source
    assert "# Expected values were computed on CPU in float32." in source
    summed = a_run(normalisation=NormalisationKind.SUM, mask=MaskKind.NONE)
    assert "magnifies rounding" in generate_script(summed, CodeDialect.BOOK)


@pytest.mark.slow
def test_scores_so_large_that_one_call_rounds_otherwise_are_said(ran: Ran) -> None:
    assert "fewer exact" in ran.sources["large scores sdpa"]
    assert "fewer exact" not in ran.sources["large scores book"]
    for dialect in CodeDialect:
        assert ran.said[f"large scores {dialect}"].startswith("All numbers agree")


@given(cases())
def test_no_tolerance_hides_a_fourth_digit_unless_it_is_said(case: Case) -> None:
    run = case.run()
    for dialect in CodeDialect:
        found = stage_tolerance(run, dialect, run.trace.output_stage_name)
        most = MAX_ROUNDING_UNITS * rounding_unit(run.trace.spec)
        said = "fewer exact" in generate_script(run, dialect)
        assert (found.relative <= most) is not said
        assert dialect is CodeDialect.SDPA or not said


@pytest.mark.slow
def test_words_of_every_script_are_written_so_that_they_read_back(ran: Ran) -> None:
    assert ran.sources["odd words"].replace("\n", "").isprintable()
    assert ran.said["odd words"].startswith("All numbers agree")


@pytest.mark.parametrize("dialect", list(CodeDialect))
@pytest.mark.parametrize("settings", [{}, {"heads": 2, "d_out": 4, "output_projection": True}])
def test_a_long_text_is_asserted_by_rows(
    dialect: CodeDialect, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = long_shot(200, **settings).run
    largest: list[int] = []
    read = BlockwiseTensor.read

    def few(own: BlockwiseTensor, index: Index = ()) -> np.ndarray:
        numbers = read(own, index)
        largest.append(numbers.size // numbers.shape[-1])
        return numbers

    monkeypatch.setattr(BlockwiseTensor, "read", few)
    written = generate_script(run, dialect)
    assert max(largest) <= run.trace.spec.heads
    assert "rows_of_" in written
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(True):
        exec(compile(written, "script", "exec"), {"__name__": "__main__"})
        wrong = written.replace("assert_close(rows_of_", "assert_close(1.01 * rows_of_", 1)
        with pytest.raises(AssertionError):
            exec(compile(wrong, "script", "exec"), {"__name__": "__main__"})
