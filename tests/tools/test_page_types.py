"""The generated TypeScript types are complete, deterministic and current."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import msgspec
import pytest

from nodescope import protocol
from nodescope.record import rows
from nodescope_server import wire
from tools import page_types
from tools.generated import ROOT


def interface(text: str, name: str) -> str:
    match = re.search(rf"export interface {name} \{{\n(.*?)\n\}}", text, re.DOTALL)
    assert match, f"{name} is missing"
    return match.group(1)


def test_the_committed_file_is_current() -> None:
    assert page_types.main([]) == 0


@pytest.mark.deep
def test_output_does_not_depend_on_hash_order() -> None:
    outputs = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from tools import page_types; print(page_types.generate())",
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Request", "readonly body: RequestBody;"),
        ("GetValue", "readonly seq?: number | null;"),  # Only the page sends this message.
        ("GetValue", "readonly index?: readonly number[];"),
        ("Breakpoint", "readonly condition: string;"),  # The server sends it too.
        ("ValueSlice", 'readonly type: "value_slice";'),
        ("ValueSlice", "readonly window: readonly [number, number, number, number];"),
        ("ValueSlice", "readonly summary: TensorSummary | null;"),
        ("ExecutionColumns", "readonly seq: Uint8Array;"),
        ("Node", "readonly attrs: Readonly<Record<string, unknown>>;"),
        ("Node", "readonly phase: Phase;"),
        ("RunInfo", 'readonly state: "live" | "finished" | "lost" | "recorded";'),
        ("Control", "readonly command: Command;"),
        ("ComparedFunction", "readonly fates: Readonly<Partial<Record<FateKind, number>>>;"),
        ("ComparedFunction", "readonly memory: MemoryReport | null;"),
        ("Kernel", "readonly cost: KernelCost | null;"),
    ],
)
def test_a_field_becomes(name: str, line: str) -> None:
    assert line in interface(page_types.generate(), name)


def test_every_message_is_there_and_every_name_that_is_used_is_defined() -> None:
    text = page_types.generate()
    for union in (wire.RequestBody, wire.ResponseBody, wire.Push, protocol.Command):
        for struct in union.__args__:
            assert f"type: {msgspec.json.encode(struct.__struct_config__.tag).decode()}" in (
                interface(text, struct.__name__)
            )
    code = re.sub(r"/\*\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    code = re.sub(r'"[^"]*"', "", code)
    used = set(re.findall(r"\b[A-Z][a-z]\w*\b", code)) - {
        "Partial",
        "Readonly",
        "Record",
        "Uint8Array",
    }
    defined = set(re.findall(r"export (?:interface|type) (\w+)", code))
    assert used == defined


def test_flags_are_exported() -> None:
    text = page_types.generate()
    for name in ("HAS_NAN", "HAS_INF", "FAILED", "HAS_SUMMARY"):
        assert f"export const {name} = {getattr(rows, name)};" in text
    assert f"export const PROTOCOL_VERSION = {protocol.PROTOCOL_VERSION};" in text


def test_a_type_without_translation_is_refused() -> None:
    with pytest.raises(TypeError, match="extend page_types"):
        page_types._type(set[int])
