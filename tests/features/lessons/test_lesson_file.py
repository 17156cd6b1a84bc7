"""A lesson with an error is reported with the line of the error; other lessons are available."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.architecture.project_graph import ROOT
from tests.support.examples import examples
from visualizer.attention.settings import SETTINGS
from visualizer.attention.spec import MaskKind, MaskPlacement
from visualizer.features.lessons import lesson_file
from visualizer.features.lessons.claim_check import InvalidLessonValueError, PrintedNumbers
from visualizer.features.lessons.lesson_file import (
    SETTING_NAMES,
    LessonError,
    find_line_number,
    load_lessons,
    parse_setting_value,
    read_lesson,
)
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document, LineGrouping
from visualizer.session.timeline import PlaybackPosition, StepSize

if TYPE_CHECKING:
    from visualizer.features.lessons.lesson import Lesson

FOLDER = ROOT / "resources" / "lessons"
PRINTED = PrintedNumbers.read_files(*FOLDER.glob("*.json"))

GOOD = """\
title = "One"      # line 1
section = "3.3"
[start]
mechanism = "simplified"
text = "stages = 1"

[[page]]           # line 7
title = "First"
says = \"\"\"
seed = 5, and no setting
\"\"\"
stages = ["scores"]

[[page]]           # line 14
title = "Second"
says = "Two."
stages = [
    "scores",
    "weights",
]
set = { mask = "causal", text = "Your journey starts with one step" }
play = { grain = "cell", from = "scores", at = [1, 2] }
cell = { stage = "weights", at = [0, 1, 1] }
tick = [
    { section = "3.3.2", name = "scores", stage = "scores", at = [0] },
    { section = "3.3.1", name = "scores", stage = "scores", at = [0, 1] },  # line 26
]

