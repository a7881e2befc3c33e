"""Cross-check: compares every call of a compiled function with its trace.

While `nodescope compare` records the compiled run, each call runs twice more on the same inputs: as
traced, node by node, and as the plan that runs unobserved. If the results differ, the check runs
parts alone to find the pass and rule, or the kernel, that is responsible.

Invariant: reads the program's data and changes none of it.
"""
