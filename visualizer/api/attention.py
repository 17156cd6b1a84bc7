"""For notebooks and scripts: compute, read, explain, draw and write, without a window.

Places are counted from 0, as in numpy; the sentences, made for readers, count from 1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.api.notebook_output import Explained, Figure
from visualizer.api.settings_input import Look, Settings, document_given, look_given
from visualizer.attention.kept_weights import weights_of
from visualizer.errors import InputError
from visualizer.features.cell.model import present_readout
from visualizer.services import ROOMY, open_as_document, restore_document, run_of
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.resolved_view import resolve
from visualizer.session.run_caption import caption
from visualizer.session.screen import Snapshot
from visualizer.session.stage_and_head_parsing import looked_at, named_stages, no_stage
from visualizer.session.view import View

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

    torch's own state of chance, its number of threads and its settings stay as they are.

    Parameters
    ----------
    text : str or sequence of str, optional
        Several texts are a batch. Without one it is the book's sentence, or as many numbered
        places as there are vectors.
    vectors : array_like, optional
        [token, embedding_size], instead of those drawn for the text's tokens.
    weights : mapping of str to array_like, optional
        Among ``"W_query"``, ``"W_key"``, ``"W_value"``, [embedding_size, width] with all heads
        side by side, so that queries are ``x @ W_query``; and ``"W_output"``, [width, width].
        Those left out are drawn.
    **settings
        See `visualizer.Settings`. Sizes that are left out are those of the vectors and weights.

    Raises
    ------
    InputError
        A `ValueError` whose sentence says what cannot be used and what to do about it.
    """
    document = document_given(text, vectors, weights or {}, settings)
    return _warned(Attention(document, ROOMY, run_of(document, None)))


def _warned(attention: Attention, notice: str = "") -> Attention:
    for said in filter(None, (notice, *attention.notices)):
        warnings.warn(said, stacklevel=3)
    return attention


def load(path: str | Path) -> Attention:
    """Open a file, and compute what is in it unless it holds its numbers.

    That is a document or a picture that has one in it; attention of other programs, or weights of
    the book's modules, in ``.npy``, ``.npz``, ``.safetensors`` and ``.pt``; or a text in ``.txt``.
    What must be known of it is a warning.

    Raises
    ------
    InputError
        When the file cannot be opened, or what is in it cannot be computed.
    """
    saved, notice = open_as_document(Path(path), Document())
    run, view = restore_document(saved, run_of)
    return _warned(Attention(saved.document, view, run), notice)


def _several(names: Iterable[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Attention:
    """A module that was computed on a text: its numbers, where they come from, and pictures.

    Or attention that was computed elsewhere, of which there are weights or scores alone.

    ``attention["weights"]`` reads a stage, read-only, with its named dims in the order of
    ``attention.dims("weights")``; in a batch the texts are the first axis, and the layers are
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
        """The names of its stages, in the order of the computation."""
        return self.run.trace.names

    @property
    def tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens; of a batch, those of each text, padded to the longest.

        Places of which no token is known are numbered, from 1.
        """
        is_batch = self.run.trace.batch and not self.run.captured
        return self.run.texts if is_batch else self.run.texts[0]

    @property
    def key_tokens(self) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        """The tokens that are read, which in opened attention may be others than read."""
        return self.run.key_tokens or self.tokens

    @property
    def spec(self) -> AttentionSpec:
        """What was computed: sizes, mask, scale and all else.

        Raises
        ------
        InputError
            Where it was computed elsewhere, and so is not known.
        """
        if self.run.captured:
            sentence = f"{self.run.captured.called} does not say which module computed it."
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
        """What a reader of the numbers should know, in sentences."""
        return self.run.notices

    def dims(self, stage: str) -> tuple[str, ...]:
        """Name the axes of a stage: ``("head", "query", "key")`` of the weights."""
        batch = (self.run.part,) if self.run.trace.batch else ()
        return (*batch, *self.run.trace.stage(self._checked(stage)).dims)

    def explain(self, stage: str, **place: int) -> Explained:
        """Say in words how one number arose.

        Parameters
        ----------
        **place : int
            Where it is, by the names of the stage's dims: ``head=0, query=2, key=1``. The head
            may be left out where there is one, and the ``text`` of a batch, or the ``layer``,
            where it is the first.

        Raises
        ------
        InputError
            When there is no such stage or place.
        """
        dims = self.run.trace.stage(self._checked(stage)).dims
        place = {self.run.part: 0, **place}
        if self.run.trace.spec.heads == 1:
            place = {"head": 0, **place} if "head" in dims else place
        if place.keys() != {self.run.part, *dims}:
            raise InputError("place", f"The stage “{stage}” takes {', '.join(dims)}.")
        sizes = self.run.trace.tensor(stage).shape[-len(dims) :]
        for dim, size in (*zip(dims, sizes, strict=True), (self.run.part, len(self.run.texts))):
            if not 0 <= place[dim] < size:
                raise InputError("place", f"There is no {dim} {place[dim]}, only 0 to {size - 1}.")
        cell, text = Cell(stage, tuple(place[dim] for dim in dims)), place[self.run.part]
        resolved = resolve(self.document, View(text=text), self.run)
        readout = present_readout(resolved, cell, is_pinned=False)
        index = (*self.run.index(text), *cell.place)
        return Explained(readout, float(self.run.trace.read(stage, index)))

    def figure(
        self,
        stages: Iterable[str] | None = None,
        heads: Iterable[int] | None = None,
        *,
        text: int = 0,
        layer: int = 0,
        **look: Unpack[Look],
    ) -> Figure:
        """Lay out the heatmaps of some stages and heads; a notebook shows them by itself.

        Parameters
        ----------
        stages : iterable of str, optional
            Scores, weights, weights after dropout and context where they are left out.
        heads : iterable of int, optional
            From 0; all where they are left out.
        text : int
            Which text of a batch.
        layer : int
            Which layer, where attention of several was opened.
        **look
            Colours, size, title: see `visualizer.Look`.

        Raises
        ------
        InputError
            When the module has no such stage or head, or there can be no such figure.
        """
        shown = None if stages is None else named_stages(_several(stages))
        rows = None if heads is None else frozenset(heads)
        at = layer if self.run.captured else text
        count = self.run.trace.spec.heads
        if rows and not rows <= {*range(count)}:
            raise InputError("heads", f"There is no head {max(rows)}, only 0 to {count - 1}.")
        view = looked_at(self.run, replace(self.view, text=at), shown, rows)
        return Figure(Snapshot(self.document, view, self.run), look_given(look))

    def save(self, *paths: str | Path) -> None:
        """Write files, each in the format that its name asks for; see `Figure.save`."""
        self.figure().save(*paths)

    def _checked(self, stage: str) -> str:
        if stage not in self.stages:
            raise InputError("stage", no_stage(self.run, stage))
        return stage
