"""Outcome: the result of evaluating a watch: evaluations, findings, values it could not judge."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from nodescope.debug.watch.watch import Watch

_MOST_NAMED: Final = 3


class WatchOutcome(msgspec.Struct):
    """The outcome of a watch.

    Attributes:
        watch: The watch.
        values: How many values it covers.
        looked: How often the rule was evaluated.
        hits: Its hits.
        judged: How often it reached a verdict.
        unasked: How often it could not be evaluated, by reason.
        early: By value that was not seen often enough to judge it: its name, and what is missing.
        inapplicable: Why the rule did not apply to a value, or ``""``.
        excused: By value with a finding that may be intended: its name, and the reason.
        fault: Why it was disabled, or ``""``.
    """

    watch: Watch
    values: int = 0
    looked: int = 0
    hits: int = 0
    judged: int = 0
    unasked: Counter[str] = msgspec.field(default_factory=Counter)
    early: dict[int, tuple[str, str]] = msgspec.field(default_factory=dict)
    inapplicable: str = ""
    excused: dict[int, tuple[str, str]] = msgspec.field(default_factory=dict)
    fault: str = ""

    def excuses(self) -> str:
        """A sentence on findings that are not counted, or ``""``."""
        if not self.excused:
            return ""
        names = [name for name, _ in self.excused.values()]
        suffix = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        *_, (_, reason) = self.excused.values()
        return f"not counted: {', '.join(names[:_MOST_NAMED])}{suffix}: {reason}"

    def shortcomings(self) -> list[str]:
        """Sentences on why all or some values were not judged."""
        lines: list[str] = []
        for reason in dict.fromkeys(reason for _, reason in self.early.values()):
            names = [name for name, early_reason in self.early.values() if early_reason == reason]
            suffix = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            on = f" on {', '.join(names[:_MOST_NAMED])}{suffix}" if self.judged else ""
            lines.append(f"not evaluated{on}: {reason}")
        if self.inapplicable and not self.judged and not lines:
            lines.append(f"not evaluated: {self.inapplicable}")
        return lines
