/* Attributes of observed calls, and operands that are no tensors. Included only by calls.c. */
#ifndef NODESCOPE_CALL_ATTRIBUTES_H
#define NODESCOPE_CALL_ATTRIBUTES_H

/* Whether the attributes and the non-tensor operands equal those of the node's definition; 0 also if
   they cannot be compared. */
static int same_attributes(Calls *calls, PyObject *entry, PyObject *const *inputs, Py_ssize_t count,
                           PyObject *attrs) {
    PyObject *given = SLOT(entry, calls->offset[ENTRY_GIVEN]);
    if (!given || !PyTuple_Check(given) || PyTuple_Size(given) != 2) return 0;
    PyObject *scalars = PyTuple_GetItem(given, 1);
    if (!scalars || !PyTuple_Check(scalars)) return 0;
    Py_ssize_t nth = 0, many = PyTuple_Size(scalars);
    for (Py_ssize_t i = 0; i < count; i++) {
        if ((PyObject *)Py_TYPE(inputs[i]) == calls->object[TENSOR]) continue;
        PyObject *pair = nth < many ? PyTuple_GetItem(scalars, nth) : NULL;
        nth++;
        if (!pair || PyTuple_GetItem(pair, 0) != (PyObject *)Py_TYPE(inputs[i])) return 0;
        if (PyTuple_GetItem(pair, 1) != inputs[i] &&
            PyObject_RichCompareBool(PyTuple_GetItem(pair, 1), inputs[i], Py_EQ) != 1) {
            PyErr_Clear();
            return 0;
        }
    }
    if (nth != many) return 0;
    PyObject *before = PyTuple_GetItem(given, 0);
    if (before == attrs) return 1;
    int same = PyObject_RichCompareBool(before, attrs, Py_EQ);
    if (same < 0) PyErr_Clear();
    return same == 1;
}

/* The attributes of a call that differ from those of its node, as of `specs.attributes_of`, or None if they
   are the same; NULL with an exception set. */
static PyObject *own_attributes(Calls *calls, Operation *operation, PyObject *const *inputs,
                                Py_ssize_t count, PyObject *tuple, PyObject *attrs, PyObject *entry) {
    PyObject *ports = operation->ports;
    if (PyDict_Size(attrs) || !PyTuple_Check(ports) || PyTuple_Size(ports) < count)
        return PyObject_CallMethodObjArgs(calls->object[TRACER], names.own_attributes, operation->op, tuple,
                                          attrs, entry, NULL);
    PyObject *own = PyDict_New();
    for (Py_ssize_t i = 0; own && i < count; i++) {
        if ((PyObject *)Py_TYPE(inputs[i]) == calls->object[TENSOR]) continue;
        if (PyDict_SetItem(own, PyTuple_GetItem(ports, i), inputs[i]) < 0) Py_CLEAR(own);
    }
    return own;
}

#endif
