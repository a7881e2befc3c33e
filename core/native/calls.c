/* Observed calls: the common case of `nodescope.engine.tracer.Tracer.run`.

   This file handles a call of an operation whose node is known, with the same inputs, while the program
   cannot stop before a node; with other attributes only where executions are noted. All other calls are
   left to the tracer, before they have had any effect.

   Attributes of classes with `__slots__` are read at their offsets, as the interpreter's own
   specialised instructions do; `offset_of` in call_types.h finds them. */
#include "call_types.h"
#include "call_attributes.h"
#include "call_cursors.h"
#include "call_results.h"
#include "call_sequence.h"
#include "call_specs.h"
#include "calls.h"
#include "outputs.h"
#include "times.h"

/* -------------------------------------------------------------------------- one call */

/* The state of this thread, borrowed; NULL without an exception if it has none yet. */
static PyObject *state_of_thread(Calls *calls) {
    uint64_t thread = PyThreadState_GetID(PyThreadState_Get());
    if (calls->object[STATE] && calls->thread == thread) return calls->object[STATE];
    PyObject *state = PyObject_GetAttr(calls->object[LOCAL], names.state);
    if (!state) {
        PyErr_Clear();
        return NULL;
    }
    if ((PyObject *)Py_TYPE(state) != calls->object[STATE_TYPE]) {
        Py_DECREF(state);
        return NULL;
    }
    keep(&calls->object[STATE], state);
    calls->thread = thread;
    Py_DECREF(state);
    return state;
}

/* The thread's cursor for its scope and phase in this step, borrowed; NULL with an exception set, or
   without one if the tracer has to find it. */
static PyObject *cursor_of(Calls *calls, PyObject *state, PyObject *step) {
    PyObject *cursor = SLOT(state, calls->offset[STATE_CURSOR]);
    int marked = SLOT(calls->object[EMITTER], calls->offset[EMITTER_MARKED]) == Py_True;
    if (cursor && (PyObject *)Py_TYPE(cursor) == calls->object[CURSOR_TYPE]) {
        int labelled = PyUnicode_GetLength(SLOT(cursor, calls->offset[CURSOR_LABEL])) != 0;
        if (SLOT(cursor, calls->offset[CURSOR_STEP]) == step && (marked || labelled)) return cursor;
        if (labelled) return NULL;
    }
    if (!marked) return NULL; /* a loop may have begun */
    if ((cursor = expected_cursor(calls, state))) cursor = taken(calls, state, cursor, step);
    else if (!PyErr_Occurred()) cursor = known_cursor(calls, state, step);
    if (cursor || PyErr_Occurred()) return cursor;
    cursor = PyObject_CallMethodObjArgs(calls->object[TRACER], names.cursor, state, step, NULL);
    Py_XDECREF(cursor); /* the state holds it */
    return cursor && (PyObject *)Py_TYPE(cursor) == calls->object[CURSOR_TYPE] ? cursor : NULL;
}

/* Whether an attribute is true; -1 with an exception set. */
static int truth_of(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    int truth = value ? PyObject_IsTrue(value) : -1;
    Py_XDECREF(value);
    return truth;
}

/* Cache what the probes want in this demand and step; -1 with an exception set. */
static int look_up(Calls *calls, PyObject *demand, PyObject *step) {
    if (demand == calls->object[DEMAND] && step == calls->object[IN_STEP]) return 0;
    Py_INCREF(demand); /* Python runs below, and another thread may replace both meanwhile */
    Py_INCREF(step);
    int starts = truth_of(demand, names.starts), gradients = truth_of(demand, names.gradients);
    PyObject *times = NULL;
    if (starts >= 0 && gradients >= 0)
        times = PyObject_CallMethodObjArgs(calls->object[TRACER], names.times, NULL);
    if (times) {
        calls->starts = starts;
        calls->gradients = gradients;
        keep(&calls->object[TIMES], times);
        keep(&calls->object[DEMAND], demand);
        keep(&calls->object[IN_STEP], step);
        Py_DECREF(times);
    }
    Py_DECREF(demand);
    Py_DECREF(step);
    return times ? 0 : -1;
}

