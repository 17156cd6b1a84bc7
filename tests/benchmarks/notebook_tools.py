"""The views of this program and of other tools that show all heads of a model in a notebook."""

from __future__ import annotations

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct

from tests.benchmarks.drawn_page import WRAPPED, measure_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOVES = 20
"""Number of points at which the hover latency is measured."""
WORDS = ("the", "cat", "sat", "on", "a", "mat", "and", "then", "it", "looked", "at", "the", "other")
LIBRARIES = Path(sys.prefix) / "share" / "notebook_views" / "node_modules"
"""Folder with the JavaScript libraries that other tools load from the network."""
MODULES = "requirejs@2.3.6", "d3@5.7.0", "jquery@2.1.0"
ADDRESSES = {
    "**/require.js/**": "requirejs/require.js",
    "**/d3/**": "d3/dist/d3.min.js",
    "**/jquery/**": "jquery/dist/jquery.min.js",
}
DIAGONAL = """[document.querySelector({})].flatMap((one) => {{
  const {{left, top, width, height}} = one.getBoundingClientRect();
  return Array.from({{length: 100}}, (_, at) => {{
    const row = 0.3 + 0.0065 * (at * 37 % 100), column = row * (0.2 + 0.007 * (at * 61 % 100));
    return [left + width * column, top + height * row];
  }});
}})"""
"""Points below the diagonal of a heatmap, as a JavaScript expression."""
LEFT_HALF = "((all) => all.slice(0, all.length / 2))([...document.querySelectorAll({})])"
"""The first half of the elements, as a JavaScript expression."""


class Tool(Struct, frozen=True):
    """A view of all heads.

    Parameters
    ----------
    create : callable
        Returns the HTML that a notebook contains, for weights [layer, head, query, key] and tokens.
    displays : str
        What is displayed at first, and how the rest is reached.
    drawn : str
        CSS selector of an element that exists when the view is drawn.
    points : str
        JavaScript expression for the elements or [x, y] to point at.
    clicks : tuple of str
        CSS selectors of elements to click before that.
    events : tuple of str
        Names of the events to which the view responds.
    packages : tuple of str
        Packages that have to be installed.
    has_libraries : bool
        Whether the page loads libraries from the network.
    """

    name: str
    create: Callable[[np.ndarray, list[str]], str]
    displays: str
    drawn: str
    points: str
    clicks: tuple[str, ...] = ()
    events: tuple[str, ...] = ("pointerover", "mouseover", "pointermove", "mousemove")
    packages: tuple[str, ...] = ()
    has_libraries: bool = False

    def libraries(self) -> dict[str, str]:
        """Return the content of the libraries for their addresses."""
        if self.name == "CircuitsVis":
            return {"**/circuitsvis@*/**": _circuitsvis_module()}
        if not self.has_libraries:
            return {}
        files = {address: LIBRARIES / name for address, name in ADDRESSES.items()}
        return {address: file.read_text("utf-8") for address, file in files.items()}

    def missing(self) -> Iterator[str]:
        """Yield commands that install what the view requires."""
        if packages := [each for each in self.packages if not find_spec(each)]:
            yield f"pip install {' '.join(packages)}"
        if self.has_libraries and not LIBRARIES.exists():
            yield f"npm install --prefix '{LIBRARIES.parent}' {' '.join(MODULES)}"


def _show_own(weights: np.ndarray, tokens: list[str]) -> str:
    found = import_module("visualizer").from_arrays(weights, tokens)
    html: str = found._repr_mimebundle_().get("text/html") or found.interactive()._repr_html_()
    return html


def _as_batches(weights: np.ndarray) -> list[object]:
    """Return the weights as models of Transformers do: a tensor [1, head, query, key] per layer."""
    torch = import_module("torch")
    return [torch.from_numpy(layer)[None] for layer in weights]


def _show_bertviz(name: str) -> Callable[[np.ndarray, list[str]], str]:
    def show(weights: np.ndarray, tokens: list[str]) -> str:
        function = getattr(import_module("bertviz"), name)
        html: str = function(_as_batches(weights), [*tokens], html_action="return").data
        return html

    return show


def _show_circuitsvis(weights: np.ndarray, tokens: list[str]) -> str:
    layers, heads, *_ = weights.shape
    names = [f"L{layer}H{head}" for layer in range(layers) for head in range(heads)]
    attention = weights.reshape(-1, *weights.shape[2:])
    module = import_module("circuitsvis.attention")
    html: str = module.attention_heads(attention, tokens, names).show_code()
    return html


