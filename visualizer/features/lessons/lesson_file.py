"""Reader of lesson files: converts TOML to `Lesson`, and reports errors with their line.

A lesson with an error is skipped. Bundled lessons and the user's own lessons are in two folders.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from itertools import cycle, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from visualizer.attention.captured_attention import MAX_TOKENS
from visualizer.attention.layer_stages import STAGE_ORDER
from visualizer.attention.roles import Role
from visualizer.attention.settings import (
    DERIVED_SETTINGS,
    SETTINGS_BY_NAME,
    InvalidValueError,
    find_choice,
)
from visualizer.attention.spec import (
    OWN_BIASES,
    OWN_LAYERS,
    AttentionSpec,
    BooleanMatrix,
    NumberMatrix,
)
from visualizer.attention.spec_validation import spec_problems
from visualizer.attention.stages import shape, stages
from visualizer.errors import system_error_reason
from visualizer.features.lessons.claim_check import InvalidLessonValueError, PrintedNumbers
from visualizer.features.lessons.lesson import ClaimedProperty, Lesson, LessonClaim, Page
from visualizer.format import shorten
from visualizer.language.tokenizers import TokenizerKind, Vocabulary, tokenize
from visualizer.session.cell_address import Cell
from visualizer.session.document import Document
from visualizer.session.timeline import PlaybackPosition, StepSize
from visualizer.session.view_options import ColourLimits
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from enum import StrEnum

    Table = dict[str, Any]
    StageShapes = Mapping[str, tuple[int, ...]]
    """The shape of each stage, batch first."""

KeyPath = tuple[str | int, ...]
"""Keys and list indices of a value: ``("page", 2, "tick", 0, "stage")``."""
TYPE_NAMES: dict[type, str] = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}
MAX_NUMBER = 2**63
ENCODING_NAMES = ("ids", "one-hot")
"""Names of the encodings that compute vectors from the tokens of the text."""
SETTING_NAMES = (
    *DERIVED_SETTINGS,
    *("text", "tokenizer", "lines"),
    *(name for name in AttentionSpec.__struct_fields__ if name != "lengths"),
)


def is_of_type(value: object, kind: type) -> bool:
    """Return whether a value has a type; a boolean does not count as a number.

    An integer counts as a float, unless it is too large for a float.
    """
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < MAX_NUMBER
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)


def parse_setting_value(
    name: str, given: object, printed: PrintedNumbers, document: Document
) -> Any:
    """Convert a setting's TOML value to the value that `Document.with_setting` expects.

    Parameters
    ----------
    document : Document
        The document with the settings applied so far; vectors can be computed from its text.

    Raises
    ------
    InvalidLessonValueError
        If the setting is unknown or does not accept the value.
    """
    if name not in SETTING_NAMES:
        raise InvalidLessonValueError(f"Unknown setting “{name}”.")
    if name == "own_input" and isinstance(given, str):
        return _encode_tokens(given, document)
    if name in _MATRICES:
        return _MATRICES[name](given, printed)
    try:
        if name in SETTINGS_BY_NAME:
            return SETTINGS_BY_NAME[name].convert_value(given)
        if name == "text" and not isinstance(given, str):
            raise InvalidValueError(f"must be {TYPE_NAMES[str]}")
        if name == "text":
            return given
        kind: type[StrEnum] = type(Document().get_setting(name))
        return find_choice([*kind], given)
    except InvalidValueError as invalid:
        raise InvalidLessonValueError(
            invalid.format_message(f"“{name}”", _quote_value(given))
        ) from None


def _quote_value(given: object) -> str:
    return f"“{shorten(given)}”" if isinstance(given, str) else shorten(str(given).lower())


def _encode_tokens(encoding: str, document: Document) -> NumberMatrix:
    """Encode each token as its id in the sorted vocabulary of the text, or as a one-hot row."""
    if encoding not in ENCODING_NAMES:
        raise InvalidLessonValueError(
            f"“own_input” must be a matrix, or one of {', '.join(ENCODING_NAMES)}."
        )
    (tokens, *_) = document.tokens() or ((),)
    vocabulary = Vocabulary.from_tokens(tokens, document.tokenizer)
    ids = vocabulary.encode(tokens)
    return NumberMatrix.from_array(
        ids[:, None] if encoding == "ids" else np.eye(len(vocabulary))[ids]
    )


def parse_matrix(given: object, printed: PrintedNumbers) -> np.ndarray:
    """Read a matrix: rows of numbers, or the section and name of printed numbers."""
    if isinstance(given, dict):
        if given.keys() != {"section", "name"}:
            raise InvalidLessonValueError("A printed matrix must have a “section” and a “name”.")
        *_, found = printed.find_by_prefix(str(given["section"]), str(given["name"]))
        if found.ndim != 2:
            raise InvalidLessonValueError(f"“{given['name']}” is not a matrix.")
        return found
    rows = given if isinstance(given, list) and all(isinstance(row, list) for row in given) else []
    widths = {len(row) for row in rows}
    is_all = all(is_of_type(cell, float) or is_of_type(cell, bool) for row in rows for cell in row)
    if len(widths) != 1 or 0 in widths or not is_all:
        raise InvalidLessonValueError(
            "A matrix must be a list of rows of numbers, and all rows must have the same length."
        )
    return np.array(rows, dtype=float)


def _parse_boolean_matrix(given: object, printed: PrintedNumbers) -> BooleanMatrix:
    return BooleanMatrix.from_array(parse_matrix(given, printed) > 0)


def _parse_number_matrix(given: object, printed: PrintedNumbers) -> NumberMatrix:
    return NumberMatrix.from_array(parse_matrix(given, printed))


def _parse_weight_matrices(
    given: object, printed: PrintedNumbers
) -> tuple[tuple[str, NumberMatrix], ...]:
    names = (*OWN_LAYERS, *OWN_BIASES)
    if not isinstance(given, dict) or not given.keys() <= set(names):
        raise InvalidLessonValueError(
            f"“own_weights” must be a table with one or more of: {', '.join(names)}."
        )
    return tuple(
        (name, _parse_number_matrix(given[name], printed)) for name in names if name in given
    )


_MATRICES: dict[str, Callable[[object, PrintedNumbers], Any]] = {
    "own_mask": _parse_boolean_matrix,
    "own_kept": _parse_boolean_matrix,
    "own_input": _parse_number_matrix,
    "own_weights": _parse_weight_matrices,
}


MAX_TEXT_CHARACTERS = 1_000_000
"""Maximum number of characters in the texts of a lesson."""
TOO_FEW_TOKENS = "it has fewer than two tokens"

_LESSON = {"title": str, "section": str, "start": dict, "page": list}
_PAGE = {
    "title": str,
    "says": str,
    "set": dict,
    "stages": list,
    "play": dict,
    "cell": dict,
    "tick": list,
    "text_tokens": int,
    "limits": str,
}
_PLAY = {"grain": str, "from": str, "at": list, "until": str}
_CELL = {"stage": str, "at": list}
_TICK = {
    "section": str,
    "name": str,
    "stage": str,
    "at": list,
    "each": bool,
    "factor": float,
    "measure": str,
    "text": str,
}


class LessonError(ValueError):
    """An error in a lesson file; the message is a sentence.

    Parameters
    ----------
    line : int
        The line, counted from 1; 0 if the error concerns the whole file.
    """

    def __init__(self, name: str, line: int, sentence: str) -> None:
        super().__init__(f"{name}, line {line}: {sentence}" if line else f"{name}: {sentence}")
        self.name, self.line, self.sentence = name, line, sentence


@lru_cache(maxsize=32)  # every window reads the same files whenever its menu opens
def read_lesson(text: str, name: str, printed: PrintedNumbers) -> Lesson:
    """Parse the text of a lesson file.

    Parameters
    ----------
    name : str
        The name of the file, for error messages.

    Raises
    ------
    LessonError
        If the lesson has errors; the message is about the first one.
    """
    text = text.replace("\r\n", "\n")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"\(at line (\d+)", str(error))
        line = int(found[1]) if found else max(1, len(text.splitlines()))
        reason = re.sub(r" \(at .*\)$", "", str(error)) or "it cannot be parsed"
        raise LessonError(name, line, f"Invalid TOML: {reason}.") from error
    source = TomlValidator(text, name, printed)
    source.check_table((), table, _LESSON, ("title", "page"))
    start = source.apply_settings(("start",), Document(), table.get("start", {}))
    source.check_item_types(("page",), table["page"], dict)
    if not table["page"]:
        raise source.create_error(("page",), "A lesson must have at least one page.")
    pages, characters = [], 0
    for number, page in enumerate(table["page"]):
        pages.append(PageParser(source, ("page", number), start).parse_page(page))
        characters += len(pages[-1].document.text)
        if characters > MAX_TEXT_CHARACTERS:
            limit = f"{MAX_TEXT_CHARACTERS:,} characters in total"
            sentence = f"The texts of the pages exceed {limit}. Shorten them."
            raise source.create_error(("page", number), sentence)
    return Lesson(name, table["title"], table.get("section", ""), tuple(pages))


class TomlValidator(Struct, frozen=True):
    """The text of a TOML file, and checks common to all its tables."""

    text: str
    name: str
    printed_numbers: PrintedNumbers

    def create_error(self, path: KeyPath, sentence: str) -> LessonError:
        return LessonError(self.name, find_line_number(self.text, path), sentence)

    def check_table(
        self, path: KeyPath, table: Table, known: Mapping[str, type], needed: Sequence[str]
    ) -> None:
        """Reject unknown keys, values of the wrong type, and missing keys."""
        for key, value in table.items():
            if key not in known:
                sentence = f"Unknown key “{key}”. Use one of: {', '.join(known)}."
                raise self.create_error((*path, key), sentence)
            if not is_of_type(value, known[key]):
                raise self.create_error((*path, key), f"“{key}” must be {TYPE_NAMES[known[key]]}.")
        for key in needed:
            if key not in table:
                raise self.create_error(path, f"“{key}” is missing.")

    def check_item_types(self, path: KeyPath, values: list[object], kind: type) -> None:
        if not all(is_of_type(value, kind) for value in values):
            raise self.create_error(path, f"Each item of “{path[-1]}” must be {TYPE_NAMES[kind]}.")

    def apply_settings(self, path: KeyPath, document: Document, table: Table) -> Document:
        """Apply settings to a document.

        The mechanism is applied first, because it determines many other settings. The vectors are
        applied last, because they can be computed from the text.
        """
        for key in sorted(table, key=lambda key: (key == "own_input", key != "mechanism")):
            try:
                document = document.with_setting(
                    key, parse_setting_value(key, table[key], self.printed_numbers, document)
                )
            except InvalidLessonValueError as invalid:
                raise self.create_error((*path, key), str(invalid)) from invalid
        return document


class PageParser(Struct, frozen=True):
    """Parser of one page's table."""

    source: TomlValidator
    path: KeyPath
    start: Document

    def parse_page(self, table: Table) -> Page:
        self.source.check_table(self.path, table, _PAGE, ("title", "says", "stages"))
        path = (*self.path, "set")
        document = self.source.apply_settings(path, self.start, table.get("set", {}))
        document = self._repeat_text(document, table.get("text_tokens"))
        sizes = self._stage_shapes(document)
        self._check_item_types(table["stages"], str, "stages")
        for stage in table["stages"]:
            self._check_stage(stage, sizes, "stages")
        if not table["stages"]:
            raise self._create_error("A page must show at least one stage.", "stages")
        claims = table.get("tick", [])
        self._check_item_types(claims, dict, "tick")
        step_size, span = self._parse_playback(table.get("play"), sizes)
        limits = table.get("limits", ColourLimits.AUTO)
        known_limits = (each for each in ColourLimits if each is not ColourLimits.TYPED)
        self._check_choice(limits, known_limits, "limits")
        return Page(
            table["title"],
            table["says"],
            document,
            frozenset(table["stages"]),
            self._parse_cell(table.get("cell"), sizes),
            span,
            step_size,
            tuple(
                self._parse_claim(("tick", number), claim, document, sizes)
                for number, claim in enumerate(claims)
            ),
            ColourLimits(limits),
        )

    def _create_error(self, sentence: str, *path: str | int) -> LessonError:
        """Return an error that refers to a key of the page."""
        return self.source.create_error((*self.path, *path), sentence)

    def _check_item_types(self, values: list[object], kind: type, *path: str | int) -> None:
        self.source.check_item_types((*self.path, *path), values, kind)

    def _check_choice(self, given: str, known: Iterable[str], *path: str | int) -> None:
        choices = [*known]
        if given not in choices:
            sentence = f"“{path[-1]}” must be one of {', '.join(choices)}. It is “{given}”."
            raise self._create_error(sentence, *path)

    def _repeat_text(self, document: Document, tokens: int | None) -> Document:
        if tokens is None:
            return document
        split = (tokenize(line, document.tokenizer) for line in document.text.splitlines())
        lines = [line for line in split if line]
        if not 0 < tokens * max(1, len(lines)) <= MAX_TOKENS:
            raise self._create_error(
                f"“text_tokens” times the number of lines must be from 1 to {MAX_TOKENS:,}.",
                "text_tokens",
            )
        characters = sum(len(word) + 1 for line in lines for word in islice(cycle(line), tokens))
        if characters > MAX_TEXT_CHARACTERS:
            limit = f"The repeated text exceeds {MAX_TEXT_CHARACTERS:,} characters."
            raise self._create_error(f"{limit} Reduce “text_tokens”.", "text_tokens")
        space = " " if document.tokenizer is TokenizerKind.WORDS else ""
        repeated = (space.join(islice(cycle(line), tokens)) for line in lines)
        return document.with_setting("text", "\n".join(repeated))

    def _stage_shapes(self, document: Document) -> StageShapes:
        for problem in spec_problems(document.spec):
            raise self._create_error(problem.sentence, "set", problem.field)
        texts = document.tokens()
        if not texts or not all(texts):
            raise self._create_error("The text contains no words.", "set", "text")
        batch, longest = (len(texts),) * (len(texts) > 1), max(map(len, texts))
        spec = document.spec
        return {row.name: batch + shape(spec, row.dims, longest) for row in stages(spec)}

    def _check_stage(self, stage: str, sizes: StageShapes, *path: str | int) -> None:
        if stage not in sizes:
            is_known = stage in STAGE_ORDER
            problem = "This page has no stage" if is_known else "Unknown stage"
            choices = ", ".join(sizes if is_known else STAGE_ORDER)
            raise self._create_error(f"{problem} “{stage}”. Use one of: {choices}.", *path)

    def _check_indices(
        self, at: list[object], sizes: tuple[int, ...], *path: str | int
    ) -> tuple[int, ...]:
        """Check indices against the leading axes of a shape."""
        self._check_item_types(at, int, *path)
        place = tuple(number for number in at if isinstance(number, int))
        fits = len(place) <= len(sizes)
        if not fits or any(not 0 <= one < size for one, size in zip(place, sizes, strict=False)):
            size = " × ".join(map(str, sizes))
            sentence = f"The indices {at} are out of range for the shape {size}."
            raise self._create_error(f"{sentence} Indices are counted from 0.", *path)
        return place

    def _parse_cell(self, table: Table | None, sizes: StageShapes) -> Cell | None:
        if table is None:
            return None
        self.source.check_table((*self.path, "cell"), table, _CELL, tuple(_CELL))
        self._check_stage(table["stage"], sizes, "cell", "stage")
        named = sizes[table["stage"]][len(sizes[Role.INPUT]) - 2 :]
        place = self._check_indices(table["at"], named, "cell", "at")
        if len(place) < len(named):
            sentence = f"A cell of “{table['stage']}” needs {len(named)} indices."
            raise self._create_error(sentence, "cell", "at")
        return Cell(table["stage"], place)

    def _parse_playback(
        self, table: Table | None, sizes: StageShapes
    ) -> tuple[StepSize | None, tuple[PlaybackPosition, str] | None]:
        if table is None:
            return None, None
        self.source.check_table((*self.path, "play"), table, _PLAY, ("grain", "from"))
        self._check_choice(table["grain"], StepSize, "play", "grain")
        first = table["from"]
        self._check_stage(first, sizes, "play", "from")
        place = self._check_indices(table.get("at", []), sizes[first][-2:], "play", "at")
        until = str(table.get("until", first))
        self._check_stage(until, sizes, "play", "until")
        if STAGE_ORDER.index(until) < STAGE_ORDER.index(first):
            raise self._create_error("“until” must not come before “from”.", "play", "until")
        return StepSize(table["grain"]), (PlaybackPosition(first, *place), until)

    def _parse_claim(
        self, path: KeyPath, table: Table, document: Document, sizes: StageShapes
    ) -> LessonClaim:
        self.source.check_table((*self.path, *path), table, _TICK, ("section", "name", "stage"))
        try:
            section, name, printed = self.source.printed_numbers.find_by_prefix(
                table["section"], table["name"]
            )
        except InvalidLessonValueError as invalid:
            raise self._create_error(str(invalid), *path, "name") from invalid
        self._check_stage(table["stage"], sizes, *path, "stage")
        given = table.get("measure", ClaimedProperty.NUMBERS)
        self._check_choice(given, ClaimedProperty, *path, "measure")
        measure = ClaimedProperty(given)
        size = sizes[table["stage"]]
        at = self._check_indices(table.get("at", []), size, *path, "at")
        rest = (len(size),) if measure is ClaimedProperty.SHAPE else size[len(at) :]
        targets: tuple[tuple[int, int], ...] = ()
        if measure in {ClaimedProperty.CROSS_ENTROPY, ClaimedProperty.MEAN_CROSS_ENTROPY}:
            targets = self._find_loss_targets(path, table, document, rest)
            rest = (len(targets),) if measure is ClaimedProperty.CROSS_ENTROPY else ()
        elif "text" in table:
            sentence = f"“text” requires measure = “{ClaimedProperty.CROSS_ENTROPY}”."
            raise self._create_error(sentence, *path, "text")
        compared = rest[-printed.ndim :] if table.get("each") and printed.ndim else rest
        if compared != printed.shape:
            shapes = [" × ".join(map(str, one)) or "scalar" for one in (printed.shape, compared)]
            raise self._create_error(
                "Shapes differ: expected {}, computed {}.".format(*shapes), *path
            )
        factor = float(table.get("factor", 1))
        return LessonClaim(section, name, table["stage"], at, printed, factor, measure, targets)

    def _find_loss_targets(
        self, path: KeyPath, table: Table, document: Document, compared: tuple[int, ...]
    ) -> tuple[tuple[int, int], ...]:
        """Return the logits' row and column for each pair of adjacent tokens in a text."""
        self.source.check_table((*self.path, *path), table, _TICK, ("text",))
        classes = document.tokens()[0]
        if compared != (len(classes),) * 2:
            sentence = (
                "Cross-entropy needs a matrix with one row and one column per token on the page."
            )
            raise self._create_error(sentence, *path)
        tokens = tokenize(table["text"], document.tokenizer)
        unknown = [token for token in tokens if token not in classes]
        if unknown or len(tokens) < 2:
            reason = f"“{unknown[0]}” is not in the page’s text" if unknown else TOO_FEW_TOKENS
            sentence = f"Cannot compute the loss of “{shorten(table['text'])}”: {reason}."
            raise self._create_error(sentence, *path, "text")
        return tuple(pairwise(classes.index(token) for token in tokens))


