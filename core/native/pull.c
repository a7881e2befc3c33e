/* Reverse mode: the loop of `_pull` in nodescope.engine.autodiff.tape, without Python frames. Cotangents
   are arrays, or tensors if rules run as nodes.

   It handles operations with a rule per input, with one rule for any number of inputs, and with one that
   returns all cotangents (joint). The outputs of an operation with several are picked of a bundle, where
   their cotangents wait for one another. At any other operation, the Python loop takes over with the
   cotangents so far. */
#include "pull.h"

#include "array_layout.h"
#include "calls.h"
#include "objects.h"
#include "pending.h"
#include "slots.h"

enum { TENSOR, ARRAY, LEAF, FREED, RULES_F, ADD, MULTIPLY, SAME, TIMES_RIGHT, TIMES_LEFT,
       WRITTEN_AT, FITTED, CONTINUED, USED_TWICE, BLAME, STAYS, BUNDLE, PICK, ZEROS_LIKE, INPUTS_THEN,
       GIVEN, OPS = GIVEN, OBJECTS };

typedef struct {
    PyObject_HEAD
    PyObject *object[OBJECTS];
    Py_ssize_t data, edge, grad, history, id, kind, name; /* slots of a tensor */
    Py_ssize_t bundle_data, bundle_edge, bundle_ids;
    int traced; /* whether cotangents are tensors */
} Pull;

static struct { PyObject *copy, *joint, *order, *partial, *port, *tensors, *variadic, *vjp; } names;

/* The parts of a tensor's edge. */
enum { SEQ, OP, INPUTS, ATTRS, EDGE };

/* How an op is pulled back; `OTHER` is left to Python. */
enum { PER_INPUT, VARIADIC, JOINT, PICKED, OTHER };

static double number_of(PyObject *seq) {
    return PyLong_Check(seq) ? PyLong_AsDouble(seq) : PyFloat_AsDouble(seq);
}

static int truth_of(PyObject *op, PyObject *name) {
    PyObject *value = PyObject_GetAttr(op, name);
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return truth;
}

/* The rules of an op and how it is pulled back, as a new tuple. NULL with an exception set. */
static PyObject *rules_of(Pull *self, PyObject *op) {
    PyObject *known = PyDict_GetItemWithError(self->object[OPS], op);
    if (known || PyErr_Occurred()) return Py_XNewRef(known);
    int joint = truth_of(op, names.joint), variadic = truth_of(op, names.variadic);
    int partial = truth_of(op, names.partial);
    PyObject *rules = joint < 0 || variadic < 0 || partial < 0 ? NULL : PyObject_GetAttr(op, names.vjp);
    PyObject *stays = rules ? PyObject_CallFunctionObjArgs(self->object[STAYS], op, NULL) : NULL;
    if (stays) {
        int kind = op == self->object[PICK] ? PICKED : !PyTuple_Check(rules) || partial ? OTHER
                   : joint ? JOINT : variadic ? VARIADIC : PER_INPUT;
        known = Py_BuildValue("(Oi)", rules, kind);
        if (known && (stays == Py_True || kind == PICKED) &&
            PyDict_SetItem(self->object[OPS], op, known) < 0)
            Py_CLEAR(known);
    }
    Py_XDECREF(rules);
    Py_XDECREF(stays);
    return known;
}

/* A tensor, or a number, as the rules take it; borrowed. */
static PyObject *operand_of(Pull *self, PyObject *value) {
    int array = !self->traced && (PyObject *)Py_TYPE(value) == self->object[TENSOR];
    return array ? SLOT(value, self->data) : value;
}

/* The arguments of a node's rules: F, the cotangent, the output, the inputs. */
static PyObject *arguments_of(Pull *self, PyObject *ct, PyObject *out, PyObject *inputs) {
    Py_ssize_t count = PyTuple_Size(inputs);
    PyObject *arguments = PyTuple_New(count + 3);
    if (!arguments) return NULL;
    PyTuple_SetItem(arguments, 0, Py_NewRef(self->object[RULES_F]));
    PyTuple_SetItem(arguments, 1, Py_NewRef(ct));
    PyTuple_SetItem(arguments, 2, Py_NewRef(out));
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SetItem(arguments, i + 3, Py_NewRef(operand_of(self, PyTuple_GetItem(inputs, i))));
    return arguments;
}

