/* Gathers the elements of noted outputs into one piece of memory, which holds equal arrays once. */
#include "elements.h"

#include <stdint.h>
#include <string.h>

#include "memory.h"

#define PLACES 14  /* number of int64 per output, see `summarise_noted` */
#define NBYTES 9
#define BLOCK 10
#define START 11
#define SMALLEST 64 /* bytes; smaller arrays are not compared with earlier ones */
#define SAMPLES 8
#define TRIES 4     /* most earlier arrays that an array is compared with */

typedef struct {
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

/* Copy the elements of all outputs; returns the number of bytes used. */
static int64_t gather(const Block *blocks, const int64_t *rows, Py_ssize_t many, Known *known,
                      uint64_t most, char *to, int64_t *starts) {
    int64_t used = 0;
    for (Py_ssize_t i = 0; i < many; i++, rows += PLACES) {
        const char *data = blocks[rows[BLOCK]].start + rows[START];
        int64_t nbytes = rows[NBYTES];
        Known *place = NULL;
        if (nbytes >= SMALLEST) {
            uint64_t mark = mark_of(data, nbytes);
            for (int tries = 0; tries < TRIES; tries++) {
                place = known + ((mark + (uint64_t)tries) & (most - 1));
                if (!place->nbytes) break;
                if (place->nbytes == nbytes && !memcmp(to + place->start, data, (size_t)nbytes)) {
                    starts[i] = place->start;
                    goto next;
                }
            }
            *place = (Known){used, nbytes};
        }
        memcpy(to + used, data, (size_t)nbytes);
        starts[i] = used;
        used += nbytes;
next:;
    }
    return used;
}

PyDoc_STRVAR(gather_doc,
"gather_elements(blocks, outputs)\n--\n\n"
"Gather the elements of noted outputs, without repeating equal arrays; releases the interpreter's\n"
"lock.\n\n"
"Args:\n"
"    blocks, outputs: The blocks passed to `summarise_noted`, and the outputs that it returned.\n\n"
"Returns:\n"
"    The elements, a `Memory`, and the offset of each output's elements in it, int64.\n");

static PyObject *py_gather(PyObject *module, PyObject *arguments) {
    PyObject *triples, *elements = NULL, *starts = NULL, *both = NULL;
    Py_buffer outputs;
    if (!PyArg_ParseTuple(arguments, "O!y*", &PyTuple_Type, &triples, &outputs)) return NULL;
    Py_ssize_t count = PyTuple_Size(triples), many = outputs.len / (8 * PLACES);
    const int64_t *rows = outputs.buf;
    Block *blocks = blocks_in(triples);
    if (!blocks) {
        PyBuffer_Release(&outputs);
        return NULL;
    }
    int64_t nbytes = 0;
    for (Py_ssize_t i = 0; i < many; i++) {
        const int64_t *row = rows + i * PLACES;
        if (row[BLOCK] < 0 || row[BLOCK] >= count || row[NBYTES] < 1 ||
            row[START] < blocks[row[BLOCK]].begin || row[START] > blocks[row[BLOCK]].end ||
            row[NBYTES] > blocks[row[BLOCK]].end - row[START]) {
            PyErr_SetString(PyExc_ValueError, "these are no outputs of these blocks");
            goto done;
        }
        nbytes += row[NBYTES];
    }
    uint64_t most = 8;
    while (most < 2 * (uint64_t)many) most *= 2;
    Known *known = PyMem_Calloc(most, sizeof(Known));
    if (!known) {
        PyErr_NoMemory();
        goto done;
    }
    elements = new_memory((Py_ssize_t)nbytes);
    starts = PyBytes_FromStringAndSize(NULL, 8 * many);
    if (elements && starts) {
        Py_ssize_t size;
        char *to = memory_of(elements, &size);
        int64_t *at = (int64_t *)PyBytes_AsString(starts), used;
        Py_BEGIN_ALLOW_THREADS
        used = gather(blocks, rows, many, known, most, to, at);
        Py_END_ALLOW_THREADS
        cut_memory(elements, (Py_ssize_t)used);
        both = PyTuple_Pack(2, elements, starts);
    }
    PyMem_Free(known);
done:
    PyBuffer_Release(&outputs);
    PyMem_Free(blocks);
    Py_XDECREF(elements);
    Py_XDECREF(starts);
    return both;
}

static PyMethodDef functions[] = {
    {"gather_elements", py_gather, METH_VARARGS, gather_doc},
    {NULL, NULL, 0, NULL},
};

int add_elements(PyObject *module) { return PyModule_AddFunctions(module, functions); }
