/* Gradients that become those of leaves, as in `nodescope.engine.autodiff.backward`. Included only by
   pull.c. */
#ifndef NODESCOPE_PULL_LEAVES_H
#define NODESCOPE_PULL_LEAVES_H

/* Whether an object is in a dictionary by `id`; -1 with an exception set. */
static int is_seen(PyObject *seen, PyObject *object) {
    PyObject *key = PyLong_FromVoidPtr(object);
    int known = key ? PyDict_Contains(seen, key) : -1;
    Py_XDECREF(key);
    return known;
}

/* Add an object to a dictionary by `id`; -1 with an exception set. */
static int see(PyObject *seen, PyObject *object) {
    PyObject *key = PyLong_FromVoidPtr(object);
    int status = key ? PyDict_SetItem(seen, key, object) : -1;
    Py_XDECREF(key);
    return status;
}

/* A tensor of its own for the value of a cotangent, with a copy of its elements; NULL with an exception
   set. */
static PyObject *copy_of(Pull *self, PyObject *ct, PyObject *calls) {
    PyObject *data = Py_NewRef(SLOT(ct, self->data));
    PyObject *array = PyObject_CallMethodObjArgs(data, names.copy, names.order, NULL), *tensor = NULL;
    if (array && (tensor = PyType_GenericAlloc((PyTypeObject *)self->object[TENSOR], 0))) {
        keep(&SLOT(tensor, self->data), array);
        keep(&SLOT(tensor, self->edge), Py_None);
        keep(&SLOT(tensor, self->id), SLOT(ct, self->id));
        if (moved(calls, tensor, data) < 0) Py_CLEAR(tensor);
    }
    Py_XDECREF(array);
    Py_DECREF(data);
    return tensor;
}

/* Make a cotangent, or a copy if it may share its memory, the gradient of a leaf that has none. Returns
   that gradient as a new reference; NULL with an exception set, or without one if it is left to Python: if
   the leaf has a gradient, or if the cotangent does not fit, has a name or is to be differentiated. */
static PyObject *become(Pull *self, PyObject *leaf, PyObject *ct, PyObject *seen, PyObject *calls) {
    PyObject *kind = self->object[TENSOR], *array = self->object[ARRAY], *before, *data, *like;
    if ((PyObject *)Py_TYPE(leaf) != kind || (PyObject *)Py_TYPE(ct) != kind) return NULL;
    before = SLOT(leaf, self->grad);
    data = SLOT(ct, self->data);
    like = SLOT(leaf, self->data);
    if ((before && before != Py_None) || !data || !like || (PyObject *)Py_TYPE(data) != array ||
        (PyObject *)Py_TYPE(like) != array || !same_shape(data, like) || !SLOT(ct, self->id) ||
        ARRAY_OF(data)->dtype != ARRAY_OF(like)->dtype)
        return NULL;
    int shared = ARRAY_OF(data)->base ? 1 : is_seen(seen, ct);
    if (!shared) shared = is_seen(seen, data);
    int alike = SLOT(ct, self->edge) == Py_None && !SLOT(ct, self->kind) && !SLOT(ct, self->name);
    if (shared < 0 || (shared && !alike)) return NULL;
    PyObject *gradient = shared ? copy_of(self, ct, calls) : Py_NewRef(ct);
    if (gradient && see(seen, gradient) == 0 && see(seen, SLOT(gradient, self->data)) == 0) {
        keep(&SLOT(leaf, self->grad), gradient);
        return gradient;
    }
    Py_XDECREF(gradient);
    return NULL;
}

PyDoc_STRVAR(leaves_doc,
"leaves(ends, seen, calls, store)\n--\n\n"
"Store the gradients of leaves, and report them by ``calls``.\n\n"
"Args:\n"
"    ends: Leaves and their gradients, by `id`.\n"
"    seen: Arrays and tensors that may not become gradients, by `id`; extended.\n"
"    calls: The `Calls` of the tracer that observes the pass.\n"
"    store: Stores and reports the gradient of a leaf that the core leaves.");

static PyObject *pull_leaves(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    Pull *self = (Pull *)object;
    if (count != 4 || !PyDict_Check(arguments[0]) || !PyDict_Check(arguments[1]) ||
        !are_calls(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "leaves takes two dictionaries, calls, and a function");
        return NULL;
    }
    PyObject *ends = PyDict_Values(arguments[0]);
    int status = ends ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_Size(ends); i++) {
        PyObject *leaf, *ct;
        if (!PyArg_ParseTuple(PyList_GetItem(ends, i), "OO", &leaf, &ct)) {
            status = -1;
            break;
        }
        PyObject *gradient = become(self, leaf, ct, arguments[1], arguments[2]);
        if (gradient) {
            /* Only the report of a new pair may run something, in the leaf's place. */
            int known = pair_known(arguments[2], leaf, gradient);
            if (known == 0)
                status = differentiate(arguments[2], leaf) < 0 ? -1 : pair(arguments[2], leaf, gradient);
            else if (known < 0)
                status = -1;
            Py_DECREF(gradient);
        } else if (PyErr_Occurred()) {
            status = -1;
        } else {
            PyObject *done = PyObject_CallFunctionObjArgs(arguments[3], leaf, ct, NULL);
            Py_XDECREF(done);
            if (!done) status = -1;
        }
    }
    Py_XDECREF(ends);
    if (status < 0) return NULL;
    Py_RETURN_NONE;
}

#endif
