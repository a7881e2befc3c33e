"""Words: answers as text for a terminal.

Invariant: a function of the answer alone; no line holds more than one node.
"""

from __future__ import annotations

from pathlib import PurePath

from nodescope.debug.why.answer import Cause, Operand, Why
from nodescope.debug.why.births import state_of, told
from nodescope.debug.why.spread import Spread
from nodescope.ir.graph import SourceLocation
from nodescope.telling import index_text

_MOST_LINES = 24
# Of a row of nodes that only pass a number on, so many are shown.
_MOST_PASSING = 3


def line_of(source: SourceLocation) -> str:
    """``train.py:42``, as watches and breakpoints name it."""
    return f"{PurePath(source.file).name}:{source.line}"


def place(name: str, at: tuple[int, ...] | None) -> str:
    """``hidden/tanh at [4, 17]``."""
    return f"{name} at {index_text(at)}" if at else name


def sentence(cause: Cause) -> str:
    """The whole of it in one sentence or two."""
    end = cause.culprit()
    start = f"{place(cause.name, cause.at)} is {told(cause.number)} in step {cause.step}"
    where = f" ({line_of(end.source)})" if end.source is not None else ""
    if state_of(cause.number) == "finite" and end is not cause and end.kind != "missing":
        return (
            f"{start}: {cause.words}; the largest share leads to {place(end.name, end.at)}{where}"
        )
    if end.kind == "missing":
        return f"{start}; followed to {end.name}{where}, which {end.words}"
    if end.kind == "leaf":
        return f"{start}: it comes from {place(end.name, end.at)}{where}, {end.words}"
    if end.birth is None:
        return f"{start}: {end.words}{where}"
    said = f"{start}: {end.birth.words}"
    said += f", in {place(end.name, end.at)}{where}" if end is not cause else where
    behind = end.causes[0] if end.causes else None
    if behind is not None and end.birth.trait:
        thing = {
            "negative": "the negative number", "zero": "the zero", "large": "the large number",
            "small": "the small number", "outside": "that number", "infinite": "the infinity",
        }[end.birth.trait]  # fmt: skip
        line = f" ({line_of(behind.source)})" if behind.source is not None else ""
        said += f"; {thing} comes from {place(behind.name, behind.at)}{line}: {behind.words}"
    return said


def render(why: Why) -> str:
    """The answer as lines: first in words, then link by link."""
    lines: list[str] = []
    for count, cause in why.groups:
        if len(why.groups) > 1 or why.elements > 1:
            lines.append(
                f"{count} of the {why.followed} elements looked at, of {why.elements:,} in all:"
            )
        lines.append(sentence(cause))
        lines.append("")
        chain, end = cause.chain(), cause.culprit()
        passing = left_out = 0
        for each, after in zip(chain, [*chain[1:], None], strict=True):
            passing = passing + 1 if each.kind == "passed" and each is not end else 0
            last = after is None or after.kind != "passed" or after is end
            if passing > _MOST_PASSING and not last:
                left_out += 1
                continue
            if left_out:
                lines.append(f"  … {left_out:,} nodes that pass it on …")
                left_out = 0
            lines += _link(each, each is end)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _link(cause: Cause, culprit: bool) -> list[str]:
    mark = "*" if culprit else " "
    number = "?" if cause.number is None else told(cause.number)
    how = f", {cause.how}" if cause.how not in ("", "recorded") else ""
    head = f"{mark} {place(cause.name, cause.at)} = {number}  [{cause.op}, step {cause.step}{how}]"
    lines = [head, f"    {cause.words}"]
    if cause.kind == "limit":
        lines.append("    followed no further")
    if cause.source is not None:
        lines.append(f"    {line_of(cause.source)}{'  ' + cause.line if cause.line else ''}")
    lines += [f"    {each}" for each in cause.ranges]
    if len(cause.operands) > 1:
        lines += [f"      {each}" for each in dict.fromkeys(map(_operand, cause.operands))]
        if cause.others:
            lines.append(f"      and {cause.others:,} others")
    return lines


def _operand(each: Operand) -> str:
    if each.at is None:
        return f"the number {each.name}"
    said = f"{place(each.name, each.at)} = {told(each.number)}"
    if each.term is not None:
        said += f", term {told(each.term)}"
    if each.share is not None:
        said += f" ({each.share:.0%})"
    return said + (" (selects)" if each.selects else "")


def render_spread(found: Spread) -> str:
    """What NaN and Inf did in a step, as lines."""
    if not found.births and not found.passed:
        if not found.known:
            return f"step {found.step}: no statistics were recorded, so NaN and Inf are not known\n"
        return f"step {found.step}: only finite values\n"
    lines = [f"step {found.step}: {found.touched:,} of {found.executions:,} nodes gave NaN or Inf"]
    for i, each in enumerate(found.births[:_MOST_LINES]):
        first = "first culprit" if i == 0 else "also born"
        where = f" ({line_of(each.source)})" if each.source is not None else ""
        lines.append(f"{first}: {place(each.node, each.at)}{where}: {each.words}")
        lines += [f"    {one}" for one in each.ranges]
        plural = "" if each.reached == 1 else "s"
        lines.append(f"    it reached {each.reached:,} node{plural}")
    if len(found.births) > _MOST_LINES:
        lines.append(f"and arose in {len(found.births) - _MOST_LINES:,} more nodes")
    for one in found.passed[:_MOST_LINES]:
        lines.append(f"  spread to {one.node} from {', '.join(one.sources)}")
    if len(found.passed) > _MOST_LINES:
        lines.append(f"  … and {len(found.passed) - _MOST_LINES:,} more")
    for healed in found.healed[:_MOST_LINES]:
        lines.append(f"  healed by {healed.node}: {healed.words}")
    return "\n".join(lines) + "\n"