/* Replace start and end by those of the kernel, if it read the clock itself; -1 with an exception
   set. */
static int kernel_times(Calls *calls, PyObject *state, long long *start, long long *end) {
    PyObject *ran = SLOT(state, calls->offset[STATE_RAN]);
    if (!ran || ran == Py_None) return 0;
    int parsed = PyArg_ParseTuple(ran, "LL", start, end);
    keep(&SLOT(state, calls->offset[STATE_RAN]), Py_None);
    return parsed ? 0 : -1;
}

/* Clear the current exception, and return it with its traceback. */
static PyObject *raised(void) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace && error) PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

/* Emit an event as `Bus.emit` does, without a Python frame; -1 with an exception set. */
static int emit(Calls *calls, PyObject *event) {
    if (SLOT(calls->object[BUS], calls->offset[BUS_CATCH_UP]) != Py_None) {
        PyObject *done = PyObject_CallMethodObjArgs(calls->object[BUS], names.emit, event, NULL);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    PyObject *probes = Py_NewRef(SLOT(calls->object[BUS], calls->offset[BUS_PROBES]));
    Py_ssize_t many = PyTuple_Size(probes);
    int status = 0;
    for (Py_ssize_t i = 0; i < many && status == 0; i++) {
        PyObject *probe = PyTuple_GetItem(probes, i);
        PyObject *done = PyObject_CallMethodObjArgs(probe, names.emit, event, NULL);
        if (!done && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyObject *error = raised();
            if (error)
                done = PyObject_CallMethodObjArgs(calls->object[BUS], names.failed, probe, error,
                                                  event, NULL);
            Py_XDECREF(error);
        }
        if (!done) status = -1;
        Py_XDECREF(done);
    }
    Py_DECREF(probes);
    return status;
}

/* The value of an int, which is converted only if it is another object than the last one; -1 with an
   exception set. */
static long long number_in(Number *known, PyObject *object) {
    if (known->object == object) return known->value;
    long long value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred()) return -1;
    keep(&known->object, object);
    return known->value = value;
}

/* The numbers of an execution; -1 with an exception set. */
static int numbers_of(Calls *calls, PyObject *state, long long id, PyObject *step, long long start,
                      long long end, long long numbers[TIMED]) {
    long long origin =
        number_in(&calls->number[ORIGIN], SLOT(calls->object[BUS], calls->offset[BUS_ORIGIN]));
    numbers[0] = id;
    numbers[1] = number_in(&calls->number[STEP], step);
    numbers[2] = number_in(&calls->number[THREAD], SLOT(state, calls->offset[STATE_THREAD]));
    numbers[3] = start - origin;
    numbers[4] = end - origin;
    return PyErr_Occurred() ? -1 : 0;
}

/* Emit an execution, or note it: only its times if no probe wants more. -1 with an exception set.
   `number`: the id of the node; the entry is read only if more than times are wanted. `own`: the attributes
   of this execution, or NULL if they are the node's. */
