"""A small server on this machine that speaks the few endpoints of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMIT = "c" * 40
LARGE = 10_000
"""Files of at least so many bytes are listed with their SHA-256, as the hub does."""
BLOCK = 4096


class HubServer:
    """What the server holds and how it behaves; each may be changed by a test.

    Parameters
    ----------
    files : dict
        Contents by name.
    listed : dict
        What the list says of a file other than the truth, by its name.
    served : dict
        Contents that are sent in place of those listed.
    """

    def __init__(self, repository: str, files: dict[str, bytes]) -> None:
        self.repository, self.files = repository, files
        self.listed: dict[str, dict[str, Any]] = {}
        self.served: dict[str, bytes] = {}
        self.answer: Any = None
        """Sent in place of the list."""
        self.refusal: tuple[int, str] | None = None
        """Status and error code of all answers."""
        self.refused_files: tuple[int, str] | None = None
        self.stops_after: int | None = None
        """The connection breaks off after so many bytes of a file of weights."""
        self.is_endless = False
        self.has_ranges = True
        self.asked: list[tuple[str, str]] = []
        """The paths asked for, each with the range of it."""
        self.tokens: list[str] = []
        self.leads_to = ""
        """Another address, to which all requests are sent on."""
        self.continued_note = threading.Event()
        self.continued_note.set()
        """While it is cleared, files of weights stop after their first bytes."""
        self.answers = threading.Event()
        self.answers.set()
        """While it is cleared, no request is answered."""

    @property
    def downloads(self) -> list[str]:
        """The names of the files that were asked for."""
        return [path.rpartition("/")[2] for path, _ in self.asked if "/resolve/" in path]

    def listing(self) -> Any:
        """The list of the repository's files."""
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
        described["lfs"] = {
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    return described


@contextmanager
def serving(server: HubServer) -> Iterator[str]:
    """Serve until the end of the block; the address is given."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

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
    refusal = server.refused_files or server.refusal if is_file else server.refusal
    if refusal is None and not is_file and path != f"/api/models/{server.repository}/revision/main":
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
    """The contents of a folder's files by name."""
    return {file.name: file.read_bytes() for file in folder.iterdir()}
