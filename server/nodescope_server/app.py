"""The application: routes, endpoints, the page, and the guard around all of it.

Invariant: every failing request is answered with a `Problem`, and nothing bypasses the guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from nodescope.errors import NodescopeError
from nodescope.processes import refused
from nodescope_server import __version__
from nodescope_server.handlers.dropped_files import DroppedFiles
from nodescope_server.handlers.library import RecordingLibrary, UnknownEntryError
from nodescope_server.http import compare, rest, start_page
from nodescope_server.http.guard import Guard, Secrets
from nodescope_server.http.pages import Json, Problem, not_built
from nodescope_server.runs.runs import Runs, UnknownRunError
from nodescope_server.sockets.browser import Stream
from nodescope_server.sockets.endpoint import Link
from nodescope_server.sockets.io import SEND_DEADLINE_S

CLOSE_S = 0.5
# How long an ending server still sends received messages to pages.
FAREWELL_S = 0.4
_LOOK_S = 0.01
PAGE = Path(__file__).parent / "_web"


class Config(msgspec.Struct, frozen=True):
    """Settings of a server.

    Attributes:
        port: The port, which the guard also checks.
        bearer: The token for programs; generated if empty.
        page: Folder with the built page.
        lost_after_s: How long a run whose connection broke counts as live.
        send_deadline_s: How long a browser may leave a message unread.
        folder: The folder searched for recordings, if any.
        waits: Whether programs find this server by themselves, for `ns.attach()`.
    """

    port: int
    bearer: str = ""
    page: Path = PAGE
    lost_after_s: float = 2.0
    send_deadline_s: float = SEND_DEADLINE_S
    folder: Path | None = None
    waits: bool = False


class App(FastAPI):
    """FastAPI behind the guard. Outermost, so that error responses pass through it too."""

    def __init__(self, config: Config) -> None:
        self.keys = Secrets(config.bearer)
        self.runs = Runs()
        self.library = RecordingLibrary(self.runs, config.folder, waits=config.waits)
        self.dropped = DroppedFiles(self.runs)
        self.link: Link
        self.stream: Stream
        super().__init__(
            title="nodescope",
            version=__version__,
            summary="Runs, graphs, values and exports of programs under nodescope.",
            docs_url=None,  # its page would load scripts from elsewhere
            redoc_url=None,
            openapi_url="/api/openapi.json",
            lifespan=_lifespan,
            # Nothing leaves this machine, whatever the environment configures for FastAPI.
            telemetry={"auto_configure": False, "tracing": False, "metrics": False, "logs": False},
        )
        self.guard = Guard(super().__call__, self.keys, config.port)

    async def farewell(self) -> None:
        """Send the outcome of the runs to the pages; then close their connections with 1012."""
        try:
            async with asyncio.timeout(FAREWELL_S):
                await asyncio.sleep(_LOOK_S)  # received messages are on their way to the link
                while self.link.finishing or not self.stream.is_up_to_date():
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            pass  # a slow page can read the rest from the recording
        self.stream.end()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await self.guard(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The description of the routes, with the Python types of their answers."""
        if self.openapi_schema is None:
            described = get_openapi(
                title=self.title, version=self.version, summary=self.summary, routes=self.routes
            )
            described.setdefault("components", {}).setdefault("schemas", {}).update(rest.schema())
            self.openapi_schema = described
        return self.openapi_schema


def create_app(config: Config) -> App:
    """The application; `App.keys.mint` creates the tokens of printed addresses."""
    app = App(config)
    link = app.link = Link(app.runs, lost_after_s=config.lost_after_s)
    stream = app.stream = Stream(app.runs, send_deadline_s=config.send_deadline_s)

    @app.websocket("/link")
    async def serve_link(socket: WebSocket) -> None:
        await link(socket)

    @app.websocket("/api/stream")
    async def serve_stream(socket: WebSocket) -> None:
        await stream(socket)

    app.include_router(rest.routes(app.runs, app.keys))
    app.include_router(compare.routes(app.runs))
    app.include_router(start_page.routes(app.runs, app.library, app.dropped))
    if (config.page / "index.html").is_file():
        app.mount("/", _Page(directory=config.page, html=True))
    else:

        @app.get("/", include_in_schema=False)
        async def index() -> Response:
            return not_built()

    app.add_exception_handler(NodescopeError, _on_nodescope_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(Exception, _on_fault)
    return app


class _Page(StaticFiles):
    """The built page. Files with a hash in their names never change."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        if scope["method"] not in ("GET", "HEAD"):
            raise HTTPException(405)
        response = await super().get_response(path, scope)
        hashed = path.startswith("assets/") and response.status_code in (200, 304)
        response.headers["Cache-Control"] = (
            "private, max-age=31536000, immutable" if hashed else "no-store"
        )
        return response


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    assert isinstance(app, App)
    yield
    app.library.close()
    try:
        async with asyncio.timeout(CLOSE_S):
            await app.runs.close()
    except TimeoutError:
        pass  # a long query is running; the files are only read, so nothing is lost
    app.dropped.close()


async def _on_nodescope_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, NodescopeError)
    status = 404 if isinstance(error, UnknownRunError | UnknownEntryError) else 409
    return Json(Problem(error.message, error.hint), status_code=status)


async def _on_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return Json(Problem(f"{place}: {first['msg']}", "see /api/openapi.json"), status_code=422)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "see /api/openapi.json" if error.status_code in (404, 405) else ""
    problem = Problem(str(error.detail), hint)
    return Json(problem, status_code=error.status_code, headers=error.headers)


async def _on_fault(request: Request, error: Exception) -> Response:
    if reason := refused(error):
        return Json(Problem(reason, "try again later"), status_code=503)
    return Json(Problem(f"nodescope failed here ({type(error).__name__})"), status_code=500)
