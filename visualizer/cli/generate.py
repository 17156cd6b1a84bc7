"""Generates text from the command line: ``attention-visualizer generate``."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

from visualizer.attention.spec import ModelDtype
from visualizer.cli import option_parser
from visualizer.cli.options import DOWNLOAD_OPTION, MODEL_DTYPE_OPTION
from visualizer.console import (
    ConsoleProgress,
    escape_control_characters,
    print_message,
    write_output,
)
from visualizer.errors import InputError
from visualizer.language.run_folder import RunFolder, choose_probe_text
from visualizer.language.sampling import SamplingSettings, check_sampling_settings
from visualizer.language.tokenizers import TokenizerKind
from visualizer.models.model_folder import is_model_folder
from visualizer.models.model_path import find_model_folder, parse_repository_name
from visualizer.optional_packages import PACKAGE_FIELD as MISSING_PACKAGE
from visualizer.process_settings import (
    InterruptSignalError,
    handle_stop_signals,
    raise_interrupt_error,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

GENERATE_COMMAND = "generate"
DEFAULT_TOKENS = 200
MAX_GENERATED_TOKENS = 1_000_000
EXAMPLES = """examples:
  attention-visualizer generate runs/poems
  attention-visualizer generate runs/poems --prompt "The night" --tokens 500 --temperature 0.8
  attention-visualizer generate runs/poems --seed 7 --top-k 10 > poem.txt
  attention-visualizer generate models/SmolLM2-135M --prompt "The night" --tokens 30

