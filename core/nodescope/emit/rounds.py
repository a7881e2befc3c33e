"""Rounds: the loops of the user's program that a thread goes through, and when each round begins.

Outside of training steps, calls are counted within a round of their loop, so that each round
executes the same nodes. The loop is that of the backward pass or the optimizer's step, once there
has been one; otherwise the innermost loop whose rounds are not parts of a whole, such as the layers
of a network. A round begins where the program jumps back.

Only the main thread is followed. If several threads ran the same loop, their nodes would depend on
which thread came first.

Invariant: frames are read, never kept: no object of the program lives longer than it would
unobserved.
"""

from __future__ import annotations

import dis
import threading
from types import CodeType, FrameType
from typing import Final, NamedTuple

from nodescope.origins import OURS, is_users, origin

Place = tuple["Code", int]
"""A frame as its code and current instruction."""

_MOST_FRAMES: Final = 200


class Loop(NamedTuple):
    """A loop: the instructions from its head to its last jump back.

    Attributes:
        number: Counts from 1; 0 is outside of every loop.
    """

    number: int
    start: int
    end: int


class Code:
    """A function's code and its loops.

    Attributes:
        loops: Its loops, innermost first.
        users: Whether the code belongs to the user's program.
        ours: Whether it is nodescope's own code.
    """

    __slots__ = ("code", "loops", "ours", "users")

    def __init__(self, code: CodeType) -> None:
        self.code = code  # held, so that its identity is not reused
        owner = origin(code.co_filename)
        self.users = is_users(code.co_filename)
        self.ours = owner == OURS
        self.loops = tuple(
            Loop(_number((code.co_filename, code.co_firstlineno, code.co_qualname, start)),
                 start, end)
            for start, end in _ranges(code)
        )  # fmt: skip

    def around(self, at: int, other: int | None = None) -> Loop | None:
        """The innermost loop around one place, or around two; None if there is none."""
        for loop in self.loops:
            if loop.start <= at <= loop.end and (other is None or loop.start <= other <= loop.end):
                return loop
        return None


_codes: dict[int, Code] = {}
_numbers: dict[tuple[str, int, str, int], int] = {}
_lock = threading.RLock()


def _number(key: tuple[str, int, str, int]) -> int:
    with _lock:
        return _numbers.setdefault(key, len(_numbers) + 1)


def _ranges(code: CodeType) -> list[tuple[int, int]]:
    """First and last instruction of each loop, innermost first."""
    ends: dict[int, int] = {}
    for step in dis.get_instructions(code):
        if "JUMP" in step.opname and isinstance(step.argval, int) and step.argval <= step.offset:
            ends[step.argval] = max(ends.get(step.argval, 0), step.offset)
    return sorted(ends.items(), key=lambda item: item[1] - item[0])


def _code(code: CodeType) -> Code:
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = Code(code)
    return known


def _follows() -> bool:
    return threading.current_thread() is threading.main_thread()


class Loops:
    """The loops that the main thread runs through, as far as known.

    Attributes:
        trained: The number of the loop whose rounds are training steps, or 0.
        unrolled: Numbers of the loops whose rounds are parts of a larger whole, such as one over
            the layers of a network.
    """

    def __init__(self) -> None:
        self.trained = 0
        self.unrolled: set[int] = set()
        self._sure = False

    def train(self, frame: FrameType | None, *, sure: bool) -> None:
        """Note a backward pass, or with ``sure`` an optimizer's step, at a frame or below it."""
        if (self._sure and not sure) or not _follows():
            return
        while frame is not None:
            code = _code(frame.f_code)
            loop = code.around(frame.f_lasti) if code.users else None
            if loop is not None and loop.number not in self.unrolled:
                self.trained, self._sure = loop.number, sure
                return
            frame = frame.f_back

    def note_steps(self, frame: FrameType | None) -> None:
        """Note that a loop of steps begins at a frame or below it: what else the loops around it do
        is counted as a part of the last step, not within their rounds.
        """
        while frame is not None:
            code = _code(frame.f_code)
            if code.users:
                at = frame.f_lasti  # if this is the head of a loop, it is the loop of steps
                self.unrolled.update(
                    loop.number for loop in code.loops if loop.start < at <= loop.end
                )
            frame = frame.f_back


