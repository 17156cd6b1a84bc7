"""Opens a page in a real headless browser, runs a script in it and returns the result."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from functools import cache
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FOUND = next(filter(None, map(shutil.which, NAMES)), None)
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
    *("--disable-dev-shm-usage", "--no-first-run", "--force-device-scale-factor=1"),
    *("--enable-logging=stderr", "--virtual-time-budget=10000"),
)


def driven(page: bytes, script: str) -> bytes:
    """Insert a script into a page whose content security policy allows only its own scripts.

    The script is the body of an asynchronous function, whose result is written into the page.
    """
    whole = f"""
    (async () => {{
      const saw = await (async () => {{ await ready; {script} }})();
      const result = document.createElement("pre");
      result.id = "result";
      result.textContent = JSON.stringify(saw);
      document.body.append(result);
    }})();
    """
    digest = base64.b64encode(hashlib.sha256(whole.encode()).digest())
    page = page.replace(b"script-src ", b"script-src 'sha256-" + digest + b"' ", 1)
    return page.replace(b"</body>", f"<script>{whole}</script></body>".encode())


@cache
def _profile() -> TemporaryDirectory[str]:
    """Return the profile of all pages of this process; creating one takes 0.3 s per page."""
    return TemporaryDirectory(ignore_cleanup_errors=True)


def see(page: bytes, script: str, folder: Path, *options: str) -> tuple[Any, list[str]]:
    """Return the result of a script in a page, and the browser's console messages."""
    assert FOUND
    file = folder / "page.html"
    file.write_bytes(driven(page, script))
    command = [FOUND, *OPTIONS, f"--user-data-dir={_profile().name}", *options]
    ended = subprocess.run(
        [*command, "--window-size=1280,1000", "--dump-dom", file.as_uri()],
        capture_output=True,
        timeout=100,
        check=True,
    )
    said = [line for line in ended.stderr.decode("utf-8", "replace").splitlines()
            if "CONSOLE" in line]  # fmt: skip
    found = re.search(r'<pre id="result">(.*?)</pre>', ended.stdout.decode("utf-8"), re.DOTALL)
    return (json.loads(html.unescape(found.group(1))) if found else None), said
