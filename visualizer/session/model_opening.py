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

from visualizer.attention.spec import Device, ModelDtype
from visualizer.attention.torch_preload import load_torch_library
from visualizer.optional_packages import is_installed
from visualizer.process_settings import (
    collect_garbage,
    exclude_from_garbage_collection,
    run_in_thread,
)
from visualizer.progress import ignore_progress

if TYPE_CHECKING:
    from pathlib import Path

    from visualizer.models.disk_streaming_estimate import DiskStreamingEstimate
    from visualizer.models.model_source import ModelSource
    from visualizer.progress import Progress

MODEL_PACKAGE = "transformers"


class DeviceChoice(Struct, frozen=True):
    """Device and number type that a model would use.

    Parameters
    ----------
    sentence : str
        Description of the device and the number type.
    room : int
        Memory available to a model on this device, in bytes.
    """

    sentence: str
    room: int


class OpenedModelSource(Struct, frozen=True, eq=False):
    """A model that was opened to run on a text.

    Parameters
    ----------
    other_text : str
        A text that the model can process if it rejects the given one; empty if the model accepts
        it.
    model : object
        Keeps the model open until a run of it exists, which then keeps it open.
    """

    source: ModelSource
    other_text: str
    model: object


def open_model_source(
    path: Path,
    device: Device,
    dtype: ModelDtype,
    text: str,
    progress: Progress = ignore_progress,
    *,
    is_from_disk: bool = False,
) -> OpenedModelSource:
    """Open a model to run it on a text.

    Parameters
    ----------
    text : str
        The text to run the model on.
    progress : Progress
        Called with the number of weight bytes that have been read, and with the total.
    is_from_disk : bool
        Whether the layers stay on disk and are loaded one at a time.

    Raises
    ------
    InputError
        With field ``model`` if the model cannot be opened.
    CancelledError
        If `progress` raises it; no part of the model is kept.
    """
    return run_in_thread(partial(_open_source, path, device, dtype, text, progress, is_from_disk))


def check_device(device: Device, dtype: ModelDtype) -> None:
    """Raise an error if a device is not available.

    Raises
    ------
    InputError
        With field ``device``.
    """
    run_in_thread(partial(_check_device, device, dtype))


def _check_device(device: Device, dtype: ModelDtype) -> None:
    load_torch_library()
    from visualizer.attention.device import check_device_available

    check_device_available(device, dtype)


def estimate_disk_streaming(
    path: Path, device: Device, dtype: ModelDtype
) -> DiskStreamingEstimate | None:
    """Estimate the cost of streaming a model from disk, or return None if it is not streamed.

    Raises
    ------
    InputError
        With field ``model`` if its files cannot be read.
    """
    from visualizer.models.disk_streaming_estimate import (
        estimate_disk_streaming,
        no_disk_streaming_reason,
    )
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import (
        choose_model_dtype,
        parameter_bytes,
        read_model_folder,
    )

    if is_lab_model(path) or device not in {Device.AUTO, Device.CPU}:
        return None
    folder, places = read_model_folder(path, has_fingerprint=False), device_choices()
    room = places[device, dtype].room
    computed_in = choose_model_dtype(dtype, folder.stored_dtype, folder.parameters, room)
    is_small = parameter_bytes(folder.parameters, computed_in) <= room
    if is_small or no_disk_streaming_reason(folder):
        return None
    found = estimate_disk_streaming(folder, computed_in)
    return found if found.memory <= places[Device.CPU, dtype].room else None


class ServerConnectionSettings(Struct, frozen=True):
    """The model server to connect to.

    Parameters
    ----------
    address : str
        Host and port of the server, or the path of its Unix socket.
    token : str
        Access token that signs the requests.
    ssh : str
        Command that starts the server over SSH and provides the other values; empty if the server
        is already running.
    is_kept : bool or None
        Whether to store the token in the system keyring; None leaves the keyring unchanged.
    """

    address: str
    token: str
    ssh: str = ""
    is_kept: bool | None = None


def connect_to_model(
    server: ServerConnectionSettings, text: str, progress: Progress = ignore_progress
) -> OpenedModelSource:
    """Connect to a model on a server to run it on a text.

    Raises
    ------
    InputError
        With field ``server``, ``token`` or ``ssh`` if the server cannot be reached.
    CancelledError
        If `progress` raises it, or if the connection is abandoned.
    """
    return run_in_thread(partial(_connect_to_server, server, text, progress), can_abandon=True)


