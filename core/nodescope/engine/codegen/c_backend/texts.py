"""Texts: generated files apart from kernels, and the division of kernels into files.

Invariant: nothing here decides what is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodescope.engine.codegen.c_backend import kernel
from nodescope.ir.graph import Node

TAKE = f"""
NS_EXPORT i64 ns_take(void *list, char **t, i64 i) {{
  void **kinds = (void **)t[-2], *type = t[-1];
  for (const i64 n = ns_items(list); i < n; i++) {{
    if (!kinds[i]) continue;
    void *x = ns_list_item(list, i);
    if (NS_FIELD(void *, x, sizeof(void *)) != type || !ns_array_contiguous(x)
        || NS_FIELD(void *, x, {object.__basicsize__ + 40}) != kinds[i]) return i;
    t[i + 1] = ns_array_data(x);
  }}
  return -1;
}}
"""


_SPLIT, _MOST = 240, 2  # weight from which texts are split, and how many


def function(body: kernel.Body) -> tuple[str, ...]:
    """The lines of a kernel's functions; ``@k`` is its name."""
    lines: list[str] = []
    for i, part in enumerate(body.parts):
        lines += [f"static void @k_{i}(char **p, char *w, i64 part) {{", *part, "}"]
    head = "NS_EXPORT __attribute__((noinline)) int @k(char **p, char *w) {"
    return (*lines, head, *body.lines, "return 0;", "}")


def weight(lines: Sequence[str]) -> int:
    """Approximate compile time of a kernel, in lines."""
    return len(lines) + sum(60 * ("ns_conv" in line or "ns_max_pool" in line) for line in lines)


def shares(bodies: Iterable[Sequence[str]]) -> int:
    """The number of texts to divide the kernels into, for parallel compilation."""
    return min(_MOST, 1 + sum(map(weight, bodies)) // _SPLIT)


def marker(need: str) -> str:
    """The part of a text that shows a call of a helper."""
    return f"ns_{need}(" if need[-4:] in ("_f32", "_f64") else f"NS_{need.upper()}("


def link(names: Sequence[str]) -> str:
    """Pointers to the kernels of other texts, and the code that sets them."""
    if not names:
        return ""
    pointers = "".join(f"static int (*{name})(char **, char *);\n" for name in names)
    sets = "".join(f"{name} = f[{i}]; " for i, name in enumerate(names))
    return f"{pointers}NS_EXPORT void ns_link(void **f) {{ {sets}}}\n"


CALL = """
NS_EXPORT i64 ns_call(void *list, char **t) {
  return ns_take(list, t, 0) >= 0 ? -1 : ns_run0(t, 0);
}
"""


def comment_of(node: Node) -> str:
    """A node as text, safe within a comment."""
    text = f"{node.name}: {node.op}"
    if node.op == "fused":
        body = node.attrs["body"]
        members = " ".join(n.op for n in body.nodes if not n.is_leaf)
        text = f"{node.name}: {node.attrs['pattern']} ({members})"
    return text.replace("*/", "* /").replace("/*", "/ *")


def readable(text: str) -> str:
    """The text with its blocks indented."""
    depth, lines = 0, []
    for line in text.splitlines():
        bare = line.strip()
        opens, closes = bare.count("{"), bare.count("}")
        if bare.startswith("}"):
            depth -= 1
            closes -= 1
        lines.append(line if bare.startswith("#") or bare.startswith("*") else
                     "  " * max(depth, 0) + bare)  # fmt: skip
        depth += opens - closes
    return "\n".join(lines) + "\n"
