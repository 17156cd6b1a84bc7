"""Long texts, whose matrices are not stored: images, values, memory and the working window."""

from __future__ import annotations

import random
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication

from tests.benchmarks import children, peers
from tests.benchmarks.reading import Reader
from tests.benchmarks.stand import application, text
from tests.benchmarks.table import Line, middle, ratio, show, times
from visualizer.attention.attend import attend
from visualizer.attention.parameter_init import initialize_parameters
from visualizer.attention.run import reserve_gui_core, should_compute_blockwise
from visualizer.attention.spec import AttentionSpec, Device, DropoutMode, MaskKind
from visualizer.heatmap.board_presenter import is_fully_drawn
from visualizer.session.document import Document

if TYPE_CHECKING:
    import numpy as np

    from visualizer.attention.cached_tensor import CachedTensor, Index
    from visualizer.attention.run import Run
    from visualizer.attention.trace import Trace

SIZES = (4_096, 32_768, 100_000)
EXACT = 32_768
PEER_SIZE = 8_192
"""Side length, in cells, of the matrix that the other tools store completely."""
SIDE = 400
"""Number of drawn cells per side."""
TILE = 256
BAND, CHUNK = 256, 2_048
FIRST_MS = 250.0
TILE_MS = 16.0
FRAME_MS = 16.0
MAX_MEMORY_RATIO = 1.5
MAX_EXACT_RATIO = 1.3
SPEC = AttentionSpec(d_in=64, d_out=64, heads=1, mask=MaskKind.CAUSAL, mode=DropoutMode.EVAL)
WHOLE = (0, slice(None), slice(None))