/* The call of a rule for a port; NULL with an exception set. */
static PyObject *called(PyObject *rule, PyObject *arguments, PyObject *attrs, int variadic,
                        Py_ssize_t port) {
    if (!variadic)
        return PyDict_Size(attrs) ? PyObject_Call(rule, arguments, attrs)
                                  : PyObject_CallObject(rule, arguments);
    PyObject *keywords = PyDict_Copy(attrs), *number = PyLong_FromSsize_t(port), *part = NULL;
    if (keywords && number && PyDict_SetItem(keywords, names.port, number) == 0)
        part = PyObject_Call(rule, arguments, keywords);
    Py_XDECREF(keywords);
    Py_XDECREF(number);
    return part;
}

/* The cotangent of an input in its shape and dtype; steals the reference to `part`. */
static PyObject *fitted(Pull *self, PyObject *part, PyObject *like) {
    PyObject *array = self->object[ARRAY], *data = part;
    if (self->traced && (PyObject *)Py_TYPE(part) == self->object[TENSOR])
        data = SLOT(part, self->data);
    if ((PyObject *)Py_TYPE(data) == array && (PyObject *)Py_TYPE(like) == array &&
        same_shape(data, like) && ARRAY_OF(data)->dtype == ARRAY_OF(like)->dtype)
        return part;
    PyObject *made = PyObject_CallFunctionObjArgs(self->object[FITTED], self->object[RULES_F], part,
                                                  like, NULL);
    Py_DECREF(part);
    return made;
}

/* Add a part of the cotangent of a reached tensor; 0 with an exception set. */
static int accumulate(Pull *self, Reached *entry, PyObject *part, int leaf) {
    PyObject *add = self->object[ADD];
    if (entry->summed) {
        PyObject *done = PyObject_CallFunctionObjArgs(add, entry->ct, part, entry->ct, NULL);
        Py_XDECREF(done);
        return done != NULL;
    }
    PyObject *total = PyObject_CallFunctionObjArgs(add, entry->ct, part, NULL);
    if (!total) return 0;
    /* The sum is referenced only here, so a leaf's next cotangent is added in place. */
    entry->summed = leaf && !self->traced && (PyObject *)Py_TYPE(total) == self->object[ARRAY];
    PyObject *before = entry->ct;
    entry->ct = total;
    Py_DECREF(before);
    return 1;
}

/* Note that a cotangent arrives at a tensor; 0 with an exception set. */
static int arrive(Pull *self, Pending *pending, PyObject *tensor, PyObject *edge, PyObject *part) {
    int leaf = edge == self->object[LEAF];
    Reached *entry = place_in(pending, tensor);
    if (entry->tensor) return accumulate(self, entry, part, leaf);
    if (edge == self->object[FREED]) {
        PyObject *error = PyObject_CallNoArgs(self->object[USED_TWICE]);
        if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_XDECREF(error);
        return 0;
    }
    double seq = leaf ? 0 : number_of(PyTuple_GetItem(edge, SEQ));
    if (seq == -1.0 && PyErr_Occurred()) return 0;
    if (add_reached(pending, tensor, part) &&
        (leaf ? add_end(pending, tensor) : add_waiting(pending, seq, tensor)))
        return 1;
    PyErr_NoMemory();
    return 0;
}

/* The slot of a tensor's or a bundle's edge; NULL of any other object. */
static PyObject **edge_of(Pull *self, PyObject *tensor) {
    PyObject *kind = (PyObject *)Py_TYPE(tensor);
    return kind == self->object[TENSOR]   ? &SLOT(tensor, self->edge)
           : kind == self->object[BUNDLE] ? &SLOT(tensor, self->bundle_edge) : NULL;
}

/* Whether a tensor was written to at a number of the tape or later, or may have been. */
static int is_written(Pull *self, PyObject *value, double seq) {
    PyTypeObject *kind = (PyTypeObject *)self->object[TENSOR];
    if (Py_TYPE(value) != kind) return PyType_IsSubtype(Py_TYPE(value), kind);
    PyObject *history = SLOT(value, self->history);
    return history && (!PyLong_Check(history) || PyLong_AsDouble(history) > seq);
}

/* The inputs of an operation as they were when it ran, as a new reference; NULL with an exception set,
   also if the gradient needs elements that are gone. */
