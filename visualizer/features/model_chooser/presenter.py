"""Presenter of the model dialog: the local models, the download and the progress of an action."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from msgspec import Struct, field

from visualizer.attention.spec import Device, ModelDtype
from visualizer.format import format_count
from visualizer.models.model_folder import choose_model_dtype, parameter_bytes
from visualizer.optional_packages import missing_package_message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from visualizer.models.cached_models import LocalModelEntry
    from visualizer.models.download_plan import DownloadPlan
    from visualizer.session.model_opening import DeviceChoice

COLUMN_TITLES = ("Name", "Architecture", "Layers × heads", "Size", "Parameters")
LISTING_MESSAGE = "Searching for models…"
EMPTY_FOLDER_MESSAGE = (
    "No models found in this folder. Choose another folder, or download a model below."
)
UNKNOWN_VALUE = "–"
IMPORTING_MESSAGE = "Loading transformers…"
DOWNLOADED_MESSAGE = "Download complete. Select the model above to open it."
CANCELLING_MESSAGE = "Cancelling…"


class ModelActivity(Enum):
    """The action in progress."""

    NONE = auto()
    OPENING = auto()
    LOOKING_UP = auto()
    DOWNLOADING = auto()


class ModelChooserState(Struct, frozen=True):
    """State of the model dialog.

    Parameters
    ----------
    cache : Path
        The folder with the listed models.
    models : tuple of LocalModelEntry or None
        The models found; None until they have been listed.
    device_choices : mapping
        Device and free memory, keyed by the chosen device and data type.
    has_library : bool
        Whether transformers is installed.
    selected : Path or None
        Folder of the selected model.
    subject : str
        Name of the model that the action in progress concerns.
    done, total : int
        Bytes read or downloaded, and the total; the total is 0 until it is known.
    problem : str
        Why the last model could not be opened or downloaded.
    on_disk : Path or None
        Folder of a model that is larger than memory but can be streamed from disk.
    estimate : str
        Description of the cost of streaming this model from disk.
    repository : str
        Name of the repository to download, as entered.
    offer : str
        Description of the download; empty until the repository has been looked up.
    offered_bytes : int
        Number of bytes to download.
    """

    cache: Path
    models: tuple[LocalModelEntry, ...] | None = None
    device_choices: Mapping[tuple[Device, ModelDtype], DeviceChoice] = field(default_factory=dict)
    has_library: bool = True
    selected: Path | None = None
    device: Device = Device.AUTO
    dtype: ModelDtype = ModelDtype.AUTO
    activity: ModelActivity = ModelActivity.NONE
    is_cancelling: bool = False
    subject: str = ""
    done: int = 0
    total: int = 0
    problem: str = ""
    on_disk: Path | None = None
    estimate: str = ""
    repository: str = ""
    offer: str = ""
    offered_bytes: int = 0


class ModelRow(Struct, frozen=True):
    """A row of the model list.

    Parameters
    ----------
    cells : tuple of str
        The text for each of `COLUMN_TITLES`.
    note : str
        Why the model cannot be opened, or a warning; otherwise empty.
    """

    path: Path
    cells: tuple[str, ...]
    can_open: bool
    note: str

    @property
    def description(self) -> str:
        """Description of the row for screen readers."""
        name, kind, shape, size, numbers = self.cells
        known = f"{kind}, {shape} layers and heads, {numbers} parameters, " if self.can_open else ""
        return f"{name}: {known}{size}. {self.note}".strip()


class ModelChooserPanel(Struct, frozen=True):
    """Contents of the model dialog.

    Parameters
    ----------
    message : str
        Text that replaces an empty list; empty if there are rows.
    selected : int
        Index of the selected row; −1 if no row is selected.
    note : str
        Note on the selected model; empty if an error message is shown instead.
    device_note : str
        Sentence that names the device and the memory that models use.
    progress : float or None
        Progress from 0 to 1; None while it is unknown.
    status : str
        Description of the action in progress; empty if idle.
    download : str
        Label of the download button.
    estimate : str
        Description of the cost of streaming the model from disk; empty if this is not offered.
    """

    rows: tuple[ModelRow, ...]
    message: str
    selected: int
    note: str
    device_note: str
    device: Device
    dtype: ModelDtype
    problem: str
    is_working: bool
    progress: float | None
    status: str
    can_cancel: bool
    can_open: bool
    can_choose: bool
    repository: str
    offer: str
    download: str
    can_download: bool
    estimate: str = ""


def present_model_chooser(state: ModelChooserState) -> ModelChooserPanel:
    """Return the contents of the model dialog."""
    choice = state.device_choices.get((state.device, state.dtype))
    rows = tuple(_build_model_row(model, state.dtype, choice) for model in state.models or ())
    at = next((at for at, row in enumerate(rows) if row.path == state.selected), -1)
    is_working = state.activity is not ModelActivity.NONE
    may_act = state.has_library and not is_working
    message = "" if rows or is_working else EMPTY_FOLDER_MESSAGE
    if state.models is None:
        message = LISTING_MESSAGE
    return ModelChooserPanel(
        rows,
        message if state.has_library else missing_package_message("transformers", "Opening models"),
        at,
        rows[at].note if at >= 0 and not state.problem else "",
        choice.sentence if choice else "",
        state.device,
        state.dtype,
        state.problem,
        is_working,
        min(1.0, state.done / state.total) if state.total else None,
        _describe_activity(state),
        is_working and not state.is_cancelling,
        may_act and at >= 0 and rows[at].can_open,
        may_act,
        state.repository,
        state.offer,
        f"Download {format_bytes(state.offered_bytes)}" if state.offered_bytes else "Download",
        may_act and bool(state.repository.strip()),
        state.estimate if may_act else "",
    )


def _build_model_row(
    model: LocalModelEntry, dtype: ModelDtype, choice: DeviceChoice | None
) -> ModelRow:
    shape = f"{model.layers:,} × {model.heads:,}" if model.layers and model.heads else UNKNOWN_VALUE
    size = format_bytes(model.bytes) if model.bytes else UNKNOWN_VALUE
    cells = (
        model.name,
        model.kind or UNKNOWN_VALUE,
        shape,
        size,
        format_parameters(model.parameters),
    )
    note = model.unavailable_reason
    if not note and choice:
        computed_in = choose_model_dtype(dtype, model.stored_dtype, model.parameters, choice.room)
        needed = parameter_bytes(model.parameters, computed_in)
        if needed > choice.room:
            room = format_bytes(choice.room)
            note = f"Requires {format_bytes(needed)} in {computed_in}; {room} is available."
    note = note or model.notice
    return ModelRow(model.path, cells, not model.unavailable_reason, note)


def format_parameters(count: int) -> str:
    """Format a parameter count with a unit, such as 135 M or 7.2 B."""
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if count >= size:
            share = count / size
            return f"{share:,.1f} {unit}" if share < 10 else f"{share:,.0f} {unit}"
    return str(count) if count else UNKNOWN_VALUE


def describe_download(offer: DownloadPlan) -> str:
    """Describe the size and the destination of a download."""
    count = format_count(len(offer.files), "file")
    free = f"{format_bytes(offer.free)} free in {offer.folder.parent}."
    if not offer.missing:
        return (
            f"All {count} of {offer.repository} are already downloaded. Press Download to list "
            "the model above."
        )
    there = offer.bytes - offer.missing
    begun = f" ({format_bytes(there)} already downloaded)" if there else ""
    return f"{offer.repository}: {count}, {format_bytes(offer.missing)}{begun}. {free}"


def _describe_activity(state: ModelChooserState) -> str:
    if state.activity is ModelActivity.NONE:
        return ""
    if state.is_cancelling:
        return CANCELLING_MESSAGE
    if state.activity is ModelActivity.LOOKING_UP:
        return f"Looking up {state.subject}…"
    is_opening = state.activity is ModelActivity.OPENING
    doing = "Opening" if is_opening else "Downloading"
    if not state.total:
        return f"{doing} {state.subject}" + (f". {IMPORTING_MESSAGE}" if is_opening else "…")
    return f"{doing} {state.subject}: {format_progress(state.done, state.total)}"


_UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
"""Decimal units of bytes, which Hugging Face also uses."""


def format_progress(done: int, total: int) -> str:
    """Format two byte counts, both in the unit of the second count, such as 120 of 538 MB."""
    for unit, size in _UNITS:
        if total >= size:
            decimals = 1 if total < 10 * size else 0
            return f"{done / size:,.{decimals}f} of {total / size:,.{decimals}f} {unit}"
    return f"{done} of {total} bytes"


def format_bytes(count: int) -> str:
    """Format a byte count in the units of `format_progress`, such as 538 MB."""
    return format_progress(0, count).partition(" of ")[2]
