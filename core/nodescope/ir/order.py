"""The order in which nodes are listed: a node comes after all nodes that it needs.

Invariant: pure; takes linear time, except for sorting nodes that become ready together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def in_order(needs: Mapping[int, Collection[int]]) -> list[int]:
    """Numbers in dependency order, depth first; of two ready numbers, the smaller comes first.

    Args:
        needs: By number, the numbers that it needs; each of these is a key, too.

    Returns:
        All numbers except those on a cycle or dependent on one.
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
