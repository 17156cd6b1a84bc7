"""Opens a model off the GUI thread, so that the window stays responsive.

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
from visualizer.attention.torch_preload import load_torch_library
from visualizer.optional_packages import is_installed
from visualizer.progress import no_progress
from visualizer.runtime import collect_garbage, left_out_of_collections, on_python_thread

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.disk_reading_estimate import DiskReadingEstimate
    from visualizer.models.model_source import ModelSource
    from visualizer.progress import Progress

LIBRARY = "transformers"


class ModelPlace(Struct, frozen=True):
    """Device and number type that a model would use.

    Parameters
    ----------
    sentence : str
        Description of the device and the number type.
    room : int
        Memory available to a model there, in bytes.
    """

    sentence: str
    room: int


class OpenedSource(Struct, frozen=True, eq=False):
    """A model that was opened to run on a text.

    Parameters
    ----------
    other_text : str
        A text that the model can process instead of the given one; empty if it accepts that.
    model : object
        Keeps the model open until a run of it exists, which then keeps it open.
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
    """Open a model to run it on a text.

    Parameters
    ----------
    text : str
        The text to run the model on.
    progress : Progress
        Called with the bytes of weights read and their total.
    is_from_disk : bool
        Whether the layers stay on disk and are loaded one at a time.

    Raises
    ------
    InputError
        For ``model``, if it cannot be opened.
    CancelledError
        If `progress` raises it; no part of the model is kept.
    """
    return on_python_thread(
        partial(_open_source, path, device, dtype, text, progress, is_from_disk)
    )


def check_device(device: Device, dtype: Dtype) -> None:
    """Reject a chosen device that is not available.

    Raises
    ------
    InputError
        For ``device``.
    """
    on_python_thread(partial(_check_device, device, dtype))


def _check_device(device: Device, dtype: Dtype) -> None:
    load_torch_library()
    from visualizer.attention.device import check_available

    check_available(device, dtype)


def estimate_from_disk(path: Path, device: Device, dtype: Dtype) -> DiskReadingEstimate | None:
    """Estimate the cost of streaming a model from disk; None if unnecessary or impossible.

    Raises
    ------
    InputError
        For ``model``, if its files cannot be read.
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
    """Model server to connect to.

    Parameters
    ----------
    host, port, token
        Address of the server, and the token that signs requests.
    ssh : str
        Command that starts the server over SSH and provides the rest; empty if it is running.
    is_kept : bool or None
        Whether to store the token in the system keyring; None leaves the keyring unchanged.
    """

    host: str
    port: int
    token: str
    ssh: str = ""
    is_kept: bool | None = None


def connect_to_model(
    server: ServerChoice, text: str, progress: Progress = no_progress
) -> OpenedSource:
    """Connect to a model on a server to run it on a text.

    Raises
    ------
    InputError
        For ``host``, ``port``, ``token`` or ``ssh``, if the server cannot be reached.
    CancelledError
        If `progress` raises it, or if the connection is abandoned.
    """
    return on_python_thread(partial(_connect_to_server, server, text, progress), may_be_left=True)


def _connect_to_server(server: ServerChoice, text: str, progress: Progress) -> OpenedSource:
    from visualizer.models.model_client.ssh_server import ServerBySsh
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
    if not server.ssh and server.is_kept is not None:  # over SSH, each start uses a new token
        keep = partial(store_token, token=token) if server.is_kept else forget_token
        # Access to a locked keyring blocks until the user unlocks it.
        Thread(target=keep, args=(model.server,), daemon=True).start()
    return OpenedSource(model.source, model.other_text_of(text), model)


def stored_token_of(host: str, port: int) -> str:
    """Return the token stored in the system keyring for a server; empty if there is none."""
    from visualizer.models.model_client.token_store import stored_token

    return stored_token(f"{host}:{port}")


def has_token_store() -> bool:
    """Whether the system keyring is available."""
    from visualizer.models.model_client.token_store import has_store

    return has_store()


def forget_closed_models() -> None:
    """Clear the caches of closed models in this process and the tokenizer process."""
    reading = sys.modules.get("visualizer.models.text_reading")
    # While another thread is still importing the module, no model has been opened.
    if forget := getattr(reading, "forget_closed_models", None):
        forget()


def has_library() -> bool:
    """Whether the library that opens models is installed."""
    return is_installed(LIBRARY)


def prepare_to_open() -> None:
    """Start the imports that opening a model needs, while the user is choosing one."""
    if has_library():
        from visualizer.models.tokenizer_process import tokenizer_process

        on_python_thread(tokenizer_process.start)


def model_places() -> dict[tuple[Device, Dtype], ModelPlace]:
    """Return the place of computation for each device and number type that can be chosen."""
    return on_python_thread(_find_places)


def _find_places() -> dict[tuple[Device, Dtype], ModelPlace]:
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


def _open_source(
    path: Path, device: Device, dtype: Dtype, text: str, progress: Progress, is_from_disk: bool
) -> OpenedSource:
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import read_model_folder
    from visualizer.models.tokenizer_process import tokenizer_process

    if not is_lab_model(path):
        read_model_folder(path, has_fingerprint=False)  # reports a damaged model immediately
        tokenizer_process.start()  # its imports take as long as the imports here
    load_torch_library()
    if (
        LIBRARY not in sys.modules
    ):  # on another thread, as garbage of the imports would keep this frame alive
        on_python_thread(partial(_import_library, progress))
    from visualizer.models.text_reading import open_source, other_text_of

    source, model = open_source(path, device, dtype, progress, is_from_disk=is_from_disk)
    return OpenedSource(source, other_text_of(model, text), model)


def _import_library(progress: Progress) -> None:
    """Import transformers in steps between which the import can be cancelled."""
    collect_garbage()  # otherwise it would be frozen together with the imported objects
    with left_out_of_collections(), suppress(ImportError):  # reported when it is used
        for name in ("visualizer.attention.run", LIBRARY):
            progress(0, 0)
            import_module(name)
        library = import_module(LIBRARY)
        progress(0, 0)
        library.PreTrainedModel  # noqa: B018 - the attribute access imports it
