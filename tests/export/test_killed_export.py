"""If a program is killed during an export, the file is unchanged or complete."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.architecture.project_graph import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked to be killed")
def test_a_program_that_is_killed_leaves_whole_exports() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_export", "12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "'kills': 12" in done.stdout
