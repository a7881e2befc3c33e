"""Cross-check: every call of a compiled function beside what was traced.

While `nodescope compare` records the compiled run, each call runs twice more on the same inputs:
as it was traced, node after node, and as the plan that runs unobserved. Where they differ, the
pass and rule, or the kernel, that is responsible is found by running parts alone.

Invariant: reads what the program has and changes none of it.
"""