[[page]]           # line 29
title = "Third"
says = "Three."
stages = ["weights"]
[page.set]
mechanism = "average"
text = "Your journey starts with one step"
[page.set.own_kept]
section = "3.5.2"
name = "ones, Linux"
[[page.tick]]      # line 39
section = "3.5.2"
name = "ones, Linux"
stage = "dropped"
at = [0]
factor = 12
"""


def test_a_good_one_is_read_whole() -> None:
    lesson = read_lesson(GOOD, "one.toml", PRINTED)
    assert (lesson.name, lesson.title, lesson.section) == ("one.toml", "One", "3.3")
    first, second, third = lesson.pages
    assert first.markup == "seed = 5, and no setting\n"
    assert first.document == Document("stages = 1").with_setting("mechanism", "simplified")
    assert (first.claims, first.cell, first.playback_start, first.grain) == ((), None, None, None)
    assert second.document.spec.mask is MaskKind.CAUSAL
    assert (second.grain, second.span) == (
        StepSize.CELL,
        (PlaybackPosition("scores", 1, 2), "scores"),
    )
    assert second.playback_start == PlaybackPosition("scores", 1, 2)
    assert second.cell == Cell("weights", (0, 1, 1))
    assert [claim.at for claim in second.claims] == [(0,), (0, 1)]
    assert second.stages == {"scores", "weights"}
    assert third.document.spec.own_kept
    assert third.document.spec.own_kept.to_array().sum() == 21
    assert third.claims[0].factor == 12


# ------------------------------------------------------------------------------------ broken

BROKEN = [
    # Not TOML.
    ("section =", "section", 2, "Invalid TOML: "),
    ('title = "First"', 'title = "First', 8, "Invalid TOML: "),
    ('says = "Two."', 'says = "Two."\nsays = "Three."', 17, "Cannot overwrite a value"),
    ('says = "Three."', 'says = """Three.', 44, "Invalid TOML: "),
    ("factor = 12", "factor = 12\na = " + "[" * 5_000, 45, "Invalid TOML: "),
    ("factor = 12", "factor = " + "9" * 5_000, 44, "Invalid TOML: "),
    # Keys.
    ('section = "3.3"\n', 'sektion = "3.3"\n', 2, "Unknown key “sektion”. Use one of: title"),
    ('title = "Second"', 'title = "Second"\ncolour = "red"', 16, "Unknown key “colour”"),
    ("at = [1, 2] }", 'at = [1, 2], until = "input" }', 22, "“until” must not come before “from”."),
    ("at = [1, 2] }", 'at = [1, 2], until = "rows" }', 22, "Unknown stage “rows”"),
    ('grain = "cell", ', "", 22, "“grain” is missing."),
    ('says = "Three."\n', "", 29, "“says” is missing."),
    ('title = "One" ', "", 1, "“title” is missing."),
    ("factor = 12", "factory = 12", 44, "Unknown key “factory”"),
    ('stage = "weights", at', 'stage = "weights", up = 1, at', 23, "Unknown key “up”"),
    ('"3.3.1", name', '"3.3.1", nane = 1, name', 26, "Unknown key “nane”"),
    # Kinds of value.
    ('title = "First"', "title = 1", 8, "“title” must be text in quotes."),
    ("factor = 12", 'factor = "12"', 44, "“factor” must be a number."),
    ("factor = 12", "factor = true", 44, "“factor” must be a number."),
    ("factor = 12", "each = 1", 44, "“each” must be true or false."),
    ('stages = ["weights"]', 'stages = "weights"', 32, "“stages” must be a list."),
    ('stages = ["weights"]', "stages = [1]", 32, "Each item of “stages” must be text in quotes."),
    ('stages = ["weights"]', "stages = []", 32, "A page must show at least one stage."),
    ("at = [0, 1, 1]", 'at = ["a"]', 23, "Each item of “at” must be a whole number."),
    # Settings.
    ('mechanism = "simplified"', 'mechanizm = "simplified"', 4, "Unknown setting “mechanizm”."),
    ('mechanism = "average"', "lengths = [1]", 34, "Unknown setting “lengths”."),
    (
        'mask = "causal"',
        'mask = "casual"',
        21,
        "“mask” must be one of none, causal, window, own. It is",
    ),
    ('mask = "causal"', "mask = 1", 21, "“mask” must be one of none, causal, window, own. It is"),
    ('mask = "causal"', "d_in = 1.5", 21, "“d_in” must be a whole number. It is 1.5."),
    ('mask = "causal"', "d_in = true", 21, "“d_in” must be a whole number. It is true."),
    ('mask = "causal"', "causal = 1", 21, "“causal” must be true or false. It is 1."),
    ('mask = "causal"', 'dropout = "half"', 21, "“dropout” must be a number. It is “half”."),
    ('mask = "causal"', "dropout = 1", 21, "The dropout rate must be"),
    ('text = "stages = 1"', "text = 1", 5, "“text” must be text in quotes. It is 1."),
    ('mask = "causal"', "own_mask = [[1, 0], [1]]", 21, "list of rows of numbers"),
    ('mask = "causal"', "own_input = [[]]", 21, "list of rows of numbers"),
    ('mask = "causal"', "own_input = 3", 21, "list of rows of numbers"),
    ('mask = "causal"', 'own_input = {section = "3.3.2"}', 21, "“section” and a “name”"),
    ('mask = "causal"', "own_weights = {W_q = [[1]]}", 21, "“own_weights” must be a table"),
    ('mask = "causal"', f"dropout = {'9' * 400}", 21, "The dropout rate must be"),
    ('mask = "causal"', f"own_input = [[{'9' * 400}]]", 21, "list of rows of numbers"),
    ("factor = 12", f"factor = {'9' * 400}", 44, "“factor” must be a number."),
    ('mask = "causal"', f"seed = {'9' * 400}", 21, "The seed must be at least 0"),
    ('mask = "causal"', "temperature = nan", 21, "The temperature must be a number. It is nan."),
    ('mask = "causal"', "own_weights = 1", 21, "“own_weights” must be a table"),
    ('mask = "causal"', "own_input = [[1]]", 21, "1 × 1, but the embedding size"),
    ('"Your journey starts with one step" }', '"" }', 21, "The text contains no words."),
    (
        'says = "Two."',
        'says = "Two."\ntext_tokens = 0',
        17,
        "“text_tokens” times the number of lines must be from 1 to 100,000",
    ),
    (
        'says = "Two."',
        'says = "Two."\ntext_tokens = 100001',
        17,
        "“text_tokens” times the number of lines must be from 1",
    ),
    # Stages and places.
    ('    "weights",', '    "wights",', 17, "Unknown stage “wights”. Use one of: embedding"),
    ('stages = ["weights"]', 'stages = ["scores"]', 32, "This page has no stage “scores”"),
    ('from = "scores"', 'from = "output"', 22, "This page has no stage “output”"),
    (
        'grain = "cell"',
        'grain = "word"',
        22,
        "“grain” must be one of tour, stage, row, cell. It is “word”.",
    ),
    ("at = [1, 2]", "at = [6, 0]", 22, "The indices [6, 0] are out of range for the shape 6 × 6"),
    (
        "at = [1, 2]",
        "at = [0, 0, 0]",
        22,
        "The indices [0, 0, 0] are out of range for the shape 6 × 6",
    ),
    (
        "at = [0, 1, 1]",
        "at = [0, -1, 1]",
        23,
        "The indices [0, -1, 1] are out of range for the shape 1 × 6 × 6",
    ),
    ("at = [0, 1, 1]", "at = [0, 1]", 23, "A cell of “weights” needs 3 indices."),
    ('"weights", at = [0, 1, 1]', '"weight", at = [0]', 23, "Unknown stage “weight”"),
    (
        'stages = ["weights"]',
        'stages = ["weights"]\nlimits = "all"',
        33,
        "“limits” must be one of auto",
    ),
    (
        'stages = ["weights"]',
        'stages = ["weights"]\nlimits = "typed"',
        33,
        "“limits” must be one of",
    ),
    # Printed numbers.
    ('"3.3.1"', '"3.9"', 26, "No section name starts with “3.9”."),
    ('"3.3.1"', '"3.4.2"', 26, "More than one section name starts with “3.4.2”."),
    ('"3.3.1"', '""', 26, "More than one section name starts with “”"),
    ('"3.3.1", name = "scores"', '"3.3.1", name = "marks"', 26, "No name in “3.3.1 simp"),
    ('"3.3.1", name = "scores"', '"3.4.1", name = "rng"', 26, "“rng” in “3.4.1 trainable"),
    ("at = [0, 1] }", "at = [0] }", 26, "Shapes differ: expected 6, computed 6 × 6."),
    (
        "at = [0, 1] }",
        "at = [0, 1, 7] }",
        26,
        "The indices [0, 1, 7] are out of range for the shape 1 × 6 × 6",
    ),
    ("at = [0, 1] }", 'measure = "size" }', 26, "“measure” must be one of numbers, shape"),
    ("at = [0, 1] }", 'measure = "shape" }', 26, "Shapes differ: expected 6, computed 3."),
    ("factor = 12", "[[page.tick]]\nsection = 'x'", 44, "is missing."),
]