static ALWAYS_INLINE int tell(Calls *calls, PyObject *state, PyObject *entry, long long number,
                              PyObject *step, PyObject *const *read, Py_ssize_t reads,
                              PyObject *const *arrays, Py_ssize_t gives, PyObject *result,
                              PyObject *inputs, PyObject *own, long long start, long long end) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *bus = calls->object[BUS], *times = Py_NewRef(calls->object[TIMES]), *done = NULL;
    long long numbers[TIMED];
    int only_times = notes_times(times);
    int noted = numbers_of(calls, state, number, step, start, end, numbers);
    if (noted == 0 && only_times) noted = note_times(times, numbers);
    else if (noted == 0 && notes_outputs(times))
        noted = note_outputs(times, SLOT(entry, offset[ENTRY_NODE]), SLOT(entry, offset[ENTRY_OUTPUTS]),
                             numbers, read, reads, arrays, gives, own, 1);
    if (only_times || noted) {
        Py_DECREF(times);
        return noted < 0 ? -1 : 0;
    }
    PyObject *node = SLOT(entry, offset[ENTRY_NODE]), *id = SLOT(entry, offset[ENTRY_ID]);
    PyObject *thread = SLOT(state, offset[STATE_THREAD]);
    PyObject *began = PyLong_FromLongLong(numbers[3]), *ended = PyLong_FromLongLong(numbers[4]);
    if (began && ended && times != Py_None && !notes_outputs(times)) {
        done = PyObject_CallFunctionObjArgs(times, id, step, thread, began, ended, NULL);
    } else if (began && ended) {
        PyObject *live = tuple_of(read, reads), *given = tuple_of(arrays, gives);
        PyObject *event = live && given ? PyObject_CallFunctionObjArgs(
            calls->object[FINISHED], node, live, given, step, thread, began, ended, own, NULL) : NULL;
        PyObject *edits = SLOT(bus, offset[BUS_EDITS]);
        if (event && emit(calls, event) == 0)
            done = SLOT(bus, offset[BUS_EDITS]) == edits && PyDict_Size(edits) == 0
                ? Py_NewRef(Py_None)
                : PyObject_CallMethodObjArgs(calls->object[TRACER], names.take_edits, result,
                                             inputs, state, NULL);
        Py_XDECREF(live);
        Py_XDECREF(given);
        Py_XDECREF(event);
    }
    Py_DECREF(times);
    Py_XDECREF(began);
    Py_XDECREF(ended);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* The cursor of this thread, borrowed; also sets its state, borrowed, and whether shapes vary in this
   step. NULL with an exception set, or without one if the tracer has to run the call. */
static PyObject *place_of(Calls *calls, PyObject **state, int *varies) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *cursor, *token = SLOT(calls->object[EMITTER], offset[EMITTER_STEADY]);
    *state = state_of_thread(calls);
    if (!*state || SLOT(*state, offset[STATE_BUILDER]) != Py_None) return NULL;
    *varies = token == Py_None;
    if (*varies) token = SLOT(calls->object[EMITTER], offset[EMITTER_EPOCH]);
    if (!token || !(cursor = cursor_of(calls, *state, token))) return NULL;
    if (look_up(calls, SLOT(calls->object[BUS], offset[BUS_DEMAND]), token) < 0) return NULL;
    return calls->starts || SLOT(cursor, offset[CURSOR_LOOP]) != calls->zero ? NULL : cursor;
}

/* Whether a value's node has run in rounds of a loop: a tensor with its id may be that of an earlier round,
   and the tracer has to look. */
static int is_looped(const Calls *calls, long long value) {
    long long at = value - calls->base;
    return at > 0 && at < calls->looped_room && calls->looped[at];
}

#include "call_reads.h"
#include "call_gradients.h"

/* Have the tracer report an operation that raised, and raise the explained error. */
static void refuse(Calls *calls, Operation *operation, PyObject *inputs, PyObject *attrs,
                   PyObject *entry, PyObject *live, PyObject *step, PyObject *state,
                   long long start) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return;
    PyObject *error = raised();
    PyObject *began = PyLong_FromLongLong(start), *done = NULL;
    if (began && error)
        done = PyObject_CallMethodObjArgs(calls->object[TRACER], names.refused, operation->op,
                                          inputs, attrs, entry, live, step, state, began, error,
                                          NULL);
    Py_XDECREF(began);
    Py_XDECREF(done);
    Py_XDECREF(error);
    if (done) PyErr_SetString(PyExc_SystemError, "an operation failed without an error");
}

/* Get the value ids of the inputs that are tensors; the first one without an id is read instead, and
   `reads` is incremented. Returns the number of tensors; -1 with an exception set, or without one if
   the tracer has to run the call. */
