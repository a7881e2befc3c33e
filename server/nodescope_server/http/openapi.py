"""OpenAPI: the description of the routes' parameters and answers.

Invariant: every route that can fail describes its failures as `Problem`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Path

from nodescope_server.http.pages import Json

LARGEST = 2**53  # integers that JSON numbers represent exactly

RunId = Annotated[str, Path(description="Id of the run, 16 hexadecimal digits.")]
Id = Annotated[int, Path(ge=0, le=LARGEST)]


def answers(kind: type[msgspec.Struct], *statuses: int) -> dict[str, Any]:
    """Arguments for a route that answers with ``kind``, or with a `Problem` and these statuses."""

    def ref(name: str) -> dict[str, Any]:
        return {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}

    described: dict[int | str, Any] = {
        200: {"description": "Found.", "content": ref(kind.__name__)}
    }
    for status in statuses:
        described[status] = {"description": "It says why.", "content": ref("Problem")}
    return {"responses": described, "response_class": Json, "response_model": None}
