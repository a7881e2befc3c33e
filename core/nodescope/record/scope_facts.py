"""Scope facts: the class and settings of a scope's module, from a recording.

Invariant: reads documents only; without documents, nothing is known about scopes.
"""

from __future__ import annotations

import msgspec

from nodescope.ir.graph import ScopeDescribed
from nodescope.ir.scopes import unnumbered, without_phase
from nodescope.record.recording import Recording

_decode = msgspec.msgpack.Decoder(ScopeDescribed).decode


def scope_facts(recording: Recording, scope: str) -> ScopeDescribed | None:
    """The module of a scope; scopes of its backward pass and of further calls give the same module.

    Raises:
        RecordingError: The recording is damaged.
    """
    known: dict[str, ScopeDescribed] = {}
    for _, data in recording.documents("scope"):
        try:
            described = _decode(data)
        except (msgspec.MsgspecError, ValueError):
            continue  # a damaged document; the others can still be read
        known[described.scope] = described
    for path in _candidates(scope):
        if path in known:
            return known[path]
    return None


def _candidates(scope: str) -> list[str]:
    """The paths under which it may have been described, the most exact first."""
    plain = without_phase(scope)
    return list(dict.fromkeys((scope, plain, unnumbered(plain))))
