"""Pages shown in place of the page: refusals, and the hint how to build it.

Invariant: no script, no style sheet, nothing from the request; helpful text.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response
from starlette.types import Scope

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>nodescope</title>
<meta name="color-scheme" content="dark light"></head>
<body><h1>nodescope</h1><p>{message}</p><p>{hint}</p></body>
</html>
"""


class Problem(msgspec.Struct, frozen=True):
    """Why a request failed, and what to do about it, in words for the user."""

    error: str
    hint: str = ""


class Json(Response):
    """A msgspec value as JSON; NaN becomes null."""

    media_type = "application/json"

    def render(self, content: object) -> bytes:
        """Encode the content."""
        return msgspec.json.encode(content)


def refusal(scope: Scope, status: int, message: str, hint: str = "") -> Response:
    """A refusal: a page for browsers opening the address, JSON for everything else."""
    if scope["type"] == "http" and not scope["path"].startswith(("/api", "/link")):
        page = _PAGE.format(message=message, hint=hint)
        return Response(page, status_code=status, media_type="text/html")
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return Json(Problem(message, hint), status_code=status, headers=headers)


def not_built() -> Response:
    """The message that the server runs from a source tree whose page was not built."""
    page = _PAGE.format(
        message="The page is not built.",
        hint="Run <code>make setup</code> (or <code>python web/build.py</code>) in the source "
        "tree, then reload. The server itself works: see <a href='/api/health'>/api/health</a>.",
    )
    return Response(page, status_code=503, media_type="text/html")
