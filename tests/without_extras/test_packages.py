"""Each optional package has an extra and is imported only after it has been required."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.architecture.project_graph import ROOT
from visualizer.errors import InputError
from visualizer.optional_packages import (
    EXTRA_OF_PACKAGE,
    PACKAGE_FIELD,
    is_installed,
    missing_package_message,
    require_package,
)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_USERS = {"film", "models", "remote", "completion"}


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0]


def test_the_extras_are_those_of_the_project() -> None:
    declared = {
        name_of(requirement): extra
        for extra in FOR_USERS
        for requirement in PROJECT["optional-dependencies"][extra]
    }
    assert declared == EXTRA_OF_PACKAGE


def test_a_message_names_the_feature_the_package_and_the_command() -> None:
    assert [*map(is_installed, EXTRA_OF_PACKAGE)] == len(EXTRA_OF_PACKAGE) * [False]
    for package, extra in EXTRA_OF_PACKAGE.items():
        said = missing_package_message(package, "This")
        assert said.startswith(f"This requires {package}")
        assert said.endswith(f'pip install "attention-visualizer[{extra}]"')
        with pytest.raises(InputError) as refused:
            require_package(package, "This")
        assert (refused.value.field, refused.value.sentence) == (PACKAGE_FIELD, said)


IMPORTS_AT_ONCE = {
    "visualizer/export/films/mp4_encoder.py",
    "visualizer/models/lab_transformer.py",
    "visualizer/models/preallocated_cache.py",
    "visualizer/models/model_server/http_server.py",
}
"""Modules that import optional packages at the top; other modules import them on demand."""


def test_modules_that_import_optional_packages_are_known() -> None:
    found = set()
    for path in (ROOT / "visualizer").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if {name.partition(".")[0] for name in names} & EXTRA_OF_PACKAGE.keys():
                found.add(path.relative_to(ROOT).as_posix())
    assert found == IMPORTS_AT_ONCE
