/* Operators, methods and NumPy's protocols of tensors, as functions without Python frames. Included only by
   plain.c.

   A call that is not simple is left to a Python function before it has any effect. */
#ifndef NODESCOPE_PLAIN_FUNCTIONS_H
#define NODESCOPE_PLAIN_FUNCTIONS_H

#include "plain_run.h"

/* What a function is; engine/native_functions.py uses the same numbers. `detail` depends on it:
   BINARY, REFLECTED, UNARY, INDEXED: nothing; METHODS: parameters; SHAPED: whether a call without arguments
   means None; UFUNCS: the ops of ufuncs; FUNCTIONS: the layouts of NumPy's functions. */
enum { BINARY, REFLECTED, UNARY, INDEXED, METHODS, SHAPED, UFUNCS, FUNCTIONS };

/* What the operands of one of NumPy's functions are: its first argument; as many arguments as it has; the
   items of its first argument. */
enum { FIRST, ALL, ITEMS };

/* The values that a parameter takes; all others are left to Python. */
enum { AXIS, FLAG, SHAPE, ORDER, INTEGER, FIXED };

/* The parts of a parameter: the name of the attribute, the kind of its values, its default, its position or
   -1. A default of Ellipsis: there is none. */
enum { NAME, KIND, DEFAULT, POSITION };

typedef struct {
    PyObject_HEAD
    Plain *plain;
    PyObject *op, *detail, *fallback;
    Operation *operation; /* of op, once it is known */
    int kind;
} Function;

static PyTypeObject *function_type;

static int is_tensor(Plain *plain, PyObject *value) {
    return (PyObject *)Py_TYPE(value) == plain->object[TENSOR] && SLOT(value, plain->data) &&
           SLOT(value, plain->edge);
}

static int is_integer(PyObject *value) { return Py_TYPE(value) == &PyLong_Type; }

/* Whether a value is a tuple of integers. */
static int is_shape(PyObject *value) {
    if (Py_TYPE(value) != &PyTuple_Type) return 0;
    for (Py_ssize_t i = PyTuple_Size(value) - 1; i >= 0; i--)
        if (!is_integer(PyTuple_GetItem(value, i))) return 0;
    return 1;
}

/* Whether all operands are tensors of NumPy's own dtypes, or numbers, and one is a tensor; -1 with an
   exception set. Tensors alone may have other dtypes. */
static int are_operands(Plain *plain, PyObject *inputs) {
    int tensors = 0, numbers = 0, simple = 1;
    Py_ssize_t count = PyTuple_Size(inputs);
    for (Py_ssize_t i = 0; simple == 1 && i < count; i++) {
        PyObject *value = PyTuple_GetItem(inputs, i);
        if (is_tensor(plain, value)) tensors = 1;
        else if (is_integer(value) || Py_TYPE(value) == &PyFloat_Type) numbers = 1;
        else return 0;
    }
    for (Py_ssize_t i = 0; numbers && simple == 1 && i < count; i++) {
        PyObject *value = PyTuple_GetItem(inputs, i);
        if (!is_tensor(plain, value)) continue;
        PyObject *data = SLOT(value, plain->data);
        simple = (PyObject *)Py_TYPE(data) == plain->object[ARRAY] ? is_common(plain, data) : 0;
    }
    return simple == 1 ? tensors : simple;
}

/* The attribute for an argument, as a new reference; NULL without an exception if it is not simple. */
static PyObject *attribute_of(long kind, PyObject *value) {
    int simple = 0;
    switch (kind) {
    case AXIS: simple = value == Py_None || is_integer(value) || is_shape(value); break;
    case FLAG: simple = value == Py_True || value == Py_False; break;
    case ORDER: simple = value == Py_None || is_shape(value); break;
    case INTEGER: simple = is_integer(value); break;
    case SHAPE:
        if (is_integer(value)) return PyTuple_Pack(1, value);
        simple = is_shape(value);
        break;
    default: break;
    }
    return simple ? Py_NewRef(value) : NULL;
}

/* The attributes that arguments mean, the first `used` of which are operands. NULL with an exception set, or
   without one if the call is not simple. */
