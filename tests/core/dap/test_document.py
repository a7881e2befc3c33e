"""docs/dap.md and the sample configuration are correct."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from nodescope.dap.attaching import Attach
from nodescope.dap.launching import Launch, launch_of
from tests.core.dap.editors import Editor

ROOT = Path(__file__).resolve().parents[3]
EDITORS = ("name", "type", "request", "debugServer")
TEXT = (ROOT / "docs" / "dap.md").read_text()


def test_each_attribute_of_a_launch_is_reported():
    table = TEXT[TEXT.index("## Launching") : TEXT.index("The program has no standard input")]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == list(Launch.__struct_encode_fields__)


def attached_by(configuration: dict[str, object]) -> set[str]:
    """The attributes of an attaching configuration, which are nodescope's or the editor's."""
    known = {*(field.encode_name for field in msgspec.structs.fields(Attach)), *EDITORS}
    assert set(configuration) <= known
    return set(configuration)


def test_each_attribute_of_an_attachment_is_reported():
    table = TEXT[TEXT.index("## Attaching") : TEXT.index("The program keeps its own terminal")]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == list(Attach.__struct_encode_fields__)


def test_the_sample_launches_a_sample(tmp_path):
    text = (ROOT / "samples" / ".vscode" / "launch.json").read_text()
    result, other = json.loads(text)["configurations"]
    assert result["type"] == other["type"] == "nodescope"
    assert attached_by(other) == {"cwd", *EDITORS}
    script = ROOT / "samples" / "linear_regression.py"
    answered = {**result, "program": str(script), "cwd": str(tmp_path)}
    assert launch_of(answered).stop_on_entry
    with Editor(tmp_path) as editor:
        editor.initialize()
        editor.ask("launch", **answered)
        editor.event("initialized")
        editor.configured()
        assert editor.event("stopped")["reason"] == "entry"
        assert editor.top()["source"]["path"] == str(script)


def test_configurations_are_json_and_match_the_sample():
    shown, extension = map(json.loads, re.findall(r"```json\n(.*?)```", TEXT, re.S))
    text = (ROOT / "samples" / ".vscode" / "launch.json").read_text()
    sample = json.loads(text)["configurations"][0]
    assert {key: sample[key] for key in shown} == shown
    (debugger,) = extension["contributes"]["debuggers"]
    assert debugger["type"] == shown["type"]


def test_links_lead_somewhere():
    for link in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (ROOT / "docs" / link).exists()