static Py_ssize_t read_inputs(Calls *calls, PyObject *state, PyObject *cursor,
                              PyObject *const *inputs, Py_ssize_t count, PyObject **ids,
                              int *reads) {
    Py_ssize_t tensors = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *kind = (PyObject *)Py_TYPE(inputs[i]);
        if (kind == calls->object[WRITTEN]) return -1;
        if (kind != calls->object[TENSOR]) continue;
        PyObject *id = SLOT(inputs[i], calls->offset[TENSOR_VID]);
        long long number = id ? PyLong_AsLongLong(id) : 0;
        if (is_looped(calls, number)) return -1;
        if (number <= calls->base) {
            int again = read_again(calls, state, inputs[i]);
            if (again == 0) again = read_like(calls, state, cursor, inputs[i]);
            if (again < 0) return -1;
            if (again) {
                *reads += 1;
                return 0;
            }
            PyObject *port = PyLong_FromSsize_t(i), *read = NULL;
            if (port)
                read = PyObject_CallMethodObjArgs(calls->object[TRACER], names.leaf, inputs[i],
                                                  port, NULL);
            Py_XDECREF(port);
            Py_XDECREF(read);
            if (!read) return -1;
            *reads += 1;
            return 0;
        }
        ids[tensors++] = id;
    }
    return tensors;
}

/* The entry of the node that a call executes, and its slot in the cursor, both borrowed; NULL if the
   tracer has to find it. */
static PyObject *entry_of(Calls *calls, Operation *operation, int outputs, PyObject *cursor,
                          PyObject **ids, Py_ssize_t tensors, PyObject **slot, Py_ssize_t *nth) {
    PyObject *slots = SLOT(cursor, calls->offset[CURSOR_SLOTS]);
    *slot = slots ? PyDict_GetItemWithError(slots, operation->name) : NULL;
    if (!*slot && slots && !PyErr_Occurred()) { /* the op is new to this cursor */
        *slot = PyObject_CallMethodObjArgs(cursor, names.slot, operation->name, NULL);
        Py_XDECREF(*slot); /* the cursor holds it */
    }
    if (!*slot || !PyList_Check(*slot) || PyList_Size(*slot) != 2) {
        PyErr_Clear();
        return NULL;
    }
    *nth = PyLong_AsSsize_t(PyList_GetItem(*slot, 0));
    PyObject *entries = PyList_GetItem(*slot, 1);
    if (*nth < 0 || !PyList_Check(entries) || *nth >= PyList_Size(entries)) {
        PyErr_Clear();
        return NULL;
    }
    PyObject *entry = PyList_GetItem(entries, *nth);
    if ((PyObject *)Py_TYPE(entry) != calls->object[ENTRY_TYPE]) return NULL;
    PyObject *known = SLOT(entry, calls->offset[ENTRY_INPUTS]);
    if (!known || PyTuple_Size(known) != tensors) return NULL;
    for (Py_ssize_t i = 0; i < tensors; i++) {
        PyObject *id = PyTuple_GetItem(known, i);
        if (id != ids[i] && PyLong_AsLongLong(id) != PyLong_AsLongLong(ids[i])) return NULL;
    }
    PyObject *values = SLOT(entry, calls->offset[ENTRY_OUTPUTS]);
    if (!values || PyTuple_Size(values) != outputs) return NULL;
    return is_looped(calls, PyLong_AsLongLong(PyTuple_GetItem(values, 0))) ? NULL : entry;
}

/* `run` for an operation with a number of outputs; if it is a constant, the compiler leaves out what only
   others need. */
