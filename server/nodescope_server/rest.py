"""REST under ``/api``: runs, graphs, nodes, values, source, logs and exports, for programs.

Invariant: a GET changes nothing; what does not exist is a 404 that says what to look at instead.
The described types are the Python types themselves (`schema`).
"""

from __future__ import annotations

import io
import math
from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from nodescope import protocol
from nodescope.events import Array
from nodescope.ir.graph import Node, TensorSpec
from nodescope.protocol import RunInfo, SessionInfo
from nodescope.record.recording import Recording
from nodescope.record.rows import Dropped, Execution, GradientRow, LogRow, StepRow
from nodescope.record.summary import TensorSummary
from nodescope_server import __version__, comparing, starting, values, wire
from nodescope_server.answers import LARGEST, Id, RunId, answers
from nodescope_server.auth import Secrets
from nodescope_server.exports import Exports
from nodescope_server.pages import Json, Problem
from nodescope_server.runs import Run, Runs

Seq = Annotated[int | None, Query(ge=0, le=LARGEST, description="The moment; latest if left out.")]
Count = Annotated[int, Query(ge=1, le=20_000)]
Offset = Annotated[int, Query(ge=0, le=LARGEST)]


class Health(msgspec.Struct, frozen=True):
    """The server is there."""

    status: str
    version: str
    protocol: int


class RunList(msgspec.Struct, frozen=True):
    """All runs, in the order in which they came."""

    runs: tuple[RunInfo, ...]


class RunDetail(msgspec.Struct, frozen=True):
    """One run: how far it is recorded, its training steps, what was not kept."""

    run: RunInfo
    seq: int
    time_ns: int
    steps: tuple[StepRow, ...]
    dropped: Dropped
    session: SessionInfo | None


class RunGraph(msgspec.Struct, frozen=True):
    """The graph as it is known at ``seq``."""

    run: str
    seq: int
    nodes: tuple[Node, ...]
    values: tuple[wire.ProducedValue, ...]
    gradients: tuple[GradientRow, ...]


class NodeDetail(msgspec.Struct, frozen=True):
    """A node, the values on its ports, and its latest execution with how often it has run."""

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
    """As `wire.ValueSlice`; elements as rows, with "NaN", "Infinity" and "-Infinity" as text."""

    value: int
    found: bool
    seq: int
    step: int
    spec: TensorSpec | None
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
    """An address that lets one browser in, once."""

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
    *comparing.TYPES,
    *starting.TYPES,
)


def schema() -> dict[str, Any]:
    """The OpenAPI schemas of everything that the routes answer with, by name."""
    _, components = msgspec.json.schema_components(
        TYPES, ref_template="#/components/schemas/{name}"
    )
    return components


def _file(media: str, *others: int) -> dict[str, Any]:
    described = answers(Problem, *others)
    described["responses"][200] = {"description": "The file.", "content": {media: {}}}
    return {**described, "response_class": Response}


