"""Text: a placed program as one Python function.

The text holds names that we made (v12, b3), calls of NumPy, and numbers; nothing of the user's but
names of nodes, as comments. What stands in planned memory, views of it included, is made once by
``bind``; what ``run`` does is calls.

Invariant: the steps in their order, each on the operands that it was observed with.
"""

from __future__ import annotations

import keyword
import math
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from nodescope.engine.codegen.numpy_backend.observe import Program
from nodescope.engine.codegen.numpy_backend.place import Placed, Tiled, Turns
from nodescope.engine.codegen.numpy_backend.steps import (
    COPY,
    INTO,
    OVER,
    VIEW,
    Group,
    Loop,
    Step,
    Value,
)

_RESERVED = re.compile(
    r"[a-z]\d+(_\d+)?|(first|tiles)\d+|T|_|i|j|run|bind|arena|map|zip|range|list"
)
_LET_GO = 1 << 16  # bytes from which on a name is given up after its last use


class OtherLayout(Exception):
    """A value came in another layout than when the program was observed."""


class Writer:
    """Writes a program.

    Attributes:
        space: What the text's names mean, besides those that it makes itself.
    """

    def __init__(self, program: Program, placed: Placed, timed: bool = False) -> None:
        self.program, self.placed, self.timed = program, placed, timed
        self.space: dict[str, Any] = {
            "np": np, "asarray": np.asarray, "copyto": np.copyto, "empty": np.empty,
            "planned": planned, "OtherLayout": OtherLayout, "tiles": tiles, "clock": time.perf_counter_ns,
        }  # fmt: skip
        self._bind: list[str] = []
        self._run: list[str] = []
        self._indent = "        "
        self._names: dict[Value, str] = {}
        self._bound: set[Value] = set()
        self._constants: dict[tuple[Any, ...], str] = {}
        self._functions: dict[int, str] = {}
        self._last: dict[Value, int] = {}

    # The whole

    def text(self) -> str:
        """The text, which defines ``bind(arena)``."""
        for value, array in self.program.constants.items():
            name = self._names[value] = f"k{value.id}"
            self.space[name] = array
            self._bound.add(value)
        feeds = []
        for value in self.program.feeds:
            name = self._names[value] = f"v{value.id}"
            feeds.append(name)
        for value, offset in self.placed.offsets.items():
            self._planned(value, offset)
        self._last = self._last_uses()
        for at, (group, items) in enumerate(self.placed.items):
            self._group(at, group, items)
        stamps = ["T"] if self.timed else []
        results = ", ".join(self._name(each) for each in self.program.outputs)
        arguments = ", ".join([*feeds, *stamps])
        return "\n".join([
            "def bind(arena):", *self._bind,
            f"    def run({arguments}):", *self._run,
            f"        return [{results}]", "    return run", "",
        ])  # fmt: skip

    def _group(self, at: int, group: Group, items: list[Any]) -> None:
        self._run.append(f"{self._indent}# {_clean(group.title)}")
        if self.timed:
            self._run.append(f"{self._indent}T[{2 * at}] = clock()")
        for item in items:
            if isinstance(item, Step):
                self._step(item)
            elif isinstance(item, Tiled):
                self._tiled(item)
            else:
                self._loop(item, self.placed.scratch.get(item, 0), self.placed.offsets)
        if self.timed:
            self._run.append(f"{self._indent}T[{2 * at + 1}] = clock()")
        gone = [v for v, last in self._last.items() if last == at and v not in self._bound]
        if gone:
            names = " = ".join(dict.fromkeys(self._names[v] for v in gone if v in self._names))
            if names:
                self._run.append(f"{self._indent}{names} = None")

    def _last_uses(self) -> dict[Value, int]:
        """At which node large values that stand in no planned memory are used last."""
        last: dict[Value, int] = {}
        for at, (_, items) in enumerate(self.placed.items):
            for item in items:
                for value in (*item.outs, *item.reads):
                    if value.nbytes >= _LET_GO and value.loop is None:
                        last[value] = at
        stay = {*self.program.outputs, *self.program.feeds, *self.program.constants}
        return {value: at for value, at in last.items()
                if value not in stay and value not in self.placed.offsets}  # fmt: skip

    # Names

    def _planned(self, value: Value, offset: int, name: str = "") -> str:
        name = name or f"b{value.id}"
        dtype = self._constant(value.dtype)
        self._bind.append(
            f"    {name} = planned(arena, {offset}, {value.shape!r}, {dtype}, {value.strides!r})"
        )
        self._names[value] = name
        self._bound.add(value)
        return name

    def _name(self, value: Value) -> str:
        return self._names[value]

    def _new(self, value: Value) -> str:
        name = self._names[value] = f"v{value.id}"
        return name

    def _operand(self, each: Any) -> str:
        return self._names[each] if each.__class__ is Value else self._constant(each)

    def _constant(self, each: Any) -> str:
        if each is None or each.__class__ in (bool, int) or (
            each.__class__ is float and math.isfinite(each)
        ):  # fmt: skip
            return repr(each)
        if isinstance(each, np.generic):
            key: tuple[Any, ...] = (each.dtype, each.tobytes())
        elif isinstance(each, np.dtype):
            key = ("dtype", each)
        else:
            key = (id(each),)
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"c{len(self._constants)}"
            self.space[name] = each
            if isinstance(each, np.generic):
                self._bind.append(f"    # {name} is {_clean(repr(each))}")
        return name

    def _function(self, step: Step) -> str:
        name = self._functions.get(id(step.fn))
        if name is None:
            name = re.sub(r"\W", "_", step.text.removeprefix("np."))
            while name in self.space or keyword.iskeyword(name) or _RESERVED.fullmatch(name):
                name += "_"
            self.space[name] = step.fn
            self._functions[id(step.fn)] = name
        return name

    def _line(self, text: str) -> None:
        self._run.append(self._indent + text)

    # Steps

    def _step(self, step: Step) -> None:
        if step.kind == VIEW:
            self._view(step)
        elif step.kind == OVER:
            x, out = step.args[0], step.outs[0]
            self._line(self._into(step, self._names[x]))
            self._names[out] = self._names[x]
            if x in self._bound:
                self._bound.add(out)
        elif step.kind in (INTO, COPY):
            out = step.outs[0]
            if out in self._names:
                self._line(self._into(step, self._names[out]))
            else:
                made = self._fresh(step)
                self._line(f"{self._new(out)} = {made}")
        else:
            made = f"{self._function(step)}({self._arguments(step)})"
            if not step.several:
                self._line(f"{self._new(step.outs[0])} = asarray({made})")
            else:
                names = "".join(f"{self._new(each)}, " for each in step.outs)
                self._line(f"{names.rstrip()} = map(asarray, {made})")
            for each in step.outs if step.unsure else ():
                self._line(f"if {self._names[each]}.strides != {each.strides!r}:")
                self._line("    raise OtherLayout")

    def _view(self, step: Step) -> None:
        x, out = step.args[0], step.outs[0]
        text = step.text.format(self._names[x])
        if x in self._bound:
            self._bind.append(f"    w{out.id} = {text}")
            self._names[out] = f"w{out.id}"
            self._bound.add(out)
        else:
            self._line(f"{self._new(out)} = {text}")

    def _arguments(self, step: Step) -> str:
        parts = [self._operand(each) for each in step.args]
        for key, each in step.keywords.items():
            parts.append(f"{key}={self._plain(each)}")
        return ", ".join(parts)

    def _plain(self, each: Any) -> str:
        if isinstance(each, tuple) and all(part.__class__ is int for part in each):
            return repr(each)
        return self._constant(each)

    def _into(self, step: Step, out: str) -> str:
        """The call that writes into memory that there is."""
        if step.kind == COPY:
            casting = ', casting="unsafe"' if "dtype" in step.keywords else ""
            return f"copyto({out}, {self._operand(step.args[0])}{casting})"
        if step.text.endswith(".reduce"):
            axis, keep = self._plain(step.keywords["axis"]), step.keywords["keepdims"]
            x = self._operand(step.args[0])
            return f"{self._function(step)}({x}, {axis}, None, {out}, {keep})"
        return f"{self._function(step)}({self._arguments(step)}, out={out})"

    def _fresh(self, step: Step) -> str:
        """The call that gives new memory."""
        x = self._operand(step.args[0])
        if step.kind == COPY:
            if "dtype" in step.keywords:
                made = f"{x}.astype({self._constant(step.keywords['dtype'])})"
            else:
                made = f"{x}.copy()"
        else:
            made = f"{self._function(step)}({self._arguments(step)})"
        return made if step.outs[0].shape else f"asarray({made})"

    # Tiles

    def _tiled(self, tiled: Tiled) -> None:
        number = tiled.needed[0].id if tiled.needed else tiled.steps[-1].outs[0].id
        outer, self._names = self._names, dict(self._names)
        cut: list[tuple[str, str]] = []
        for value in tiled.needed:
            if value not in outer:
                dtype = self._constant(value.dtype)
                self._line(f"v{value.id} = empty({value.shape!r}, {dtype})")
                outer[value] = self._names[value] = f"v{value.id}"
        for value in dict.fromkeys([*tiled.reads, *tiled.needed]):
            self._cut(tiled, value, cut)
        temps = sorted(tiled.offsets.items(), key=lambda pair: pair[0].id)
        offset = self.placed.scratch.get(tiled, 0)
        inner = () if tiled.flat else tiled.shape[1:]
        extent = math.prod(tiled.shape) if tiled.flat else tiled.shape[0]
        kinds = "".join(f"({offset + at}, {self._constant(v.dtype)}), " for v, at in temps)
        self._bind.append(
            f"    tiles{number} = tiles(arena, {extent}, {tiled.size}, {inner!r}, [{kinds}])"
        )
        for value, _ in temps:
            self._names[value] = f"t{value.id}"
        self._line(f"for i, j{''.join(f', t{value.id}' for value, _ in temps)} in tiles{number}:")
        keep, self._indent = self._indent, self._indent + "    "
        for name, whole in cut:
            self._line(f"{name} = {whole}[i:j]")
        for step in tiled.steps:
            self._tile_step(step, tiled)
        self._indent = keep
        if cut:
            self._line(f"{' = '.join(name for name, _ in cut)} = None")
        self._names = outer

    def _cut(self, tiled: Tiled, value: Value, cut: list[tuple[str, str]]) -> None:
        """Name a tile's part of a value, or the whole of what is broadcast."""
        if value.strides is None:
            return
        whole = self._names[value]
        if value.shape == tiled.shape:
            if tiled.flat and len(tiled.shape) > 1:
                self._line(f"f{value.id} = {whole}.reshape(-1)")
                whole = f"f{value.id}"
            self._names[value] = f"x{value.id}"
            cut.append((f"x{value.id}", whole))
        elif tiled.flat and value.shape:
            self._line(f"f{value.id} = {whole}.reshape(())")
            self._names[value] = f"f{value.id}"
        elif len(value.shape) == len(tiled.shape) and value.shape[0] != 1:
            self._names[value] = f"x{value.id}"
            cut.append((f"x{value.id}", whole))

    def _tile_step(self, step: Step, tiled: Tiled) -> None:
        out = step.outs[0]
        if step.kind == VIEW:
            self._line(f"x{out.id} = {step.text.format(self._names[step.args[0]])}")
            self._names[out] = f"x{out.id}"
        elif step.kind in (INTO, COPY):
            self._line(self._into(step, self._names[out]))
        else:
            made = f"{self._function(step)}({self._arguments(step)})"
            if out in tiled.needed:
                self._line(f"{self._names[out]}[...] = {made}")
            else:
                self._line(f"{self._new(out)} = {made}")

    # Loops

    def _loop(self, loop: Loop, base: int, offsets: dict[Value, int]) -> None:
        """A loop, its body's memory from ``base`` on."""
        turns = self.placed.turns[loop]
        for value, at in turns.offsets.items():
            self._planned(value, base + at)
        stacks = [self._stack(each, offsets) for each in loop.stacks]
        columns = [self._along(each, loop) for each in loop.columns]
        rows = self._names_of_rows(loop, turns)
        before = self._hoisted(loop)
        for view in before:
            self._view(view)
        names = [f"v{each.id}" for each in loop.carries]
        first = [self._operand(each) for each in loop.start]
        self._names.update(zip(loop.carries, names, strict=True))
        self._names.update((each, f"v{each.id}") for each in loop.rows)
        for value, (one, other) in turns.flips.items():
            self._planned(value, base + one, f"p{value.id}_0")
            self._planned(value, base + other, f"p{value.id}_1")
            self._names[value] = f"p{value.id}"
            self._line(f"p{value.id}, q{value.id} = p{value.id}_0, p{value.id}_1")
        skip = self._peel(loop, names, first, stacks)
        if loop.peeled is None and names:
            self._line(f"{', '.join(names)} = {', '.join(first)}")
        along = [f"v{each.id}" for each in loop.rows] + [f"s{each.id}" for each in loop.stacks]
        sources = columns + [self._stack_rows(each, loop) for each in loop.stacks]
        self._for(loop, along, sources, skip)
        keep, self._indent = self._indent, self._indent + "    "
        self._names.update(rows)
        for step in loop.steps:
            if isinstance(step, Loop):
                inner = turns.offsets
                self._loop(step, base, inner)
            elif step not in before:
                self._step(step)
        for at in turns.copied:
            self._line(f"copyto(s{loop.stacks[at].id}, {self._operand(loop.results[at])})")
        self._turn(loop, turns, names)
        self._indent = keep
        if along:
            self._line(f"{' = '.join(along)} = None")
        for value, name in zip(loop.finals, names, strict=True):
            if value in self._names:
                self._line(f"copyto({self._names[value]}, {name})")
            else:
                self._line(f'{self._new(value)} = {name}.copy(order="K")')

    def _stack(self, value: Value, offsets: dict[Value, int]) -> str:
        if value not in self._names:
            dtype = self._constant(value.dtype)
            self._line(f"v{value.id} = empty({value.shape!r}, {dtype})")
            self._new(value)
        return self._names[value]

    def _along(self, value: Value, loop: Loop) -> str:
        """What gives the rows of a column, first to last or the other way."""
        name = self._names[value] + ("[::-1]" if loop.backwards else "")
        if value in self._bound and len(value.shape) > 1:
            return self._listed(name, value)
        return name

    def _stack_rows(self, value: Value, loop: Loop) -> str:
        name = self._names[value]
        if len(value.shape) == 1:
            name += ".reshape(-1, 1)"
        name += "[::-1]" if loop.backwards else ""
        return self._listed(name, value) if value in self._bound else name

    def _listed(self, name: str, value: Value) -> str:
        made = f"l{value.id}_{len(self._bind)}"
        self._bind.append(f"    {made} = list({name})")
        return made

    def _names_of_rows(self, loop: Loop, turns: Turns) -> dict[Value, str]:
        return {value: f"s{loop.stacks[at].id}" for value, at in turns.rows.items()}

    def _hoisted(self, loop: Loop) -> list[Step]:
        """Views of what does not change from iteration to iteration."""
        found: list[Step] = []
        outside: set[Value] = set()
        for step in loop.steps:
            if isinstance(step, Step) and step.kind == VIEW:
                x = step.args[0]
                if x.loop is not loop or x in outside:
                    found.append(step)
                    outside.add(step.outs[0])
        return found

    def _peel(self, loop: Loop, names: list[str], first: list[str], stacks: list[str]) -> int:
        """The first iteration by itself, where its carries have another layout. Rows to skip."""
        if loop.peeled is None:
            return 0
        run = f"first{loop.carries[0].id}"
        self.space[run] = loop.peeled
        at = loop.length - 1 if loop.backwards else 0
        rows = [f"{self._names[each]}[{at}]" for each in loop.columns]
        around = [self._operand(each) for each in loop.around]
        made = [f"s{each.id}" for each in loop.stacks]
        self._line(
            f"{', '.join([*names, *made])}, = {run}(({', '.join([*first, *rows, *around])},))"
        )
        for stack, row in zip(stacks, made, strict=True):
            self._line(f"{stack}[{at}] = {row}")
        return 1

    def _for(self, loop: Loop, along: list[str], sources: list[str], skip: int) -> None:
        if skip:
            sources = [f"{each}[1:]" for each in sources]
        if not along:
            self._line(f"for _ in range({loop.length - skip}):")
        elif len(along) == 1:
            self._line(f"for {along[0]} in {sources[0]}:")
        else:
            self._line(f"for {', '.join(along)} in zip({', '.join(sources)}):")

    def _turn(self, loop: Loop, turns: Turns, names: list[str]) -> None:
        pairs = [
            (name, self._operand(end)) for name, end in zip(names, loop.ends, strict=True)
            if name != self._operand(end)
        ]  # fmt: skip
        for value in turns.flips:
            pairs += [(f"p{value.id}", f"q{value.id}"), (f"q{value.id}", f"p{value.id}")]
        if pairs:
            self._line(f"{', '.join(p[0] for p in pairs)} = {', '.join(p[1] for p in pairs)}")
        elif not loop.steps and not turns.copied:
            self._line("pass")


def planned(
    arena: Any, offset: int, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...]
) -> Any:
    """An array in the arena."""
    return np.ndarray(shape, dtype, arena, offset, strides)


def tiles(
    arena: Any, extent: int, size: int, inner: tuple[int, ...], kinds: list[tuple[int, Any]]
) -> list[tuple[Any, ...]]:
    """For each tile its begin and end, and its arrays in the arena."""
    whole = [np.ndarray((size, *inner), dtype, arena, at) for at, dtype in kinds]
    found: list[tuple[Any, ...]] = [
        (i, i + size, *whole) for i in range(0, extent - size + 1, size)
    ]
    rest = extent % size
    if rest:
        found.append((extent - rest, extent, *(each[:rest] for each in whole)))
    return found


def _clean(text: str) -> str:
    """Text as it may stand in a comment."""
    return "".join(c if c.isprintable() else "?" for c in text)


def compiled(text: str, space: dict[str, Any], name: str) -> Callable[[Any], Callable[..., Any]]:
    """What the text defines."""
    scope = dict(space)
    exec(compile(text, f"<nodescope {name}>", "exec"), scope)
    made: Callable[[Any], Callable[..., Any]] = scope["bind"]
    return made
