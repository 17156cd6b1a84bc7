"""Dates and numbers are formatted in plain English, whatever the language of the desktop."""

from __future__ import annotations

import ast
import re
from datetime import datetime
from pathlib import Path

import pytest

import visualizer
from visualizer.format import MONTHS, format_date, format_date_and_time, format_time

SOURCES = sorted(Path(visualizer.__file__).parent.rglob("*.py"))
LOCAL = {"strftime", "ctime", "asctime", "toLocalizedString", "setlocale", "format_string"}
"""Functions whose result depends on the desktop's language, or that use another date format."""
DATE = re.compile("%[a-zA-Z]")


def test_a_date_is_written_in_english() -> None:
    when = datetime(2026, 11, 23, 14, 5)
    assert format_date(when) == "23 November 2026"
    assert format_time(when) == "14:05"
    assert format_date_and_time(when) == "23 November 2026, 14:05"


def test_hours_and_days_are_as_they_are_said() -> None:
    assert format_date_and_time(datetime(2027, 3, 1, 0, 7)) == "1 March 2027, 00:07"


def test_every_month_has_its_name() -> None:
    months = [format_date(datetime(2026, month, 1)).split()[1] for month in range(1, 13)]
    assert tuple(months) == MONTHS
    assert len(set(months)) == 12


def faults(source: str) -> list[str]:
    """Return the places in a source at which dates or numbers are formatted by other means."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
            spec = "".join(
                str(part.value)
                for part in node.format_spec.values
                if isinstance(part, ast.Constant)
            )
            if DATE.search(spec) or spec.endswith("n"):
                found.append(f"{node.lineno}: :{spec}")
        if isinstance(node, ast.Attribute) and node.attr in LOCAL:
            found.append(f"{node.lineno}: {node.attr}")
    return found


@pytest.mark.slow
def test_no_other_module_writes_dates_or_local_numbers() -> None:
    found = {path.name: faults(path.read_text("utf-8")) for path in SOURCES}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert len(found) > 100


@pytest.mark.parametrize(
    "line", ["f'{when:%d.%m.}'", "when.strftime('%B')", "f'{count:n}'", "f'{when:%Y-%m-%d}'"]
)
def test_such_a_line_would_be_found(line: str) -> None:
    assert faults(line)
    assert not faults("f'{count:,} {share:.0%} {width:{decimals}.2f}'")
