"""A small local server with the few endpoints of the Hugging Face hub that the program uses."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMIT = "c" * 40
LARGE = 10_000
"""Minimum size, in bytes, of files that are listed with their SHA-256, as on the hub."""
BLOCK = 4096


class HubServer:
    """Contents and behaviour of the server; a test can change each of them.

    Parameters
    ----------
    files : dict
        Contents by file name.
    listed : dict
        Incorrect fields of the list of files, by file name.
    served : dict
        Contents that are sent instead of those in the list.
    """

    def __init__(self, repository: str, files: dict[str, bytes]) -> None:
        self.repository, self.files = repository, files
        self.revision = "main"
        self.listed: dict[str, dict[str, Any]] = {}
        self.served: dict[str, bytes] = {}
        self.answer: Any = None
        """Sent instead of the list of files."""
        self.refusal: tuple[int, str] | None = None
        """Status and error code of all responses."""
        self.refused_files: tuple[int, str] | None = None
        self.stops_after: int | None = None
        """Number of bytes of a weights file after which the connection is closed."""
        self.is_endless = False
        self.has_ranges = True
        self.asked: list[tuple[str, str]] = []
        """The requested paths, each with the requested range."""
        self.tokens: list[str] = []
        self.leads_to = ""
        """Another address to which all requests are redirected."""
        self.continued_note = threading.Event()
        self.continued_note.set()
        """While this event is cleared, weights files stop after their first bytes."""
        self.answers = threading.Event()
        self.answers.set()
        """While this event is cleared, the server does not respond."""

    @property
    def downloads(self) -> list[str]:
        """The names of the requested files."""
        return [path.rpartition("/")[2] for path, _ in self.asked if "/resolve/" in path]

    def listing(self) -> Any:
        """Return the list of the repository's files."""
        if self.answer is not None:
            return self.answer
        siblings = [
            {"rfilename": name, **_described(content), **self.listed.get(name, {})}
            for name, content in self.files.items()
        ]
        return {"sha": COMMIT, "siblings": siblings}


def _described(content: bytes) -> dict[str, Any]:
    git = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    described: dict[str, Any] = {"size": len(content), "blobId": git.hexdigest()}
    if len(content) >= LARGE:
        described["lfs"] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return described


@contextmanager
def serving(server: HubServer) -> Iterator[str]:
    """Serve within the context, which returns the address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            server.asked.append((self.path, self.headers.get("Range", "")))
            if token := self.headers.get("Authorization"):
                server.tokens.append(token)
            server.answers.wait()
            with suppress(ConnectionError):
                _answer(self, server)

    class Threads(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = True

    with Threads(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_address[1]}"
        finally:
            server.continued_note.set()
            server.answers.set()
            listening.shutdown()
            thread.join()


def _answer(handler: BaseHTTPRequestHandler, server: HubServer) -> None:
    path, name = handler.path.partition("?")[0], handler.path.rpartition("/")[2]
    is_file = path == f"/{server.repository}/resolve/{COMMIT}/{name}"
    listing = f"/api/models/{server.repository}/revision/{quote(server.revision, safe='')}"
    refusal = server.refused_files or server.refusal if is_file else server.refusal
    if refusal is None and not is_file and path != listing:
        refusal = (404, "RepoNotFound")
    if server.leads_to:
        handler.send_response(302)
        handler.send_header("Location", server.leads_to + handler.path)
        handler.end_headers()
    elif refusal:
        handler.send_response(refusal[0])
        handler.send_header("X-Error-Code", refusal[1])
        handler.end_headers()
    elif is_file:
        _send_file(handler, server, name)
    else:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(json.dumps(server.listing()).encode())


def _send_file(handler: BaseHTTPRequestHandler, server: HubServer, name: str) -> None:
    content = server.served.get(name, server.files[name])
    asked = handler.headers.get("Range", "")
    start = int(asked.removeprefix("bytes=").rstrip("-") or 0) if server.has_ranges else 0
    handler.send_response(206 if start else 200)
    if start:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    is_weights = name.endswith(".safetensors")
    if not (server.is_endless and is_weights):
        handler.send_header("Content-Length", str(len(content) - start))
    handler.end_headers()
    sent = 0
    for at in range(start, len(content), BLOCK):
        block = content[at : at + BLOCK]
        if is_weights and server.stops_after is not None:
            block = block[: server.stops_after - sent]
        handler.wfile.write(block)
        sent += len(block)
        if is_weights and sent == server.stops_after:
            return
        if is_weights:
            server.continued_note.wait()
    while server.is_endless and is_weights:
        handler.wfile.write(bytes(BLOCK))


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the contents of a folder's files by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}
