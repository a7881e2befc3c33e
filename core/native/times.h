/* Noted times: executions that are recorded by their times alone, until they are numbered. */
#ifndef NODESCOPE_TIMES_H
#define NODESCOPE_TIMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The numbers of one execution: node, step, thread, start and end. */
#define TIMED 5

/* Adds the type `NotedTimes` to a module; -1 with an exception set. */
int add_times(PyObject *module);

/* Whether an object is a `NotedTimes`. */
int notes_times(PyObject *object);

/* Note an execution; -1 with an exception set. */
int note_times(PyObject *noted, const long long numbers[TIMED]);

#endif