static PyObject *attributes_of(PyObject *parameters, PyObject *arguments, PyObject *keywords,
                               Py_ssize_t used) {
    Py_ssize_t given = PyTuple_Size(arguments), named = 0, many = PyTuple_Size(parameters);
    Py_ssize_t keys = keywords ? PyDict_Size(keywords) : 0;
    PyObject *attrs = PyDict_New();
    for (Py_ssize_t i = 0; attrs && i < many; i++) {
        PyObject *parameter = PyTuple_GetItem(parameters, i), *value = NULL;
        PyObject *name = PyTuple_GetItem(parameter, NAME);
        long position = PyLong_AsLong(PyTuple_GetItem(parameter, POSITION));
        if (position >= 0 && position < given) {
            value = PyTuple_GetItem(arguments, position);
            used++;
        } else if (keys && (value = PyDict_GetItemWithError(keywords, name))) {
            named++;
        }
        if (value) {
            value = attribute_of(PyLong_AsLong(PyTuple_GetItem(parameter, KIND)), value);
        } else {
            value = PyTuple_GetItem(parameter, DEFAULT);
            value = value == Py_Ellipsis ? NULL : Py_NewRef(value);
        }
        if (!value || PyDict_SetItem(attrs, name, value) < 0) Py_CLEAR(attrs);
        Py_XDECREF(value);
    }
    if (attrs && (used != given || named != keys)) Py_CLEAR(attrs);
    return attrs;
}

/* The operands of a call of one of NumPy's functions; also how many arguments they are. NULL with an
   exception set, or without one if the call is not simple. */
static PyObject *operands_of(Plain *plain, long layout, PyObject *arguments, Py_ssize_t many,
                             Py_ssize_t *used) {
    Py_ssize_t given = PyTuple_Size(arguments);
    PyObject *first, *items = NULL;
    *used = layout == ALL ? many : 1;
    if (given < *used) return NULL;
    first = PyTuple_GetItem(arguments, 0);
    if (layout == FIRST) return is_tensor(plain, first) ? PyTuple_Pack(1, first) : NULL;
    if (layout == ALL) {
        int simple = given == many ? are_operands(plain, arguments) : 0;
        return simple == 1 ? Py_NewRef(arguments) : NULL;
    }
    if (Py_TYPE(first) == &PyTuple_Type) items = Py_NewRef(first);
    else if (Py_TYPE(first) == &PyList_Type) items = PyList_AsTuple(first);
    if (!items) return NULL;
    Py_ssize_t count = PyTuple_Size(items), i = 0;
    while (i < count && is_tensor(plain, PyTuple_GetItem(items, i))) i++;
    if (i == count && count) return items;
    Py_DECREF(items);
    return NULL;
}

/* Whether an item of an index needs no conversion; -1 with an exception set. */
static int is_plain_item(PyObject *item) {
    if (is_integer(item)) return 1;
    if (Py_TYPE(item) != &PySlice_Type) return 0;
    PyObject *const bounds[] = {names.start, names.stop, names.step};
    int plain = 1;
    for (int i = 0; plain == 1 && i < 3; i++) {
        PyObject *bound = PyObject_GetAttr(item, bounds[i]);
        plain = !bound ? -1 : bound == Py_None || is_integer(bound);
        Py_XDECREF(bound);
    }
    return plain;
}

/* The attribute of an index, as a new reference. NULL with an exception set, or without one if it needs to
   be converted. */
static PyObject *index_of(PyObject *index) {
    int plain;
    if (Py_TYPE(index) != &PyTuple_Type)
        return is_plain_item(index) == 1 ? PyTuple_Pack(1, index) : NULL;
    for (Py_ssize_t i = PyTuple_Size(index) - 1; i >= 0; i--)
        if ((plain = is_plain_item(PyTuple_GetItem(index, i))) != 1) return NULL;
    return Py_NewRef(index);
}

static Operation *own_operation(Function *self) {
    if (!self->operation) self->operation = operation_of(self->plain, self->op);
    return self->operation;
}

/* Run a function's op with one attribute; steals the reference to its value. */
static PyObject *with_attribute(Function *self, PyObject *tensor, PyObject *name, PyObject *value) {
    PyObject *inputs = PyTuple_Pack(1, tensor), *attrs = PyDict_New(), *result = NULL;
    Operation *operation = own_operation(self);
    if (inputs && attrs && operation && PyDict_SetItem(attrs, name, value) == 0)
        result = apply_known(self->plain, operation, inputs, attrs);
    Py_DECREF(value);
    Py_XDECREF(inputs);
    Py_XDECREF(attrs);
    return result;
}

/* The functions below return NULL with an exception set, or without one if the call is not simple. */

