"""Syntax of edits: ``value[0, :] = 0``, ``inputs[1] *= 0.5``.

``TARGET[INDEX] HOW``: the target is ``value`` (the first output), ``inputs[N]``, ``outputs[N]`` or
the name of one of them; how is one of ``= N``, ``+= N``, ``-= N``, ``*= N``, ``/= N``,
``clip LOW HIGH`` (``-`` for no bound), ``noise STD [SEED]`` and ``load FILE.npy``.

Invariant: reads the text and, for ``load``, one file; whether the change fits is decided by
`edits.apply`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from nodescope.errors import EditError
from nodescope.plain_files import read_plain
from nodescope.protocol import EditKind, SetValue

MAX_LENGTH: Final = 4000  # as long as a path may be
MAX_FILE: Final = 1 << 30
_SHOWN: Final = 60
_EDIT: Final = re.compile(
    r"(?P<target>(?:inputs|outputs)\[\d+\]|[^\s\[\]=*+]+?)\s*"
    r"(?:\[(?P<index>[^\[\]]*)\])?\s*"
    r"(?:(?P<sign>[-+*/]?=)|\b(?P<word>clip|noise|load)\b)\s*(?P<rest>.*)"
)
_SIGNS: Final[dict[str, EditKind]] = {
    "=": "set", "+=": "add", "-=": "add", "*=": "scale", "/=": "scale",
}  # fmt: skip
_HINT: Final = "value[0] = 1, inputs[0] *= 0.5, value clip -1 1, value noise 0.1, value load x.npy"


def parse_edit(text: str) -> tuple[str, SetValue]:
    """The target, and the command, whose ``value`` is still to be filled in.

    Raises:
        EditError: The text cannot be understood.
    """
    if len(text) > MAX_LENGTH:
        raise EditError(f"the change is longer than {MAX_LENGTH} characters", column=MAX_LENGTH)
    match = _EDIT.fullmatch(text.strip())
    if match is None:
        raise EditError(f"{_short(text.strip())} is not a change of a value", hint=_HINT)
    try:
        return match["target"], _command(match)
    except EditError as error:
        error.column = text.index(text.strip()) + match.start("rest")
        raise


def _command(parsed: re.Match[str]) -> SetValue:
    index, operands = parsed["index"] or "", parsed["rest"].strip()
    match parsed["sign"] or parsed["word"]:
        case "clip":
            low, high = _words(operands, 2, 2)
            command = SetValue(0, "clip", index=index, low=_bound(low), high=_bound(high))
        case "noise":
            spread, *seed = _words(operands, 1, 2)
            command = SetValue(
                0, "noise", _number(spread).real, index=index, seed=_seed(seed[0] if seed else "0")
            )
        case "load":
            command = SetValue(0, "npy", index=index, npy=_file(operands))
        case sign:
            number = _number(operands)
            if sign == "/=":
                if not number:
                    raise EditError("division by zero")
                number = 1 / number
            elif sign == "-=":
                number = -number
            command = SetValue(
                0, _SIGNS[str(sign)], number.real, index=index, imaginary=number.imag
            )
    return command


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _words(operands: str, least: int, most: int) -> list[str]:
    words = operands.split()
    if not least <= len(words) <= most:
        raise EditError(f"unexpected {_short(operands)}", hint=_HINT)
    return words


def _number(text: str) -> complex:
    if text in ("True", "False"):
        return complex(text == "True")
    try:
        return complex(text.replace(" ", ""))
    except (ValueError, OverflowError):
        raise EditError(f"{_short(text)} is not a number", hint=_HINT) from None


def _bound(text: str) -> float | None:
    return None if text == "-" else _number(text).real


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise EditError(f"{_short(text)} is not a seed: an integer of up to 18 digits")
    return int(text)


def _file(path: str) -> bytes:
    try:
        file = Path(path).expanduser()
        return read_plain(file, MAX_FILE)
    except (OSError, RuntimeError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise EditError(f"cannot read {_short(path)}: {reason}") from None
