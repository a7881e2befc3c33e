"""Rank the members of a club, with a graph that is built explicitly and run by sessions.

    python samples/graph_by_hand.py

PageRank (Page, Brin and others, 1998) on the friendships of Zachary's karate club (1977). The graph
is built once: a placeholder for the damping, a variable that holds the ranks, a product split over
two devices, and an update with a control edge from the measured change. A session then runs parts
of the graph: only the nodes that a fetch needs.

Invariant: every run gives the same ranks.
"""

from __future__ import annotations

import numpy as np

import nodescope as ns

FRIENDS = {
    0: [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31],
    1: [2, 3, 7, 13, 17, 19, 21, 30], 2: [3, 7, 8, 9, 13, 27, 28, 32], 3: [7, 12, 13],
    4: [6, 10], 5: [6, 10, 16], 6: [16], 8: [30, 32, 33], 9: [33], 13: [33], 14: [32, 33],
    15: [32, 33], 18: [32, 33], 19: [33], 20: [32, 33], 22: [32, 33], 23: [25, 27, 29, 32, 33],
    24: [25, 27, 31], 25: [31], 26: [29, 33], 27: [33], 28: [31, 33], 29: [32, 33],
    30: [32, 33], 31: [32, 33], 32: [33],
}  # fmt: skip
MEMBERS = 34


def shares() -> np.ndarray:
    """(34, 34): entry (i, j) is the share of j's rank that goes to i."""
    links = np.zeros((MEMBERS, MEMBERS))
    for member, friends in FRIENDS.items():
        for other in friends:
            links[member, other] = links[other, member] = 1
    return links / links.sum(axis=0)


def build() -> ns.Graph:
    """Build the graph; `main` refers to its operations by name."""
    with ns.Graph().as_default() as graph:
        damping = ns.placeholder(np.float64, (), name="damping")
        rank = ns.variable(np.full(MEMBERS, 1 / MEMBERS), name="rank")
        halves = []
        for number, rows in enumerate(np.split(shares(), 2)):
            with ns.device(f"cpu:{number}"), ns.name_scope(f"half_{number}"):
                halves.append(ns.constant(rows, name="shares") @ rank)
        with ns.name_scope("step"):
            ranks = np.concatenate(halves) * damping + (1 - damping) / MEMBERS
            following = ns.identity(ranks, name="following")
            change = ns.identity(np.max(np.abs(following - rank)), name="change")
            with ns.control_dependencies([change.op]):  # measured before it is overwritten
                update = ns.assign(rank, following)
        ns.group(update, name="update")
        ns.global_variables_initializer()
    graph.finalize()
    return graph


def main() -> None:
    graph = build()
    print(f"{len(graph.get_operations())} operations")
    with ns.Session(graph) as session:
        session.run("init")
        rounds = 0
        for _ in ns.steps(range(100)):
            change, _ = session.run(["step/change:0", "update"], {"damping:0": 0.85})
            rounds += 1
            if change < 1e-9:
                break
        rank = session.run("rank:0")
        print(f"rounds {rounds}")
        for member in np.argsort(-rank)[:3]:
            print(f"member {member:2d}  rank {rank[member]:.4f}")

        # With damping 0, no friendship counts. `rank` keeps its value: only `following` is fetched.
        print(f"undamped {session.run('step/following:0', {'damping:0': 0.0}).max():.4f}")
        # Any value can be fed: the ranks from a member's point of view.
        alone = np.eye(MEMBERS)[0]
        seen = session.run("step/following:0", {"rank:0": alone, "damping:0": 1.0})
        print(f"friends {np.count_nonzero(seen)}")


if __name__ == "__main__":
    main()
