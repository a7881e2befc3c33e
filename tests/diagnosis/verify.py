"""Verifies the cases of the corpus: ``python -m tests.diagnosis.verify [NAME...]``."""

from __future__ import annotations

import sys
import time

from tests.diagnosis.case import Broken, reached
from tests.diagnosis.cases import BROKEN, RIGHT
from tests.diagnosis.runner import plainly


def main() -> None:
    for case in (*BROKEN, *RIGHT):
        if sys.argv[1:] and case.name not in sys.argv[1:]:
            continue
        texts = (
            {"twin": case.twin, "broken": case.text}
            if isinstance(case, Broken)
            else {"right": case.text}
        )
        for what, text in texts.items():
            began = time.perf_counter()
            try:
                out = plainly(text, case.name)
                ok = reached(case.goal, out) == (what != "broken")
                if isinstance(case, Broken):
                    case.line_numbers()
            except Exception as error:
                out, ok = f"{type(error).__name__}: {error}", False
            print(
                "ok " if ok else "BAD",
                f"{time.perf_counter() - began:.2f}s",
                case.name,
                what,
                repr(out[-110:]) if ok else out[-400:],
            )


if __name__ == "__main__":
    main()
