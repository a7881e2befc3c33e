/* Memory whose contents are needed later, where the program has it: references to arrays take the place of copies. */
#ifndef NODESCOPE_HELD_H
#define NODESCOPE_HELD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Memory that is held: all of an array's, or a part. */
typedef struct {
    PyObject *owner; /* the array that owns it; owned */
    const char *whole; /* where all memory of the owner was, and the number of its elements */
    Py_ssize_t size;
    const char *data;
    Py_ssize_t nbytes;
} HeldMemory;

/* A new, empty `HeldArrays`; runs no other code. NULL with an exception set. */
PyObject *new_held(void);

/* Make room for more; -1 with an exception set. */
int reserve_held(PyObject *object, Py_ssize_t more);

/* Hold memory of an array whose layout is known, for which there is room; returns its index. */
Py_ssize_t hold(PyObject *object, PyObject *owner, const char *data, Py_ssize_t nbytes);

/* The memory in a `HeldArrays`, and how many pieces; none of any other object. NULL with an exception set. */
const HeldMemory *held_in(PyObject *object, Py_ssize_t *count);

/* Adds the type `HeldArrays` and the function `holds`; -1 with an exception set. */
int add_held(PyObject *module);

#endif