def measure(repeats: int) -> int:
    """Measure in separate processes and print; return the number of missed targets."""
    rounds = max(3, repeats // 3)
    missed = 0
    for size in SIZES:
        told = children.run(_head, size, rounds)
        lines = [
            middle("first picture, a row of each block", told["first"], FIRST_MS),
            middle("a tile of 256 × 256, nothing known of its rows", told["cold"], 1000),
            middle("the same again, elsewhere in these rows", told["warm"], TILE_MS),
            middle("a row of weights", told["row"], TILE_MS),
            _memory(told["bytes"], told["needed"]),
        ]
        if told["exact"]:
            lines.append(times("the whole picture, exact", told["exact"]))
            target = {"at_most": MAX_EXACT_RATIO} if size == EXACT else {}
            lines.append(ratio("  ÷ bare product by tiles", told["exact"], told["bare"], **target))
            lines.append(ratio("  without a mask", told["open"], told["bare"]))
        missed += show(f"One head × {size:,} tokens, 64 columns", lines)
    told = children.run(_window, SIZES[-1], 10 * repeats)
    missed += show(
        f"The flow board at {SIZES[-1]:,} tokens, 1280 × 800, with pictures coming in",
        [
            times("hover → ribbons painted", told["hover"], FRAME_MS),
            times("  board painted → all panes painted", told["panes"]),
            times("wheel → closer or further, painted", told["zoom"], FRAME_MS),
            times("drag → moved, painted", told["pan"], FRAME_MS),
        ],
    )
    return missed + _beside(children.run(_peers, rounds))


def _memory(held: int, needed: int) -> Line:
    figure = f"{held / 2**20:9.1f} MiB    {held / needed:.2f} ×"
    return Line("held, ÷ queries, keys, values and sums", figure, f"≤ {MAX_MEMORY_RATIO:g} ×",
                held <= MAX_MEMORY_RATIO * needed)  # fmt: skip


def _beside(told: dict[str, dict[str, list[float]]]) -> int:
    own = told["ours"]
    lines = [times("ours: first picture", own["first"]), times("ours: exact picture", own["exact"])]
    lines.append(times("ours: closer, painted of what is known", own["known"]))
    lines.append(times("ours: closer, exact", own["zoom"]))
    for name in ("matplotlib", "pyqtgraph"):
        for act, words in (("first", "first picture"), ("zoom", "closer")):
            lines.append(times(f"{name}: {words}", told[name][act]))
            lines.append(ratio(f"  {name} ÷ ours", told[name][act], own[act], at_least=1.0))
    return show(f"{PEER_SIZE:,} × {PEER_SIZE:,}, from queries and keys until painted", lines)


# ---------------------------------------------------------------------- one head


def _vectors(tokens: int) -> torch.Tensor:
    return torch.randn(tokens, SPEC.d_in, generator=torch.Generator().manual_seed(1))


def _trace(tokens: int, spec: AttentionSpec = SPEC) -> Trace:
    parameters = initialize_parameters(spec, tokens, torch.device("cpu"))
    with torch.no_grad():
        return attend(spec, _vectors(tokens), parameters, by_blocks=True)


def _draw(held: CachedTensor, block: int, cells: Index = WHOLE) -> None:
    held.draw_exact_rows(block, block, cells, lambda: False)


def _bare(trace: Trace) -> None:
    """Compute only the product of queries and keys, tile by tile."""
    queries, keys = (trace.tensor(name)[0] for name in ("queries", "keys"))
    for row in range(0, len(queries), BAND):
        band = queries[row : row + BAND]
        for column in range(0, len(keys), CHUNK):
            band @ keys[column : column + CHUNK].mT


def _head(tokens: int, rounds: int) -> dict[str, Any]:
    reserve_gui_core()
    block = -(-tokens // SIDE)
    chance = random.Random(2)
    told: dict[str, Any] = {
        name: [] for name in ("first", "cold", "warm", "row", "exact", "bare", "open")
    }
    for _ in range(rounds):
        trace = _trace(tokens)
        held = trace.cached_stage_tensor("weights")
        told["first"].append(peers.seconds(partial(held.draw_coarse_rows, block, block, WHOLE)))
        at = chance.randrange(tokens // 2, tokens - TILE)
        rows = slice(at, at + TILE)
        for name, start in (("cold", 0), ("warm", TILE)):
            part = (0, rows, slice(start, start + TILE))
            told[name].append(peers.seconds(partial(held.read, part)))
        told["row"].append(peers.seconds(partial(held.read, (0, chance.randrange(tokens)))))
        told["bytes"] = trace.bytes
    width = SPEC.d_out
    told["needed"] = 4 * tokens * (3 * width + 1)
    for _ in range(max(1, rounds // 2) if tokens <= EXACT else 0):
        trace, unmasked = _trace(tokens), _trace(tokens, replace(SPEC, mask=MaskKind.NONE))
        told["bare"].append(peers.seconds(partial(_bare, trace)))
        told["exact"].append(
            peers.seconds(partial(_draw, trace.cached_stage_tensor("weights"), block))
        )
        told["open"].append(
            peers.seconds(partial(_draw, unmasked.cached_stage_tensor("weights"), block))
        )
    return told


# ---------------------------------------------------------------------- the window


def _document(tokens: int) -> Document:
    """Return a document with the given number of tokens, whose matrices are not stored."""
    words = text(2_744).split()
    document = Document(text=" ".join((words * (tokens // len(words) + 1))[:tokens]), spec=SPEC)
    assert should_compute_blockwise(document.tokens(), SPEC, Device.CPU)
    return document


@application()
def _window(tokens: int, repeats: int) -> dict[str, object]:
    reader = Reader.with_numbers(_document(tokens))
    told: dict[str, list[float]] = {"hover": [], "panes": [], "zoom": [], "pan": []}
    chance = random.Random(3)
    for number in range(-5, repeats):
        seconds = reader.hover(reader.board, *reader._place(chance))
        painted = perf_counter()
        QCoreApplication.processEvents()
        if number >= 0 and seconds:
            told["hover"].append(seconds)
            told["panes"].append(perf_counter() - painted)
    for number in range(-5, repeats):
        seconds = reader.next_branch_button(chance, 1 if number % 24 < 12 else -1)
        if number >= 0 and seconds:
            told["zoom"].append(seconds)
    reader.window.controllers.view_controller.reset_zoom()
    reader.window.controllers.view_controller.zoom(64, (tokens / 2, tokens / 2))
    reader.settle()
    for number in range(repeats):
        told["pan"].append(reader.pull(24 if number % 20 < 10 else -24))
    reader.close()
    return dict(told)


# ---------------------------------------------------------------------- others


@application()
def _peers(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Compare the window with other tools, which must compute, store and draw all weights."""
    reader = Reader.with_numbers(_document(PEER_SIZE))
    reader.look_at_weights()  # because the other tools draw nothing else
    own: dict[str, list[float]] = {"first": [], "exact": [], "known": [], "zoom": []}
    at = PEER_SIZE / 256, (4_100, 3_100)
    for number in range(rounds):
        run, start = reader.workspace.run, perf_counter()
        reader.workspace.change_setting("seed", number)
        painted = reader.until_painted(partial(_is_new, reader, run))
        own["first"].append(painted - start)
        own["exact"].append(reader.until_painted(partial(_is_exact, reader)) - start)
        start = perf_counter()
        painted = reader.until_painted(reader._shows_zoom, act=partial(_go, reader, *at))
        own["known"].append(painted - start)
        own["zoom"].append(reader.until_painted(partial(_is_exact, reader)) - start)
        reader.window.controllers.view_controller.reset_zoom()
        reader.settle()
    trace = reader.trace
    reader.close()
    told = {"ours": own}
    for name, kind in (
        ("matplotlib", partial(peers.Matplotlib, is_labelled=False)),
        ("pyqtgraph", peers.PyQtGraph),
    ):
        told[name] = {"first": [], "zoom": []}
        for _ in range(rounds):
            start = perf_counter()
            plot = kind(_weights(trace), 800, 800)
            plot.look(0, PEER_SIZE)
            told[name]["first"].append(perf_counter() - start)
            told[name]["zoom"].append(peers.seconds(partial(plot.look, 4_000, 256)))
            if isinstance(plot, peers.PyQtGraph):
                plot.close()
    return told


def _go(reader: Reader, closer: float, at: tuple[float, float]) -> bool:
    reader.window.controllers.view_controller.zoom(closer, at)
    return True


def _is_new(reader: Reader, before: Run | None) -> bool:
    return reader.workspace.run is not before and reader.has_numbers()


def _is_exact(reader: Reader) -> bool:
    resolved = reader.workspace.screen.resolved
    return resolved is not None and reader.has_numbers() and is_fully_drawn(resolved)


@torch.no_grad()
def _weights(trace: Trace) -> np.ndarray:
    queries, keys = (trace.tensor(name)[0] for name in ("queries", "keys"))
    scores = queries @ keys.mT / trace.spec.divisor
    scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), -torch.inf)
    found: np.ndarray = torch.softmax(scores, -1)[None].numpy()
    return found
