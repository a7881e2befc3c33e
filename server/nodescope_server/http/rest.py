"""REST under ``/api``: runs, graphs, nodes, values, source, logs and exports, for programs.

Invariant: a GET changes nothing; a 404 says where to look instead. The described types are the
Python types themselves (`schema`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from nodescope import protocol
from nodescope.events import Array
from nodescope.export import Theme
from nodescope.export.folding import Expand
from nodescope.ir.graph import Node, OpaqueSpec, TensorSpec
from nodescope.protocol import RunInfo, SessionInfo
from nodescope.record.graphs import defined, end_of
from nodescope.record.recording import Recording
from nodescope.record.rows import MAX_SEQ, Dropped, Execution, GradientRow, LogRow, StepRow
from nodescope.record.summary import TensorSummary
from nodescope_server import __version__, wire
from nodescope_server.handlers import values
from nodescope_server.http import compare, start_page
from nodescope_server.http.exports import FORMATS, Exports, Selection
from nodescope_server.http.guard import Secrets
from nodescope_server.http.openapi import LARGEST, Id, RunId, answers
from nodescope_server.http.pages import Json, Problem
from nodescope_server.runs.runs import Run, Runs
from nodescope_server.wire.convert import shown_node

Seq = Annotated[int | None, Query(ge=0, le=LARGEST, description="The moment; latest if left out.")]
Step = Annotated[
    int | None,
    Query(
        ge=0, le=MAX_SEQ, description="As at the end of this training step; as last if left out."
    ),
]
Count = Annotated[int, Query(ge=1, le=20_000)]
Offset = Annotated[int, Query(ge=0, le=LARGEST)]


class Health(msgspec.Struct, frozen=True):
    """A sign of life from the server."""

    status: str
    version: str
    protocol: int


class RunList(msgspec.Struct, frozen=True):
    """All runs, in order of arrival."""

    runs: tuple[RunInfo, ...]


class RunDetail(msgspec.Struct, frozen=True):
    """A run, the seq up to which it is recorded, its training steps (a selection if there are more
    than 4,000), and its losses.
    """

    run: RunInfo
    seq: int
    time_ns: int
    steps: tuple[StepRow, ...]
    dropped: Dropped
    session: SessionInfo | None


class RunGraph(msgspec.Struct, frozen=True):
    """The graph as known at ``seq``."""

    run: str
    seq: int
    nodes: tuple[Node, ...]
    values: tuple[wire.ProducedValue, ...]
    gradients: tuple[GradientRow, ...]


class NodeDetail(msgspec.Struct, frozen=True):
    """A node, the values on its ports, and its latest execution with the number of executions."""

    node: Node
    inputs: tuple[wire.ProducedValue, ...]
    outputs: tuple[wire.ProducedValue, ...]
    latest: Execution | None
    times: int


class NodeHistory(msgspec.Struct, frozen=True):
    """Executions of a node, oldest first; ``total`` before thinning."""

    node: int
    total: int
    executions: tuple[Execution, ...]
    points: tuple[wire.ValuePoint, ...]


class ValueWindow(msgspec.Struct, frozen=True):
    """Like `wire.ValueSlice`; elements as rows, with "NaN", "Infinity" and "-Infinity" as text."""

    value: int
    found: bool
    seq: int
    step: int
    spec: TensorSpec | OpaqueSpec | None
    summary: TensorSummary | None
    index: tuple[int, ...]
    window: tuple[int, int, int, int]
    grid: tuple[int, int]
    elements: tuple[tuple[float | str, ...], ...]
    available: bool
    reason: str


class LogPage(msgspec.Struct, frozen=True):
    """The first lines after a seq; the next page begins after the last line's seq."""

    logs: tuple[LogRow, ...]


class Token(msgspec.Struct, frozen=True):
    """An address that admits one browser, once."""

    url: str


TYPES = (
    Health,
    RunList,
    RunDetail,
    RunGraph,
    NodeDetail,
    NodeHistory,
    ValueWindow,
    wire.Source,
    LogPage,
    Token,
    Problem,
    *compare.TYPES,
    *start_page.TYPES,
)


def schema() -> dict[str, Any]:
    """The OpenAPI schemas of all answers, by name."""
    _, components = msgspec.json.schema_components(
        TYPES, ref_template="#/components/schemas/{name}"
    )
    return components


def _file(media: str, *statuses: int) -> dict[str, Any]:
    described = answers(Problem, *statuses)
    described["responses"][200] = {"description": "The file.", "content": {media: {}}}
    return {**described, "response_class": Response}


