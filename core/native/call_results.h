/* The results of observed calls: arrays and their tensors. Included only by calls.c. */
#ifndef NODESCOPE_CALL_RESULTS_H
#define NODESCOPE_CALL_RESULTS_H

#include "array_layout.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* The value id of an entry's output, a tuple of ids if the operation has several; borrowed. */
static PyObject *value_of(Calls *calls, int outputs, PyObject *entry) {
    PyObject *values = SLOT(entry, calls->offset[ENTRY_OUTPUTS]);
    return outputs == 1 ? PyTuple_GetItem(values, 0) : values;
}

/* Get the arrays that an operation returned, owned by the caller; -1 with an exception set. Takes the
   reference to `data` over. */
static ALWAYS_INLINE int arrays_of(Calls *calls, Operation *operation, int outputs, PyObject *data,
                                   PyObject **arrays) {
    int several = outputs > 1, status = 0;
    if (several && (!PyTuple_Check(data) || PyTuple_Size(data) != outputs)) {
        PyErr_Format(PyExc_TypeError, "%S: its impl has to return a tuple of %d arrays", operation->name,
                     outputs);
        status = -1;
    }
    for (int i = 0; status == 0 && i < outputs; i++) {
        PyObject *part = several ? PyTuple_GetItem(data, i) : data;
        arrays[i] = (PyObject *)Py_TYPE(part) == calls->object[ARRAY]
                        ? Py_NewRef(part)
                        : PyObject_CallFunctionObjArgs(calls->object[AS_ARRAY], part, NULL);
        if (!arrays[i]) status = -1;
    }
    Py_DECREF(data);
    return status;
}

/* Make the tensor of a result; NULL with an exception set. */
static PyObject *tensor_of(Calls *calls, Operation *operation, PyObject *array, PyObject *value,
                           PyObject *inputs, PyObject *attrs, int tracked) {
    PyObject *edge = NULL;
    if (tracked) {
        int known = calls->object[PLAIN] != Py_None && ARRAY_OF(array)->dtype == calls->object[DTYPE];
        tracked = known ? calls->smooth
                        : is_smooth(&calls->object[DTYPE], &calls->smooth, array, names.dtype);
    }
    if (tracked < 0) return NULL;
    if (tracked) {
        PyObject *number = PyIter_Next(calls->object[SEQUENCE]);
        if (number) edge = PyTuple_Pack(4, number, operation->op, inputs, attrs);
        Py_XDECREF(number);
        if (!edge) return NULL;
    } else {
        edge = Py_NewRef(Py_None);
    }
    PyObject *tensor = PyType_GenericAlloc((PyTypeObject *)calls->object[TENSOR], 0);
    if (!tensor) {
        Py_DECREF(edge);
        return NULL;
    }
    SLOT(tensor, calls->offset[TENSOR_DATA]) = Py_NewRef(array);
    SLOT(tensor, calls->offset[TENSOR_VID]) = Py_NewRef(value);
    SLOT(tensor, calls->offset[TENSOR_EDGE]) = edge;
    return tensor;
}

/* Make what the call returns: a tensor, or a tuple of them; NULL with an exception set. */
static ALWAYS_INLINE PyObject *result_of(Calls *calls, Operation *operation, int outputs,
                                         PyObject *const *arrays, PyObject *value, PyObject *inputs,
                                         PyObject *attrs, int tracked) {
    if (outputs == 1) return tensor_of(calls, operation, arrays[0], value, inputs, attrs, tracked);
    PyObject *all = tuple_of(arrays, outputs), *result = NULL;
    if (all)
        result = PyObject_CallMethodObjArgs(calls->object[TRACER], names.several, operation->op, inputs,
                                            attrs, all, tracked ? Py_True : Py_False, value, NULL);
    Py_XDECREF(all);
    return result;
}

#endif
