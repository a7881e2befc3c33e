/* The C form of `nodescope.record.operand_writers.OperandWriters`, which documents it. */
#include "writers.h"

#include <stdint.h>
#include <string.h>

#include "noted_records.h"
#include "objects.h"

#define MOST_KEPT 64
#define MANY_VALUES 4096
#define FEW_KEPT 8
#define MOST_NODES 16384

/* The executions that computed a value. `latest` is the last one, `array` its array, or 0 if unknown;
   `arrays` and `seqs` list other arrays and the last execution that returned the value in each, oldest
   first. */
typedef struct {
    int64_t value, latest;
    uint64_t array;
    int count, room;
    uint64_t *arrays;
    int64_t *seqs;
} Written;

/* What is needed of a node, read once: whether its arrays are followed, its inputs and its outputs. */
typedef struct {
    PyObject *node; /* owned */
    int followed;
    Py_ssize_t reads, gives;
    Written **written; /* of the inputs and then of the outputs; NULL if not known yet */
    int64_t *values;
} Described;

typedef struct {
    PyObject_HEAD
    Written **places; /* by value, with open addressing */
    size_t many, room;
    Described **nodes; /* by the address of the node, with open addressing */
    size_t nodes_many, nodes_room;
} Writers;

static void free_described(Described *described) {
    Py_DECREF(described->node);
    PyMem_Free(described);
}

static struct { PyObject *dialect, *inputs, *outputs, *engine; } names;

static Written **place_of(Writers *self, int64_t value) {
    size_t at = (size_t)((uint64_t)value * 0x9e3779b97f4a7c15u >> 20) & (self->room - 1);
    while (self->places[at] && self->places[at]->value != value) at = (at + 1) & (self->room - 1);
    return &self->places[at];
}

static Written *known(Writers *self, int64_t value) {
    return self->room ? *place_of(self, value) : NULL;
}

/* The entry of a value, created if new; NULL with an exception set. */
static Written *noted(Writers *self, int64_t value) {
    if (2 * (self->many + 1) > self->room) {
        size_t room = self->room ? 2 * self->room : 256, before = self->room;
        Written **places = PyMem_Calloc(room, sizeof *places), **old = self->places;
        if (!places) return (Written *)PyErr_NoMemory();
        self->places = places;
        self->room = room;
        for (size_t i = 0; i < before; i++)
            if (old[i]) *place_of(self, old[i]->value) = old[i];
        PyMem_Free(old);
    }
    Written **place = place_of(self, value);
    if (!*place) {
        if (!(*place = PyMem_Calloc(1, sizeof **place))) return (Written *)PyErr_NoMemory();
        (*place)->value = value;
        self->many++;
    }
    return *place;
}

static int earlier(const Written *written, uint64_t array) {
    for (int i = written->count - 1; i >= 0; i--)
        if (written->arrays[i] == array) return i;
    return -1;
}

static void forget(Written *written, int place) {
    int rest = --written->count - place;
    memmove(written->arrays + place, written->arrays + place + 1, (size_t)rest * 8);
    memmove(written->seqs + place, written->seqs + place + 1, (size_t)rest * 8);
}

/* Set the last execution that returned the value in an array; -1 with an exception set. */
static int remember(Written *written, uint64_t array, int64_t seq) {
    int place = earlier(written, array);
    if (place < 0) {
        if (written->count == written->room) {
            int room = written->room ? 2 * written->room : FEW_KEPT;
            void *arrays = PyMem_Realloc(written->arrays, (size_t)room * 8);
            if (arrays) written->arrays = arrays;
            void *seqs = arrays ? PyMem_Realloc(written->seqs, (size_t)room * 8) : NULL;
            if (!seqs) {
                PyErr_NoMemory();
                return -1;
            }
            written->seqs = seqs;
            written->room = room;
        }
        place = written->count++;
        written->arrays[place] = array;
    }
    written->seqs[place] = seq;
    return 0;
}

