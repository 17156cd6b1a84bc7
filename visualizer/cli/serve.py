"""Serves a model to other machines: ``attention-visualizer serve``."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from visualizer.attention.settings import SettingGroup
from visualizer.attention.spec import Device, ModelDtype
from visualizer.cli import option_parser
from visualizer.cli.options import DOWNLOAD_OPTION, MODEL_DTYPE_OPTION, OPTION_GROUPS
from visualizer.console import ConsoleProgress, print_message, write_output
from visualizer.errors import InputError, system_error_reason
from visualizer.models.model_folder import read_model_folder
from visualizer.models.model_protocol.authentication import (
    access_token_weakness,
    generate_access_token,
)
from visualizer.models.model_protocol.server_address import (
    HAS_UNIX_SOCKETS,
    MAX_SOCKET_PATH_BYTES,
    join_address,
)
from visualizer.optional_packages import PACKAGE_FIELD as MISSING_PACKAGE
from visualizer.optional_packages import require_package

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Sequence

    from visualizer.models.model_server.http_server import ModelServer

SERVE_COMMAND = "serve"
TOKEN_VARIABLE = "ATTENTION_VISUALIZER_TOKEN"
"""Environment variable that contains the access token to use instead of a generated token."""
DEFAULT_PORT = 8763
MAX_PROCESSES = 1024
TOKEN_HELP = (
    "Unset the variable so that a token is generated, or create a token with "
    'python -c "import secrets; print(secrets.token_urlsafe(32))"'
)
EXIT_NOTICE_S = 2.0
"""Time during which clients are informed that a process has exited, in seconds."""
_EPILOG = """examples:
  attention-visualizer serve models/SmolLM2-135M
  attention-visualizer serve models/Llama-3.1-70B --tensor-parallel 4
  attention-visualizer serve models/gpt-oss-20b --pipeline-parallel 2 --port 9000

Enter the printed token in the window, under File > Connect to a model…. A new token is generated
each time unless ATTENTION_VISUALIZER_TOKEN is set. By default, the server accepts connections only
from this machine; to connect from another machine, use SSH:
  ssh -L 8763:127.0.0.1:8763 user@machine
{socket}
The exit status is 0 after Ctrl+C; 1 if the model cannot be served or a server process exited; 2 if
an option is invalid or a package is missing.
"""
SOCKET_EXAMPLE = """On machines with other users, prefer a Unix socket in a folder of your own:
  attention-visualizer serve models/SmolLM2-135M --socket ~/model.sock
  ssh -L ~/local.sock:/home/user/model.sock user@machine
"""
EXAMPLES = _EPILOG.format(socket=SOCKET_EXAMPLE if HAS_UNIX_SOCKETS else "")
DEFAULT_HOST = "127.0.0.1"
UNENCRYPTED_ERROR = (
    "argument --host: other machines can connect to {host}, and connections are not encrypted: "
    "everyone on the network can read the texts and the values. Connect through SSH instead "
    "(see --help), or add {option} if the network is trusted."
)
UNENCRYPTED_NOTICE = (
    "Connections to {host} are not encrypted. Everyone on the network can read the texts and the "
    "values."
)
UNENCRYPTED_OPTION = "--allow-unencrypted"


def create_serve_parser() -> option_parser.CommandLineParser:
    """Create the argument parser of ``serve``."""
    parser = option_parser.CommandLineParser(
        prog=f"attention-visualizer {SERVE_COMMAND}",
        usage="%(prog)s FOLDER [options]",
        description="Serve a model to Attention Visualizer windows on other machines.",
        epilog=EXAMPLES,
    )
    model = parser.add_argument_group("Model")
    model.add_argument(
        "folder",
        type=option_parser.convert_path,
        metavar="FOLDER",
        nargs="?",
        help="folder of the model, or its name in the local Hugging Face cache",
    )
    parallelism = model.add_mutually_exclusive_group()
    parallelism.add_argument(
        "--tensor-parallel",
        type=option_parser.integer_converter(1, MAX_PROCESSES),
        metavar="N",
        help="split the heads of each layer across N processes",
    )
    parallelism.add_argument(
        "--pipeline-parallel",
        type=option_parser.integer_converter(1, MAX_PROCESSES),
        metavar="N",
        help="split the layers across N processes",
    )
    model.add_argument("--device", **OPTION_GROUPS[SettingGroup.NUMBERS]["--device"])
    model.add_argument("--dtype", **MODEL_DTYPE_OPTION)
    model.add_argument("--download", **DOWNLOAD_OPTION)
    address = parser.add_argument_group("Network")
    address.add_argument(
        "--host", help=f"address to listen on (default: {DEFAULT_HOST}, this machine only)"
    )
    address.add_argument(
        UNENCRYPTED_OPTION,
        action="store_true",
        help="confirm that other machines may connect without encryption",
    )
    if HAS_UNIX_SOCKETS:
        address.add_argument(
            "--socket",
            type=_convert_socket_path,
            metavar="PATH",
            help="listen on a Unix socket that only you can access, instead of a port",
        )
    address.add_argument(
        "--port",
        type=option_parser.integer_converter(0, 65535),
        metavar="P",
        help=f"port; 0 selects a free port (default: {DEFAULT_PORT})",
    )
    address.add_argument("--quiet", action="store_true", help="do not report progress")
    return parser


def serve(arguments: Sequence[str]) -> int:
    """Serve the model that the arguments describe; return the exit status."""
    options = create_serve_parser().parse_args(arguments)
    token = os.environ.get(TOKEN_VARIABLE) or generate_access_token()
    if options.folder is None:
        print_message("the following argument is required: FOLDER, the folder of a model")
        return 2
    if wrong := _address_error(options):
        print_message(wrong)
        return 2
    if weakness := access_token_weakness(token):
        print_message(f"{TOKEN_VARIABLE}: the token is too easy to guess: {weakness}. {TOKEN_HELP}")
        return 2
    try:
        if options.download:
            from visualizer.models.hub_download import download_model_by_name

            console = ConsoleProgress(is_quiet=options.quiet)
            options.folder = download_model_by_name(options.folder, console)
        read_model_folder(options.folder, has_fingerprint=False)
        for package in ("h11", "transformers"):
            require_package(package, "Serving a model")
        if options.tensor_parallel or options.pipeline_parallel:
            require_package("accelerate", "Splitting a model across processes")
        return asyncio.run(_serve_until_stopped(options, token))
    except InputError as refused:
        print_message(refused.sentence)
        return 2 if refused.field == MISSING_PACKAGE else 1


def _convert_socket_path(name: str) -> Path:
    path = Path(name).expanduser().absolute()
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        limit = f"the absolute path must have at most {MAX_SOCKET_PATH_BYTES} bytes"
        raise option_parser.invalid_value_error(name, limit)
    return path


def _address_error(options: argparse.Namespace) -> str:
    """Return the error of the network options, or an empty string."""
    if getattr(options, "socket", None):
        others = {"--host": options.host, "--port": options.port}
        other = next((name for name, value in others.items() if value is not None), "")
        return f"argument --socket: not allowed with argument {other}" if other else ""
    host = options.host or DEFAULT_HOST
    if _is_loopback(host):
        return ""
    if not options.allow_unencrypted:
        return UNENCRYPTED_ERROR.format(host=host, option=UNENCRYPTED_OPTION)
    print_message(UNENCRYPTED_NOTICE.format(host=host))
    return ""


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a host, or the host is unknown."""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError:  # reported when the server starts to listen
        return True
    addresses = [ip_address(str(each[4][0]).partition("%")[0]) for each in found]
    return all(each.is_loopback for each in addresses)


