"""Parsing the text of graphs, in the format of `nodescope.ir.text`.

Invariant: a scanner and a recursive descent of bounded depth; none of the text is executed.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, cast, get_args

import msgspec

from nodescope.errors import GraphError
from nodescope.ir.attrs import DTYPES, Dtype, array_of, built, hexed
from nodescope.ir.graph import (
    PHASES,
    Graph,
    GraphKind,
    Node,
    OpaqueSpec,
    Role,
    SourceLocation,
    TensorSpec,
    Value,
    usual_role,
    usual_writes,
)

_SPACE = re.compile(r"[ \t\r\n]*")
_LINE_SPACE = re.compile(r"[ \t]*")
_ON = re.compile(r"[ \t]+on[ \t]+(?=\")")
_STORAGE = re.compile(r"[ \t]+in[ \t]+([0-9]+)")
_INT = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?(?:inf\b|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE = re.compile(r"[A-Za-z0-9_./<>+\-]+")
_KIND = re.compile(r"[a-z\-]+")
_PLACE = re.compile(r"([A-Za-z0-9_./<>+\-~@]*[A-Za-z0-9_/<>+\-~@]):([0-9]+)")
_FIELD = re.compile(r"(id|scope|phase|device|after|origin|of|graph|role|dialect|native|writes)=")
_WRITES = re.compile(r"-|[0-9]+>[0-9]+(?:,[0-9]+>[0-9]+)*")
_DEEPEST = 60  # bodies within bodies, tuples within tuples


def parse_graph(text: str) -> Graph:
    """The graph in a text of `nodescope.ir.text.print_graph`.

    Lines that begin with ``//`` are skipped.

    Raises:
        GraphError: The text is malformed; the message gives line, column and what was expected.
    """
    parser = _Parser(re.sub(r"(?m)^[ \t]*//.*$", "", text))
    parser.space()
    graph = parser.graph()
    parser.space()
    if parser.at != len(parser.text):
        parser.fail("the end of the text")
    return graph


class _Parser:
    """A text and the current position in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    # Characters

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        place = self.at if at is None else at
        line = self.text.count("\n", 0, place) + 1
        column = place - self.text.rfind("\n", 0, place)
        text_found = self.text[place : place + 20].split("\n")[0]
        raise GraphError(
            f"line {line}, column {column}: expected {expected}, found {text_found!r}"
            if text_found
            else f"line {line}, column {column}: expected {expected}, found the end"
        )

    def space(self) -> None:
        self.match(_SPACE)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def need(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        return self.match(pattern) or self.fail(expected)

    def take(self, mark: str, *, line: bool = False) -> bool:
        """Take a mark after white space, if it comes next. ``line``: on this line."""
        start = self.at
        self.match(_LINE_SPACE if line else _SPACE)
        if self.text.startswith(mark, self.at):
            self.at += len(mark)
            return True
        self.at = start
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            self.space()
            self.fail(repr(mark))

    def string(self) -> str:
        start = self.at
        try:
            string, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        except ValueError:
            self.fail("a text in quotes", start)
        if not isinstance(string, str):
            self.fail("a text in quotes", start)
        return string

    def quoted(self, pattern: re.Pattern[str], expected: str) -> str:
        if self.text.startswith('"', self.at):
            return self.string()
        return self.need(pattern, expected).group()

    def number(self, mark: str) -> int:
        self.space()
        if not self.take(mark):
            self.fail(f"{mark} and a number")
        return int(self.need(re.compile("[0-9]+"), "a number").group())

    # Graphs

    def graph(self) -> Graph:
        self._enter()
        if self.need(_WORD, "'graph'").group() != "graph":
            self.fail("'graph'", self.at - 5)
        self.space()
        id = int(self.need(_INT, "the graph's id").group())
        self.space()
        start = self.at
        kind = self.need(_KIND, "a kind of graph").group()
        if kind not in get_args(GraphKind):
            self.fail(f"one of {', '.join(get_args(GraphKind))}", start)
        inputs = self.value_list()
        self.expect("->")
        outputs = self.value_list()
        self.expect("{")
        constants: tuple[int, ...] = ()
        if self.take("constants"):
            constants = self.value_list()
        values: list[Value] = []
        nodes: list[Node] = []
        while self.take("given"):
            self.expect("(")
            value, _ = self.made()
            self.space()
            name = self.quoted(_BARE, "the value's name")
            values.append(msgspec.structs.replace(value, name=name))
            self.expect(")")
        while not self.take("}"):
            self.space()
            nodes.append(self.node(nodes[-1].id if nodes else 0, values))
        self.depth -= 1
        values.sort(key=lambda value: value.id)
        return Graph(id, cast(GraphKind, kind), inputs, outputs, tuple(nodes), tuple(values),
                     constants)  # fmt: skip

    def _enter(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail(f"at most {_DEEPEST} things within each other")

    def value_list(self) -> tuple[int, ...]:
        self.expect("(")
        values: list[int] = []
        while not self.take(")"):
            if values:
                self.expect(",")
            values.append(self.number("%"))
        return tuple(values)

    def made(self) -> tuple[Value, bool]:
        """``%3: f32[2]`` or ``%3 "name": f32[2]``, and whether it has a name."""
        value = self.number("%")
        self.space()
        named = self.text.startswith('"', self.at)
        name = self.string() if named else ""
        self.expect(":")
        self.space()
        spec = self.opaque() if self.text.startswith("opaque(", self.at) else self.placed()
        storage = self.match(_STORAGE)
        return Value(value, spec, name, int(storage.group(1)) if storage else 0), named

    def opaque(self) -> OpaqueSpec:
        """``opaque("list", 80)``."""
        self.at += len("opaque")
        self.expect("(")
        self.space()
        name, nbytes = self.string(), None
        if self.take(","):
            self.space()
            nbytes = int(self.need(re.compile("[0-9]+"), "a number of bytes").group())
        self.expect(")")
        return OpaqueSpec(name, nbytes)

    def placed(self) -> TensorSpec:
        """``f32[2]`` or ``f32[2] on "cuda:0"``."""
        spec = self.spec()
        device = self.string() if self.match(_ON) else ""
        return msgspec.structs.replace(spec, device=device) if device else spec

    def spec(self) -> TensorSpec:
        """``f32[2,?]``."""
        dtype = self.dtype()
        self.expect("[")
        sizes: list[int | None] = []
        while not self.take("]"):
            if sizes:
                self.expect(",")
            self.space()
            size = self.need(re.compile(r"[0-9]+|\?"), "a size").group()
            sizes.append(None if size == "?" else int(size))
        return TensorSpec(tuple(sizes), dtype)

    def dtype(self) -> str:
        if self.text.startswith('"', self.at):
            return self.string()
        start = self.at
        word = self.need(_WORD, "a dtype").group()
        if word not in DTYPES:
            self.fail(f"a dtype ({', '.join(DTYPES)})", start)
        return DTYPES[word]

    def node(self, before: int, values: list[Value]) -> Node:
        outputs: list[tuple[Value, bool]] = []
        if not self.take("_"):
            outputs.append(self.made())
            while self.take(","):
                outputs.append(self.made())
        self.expect("=")
        self.space()
        family = op = self.quoted(_WORD, "an op")
        if self.take(".", line=True):
            op = self.quoted(_WORD, "an op")
        inputs, attrs = self.arguments()
        if not self.take("#", line=True):
            self.fail("'#' and the node's name")
        self.match(_LINE_SPACE)
        name = self.quoted(_BARE, "the node's name")
        rest = self.rest()
        for port, (value, named) in enumerate(outputs):
            usual = f"{name}:{port}" if port else name
            values.append(value if named else msgspec.structs.replace(value, name=usual))
        return Node(
            id=rest.get("id", before + 1),
            name=name,
            op=op,
            family=family,
            inputs=inputs,
            control_inputs=rest.get("after", ()),
            outputs=tuple(value.id for value, _ in outputs),
            attrs=attrs,
            scope=rest.get("scope", name.rpartition("/")[0]),
            phase=rest.get("phase", "forward"),
            device=rest.get("device", "cpu"),
            source=rest.get("source"),
            origin=rest.get("origin", ()),
            forward=rest.get("of"),
            graph=rest.get("graph", 0),
            role=rest.get("role", usual_role(op, family)),
            dialect=rest.get("dialect", "nodescope"),
            native=rest.get("native", ""),
            writes=rest.get("writes", usual_writes(family)),
        )

    def arguments(self) -> tuple[tuple[int, ...], dict[str, Any]]:
        self.expect("(")
        inputs: list[int] = []
        attrs: dict[str, Any] = {}
        while not self.take(")"):
            if inputs or attrs:
                self.expect(",")
            self.space()
            if not attrs and self.text.startswith("%", self.at):
                inputs.append(self.number("%"))
                continue
            start = self.at
            name = self.quoted(_WORD, "an input or an attribute")
            if name in attrs:
                self.fail("each attribute once", start)
            self.expect("=")
            attrs[name] = self.value()
        return tuple(inputs), attrs

    def rest(self) -> dict[str, Any]:
        """The text after a node's name, to the end of the line."""
        rest: dict[str, Any] = {}
        self.match(_LINE_SPACE)
        while self.at < len(self.text) and self.text[self.at] not in "\r\n":
            field = self.match(_FIELD)
            if field is None:
                rest["source"] = self.source()
            else:
                key = field.group(1)
                if key in rest:
                    self.fail(f"{key}= once", field.start())
                rest[key] = self.field(key)
            self.match(_LINE_SPACE)
        return rest

    def field(self, key: str) -> Any:
        if key == "scope":
            return self.quoted(_BARE, "a scope")
        if key == "phase":
            start = self.at
            phase = self.need(_WORD, "a phase").group()
            if phase not in PHASES:
                self.fail(f"one of {', '.join(PHASES)}", start)
            return phase
        if key in ("device", "dialect", "native"):
            return self.string()
        if key == "role":
            start = self.at
            role = self.need(_WORD, "a role").group()
            if role not in get_args(Role):
                self.fail(f"one of {', '.join(get_args(Role))}", start)
            return role
        if key == "writes":
            pairs = self.need(_WRITES, "pairs of ports, such as 0>1").group()
            if pairs == "-":
                return ()
            return tuple(tuple(map(int, pair.split(">"))) for pair in pairs.split(","))
        if key == "graph":
            return int(self.need(re.compile("[0-9]+"), "the id of a graph").group())
        ids = [self.number("@")]
        while key in ("after", "origin") and self.text.startswith(",", self.at):
            self.at += 1
            ids.append(self.number("@"))
        return tuple(ids) if key in ("after", "origin") else ids[0]

    def source(self) -> SourceLocation:
        if self.text.startswith('"', self.at):
            file = self.string()
            line = self.need(re.compile(":([0-9]+)"), "':' and a line number").group(1)
        else:
            place = self.need(_PLACE, "a field such as phase=, or the line of a program")
            file, line = place.groups()
        function = ""
        self.match(_LINE_SPACE)
        if self.at < len(self.text) and self.text[self.at] not in "\r\n":
            function = self.quoted(_BARE, "the name of a function")
        return SourceLocation(file, int(line), function)

    # Values of attributes

    def value(self) -> Any:
        self._enter()
        self.space()
        value = self._value()
        self.depth -= 1
        return value

    def _value(self) -> Any:
        start = self.at
        mark = self.text[start : start + 1]
        if mark == '"':
            return self.string()
        if self.take("..."):
            return ...
        if mark == "(" or mark == "[":
            return self.sequence(mark)
        if mark == "{":
            return self.mapping()
        if number := self.match(_NUMBER):
            text = number.group()
            try:
                return int(text) if _INT.fullmatch(text) else float(text)
            except ValueError:  # more digits than Python converts
                self.fail("a number of fewer digits", start)
        word = self.need(_WORD, "a value").group()
        if word in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[word]
        if word == "inf":
            return float("inf")
        if word == "nan" and not self.text.startswith("(", self.at):
            return float("nan")
        if word == "graph":
            self.at = start
            return self.graph()
        try:
            return self.call(word)
        except GraphError as error:
            if error.message.startswith("line "):
                raise
            self.fail(f"a value ({error.message})", start)

    def call(self, word: str) -> Any:
        self.expect("(")
        if word in ("dtype", "scalar", "array"):
            import numpy as np

            self.space()
            shaped = self.spec() if word == "array" else TensorSpec((), self.dtype())
            raw = b""
            if word != "dtype":
                self.expect(",")
                self.space()
                raw = hexed(self.string())
            self.expect(")")
            if word == "dtype":
                return Dtype(shaped.dtype).value()
            array = array_of(shaped.dtype, shaped.shape, raw)
            return array if word == "array" else cast(np.generic, array[()])
        return built(word, self.items(")"))

    def items(self, end: str) -> list[Any]:
        values: list[Any] = []
        while not self.take(end):
            if values:
                self.expect(",")
                if self.take(end):
                    break
            values.append(self.value())
        return values

    def sequence(self, mark: str) -> Any:
        self.at += 1
        values = self.items(")" if mark == "(" else "]")
        return tuple(values) if mark == "(" else values

    def mapping(self) -> dict[Any, Any]:
        self.at += 1
        mapping: dict[Any, Any] = {}
        while not self.take("}"):
            if mapping:
                self.expect(",")
            start = self.at
            key = self.value()
            try:
                hash(key)
            except TypeError:
                self.fail("a key that can be looked up", start)
            self.expect(":")
            mapping[key] = self.value()
        return mapping
