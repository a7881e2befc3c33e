"""Scripts: the steps that a run has taken down, and which of them the next step may follow.

After the same steps as before, the step comes that came then: a training step, or now and then an
evaluation. A wrong guess costs time only.

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
        self._past: tuple[_Kind, ...] = ()
        self._came: dict[tuple[_Kind, ...], _Kind] = {}

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

    def ended(self, script: StepScript | None) -> None:
        """Note what the step that has ended was."""
        kind = 0 if script is None else self._kinds.get(script.kind, 0)
        if len(self._came) < _MOST_CASES or self._past in self._came:
            self._came[self._past] = kind
        self._past = (*self._past, kind)[-_LOOKED_BACK:]

    def next(self) -> StepScript | None:
        """The script that the next step is likely to follow, if any."""
        kind = self._came.get(self._past)
        if kind is None:
            kind = self._past[-1] if self._past else 0
        return self._known.get(kind)