@asynccontextmanager
async def _listening(server: ModelServer, options: argparse.Namespace) -> AsyncIterator[str]:
    """Listen on the socket or the port of the options, and yield the address.

    Raises
    ------
    InputError
        If the address cannot be used.
    """
    path: Path | None = getattr(options, "socket", None)
    host = options.host or DEFAULT_HOST
    port = DEFAULT_PORT if options.port is None else options.port
    try:
        listener = await (server.listen_on_socket(path) if path else server.listen(host, port))
    except OSError as error:
        place, option = (f"“{path}”", "--socket") if path else (f"port {port}", "--port")
        failure = f"Cannot listen on {place}: {system_error_reason(error)}."
        raise InputError("model", f"{failure} Choose another {option}.") from error
    try:
        bound = listener.sockets[0].getsockname()
        yield bound if path else join_address(host, bound[1])
    finally:
        listener.close()
        if path:
            path.unlink(missing_ok=True)


def _stop_signals() -> list[signal.Signals]:
    """Return the signals that stop the server, including SIGHUP unless it is ignored."""
    signals = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # not available on Windows
    if hang_up and signal.getsignal(hang_up) is not signal.SIG_IGN:
        signals.append(hang_up)
    return signals


async def _serve_until_stopped(options: argparse.Namespace, token: str) -> int:
    from visualizer.models.model_server.http_server import ModelServer
    from visualizer.models.model_server.job_queue import JobQueue
    from visualizer.models.model_server.rank_processes import RankProcesses, ServerStartError

    progress = ConsoleProgress(is_quiet=options.quiet)
    count = options.tensor_parallel or options.pipeline_parallel or 1
    parallelism = "tensor" if options.tensor_parallel else "pipeline"
    processes = RankProcesses(
        options.folder,
        options.device or Device.AUTO,
        count,
        parallelism if count > 1 else "none",
        ModelDtype(options.dtype),
    )
    server = ModelServer(JobQueue(processes), token)
    stopped = asyncio.Event()
    for sent in _stop_signals():
        with suppress(NotImplementedError):  # on Windows, Ctrl+C raises
            asyncio.get_running_loop().add_signal_handler(sent, stopped.set)
    stopping = asyncio.create_task(stopped.wait())
    try:
        # Check the address before a large model is loaded.
        async with _listening(server, options) as address:
            starting = asyncio.create_task(
                processes.start(progress.create_file_callback("Bytes read"))
            )
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if stopped.is_set():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)  # start no further process
                return 0
            metadata = await starting
            progress.clear_line()
            server.start_responding(metadata)
            write_output(f"{metadata['name']} is served at {address}\nToken: {token}\n")
            ending = asyncio.create_task(processes.ended.wait())
            await asyncio.wait([stopping, ending], return_when=asyncio.FIRST_COMPLETED)
        if processes.ended.is_set():
            await asyncio.sleep(EXIT_NOTICE_S)  # clients that send a request now receive the reason
            raise InputError("model", processes.lost)
    except ServerStartError as error:
        raise InputError("model", str(error)) from error
    finally:
        progress.clear_line()
        await processes.close()
    return 0
