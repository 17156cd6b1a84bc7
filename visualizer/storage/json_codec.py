"""Strict, lossless encoding of structs as JSON, based on their type hints.

The JSON form of a value depends only on its type hint. Bytes are not stored in the JSON; they
become separate members, named by their paths in the tree.

msgspec 0.22 also encodes structs, but less strictly: it writes NaN and infinity as null and reads
neither, decodes missing fields as their defaults, accepts duplicates in a set and integers of any
size, and has no hook for any of these types. With msgspec, fields cannot be omitted from files,
bytes and lone surrogates cannot be stored in the way used here, and error messages do not contain
the invalid value.
"""

from __future__ import annotations

import json
import math
from enum import Enum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INTEGER_LIMIT = 2**63
"""Upper limit (exclusive) for the absolute value of integers."""
RANGE_LIMIT = 2**31
"""Upper limit (exclusive) for the end of a range."""
NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

ArchiveMembers = dict[str, bytes]
"""Binary data, keyed by its path in the tree."""


class DamagedFileError(ValueError):
    """Raised if a file is damaged; the message continues a sentence that begins with its name."""


class JsonCodec:
    """Encodes trees of structs as JSON values and decodes them.

    Parameters
    ----------
    names : mapping
        Types, keyed by name, that the modules of the structs import only for type checking.
    unsaved_fields : mapping
        Fields that are not saved, keyed by struct; decoding sets them to their defaults.
    """

    def __init__(
        self, names: Mapping[str, Any], unsaved_fields: Mapping[type, frozenset[str]] | None = None
    ) -> None:
        self._names = dict(names)
        self._unsaved_fields = unsaved_fields or {}
        self._field_types: dict[type[Struct], dict[str, Any]] = {}

    def _saved_field_types(self, kind: type[Struct]) -> dict[str, Any]:
        """Return the saved fields of a struct and their types."""
        if kind not in self._field_types:
            hints = get_type_hints(kind, localns=self._names)
            unsaved = self._unsaved_fields.get(kind, frozenset())
            named = (name for name in kind.__struct_fields__ if name not in unsaved)
            self._field_types[kind] = {name: hints[name] for name in named}
        return self._field_types[kind]

    # ------------------------------------------------------------------ to JSON

    def encode(self, value: Any, hint: Any, path: str, members: ArchiveMembers) -> Any:
        """Encode a value of the given type as JSON, and add its binary data to `members`."""
        origin = get_origin(hint)
        if origin is UnionType:
            return None if value is None else self.encode(value, _strip_none(hint), path, members)
        if origin is tuple:
            kinds = _element_types(hint, len(value))
            pairs = enumerate(zip(value, kinds, strict=True))
            return [self.encode(one, kind, f"{path}/{at}", members) for at, (one, kind) in pairs]
        if origin is frozenset:
            kind = get_args(hint)[0]
            return sorted((self.encode(one, kind, path, members) for one in value), key=json.dumps)
        if isinstance(hint, type) and issubclass(hint, Struct):
            fields = self._saved_field_types(hint)
            return {
                name: self.encode(getattr(value, name), kind, f"{path}/{name}", members)
                for name, kind in fields.items()
            }
        if hint is bytes:
            members[path] = value
            return len(value)
        return _ENCODERS[hint](value) if hint in _ENCODERS else value.value

    # ------------------------------------------------------------------ from JSON

    def decode(self, value: Any, hint: Any, path: str, members: ArchiveMembers) -> Any:
        """Decode a value of the given type from JSON, and remove its binary data from `members`.

        Raises
        ------
        DamagedFileError
            With the path of the first value that does not match its type.
        """
        origin = get_origin(hint)
        if origin is UnionType:
            return None if value is None else self.decode(value, _strip_none(hint), path, members)
        if origin is tuple:
            _check_type(isinstance(value, list), path, "a list", value)
            kinds = _element_types(hint, len(value))
            _check_type(len(kinds) == len(value), path, f"a list of length {len(kinds)}", value)
            pairs = enumerate(zip(value, kinds, strict=True))
            return tuple(
                self.decode(one, kind, f"{path}/{at}", members) for at, (one, kind) in pairs
            )
        if origin is frozenset:
            return self._decode_set(value, get_args(hint)[0], path, members)
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self._decode_struct(value, hint, path, members)
        if hint is bytes:
            return _decode_bytes(value, path, members)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _decode_enum(value, hint, path)
        return _DECODERS[hint](value, path)

    def _decode_set(
        self, value: Any, kind: Any, path: str, members: ArchiveMembers
    ) -> frozenset[Any]:
        _check_type(isinstance(value, list), path, "a list", value)
        found = frozenset(self.decode(one, kind, path, members) for one in value)
        _check_type(len(found) == len(value), path, "a list without duplicates", value)
        return found

    def _decode_struct(self, value: Any, kind: Any, path: str, members: ArchiveMembers) -> Any:
        _check_type(isinstance(value, dict), path, "an object", value)
        fields = self._saved_field_types(kind)
        if more := sorted(value.keys() - fields.keys()):
            raise DamagedFileError(
                f"contains an unexpected entry at {path}: “{format_short_value(more[0])}”."
            )
        if missing := sorted(fields.keys() - value.keys()):
            raise DamagedFileError(f"does not contain “{missing[0]}” at {path}.")
        return kind(
            **{
                name: self.decode(value[name], hint, f"{path}/{name}", members)
                for name, hint in fields.items()
            }
        )