static PyObject *inputs_then(Pull *self, PyObject *edge) {
    PyObject *seq = PyTuple_GetItem(edge, SEQ), *inputs = PyTuple_GetItem(edge, INPUTS);
    PyObject *written = PyList_GetItem(self->object[WRITTEN_AT], 0);
    double then = number_of(seq);
    if (!written || PyErr_Occurred()) return NULL;
    Py_ssize_t i = then < number_of(written) ? 0 : PyTuple_Size(inputs);
    while (i < PyTuple_Size(inputs) && !is_written(self, PyTuple_GetItem(inputs, i), then)) i++;
    if (i == PyTuple_Size(inputs)) return Py_NewRef(inputs);
    return PyObject_CallFunctionObjArgs(self->object[INPUTS_THEN], seq, PyTuple_GetItem(edge, OP), inputs,
                                        NULL);
}

/* Let the cotangent of one of several outputs wait for those of the others; 0 with an exception set. */
static int pick(Pull *self, Pending *pending, PyObject *ct, PyObject *inputs, PyObject *edge) {
    PyObject *bundle = PyTuple_GetItem(inputs, 0);
    PyObject *number = PyDict_GetItemWithError(PyTuple_GetItem(edge, ATTRS), names.port);
    Py_ssize_t port = number ? PyLong_AsSsize_t(number) : -1;
    if ((PyObject *)Py_TYPE(bundle) != self->object[BUNDLE] || port < 0) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_SystemError, "an output is picked of no bundle");
        return 0;
    }
    PyObject *data = SLOT(bundle, self->bundle_data), *before, *total;
    Reached *entry = place_in(pending, bundle);
    if (!entry->tensor) {
        PyObject *parts = PyList_New(PyTuple_Size(data));
        for (Py_ssize_t i = 0; parts && i < PyList_Size(parts); i++)
            PyList_SetItem(parts, i, Py_NewRef(Py_None));
        int added = parts && arrive(self, pending, bundle, SLOT(bundle, self->bundle_edge), parts);
        Py_XDECREF(parts);
        if (!added) return 0;
        entry = place_in(pending, bundle);
    }
    if (!(before = PyList_GetItem(entry->ct, port))) return 0;
    total = before == Py_None ? Py_NewRef(ct)
                              : PyObject_CallFunctionObjArgs(self->object[ADD], before, ct, NULL);
    return total && PyList_SetItem(entry->ct, port, total) == 0;
}

/* The cotangents of a bundle's outputs, zeros for those without one, as a new tuple. */
static PyObject *all_cotangents(Pull *self, PyObject *parts, PyObject *out) {
    PyObject *cts = PySequence_Tuple(parts);
    for (Py_ssize_t i = 0; cts && i < PyTuple_Size(cts); i++) {
        if (PyTuple_GetItem(cts, i) != Py_None) continue;
        PyObject *zeros = PyObject_CallFunctionObjArgs(self->object[ZEROS_LIKE],
                                                       PyTuple_GetItem(out, i), NULL);
        if (!zeros || PyTuple_SetItem(cts, i, zeros) < 0) Py_CLEAR(cts);
    }
    return cts;
}

/* What an operation returned, as rules take it: a tensor or an array, or a tuple of them. */
static PyObject *output_of(Pull *self, PyObject *tensor) {
    if ((PyObject *)Py_TYPE(tensor) == self->object[TENSOR]) return Py_NewRef(operand_of(self, tensor));
    return self->traced ? PyObject_CallMethodObjArgs(tensor, names.tensors, NULL)
                        : Py_NewRef(SLOT(tensor, self->bundle_data));
}

/* The cotangents of all inputs by a joint rule, as a new tuple; NULL with an exception set. */
static PyObject *by_joint_rule(Pull *self, PyObject *rules, PyObject *out, PyObject *ct, PyObject *inputs,
                               PyObject *attrs) {
    PyObject *arguments = arguments_of(self, ct, out, inputs);
    PyObject *parts = arguments ? called(PyTuple_GetItem(rules, 0), arguments, attrs, 0, 0) : NULL;
    PyObject *all = parts ? PySequence_Tuple(parts) : NULL;
    Py_XDECREF(arguments);
    Py_XDECREF(parts);
    return all;
}

