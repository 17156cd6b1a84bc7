"""Differences between two folders of behaviour snapshots are found and named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from tests.architecture.project_graph import ROOT
from tests.behaviour_snapshots.__main__ import main
from tests.behaviour_snapshots.commands import described

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Compare = Callable[[], tuple[int, str]]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Create two folders with the same image and the same text."""
    both = tmp_path / "before", tmp_path / "after"
    for folder in both:
        (folder / "windows").mkdir(parents=True)
        Image.new("RGB", (40, 30), "white").save(folder / "windows" / "light.png")
        (folder / "windows" / "light.txt").write_text("Window\n  Button 'Save'\n")
    return both


@pytest.fixture
def compared(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> Compare:
    def compared_() -> tuple[int, str]:
        status = main(["--compare", *map(str, folders)])
        return status, capsys.readouterr().out

    return compared_


def test_equal_folders_have_no_difference(compared: Compare) -> None:
    assert compared() == (0, "0 of 2 files differ\n")


def test_pixels_are_counted_and_marked(folders: tuple[Path, Path], compared: Compare) -> None:
    with Image.open(folders[1] / "windows" / "light.png") as picture:
        for at in ((3, 5), (10, 20)):
            picture.putpixel(at, (255, 254, 255))
        picture.save(folders[1] / "windows" / "light.png")
    status, said = compared()
    assert status == 1
    assert "windows/light.png: 2 other pixels in x 3–10, y 5–20; see " in said
    marked = folders[1].with_name("after-differences") / "windows" / "light.png.png"
    with Image.open(marked) as picture:
        pixels = np.asarray(picture)
    assert (pixels == (255, 0, 80)).all(-1).sum() == 2


def test_lines_are_shown(folders: tuple[Path, Path], compared: Compare) -> None:
    (folders[1] / "windows" / "light.txt").write_text("Window\n  Button 'Keep'\n")
    status, said = compared()
    assert status == 1
    assert "-  Button 'Save'\n  +  Button 'Keep'" in said


def test_files_of_one_folder_alone_and_other_sizes_are_named(
    folders: tuple[Path, Path], compared: Compare
) -> None:
    Image.new("RGB", (41, 30), "white").save(folders[1] / "windows" / "light.png")
    (folders[0] / "windows" / "light.txt").unlink()
    (folders[1] / "new.bin").write_bytes(b"\xff")
    status, said = compared()
    assert status == 1
    assert "windows/light.png: other size, (40, 30) before and (41, 30) after" in said
    assert "windows/light.txt: only after" in said
    assert "new.bin: only after" in said


def test_empty_folders_are_not_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert capsys.readouterr().out == "0 of 0 files differ\n"


def test_a_document_is_described_by_its_settings_and_the_digests_of_its_numbers() -> None:
    said = described(ROOT / "tests" / "golden" / "documents" / "recorded-2.attention")
    assert '"schema": 2' in said
    assert "trace/weights.npy: float32 (2, 2, 3, 3) " in said


def test_pdf_dates_and_object_order_are_ignored(tmp_path: Path) -> None:
    dates = "/CreationDate (D:20261122125001Z00'00')", 'xmp:ModifyDate="2026-11-22"'
    pages = []
    for numbers in ((1, 2), (2, 1)):
        first, second = (f"{number} 0 obj\n{date}\nendobj\n" for number, date in
                         zip(numbers, dates, strict=True))  # fmt: skip
        page = tmp_path / f"{numbers[0]}.pdf"
        page.write_text(first + second if numbers[0] == 1 else second + first)
        pages.append(described(page))
    assert pages[0] == pages[1] == '/CreationDate (D:)\nxmp:ModifyDate=""\n'
