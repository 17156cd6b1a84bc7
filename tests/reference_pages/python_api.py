"""Creates the reference of the Python API from its docstrings.

The page has a section for each public function and class, and for the classes that they return.
"""

from __future__ import annotations

import doctest
import inspect
import re
import textwrap
from enum import Enum
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import visualizer
from visualizer.resources import documentation_path
from visualizer.widgets.documentation_pages import heading_anchor

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = documentation_path("reference", "python-api.md")
RESULTS = {
    "ExplainedValue": "visualizer.api.notebook_display",
    "GeneratedText": "visualizer.api.generated_text",
    "InteractiveView": "visualizer.api.notebook_display",
    "LogitParts": "visualizer.attention.model_forward_pass",
    "Overview": "visualizer.api.notebook_display",
}
"""Classes of results that are not created by their name, and their modules."""
TEXT_SECTIONS = {"Notes"}
"""Sections of docstrings that contain paragraphs instead of a list."""
BASE, DESCRIBED_WITH = "HeadViews", "ModelAttention"
"""A base class, and the class with which its methods are described; others refer to it."""
START = """\
import visualizer

attention = visualizer.attend(
    "The cat sat on the mat", embedding_size=8, output_size=8, heads=2
)
model = visualizer.open_model("models/SmolLM2-135M")
text = "the cat sat on the mat the cat"
model_attention = model.attend(text)
"""
"""Code that defines the variables of all examples."""
HEAD = f"""\
# Python API

This page is generated from the docstrings, which `help` also shows.
[Notebooks](../how-to/notebooks.md) and [Models in Python](../how-to/model-python.md) introduce the
most important functions. All examples use these variables;
[Get a model](../how-to/models.md#get-a-model) explains how to create the folder:

```python
{START}```

Arrays are NumPy arrays, and indices start at 0. Invalid arguments raise an
[`InputError`](#inputerror). *The book* and *the notes* are the
[sources](../explanation/background.md#sources) of the modules.
"""


class Entry:
    """A public function, class or method, and its docstring.

    Parameters
    ----------
    name : str
        The name on the page, such as ``Attention.explain``.
    """

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value
        self.sections = split_sections(inspect.getdoc(value) or "")
        self.text = self.sections.pop("")

    @property
    def examples(self) -> list[doctest.Example]:
        """The statements of the examples, with their expected results."""
        return doctest.DocTestParser().get_examples(self.sections.get("Examples", ""))

    @property
    def members(self) -> list[Entry]:
        """The public methods of a class, in the order of its source; not those of its bases."""
        if not inspect.isclass(self.value):
            return []
        found = _public_functions(self.value)
        if self.name == DESCRIBED_WITH:
            found = _public_functions(_base()) | found
        return [Entry(f"{self.name}.{name}", value) for name, value in found.items()]

    @property
    def properties(self) -> list[tuple[str, str]]:
        """The names and descriptions of the properties of a class."""
        return [
            (name, inspect.getdoc(value) or "")
            for name, value in vars(self.value).items()
            if isinstance(value, property) and not name.startswith("_")
        ]