/* Pull a cotangent back through one operation; 0 with an exception set. */
static int through(Pull *self, Pending *pending, PyObject *rules, int kind, PyObject *out, PyObject *ct,
                   PyObject *inputs, PyObject *attrs) {
    PyObject *arguments = NULL, *object = NULL;
    PyObject *all = kind == JOINT ? by_joint_rule(self, rules, out, ct, inputs, attrs) : NULL;
    Py_ssize_t count = PyTuple_Size(inputs), many = PyTuple_Size(all ? all : rules);
    int pair = count == 2 && kind == PER_INPUT && PyDict_Size(attrs) == 0, done = kind != JOINT || all;
    if (kind != VARIADIC && many < count) count = many;
    for (Py_ssize_t i = 0; done && i < count; i++) {
        PyObject *input = PyTuple_GetItem(inputs, i), *before, *part = NULL;
        if ((PyObject *)Py_TYPE(input) != self->object[TENSOR]) continue;
        before = SLOT(input, self->edge);
        if (!before || before == Py_None) continue;
        PyObject *rule = all ? Py_None : PyTuple_GetItem(rules, kind == VARIADIC ? 0 : i);
        if (!all && rule == Py_None) continue;
        Py_INCREF(before);
        if (all) {
            part = Py_NewRef(PyTuple_GetItem(all, i));
        } else if (rule == self->object[SAME]) {
            part = Py_NewRef(ct);
        } else if (pair && (rule == self->object[TIMES_RIGHT] || rule == self->object[TIMES_LEFT])) {
            object = operand_of(self, PyTuple_GetItem(inputs, rule == self->object[TIMES_RIGHT]));
            part = PyObject_CallFunctionObjArgs(self->object[MULTIPLY], ct, object, NULL);
        } else if (arguments || (arguments = arguments_of(self, ct, out, inputs))) {
            part = called(rule, arguments, attrs, kind == VARIADIC, i);
        }
        if (part && part != Py_None) part = fitted(self, part, SLOT(input, self->data));
        done = part && (part == Py_None || arrive(self, pending, input, before, part));
        Py_XDECREF(part);
        Py_DECREF(before);
    }
    Py_XDECREF(arguments);
    Py_XDECREF(all);
    return done;
}

/* Pull the cotangent of a tensor or a bundle back; 0 with an exception set. */
static int pulled(Pull *self, Pending *pending, PyObject *rules, int kind, PyObject *tensor, PyObject *ct,
                  PyObject *edge, PyObject *inputs, PyObject *calls) {
    int several = (PyObject *)Py_TYPE(tensor) == self->object[BUNDLE];
    if (kind == PICKED)
        return (calls == Py_None || pair(calls, tensor, ct) == 0) &&
               pick(self, pending, ct, inputs, edge);
    if (calls != Py_None && several && differentiate_several(calls, SLOT(tensor, self->bundle_ids)) < 0)
        return 0;
    if (calls != Py_None && !several && (differentiate(calls, tensor) < 0 || pair(calls, tensor, ct) < 0))
        return 0;
    PyObject *out = output_of(self, tensor), *cts = NULL;
    int done = out != NULL;
    if (done && several) done = (cts = all_cotangents(self, ct, out)) != NULL;
    if (done)
        done = through(self, pending, rules, kind, out, cts ? cts : ct, inputs,
                       PyTuple_GetItem(edge, ATTRS));
    Py_XDECREF(out);
    Py_XDECREF(cts);
    return done;
}

/* Add a note to the current exception that names the op, as `_pull` does. */
static void blame(Pull *self, PyObject *tensor, PyObject *op) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace && error) PyException_SetTraceback(error, trace);
    PyObject *done = PyObject_CallFunctionObjArgs(self->object[BLAME], error, tensor, op, NULL);
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    PyErr_Restore(type, error, trace);
}

/* The leaves reached, as a dictionary of tensors and cotangents by `id`. */
static PyObject *ends_of(const Pending *pending) {
    PyObject *ends = PyDict_New();
    for (size_t i = 0; ends && i < pending->ended; i++) {
        Reached *entry = place_in(pending, pending->ends[i]);
        PyObject *key = PyLong_FromVoidPtr(entry->tensor);
        PyObject *both = PyTuple_Pack(2, entry->tensor, entry->ct);
        if (!key || !both || PyDict_SetItem(ends, key, both) < 0) Py_CLEAR(ends);
        Py_XDECREF(key);
        Py_XDECREF(both);
    }
    return ends;
}

