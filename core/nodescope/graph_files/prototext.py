"""Protocol buffers as text: parses the messages that `messages.decode` decodes from bytes.

Invariant: time is linear in the length of the text; an invalid text is a `GraphError` with its
line.
"""

from __future__ import annotations

import re
from typing import Any, Final

from nodescope.errors import GraphError
from nodescope.graph_files.messages import DEEPEST, Message, Schema

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
    |(?P<text>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
    |(?P<word>[\w.+-]++)
    |(?P<sign>[{}<>\[\]:;,/])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_PLAIN: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f",
                 b"v": b"\v"}  # fmt: skip
_CLOSING: Final = {"{": "}", "<": ">"}


def parse(text: str, schema: Schema, message: str) -> Message:
    """Parse a message.

    Raises:
        GraphError: The text is not a message of this schema.
    """
    return _Parser(text, schema).message(message, "", 0)


class _Parser:
    def __init__(self, text: str, schema: Schema) -> None:
        self._text, self._schema = text, schema
        self._at = 0
        self._token = ""
        self._next()

    def message(self, kind: str, closing: str, depth: int) -> Message:
        """The fields up to a closing sign or the end; ``kind`` is ``""`` for an unknown message."""
        if depth > DEEPEST:
            raise self._wrong(f"messages are nested more than {DEEPEST} deep")
        fields = dict(self._schema.get(kind, {}).values())
        decoded: Message = {}
        while self._token != closing:
            name = self._token
            if name == "[":  # an extension, or google.protobuf.Any
                while self._token not in ("]", ""):
                    self._next()
            elif not name or not (name[0].isalpha() or name[0] == "_"):
                raise self._wrong(f"expected a field, not {name[:40]!r}")
            self._next()
            into = decoded.setdefault(name, []) if name in fields else []
            self._field(into, fields.get(name, ""), depth)
            if self._token in (",", ";"):
                self._next()
        self._next()
        return decoded

    def _field(self, into: list[Any], kind: str, depth: int) -> None:
        if self._token == ":":
            self._next()
            if self._token == "[":
                self._next()
                while self._token != "]":
                    self._value(into, kind, depth)
                    if self._token == ",":
                        self._next()
                self._next()
                return
        self._value(into, kind, depth)

    def _value(self, into: list[Any], kind: str, depth: int) -> None:
        token = self._token
        if token in _CLOSING:
            if kind and kind not in self._schema:
                raise self._wrong("a message where a value is expected")
            self._next()
            into.append(self.message(kind, _CLOSING[token], depth + 1))
        elif kind in self._schema:
            raise self._wrong(f"expected a message, not {token[:40]!r}")
        elif token[:1] in ('"', "'"):
            raw = b""
            while self._token[:1] in ('"', "'"):
                raw += _unescaped(self._token[1:-1])
                self._next()
            into.append(raw.decode("utf-8", "backslashreplace") if kind != "bytes" else raw)
        elif not token or not (token[0].isalnum() or token[0] in "_+-."):
            raise self._wrong(f"expected a value, not {token[:40]!r}")
        else:
            self._next()
            into.append(_number(token, kind))

    def _next(self) -> None:
        while True:
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                if self._at < len(self._text):
                    raise self._wrong(f"unexpected {self._text[self._at : self._at + 20]!r}")
                self._token = ""
                return
            self._at = match.end()
            if match.lastgroup != "space":
                self._token = match[0]
                return

    def _wrong(self, what: str) -> GraphError:
        return GraphError(f"{what} in line {self._text.count(chr(10), 0, self._at) + 1:,}")


def _number(token: str, kind: str) -> Any:
    """A token's value: text, a number, or the name of an enumeration's value as text."""
    if kind in ("string", "bytes"):
        return token if kind == "string" else token.encode()
    if len(token) > 40:
        return token[:1000]
    if token in ("true", "false"):
        return int(token == "true")
    try:
        return int(token, 0) if kind not in ("float", "double") else float(token.rstrip("fF"))
    except ValueError:
        return token


def _unescaped(text: str) -> bytes:
    def char(escape: re.Match[bytes]) -> bytes:
        if escape[1] or escape[2]:
            return bytes([int(escape[1] or escape[2], 16 if escape[1] else 8) & 255])
        return _PLAIN.get(escape[3], escape[3])

    return _ESCAPE.sub(char, text.encode("utf-8", "backslashreplace"))
