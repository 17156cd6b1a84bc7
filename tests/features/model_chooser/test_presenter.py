"""Contents of the model dialog in each of its states."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from visualizer.attention.spec import Device, ModelDtype
from visualizer.features.model_chooser.presenter import (
    EMPTY_FOLDER_MESSAGE,
    LISTING_MESSAGE,
    ModelActivity,
    ModelChooserState,
    describe_download,
    format_bytes,
    format_parameters,
    format_progress,
    present_model_chooser,
)
from visualizer.models.cached_models import LocalModelEntry
from visualizer.models.download_plan import DownloadPlan, RepositoryFile
from visualizer.optional_packages import missing_package_message
from visualizer.session.model_opening import DeviceChoice

SMALL = LocalModelEntry("org/small", Path("/s"), "llama", 30, 9, 134_515_008, 538_090_408)
REFUSED = LocalModelEntry("org/refused", Path("/r"), unavailable_reason="It is damaged.")
PLACES = {
    (Device.AUTO, dtype): DeviceChoice(f"Runs in {dtype} on the CPU.", 10**9)
    for dtype in ModelDtype
}
STATE = ModelChooserState(Path("/cache"), (SMALL, REFUSED), PLACES)


def test_rows_show_the_properties_of_models() -> None:
    panel = present_model_chooser(STATE)
    small, refused = panel.rows
    assert small.cells == ("org/small", "llama", "30 × 9", "538 MB", "135 M")
    assert (small.can_open, small.note) == (True, "")
    assert small.description == (
        "org/small: llama, 30 × 9 layers and heads, 135 M parameters, 538 MB."
    )
    assert refused.cells == ("org/refused", "–", "–", "–", "–")
    assert (refused.can_open, refused.note) == (False, "It is damaged.")
    assert refused.description == "org/refused: –. It is damaged."
    assert (panel.message, panel.device_note) == ("", "Runs in auto on the CPU.")


def test_the_selected_model_can_be_opened_or_has_a_reason() -> None:
    assert not present_model_chooser(STATE).can_open
    chosen = present_model_chooser(replace(STATE, selected=SMALL.path))
    assert (chosen.selected, chosen.can_open, chosen.note) == (0, True, "")
    refused = present_model_chooser(replace(STATE, selected=REFUSED.path))
    assert (refused.selected, refused.can_open, refused.note) == (1, False, "It is damaged.")
    assert present_model_chooser(replace(STATE, selected=Path("/gone"))).selected == -1


def test_a_model_larger_than_memory_has_a_note() -> None:
    assert present_model_chooser(STATE).rows[0].note == ""
    double = replace(STATE, dtype=ModelDtype.FLOAT64, selected=SMALL.path)
    panel = present_model_chooser(double)
    assert panel.note == "Requires 1.1 GB in float64; 1.0 GB is available."
    assert panel.device_note == "Runs in float64 on the CPU."


def test_streaming_is_offered_while_idle() -> None:
    offered = replace(STATE, on_disk=SMALL.path, estimate="Each pass reads 0.5 GB.")
    assert present_model_chooser(STATE).estimate == ""
    assert present_model_chooser(offered).estimate == "Each pass reads 0.5 GB."
    working = replace(offered, activity=ModelActivity.OPENING)
    assert present_model_chooser(working).estimate == ""


def test_an_empty_list_is_replaced_by_a_message() -> None:
    assert present_model_chooser(ModelChooserState(Path("/c"))).message == LISTING_MESSAGE
    assert present_model_chooser(replace(STATE, models=())).message == EMPTY_FOLDER_MESSAGE
    opening = replace(STATE, models=(), activity=ModelActivity.OPENING)  # from another folder
    assert present_model_chooser(opening).message == ""
    without = present_model_chooser(
        replace(STATE, has_library=False, selected=SMALL.path, repository="a/b")
    )
    assert without.message == missing_package_message("transformers", "Opening models")
    assert not any((without.can_open, without.can_choose, without.can_download))


def test_progress_is_shown() -> None:
    opening = replace(
        STATE, activity=ModelActivity.OPENING, subject="org/small", selected=SMALL.path
    )
    panel = present_model_chooser(opening)
    assert (panel.status, panel.progress) == ("Opening org/small. Loading transformers…", None)
    assert panel.is_working
    assert panel.can_cancel
    assert not any((panel.can_open, panel.can_choose, panel.can_download))
    half = present_model_chooser(replace(opening, done=120_000_000, total=538_000_000))
    assert half.status == "Opening org/small: 120 of 538 MB"
    assert half.progress == pytest.approx(120 / 538)
    stopping = present_model_chooser(replace(opening, is_cancelling=True))
    assert (stopping.status, stopping.can_cancel) == ("Cancelling…", False)
    asking = replace(opening, activity=ModelActivity.LOOKING_UP)
    assert present_model_chooser(asking).status == "Looking up org/small…"
    loading = replace(opening, activity=ModelActivity.DOWNLOADING, done=1, total=2)
    assert present_model_chooser(loading).status == "Downloading org/small: 1 of 2 bytes"


def test_a_download_requires_a_name_and_shows_its_size() -> None:
    assert not present_model_chooser(replace(STATE, repository="  ")).can_download
    typed = present_model_chooser(replace(STATE, repository="org/x"))
    assert (typed.can_download, typed.download) == (True, "Download")
    offered = present_model_chooser(
        replace(STATE, repository="org/x", offer="…", offered_bytes=10**9)
    )
    assert offered.download == "Download 1.0 GB"


def test_offers_are_described() -> None:
    files = (RepositoryFile("a", 10**6, ""), RepositoryFile("b", 2 * 10**6, ""))
    offer = DownloadPlan("org/x", "c", files, Path("/hub/m"), 3 * 10**6, 5 * 10**9)
    assert describe_download(offer) == "org/x: 2 files, 3.0 MB. 5.0 GB free in /hub."
    begun = describe_download(replace(offer, missing=10**6))
    assert begun == "org/x: 2 files, 1.0 MB (2.0 MB already downloaded). 5.0 GB free in /hub."
    assert describe_download(replace(offer, missing=0)).startswith(
        "All 2 files of org/x are already"
    )


def test_parameters_and_bytes_are_formatted() -> None:
    counts = (0, 17, 1_700, 134_515_008, 6_738_415_616, 70_553_706_496)
    assert [*map(format_parameters, counts)] == ["–", "17", "1.7 K", "135 M", "6.7 B", "71 B"]
    assert [*map(format_bytes, (17, 5_200, 538_090_408, 141 * 10**9))] == [
        "17 bytes", "5.2 kB", "538 MB", "141 GB",
    ]  # fmt: skip
    assert format_progress(0, 9_990_000_000) == "0.0 of 10.0 GB"
