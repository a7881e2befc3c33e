"""Hundreds of cases in a few tests, because pytest's overhead per test exceeds a case's own work.

Above the `parametrize` of a test, ``@in_parts(8)`` makes eight tests of it, each of which runs
every eighth case. All cases of a part run, and failures are reported by name, with tracebacks.
``pytest --no-batching`` makes each case a test again, so ``-k`` can select it.

A fixture is made once per part, so a case must not depend on what earlier cases left in it.

Invariant: each case runs once.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pytest

Item = TypeVar("Item")
_case_by_case = False
_ParameterSet: type[Any] = type(pytest.param())
_SHORT = (str, int, float, complex, bool, type(None))


def choose(case_by_case: bool) -> None:
    """Choose whether each case is a test; called before any test module is imported."""
    global _case_by_case
    _case_by_case = case_by_case


def in_parts(count: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Combine all cases that `parametrize` made of a test into this number of tests."""

    def divided(test: Callable[..., None]) -> Callable[..., None]:
        if _case_by_case:
            return test
        marks = getattr(test, "pytestmark", [])
        made = [mark for mark in marks if mark.name == "parametrize"]
        cases = dict(_named(_cases(mark) for mark in made))
        if not made or not cases:
            raise ValueError(f"{test.__name__}: there is nothing to divide")
        parts = min(count, len(cases))

        @functools.wraps(test)
        def run(part: int, **fixtures: Any) -> None:
            run_all(test, dict(itertools.islice(cases.items(), part, None, parts)), fixtures)

        given = set().union(*cases.values())
        parameters = inspect.signature(test).parameters.values()
        rest = [
            item.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for item in parameters
            if item.name not in given
        ]
        part = inspect.Parameter("part", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = inspect.Signature([part, *rest])  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]
        others = [mark for mark in marks if mark.name != "parametrize"]
        run.pytestmark = others  # type: ignore[attr-defined]
        return pytest.mark.parametrize("part", range(parts))(run)

    return divided


def every(count: int, items: Sequence[Item]) -> list[Sequence[Item]]:
    """The items divided into this number of parts, for a fixture that is made per part."""
    parts = len(items) if _case_by_case else min(count, len(items))
    return [items[part::parts] for part in range(parts)]


def run_all(
    test: Callable[..., None],
    cases: Mapping[str, Mapping[str, Any]],
    fixtures: Mapping[str, Any],
) -> None:
    """Run every case, and raise the failures, each with the name of its case."""
    failures: list[Exception] = []
    skipped: list[pytest.skip.Exception] = []
    for name, values in cases.items():
        try:
            test(**fixtures, **values)
        except Exception as error:
            error.add_note(f"in the case {name}")
            failures.append(error)
        except pytest.fail.Exception as failure:
            failures.append(AssertionError(f"{failure}, in the case {name}"))
        except pytest.skip.Exception as skip:
            skipped.append(skip)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(cases)} cases", failures)
    if len(skipped) == len(cases):
        raise skipped[0]


def _cases(mark: pytest.Mark) -> list[tuple[str, dict[str, Any]]]:
    """The name of each case of a `parametrize`, and its arguments."""
    names, all_values = mark.args
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    ids = mark.kwargs.get("ids")
    cases = []
    for i, values in enumerate(all_values):
        own_id = None
        if isinstance(values, _ParameterSet):
            if values.marks:
                raise ValueError(f"{names}: cases with marks of their own cannot be divided")
            own_id, values = values.id, values.values
        elif len(names) == 1:
            values = [values]
        one = dict(zip(names, values, strict=True))
        if own_id is not None:
            words = [str(own_id)]
        elif callable(ids):
            words = [str(ids(value)) for value in one.values()]
        elif ids is not None:
            words = [str(list(ids)[i])]
        else:
            words = [_word(value, f"{name}{i}") for name, value in one.items()]
        cases.append(("-".join(words), one))
    return cases


def _word(value: object, otherwise: str) -> str:
    return str(value) if isinstance(value, _SHORT) else getattr(value, "__name__", otherwise)


def _named(
    made: Iterable[list[tuple[str, dict[str, Any]]]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The cases of several `parametrize`, each under a unique name."""
    seen: dict[str, int] = {}
    for combined in itertools.product(*made):
        values = {name: value for _, one in combined for name, value in one.items()}
        name = "-".join(word for word, _ in combined)
        seen[name] = seen.get(name, 0) + 1
        yield (name if seen[name] == 1 else f"{name} ({seen[name]})"), values
