"""The borders and limits of the house, as rules over its sources.

torch never leaves ``attention/`` and ``language/``. Qt never enters below ``ui/``. An import for
the type checker alone crosses nothing but the border around windows. A rule yields what breaks it
in one source.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).parents[1]

QT = ("PySide6", "pyqtgraph", "shiboken6")
MEETING = tuple(
    f"visualizer.{name}" for name in ("api", "app", "exporting", "headless", "notebook")
)
"""Where all parts meet, loaded as late as they are needed."""
TORCH_HOMES = ("visualizer.attention", "visualizer.language")
FOR_STATE = (
    "visualizer.attention.captured",
    "visualizer.attention.choices",
    "visualizer.attention.derived",
    "visualizer.attention.errors",
    "visualizer.attention.explain",
    "visualizer.attention.explanation",
    "visualizer.attention.masks",
    "visualizer.attention.measures",
    "visualizer.attention.mechanisms",
    "visualizer.attention.spec",
    "visualizer.attention.stages",
    "visualizer.language.baselines",
    "visualizer.language.corpora",
    "visualizer.language.folder",
    "visualizer.language.journal",
    "visualizer.language.layers",
    "visualizer.language.presets",
    "visualizer.language.sampling",
    "visualizer.language.settings",
    "visualizer.language.snapshots",
    "visualizer.language.tokenizers",
    "visualizer.language.vocabulary",
    "visualizer.language.wire",
)
TORCH_FREE = (
    *FOR_STATE,
    "visualizer.attention.embedding",
    "visualizer.attention.held",
    "visualizer.attention.trace",
)
WINDOWS = ("visualizer.ui.window", "visualizer.ui.lab.window")
OPEN_WINDOWS = ("visualizer.app", "visualizer.ui.windows")
"""The only modules that may know a window by its type; what is in a window never does."""
STANDARD_LIBRARY = tuple(sys.stdlib_module_names)


# ---------------------------------------------------------------------------- reading sources


@dataclass(frozen=True, slots=True)
class Source:
    path: str
    """From the root of the repository, with forward slashes."""
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @property
    def is_package(self) -> bool:
        return self.path.endswith("__init__.py")

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @property
    def may_hold_torch(self) -> bool:
        return self.within(*TORCH_HOMES) and not self.is_package and not self.within(*TORCH_FREE)

    @property
    def module(self) -> str:
        """The name that it is imported by."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def within(self, *modules: str) -> bool:
        return within(self.module, *modules)


@dataclass(frozen=True, slots=True)
class Import:
    name: str
    line: int
    in_function: bool

    def within(self, *modules: str) -> bool:
        return within(self.name, *modules)

    @property
    def is_of_the_api_late(self) -> bool:
        return self.in_function and self.within("visualizer.api")

    @property
    def brings_torch(self) -> bool:
        return self.within("torch", *TORCH_HOMES) and not self.within(*TORCH_FREE)