static ALWAYS_INLINE PyObject *run_with(Calls *calls, Operation *operation, PyObject *const *inputs,
                                        Py_ssize_t count, PyObject *tuple, PyObject *attrs,
                                        int outputs) {
    const Py_ssize_t *offset = calls->offset;
    PyObject *ids[MOST_INPUTS], *slot, *state, *cursor;
    Py_ssize_t tensors, nth;
    int reads = 0, varies;
    if (count > MOST_INPUTS) return NULL;
    do {
        if (!(cursor = place_of(calls, &state, &varies))) return NULL;
        int before = reads;
        tensors = read_inputs(calls, state, cursor, inputs, count, ids, &reads);
        if (tensors < 0) return NULL;
        if (reads == before) break;
    } while (reads <= MOST_INPUTS);
    if (reads > MOST_INPUTS) return NULL;
    PyObject *entry, *value; /* entries and their slots live as long as the run */
    PyObject *only_times = NULL, *own = NULL;
    long long id;
    int plain = tensors == count && (attrs == calls->object[NO_ATTRS] || PyDict_Size(attrs) == 0);
    const Record *record = recurring(calls, operation, cursor, inputs, count, ids);
    int same = plain || (record && has_attributes(calls, record, inputs, count, attrs));
    if (record) {
        entry = record->object[OF_ENTRY];
        slot = record->object[OF_SLOT];
        value = Py_NewRef(record->object[OF_VALUE]);
        nth = record->nth;
        id = record->id;
        varies |= record->loose;
    } else {
        if (!(entry = entry_of(calls, operation, outputs, cursor, ids, tensors, &slot, &nth))) return NULL;
        note_recurring(calls, operation, state, cursor, slot, entry, nth, inputs, count, ids, attrs);
        value = Py_NewRef(value_of(calls, outputs, entry));
        id = PyLong_AsLongLong(SLOT(entry, offset[ENTRY_ID]));
        varies |= SLOT(entry, offset[ENTRY_LOOSE]) != Py_False;
    }
    int differs = !same && !same_attributes(calls, entry, inputs, count, attrs);
    if (differs) {
        PyObject *sink = calls->object[TIMES];
        if (notes_times(sink)) only_times = Py_NewRef(sink); /* no attributes are recorded then */
        else if (!notes_outputs(sink)) {
            Py_DECREF(value);
            return NULL;
        }
        varies = 1;
    }

    PyObject *values[MOST_INPUTS], *read[MOST_INPUTS]; /* `read`: those of tensors */
    PyObject *arrays[MOST_OUTPUTS] = {NULL};
    PyObject *step = Py_NewRef(SLOT(calls->object[EMITTER], offset[EMITTER_STEP]));
    PyObject *number = PyLong_FromSsize_t(nth + 1), *data, *result = NULL;
    Py_INCREF(state);
    int tracked = 0;
    for (Py_ssize_t i = 0, tensor = 0; i < count; i++) {
        values[i] = inputs[i];
        if ((PyObject *)Py_TYPE(inputs[i]) == calls->object[TENSOR]) {
            tracked |= SLOT(inputs[i], offset[TENSOR_EDGE]) != Py_None;
            values[i] = read[tensor++] = SLOT(inputs[i], offset[TENSOR_DATA]);
        }
        Py_INCREF(values[i]); /* the tensor may be given another array */
    }
    if (!number || PyList_SetItem(slot, 0, number) < 0) goto done; /* the list owns the number now */
    long long start = now_ns();
    data = compute(calls, operation, values, count, attrs);
    if (!data) {
        PyObject *live = tuple_of(read, tensors);
        if (live) refuse(calls, operation, tuple, attrs, entry, live, step, state, start);
        Py_XDECREF(live);
        goto done;
    }
    long long end = now_ns();
    if (kernel_times(calls, state, &start, &end) < 0) goto done;
    if (arrays_of(calls, operation, outputs, data, arrays) < 0) goto done;
    tracked = tracked && operation->differentiable &&
              SLOT(state, offset[STATE_RECORDING]) == Py_True;
    result = result_of(calls, operation, outputs, arrays, value, tuple, attrs, tracked);
    if (result && varies && reshape(calls, entry, arrays, outputs) < 0) Py_CLEAR(result);
    if (result && only_times) {
        long long numbers[TIMED];
        if (numbers_of(calls, state, id, step, start, end, numbers) < 0 ||
            note_times(only_times, numbers) < 0)
            Py_CLEAR(result);
        goto done;
    }
    if (result && differs) {
        own = own_attributes(calls, operation, inputs, count, tuple, attrs, entry);
        if (!own) Py_CLEAR(result);
        else if (own == Py_None) Py_CLEAR(own);
    }
    if (result && tell(calls, state, entry, id, step, read, tensors, arrays, outputs, result, tuple, own,
                       start, end) < 0)
        Py_CLEAR(result);
done:
    for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(values[i]);
    for (int i = 0; i < outputs; i++) Py_XDECREF(arrays[i]);
    Py_XDECREF(only_times);
    Py_XDECREF(own);
    Py_XDECREF(step);
    Py_DECREF(value);
    Py_DECREF(state);
    if (!result && !PyErr_Occurred()) PyErr_NoMemory();
    return result;
}