def _circuitsvis_module() -> str:
    """Return the script of the package in the form of the module that its pages import."""
    file = Path(import_module("circuitsvis").__file__ or "").parent / "dist" / "cdn" / "iife.js"
    names = "render", "AttentionHeads"
    exports = ", ".join(f"{name} = CircuitsVis.{name}" for name in names)
    return f"{file.read_text('utf-8')}\nexport const {exports};"


def _show_inspectus(weights: np.ndarray, tokens: list[str]) -> str:
    """Return what the function displays, because it returns nothing."""
    inspectus, display = import_module("inspectus"), cast("Any", import_module("IPython.display"))
    parts: list[str] = []
    original = display.display
    display.display = lambda shown: parts.append(shown.data)
    try:
        inspectus.attention(weights, tokens)
    finally:
        display.display = original
    return "".join(parts)


def _show_attnview(weights: np.ndarray, tokens: list[str]) -> str:
    cache = {f"blocks.{at}.attn.hook_pattern": layer for at, layer in enumerate(weights)}
    html: str = import_module("attnview").display_cache(cache, tokens=tokens).data
    return html


OWN = Tool(
    "Attention Visualizer",
    _show_own,
    "all heads as small heatmaps; click one for a large heatmap and the shaded text",
    "#map canvas",
    DIAGONAL.format('"#matrix"'),
)
PEERS = (
    Tool(
        "BertViz, model view",
        _show_bertviz("model_view"),
        "all heads as lines between tokens; click one to enlarge it",
        "svg line",
        LEFT_HALF.format('"g.detail text.token"'),
        ("#attn_background_0_0 ~ rect",),
        packages=("bertviz", "IPython"),
        has_libraries=True,
    ),
    Tool(
        "BertViz, head view",
        _show_bertviz("head_view"),
        "the heads of one layer as lines in one picture; select another layer from a list",
        "svg line",
        '[...document.querySelectorAll("#left text")]',
        packages=("bertviz", "IPython"),
        has_libraries=True,
    ),
    Tool(
        "CircuitsVis",
        _show_circuitsvis,
        "all heads as small heatmaps; point at one for a large heatmap",
        "canvas, td",
        DIAGONAL.format('"canvas"'),
        packages=("circuitsvis",),
    ),
    Tool(
        "Inspectus",
        _show_inspectus,
        "the mean of the selected heads as one heatmap; all heads selected",
        "svg, canvas",
        '[...document.querySelectorAll(".text-tokens .token")]',
        events=("click",),
        packages=("inspectus", "IPython"),
    ),
    Tool(
        "attnview",
        _show_attnview,
        "one query of one head as a list; select others from lists",
        "#weights tr",
        '[...document.querySelectorAll("#tokens button")]',
        events=("click",),
        packages=("attnview", "IPython"),
    ),
)
TOOLS = (OWN, *PEERS)


# ------------------------------------------------------------------- in a process of its own


def create_page(index: int, layers: int, heads: int, tokens: int, file: str) -> dict[str, Any]:
    """Create the HTML of a view; a first call with two tokens imports what the tool requires."""
    tool = TOOLS[index]
    tool.create(create_weights(1, 1, 2), [*WORDS[:2]])
    weights = create_weights(layers, heads, tokens)
    words = [f" {WORDS[at % len(WORDS)]}" for at in range(tokens)]
    before = _reset_peak()
    start = time.perf_counter()
    html = tool.create(weights, words)
    seconds = time.perf_counter() - start
    memory = _read_memory("VmHWM") - before
    page = WRAPPED.format(html).encode()
    Path(file).write_bytes(page)
    return {"python_s": seconds, "size": len(page), "python_bytes": memory}


def draw_page(index: int, file: str, picture: str) -> dict[str, object]:
    """Open the HTML of a view in a browser, and print the results."""
    tool = TOOLS[index]
    return measure_page(
        file, tool.drawn, tool.points, tool.clicks, tool.events, tool.libraries(), MOVES, picture
    )


def create_weights(layers: int, heads: int, tokens: int) -> np.ndarray:
    """Return causal weights with an entropy like that of a small model."""
    generator = np.random.default_rng(0)
    weights = np.empty((layers, heads, tokens, tokens), dtype=np.float32)
    for layer in weights:
        scores = 3 * generator.normal(size=layer.shape)
        scores[..., 0] += 5
        numbers = np.exp(scores) * np.tri(tokens)
        layer[:] = numbers / numbers.sum(-1, keepdims=True)
    return weights


def _reset_peak() -> int:
    """Set the peak memory of this process to its current memory, and return it in bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _read_memory("VmRSS")


def _read_memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))
