"""nodescope's own graphs: their text, alone or in the archive of a saved graph or program.

Invariant: only the text in an archive is decoded, never the weights.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Final

from nodescope.errors import GraphError
from nodescope.ir.graph import Graph
from nodescope.ir.text import parse_graph

_MEMBER: Final = "graph.txt"
_MOST_BYTES: Final = 256 << 20


def read(data: bytes | memoryview, name: str) -> Graph:
    """The graph of a file."""
    raw = bytes(data)
    if raw.startswith(b"PK"):
        raw = _text_in(raw)
    try:
        return parse_graph(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise GraphError(f"byte {error.start:,} is no text") from None


def _text_in(raw: bytes) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            member = archive.getinfo(_MEMBER)
            if member.file_size > _MOST_BYTES or member.compress_type != zipfile.ZIP_STORED:
                raise GraphError(f"{_MEMBER} is compressed or too large")
            return archive.read(member)
    except KeyError:
        raise GraphError(f"the archive has no {_MEMBER}") from None
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError,
            RuntimeError, EOFError) as error:  # fmt: skip
        raise GraphError(f"the archive is damaged: {str(error)[:100]}") from None
