/* The times that executions add to training steps. */
#ifndef NODESCOPE_STEP_TIMES_H
#define NODESCOPE_STEP_TIMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the function to a module; -1 with an exception set. */
int add_step_times(PyObject *module);

#endif
