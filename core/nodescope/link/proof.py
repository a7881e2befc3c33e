"""Proof of knowing a server's token, without sending it.

A killed server leaves its address behind, and the next listener on that port would receive the
token and could control the program. So neither side sends the token: each answers a nonce with a
digest that only the token can produce.

A nonce contains the time when it was made, by the clock of the machine, and a server accepts none
older than itself. So answers overheard by an earlier listener on its port are useless, although the
server cannot know which nonces were used then.

Invariant: an answer is useless to the other side, on another port, or a second time.
"""

from __future__ import annotations

import hmac
import secrets
import time
from typing import Final, Literal

SCHEME: Final = "Nodescope"
HEADER: Final = "Nodescope-Proof"
MAX_NONCE: Final = 128
_TIME: Final = 16


def nonce() -> str:
    """A number used once, which contains the time when it was made."""
    return f"{time.monotonic_ns():0{_TIME}x}{secrets.token_hex(24)}"


def made_ns(nonce: str) -> int:
    """The time when a nonce was made, by `time.monotonic_ns`; -1 if it contains none."""
    try:
        return int(nonce[:_TIME], 16)
    except ValueError:
        return -1


def proof(token: str, side: Literal["program", "server"], port: int, nonce: str) -> str:
    """The digest that a side knowing the token makes of a nonce."""
    content = f"{side} {port} {nonce}".encode()
    return hmac.new(token.encode(), content, "sha256").hexdigest()


def is_proof(digest: str, token: str, side: Literal["program", "server"], port: int, nonce: str
             ) -> bool:  # fmt: skip
    """Whether a digest is the right proof, compared in constant time."""
    return hmac.compare_digest(digest.encode(), proof(token, side, port, nonce).encode())
