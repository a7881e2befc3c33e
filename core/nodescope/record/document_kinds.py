"""Document kinds: the names under which events about a run are kept in the table ``document``."""

from __future__ import annotations

from typing import Final

from nodescope.events import FrameworkAttached
from nodescope.ir.differences import CallLog, CrossChecked
from nodescope.ir.graph import ScopeDescribed
from nodescope.record.rows import Advice, Governed, Keeping, Timings

KINDS: Final[dict[type, str]] = {
    Governed: "governor",
    Advice: "advice",
    Timings: "timing",
    CrossChecked: "check",
    CallLog: "calls",
    Keeping: "keeping",
    FrameworkAttached: "framework",
    ScopeDescribed: "scope",
}
"""The kinds of events that are stored unchanged; other documents refer to the graph."""