class Imports(ast.NodeVisitor):
    """Collects the imports that can happen when the program runs, or those for types alone too."""

    def __init__(self, source: Source, *, with_types: bool = False) -> None:
        self.found: list[Import] = []
        self._depth = 0
        self._with_types = with_types
        self.visit(source.tree)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._add(f"{'.' * node.level}{node.module or ''}.{alias.name}", node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        by_name = name_of(node.func) in {"import_module", "__import__"}
        if by_name and node.args and isinstance(node.args[0], ast.Constant):
            self._add(str(node.args[0].value), node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        for_types = name_of(node.test) == "TYPE_CHECKING" and not self._with_types
        for statement in node.orelse if for_types else ast.iter_child_nodes(node):
            self.visit(statement)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def _add(self, name: str, line: int) -> None:
        self.found.append(Import(name, line, in_function=self._depth > 0))


def within(name: str, *modules: str) -> bool:
    """Whether a dotted name is one of the modules or lies inside one."""
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def name_of(node: ast.expr) -> str:
    """``b`` for ``b`` and for ``a.b``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def functions(source: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def house() -> list[Source]:
    """All of the program and of its tests."""
    files = [ROOT / "main.py", *ROOT.glob("visualizer/**/*.py"), *ROOT.glob("tests/**/*.py")]
    return [
        Source(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))
        for file in sorted(files)
    ]


# -------------------------------------------------------------------------------- import rules


@dataclass(frozen=True, slots=True)
class Border:
    """Sources of one side, and the imports that must not be found there."""

    side: Callable[[Source], bool]
    forbids: Callable[[Import], bool]
    with_types: bool = False
    """Whether an import for the type checker alone crosses it."""

    def __call__(self, source: Source) -> Iterator[str]:
        if self.side(source):
            for found in filter(self.forbids, self._imports(source)):
                yield f"line {found.line} imports {found.name}"

    def _imports(self, source: Source) -> list[Import]:
        return Imports(source, with_types=self.with_types).found


torch_never_leaves_its_homes = Border(
    lambda source: not source.is_test and not source.may_hold_torch,
    lambda found: found.within("torch"),
)
torch_free_files_lead_to_no_torch = Border(
    lambda source: source.within(*TORCH_HOMES) and not source.may_hold_torch,
    lambda found: found.brings_torch,
)
ui_leads_to_no_torch = Border(
    lambda source: source.within("visualizer.ui"),
    lambda found: found.brings_torch,
)
qt_never_enters_below_ui = Border(
    lambda source: not source.is_test and not source.within("visualizer.ui", *MEETING),
    lambda found: found.within(*QT, "visualizer.ui"),
)
what_is_heavy_is_loaded_late = Border(
    lambda source: source.within(*MEETING, "visualizer.__main__", "main"),
    lambda found: (
        not found.in_function and (found.brings_torch or found.within(*QT, "visualizer.ui"))
    ),
)
state_is_plain_values = Border(
    lambda source: source.within("visualizer.state"),
    lambda found: (
        not found.within(
            *STANDARD_LIBRARY,
            "numpy",
            "visualizer.disk",
            "visualizer.version",
            "visualizer.state",
            *FOR_STATE,
        )
    ),
)
packages_import_nothing_heavy = Border(
    lambda source: source.is_package and not source.is_test,
    lambda found: (
        not found.within(*STANDARD_LIBRARY, "visualizer.version") and not found.is_of_the_api_late
    ),
)
windows_are_known_to_what_opens_them = Border(
    lambda source: not source.is_test and not source.within(*WINDOWS, *OPEN_WINDOWS),
    lambda found: found.within(*WINDOWS),
    with_types=True,
)
imports_give_the_whole_name = Border(
    lambda _: True,
    lambda found: found.name.startswith("."),
)

GUESSING_HOMES = {
    "visualizer.ui.labels": {"QLabel"},
    "visualizer.ui.tooltips": {"QToolTip"},
    "visualizer.ui.messages": {"QMessageBox", "QTextBrowser"},
    "visualizer.ui.lab.asking": {"QMessageBox"},
    "visualizer.ui.ask_file": {"QMessageBox"},
}
"""Where what guesses is told what a text is; elsewhere these are asked for it."""
GUESSING = {
    *("QErrorMessage", "QInputDialog", "QLabel", "QMessageBox", "QProgressDialog"),
    *("QTextBrowser", "QTextEdit", "QToolTip", "QWhatsThis"),
}
"""Widgets that take a text for HTML where it looks like it."""


def no_text_is_taken_for_html(source: Source) -> Iterator[str]:
    """Find widgets that guess outside of their homes, and tips of texts that are no literals."""
    if source.is_test:
        return
    homes = [kinds for home, kinds in GUESSING_HOMES.items() if source.within(home)]
    for found in Imports(source).found:
        kind = found.name.rpartition(".")[2]
        if found.within(*QT) and kind in GUESSING.difference(*homes):
            yield f"line {found.line} imports {kind}"
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    for call in calls:
        is_tip = name_of(call.func) in {"setToolTip", "setWhatsThis"}
        if is_tip and not is_plain(call.args[-1]):
            yield f"line {call.lineno}: {ast.unparse(call)}"


def is_plain(text: ast.expr) -> bool:
    """Whether a tip is a literal, a constant of a module, or made plain."""
    if isinstance(text, ast.IfExp):
        return is_plain(text.body) and is_plain(text.orelse)
    if isinstance(text, ast.Call):
        return name_of(text.func) == "plain_tooltip"
    if isinstance(text, ast.Subscript):
        return is_plain(text.value)
    return isinstance(text, ast.Constant) or name_of(text).isupper()


def in_circles(sources: list[Source]) -> set[str]:
    """Modules that import each other in a circle, for types too, and those between two circles.

    What imports nothing that is left, or is imported by nothing that is left, is left out until
    there is no such module any more.
    """
    modules = {source.module: source for source in sources}
    left: dict[str, set[str]] = {}
    for module, source in modules.items():
        names = {found.name for found in Imports(source, with_types=True).found}
        left[module] = {_module_of(name, modules) for name in names} - {module, ""}
    while True:
        imported = set().union(*left.values())
        ends = {module for module, tos in left.items() if not tos or module not in imported}
        if not ends:
            return set(left)
        left = {module: tos - ends for module, tos in left.items() if module not in ends}


def _module_of(name: str, modules: Mapping[str, Source]) -> str:
    """Give the module that an import is of: the name, or what comes before its last part."""
    above = name.rpartition(".")[0]
    return name if name in modules else above if above in modules else ""


# ------------------------------------------------------------------------------ rules of tests


def every_test_asserts(source: Source) -> Iterator[str]:
    for function in functions(source) if source.is_test else ():
        is_test = function.name.startswith("test_")
        if is_test and not any(asserts(node) for node in ast.walk(function)):
            yield f"{function.name} asserts nothing"


def asserts(node: ast.AST) -> bool:
    """An assert, ``pytest.raises`` or ``warns``, or a call of something named ``assert_…``."""
    if isinstance(node, ast.Call):
        name = name_of(node.func)
        return name in {"raises", "warns"} or name.startswith("assert_")
    return isinstance(node, ast.Assert)


def no_test_sleeps(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree) if source.is_test else ():
        if isinstance(node, ast.Call) and sleeps(node.func):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def sleeps(called: ast.expr) -> bool:
    by_bot = isinstance(called, ast.Attribute) and name_of(called.value) == "qtbot"
    return name_of(called) in {"sleep", "qSleep", "qWait"} or (by_bot and name_of(called) == "wait")


# ------------------------------------------------------------------------------- all of them

RULES: dict[str, Callable[[Source], Iterator[str]]] = {
    "torch never leaves its homes": torch_never_leaves_its_homes,
    "torch-free files lead to no torch": torch_free_files_lead_to_no_torch,
    "ui leads to no torch": ui_leads_to_no_torch,
    "Qt never enters below ui": qt_never_enters_below_ui,
    "what is heavy is loaded late": what_is_heavy_is_loaded_late,
    "state is plain values": state_is_plain_values,
    "packages import nothing heavy": packages_import_nothing_heavy,
    "windows are known to what opens them": windows_are_known_to_what_opens_them,
    "imports give the whole name": imports_give_the_whole_name,
    "no text is taken for HTML": no_text_is_taken_for_html,
    "every test asserts": every_test_asserts,
    "no test sleeps": no_test_sleeps,
}
