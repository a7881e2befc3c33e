"""Exports of a run's graph as text, for downloads.

Invariant: the exporters decide what is drawn; this only hands them the recording.
"""

from __future__ import annotations

from nodescope.record.recording import Recording


def render(recording: Recording, kind: str, engine: str) -> str:
    """The graph as ``svg`` or ``dot``, laid out by the engine ``page`` or ``dot``.

    Raises:
        ExportError: It cannot be made; the hint says what is missing.
    """
    from nodescope import export

    return export.render(recording, kind, engine)
