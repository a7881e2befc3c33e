"""Commands of the terminal debugger: a line in, lines out.

Invariant: one table, from which help, completion and the documentation are generated. An error is
one line; only exceptions that belong to the program propagate.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

import msgspec

from nodescope.cli.terminal_asking import (
    check_readable,
    diff_lines,
    error_line,
    in_thread,
    place,
    rule_lines,
    shown,
    source_lines,
    times,
    what_if_lines,
    whole,
    why_lines,
)
from nodescope.cli.terminal_completion import complete
from nodescope.cli.terminal_help import HELP, folded
from nodescope.debug.breakpoints.syntax import check_name, describe, parse_breakpoint
from nodescope.debug.controller import Controller, Moved, SeveralError
from nodescope.debug.history.history import Moment, ValueAtMoment
from nodescope.debug.history.value_format import clean, numbers, result_line, seen_line
from nodescope.debug.watch.rule import WatchError
from nodescope.debug.watch.watch import parse_watch
from nodescope.errors import ConditionError, NodescopeError, UsageError
from nodescope.ir.attrs import plain
from nodescope.ir.capabilities import Feature, Shortfall
from nodescope.ir.scopes import is_within
from nodescope.protocol import (
    Breakpoint,
    Command,
    Continue,
    NextStep,
    RunTo,
    StepIn,
    StepNode,
    StepOut,
    StepOver,
    StepTwin,
    Stop,
)
from nodescope.record.live_memory import live_memory
from nodescope.record.scope_facts import scope_facts
from nodescope.registry import did_you_mean

MAX_LISTED: Final = 60
_USAGE: Final = 30
# From this step on, the nodes of a step are known.
_MET: Final = 2

Paint = Callable[[str, str], str]
Done = bool  # whether the program continues


class Verb(NamedTuple):
    """One command: its names, its syntax, its function and its requirements."""

    names: tuple[str, ...]
    arguments: str
    help: str
    run: Callable[[Console, str], Done | None]
    needs: Feature | None = None


class Console:
    """Runs commands over a controller.

    Args:
        say: Prints each line of an answer.
        paint: Returns a text in a colour: ``bold``, ``node``, ``error`` or ``dim``.
    """

    def __init__(
        self, controller: Controller, say: Callable[[str], None],
        paint: Paint = lambda text, colour: text,
    ) -> None:  # fmt: skip
        self._controller = controller
        self._say = say
        self._paint = paint
        self._watches: dict[int, str] = {}
        self._again = ""
        self._more: tuple[int, Command] | None = None
        self.killing = False  # an interrupt of the program now is not the user's Ctrl-C
        self.place = ""  # position of the command, for error messages
        self.width = 100

    # ------------------------------------------------------------ for the terminal

    def run(self, line: str) -> bool:
        """Run a command; return whether the program continues."""
        line = line.strip()
        if not line:
            line = self._again
            if not line:
                return False
        word, _, argument = line.partition(" ")
        spec = BY_NAME.get(word)
        if spec is None:
            near = did_you_mean(word, BY_NAME) or "help lists the commands"
            self._fault(f"no command {word!r}; {near}")
            return False
        if argument.strip() and not spec.arguments:
            self._fault(f"{word} takes no arguments")
            return False
        self._again = line if spec.names[0] in REPEATED else ""
        try:
            self._check(spec, word)
            return bool(spec.run(self, argument.strip()))
        except Exception as error:
            # Whatever the error, the program is stopped, and the next command is answered again.
            self._fault(error_line(error))
        return False

    def stopped(self, stop: Stop) -> bool:
        """Print where and why the program stopped; return whether it continues at once, as
        requested.
        """
        repeats, self._more = self._more, None
        if repeats is not None and stop.reason == "step" and repeats[0] > 0:
            self._more = (repeats[0] - 1, repeats[1])
            try:
                self._controller.command(repeats[1])
                return True
            except NodescopeError:
                self._more = None
        place_text = ", before it runs" if stop.when == "before" else ""
        if stop.reason != "watch":  # the text of a watch includes the step
            place_text += f", step {stop.step}"
        place_text += clean(in_thread(stop.thread))
        self._say(self._paint(clean(stop.text), "bold") + place_text)
        try:
            self._show(self._controller.moment)
        except Exception as error:
            self._fault(error_line(error))
        return False

    def complete(self, text: str, line: str) -> list[str]:
        """Completions of the last word of a line."""
        names = [name for name, spec in BY_NAME.items() if self._lack(spec) is None]
        return complete(self._controller, names, text, line)

    def _lack(self, spec: Verb) -> Shortfall | None:
        """Why a command is not available in this run; None if it is."""
        return None if spec.needs is None else self._controller.shortfall(spec.needs)

    def _check(self, spec: Verb, word: str) -> None:
        lack = self._lack(spec)
        if lack is not None:
            raise UsageError(f"{word}: {lack.text}", hint=lack.hint)

    # ------------------------------------------------------------ continuing

    def _go(self, command: Command) -> Done:
        moved = self._controller.command(command)
        if moved is None:
            return True
        self._moved(moved)
        return False

    def _moved(self, moved: Moved) -> None:
        self._say(self._paint(clean(moved.text), "bold"))
        self._show(moved.moment)

    def _show(self, at: Moment) -> None:
        if at.node.source is not None:
            frame = self._controller.frames()[0]
            code = f"  {clean(frame.code)}" if frame.code else ""
            self._say(self._paint(f"  {place(frame.file, frame.line)}{code}", "dim"))
        # A node that raised has no results; its operands are of interest.
        inputs = at.when == "before" or at.error != ""
        for value in self._controller.inputs(at) if inputs else self._controller.outputs(at):
            self._value(value, at)
        for number, text in self._watches.items():
            self._say(f"  w{number} {text} = {self._watched(text)}")

    def _value(self, value: ValueAtMoment, at: Moment) -> None:
        role = value.role.replace("outputs[0]", "value")
        self._say(f"  {role} {self._paint(clean(value.name), 'node')}: {seen_line(value, at.step)}")

    def _watched(self, text: str) -> str:
        try:
            return self._result(text)
        except NodescopeError as error:
            return f"({error})"

    def _fault(self, text: str) -> None:
        self._say(self._paint(clean(f"{self.place}{text}"), "error"))

    def _result(self, text: str) -> str:
        result = shown(self._controller, text)
        if isinstance(result, ValueAtMoment):
            return seen_line(result, self._controller.moment.step)
        return result_line(result)

    # ------------------------------------------------------------ inspecting

    def print(self, text: str) -> None:
        """``p``: a value or an expression; without an argument, the node's values."""
        if text:
            self._say(self._result(text))
            return
        at = self._controller.moment
        for value in (*self._controller.inputs(at), *self._controller.outputs(at)):
            self._value(value, at)

    def values(self, text: str) -> None:
        """``values``: the elements."""
        result = shown(self._controller, text or "value")
        if isinstance(result, ValueAtMoment):
            if result.array is None:
                raise UsageError(f"{result.name} is not available: {result.missing}")
            result = result.array
        text_lines = (
            numbers(result, self.width) if hasattr(result, "shape") else result_line(result)
        )
        for line in text_lines.splitlines():
            self._say(line)

    def ask(self, lines: Callable[[Controller, str], Iterable[str]], text: str) -> None:
        """``why``, ``what-if``, ``diff``, ``rule``."""
        for line in lines(self._controller, text):
            self._say(line)

    def info(self, text: str) -> None:
        """``info``: the node and everything about it."""
        at = self._controller.of_node(text) if text else self._controller.moment
        node = at.node
        self._say(f"{self._paint(clean(node.name), 'node')}: op {node.op}, phase {node.phase}, "
                  f"step {at.step}, execution {at.seq}")  # fmt: skip
        if node.source is not None:
            self._say(f"  made at {place(node.source.file, node.source.line)}")
        for name, attribute in self._controller.attrs(at).items():
            self._say(f"  {name} = {clean(str(plain(name, attribute)))[:200]}")
        facts = scope_facts(self._controller.history.recording, node.scope)
        if facts is not None:
            settings = ", ".join(f"{name}={value}" for name, value in facts.attrs.items())
            self._say(f"  in {clean(node.scope)}: {clean(f'{facts.kind}({settings})')[:400]}")
        memory = live_memory(self._controller.history.recording, at.step)
        if node.id in memory.live and not node.is_leaf:
            self._say(
                f"  memory: {memory.live[node.id]:,} bytes are needed while it runs; the most in "
                f"step {at.step} is {memory.peak:,}"
            )
        for value in (*self._controller.inputs(at), *self._controller.outputs(at)):
            self._value(value, at)
        gradient = self._controller.gradient(at)
        if gradient is not None:
            self._value(gradient, at)
        if at.live and self._controller.stop.edits:
            self._say("  changed here: " + clean("; ".join(self._controller.stop.edits)))

    def backtrace(self, _: str) -> None:
        """``bt``: scopes and lines."""
        for number, frame in enumerate(self._controller.frames()):
            mark = {"node": "node ", "scope": "scope ", "python": "in "}[frame.kind]
            location = place(frame.file, frame.line) if frame.file else ""
            self._say(
                f"#{number} {mark}{self._paint(clean(frame.name), 'node')}  {location}".rstrip()
            )
            if frame.code:
                self._say(self._paint(f"     {clean(frame.code)}", "dim"))

    def source(self, text: str) -> None:
        """``l``: the lines around a frame's line."""
        frames = self._controller.frames()
        number = whole(text) if text else 0
        if number >= len(frames):
            raise UsageError(f"there are {len(frames)} frames; bt shows them")
        frame = frames[number]
        for line in source_lines(self._controller, frame):
            self._say(line)

    def log(self, text: str) -> None:
        """``log``: the latest output."""
        rows = self._controller.history.recording.logs(limit=whole(text) if text else 10)
        for row in rows:
            self._say(clean(f"[{row.stream}, step {row.step}] {row.text}"))
        if not rows:
            self._say("no output yet")

    def nodes(self, pattern: str) -> None:
        """``nodes``: the matching nodes."""
        names = sorted(self._controller.history.names)
        if pattern:
            glob = pattern if any(char in pattern for char in "*?[") else f"*{pattern}*"
            names = [name for name in names if fnmatchcase(name, glob)]
        for name in names[:MAX_LISTED]:
            self._say(self._paint(clean(name), "node"))
        if len(names) > MAX_LISTED:
            self._say(f"and {len(names) - MAX_LISTED} more; nodes PATTERN shows some of them")
        if not names:
            self._say("none so far")

    def watch(self, text: str) -> None:
        """``w``: expressions shown at each stop."""
        word, _, expression = text.partition(" ")
        if word == "off":
            number = whole(expression.removeprefix("w"))
            if self._watches.pop(number, None) is None:
                raise UsageError(f"no watch {number}; w lists them")
        elif text:
            number = max(self._watches, default=0) + 1
            try:
                result = self._result(text)
            except NodescopeError as error:
                try:
                    check_readable(text)
                except ConditionError as fault:
                    if not _is_rule(text):
                        raise
                    hint = f"'rule {text}' adds a watch rule"
                    raise ConditionError(fault.message, column=fault.column, hint=hint) from None
                result = f"({error})"
            self._watches[number] = text
            self._say(f"w{number} {text} = {result}")
            return
        for number, watched_text in self._watches.items():
            self._say(f"w{number} {watched_text} = {self._watched(watched_text)}")
        if not self._watches:
            self._say("no expressions watched; w max(value) shows one at each stop")

    # ------------------------------------------------------------ breakpoints and edits

    def breakpoint(self, text: str, once: bool = False) -> None:
        """``b`` and ``tb``."""
        old = self._controller.breakpoints
        if once and not text:
            raise UsageError("which node?", hint="tb loss/mean")
        if not text:
            for status in old:
                self._status(status)
            if not old:
                self._say("no breakpoints")
            return
        new_breakpoint = parse_breakpoint(text)
        if once:
            new_breakpoint = msgspec.structs.replace(new_breakpoint, once=True)
        self._status(self._controller.set_breakpoints([*_all(old), new_breakpoint])[-1])

    def _status(self, status: Any) -> None:
        hits = f", held {status.hits} time{'s'[: status.hits != 1]}" if status.hits else ""
        state = "" if status.verified or status.message else ", not seen yet"
        message = f"; {status.message}" if status.message else ""
        breakpoint = status.breakpoint
        self._say(
            clean(f"breakpoint {breakpoint.id}: {describe(breakpoint)}{hits}{state}{message}")
        )

    def delete(self, text: str) -> None:
        """``d``."""
        deleted = self._chosen(text)
        left = [
            breakpoint
            for breakpoint in _all(self._controller.breakpoints)
            if breakpoint.id not in deleted
        ]
        self._controller.set_breakpoints(left)

    def switch(self, text: str, on: bool) -> None:
        """``on`` and ``off``."""
        chosen = self._chosen(text)
        self._controller.set_breakpoints(
            msgspec.structs.replace(breakpoint, enabled=on)
            if breakpoint.id in chosen
            else breakpoint
            for breakpoint in _all(self._controller.breakpoints)
        )

    def _chosen(self, text: str) -> set[int]:
        """The ids named by numbers, the name of a group, or ``all``."""
        old = _all(self._controller.breakpoints)
        if text == "all":
            return {breakpoint.id for breakpoint in old}
        if grouped := {breakpoint.id for breakpoint in old if text and breakpoint.group == text}:
            return grouped
        chosen = {whole(word) for word in text.replace(",", " ").split()}
        unknown = chosen - {breakpoint.id for breakpoint in old}
        if unknown or not chosen:
            problem = f"no breakpoint {min(unknown)}" if unknown else "no breakpoints given"
            raise UsageError(problem, hint="b lists them; numbers, a group, or all")
        return chosen

    def set(self, text: str) -> None:
        """``set``."""
        self._controller.edit(text)  # the run reports the edit
        at = self._controller.moment
        is_input = at.when == "before" or text.startswith("inputs")
        values = self._controller.inputs(at) if is_input else ()
        for value in values or self._controller.outputs(at):
            self._value(value, at)

    # ------------------------------------------------------------ going back, and the end

    def back(self, text: str) -> None:
        """``rb``: go back by a number of executions."""
        moved = None
        try:
            for _ in range(times(text)):
                moved = self._controller.back()
        finally:
            if moved is not None:
                self._moved(moved)

    def twin(self, _: str) -> Done:
        """``twin``."""
        return self._go(StepTwin())

    def over(self, scope: str) -> Done:
        """``o``."""
        node = self._controller.moment.node
        if scope and not is_within(node.scope, scope):
            around = f"it is in {node.scope}" if node.scope else "it is in no scope"
            raise UsageError(f"{node.name} is not in scope {scope!r}", hint=around)
        return self._go(StepOver(scope or None))

    def run_to(self, name: str) -> Done:
        """``until``."""
        if not name:
            raise UsageError("until which node?")
        by_end = False
        try:
            name = self._controller.find(name).name
        except SeveralError:
            raise
        except UsageError as error:
            check_name(name, name)  # a condition does not name a future node
            if self._controller.moment.step >= _MET:
                prefix = f"{error.hint} " if error.hint else ""
                wait = f"{prefix}`b {name}` and `c` wait for a node that has not run yet"
                raise UsageError(str(error.args[0]), hint=wait) from None
            by_end = True
        return self._go(RunTo(name, by_end))  # the node may still come

    def several(self, command: Command, text: str) -> Done:
        """``n 3``: intermediate stops are not printed."""
        count = times(text)
        if not self._controller.looking_back:
            self._more = (count - 1, command)
            return self._go(command)
        for _ in range(count):
            moved = self._controller.command(command)
            if moved is None or moved.moment.live:
                break
        if moved is not None:
            self._moved(moved)
        return moved is None

    def detach(self, _: str) -> Done:
        """``q``."""
        self._say("detached: the program continues and is still recorded")
        self._controller.leave()
        return True

    def kill(self, _: str) -> Done:
        """``kill``: end the program as Ctrl-C would without a debugger."""
        self.killing = True
        _thread.interrupt_main()
        return True

    def help(self, text: str) -> None:
        """``help``."""
        if text:
            spec = BY_NAME.get(text)
            if spec is None:
                raise UsageError(f"no command {text!r}", hint=did_you_mean(text, BY_NAME))
            self._check(spec, text)
            self._say(f"{', '.join(spec.names)} {spec.arguments}".rstrip())
            for line in (spec.help, *HELP.get(spec.names[0], "").splitlines()):
                self._say(f"  {line}".rstrip())
            return
        for command in COMMANDS:
            if self._lack(command) is not None:
                continue
            usage = f"{', '.join(command.names)} {command.arguments}".rstrip()
            if self.width >= 2 * _USAGE:
                begin, indent = f"{usage:{_USAGE}} ", " " * (_USAGE + 1)
            else:
                begin, indent = f"{usage}\n  ", "  "
            for line in folded(begin + command.help, self.width, indent):
                self._say(line)