def format_short_value(value: object) -> str:
    """Format a value from a file for a message: at most 24 printable characters."""
    text = value if isinstance(value, str) else _describe_value(value)
    short = text if len(text) <= 24 else f"{text[:23]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in short)


def _describe_value(value: object) -> str:
    kinds = {list: "a list", dict: "an object", NoneType: "null", bool: str(value).lower()}
    if isinstance(value, int) and abs(value) > INTEGER_LIMIT:
        return "a very large number"  # Python may refuse to convert it to decimal
    return kinds.get(type(value)) or str(value)


def _check_type(is_valid: bool, path: str, expected: str, value: object) -> None:
    if not is_valid:
        raise DamagedFileError(
            f"contains {format_short_value(value)} at {path}; expected {expected}."
        )


def _strip_none(hint: Any) -> Any:
    """Return the type of an optional value, without None."""
    return next(kind for kind in get_args(hint) if kind is not NoneType)


def _element_types(hint: Any, count: int) -> tuple[Any, ...]:
    kinds = get_args(hint)
    return (kinds[0],) * count if kinds[1:] == (...,) else kinds


def _decode_enum(value: Any, kind: type[Enum], path: str) -> Enum:
    found = {member.value: member for member in kind}
    expected = f"one of {', '.join(found)}"
    _check_type(isinstance(value, str) and value in found, path, expected, value)
    return found[value]


def _decode_bytes(value: Any, path: str, members: ArchiveMembers) -> bytes:
    count = _decode_integer(value, path)
    if path not in members:
        raise DamagedFileError(f"does not contain the data for {path}.")
    found = members.pop(path)
    if len(found) != count:
        raise DamagedFileError(
            f"contains {len(found):,} bytes at {path}; expected {format_short_value(count)}."
        )
    return found


# ------------------------------------------------------------------------------ plain values


def _encode_integer(value: int) -> int:
    if not _is_valid_integer(value):
        raise DamagedFileError("contains a number that is too large")
    return value


def _encode_float(value: float) -> Any:
    value = float(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _decode_text(value: Any, path: str) -> str:
    _check_type(isinstance(value, str), path, "text", value)
    return str(value)


def _decode_bool(value: Any, path: str) -> bool:
    _check_type(isinstance(value, bool), path, "true or false", value)
    return bool(value)


def _is_valid_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < INTEGER_LIMIT


def _decode_integer(value: Any, path: str) -> int:
    _check_type(_is_valid_integer(value), path, "an integer", value)
    return int(value)


def _decode_float(value: Any, path: str) -> float:
    if isinstance(value, str) and value in NON_FINITE:
        return NON_FINITE[value]
    _check_type(isinstance(value, float) or _is_valid_integer(value), path, "a number", value)
    return float(value)


def _decode_range(value: Any, path: str) -> range:
    is_pair = isinstance(value, list) and len(value) == 2 and all(map(_is_valid_integer, value))
    _check_type(
        is_pair and 0 <= value[0] <= value[1] < RANGE_LIMIT, path, "a start and an end", value
    )
    return range(*value)


_DECODERS: dict[Any, Callable[[Any, str], Any]] = {
    str: _decode_text,
    bool: _decode_bool,
    int: _decode_integer,
    float: _decode_float,
    range: _decode_range,
}
_ENCODERS: dict[Any, Callable[[Any], Any]] = {
    str: str,
    bool: bool,
    int: _encode_integer,
    float: _encode_float,
    range: lambda value: [value.start, value.stop],
}
