"""Breakpoint syntax: on the command line, in the page's field, in a file.

``[before] [KIND:]NAME [[OPTIONS]] [if CONDITION] [log MESSAGE]``, such as

    loss/mean
    op:log [backward, step 3.., hits % 5] if norm(grad) > 10
    before source:model.py:42 [once]
    glob:encoder/*/softmax log {node}: {max(value):.3g}

Invariant: `parse_breakpoint` reads back what `describe` writes.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Any, Final, get_args

import msgspec

from nodescope.debug.breakpoints.matching import KINDS, condition_of, validate
from nodescope.debug.expressions.compiler import compile_condition
from nodescope.errors import BreakpointError, ConditionError
from nodescope.ir.graph import Phase
from nodescope.protocol import Breakpoint, BreakpointKind
from nodescope.registry import did_you_mean

# Maximum length of a name, a condition and a message.
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
# A name without a kind must not contain the start of another part, so it is limited to letters,
# digits and scopes; after `node:` it may contain anything.
_NO_NAME: Final = re.compile(r"[\s<>=!()+&|,'\"]")
_ANY_NAME: Final = "node:NAME takes any name"
# Likely typing errors for keywords.
_SYNONYMS: Final = {"fi": "if", "when": "if", "where": "if", "print": "log"}
_NEAR: Final = 0.65
_PLAIN: Final = re.compile(r"(?!(?:if|before)$)[^\s*?\[\]:<>=!()+&|,'\"]+")


def parse_breakpoint(spec: str) -> Breakpoint:
    """Parse a breakpoint in its text form.

    A bare name is an exact node, a glob if it has one of ``*?[``, a line if it ends in ``.py:42``.

    Raises:
        BreakpointError, ConditionError: The text cannot be understood; ``column`` points at the
            fault if it has a single place.
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
        if isinstance(error, ConditionError) and (turned := _turned(spec, breakpoint)):
            raise BreakpointError(
                "options in brackets belong before the condition",
                column=spec.rindex("["), hint=f"did you mean {turned!r}?",
            ) from None  # fmt: skip
        if error.column >= 0:
            error.column += _place(spec, breakpoint, error)
        raise
    return breakpoint


def _place(spec: str, breakpoint: Breakpoint, error: BreakpointError | ConditionError) -> int:
    """The column of the part that an error refers to."""
    if isinstance(error, BreakpointError):
        return max(0, spec.find(breakpoint.target))
    if breakpoint.log and _faulty(breakpoint):
        return len(spec.rstrip()) - len(breakpoint.log)
    return spec.rindex(breakpoint.condition, 0, len(spec.rstrip()) - len(breakpoint.log))


def _turned(spec: str, breakpoint: Breakpoint) -> str:
    """The breakpoint with options moved from after its condition to before it; or ""."""
    match = _OPTIONS.search(breakpoint.condition)
    if match is None:
        return ""
    head = spec.partition(" if ")[0].strip()
    text = f"{head} {match[0].strip()} if {breakpoint.condition[: match.start()].strip()}"
    if breakpoint.log:
        text += f" log {breakpoint.log}"
    try:
        parse_breakpoint(text)
    except (BreakpointError, ConditionError):
        return ""
    return text


def _faulty(breakpoint: Breakpoint) -> bool:
    """Whether the fault is in the message rather than the condition."""
    try:
        condition_of(breakpoint)
    except ConditionError:
        return False
    return True


def _parts(spec: str) -> tuple[str, str, str]:
    """The target, the condition and the message; the last two may be empty."""
    text = spec.strip()
    # In "op: log" and "before log", `log` is the name of an op and not the keyword.
    words = (match for match in _WORD.finditer(text) if not _NAMED.search(text[: match.end()]))
    keyword = next(words, None)
    if keyword is None:
        return text, "", ""
    head, word, remainder = (
        text[: keyword.start()].strip(),
        keyword["word"],
        text[keyword.end() :].strip(),
    )
    condition, log = "", ""
    if word == "if":
        condition, *messages = _LOG.split(remainder, maxsplit=1)
        condition, log = condition.strip(), messages[0].strip() if messages else ""
        if not condition:
            raise BreakpointError(
                f"{spec!r} has no condition after 'if'", hint="op:log if step > 3"
            )
        word = "log" if messages else ""
    else:
        log = remainder
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
        near = did_you_mean(kind, KINDS) or f"one of {', '.join(KINDS)}"
        raise BreakpointError(f"{spec!r}: no breakpoint kind named {kind!r}", hint=near)
    target = target.strip()
    if kind != "node":
        _check_target(spec, kind, target)
    return kind, target.strip("/") if kind == "scope" else target


def check_name(spec: str, head: str) -> None:
    """Refuse text that looks like a condition rather than a node name.

    Raises:
        BreakpointError: The hint shows how to write either.
    """
    if head.isdecimal():
        raise BreakpointError(f"{spec!r} is a number", hint=f"write a line as train.py:{head}")
    if not _NO_NAME.search(head):
        return
    hint = f"write NODE if {head}, such as loss/mean if {head}; node:NAME takes any name"
    if is_condition(head):
        raise BreakpointError(f"{spec!r} is a condition without a location", hint=hint)
    meant = _meant(head)
    hint = f"did you mean {meant!r}? node:NAME takes any name" if meant else _ANY_NAME
    raise BreakpointError(f"{spec!r} is not the name of a node", hint=hint)


def _check_target(spec: str, kind: str, target: str) -> None:
    """Refuse an op of several words, and text after a mistyped ``if``.

    Raises:
        BreakpointError: The hint says what may have been meant.
    """
    meant = _meant(target)
    if kind == "op" and len(target.split()) > 1:
        hint = f"did you mean 'op:{meant}'?" if meant else "op:exp if step > 3"
        raise BreakpointError(f"{spec!r}: the name of an op is one word", hint=hint)
    if meant and is_condition(meant.partition(" if ")[2]):
        raise BreakpointError(
            f"{spec!r} has a condition without 'if'",
            hint=f"did you mean '{kind}:{meant}'? node:NAME takes any name",
        )


def _meant(text: str) -> str:
    """A target with its first mistyped ``if`` or ``log`` corrected; "" without one."""
    words = text.split()
    for place, word in enumerate(words[1:], start=1):
        near = get_close_matches(word.lower(), ("if", "log"), n=1, cutoff=_NEAR)
        keyword = _SYNONYMS.get(word.lower()) or (near[0] if near else "")
        if keyword and place + 1 < len(words):
            return " ".join((*words[:place], keyword, *words[place + 1 :]))
    return ""


def is_condition(text: str) -> bool:
    """Whether a text is a condition that a breakpoint could have."""
    try:
        compile_condition(text)
    except ConditionError:
        return False
    return True


def _options(spec: str, head: str) -> tuple[str, dict[str, Any]]:
    """The text before the brackets, and the options within them."""
    match = _OPTIONS.search(head)
    if match is None:
        if _ONLY_OPTIONS.fullmatch(head):
            raise BreakpointError(
                f"{spec!r} does not say which nodes to stop at", hint=f"glob:* {head}"
            )
        return head, {}
    options: dict[str, Any] = {}
    for option in match["inside"].split(","):
        word = " ".join(option.split())
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
            near = did_you_mean(word, _KNOWN.split(", ")) or f"one of {_KNOWN}"
            raise BreakpointError(f"{spec!r}: no option {word!r}", hint=near)
    return head[: match.start()].strip(), options


def _steps(spec: str, match: re.Match[str]) -> dict[str, Any]:
    first, dots, last = match["first"], match["dots"], match["last"]
    if first is None and last is None:
        raise BreakpointError(f"{spec!r}: a step or a range of steps is missing", hint="step 3..7")
    if not dots:
        # "step 37" is matched as first = 37; there is no second number without dots.
        return {"first_step": int(first), "last_step": int(first)}
    return {"first_step": int(first or 0), "last_step": None if last is None else int(last)}


def describe(breakpoint: Breakpoint) -> str:
    """The breakpoint in its text form: ``op:log if step > 3``."""
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
    options: list[str] = [breakpoint.phase] if breakpoint.phase else []
    first, last = breakpoint.first_step, breakpoint.last_step
    if last is not None and first == last:
        options.append(f"step {first}")
    elif first or last is not None:
        options.append(f"step {first or ''}..{'' if last is None else last}")
    if breakpoint.hits.strip():
        options.append(f"hits {breakpoint.hits.strip()}")
    if breakpoint.once:
        options.append("once")
    if breakpoint.group:
        options.append(f"group {breakpoint.group}")
    if not breakpoint.enabled:
        options.append("off")
    return options
