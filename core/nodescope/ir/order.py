"""The order in which nodes are listed: what is needed first, then what needs it.

Invariant: pure, and linear but for sorting what becomes ready together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def in_order(needs: Mapping[int, Collection[int]]) -> list[int]:
    """Numbers after all that they need, depth first, and the smaller of two first.

    Args:
        needs: By number, those that it needs; each is a key, too.

    Returns:
        All but those that are on a cycle, or behind one.
    """
    users: dict[int, list[int]] = {}
    for number, sources in needs.items():
        for source in sources:
            users.setdefault(source, []).append(number)
    waiting = {number: len(sources) for number, sources in needs.items()}
    ready = sorted((number for number, count in waiting.items() if not count), reverse=True)
    done: list[int] = []
    while ready:
        current = ready.pop()
        done.append(current)
        freed = []
        for user in users.get(current, ()):
            waiting[user] -= 1
            if not waiting[user]:
                freed.append(user)
        ready.extend(sorted(freed, reverse=True))
    return done