def split_sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their titles; the text before them has none."""
    parts = re.split(r"^([A-Z][a-z]+)\n-+\n", text, flags=re.MULTILINE)
    return dict(zip(("", *parts[1::2]), map(str.strip, parts[::2]), strict=True))


def _base() -> type:
    return next(base for base in visualizer.Attention.__mro__ if base.__name__ == BASE)


def _public_functions(owner: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(owner).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }


@cache
def list_entries() -> tuple[Entry, ...]:
    """List the public functions, then the classes, then the classes of results."""
    names = [(name, getattr(visualizer, name)) for name in visualizer.__all__]
    names += [(name, getattr(import_module(module), name)) for name, module in RESULTS.items()]
    names.sort(key=lambda each: inspect.isclass(each[1]))
    return tuple(Entry(*each) for each in names)


def list_all_entries() -> tuple[Entry, ...]:
    """List the functions, the classes and their methods."""
    return tuple(each for entry in list_entries() for each in (entry, *entry.members))


# ------------------------------------------------------------------------------- Markdown


def create_page() -> str:
    """Return the page in Markdown."""
    return "\n".join((HEAD, *(part for entry in list_entries() for part in _format_class(entry))))


def _format_class(entry: Entry) -> Iterator[str]:
    yield from _format_entry(entry, 2)
    if not inspect.isclass(entry.value):
        return
    if entry.properties:
        yield "| Property | Description |\n| --- | --- |"
        for name, text in entry.properties:
            yield f"| `{name}` | {_format_property(text, entry)} |"
        yield ""
    if _base() in entry.value.__mro__ and entry.name != DESCRIBED_WITH:
        shared = ", ".join(
            f"[`{name}`](#{heading_anchor(f'{DESCRIBED_WITH}.{name}')})"
            for name in _public_functions(_base())
            if name not in vars(entry.value)
        )
        yield f"Methods that are described with `{DESCRIBED_WITH}`: {shared}.\n"
    for member in entry.members:
        yield from _format_entry(member, 3)


def _format_entry(entry: Entry, level: int) -> Iterator[str]:
    yield f"{'#' * level} {entry.name}\n"
    if call := _format_call(entry):
        yield f"`{call}`\n"
    yield f"{_to_markdown(entry.text, entry)}\n"
    for title, text in entry.sections.items():
        if title == "Examples":
            yield f"```python\n{_format_examples(entry)}```\n"
        else:
            written = _to_markdown if title in TEXT_SECTIONS else _format_list
            yield f"**{title}**\n\n{written(text, entry)}\n"


def _format_property(text: str, entry: Entry) -> str:
    """Format the docstring of a property as one line, with its sections as sentences."""
    parts = split_sections(text)
    errors = re.sub(r"^(\w+)\n\s+If ", r"Raises `\1` if ", parts.get("Raises", ""))
    flat = " ".join(_to_markdown(f"{parts['']} {errors}", entry).split())
    return flat.replace("|", r"\|")


def _format_call(entry: Entry) -> str:
    """Return the call of a function with its arguments, without types."""
    if not inspect.isfunction(entry.value):
        return ""
    signature = inspect.signature(entry.value)
    parameters = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in signature.parameters.values()
        if each.name != "self"
    ]
    parameters = [
        each.replace(default=each.default.value) if isinstance(each.default, Enum) else each
        for each in parameters
    ]
    call = signature.replace(parameters=parameters, return_annotation=signature.empty)
    owner, _, name = entry.name.rpartition(".")
    return f"{'.' if owner else 'visualizer.'}{name}{call}"


def _format_examples(entry: Entry) -> str:
    lines = (
        example.source + "".join(f"# {line}\n" for line in example.want.splitlines())
        for example in entry.examples
    )
    return "".join(lines)


def _format_list(text: str, entry: Entry) -> str:
    """Format parameters, results or errors: lines without indent, and indented descriptions."""
    items = re.findall(r"^(\S.*)\n?((?:(?:    .*)?\n?)*)", text, re.MULTILINE)
    lines = []
    for head, body in items:
        name, _, kind = head.partition(" : ")
        flat = " ".join(_to_markdown(textwrap.dedent(body), entry).split())
        title = f"`{name}` ({kind})" if kind else f"`{name}`"
        lines.append(f"- {title}: {flat}" if flat else f"- {title}")
    return "\n".join(lines)


def _to_markdown(text: str, entry: Entry) -> str:
    """Convert the markup of docstrings: literal blocks, literals and names."""
    text = re.sub(
        r"^(.*)::\n\n((?:    .*\n?|\n)+)", _to_fence, f"{text}\n", flags=re.MULTILINE
    ).strip()
    parts = re.split(r"(```.*?```)", text, flags=re.DOTALL)
    link = partial(_to_code, entry.name.partition(".")[0])
    parts[::2] = [
        re.sub(r"``(.+?)``|`([\w.]+)`", link, part, flags=re.DOTALL) for part in parts[::2]
    ]
    return "".join(parts)


def _to_fence(found: re.Match[str]) -> str:
    before = f"{found[1]}:\n\n" if found[1] else ""
    return f"{before}```python\n{textwrap.dedent(found[2]).strip()}\n```\n\n"


def _to_code(owner: str, found: re.Match[str]) -> str:
    """Return a literal, or a link to a name, which can be that of a method of the same class."""
    if found[1]:
        return f"`{found[1]}`"
    name = found[2].removeprefix("visualizer.")
    for full in (name, f"{owner}.{name}", f"{DESCRIBED_WITH}.{name}"):
        if full in _names_on_page():
            return f"[`{name}`](#{heading_anchor(full)})"
    return f"`{name}`"


@cache
def _names_on_page() -> frozenset[str]:
    return frozenset(entry.name for entry in list_all_entries())
