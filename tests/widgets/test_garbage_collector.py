from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any

import pytest

from visualizer import process_settings
from visualizer.process_settings import (
    collect_garbage,
    exclude_from_garbage_collection,
    is_garbage_collection_suspended,
)
from visualizer.widgets.garbage_collector import GarbageCollector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot

NEVER_MS = 10**8


class Cycle:
    def __init__(self, collected: list[str]) -> None:
        self.itself = self
        self.collected = collected

    def __del__(self) -> None:
        self.collected.append(threading.current_thread().name)


@pytest.fixture
def collector(qapp: Any) -> Iterator[GarbageCollector]:
    thresholds = gc.get_threshold()
    made = GarbageCollector(qapp, NEVER_MS)
    assert not gc.isenabled()
    yield made
    process_settings.collectors.clear()
    made.deleteLater()
    gc.set_threshold(*thresholds)
    gc.enable()


def test_new_objects_are_collected_often_and_old_objects_rarely(
    collector: GarbageCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    monkeypatch.setattr(gc, "collect", looked_at.append)
    gc.set_threshold(10**6)
    collector.collect_if_needed()
    assert looked_at == [], "there are too few new ones"
    gc.set_threshold(1)
    kept: list[list[object]] = []
    with exclude_from_garbage_collection():
        kept += [[] for _ in range(100)]
        assert is_garbage_collection_suspended()
        collector.collect_if_needed()
    gc.unfreeze()
    assert looked_at == []
    kept += [[] for _ in range(100)]
    for _ in range(200):
        collector.collect_if_needed()
    assert len(kept) == 200
    wanted = ([*(9 * [0] + [1]) * 9, *9 * [0], 2]) * 2
    assert looked_at == wanted


@pytest.mark.usefixtures("collector")
def test_garbage_of_another_thread_is_collected_on_the_gui_thread(
    monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    # A collection that includes the objects of all other tests takes longer than in the program.
    monkeypatch.setattr(process_settings, "COLLECTION_TIMEOUT_S", 60.0)
    collected: list[str] = []
    seen: list[list[str]] = []

    def work() -> None:
        Cycle(collected)
        collect_garbage()
        seen.append([*collected])

    thread = threading.Thread(target=work)
    thread.start()
    qtbot.waitUntil(lambda: not thread.is_alive(), timeout=60_000)
    assert seen == [[threading.current_thread().name]]


@pytest.mark.usefixtures("collector")
def test_waiting_for_a_collection_has_a_timeout(
    monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    monkeypatch.setattr(process_settings, "COLLECTION_TIMEOUT_S", 0.01)
    collected: list[str] = []
    Cycle(collected)
    thread = threading.Thread(target=collect_garbage)
    thread.start()
    thread.join(30)  # this thread collects nothing in the meantime
    assert not thread.is_alive()
    assert collected == []
    qtbot.waitUntil(lambda: collected == [threading.current_thread().name])
