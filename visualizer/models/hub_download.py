"""Downloads a model from the Hugging Face Hub into the local cache. Does not import torch.

The server is not trusted: only files with known names are requested, no more bytes are accepted
than announced, and a file is used only if it has the announced hash. The files are stored in the
cache layout of huggingface_hub. That library itself is not used, because it restarts interrupted
downloads from the beginning and trusts the paths and sizes that the server sends.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from queue import Empty, Full, Queue
from typing import IO, TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from visualizer.errors import InputError, system_error_reason
from visualizer.format import format_size
from visualizer.models.download_plan import DownloadPlan, RepositoryFile
from visualizer.models.model_folder import (
    CONFIG_FILE,
    IMAGE_CONFIG_FILE,
    INDEX_FILE,
    TOKENIZER_CONFIG_FILE,
    WEIGHTS_FILE,
    check_no_custom_code,
    file_size_limit,
    read_model_folder,
)
from visualizer.models.model_path import (
    COMMIT_PATTERN,
    find_model_folder,
    hub_cache_folder,
    parse_repository_name,
)
from visualizer.progress import ignore_progress
from visualizer.storage import atomic_file
from visualizer.storage.file_lock import FileLock
from visualizer.storage.program_folders import free_bytes
from visualizer.storage.regular_file import open_regular_file
from visualizer.storage.symlink_safe_folder import SymlinkSafeFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

    from visualizer.console import ConsoleProgress
    from visualizer.progress import Progress

    FileProgress = Callable[[int], None]
    """Callback that receives the number of bytes of the file that are available."""

CHUNK_BYTES = 2**18
MAX_QUEUED_CHUNKS = 4
"""Maximum number of received chunks that wait to be processed."""
POLL_S = 0.05
"""Interval, in seconds, between checks of whether a pending response is still needed."""


class HubResponse:
    """A response that is being received.

    It is received on a thread, because neither a DNS lookup nor a connection attempt can be
    interrupted. After `stop_receiving`, the thread ends after the next chunk or at the timeout.

    Parameters
    ----------
    request : callable
        Sends the request, and returns the response.
    check_wanted : callable
        Called while the server is silent; an exception that it raises abandons the response.
    """

    def __init__(
        self, request: Callable[[], HTTPResponse], check_wanted: Callable[[], object]
    ) -> None:
        self._request, self._check_wanted = request, check_wanted
        self._has_left = threading.Event()
        self._chunks: Queue[HTTPResponse | bytes | Exception] = Queue(MAX_QUEUED_CHUNKS)
        threading.Thread(target=self._receive_response, daemon=True).start()
        try:
            begun = self._next_part()
        except BaseException:
            self.stop_receiving()
            raise
        assert isinstance(begun, HTTPResponse)
        self.status: int = begun.status
        self.headers: Message = begun.headers

    def iterate_chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the response, in order."""
        while (part := self._next_part()) and isinstance(part, bytes):
            yield part

    def stop_receiving(self) -> None:
        """Stop receiving the response."""
        self._has_left.set()

    def _next_part(self) -> HTTPResponse | bytes:
        while True:
            with suppress(Empty):
                part = self._chunks.get(timeout=POLL_S)
                if isinstance(part, Exception):
                    raise part
                return part
            self._check_wanted()

    # ------------------------------------------------------------------ on the thread

    def _receive_response(self) -> None:
        try:
            with self._request() as response:
                is_wanted = self._queue_part(response)
                while is_wanted and (chunk := response.read1(CHUNK_BYTES)):
                    is_wanted = self._queue_part(chunk)
                self._queue_part(b"")
        except Exception as error:  # noqa: BLE001 - passed to the reader
            self._queue_part(error)

    def _queue_part(self, part: HTTPResponse | bytes | Exception) -> bool:
        """Queue a part; return False if the reader no longer waits for it."""
        while not self._has_left.is_set():
            with suppress(Full):
                self._chunks.put(part, timeout=POLL_S)
                return True
        return False


HUB_URL = "https://huggingface.co"
SMALL_FILES = (
    CONFIG_FILE, TOKENIZER_CONFIG_FILE, IMAGE_CONFIG_FILE, "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json", "chat_template.jinja", INDEX_FILE,
)  # fmt: skip
CODE_FILES = (CONFIG_FILE, TOKENIZER_CONFIG_FILE, IMAGE_CONFIG_FILE)
"""Files that may refer to custom code."""
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "source.spm", "target.spm",
)  # fmt: skip
SHARD_PATTERN = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
MAX_LIST_BYTES = 16 * 2**20
"""Maximum size, in bytes, of the list of files."""
MAX_WEIGHTS_BYTES = 2**42
MAX_TOKEN_BYTES = 4_096
_TRUE_VALUES = ("1", "ON", "YES", "TRUE")
TIMEOUT_S = 10.0
"""Time, in seconds, to wait for a server that does not respond."""
RESERVED_BYTES = 2**28
"""Disk space, in bytes, that a download leaves free."""


