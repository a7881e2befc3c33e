"""The table of rules in `docs/watches.md` equals the registry."""

from __future__ import annotations

import re

from tools import rule_table


def test_the_document_lists_the_rules_of_today() -> None:
    assert rule_table.main([]) == 0
    assert len(re.findall(r"^\| `", rule_table.DOCUMENT.read_text(), re.M)) >= 50
