/* Running one op on arrays and numbers. Included only by plain.c. */
#ifndef NODESCOPE_PLAIN_RUN_H
#define NODESCOPE_PLAIN_RUN_H

#include "array_layout.h"
#include "calls.h"
#include "objects.h"
#include "slots.h"

#define MOST_INPUTS 8
#define DTYPES 4

/* Dtypes of other libraries are numbered from here on; see nodescope.ops.lowprecision. */
#define FIRST_FOREIGN 256

enum { TENSOR, WRITTEN, ARRAY, SEQUENCE, AS_ARRAY, RUN, FAILED, SEVERAL, OPERANDS, WEAK, DIRECT,
       METHOD, NO_ATTRS, GIVEN, SLOW = GIVEN, SMOOTH_DTYPE, OPERATIONS, OBJECTS };

typedef struct {
    PyObject_HEAD
    PyObject *object[OBJECTS]; /* SLOW: the function that runs every op, or None */
    PyObject *calls;           /* the `Calls` of which SLOW is the method `run`, or NULL */
    PyObject *dtype[DTYPES];   /* dtypes of NumPy's own, as a cache */
    int next_dtype;
    Py_ssize_t data, edge;     /* slots of a tensor */
    int smooth;                /* whether elements of SMOOTH_DTYPE have gradients */
} Plain;

/* How an op is computed: by its impl; or, with arrays of NumPy's own dtypes, by a function with the same
   arguments; by `ufunc.reduce`; by `array[index]`; by a method that takes one attribute; by a function that
   takes the inputs as a tuple, and one attribute; as a product, by a function if no stack of matrices is
   multiplied by one. `how_of` in engine/run.py uses the same numbers. */
enum { IMPL, DIRECTLY, REDUCE, ITEM, BY_METHOD, JOINED, PRODUCT };

/* What is known of an op. */
typedef struct {
    PyObject_HEAD
    PyObject *op, *impl, *function, *name; /* function, name: depend on how */
    int how, differentiable;
} Operation;

static PyTypeObject *operation_type;

static struct {
    PyObject *axis, *call, *dtype, *impl, *index, *keepdims, *num, *start, *step, *stop, *vjp;
} names;

/* The `Operation` of an op, as a new reference. NULL with an exception set. */
static Operation *operation_of(Plain *self, PyObject *op) {
    PyObject *known = PyDict_GetItemWithError(self->object[OPERATIONS], op);
    if (known || PyErr_Occurred()) return (Operation *)Py_XNewRef(known);
    Operation *operation = (Operation *)PyType_GenericAlloc(operation_type, 0);
    PyObject *rules = PyObject_GetAttr(op, names.vjp), *impl = PyObject_GetAttr(op, names.impl);
    PyObject *how = rules && impl ? PyObject_CallFunctionObjArgs(self->object[DIRECT], op, NULL) : NULL;
    PyObject *function, *name;
    int stays, made = operation && how && PyArg_ParseTuple(how, "iOOp", &operation->how, &function,
                                                           &name, &stays);
    if (made) {
        keep(&operation->op, op);
        keep(&operation->impl, impl);
        keep(&operation->function, function);
        keep(&operation->name, name);
        operation->differentiable = rules != Py_None;
        made = !stays || PyDict_SetItem(self->object[OPERATIONS], op, (PyObject *)operation) == 0;
    }
    if (!made) Py_CLEAR(operation);
    Py_XDECREF(rules);
    Py_XDECREF(impl);
    Py_XDECREF(how);
    return operation;
}

/* Whether an array has one of NumPy's own dtypes, not bfloat16; -1 with an exception set. */
static int is_common(Plain *self, PyObject *array) {
    PyObject *dtype = ARRAY_OF(array)->dtype;
    for (int i = 0; i < DTYPES; i++)
        if (self->dtype[i] == dtype) return 1;
    PyObject *number = PyObject_GetAttr(dtype, names.num);
    long value = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    if (value < 0) return PyErr_Occurred() ? -1 : 0;
    if (value >= FIRST_FOREIGN) return 0;
    keep(&self->dtype[self->next_dtype], dtype);
    self->next_dtype = (self->next_dtype + 1) % DTYPES;
    return 1;
}

/* Call the function that explains a failure and raises; the current exception becomes its cause. */
static PyObject *fail(Plain *self, PyObject *op, PyObject *inputs, PyObject *attrs) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace && error) PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    PyObject *done = error ? PyObject_CallFunctionObjArgs(self->object[FAILED], op, inputs, attrs,
                                                          error, NULL) : NULL;
    Py_XDECREF(error);
    if (done) PyErr_SetString(PyExc_SystemError, "an operation failed without an error");
    Py_XDECREF(done);
    return NULL;
}

