"""Malformed and hostile requests to a model server, reproducible by a seed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

GREETING = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
PATHS = (
    "/../model", "/%2e%2e/model", "/model/../../etc/passwd", "//model", "/model/", "/MODEL",
    "/model?x=1", "/model#a", "http://other.example/model", "/model%00", "/__class__", "*",
    "/%c0%ae%c0%ae/", "/" + "a" * 4000, "/result/1", "/\\..\\model", "/.", "/job",
)  # fmt: skip
"""Paths that are not requests of the server, whether they are signed or not."""
SOURCE = {"folder": "attention://a", "name": "a", "fingerprint": "0"}
VALID: dict[str, dict[str, Any]] = {
    "tokens": {"text": "the cat"},
    "names": {"numbers": [1, 5]},
    "read": {"source": SOURCE, "text": "the cat sat"},
    "answer": {"run": 1, "question": {"kind": "lens"}},
    "next_token": {"text": "the cat", "factors": [[0, 1, 0.0]], "numbers": [5]},
    "measures": {"run": 1, "stage": "weights"},
    "stage": {"run": 1, "stages": ["queries"]},
    "blocks": {"run": 1, "stage": "weights", "place": [0, 1], "rows": [0], "columns": [0, 2]},
    "result": {"job": 1, "wait": 0},
    "cancel": {"job": 1},
}  # fmt: skip
"""A valid body for each request, which is then damaged."""
HOSTILE: dict[str, tuple[str, ...]] = {
    "text": ('""', '" "', '"\\u0000"', '"\\u202e cat"', f'"{"cat " * 300}"', f'"{"a" * 3000}"'),
    "numbers": ("[]", "[0,63]", "[64]", "[9007199254740992]", "[5,5,5,5,5,5,5,5,5,5,5,5]"),
    "factors": ("[]", "[[0,1,100]]", "[[0,1,-100],[0,1,0]]", "[[99,0,0]]", "[[0,99,0]]"),
    "is_chat": ("true", "false"),
    "run": ("0", "1", "9007199254740992"),
    "job": ("0", "1", "9007199254740992"),
    "wait": ("0", "1e-300", "20.0000001", "-0.0"),
    "stage": ('"weights"', '"keys"', '"__class__"', '""', '"../weights"'),
    "place": ("[0,0]", "[3,7]", "[0]", "[4,0]", "[0,8]", "[9007199254740992,0]"),
    "rows": ("[0,0,0]", "[1,0]", "[9999]", "[9007199254740992]"),
    "columns": ("[0,0]", "[1,0]", "[0,9007199254740992]", "[3,4]"),
    "block": ("0", "1", "7", "9007199254740992"),
    "question": (
        '{"kind":"lens"}', '{"kind":"parts"}', '{"kind":"parts","token":"dog"}',
        '{"kind":"ablations"}', '{"kind":"ablations","token":"nowhere"}',
        '{"kind":"lens","is_costly":true}', '{"kind":"parts","token":"cat dog"}',
    ),
    "known": (
        "null", '{"layers":[],"changes":[]}', '{"layers":[0],"changes":[[null,1e308]]}',
        '{"layers":[0],"changes":[[0],[0,0]]}', '{"layers":[0],"changes":[[]]}',
    ),
    "edits": (
        '[{"layer":0,"head":0}]', '[{"layer":0,"head":0},{"layer":0,"head":0}]',
        '[{"layer":-1,"head":0}]', '[{"layer":99,"head":0}]',
        '[{"layer":0,"head":0,"kind":"scaled","factor":-100}]',
        '[{"layer":3,"head":7,"kind":"mean"}]',
        '[{"layer":0,"head":0,"kind":"patched","text":"cat"}]',
        '[{"layer":0,"head":0,"kind":"patched","text":""}]',
        '[{"layer":0,"head":0,"kind":"patched","text":"the dog ran"}]',
    ),
    "cuts": (
        '[{"layer":0,"head":0,"cells":[[1,0]]}]', '[{"layer":0,"head":0,"cells":[[0,0]]}]',
        '[{"layer":0,"head":0,"cells":[[9,9]]}]', '[{"layer":99,"head":0,"cells":[[1,0]]}]',
        '[{"layer":0,"head":0,"cells":[[-1,0]]}]',
    ),
    "second": ('""', '"the dog"', f'"{"cat " * 30}"', '"\\u0000"'),
    "part": ('""', '"nowhere"', '"../.."'),
}  # fmt: skip
"""Values with valid types that are at or beyond a limit."""
MORE = {
    "read": ("edits", "cuts", "second", "part", "is_chat"),
    "answer": ("known",),
    "next_token": ("is_chat",),
    "blocks": ("block",),
}
"""Fields that a request can have in addition to those in its valid body."""
MARK = "\0spoilt\0"
SPOILT = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1", "-9223372036854775808", "9" * 30, "9" * 5000,
    "9007199254740992", "9007199254740993", "4611686018427387904", "0.5", "1e308", "true", "null",
    '""', '" "', '"\\ud800"', '"\\u0000"', '"' + "a" * 70 + '"', '"../../etc/passwd"', "[]", "{}",
    "[[]]", "[null]", "[-1]", "[1e300]", "[" * 200 + "]" * 200, "[" * 100_000, '{"a":' * 5000,
    "[" + "0," * 20_000 + "0]", "[[0,0,1e308]]", "[[0,0,101]]", "[[99,0,0]]", "[[0,99,0]]",
    "[331]", "[1000000]", '{"kind":"lens","token":7}', '{"kind":"ablations","token":"cat dog"}',
    '{"layers":[0],"changes":[[0],[0,0]]}', '{"layers":[],"changes":[]}', "'a'", "",
)  # fmt: skip


def spoilt_body(chosen: Random, says: str, run: int) -> bytes:
    """Return the body of a request, in which something is wrong.

    Parameters
    ----------
    run : int
        Id of the run of a processed text.
    """
    asked = json.loads(json.dumps(VALID[says]))
    if "run" in asked:
        asked["run"] = run
    names = [*asked, *MORE.get(says, ())]
    name = "unknown" if chosen.random() < 0.03 else chosen.choice(names)
    holder = asked["source"] if says == "read" and name in MORE["read"] else asked
    holder[name] = MARK
    is_well_typed = name in HOSTILE and chosen.random() < 0.7
    spoilt = chosen.choice(HOSTILE[name] if is_well_typed else SPOILT)
    body = json.dumps(asked).replace(json.dumps(MARK), spoilt).encode()
    how = chosen.random()
    if how < 0.05:
        return body[: chosen.randrange(len(body) + 1)]
    if how < 0.1:
        at = chosen.randrange(len(body) + 1)
        return body[:at] + chosen.randbytes(chosen.randrange(1, 9)) + body[at:]
    return body


def broken_http(chosen: Random) -> bytes:
    """Return bytes that are not a request, or a request without a signature."""
    path = chosen.choice(PATHS)
    length = chosen.choice(("-1", "5, 6", "9" * 30, "0x10", "", "1e3", "+5", "99999999"))
    heads = (
        f"GET {path} HTTP/1.1\r\nhost: a\r\n\r\n",
        f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n",
        "POST /model HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
        "0\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n123456789",
        "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/9.9\r\nhost: a\r\n\r\n", "GET /\r\n\r\n",
        "GET  / HTTP/1.1\r\nhost: a\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n",
        "HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nabc",
        "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: " + "a" * 20_000 + "\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n" + "x: a\r\n" * 2_000 + "\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n", "GET /\0 HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n folded: b\r\n\r\n", "\r\n" * 100, "\x16\x03\x01\x02\x00",
        "POST /model HTTP/1.1\r\nhost: a\r\nx-attention-signature: 1:"
        f"{'0' * 64}:{'0' * 64}\r\ncontent-length: 2\r\n\r\n{{}}",
    )  # fmt: skip
    data = chosen.choice(heads).encode()
    how = chosen.random()
    if how < 0.15:
        return chosen.randbytes(chosen.randrange(1, 2_000))
    if how < 0.25:
        return data[: chosen.randrange(len(data))]
    if how < 0.4:
        at = chosen.randrange(len(data))
        return data[:at] + chosen.randbytes(1) + data[at + 1 :]
    return GREETING * chosen.randrange(3) + data + chosen.randbytes(chosen.randrange(40))
