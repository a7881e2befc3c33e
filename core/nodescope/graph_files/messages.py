"""Protocol buffers without their library: decodes messages from bytes by a schema.

A message is a dict of lists, by field name. Fields that the schema does not name, such as the
contents of weights, are skipped without being read.

Invariant: decoding reads each byte at most once, and none beyond the message; an invalid file is a
`GraphError` with the offset.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from nodescope.errors import GraphError

Message = dict[str, list[Any]]
Schema = dict[str, dict[int, tuple[str, str]]]
"""By message and number: a field's name, and its kind: ``int``, ``float``, ``double``, ``string``,
``bytes``, or a message of the schema.
"""

DEEPEST: Final = 60
_SIZES: Final = {1: 8, 5: 4}
_NUMBERS: Final = {"float": (5, "<f", 4), "double": (1, "<d", 8)}


class _Broken(GraphError):
    pass


def decode(
    data: memoryview, schema: Schema, message: str, *, start: int = 0, end: int = -1, depth: int = 0
) -> Message:
    """Decode a message.

    Raises:
        GraphError: The bytes are not a message of this schema.
    """
    if depth > DEEPEST:
        raise GraphError(f"messages are nested more than {DEEPEST} deep")
    end = len(data) if end < 0 else end
    fields = schema[message]
    decoded: Message = {}
    at = start
    while at < end:
        place = at
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if not number:
            raise _Broken(f"a field without a number at byte {place:,}")
        if wire == 0:
            value, at = _varint(data, at, end)
            length = 0
        elif wire == 2:
            length, at = _varint(data, at, end)
            value = 0
        elif wire in _SIZES:
            length, value = _SIZES[wire], 0
        else:
            raise _Broken(f"a field of unknown form {wire} at byte {place:,}")
        if length > end - at:
            raise _Broken(
                f"the file ends within field {number} of {message}, which begins at byte {place:,}"
            )
        name, kind = fields.get(number, ("", ""))
        if name:
            into = decoded.setdefault(name, [])
            if wire == 0:
                if kind != "int":
                    raise _mismatch(message, name, place)
                into.append(value - (1 << 64) if value >> 63 else value)
            elif wire != 2:
                form = _NUMBERS.get(kind)
                if form is None or form[0] != wire:
                    raise _mismatch(message, name, place)
                into.append(struct.unpack_from(form[1], data, at)[0])
            elif kind in schema:
                into.append(decode(data, schema, kind, start=at, end=at + length, depth=depth + 1))
            else:
                _append(into, data, at, at + length, kind)
        at += length
    return decoded


def _append(into: list[Any], data: memoryview, at: int, end: int, kind: str) -> None:
    """Append the content of a length-delimited field: text, bytes, or packed numbers."""
    if kind == "string":
        into.append(bytes(data[at:end]).decode("utf-8", "backslashreplace"))
    elif kind == "bytes":
        into.append(bytes(data[at:end]))
    elif kind == "int":
        while at < end:
            value, at = _varint(data, at, end)
            into.append(value - (1 << 64) if value >> 63 else value)
    else:
        _, form, size = _NUMBERS[kind]
        if (end - at) % size:
            raise _Broken(f"numbers cut in the middle at byte {at:,}")
        into += (number for (number,) in struct.iter_unpack(form, data[at:end]))


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    start = at
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise _Broken(f"a number of more than 10 bytes at byte {start:,}")
    raise _Broken(f"the file ends within a number at byte {start:,}")


def _mismatch(message: str, name: str, place: int) -> GraphError:
    return _Broken(f"{message}.{name} at byte {place:,} is of another kind")


def one(message: Message, name: str, default: Any) -> Any:
    """The last value of a field that should occur at most once, or a default."""
    values = message.get(name)
    return values[-1] if values else default
