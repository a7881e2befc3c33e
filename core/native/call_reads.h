/* Reads of leaves that recur in every step, as in `Tracer.read_leaf`. Included only by calls.c. */
#ifndef NODESCOPE_CALL_READS_H
#define NODESCOPE_CALL_READS_H

#define ANEW -1 /* see engine/stale_values.py */

/* The items of a parameter's tuple in READS, which `note_read` in engine/native_calls.py makes. */
enum { READ_TENSOR, READ_NAME, READ_STATE, READ_PLACE, READ_CURSOR, READ_SLOT, READ_ENTRY, READ_USED, READ };

/* Whether an entry is a leaf's: without inputs, and with one output. */
static int is_leaf(Calls *calls, PyObject *entry) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *inputs = SLOT(entry, offset[ENTRY_INPUTS]), *outputs = SLOT(entry, offset[ENTRY_OUTPUTS]);
    PyObject *values = SLOT(entry, offset[ENTRY_VALUES]);
    return inputs && outputs && values && PyTuple_Size(inputs) == 0 && PyTuple_Size(outputs) == 1 &&
           PyTuple_Size(values) == 1;
}

/* The entry of a parameter's node if its next read in this step repeats the known read, borrowed. NULL
   if the tracer has to find it, or with an exception set. */
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
    return is_leaf(calls, entry) ? entry : NULL;
}

/* An item of USED: a leaf, referenced weakly, and the entry of its node. NULL with an exception set. */
static PyObject *use_of(PyObject *tensor, PyObject *entry) {
    PyObject *reference = PyWeakref_NewRef(tensor, NULL);
    PyObject *used = reference ? PyTuple_Pack(2, reference, entry) : NULL;
    Py_XDECREF(reference);
    return used;
}

/* Read a leaf as the node that is next in its slot. `used`: an item for USED, or NULL. Returns 1; 0 if
   its shape or dtype has changed, in which case nothing was emitted; -1 with an exception set. */
static int read_as(Calls *calls, PyObject *state, PyObject *tensor, PyObject *slot, PyObject *entry,
                   PyObject *used) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *data = SLOT(tensor, offset[TENSOR_DATA]);
    if (!data) return 0;
    int status = all_specified(calls, entry, &data, 1);
    if (status != 1) return status;
    PyObject *number = PyLong_FromSsize_t(PyLong_AsSsize_t(PyList_GetItem(slot, 0)) + 1);
    PyObject *step = Py_NewRef(SLOT(calls->object[EMITTER], offset[EMITTER_STEP]));
    PyObject *nothing = PyTuple_New(0);
    Py_INCREF(data);
    status = -1;
    if (!number || !nothing) Py_XDECREF(number);
    else if (PyList_SetItem(slot, 0, number) == 0) { /* it owns the number now */
        long long start = now_ns();
        keep(&SLOT(tensor, offset[TENSOR_VID]), PyTuple_GetItem(SLOT(entry, offset[ENTRY_OUTPUTS]), 0));
        if ((!used || PyList_Append(calls->object[USED], used) == 0) &&
            tell(calls, state, entry, PyLong_AsLongLong(SLOT(entry, offset[ENTRY_ID])), step, NULL, 0, &data, 1,
                 tensor, nothing, NULL, start, now_ns()) == 0)
            status = 1;
    }
    Py_XDECREF(nothing);
    Py_DECREF(step);
    Py_DECREF(data);
    return status;
}

/* Whether calls are counted within a step or a model call. */
static int is_marked(Calls *calls) {
    return SLOT(calls->object[EMITTER], calls->offset[EMITTER_MARKED]) == Py_True;
}

/* Read a parameter that was read in an earlier step. Returns 1; 0 if the tracer has to read it, in which
   case nothing was emitted; -1 with an exception set. */
