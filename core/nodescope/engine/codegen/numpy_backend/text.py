"""Text: a placed program as one Python function.

The text contains generated names (v12, b3), NumPy calls and numbers; the only user text is names of
nodes, as comments. Arrays in planned memory, including views, are made once by ``bind``; ``run``
consists of calls.

Invariant: the steps run in their order, each on the operands with which it was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodescope.engine.codegen.numpy_backend.loop_text import write_loop
from nodescope.engine.codegen.numpy_backend.observe import ObservedProgram
from nodescope.engine.codegen.numpy_backend.place import Item, MemoryPlacement, Tiled
from nodescope.engine.codegen.numpy_backend.steps import Group, ProgramArray, Step
from nodescope.engine.codegen.numpy_backend.tile_text import write_tiled
from nodescope.engine.codegen.numpy_backend.writer import ProgramWriter, clean

_LET_GO = 1 << 16  # bytes from which a name is deleted after its last use


def text_of(
    program: ObservedProgram, placed: MemoryPlacement, timed: Sequence[int] | None = None
) -> tuple[str, dict[str, Any]]:
    """The text, which defines ``bind(arena)``, and the objects that its names refer to.

    Args:
        timed: For each node, the number under which its begin and end are noted; None for no
            timing.
    """
    w = ProgramWriter(placed)
    for value, array in program.constants.items():
        name = w.names[value] = f"k{value.id}"
        w.space[name] = array
        w.bound.add(value)
    feeds = []
    for value in program.feeds:
        name = w.names[value] = f"v{value.id}"
        feeds.append(name)
    for value, offset in w.placed.offsets.items():
        w.planned(value, offset)
    last = _last_uses(program, placed)
    for at, (group, items) in enumerate(w.placed.items):
        _group(w, at, group, items, last, None if timed is None else timed[at])
    results = ", ".join(w.names[value] for value in program.outputs)
    unpacking = [f"        [{', '.join(feeds)}] = F", "        F.clear()"]
    return "\n".join([
        "def bind(arena):", *w.bind,
        f"    def run(F{', T' if timed is not None else ''}):", *unpacking, *w.body,
        f"        return [{results}]", "    return run", "",
    ]), w.space  # fmt: skip


def _group(
    w: ProgramWriter,
    at: int,
    group: Group,
    items: list[Item],
    last: dict[ProgramArray, int],
    stamp: int | None,
) -> None:
    w.body.append(f"{w.indent}# {clean(group.title)}")
    if stamp is not None:
        w.line(f"T[{2 * stamp}] = clock()")
    for item in items:
        if isinstance(item, Step):
            w.step(item)
        elif isinstance(item, Tiled):
            write_tiled(w, item)
        else:
            write_loop(w, item, w.placed.scratch.get(item, 0))
    if stamp is not None:
        w.line(f"T[{2 * stamp + 1}] = clock()")
    last_read = [v for v, end in last.items() if end == at and v not in w.bound]
    if last_read:
        # A value computed in the place of an operand takes the operand's name.
        names_held = {
            w.names[v] for item in items for v in item.outs if v in w.names and v not in last_read
        }
        gone_by = dict.fromkeys(w.names[v] for v in last_read if v in w.names)
        names = " = ".join(name for name in gone_by if name not in names_held)
        if names:
            w.body.append(f"{w.indent}{names} = None")


def _last_uses(program: ObservedProgram, placed: MemoryPlacement) -> dict[ProgramArray, int]:
    """The nodes at which large values outside of planned memory are used last."""
    last: dict[ProgramArray, int] = {}
    for at, (_, items) in enumerate(placed.items):
        for item in items:
            for value in (*item.outs, *item.reads):
                if value.nbytes >= _LET_GO and value.loop is None:
                    last[value] = at
    stay = {*program.outputs, *program.constants}
    return {value: at for value, at in last.items()
            if value not in stay and value not in placed.offsets}  # fmt: skip


def compiled(text: str, space: dict[str, Any], name: str) -> Callable[[Any], Callable[..., Any]]:
    """The function that the text defines."""
    scope = dict(space)
    exec(compile(text, f"<nodescope {name}>", "exec"), scope)
    bind: Callable[[Any], Callable[..., Any]] = scope["bind"]
    return bind