@pytest.mark.parametrize(("old", "new", "line", "said"), BROKEN)
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, line: int, said: str) -> None:
    assert old in GOOD
    with pytest.raises(LessonError) as refused:
        read_lesson(GOOD.replace(old, new, 1), "one.toml", PRINTED)
    assert said in refused.value.sentence
    assert (refused.value.name, refused.value.line) == ("one.toml", line)
    assert str(refused.value) == f"one.toml, line {line}: {refused.value.sentence}"


def test_without_pages_there_is_no_lesson() -> None:
    for text, line, said in (
        ("", 1, "“title” is missing."),
        ('title = "One"', 1, "“page” is missing."),
        ('title = "One"\npage = []', 2, "A lesson must have at least one page."),
        ('title = "One"\npage = [1]', 2, "Each item of “page” must be a table."),
        ('title = "One"\n\n[page]\ntitle = "x"', 3, "“page” must be a list."),
    ):
        with pytest.raises(LessonError, match=said) as refused:
            read_lesson(text, "one.toml", PRINTED)
        assert refused.value.line == line


def test_lines_are_counted_alike_with_any_ends_of_lines() -> None:
    broken = GOOD.replace("factor = 12", "factory = 12").replace("\n", "\r\n")
    with pytest.raises(LessonError) as refused:
        read_lesson(broken, "one.toml", PRINTED)
    assert refused.value.line == 44
    assert len(read_lesson(GOOD.replace("\n", "\r\n"), "one.toml", PRINTED).pages) == 3


@given(st.data())
@examples(1.5)
def test_whatever_a_file_holds_is_read_or_named_with_a_line(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 12))
        new = data.draw(st.text(st.sampled_from("abs=[]{}\",.0123456789\n'# -é"), max_size=6))
        text = text[:start] + new + text[end:]
    refused = refusal(text)
    if refused:
        assert 1 <= refused.line <= text.count("\n") + 1
        assert refused.sentence.endswith((".", "?"))


def refusal(text: str) -> LessonError | None:
    try:
        read_lesson(text, "one.toml", PRINTED)
    except LessonError as refused:
        return refused
    return None


@given(st.text(max_size=80), st.lists(st.integers(-3, 9) | st.text(max_size=5), max_size=4))
def test_a_line_is_found_in_any_text(text: str, path: list[int | str]) -> None:
    assert 1 <= find_line_number(text, tuple(path)) <= text.count("\n") + 1


# ---------------------------------------------------------------------------------- settings


def test_every_setting_there_is_can_be_set() -> None:
    assert {setting.name for setting in SETTINGS} <= set(SETTING_NAMES)
    for name in SETTING_NAMES:
        assert Document().with_setting(name, Document().get_setting(name)) == Document()