static int wrote(Writers *self, Written *written, int64_t seq, uint64_t array) {
    if (written->array != array) {
        int place = earlier(written, array);
        if (place >= 0) forget(written, place);
        if (written->array && remember(written, written->array, written->latest) < 0) return -1;
        if (written->count >= FEW_KEPT) {
            int most = self->many < MANY_VALUES ? MOST_KEPT : FEW_KEPT;
            while (written->count >= most) forget(written, 0);
        }
        written->array = array;
    }
    written->latest = seq;
    return 0;
}

static void loosen(Written *written, int64_t seq) {
    written->latest = seq;
    written->array = 0;
    written->count = 0;
}

/* Read the ids in a tuple; -1 with an exception set. */
static int read_ids(PyObject *tuple, int64_t *to) {
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        to[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (to[i] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* Describe a node; NULL with an exception set. */
static Described *describe(PyObject *node) {
    PyObject *dialect = PyObject_GetAttr(node, names.dialect), *inputs = PyObject_GetAttr(node, names.inputs);
    PyObject *outputs = inputs ? PyObject_GetAttr(node, names.outputs) : NULL;
    int followed = dialect && outputs ? PyObject_RichCompareBool(dialect, names.engine, Py_EQ) : -1;
    Described *made = NULL;
    if (followed >= 0 && !(PyTuple_Check(inputs) && PyTuple_Check(outputs))) {
        PyErr_SetString(PyExc_TypeError, "a node's inputs and outputs are tuples");
    } else if (followed >= 0) {
        Py_ssize_t reads = PyTuple_Size(inputs), gives = PyTuple_Size(outputs);
        size_t all = (size_t)(reads + gives);
        made = PyMem_Calloc(1, sizeof *made + all * (sizeof(Written *) + sizeof(int64_t)));
        if (!made) PyErr_NoMemory();
        else {
            *made = (Described){Py_NewRef(node), followed, reads, gives, NULL, (int64_t *)(made + 1)};
            made->written = (Written **)(made->values + all);
            if (read_ids(inputs, made->values) < 0 || read_ids(outputs, made->values + reads) < 0) {
                free_described(made);
                made = NULL;
            }
        }
    }
    Py_XDECREF(dialect);
    Py_XDECREF(inputs);
    Py_XDECREF(outputs);
    return made;
}

static void forget_nodes(Writers *self) {
    Described **nodes = self->nodes;
    size_t room = self->nodes_room;
    self->nodes = NULL; /* first, as freeing a node may run code of the program */
    self->nodes_many = self->nodes_room = 0;
    for (size_t i = 0; i < room; i++)
        if (nodes[i]) free_described(nodes[i]);
    PyMem_Free(nodes);
}

static Described **place_of_node(Described **nodes, size_t room, PyObject *node) {
    size_t at = (size_t)((uint64_t)(uintptr_t)node * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (nodes[at] && nodes[at]->node != node) at = (at + 1) & (room - 1);
    return &nodes[at];
}

/* The description of a node, created if new; NULL with an exception set. A program that defines nodes again
   and again makes all be described anew from time to time. */
static Described *described(Writers *self, PyObject *node) {
    if (self->nodes_many == MOST_NODES) forget_nodes(self);
    if (2 * (self->nodes_many + 1) > self->nodes_room) {
        size_t room = self->nodes_room ? 2 * self->nodes_room : 256;
        Described **nodes = PyMem_Calloc(room, sizeof *nodes);
        if (!nodes) return (Described *)PyErr_NoMemory();
        for (size_t i = 0; i < self->nodes_room; i++)
            if (self->nodes[i]) *place_of_node(nodes, room, self->nodes[i]->node) = self->nodes[i];
        PyMem_Free(self->nodes);
        self->nodes = nodes;
        self->nodes_room = room;
    }
    Described **place = place_of_node(self->nodes, self->nodes_room, node);
    if (!*place) {
        if (!(*place = describe(node))) return NULL;
        self->nodes_many++;
    }
    return *place;
}

/* Add a row for each operand that is not its node's latest result; -1 with an exception set. */
static int read_values(Writers *self, int64_t seq, Described *node, const uint64_t *ids, PyObject *rows) {
    for (Py_ssize_t port = 0; port < node->reads; port++) {
        Written *written = node->written[port];
        if (!written) written = node->written[port] = known(self, node->values[port]);
        if (!written || written->array == ids[port]) continue;
        int place = earlier(written, ids[port]);
        if (place < 0 ? !written->array : written->seqs[place] == written->latest) continue;
        long long by = place < 0 ? 0 : (long long)written->seqs[place];
        PyObject *row = Py_BuildValue("(LnL)", (long long)seq, port, by);
        int added = row ? PyList_Append(rows, row) : -1;
        Py_XDECREF(row);
        if (added < 0) return -1;
    }
    return 0;
}

/* Process an execution with this number of known arrays; -1 with an exception set. */
static int ran(Writers *self, int64_t seq, PyObject *object, const uint64_t *ids, Py_ssize_t many,
               PyObject *rows, int failed) {
    Described *node = described(self, object);
    if (!node || !node->followed) return node ? 0 : -1;
    Py_ssize_t reads = node->reads, gives = failed ? 0 : node->gives;
    int counted = many == reads + gives;
    if (counted && read_values(self, seq, node, ids, rows) < 0) return -1;
    for (Py_ssize_t i = reads; i < reads + gives; i++) {
        Written *written = node->written[i];
        if (!written && !(written = node->written[i] = noted(self, node->values[i]))) return -1;
        if (!counted) loosen(written, seq);
        else if (wrote(self, written, seq, ids[i]) < 0) return -1;
    }
    return 0;
}

/* Process that a value's elements are in another array; -1 with an exception set. */
static int move(Writers *self, int64_t value, uint64_t before, uint64_t now) {
    Written *written = known(self, value);
    if (!written) return 0;
    int place = earlier(written, before);
    if (written->array != before && place < 0) return 0;
    return remember(written, now, written->array == before ? written->latest : written->seqs[place]);
}

/* Process moves up to a number of executions before them; -1 with an exception set. */
static int move_until(Writers *self, const char **moves, const char *end, int64_t executions) {
    for (; *moves < end; *moves += 8 * MOVE) {
        int64_t arrays[MOVE];
        memcpy(arrays, *moves, sizeof arrays);
        if (arrays[0] > executions) break;
        if (move(self, arrays[1], (uint64_t)arrays[2], (uint64_t)arrays[3]) < 0) return -1;
    }
    return 0;
}

PyDoc_STRVAR(ran_doc,
"ran(seqs, nodes, counts, identities, failed, moves)\n--\n\n"
"Process executions, and find the operands that are not the latest result of their node.\n\n"
"Args:\n"
"    seqs: The numbers of the executions, int64.\n"
"    nodes: The list of their nodes.\n"
"    counts: The number of known arrays of each, int64.\n"
"    identities: The identities of these arrays, those that were read before those returned, uint64.\n"
"    failed: Whether the executions raised: they read, but returned nothing.\n"
"    moves: Moved arrays, four int64 each: how many of the executions came before, in ascending order,\n"
"        and the arguments of `moved`.\n\n"
"Returns:\n"
"    A list of seq, port, and the execution that wrote the operand, 0 if unknown.\n");

static PyObject *writers_ran(PyObject *object, PyObject *arguments) {
    PyObject *seqs, *nodes, *counts, *identities, *moves;
    int failed;
    if (!PyArg_ParseTuple(arguments, "SO!SSpS", &seqs, &PyList_Type, &nodes, &counts, &identities,
                          &failed, &moves))
        return NULL;
    Py_ssize_t many = PyList_Size(nodes), left = PyBytes_Size(identities) / 8;
    if (PyBytes_Size(seqs) != 8 * many || PyBytes_Size(counts) != 8 * many) {
        PyErr_SetString(PyExc_ValueError, "another number of executions than of nodes");
        return NULL;
    }
    const char *seq = PyBytes_AsString(seqs), *count = PyBytes_AsString(counts);
    const char *ids = PyBytes_AsString(identities), *moved = PyBytes_AsString(moves);
    const char *end = moved + PyBytes_Size(moves) / (8 * MOVE) * (8 * MOVE);
    PyObject *rows = PyList_New(0);
    int status = rows ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < many; i++) {
        int64_t number, known_arrays;
        memcpy(&number, seq + 8 * i, 8);
        memcpy(&known_arrays, count + 8 * i, 8);
        status = move_until((Writers *)object, &moved, end, i);
        if (status == 0 && (known_arrays < 0 || known_arrays > left)) {
            PyErr_SetString(PyExc_ValueError, "fewer identities than were counted");
            status = -1;
        }
        if (status == 0)
            status = ran((Writers *)object, number, PyList_GetItem(nodes, i), (const uint64_t *)ids,
                         (Py_ssize_t)known_arrays, rows, failed);
        left -= known_arrays;
        ids += 8 * known_arrays;
    }
    if (status == 0) status = move_until((Writers *)object, &moved, end, INT64_MAX);
    if (status < 0) Py_CLEAR(rows);
    return rows;
}

PyDoc_STRVAR(edited_doc,
"edited(value, seq)\n--\n\n"
"Register that a value is in an array of unknown identity since an execution.\n");

static PyObject *writers_edited(PyObject *object, PyObject *arguments) {
    long long value, seq;
    if (!PyArg_ParseTuple(arguments, "LL", &value, &seq)) return NULL;
    Written *written = noted((Writers *)object, value);
    if (!written) return NULL;
    loosen(written, seq);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(moved_doc,
"moved(value, before, now)\n--\n\n"
"Register that the elements of a value moved from one array to another, given by identity.\n");

static PyObject *writers_moved(PyObject *object, PyObject *arguments) {
    long long value;
    unsigned long long before, now;
    if (!PyArg_ParseTuple(arguments, "LKK", &value, &before, &now) ||
        move((Writers *)object, value, before, now) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void writers_dealloc(PyObject *object) {
    Writers *self = (Writers *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (size_t i = 0; i < self->room; i++) {
        if (!self->places[i]) continue;
        PyMem_Free(self->places[i]->arrays);
        PyMem_Free(self->places[i]->seqs);
        PyMem_Free(self->places[i]);
    }
    PyMem_Free(self->places);
    forget_nodes(self);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyMethodDef writers_methods[] = {
    {"ran", writers_ran, METH_VARARGS, ran_doc},
    {"edited", writers_edited, METH_VARARGS, edited_doc},
    {"moved", writers_moved, METH_VARARGS, moved_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(writers_doc,
"Writers()\n--\n\n"
"Finds the execution that wrote each operand that an execution read, as in\n"
"`nodescope.record.operand_writers`.\n");

static PyType_Slot writers_slots[] = {
    {Py_tp_dealloc, writers_dealloc},
    {Py_tp_methods, writers_methods},
    {Py_tp_doc, (void *)writers_doc},
    {0, NULL},
};

static PyType_Spec writers_spec = {
    "nodescope.native._core.Writers", sizeof(Writers), 0, Py_TPFLAGS_DEFAULT, writers_slots};

int add_writers(PyObject *module) {
    if (name(&names.dialect, "dialect") < 0 || name(&names.inputs, "inputs") < 0 ||
        name(&names.outputs, "outputs") < 0 || name(&names.engine, "nodescope") < 0)
        return -1;
    PyObject *type = PyType_FromSpec(&writers_spec);
    int added = type ? PyModule_AddObjectRef(module, "Writers", type) : -1;
    Py_XDECREF(type);
    return added;
}