static PyObject *operator_called(Function *self, PyObject *arguments) {
    Plain *plain = self->plain;
    Py_ssize_t count = PyTuple_Size(arguments);
    if (count != (self->kind == UNARY ? 1 : 2) || !is_tensor(plain, PyTuple_GetItem(arguments, 0)))
        return NULL;
    Operation *operation = are_operands(plain, arguments) == 1 ? own_operation(self) : NULL;
    if (!operation) return NULL;
    if (self->kind != REFLECTED)
        return apply_known(plain, operation, arguments, plain->object[NO_ATTRS]);
    PyObject *turned =
        PyTuple_Pack(2, PyTuple_GetItem(arguments, 1), PyTuple_GetItem(arguments, 0));
    PyObject *result =
        turned ? apply_known(plain, operation, turned, plain->object[NO_ATTRS]) : NULL;
    Py_XDECREF(turned);
    return result;
}

static PyObject *item_called(Function *self, PyObject *arguments) {
    if (PyTuple_Size(arguments) != 2 || !is_tensor(self->plain, PyTuple_GetItem(arguments, 0)))
        return NULL;
    PyObject *index = index_of(PyTuple_GetItem(arguments, 1));
    return index ? with_attribute(self, PyTuple_GetItem(arguments, 0), names.index, index) : NULL;
}

static PyObject *method_called(Function *self, PyObject *arguments, PyObject *keywords) {
    if (PyTuple_Size(arguments) < 1 || !is_tensor(self->plain, PyTuple_GetItem(arguments, 0)))
        return NULL;
    PyObject *attrs = attributes_of(self->detail, arguments, keywords, 1);
    PyObject *inputs = attrs ? PyTuple_Pack(1, PyTuple_GetItem(arguments, 0)) : NULL;
    Operation *operation = inputs ? own_operation(self) : NULL;
    PyObject *result = operation ? apply_known(self->plain, operation, inputs, attrs) : NULL;
    Py_XDECREF(attrs);
    Py_XDECREF(inputs);
    return result;
}

/* x.reshape(2, 3), x.reshape((2, 3)), x.transpose() and the like. */
static PyObject *shaped_called(Function *self, PyObject *arguments) {
    Py_ssize_t count = PyTuple_Size(arguments);
    if (count < 1 || !is_tensor(self->plain, PyTuple_GetItem(arguments, 0))) return NULL;
    PyObject *shape, *name = PyTuple_GetItem(self->detail, 0);
    if (count == 2 && is_shape(PyTuple_GetItem(arguments, 1))) {
        shape = Py_NewRef(PyTuple_GetItem(arguments, 1));
    } else if (count == 1) {
        if (PyTuple_GetItem(self->detail, 1) != Py_True) return NULL;
        shape = Py_NewRef(Py_None);
    } else {
        shape = PyTuple_GetSlice(arguments, 1, count);
        if (shape && !is_shape(shape)) Py_CLEAR(shape);
    }
    return shape ? with_attribute(self, PyTuple_GetItem(arguments, 0), name, shape) : NULL;
}

/* `__array_ufunc__(self, ufunc, method, *inputs)`, without keywords. */
static PyObject *ufunc_called(Function *self, PyObject *arguments) {
    Plain *plain = self->plain;
    Py_ssize_t count = PyTuple_Size(arguments);
    if (count < 4) return NULL;
    PyObject *method = PyTuple_GetItem(arguments, 2);
    if (method != names.call && (!PyUnicode_Check(method) || PyUnicode_Compare(method, names.call) != 0))
        return NULL;
    PyObject *op = PyDict_GetItemWithError(self->detail, PyTuple_GetItem(arguments, 1));
    PyObject *inputs = op ? PyTuple_GetSlice(arguments, 3, count) : NULL, *result = NULL;
    if (inputs && are_operands(plain, inputs) == 1) {
        Operation *operation = operation_of(plain, op);
        if (operation) result = apply_known(plain, operation, inputs, plain->object[NO_ATTRS]);
        Py_XDECREF((PyObject *)operation);
    }
    Py_XDECREF(inputs);
    return result;
}

/* `__array_function__(self, function, types, arguments, keywords)`. A layout: op, what its operands are and
   how many, parameters. */
static PyObject *function_called(Function *self, PyObject *all) {
    Plain *plain = self->plain;
    if (PyTuple_Size(all) != 5) return NULL;
    PyObject *arguments = PyTuple_GetItem(all, 3), *keywords = PyTuple_GetItem(all, 4);
    PyObject *layout = PyDict_GetItemWithError(self->detail, PyTuple_GetItem(all, 1));
    if (!layout || !PyTuple_Check(arguments) || !PyDict_Check(keywords)) return NULL;
    Py_ssize_t used;
    PyObject *attrs = NULL, *result = NULL;
    PyObject *inputs = operands_of(plain, PyLong_AsLong(PyTuple_GetItem(layout, 1)), arguments,
                                   PyLong_AsSsize_t(PyTuple_GetItem(layout, 2)), &used);
    if (inputs) attrs = attributes_of(PyTuple_GetItem(layout, 3), arguments, keywords, used);
    Operation *operation = attrs ? operation_of(plain, PyTuple_GetItem(layout, 0)) : NULL;
    if (operation)
        result = apply_known(plain, operation, inputs,
                             PyDict_Size(attrs) ? attrs : plain->object[NO_ATTRS]);
    Py_XDECREF((PyObject *)operation);
    Py_XDECREF(inputs);
    Py_XDECREF(attrs);
    return result;
}

