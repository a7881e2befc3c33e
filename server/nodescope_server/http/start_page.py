"""REST for the start page and the end of a run: recordings that can be opened, and run summaries.

Invariant: a recording is identified by its id in the list, never by a path; the name of an uploaded
file is only for display.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path as FilePath
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request

from nodescope.debug.report.run_summary import Summary, summarise_run
from nodescope.protocol import RunInfo
from nodescope.record.overview import log_size, outcome_of, still_runs
from nodescope_server.handlers.dropped_files import DroppedFiles
from nodescope_server.handlers.library import RecordingLibrary, Shelf
from nodescope_server.http.openapi import RunId, answers
from nodescope_server.http.pages import Json
from nodescope_server.runs.runs import Runs

EntryId = Annotated[str, Path(max_length=64, description="As the list gave it.")]


class OpenedRun(msgspec.Struct, frozen=True):
    """A recording that has been opened."""

    run: RunInfo


class DeletedRecording(msgspec.Struct, frozen=True):
    """A recording that has been deleted."""

    id: str


class CommandLine(msgspec.Struct, frozen=True):
    """A terminal command, and its description."""

    does: str
    line: str


class RunSummary(msgspec.Struct, frozen=True):
    """The summary of a run.

    Attributes:
        nbytes: Size of the recording and of its write-ahead log.
        commands: Terminal commands for the recording.
    """

    run: RunInfo
    nbytes: int
    commands: tuple[CommandLine, ...]
    summary: Summary


TYPES = (Shelf, OpenedRun, DeletedRecording, RunSummary)


def routes(runs: Runs, library: RecordingLibrary, dropped: DroppedFiles) -> APIRouter:
    """The routes for these runs and recordings."""
    api = APIRouter(prefix="/api")

    @api.get("/library", summary="Recordings that can be opened", **answers(Shelf))
    async def shelf() -> Json:
        return Json(await library.shelf())

    @api.post("/library", summary="Open a file that is sent", **answers(OpenedRun, 409))
    async def add(request: Request, name: Annotated[str, Query(max_length=1000)] = "") -> Json:
        return Json(OpenedRun(await dropped.add(name, request.stream())))

    @api.post("/library/{entry}/open", summary="Open a recording", **answers(OpenedRun, 404, 409))
    async def open_recording(entry: EntryId) -> Json:
        return Json(OpenedRun(await library.open(entry)))

    @api.delete(
        "/library/{entry}", summary="Delete a recording", **answers(DeletedRecording, 404, 409)
    )
    async def delete(entry: EntryId) -> Json:
        await library.delete(entry)
        return Json(DeletedRecording(entry))

    @api.get("/runs/{run}/summary", summary="A run in short", **answers(RunSummary, 404, 409))
    async def summary(run: RunId) -> Json:
        open_run = runs.get(run)
        info = open_run.info
        path = FilePath(info.recording)
        running = info.state == "live" or (
            info.state == "recorded" and still_runs(info, log_size(path))
        )
        summed = await open_run.study.call(
            lambda recording: summarise_run(recording, running=running, times=open_run.times)
        )
        return Json(RunSummary(info, _size(path), _commands(path), _as_told(summed, info)))

    return api


def _as_told(summary: Summary, info: RunInfo) -> Summary:
    """The summary with the outcome that the program reported, if a full disk kept that out of the
    recording.
    """
    if info.state != "finished" or summary.outcome != "killed":
        return summary
    outcome = outcome_of(info.status, info.error, running=False)
    return msgspec.structs.replace(summary, outcome=outcome, status=info.status, error=info.error)


def _size(path: FilePath) -> int:
    try:
        return path.stat().st_size + log_size(path)
    except OSError:
        return 0


def _commands(path: FilePath) -> tuple[CommandLine, ...]:
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the current folder is gone, or on another drive
        relative = ".."
    name = shlex.quote(str(path) if relative.startswith("..") else relative)
    return (
        CommandLine("open it again", f"nodescope open {name}"),
        CommandLine("the graph as a picture", f"nodescope export {name} -o graph.svg"),
        CommandLine("evaluate watches on it", f"nodescope check {name}"),
        CommandLine("compare with another run", f"nodescope compare {name} OTHER.nscope"),
    )
