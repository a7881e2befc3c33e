"""Rendering: answers as text for a terminal.

Invariant: a function of the answer alone; each line of a chain names one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from nodescope.console_output import index_text
from nodescope.debug.why.answer import Cause, Operand, Why
from nodescope.debug.why.nonfinite_origins import number_text, state_of
from nodescope.debug.why.spread import Born, Spread
from nodescope.ir.graph import SourceLocation

_MOST_LINES = 24
_MOST_ENDS = 3
# The number of consecutive nodes that only pass a number on that are shown.
_MOST_PASSING = 3


def line_of(source: SourceLocation) -> str:
    """``train.py:42``, as in watches and breakpoints."""
    return f"{PurePath(source.file).name}:{source.line}"


def place(name: str, at: tuple[int, ...] | None) -> str:
    """``hidden/tanh at [4, 17]``."""
    return f"{name} at {index_text(at)}" if at else name


def sentence(cause: Cause) -> str:
    """The answer in one or two sentences."""
    if cause.kind == "raised":
        return raised_sentences(cause)
    end = cause.culprit()
    start = f"{place(cause.name, cause.at)} is {number_text(cause.number)} in step {cause.step}"
    if cause.recorded is not None:
        start += f" of the branch and {number_text(cause.recorded)} as recorded"
    location = f" ({line_of(end.source)})" if end.source is not None else ""
    if end.kind == "set":
        origin = "" if end is cause else f"it differs because of {place(end.name, end.at)}"
        return f"{start}: {origin}{', ' if origin else ''}{end.words}{location}"
    update = _update(cause)
    if update is not None:
        return f"{start}: it {update.words}"
    if state_of(cause.number) == "finite" and end is not cause and end.kind != "missing":
        leads_to = f"{place(end.name, end.at)}{location}"
        return f"{start}: {cause.words}; the largest share leads to {leads_to}"
    if end.kind == "missing":
        return f"{start}; traced back to {end.name}{location}, which {end.words}"
    if end.kind == "leaf" and end is cause:
        return f"{start}: {end.words}{location}"
    if end.kind == "leaf":
        return f"{start}: it comes from {place(end.name, end.at)}{location}, {end.words}"
    if end.birth is None:
        return f"{start}: {end.words}{location}"
    text = f"{start}: {end.birth.words}"
    text += f", in {place(end.name, end.at)}{location}" if end is not cause else location
    behind = end.causes[0] if end.causes else None
    if behind is not None and end.birth.trait:
        thing = {
            "negative": "the negative number", "zero": "the zero", "large": "the large number",
            "small": "the small number", "outside": "that number", "infinite": "the infinity",
        }[end.birth.trait]  # fmt: skip
        line = f" ({line_of(behind.source)})" if behind.source is not None else ""
        text += f"; {thing} comes from {place(behind.name, behind.at)}{line}: {behind.words}"
    return text


def _update(cause: Cause) -> Cause | None:
    """The update of a weight, if the question is about one; else None."""
    for link in cause.chain():
        if link.kind == "updated":
            return link
        if link.kind != "passed":
            break
    return None


def raised_sentences(cause: Cause, *, message: bool = True) -> str:
    """Sentences on the operation that raised and on its inputs; ``message`` includes the error."""
    location = f" ({line_of(cause.source)})" if cause.source is not None else ""
    text = f"{cause.name}{location} raised in step {cause.step}"
    return _sentences(f"{text}: {cause.error}" if message else text, cause.words, _inputs(cause))


def _inputs(cause: Cause) -> str:
    if not cause.operands:
        return ""
    worst = cause.operands[0]
    if worst.number is not None and state_of(worst.number) in ("nan", "inf"):
        if cause.causes:
            return f"Its input {sentence(cause.causes[0])}"
        return f"Its input {place(worst.name, worst.at)} is {number_text(worst.number)}"
    count = len(cause.operands) + cause.others
    return f"Its {'input has' if count == 1 else f'{count} inputs have'} no NaN and no Inf"


def _sentences(*texts: str) -> str:
    """Texts joined as sentences, each with one final punctuation mark."""
    return " ".join(
        text if text.endswith((".", "?", "!")) else f"{text}." for text in texts if text
    )


def render(answer: Why) -> str:
    """The answer as text: a sentence for each group, then its chain link by link."""
    lines = [f"step {answer.root.step} is {answer.note}"] if answer.note else []
    for count, cause in answer.groups:
        if len(answer.groups) > 1 or answer.elements > 1:
            lines.append(
                f"{count} of {answer.followed} elements traced, out of {answer.elements:,} in all:"
            )
        lines.append(sentence(cause))
        lines.append("")
        chain, end = cause.chain(), cause.culprit()
        passing = left_out = 0
        for link, after in zip(chain, [*chain[1:], None], strict=True):
            passing = passing + 1 if link.kind == "passed" and link is not end else 0
            last = after is None or after.kind != "passed" or after is end
            if passing > _MOST_PASSING and not last:
                left_out += 1
                continue
            if left_out:
                lines.append(f"  … {left_out:,} nodes that pass it on …")
                left_out = 0
            lines += _link(link, link is end)
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _link(cause: Cause, culprit: bool) -> list[str]:
    mark = "*" if culprit else " "
    missing = "?" if cause.kind == "missing" else ""
    number = missing if cause.number is None else number_text(cause.number)
    origin = f", {cause.how}" if cause.how not in ("", "recorded") else ""
    equals = f" = {number}" if number else ""
    if cause.recorded is not None:
        equals += f" (recorded: {number_text(cause.recorded)})"
    head = f"{mark} {place(cause.name, cause.at)}{equals}  [{cause.op}, step {cause.step}{origin}]"
    lines = [head, *([f"    {cause.words}"] if cause.words else [])]
    if cause.kind == "limit":
        lines.append("    not traced further")
    if cause.source is not None:
        lines.append(f"    {line_of(cause.source)}{'  ' + cause.line if cause.line else ''}")
    lines += [f"    {text}" for text in cause.ranges]
    if len(cause.operands) > 1:
        lines += [f"      {text}" for text in dict.fromkeys(map(_operand, cause.operands))]
        if cause.others:
            lines.append(f"      and {cause.others:,} others")
    return lines


def _operand(operand: Operand) -> str:
    if operand.at is None:
        return operand.name if operand.number is None else f"the number {operand.name}"
    text = f"{place(operand.name, operand.at)} = {number_text(operand.number)}"
    if operand.term is not None:
        text += f", term {number_text(operand.term)}"
    if operand.share is not None:
        text += f" ({operand.share:.0%})"
    return text + (" (selects)" if operand.selects else "")


def born_label(birth: Born, nth: int) -> str:
    """The label of a birth, the ``nth`` of its step from 0."""
    if birth.fate == "healed":
        return "healed"
    if birth.kind == "number":
        return "a number of the program"
    return "first culprit" if nth == 0 else "another culprit"


def fate_words(birth: Born) -> str:
    """What a birth reached: ``reached 4 nodes, the loss among them``."""
    extent = f"{birth.reached:,} node{'s'[: birth.reached != 1]}" if birth.reached else ""
    text = f"reached {extent or 'no other node'}"
    if birth.fate == "loss":
        return f"{text}, the loss among them" if extent else "is the loss"
    names = ", ".join(birth.ends[:_MOST_ENDS])
    if len(birth.ends) > _MOST_ENDS:
        names += f" and {len(birth.ends) - _MOST_ENDS:,} more"
    if birth.fate == "weights":
        noun = "weight" if len(birth.ends) == 1 else "weights"
        return f"{text}, among them the {noun} {names}"
    if birth.fate == "healed":
        return f"{text}: it was healed by {names}"
    return text


def others_words(births: Sequence[Born]) -> str:
    """The other births of the step: ``2 further origins, all of them healed``; or ``""``."""
    others = births[1:]
    if not others:
        return ""
    healed = sum(birth.fate == "healed" for birth in others)
    text = f"{len(others):,} further origin{'s'[: len(others) != 1]}"
    if not healed:
        return text
    if len(others) == 1:
        return f"{text}, which was healed"
    return f"{text}, {'all' if healed == len(others) else f'{healed:,}'} of them healed"


def render_spread(spread: Spread) -> str:
    """The origins, spread and ends of NaN and Inf in a step, as text."""
    if not spread.births and not spread.passed:
        if not spread.known:
            return f"step {spread.step}: no statistics were recorded, so NaN and Inf are unknown\n"
        return f"step {spread.step}: only finite values\n"
    lines = [
        f"step {spread.step}: {spread.touched:,} of {spread.executions:,} operations produced NaN "
        "or Inf"
    ]
    for i, birth in enumerate(spread.births[:_MOST_LINES]):
        line = f" ({line_of(birth.source)})" if birth.source is not None else ""
        lines.append(f"{born_label(birth, i)}: {place(birth.node, birth.at)}{line}: {birth.words}")
        lines += [f"    {text}" for text in birth.ranges]
        lines.append(f"    it {fate_words(birth)}")
    if len(spread.births) > _MOST_LINES:
        lines.append(f"and in {len(spread.births) - _MOST_LINES:,} more nodes")
    for node in spread.passed[:_MOST_LINES]:
        lines.append(f"  spread to {node.node} from {', '.join(node.sources)}")
    if len(spread.passed) > _MOST_LINES:
        lines.append(f"  … and {len(spread.passed) - _MOST_LINES:,} more")
    for healed in spread.healed[:_MOST_LINES]:
        lines.append(f"  healed by {healed.node}: {healed.words}")
    return "\n".join(lines) + "\n"
