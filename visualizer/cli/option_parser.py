"""Argument parser, and functions that convert and validate command-line arguments."""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import textwrap
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from visualizer.attention.importers.state_dict import MAX_ELEMENTS, contains_attention_module
from visualizer.attention.masks import parse_mask
from visualizer.attention.settings import InvalidValueError, find_choice
from visualizer.attention.spec import OWN_BIASES, OWN_LAYERS, BooleanMatrix, NumberMatrix
from visualizer.console import print_message, write_output
from visualizer.documents.open_document import read_text_file
from visualizer.errors import InputError, system_error_reason
from visualizer.export.formats import format_of_file, list_suffixes
from visualizer.export.option_parsing import SIZE_PRESETS, parse_figure_size
from visualizer.language.recording import is_recording
from visualizer.language.run_folder import RunFolder
from visualizer.models.model_folder import CONFIG_FILE
from visualizer.session.document_builder import normalize_text
from visualizer.storage.log_file import log_to_console
from visualizer.storage.regular_file import open_regular_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn

    from visualizer.attention.importers.tensor_file_listing import ArrayEntry, TensorFileContents
    from visualizer.attention.settings import Setting

Value = TypeVar("Value")

NamedDescriptions = list[tuple[str, str]]
"""Pairs of a name and its description."""
MAX_TEXT_FILE_BYTES = 2**24
"""Maximum size of a text file, in bytes."""
TEXT_SUFFIXES = (".txt", ".csv", ".tsv")
"""Suffixes of the text files from which a mask can be read."""
_OWN = (*OWN_LAYERS, *OWN_BIASES)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help formatter that does not break option names at hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class VerboseAction(argparse.Action):
    """Option that prints log messages immediately, and leaves no value in the parsed options."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help=help)
        self._verbosity = 0

    def __call__(self, *parsed: object) -> None:
        self._verbosity += 1
        log_to_console(self._verbosity)


class CommandLineParser(argparse.ArgumentParser):
    """Argument parser that rejects repeated options and suggests the names of similar options.

    Parameters
    ----------
    epilog : str
        Examples and further notes, shown verbatim.
    """

    def __init__(self, prog: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.general = self.add_argument_group("General")
        self.general.add_argument(
            "-h", "--help", action="help", help="show this help message and exit"
        )
        self.general.add_argument(
            *("-v", "--verbose"),
            action=VerboseAction,
            help="print what the program does to standard error; -vv prints details",
        )

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        given = sys.argv[1:] if args is None else args
        self._reject_repetitions(given)
        options, unknown = self.parse_known_args(given, namespace)
        if unknown:
            self.error(
                "unrecognized argument: "
                f"{unknown[0]}.{self._suggest_option(unknown[0])} See --help."
            )
        return options

    def _reject_repetitions(self, given: Sequence[str]) -> None:
        """Reject an option that is given twice; argparse would silently use the last value."""
        used_names: dict[argparse.Action, str] = {}
        for argument in itertools.takewhile(lambda one: one != "--", given):
            name = argument.partition("=")[0]
            action = self._option_string_actions.get(name)
            if action is None or not _takes_one_value(action):
                continue
            if (earlier := used_names.get(action)) == name:
                self.error(f"argument {name}: can be given only once")
            if earlier:
                self.error(f"argument {name}: not allowed with argument {earlier}")
            used_names[action] = name

    def _suggest_option(self, argument: str) -> str:
        if not argument.startswith("-"):
            return ""
        name = argument.partition("=")[0]
        similar = get_close_matches(name, self._option_string_actions, n=1, cutoff=0.7)
        return f" Did you mean {similar[0]}?" if similar else ""

    def error(self, message: str) -> NoReturn:
        print_message(message)
        self.exit(2)


def _takes_one_value(action: argparse.Action) -> bool:
    is_switch = isinstance(action, argparse.BooleanOptionalAction)
    return is_switch or (action.nargs != 0 and not isinstance(action, argparse._AppendAction))


def with_argparse_errors(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Return a converter that raises the errors of another converter as argparse errors."""

    def convert(text: str) -> Value:
        try:
            return read(text)
        except InputError as refused:
            raise argparse.ArgumentTypeError(refused.sentence) from refused

    return convert


def setting_converter(setting: Setting) -> Callable[[str], Any]:
    """Create a converter for the values of a setting."""

    def read(text: str) -> Any:
        try:
            return setting.parse(text)
        except InvalidValueError as invalid:
            raise invalid_value_error(text, invalid) from None

    return read


