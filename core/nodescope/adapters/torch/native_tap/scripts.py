"""Scripts: the scripts of recorded steps, and a guess which of them the next step follows.

The guess is the step that followed the same sequence of steps before, such as one with a full batch
or the last step of an epoch. Steps with and without gradients have separate histories. A wrong
guess only costs time.

Invariant: memory is bounded for any number of kinds of steps.
"""

from __future__ import annotations

from typing import Final

from nodescope.adapters.torch.native_tap.step_script import StepScript

_MOST: Final = 6
_LOOKED_BACK: Final = 6
_MOST_CASES: Final = 512

_Kind = int
"""The number of a kind of script; 0 for a step without a script."""


class Scripts:
    """The scripts of a run."""

    def __init__(self) -> None:
        self._known: dict[_Kind, StepScript] = {}  # the newest is last
        self._kinds: dict[tuple[int, ...], _Kind] = {}
        self._count = 0
        # For steps with gradients and without: the latest kinds, and what followed such a sequence.
        self._past: dict[bool, tuple[_Kind, ...]] = {True: (), False: ()}
        self._came: dict[tuple[bool, tuple[_Kind, ...]], _Came] = {}

    def add(self, script: StepScript) -> StepScript:
        """Keep a script; it replaces an earlier one of the same kind."""
        kind = self._kinds.get(script.kind)
        if kind is None:
            self._count += 1
            kind = self._kinds[script.kind] = self._count
        self._known.pop(kind, None)
        self._known[kind] = script
        while len(self._known) > _MOST:
            oldest = next(iter(self._known))
            self._kinds.pop(self._known.pop(oldest).kind, None)
        return script

    def ended(self, script: StepScript | None, *, gradients: bool) -> None:
        """Note the script of the step that has ended; None if it has none."""
        kind = 0 if script is None else self._kinds.get(script.kind, 0)
        past = self._past[gradients]
        came = self._came.get((gradients, past))
        if came is None:
            if len(self._came) < _MOST_CASES:
                self._came[gradients, past] = _Came(kind)
        elif came.kind == kind:
            came.missed = False
        elif came.missed:
            came.kind, came.missed = kind, False
        else:
            came.missed = True
        self._past[gradients] = (*past, kind)[-_LOOKED_BACK:]

    def next(self, *, gradients: bool) -> StepScript | None:
        """The script that the next step is likely to follow, if any."""
        past = self._past[gradients]
        came = self._came.get((gradients, past))
        if came is not None:
            return self._known.get(came.kind)
        kinds = [kind for kind in past[-2:] if kind]  # of the last two steps, one with a script
        return self._known.get(kinds[-1]) if kinds else None


class _Came:
    """The kind of step that followed a sequence of steps.

    Attributes:
        kind: The kind that is expected.
        missed: Whether another kind followed the last time.
    """

    __slots__ = ("kind", "missed")

    def __init__(self, kind: _Kind) -> None:
        self.kind, self.missed = kind, False
