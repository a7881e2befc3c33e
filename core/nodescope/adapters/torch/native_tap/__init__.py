"""The native tap: a C++ observer of PyTorch's operators, compiled on the user's machine.

It observes the operators that the program itself runs; a dispatch mode would change some.
`building` compiles it, `choosing` decides which tap a run gets, and `observer` connects it with
`Operations`.
"""
