"""Workers of data loaders: processes whose operations are nodes of the program's run.

A worker observes itself and reports to the program, which alone has a recording and a debugger.
"""
