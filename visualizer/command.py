"""The command line: which options there are, and the document they make. No Qt, no torch."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import visualizer
from visualizer.attention.mechanisms import Mechanism, spec_of
from visualizer.attention.spec import AttentionSpec, Device, Dtype, Mask, Projection, problems
from visualizer.state.document import BOOK_SENTENCE, Document, Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from enum import StrEnum

# Qt shows these otherwise than they are: a text is the same here and in the sentence box.
_AS_SHOWN = str.maketrans({"\r": "\n", "\u2028": "\n", "\u2029": "\n", "\u00a0": " "})

OPTIONS = {
    "d_in": "--embedding-size",
    "d_out": "--output-size",
    "heads": "--heads",
    "dropout": "--dropout",
    "seed": "--seed",
    "text": "--text",
    "export": "--export",
    "device": "--device",
}


class _Parser(argparse.ArgumentParser):
    """Says in one sentence which option is wrong, what it got and what it takes."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _whole(low: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"got '{text}', takes a whole number from {low}")
        return value

    return read


def _rate(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"got '{text}', takes a number from 0 up to, not with, 1")
    return value


def _one_of(values: Sequence[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in list(values):
            takes = ", ".join(values)
            raise argparse.ArgumentTypeError(f"got '{text}', takes one of {takes}")
        return text

    return read


def _text(text: str) -> str:
    if not text or text.isspace():
        raise argparse.ArgumentTypeError(f"got {text!r}, takes a text that is not blank")
    return text.replace("\r\n", "\n").translate(_AS_SHOWN)


def _file(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in {".png", ".npz"}:
        raise argparse.ArgumentTypeError(f"got '{text}', takes a file that ends in .png or .npz")
    return path


def parser() -> argparse.ArgumentParser:
    """Make the reader of the command line."""
    made = _Parser(
        prog="attention-visualizer",
        description="See a real attention module compute. Without --export, opens the window.",
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"%(prog)s {visualizer.__version__}")
    for option, settings in _OPTIONS.items():
        made.add_argument(option, **settings)
    made.add_argument(
        "--causal",
        action=argparse.BooleanOptionalAction,
        help="whether no token reads a later one; else as the mechanism has it",
    )
    return made


def _named(values: type[StrEnum]) -> dict[str, Any]:
    return {"type": _one_of([*values]), "metavar": "NAME", "help": f"one of {', '.join(values)}"}


# fmt: off
_OPTIONS: dict[str, dict[str, Any]] = {
    "--text": {"type": _text, "action": "append",
               "help": "the text; given several times, a batch of texts"},
    "--mechanism": {**_named(Mechanism), "default": Mechanism.MULTI_HEAD},
    "--projection": _named(Projection),
    "--embedding-size": {"type": _whole(1), "metavar": "N", "help": "numbers in a token's vector"},
    "--output-size": {"type": _whole(1), "metavar": "N",
                      "help": "width of all heads together, or of each stacked head"},
    "--heads": {"type": _whole(1), "metavar": "N", "help": "heads side by side"},
    "--dropout": {"type": _rate, "metavar": "RATE", "help": "share of the weights dropped"},
    "--seed": {"type": _whole(0), "metavar": "N", "help": "decides vectors and weights"},
    "--device": _named(Device),
    "--dtype": _named(Dtype),
    "--export": {"type": _file, "metavar": "FILE",
                 "help": "write the heatmaps (.png) or every stage (.npz), without a window"},
}
# fmt: on


def document_of(options: argparse.Namespace) -> Document:
    """Make the document that the options describe."""
    spec = spec_of(Mechanism(options.mechanism))
    given = {
        "projection": options.projection and Projection(options.projection),
        "d_in": options.embedding_size,
        "d_out": options.output_size,
        "heads": options.heads,
        "dropout": options.dropout,
        "seed": options.seed,
        "device": options.device and Device(options.device),
        "dtype": options.dtype and Dtype(options.dtype),
        "mask": _mask(options.causal),
    }
    spec = replace(spec, **{name: value for name, value in given.items() if value is not None})
    texts = options.text or [BOOK_SENTENCE]
    lines = Lines.TOGETHER
    if len(texts) > 1:
        lines = Lines.APART
        texts = [" ".join(text.splitlines()) for text in texts]  # a line is a text from now on
    return Document(text="\n".join(texts), lines=lines, spec=spec)


def _mask(causal: bool | None) -> Mask | None:
    return None if causal is None else (Mask.CAUSAL if causal else Mask.NONE)


def complaint(options: argparse.Namespace, spec: AttentionSpec) -> str | None:
    """Say which option makes a spec that cannot be computed, if any does.

    Of the options that take part in the problem, it is one that was given.
    """
    for problem in problems(spec):
        remedied = problem.remedy[0] if problem.remedy else problem.field
        parts = (problem.field, remedied, "projection")
        field = next((field for field in parts if _given(options, field)), problem.field)
        return f"argument {_option(field)}: got '{getattr(spec, field)}'. {problem.sentence}"
    return None


def _option(field: str) -> str:
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")


def _given(options: argparse.Namespace, field: str) -> bool:
    return getattr(options, _option(field).strip("-").replace("-", "_"), None) is not None
