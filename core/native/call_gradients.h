/* Gradients of observed calls: where they are computed, and of what. Included only by calls.c. */
#ifndef NODESCOPE_CALL_GRADIENTS_H
#define NODESCOPE_CALL_GRADIENTS_H

int are_calls(PyObject *object) { return Py_TYPE(object) == calls_type; }

/* Look up where gradients of an entry's values are computed; -1 with an exception set. */
static int find_derivatives(Calls *calls, PyObject *entry) {
    PyObject *node = Py_NewRef(SLOT(entry, calls->offset[ENTRY_NODE])), *both = NULL;
    PyObject *place = PyObject_GetAttr(node, names.scope);
    PyObject *number = Py_NewRef(SLOT(entry, calls->offset[ENTRY_ID]));
    PyObject *scope =
        place ? PyObject_CallFunctionObjArgs(calls->object[BACKWARD_SCOPE], place, NULL) : NULL;
    if (scope && (both = PyTuple_Pack(2, scope, number)))
        keep(&SLOT(entry, calls->offset[ENTRY_DERIVATIVES]), both);
    Py_DECREF(node);
    Py_XDECREF(place);
    Py_XDECREF(number);
    Py_XDECREF(scope);
    Py_XDECREF(both);
    return both ? 0 : -1;
}

/* Place the rules of the operation that made a value; NULL: of an unknown one. -1 with an exception set. */
static int differentiate_value(Calls *calls, PyObject *value) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *scope = names.backward, *number = Py_None, *state, *known;
    PyObject *entry = value ? PyDict_GetItemWithError(calls->object[BY_VALUE], value) : NULL;
    if (!entry && PyErr_Occurred()) return -1;
    if (entry) {
        known = SLOT(entry, offset[ENTRY_DERIVATIVES]);
        if ((!known || !PyTuple_Check(known)) && find_derivatives(calls, entry) < 0) return -1;
        known = SLOT(entry, offset[ENTRY_DERIVATIVES]);
        scope = PyTuple_GetItem(known, 0);
        number = PyTuple_GetItem(known, 1);
    }
    if (!(state = state_of_thread(calls))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_SystemError, "a backward pass on a thread without a state");
        return -1;
    }
    keep(&SLOT(state, offset[STATE_FORWARD]), number);
    int other = PyObject_RichCompareBool(scope, SLOT(state, offset[STATE_SCOPE]), Py_NE);
    if (other > 0) {
        keep(&SLOT(state, offset[STATE_SCOPE]), scope);
        keep(&SLOT(state, offset[STATE_CURSOR]), Py_None);
    }
    return other < 0 ? -1 : 0;
}

int differentiate(PyObject *object, PyObject *tensor) {
    return differentiate_value((Calls *)object, SLOT(tensor, ((Calls *)object)->offset[TENSOR_VID]));
}

int differentiate_several(PyObject *object, PyObject *ids) {
    return differentiate_value((Calls *)object, PyTuple_GetItem(ids, 0));
}

/* Note that a tensor's elements are in another array, where executions are noted with their outputs.
   Returns 1 if there is no more to do, 0 if it is left to the tracer, -1 with an exception set. */
static int note_moved(Calls *calls, PyObject *tensor, PyObject *before) {
    PyObject *value = SLOT(tensor, calls->offset[TENSOR_VID]);
    long long number = value ? PyLong_AsLongLong(value) : 0;
    if (number <= calls->base) return 1;
    PyObject *entry = PyDict_GetItemWithError(calls->object[BY_VALUE], value);
    if (!entry) return PyErr_Occurred() ? -1 : 1;
    PyObject *recent = PyObject_GetAttr(entry, names.recent);
    int is_counted = recent ? PyObject_IsTrue(recent) : -1;
    Py_XDECREF(recent);
    if (is_counted) return is_counted < 0 ? -1 : 0; /* in rounds of a loop */
    PyObject *now = SLOT(tensor, calls->offset[TENSOR_DATA]);
    return note_move(calls->object[TIMES], number, (uint64_t)(uintptr_t)before, (uint64_t)(uintptr_t)now);
}

int moved(PyObject *object, PyObject *tensor, PyObject *before) {
    Calls *calls = (Calls *)object;
    PyObject *demand = SLOT(calls->object[BUS], calls->offset[BUS_DEMAND]);
    if (demand == calls->object[DEMAND]) {
        if (notes_times(calls->object[TIMES])) return 0;
        int noted = notes_outputs(calls->object[TIMES]) ? note_moved(calls, tensor, before) : 0;
        if (noted) return noted < 0 ? -1 : 0;
    }
    PyObject *done =
        PyObject_CallMethodObjArgs(calls->object[TRACER], names.moved, tensor, before, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

int pair_known(PyObject *object, PyObject *tensor, PyObject *gradient) {
    Calls *calls = (Calls *)object;
    PyObject *value = SLOT(tensor, calls->offset[TENSOR_VID]);
    if (!value || PyLong_AsLongLong(value) <= calls->base) return 1;
    if (SLOT(calls->object[BUS], calls->offset[BUS_DEMAND]) != calls->object[DEMAND] || calls->gradients)
        return 0;
    if ((PyObject *)Py_TYPE(gradient) != calls->object[TENSOR]) return 0;
    PyObject *id = SLOT(gradient, calls->offset[TENSOR_VID]);
    if (!id || PyLong_AsLongLong(id) <= calls->base) return 0;
    PyObject *known = PyDict_GetItemWithError(calls->object[PAIRS], value);
    return known ? PyObject_RichCompareBool(known, id, Py_EQ) : PyErr_Occurred() ? -1 : 0;
}

int pair(PyObject *object, PyObject *tensor, PyObject *gradient) {
    int known = pair_known(object, tensor, gradient);
    if (known) return known < 0 ? -1 : 0;
    PyObject *done = PyObject_CallMethodObjArgs(((Calls *)object)->object[TRACER], names.pair, tensor,
                                                gradient, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

#endif
