"""Opens a model off the GUI thread, so that the window answers meanwhile.

Modules that load torch are imported where they are used.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import product
from threading import Thread
from typing import TYPE_CHECKING

from msgspec import Struct

from visualizer.attention.spec import Device, Dtype
from visualizer.attention.torch_library_loading import load_torch_library
from visualizer.garbage_collection import collect_garbage, left_out_of_collections
from visualizer.optional_packages import is_installed
from visualizer.progress_callback import no_progress
from visualizer.python_thread_for_qt_thread import on_python_thread

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.disk_reading_estimate import DiskReadingEstimate
    from visualizer.models.model_source import ModelSource
    from visualizer.progress_callback import Progress

LIBRARY = "transformers"


class ModelPlace(Struct, frozen=True):
    """Where a model would compute.

    Parameters
    ----------
    sentence : str
        The device and the type of its numbers, in words.
    room : int
        The bytes that a model may take there.
    """

    sentence: str
    room: int


class OpenedSource(Struct, frozen=True, eq=False):
    """A model that was opened to read a text.

    Parameters
    ----------
    other_text : str
        What it can read in place of the text; empty where it can read that.
    model : object
        What keeps it open until a run of it is there, which keeps it then.
    """

    source: ModelSource
    other_text: str
    model: object


def open_model_source(
    path: Path,
    device: Device,
    dtype: Dtype,
    text: str,
    progress: Progress = no_progress,
    *,
    is_from_disk: bool = False,
) -> OpenedSource:
    """Open a model to read a text.

    Parameters
    ----------
    text : str
        What it is to read.
    progress : Progress
        Called with the bytes of weights read and their total.
    is_from_disk : bool
        Whether its layers stay on the disk and are read one at a time.

    Raises
    ------
    InputError
        Of ``model``, when it cannot be opened.
    CancelledError
        As `progress` raises it; nothing of the model is kept.
    """
    return on_python_thread(partial(_open, path, device, dtype, text, progress, is_from_disk))


def check_device(device: Device, dtype: Dtype) -> None:
    """Reject a device that was chosen and cannot be used.

    Raises
    ------
    InputError
        Of ``device``.
    """
    on_python_thread(partial(_check_device, device, dtype))


def _check_device(device: Device, dtype: Dtype) -> None:
    load_torch_library()
    from visualizer.attention.device import check_available

    check_available(device, dtype)


def estimate_from_disk(path: Path, device: Device, dtype: Dtype) -> DiskReadingEstimate | None:
    """Return what reading a model from the disk takes; None where it need not, or cannot be.

    Raises
    ------
    InputError
        Of ``model``, when its files cannot be read.
    """
    from visualizer.models.disk_reading_estimate import disk_reading_estimate, why_not_from_disk
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import bytes_in_memory, read_model_folder

    if is_lab_model(path) or device not in {Device.AUTO, Device.CPU}:
        return None
    folder, places = read_model_folder(path, has_fingerprint=False), model_places()
    is_small = bytes_in_memory(folder.numbers, dtype) <= places[device, dtype].room
    if is_small or why_not_from_disk(folder):
        return None
    found = disk_reading_estimate(folder, dtype)
    return found if found.memory <= places[Device.CPU, dtype].room else None


class ServerChoice(Struct, frozen=True):
    """Which server of a model to connect to.

    Parameters
    ----------
    host, port, token
        Where it listens, and what requests are signed with.
    ssh : str
        The line that starts it through SSH, which says the rest; empty where it runs already.
    is_kept : bool or None
        Whether the token is kept in the system's store of secrets; None leaves that as it is.
    """

    host: str
    port: int
    token: str
    ssh: str = ""
    is_kept: bool | None = None


def connect_to_model(
    server: ServerChoice, text: str, progress: Progress = no_progress
) -> OpenedSource:
    """Connect to a model on a server, to read a text.

    Raises
    ------
    InputError
        Of ``host``, ``port``, ``token`` or ``ssh``, when it cannot be reached.
    CancelledError
        As `progress` raises it, or when it was left.
    """
    return on_python_thread(partial(_connect, server, text, progress), may_be_left=True)


def _connect(server: ServerChoice, text: str, progress: Progress) -> OpenedSource:
    from visualizer.models.model_client.server_by_ssh import ServerBySsh
    from visualizer.models.model_client.token_store import forget_token, store_token

    host, port, token, started = server.host, server.port, server.token, None
    if server.ssh:
        started = ServerBySsh(server.ssh, progress)
        host, port, token = "127.0.0.1", started.port, started.token
    try:
        load_torch_library()
        from visualizer.models.model_client.remote_model import connect_model

        model = connect_model(host, port, token, started, text)
        progress(0, 0)
    except BaseException:
        if started:
            started.close()
        raise
    if not server.ssh and server.is_kept is not None:  # by SSH the next token is another one
        keep = partial(store_token, token=token) if server.is_kept else forget_token
        # A store that is locked waits until someone unlocks it.
        Thread(target=keep, args=(model.server,), daemon=True).start()
    return OpenedSource(model.source, model.other_text_of(text), model)


def stored_token_of(host: str, port: int) -> str:
    """Return the token that the system keeps for a server; empty where none is."""
    from visualizer.models.model_client.token_store import stored_token

    return stored_token(f"{host}:{port}")


def has_token_store() -> bool:
    """Whether the system's store of secrets can be used."""
    from visualizer.models.model_client.token_store import has_store

    return has_store()


