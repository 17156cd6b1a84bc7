"""The house keeps its rules, and every rule is able to fail."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house_rules import (
    ROOT,
    RULES,
    TORCH_FREE,
    Source,
    house,
    in_circles,
)

OFFENCES = [
    ("torch never leaves its homes", "visualizer/state/panels.py", "import torch"),
    ("torch never leaves its homes", "visualizer/app.py", "def run():\n    import torch.nn as nn"),
    ("torch never leaves its homes", "visualizer/attention/stages.py", "from torch import nn"),
    ("torch never leaves its homes", "visualizer/attention/__init__.py", "import torch"),
    ("torch never leaves its homes", "visualizer/ui/worker.py", "import_module('torch')"),
    (
        "torch-free files lead to no torch",
        "visualizer/attention/explain.py",
        "from visualizer.attention import attend",
    ),
    (
        "ui leads to no torch",
        "visualizer/ui/a.py",
        "from visualizer.attention.attend import attend",
    ),
    (
        "ui leads to no torch",
        "visualizer/ui/a.py",
        "def f():\n    import visualizer.language.models",
    ),
    ("Qt never enters below ui", "visualizer/state/view.py", "from PySide6.QtCore import QRect"),
    ("Qt never enters below ui", "visualizer/attention/attend.py", "import pyqtgraph as pg"),
    ("Qt never enters below ui", "visualizer/state/panels.py", "from visualizer.ui import theme"),
    ("what is heavy is loaded late", "visualizer/app.py", "from PySide6 import QtWidgets"),
    ("what is heavy is loaded late", "visualizer/app.py", "import visualizer.ui.window"),
    ("what is heavy is loaded late", "visualizer/app.py", "import visualizer.attention.attend"),
    *(
        ("what is heavy is loaded late", f"visualizer/{name}.py", text)
        for name in ("api", "exporting", "headless", "notebook", "__main__")
        for text in ("import torch", "from PySide6 import QtGui", "import visualizer.ui.exports")
    ),
    ("state is plain values", "visualizer/state/document.py", "import psutil"),
    ("state is plain values", "visualizer/state/history.py", "import visualizer.ui.theme"),
    ("state is plain values", "visualizer/state/view.py", "import visualizer.attention.attend"),
    ("packages import nothing heavy", "visualizer/__init__.py", "import numpy"),
    ("packages import nothing heavy", "visualizer/ui/__init__.py", "import visualizer.ui.window"),
    ("packages import nothing heavy", "visualizer/__init__.py", "import visualizer.api"),
    (
        "packages import nothing heavy",
        "visualizer/__init__.py",
        "def f():\n    import visualizer.app",
    ),
    (
        "windows are known to what opens them",
        "visualizer/ui/parts.py",
        "from visualizer.ui.window import Window",
    ),
    (
        "windows are known to what opens them",
        "visualizer/ui/lab/plotter.py",
        "if TYPE_CHECKING:\n    from visualizer.ui.lab.window import LabWindow",
    ),
    (
        "windows are known to what opens them",
        "visualizer/ui/a.py",
        "from visualizer.ui import window",
    ),
    ("imports give the whole name", "visualizer/state/view.py", "from . import document"),
    ("imports give the whole name", "visualizer/ui/theme.py", "from ..attention import trace"),
    *(
        ("no text is taken for HTML", "visualizer/ui/a.py", text)
        for text in (
            "from PySide6.QtWidgets import QLabel",
            "from PySide6.QtWidgets import QToolTip, QWidget",
            "from PySide6.QtWidgets import QMessageBox",
            "widget.setToolTip(name)",
            "item.setToolTip(0, f'{name}')",
        )
    ),
    ("every test asserts", "tests/test_a.py", "def test_a(qtbot):\n    qtbot.addWidget(f())"),
    ("every test asserts", "tests/test_a.py", "class TestA:\n  def test_a(self):\n    print(1)"),
    ("no test sleeps", "tests/test_a.py", "time.sleep(1)"),
    ("no test sleeps", "tests/test_a.py", "QTest.qWait(100)"),
    ("no test sleeps", "tests/ui/test_a.py", "qtbot.wait(100)"),
]

IN_CIRCLES = frozenset(
    f"visualizer.state.{name}"
    for name in (
        *("compare.comparison", "lessons.pages", "lines.look", "playback.guess"),
        *("extent", "playback.lights", "resolve", "view", "zoom"),
    )
)
"""Modules that still import each other in circles: none may be added."""

LAWFUL = [
    ("visualizer/attention/attend.py", "import torch"),
    ("visualizer/attention/stages.py", "import numpy\nimport visualizer.attention.spec"),
    ("visualizer/state/panels.py", "from visualizer.attention import explain, spec"),
    (
        "visualizer/state/panels.py",
        "if TYPE_CHECKING:\n    from visualizer.attention.trace import Trace",
    ),
    ("visualizer/ui/heatmap.py", "import pyqtgraph\nimport visualizer.state.panels"),
    ("visualizer/ui/labels.py", "from PySide6.QtWidgets import QLabel"),
    (
        "visualizer/ui/a.py",
        "a.setToolTip('Stop')\na.setToolTip(0, TIPS[at])\na.setToolTip(plain_tooltip(name))",
    ),
    ("visualizer/ui/windows.py", "from visualizer.ui.window import Window"),
    ("visualizer/ui/a.py", "from visualizer.ui.windows import window_on"),
    ("visualizer/app.py", "def main():\n    from visualizer.attention.attend import attend"),
    ("visualizer/__init__.py", "def f():\n    from visualizer import api"),
    *(
        (f"visualizer/{name}.py", f"def f():\n    {text}")
        for name in ("api", "exporting", "headless", "notebook")
        for text in (
            "from PySide6 import QtGui",
            "import visualizer.ui.exports",
            "from visualizer.attention.run import run",
        )
    ),
    ("tests/test_a.py", "def test_a():\n    with pytest.raises(ValueError):\n        f()"),
    ("tests/test_a.py", "def test_a(worker):\n    assert worker.wait(100)"),
]


@pytest.mark.parametrize("rule", RULES)
def test_the_house_keeps(rule: str) -> None:
    broken = [f"{source.path}: {what}" for source in house() for what in RULES[rule](source)]
    assert not broken, "\n".join([rule, *broken])


@pytest.mark.parametrize(("rule", "path", "text"), OFFENCES)
def test_a_breach_is_found(rule: str, path: str, text: str) -> None:
    assert list(RULES[rule](Source(path, text)))


@pytest.mark.parametrize(("path", "text"), LAWFUL)
def test_what_is_allowed_passes(path: str, text: str) -> None:
    broken = [name for name, rule in RULES.items() if list(rule(Source(path, text)))]
    assert broken == []


def test_modules_import_each_other_in_no_circle() -> None:
    program = [source for source in house() if source.within("visualizer")]
    assert in_circles(program) <= IN_CIRCLES


def test_a_circle_is_found() -> None:
    sources = [
        Source("visualizer/a.py", "from visualizer.b import thing"),
        Source("visualizer/b.py", "def f():\n    import visualizer.c"),
        Source("visualizer/c.py", "if TYPE_CHECKING:\n    from visualizer import a"),
        Source("visualizer/d.py", "import visualizer.a"),
        Source("visualizer/e.py", "import json"),
    ]
    assert in_circles(sources) == {"visualizer.a", "visualizer.b", "visualizer.c"}
    assert in_circles(sources[1:]) == set()


def test_every_rule_has_a_breach() -> None:
    assert {rule for rule, _, _ in OFFENCES} == set(RULES)


@pytest.mark.parametrize("module", TORCH_FREE)
def test_every_torch_free_file_is_named_to_those_who_write_one(module: str) -> None:
    name = module.rpartition(".")[2]
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"`{name}.py`" in text or f"`{name}/`" in text


@pytest.mark.parametrize("folder", ["visualizer/attention", "visualizer/state", "visualizer/ui"])
def test_the_walk_finds_each_folder(folder: str) -> None:
    assert [source for source in house() if source.path.startswith(f"{folder}/")]


# --------------------------------------------------------------------------- what really loads


def loaded_by(module: str) -> set[str]:
    """The top-level packages that a fresh Python holds after importing a module."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        pytest.fail(f"import {module}:\n{run.stderr}")
    return set(run.stdout.split())


@pytest.mark.slow
def test_the_window_loads_qt_and_no_torch() -> None:
    loaded = loaded_by("visualizer.ui.window")
    assert "PySide6" in loaded
    assert "torch" not in loaded


@pytest.mark.parametrize("module", ["visualizer", "visualizer.app", "visualizer.api"])
def test_the_command_line_and_the_package_load_neither(module: str) -> None:
    loaded = loaded_by(module)
    assert "visualizer" in loaded
    assert not {"torch", "PySide6"} & loaded
