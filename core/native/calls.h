/* Observed calls: the work of the engine's tracer for each operation, if nothing has changed. */
#ifndef NODESCOPE_CALLS_H
#define NODESCOPE_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `Calls` to a module; -1 with an exception set. */
int add_calls(PyObject *module);

#endif
