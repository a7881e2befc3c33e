/* Parameters that are read again, as `Tracer.read_leaf` does it. Included by calls.c alone. */
#ifndef NODESCOPE_CALL_READS_H
#define NODESCOPE_CALL_READS_H

/* What `noted_read` in engine/native_calls.py puts into READS. */
enum { READ_TENSOR, READ_NAME, READ_STATE, READ_PLACE, READ_CURSOR, READ_SLOT, READ_ENTRY, READ_USED, READ };

/* The entry that a thread would find for a parameter, as its next read in this step, borrowed. NULL if
   the tracer has to find it, or with an exception set. */
static PyObject *entry_read(Calls *calls, PyObject *state, PyObject *tensor, PyObject *read) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *part[READ], *epoch = SLOT(calls->object[EMITTER], offset[EMITTER_EPOCH]);
    for (int i = 0; i < READ; i++) part[i] = PyTuple_GetItem(read, i);
    PyObject *name = SLOT(tensor, offset[TENSOR_NAME]), *cursors = SLOT(state, offset[STATE_CURSORS]);
    PyObject *known = PyObject_CallNoArgs(part[READ_TENSOR]);
    Py_XDECREF(known); /* the caller has the tensor */
    if (known != tensor || (name ? name : Py_None) != part[READ_NAME] ||
        part[READ_STATE] != state || !cursors || !epoch ||
        PyDict_GetItemWithError(cursors, part[READ_PLACE]) != part[READ_CURSOR])
        return NULL;
    if (SLOT(part[READ_CURSOR], offset[CURSOR_STEP]) != epoch &&
        restart(calls, part[READ_CURSOR], epoch) < 0)
        return NULL;
    Py_ssize_t nth = PyLong_AsSsize_t(PyList_GetItem(part[READ_SLOT], 0));
    PyObject *entries = PyList_GetItem(part[READ_SLOT], 1), *entry = part[READ_ENTRY];
    if (nth < 0 || nth >= PyList_Size(entries) || PyList_GetItem(entries, nth) != entry) return NULL;
    PyObject *inputs = SLOT(entry, offset[ENTRY_INPUTS]), *outputs = SLOT(entry, offset[ENTRY_OUTPUTS]);
    PyObject *values = SLOT(entry, offset[ENTRY_VALUES]);
    if (!inputs || !outputs || !values || PyTuple_Size(inputs) != 0 || PyTuple_Size(outputs) != 1 ||
        PyTuple_Size(values) != 1)
        return NULL;
    return entry;
}

/* Read a parameter again that was read in an earlier step. 1, or 0 if the tracer has to, before anything
   was told; -1: exception. */
static int read_again(Calls *calls, PyObject *state, PyObject *tensor) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *marked = PyObject_GetAttr(calls->object[EMITTER], names.marked);
    Py_XDECREF(marked);
    if (marked != Py_True) return marked ? 0 : -1;
    PyObject *key = PyLong_FromVoidPtr(tensor);
    PyObject *read = key ? PyDict_GetItemWithError(calls->object[READS], key) : NULL;
    Py_XDECREF(key);
    if (!read || !PyTuple_Check(read) || PyTuple_Size(read) != READ) return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(read);
    Py_INCREF(state);
    PyObject *entry = entry_read(calls, state, tensor, read), *data = SLOT(tensor, offset[TENSOR_DATA]);
    int status = PyErr_Occurred() ? -1 : 0;
    Py_XINCREF(data);
    if (entry && data) {
        PyObject *spec = PyObject_GetAttr(PyTuple_GetItem(SLOT(entry, offset[ENTRY_VALUES]), 0), names.spec);
        status = spec ? as_specified(calls, spec, data) : -1;
        Py_XDECREF(spec);
    }
    if (status == 1) {
        PyObject *slot = PyTuple_GetItem(read, READ_SLOT), *nothing = PyTuple_New(0);
        PyObject *number = PyLong_FromSsize_t(PyLong_AsSsize_t(PyList_GetItem(slot, 0)) + 1);
        PyObject *step = Py_NewRef(SLOT(calls->object[EMITTER], offset[EMITTER_STEP]));
        status = -1;
        if (!number || !nothing) Py_XDECREF(number);
        else if (PyList_SetItem(slot, 0, number) == 0) { /* it owns the number now */
            long long start = now_ns();
            keep(&SLOT(tensor, offset[TENSOR_VID]), PyTuple_GetItem(SLOT(entry, offset[ENTRY_OUTPUTS]), 0));
            if (PyList_Append(calls->object[USED], PyTuple_GetItem(read, READ_USED)) == 0 &&
                tell(calls, state, entry, step, nothing, data, tensor, nothing, start, now_ns()) == 0)
                status = 1;
        }
        Py_XDECREF(nothing);
        Py_DECREF(step);
    }
    Py_XDECREF(data);
    Py_DECREF(state);
    Py_DECREF(read);
    return status;
}

#endif