def value(name: str, given: object, document: Document | None = None) -> Any:
    return parse_setting_value(name, given, PRINTED, document or Document())


def test_values_are_those_that_a_document_takes() -> None:
    assert value("route", "after") is MaskPlacement.AFTER
    assert value("lines", "apart") is LineGrouping.APART
    assert value("temperature", 2) == 2.0
    assert isinstance(value("temperature", 2), float)
    kept = value("own_kept", {"section": "3.5.2", "name": "causal weights, macOS"})
    assert kept.to_array().sum() == 7
    own = value("own_weights", {"W_value": [[1, 0.5]], "W_query": [[2, 3]]})
    assert [name for name, _ in own] == ["W_query", "W_value"]
    np.testing.assert_array_equal(own[1][1].to_array(), [[1, 0.5]])
    mask = value("own_mask", [[True, False], [1, 0.0]])
    assert mask.to_array().tolist() == [[True, False], [True, False]]


def test_vectors_can_be_encoded_from_the_text() -> None:
    document = Document().with_setting("text", "to be to")
    assert value("own_input", "ids", document).to_array().tolist() == [[1], [0], [1]]
    one_hot = value("own_input", "one-hot", document).to_array()
    assert one_hot.tolist() == [[0, 1], [1, 0], [0, 1]]
    with pytest.raises(InvalidLessonValueError, match="ids, one-hot"):
        value("own_input", "2-hot", document)


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ('measure = "cross-entropy"', "“text” is missing."),
        ('measure = "cross-entropy", text = "ab", at = [0, 1]', "one row and one column per"),
        ('measure = "cross-entropy", text = "abd", at = [0]', "“d” is not in the page’s text"),
        ('measure = "mean cross-entropy", text = "a", at = [0]', "it has fewer than two tokens"),
        ('text = "ab", at = [0]', "measure = “cross-entropy”"),
        (
            'measure = "cross-entropy", text = "abab", at = [0]',
            "Shapes differ: expected 2, computed",
        ),
    ],
)
def test_a_loss_is_of_a_text_with_targets(claim: str, said: str) -> None:
    page = f"""
title = "Losses"
[[page]]
title = "x"
says = "y"
set = {{ mechanism = "simplified", text = "abc", tokenizer = "characters" }}
stages = ["scores"]
tick = [{{ section = "mine", name = "losses", stage = "scores", {claim} }}]
"""
    numbers = PrintedNumbers({"mine": {"losses": [1, 2]}})
    with pytest.raises(LessonError, match="line 8: .*" + said):
        read_lesson(page, "one.toml", numbers)
    lesson = read_lesson(page.replace(claim, GOOD_LOSSES), "one.toml", numbers)
    assert lesson.pages[0].claims[0].targets == ((0, 2), (2, 1))


GOOD_LOSSES = 'measure = "cross-entropy", text = "acb", at = [0]'


def test_a_text_is_repeated_line_by_line() -> None:
    text = """
title = "Long"
[start]
text = "a b c\\n\\nd"
lines = "apart"
[[page]]
title = "x"
says = "y"
stages = ["scores"]
text_tokens = 5
"""
    document = read_lesson(text, "long.toml", PRINTED).pages[0].document
    assert document.text == "a b c a b\nd d d d d"
    assert [len(tokens) for tokens in document.tokens()] == [5, 5]


@pytest.mark.parametrize(
    ("tokenizer", "repeated"), [("words", "Go , go . Go ,"), ("characters", "Go, go")]
)
def test_a_text_is_repeated_by_its_tokens(tokenizer: str, repeated: str) -> None:
    text = f"""
title = "Long"
[start]
text = "Go, go."
tokenizer = "{tokenizer}"
[[page]]
title = "x"
says = "y"
stages = ["scores"]
text_tokens = 6
"""
    document = read_lesson(text, "long.toml", PRINTED).pages[0].document
    assert document.text == repeated
    assert document.max_text_tokens == 6


# ----------------------------------------------------------------------------------- printed


def test_printed_numbers_are_found_by_how_their_names_begin() -> None:
    section, name, numbers = PRINTED.find_by_prefix("3.5.1", "scores masked")
    assert (section, name) == ("3.5.1 causal mask", "scores masked with -inf (null is -inf)")
    assert numbers[0, 1] == -np.inf
    assert not numbers.flags.writeable
    # An exact name, although others begin with it.
    assert PRINTED.find_by_prefix("3.3.1", "context")[1] == "context"
    assert PRINTED.find_by_prefix("3.4.1", "score of")[2].shape == ()
    with pytest.raises(InvalidLessonValueError, match="No section name starts with"):
        PRINTED.find_by_prefix("_about", "x")


