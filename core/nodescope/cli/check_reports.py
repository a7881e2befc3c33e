"""Reports of `nodescope check` as text, JSON and JUnit XML.

Invariant: the texts depend on the report alone. The XML is well-formed whatever names contain.
"""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import msgspec

from nodescope.debug.report.advice import lines as advice_lines
from nodescope.debug.watch.check_verdicts import CheckReport, VerdictHit, WatchVerdict
from nodescope.record.rows import Dropped

MOST_SHOWN: Final = 3
_VERSION: Final = 1
_STEPS: Final = (
    "steps: the program marks none, and some watches need several; write its training loop as "
    "`for batch in ns.steps(batches):`"
)
_SIGNS: Final = {"clean": "ok", "hit": "HIT", "unasked": "-", "failed": "FAILED"}
# Characters that XML 1.0 cannot hold, escaped or not.
_UNFIT: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def words(report: CheckReport, home: Path | None = None) -> str:
    """The report as text for people; paths below ``home`` are relative to it."""
    hits = [verdict for verdict in report.having("hit") if not verdict.cause]
    steps = f"{report.steps} step{'s'[: report.steps != 1]}"
    ended = "" if report.status is None else f" ended with status {report.status},"
    watch_count = len(report.verdicts)
    unasked = len(report.having("unasked"))
    lines = [
        f"{report.program}{ended} {steps}: {watch_count} watch{'es'[: 2 * (watch_count != 1)]}, "
        f"{len(hits) or 'none'} with hits" + (f", {unasked} not evaluated" if unasked else "")
    ]
    if report.error:
        lines.append(f"the program failed: {report.error}")
    width = max((len(_SIGNS[verdict.state]) for verdict in report.verdicts), default=0)
    for verdict in report.verdicts:
        if not verdict.cause:
            lines += _lines(verdict, width)
            lines += _following(verdict, report, width)
    if report.vacuous:
        reason = (
            " (the recording holds only timings)" if report.level in ("timing", "graph") else ""
        )
        none = (
            "no watch could be evaluated"
            if watch_count
            else "no watch applies to anything it computed"
        )
        if not report.nodes:
            none = "the program computed nothing with nodescope's tensors"
        lines.append(f"nothing was checked: {none}{reason}")
        if report.advice is not None:
            lines += advice_lines(report.advice)
    short = " ".join(text for verdict in report.verdicts for text in verdict.short)
    if not report.steps and re.search(r"needs \d+ steps, had [01]\b", short):
        lines.append(_STEPS)
    if lost := Dropped(**report.lost).words:
        lines.append(f"not recorded: {lost}")
    if report.kept:
        lines.append(f"kept: {report.kept}")
    if report.recording:
        file = Path(report.recording)
        inside = home is not None and file.is_relative_to(home)
        shown_path = str(file.relative_to(home) if home is not None and inside else file)
        lines.append(f"recording: {shown_path}")
        open_hits = [verdict for verdict in hits if not verdict.explained]
        first = [verdict.found[0].target for verdict in (*open_hits, *hits)[:1]]
        for target in dict.fromkeys(filter(None, (report.raised, *first))):
            lines.append(f"next: nodescope why {_shell(shown_path)} {_shell(target)}")
    return "\n".join(lines) + "\n"


def _lines(verdict: WatchVerdict, width: int) -> list[str]:
    head = f"{_SIGNS[verdict.state]:<{width}}  {verdict.watch}"
    pad = " " * (width + 4)
    if verdict.state == "unasked":
        return [f"{head}: {verdict.caveat}"]
    count = verdict.hits
    lines = [head if not count else f"{head}: {count:,} hit{'s'[: count != 1]}"]
    listed = verdict.found[:MOST_SHOWN]
    lines += [f"{pad}{finding.text}{_until(finding)}" for finding in listed]
    others = sum(finding.times for finding in verdict.found[MOST_SHOWN:])
    if others:
        values = len(verdict.found) - len(listed)
        lines.append(f"{pad}and {others:,} more, of {values} value{'s'[: values > 1]}")
    lines += [f"{pad}{text}" for text in (verdict.caveat, verdict.note) if text]
    return lines


def _following(verdict: WatchVerdict, report: CheckReport, width: int) -> list[str]:
    """The verdicts that follow from a verdict, a line each."""
    lines = []
    for other in report.having("hit"):
        if other.cause == verdict.watch and other is not verdict:
            first, more = other.found[0], len(other.found) - 1
            also = f", and {more} more value{'s'[: more > 1]}" if more else ""
            lines.append(f"{' ' * (width + 2)}from it: {other.rule}: {first.text}{also}")
    return lines


def _until(finding: VerdictHit) -> str:
    """How often a value had a hit, and until which step."""
    if finding.times < 2:
        return ""
    return f" ({finding.times:,} times, last in step {finding.last_step})"


def _shell(text: str) -> str:
    return text if re.fullmatch(r"[\w./@:=+-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def json_text(report: CheckReport) -> bytes:
    """The report as JSON. A number that is not finite is null."""
    document = {"version": _VERSION, **msgspec.to_builtins(report)}
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def junit_text(report: CheckReport) -> bytes:
    """The report as JUnit XML: one test case per watch, and one more if the program failed."""
    crashed = bool(report.status)
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", {
        "id": "0",
        "name": _fit(report.program),
        "package": "nodescope",
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(report.started_unix_ns / 1e9)),
        "hostname": "localhost",
        "tests": str(len(report.verdicts) + crashed + report.vacuous),
        "failures": str(len(report.having("hit"))),
        "errors": str(len(report.having("failed")) + crashed + report.vacuous),
        "skipped": str(len(report.having("unasked"))),
        "time": f"{report.time_ns / 1e9:.3f}",
    })  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("command", " ".join(report.argv)), ("recording", report.recording),
        ("level", report.level), ("steps", str(report.steps)),
    ):  # fmt: skip
        ET.SubElement(properties, "property", {"name": name, "value": _fit(value)})
    for verdict in report.verdicts:
        _case(suite, report, verdict)
    if report.vacuous:
        case = _named(suite, report, "something was checked")
        message = report.advice.headline if report.advice else "no watch could be evaluated"
        ET.SubElement(case, "error", {"message": _fit(message), "type": "nothing"})
    if crashed:
        case = _named(suite, report, "the program's exit status")
        crash = f"status {report.status}{f': {report.error}' if report.error else ''}"
        ET.SubElement(case, "error", {"message": _fit(crash), "type": "status"})
    ET.SubElement(suite, "system-out").text = _fit(words(report))
    ET.SubElement(suite, "system-err")
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _case(suite: ET.Element, report: CheckReport, verdict: WatchVerdict) -> None:
    case = _named(suite, report, verdict.watch)
    if verdict.state == "hit":
        text = "\n".join(f"{finding.text}{_until(finding)}" for finding in verdict.found)
        ET.SubElement(
            case, "failure", {"message": _fit(verdict.found[0].text), "type": verdict.rule}
        ).text = _fit(text)
    elif verdict.state == "failed":
        ET.SubElement(case, "error", {"message": _fit(verdict.caveat), "type": verdict.rule})
    elif verdict.state == "unasked":
        ET.SubElement(case, "skipped", {"message": _fit(verdict.caveat)})


def _named(suite: ET.Element, report: CheckReport, name: str) -> ET.Element:
    stem = Path(report.program).stem or "program"
    return ET.SubElement(
        suite, "testcase", {"classname": f"nodescope.{_fit(stem)}", "name": _fit(name), "time": "0"}
    )


def _fit(text: str) -> str:
    return _UNFIT.sub("\ufffd", text)
