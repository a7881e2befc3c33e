"""Targets: ``name[index]@step``, as typed by the user.

``loss``, ``loss[0]``, ``hidden/tanh[4, 17]@12``, ``logits[nan]``, ``w[1, :]@3``, ``split:1[max]``.

Invariant: the text is read by a fixed grammar; nothing in it is evaluated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from nodescope.console_output import shape_words
from nodescope.debug.replay.execution_index import ExecutionIndex
from nodescope.errors import ReplayError
from nodescope.events import Array
from nodescope.registry import did_you_mean

Which = Literal["nan", "inf", "nonfinite", "zero", "max", "min"]
WHICH: tuple[Which, ...] = ("nan", "inf", "nonfinite", "zero", "max", "min")
MAX_LENGTH = 1000
_TARGET = re.compile(r"(?P<name>[^\[\]@]+)(\[(?P<index>[^\[\]]*)\])?(@(?P<step>\d{1,18}))?")


@dataclass(frozen=True)
class Target:
    """The target of a question.

    Attributes:
        name: The name of a node or a value (``node:1`` for the second output).
        index: Ints and slices; a word of `WHICH` for elements of that kind; None for the most
            notable element, see `positions`.
        step: The training step, or None if the text names none.
    """

    name: str
    index: tuple[int | slice, ...] | Which | None = None
    step: int | None = None

    def __str__(self) -> str:
        index = ""
        if isinstance(self.index, str):
            index = f"[{self.index}]"
        elif self.index is not None:
            index = f"[{', '.join(map(_text, self.index))}]"
        return f"{self.name}{index}{'' if self.step is None else f'@{self.step}'}"


def parse_target(text: str) -> Target:
    """Parse ``name[index]@step``.

    Raises:
        ReplayError: The text has another form; the message names the wrong part.
    """
    if len(text) > MAX_LENGTH:
        raise ReplayError(f"the target is longer than {MAX_LENGTH} characters", column=MAX_LENGTH)
    match = _TARGET.fullmatch(text.strip())
    if match is None:
        raise ReplayError(
            f"{text!r} does not name an element", hint="write it as loss[0] or loss[0]@12"
        )
    name, inside, step = match["name"].strip(), match["index"], match["step"]
    index: tuple[int | slice, ...] | Which | None = None
    if inside is not None:
        word = inside.strip().lower()
        words = [word_ for word_ in WHICH if word_ == word]
        index = words[0] if words else tuple(_part(part, text) for part in _parts(inside))
    return Target(name, index, int(step) if step is not None else None)


def _parts(inside: str) -> list[str]:
    inside = inside.strip().strip("()")
    return [part.strip() for part in inside.split(",") if part.strip()]


def _part(part: str, text: str) -> int | slice:
    try:
        if ":" not in part:
            return int(part)
        ends = [int(bound) if bound.strip() else None for bound in part.split(":")]
        if len(ends) <= 3 and ends[2:] != [0]:
            return slice(*ends)
    except ValueError:
        pass
    words = ", ".join(WHICH)
    raise ReplayError(
        f"{text!r}: {part!r} is not an index",
        column=text.find(part),
        hint=f"use numbers, slices, or one of {words}",
    )


def _text(part: int | slice) -> str:
    if isinstance(part, int):
        return str(part)
    ends = ["" if bound is None else str(bound) for bound in (part.start, part.stop)]
    return ":".join(ends if part.step is None else [*ends, str(part.step)])


def value_named(book: ExecutionIndex, name: str) -> int:
    """The id of a value by its name; a node's first output has the node's name.

    A name may omit its first parts if only one value ends that way: ``log`` for ``loss/log``.
    ``loss`` is the value that backward passes begin with, if no value has that name.

    Raises:
        ReplayError: No value matches, or several do.
    """
    exact = [value for value, value_name in book.values.items() if value_name == name]
    if exact:
        return exact[-1]
    ending = sorted(
        value for value, value_name in book.values.items() if value_name.endswith(f"/{name}")
    )
    if len(ending) == 1:
        return ending[0]
    if ending:
        examples = ", ".join(book.values[value] for value in ending[:4])
        raise ReplayError(f"{name!r} matches {len(ending)} values", hint=f"such as {examples}")
    if name == "loss":
        givers = [row.node for row in book.recording.losses() if row.node and row.curve == 1]
        if givers:
            return book.node(givers[0]).outputs[0]
    raise ReplayError(f"no node named {name!r}", hint=did_you_mean(name, book.values.values()))


def positions(array: Array, index: Any, name: str) -> list[int]:
    """The positions in C order of the elements that an index selects.

    Args:
        array: The value's array.
        index: None for the first NaN, else the first Inf, else the largest magnitude; a word of
            `WHICH`; an int or a tuple of ints and slices; or an array of booleans.
        name: The value's name, for messages.

    Raises:
        ReplayError: The index selects no element, or does not fit the array.
    """
    if not array.size:
        raise ReplayError(f"{name} has no elements; its shape is {shape_words(array.shape)}")
    if isinstance(index, str):
        matches = np.flatnonzero(_where(array, index))
        if not matches.size:
            raise ReplayError(f"{name} has no {index} element")
        return [int(place) for place in matches]
    if index is None:
        return [_choice(array)]
    if isinstance(index, np.ndarray) and index.dtype == bool:
        if index.shape != array.shape or not index.any():
            raise ReplayError(
                f"the mask does not match the shape of {name}, {shape_words(array.shape)}"
            )
        return [int(place) for place in np.flatnonzero(index)]
    indices: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)
    if indices == (0,) and not array.ndim:
        return [0]  # users write loss[0] for a scalar
    try:
        places = np.asarray(np.arange(array.size).reshape(array.shape)[indices])
    except (IndexError, TypeError) as error:
        raise ReplayError(f"{name} has shape {shape_words(array.shape)}: {error}") from None
    if not places.size:
        raise ReplayError(
            f"{name} has shape {shape_words(array.shape)}: the index does not name an element"
        )
    return [int(place) for place in np.ravel(places)]


def _where(array: Array, kind: str) -> Array:
    with np.errstate(all="ignore"):
        if kind in ("max", "min"):
            # NaN is neither the largest nor the smallest; it counts only if there is nothing else.
            places = np.flatnonzero(array == array)
            if not places.size:
                return np.asarray(np.arange(array.size).reshape(array.shape) == 0)
            numbers = np.ravel(array)[places]
            numbers = np.abs(numbers) if array.dtype.kind == "c" else numbers
            at = places[np.argmax(numbers) if kind == "max" else np.argmin(numbers)]
            mask = np.arange(array.size).reshape(array.shape) == at
        elif kind == "zero":
            mask = array == 0
        else:
            tests: dict[str, Any] = {
                "nan": np.isnan,
                "inf": np.isinf,
                "nonfinite": lambda x: ~np.isfinite(x),
            }
            mask = tests[kind](array)
    return np.asarray(mask)


def _choice(array: Array) -> int:
    for kind in ("nan", "inf") if array.dtype.kind not in "biu" else ():
        matches = np.flatnonzero(_where(array, kind))
        if matches.size:
            return int(matches[0])
    if array.dtype.kind == "i":  # the magnitude of the smallest integer overflows its dtype
        low, high = int(np.argmin(array)), int(np.argmax(array))
        smallest, largest = -int(array.flat[low]), int(array.flat[high])
        return min(low, high) if smallest == largest else low if smallest > largest else high
    with np.errstate(all="ignore"):
        sizes = np.abs(array) if array.dtype.kind != "b" else array
    return int(np.argmax(sizes))