/* Run an operation; NULL with an exception set, or without one if the tracer has to run it. */
static PyObject *run(Calls *calls, Operation *operation, PyObject *const *inputs, Py_ssize_t count,
                     PyObject *tuple, PyObject *attrs) {
    if (operation->outputs == 1) return run_with(calls, operation, inputs, count, tuple, attrs, 1);
    if (!operation->outputs) return NULL;
    return run_with(calls, operation, inputs, count, tuple, attrs, operation->outputs);
}

/* Run an operation, or have the tracer run it. */
static PyObject *run_or_leave(Calls *calls, Operation *operation, PyObject *const *inputs,
                              Py_ssize_t count, PyObject *tuple, PyObject *attrs) {
    PyObject *result = run(calls, operation, inputs, count, tuple, attrs);
    if (result || PyErr_Occurred()) return result;
    return PyObject_CallMethodObjArgs(calls->object[TRACER], names.checked, operation->op, tuple,
                                      attrs, NULL);
}

PyDoc_STRVAR(run_doc,
"run(op, inputs, attrs)\n--\n\n"
"Run an op on tensors and Python scalars and emit its execution, as the tracer does.\n");

PyObject *run_observed(PyObject *object, PyObject *op, PyObject *tuple, PyObject *attrs) {
    Calls *calls = (Calls *)object;
    PyObject *inputs[MOST_INPUTS];
    if (!PyTuple_Check(tuple) || !PyDict_Check(attrs)) {
        PyErr_SetString(PyExc_TypeError, "run takes an op, a tuple of inputs, and attributes");
        return NULL;
    }
    Operation *operation = operation_of(calls, op);
    if (!operation) return NULL;
    Py_ssize_t many = PyTuple_Size(tuple);
    for (Py_ssize_t i = 0; i < many && i < MOST_INPUTS; i++) inputs[i] = PyTuple_GetItem(tuple, i);
    return run_or_leave(calls, operation, inputs, many, tuple, attrs);
}

static PyObject *calls_run(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count == 3) return run_observed(self, arguments[0], arguments[1], arguments[2]);
    PyErr_SetString(PyExc_TypeError, "run takes three arguments");
    return NULL;
}

PyObject *calls_of(PyObject *function) {
    int bound = PyCFunction_Check(function) &&
                PyCFunction_GetFunction(function) == (PyCFunction)(void (*)(void))calls_run;
    return bound ? PyCFunction_GetSelf(function) : NULL;
}

#include "call_updates.h"

PyDoc_STRVAR(note_loop_doc,
"note_loop(values)\n--\n\n"
"Leave to the tracer, from now on, nodes with these outputs and calls that take them.\n");

