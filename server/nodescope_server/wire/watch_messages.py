"""Wire messages for watches: the rules, and their evaluation on a recording.

Invariant: as in `wire`. A watch is sent as text; it is set by the command `SetWatches`.
"""

from __future__ import annotations

import msgspec

# ---------------------------------------------------------------- requests


class GetRules(msgspec.Struct, frozen=True, tag="get_rules"):
    """Get all rules, and the watches recommended for the program."""

    run: str


class ReadWatch(msgspec.Struct, frozen=True, tag="read_watch"):
    """Parse a watch, before it is set."""

    run: str
    text: str


class AskWatch(msgspec.Struct, frozen=True, tag="ask_watch"):
    """Evaluate watches on the recording.

    Attributes:
        text: One or several watches as text.
    """

    run: str
    text: str


# ---------------------------------------------------------------- answers


class RuleParameter(msgspec.Struct, frozen=True):
    """A parameter of a watch.

    Attributes:
        default: The default as text; ``""`` if it has none.
        unit: ``%``, ``s``, ``steps`` or ``""``.
        required: Whether it must be set; of those with ``choice``, one must be.
    """

    name: str
    about: str
    default: str
    unit: str
    required: bool
    choice: bool


class RuleInfo(msgspec.Struct, frozen=True):
    """A watch rule.

    Attributes:
        about: The condition for a hit, in one line.
        asked: What it applies to, as text.
        origin: The origin of the rule.
        aliases: Abbreviations and other names.
        text: A watch to start from; parts that only the user can know are ``"..."``.
        whole: Whether it needs all elements, not just statistics.
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
    """A watch recommended for the program, and the reason."""

    text: str
    about: str
    reason: str


class RuleList(msgspec.Struct, frozen=True, tag="rules"):
    """All rules by kind and name, and recommended watches, most informative first."""

    rules: tuple[RuleInfo, ...]
    recommended: tuple[RecommendedWatch, ...]


class WatchRead(msgspec.Struct, frozen=True, tag="watch_read"):
    """The result of parsing a watch.

    Attributes:
        texts: The watches in canonical form; none if they could not be understood.
        fault: The error, with the column; or ``""``.
    """

    texts: tuple[str, ...]
    fault: str = ""


class WatchHit(msgspec.Struct, frozen=True):
    """A finding."""

    node: int
    name: str
    step: int
    seq: int
    text: str


class WatchAnswer(msgspec.Struct, frozen=True, tag="watch_answer"):
    """Findings in a recording.

    Attributes:
        hits: The first findings, in order of the run.
        total: Number of findings.
        looked: Number of values examined.
        caveats: Descriptions of what could not be evaluated.
        fault: The error in the text, with the column; or ``""``.
    """

    hits: tuple[WatchHit, ...] = ()
    total: int = 0
    looked: int = 0
    caveats: tuple[str, ...] = ()
    fault: str = ""


Requests = GetRules | ReadWatch | AskWatch
Answers = RuleList | WatchRead | WatchAnswer
