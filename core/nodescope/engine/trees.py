"""Trees: nested lists, tuples, named tuples, dicts, dataclasses and None, with leaves.

Invariant: `unflatten` undoes `flatten`; leaves come in a fixed order, dicts in order of insertion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Tree = Any
"""A leaf (a tensor, array, number, anything else), or a container of trees."""


@dataclass(frozen=True, slots=True)
class Structure:
    """A tree without its leaves. Equal structures have equal forms, keys included.

    Attributes:
        kind: The container's class, or None for a leaf.
        keys: Names of the children: indices, dict keys or field names.
        children: Their structures.
    """

    kind: type | None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()

    @property
    def size(self) -> int:
        """The number of leaves."""
        return 1 if self.kind is None else sum(child.size for child in self.children)

    def paths(self, prefix: str = "") -> Iterator[str]:
        """The place of each leaf: ``["params"][0].weight``."""
        if self.kind is None:
            yield prefix
            return
        named = hasattr(self.kind, "_fields") or dataclasses.is_dataclass(self.kind)
        for key, child in zip(self.keys, self.children, strict=True):
            yield from child.paths(f"{prefix}.{key}" if named else f"{prefix}[{key!r}]")


LEAF = Structure(None)


def flatten(tree: Tree) -> tuple[list[Any], Structure]:
    """The leaves of a tree, and its structure. None is a container without leaves."""
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Tree, leaves: list[Any]) -> Structure:
    kind = tree.__class__
    if kind is tuple or kind is list:
        return Structure(
            kind, tuple(range(len(tree))), tuple([_flatten(leaf, leaves) for leaf in tree])
        )
    if tree is None:
        return Structure(type(None))
    if isinstance(tree, dict):
        children = tuple([_flatten(leaf, leaves) for leaf in tree.values()])
        return Structure(kind, tuple(tree), children)
    if isinstance(tree, tuple) and hasattr(kind, "_fields"):
        return Structure(kind, kind._fields, tuple([_flatten(leaf, leaves) for leaf in tree]))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = tuple(field.name for field in dataclasses.fields(tree) if field.init)
        children = tuple([_flatten(getattr(tree, name), leaves) for name in names])
        return Structure(kind, names, children)
    if isinstance(tree, list | tuple):  # a subclass
        return Structure(
            kind, tuple(range(len(tree))), tuple([_flatten(leaf, leaves) for leaf in tree])
        )
    leaves.append(tree)
    return LEAF


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Tree:
    """The tree with that structure and these leaves."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Tree:
    kind: Any = structure.kind
    if kind is None:
        return next(leaves)
    if kind is type(None):
        return None
    children = [_unflatten(child, leaves) for child in structure.children]
    if issubclass(kind, dict):
        return kind(zip(structure.keys, children, strict=True))
    if hasattr(kind, "_fields"):
        return kind(*children)
    if dataclasses.is_dataclass(kind):
        return kind(**dict(zip(structure.keys, children, strict=True)))  # type: ignore[operator]
    return kind(children)


def map_leaves(f: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """``f`` applied to the leaves of a tree, and of others with the same structure, in order.

    Raises:
        ValueError: The structures differ.
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for tree_ in others:
        other_leaves, other = flatten(tree_)
        if other != structure:
            raise ValueError(f"trees differ: {difference(structure, other)}")
        columns.append(other_leaves)
    return unflatten(structure, [f(*row) for row in zip(*columns, strict=True)])


def difference(first: Structure, other: Structure, path: str = "") -> str:
    """The first difference of two structures, as text, or ``""``."""
    if first.kind is not other.kind:
        names = [
            structure.kind.__name__ if structure.kind else "a leaf" for structure in (first, other)
        ]
        return f"{path or 'the whole'} is {names[0]} in one, {names[1]} in the other"
    if first.keys != other.keys:
        return (
            f"{path or 'the whole'} has {list(first.keys)} in one, {list(other.keys)} in the other"
        )
    for key, left, right in zip(first.keys, first.children, other.children, strict=True):
        message = difference(left, right, f"{path}[{key!r}]")
        if message:
            return message
    return ""
