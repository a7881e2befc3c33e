/* Arrays whose elements are needed later, where the program has them: a reference takes the place of a copy. */
#ifndef NODESCOPE_HELD_H
#define NODESCOPE_HELD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* An array that is held, and its elements, which fill their memory. */
typedef struct {
    PyObject *array; /* owned */
    const char *data;
    Py_ssize_t nbytes;
} HeldArray;

/* A new, empty `HeldArrays`; runs no other code. NULL with an exception set. */
PyObject *new_held(void);

/* Make room for more arrays; -1 with an exception set. */
int reserve_held(PyObject *object, Py_ssize_t more);

/* Hold an array, for which there is room; returns its index. */
Py_ssize_t hold(PyObject *object, PyObject *array, const char *data, Py_ssize_t nbytes);

/* The arrays of a `HeldArrays`, and their number; none of any other object. */
const HeldArray *held_in(PyObject *object, Py_ssize_t *count);

/* Adds the type `HeldArrays` and the function `holds`; -1 with an exception set. */
int add_held(PyObject *module);

#endif