def plan_download(
    repository: str,
    cache: Path,
    environment: Mapping[str, str] = os.environ,
    progress: Progress = ignore_progress,
) -> DownloadPlan:
    """List a repository's files, and check that those missing from the cache fit on the disk.

    Parameters
    ----------
    repository : str
        The name of the repository, as in `parse_repository_name`, or its address.
    progress : Progress
        Called with zeros while the hub does not respond; an exception that it raises ends the wait.

    Raises
    ------
    InputError
        With field ``repository`` and a suggestion.
    """
    endpoint = _hub_endpoint(environment)
    wanted = parse_repository_name(repository.strip().removeprefix(f"{endpoint}/").rstrip("/"))
    if wanted is None:
        raise _download_error("Enter a repository name in the form organization/name.")
    name, revision = wanted.name, wanted.revision
    with _explain_download_errors(str(wanted), endpoint):
        url = f"{endpoint}/api/models/{name}/revision/{quote(revision, safe='')}?blobs=true"
        with _open_url(url, environment, partial(progress, 0, 0)) as answer:
            description = _read_file_list(answer)
    commit, files = _select_files(name, description)
    folder = cache / wanted.folder_name
    try:
        missing = sum(file.size - _cached_bytes(folder, file) for file in files)
        free = free_bytes(cache)
    except OSError as error:
        raise _download_error(
            f"Cannot read the cache folder {cache}: {system_error_reason(error)}."
        ) from error
    if missing + RESERVED_BYTES > free:
        space = f"{format_size(missing)} of disk space; {format_size(free)} is free in {cache}"
        raise _download_error(
            f"{name} needs {space}. Free some space, or set HF_HUB_CACHE to another folder."
        )
    return DownloadPlan(name, commit, files, folder, missing, free, revision)


def download_model_by_name(path: Path, console: ConsoleProgress) -> Path:
    """Return the folder of a model, and download it if the cache does not contain all its files.

    Parameters
    ----------
    path : Path
        As in `find_model_folder`; only repositories are downloaded.
    console : ConsoleProgress
        Shows the progress.

    Raises
    ------
    InputError
        As in `find_model_folder`; with field ``repository`` as in `plan_download`.
    """
    if path.exists() or parse_repository_name(path.as_posix()) is None:
        return find_model_folder(path)
    with suppress(InputError):
        return read_model_folder(path, has_fingerprint=False).path
    try:
        plan = plan_download(path.as_posix(), hub_cache_folder())
        return download_model(plan, console.create_file_callback("Downloading"))
    finally:
        console.clear_line()


def download_model(
    offer: DownloadPlan, progress: Progress, environment: Mapping[str, str] = os.environ
) -> Path:
    """Download the missing files, and return the model's folder.

    Interrupted and cancelled downloads are resumed.

    Parameters
    ----------
    progress : Progress
        Called with the number of available bytes and the total; an exception that it raises stops
        the download.

    Raises
    ------
    InputError
        With field ``repository`` and a suggestion.
    """
    endpoint = _hub_endpoint(environment)
    blobs = offer.folder / "blobs"
    with _explain_download_errors(offer.repository, endpoint):
        blobs.mkdir(parents=True, exist_ok=True)
        lock = FileLock(offer.folder / "download.lock")
        try:
            done = 0
            for file in sorted(offer.files, key=lambda file: file.size):
                if not (blobs / file.blob).is_file():
                    url = f"{endpoint}/{offer.repository}/resolve/{offer.commit}/{quote(file.name)}"

                    def report(size: int, before: int = done) -> None:
                        progress(before + size, offer.bytes)

                    _download_file(file, url, blobs, report, environment)
                if file.name in CODE_FILES:  # before the weights, which are large
                    check_no_custom_code(file.name, json.loads((blobs / file.blob).read_bytes()))
                done += file.size
                progress(done, offer.bytes)
            for file in offer.files:
                _link_blob(offer.snapshot_folder / file.name, blobs / file.blob)
            if offer.revision != offer.commit:
                reference = offer.folder / "refs" / offer.revision
                reference.parent.mkdir(parents=True, exist_ok=True)
                atomic_file.write_atomically(
                    reference, lambda out: out.write(offer.commit.encode())
                )
        finally:
            lock.release()
    return offer.snapshot_folder


# ---------------------------------------------------------------- files of a repository


