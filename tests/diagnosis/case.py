"""A program of the corpus as data: the fault, its fix, and what counts as its culprit.

Invariant: a case does not say how nodescope finds a fault; it says what a person would accept as
the fault being found and its place being named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
LOSS: Final = r"^(loss|underfit)\S* "
"""Hits of rules about the loss, for faults that keep it from falling."""
STILL: Final = (
    r"^(gradient_(vanish|lost)|weight_(not_changed|frozen|unchanged)|(tensor_)?all_zero|dead)\S* "
)
"""Hits of rules about lack of change: no gradient arrives, no weight changes."""
NAN: Final = r"\b(NaN|Inf)\b"
"""Hits about NaN or Inf, for faults that make them."""
NUMBER: Final = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)"


@dataclass(frozen=True)
class Broken:
    """A program with one fault.

    Attributes:
        name: The file in ``broken/``, without its suffix.
        kind: The fault, as a person would describe it.
        mend: Pairs of old and new text, each found once, that make the fixed twin.
        goal: A goal that only the twin reaches: a name that it prints before a number, ``<`` or
            ``>``, and a bound. The last such number counts.
        lines: Parts of the source lines with the fault.
        nodes: Names of the nodes with the fault, as patterns of `re`.
        about: Hits that are about the fault, wherever they are: patterns of `re` for the rule, the
            node and the text, joined by spaces. Hits at one of the places are about it too.
        words: A pattern that must appear with the place for the culprit to count as named; empty
            if the place is enough.
    """

    name: str
    kind: str
    mend: tuple[tuple[str, str], ...]
    goal: str
    lines: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    words: str = ""

    @property
    def text(self) -> str:
        return (HERE / "broken" / f"{self.name}.py").read_text(encoding="utf-8")

    @property
    def twin(self) -> str:
        """The fixed program's text."""
        text = self.text
        for old, new in self.mend:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} is there {text.count(old)} times")
            text = text.replace(old, new)
        return text

    def line_numbers(self) -> list[int]:
        """The numbers of the lines with the fault."""
        numbers = []
        for part in self.lines:
            where = [n for n, line in enumerate(self.text.splitlines(), 1) if part in line]
            if len(where) != 1:
                raise ValueError(f"{self.name}: {part!r} is in {len(where)} lines")
            numbers += where
        return numbers


@dataclass(frozen=True)
class Right:
    """A correct program, in which something looks like a fault.

    Attributes:
        name: The file in ``right/``, without its suffix.
        oddity: What looks like a fault.
        goal: A goal that it reaches, as in `Broken`.
    """

    name: str
    oddity: str
    goal: str

    @property
    def text(self) -> str:
        return (HERE / "right" / f"{self.name}.py").read_text(encoding="utf-8")


def reached(goal: str, output: str) -> bool:
    """Whether a program's output shows that it reached its goal."""
    name, sign, bound = goal.rsplit(" ", 2)
    numbers = re.findall(rf"(?<!\w){re.escape(name)} ({NUMBER})", output)
    if not numbers:
        raise ValueError(f"no {name!r} in {output[-200:]!r}")
    value = float(numbers[-1])
    return value < float(bound) if sign == "<" else value > float(bound)
