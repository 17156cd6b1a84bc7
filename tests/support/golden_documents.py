"""Documents with runs, and their files of every schema, which later versions must open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from visualizer.attention.captured_attention import (
    CapturedAttention,
    CapturedVectors,
    ImagePatches,
    LayerMask,
)
from visualizer.attention.run import Run, run
from visualizer.attention.spec import (
    AttentionSpec,
    BooleanMatrix,
    Device,
    MaskKind,
    ModelDtype,
    NumberMatrix,
)
from visualizer.documents.document_file import DOCUMENT_SUFFIX, document_bytes
from visualizer.documents.schema import SCHEMA_VERSION
from visualizer.models.model_source import CutEdges, HeadEdit, HeadEditKind, ImageFile, ModelSource
from visualizer.session.cell_address import Cell, ComparisonSide
from visualizer.session.comparison_state import Comparison, ComparisonKind
from visualizer.session.document import Document, LineGrouping
from visualizer.session.head_order import HeadOrder
from visualizer.session.timeline import PlaybackPosition, PlaybackState, StepSize
from visualizer.session.view import View
from visualizer.session.view_options import ColourOptions
from visualizer.session.zoom_ranges import ZoomRange

GOLDEN = Path(__file__).parents[1] / "golden" / "documents"

PLAIN = Document()
OWN = Document(
    text="Über 猫 🙂",
    spec=AttentionSpec(
        mask=MaskKind.OWN,
        own_mask=BooleanMatrix.from_array(np.tri(3, dtype=bool)),
        own_kept=BooleanMatrix.from_array(~np.eye(3, dtype=bool)),
        own_input=NumberMatrix.from_array(np.arange(9).reshape(3, 3) / 8),
        own_weights=(("W_query", NumberMatrix.from_array(np.array([[1, 0], [0.1, -2], [0, 1]]))),),
        dropout=0.5,
        device=Device.CPU,
    ),
)
OWN_VIEW = View(
    stages=frozenset({"weights", "dropped"}),
    pinned=Cell("weights", (1, 2, 0), part=ComparisonSide.B),
    past=(Cell("scores", (0, 1, 1)),),
    zoom=ZoomRange(range(0, 2), range(1, 3)),
    playhead=PlaybackState(PlaybackPosition("scores", 1), StepSize.CELL, 2.0),
    comparison=Comparison(ComparisonKind.KEPT, document=PLAIN, before=frozenset({"weights"})),
)
BATCH = Document(
    text="one text\nand three words", lines=LineGrouping.APART, spec=AttentionSpec(bias=True)
)

SHARES = np.array([0.25, 0.75, 0.5, 0.125, 0.875, 1.0]).reshape(1, 1, 2, 3)  # layer head query key
CAPTURED = Document(
    text="what is typed for a module",
    spec=AttentionSpec(
        bias=True, own_weights=(("W_query.bias", NumberMatrix.from_array(np.array([[0.1, -2.0]]))),)
    ),
    captured=CapturedAttention.from_array(
        "Über 猫.npz",
        np.tile(SHARES.astype(np.float32), (2, 2, 1, 1)),
        ("Le", "🙂"),
        ("a", "", "b"),
    ),
    labels="Un chat\nThe cat sat",
)
VECTORS = CapturedVectors(
    d_head=2,
    d_value=1,
    queries=np.arange(8, dtype=np.float32).tobytes(),
    keys=np.ones(8, dtype=np.float32).tobytes(),
    values=np.arange(4, dtype=np.float32).tobytes(),
    scaling=0.5,
    mask=MaskKind.OWN,
    own_mask=BooleanMatrix.from_array(np.tri(2, dtype=bool)),
    is_plain=False,
)
WITH_VECTORS = Document(
    captured=replace(
        CapturedAttention.from_array("a model", np.full((1, 2, 2, 2), 0.5, dtype=np.float32)),
        vectors=VECTORS,
    )
)
WITH_STEPS = Document(
    captured=replace(
        CapturedAttention.from_array("a model", np.full((2, 1, 2, 2), 0.25, dtype=np.float32)),
        vectors=replace(
            VECTORS,
            mask=MaskKind.NONE,
            own_mask=None,
            layer_masks=(
                LayerMask(MaskKind.OWN, BooleanMatrix.from_array(np.tri(2, dtype=bool))),
                LayerMask(MaskKind.WINDOW, window=1),
            ),
            softcap=50.0,
            bias=np.arange(4, dtype=np.float32).tobytes(),
            sinks=np.arange(2, dtype=np.float32).tobytes(),
            not_understood=("indices",),
        ),
    )
)
SOURCE = ModelSource(
    "/models/a model", "a model", "0123456789abcdef" * 4, (HeadEdit(0, 1), HeadEdit(2, 0))
)
READ = Document(
    text="what the model reads",
    captured=CapturedAttention.from_array("a model", np.full((1, 2, 4, 4), 0.25, dtype=np.float32)),
    model=SOURCE,
)
EDITED = replace(
    READ,
    captured=replace(
        CapturedAttention.from_array("a model", np.full((1, 2, 2, 2), 0.5, dtype=np.float32)),
        vectors=replace(VECTORS, cut=((0, 1, 1, 0),)),
    ),
    model=replace(
        SOURCE,
        edits=(
            HeadEdit(0, 1, HeadEditKind.SCALED, -0.5),
            HeadEdit(0, 2, HeadEditKind.PATCHED, text="Über 猫 🙂"),
            HeadEdit(1, 0, HeadEditKind.MEAN),
        ),
        cuts=(CutEdges(1, 0, ((2, 0), (2, 1))),),
    ),
)
SEEN = Document(
    captured=replace(
        CapturedAttention.from_array(
            "a model",
            np.full((1, 2, 3, 3), 1 / 3, dtype=np.float32),
            ("class", "row 1, column 1", "row 1, column 2"),
        ),
        patches=ImagePatches(1, 1, 2, 2, 4, bytes(range(24))),
    ),
    model=ModelSource(
        "/models/a model",
        "a model",
        "0123456789abcdef" * 4,
        image=ImageFile("/images/Über 猫.png", "fedcba9876543210" * 4),
    ),
)
BY_ROW = PlaybackState(grain=StepSize.ROW)
"""Default playback settings when the first of these files were written."""
TRAIL = View(
    playhead=BY_ROW,
    layer=2,
    pinned=Cell("normed", (1, 0)),
    past=(Cell("weights", (0, 1, 1), layer=3),),
    future=(Cell("result", (1, 2), layer=1),),
)
CAPTURED_A = Document(captured=CapturedAttention.from_array("a.npy", SHARES - np.pi))
CAPTURED_VIEW = View(
    playhead=BY_ROW,
    layer=1,
    pinned=Cell("weights", (1, 0, 2)),
    comparison=Comparison(ComparisonKind.KEPT, document=CAPTURED_A),
)


def run_of(document: Document) -> Run:
    return run(document.tokens(), document.spec)


def golden() -> dict[str, tuple[Document, View, Run | None]]:
    """Return the contents of the files of every schema, by the prefix of their names."""
    # The default colour map of schemas up to 9, which the files contain.
    colouring = ColourOptions(sequential="viridis")
    return {
        name: (document, replace(view, colouring=colouring), saved_run)
        for name, (document, view, saved_run) in _saved().items()
    }


def _saved() -> dict[str, tuple[Document, View, Run | None]]:
    return {
        "plain": (PLAIN, View(playhead=BY_ROW), None),
        "own": (OWN, OWN_VIEW, None),
        "recorded": (BATCH, View(text=1, playhead=BY_ROW), run_of(BATCH)),
        "captured": (CAPTURED, CAPTURED_VIEW, None),
        "model": (READ, View(head_order=HeadOrder.ALIKE, playhead=BY_ROW), None),
        "image": (SEEN, View(playhead=BY_ROW), None),
        "edited": (EDITED, View(playhead=BY_ROW), None),
        "half": (
            replace(READ, model=replace(SOURCE, half_dtype=ModelDtype.BFLOAT16)),
            View(playhead=BY_ROW),
            None,
        ),
        "trail": (READ, TRAIL, None),
        "steps": (WITH_STEPS, View(playhead=BY_ROW, pinned=Cell("capped", (0, 1, 1))), None),
        "vectors": (WITH_VECTORS, View(playhead=BY_ROW, pinned=Cell("scores", (1, 0, 1))), None),
    }


def write_golden() -> None:
    """Write the files of the current schema next to those of older schemas."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, saved in golden().items():
        (GOLDEN / f"{name}-{SCHEMA_VERSION}{DOCUMENT_SUFFIX}").write_bytes(document_bytes(*saved))


if __name__ == "__main__":
    write_golden()
