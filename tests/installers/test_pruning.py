"""The running program never reads the files that are removed from a bundle."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from installers.linux.pruning import KEPT, LEFT_OUT, is_left_out, prune
from tests.support.tiny_models import save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

LOADED = """
import json, pkgutil, sys
from importlib import import_module
from pathlib import Path

import visualizer
for module in pkgutil.walk_packages(visualizer.__path__, "visualizer."):
    if not module.name.endswith("__main__") and not module.name.endswith("_process_main"):
        import_module(module.name)
import pyqtgraph, shtab, torch, torch.multiprocessing
from PySide6.QtGui import QImageReader
from PySide6.QtWidgets import QApplication
application = QApplication([])
QImageReader.supportedImageFormats()
visualizer.attend("The cat sat on the mat").save(Path(sys.argv[1]) / "a.png")
visualizer.open_model(sys.argv[1]).attend("The cat sat")["weights"]
files = {getattr(one, "__file__", None) for one in list(sys.modules.values())} - {None}
files |= {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
packages = Path(torch.__file__).parents[1]
print(json.dumps([
    Path(one).relative_to(packages).as_posix()
    for one in sorted(files)
    if Path(one).is_relative_to(packages)
]))
"""
"""Script that uses all parts of the program and prints the package files that it has read."""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the bundle is for Linux")
def test_no_file_that_the_program_loads_is_left_out(tmp_path: Path) -> None:
    save_tiny_model(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout.splitlines()[-1])
    for expected in ("torch/__init__.py", "PySide6/QtCore.abi3.so", "transformers/__init__.py"):
        assert expected in loaded
    assert any(name.startswith("PySide6/Qt/plugins/imageformats/") for name in loaded)
    assert [name for name in loaded if is_left_out(name)] == []


@pytest.mark.parametrize(
    "path",
    [
        "torch/test/test_one",
        "torch/include/torch/csrc/api.h",
        "torch/bin/protoc",
        "sympy/core/tests/test_expr.py",
        "PySide6/Qt/qml/QtQuick/plugin.so",
        "PySide6/Qt/lib/libQt6Quick.so.6",
        "PySide6/lupdate",
        "numpy/__init__.pyi",
        "attention_visualizer-0.1.0.dist-info/direct_url.json",
    ],
)
def test_excluded_files_are_removed(path: str) -> None:
    assert is_left_out(path)


@pytest.mark.parametrize(
    "path",
    [
        "torch/bin/torch_shm_manager",
        "torchgen/gen.py",
        "torch/testing/__init__.py",
        "PySide6/Qt/plugins/platforms/libqxcb.so",
        "PySide6/Qt/lib/libicudata.so.73",
        "torch-2.13.0.dist-info/METADATA",
        "torch-2.13.0.dist-info/licenses/LICENSE",
        "visualizer/py.typed",
    ],
)
def test_included_files_are_kept(path: str) -> None:
    assert not is_left_out(path)


def test_every_pattern_of_what_is_kept_is_one_of_what_is_left_out() -> None:
    for pattern in KEPT:
        assert is_left_out(pattern.replace("*", "x")) is False
        assert any(pattern.startswith(one.removesuffix("*")) for one in LEFT_OUT)


def test_pruning_deletes_files_and_then_empty_folders(tmp_path: Path) -> None:
    kept = tmp_path / "torch" / "bin" / "torch_shm_manager"
    gone = tmp_path / "torch" / "test" / "deep" / "test_api"
    for path in (kept, gone):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"12345")
    assert prune(tmp_path) == 5
    left = [path for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    assert left == [kept]
    assert not (tmp_path / "torch" / "test").exists()