static PyObject *function_call(PyObject *object, PyObject *arguments, PyObject *keywords) {
    Function *self = (Function *)object;
    PyObject *result = NULL;
    int bare = !keywords || PyDict_Size(keywords) == 0;
    switch (self->kind) {
    case BINARY: case REFLECTED: case UNARY: if (bare) result = operator_called(self, arguments); break;
    case INDEXED: if (bare) result = item_called(self, arguments); break;
    case METHODS: result = method_called(self, arguments, keywords); break;
    case SHAPED: if (bare) result = shaped_called(self, arguments); break;
    case UFUNCS: if (bare) result = ufunc_called(self, arguments); break;
    case FUNCTIONS: if (bare) result = function_called(self, arguments); break;
    }
    if (result || PyErr_Occurred()) return result;
    return PyObject_Call(self->fallback, arguments, keywords);
}

/* As a function of Python: bound to an instance, itself for a class. */
static PyObject *function_bound(PyObject *self, PyObject *instance, PyObject *type) {
    if (!instance || instance == Py_None) return Py_NewRef(self);
    return PyObject_CallFunctionObjArgs(((Function *)self)->plain->object[METHOD], self, instance, NULL);
}

/* Name, signature and documentation are those of the Python function. */
static PyObject *function_attribute(PyObject *self, PyObject *name) {
    PyObject *fallback = ((Function *)self)->fallback;
    if (PyUnicode_CompareWithASCIIString(name, "__doc__") == 0 ||
        PyUnicode_CompareWithASCIIString(name, "__module__") == 0)
        return PyObject_GetAttr(fallback, name);
    if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) return Py_NewRef(fallback);
    PyObject *value = PyObject_GenericGetAttr(self, name);
    if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
    PyErr_Clear();
    return PyObject_GetAttr(fallback, name);
}

static int function_traverse(PyObject *object, visitproc visit, void *arg) {
    Function *self = (Function *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->plain);
    Py_VISIT(self->op);
    Py_VISIT(self->detail);
    Py_VISIT(self->fallback);
    Py_VISIT(self->operation);
    return 0;
}

static int function_clear(PyObject *object) {
    Function *self = (Function *)object;
    Py_CLEAR(self->plain);
    Py_CLEAR(self->op);
    Py_CLEAR(self->detail);
    Py_CLEAR(self->fallback);
    Py_CLEAR(self->operation);
    return 0;
}

static PyType_Slot function_slots[] = {
    {Py_tp_call, function_call},
    {Py_tp_descr_get, function_bound},
    {Py_tp_getattro, function_attribute},
    {Py_tp_traverse, function_traverse},
    {Py_tp_clear, function_clear},
    {Py_tp_dealloc, dealloc_cleared},
    {0, NULL},
};

static PyType_Spec function_spec = {
    "nodescope.native._core.PlainFunction", sizeof(Function), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
        Py_TPFLAGS_METHOD_DESCRIPTOR,
    function_slots};

PyDoc_STRVAR(special_doc,
"special(kind, op, detail, fallback)\n--\n\n"
"An operator, method or protocol of tensors.\n\n"
"Args:\n"
"    kind: What it is; see `nodescope.engine.native_functions`.\n"
"    op: Its op, or None if that depends on the call.\n"
"    detail: Depends on ``kind``.\n"
"    fallback: The Python function for calls that are not simple, which also gives name and signature.\n");

static PyObject *plain_special(PyObject *plain, PyObject *const *arguments, Py_ssize_t count) {
    int kind = count == 4 ? (int)PyLong_AsLong(arguments[0]) : -1;
    if (kind < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "special takes four arguments");
        return NULL;
    }
    Function *self = (Function *)PyType_GenericAlloc(function_type, 0);
    if (!self) return NULL;
    self->kind = kind;
    self->plain = (Plain *)Py_NewRef(plain);
    keep(&self->op, arguments[1]);
    keep(&self->detail, arguments[2]);
    keep(&self->fallback, arguments[3]);
    return (PyObject *)self;
}

#endif
