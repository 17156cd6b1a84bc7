"""The benchmarks finish even if one of their parts fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.benchmarks import memory, startup
from tests.benchmarks.__main__ import main
from tests.benchmarks.stand import Stand
from visualizer.session.document import Document

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot


def fail(repeats: int) -> int:
    raise RuntimeError("the window reported an error")


def measure_and_print(repeats: int) -> int:
    print(f"measured {repeats} rounds")
    return 0


def test_failing_part_is_named_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(startup, "measure", fail)
    monkeypatch.setattr(memory, "measure", measure_and_print)
    assert main(["startup", "memory", "--repeats", "3"]) == 1
    printed = capsys.readouterr().out
    assert "RuntimeError: the window reported an error" in printed
    assert "measured 3 rounds" in printed
    assert printed.endswith("No targets missed\nFailed: startup\n")


def test_status_is_0_when_all_targets_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "measure", measure_and_print)
    assert main(["memory"]) == 0


def test_unknown_part_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["toggle"])
    assert "no such part: toggle" in capsys.readouterr().err


@pytest.fixture
def stand(qtbot: QtBot) -> Stand:
    """Open a window with results; the test closes the window."""
    return Stand.with_numbers(Document())


@pytest.mark.slow
def test_window_with_unsaved_work_is_closed(stand: Stand) -> None:
    stand.edit()
    assert not stand.window.controllers.document_controller.is_saved
    stand.close()


def test_window_in_which_something_broke_is_closed_and_raises(stand: Stand) -> None:
    # It would wait for a result.
    stand.workspace.failed.disconnect(stand.window.show_unexpected_error)
    stand.workspace.failed.emit("ZeroDivisionError")
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        stand.close()