class _Handlers:
    """The handlers of the routes, on the runs of this server."""

    def __init__(self, runs: Runs, keys: Secrets) -> None:
        self._runs = runs
        self._keys = keys
        self._exports = Exports()

    async def health(self) -> Json:
        return Json(Health("ok", __version__, protocol.PROTOCOL_VERSION))

    async def list_runs(self) -> Json:
        return Json(RunList(self._runs.infos()))

    async def run_detail(self, run: RunId) -> Json:
        open_run = self._runs.get(run)
        time_ns, steps, dropped = await open_run.query.call(
            lambda recording: (
                recording.time_ns(),
                tuple(recording.step_table.some(MAX_SEQ)),
                recording.dropped(),
            )
        )
        return Json(
            RunDetail(open_run.info, open_run.committed, time_ns, steps, dropped, open_run.session)
        )

    async def graph(
        self,
        run: RunId,
        step: Step = None,
    ) -> Json:
        open_run = self._runs.get(run)
        return Json(await open_run.query.call(lambda recording: _graph(recording, run, step)))

    async def node_detail(self, run: RunId, node: Id) -> Json:
        detail = await self._runs.get(run).query.call(lambda recording: _node(recording, node))
        return Json(detail) if detail else _no_node(node)

    async def history(
        self, run: RunId, node: Id, until_seq: Seq = None, limit: Count = 500
    ) -> Json:
        def ask(recording: Recording) -> NodeHistory | None:
            if all(row.node.id != node for row in recording.nodes()):
                return None
            total, rows, summaries = recording.history(node, until_seq=until_seq, limit=limit)
            points = (
                wire.ValuePoint(row.seq, row.step, at.summary if at else None)
                for row, at in zip(rows, summaries, strict=True)
            )
            return NodeHistory(node, total, tuple(rows), tuple(points))

        answer = await self._runs.get(run).query.call(ask)
        return Json(answer) if answer else _no_node(node)

    async def value_file(self, run: RunId, value: Id, seq: Seq = None) -> Response:
        array, reason = await values.whole(self._runs.get(run), value, seq)
        if array is None:
            return Json(Problem(f"value {value} is not available", reason), status_code=404)
        return _attachment(_npy(array), "application/octet-stream", f"{run}-value-{value}.npy")

    async def value_window(
        self,
        run: RunId,
        value: Id,
        seq: Seq = None,
        index: Annotated[list[int] | None, Query(description="Fixed leading axes.")] = None,
        row: Offset = 0,
        col: Offset = 0,
        rows: Count = 128,
        cols: Count = 128,
    ) -> Json:
        query = wire.GetValue(run, value, seq, tuple(index or ()), row, col, rows, cols)
        value_slice = await values.value_slice(self._runs.get(run), query)
        if not value_slice.found:
            return Json(Problem(f"there is no value {value} there", value_slice.reason), 404)
        return Json(_window(value_slice))

    async def source(self, run: RunId, file: Annotated[str, Query(max_length=4096)]) -> Json:
        text = await self._runs.get(run).query.call(lambda recording: recording.source(file))
        if text is None:
            hint = "files are named as the nodes' source locations name them"
            return Json(Problem("the recording has no such file", hint), status_code=404)
        return Json(wire.Source(file, text, True))

    async def logs(self, run: RunId, after: Offset = 0, limit: Count = 2000) -> Json:
        rows = await self._runs.get(run).query.call(lambda recording: recording.logs(after)[:limit])
        return Json(LogPage(tuple(rows)))

    async def export_svg(
        self,
        run: RunId,
        engine: Annotated[str, Query(pattern="^(page|dot)$")] = "page",
        step: Step = None,
    ) -> Response:
        selection = Selection(engine, step)
        return await _export(self._exports, self._runs.get(run), "svg", selection)

    async def export_dot(self, run: RunId, step: Step = None) -> Response:
        return await _export(self._exports, self._runs.get(run), "dot", Selection("dot", step))

    async def export(
        self,
        run: RunId,
        form: Annotated[str, Path(pattern=f"^({'|'.join(FORMATS)})$")],
        engine: Annotated[str, Query(pattern="^(page|dot)$")] = "page",
        step: Step = None,
        theme: Annotated[str, Query(pattern="^(light|dark)$")] = "light",
        expand: Annotated[
            str,
            Query(pattern="^(fit|all|listed|[0-9]{1,3})$", description="Levels; listed: open."),
        ] = "fit",
        scope: Annotated[str, Query(max_length=4096)] = "",
        open: Annotated[list[str] | None, Query(description="Paths of open scopes.")] = None,
    ) -> Response:
        levels: Expand = "all" if expand == "all" else "fit"
        if expand == "listed":
            levels = frozenset(path.replace("\0", "") for path in open or ())
        elif expand.isdecimal():
            levels = int(expand)
        shade: Theme = "dark" if theme == "dark" else "light"
        selection = Selection(engine, step, shade, levels, scope.replace("\0", ""))
        return await _export(self._exports, self._runs.get(run), form, selection)

    async def mint(self, request: Request) -> Json:
        host = request.headers["host"]  # exact: the guard has checked it
        return Json(Token(f"http://{host}/?token={self._keys.mint()}"))