/* Whether the elements of an array have gradients; -1 with an exception set. */
static int has_gradient(Plain *self, PyObject *array) {
    if (ARRAY_OF(array)->dtype == self->object[SMOOTH_DTYPE]) return self->smooth;
    return is_smooth(&self->object[SMOOTH_DTYPE], &self->smooth, array, names.dtype);
}

/* Make a tensor of a result; steals the reference to the array. */
static PyObject *tensor_of(Plain *self, Operation *operation, PyObject *array, PyObject *inputs,
                           PyObject *attrs, int tracked) {
    PyObject *edge = NULL, *tensor = NULL;
    if (tracked) tracked = operation->differentiable ? has_gradient(self, array) : 0;
    if (tracked > 0) {
        PyObject *number = PyIter_Next(self->object[SEQUENCE]);
        if (number) edge = PyTuple_Pack(4, number, operation->op, inputs, attrs);
        Py_XDECREF(number);
    } else if (!tracked) {
        edge = Py_NewRef(Py_None);
    }
    if (edge) tensor = PyType_GenericAlloc((PyTypeObject *)self->object[TENSOR], 0);
    if (!tensor) {
        Py_XDECREF(edge);
        Py_DECREF(array);
        return NULL;
    }
    SLOT(tensor, self->data) = array;
    SLOT(tensor, self->edge) = edge;
    return tensor;
}

/* Call a function with the inputs, and the attributes as keywords. */
static PyObject *called(PyObject *function, PyObject *const *inputs, Py_ssize_t count,
                        PyObject *attrs) {
    if (PyDict_Size(attrs) == 0) {
        if (count == 1) return PyObject_CallFunctionObjArgs(function, inputs[0], NULL);
        if (count == 2) return PyObject_CallFunctionObjArgs(function, inputs[0], inputs[1], NULL);
        if (count == 3)
            return PyObject_CallFunctionObjArgs(function, inputs[0], inputs[1], inputs[2], NULL);
    }
    PyObject *arguments = PyTuple_New(count), *result = NULL;
    if (!arguments) return NULL;
    for (Py_ssize_t i = 0; i < count; i++) PyTuple_SetItem(arguments, i, Py_NewRef(inputs[i]));
    result = PyDict_Size(attrs) ? PyObject_Call(function, arguments, attrs)
                                : PyObject_CallObject(function, arguments);
    Py_DECREF(arguments);
    return result;
}

/* The result of an op without its impl; NULL with an exception set, or without one if it needs its impl. */
static PyObject *computed_directly(Plain *self, Operation *operation, PyObject *const *inputs,
                          Py_ssize_t count, PyObject *attrs) {
    int how = operation->how, common = how != IMPL && count > 0;
    PyObject *function = operation->function, *value;
    for (Py_ssize_t i = 0; common > 0 && i < count; i++) {
        int array = (PyObject *)Py_TYPE(inputs[i]) == self->object[ARRAY];
        if (array) common = is_common(self, inputs[i]);
        else if (how != DIRECTLY) common = 0;
    }
    if (common <= 0) return NULL;
    Py_ssize_t named = PyDict_Size(attrs);
    if (how == DIRECTLY) return called(function, inputs, count, attrs);
    if (how == PRODUCT && count == 2 && !named &&
        (ARRAY_OF(inputs[0])->dimensions < 3 || ARRAY_OF(inputs[1])->dimensions != 2))
        return called(function, inputs, count, attrs);
    if (how == REDUCE && count == 1 && named == 2) {
        PyObject *axis = PyDict_GetItemWithError(attrs, names.axis);
        PyObject *kept = PyDict_GetItemWithError(attrs, names.keepdims);
        if (axis && kept)
            return PyObject_CallFunctionObjArgs(function, inputs[0], axis, operation->name, Py_None,
                                                kept, NULL);
    }
    if (named == 1 && (count == 1 || how == JOINED) &&
        (value = PyDict_GetItemWithError(attrs, operation->name))) {
        if (how == ITEM) return PyObject_GetItem(inputs[0], value);
        if (how == BY_METHOD)
            return PyObject_CallMethodObjArgs(inputs[0], function, value, NULL);
        if (how == JOINED) {
            PyObject *parts = PyTuple_New(count), *joined = NULL;
            for (Py_ssize_t i = 0; parts && i < count; i++)
                PyTuple_SetItem(parts, i, Py_NewRef(inputs[i]));
            if (parts) joined = PyObject_CallFunctionObjArgs(function, parts, value, NULL);
            Py_XDECREF(parts);
            return joined;
        }
    }
    return NULL;
}