def _connect_to_server(
    server: ServerConnectionSettings, text: str, progress: Progress
) -> OpenedModelSource:
    from visualizer.models.model_client.access_token_store import (
        delete_access_token,
        store_access_token,
    )
    from visualizer.models.model_client.ssh_server import SshModelServer

    address, token, started = server.address, server.token, None
    if server.ssh:
        started = SshModelServer(server.ssh, progress)
        address, token = started.address, started.token
    try:
        load_torch_library()
        from visualizer.models.model_client.remote_model import connect_to_model_server

        model = connect_to_model_server(address, token, started, text)
        progress(0, 0)
    except BaseException:
        if started:
            started.close()
        raise
    if not server.ssh and server.is_kept is not None:  # over SSH, each start uses a new token
        keep = partial(store_access_token, token=token) if server.is_kept else delete_access_token
        # Access to a locked keyring blocks until the user unlocks it.
        Thread(target=keep, args=(model.server_address,), daemon=True).start()
    return OpenedModelSource(model.source, model.fallback_text(text), model)


def stored_server_token(address: str) -> str:
    """Return the token stored in the system keyring for a server, or an empty string."""
    from visualizer.models.model_client.access_token_store import load_access_token

    return load_access_token(address)


def has_token_store() -> bool:
    """Return whether the system keyring is available."""
    from visualizer.models.model_client.access_token_store import has_store

    return has_store()


def forget_closed_models() -> None:
    """Clear the caches of closed models in this process and the tokenizer process."""
    reading = sys.modules.get("visualizer.models.model_text_runs")
    # While another thread is still importing the module, no model has been opened.
    if forget := getattr(reading, "forget_closed_models", None):
        forget()


def can_open_models() -> bool:
    """Return whether the library that opens models is installed."""
    return is_installed(MODEL_PACKAGE)


def start_importing_model_library() -> None:
    """Start importing what is needed to open a model while the user is choosing one."""
    if can_open_models():
        from visualizer.models.tokenizer_process import tokenizer_process

        run_in_thread(tokenizer_process.start)


def device_choices() -> dict[tuple[Device, ModelDtype], DeviceChoice]:
    """Return where a model would run, for each combination of device and dtype."""
    return run_in_thread(_resolve_device_choices)


def _resolve_device_choices() -> dict[tuple[Device, ModelDtype], DeviceChoice]:
    load_torch_library()
    from visualizer.attention import device as attention_device
    from visualizer.attention.run import usable_bytes

    places = {}
    for device, dtype in product(Device, ModelDtype):
        where, notice = attention_device.resolve_device(device, dtype)
        is_automatic = dtype is ModelDtype.AUTO
        name = attention_device.DEVICE_NAMES[where]
        runs = f"Runs on {name}, in {ModelDtype.FLOAT32} if it fits in memory."
        sentence = notice or (runs if is_automatic else f"Runs in {dtype} on {name}.")
        room = round(usable_bytes(where))
        places[device, dtype] = DeviceChoice(sentence, room)
    return places


def _open_source(
    path: Path, device: Device, dtype: ModelDtype, text: str, progress: Progress, is_from_disk: bool
) -> OpenedModelSource:
    from visualizer.models.lab_model_files import is_lab_model
    from visualizer.models.model_folder import read_model_folder
    from visualizer.models.tokenizer_process import tokenizer_process

    if not is_lab_model(path):
        read_model_folder(path, has_fingerprint=False)  # reports a damaged model immediately
        tokenizer_process.start()  # its imports take as long as the imports here
    load_torch_library()
    # The library is imported on another thread, because garbage from the imports would keep this
    # frame alive.
    if MODEL_PACKAGE not in sys.modules:
        run_in_thread(partial(_import_transformers, progress))
    from visualizer.models.model_text_runs import open_model_folder, replacement_text

    source, model = open_model_folder(path, device, dtype, progress, is_from_disk=is_from_disk)
    return OpenedModelSource(source, replacement_text(model, text), model)


def _import_transformers(progress: Progress) -> None:
    """Import transformers in several steps; the import can be cancelled between them."""
    collect_garbage()  # existing garbage would be frozen with the imported objects
    with exclude_from_garbage_collection(), suppress(ImportError):  # reported when it is used
        for name in ("visualizer.attention.run", MODEL_PACKAGE):
            progress(0, 0)
            import_module(name)
        library = import_module(MODEL_PACKAGE)
        progress(0, 0)
        library.PreTrainedModel  # noqa: B018 - the attribute access imports it
