"""How a breakpoint is written: on the command line, in the page's field, in a file.

``[before] [KIND:]NAME [[OPTIONS]] [if CONDITION] [log MESSAGE]``, such as

    loss/mean
    op:log [backward, step 3.., hits % 5] if norm(grad) > 10
    before source:model.py:42 [once]
    glob:encoder/*/softmax log {node}: {max(value):.3g}

Invariant: `parse_breakpoint` reads back what `describe` writes.
"""

from __future__ import annotations

import re
from typing import Any, Final, get_args

import msgspec

from nodescope.debug.breakpoints import KINDS, condition_of, validate
from nodescope.debug.conditions import compile_condition
from nodescope.errors import BreakpointError, ConditionError
from nodescope.ir.graph import Phase
from nodescope.protocol import Breakpoint, BreakpointKind
from nodescope.registry import did_you_mean

# As long as a name, a condition and a message may be.
MAX_LENGTH: Final = 4000
_WORD: Final = re.compile(r"(?:^|\s+)(?P<word>if|log)(?=\s|$)")
_NAMED: Final = re.compile(r":\s+\w+$|^(?:before\s+)?log$")
_LOG: Final = re.compile(r"(?:^|\s+)log(?:\s+|$)")
_OPTIONS: Final = re.compile(r"\s\[(?P<inside>[^\[\]]*)\]\s*$")
_ONLY_OPTIONS: Final = re.compile(
    r"\[\s*(?:forward|backward|optimizer|recompute|once|off|steps?\s|hits\s|group\s)[^\[\]]*\]"
)
_STEPS: Final = re.compile(r"steps?\s*(?P<first>\d{1,9})?(?P<dots>\.\.)?(?P<last>\d{1,9})?")
_GROUP: Final = re.compile(r"group\s+(?P<name>[\w.-]{1,64})")
_KNOWN: Final = "forward, backward, optimizer, step 3..7, hits % 5, once, off, group NAME"
# What begins a part must not stand in a name without its kind being said.
# Beside letters, digits and scopes, names hold little; with `node:` they may hold anything.
_NO_NAME: Final = re.compile(r"[\s<>=!()+&|,'\"]")
_PLAIN: Final = re.compile(r"(?!(?:if|before)$)[^\s*?\[\]:<>=!()+&|,'\"]+")


def parse_breakpoint(spec: str) -> Breakpoint:
    """Read a breakpoint as people write it.

    A bare name is an exact node, a glob if it has one of ``*?[``, a line if it ends in ``.py:42``.

    Raises:
        BreakpointError, ConditionError: It cannot be understood; ``column`` points at the fault
            where one place can be named.
    """
    if len(spec) > MAX_LENGTH:
        raise BreakpointError(
            f"the breakpoint is longer than {MAX_LENGTH} characters", column=MAX_LENGTH
        )
    head, condition, log = _parts(spec)
    head, options = _options(spec, head)
    if head.startswith("before "):
        head, options["when"] = head.removeprefix("before ").strip(), "before"
    kind, target = _kind(spec, head)
    breakpoint = Breakpoint(
        kind=msgspec.convert(kind, BreakpointKind), target=target, condition=condition, log=log,
        **options,
    )  # fmt: skip
    try:
        validate(breakpoint)
    except (BreakpointError, ConditionError) as error:
        if error.column >= 0:
            error.column += _place(spec, breakpoint, error)
        raise
    return breakpoint


def _place(spec: str, breakpoint: Breakpoint, error: BreakpointError | ConditionError) -> int:
    """Where the part begins that an error is about."""
    if isinstance(error, BreakpointError):
        return max(0, spec.find(breakpoint.target))
    if breakpoint.log and _faulty(breakpoint):
        return len(spec.rstrip()) - len(breakpoint.log)
    return spec.rindex(breakpoint.condition, 0, len(spec.rstrip()) - len(breakpoint.log))


def _faulty(breakpoint: Breakpoint) -> bool:
    """Whether the message is what is wrong, rather than the condition."""
    try:
        condition_of(breakpoint)
    except ConditionError:
        return False
    return True


def _parts(spec: str) -> tuple[str, str, str]:
    """What is meant, the condition, and the message; the last two may be empty."""
    text = spec.strip()
    # Neither "op: log" nor "before log" says that something is to be logged: an op is named so.
    words = (each for each in _WORD.finditer(text) if not _NAMED.search(text[: each.end()]))
    found = next(words, None)
    if found is None:
        return text, "", ""
    head, word, rest = text[: found.start()].strip(), found["word"], text[found.end() :].strip()
    condition, log = "", ""
    if word == "if":
        condition, *more = _LOG.split(rest, maxsplit=1)
        condition, log = condition.strip(), more[0].strip() if more else ""
        if not condition:
            raise BreakpointError(
                f"{spec!r} has no condition after 'if'", hint="op:log if step > 3"
            )
        word = "log" if more else ""
    else:
        log = rest
    if word == "log" and not log:
        raise BreakpointError(f"{spec!r} has no message after 'log'", hint="op:exp log {value}")
    return head, condition, log


