/* Unobserved calls: `nodescope.engine.run.run` for arrays and numbers, without Python frames.

   Every other case, and every failure, is left to the Python function. */
#include "plain.h"

#include "plain_functions.h"

PyObject *operation_in(PyObject *plain, PyObject *op) {
    return (PyObject *)operation_of((Plain *)plain, op);
}

PyObject *compute_in(PyObject *plain, PyObject *operation, PyObject *const *inputs, Py_ssize_t count,
                     PyObject *attrs) {
    return computed((Plain *)plain, (Operation *)operation, inputs, count, attrs);
}

PyDoc_STRVAR(apply_doc,
"apply(op, inputs, attrs)\n--\n\n"
"Run an op on tensors and Python scalars. Raises the op's error, with the user's line.");

static PyObject *apply(Plain *self, PyObject *op, PyObject *inputs, PyObject *attrs) {
    if (self->object[SLOW] == Py_None) return run(self, op, inputs, attrs, 1);
    return run_slowly(self, op, inputs, attrs);
}

static PyObject *plain_apply(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "apply takes an op, a tuple of inputs, and attributes");
        return NULL;
    }
    return apply((Plain *)self, arguments[0], arguments[1], arguments[2]);
}

PyDoc_STRVAR(function_doc,
"function(op, operand, attrs)\n--\n\n"
"A function that applies an op to its positional arguments; keyword arguments are attributes.\n\n"
"Args:\n"
"    op: The op.\n"
"    operand: Converts an argument that is neither a tensor nor a Python scalar.\n"
"    attrs: The attributes of a call without keyword arguments.\n");

enum { CALLS, OP, OPERAND, ATTRS, FUNCTION };

/* Whether a value is a tensor or a Python scalar. */
static int is_operand(Plain *self, PyObject *value) {
    PyTypeObject *kind = Py_TYPE(value);
    return (PyObject *)kind == self->object[TENSOR] || kind == &PyFloat_Type || kind == &PyLong_Type ||
           kind == &PyBool_Type || kind == &PyComplex_Type;
}

static PyObject *op_called(PyObject *function, PyObject *const *arguments, Py_ssize_t count,
                               PyObject *keywords) {
    Plain *self = (Plain *)PyTuple_GetItem(function, CALLS);
    PyObject *operand = PyTuple_GetItem(function, OPERAND);
    PyObject *inputs = PyTuple_New(count), *attrs, *result = NULL;
    if (!inputs) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *input = is_operand(self, arguments[i])
                              ? Py_NewRef(arguments[i])
                              : PyObject_CallFunctionObjArgs(operand, arguments[i], NULL);
        if (!input || PyTuple_SetItem(inputs, i, input) < 0) {
            Py_DECREF(inputs);
            return NULL;
        }
    }
    Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
    attrs = named ? PyDict_New() : Py_NewRef(PyTuple_GetItem(function, ATTRS));
    for (Py_ssize_t i = 0; attrs && i < named; i++)
        if (PyDict_SetItem(attrs, PyTuple_GetItem(keywords, i), arguments[count + i]) < 0)
            Py_CLEAR(attrs);
    if (attrs) result = apply(self, PyTuple_GetItem(function, OP), inputs, attrs);
    Py_XDECREF(attrs);
    Py_DECREF(inputs);
    return result;
}

static PyMethodDef function_method = {
    "function", (PyCFunction)(void (*)(void))op_called, METH_FASTCALL | METH_KEYWORDS, NULL};

static PyObject *plain_function(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != FUNCTION - 1) {
        PyErr_SetString(PyExc_TypeError, "function takes an op, a function, and attributes");
        return NULL;
    }
    PyObject *parts = PyTuple_Pack(FUNCTION, self, arguments[0], arguments[1], arguments[2]);
    PyObject *function = parts ? PyCFunction_NewEx(&function_method, parts, NULL) : NULL;
    Py_XDECREF(parts);
    return function;
}

PyDoc_STRVAR(run_doc,
"run(op, inputs, attrs, recording)\n--\n\n"
"Run an op unobserved, and record it on the tape if ``recording``.");

static PyObject *plain_run(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    int recording = count == 4 ? PyObject_IsTrue(arguments[3]) : -1;
    if (recording < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "run takes four arguments");
        return NULL;
    }
    return run((Plain *)object, arguments[0], arguments[1], arguments[2], recording);
}

PyDoc_STRVAR(operands_doc,
"operands(inputs)\n--\n\n"
"Convert values to operands, see `operand` and `weak`; None if one cannot be an operand here.");

/* The inputs if all are tensors; else the result of calling a function with them. */
static PyObject *made_of(Plain *self, PyObject *inputs, PyObject *function) {
    if (PyTuple_Check(inputs)) {
        Py_ssize_t count = PyTuple_Size(inputs), i = 0;
        while (i < count && (PyObject *)Py_TYPE(PyTuple_GetItem(inputs, i)) == self->object[TENSOR])
            i++;
        if (i == count) return Py_NewRef(inputs);
    }
    return PyObject_CallFunctionObjArgs(function, inputs, NULL);
}

static PyObject *plain_operands(PyObject *self, PyObject *inputs) {
    return made_of((Plain *)self, inputs, ((Plain *)self)->object[OPERANDS]);
}