static PyObject *calls_note_loop(PyObject *self, PyObject *values) {
    Calls *calls = (Calls *)self;
    for (Py_ssize_t i = 0; i < PyTuple_Size(values); i++) {
        long long at = PyLong_AsLongLong(PyTuple_GetItem(values, i)) - calls->base;
        if (at < 0) break;
        if (at >= calls->looped_room) {
            long long room = 2 * at + 64;
            unsigned char *moved = PyMem_Realloc(calls->looped, (size_t)room);
            if (!moved) return PyErr_NoMemory();
            memset(moved + calls->looped_room, 0, (size_t)(room - calls->looped_room));
            calls->looped = moved;
            calls->looped_room = room;
        }
        calls->looped[at] = 1;
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* -------------------------------------------------------------------------- the type */

static PyMethodDef calls_methods[] = {
    {"run", (PyCFunction)(void (*)(void))calls_run, METH_FASTCALL, run_doc},
    {"read", calls_read, METH_O, read_doc},
    {"update", (PyCFunction)(void (*)(void))calls_update, METH_FASTCALL, update_doc},
    {"note_loop", calls_note_loop, METH_O, note_loop_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(calls_doc,
"Calls(objects, instances, base)\n--\n\n"
"Observed calls of an engine's operations.\n\n"
"Args:\n"
"    objects: The classes of tensors, of written tensors and of arrays; the threads' states, the\n"
"        tracer, its emitter, its bus; the counter of tape entries; the empty attributes of an\n"
"        operation; the function that makes an array of any value; the class of events; the reads of\n"
"        leaves in earlier steps; the list of parameters read in this step; the run's `Identity`, its\n"
"        entries by value id, and the gradients of values as they were emitted last; the function that\n"
"        gives the scope of the gradients of a scope; when a tensor was last written to;\n"
"        the engine's `Plain`, or None.\n"
"    instances: An instance of each class, with no slot set: tensor, thread state, cursor, entry,\n"
"        bus and emitter.\n"
"    base: Value ids up to this one belong to earlier runs.\n\n"
"Raises:\n"
"    TypeError: A class is not laid out as expected.\n");

static PyType_Slot calls_slots[] = {
    {Py_tp_new, calls_new},
    {Py_tp_traverse, calls_traverse},
    {Py_tp_clear, calls_clear},
    {Py_tp_dealloc, calls_dealloc},
    {Py_tp_methods, calls_methods},
    {Py_tp_doc, (void *)calls_doc},
    {0, NULL},
};

static PyType_Spec calls_spec = {
    "nodescope.native._core.Calls", sizeof(Calls), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    calls_slots};

static PyType_Slot operation_slots[] = {
    {Py_tp_traverse, operation_traverse},
    {Py_tp_clear, operation_clear},
    {Py_tp_dealloc, dealloc_cleared},
    {0, NULL},
};

static PyType_Spec operation_spec = {
    "nodescope.native._core.Operation", sizeof(Operation), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, operation_slots};

int add_calls(PyObject *module) {
    if (name(&names.dtype, "dtype") < 0 ||
        name(&names.impl, "impl") < 0 || name(&names.name, "name") < 0 ||
        name(&names.outputs, "outputs") < 0 ||
        name(&names.starts, "starts") < 0 || name(&names.state, "state") < 0 ||
        name(&names.vjp, "vjp") < 0 || name(&names.times, "times") < 0 ||
        name(&names.leaf, "read_leaf") < 0 || name(&names.checked, "run_checked") < 0 ||
        name(&names.refused, "refused") < 0 || name(&names.take_edits, "take_edits_of") < 0 ||
        name(&names.cursor, "cursor") < 0 || name(&names.slot, "slot") < 0 ||
        name(&names.emit, "emit") < 0 || name(&names.failed, "failed") < 0 ||
        name(&names.shape, "shape") < 0 || name(&names.spec, "spec") < 0 ||
        name(&names.dtype_name, "dtype_name") < 0 || name(&names.reshape, "reshape") < 0 ||
        name(&names.tensor, "tensor") < 0 || name(&names.unnamed, "") < 0 ||
        name(&names.gradients, "gradients") < 0 || name(&names.pair, "pair") < 0 ||
        name(&names.scope, "scope") < 0 || name(&names.backward, "backward") < 0 ||
        name(&names.optimizer, "optimizer") < 0 || name(&names.itemsize, "itemsize") < 0 ||
        name(&names.several, "several") < 0 || name(&names.moved, "moved") < 0 ||
        name(&names.own_attributes, "own_attributes") < 0 || name(&names.recent, "recent") < 0 ||
        name(&names.ports, "ports") < 0)
        return -1;
    if (!operation_type) operation_type = (PyTypeObject *)PyType_FromSpec(&operation_spec);
    if (!calls_type) calls_type = (PyTypeObject *)PyType_FromSpec(&calls_spec);
    if (!operation_type || !calls_type) return -1;
    return PyModule_AddObjectRef(module, "Calls", (PyObject *)calls_type);
}
