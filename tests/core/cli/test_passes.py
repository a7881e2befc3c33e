"""The command that lists the compiler's passes."""

from __future__ import annotations

from nodescope import passes
from nodescope.cli import main


def test_every_pass_is_listed_in_order_with_its_rules(capsys):
    assert main(["passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split(" ")[0] for line in lines if not line.startswith(" ")]
    assert heads == [graph_pass.name for graph_pass in passes.all_passes()]
    listed = [line.split()[0] for line in lines if line.startswith(" ")]
    assert listed == [rule.name for graph_pass in passes.all_passes() for rule in graph_pass.rules]


def test_unsafe_rules_are_marked(capsys):
    main(["passes"])
    lines = capsys.readouterr().out.splitlines()
    (zero,) = [line for line in lines if line.split()[0] == "add_zero"]
    (first,) = [line for line in lines if line.split()[0] == "multiply_one"]
    assert "unsafe:" in zero
    assert "unsafe:" not in first