def _select_files(name: str, listing: Any) -> tuple[str, tuple[RepositoryFile, ...]]:
    """Return the commit and the files of a repository to download, given the hub's description."""
    damaged = f"The Hub returned an invalid file list for {name}. Try again."
    if not isinstance(listing, dict) or not isinstance(listing.get("siblings"), list):
        raise _download_error(damaged)
    commit = listing.get("sha")
    listed = [each for each in listing["siblings"] if isinstance(each, dict)]
    files_by_name = {str(each.get("rfilename")): each for each in listed}
    weights = (
        [WEIGHTS_FILE]
        if WEIGHTS_FILE in files_by_name
        else sorted(filter(SHARD_PATTERN.fullmatch, files_by_name))
    )
    if not weights or (weights != [WEIGHTS_FILE] and INDEX_FILE not in files_by_name):
        raise _download_error(
            f"{name} has no .safetensors weights. Other formats are not supported."
        )
    if CONFIG_FILE not in files_by_name:
        raise _download_error(f"{name} is not a transformers model: it has no config.json.")
    small = (file for file in SMALL_FILES if file != INDEX_FILE or weights != [WEIGHTS_FILE])
    wanted = (*small, *TOKENIZER_FILES, *weights)
    files = tuple(
        _parse_repository_file(files_by_name[each]) for each in wanted if each in files_by_name
    )
    if not isinstance(commit, str) or not COMMIT_PATTERN.fullmatch(commit) or None in files:
        raise _download_error(damaged)
    return commit, tuple(file for file in files if file)


def _read_file_list(answer: HubResponse) -> Any:
    """Return the list sent by the hub; None if it is too long."""
    text = bytearray()
    for chunk in answer.iterate_chunks():
        text += chunk
        if len(text) > MAX_LIST_BYTES:
            return None
    return json.loads(text)


def _parse_repository_file(listed: Mapping[str, Any]) -> RepositoryFile | None:
    """Return a file as described by the hub; None if the description is invalid."""
    name, large = listed["rfilename"], listed.get("lfs")
    of = large if isinstance(large, dict) else listed
    size, blob = of.get("size"), of.get("sha256") if isinstance(large, dict) else of.get("blobId")
    limit = MAX_WEIGHTS_BYTES if name.endswith(".safetensors") else file_size_limit(name) or 0
    length = 64 if isinstance(large, dict) else 40
    if type(size) is not int or not 0 < size <= limit or not isinstance(blob, str):
        return None
    if not re.fullmatch(rf"[0-9a-f]{{{length}}}", blob):
        return None
    return RepositoryFile(name, size, blob)


def _cached_bytes(folder: Path, file: RepositoryFile) -> int:
    """Return how many bytes of a file the cache contains, even if the file is incomplete."""
    for name in (file.blob, f"{file.blob}.incomplete"):
        with suppress(OSError):
            return min(file.size, (folder / "blobs" / name).stat().st_size)
    return 0


# ---------------------------------------------------------------- the network


class _SafeRedirectHandler(HTTPRedirectHandler):
    """Redirect handler that refuses non-HTTP targets and HTTPS downgrades."""

    def redirect_request(
        self, request: Request, fp: Any, code: int, message: str, headers: Any, url: str
    ) -> Request | None:
        before, after = urlsplit(request.full_url).scheme, urlsplit(url).scheme
        if after not in ("https", before):
            raise HTTPError(request.full_url, code, message, headers, fp)
        return super().redirect_request(request, fp, code, message, headers, url)


