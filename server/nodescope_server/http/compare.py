"""Compiled functions and comparisons of two runs, under ``/api``.

Invariant: a comparison reads both recordings through separate connections, in a thread, so that
neither run's pages wait for it; an answer is cached as long as neither recording grows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Annotated, TypeVar

import msgspec
from fastapi import APIRouter, Query

from nodescope.compare.provenance import Stage, stages, with_origins
from nodescope.compare.result import Comparison, ErrorHistory, compare, history
from nodescope.errors import RecordingError
from nodescope.ir.graph import Graph
from nodescope.record.compiled_functions import CompiledFunction, functions, shown
from nodescope.record.recording import Recording
from nodescope_server.http.openapi import Id, RunId, answers
from nodescope_server.http.pages import Json, Problem
from nodescope_server.runs.runs import Run, Runs

T = TypeVar("T")

_KEPT = 4

Side = Annotated[str, Query(description="Id of the run, 16 hexadecimal digits.")]


class FunctionInfo(msgspec.Struct, frozen=True):
    """One trace of a compiled function and the stages of its compilation."""

    owner: str
    backend: str
    fallback: str
    compile_ns: int
    stages: tuple[Stage, ...]


class FunctionList(msgspec.Struct, frozen=True):
    """The compiled functions of a run, in the order in which they were traced."""

    functions: tuple[FunctionInfo, ...]


class CapturedStage(msgspec.Struct, frozen=True):
    """A captured graph; ``origin`` of each node lists the traced nodes that it replaces."""

    owner: str
    stage: str
    graph: Graph


TYPES = (Comparison, ErrorHistory, FunctionList, CapturedStage)


def routes(runs: Runs) -> APIRouter:
    """The routes over these runs."""
    api = APIRouter(prefix="/api")
    tasks: OrderedDict[tuple[object, ...], asyncio.Task[Json]] = OrderedDict()

    @api.get(
        "/compare",
        summary="An eager run beside a compiled one: fates, errors, times",
        **answers(Comparison, 404, 409),
    )
    async def comparison(eager: Side, compiled: Side) -> Json:
        left, right = runs.get(eager), runs.get(compiled)
        key = (eager, left.committed, compiled, right.committed)
        task = tasks.get(key)
        if task is None or (task.done() and task.exception() is not None):
            task = asyncio.ensure_future(_both(left, right, lambda a, b: Json(compare(a, b))))
            tasks[key] = task
            while len(tasks) > _KEPT:
                tasks.popitem(last=False)
        # A page that disconnects does not cancel the answer for the other pages.
        return await asyncio.shield(task)

    @api.get(
        "/compare/history",
        summary="The errors of one traced node's value, step by step",
        **answers(ErrorHistory, 404, 409),
    )
    async def node_history(
        eager: Side,
        compiled: Side,
        owner: Annotated[str, Query(max_length=20_000)],
        node: Annotated[int, Query(ge=0)],
    ) -> Json:
        left, right = runs.get(eager), runs.get(compiled)
        return Json(await _both(left, right, lambda a, b: history(a, b, owner, node)))

    @api.get(
        "/runs/{run}/functions",
        summary="Compiled functions and the passes over them",
        **answers(FunctionList, 404, 409),
    )
    async def list_functions(run: RunId) -> Json:
        return Json(await runs.get(run).query.call(_functions))

    @api.get(
        "/runs/{run}/captured/{graph}",
        summary="A graph of a compiled function, at one stage",
        **answers(CapturedStage, 404, 409),
    )
    async def captured(run: RunId, graph: Id) -> Json:
        stage = await runs.get(run).query.call(lambda recording: _captured(recording, graph))
        if stage is None:
            hint = "see the stages of the run's functions"
            return Json(Problem(f"there is no captured graph {graph}", hint), status_code=404)
        return Json(stage)

    return api


async def _both(left: Run, right: Run, question: Callable[[Recording, Recording], T]) -> T:
    for run in (left, right):
        if not run.info.recording:
            raise RecordingError(f"the run {run.info.name} has no recording")

    def ask() -> T:
        with (
            contextlib.closing(Recording.open(FilePath(left.info.recording))) as eager,
            contextlib.closing(Recording.open(FilePath(right.info.recording))) as compiled,
        ):
            return question(eager, compiled)

    return await asyncio.to_thread(ask)


def _functions(recording: Recording) -> FunctionList:
    def info(function: CompiledFunction) -> FunctionInfo:
        compiled = function.compiled
        return FunctionInfo(
            function.owner,
            compiled.backend,
            compiled.fallback,
            compiled.compile_ns,
            stages(function),
        )

    return FunctionList(tuple(map(info, functions(recording))))


def _captured(recording: Recording, graph: int) -> CapturedStage | None:
    for function in functions(recording):
        captured_graph = with_origins(function, graph)
        if captured_graph is not None:
            stage = next(name for name, candidate in function.graphs if candidate.id == graph)
            return CapturedStage(function.owner, stage, shown(captured_graph))
    return None