class Route(NamedTuple):
    """A route under ``/api``.

    Attributes:
        verb: ``GET`` or ``POST``.
        path: The path, with its parameters in braces.
        handler: A method of the handlers; its parameters are the route's.
        summary: A summary for the interface description.
        described: The answers, in FastAPI's form.
    """

    verb: str
    path: str
    handler: Callable[..., Awaitable[Response]]
    summary: str
    described: dict[str, Any]


ROUTES: Final = (
    Route("GET", "/health", _Handlers.health, "Whether the server is there", answers(Health)),
    Route("GET", "/runs", _Handlers.list_runs, "All runs", answers(RunList)),
    Route("GET", "/runs/{run}", _Handlers.run_detail, "One run", answers(RunDetail, 404, 409)),
    Route("GET", "/runs/{run}/graph", _Handlers.graph, "The graph", answers(RunGraph, 404, 409)),
    Route(
        "GET",
        "/runs/{run}/nodes/{node}",
        _Handlers.node_detail,
        "One node",
        answers(NodeDetail, 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/nodes/{node}/history",
        _Handlers.history,
        "The executions of one node",
        answers(NodeHistory, 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/values/{value}.npy",
        _Handlers.value_file,
        "A whole value as a NumPy file, bfloat16 as float32",
        _file("application/octet-stream", 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/values/{value}",
        _Handlers.value_window,
        "A value at a moment, with a window of its elements",
        answers(ValueWindow, 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/source",
        _Handlers.source,
        "A source file",
        answers(wire.Source, 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/logs",
        _Handlers.logs,
        "What the program wrote",
        answers(LogPage, 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/export.svg",
        _Handlers.export_svg,
        "The graph as SVG",
        _file("image/svg+xml", 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/export.dot",
        _Handlers.export_dot,
        "The graph for Graphviz",
        _file("text/vnd.graphviz", 404, 409),
    ),
    Route(
        "GET",
        "/runs/{run}/export/{form}",
        _Handlers.export,
        "The graph in another format",
        _file("application/octet-stream", 404, 409),
    ),
    Route(
        "POST",
        "/tokens",
        _Handlers.mint,
        "A new address for one browser (programs only)",
        answers(Token, 401, 403),
    ),
)


def routes(runs: Runs, keys: Secrets) -> APIRouter:
    """The routes for these runs."""
    api = APIRouter(prefix="/api")
    handlers = _Handlers(runs, keys)
    for route in ROUTES:
        api.add_api_route(
            route.path, getattr(handlers, route.handler.__name__), methods=[route.verb],
            summary=route.summary, **route.described,
        )  # fmt: skip
    return api


def _graph(recording: Recording, run: str, step: int | None = None) -> RunGraph:
    until = recording.last_seq()
    if step is not None:
        until = min(until, end_of(recording, step))
    nodes, rows = defined(recording, until)
    produced = tuple(wire.ProducedValue(row.value, row.producer) for row in rows)
    gradients = tuple(gradient for gradient in recording.gradients() if gradient.seq <= until)
    return RunGraph(run, until, tuple(map(shown_node, nodes)), produced, gradients)


def _node(recording: Recording, node_id: int) -> NodeDetail | None:
    graph = _graph(recording, "")
    node = next((candidate for candidate in graph.nodes if candidate.id == node_id), None)
    if node is None:
        return None
    by_id = {produced.value.id: produced for produced in graph.values}
    latest, times = next(
        (state for state in recording.state_at(graph.seq) if state[0].node == node_id), (None, 0)
    )
    return NodeDetail(
        node,
        tuple(by_id[value] for value in node.inputs if value in by_id),
        tuple(by_id[value] for value in node.outputs if value in by_id),
        latest,
        times,
    )


def _window(value_slice: wire.ValueSlice) -> ValueWindow:
    _, _, rows, cols = value_slice.window
    table = (
        np.frombuffer(value_slice.data, "<f8").reshape(rows, cols).tolist()
        if value_slice.data
        else []
    )
    return ValueWindow(
        value=value_slice.value,
        found=value_slice.found,
        seq=value_slice.seq,
        step=value_slice.step,
        spec=value_slice.spec,
        summary=value_slice.summary,
        index=value_slice.index,
        window=value_slice.window,
        grid=value_slice.grid,
        elements=tuple(tuple(_number(element) for element in row) for row in table),
        available=value_slice.available,
        reason=value_slice.reason,
    )


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    if array.dtype.kind == "V":  # the format has no type for bfloat16
        array = array.astype(np.float32)
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


async def _export(exports: Exports, run: Run, kind: str, selection: Selection) -> Response:
    data = await exports.render(run.info.recording, kind, selection)
    suffix, media = FORMATS[kind]
    step = "" if selection.step is None else f"-step-{selection.step}"
    return _attachment(data, media, f"{run.info.id}{step}{suffix}")


def _attachment(data: bytes, media: str, name: str) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=media, headers=disposition)


def _no_node(node: int) -> Json:
    return Json(Problem(f"there is no node {node}", "see the graph of the run"), status_code=404)
