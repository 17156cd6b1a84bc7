"""What a shell and a notebook share: a document is computed, and files are written of it.

Qt draws without a screen. What is heavy is loaded when it is needed, not before.
"""

from __future__ import annotations

import gc
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from visualizer.documents.document_file import SavedDocument
from visualizer.documents.open_document import DocumentChange, open_document
from visualizer.documents.sentence_file import text_in
from visualizer.errors import InputError
from visualizer.session.view import View

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Protocol

    from visualizer.attention.buffer_pool import BufferPool
    from visualizer.attention.run import Run, Texts
    from visualizer.attention.spec import AttentionSpec
    from visualizer.session.document import Document

if TYPE_CHECKING:

    class Compute(Protocol):
        """Computes a document, keeping of the last run what did not change."""

        def __call__(self, document: Document, previous: Run | None) -> Run: ...


ROOMY = View(room=512)
"""The usual view, with more room in it than a window has."""
TENSOR_FILES = frozenset({".npy", ".npz", ".safetensors", ".pt", ".pth", ".bin"})
"""How the names of files end that hold numbers of others."""


def compute(document: Document, previous: Run | None) -> Run:
    """Compute a document; for the worker.

    torch is imported here, on the worker, so that the window is there before it.
    """
    from visualizer.attention.run import share_cores

    _leave_out_of_collections()
    return run_of(document, previous, share_cores, kept_memory())


def rest() -> None:
    """Give back memory that was kept to compute faster; for the worker, when nothing is asked."""
    if kept_memory.cache_info().currsize:
        kept_memory().release()


@cache
def kept_memory() -> BufferPool:
    """Give the memory that all windows' large tensors share, one after another."""
    from visualizer.attention.buffer_pool import BufferPool

    return BufferPool()


def run_of(
    document: Document,
    previous: Run | None,
    prepare: Callable[[Texts, AttentionSpec], None] | None = None,
    pool: BufferPool | None = None,
) -> Run:
    """Compute a document, or show the attention that was opened in its place.

    Parameters
    ----------
    prepare : callable, optional
        Told of what will be computed, before it is.
    pool : BufferPool, optional
        Where large tensors get their memory from.
    """
    from visualizer.attention.run import run
    from visualizer.attention.stored_run import captured_run
    from visualizer.session.captured_labels import typed_labels

    if document.captured:
        return captured_run(document.captured, *typed_labels(document), previous)
    texts = document.tokens()
    if prepare:
        prepare(texts, document.spec)
    return run(texts, document.spec, previous, pool)


def read_file(path: Path, document: Document) -> SavedDocument | DocumentChange:
    """Read any file that can be opened: a document, or what changes the one that is there.

    Raises
    ------
    InputError
        Of ``open``, with what is wrong with the file and what to do about it.
    """
    suffix = path.suffix.lower()
    if suffix == ".txt":
        return DocumentChange(document.set("text", text_in(path)))
    return _tensors(path, document) if suffix in TENSOR_FILES else open_document(path)


def open_as_document(path: Path, document: Document) -> tuple[SavedDocument, str]:
    """Open any file as if it were a document, and give what must be said of it."""
    found = read_file(path, document)
    if isinstance(found, DocumentChange):
        return SavedDocument(found.document, ROOMY), found.notice
    return found, ""


def restore_document(saved: SavedDocument, compute: Compute) -> tuple[Run, View]:
    """Give the run of what was saved, and its view with the A of a comparison in its place.

    What was recorded is not computed. Of a recorded run nothing has been read yet: who shows it
    reads what the view needs.

    Raises
    ------
    InputError
        When what has to be computed cannot be; for a comparison's A that cannot be, there is no
        comparison.
    """
    from visualizer.attention.stored_run import recorded_run

    view = _with_a(saved, compute)
    if saved.recorded:
        return recorded_run(saved.document.spec, saved.recorded), view
    kept = view.comparison.kept if view.comparison else None
    return compute(saved.document, kept), view


def _with_a(saved: SavedDocument, compute: Compute) -> View:
    from visualizer.attention.stored_run import recorded_run

    view, comparison = saved.view, saved.view.comparison
    if comparison is None or comparison.against != "kept" or comparison.document is None:
        return view
    alone = replace(view, comparison=None)
    try:
        if saved.kept:
            kept = recorded_run(comparison.document.spec, saved.kept)
        else:
            kept = compute(comparison.document, None)
    except InputError:
        return alone
    return replace(view, comparison=replace(comparison, kept=kept))


def _tensors(path: Path, document: Document) -> DocumentChange:
    from visualizer.attention.captured import CapturedAttention
    from visualizer.attention.importers.registry import read_tensor_file

    found, notice = read_tensor_file(path, document.spec)
    if isinstance(found, CapturedAttention):
        return DocumentChange(document.set("captured", found), notice)
    return DocumentChange(replace(document.set("captured", None), spec=found), notice)


@cache
def _leave_out_of_collections() -> None:
    # What torch's import has made is there for good; looking through it for garbage would hold
    # up the window for tens of milliseconds, again and again.
    gc.freeze()
