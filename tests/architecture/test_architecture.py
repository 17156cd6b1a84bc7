"""The project follows its architecture rules, and every rule detects violations."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.architecture.project_graph import ROOT, Module, Project, read_project
from tests.architecture.rules import NOT_STAGES, QT_EXCEPTIONS, RULES, UNPICKLED

if TYPE_CHECKING:
    from collections.abc import Iterator

CELL = "visualizer/features/explain/presenter.py"
BREACHES: list[tuple[str, dict[str, str]]] = [
    ("torch_stays_in_its_homes", {CELL: "import torch"}),
    ("torch_stays_in_its_homes", {"visualizer/app.py": "def run():\n    import torch.nn as nn"}),
    ("torch_stays_in_its_homes", {"visualizer/attention/__init__.py": "import torch"}),
    (
        "torch_stays_in_its_homes",
        {"visualizer/session/newest_request_worker.py": "import_module('torch')"},
    ),
    (
        "torch_stays_in_its_homes",
        {
            CELL: "from visualizer.attention.spec import Spec",
            "visualizer/attention/spec.py": "from visualizer.attention import attend",
            "visualizer/attention/attend.py": "from torch import nn",
        },
    ),
    (
        "torch_stays_in_its_homes",
        {
            CELL: "PARTS = [import_module(f'visualizer.attention.{name}') for name in 'ab']",
            "visualizer/attention/a.py": "from torch import nn",
        },
    ),
    ("qt_stays_in_its_homes", {CELL: "from PySide6.QtCore import QRect"}),
    ("qt_stays_in_its_homes", {"visualizer/language/trainer.py": "import pyqtgraph as pg"}),
    ("qt_stays_in_its_homes", {CELL: "def f():\n    from PySide6.QtCore import QRect"}),
    (
        "models_load_no_qt",
        {
            CELL: "from visualizer.heatmap import panel_paint as paint",
            "visualizer/heatmap/panel_paint.py": "from PySide6.QtGui import QPainter",
        },
    ),
    ("every_qt_exception_is_used", {next(iter(QT_EXCEPTIONS)): "import numpy"}),
    *(
        (
            "the_shell_names_no_pane",
            {
                "visualizer/features/explain/pane_spec.py": 'PANE = PaneSpec("Cell", "Cell")',
                "visualizer/shell/window.py": text,
            },
        )
        for text in (
            'docks.open("Cell")',
            "from visualizer.features.explain import pane_spec as cell",
        )
    ),
    (
        "features_stay_apart",
        {
            CELL: "from visualizer.features.token_strip.presenter import TokenPanel",
            "visualizer/features/token_strip/presenter.py": "class TokenPanel: ...",
        },
    ),
    (
        "features_stay_apart",
        {
            CELL: "if TYPE_CHECKING:\n    from visualizer.features.token_strip import presenter",
            "visualizer/features/token_strip/presenter.py": "class TokenPanel: ...",
        },
    ),
    (
        "floors_look_down",
        {
            "visualizer/session/view.py": "import visualizer.heatmap.board",
            "visualizer/heatmap/board.py": "class Board: ...",
        },
    ),
    (
        "floors_look_down",
        {
            "visualizer/storage/archive.py": "def f():\n    import visualizer.shell.window",
            "visualizer/shell/window.py": "",
        },
    ),
    ("every_folder_has_a_floor", {"visualizer/helpers/model.py": ""}),
    (
        "no_circles",
        {
            "visualizer/session/view.py": "if TYPE_CHECKING:\n    import visualizer.session.screen",
            "visualizer/session/screen.py": "def f():\n    import visualizer.session.view",
        },
    ),
    (
        "no_circles",
        {
            "visualizer/a.py": "from visualizer import b",
            "visualizer/b.py": "from visualizer.c import x",
            "visualizer/c.py": "from visualizer.a import y",
        },
    ),
    (
        "no_circles",
        {
            "visualizer/a.py": "def f(name):\n    return import_module(f'visualizer.parts.{name}')",
            "visualizer/parts/b.py": "from visualizer.a import f",
        },
    ),
    (
        "nothing_takes_its_window",
        {"visualizer/widgets/labels.py": "def f(window: MainWindow): ..."},
    ),
    (
        "nothing_takes_its_window",
        {"visualizer/lab/runs/controller.py": "class C:\n    owner: 'LabWindow'"},
    ),
    (
        "class_names_are_unique",
        {CELL: "class Reading: ...", "visualizer/session/view.py": "class Reading: ..."},
    ),
    (
        "only_attention_asks_whether_a_run_is_captured",
        {"visualizer/session/view.py": "def f(one):\n    return one.run.captured"},
    ),
    *(
        ("no_text_is_taken_for_html", {"visualizer/lab/window.py": text})
        for text in (
            "from PySide6.QtWidgets import QLabel",
            "from PySide6.QtWidgets import QToolTip, QWidget",
            "tab.setToolTip(name)",
            "tab.setToolTip(f'{name} tokens')",
            "tab.setToolTip('' if fits else name)",
        )
    ),
    *(
        ("nothing_that_is_read_can_run", {"visualizer/models/opened_model.py": text})
        for text in (
            "import pickle",
            "from pickle import loads",
            "from pickle import UnpicklingError",
            "def f():\n    import cPickle",
            "import dill",
            "import shelve",
            "from joblib import load",
            "import cloudpickle as c",
            "import marshal",
            "import_module('pickle')",
            "from multiprocessing.connection import Client",
            "from multiprocessing import Pipe",
            "import torch.multiprocessing as mp",
            "from torch import load",
            "from torch.distributed.run import main",
            "COMMAND = ['-m', 'torch.distributed.run']",
            "COMMAND = ('torchrun', '--standalone')",
            "torch.load(path)",
            "torch.load(path, weights_only=False)",
            "torch.load(path, weights_only=trusts)",
            "np.load(path, allow_pickle=True)",
            "np.load(path, None, True)",
            "np.save(path, array, allow_pickle=trusts)",
            "distributed.broadcast_object_list(found)",
            "dist.all_gather_object(found, own)",
            "dist.send_object_list(found, 1)",
            "dist.recv_object_list(found, 1)",
            "gather_object(own, found)",
            "eval('1')",
            "exec(text)",
            "compile(text, '', 'exec')",
            "builtins.eval(text)",
            "__import__(name)",
            "yaml.load(text)",
            "yaml.unsafe_load(text)",
            "subprocess.run(text, shell=True)",
            "os.system(text)",
            "AutoModel.from_pretrained(path, trust_remote_code=True)",
        )
    ),
    ("every_unpickled_name_is_used", {next(iter(UNPICKLED)): "import torch"}),
    ("packages_import_nothing_heavy", {"visualizer/__init__.py": "import numpy"}),
    ("packages_import_nothing_heavy", {"visualizer/__init__.py": "import visualizer.api"}),
    ("packages_import_nothing_heavy", {"visualizer/lab/__init__.py": "import visualizer.lab.x"}),
    (
        "packages_import_nothing_heavy",
        {"visualizer/__init__.py": "def f():\n    import visualizer.app"},
    ),
    ("code_asks_for_roles_of_stages", {CELL: "trace.read('weights')"}),
    ("code_asks_for_roles_of_stages", {CELL: "is_last = stage.name == 'context'"}),
    ("code_asks_for_roles_of_stages", {next(iter(NOT_STAGES)): "import torch"}),
    *(
        ("float64_is_made_on_the_cpu", {"visualizer/models/opened_model.py": text})
        for text in (
            "logits.double().cpu()",
            "logits.to(torch.float64)",
            "torch.zeros(3, dtype=torch.double)",
        )
    ),
    ("imports_give_the_whole_name", {"visualizer/session/view.py": "from . import document"}),
    ("imports_give_the_whole_name", {"visualizer/session/view.py": "from ..lab import window"}),
    ("every_test_asserts", {"tests/test_a.py": "def test_a(qtbot):\n    qtbot.addWidget(f())"}),
    ("every_test_asserts", {"tests/test_a.py": "class TestA:\n  def test_a(self):\n    f()"}),
    ("no_test_sleeps", {"tests/test_a.py": "time.sleep(1)"}),
    ("no_test_sleeps", {"tests/test_a.py": "QTest.qWait(100)"}),
    ("no_test_sleeps", {"tests/ui/test_a.py": "qtbot.wait(100)"}),
]
KEPT: list[dict[str, str]] = [
    {"visualizer/attention/attend.py": "import torch\nfrom torch import nn"},
    {"visualizer/session/view.py": "if TYPE_CHECKING:\n    from PySide6.QtCore import QRect"},
    {"visualizer/features/explain/widget.py": "from PySide6.QtWidgets import QWidget"},
    {"visualizer/features/explain/cell_paint.py": "from PySide6.QtGui import QPainter"},
    {
        "visualizer/app.py": "def f():\n    from visualizer.attention import attend",
        "visualizer/attention/attend.py": "import torch",
    },
    {
        "visualizer/features/explain/widget.py": "from visualizer.features.explain import script",
        CELL: "import numpy",
    },
    {
        "visualizer/app.py": "def f(window: MainWindow): ...",
        "visualizer/shell/window.py": "class MainWindow:\n    def f(self) -> MainWindow: ...",
    },
    {"visualizer/__init__.py": "def f():\n    from visualizer import api"},
    {CELL: "weights = trace.stage_of_role(Role.WEIGHTS)"},
    {"visualizer/attention/stages.py": "NAMES = ('weights', 'context')"},
    {
        "visualizer/lab/window.py": "from PySide6.QtWidgets import QWidget\n"
        "a.setToolTip('Open')\na.setToolTip(plain_tooltip(name))\na.setToolTip(TIP)"
    },
    {
        "visualizer/models/opened_model.py": "torch.load(path, weights_only=True)\n"
        "np.load(path, allow_pickle=False)\nmodel.eval()\nre.compile(text)\nloop.exec()\n"
        "json.load(file)\nsubprocess.run(command, shell=False)"
    },
    {
        "visualizer/models/opened_model.py": "to_float64_on_cpu(logits)\n"
        "np.zeros(3, np.float64)\nis_wide = logits.dtype is torch.float64"
    },
    {"tests/test_a.py": "def test_a():\n    with pytest.raises(ValueError):\n        f()"},
    {"tests/test_a.py": "def test_a(worker):\n    assert worker.wait(100)"},
]


def project_of(texts: dict[str, str]) -> Project:
    return Project({path: Module(path, text) for path, text in texts.items()})


@pytest.fixture(scope="module")
def project() -> Iterator[Project]:
    """The modules of the project, kept only for these tests.

    They contain a million syntax tree nodes; garbage collection of them would take longer than
    parsing, and would slow down all later tests.
    """
    gc.disable()
    yield read_project()
    gc.enable()


@pytest.mark.parametrize("rule", RULES)
def test_the_project_keeps(rule: str, project: Project) -> None:
    broken = list(RULES[rule](project))
    assert not broken, "\n".join([rule, *broken])


@pytest.mark.parametrize(("rule", "texts"), BREACHES)
def test_a_breach_is_found(rule: str, texts: dict[str, str]) -> None:
    assert list(RULES[rule](project_of(texts)))


@pytest.mark.parametrize("texts", KEPT)
def test_what_is_allowed_passes(texts: dict[str, str]) -> None:
    # These rules read the files of the real project.
    ignored = {"every_qt_exception_is_used", "every_unpickled_name_is_used"}
    broken = [name for name, rule in RULES.items() if list(rule(project_of(texts)))]
    assert set(broken) - ignored == set()


def test_every_rule_has_a_breach() -> None:
    assert {rule for rule, _ in BREACHES} == set(RULES)


@pytest.mark.parametrize("folder", ["attention", "features", "lab", "session", "shell"])
def test_the_project_is_read_whole(folder: str, project: Project) -> None:
    modules = project.modules.values()
    assert [module for module in modules if module.is_within(f"visualizer/{folder}")]


# --------------------------------------------------------------- modules that are really loaded


def loaded_by(module: str) -> set[str]:
    """Return the top-level packages that a new Python process loads with a module."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        pytest.fail(f"import {module}:\n{run.stderr}")
    return set(run.stdout.split())


@pytest.mark.slow
def test_the_window_loads_qt_and_no_torch() -> None:
    loaded = loaded_by("visualizer.shell.window")
    assert "PySide6" in loaded
    assert "torch" not in loaded


@pytest.mark.slow
@pytest.mark.parametrize("module", ["visualizer", "visualizer.app", "visualizer.api.attention_api"])
def test_the_command_line_and_the_package_load_neither(module: str) -> None:
    loaded = loaded_by(module)
    assert "visualizer" in loaded
    assert not {"torch", "PySide6"} & loaded
