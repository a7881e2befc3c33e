"""Watch: a rule with settings, a selection and actions; and its text form.

``gradient_vanishing(abs_mean_lt=1e-9) on scope:encoder patience 3 -> stop, log``

Invariant: plain data and pure functions; `parse_watch` reads back what `describe` writes.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Final, Literal, get_args

import msgspec

from nodescope.debug.breakpoints.matching import KINDS, covers, validate
from nodescope.debug.watch import get
from nodescope.debug.watch.rule import Parameter, Rule, Setting, WatchError
from nodescope.errors import NodescopeError, RegistryError
from nodescope.ir.graph import Node
from nodescope.ir.scopes import is_within
from nodescope.protocol import Breakpoint, BreakpointKind
from nodescope.registry import did_you_mean

Action = Literal["stop", "log", "mark", "save", "end"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
MAX_LENGTH: Final = 4000
MAX_WATCHES: Final = 500


class Watch(msgspec.Struct, frozen=True):
    """A rule with its settings, the nodes it watches, and its actions.

    Attributes:
        rule: The rule's name or alias.
        id: Its number from 1 within its set of watches; 0 for a new one.
        params: Settings by parameter; others have their defaults.
        select: The nodes, by the kinds of breakpoints: ``node:NAME``, ``glob:PATTERN``, ``op:OP``,
            ``scope:PATH`` and so on; ``""`` selects all to which the rule applies. A node that is
            named exactly is watched even if the rule would not apply to it.
        patience: How many times in a row a value must have a finding before it is a hit.
        actions: The actions on a hit: stop the program, log a line, mark the node, save the values,
            end the run.
        enabled: Whether it is evaluated.
    """

    rule: str
    id: int = 0
    params: dict[str, Setting] = {}
    select: str = ""
    patience: int = 1
    actions: tuple[Action, ...] = ("stop",)
    enabled: bool = True


class Hit(msgspec.Struct, frozen=True):
    """A hit of a watch on a value.

    Attributes:
        rule: The rule's own name.
        watch: The watch's id.
        node, node_name: Id and name of the node that produced the value.
        value, port: The value's id and output port.
        step, seq: Step and seq of the execution.
        configured: All settings of the watch, including defaults.
        actual: The numbers found, by parameter or statistic.
        text: One line for the user.
        actions: The watch's actions.
        in_row: The number of consecutive findings on the value.
    """

    rule: str
    watch: int
    node: int
    node_name: str
    value: int
    port: int
    step: int
    seq: int
    configured: dict[str, Setting | None]
    actual: dict[str, Setting]
    text: str
    actions: tuple[Action, ...] = ()
    in_row: int = 1


def head(watch: Watch) -> str:
    """The text of a watch without its actions."""
    return describe(watch).rpartition(" -> ")[0]


class Selection:
    """The nodes selected by a watch.

    Attributes:
        exact: Whether it names one node.
    """

    __slots__ = ("_breakpoint", "exact")

    def __init__(self, breakpoint: Breakpoint | None) -> None:
        self._breakpoint = breakpoint
        self.exact = breakpoint is not None and breakpoint.kind == "node"

    def covers(self, node: Node) -> bool:
        """Whether a node is selected. A scope includes its parameters and data."""
        chosen = self._breakpoint
        if chosen is None:
            return True
        if chosen.kind == "scope":
            return is_within(node.scope, chosen.target)
        return covers(chosen, node)

    def __str__(self) -> str:
        chosen = self._breakpoint
        return f"{chosen.kind}:{chosen.target}" if chosen is not None else ""


@lru_cache(maxsize=256)
def selection(select: str) -> Selection:
    """The nodes that a text such as ``scope:encoder`` selects; ``""`` selects all.

    Raises:
        WatchError: The text is not a valid selection.
    """
    if not select.strip():
        return Selection(None)
    kind, colon, target = select.strip().partition(":")
    if not colon:
        kind, target = ("glob" if any(char in select for char in "*?[") else "node"), kind
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS) or f"one of {', '.join(KINDS)}"
        raise WatchError(f"no selection kind named {kind!r}", hint=near)
    target = target.strip().strip("/") if kind == "scope" else target.strip()
    try:
        chosen = Breakpoint(kind=msgspec.convert(kind, BreakpointKind), target=target)
        validate(chosen)
    except NodescopeError as error:
        raise WatchError(error.message, hint=error.hint) from None
    return Selection(chosen)


def checked(watch: Watch) -> tuple[Watch, Rule]:
    """The watch in its normal form (the rule's own name, typed settings), and its rule.

    Raises:
        WatchError: The watch is invalid; the message says why.
    """
    try:
        rule = get(watch.rule)
    except RegistryError as error:
        raise WatchError(error.message, hint=error.hint) from None
    settings = rule.settings(watch.params)
    unknown = [action for action in watch.actions if action not in ACTIONS]
    if unknown:
        near = did_you_mean(unknown[0], ACTIONS) or f"one of {', '.join(ACTIONS)}"
        raise WatchError(f"no action named {unknown[0]!r}", hint=near)
    if not watch.actions:
        raise WatchError("a watch needs an action", hint=f"one of {', '.join(ACTIONS)}")
    if watch.patience < 1:
        raise WatchError(f"patience must be at least 1, not {watch.patience}")
    select = str(selection(watch.select))
    for target in rule.selects(settings) if rule.selects is not None else ():
        selection(target)
    rule.begin(settings)  # refuses settings that contradict each other
    params = {name: settings[name] for name in watch.params}
    actions = tuple(action for action in ACTIONS if action in watch.actions)
    return (
        msgspec.structs.replace(
            watch, rule=rule.name, params=params, select=select, actions=actions
        ),
        rule,
    )


# ---------------------------------------------------------------- the text form

_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")
_BARE: Final = re.compile(r'(?:(?!->)[^\s,()"])+')
_SPACED: Final = re.compile(r'[^,()"]+')
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN: Final = re.compile(r"[A-Za-z_*./][\w*./:\[\]?-]*")
_BARE_CONDITION: Final = re.compile(
    r"(?:off\s+)?(?P<word>(?:when|if)\b)?\s*(?P<condition>.+?)\s*"
    r"(?P<rest>(?:\bon\s|\bpatience\s|->).*)?",
    re.DOTALL | re.IGNORECASE,
)
_COMPARISON: Final = re.compile(r"[<>]|[=!]=")


def describe(watch: Watch) -> str:
    """The watch in its text form."""
    parts = [] if watch.enabled else ["off"]
    settings = ", ".join(f"{name}={_written(setting)}" for name, setting in watch.params.items())
    parts.append(f"{watch.rule}({settings})" if settings else watch.rule)
    if watch.select:
        parts += ["on", _target(watch.select)]
    if watch.patience != 1:
        parts += ["patience", str(watch.patience)]
    return f"{' '.join(parts)} -> {', '.join(watch.actions)}"


def parse_watch(spec: str) -> Watch:
    """Parse ``[off] RULE[(NAME=SETTING, ...)] [on SELECTION] [patience N] [-> ACTION, ...]``.

    Settings with spaces, commas or parentheses are in double quotes. The default action is stop.

    Raises:
        WatchError: The text cannot be parsed; ``column`` points at the fault.
    """
    if len(spec) > MAX_LENGTH:
        raise WatchError(f"the watch is longer than {MAX_LENGTH} characters", column=MAX_LENGTH)
    return _Reader(spec).watch()


def parse_watches(spec: str) -> tuple[Watch, ...]:
    """Parse several watches, separated by ``;`` or line ends; bare names also by commas.

    Raises:
        WatchError: A watch cannot be parsed; ``column`` counts in the whole text.
    """
    if len(spec) > 16 * MAX_LENGTH:
        raise WatchError(f"the watches are longer than {16 * MAX_LENGTH} characters")
    watches: list[Watch] = []
    bare = re.fullmatch(r"\s*[\w-]+(\s*,\s*[\w-]+)*\s*", spec)
    pattern = r"[^,]+" if bare else r'(?:"(?:[^"\\]|\\.)*"|[^;\n"]|")+'
    for part in re.finditer(pattern, spec):
        if not part[0].strip():
            continue
        if len(watches) == MAX_WATCHES:
            raise WatchError(f"more than {MAX_WATCHES} watches", column=part.start())
        try:
            watches.append(parse_watch(part[0]))
        except WatchError as error:
            column = error.column + part.start() if error.column >= 0 else -1
            raise WatchError(error.message, column=column, hint=error.hint) from None
    return tuple(watches)


def _written(setting: Setting) -> str:
    if isinstance(setting, bool):
        return "true" if setting else "false"
    if isinstance(setting, float):
        short = f"{setting:g}"
        return short if float(short) == setting else repr(setting)
    if isinstance(setting, int):
        return str(setting)
    return setting if _PLAIN.fullmatch(setting) else json.dumps(setting)


def _target(select: str) -> str:
    return select if _BARE.fullmatch(select) and not select.startswith("[") else json.dumps(select)


def _as_condition(text: str) -> str:
    """The watch that a bare condition probably means: ``when value < 1 on loss``."""
    match = _BARE_CONDITION.fullmatch(text.strip())
    if match is None or not (match["word"] or _COMPARISON.search(match["condition"])):
        return ""
    written = f"condition(condition={json.dumps(match['condition'], ensure_ascii=False)})"
    example = f"{written} {match['rest'] or ''}".strip()
    try:
        parse_watch(example)
    except WatchError:
        example = 'condition(condition="value < 1") on loss/mean' if match["word"] else ""
    return example and f"write a condition like this: {example}"


class _Reader:
    """Reads one watch from left to right."""

    def __init__(self, spec: str) -> None:
        self.text = spec
        self.at = 0

    def watch(self) -> Watch:
        enabled = not self.word("off")
        start = self.past_blanks()
        name = self.take(_NAME, "a rule name")
        try:
            rule = get(name)
        except RegistryError as error:
            hint = _as_condition(self.text) or error.hint
            raise WatchError(error.message, column=start, hint=hint) from None
        params = self.params(rule) if self.sign("(") else {}
        select, patience = "", 1
        actions: tuple[str, ...] = ("stop",)
        clauses: set[str] = set()
        while self.past_blanks() < len(self.text):
            begin = self.at
            if self.sign("->"):
                actions = self.actions()
                break
            bracket = self.sign("[")
            clause = next((word for word in ("on", "patience") if self.word(word)), "")
            if not clause or clause in clauses or (bracket and clause == "on"):
                raise self.error(
                    begin, f"unexpected text: {self.text[begin : begin + 20]!r}",
                    "after the rule: on SELECTION, patience N, -> ACTIONS",
                )  # fmt: skip
            clauses.add(clause)
            if clause == "on":
                select = self.select()
            else:
                patience = self.patience(bracket)
        try:
            watch, _ = checked(
                Watch(
                    rule.name,
                    params=params,
                    select=select,
                    patience=patience,
                    actions=actions,  # type: ignore[arg-type]
                    enabled=enabled,
                )
            )
        except WatchError as error:
            raise self.error(start, error.message, error.hint) from None
        return watch

    def params(self, rule: Rule) -> dict[str, Setting]:
        params: dict[str, Setting] = {}
        while not self.sign(")"):
            if params and not self.sign(","):
                raise self.error(self.past_blanks(), "expected a comma or a closing parenthesis")
            start = self.past_blanks()
            name = self.take(_NAME, f"a parameter of {rule.name}")
            try:
                parameter = rule.parameter(name)
            except WatchError as error:
                raise self.error(start, error.message, error.hint) from None
            if name in params:
                raise self.error(start, f"{name} is set twice")
            if not self.sign("="):
                raise self.error(self.past_blanks(), f"expected = and a value for {name}")
            params[name] = self.setting(parameter)
        return params

    def setting(self, parameter: Parameter) -> Setting:
        start = self.past_blanks()
        try:
            pattern = _BARE if parameter.kind == "text" else _SPACED
            return parameter.read(self.content(f"a value for {parameter.name}", pattern))
        except WatchError as error:
            raise self.error(
                error.column if error.column >= 0 else start, error.message, error.hint
            ) from None

    def select(self) -> str:
        start = self.past_blanks()
        target = self.content("a selection, such as scope:encoder")
        try:
            if not target.strip():
                raise WatchError("the selection is empty")
            return str(selection(target))
        except WatchError as error:
            raise self.error(start, error.message, error.hint) from None

    def patience(self, bracket: bool) -> int:
        start = self.past_blanks()
        digits = self.take(re.compile(r"\d+"), "an integer")
        if not 1 <= int(digits[:20]) < 1 << 31:
            raise self.error(start, f"patience must be at least 1, not {digits[:20]}")
        if bracket and not self.sign("]"):
            raise self.error(self.past_blanks(), "expected a closing ]")
        return int(digits)

    def actions(self) -> tuple[str, ...]:
        actions: list[str] = []
        while not actions or self.sign(","):
            start = self.past_blanks()
            name = self.take(_NAME, f"an action ({', '.join(ACTIONS)})").lower()
            if name not in ACTIONS:
                near = did_you_mean(name, ACTIONS) or f"one of {', '.join(ACTIONS)}"
                raise self.error(start, f"no action named {name!r}", near)
            actions.append(name)
        if self.past_blanks() < len(self.text):
            raise self.error(self.at, "unexpected text after the actions")
        return tuple(actions)

    # The tokens of the text.

    def content(self, expected: str, pattern: re.Pattern[str] = _BARE) -> str:
        if self.text[self.past_blanks() : self.at + 1] != '"':
            return self.take(pattern, expected)
        start = self.at
        quoted = self.take(_QUOTED, "a closing quote")
        try:
            return str(json.loads(quoted))
        except ValueError:
            raise self.error(start, "the quoted text is malformed") from None

    def past_blanks(self) -> int:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.at

    def sign(self, sign: str) -> bool:
        present = self.text.startswith(sign, self.past_blanks())
        self.at += len(sign) * present
        return present

    def word(self, word: str) -> bool:
        match = _NAME.match(self.text, self.past_blanks())
        if match is None or match[0] != word:
            return False
        self.at = match.end()
        return True

    def take(self, pattern: re.Pattern[str], expected: str) -> str:
        match = pattern.match(self.text, self.past_blanks())
        if match is None:
            raise self.error(self.at, f"expected {expected}")
        self.at = match.end()
        return match[0]

    def error(self, column: int, message: str, hint: str = "") -> WatchError:
        return WatchError(message, column=column, hint=hint)
