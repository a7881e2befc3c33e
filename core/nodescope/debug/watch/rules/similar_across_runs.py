"""SageMaker's SimilarAcrossRuns: values of this run compared with a recording."""

from __future__ import annotations

import math

import numpy as np

from nodescope.console_output import index_text, shape_words
from nodescope.debug.watch import register
from nodescope.debug.watch.measures import first_true
from nodescope.debug.watch.observation import MissingData, Sight, numbers
from nodescope.debug.watch.rule import Finding, Look, Rule, Settings, WatchError, number, text
from nodescope.errors import RecordingError
from nodescope.events import Array
from nodescope.record.recording import Recording
from nodescope.record.summary import TensorSummary

_STATISTICS = ("min", "max", "mean")
_PAGE = 64


class _Other:
    """The other run, read forwards, separately for each node."""

    def __init__(self, path: str) -> None:
        try:
            self.recording = Recording.open(path)
        except RecordingError as error:
            raise WatchError(f"other_trial: {error.message}", hint=error.hint) from None
        self.nodes = {row.node.name: row.node for row in self.recording.nodes()}
        self.runs: dict[str, dict[int, int]] = {}
        self.read: dict[str, int] = {}

    def seq(self, name: str, step: int) -> int | None:
        """The seq of a node's first execution in a step of the other run; None if there is none."""
        runs = self.runs.setdefault(name, {})
        while step not in runs:
            if max(runs, default=0) > step:
                return None  # the page already goes beyond the step; later steps need it
            executions = self.recording.executions(
                self.read.get(name, 0), node=self.nodes[name].id, limit=_PAGE
            )
            if not executions:
                return None
            # Keep only the last page, since both runs are read forwards.
            runs.clear()
            for execution in executions:
                runs.setdefault(execution.step, execution.seq)
            self.read[name] = executions[-1].seq
        return runs[step]


def _reshaped(shape: tuple[int, ...], other_shape: tuple[int, ...]) -> Finding:
    return Finding(
        f"its shape is {shape_words(shape)} but {shape_words(other_shape)} in the other run"
    )


def _apart(a: Array, b: Array, settings: Settings) -> Finding | None:
    if a.shape != b.shape:
        return _reshaped(a.shape, b.shape)
    elements, other_elements = numbers(a), numbers(b)
    differ = ~np.isclose(
        elements, other_elements, rtol=settings["rtol"], atol=settings["atol"], equal_nan=True
    )  # fmt: skip
    different = int(np.count_nonzero(differ))
    if not different:
        return None
    index = first_true(differ)
    place = f", first at {index_text(index)}" if index else ""
    of = f"{different} of {a.size} elements differ" if a.size > 1 else "it differs"
    here, there = elements[index], other_elements[index]
    return Finding(
        f"{of} from the other run{place}: {here:.6g} here, {there:.6g} there",
        {"different": different},
    )


def _apart_by_summary(a: TensorSummary, b: TensorSummary, settings: Settings) -> Finding | None:
    if a.spec.shape != b.spec.shape:
        return _reshaped(a.spec.shape, b.spec.shape)
    if (a.nan_count, a.inf_count) != (b.nan_count, b.inf_count):
        return Finding("its number of NaN or Inf elements differs from the other run's")
    largest = max(abs(b.min or 0.0), abs(b.max or 0.0))
    bound = settings["atol"] + settings["rtol"] * largest
    for name in _STATISTICS:
        number, other_number = getattr(a, name), getattr(b, name)
        if (
            number is not None
            and other_number is not None
            and abs(number - other_number) > bound * (1 + 1e-6)
        ):
            return Finding(
                f"its {name} is {number:.6g}, but {other_number:.6g} in the other run",
                {name: number},
            )
    if not math.prod(a.spec.shape):
        return None
    raise MissingData(
        "the statistics agree with the other run's, but one of the arrays was not kept"
    )


def _begin(settings: Settings) -> Look:
    other = _Other(settings["other_trial"])

    def look(sight: Sight) -> Finding | None:
        node = other.nodes.get(sight.node.name)
        if node is None or sight.port >= len(node.outputs):
            raise MissingData("the other run has no such node")
        seq = other.seq(node.name, sight.step)
        if seq is None:
            raise MissingData("the other run has no such step")
        value = node.outputs[sight.port]
        array, other_array = sight.array_or_none, other.recording.array(value, seq)
        if array is not None and other_array is not None:
            return _apart(array, other_array, settings)
        recorded = other.recording.latest_at(value, seq)
        if recorded is None or recorded.seq != seq:
            raise MissingData("the other run has no statistics of the value")
        return _apart_by_summary(sight.summary, recorded.summary, settings)

    return look


register(
    Rule(
        "similar_across_runs",
        "a value differs from that of the same node and step in another recording",
        _begin,
        needs=frozenset({"summary", "values"}),
        parameters=(
            text("other_trial", None, "path of the other recording", required=True),
            number("rtol", 1e-5, "relative tolerance", low=0),
            number("atol", 1e-8, "absolute tolerance", low=0),
        ),
        origin="SageMaker",
        aliases=("SimilarAcrossRuns",),
    )
)