def find_access_token(environment: Mapping[str, str]) -> str:
    """Return the user's token, which ``hf auth login`` stores; an empty string without one.

    The variables and the file are those of huggingface_hub.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if token := environment.get(name, "").strip():
            return token
    if environment.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in _TRUE_VALUES:
        return ""
    place = environment.get("HF_TOKEN_PATH")
    home = environment.get("HF_HOME")
    if not home:
        home = f"{environment.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    path = Path(place or f"{home}/token").expanduser()
    with suppress(OSError), open_regular_file(path) as file:
        return file.read(MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    return ""


@contextmanager
def _open_url(
    url: str, environment: Mapping[str, str], check_wanted: Callable[[], object], start: int = 0
) -> Iterator[HubResponse]:
    request = Request(url, headers={"User-Agent": "attention-visualizer"})
    if token := find_access_token(environment):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    if start:
        request.add_header("Range", f"bytes={start}-")
    answer = HubResponse(
        partial(build_opener(_SafeRedirectHandler).open, request, timeout=TIMEOUT_S), check_wanted
    )
    try:
        yield answer
    finally:
        answer.stop_receiving()


def _hub_endpoint(environment: Mapping[str, str]) -> str:
    if environment.get("HF_HUB_OFFLINE", "").upper() in _TRUE_VALUES:
        raise _download_error("Downloads are disabled because HF_HUB_OFFLINE is set.")
    endpoint = environment.get("HF_ENDPOINT", "").rstrip("/") or HUB_URL
    if urlsplit(endpoint).scheme not in ("https", "http"):
        raise _download_error("HF_ENDPOINT is invalid: it must be an http or https URL.")
    return endpoint


def _download_file(
    file: RepositoryFile,
    url: str,
    blobs: Path,
    report: FileProgress,
    environment: Mapping[str, str],
) -> None:
    """Download a file, resuming an earlier download."""
    incomplete = SymlinkSafeFile.from_path(blobs / f"{file.blob}.incomplete")
    with os.fdopen(incomplete.open_descriptor(os.O_RDWR | os.O_CREAT, 0o644), "r+b") as out:
        part = _PartialFile(out, file, report)
        if part.size < file.size:
            _receive_file(part, url, environment)
        if part.size < file.size:
            raise _download_error("The connection was lost. Download the model again to resume.")
        if part.digest.hexdigest() != file.blob:
            part.clear()
            raise _download_error(
                f"{file.name} was damaged in transit (hash mismatch). Download it again."
            )
    incomplete.path.replace(blobs / file.blob)


class _PartialFile:
    """A file that is being downloaded, with the size and hash of the part received so far."""

    def __init__(self, out: IO[bytes], file: RepositoryFile, report: FileProgress) -> None:
        self._out, self._file, self._report = out, file, report
        self.digest, self.size = _new_digest(file), 0
        if os.fstat(out.fileno()).st_size > file.size:
            self.clear()
        while chunk := out.read(CHUNK_BYTES):
            self._update_size_and_digest(chunk)

    def clear(self) -> None:
        """Remove the content."""
        self._out.seek(0)
        self._out.truncate(0)
        self.digest, self.size = _new_digest(self._file), 0

    def append(self, chunk: bytes) -> None:
        """Append bytes; raise an error if the file becomes larger than announced."""
        if self.size + len(chunk) > self._file.size:
            self.clear()
            raise _download_error(f"{self._file.name} is larger than expected. Download it again.")
        self._out.write(chunk)
        self._update_size_and_digest(chunk)

    def _update_size_and_digest(self, chunk: bytes) -> None:
        self.digest.update(chunk)
        self.size += len(chunk)
        self.report_size()

    def report_size(self) -> None:
        """Report the size of the part; the callback may cancel the download."""
        self._report(self.size)


def _receive_file(part: _PartialFile, url: str, environment: Mapping[str, str]) -> None:
    """Download the rest of a file, or all of it if the server cannot resume."""
    with _open_url(url, environment, part.report_size, part.size) as response:
        content_range = response.headers.get("Content-Range", "")
        if response.status != 206 or not content_range.startswith(f"bytes {part.size}-"):
            part.clear()
        for chunk in response.iterate_chunks():
            part.append(chunk)


def _new_digest(file: RepositoryFile) -> Any:
    if len(file.blob) == 64:
        return hashlib.sha256()
    return hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)  # as git does


def _link_blob(link: Path, blob: Path) -> None:
    """Add a file to a snapshot as a link, or as a copy if links are not supported."""
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists() and link.samefile(blob):
        return
    link.unlink(missing_ok=True)
    try:
        link.symlink_to(Path("..", "..", "blobs", blob.name))
    except OSError:  # may be forbidden on Windows
        shutil.copyfile(blob, link)


# ---------------------------------------------------------------- errors


@contextmanager
def _explain_download_errors(repository: str, endpoint: str) -> Iterator[None]:
    """Convert network and disk errors into an InputError with an explanation."""
    host = urlsplit(endpoint).hostname or endpoint
    try:
        yield
    except HTTPError as error:
        with error:
            raise _download_error(_http_error_message(repository, host, error)) from None
    except BlockingIOError:
        raise _download_error(f"{repository} is already being downloaded.") from None
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        reason_text = system_error_reason(reason) if isinstance(reason, OSError) else str(reason)
        raise _download_error(
            f"Cannot reach {host}: {reason_text[:200]}. Check the network connection."
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _download_error("The disk is full. Free some space and try again.") from None
        raise _download_error(f"Cannot write to the cache: {system_error_reason(error)}.") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise _download_error(f"{host} sent an invalid response. Try again later.") from None


def _http_error_message(repository: str, host: str, error: HTTPError) -> str:
    code = error.headers.get("X-Error-Code", "")
    if code == "GatedRepo":
        return (
            f"{repository} is gated. Accept its terms on {host}, log in with “hf auth login” or "
            "set HF_TOKEN to your access token, and try again."
        )
    if code == "RevisionNotFound":
        return f"This revision does not exist on {host}: “{repository}”."
    if error.code in (401, 403, 404):
        return (
            f"Repository “{repository}” does not exist on {host} or is not public. If it is "
            "private, log in with “hf auth login”."
        )
    if 300 <= error.code < 400:
        return f"{host} redirects to an unsafe address. The download was stopped."
    return f"{host} returned error {error.code}. Try again later."


def _download_error(sentence: str) -> InputError:
    return InputError("repository", sentence)