def forget_closed_models() -> None:
    """Forget what is kept, in this process and the tokenizers', for models that were closed."""
    reading = sys.modules.get("visualizer.models.text_reading")
    # While another thread imports the module, nothing has been opened.
    if forget := getattr(reading, "forget_closed_models", None):
        forget()


def has_library() -> bool:
    """Whether what opens models is installed."""
    return is_installed(LIBRARY)


def prepare_to_open() -> None:
    """Start what opening any model would wait for: while one is chosen there is time for it."""
    if has_library():
        from visualizer.models.tokenizer_process import tokenizer_process

        on_python_thread(tokenizer_process.start)


def model_places() -> dict[tuple[Device, Dtype], ModelPlace]:
    """Return where a model would compute, for each device and type that can be asked for."""
    return on_python_thread(_places)


def _places() -> dict[tuple[Device, Dtype], ModelPlace]:
    load_torch_library()
    from visualizer.attention import device as attention_device
    from visualizer.attention.run import USABLE

    places = {}
    for device, dtype in product(Device, Dtype):
        where, notice = attention_device.resolve(device, dtype)
        sentence = notice or f"Runs in {dtype} on {attention_device.NAMES[where]}."
        room = round(USABLE * attention_device.free_bytes(where))
        places[device, dtype] = ModelPlace(sentence, room)
    return places


def _open(
    path: Path, device: Device, dtype: Dtype, text: str, progress: Progress, is_from_disk: bool
) -> OpenedSource:
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import read_model_folder
    from visualizer.models.tokenizer_process import tokenizer_process

    if not is_lab_model(path):
        read_model_folder(path, has_fingerprint=False)  # what is wrong with it is said at once
        tokenizer_process.start()  # its imports take as long as those here
    load_torch_library()
    if LIBRARY not in sys.modules:  # elsewhere: what imports leave behind would hold this frame
        on_python_thread(partial(_import_library, progress))
    from visualizer.models.text_reading import open_source, other_text_of

    source, model = open_source(path, device, dtype, progress, is_from_disk=is_from_disk)
    return OpenedSource(source, other_text_of(model, text), model)


def _import_library(progress: Progress) -> None:
    """Import transformers, in parts between which it may be cancelled."""
    collect_garbage()  # or it would stay with what the imports make
    with left_out_of_collections(), suppress(ImportError):  # said where it is used
        for name in ("visualizer.attention.run", LIBRARY):
            progress(0, 0)
            import_module(name)
        library = import_module(LIBRARY)
        progress(0, 0)
        library.PreTrainedModel  # noqa: B018 - imported by being asked for
