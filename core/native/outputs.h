/* Noted outputs: executions and copies of their outputs, collected in one block of memory without
   Python objects. */
#ifndef NODESCOPE_OUTPUTS_H
#define NODESCOPE_OUTPUTS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#include "times.h"

/* Adds the type `NotedOutputs`; -1 with an exception set. */
int add_outputs(PyObject *module);

/* Whether an object is a `NotedOutputs`. */
int notes_outputs(PyObject *object);

/* Note an execution: its node and the ids of its values, the numbers as for `note_times`, and the arrays
   that it read and returned; its attributes if they are not the node's, else NULL; whether nobody writes to
   what it returned. Returns 1 if it was noted, 0 if it cannot be noted here, -1 with an exception set. */
int note_outputs(PyObject *object, PyObject *node, PyObject *values, const long long numbers[TIMED],
                 PyObject *const *inputs, Py_ssize_t reads, PyObject *const *outputs, Py_ssize_t gives,
                 PyObject *attrs, int lasting);

/* Note that the elements of a value, unchanged, are in another array after the execution noted last; arrays
   are given by identity. Returns 1 if that was noted, 0 if no execution has been noted since the last ones
   were taken, -1 with an exception set. */
int note_move(PyObject *object, long long value, uint64_t before, uint64_t now);

#endif
