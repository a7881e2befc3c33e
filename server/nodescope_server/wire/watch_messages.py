"""The wire's part on watches: which rules there are, and what they say to what was recorded.

Invariant: as in `wire`. A watch travels as it is written; setting it is the command `SetWatches`.
"""

from __future__ import annotations

import msgspec

# ---------------------------------------------------------------- requests


class GetRules(msgspec.Struct, frozen=True, tag="get_rules"):
    """All rules, and the watches that suit the program by what it contains."""

    run: str


class ReadWatch(msgspec.Struct, frozen=True, tag="read_watch"):
    """Whether a watch can be understood, before it is set."""

    run: str
    text: str


class AskWatch(msgspec.Struct, frozen=True, tag="ask_watch"):
    """What watches would have said to what is recorded.

    Attributes:
        text: One or several, as they are written.
    """

    run: str
    text: str


# ---------------------------------------------------------------- answers


class RuleParameter(msgspec.Struct, frozen=True):
    """What a watch can set.

    Attributes:
        default: As it is written; ``""`` if it is not set unless the watch sets it.
        unit: ``%``, ``s``, ``steps`` or ``""``.
        required: It must be set; of those with ``choice`` one must be.
    """

    name: str
    about: str
    default: str
    unit: str
    required: bool
    choice: bool


class RuleInfo(msgspec.Struct, frozen=True):
    """A rule.

    Attributes:
        about: When it gives a hit, in one line.
        asked: What it is asked of, in words.
        origin: Whose rule it is.
        aliases: Abbreviations and other names.
        text: A watch to begin with; what only the person can know is ``"..."``.
        whole: It needs all elements, not statistics alone.
    """

    name: str
    about: str
    asked: str
    origin: str
    aliases: tuple[str, ...]
    parameters: tuple[RuleParameter, ...]
    text: str
    whole: bool


class RecommendedWatch(msgspec.Struct, frozen=True):
    """A watch that suits the program, and why."""

    text: str
    about: str
    reason: str


class RuleList(msgspec.Struct, frozen=True, tag="rules"):
    """All rules by kind and name, and what is recommended, most telling first."""

    rules: tuple[RuleInfo, ...]
    recommended: tuple[RecommendedWatch, ...]


class WatchRead(msgspec.Struct, frozen=True, tag="watch_read"):
    """How a watch was understood.

    Attributes:
        texts: Each as it is kept; none if it could not be understood.
        fault: Why not, with the column; or ``""``.
    """

    texts: tuple[str, ...]
    fault: str = ""


class WatchHit(msgspec.Struct, frozen=True):
    """Something that was found."""

    node: int
    name: str
    step: int
    seq: int
    text: str


class WatchAnswer(msgspec.Struct, frozen=True, tag="watch_answer"):
    """What was found in a recording.

    Attributes:
        hits: The first of them, in order of the run.
        total: How many there are.
        looked: How often a value was looked at.
        caveats: What could not be judged, in words.
        fault: Why the text could not be understood, with the column; or ``""``.
    """

    hits: tuple[WatchHit, ...] = ()
    total: int = 0
    looked: int = 0
    caveats: tuple[str, ...] = ()
    fault: str = ""


Requests = GetRules | ReadWatch | AskWatch
Answers = RuleList | WatchRead | WatchAnswer