/* Have the Python loop go on. */
static PyObject *go_on(Pull *self, const Pending *pending, PyObject *kept, PyObject *observed) {
    PyObject *cts = PyDict_New(), *ends = PyDict_New(), *heap = PyList_New(0), *sums = PySet_New(NULL);
    PyObject *result = NULL;
    int done = cts && ends && heap && sums;
    for (size_t i = 0; done && i < pending->size; i++) {
        Reached *entry = &pending->table[i];
        if (!entry->tensor) continue;
        PyObject *key = PyLong_FromVoidPtr(entry->tensor);
        done = key && PyDict_SetItem(cts, key, entry->ct) == 0 &&
               (!entry->summed || PySet_Add(sums, key) == 0);
        Py_XDECREF(key);
    }
    for (size_t i = 0; done && i < pending->ended; i++) {
        PyObject *key = PyLong_FromVoidPtr(pending->ends[i]);
        done = key && PyDict_SetItem(ends, key, pending->ends[i]) == 0;
        Py_XDECREF(key);
    }
    for (size_t i = 0; done && i < pending->waiting; i++)
        done = PyList_Append(heap, pending->heap[i].tensor) == 0;
    if (done)
        result = PyObject_CallFunctionObjArgs(self->object[CONTINUED], cts, ends, heap, sums, kept,
                                              observed, NULL);
    Py_XDECREF(cts);
    Py_XDECREF(ends);
    Py_XDECREF(heap);
    Py_XDECREF(sums);
    return result;
}

/* The rules of the operation that made a tensor, as a new reference, and how it is pulled back; NULL
   without an exception if the Python loop has to go on. */
static PyObject *next_rules(Pull *self, PyObject *edge, int *kind) {
    if (!edge || !PyTuple_Check(edge) || PyTuple_Size(edge) != EDGE ||
        PyTuple_GetItem(edge, OP) == Py_None)
        return NULL;
    PyObject *known = rules_of(self, PyTuple_GetItem(edge, OP));
    if (!known) return NULL;
    *kind = (int)PyLong_AsLong(PyTuple_GetItem(known, 1));
    PyObject *rules = *kind == OTHER ? NULL : Py_NewRef(PyTuple_GetItem(known, 0));
    Py_DECREF(known);
    return rules;
}

static PyObject *pull(Pull *self, Pending *pending, PyObject *kept, PyObject *calls,
                      PyObject *observed) {
    while (pending->waiting) {
        PyObject *tensor = pending->heap[0].tensor, **place = edge_of(self, tensor);
        int kind = OTHER;
        PyObject *edge = Py_XNewRef(place ? *place : NULL), *rules = next_rules(self, edge, &kind);
        if (!rules) {
            Py_XDECREF(edge);
            return PyErr_Occurred() ? NULL : go_on(self, pending, kept, observed);
        }
        Reached *entry = place_in(pending, next_waiting(pending));
        PyObject *ct = entry->ct;
        remove_from(pending, entry);
        PyObject *inputs = inputs_then(self, edge);
        int done = inputs && pulled(self, pending, rules, kind, tensor, ct, edge, inputs, calls);
        if (!done) blame(self, tensor, PyTuple_GetItem(edge, OP));
        else if (kept != Py_True) keep(place, self->object[FREED]);
        Py_XDECREF(inputs);
        Py_DECREF(rules);
        Py_DECREF(edge);
        Py_DECREF(ct);
        Py_DECREF(tensor);
        if (!done) return NULL;
    }
    return ends_of(pending);
}

PyDoc_STRVAR(pull_doc,
"pull(root, ct, keep, calls, observed)\n--\n\n"
"Carry the cotangent ``ct`` from a computed tensor back to the leaves, and leave the tape usable if\n"
"``keep`` is True. Returns the leaves with their cotangents, by `id`.\n\n"
"If a tracer observes the pass, ``calls`` is its `Calls`, else None; ``observed`` is what the Python\n"
"loop needs to go on.");

static PyObject *pull_call(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    Pull *self = (Pull *)object;
    Pending pending = {0};
    if (count != 5 || (arguments[3] != Py_None && !are_calls(arguments[3]))) {
        PyErr_SetString(PyExc_TypeError,
                        "pull takes a tensor, its cotangent, whether to keep, and two observers");
        return NULL;
    }
    PyObject *result = NULL;
    int kept = PyObject_IsTrue(arguments[2]);
    if (kept < 0) return NULL;
    /* Its place in the order does not matter, as it is the only one that waits. */
    if (!add_reached(&pending, arguments[0], arguments[1]) || !add_waiting(&pending, 0, arguments[0]))
        PyErr_NoMemory();
    else
        result = pull(self, &pending, kept ? Py_True : Py_False, arguments[3], arguments[4]);
    release(&pending);
    return result;
}

#include "pull_leaves.h"