def invalid_value_error(text: str, invalid: InvalidValueError | str) -> argparse.ArgumentTypeError:
    """Return an argparse error for a value that an option does not accept."""
    meant = ""
    if isinstance(invalid, InvalidValueError) and invalid.suggestion:
        meant = f" (did you mean '{invalid.suggestion}'?)"
    return argparse.ArgumentTypeError(f"invalid value '{text}': {invalid}{meant}")


def integer_converter(low: int, high: float = float("inf")) -> Callable[[str], int]:
    """Create a converter for integers in the given range."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            range_ = f"of at least {low}" if high == math.inf else f"from {low} to {high:,}"
            raise invalid_value_error(text, f"must be a whole number {range_}")
        return value

    return read


def convert_number(text: str) -> float:
    """Convert text to a finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise invalid_value_error(text, "must be a finite number")
    return value


def choice_converter(values: Sequence[str]) -> Callable[[str], str]:
    """Create a converter that accepts only the given names."""

    def read(text: str) -> str:
        try:
            return find_choice(values, text)
        except InvalidValueError as invalid:
            raise invalid_value_error(text, invalid) from None

    return read


def choice_option_settings(values: Iterable[str], help_text: str) -> dict[str, Any]:
    """Return the argparse settings of an option that accepts the given names.

    Shell completion uses the choices; the converter suggests the name most similar to an invalid
    one.
    """
    names = [*values]
    return {"type": choice_converter(names), "choices": names, "metavar": "NAME", "help": help_text}


def listed_choice_option(values: Iterable[str], help_text: str, default: str) -> dict[str, Any]:
    """Return the argparse settings of an option whose help lists the names that it accepts."""
    help_text = f"{help_text}: {', '.join(values)} (default: {default})"
    return choice_option_settings(values, help_text)


def format_names(names: NamedDescriptions) -> str:
    """Format the names and their descriptions in two columns, one name per line."""
    width = max(len(name) for name, _ in names)
    return "".join(f"{name.ljust(width)}  {words}\n" for name, words in names)


def list_option_settings(lists: dict[str, Callable[[], NamedDescriptions]]) -> dict[str, Any]:
    """Return the argparse settings of an option that prints names and exits."""

    class ListNames(argparse.Action):
        def __call__(
            self,
            parser: argparse.ArgumentParser,
            namespace: argparse.Namespace,
            values: Any,
            option_string: str | None = None,
        ) -> None:
            write_output(format_names(lists[values]()))
            parser.exit()

    words = " or ".join(filter(None, [", ".join([*lists][:-1]), [*lists][-1]]))
    return {
        **choice_option_settings(lists, f"list the {words} with their descriptions, and exit"),
        "action": ListNames,
        "metavar": "WHAT",
    }


def convert_figure_size(text: str) -> str:
    """Validate a figure size: the name of a preset, or lengths."""
    if text not in SIZE_PRESETS:
        parse_figure_size(text)
    return text


def read_text_option(name: str) -> str:
    """Read UTF-8 text, with or without a byte order mark, from a file or standard input."""
    if name == "-" and sys.stdin is None:
        raise argparse.ArgumentTypeError("standard input is not available; specify a file")
    try:
        content = (
            sys.stdin.buffer.read(MAX_TEXT_FILE_BYTES + 1)
            if name == "-"
            else _read_limited_file(name)
        )
        text = content.decode("utf-8-sig") if len(content) <= MAX_TEXT_FILE_BYTES else ""
    except OSError as error:
        reason = system_error_reason(error)
        raise argparse.ArgumentTypeError(f"cannot read '{name}': {reason}") from error
    except UnicodeDecodeError as error:
        requirement = f"must be UTF-8 text; byte {error.start + 1:,} is invalid"
        raise invalid_value_error(name, requirement) from error
    if len(content) > MAX_TEXT_FILE_BYTES:
        raise invalid_value_error(
            name, f"must be a file of at most {MAX_TEXT_FILE_BYTES // 2**20} MiB"
        )
    if not text or text.isspace():
        raise invalid_value_error(name, "must not be blank")
    return normalize_text(text)


def read_texts_option(name: str) -> list[str]:
    """Read one text per line from a file or standard input; see `read_text_option`."""
    return [line for line in read_text_option(name).split("\n") if line and not line.isspace()]


def _read_limited_file(name: str) -> bytes:
    with open_regular_file(Path(name)) as file:
        return file.read(MAX_TEXT_FILE_BYTES + 1)


def convert_path(name: str) -> Path:
    """Validate a path, which need not exist."""
    path = Path(name)
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            (path / CONFIG_FILE).stat()
    except OSError as error:  # for example, the name is too long or access to the folder is denied
        reason = system_error_reason(error)
        raise argparse.ArgumentTypeError(f"cannot open '{name}': {reason}") from error
    return path


