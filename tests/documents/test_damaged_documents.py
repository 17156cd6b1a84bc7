"""Damaged document files are rejected with a message, or opened as valid documents."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given
from msgspec.structs import replace

from tests.architecture.project_graph import ROOT
from tests.damage import spoil, spoil_runs, spoil_tensor_files
from tests.documents.test_document_file import opened
from tests.support.damaged_files import packed, spoiled_tree, unpacked
from tests.support.document_strategies import VIEWS
from tests.support.examples import examples
from tests.support.golden_documents import GOLDEN, OWN, OWN_VIEW, PLAIN, run_of
from tests.support.screens import present, warm
from visualizer.documents.document_file import document_bytes
from visualizer.errors import InputError
from visualizer.file_opening import restore_document
from visualizer.session.screen import Screen
from visualizer.session.worker_jobs import compute
from visualizer.shell import pane_table

if TYPE_CHECKING:
    from visualizer.session.view import View

FILES = 2_000
RUNS = 160
TENSOR_FILES = 300
PANES = frozenset(pane.id for pane in pane_table.PANES)
MEMORY = 64 * 2**20


@pytest.mark.slow
def test_damaged_files_are_refused_in_a_sentence_or_open_whole() -> None:
    outcome = spoil(FILES)
    assert outcome.files >= FILES
    assert outcome.refused > outcome.files // 2
    assert outcome.peak < MEMORY
    assert len(outcome.said) > 40


@pytest.mark.slow
def test_damaged_runs_are_refused_in_a_sentence_or_open() -> None:
    outcome = spoil_runs(RUNS)
    assert outcome.files == RUNS
    assert outcome.refused > outcome.files // 3
    assert outcome.opened > outcome.files // 8
    assert len(outcome.said) > 15


def test_damaged_tensors_and_texts_are_refused_in_a_sentence_or_open() -> None:
    outcome = spoil_tensor_files(TENSOR_FILES)
    assert outcome.files == TENSOR_FILES
    assert outcome.refused > outcome.files // 2
    assert outcome.opened > 0


@pytest.mark.slow
def test_whatever_opens_can_be_looked_at() -> None:
    chance, run, looked = random.Random(3), run_of(PLAIN), 0
    content = document_bytes(PLAIN, OWN_VIEW)
    for _ in range(400):
        members = unpacked(content)
        description = spoiled_tree(chance, members["document.json"])
        members["document.json"] = description
        try:
            saved = opened(packed(members))
        except InputError:
            continue
        if saved.document == PLAIN:
            looked += 1
            _, view = restore_document(saved, compute)
            try:
                warm(run, view)
                assert isinstance(present(PLAIN, view, run, None, False, None), Screen)
            except Exception as error:
                raise AssertionError(_difference(description)) from error
    assert looked > 20


@examples(0.6, suppress_health_check=[HealthCheck.too_slow])
@given(VIEWS)
def test_any_view_that_a_file_may_have_can_be_looked_at(view: View) -> None:
    if view.comparison:
        view = replace(view, comparison=replace(view.comparison, document=OWN))
    saved = opened(document_bytes(PLAIN, view))
    run, seen = restore_document(saved, compute)
    seen = replace(seen, panes=PANES)
    warm(run, seen)
    assert isinstance(present(PLAIN, seen, run, None, False, None), Screen)


def _difference(description: bytes) -> str:
    whole = json.loads(unpacked(document_bytes(PLAIN, OWN_VIEW))["document.json"])
    spoiled = json.loads(description)["view"]
    names = [name for name, value in whole["view"].items() if spoiled.get(name) != value]
    return str({name: spoiled.get(name) for name in names})[:500]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="programs are forked to be killed")
@pytest.mark.slow
def test_a_program_that_is_killed_leaves_whole_files() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_saving", "40"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'kills': 40" in done.stdout


def test_nothing_in_a_golden_file_is_a_pickle() -> None:
    contents = [path.read_bytes() for path in GOLDEN.iterdir()]
    assert contents
    assert not [content for content in contents if b"'|O'" in content]
