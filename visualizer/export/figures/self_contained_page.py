"""Parts of HTML pages that contain their data, run only their own script and load nothing.

Tokens never become markup: they are data in elements that browsers do not interpret, and the page's
Content-Security-Policy allows only the script and the style sheet with the given hashes.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from functools import cache
from typing import TYPE_CHECKING

from visualizer.heatmap import colour_mapping
from visualizer.resources import resource_path

if TYPE_CHECKING:
    from visualizer.widgets.theme import Theme


@cache
def read_page_resource(folder: str, name: str) -> str:
    """Return the text of a file in ``resources``."""
    return resource_path(folder, name).read_text(encoding="utf-8")


def fill_template(template: str, title: str, style: str, script: str, images: str = "") -> str:
    """Insert the title, style sheet and script, and allow only these two by their hashes.

    Parameters
    ----------
    images : str
        The sources of images that the page may show; none by default.
    """
    rules = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src '{_hash_source(script)}'; style-src '{_hash_source(style)}'"
    )
    rules += f"; img-src {images}" if images else ""
    parts = {"$rules": rules, "$title": html.escape(title), "$style": style, "$script": script}
    pattern = "|".join(map(re.escape, parts))
    return re.sub(pattern, lambda found: parts[found.group()], template)


def _hash_source(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def data_element(kind: str, content: str, attribute: str, name: str) -> str:
    """Return an element with data that the page's script reads."""
    return f'<script type="{kind}" {attribute}="{name}">{content}</script>\n'


def encode_page_json(value: object) -> str:
    """Encode a value as JSON in ASCII, without characters that HTML interprets."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def compress_to_base64(content: bytes) -> str:
    """Compress bytes with deflate and encode them as base64."""
    return base64.b64encode(zlib.compress(content)).decode("ascii")


def encode_colour_table(map_: str, theme: Theme) -> list[str]:
    """Return the colours of a map in hexadecimal, and whether each of them requires dark text."""
    words = colour_mapping.colour_table(map_, theme) & 0xFFFFFF
    light = colour_mapping.dark_text_mask(map_, theme).astype(int)
    return ["".join(f"{word:06x}" for word in words.tolist()), "".join(map(str, light.tolist()))]
