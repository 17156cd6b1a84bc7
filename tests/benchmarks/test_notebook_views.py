"""The tables of the notebook views show the results, and what could not be drawn."""

from __future__ import annotations

import pytest

from tests.benchmarks import notebook_tools
from tests.benchmarks.notebook_tools import OWN, PEERS, Tool
from tests.benchmarks.notebook_views import Measured, Results, format_tables, main

FAST = Measured(0.25, 0.5, 1_500_000, 10**6, 2 * 10**7, (0.01, 0.02, 0.03))
SLOW = Measured(1.0, 19.5, 400_000_000, 10**9, 10**9, ())
LATE = Measured(python_s=2.0, size=2_000_000_000, failure="> 120 s in the browser")


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_tables_mark_the_best_result_and_describe_failures() -> None:
    names, shape = (OWN.name, PEERS[0].name), (12, 12)
    found = ((FAST, SLOW), (SLOW, LATE))
    results: Results = {
        (name, shape, tokens): each
        for name, of_tool in zip(names, found, strict=True)
        for tokens, each in zip((14, 1_024), of_tool, strict=True)
    }
    seconds, size, memory, response = map(rows, format_tables(results).split("\n\n"))
    assert seconds[0][1:] == [*names]
    assert seconds[2:] == [
        ["12 × 12, 14", "**0.75**", "20"],
        ["12 × 12, 1,024", "**20**", "> 120 s in the browser"],
    ]
    assert [row[1:] for row in size[2:]] == [["**1.50**", "400"], ["**400**", "2,000"]]
    assert [row[1:] for row in memory[2:]] == [["**21**", "2,000"], ["**2,000**", "–"]]
    assert [row[1:] for row in response[2:]] == [["**20**", "–"], ["–", "–"]]


def test_missing_tools_are_named_with_the_commands_that_install_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Tool("other", OWN.create, "", "", "", packages=("no_such_package",))
    monkeypatch.setattr("tests.benchmarks.notebook_views.TOOLS", (OWN, other))
    assert main([]) == 1
    assert "pip install no_such_package" in capsys.readouterr().out


def test_weights_are_causal() -> None:
    weights = notebook_tools.create_weights(2, 3, 5)
    assert weights.shape == (2, 3, 5, 5)
    assert weights.sum(-1) == pytest.approx(1)
    assert not weights[:, :, 1, 2:].any()
