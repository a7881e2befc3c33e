"""What cannot be run again says why."""

from __future__ import annotations

import pytest

from nodescope.debug.replay.recorded_calls import bodies_missing, check_known
from nodescope.errors import ReplayError
from nodescope.ir.attrs import GraphRef, Opaque
from nodescope.ir.graph import Graph, Node


def test_an_attribute_of_which_only_the_text_is_known_is_refused() -> None:
    node = Node(1, "net/dropout", "multiply", "elementwise", attrs={"x": (1, Opaque("<Rng>"))})
    with pytest.raises(ReplayError) as caught:
        check_known(node)
    assert caught.value.message == (
        "net/dropout: its attribute x cannot be restored; recorded was only the text '<Rng>'"
    )
    assert "can be run again" in caught.value.hint


def test_a_body_that_is_kept_elsewhere_is_missing() -> None:
    loop = Node(1, "loop", "scan", "control", attrs={"body": GraphRef(3), "carries": 1})
    check_known(loop)
    assert bodies_missing(loop) == "body"
    whole = Node(1, "loop", "scan", "control", attrs={"body": Graph(3, "static")})
    assert bodies_missing(whole) == ""
    assert bodies_missing(Node(1, "add", "add", "elementwise", attrs={"x2": 1.0})) == ""