static int read_again(Calls *calls, PyObject *state, PyObject *tensor) {
    if (!is_marked(calls)) return 0;
    PyObject *key = PyLong_FromVoidPtr(tensor);
    PyObject *read = key ? PyDict_GetItemWithError(calls->object[READS], key) : NULL;
    Py_XDECREF(key);
    if (!read || !PyTuple_Check(read) || PyTuple_Size(read) != READ) return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(read);
    Py_INCREF(state);
    PyObject *entry = entry_read(calls, state, tensor, read);
    int status = PyErr_Occurred() ? -1 : 0;
    if (entry)
        status = read_as(calls, state, tensor, PyTuple_GetItem(read, READ_SLOT), entry,
                         PyTuple_GetItem(read, READ_USED));
    Py_DECREF(state);
    Py_DECREF(read);
    return status;
}

/* The entry of the node that an earlier step read here for a leaf of the same kind and name, not a
   parameter, and its slot in the cursor; both borrowed. NULL if the tracer has to find it, or with an
   exception set. */
static PyObject *entry_like(Calls *calls, PyObject *cursor, PyObject *tensor, PyObject **slot) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *kind = SLOT(tensor, offset[TENSOR_KIND]), *name = SLOT(tensor, offset[TENSOR_NAME]);
    PyObject *both = PyTuple_Pack(2, kind ? kind : names.tensor, name ? name : names.unnamed);
    PyObject *key = both ? PyDict_GetItemWithError(calls->object[READS], both) : NULL;
    PyObject *slots = SLOT(cursor, offset[CURSOR_SLOTS]);
    Py_XDECREF(both);
    *slot = key && slots ? PyDict_GetItemWithError(slots, key) : NULL;
    if (!*slot || !PyList_Check(*slot) || PyList_Size(*slot) != 2) return NULL;
    Py_ssize_t nth = PyLong_AsSsize_t(PyList_GetItem(*slot, 0));
    PyObject *entries = PyList_GetItem(*slot, 1);
    if (nth < 0 || !PyList_Check(entries) || nth >= PyList_Size(entries)) return NULL;
    PyObject *entry = PyList_GetItem(entries, nth);
    if ((PyObject *)Py_TYPE(entry) != calls->object[ENTRY_TYPE] || !is_leaf(calls, entry)) return NULL;
    long long value = PyLong_AsLongLong(PyTuple_GetItem(SLOT(entry, offset[ENTRY_OUTPUTS]), 0));
    return is_looped(calls, value) ? NULL : entry;
}

/* Like `read_again`, for a leaf that is not a parameter, outside of loops. */
static int read_like(Calls *calls, PyObject *state, PyObject *cursor, PyObject *tensor) {
    PyObject *slot;
    if (!is_marked(calls)) return 0;
    PyObject *entry = entry_like(calls, cursor, tensor, &slot);
    if (!entry) return PyErr_Occurred() ? -1 : 0;
    Py_INCREF(entry);
    Py_INCREF(slot);
    Py_INCREF(state);
    PyObject *id = SLOT(tensor, calls->offset[TENSOR_VID]);
    int anew = id && PyLong_AsLongLong(id) == ANEW;
    PyObject *used = anew ? use_of(tensor, entry) : NULL;
    int status = anew && !used ? -1 : read_as(calls, state, tensor, slot, entry, used);
    Py_XDECREF(used);
    Py_DECREF(state);
    Py_DECREF(slot);
    Py_DECREF(entry);
    return status;
}

PyDoc_STRVAR(read_doc,
"read(tensor)\n--\n\n"
"Read a tensor that no observed op made, if an earlier step read one of its kind and name here;\n"
"return whether it was read.\n");

static PyObject *calls_read(PyObject *self, PyObject *tensor) {
    Calls *calls = (Calls *)self;
    PyObject *state, *cursor;
    int varies, read = 0;
    if ((PyObject *)Py_TYPE(tensor) == calls->object[TENSOR] &&
        (cursor = place_of(calls, &state, &varies)))
        read = read_like(calls, state, cursor, tensor);
    return read < 0 || PyErr_Occurred() ? NULL : PyBool_FromLong(read);
}

#endif