/* The result of an op on arrays and numbers; NULL with an exception set. */
static PyObject *computed(Plain *self, Operation *operation, PyObject *const *inputs,
                          Py_ssize_t count, PyObject *attrs) {
    PyObject *result = computed_directly(self, operation, inputs, count, attrs);
    if (result) return result;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
        PyErr_Clear(); /* the error is that of the impl */
    }
    return called(operation->impl, inputs, count, attrs);
}

/* Run an op whose inputs are given as a tuple; attributes are a dictionary. */
static PyObject *run_known(Plain *self, Operation *operation, PyObject *inputs, PyObject *attrs,
                           int recording) {
    PyObject *arrays[MOST_INPUTS], *op = operation->op;
    Py_ssize_t count = PyTuple_Size(inputs);
    int tracked = 0;
    if (count > MOST_INPUTS) goto leave;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = PyTuple_GetItem(inputs, i), *kind = (PyObject *)Py_TYPE(value);
        if (kind == self->object[TENSOR]) {
            PyObject *edge = SLOT(value, self->edge);
            tracked |= edge != Py_None;
            value = SLOT(value, self->data);
            if (!value || !edge) goto leave; /* a slot of the tensor is not set */
        }
        if (kind == self->object[WRITTEN]) goto leave;
        arrays[i] = value;
    }
    for (Py_ssize_t i = 0; i < count; i++) Py_INCREF(arrays[i]); /* a tensor may be given others */
    PyObject *data = computed(self, operation, arrays, count, attrs);
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(arrays[i]);
    tracked &= recording;
    if (!data) return fail(self, op, inputs, attrs);
    if ((PyObject *)Py_TYPE(data) != self->object[ARRAY]) {
        int several = (PyObject *)Py_TYPE(data) == (PyObject *)&PyTuple_Type;
        PyObject *made =
            several ? PyObject_CallFunctionObjArgs(self->object[SEVERAL], op, inputs, attrs, data,
                                                   tracked ? Py_True : Py_False, NULL)
                    : PyObject_CallFunctionObjArgs(self->object[AS_ARRAY], data, NULL);
        Py_DECREF(data);
        if (several || !made) return made;
        data = made;
    }
    return tensor_of(self, operation, data, inputs, attrs, tracked);
leave:
    return PyObject_CallFunctionObjArgs(self->object[RUN], op, inputs, attrs,
                                        recording ? Py_True : Py_False, NULL);
}

static PyObject *run(Plain *self, PyObject *op, PyObject *inputs, PyObject *attrs, int recording) {
    if (!PyTuple_Check(inputs) || !PyDict_Check(attrs))
        return PyObject_CallFunctionObjArgs(self->object[RUN], op, inputs, attrs,
                                            recording ? Py_True : Py_False, NULL);
    Operation *operation = operation_of(self, op);
    PyObject *result = operation ? run_known(self, operation, inputs, attrs, recording) : NULL;
    Py_XDECREF((PyObject *)operation);
    return result;
}

/* Run an op by the function that runs every op. */
static PyObject *run_slowly(Plain *self, PyObject *op, PyObject *inputs, PyObject *attrs) {
    PyObject *slow = Py_NewRef(self->object[SLOW]);
    PyObject *result = self->calls ? run_observed(self->calls, op, inputs, attrs)
                                   : PyObject_CallFunctionObjArgs(slow, op, inputs, attrs, NULL);
    Py_DECREF(slow);
    return result;
}

/* Run an op as `run_known` does, or by the function that runs every op. */
static PyObject *apply_known(Plain *self, Operation *operation, PyObject *inputs, PyObject *attrs) {
    if (self->object[SLOW] == Py_None) return run_known(self, operation, inputs, attrs, 1);
    return run_slowly(self, operation->op, inputs, attrs);
}

static int operation_traverse(PyObject *object, visitproc visit, void *arg) {
    Operation *self = (Operation *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->op);
    Py_VISIT(self->impl);
    Py_VISIT(self->function);
    return 0;
}

static int operation_clear(PyObject *object) {
    Operation *self = (Operation *)object;
    Py_CLEAR(self->op);
    Py_CLEAR(self->impl);
    Py_CLEAR(self->function);
    Py_CLEAR(self->name);
    return 0;
}

static PyType_Slot operation_slots[] = {
    {Py_tp_traverse, operation_traverse},
    {Py_tp_clear, operation_clear},
    {Py_tp_dealloc, dealloc_cleared},
    {0, NULL},
};

static PyType_Spec operation_spec = {
    "nodescope.native._core.PlainOperation", sizeof(Operation), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, operation_slots};

#endif