def routes(runs: Runs, keys: Secrets) -> APIRouter:
    """The routes over these runs."""
    api = APIRouter(prefix="/api")
    exports = Exports()

    @api.get("/health", summary="Whether the server is there", **answers(Health))
    async def health() -> Json:
        return Json(Health("ok", __version__, protocol.PROTOCOL_VERSION))

    @api.get("/runs", summary="All runs", **answers(RunList))
    async def list_runs() -> Json:
        return Json(RunList(runs.infos()))

    @api.get("/runs/{run}", summary="One run", **answers(RunDetail, 404, 409))
    async def run_detail(run: RunId) -> Json:
        found = runs.get(run)
        time_ns, steps, dropped = await found.query.call(
            lambda each: (each.time_ns(), tuple(each.steps()), each.dropped())
        )
        return Json(RunDetail(found.info, found.committed, time_ns, steps, dropped, found.session))

    @api.get("/runs/{run}/graph", summary="The graph", **answers(RunGraph, 404, 409))
    async def graph(run: RunId) -> Json:
        found = runs.get(run)
        return Json(await found.query.call(lambda each: _graph(each, run)))

    @api.get("/runs/{run}/nodes/{node}", summary="One node", **answers(NodeDetail, 404, 409))
    async def node_detail(run: RunId, node: Id) -> Json:
        detail = await runs.get(run).query.call(lambda each: _node(each, node))
        return Json(detail) if detail else _no_node(node)

    @api.get(
        "/runs/{run}/nodes/{node}/history",
        summary="The executions of one node",
        **answers(NodeHistory, 404, 409),
    )
    async def history(run: RunId, node: Id, until_seq: Seq = None, limit: Count = 500) -> Json:
        def ask(each: Recording) -> NodeHistory | None:
            if all(row.node.id != node for row in each.nodes()):
                return None
            total, rows, summaries = each.history(node, until_seq=until_seq, limit=limit)
            points = (
                wire.ValuePoint(row.seq, row.step, at.summary if at else None)
                for row, at in zip(rows, summaries, strict=True)
            )
            return NodeHistory(node, total, tuple(rows), tuple(points))

        answer = await runs.get(run).query.call(ask)
        return Json(answer) if answer else _no_node(node)

    @api.get(
        "/runs/{run}/values/{value}.npy",
        summary="A whole value as a NumPy file, bfloat16 as float32",
        **_file("application/octet-stream", 404, 409),
    )
    async def value_file(run: RunId, value: Id, seq: Seq = None) -> Response:
        array, reason = await values.whole(runs.get(run), value, seq)
        if array is None:
            return Json(Problem(f"value {value} is not available", reason), status_code=404)
        return _attachment(_npy(array), "application/octet-stream", f"{run}-value-{value}.npy")

    @api.get(
        "/runs/{run}/values/{value}",
        summary="A value at a moment, with a window of its elements",
        **answers(ValueWindow, 404, 409),
    )
    async def value_window(
        run: RunId,
        value: Id,
        seq: Seq = None,
        index: Annotated[list[int] | None, Query(description="Fixed leading axes.")] = None,
        row: Offset = 0,
        col: Offset = 0,
        rows: Count = 128,
        cols: Count = 128,
    ) -> Json:
        asked = wire.GetValue(run, value, seq, tuple(index or ()), row, col, rows, cols)
        found = await values.value_slice(runs.get(run), asked)
        if not found.found:
            return Json(Problem(f"there is no value {value} there", found.reason), 404)
        return Json(_window(found))

    @api.get("/runs/{run}/source", summary="A source file", **answers(wire.Source, 404, 409))
    async def source(run: RunId, file: Annotated[str, Query(max_length=4096)]) -> Json:
        text = await runs.get(run).query.call(lambda each: each.source(file))
        if text is None:
            hint = "files are named as the nodes' source locations name them"
            return Json(Problem("the recording has no such file", hint), status_code=404)
        return Json(wire.Source(file, text, True))

    @api.get("/runs/{run}/logs", summary="What the program wrote", **answers(LogPage, 404, 409))
    async def logs(run: RunId, after: Offset = 0, limit: Count = 2000) -> Json:
        rows = await runs.get(run).query.call(lambda each: each.logs(after)[:limit])
        return Json(LogPage(tuple(rows)))

    @api.get(
        "/runs/{run}/export.svg", summary="The graph as SVG", **_file("image/svg+xml", 404, 409)
    )
    async def export_svg(
        run: RunId, engine: Annotated[str, Query(pattern="^(page|dot)$")] = "page"
    ) -> Response:
        return await _export(exports, runs.get(run), "svg", engine)

    @api.get(
        "/runs/{run}/export.dot",
        summary="The graph for Graphviz",
        **_file("text/vnd.graphviz", 404, 409),
    )
    async def export_dot(run: RunId) -> Response:
        return await _export(exports, runs.get(run), "dot", "dot")

    @api.post(
        "/tokens",
        summary="A new address for one browser (programs only)",
        **answers(Token, 401, 403),
    )
    async def mint(request: Request) -> Json:
        host = request.headers["host"]  # exact: the guard has checked it
        return Json(Token(f"http://{host}/?token={keys.mint()}"))

    return api


def _graph(recording: Recording, run: str) -> RunGraph:
    nodes = {row.node.id: row.node for row in recording.nodes()}
    produced = {
        row.value.id: wire.ProducedValue(row.value, row.producer) for row in recording.values()
    }
    gradients = tuple(recording.gradients())
    return RunGraph(
        run, recording.last_seq(), tuple(nodes.values()), tuple(produced.values()), gradients
    )


def _node(recording: Recording, node_id: int) -> NodeDetail | None:
    graph = _graph(recording, "")
    node = next((each for each in graph.nodes if each.id == node_id), None)
    if node is None:
        return None
    by_id = {each.value.id: each for each in graph.values}
    latest, times = next(
        (each for each in recording.state_at(graph.seq) if each[0].node == node_id), (None, 0)
    )
    return NodeDetail(
        node,
        tuple(by_id[each] for each in node.inputs if each in by_id),
        tuple(by_id[each] for each in node.outputs if each in by_id),
        latest,
        times,
    )


def _window(found: wire.ValueSlice) -> ValueWindow:
    _, _, rows, cols = found.window
    table = np.frombuffer(found.data, "<f8").reshape(rows, cols).tolist() if found.data else []
    return ValueWindow(
        value=found.value,
        found=found.found,
        seq=found.seq,
        step=found.step,
        spec=found.spec,
        summary=found.summary,
        index=found.index,
        window=found.window,
        grid=found.grid,
        elements=tuple(tuple(_number(each) for each in row) for row in table),
        available=found.available,
        reason=found.reason,
    )


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _npy(array: Array) -> bytes:
    buffer = io.BytesIO()
    if array.dtype.kind == "V":  # the format has no word for bfloat16
        array = array.astype(np.float32)
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


async def _export(exports: Exports, run: Run, kind: str, engine: str) -> Response:
    data = await exports.render(run.info.recording, kind, engine)
    media = "image/svg+xml" if kind == "svg" else "text/vnd.graphviz"
    return _attachment(data, media, f"{run.info.id}.{kind}")


def _attachment(data: bytes, media: str, name: str) -> Response:
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=media, headers=disposition)


def _no_node(node: int) -> Json:
    return Json(Problem(f"there is no node {node}", "see the graph of the run"), status_code=404)
