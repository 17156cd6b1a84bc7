"""Limits for the files and settings in a model's folder, checked before they are read. No torch.

transformers reads these files whole and copies their contents several times. A chat template of 1
MiB takes 9 s to compile, one of 4 MiB 46 s; a generation configuration of 4 MiB takes 2 s.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from visualizer.attention.captured_attention import MAX_LAYERS
from visualizer.errors import InputError, system_error_reason
from visualizer.format import format_size
from visualizer.models.model_path import broken_link_message
from visualizer.storage.regular_file import check_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_SETTINGS_BYTES = 2**20
MAX_CONFIG_BYTES = 4 * 2**20
"""Limit for files that may list each class or token: 22,000 labels take 2 MB."""
MAX_INDEX_BYTES = 24 * 2**20
"""Limit for the index of a model's files; that of a model with 140,000 tensors takes 15 MB."""
MAX_VOCABULARY_BYTES = 64 * 2**20
"""Limit for a tokenizer file; the largest in use take about 35 MB."""
MAX_VALUES = 100_000
"""Limit for the number of values in a configuration: transformers copies each many times."""
MAX_LABELS = 30_000
"""Limit for the number of classes in a configuration; each gets a name."""
TEMPLATES_FOLDER = "additional_chat_templates"
VOCABULARY_FILES = (
    "tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spm_char.model", "source.spm",
    "target.spm", "bpe.codes", "dict.txt", "emoji.json", "entity_vocab.json", "normalizer.json",
    "target_vocab.json", "vocab-src.json", "vocab-tgt.json", "prophetnet.tokenizer", "tekken.json",
    "word_shape.json", "word_pronunciation.json", "byte_maps.json",
)  # fmt: skip
"""Names of the files read by the tokenizers of transformers."""
_LIMITS = (
    (re.compile(r"(config|tokenizer_config|added_tokens)\.json"), MAX_CONFIG_BYTES),
    (re.compile(r".+\.index\.json"), MAX_INDEX_BYTES),
    (re.compile(r"\w+_config\.json|special_tokens_map\.json|.+\.jinja|chat_template\.json"),
     MAX_SETTINGS_BYTES),
    (re.compile("|".join(map(re.escape, VOCABULARY_FILES))), MAX_VOCABULARY_BYTES),
)  # fmt: skip
_LAYER_COUNT = re.compile(r"(num|n|encoder|decoder)_(\w+_)?(layers?|blocks?)|(num_)?depth")
_LAYER_COUNTS = ("depths", "block_sizes", "attention_types", "stage_num_blocks")
"""Names of settings that list the number of layers for parts of a model."""


def size_limit(name: str) -> int | None:
    """Return the size limit, in bytes, of a file read by transformers; None for other files."""
    return next((limit for names, limit in _LIMITS if names.fullmatch(name)), None)


def check_file_sizes(folder: Path) -> None:
    """Reject a folder if a file that transformers would read is too large or not a regular file.

    Raises
    ------
    InputError
        With field ``model`` and the name of the file.
    """
    for path in _files_read(folder):
        limit = size_limit(path.name)
        if limit is None:
            continue
        try:
            size = check_regular_file(path).st_size
        except FileNotFoundError:
            raise _rejection_error(broken_link_message(path)) from None
        except OSError as error:
            raise _rejection_error(
                f"Cannot read “{path.name}”: {system_error_reason(error)}."
            ) from error
        if size > limit:
            sentence = (
                f"“{path.name}” is too large: {format_size(size)}, limit {format_size(limit)}"
            )
            raise _rejection_error(f"{sentence}. Check that it belongs to this model.")


def _files_read(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(folder.iterdir())
        if (folder / TEMPLATES_FOLDER).is_dir():
            yield from sorted((folder / TEMPLATES_FOLDER).iterdir())
    except OSError as error:
        sentence = f"Cannot read the folder “{folder.name}”: {system_error_reason(error)}."
        raise _rejection_error(sentence) from error


def check_counts(config: Mapping[str, Any]) -> None:
    """Reject a configuration with more values, layers or classes than any model has.

    Raises
    ------
    InputError
        With field ``model`` and the name of the setting.
    """
    if _count_values(config) > MAX_VALUES:
        raise _rejection_error(f"config.json is invalid: it has more than {MAX_VALUES:,} values.")
    for settings in _nested_configs(config):
        for name, value in settings.items():
            limit = MAX_LABELS if name == "num_labels" else MAX_LAYERS
            is_count = name == "num_labels" or _LAYER_COUNT.fullmatch(name)
            if name in _LAYER_COUNTS or (is_count and isinstance(value, int)):
                count = sum(_whole_numbers(value))
                if count > limit:
                    raise _rejection_error(
                        f"config.json is invalid: {name} must be at most {limit:,}, not {count:,}."
                    )


def _nested_configs(config: object) -> Iterator[Mapping[str, Any]]:
    """Yield a configuration and the configurations of its parts, at any depth."""
    pending = [config]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending += part.values()


def _count_values(config: object) -> int:
    """Count the values in a configuration, at any depth."""
    count, pending = 0, [config]
    while pending:
        part = pending.pop()
        values = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        count += len(values)
        pending += values
    return count


def _whole_numbers(value: object) -> Iterator[int]:
    """Yield an integer, or those in nested lists."""
    pending = [value]
    while pending:
        each = pending.pop()
        if type(each) is int:
            yield max(0, each)
        elif isinstance(each, list):
            pending += each


def _rejection_error(sentence: str) -> InputError:
    return InputError("model", sentence)
