"""Who knows the token of a server, without its being told.

A server that was killed leaves its address behind, and whoever listens at that port next would be
told the token, and could control the program. So neither side says it: each answers a number that
is used once with what only the token can make of it.

Invariant: what one side says is of no use to the other side's place, at another port, or again.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final, Literal

SCHEME: Final = "Nodescope"
HEADER: Final = "Nodescope-Proof"
MAX_NONCE: Final = 128


def nonce() -> str:
    """A number that is used once."""
    return secrets.token_hex(32)


def proof(token: str, side: Literal["program", "server"], port: int, nonce: str) -> str:
    """What a side that knows the token makes of a nonce."""
    said = f"{side} {port} {nonce}".encode()
    return hmac.new(token.encode(), said, "sha256").hexdigest()


def is_proof(given: str, token: str, side: Literal["program", "server"], port: int, nonce: str
             ) -> bool:  # fmt: skip
    """Whether it is; the time it takes says nothing."""
    return hmac.compare_digest(given.encode(), proof(token, side, port, nonce).encode())
