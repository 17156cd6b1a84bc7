"""Zooming keeps its centre fixed, and panning stops at the edges of the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.small_runs import a_run, places
from visualizer.session.zoom_ranges import (
    MIN_VISIBLE_TOKENS,
    ZoomRange,
    clamp_zoom,
    pan_to_show,
    row_token_role,
    zoom_by,
)

FACTORS = st.sampled_from([1.01, 1.25, 1.5, 2.0, 10.0])
SHARES = st.floats(0, 1)


@st.composite
def spans(draw: st.DrawFn, tokens: int) -> range:
    size = draw(st.integers(min(MIN_VISIBLE_TOKENS, tokens), tokens))
    start = draw(st.integers(0, tokens - size))
    return range(start, start + size)


@st.composite
def zooms(draw: st.DrawFn, least: int = 1) -> tuple[int, ZoomRange]:
    """Generate the length of a text, and its visible part."""
    tokens = draw(st.integers(least, 80))
    return tokens, ZoomRange(draw(spans(tokens)), draw(spans(tokens)))


def sides(zoom: ZoomRange | None, tokens: int) -> tuple[range, range]:
    return (zoom.queries, zoom.keys) if zoom else (range(tokens), range(tokens))


def place_in(zoom: ZoomRange, tokens: int, shares: tuple[float, float]) -> tuple[float, float]:
    """Return the query and the key at the given fractions of the visible part."""
    queries, keys = sides(zoom, tokens)
    return queries.start + shares[0] * len(queries), keys.start + shares[1] * len(keys)


def within(tokens: int, *seen: range) -> bool:
    return all(0 <= span.start < span.stop <= tokens and span.step == 1 for span in seen)


@given(zooms(), FACTORS, st.booleans(), SHARES, SHARES)
def test_the_cell_under_the_pointer_stays_there(
    given_: tuple[int, ZoomRange], factor: float, is_closer: bool, down: float, right: float
) -> None:
    tokens, before = given_
    shares = (down, right)
    at = place_in(before, tokens, shares)
    after = zoom_by(before, (tokens, tokens), factor if is_closer else 1 / factor, at)
    for old, new, share, place in zip(
        sides(before, tokens), sides(after, tokens), shares, at, strict=True
    ):
        assert within(tokens, new)
        assert len(new) <= len(old) if is_closer else len(new) >= len(old)
        stays = abs(place - new.start - share * len(new)) <= 1
        assert stays or (not is_closer and (new.start == 0 or new.stop == tokens))
        assert min(int(place), tokens - 1) in new or place == new.stop


@given(zooms(), FACTORS, st.tuples(SHARES, SHARES))
def test_zooming_in_and_out_change_the_size_equally(
    given_: tuple[int, ZoomRange], factor: float, shares: tuple[float, float]
) -> None:
    tokens, before = given_
    at = place_in(before, tokens, shares)
    for by in (factor, 1 / factor):
        for old, new in zip(
            sides(before, tokens),
            sides(zoom_by(before, (tokens, tokens), by, at), tokens),
            strict=True,
        ):
            wanted = min(max(len(old) / by, min(MIN_VISIBLE_TOKENS, tokens)), tokens)
            assert abs(len(new) - wanted) <= max(1, 1 / by)


@given(st.integers(1, 1000), st.integers(1, 12), FACTORS, st.tuples(SHARES, SHARES))
def test_the_same_number_of_steps_back_shows_everything(
    tokens: int, steps: int, factor: float, shares: tuple[float, float]
) -> None:
    at = (shares[0] * tokens, shares[1] * tokens)
    zoom = zoom_by(None, (tokens, tokens), 1 / factor, at)
    assert zoom is None  # if everything is visible, zooming out has no effect
    for _ in range(steps):
        zoom = zoom_by(zoom, (tokens, tokens), factor, at)
    assert (zoom is None) == (tokens <= MIN_VISIBLE_TOKENS)
    for _ in range(steps):
        zoom = zoom_by(zoom, (tokens, tokens), 1 / factor, at)
    assert zoom is None


@given(zooms(), st.tuples(SHARES, SHARES))
def test_a_zoom_factor_of_1_changes_nothing(
    given_: tuple[int, ZoomRange], shares: tuple[float, float]
) -> None:
    tokens, before = given_
    at = place_in(before, tokens, shares)
    assert sides(zoom_by(before, (tokens, tokens), 1, at), tokens) == sides(before, tokens)


@given(zooms(), st.integers(-100, 100), st.integers(-100, 100))
def test_panning_stays_within_the_text_and_keeps_the_size(
    given_: tuple[int, ZoomRange], down: int, right: int
) -> None:
    tokens, before = given_
    after = before.pan_by((tokens, tokens), down, right)
    for old, new, by in zip(
        sides(before, tokens), sides(after, tokens), (down, right), strict=True
    ):
        assert within(tokens, new)
        assert len(new) == len(old)
        moved = new.start - old.start
        assert moved == by or (abs(moved) < abs(by) and (new.start == 0 or new.stop == tokens))


@given(zooms(), st.data())
def test_panning_shows_the_cell_and_moves_no_further_than_necessary(
    given_: tuple[int, ZoomRange], data: st.DataObject
) -> None:
    tokens, before = given_
    token = st.none() | st.integers(0, tokens - 1)
    wanted = data.draw(st.tuples(token, token))
    after = before.pan_to_include((tokens, tokens), *wanted)
    for old, new, at in zip(sides(before, tokens), sides(after, tokens), wanted, strict=True):
        assert within(tokens, new)
        assert len(new) == len(old)
        if at is None or at in old:
            assert new == old
        else:
            assert at == (new.start if at < old.start else new.stop - 1)


@given(zooms(), st.integers(1, 80))
def test_the_same_range_is_shown_for_another_text_if_possible(
    given_: tuple[int, ZoomRange], tokens: int
) -> None:
    _, zoom = given_
    seen = clamp_zoom(zoom, (tokens, tokens))
    longest = max(len(zoom.queries), len(zoom.keys))
    shortest = min(len(zoom.queries), len(zoom.keys))
    assert (seen is None) == (longest > tokens or shortest == tokens)
    if seen is None:
        return
    for old, new in zip(sides(zoom, tokens), sides(seen, tokens), strict=True):
        assert within(tokens, new)
        assert len(new) == len(old)
        assert new == old or new.stop == tokens


@given(st.integers(1, 60), st.integers(1, 60), st.floats(1.1, 4), st.integers(1, 5))
def test_each_axis_is_zoomed_by_its_own_length(
    queries: int, keys: int, factor: float, steps: int
) -> None:
    zoom, lengths = None, (queries, keys)
    for _ in range(steps):
        zoom = zoom_by(zoom, lengths, factor, (queries / 2, keys / 2))
    assert clamp_zoom(zoom, lengths) == zoom
    seen = zoom or ZoomRange.full_range(lengths)
    for span, count in zip((seen.queries, seen.keys), lengths, strict=True):
        assert within(count, span)
        assert len(span) <= max(min(MIN_VISIBLE_TOKENS, count), count / factor**steps + 1)
    for _ in range(4 * steps + 10):
        zoom = zoom_by(zoom, lengths, 1 / factor, (queries / 2, keys / 2))
    assert zoom is None


def test_without_a_zoom_nothing_is_clamped() -> None:
    assert clamp_zoom(None, (7, 7)) is None


# --------------------------------------------------------------------------------------- cells


SEVEN = a_run("a b c d e f g", dropout=0.5, output_projection=True)


@pytest.mark.parametrize("stage", SEVEN.trace.names)
def test_a_cell_to_show_is_in_its_panel(stage: str) -> None:
    row = SEVEN.trace.stage(stage)
    zoom = ZoomRange(range(2, 4), range(3, 6))
    for place in places(SEVEN, stage):
        seen = pan_to_show(zoom, (7, 7), row, *place[-2:])
        assert seen
        rows, columns = seen.visible_ranges(row)
        assert place[-2] in rows
        assert columns is None or place[-1] in columns
        other = replace(seen, queries=zoom.queries) if row_token_role(stage) == "key" else seen
        assert other == seen  # stages whose rows are keys do not move the queries
    assert pan_to_show(None, (7, 7), row, 0, 0) is None


@pytest.mark.parametrize(
    ("stage", "rows", "columns"),
    [
        ("weights", range(1, 3), range(4, 6)),
        ("scores", range(1, 3), range(4, 6)),
        ("context", range(1, 3), None),
        ("queries", range(1, 3), None),
        ("keys", range(4, 6), None),
        ("values", range(4, 6), None),
        ("output", range(1, 3), None),
    ],
)
def test_rows_that_are_not_queries_are_keys(stage: str, rows: range, columns: range | None) -> None:
    zoom = ZoomRange(range(1, 3), range(4, 6))
    assert zoom.visible_ranges(a_run().trace.stage(stage)) == (rows, columns)


@given(zooms(), st.integers(1, 80), st.integers(-90, 90), st.integers(0, 79))
def test_a_zoom_of_a_longer_text_is_never_panned_to_before_the_first_token(
    given_: tuple[int, ZoomRange], tokens: int, by: int, at: int
) -> None:
    """If the text was shortened, every zoom that results can be saved and read."""
    _, zoom = given_
    sides_now = (tokens, tokens)
    seen = min(at, tokens - 1)
    for panned in (zoom.pan_by(sides_now, by, -by), zoom.pan_to_include(sides_now, seen, seen)):
        for old, new in zip((zoom.queries, zoom.keys), (panned.queries, panned.keys), strict=True):
            assert new.start >= 0
            assert len(new) == len(old)
