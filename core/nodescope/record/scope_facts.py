"""Scope facts: which module a scope is, and its settings, from a recording.

Invariant: reads documents only; a recording without any says nothing of its scopes.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from nodescope.ir.graph import ScopeDescribed
from nodescope.record.recording import Recording

_decode = msgspec.msgpack.Decoder(ScopeDescribed).decode
_FURTHER: Final = re.compile(r"_\d+(?=/|$)")
_PHASES: Final = ("backward", "recompute")


def scope_facts(recording: Recording, scope: str) -> ScopeDescribed | None:
    """What is known of a scope: of the module itself, for its backward pass and further calls too.

    Raises:
        RecordingError: The recording is damaged.
    """
    known: dict[str, ScopeDescribed] = {}
    for _, data in recording.documents("scope"):
        try:
            described = _decode(data)
        except (msgspec.MsgspecError, ValueError):
            continue  # the rest of the recording can be read
        known[described.scope] = described
    for path in _candidates(scope):
        if path in known:
            return known[path]
    return None


def _candidates(scope: str) -> list[str]:
    """The paths under which it may have been described, the most exact first."""
    first, _, rest = scope.partition("/")
    plain = rest if first in _PHASES else scope
    return list(dict.fromkeys((scope, plain, _FURTHER.sub("", plain))))