def convert_run_folder(name: str) -> Path:
    """Validate the path of a run folder."""
    folder = convert_path(name).absolute()
    if not RunFolder(folder).metadata_file.exists():
        raise invalid_value_error(name, "must be the folder of a training run")
    return folder


def convert_lab_folder(name: str) -> Path:
    """Validate the path of the folder of a run that the lab can open, which may be recorded."""
    folder = convert_path(name).absolute()
    return folder if is_recording(RunFolder(folder)) else convert_run_folder(name)


def convert_number_or_all(text: str) -> int | str:
    """Convert a number of at least 1; return the word ``all`` unchanged."""
    if text == "all":
        return text
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise invalid_value_error(text, "must be a whole number of at least 1, or 'all'")
    return int(text)


def convert_export_path(text: str) -> Path:
    """Validate a file name with a supported export format, or ``-`` for standard output."""
    if text != "-" and format_of_file(text) is None:
        raise invalid_value_error(text, f"must end in {list_suffixes()}")
    return Path(text)


def read_vectors(filename: str) -> NumberMatrix:
    """Read the token vectors [token, d_in].

    Raises
    ------
    InputError
        If the file does not contain exactly one matrix of numbers.
    """
    return _read_matrix(_single_matrix_entry(filename))


def read_mask(filename: str) -> BooleanMatrix:
    """Read a [query, key] matrix of 0s and 1s from a text file or an array file.

    Raises
    ------
    InputError
        If the file does not contain such a matrix.
    """
    path = Path(filename)
    if path.suffix.lower() in TEXT_SUFFIXES:
        return parse_mask(read_text_file(path))
    array = _single_matrix_entry(filename).read()
    if not np.isin(array, (0, 1)).all():
        raise _open_error(f"“{path.name}” must contain only the numbers 0 and 1.")
    return BooleanMatrix.from_array(array != 0)


def list_weight_arrays(filename: str) -> TensorFileContents:
    """List the arrays of a weights file; their values are read later, with the document.

    Raises
    ------
    InputError
        If the file contains neither custom weights nor the weights of a module.
    """
    contents = _list_arrays(filename)
    if not (_has_only_custom_weights(contents) or contains_attention_module(contents)):
        advice = f"Name the arrays {', '.join(OWN_LAYERS)}, or save a module's state_dict."
        raise _open_error(
            f"“{Path(filename).name}” does not contain weights. {contents.description} {advice}"
        )
    return contents


def read_custom_weights(contents: TensorFileContents) -> tuple[tuple[str, NumberMatrix], ...]:
    """Read custom weights in the order of the layers; return () if the file is a state_dict."""
    if not _has_only_custom_weights(contents):
        return ()
    entries = {entry.name: entry for entry in contents.entries}
    own_entries = [(name, entries[name]) for name in _OWN if name in entries]
    return tuple(
        (name, _read_matrix(_validate_matrix_entry(name, entry))) for name, entry in own_entries
    )


def _has_only_custom_weights(contents: TensorFileContents) -> bool:
    return bool(contents.entries) and all(entry.name in _OWN for entry in contents.entries)


def _list_arrays(filename: str) -> TensorFileContents:
    from visualizer.attention.importers.tensor_file_reader import list_arrays  # loads torch

    return list_arrays(Path(filename))


def _single_matrix_entry(filename: str) -> ArrayEntry:
    contents = _list_arrays(filename)
    if len(contents.entries) != 1:
        raise _open_error(
            f"“{Path(filename).name}” must contain exactly one matrix. {contents.description}"
        )
    return _validate_matrix_entry(Path(filename).name, contents.entries[0])


def _validate_matrix_entry(name: str, entry: ArrayEntry) -> ArrayEntry:
    if len(entry.shape) != 2 or not 0 < np.prod(entry.shape, dtype=float) <= MAX_ELEMENTS:
        shape = " × ".join(f"{size:,}" for size in entry.shape) or "a single number"
        requirement = f"must be a matrix with at most {MAX_ELEMENTS:,} numbers"
        raise _open_error(f"“{name}” {requirement}. It is {shape}.")
    return entry


def _read_matrix(entry: ArrayEntry) -> NumberMatrix:
    array = entry.read()
    if not np.isfinite(array).all():
        raise _open_error(f"{entry.description} must not contain infinite or NaN values.")
    return NumberMatrix.from_array(array)


def _open_error(sentence: str) -> InputError:
    return InputError("open", sentence)
