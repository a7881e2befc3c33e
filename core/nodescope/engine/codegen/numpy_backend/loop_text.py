"""Loop source: a body's steps inside a Python loop, on preallocated buffers.

Invariant: a row or a buffer is overwritten only after the last read of its contents.
"""

from __future__ import annotations

from nodescope.engine.codegen.numpy_backend.place import Turns
from nodescope.engine.codegen.numpy_backend.steps import VIEW, Loop, ProgramArray, Step
from nodescope.engine.codegen.numpy_backend.writer import ProgramWriter


def write_loop(w: ProgramWriter, loop: Loop, base: int) -> None:
    """A loop, with its body's memory starting at ``base``."""
    turns = w.placed.turns[loop]
    for value, at in turns.offsets.items():
        w.planned(value, base + at)
    stacks = [_stack(w, stack) for stack in loop.stacks]
    columns = [_along(w, column, loop) for column in loop.columns]
    rows = {v: f"s{loop.stacks[at].id}" for v, at in turns.rows.items()}
    before = _hoisted(loop)
    for view in before:
        w.view(view)
    names = [f"v{carry.id}" for carry in loop.carries]
    first = [w.operand(value) for value in loop.start]
    w.names.update(zip(loop.carries, names, strict=True))
    w.names.update((row, f"v{row.id}") for row in loop.rows)
    for value, (first_slot, other) in turns.flips.items():
        w.planned(value, base + first_slot, f"p{value.id}_0")
        w.planned(value, base + other, f"p{value.id}_1")
        w.names[value] = f"p{value.id}"
        w.bound.discard(value)  # the two alternate
        w.line(f"p{value.id}, q{value.id} = p{value.id}_0, p{value.id}_1")
    skip = _peel(w, loop, names, first, stacks)
    if loop.peeled is None and names:
        w.line(f"{', '.join(names)} = {', '.join(first)}")
    along = [f"v{row.id}" for row in loop.rows] + [f"s{stack.id}" for stack in loop.stacks]
    sources = columns + [_stack_rows(w, stack, loop) for stack in loop.stacks]
    _for(w, loop, along, sources, skip)
    keep, w.indent = w.indent, w.indent + "    "
    begin = len(w.body)
    w.names.update(rows)
    for step in loop.steps:
        if isinstance(step, Loop):
            write_loop(w, step, base)
        elif step not in before:
            w.step(step)
    for at in turns.copied:
        w.line(f"copyto(s{loop.stacks[at].id}, {w.operand(loop.results[at])})")
    _turn(w, loop, turns, names)
    if len(w.body) == begin:
        w.line("pass")
    w.indent = keep
    if along:
        w.line(f"{' = '.join(along)} = None")
    for value, name in zip(loop.finals, names, strict=True):
        if value in w.names:
            w.line(f"copyto({w.names[value]}, {name})")
        else:
            # A row of a one-dimensional array is a number, not an array.
            kept = f'{name}.copy(order="K")' if value.shape else f"np.array({name})"
            w.line(f"{w.new(value)} = {kept}")


def _stack(w: ProgramWriter, value: ProgramArray) -> str:
    if value not in w.names:
        dtype = w.constant(value.dtype)
        w.line(f"v{value.id} = empty({value.shape!r}, {dtype})")
        w.new(value)
    return w.names[value]


def _along(w: ProgramWriter, value: ProgramArray, loop: Loop) -> str:
    """The expression that iterates over the rows of a column, in either direction."""
    name = w.names[value] + ("[::-1]" if loop.backwards else "")
    if value in w.bound and len(value.shape) > 1:
        return _listed(w, name, value)
    return name


def _stack_rows(w: ProgramWriter, value: ProgramArray, loop: Loop) -> str:
    name = w.names[value]
    if len(value.shape) == 1:
        name += ".reshape(-1, 1)"
    name += "[::-1]" if loop.backwards else ""
    return _listed(w, name, value) if value in w.bound else name


def _listed(w: ProgramWriter, name: str, value: ProgramArray) -> str:
    list_name = f"l{value.id}_{len(w.bind)}"
    w.bind.append(f"    {list_name} = list({name})")
    return list_name


def _hoisted(loop: Loop) -> list[Step]:
    """Views of loop-invariant values."""
    hoisted: list[Step] = []
    outside: set[ProgramArray] = set()
    for step in loop.steps:
        if isinstance(step, Step) and step.kind == VIEW:
            x = step.args[0]
            if x.loop is not loop or x in outside:
                hoisted.append(step)
                outside.add(step.outs[0])
    return hoisted


def _peel(
    w: ProgramWriter, loop: Loop, names: list[str], first: list[str], stacks: list[str]
) -> int:
    """The first iteration separately, if its carries have another layout. Returns the rows to
    skip.
    """
    if loop.peeled is None:
        return 0
    run = f"first{loop.carries[0].id}"
    w.space[run] = loop.peeled
    at = loop.length - 1 if loop.backwards else 0
    rows = [f"{w.names[column]}[{at}]" for column in loop.columns]
    around = [w.operand(value) for value in loop.around]
    stack_names = [f"s{stack.id}" for stack in loop.stacks]
    w.line(
        f"{', '.join([*names, *stack_names])}, = {run}(({', '.join([*first, *rows, *around])},))"
    )
    for stack, row in zip(stacks, stack_names, strict=True):
        w.line(f"{stack}[{at}] = {row}")
    return 1


def _for(w: ProgramWriter, loop: Loop, along: list[str], sources: list[str], skip: int) -> None:
    if skip:
        sources = [f"{source}[1:]" for source in sources]
    if not along:
        w.line(f"for _ in range({loop.length - skip}):")
    elif len(along) == 1:
        w.line(f"for {along[0]} in {sources[0]}:")
    else:
        w.line(f"for {', '.join(along)} in zip({', '.join(sources)}):")


def _turn(w: ProgramWriter, loop: Loop, turns: Turns, names: list[str]) -> None:
    pairs = [
        (name, w.operand(end)) for name, end in zip(names, loop.ends, strict=True)
        if name != w.operand(end)
    ]  # fmt: skip
    for value in turns.flips:
        pairs += [(f"p{value.id}", f"q{value.id}"), (f"q{value.id}", f"p{value.id}")]
    if pairs:
        w.line(f"{', '.join(p[0] for p in pairs)} = {', '.join(p[1] for p in pairs)}")