_STRINGS = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' + r"'''.*?'''" + r'|"(?:\\.|[^"\\\n])*"' + r"|'[^'\n]*'|#[^\n]*",
    re.DOTALL,
)


def find_line_number(text: str, path: KeyPath) -> int:
    """Return the line of a value or, if it is not found, of the nearest enclosing table."""
    bare = _STRINGS.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    start, end = 0, len(bare)
    name = ""
    for part in path:
        if isinstance(part, int):
            start, end = _find_table_in_array(bare, name, part, start, end)
        else:
            name, start = part, _find_key_offset(bare, part, start, end)
    return bare.count("\n", 0, start) + 1


def _find_table_in_array(
    bare: str, name: str, number: int, start: int, end: int
) -> tuple[int, int]:
    """Return the start and end of a table in an array: under its own header, or in braces."""
    header = re.compile(rf"\[\[[\w. \t]*\b{re.escape(name)}[ \t]*\]\]")
    starts = [found.start() for found in header.finditer(bare, start, end)]
    if not starts:
        starts = [found.start() for found in re.compile("{").finditer(bare, start, end)]
    if not 0 <= number < len(starts):
        return start, end
    return starts[number], (*starts, end)[number + 1]


def _find_key_offset(bare: str, name: str, start: int, end: int) -> int:
    known = re.escape(name)
    key = re.compile(rf"(?<![\w-]){known}[ \t]*[=.]|\[+[\w. \t]*\b{known}[ \t]*\]")
    found = key.search(bare, start, end)
    return found.start() if found else start


MAX_FILE_BYTES = 1_000_000


def load_lessons(
    folders: Sequence[pathlib.Path], printed: PrintedNumbers
) -> tuple[tuple[Lesson, ...], tuple[LessonError, ...]]:
    """Read all lessons in the folders, sorted by folder and then by file name.

    A missing folder counts as empty.
    """
    lessons, errors = [], []
    for folder in folders:
        try:
            paths = sorted(folder.glob("*.toml"))
        except OSError as error:
            sentence = f"Cannot read the folder: {system_error_reason(error)}."
            errors.append(LessonError(folder.name, 0, sentence))
            continue
        for path in paths:
            try:
                lessons.append(read_lesson(_read_text(path), path.name, printed))
            except LessonError as error:
                errors.append(error)
            except Exception as error:  # noqa: BLE001 - no file may prevent the window from opening
                sentence = f"Cannot read the lesson: {str(error) or type(error).__name__}."
                errors.append(LessonError(path.name, 0, sentence))
    return tuple(lessons), tuple(errors)


def _read_text(path: pathlib.Path) -> str:
    try:
        with open_regular_file(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        sentence = f"Cannot read the lesson: {system_error_reason(error)}."
        raise LessonError(path.name, 0, sentence) from error
    if len(content) > MAX_FILE_BYTES:
        raise LessonError(path.name, 0, "The file is larger than the maximum of 1 MB.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LessonError(path.name, line, "The file is not encoded in UTF-8.") from error