def _all(statuses: tuple[Any, ...]) -> list[Breakpoint]:
    return [status.breakpoint for status in statuses]


COMMANDS: Final[tuple[Verb, ...]] = (
    Verb(("n", "node"), "[COUNT]", "run to the next node",
         lambda console, text: console.several(StepNode(), text)),
    Verb(("s", "into"), "", "run into the next scope",
         lambda console, text: console._go(StepIn()), "scopes"),
    Verb(("o", "over"), "[SCOPE]",
         "run to the next node at this depth or above, over deeper scopes; or over the scope given",
         Console.over),
    Verb(("u", "out"), "", "run out of this scope", lambda console, text: console._go(StepOut()),
         "scopes"),
    Verb(("step", "next-step"), "", "run into the next training step",
         lambda console, text: console._go(NextStep()), "steps"),
    Verb(("c", "continue"), "", "run to the next breakpoint",
         lambda console, text: console._go(Continue())),
    Verb(("until", "run-to"), "NODE", "run until a node has run", Console.run_to),
    Verb(("twin",), "", "run to its backward node, or look back at its forward node",
         Console.twin),
    Verb(("b", "break"), "[SPEC]", "set a breakpoint, such as op:log if min(value) < 0; list them",
         Console.breakpoint),
    Verb(("tb",), "SPEC", "set a breakpoint that stops once",
         lambda console, text: console.breakpoint(text, once=True)),
    Verb(("on",), "NUMBERS|GROUP|all", "switch breakpoints on",
         lambda console, text: console.switch(text, True)),
    Verb(("off",), "NUMBERS|GROUP|all", "switch breakpoints off",
         lambda console, text: console.switch(text, False)),
    Verb(("d", "delete"), "NUMBERS|GROUP|all", "delete breakpoints", Console.delete),
    Verb(("p", "print"), "[EXPR]", "show a value, part of one, or an expression: p w[0, :3]",
         Console.print),
    Verb(("values", "x"), "[EXPR]", "the elements", Console.values),
    Verb(("why",), "[VALUE[INDEX]|nan]", "explain an element; nan: what NaN and Inf did",
         lambda console, text: console.ask(why_lines, text)),
    Verb(("diff",), "[VALUE] [STEP [STEP]]", "a value now and in the step before, or in two steps",
         lambda console, text: console.ask(diff_lines, text)),
    Verb(("what-if",), "VALUE HOW", "what would change with another value: what-if w *= 0.5",
         lambda console, text: console.ask(what_if_lines, text), "rerun"),
    Verb(("rule",), "[RULE|off N]", "watch for a rule, such as nan on scope:loss; list what was "
         "found", lambda console, text: console.ask(rule_lines, text)),
    Verb(("info", "i"), "[NODE]", "everything about a node", Console.info),
    Verb(("w", "watch"), "[EXPR|off N]", "show an expression at each stop; show all now",
         Console.watch),
    Verb(("bt", "where"), "", "show the scopes and source lines that led here", Console.backtrace),
    Verb(("l", "list"), "[FRAME]", "the source around here, or around a frame of bt",
         Console.source),
    Verb(("set",), "VALUE HOW", "change a value: set value[0] = 1, set inputs[0] *= 2, "
         "set value clip -1 1", Console.set, "edit"),
    Verb(("rb", "back"), "[COUNT]", "look back one execution", Console.back),
    Verb(("rc",), "", "look back to the last execution that hits a breakpoint",
         lambda console, text: console._moved(console._controller.reverse_continue())),
    Verb(("now",), "", "return to where the program has stopped",
         lambda console, text: console._moved(console._controller.now())),
    Verb(("log",), "[COUNT]", "show the last lines of output", Console.log),
    Verb(("nodes",), "[PATTERN]", "list the nodes so far", Console.nodes),
    Verb(("q", "detach"), "", "detach: let the program run to its end", Console.detach),
    Verb(("kill",), "", "end the program, as Ctrl-C would", Console.kill),
    Verb(("help", "h", "?"), "[COMMAND]", "this", Console.help),
)  # fmt: skip
BY_NAME: Final = {name: spec for spec in COMMANDS for name in spec.names}
# An empty line repeats these.
REPEATED: Final = frozenset({"n", "s", "o", "u", "step", "c", "rb", "rc", "until"})


def _is_rule(text: str) -> bool:
    """Whether a text is a watch rule, which ``rule`` accepts."""
    try:
        parse_watch(text)
    except WatchError:
        return False
    return True