PyDoc_STRVAR(weak_doc,
"weak(inputs)\n--\n\nReplace Python floats next to bfloat16 tensors by bfloat16 constants.");

static PyObject *plain_weak(PyObject *self, PyObject *inputs) {
    return made_of((Plain *)self, inputs, ((Plain *)self)->object[WEAK]);
}

PyDoc_STRVAR(slow_doc,
"set_slow(run)\n--\n\nRun every op through ``run``; None to run ops directly.");

static PyObject *plain_set_slow(PyObject *self, PyObject *slow) {
    ((Plain *)self)->calls = calls_of(slow);
    keep(&((Plain *)self)->object[SLOW], slow);
    Py_RETURN_NONE;
}

static PyObject *plain_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *objects, *instance, *example;
    if (!PyArg_ParseTuple(arguments, "O!OO", &PyTuple_Type, &objects, &instance, &example)) return NULL;
    if (PyTuple_Size(objects) != GIVEN) {
        PyErr_SetString(PyExc_TypeError, "Plain takes another number of objects");
        return NULL;
    }
    int known =
        (PyObject *)Py_TYPE(example) == PyTuple_GetItem(objects, ARRAY) ? reads_arrays(example) : 0;
    if (known < 1) {
        if (!known) PyErr_SetString(PyExc_TypeError, "arrays are laid out in another way");
        return NULL;
    }
    Plain *self = (Plain *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    for (int i = 0; i < GIVEN; i++) keep(&self->object[i], PyTuple_GetItem(objects, i));
    keep(&self->object[SLOW], Py_None);
    self->object[OPERATIONS] = PyDict_New();
    self->data = self->object[OPERATIONS] ? offset_of(instance, "data") : -1;
    self->edge = self->data < 0 ? -1 : offset_of(instance, "edge");
    if (self->edge < 0) Py_CLEAR(self);
    return (PyObject *)self;
}

static int plain_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < OBJECTS; i++) Py_VISIT(((Plain *)object)->object[i]);
    for (int i = 0; i < DTYPES; i++) Py_VISIT(((Plain *)object)->dtype[i]);
    return 0;
}

static int plain_clear(PyObject *object) {
    ((Plain *)object)->calls = NULL;
    for (int i = 0; i < OBJECTS; i++) Py_CLEAR(((Plain *)object)->object[i]);
    for (int i = 0; i < DTYPES; i++) Py_CLEAR(((Plain *)object)->dtype[i]);
    return 0;
}

static PyMethodDef plain_methods[] = {
    {"apply", (PyCFunction)(void (*)(void))plain_apply, METH_FASTCALL, apply_doc},
    {"function", (PyCFunction)(void (*)(void))plain_function, METH_FASTCALL, function_doc},
    {"operands", plain_operands, METH_O, operands_doc},
    {"run", (PyCFunction)(void (*)(void))plain_run, METH_FASTCALL, run_doc},
    {"special", (PyCFunction)(void (*)(void))plain_special, METH_FASTCALL, special_doc},
    {"weak", plain_weak, METH_O, weak_doc},
    {"set_slow", plain_set_slow, METH_O, slow_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(plain_doc,
"Plain(objects, tensor, example)\n--\n\n"
"Unobserved calls of an engine's operations.\n\n"
"Args:\n"
"    objects: The classes of tensors, of written tensors and of arrays; the counter of tape entries;\n"
"        the function that makes an array of any value; the Python functions for other cases: to run\n"
"        an op, raise its error, make several results, make operands, make floats weak, and say how an\n"
"        op is computed; the class of bound methods; the attributes of an op without any.\n"
"    tensor: A tensor in which no slot is set.\n"
"    example: An array of three dimensions, with a base.\n\n"
"Raises:\n"
"    TypeError: Tensors or arrays are not laid out as expected.\n");

static PyType_Slot plain_slots[] = {
    {Py_tp_new, plain_new},
    {Py_tp_traverse, plain_traverse},
    {Py_tp_clear, plain_clear},
    {Py_tp_dealloc, dealloc_cleared},
    {Py_tp_methods, plain_methods},
    {Py_tp_doc, (void *)plain_doc},
    {0, NULL},
};

static PyType_Spec plain_spec = {"nodescope.native._core.Plain", sizeof(Plain), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, plain_slots};

int add_plain(PyObject *module) {
    if (name(&names.axis, "axis") < 0 || name(&names.call, "__call__") < 0 ||
        name(&names.dtype, "dtype") < 0 || name(&names.impl, "impl") < 0 ||
        name(&names.index, "index") < 0 || name(&names.keepdims, "keepdims") < 0 ||
        name(&names.num, "num") < 0 || name(&names.start, "start") < 0 ||
        name(&names.step, "step") < 0 || name(&names.stop, "stop") < 0 ||
        name(&names.vjp, "vjp") < 0)
        return -1;
    if (!operation_type) operation_type = (PyTypeObject *)PyType_FromSpec(&operation_spec);
    if (!function_type) function_type = (PyTypeObject *)PyType_FromSpec(&function_spec);
    if (!operation_type || !function_type) return -1;
    PyObject *type = PyType_FromSpec(&plain_spec);
    if (!type) return -1;
    int added = PyModule_AddObjectRef(module, "Plain", type);
    Py_DECREF(type);
    return added;
}
