"""``nodescope passes``: the passes of the compiler, and their rules."""

from __future__ import annotations

import argparse


def passes(options: argparse.Namespace) -> int:
    """List the compiler's passes in order, each with its rules; unsafe ones are marked."""
    from nodescope.passes import all_passes

    for compiler_pass in all_passes():
        suffix = "" if compiler_pass.exact else ", not exact"
        usual = "usual" if compiler_pass.default else "if asked for"
        head = f"{compiler_pass.name} (stage {compiler_pass.stage}, {usual}{suffix})"
        print(f"{head}: {compiler_pass.help}")
        width = max((len(rule.name) for rule in compiler_pass.rules), default=0)
        for rule in compiler_pass.rules:
            print(f"  {rule.name:<{width}}  {'' if rule.exact else 'unsafe: '}{rule.help}")
    return 0
