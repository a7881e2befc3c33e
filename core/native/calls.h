/* Observed calls: the work of the engine's tracer for each operation, if nothing has changed. */
#ifndef NODESCOPE_CALLS_H
#define NODESCOPE_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds the type `Calls` to a module; -1 with an exception set. */
int add_calls(PyObject *module);

/* Whether an object is a `Calls`. */
int are_calls(PyObject *object);

/* The `Calls` of which a function is the bound method `run`, borrowed; NULL for any other object. */
PyObject *calls_of(PyObject *function);

/* `Calls.run`, with the same arguments. */
PyObject *run_observed(PyObject *calls, PyObject *op, PyObject *inputs, PyObject *attrs);

/* Place the thread's next calls at the gradient of a tensor, as in `backward_phase`; -1 with an
   exception set. */
int differentiate(PyObject *calls, PyObject *tensor);

/* The same for an operation with several outputs; `ids`: a tuple of their value ids. */
int differentiate_several(PyObject *calls, PyObject *ids);

/* Note that the elements of a tensor are now in another array, as in `Tracer.moved`; -1 with an exception
   set. `before`: the earlier array. */
int moved(PyObject *calls, PyObject *tensor, PyObject *before);

/* Whether there is nothing to report of the gradient of a tensor; -1 with an exception set. */
int pair_known(PyObject *calls, PyObject *tensor, PyObject *gradient);

/* Report the gradient of a tensor, as in `Tracer.pair`; -1 with an exception set. */
int pair(PyObject *calls, PyObject *tensor, PyObject *gradient);

#endif
