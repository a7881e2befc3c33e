/* Updates of parameters by an optimizer, as in `Optimizer.step`. Included only by calls.c. */
#ifndef NODESCOPE_CALL_UPDATES_H
#define NODESCOPE_CALL_UPDATES_H

#define MOST_PLACES 64

/* The items of the tuple that `calls_update` takes; `UpdateScript` in engine/update_script.py. */
enum { SCRIPT_OPS, SCRIPT_RESULTS, SCRIPT_RELEASED, SCRIPT_ASSIGN, SCRIPT_STORE, SCRIPT };

/* The values of an update, by place: parameter, gradient, state, numbers, then each operation's result;
   NULL where one was released. */
typedef struct {
    PyObject *place[MOST_PLACES]; /* owned */
    Py_ssize_t used;
} Values;

/* Whether a parameter and its gradient are arrays of the same dtype, in which the optimizer computes; -1
   with an exception set. */
static int computes_as_is(Calls *calls, PyObject *parameter, PyObject *gradient) {
    PyObject *dtype[2] = {NULL, NULL}, *tensors[2] = {parameter, gradient};
    for (int i = 0; i < 2; i++) {
        PyObject *tensor = tensors[i];
        PyObject *data = (PyObject *)Py_TYPE(tensor) == calls->object[TENSOR]
                             ? SLOT(tensor, calls->offset[TENSOR_DATA]) : NULL;
        if (!data || (PyObject *)Py_TYPE(data) != calls->object[ARRAY]) break;
        if (!(dtype[i] = PyObject_GetAttr(data, names.dtype))) break;
    }
    int same = PyErr_Occurred() ? -1 : dtype[1] && dtype[0] == dtype[1];
    if (same == 1 && dtype[0] != calls->object[WORKING]) {
        PyObject *size = PyObject_GetAttr(dtype[0], names.itemsize);
        same = size ? PyLong_AsLong(size) != 2 : -1; /* halves are updated in float32 */
        if (same == 1) keep(&calls->object[WORKING], dtype[0]);
        Py_XDECREF(size);
    }
    Py_XDECREF(dtype[0]);
    Py_XDECREF(dtype[1]);
    return same;
}

/* Run an operation on values at places; NULL with an exception set. */
static PyObject *operate(Calls *calls, PyObject *op, PyObject *const *inputs, Py_ssize_t count) {
    Operation *operation = operation_of(calls, op);
    PyObject *tuple = operation ? PyTuple_New(count) : NULL;
    if (!tuple) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SetItem(tuple, i, Py_NewRef(inputs[i]));
    PyObject *result = run_or_leave(calls, operation, inputs, count, tuple, calls->object[NO_ATTRS]);
    Py_DECREF(tuple);
    return result;
}

/* Give up the results at some places; 0 if there is no such place. */
static int release(PyObject *places, Values *values) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(places); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(places, i));
        if (place < 0 || place >= values->used) return 0;
        Py_CLEAR(values->place[place]);
    }
    return 1;
}

/* Run the operations of a script; -1 with an exception set. */
static int run_script(Calls *calls, PyObject *operations, PyObject *released, Values *values) {
    Py_ssize_t many = PyTuple_Size(operations);
    if (many != PyTuple_Size(released)) goto wrong;
    for (Py_ssize_t i = 0; i < many; i++) {
        PyObject *operation = PyTuple_GetItem(operations, i), *inputs[MOST_INPUTS];
        Py_ssize_t count = PyTuple_Size(operation) - 1;
        if (count < 1 || count > MOST_INPUTS || values->used == MOST_PLACES) goto wrong;
        for (Py_ssize_t j = 0; j < count; j++) {
            Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(operation, j + 1));
            if (place < 0 || place >= values->used || !values->place[place]) goto wrong;
            inputs[j] = values->place[place];
        }
        PyObject *result = operate(calls, PyTuple_GetItem(operation, 0), inputs, count);
        if (!result) return -1;
        values->place[values->used++] = result;
        if (!release(PyTuple_GetItem(released, i), values)) goto wrong;
    }
    return 0;
wrong:
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "this is no script of an update");
    return -1;
}

/* Give a tensor the array of an `assign` node, as `store` does; -1 with an exception set. */
static int store(Calls *calls, PyObject *state, PyObject *target, PyObject *assigned,
                 PyObject *in_python) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *kind = calls->object[TENSOR], *data = NULL, *number;
    if ((PyObject *)Py_TYPE(target) == kind && (PyObject *)Py_TYPE(assigned) == kind)
        data = SLOT(assigned, offset[TENSOR_DATA]);
    if (!data || SLOT(state, offset[STATE_NOTED]) != Py_None ||
        SLOT(state, offset[STATE_BUILDER]) != Py_None) {
        PyObject *done = PyObject_CallFunctionObjArgs(in_python, target, assigned, NULL);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    if (!(number = PyIter_Next(calls->object[SEQUENCE]))) return -1;
    keep(&SLOT(target, offset[TENSOR_DATA]), data);
    keep(&SLOT(target, offset[TENSOR_HISTORY]), number);
    keep(&SLOT(target, offset[TENSOR_VID]), SLOT(assigned, offset[TENSOR_VID]));
    return PyList_SetItem(calls->object[WRITTEN_AT], 0, number); /* it owns the number now */
}

