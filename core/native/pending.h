/* The tensors that a backward pass has reached, with their cotangents. Included only by pull.c. */
#ifndef NODESCOPE_PENDING_H
#define NODESCOPE_PENDING_H

#include <stdint.h>

typedef struct {
    PyObject *tensor, *ct; /* both owned; no tensor: the place is free */
    int summed;            /* whether ct is a sum that is referenced only here */
} Reached;

typedef struct {
    double seq;
    PyObject *tensor;
} Waiting;

/* A hash table of reached tensors, the tensors that wait by decreasing seq, and the leaves. */
typedef struct {
    Reached *table;
    size_t size, used; /* size: a power of two */
    Waiting *heap;
    size_t waiting, heap_size;
    PyObject **ends;
    size_t ended, ends_size;
} Pending;

static size_t first_place(const Pending *pending, PyObject *tensor) {
    return (size_t)(((uint64_t)(uintptr_t)tensor >> 4) * 0x9E3779B97F4A7C15ull >> 20) &
           (pending->size - 1);
}

/* The place of a tensor in the table, or the free place for it. */
static Reached *place_in(const Pending *pending, PyObject *tensor) {
    size_t at = first_place(pending, tensor);
    while (pending->table[at].tensor && pending->table[at].tensor != tensor)
        at = (at + 1) & (pending->size - 1);
    return &pending->table[at];
}

/* Remove an entry, whose references the caller takes over, without a gap before others. */
static void remove_from(Pending *pending, Reached *entry) {
    size_t mask = pending->size - 1, gap = (size_t)(entry - pending->table), at = gap;
    for (;;) {
        at = (at + 1) & mask;
        if (!pending->table[at].tensor) break;
        size_t first = first_place(pending, pending->table[at].tensor);
        if (((at - first) & mask) < ((at - gap) & mask)) continue;
        pending->table[gap] = pending->table[at];
        gap = at;
    }
    pending->table[gap].tensor = NULL;
    pending->used--;
}

/* Double an array of `item` bytes that is full; 0 without memory. */
static int room(void **items, size_t *size, size_t used, size_t item) {
    if (used < *size) return 1;
    size_t larger = *size ? 2 * *size : 16;
    void *moved = PyMem_Realloc(*items, larger * item);
    if (!moved) return 0;
    *items = moved;
    *size = larger;
    return 1;
}

static int larger_table(Pending *pending) {
    Pending before = *pending;
    pending->size = before.size ? 2 * before.size : 32;
    pending->table = PyMem_Calloc(pending->size, sizeof(Reached));
    if (!pending->table) {
        *pending = before;
        return 0;
    }
    for (size_t i = 0; i < before.size; i++)
        if (before.table[i].tensor) *place_in(pending, before.table[i].tensor) = before.table[i];
    PyMem_Free(before.table);
    return 1;
}

/* Add a tensor that is not in the table, with a cotangent; 0 without memory. */
static int add_reached(Pending *pending, PyObject *tensor, PyObject *ct) {
    if (2 * pending->used >= pending->size && !larger_table(pending)) return 0;
    *place_in(pending, tensor) = (Reached){Py_NewRef(tensor), Py_NewRef(ct), 0};
    pending->used++;
    return 1;
}

/* Let a tensor of the table wait for its turn; 0 without memory. */
static int add_waiting(Pending *pending, double seq, PyObject *tensor) {
    if (!room((void **)&pending->heap, &pending->heap_size, pending->waiting, sizeof(Waiting)))
        return 0;
    size_t at = pending->waiting++;
    for (; at && pending->heap[(at - 1) / 2].seq < seq; at = (at - 1) / 2)
        pending->heap[at] = pending->heap[(at - 1) / 2];
    pending->heap[at] = (Waiting){seq, tensor};
    return 1;
}

/* The newest of the tensors that wait, borrowed from the table; there is at least one. */
static PyObject *next_waiting(Pending *pending) {
    PyObject *newest = pending->heap[0].tensor;
    Waiting last = pending->heap[--pending->waiting];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= pending->waiting) break;
        if (child + 1 < pending->waiting && pending->heap[child + 1].seq > pending->heap[child].seq)
            child++;
        if (pending->heap[child].seq <= last.seq) break;
        pending->heap[at] = pending->heap[child];
        at = child;
    }
    pending->heap[at] = last;
    return newest;
}

static int add_end(Pending *pending, PyObject *tensor) {
    if (!room((void **)&pending->ends, &pending->ends_size, pending->ended, sizeof(PyObject *)))
        return 0;
    pending->ends[pending->ended++] = tensor;
    return 1;
}

static void release(Pending *pending) {
    for (size_t i = 0; i < pending->size; i++) {
        Py_XDECREF(pending->table[i].tensor);
        if (pending->table[i].tensor) Py_DECREF(pending->table[i].ct);
    }
    PyMem_Free(pending->table);
    PyMem_Free(pending->heap);
    PyMem_Free(pending->ends);
}

#endif