The prompt and the generated text are written to standard output, and messages to standard error.
The same options always produce the same text. The exit status is 0 if the text was written or the
reader closed the pipe; 1 if the run cannot be read, its training diverged or the model cannot be
opened; 2 if an option is invalid or a package is missing; 130 after Ctrl+C; and 143 after SIGTERM.
"""


class _ReaderClosedError(Exception):
    """Raised when the program that reads the output, such as ``head``, has closed the pipe."""


def create_generate_parser() -> option_parser.CommandLineParser:
    """Create the argument parser of ``generate``."""
    parser = option_parser.CommandLineParser(
        prog=f"attention-visualizer {GENERATE_COMMAND}",
        usage="%(prog)s FOLDER [options]",
        description=(
            "Generate text with a model trained in the lab or a Hugging Face Transformers model."
        ),
        epilog=EXAMPLES,
    )
    defaults = SamplingSettings()
    text = parser.add_argument_group("Text")
    text.add_argument(
        "folder",
        type=_parse_folder,
        metavar="FOLDER",
        nargs="?",
        help=(
            "folder of a training run or of a Transformers model, or the name of a model in the "
            "local Hugging Face cache"
        ),
    )
    text.add_argument(
        "--prompt",
        metavar="TEXT",
        help=(
            "text to continue (default: the beginning of the training text; "
            "required for a Transformers model)"
        ),
    )
    text.add_argument(
        "--chat",
        action="store_true",
        help="format the prompt as a user message with the chat template of the Transformers model",
    )
    text.add_argument(
        "--tokens",
        type=option_parser.integer_converter(1, MAX_GENERATED_TOKENS),
        metavar="N",
        default=DEFAULT_TOKENS,
        help=f"number of tokens to generate (default: {DEFAULT_TOKENS})",
    )
    text.add_argument(
        "--step",
        type=option_parser.integer_converter(0),
        metavar="N",
        help="use the snapshot saved after N training steps (default: the last snapshot)",
    )
    text.add_argument("--dtype", **MODEL_DTYPE_OPTION)
    text.add_argument("--download", **DOWNLOAD_OPTION)
    sampling = parser.add_argument_group("Sampling")
    sampling.add_argument(
        "--seed",
        type=option_parser.integer_converter(0),
        metavar="N",
        default=0,
        help="random seed for sampling (default: 0)",
    )
    sampling.add_argument(
        "--temperature",
        type=option_parser.convert_number,
        metavar="X",
        default=defaults.temperature,
        help=(
            "sampling temperature: values below 1 make likely tokens more likely, and values above "
            "1 make them less likely; 0 always selects the most likely token (default: "
            f"{defaults.temperature:g})"
        ),
    )
    sampling.add_argument(
        "--top-k",
        type=option_parser.integer_converter(1),
        metavar="N",
        help="sample only from the N most likely tokens (default: all)",
    )
    sampling.add_argument(
        "--top-p",
        type=option_parser.convert_number,
        metavar="P",
        default=defaults.top_p,
        help=(
            "sample only from the smallest set of most likely tokens with a total probability of "
            f"at least P (default: {defaults.top_p:g}, all tokens)"
        ),
    )
    return parser


def generate(arguments: Sequence[str]) -> int:
    """Generate the text that the arguments describe; return the exit status."""
    options = create_generate_parser().parse_args(arguments)
    if options.folder is None:
        print_message(
            "the following argument is required: FOLDER, the folder of a run or of a model"
        )
        return 2
    sampling = SamplingSettings(options.temperature, options.top_k, options.top_p)
    try:
        check_sampling_settings(sampling)
        with handle_stop_signals(raise_interrupt_error):
            if _is_transformers_model(options.folder):
                _generate_with_transformers_model(options, sampling)
            else:
                _generate_with_lab_model(options, sampling)
    except InputError as refused:
        names = {"text": "--prompt", "step": "--step", "temperature": "--temperature",
                 "top_p": "--top-p", "tokens": "--tokens", "chat": "--chat"}  # fmt: skip
        option = names.get(refused.field)
        print_message(f"argument {option}: {refused.sentence}" if option else refused.sentence)
        return 2 if option or refused.field == MISSING_PACKAGE else 1
    except InterruptSignalError as stopped:
        return stopped.status
    except _ReaderClosedError:
        pass
    return 0


def _parse_folder(text: str) -> Path:
    """Convert an argument to the path of a model or run folder."""
    path = option_parser.convert_path(text)
    return path if _is_transformers_model(path) else option_parser.convert_run_folder(text)


def _is_transformers_model(path: Path) -> bool:
    """Return whether a path is a model folder, or may be the name of a model on the Hub."""
    return is_model_folder(path) if path.exists() else bool(parse_repository_name(path.as_posix()))


def _generate_with_transformers_model(
    options: argparse.Namespace, sampling: SamplingSettings
) -> None:
    from visualizer.attention.torch_preload import load_torch_library

    if not options.download:
        find_model_folder(options.folder)  # first, because the name may be that of a run folder
    if options.prompt is None:
        raise InputError("text", "required for a Transformers model")
    if options.step is not None:
        raise InputError("step", "not available for Transformers models, which have no snapshots")
    if options.download:
        from visualizer.models.hub_download import download_model_by_name

        options.folder = download_model_by_name(options.folder, ConsoleProgress(is_quiet=False))
    load_torch_library()
    from visualizer.models.kv_cache_generation import generate as generate_with_cache
    from visualizer.models.opened_model import open_model

    opened = open_model(options.folder, dtype=ModelDtype(options.dtype))
    _write_part(options.prompt + "\n" * options.chat)
    try:
        generate_with_cache(
            opened,
            options.prompt,
            options.tokens,
            sampling,
            options.seed,
            _write_part,
            is_chat=options.chat,
        )
    finally:
        write_output("\n")


def _generate_with_lab_model(options: argparse.Namespace, sampling: SamplingSettings) -> None:
    if options.chat:
        raise InputError("chat", "not available for lab models, which have no chat template")
    from visualizer.language.opened_run import OpenedRun
    from visualizer.language.saved_model import iterate_generated_tokens

    opened = OpenedRun(RunFolder(options.folder), is_held=False)
    try:
        metadata, vocabulary = opened.metadata, opened.metadata.vocabulary
        model, _ = opened.model_at(options.step)
        prompt = options.prompt
        if prompt is None:
            prompt = choose_probe_text(metadata.sample, metadata.settings)
        tokens = iterate_generated_tokens(model, vocabulary, prompt, sampling, options.seed)
        separator = " " if vocabulary.tokenizer is TokenizerKind.WORDS else ""
        prefix = prompt + separator
        for token in islice(tokens, options.tokens):
            _write_part(prefix + token)
            prefix = separator
        write_output("\n")
    finally:
        opened.close()


def _write_part(text: str) -> None:
    """Write part of the text; on a terminal, escape control characters."""
    if sys.stdout and sys.stdout.isatty():
        text = "".join(
            letter if letter in "\n\t" else escape_control_characters(letter) for letter in text
        )
    if not write_output(text):
        raise _ReaderClosedError
