"""Computes, reads, explains, draws and writes attention from notebooks and scripts.

Indices start at 0, as in numpy; positions in sentences start at 1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.api.argument_conversion import attention_document_of, figure_settings_of
from visualizer.api.figure_and_explained_number import Explained, Figure
from visualizer.api.keyword_argument_types import Look, Settings
from visualizer.attention.run_parameters_as_spec_weights import weights_of
from visualizer.errors import InputError
from visualizer.features.cell.presenter import head_cell_panel
from visualizer.read_files_and_restore_runs import ROOMY, open_as_document, restore_document
from visualizer.session.cell_address import Cell
from visualizer.session.computation_caption import caption
from visualizer.session.document import Document
from visualizer.session.exportable_snapshot import Snapshot
from visualizer.session.resolved_view import resolve
from visualizer.session.stage_and_head_parsing import (
    named_stages,
    no_stage,
    with_parsed_stages_and_heads,
)
from visualizer.session.view import View
from visualizer.session.worker_jobs import run_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Unpack

    import numpy as np
    from numpy.typing import ArrayLike

    from visualizer.attention.run import Run
    from visualizer.attention.spec import AttentionSpec

__all__ = ["Attention", "Explained", "Figure", "InputError", "Look", "Settings", "attend", "load"]


def attend(
    text: str | Sequence[str] | None = None,
    *,
    vectors: ArrayLike | None = None,
    weights: Mapping[str, ArrayLike] | None = None,
    **settings: Unpack[Settings],
) -> Attention:
    """Compute an attention module on a text: ``attend("a b c", heads=2, embedding_size=8)``.

    torch's own random state, number of threads and settings are left unchanged.

    Parameters
    ----------
    text : str or sequence of str, optional
        Several texts are a batch. The default is the book's sentence, or numbered tokens for as
        many vectors as are given.
    vectors : array_like, optional
        [token, embedding_size], instead of those drawn for the text's tokens.
    weights : mapping of str to array_like, optional
        Among ``"W_query"``, ``"W_key"``, ``"W_value"``, [embedding_size, width] with all heads
        side by side, so that queries are ``x @ W_query``; and ``"W_output"``, [width, width].
        Those left out are drawn.
    **settings
        See `visualizer.Settings`. Sizes left out are those of the vectors and weights.

    Raises
    ------
    InputError
        A `ValueError` that says what is invalid and how to correct it.
    """
    document = attention_document_of(text, vectors, weights or {}, settings)
    return _warned(Attention(document, ROOMY, run_of(document, None)))


def _warned(attention: Attention, notice: str = "") -> Attention:
    for said in filter(None, (notice, *attention.notices)):
        warnings.warn(said, stacklevel=3)
    return attention


def load(path: str | Path) -> Attention:
    """Open a file, computing its document unless the file holds the numbers.

    The file is a document or a picture with one embedded; attention of other programs or weights of
    the book's modules, in ``.npy``, ``.npz``, ``.safetensors`` and ``.pt``; or a ``.txt`` text.
    Notices about it are issued as warnings.

    Raises
    ------
    InputError
        When the file cannot be opened, or its content cannot be computed.
    """
    saved, notice = open_as_document(Path(path), Document())
    run, view = restore_document(saved, run_of)
    return _warned(Attention(saved.document, view, run), notice)


def _several(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attention:
    """An attention module computed on a text: its numbers, their explanations and figures.

    Or attention captured elsewhere, which has weights or scores alone.

    ``attention["weights"]`` reads a stage, read-only, with its named dims in the order of
    ``attention.dims("weights")``; in a batch the texts are the first axis, as are the layers
    where attention of several was opened.
    """

    document: Document
    view: View
    run: Run

    def __repr__(self) -> str:
        return f"<Attention: {caption(self.run)}>"

    def __getitem__(self, stage: str) -> np.ndarray:
        return self.run.trace.read(self._checked(stage))

    def __contains__(self, stage: object) -> bool:
        return stage in self.stages

    @property
    def stages(self) -> tuple[str, ...]:
        """The names of its stages, in order of computation."""
        return self.run.trace.names

    @property
    def tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens; of a batch, those of each text, padded to the longest.

        Tokens without a label are numbered, from 1.
        """
        return self.run.texts if len(self.run.texts) > 1 else self.run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens of the keys, which in captured attention may differ from the queries'."""
        return self.run.key_tokens or self.tokens

    @property
    def spec(self) -> AttentionSpec:
        """The spec computed: sizes, mask, scale and all other settings.

        Raises
        ------
        InputError
            Where attention was captured, so that its spec is unknown.
        """
        if not self.run.trace.has_module:
            sentence = f"{self.run.source} does not say which module computed it."
            raise InputError("spec", sentence)
        return self.run.trace.spec

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The weights and biases, by the names of the book's ``state_dict``; read-only."""
        return {name: self.run.trace.read(name) for name in self.run.trace.parameters}

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights as `attend` takes them: W_query [embedding_size, width], and so on."""
        names = self.run.trace.spec.weight_names
        return {name: weights_of(self.run.trace, name) for name in names}

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices about the numbers, as sentences."""
        return self.run.notices

    def dims(self, stage: str) -> tuple[str, ...]:
        """Return the axes of a stage: ``("head", "query", "key")`` for the weights."""
        return (*self.run.trace.axes, *self.run.trace.stage(self._checked(stage)).dims)

    def explain(self, stage: str, **place: int) -> Explained:
        """Explain how one number is computed.

        Parameters
        ----------
        **place : int
            Its indices, by the names of the stage's dims: ``head=0, query=2, key=1``. The head may
            be left out where there is one; the ``text`` of a batch and the ``layer`` default to the
            first.

        Raises
        ------
        InputError
            When there is no such stage or place.
        """
        trace = self.run.trace
        dims = trace.stage(self._checked(stage)).dims
        sizes = trace.tensor(stage).shape[-len(dims) :]
        axes = trace.counted_axes
        place = {**dict.fromkeys(axes, 0), **place}
        if trace.spec.heads == 1:
            place = {"head": 0, **place} if "head" in dims else place
        if place.keys() != {*axes, *dims}:
            raise InputError("place", f"The stage “{stage}” takes {', '.join(dims)}.")
        counts = ((axis, trace.count(axis)) for axis in axes)
        for dim, size in (*zip(dims, sizes, strict=True), *counts):
            if not 0 <= place[dim] < size:
                raise InputError("place", f"There is no {dim} {place[dim]}, only 0 to {size - 1}.")
        cell = Cell(stage, tuple(place[dim] for dim in dims))
        view = View(layer=place.get("layer", 0), text=place.get("text", 0))
        resolved = resolve(self.document, view, self.run)
        panel = head_cell_panel(resolved, cell, is_pinned=False)
        index = (*resolved.leading, *cell.place)
        return Explained(panel, float(trace.read(stage, index)))

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: Iterable[int] | None = None,
        *,
        text: int = 0,
        layer: int = 0,
        **look: Unpack[Look],
    ) -> Figure:
        """Make a figure of the heatmaps of some stages and heads; a notebook displays it.

        Parameters
        ----------
        stages : iterable of str, optional
            Scores, weights, weights after dropout and context by default.
        heads : iterable of int, optional
            From 0; all by default.
        text : int
            Index of the text in a batch.
        layer : int
            Index of the layer, where attention of several was opened.
        **look
            Colours, size, title: see `visualizer.Look`.

        Raises
        ------
        InputError
            When the module has no such stage or head, or such a figure is impossible.
        """
        shown = None if stages is None else named_stages(_several(stages))
        rows = None if heads is None else frozenset(heads)
        count = self.run.trace.spec.heads
        if rows and not rows <= {*range(count)}:
            raise InputError("heads", f"There is no head {max(rows)}, only 0 to {count - 1}.")
        view = with_parsed_stages_and_heads(
            self.run, replace(self.view, text=text, layer=layer), shown, rows
        )
        return Figure(Snapshot(self.document, view, self.run), figure_settings_of(look))

    def save(self, *paths: str | Path) -> None:
        """Write files, each in the format of its suffix; see `Figure.save`."""
        self.figure().save(*paths)

    def _checked(self, stage: str) -> str:
        if stage not in self.stages:
            raise InputError("stage", no_stage(self.run, stage))
        return stage