/* Update one parameter and its state, which are the first values; -1 with an exception set. */
static int update(Calls *calls, PyObject *state, PyObject *script, Values *values) {
    if (run_script(calls, PyTuple_GetItem(script, SCRIPT_OPS), PyTuple_GetItem(script, SCRIPT_RELEASED),
                   values) < 0)
        return -1;
    PyObject *results = PyTuple_GetItem(script, SCRIPT_RESULTS);
    for (Py_ssize_t i = 0; i < PyTuple_Size(results); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(results, i));
        if (place < 0 || place >= values->used || !values->place[place]) {
            PyErr_SetString(PyExc_ValueError, "this is no result of an update");
            return -1;
        }
        PyObject *inputs[2] = {values->place[i ? i + 1 : 0], values->place[place]};
        PyObject *assigned = operate(calls, PyTuple_GetItem(script, SCRIPT_ASSIGN), inputs, 2);
        int stored = assigned ? store(calls, state, inputs[0], assigned,
                                      PyTuple_GetItem(script, SCRIPT_STORE)) : -1;
        Py_XDECREF(assigned);
        if (stored < 0) return -1;
    }
    return 0;
}

/* Set where the thread's next calls are; -1 without memory. */
static void place_at(Calls *calls, PyObject *state, PyObject *scope, PyObject *phase, PyObject *cursor) {
    keep(&SLOT(state, calls->offset[STATE_SCOPE]), scope);
    keep(&SLOT(state, calls->offset[STATE_PHASE]), phase);
    keep(&SLOT(state, calls->offset[STATE_CURSOR]), cursor);
}

/* Update parameters from one on, until one has to be updated in Python; returns its number, or how many
   parameters there are. -1 with an exception set. */
static Py_ssize_t update_from(Calls *calls, PyObject *state, PyObject *const *arguments, Py_ssize_t at) {
    PyObject *parameters = arguments[1], *states = arguments[2], *numbers = arguments[3];
    Py_ssize_t many = PyList_Size(parameters);
    for (; at < many; at++) {
        PyObject *parameter = PyList_GetItem(parameters, at), *kept = PyList_GetItem(states, at);
        PyObject *scope = PyTuple_GetItem(arguments[4], at), *gradient = NULL;
        if (!parameter || !kept || !scope) return -1;
        if ((PyObject *)Py_TYPE(parameter) == calls->object[TENSOR])
            gradient = SLOT(parameter, calls->offset[TENSOR_GRAD]);
        Py_ssize_t slots = PyList_Check(kept) ? PyList_Size(kept) : 0, given = PyTuple_Size(numbers);
        if (!gradient || gradient == Py_None || slots + given > MOST_PLACES - 2 ||
            slots + 1 != PyTuple_Size(PyTuple_GetItem(arguments[0], SCRIPT_RESULTS)))
            return at;
        int simple = computes_as_is(calls, parameter, gradient);
        if (simple != 1) return simple < 0 ? -1 : at;
        Values values = {{Py_NewRef(parameter), Py_NewRef(gradient)}, 2};
        for (Py_ssize_t i = 0; i < slots; i++)
            values.place[values.used++] = Py_NewRef(PyList_GetItem(kept, i));
        for (Py_ssize_t i = 0; i < given; i++)
            values.place[values.used++] = Py_NewRef(PyTuple_GetItem(numbers, i));
        place_at(calls, state, scope, names.optimizer, Py_None);
        int done = update(calls, state, arguments[0], &values);
        for (Py_ssize_t i = 0; i < values.used; i++) Py_XDECREF(values.place[i]);
        if (done < 0) return -1;
    }
    return at;
}

PyDoc_STRVAR(update_doc,
"update(script, parameters, states, numbers, scopes, first)\n--\n\n"
"Update parameters with their gradients, and the optimizer's state, as its `step` does.\n\n"
"Args:\n"
"    script: See `UpdateScript` in nodescope.engine.update_script.\n"
"    parameters: The parameters, a list.\n"
"    states: For each parameter, a list of its state.\n"
"    numbers: The numbers of this step, a tuple.\n"
"    scopes: For each parameter, the scope of its update, a tuple.\n"
"    first: The number of the first parameter to update.\n\n"
"Returns:\n"
"    The number of the parameter that has to be updated in Python, or how many there are.\n");

static PyObject *calls_update(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    Calls *calls = (Calls *)self;
    PyObject *state;
    if (count != 6 || !PyTuple_Check(arguments[0]) || PyTuple_Size(arguments[0]) != SCRIPT ||
        !PyList_Check(arguments[1]) || !PyList_Check(arguments[2]) || !PyTuple_Check(arguments[3]) ||
        !PyTuple_Check(arguments[4])) {
        PyErr_SetString(PyExc_TypeError, "update takes a script, three lists or tuples, and a number");
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(arguments[5]);
    if (at < 0 || !(state = state_of_thread(calls))) return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(at);
    Py_INCREF(state);
    PyObject *scope = Py_XNewRef(SLOT(state, calls->offset[STATE_SCOPE]));
    PyObject *phase = Py_XNewRef(SLOT(state, calls->offset[STATE_PHASE]));
    PyObject *cursor = Py_XNewRef(SLOT(state, calls->offset[STATE_CURSOR]));
    at = update_from(calls, state, arguments, at);
    place_at(calls, state, scope, phase, cursor);
    Py_XDECREF(scope);
    Py_XDECREF(phase);
    Py_XDECREF(cursor);
    Py_DECREF(state);
    return at < 0 ? NULL : PyLong_FromSsize_t(at);
}

#endif