static PyObject *pull_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *objects, *instance, *bundle, *example;
    int traced;
    if (!PyArg_ParseTuple(arguments, "O!OOOp", &PyTuple_Type, &objects, &instance, &bundle, &example,
                          &traced))
        return NULL;
    if (PyTuple_Size(objects) != GIVEN || !PyList_Check(PyTuple_GetItem(objects, WRITTEN_AT))) {
        PyErr_SetString(PyExc_TypeError, "Pull takes other objects");
        return NULL;
    }
    int known = (PyObject *)Py_TYPE(example) == PyTuple_GetItem(objects, ARRAY) ? reads_arrays(example) : 0;
    if (known < 1) {
        if (!known) PyErr_SetString(PyExc_TypeError, "arrays are laid out in another way");
        return NULL;
    }
    Pull *self = (Pull *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    for (int i = 0; i < GIVEN; i++) keep(&self->object[i], PyTuple_GetItem(objects, i));
    self->object[OPS] = PyDict_New();
    self->traced = traced;
    struct { Py_ssize_t *offset; PyObject *owner; const char *name; } slots[] = {
        {&self->data, instance, "data"}, {&self->edge, instance, "edge"}, {&self->grad, instance, "_grad"},
        {&self->history, instance, "_history"}, {&self->id, instance, "_vid"},
        {&self->kind, instance, "_kind"}, {&self->name, instance, "_name"},
        {&self->bundle_data, bundle, "data"}, {&self->bundle_edge, bundle, "edge"},
        {&self->bundle_ids, bundle, "ids"}};
    int known_slots = self->object[OPS] != NULL;
    for (size_t i = 0; known_slots && i < sizeof slots / sizeof *slots; i++)
        known_slots = (*slots[i].offset = offset_of(slots[i].owner, slots[i].name)) >= 0;
    if (!known_slots) Py_CLEAR(self);
    return (PyObject *)self;
}

static int pull_traverse(PyObject *object, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(object));
    for (int i = 0; i < OBJECTS; i++) Py_VISIT(((Pull *)object)->object[i]);
    return 0;
}

static int pull_clear(PyObject *object) {
    for (int i = 0; i < OBJECTS; i++) Py_CLEAR(((Pull *)object)->object[i]);
    return 0;
}

static PyMethodDef pull_methods[] = {
    {"pull", (PyCFunction)(void (*)(void))pull_call, METH_FASTCALL, pull_doc},
    {"leaves", (PyCFunction)(void (*)(void))pull_leaves, METH_FASTCALL, leaves_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(type_doc,
"Pull(objects, tensor, bundle, example, traced)\n--\n\n"
"Reverse mode.\n\n"
"Args:\n"
"    objects: The classes of tensors and of arrays; the edges of leaves and of freed tensors; the\n"
"        functions of all ops on cotangents, and those that add and multiply; the rules that return the\n"
"        cotangent, or its product with the right or left operand; when a tensor was last written to;\n"
"        the Python functions that give a cotangent the shape and dtype of an array, go on with the\n"
"        loop, make the error for a freed tape, name the op in an error, and say whether an op is\n"
"        registered, so that what is known of it is kept; the class of bundles, the op that picks an\n"
"        output of one, the function that makes the cotangent of an output without any, and the one\n"
"        that gives the inputs of an op as they were when it ran.\n"
"    tensor, bundle: One of each in which no slot is set.\n"
"    example: An array of three dimensions, with a base.\n"
"    traced: Whether cotangents are tensors, and rules run as nodes.\n\n"
"Raises:\n"
"    TypeError: Tensors, bundles or arrays are not laid out as expected.\n");

static PyType_Slot pull_slots[] = {
    {Py_tp_new, pull_new},
    {Py_tp_traverse, pull_traverse},
    {Py_tp_clear, pull_clear},
    {Py_tp_dealloc, dealloc_cleared},
    {Py_tp_methods, pull_methods},
    {Py_tp_doc, (void *)type_doc},
    {0, NULL},
};

static PyType_Spec pull_spec = {"nodescope.native._core.Pull", sizeof(Pull), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, pull_slots};

int add_pull(PyObject *module) {
    if (name(&names.copy, "copy") < 0 || name(&names.order, "K") < 0 ||
        name(&names.joint, "joint") < 0 || name(&names.partial, "partial") < 0 ||
        name(&names.port, "port") < 0 || name(&names.tensors, "tensors") < 0 ||
        name(&names.variadic, "variadic") < 0 || name(&names.vjp, "vjp") < 0)
        return -1;
    PyObject *type = PyType_FromSpec(&pull_spec);
    if (!type) return -1;
    int added = PyModule_AddObjectRef(module, "Pull", type);
    Py_DECREF(type);
    return added;
}
