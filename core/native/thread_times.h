/* Times of a thread, read without giving the interpreter's lock up. */
#ifndef NODESCOPE_THREAD_TIMES_H
#define NODESCOPE_THREAD_TIMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the function `active_ns` where the system reports such times; -1 with an exception set. */
int add_thread_times(PyObject *module);

#endif