def _kind(spec: str, head: str) -> tuple[str, str]:
    kind, colon, target = head.partition(":")
    kind = kind.strip()
    if re.fullmatch(r"[^:]*\.py:\d+", head):
        return "source", head
    if not colon:
        check_name(spec, head)
        return ("glob" if any(char in head for char in "*?[") else "node"), head
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS) or f"known are {', '.join(KINDS)}"
        raise BreakpointError(f"{spec!r}: no kind of breakpoint is named {kind!r}", hint=near)
    target = target.strip()
    return kind, target.strip("/") if kind == "scope" else target


def check_name(spec: str, head: str) -> None:
    """Refuse what looks like a condition, not like the name of a node.

    Raises:
        BreakpointError: The hint says how either is written.
    """
    if head.isdecimal():
        raise BreakpointError(f"{spec!r} is a number", hint=f"a line is written train.py:{head}")
    if not _NO_NAME.search(head):
        return
    hint = f"write NODE if {head}, such as loss/mean if {head}; node:NAME takes any name"
    if is_condition(head):
        raise BreakpointError(f"{spec!r} is a condition, and does not say where", hint=hint)
    raise BreakpointError(f"{spec!r} is not the name of a node", hint="node:NAME takes any name")


def is_condition(text: str) -> bool:
    """Whether a text is a condition that a breakpoint could have."""
    try:
        compile_condition(text)
    except ConditionError:
        return False
    return True


def _options(spec: str, head: str) -> tuple[str, dict[str, Any]]:
    """What stands in brackets at the end, and what stands before."""
    found = _OPTIONS.search(head)
    if found is None:
        if _ONLY_OPTIONS.fullmatch(head):
            raise BreakpointError(
                f"{spec!r} does not say which nodes to stop at", hint=f"glob:* {head}"
            )
        return head, {}
    options: dict[str, Any] = {}
    for each in found["inside"].split(","):
        word = " ".join(each.split())
        if steps := _STEPS.fullmatch(word):
            options |= _steps(spec, steps)
        elif group := _GROUP.fullmatch(word):
            options["group"] = group["name"]
        elif word in get_args(Phase):
            options["phase"] = word
        elif word == "once":
            options["once"] = True
        elif word == "off":
            options["enabled"] = False
        elif word.startswith("hits"):
            options["hits"] = word.removeprefix("hits").strip()
        else:
            near = did_you_mean(word, _KNOWN.split(", ")) or f"known are {_KNOWN}"
            raise BreakpointError(f"{spec!r}: no option {word!r}", hint=near)
    return head[: found.start()].strip(), options


def _steps(spec: str, found: re.Match[str]) -> dict[str, Any]:
    first, dots, last = found["first"], found["dots"], found["last"]
    if first is None and last is None:
        raise BreakpointError(f"{spec!r}: a step or a range of steps is missing", hint="step 3..7")
    if not dots:
        # "step 37" is matched as first = 37; there is no second number without dots.
        return {"first_step": int(first), "last_step": int(first)}
    return {"first_step": int(first or 0), "last_step": None if last is None else int(last)}


def describe(breakpoint: Breakpoint) -> str:
    """The breakpoint as a person writes it: ``op:log if step > 3``."""
    plain = breakpoint.kind == "node" and _PLAIN.fullmatch(breakpoint.target)
    head = breakpoint.target if plain else f"{breakpoint.kind}:{breakpoint.target}"
    parts = [f"before {head}" if breakpoint.when == "before" else head]
    if options := _said(breakpoint):
        parts.append(f"[{', '.join(options)}]")
    if breakpoint.condition.strip():
        parts.append(f"if {breakpoint.condition.strip()}")
    if breakpoint.log.strip():
        parts.append(f"log {breakpoint.log.strip()}")
    return " ".join(parts)


def _said(breakpoint: Breakpoint) -> list[str]:
    said: list[str] = [breakpoint.phase] if breakpoint.phase else []
    first, last = breakpoint.first_step, breakpoint.last_step
    if last is not None and first == last:
        said.append(f"step {first}")
    elif first or last is not None:
        said.append(f"step {first or ''}..{'' if last is None else last}")
    if breakpoint.hits.strip():
        said.append(f"hits {breakpoint.hits.strip()}")
    if breakpoint.once:
        said.append("once")
    if breakpoint.group:
        said.append(f"group {breakpoint.group}")
    if not breakpoint.enabled:
        said.append("off")
    return said