# ------------------------------------------------------------------------------------- files


def test_our_lessons_come_first_and_then_the_users_by_name(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", "note.txt"):
        (tmp_path / name).write_text(GOOD.replace("One", name), encoding="utf-8")
    lessons, errors = load_lessons([FOLDER, tmp_path, tmp_path / "absent"], PRINTED)
    assert errors == ()
    assert [lesson.name for lesson in lessons[9:]] == ["a.toml", "b.toml"]
    ours = [lesson.name for lesson in lessons[:9]]
    assert ours == sorted(ours)


def test_a_broken_lesson_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GOOD.replace("at = [1, 2]", "at = [9, 9]"), encoding="utf-8")
    (tmp_path / "b.toml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "c.toml").write_bytes(GOOD.encode("utf-8").replace(b"Three", b"\xff"))
    (tmp_path / "d.toml").mkdir()
    (tmp_path / "e.toml").write_text("#" * 1_000_001, encoding="utf-8")
    (tmp_path / "f.toml").write_text(GOOD, encoding="utf-8-sig")
    lessons, errors = load_lessons([tmp_path], PRINTED)
    assert [lesson.name for lesson in lessons] == ["b.toml", "f.toml"]
    assert [(error.name, error.line) for error in errors] == [
        ("a.toml", 22),
        ("c.toml", 31),
        ("d.toml", 0),
        ("e.toml", 0),
    ]
    assert "UTF-8" in errors[1].sentence
    assert errors[2].sentence == "Cannot read the lesson: it is not a file, but a folder."
    assert str(errors[3]) == "e.toml: The file is larger than the maximum of 1 MB."


def test_a_lesson_may_tick_numbers_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "numbers.json"
    sections = {"mine": {"scores": [[1, None]]}, "_about": "x"}
    path.write_text(json.dumps(sections), encoding="utf-8")
    assert PrintedNumbers.read_files(path).find_by_prefix("mine", "scores")[2].tolist() == [
        [1.0, -np.inf]
    ]


def refuse(*asked: object) -> bool:
    raise PermissionError(13, "Permission denied")


def test_a_folder_that_may_not_be_looked_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "glob", refuse)
    lessons, errors = load_lessons([tmp_path], PRINTED)
    assert lessons == ()
    assert [error.sentence for error in errors] == ["Cannot read the folder: Permission denied."]


def test_a_file_that_may_not_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.toml").write_text(GOOD, encoding="utf-8")

    monkeypatch.setattr(lesson_file, "open_regular_file", refuse)
    _, errors = load_lessons([tmp_path], PRINTED)
    expected = "a.toml: Cannot read the lesson: Permission denied."
    assert [str(error) for error in errors] == [expected]


def test_all_pages_together_have_a_limit() -> None:
    page = '[[page]]\ntitle = "T"\nsays = "S."\nstages = ["weights"]\ntext_tokens = 100000\n'
    with pytest.raises(LessonError, match=r"line \d+: The texts of the pages exceed"):
        read_lesson('title = "Long"\n' + 20 * page, "long.toml", PRINTED)


def test_a_long_word_is_not_repeated_without_a_limit() -> None:
    page = '[[page]]\ntitle = "T"\nsays = "S."\nstages = ["weights"]\ntext_tokens = 1000\n'
    start = f'title = "Long"\n[start]\ntext = "{"a" * 900_000}"\n'
    with pytest.raises(LessonError, match="line 8: The repeated text exceeds"):
        read_lesson(start + page, "long.toml", PRINTED)


def test_a_file_that_fails_in_any_way_is_named_and_the_others_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    read = lesson_file.read_lesson

    def fail(text: str, name: str, printed: PrintedNumbers) -> Lesson:
        if name == "a.toml":
            raise MemoryError
        return read(text, name, printed)

    monkeypatch.setattr(lesson_file, "read_lesson", fail)
    lessons, errors = load_lessons([tmp_path], PRINTED)
    assert [lesson.name for lesson in lessons] == ["b.toml"]
    assert [str(error) for error in errors] == ["a.toml: Cannot read the lesson: MemoryError."]


def test_a_window_that_no_control_could_show_is_refused() -> None:
    page = '[[page]]\ntitle = "T"\nsays = "S."\nstages = ["weights"]\n'
    for window in (3_000_000_000, -9_999_999_999):
        text = f'title = "W"\n{page}set = {{ window = {window} }}\n'
        with pytest.raises(LessonError, match=r"line 6: The window"):
            read_lesson(text, "w.toml", PRINTED)
