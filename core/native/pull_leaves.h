/* Gradients that become those of leaves, as in `nodescope.engine.autodiff.backward`. Included only by
   pull.c. */
#ifndef NODESCOPE_PULL_LEAVES_H
#define NODESCOPE_PULL_LEAVES_H

/* Whether an object is a key of a dictionary by `id`; -1 with an exception set. If not, it becomes one. */
static int seen_before(PyObject *seen, PyObject *object) {
    PyObject *key = PyLong_FromVoidPtr(object);
    int known = key ? PyDict_Contains(seen, key) : -1;
    if (known == 0 && PyDict_SetItem(seen, key, object) < 0) known = -1;
    Py_XDECREF(key);
    return known;
}

/* Make a cotangent the gradient of a leaf that has none. Returns 1; 0 if the leaf has a gradient, or if
   the cotangent may share its memory or does not fit; -1 with an exception set. */
static int become(Pull *self, PyObject *leaf, PyObject *ct, PyObject *seen) {
    PyObject *tensor = self->object[TENSOR], *array = self->object[ARRAY], *before, *data, *like;
    if ((PyObject *)Py_TYPE(leaf) != tensor || (PyObject *)Py_TYPE(ct) != tensor) return 0;
    before = SLOT(leaf, self->grad);
    data = SLOT(ct, self->data);
    like = SLOT(leaf, self->data);
    if ((before && before != Py_None) || !data || !like || (PyObject *)Py_TYPE(data) != array ||
        (PyObject *)Py_TYPE(like) != array || ARRAY_OF(data)->base || !same_shape(data, like) ||
        ARRAY_OF(data)->dtype != ARRAY_OF(like)->dtype)
        return 0;
    int known = seen_before(seen, ct);
    if (known) return known < 0 ? -1 : 0;
    known = seen_before(seen, data);
    if (known < 0) return -1;
    if (known) { /* Python makes another tensor of it, which is the one to remember */
        PyObject *key = PyLong_FromVoidPtr(ct);
        int forgotten = key ? PyDict_DelItem(seen, key) : -1;
        Py_XDECREF(key);
        return forgotten < 0 ? -1 : 0;
    }
    keep(&SLOT(leaf, self->grad), ct);
    return 1;
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
        int stored = become(self, leaf, ct, arguments[1]);
        if (stored > 0) {
            /* Only the report of a new pair may run something, in the leaf's place. */
            int known = pair_known(arguments[2], leaf, ct);
            if (known == 0)
                status = differentiate(arguments[2], leaf) < 0 ? -1 : pair(arguments[2], leaf, ct);
            else if (known < 0)
                status = -1;
        } else if (stored == 0) {
            PyObject *done = PyObject_CallFunctionObjArgs(arguments[3], leaf, ct, NULL);
            Py_XDECREF(done);
            if (!done) status = -1;
        } else {
            status = -1;
        }
    }
    Py_XDECREF(ends);
    if (status < 0) return NULL;
    Py_RETURN_NONE;
}

#endif