class Rounds:
    """The rounds of one thread.

    Attributes:
        loops: The loops of the run.
        apart: Number of running calls whose operations get their own nodes each time. On threads
            other than the main one, all operations do.
        number: The number of the loop that the thread is in; 0 outside of all loops.
        token: An object unique to this round.
    """

    __slots__ = ("_code", "_enclosing", "_lasti", "_loop", "_places", "_tokens", "_user",
                 "apart", "loops", "number", "token")  # fmt: skip

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self._places: list[Place] = []  # outermost first
        self._user = -1  # index of the user's innermost frame
        self._code: CodeType | None = None  # its current instruction
        self._lasti = 0
        self._loop: Loop | None = None
        self._enclosing: list[Loop] = []  # the loops around the call, innermost first
        self._tokens: dict[int, object] = {0: object()}
        self.apart = 0 if _follows() else 1
        self.number = 0
        self.token = self._tokens[0]

    def count_outside(self, token: object) -> None:
        """Count what is in no loop with this token: that of the last step."""
        self._tokens[0] = token
        if self.number == 0:
            self.token = token

    def look(self, frame: FrameType | None) -> object:
        """Determine the place of a call; return the token of its round."""
        if self.apart:
            self.number, self.token = 0, self._tokens[0]
            self._code = None
            return self.token
        user = frame
        while user is not None:
            code = _codes.get(id(user.f_code)) or _code(user.f_code)
            if code.users:
                break
            user = user.f_back
        if user is None:
            return self.token
        if (
            user.f_code is self._code
            and user.f_lasti > self._lasti
            and (not code.loops or code.around(user.f_lasti) is code.around(self._lasti))
        ):  # later in the same function, with no loop entered or left
            self._lasti = user.f_lasti
            return self.token
        self._compare(frame)
        return self.token

    def unroll(self) -> int:
        """Treat the rounds of this loop as parts of a whole; return the number of the loop around
        it.
        """
        self.loops.unrolled.add(self.number)
        self._loop = self._chosen()
        self.number = 0 if self._loop is None else self._loop.number
        self.token = self._tokens.setdefault(self.number, object())
        return self.number

    def _compare(self, frame: FrameType | None) -> None:
        now: list[Place] = []
        while frame is not None and len(now) < _MOST_FRAMES:
            code = _codes.get(id(frame.f_code)) or _code(frame.f_code)
            now.append((code, frame.f_lasti))
            if code.users and frame.f_code.co_name == "<module>":
                break
            frame = frame.f_back
        now.reverse()
        before = self._places
        if 0 <= self._user < len(before) and before[self._user][1] != self._lasti:
            # Only the user's innermost function advanced, and calls inside it have ended since.
            before = [*before[: self._user], (before[self._user][0], self._lasti)]
        anew, depth = _begun(before, now)
        self._places = now
        self._user = max(i for i, (code, _) in enumerate(now) if code.users)
        self._code, self._lasti = now[self._user][0].code, now[self._user][1]
        inside, self._enclosing = self._enclosing, _around(now)
        self._loop = self._chosen()
        if anew is not None:
            self._tokens.pop(anew.number, None)
        if self._loop is None:
            self.number, self.token = 0, self._tokens[0]
            return
        self.number = self._loop.number
        token = self._tokens.get(self.number)
        if token is None or self._loop not in inside or (
            anew is not None and _encloses(anew, depth, self._loop, now)
        ):  # fmt: skip
            token = self._tokens[self.number] = object()
        self.token = token

    def _chosen(self) -> Loop | None:
        loops = self.loops
        if loops.trained and loops.trained not in loops.unrolled:
            for loop in self._enclosing:
                if loop.number == loops.trained:
                    return loop
        for loop in self._enclosing:
            if loop.number not in loops.unrolled:
                return loop
        return None


def _around(now: list[Place]) -> list[Loop]:
    """The user's loops around a call, innermost first."""
    return [
        loop
        for code, at in reversed(now)
        if code.users
        for loop in code.loops
        if loop.start <= at <= loop.end
    ]


def _encloses(outer: Loop, depth: int, inner: Loop, now: list[Place]) -> bool:
    """Whether a loop in the frame of that index equals or encloses the other."""
    at = next(i for i, (code, _) in enumerate(now) if inner in code.loops)
    return depth < at or (depth == at and outer.start <= inner.start and inner.end <= outer.end)


def _begun(before: list[Place], now: list[Place]) -> tuple[Loop | None, int]:
    """The loop that began a round between two calls, and its frame's index."""
    depth = 0
    for (old, was), (new, at) in zip(before, now, strict=False):
        if old is not new or was != at:
            break
        depth += 1
    if depth == len(before) == len(now):
        return _again(now, depth)
    if depth >= len(before) or depth >= len(now):
        return None, 0
    (old, was), (new, at) = before[depth], now[depth]
    if old is new:
        if at > was:
            return None, 0
        loop = new.around(was, at)
        if loop is not None:
            return loop, depth
    return _again(now, depth)


def _again(now: list[Place], depth: int) -> tuple[Loop | None, int]:
    """Handle a repeated call: the innermost loop around it began a round."""
    for i in range(depth - 1, -1, -1):
        code, at = now[i]
        loop = code.around(at)
        if loop is not None:
            return loop, i
    return None, 0
