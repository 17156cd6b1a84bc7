"""Serves a model to other machines: ``attention-visualizer serve``."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from visualizer.attention.settings import SettingGroup
from visualizer.attention.spec import Device
from visualizer.cli import option_parser
from visualizer.cli.options import OPTION_GROUPS
from visualizer.console import ConsoleProgress, print_message, write_output
from visualizer.errors import InputError, system_error_reason
from visualizer.models.model_folder import read_model_folder
from visualizer.models.model_protocol.authentication import (
    access_token_weakness,
    generate_access_token,
)
from visualizer.optional_packages import PACKAGE_FIELD as MISSING_PACKAGE
from visualizer.optional_packages import require_package

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

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
EXAMPLES = """examples:
  attention-visualizer serve models/SmolLM2-135M
  attention-visualizer serve models/Llama-3.1-70B --tensor-parallel 4
  attention-visualizer serve models/gpt-oss-20b --pipeline-parallel 2 --port 9000

Enter the printed token in the window, under File > Connect to a Model. A new token is generated
each time unless ATTENTION_VISUALIZER_TOKEN is set. By default, the server accepts connections only
from this machine; to connect from another machine, use SSH:
  ssh -L 8763:127.0.0.1:8763 user@machine
The exit status is 0 after Ctrl+C; 1 if the model cannot be served or a server process exited; 2 if
 an option is invalid or a package is missing.
"""


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
        help="folder of the model",
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
    address = parser.add_argument_group("Network")
    address.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, this machine only)",
    )
    address.add_argument(
        "--port",
        type=option_parser.integer_converter(0, 65535),
        default=DEFAULT_PORT,
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
    if weakness := access_token_weakness(token):
        print_message(f"{TOKEN_VARIABLE}: the token is too easy to guess: {weakness}. {TOKEN_HELP}")
        return 2
    try:
        read_model_folder(options.folder, has_fingerprint=False)
        for package in ("h11", "transformers"):
            require_package(package, "Serving a model")
        if options.tensor_parallel or options.pipeline_parallel:
            require_package("accelerate", "Splitting a model across processes")
        return asyncio.run(_serve_until_stopped(options, token))
    except InputError as refused:
        print_message(refused.sentence)
        return 2 if refused.field == MISSING_PACKAGE else 1


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
        options.folder, options.device or Device.AUTO, count, parallelism if count > 1 else "none"
    )
    server = ModelServer(JobQueue(processes), token)
    stopped = asyncio.Event()
    for sent in _stop_signals():
        with suppress(NotImplementedError):  # on Windows, Ctrl+C raises
            asyncio.get_running_loop().add_signal_handler(sent, stopped.set)
    stopping = asyncio.create_task(stopped.wait())
    try:
        # Check the port before a large model is loaded.
        try:
            listener = await server.listen(options.host, options.port)
        except OSError as error:
            failure = f"Cannot listen on port {options.port}: {system_error_reason(error)}."
            raise InputError("model", f"{failure} Choose another --port.") from error
        with closing(listener):
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
            port = listener.sockets[0].getsockname()[1]
            write_output(f"{metadata['name']} is served at {options.host}:{port}\nToken: {token}\n")
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
