"""The modules of the project and the imports between them, read from the source files."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parents[2]
IMPORT_FUNCTIONS = {"import_module", "__import__"}


class ImportTime(StrEnum):
    """Time at which an import is executed."""

    LOAD = "load"
    """When the module is imported."""
    CALL = "call"
    """When a function of the module is called."""
    TYPES = "types"
    """Never at run time; only type checkers read it."""


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, with the module from which it is imported."""

    name: str
    line: int
    when: ImportTime

    def is_within(self, *modules: str) -> bool:
        """Return whether the name is one of the modules or is defined in one of them."""
        return any(self.name == module or self.name.startswith(f"{module}.") for module in modules)


@dataclass(frozen=True)
class Module:
    """One source file; its path is relative to the root of the repository and uses slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed source."""
        return ast.parse(self.text, self.path)

    @property
    def name(self) -> str:
        """The dotted name under which the module is imported."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_package(self) -> bool:
        """Whether the module is the ``__init__`` of a package."""
        return self.path.endswith("__init__.py")

    @property
    def is_test(self) -> bool:
        """Whether the module is part of the tests."""
        return self.path.startswith("tests/")

    def is_within(self, *folders: str) -> bool:
        """Return whether the module is one of the files or is in one of the folders."""
        return any(self.path == folder or self.path.startswith(f"{folder}/") for folder in folders)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the syntax tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """All imports in the file."""
        found: list[Import] = []
        has_calls = any(name in self.text for name in IMPORT_FUNCTIONS)
        _add_imports(self.tree, ImportTime.LOAD, found, has_calls)
        return tuple(found)


def _add_imports(node: ast.AST, when: ImportTime, found: list[Import], has_calls: bool) -> None:
    """Collect the imports below a node; expressions are only searched if necessary."""
    if isinstance(node, ast.Import):
        found.extend(Import(alias.name, node.lineno, when) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        start = f"{'.' * node.level}{node.module or ''}"
        found.extend(Import(f"{start}.{alias.name}", node.lineno, when) for alias in node.names)
    elif isinstance(node, ast.Call):
        by_name = name_of(node.func) in IMPORT_FUNCTIONS
        if by_name and node.args and (name := _imported_by_name(node.args[0])):
            found.append(Import(name, node.lineno, when))
    for child in ast.iter_child_nodes(node):
        if has_calls or not isinstance(child, ast.expr):
            _add_imports(child, _time_of(node, child, when), found, has_calls)


def _imported_by_name(argument: ast.expr) -> str:
    """Return the module that a string names, or ``a.b.*`` if a name is inserted after ``a.b.``."""
    if isinstance(argument, ast.Constant):
        return str(argument.value)
    start = argument.values[0] if isinstance(argument, ast.JoinedStr) else None
    return str(start.value) + "*" if isinstance(start, ast.Constant) else ""


def _time_of(node: ast.AST, child: ast.AST, when: ImportTime) -> ImportTime:
    if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":
        return ImportTime.TYPES if child in node.body else when
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    return ImportTime.CALL if is_function and when is ImportTime.LOAD else when


def name_of(node: ast.AST) -> str:
    """Return ``b`` for the expressions ``b`` and ``a.b``, and an empty string for all others."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@dataclass(frozen=True)
class Project:
    """All modules by path."""

    modules: Mapping[str, Module]

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {module.name: path for path, module in self.modules.items()}

    def modules_of(self, imported: str) -> list[Module]:
        """Return the modules that an import loads; ``a.b.*`` loads all modules in ``a.b``."""
        if imported.endswith(".*"):
            start, paths = imported.removesuffix("*"), self._paths.items()
            return [self.modules[path] for name, path in paths if name.startswith(start)]
        for name in (imported, imported.rpartition(".")[0]):
            if name in self._paths:
                return [self.modules[self._paths[name]]]
        return []

    def arrows(
        self, *times: ImportTime, of: Iterable[Module] | None = None
    ) -> Iterator[tuple[Module, Module, Import]]:
        """Return which modules each module of the program imports at the given times.

        All times are included by default.
        """
        for module in self.program if of is None else of:
            for found in module.imports:
                if not times or found.when in times:
                    for target in self.modules_of(found.name):
                        if target is not module:
                            yield module, target, found

    @property
    def program(self) -> list[Module]:
        """The modules of the program, without the tests."""
        return [module for module in self.modules.values() if module.is_within("visualizer")]

    def way_to(self, start: Module, goals: Mapping[str, bool]) -> list[str]:
        """Return the shortest chain of imports, at import time, from a module to a target."""
        loads = self._loads
        seen, queue = {start.path}, [[start.path]]
        while queue:
            way = queue.pop(0)
            if len(way) > 1 and goals.get(way[-1]):
                return way
            for path in loads.get(way[-1], ()):
                if path not in seen:
                    seen.add(path)
                    queue.append([*way, path])
        return []

    @cached_property
    def _loads(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for module, target, _ in self.arrows(ImportTime.LOAD):
            found.setdefault(module.path, set()).add(target.path)
        return found

    def circles(self) -> list[list[str]]:
        """Return the groups of modules that import each other, at any time."""
        graph: dict[str, set[str]] = {}
        for module, target, _ in self.arrows():
            graph.setdefault(module.path, set()).add(target.path)
        reached = {path: _reached(graph, path) for path in graph}
        groups = {
            frozenset(other for other in ways if path in reached.get(other, ()))
            for path, ways in reached.items()
            if path in ways
        }
        return sorted(sorted(group) for group in groups)


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    stack = [start]
    while stack:
        for path in graph.get(stack.pop(), ()):
            if path not in found:
                found.add(path)
                stack.append(path)
    return found


def read_project() -> Project:
    """Read the program, its tests and ``main.py``."""
    files = [ROOT / "main.py", *ROOT.glob("visualizer/**/*.py"), *ROOT.glob("tests/**/*.py")]
    paths = {file.relative_to(ROOT).as_posix(): file for file in sorted(files)}
    return Project(
        {path: Module(path, file.read_text(encoding="utf-8")) for path, file in paths.items()}
    )
