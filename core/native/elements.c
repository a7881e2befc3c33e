/* Places the elements of noted outputs one after the other, equal arrays once, and gathers them there. */
#include "elements.h"

#include <stdint.h>
#include <string.h>

#include "memory.h"
#include "noted_records.h"

#define PLACES 14  /* number of int64 per output, see `summarise_noted` */
#define NBYTES 9
#define BLOCK 10
#define START 11
#define SAMPLES 8
#define TRIES 4     /* most earlier arrays that an array is compared with */

typedef struct {
    const char *data;
    int64_t start, nbytes;  /* `nbytes` is 0 in an empty place */
} Known;

/* A hash of an array, computed from a sample of its words. */
static uint64_t mark_of(const char *data, int64_t nbytes) {
    uint64_t mark = (uint64_t)nbytes, word;
    int64_t last = nbytes - 8, step = last / (SAMPLES - 1);
    for (int i = 0; i < SAMPLES; i++) {
        memcpy(&word, data + (i == SAMPLES - 1 ? last : i * step), 8);
        mark = (mark ^ word) * 0x9e3779b97f4a7c15u;
        mark ^= mark >> 29;
    }
    return mark;
}

/* Place the elements of all outputs one after the other; returns the number of bytes used. */
static int64_t place(const Block *blocks, const int64_t *rows, Py_ssize_t many, Known *known,
                     uint64_t most, int64_t *starts) {
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < many; i++, rows += PLACES) {
        const char *data = blocks[rows[BLOCK]].start + rows[START];
        int64_t nbytes = rows[NBYTES];
        if (nbytes >= COMPARED) {
            uint64_t mark = mark_of(data, nbytes);
            Known *at = NULL;
            for (int tries = 0; tries < TRIES; tries++) {
                at = known + ((mark + (uint64_t)tries) & (most - 1));
                if (!at->nbytes) break;
                if (at->nbytes == nbytes && (at->data == data || !memcmp(at->data, data, (size_t)nbytes))) {
                    starts[i] = at->start;
                    goto next;
                }
            }
            *at = (Known){data, used, nbytes};
        }
        starts[i] = used;
        used += nbytes;
next:;
    }
    return used;
}

/* Copy the elements of outputs to where `place` has placed them: equal ones follow the first. */
static int64_t gather(const Block *blocks, const int64_t *rows, Py_ssize_t many, const int64_t *starts,
                      char *to, int64_t most) {
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < many; i++, rows += PLACES) {
        int64_t nbytes = rows[NBYTES];
        if (starts[i] != used || nbytes > most - used) continue;
        memcpy(to + used, blocks[rows[BLOCK]].start + rows[START], (size_t)nbytes);
        used += nbytes;
    }
    return used;
}

/* The blocks of outputs, to be freed by the caller; NULL with an exception set if these are not the
   outputs' blocks. Sets the number of bytes of all outputs. */
static Block *blocks_of(PyObject *triples, const int64_t *row, Py_ssize_t many, int64_t *nbytes) {
    Py_ssize_t count = PyTuple_Size(triples);
    Block *blocks = blocks_in(triples);
    *nbytes = 0;
    for (Py_ssize_t i = 0; blocks && i < many; i++, row += PLACES) {
        if (row[BLOCK] < 0 || row[BLOCK] >= count || row[NBYTES] < 1 ||
            row[START] < blocks[row[BLOCK]].begin || row[START] > blocks[row[BLOCK]].end ||
            row[NBYTES] > blocks[row[BLOCK]].end - row[START]) {
            PyErr_SetString(PyExc_ValueError, "these are no outputs of these blocks");
            PyMem_Free(blocks);
            return NULL;
        }
        *nbytes += row[NBYTES];
    }
    return blocks;
}

PyDoc_STRVAR(place_doc,
"place_elements(blocks, outputs)\n--\n\n"
"Place the elements of noted outputs one after the other, equal arrays at the same place; releases\n"
"the interpreter's lock.\n\n"
"Args:\n"
"    blocks, outputs: The blocks passed to `summarise_noted`, and the outputs that it returned.\n\n"
"Returns:\n"
"    The number of bytes, and the offset of each output's elements, int64.\n");

static PyObject *py_place(PyObject *module, PyObject *arguments) {
    PyObject *triples, *starts = NULL, *both = NULL;
    Py_buffer outputs;
    if (!PyArg_ParseTuple(arguments, "O!y*", &PyTuple_Type, &triples, &outputs)) return NULL;
    Py_ssize_t many = outputs.len / (8 * PLACES);
    int64_t nbytes, used = 0;
    Block *blocks = blocks_of(triples, outputs.buf, many, &nbytes);
    uint64_t most = 8;
    while (most < 2 * (uint64_t)many) most *= 2;
    Known *known = blocks ? PyMem_Calloc(most, sizeof(Known)) : NULL;
    if (blocks && !known) PyErr_NoMemory();
    if (known && (starts = PyBytes_FromStringAndSize(NULL, 8 * many))) {
        int64_t *at = (int64_t *)PyBytes_AsString(starts);
        Py_BEGIN_ALLOW_THREADS
        used = place(blocks, outputs.buf, many, known, most, at);
        Py_END_ALLOW_THREADS
        both = Py_BuildValue("LO", (long long)used, starts);
    }
    PyMem_Free(known);
    PyMem_Free(blocks);
    PyBuffer_Release(&outputs);
    Py_XDECREF(starts);
    return both;
}

PyDoc_STRVAR(gather_doc,
"gather_elements(blocks, outputs, starts, nbytes)\n--\n\n"
"Copy the elements of noted outputs to their places; releases the interpreter's lock.\n\n"
"Args:\n"
"    blocks, outputs: As in `place_elements`.\n"
"    starts, nbytes: What it returned.\n\n"
"Returns:\n"
"    The elements, a `Memory`.\n");

static PyObject *py_gather(PyObject *module, PyObject *arguments) {
    PyObject *triples, *elements = NULL;
    Py_buffer outputs, starts;
    long long nbytes;
    if (!PyArg_ParseTuple(arguments, "O!y*y*L", &PyTuple_Type, &triples, &outputs, &starts, &nbytes))
        return NULL;
    Py_ssize_t many = outputs.len / (8 * PLACES);
    int64_t all;
    Block *blocks = blocks_of(triples, outputs.buf, many, &all);
    if (blocks && (starts.len < 8 * many || nbytes < 0 || nbytes > all))
        PyErr_SetString(PyExc_ValueError, "these are no places of these outputs");
    else if (blocks && (elements = new_memory((Py_ssize_t)nbytes))) {
        Py_ssize_t size;
        char *to = memory_of(elements, &size);
        int64_t used;
        Py_BEGIN_ALLOW_THREADS
        used = gather(blocks, outputs.buf, many, starts.buf, to, nbytes);
        Py_END_ALLOW_THREADS
        cut_memory(elements, (Py_ssize_t)used);
    }
    PyMem_Free(blocks);
    PyBuffer_Release(&outputs);
    PyBuffer_Release(&starts);
    return elements;
}

static PyMethodDef functions[] = {
    {"place_elements", py_place, METH_VARARGS, place_doc},
    {"gather_elements", py_gather, METH_VARARGS, gather_doc},
    {NULL, NULL, 0, NULL},
};

int add_elements(PyObject *module) { return PyModule_AddFunctions(module, functions); }
