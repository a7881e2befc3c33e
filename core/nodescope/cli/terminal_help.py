"""Help: the text of ``help COMMAND`` beyond the table's line, and line wrapping.

Invariant: each line of an example is a working command; a test runs them.
"""

from __future__ import annotations

import textwrap
from typing import Final

HELP: Final[dict[str, str]] = {
    "n": "n        the next node\nn 5      five nodes; stops on the way are not shown",
    "o": "o        the next node not deeper than here\no loss   until the scope loss is left",
    "until": "until loss/mean\nuntil mean     the end of a name is enough if it is unique",
    "b": """\
b                              list them
b loss/mean                    after this node
b before op:log                before each node of an op
b scope:loss                   on the way into a scope
b glob:*/matmul* if max(value) > 10
b op:exp [backward, step 3..5, hits % 2, once, group mine]
b script.py:8                  nodes that a line makes
b op:mean log {step}: {value}  writes a line instead of stopping
off mine                       switches a group off""",
    "p": """\
p                   inputs and outputs of this node
p max(abs(value))   an expression, as in conditions
p inputs[0]
p value[0, :3]      a part; slices as in NumPy
p mean              another node's value, by the end of its name
p mean: value + 1   an expression of another node
p grad              the gradient of this node's value; p NODE.grad of another
p value.dtype       dtype, shape, op, phase, scope, source, or an attribute of the op""",
    "values": "values value[0, :3]\nvalues mean",
    "why": """\
why                 the first NaN, else Inf, else the largest element of this value
why value[0]        this element; words are nan, inf, zero, max, min
why inputs[0][max]
why mean            of another node, as it was last
why nan             what NaN and Inf did in this training step""",
    "diff": "diff              this value, now and in the step before\n"
    "diff w 1          in step 1, and now\ndiff w 1 2        in step 1 and in step 2",
    "what-if": """\
what-if w *= 0.5           what depends on w is re-run, up to now; the program is not changed
what-if inputs[0][0] = 0   changes are written as for set
rb, then what-if: from an earlier moment on""",
    "rule": """\
rule                        the active ones and their hits
rule nan
rule gradient_vanishing(abs_mean_lt=1e-9) on scope:encoder -> log
rule recommended            those recommended for the program, after its first step
rule off 1
All rules and their settings: nodescope docs watches""",
    "set": """\
set value = 0
set value[0] *= 2
set inputs[0][isnan] = 0
set value clip -1 1         - for no bound: clip 0 -
set value noise 0.1 7       standard deviation, seed
set value load x.npy""",
    "w": "w max(value)    shows it at each stop\nw               shows all now\n"
    "w off 1         forgets it",
    "rb": "rb      look at the execution before; n, s, o, u, c then move forward through the\n"
    "        recording, and now returns to where the program is stopped\nrb 3    three back",
    "nodes": "nodes           all so far\nnodes loss      those with loss in their name\n"
    "nodes */matmul  those that match a pattern",
}


def folded(text: str, width: int, indent: str) -> list[str]:
    """Lines of at most ``width`` columns; all but the first begin with ``indent``."""
    lines = []
    for line in text.splitlines():
        lines += textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return lines
