"""Scripts: the steps that a run has taken down, and which of them the next step may follow.

After the same steps as before, the step comes that came then: one with a full batch, or the last
one of an epoch. Steps with and without gradients are told apart. A wrong guess costs time only.

Invariant: bounded, however many kinds of steps there are.
"""

from __future__ import annotations

from typing import Final

from nodescope.adapters.torch.native_tap.step_script import StepScript

_MOST: Final = 6
_LOOKED_BACK: Final = 6
_MOST_CASES: Final = 512

_Kind = int
"""The number of a script; 0 for a step that is none."""


class Scripts:
    """The scripts of a run."""

    def __init__(self) -> None:
        self._known: dict[_Kind, StepScript] = {}  # the one that was made last is the last
        self._kinds: dict[tuple[int, ...], _Kind] = {}
        self._count = 0
        # Of steps with gradients, and of those without: the latest, and what came after these.
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
        """Note what the step that has ended was."""
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
        kinds = [kind for kind in past[-2:] if kind]  # of two that are new, one is taken down
        return self._known.get(kinds[-1]) if kinds else None


class _Came:
    """What came after some steps.

    Attributes:
        kind: What comes mostly.
        missed: Whether something else came the last time.
    """

    __slots__ = ("kind", "missed")

    def __init__(self, kind: _Kind) -> None:
        self.kind, self.missed = kind, False
