"""What a program of the corpus is, as data: the fault, its mend, and who counts as its culprit.

Invariant: a case says nothing about how nodescope finds a fault; it says what a person would accept
as the fault being found and its place being named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
LOSS: Final = r"^(loss|underfit)\S* "
"""A hit of a rule about the loss: the fault keeps it from falling."""
STILL: Final = (
    r"^(gradient_(vanish|lost)|weight_(not_changed|frozen|unchanged)|(tensor_)?all_zero|dead)\S* "
)
"""A hit of a rule about what stays as it is: no gradient arrives, no weight changes."""
NAN: Final = r"\b(NaN|Inf)\b"
"""A hit that speaks of NaN or Inf: the fault makes them."""
NUMBER: Final = r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|nan|inf)"


@dataclass(frozen=True)
class Broken:
    """A program with one fault.

    Attributes:
        name: The file in ``broken/``, without its suffix.
        kind: The fault, as a person would say it.
        mend: Pairs of old and new text, each found once, that make the fixed twin.
        goal: What the twin reaches and the program with the fault does not: a name that it prints
            before a number, ``<`` or ``>``, and a bound. The last such number counts.
        lines: Parts of the source lines that hold the fault.
        nodes: Node names that hold the fault, as patterns of `re`.
        about: Hits that are about the fault, wherever they are: patterns of `re` for the rule, the
            node and the text, joined by spaces. A hit at one of the places is about it, too.
        words: What must be said along with the place for the culprit to be named, as a pattern;
            empty where the place alone tells the fault.
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
        """The program without the fault."""
        text = self.text
        for old, new in self.mend:
            if text.count(old) != 1:
                raise ValueError(f"{self.name}: {old!r} is there {text.count(old)} times")
            text = text.replace(old, new)
        return text

    def line_numbers(self) -> list[int]:
        """Of the lines that hold the fault."""
        numbers = []
        for part in self.lines:
            where = [n for n, line in enumerate(self.text.splitlines(), 1) if part in line]
            if len(where) != 1:
                raise ValueError(f"{self.name}: {part!r} is in {len(where)} lines")
            numbers += where
        return numbers


@dataclass(frozen=True)
class Right:
    """A program without a fault, in which something looks like one.

    Attributes:
        name: The file in ``right/``, without its suffix.
        oddity: What looks like a fault.
        goal: What it reaches, as in `Broken`.
    """

    name: str
    oddity: str
    goal: str

    @property
    def text(self) -> str:
        return (HERE / "right" / f"{self.name}.py").read_text(encoding="utf-8")


def reached(goal: str, output: str) -> bool:
    """Whether a program reached its goal, by what it printed."""
    name, sign, bound = goal.rsplit(" ", 2)
    numbers = re.findall(rf"(?<!\w){re.escape(name)} ({NUMBER})", output)
    if not numbers:
        raise ValueError(f"no {name!r} in {output[-200:]!r}")
    value = float(numbers[-1])
    return value < float(bound) if sign == "<" else value > float(bound)
