"""Attaches the document to an exported PNG, SVG or PDF file, so that it can be reopened."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec.structs import replace

from visualizer.attention.roles import VECTOR_ROLES
from visualizer.documents.document_file import document_bytes
from visualizer.documents.embedded_document import (
    PDF_ATTACHMENT_NAME,
    PNG_KEYWORD,
    encode_pdf_attachment,
    encode_png_text,
    encode_svg_metadata,
)
from visualizer.errors import InputError
from visualizer.export.figure_settings import resolve_figure_view
from visualizer.format import format_size
from visualizer.heatmap.panel_colour_scale import choose_colour_scale
from visualizer.session.view_options import ColourLimits

if TYPE_CHECKING:
    from PySide6.QtGui import QImage, QPdfWriter

    from visualizer.attention.run import Run
    from visualizer.export.figure_settings import FigureSettings
    from visualizer.session.document import Document
    from visualizer.session.export_snapshot import ExportSnapshot
    from visualizer.session.resolved_view import ResolvedView
    from visualizer.session.view import View
    from visualizer.session.view_options import ColourOptions


MAX_ATTACHED_BYTES = 2**22
"""Maximum size of a document's arrays, in bytes; many programs read at most 8 MB of PNG text."""


def document_to_attach(snapshot: ExportSnapshot, figure_settings: FigureSettings) -> bytes:
    """Return the document to attach to a figure, without computed results.

    For captured attention, the document contains the layer that the figure shows, or all layers
    if `has_all_layers` is set. The result is empty if `carries_document` is not set or the arrays
    of the document are too large.

    Raises
    ------
    InputError
        With field ``all_layers`` if all layers are requested but are too large.
    """
    if not figure_settings.carries_document:
        return b""
    shown = (
        None
        if figure_settings.has_all_layers
        else _reduce_to_shown_layer(snapshot, figure_settings)
    )
    document, view = shown or (snapshot.document_with_data, snapshot.view)
    compared_document = view.comparison and view.comparison.document
    documents = (document, compared_document) if compared_document else (document,)
    size = sum(len(array) for document in documents for array in document.data_buffers())
    if size > MAX_ATTACHED_BYTES and figure_settings.has_all_layers:
        sentence = (
            f"The values of all layers take {format_size(size)}, but a figure can "
            f"embed at most {format_size(MAX_ATTACHED_BYTES)}. Save a document "
            "(.attention) instead."
        )
        raise InputError("all_layers", sentence)
    return b"" if size > MAX_ATTACHED_BYTES else document_bytes(document, view)


def max_embedded_layer_bytes(run: Run) -> int:
    """Return the maximum size of all embedded layers, in bytes, or 0 if there is only one layer."""
    trace = run.trace
    if trace.has_module or trace.is_blockwise or trace.axis_size("layer") < 2:
        return 0
    names = [name for name in (trace.attention_stage_name, *VECTOR_ROLES) if name in trace]
    numbers = sum(math.prod(trace.shape(name)) for name in names)
    # As base64.
    return numbers * trace.cached_stage_tensor(trace.attention_stage_name).dtype.itemsize * 4 // 3


def _reduce_to_shown_layer(
    snapshot: ExportSnapshot, figure_settings: FigureSettings
) -> tuple[Document, View] | None:
    """Return the document and view with only the layer that a figure shows.

    Return None if all layers are shown or if a layer cannot be extracted.
    """
    trace, view = snapshot.run.trace, snapshot.view
    if trace.has_module or trace.is_blockwise or view.comparison:
        return None
    shown = resolve_figure_view(snapshot, figure_settings)
    if (
        trace.axis_size("layer") < 2 or shown.view.spread
    ):  # several layers can be shown side by side
        return None
    layer = trace.axis_position("layer", shown.leading)
    document = snapshot.document.with_layer_data(snapshot.run, layer)
    if document is None:
        return None
    return document, replace(view, layer=0, colouring=_preserve_colours(shown, view.colouring))


def _preserve_colours(shown: ResolvedView, options: ColourOptions) -> ColourOptions:
    """Return colour options that preserve a layer's colours when the other layers are removed."""
    if options.limits is not ColourLimits.SHARED:
        return options
    trace, lens, limits = shown.run.trace, shown.view.lens, []
    for stage in shown.shown_stages:
        drawn = [(trace, trace.displayed_tensor(stage.name, lens))]
        colour = choose_colour_scale(drawn, stage, lens, options, [shown.leading])
        limits.append((stage.name, colour.low, colour.high))
    return replace(options, limits=ColourLimits.TYPED, typed=tuple(limits))


def attach_to_png(image: QImage, data: bytes) -> None:
    """Attach a document to a PNG as a text chunk."""
    if data:
        image.setText(PNG_KEYWORD, encode_png_text(data))


def attach_to_svg(svg: bytes, data: bytes) -> bytes:
    """Attach a document to an SVG as metadata, before the ``<defs>`` that Qt always writes."""
    if not data:
        return svg
    return svg.replace(b"<defs>", encode_svg_metadata(data).encode() + b"\n<defs>", 1)


def attach_to_pdf(writer: QPdfWriter, data: bytes) -> None:
    """Attach a document to a PDF as an embedded file."""
    if data:
        writer.addFileAttachment(PDF_ATTACHMENT_NAME, encode_pdf_attachment(data), "text/plain")
