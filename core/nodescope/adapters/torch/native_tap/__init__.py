"""The native tap: an observer of PyTorch's operators in C++, compiled where it is used.

It sees the operators that the program runs; a dispatch mode changes some. `building` compiles it,
`choosing` says which tap a run gets, `observer` connects it with `Operations`.
"""
