"""Generates the page's types from `wire`.

    python -m tools.page_types fail if they are outdated python -m tools.page_types --write bring
    them up to date

Invariant: deterministic and complete: the output contains exactly the types reachable from
`wire.Request`, `wire.ServerMessage` and the comparison's answers.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from nodescope import events, protocol
from nodescope.compare import align, measure
from nodescope.debug.report import run_summary
from nodescope.debug.why import answer
from nodescope.ir import graph, provenance
from nodescope.record import overview, rows
from nodescope.record.step_times import step_rows
from nodescope_server import wire
from nodescope_server.http import compare, rest, start_page
from nodescope_server.wire import why_messages
from tools.generated import ROOT, asked_to_write, update

TARGET = ROOT / "web" / "src" / "wire" / "types.gen.ts"

_HEADER = """\
// Generated from the Python types by `python -m tools.page_types --write`. Do not edit.
//
// Integers arrive as numbers; those beyond 2^53 (started_unix_ns) are rounded.
"""

# Names of unions and literals on the Python side; the page uses the same ones.
_ALIASES: tuple[tuple[str, Any], ...] = (
    ("Level", events.Level),
    ("Phase", graph.Phase),
    ("GraphKind", graph.GraphKind),
    ("HostKind", events.HostKind),
    ("Change", provenance.Change),
    ("FateKind", provenance.FateKind),
    ("TimePart", step_rows.Part),
    ("MatchReason", align.Reason),
    ("MeasureSource", measure.Source),
    ("SessionPhase", protocol.SessionPhase),
    ("StopReason", protocol.StopReason),
    ("When", protocol.When),
    ("BreakpointKind", protocol.BreakpointKind),
    ("Command", protocol.Command),
    ("WhyKind", answer.Kind),
    ("Outcome", overview.Outcome),
    ("ProblemKind", run_summary.ProblemKind),
    ("NumberState", why_messages.NumberState),
    ("RequestBody", wire.RequestBody),
    ("ResponseBody", wire.ResponseBody),
    ("Push", wire.Push),
    ("ServerMessage", wire.ServerMessage),
)
_CONSTANTS: tuple[tuple[str, object], ...] = (
    ("PROTOCOL_VERSION", protocol.PROTOCOL_VERSION),
    ("CONTROLLER_GRACE_S", protocol.CONTROLLER_GRACE_S),
    ("HAS_NAN", rows.HAS_NAN),
    ("HAS_INF", rows.HAS_INF),
    ("FAILED", rows.FAILED),
    ("HAS_SUMMARY", rows.HAS_SUMMARY),
    ("LEVELS", events.LEVELS),
    ("PHASES", graph.PHASES),
    ("FATES", provenance.FATES),
    ("PARTS", step_rows.PARTS),
)
_SCALARS = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    bytes: "Uint8Array",
    type(None): "null",
    Any: "unknown",
}
_WIDTH = 100


def generate() -> str:
    """The whole text of ``types.gen.ts``."""
    sent = list(_structs(wire.Request))
    received = list(_structs(wire.ServerMessage))
    for struct in (*compare.TYPES, *start_page.TYPES, rest.RunGraph):  # by REST
        received += _structs(struct)
    ordered = list(dict.fromkeys([*sent, *received]))
    parts = [_HEADER, "\n".join(f"export const {k} = {_literal(v)};" for k, v in _CONSTANTS)]
    # The server may omit defaults when reading but always writes them: only types sent by the page
    # alone have optional fields.
    parts += [_interface(struct, optional=struct not in received) for struct in ordered]
    parts += [_alias(name, meaning) for name, meaning in _ALIASES]
    return "\n".join(f"{part.rstrip()}\n" for part in parts)


def _structs(root: Any) -> Iterator[type[msgspec.Struct]]:
    """Every Struct reachable from ``root``, each once, in the order of discovery."""
    visited: set[Any] = set()

    def walk(kind: Any) -> Iterator[type[msgspec.Struct]]:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind in visited:
                return
            visited.add(kind)
            yield kind
            for _, field in _fields(kind):
                yield from walk(field)
        elif get_origin(kind) is not Literal:
            for member in get_args(kind):
                yield from walk(member)

    return walk(root)


def _fields(struct: type[msgspec.Struct]) -> list[tuple[msgspec.structs.FieldInfo, Any]]:
    hints = typing.get_type_hints(struct)
    return [(field, hints[field.name]) for field in msgspec.structs.fields(struct)]


def _interface(struct: type[msgspec.Struct], *, optional: bool) -> str:
    lines = [*_comment(struct.__doc__), f"export interface {struct.__name__} {{"]
    config = struct.__struct_config__
    if config.tag is not None:
        lines.append(f"  readonly {config.tag_field}: {_literal(config.tag)};")
    for field, kind in _fields(struct):
        mark = "?" if optional and not field.required else ""
        lines.append(f"  readonly {field.encode_name}{mark}: {_type(kind)};")
    return "\n".join([*lines, "}"])


def _alias(name: str, meaning: Any) -> str:
    members = [_type(member, inside=name) for member in _members(meaning)]
    line = f"export type {name} = {' | '.join(members)};"
    if len(line) > _WIDTH:
        line = f"export type {name} =\n" + "\n".join(f"  | {member}" for member in members) + ";"
    return line


def _members(meaning: Any) -> tuple[Any, ...]:
    if get_origin(meaning) is Literal:
        return tuple(Literal[choice] for choice in get_args(meaning))
    return get_args(meaning)


def _type(kind: Any, *, inside: str = "") -> str:
    """A type in TypeScript; ``inside`` is the alias being defined, if any."""
    for name, meaning in _ALIASES:
        if kind == meaning and name != inside:
            return name
    if kind in _SCALARS:
        return _SCALARS[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind.__name__
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " | ".join(_literal(choice) for choice in args)
    if origin in (Union, types.UnionType):
        return " | ".join(_type(member) for member in args)
    if origin is tuple and args[-1:] == (Ellipsis,):
        item = _type(args[0])
        return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"
    if origin is tuple:
        return f"readonly [{', '.join(_type(member) for member in args)}]"
    if origin is dict and args[0] is str:
        return f"Readonly<Record<string, {_type(args[1])}>>"
    if origin is dict and _is_choice(args[0]):  # any key may be missing
        return f"Readonly<Partial<Record<{_type(args[0])}, {_type(args[1])}>>>"
    raise TypeError(f"{kind!r} has no TypeScript type: extend page_types._type")


def _is_choice(kind: Any) -> bool:
    """Whether a type is a union of texts."""
    if get_origin(kind) is Literal:
        return all(isinstance(choice, str) for choice in get_args(kind))
    return bool(get_args(kind)) and all(map(_is_choice, get_args(kind)))


def _literal(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(_literal(element) for element in value)}] as const"
    return msgspec.json.encode(value).decode()


def _comment(doc: str | None) -> list[str]:
    if not doc:
        return []
    lines = inspect.cleandoc(doc).replace("*/", "* /").replace("``", "`").splitlines()
    if len(lines) == 1 and len(lines[0]) + 7 <= _WIDTH:
        return [f"/** {lines[0]} */"]
    return ["/**", *(f" * {line}".rstrip() for line in lines), " */"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    write = asked_to_write("page_types", arguments)
    return update(TARGET, generate(), "page_types", write=write)


if __name__ == "__main__":
    sys.exit(main())
